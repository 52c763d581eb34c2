"""The gallery: its code runs, and the committed figures show the numbers that it gives today."""

import importlib.util
import json
import math
import re
from pathlib import Path

import pytest

pytest.importorskip("altair", reason="figures need the extra plots")

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"


def gallery_script():
    place = ROOT / "scripts" / "draw_gallery.py"
    spec = importlib.util.spec_from_file_location("draw_gallery", place)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def require_alike(one, other, where):
    """The same text, and numbers that are the same but for the last digits of another machine."""
    if isinstance(one, dict):
        assert one.keys() == other.keys(), where
        for name, value in one.items():
            require_alike(value, other[name], f"{where}: {name}")
    elif isinstance(one, float) and isinstance(other, int | float):
        assert math.isclose(one, other, rel_tol=1e-4, abs_tol=1e-6), (where, one, other)
    else:
        assert one == other, where


def test_the_figures_of_the_gallery_are_current():
    script = gallery_script()
    kept = json.loads((DOCS / "gallery" / "data.json").read_text(encoding="utf-8"))
    charts = script.charts()
    assert list(charts) == list(kept)
    for name, chart in charts.items():
        rows = script.numbers(chart.to_dict())
        assert len(rows) == len(kept[name]), f"{name} is old: make gallery"
        for row, old in zip(rows, kept[name], strict=True):
            require_alike(row, old, f"{name} is old (make gallery)")


def test_every_figure_is_committed_small_shown_and_has_a_text():
    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    shown = re.findall(r"!\[[^\]]{10,}\]\(gallery/([^)]+)\)", page)
    files = sorted(path.name for path in (DOCS / "gallery").glob("*.svg"))
    assert sorted(shown) == files
    for name in files:
        text = (DOCS / "gallery" / name).read_text(encoding="utf-8")
        assert len(text) < 60_000, name
        assert "<desc>" in text, name


def test_every_figure_of_the_library_is_in_the_gallery():
    import piwo

    page = (DOCS / "gallery.md").read_text(encoding="utf-8")
    for name in set(piwo.plots.__all__) - {"png", "svg"}:
        assert f"piwo.plots.{name}(" in page, name
