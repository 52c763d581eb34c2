"""The page of a report in a real browser: its explorer, what it fetches, who can use it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.decision import Units
from piwo.report import describe, write
from tests.browser.tabs import new_tab, serious

pytestmark = pytest.mark.browser
UNITS = Units("clicks", 100.0, "visits")
HOSTILE = "</script><img src=x onerror=alert(1)>"


def made() -> tuple[piwo.Log, dict[str, Any]]:
    rng = np.random.default_rng(0)
    n = 3000
    action = rng.choice(["A", "B", HOSTILE], n, p=[0.5, 0.3, 0.2])
    rates = {"A": 0.1, "B": 0.3, HOSTILE: 0.2}
    chances = {"A": 0.5, "B": 0.3, HOSTILE: 0.2}
    log = piwo.Log.from_arrays(
        action=action,
        reward=(rng.random(n) < np.array([rates[a] for a in action])) * 5.0,
        propensity=np.array([chances[a] for a in action]),
        actions=["A", "B", HOSTILE],
        segments={"device": np.where(np.arange(n) % 3, "phone", HOSTILE)},
        time=np.arange(n),
        reward_range=(-1.0, 5.0),
        logger="fixed",
    )
    policies: dict[str, Any] = {a: piwo.policies.Constant(a, log.actions) for a in log.actions}
    policies["uniform"] = piwo.policies.Uniform(log.actions)
    return log, policies


@pytest.fixture(scope="module")
def page_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("jinja2")
    log, policies = made()
    path = tmp_path_factory.mktemp("page") / "report.html"
    write(describe(log, policies, by="device", units=UNITS), path)
    return path


@pytest.fixture
def opened(browser: Any, page_file: Path) -> Iterator[Any]:
    """A page with what went wrong in it: messages of the console, errors, and requests."""
    tab = new_tab(browser, viewport={"width": 1100, "height": 900})
    tab.wrong = []
    tab.on("console", lambda said: tab.wrong.append(said.text))
    tab.on("pageerror", lambda error: tab.wrong.append(str(error)))
    tab.on("request", lambda sent: tab.wrong.append(sent.url))
    tab.on("dialog", lambda shown: tab.wrong.append(shown.message))
    tab.goto(page_file.as_uri())
    assert tab.wrong.pop(0) == page_file.as_uri()
    yield tab
    tab.context.close()


def exact(tab: Any, name: str) -> float | None:
    text = tab.get_attribute(f"#{name}", "data-exact")
    return float(text) if text else None


def data_of(tab: Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(tab.text_content("#explorer-data"))
    return found


def check_numbers(tab: Any, mixture: piwo.Evaluation, ix: piwo.Evaluation) -> None:
    near = {"rel": 1e-9, "abs": 1e-9}
    assert exact(tab, "value") == pytest.approx(mixture.value, **near)
    assert exact(tab, "mixture-lower") == pytest.approx(mixture.lower, **near)
    assert exact(tab, "mixture-upper") == pytest.approx(mixture.upper, **near)
    assert exact(tab, "improvement") == pytest.approx(mixture.improvement_lower, **near)
    assert exact(tab, "ix-value") == pytest.approx(ix.value, **near)
    assert exact(tab, "ix-lower") == pytest.approx(ix.lower, **near)
    assert exact(tab, "ix-upper") == pytest.approx(ix.upper, **near)


def test_sliders_give_the_numbers_of_the_library(opened: Any) -> None:
    log, policies = made()
    data = data_of(opened)
    names = [one["name"] for one in data["policies"]]
    assert names[0] == "B"
    # by the keyboard alone: two stops of each slider, another policy, then a segment
    opened.focus("#delta")
    for _ in range(2):
        opened.keyboard.press("ArrowRight")
    opened.focus("#gamma")
    for _ in range(2):
        opened.keyboard.press("ArrowLeft")
    delta, gamma = (float(opened.text_content(f"#{x}-text")) for x in ("delta", "gamma"))
    assert data["deltas"].index(delta) == data["deltas"].index(0.05) + 2
    assert data["gammas"].index(gamma) == len(data["gammas"]) // 2 - 2
    asked = {"by": "device", "delta": delta}
    mixture = piwo.compare(log, policies, interval="mixture", **asked)
    ix = piwo.compare(log, policies, estimator="ix", interval="ix", gamma=gamma, **asked)
    check_numbers(opened, mixture["B"], ix["B"])
    for name in (HOSTILE, "uniform"):
        opened.select_option("#pick-policy", str(names.index(name)))
        check_numbers(opened, mixture[name], ix[name])
    here = [one.label for one in mixture["uniform"].segments].index("phone")
    opened.select_option("#pick-segment", str(data["segments"].index("phone") + 1))
    check_numbers(opened, mixture["uniform"].segments[here], ix["uniform"].segments[here])
    assert opened.wrong == []


def test_every_stop_of_delta_agrees_with_the_library(opened: Any) -> None:
    log, policies = made()
    state = piwo.report.describe(log, policies).details.explorer
    assert state is not None
    sums = state.sums[list(policies).index("B"), 0]
    for place, delta in enumerate(data_of(opened)["deltas"]):
        opened.fill("#delta", str(place))
        half = np.log(2 * len(policies) / delta)
        lower = piwo.bounds.value_lower(sums.bets[0], sums.rows, half)
        assert exact(opened, "mixture-lower") == pytest.approx(-1.0 + 6.0 * lower, abs=1e-9)
    assert opened.wrong == []


def test_nothing_leaves_the_page_and_labels_are_inert(opened: Any) -> None:
    opened.select_option("#pick-segment", "1")
    opened.wait_for_timeout(200)
    assert opened.wrong == []
    assert opened.locator("img").count() == 0
    # the content policy stops what would be added
    opened.evaluate(
        "() => { const i = document.createElement('img'); i.src = 'https://x.invalid/';"
        " document.body.append(i); }"
    )
    opened.wait_for_timeout(200)
    assert any("Content Security Policy" in text for text in opened.wrong)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1100, 390])
def test_axe_finds_nothing_serious(browser: Any, page_file: Path, scheme: str, width: int) -> None:
    tab = new_tab(browser, viewport={"width": width, "height": 900}, color_scheme=scheme)
    tab.goto(page_file.as_uri())
    tab.evaluate("() => document.querySelectorAll('details').forEach((x) => { x.open = true; })")
    found = serious(tab)
    tab.context.close()
    assert found == []


def test_a_phone_cuts_nothing(browser: Any, page_file: Path) -> None:
    tab = new_tab(browser, viewport={"width": 390, "height": 800})
    tab.goto(page_file.as_uri())
    tab.evaluate("() => document.querySelectorAll('details').forEach((x) => { x.open = true; })")
    beyond = tab.evaluate(
        "() => [...document.querySelectorAll('p, li, td, th, span, h1, h2, select, input')]"
        ".filter((x) => x.getBoundingClientRect().right > 391).map((x) => x.outerHTML.slice(0, 99))"
    )
    width = tab.evaluate("() => document.documentElement.scrollWidth")
    tab.context.close()
    assert (beyond, width) == ([], 390)


def test_it_reads_without_javascript(browser: Any, page_file: Path) -> None:
    tab = new_tab(browser, java_script_enabled=False)
    tab.goto(page_file.as_uri())
    assert tab.text_content("h1").startswith("Switch to B: it earns at least")
    assert tab.is_visible("text=This part needs JavaScript")
    assert not tab.is_visible("#delta")
    assert tab.locator(".forest .numbers").count() >= 4
    tab.context.close()


def test_terms_are_explained_on_focus(opened: Any) -> None:
    opened.focus(".term button")
    assert opened.is_visible("#term-estimate")
    opened.focus("#delta")
    assert not opened.is_visible("#term-estimate")


def test_it_prints_on_two_pages(opened: Any) -> None:
    paper = opened.pdf(format="A4", print_background=True)
    assert len(re.findall(rb"/Type\s*/Page\b", paper)) <= 2
