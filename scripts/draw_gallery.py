"""Draw docs/gallery/*.svg: the figures of docs/gallery.md, by running its code, and their numbers.

python scripts/draw_gallery.py
"""

import itertools
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from unittest import mock

import piwo

DOCS = Path(__file__).resolve().parent.parent / "docs"


def numbers(spec: Any) -> list[Any]:
    """All rows of data in a specification, in order; numbers with nine digits."""
    if isinstance(spec, list):
        return [row for part in spec for row in numbers(part)]
    if not isinstance(spec, Mapping):
        return []
    found: list[Any] = []
    for name, part in spec.items():
        # what several layers share is at the top, under a name
        tables: list[Any] = []
        if name == "data":
            tables = [part.get("values", [])]
        elif name == "datasets":
            tables = list(part.values())
        if name in {"data", "datasets"}:
            for row in itertools.chain.from_iterable(tables):
                found.append({key: rounded(value) for key, value in row.items()})
        else:
            found += numbers(part)
    return found


def rounded(value: Any) -> Any:
    """A number with nine digits; anything else as it is."""
    if isinstance(value, float):
        return float(f"{value:.9g}")
    return value


def charts() -> dict[str, Any]:
    """File name -> chart, of every `piwo.plots.save` in the page."""
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    found: dict[str, Any] = {}
    with mock.patch.object(piwo.plots, "save", lambda chart, path: found.update({path: chart})):
        names: dict[str, Any] = {"__name__": "__main__"}
        for block in blocks:
            exec(compile(block, "gallery.md", "exec"), names)  # noqa: S102 - the page's own code
    return found


def main() -> None:
    """Write the figures and what they show."""
    drawn = charts()
    shown = {}
    for name, chart in drawn.items():
        piwo.plots.save(chart, DOCS / "gallery" / name)
        shown[name] = numbers(chart.to_dict())
    lines = [f"{json.dumps(name)}: {json.dumps(rows)}" for name, rows in shown.items()]
    text = "{\n" + ",\n".join(lines) + "\n}\n"
    (DOCS / "gallery" / "data.json").write_text(text, encoding="utf-8")


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
