"""Figures as SVG and PNG: without a browser, without a network, the same bytes each time."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from html import escape
from importlib import import_module
from pathlib import Path
from typing import Any

from piwo.checks import check_path
from piwo.errors import UsageError
from piwo.files import write_file
from piwo.plots.style import altair

__all__ = ["png", "save", "svg"]

PNG_SCALE = 2.0
"""Pixels of a PNG for one of the figure."""


def svg(chart: Any) -> str:
    """Return a figure as SVG, its coordinates rounded to hundredths of a pixel.

    The text of the figure for those who do not see it is in its element `desc`.

    Args:
        chart: an Altair chart, or its specification.

    Raises:
        UsageError: if the libraries are not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> svg(piwo.plots.weights(piwo.check(log)))[:4]
    '<svg'
    """
    spec: Mapping[str, Any] = chart if isinstance(chart, Mapping) else chart.to_dict()
    version = ".".join(altair().SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    drawn = _converter().vegalite_to_svg(spec, vl_version=version, allowed_base_urls=[])
    # The numbers of clips and gradients go on from one drawing to the next.
    names: dict[str, str] = {}
    drawn = re.sub(
        r'(?<=[#"])(clip|gradient_)\d+',
        lambda name: names.setdefault(name.group(), f"own-{len(names)}"),
        drawn,
    )
    drawn = re.sub(
        r'(?<= d=")[^"]*', lambda path: re.sub(r"-?\d+\.\d{3,}", _hundredths, path.group()), drawn
    )
    description = spec.get("description")
    if description:
        root, rest = drawn.split(">", 1)
        drawn = f'{root} role="img"><desc>{escape(description, quote=False)}</desc>{rest}'
    return drawn


def png(chart: Any, scale: float = PNG_SCALE) -> bytes:
    """Return a figure as PNG.

    Args:
        chart: an Altair chart, or its specification.
        scale: pixels of the PNG for one of the figure.

    Raises:
        UsageError: if the libraries are not installed.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> png(piwo.plots.weights(piwo.check(log)))[1:4]
    b'PNG'
    """
    drawn: bytes = _converter().svg_to_png(svg(chart), scale=scale)
    return drawn


def save(chart: Any, path: str | os.PathLike[str], scale: float = PNG_SCALE) -> None:
    """Write a figure to a file, complete or not at all.

    Args:
        chart: an Altair chart.
        path: its ending says what is written: .svg, .png, or .json for the Vega-Lite
            specification.
        scale: pixels of a PNG for one of the figure.

    Raises:
        UsageError: for another ending, and if the libraries are not installed.
        FileError: if the file cannot be written.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> save(piwo.plots.weights(piwo.check(log)), "weights.svg")
    """
    check_path(path)
    ending = Path(path).suffix.lower()
    if ending == ".svg":
        content = svg(chart).encode()
    elif ending == ".png":
        content = png(chart, scale)
    elif ending == ".json":
        content = json.dumps(chart.to_dict(), indent=1).encode()
    else:
        raise UsageError(f"cannot draw {str(path)!r}, expected a file .svg, .png or .json")
    write_file(Path(path), content)


def _converter() -> Any:
    try:
        return import_module("vl_convert")
    except ImportError:
        raise UsageError(
            "drawing figures needs vl-convert-python, which is not installed; "
            "pip install 'piwo[plots]'"
        ) from None


def _hundredths(number: re.Match[str]) -> str:
    return f"{float(number.group()):.2f}"
