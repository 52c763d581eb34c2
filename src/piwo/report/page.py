"""The page of a report: one self-contained HTML file without scripts."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from piwo.errors import UsageError
from piwo.files import write_file
from piwo.report.interval_plot import interval_plot
from piwo.report.summary import Summary
from piwo.visible import number, visible

__all__ = ["page", "write"]

ACTIONS_SHOWN = 50


def page(summary: Summary) -> str:
    """Return a report as one HTML page.

    Names of labels, columns and files are escaped, nothing is fetched, and the page's content
    policy forbids scripts.

    Args:
        summary: the content.

    Returns:
        The page; write it as UTF-8.

    Raises:
        UsageError: if jinja2 is not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> made = page(
    ...     piwo.report.summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))])
    ... )
    >>> made.startswith("<!DOCTYPE html>"), "<script" in made
    (True, False)
    """
    style = _source("page.css")
    allowed = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    policy = (
        f"default-src 'none'; style-src 'sha256-{allowed}'; base-uri 'none'; form-action 'none'"
    )
    made: str = _template("page.html.j2", style).render(
        summary=summary,
        plot=interval_plot(summary.evaluations),
        policy=policy,
        shown=ACTIONS_SHOWN,
        number=number,
    )
    return made


def write(summary: Summary, path: str | os.PathLike[str]) -> None:
    """Write a report as one HTML file in UTF-8, whole or not at all.

    Args:
        summary: the content.
        path: the file, which is replaced if it exists.

    Raises:
        UsageError: if jinja2 is not installed.
        FileError: if the file cannot be written.

    >>> import piwo, tempfile
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     found = [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]
    ...     write(piwo.report.summarize(log, found), folder + "/report.html")
    """
    write_file(Path(path), page(summary).encode("utf-8"))


def _source(name: str) -> str:
    return (files("piwo.report") / "templates" / name).read_text(encoding="utf-8")


def _template(name: str, style: str) -> Any:
    try:
        from jinja2 import Environment, StrictUndefined
        from markupsafe import Markup
    except ImportError:
        raise UsageError(
            "reports need jinja2, which is not installed; python -m pip install jinja2"
        ) from None

    def shown(value: Any) -> Any:
        """Make every text that is put into the page printable; it is escaped after that."""
        if value is None:
            return "-"
        if isinstance(value, str) and not isinstance(value, Markup):
            return visible(value)
        return value

    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.globals["style"] = Markup(style)  # noqa: S704 (our own file)
    return made.from_string(_source(name))
