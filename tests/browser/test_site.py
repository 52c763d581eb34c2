"""The documentation site in a real browser: opened from disk, without a network, by everybody."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.browser.tabs import new_tab, serious

pytestmark = pytest.mark.browser
ROOT = Path(__file__).resolve().parents[2]
PAGES = (
    "index",
    "tutorials/first",
    "tutorials/vowpal-wabbit",
    "tutorials/daily-look",
    "guide",
    "how-to/wide-interval",
    "promises",
    "theory",
    "reference",
    "reference/policies",
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built with every warning an error."""
    pytest.importorskip("material", reason="mkdocs-material is not installed")
    pytest.importorskip("mkdocstrings", reason="mkdocstrings is not installed")
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(folder)]
    made = subprocess.run(
        command,
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (made.returncode, made.stdout + made.stderr) == (0, "")
    return folder


def test_the_reference_has_the_docstring_of_every_public_name(site: Path) -> None:
    missing = []
    pages = sorted((site / "reference").glob("*.html"))
    assert len(pages) > 15
    for page in pages:
        name = "piwo" if page.stem == "piwo" else f"piwo.{page.stem}"
        text = page.read_text(encoding="utf-8")
        shown = set(re.findall(r' id="([^"]+)"', text))
        public = set(importlib.import_module(name).__all__) - {"__version__"}
        missing += [f"{name}.{one}" for one in public if f"{name}.{one}" not in shown]
        assert "&gt;&gt;&gt;" in text, page
        assert "<blockquote>" not in text, page
    assert missing == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing_serious_and_nothing_is_fetched(
    browser: Any, site: Path, scheme: str
) -> None:
    tab = new_tab(browser, viewport={"width": 1100, "height": 900}, color_scheme=scheme)
    asked: list[str] = []
    tab.on("request", lambda sent: asked.append(sent.url))
    found = {}
    for page in PAGES:
        tab.goto((site / f"{page}.html").as_uri())
        found[page] = serious(tab)
    tab.context.close()
    assert {page: told for page, told in found.items() if told} == {}
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
