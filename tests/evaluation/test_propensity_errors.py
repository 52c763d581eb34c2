"""Propensities that are only estimated, or known up to a factor: every result that rests on them
says so."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.logs import ErrorBoundRows, PropensityErrorBound
from piwo.policies import Constant, Uniform
from piwo.report import summarize, write

pytestmark = pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")

WORDS = {"estimated": "the propensities were estimated", "too small": "allowed to be larger"}
BOTH = [Constant(0, [0, 1]), Constant(1, [0, 1])]
LISTED = piwo.oracles.Exhaustive(BOTH)


@pytest.fixture(scope="module", params=WORDS)
def rough(request: pytest.FixtureRequest) -> tuple[piwo.Log, str]:
    """A log whose propensities are known only roughly, and the words for it."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=600)
    action = (rng.random(600) < 0.5) * 1
    rows: dict[str, Any] = {"x": x, "action": action, "reward": (action == (x > 0)) * 1.0}
    if request.param == "estimated":
        return piwo.estimate_propensities(rows, context="x", actions=[0, 1]), WORDS["estimated"]
    log = piwo.read({**rows, "propensity": np.full(600, 0.5)}, context="x", actions=[0, 1])
    return log.with_propensity_error(1.1), WORDS["too small"]


def watched(log: piwo.Log) -> piwo.Monitor:
    return piwo.Monitor(BOTH[1]).update(log)


def from_file(log: piwo.Log, folder: Path) -> piwo.Monitor:
    watched(log).save(folder / "monitor.json")
    return piwo.Monitor.load(folder / "monitor.json", BOTH[1])


def with_certain_rows(log: piwo.Log) -> piwo.Monitor:
    sure = piwo.Log.from_arrays(
        action=[0, 1] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100, actions=[0, 1]
    )
    return watched(sure).merge(watched(log))


def page(log: piwo.Log, folder: Path) -> str:
    out = folder / "page.html"
    write(summarize(log, [piwo.evaluate(log, BOTH[0])]), out)
    return out.read_text("utf-8")


RESULTS: dict[str, Callable[[piwo.Log, Path], Any]] = {
    "evaluate": lambda log, _: piwo.evaluate(log, BOTH[0]),
    "evaluate by snips, normal": lambda log, _: piwo.evaluate(
        log, BOTH[0], estimator="snips", interval="normal"
    ),
    "compare": lambda log, _: piwo.compare(log, {"a": BOTH[0], "b": BOTH[1]})["b"],
    "select": lambda log, _: piwo.select(log, {"a": BOTH[0], "b": BOTH[1]}),
    "certify": lambda log, _: piwo.certify(log, {0: BOTH[0]})[0],
    "certify within": lambda log, _: piwo.certify(log, {0: BOTH[0]}, within=LISTED)[0],
    "regret below comparators": lambda log, _: piwo.regret_certificate(
        log, BOTH[0], {"b": BOTH[1]}
    ),
    "regret below a class": lambda log, _: piwo.regret_certificate(log, BOTH[0], LISTED),
    "coverage": lambda log, _: piwo.evaluation.coverage(log, BOTH[0], gamma=0.1),
    "check": lambda log, _: piwo.check(log),
    "bootstrap": lambda log, _: piwo.intervals.bootstrap(log, BOTH[0], replicates=9),
    "slope": lambda log, _: piwo.estimators.slope(log, BOTH[0]),
    "monitor": lambda log, _: watched(log).look(),
    "monitor from a file": lambda log, folder: from_file(log, folder).look(),
    "monitor of other rows, too": lambda log, _: with_certain_rows(log).look(),
    "report": page,
    "PIWO": lambda log, _: piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).certificate_,
    "PIWOGrid": lambda log, _: piwo.PIWOGrid(oracle=LISTED).fit(log).certificate_,
    "CoverageScaled": lambda log, _: (
        piwo.learners.CoverageScaled(LISTED, [2.0, 2.0]).fit(log).certificate_
    ),
    "Auto": lambda log, _: piwo.Auto([piwo.oracles.Ridge()]).fit(log).certificate_,
    "PACBayes": lambda log, _: piwo.PACBayes(BOTH).fit(log).certificate_,
    "PACBayes, any posterior": lambda log, _: piwo.PACBayes(BOTH).fit(log).bound([0.5, 0.5]),
    "PACBayesLinear": lambda log, _: piwo.PACBayesLinear(draws=3, steps=3).fit(log).certificate_,
    "PACBayesLinear, the posterior": lambda log, _: (
        piwo.PACBayesLinear(draws=3, steps=3).fit(log).posterior_bound_
    ),
}


@pytest.mark.parametrize("name", RESULTS)
def test_every_result_says_it(rough: tuple[piwo.Log, str], name: str, tmp_path: Path) -> None:
    log, word = rough
    found = RESULTS[name](log, tmp_path)
    assert word in str(found)
    if hasattr(found, "to_dict"):
        assert word in json.dumps(found.to_dict())


def test_doubly_robust_says_it() -> None:
    """It is refused where propensities may be too small, so that only estimated ones
    can be told.
    """
    rows = {"action": [0, 1] * 50, "reward": [1.0] * 100}
    log = piwo.estimate_propensities(rows, actions=[0, 1])
    found = piwo.estimators.doubly_robust(log, Uniform([0, 1]), np.full((100, 2), 0.5))
    assert WORDS["estimated"] in str(found)


@pytest.mark.parametrize("name", [x for x in RESULTS if not x.startswith("PACBayes")])
def test_a_log_that_is_sure_says_nothing(name: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=(600, 1)), rng.integers(0, 2, 600)
    log = piwo.Log.from_arrays(
        context=x,
        action=action,
        reward=(action == (x[:, 0] > 0)) * 1.0,
        propensity=[0.5] * 600,
        actions=[0, 1],
    )
    assert not any(word in str(RESULTS[name](log, tmp_path)) for word in WORDS.values())


# --- rows of several logs


def test_a_monitor_counts_the_rows_that_are_doubted() -> None:
    log = piwo.Log.from_arrays(
        action=[0, 1] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100, actions=[0, 1]
    )
    monitor = (
        watched(log)
        .update(log.with_propensity_error(1.25))
        .update(log.with_propensity_error(1.25))
        .update(log.with_propensity_error(sensitivity=2.0))
    )
    first, second = monitor.look().notes
    assert first.startswith("of 100 of the 400 rows: true propensities")
    assert "odds changed by up to 2" in first
    assert second.startswith("of 200 of the 400 rows: true propensities")
    assert "up to 1.25 times" in second


def test_doubts_of_rows_merge_in_any_order() -> None:
    parts = [
        ErrorBoundRows.of(doubt, 10)
        for doubt in (
            None,
            PropensityErrorBound(1.5),
            PropensityErrorBound(estimated="frequencies"),
            PropensityErrorBound(1.2),
        )
    ]
    one = parts[0].merge(parts[1]).merge(parts[2]).merge(parts[3]).merge(parts[1])
    other = parts[3].merge(parts[1].merge(parts[1])).merge(parts[2].merge(parts[0]))
    assert list(one.each.items()) == list(other.each.items())
    assert sorted(one.each.values()) == [10, 10, 20]


def test_what_doubts_nothing_is_not_kept() -> None:
    for doubt, rows in ((None, 5), (PropensityErrorBound(), 5), (PropensityErrorBound(2.0), 0)):
        assert not ErrorBoundRows.of(doubt, rows).each
