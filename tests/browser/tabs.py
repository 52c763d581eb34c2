"""Tabs of the browser, and what axe finds in them."""

from __future__ import annotations

from typing import Any

import pytest


def new_tab(browser: Any, **options: Any) -> Any:
    """A tab in a profile of its own; a busy machine is not an error."""
    context = browser.new_context(**options)
    context.set_default_timeout(300_000.0)
    return context.new_page()


def serious(tab: Any) -> list[tuple[str, str, str]]:
    """What axe-core finds that is serious or critical: rule, impact, the first element."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright")
    found = axe.Axe().run(tab).response["violations"]
    told = [(one["id"], one["impact"], one["nodes"][0]["html"][:200]) for one in found]
    return [one for one in told if one[1] in {"serious", "critical"}]
