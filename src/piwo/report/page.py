"""The page of a report: one self-contained HTML file, readable without JavaScript."""

from __future__ import annotations

import base64
import hashlib
import os
from importlib.resources import files
from pathlib import Path
from typing import Any

from piwo.errors import UsageError
from piwo.files import write_file
from piwo.report.explorer import explorer_json
from piwo.report.summary import Summary
from piwo.report.terms import TERMS
from piwo.report.view import view_of
from piwo.visible import visible

__all__ = ["page", "write"]


def page(summary: Summary) -> str:
    """Return a report as one HTML page.

    Names of labels, columns and files are escaped and nothing is fetched. The page's content policy
    allows its own style and its own script alone, by their hashes; without sums for the explorer
    (`piwo.report.summarize`) there is no script.

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
    style, script = _source("page.css"), _source("explorer.js")
    rules = ["default-src 'none'", f"style-src {_hash(style)}"]
    data, left_out, found = "", 0, summary.details.explorer
    # Its bounds are those of one look, which repeated looks would break.
    if any(one.horizon is not None for one in summary.evaluations):
        found = None
    if found is not None and found.sums:
        decision = summary.decision
        cost = summary.evaluations[0].cost
        data, left_out = explorer_json(found, decision.units, decision.policy, cost=cost)
        rules.append(f"script-src {_hash(script)}")
    rules += ["base-uri 'none'", "form-action 'none'"]
    made: str = _template("page.html.j2", style, script, data).render(
        summary=summary,
        view=view_of(summary, left_out),
        policy="; ".join(rules),
    )
    return made.lstrip()


def _hash(text: str) -> str:
    """Return the source expression that allows one inline text."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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


def _template(name: str, style: str, script: str, data: str) -> Any:
    try:
        from jinja2 import Environment, FunctionLoader, StrictUndefined
        from markupsafe import Markup, escape
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

    def unbroken(text: str) -> Markup:
        """Keep a percentage on one line."""
        return escape(visible(text)).replace(" %", Markup("&nbsp;%"))

    made = Environment(
        autoescape=True,
        undefined=StrictUndefined,
        finalize=shown,
        trim_blocks=True,
        lstrip_blocks=True,
        loader=FunctionLoader(_source),
    )
    # Our own files, and data whose angle brackets are escaped.
    made.globals["style"] = Markup(style)  # noqa: S704
    made.globals["script"] = Markup(script)  # noqa: S704
    made.globals["data"] = Markup(data)  # noqa: S704
    made.globals["terms"] = TERMS
    made.filters["unbroken"] = unbroken
    return made.get_template(name)
