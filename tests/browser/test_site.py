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
    "reference/piwo-evaluating",
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
    shown: dict[str, set[str]] = {}
    for page in sorted((site / "reference").glob("*.html")):
        # The names of a large package are on several pages: piwo.html, piwo-reading.html.
        stem = page.stem.split("-")[0]
        name = "piwo" if stem == "piwo" else f"piwo.{stem}"
        text = page.read_text(encoding="utf-8")
        shown.setdefault(name, set()).update(re.findall(r' id="([^"]+)"', text))
        assert page.stem == "piwo" or "&gt;&gt;&gt;" in text, page
        assert "<blockquote>" not in text, page
        # Larger ones take more than a second to open.
        assert len(text) < 200_000, page
    assert len(shown) > 15
    missing = []
    for name, found in shown.items():
        public = set(importlib.import_module(name).__all__) - {"__version__"}
        missing += [f"{name}.{one}" for one in public if f"{name}.{one}" not in found]
    assert missing == []


def test_a_link_to_a_section_that_has_moved_leads_to_it(browser: Any, site: Path) -> None:
    tab = new_tab(browser)
    for old, section, page in (
        ("piwo", "piwo.Log.split", "piwo-reading"),
        ("piwo", "piwo.evaluate", "piwo-evaluating"),
        ("piwo", "piwo.bounds", "piwo"),
        ("piwo-learning", "piwo.certify", "piwo-certifying"),
        ("policies", "piwo.policies.Trees.decide", "policies-models"),
        ("policies", "piwo.policies.Policy", "policies"),
        ("slates", "piwo.slates.read_dsjson", "slates-reading"),
    ):
        tab.goto((site / "reference" / f"{old}.html").as_uri() + f"#{section}")
        tab.wait_for_url(f"**/{page}.html#{section}")
        assert tab.locator(f'[id="{section}"]').count() == 1
    tab.context.close()


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
