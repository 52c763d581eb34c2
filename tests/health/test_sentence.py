"""The answer of `check` in words."""

import inspect
import re

import numpy as np

import piwo
from piwo.health import record, rules


def test_every_kind_of_finding_that_may_need_care_has_words() -> None:
    source = inspect.getsource(rules)
    kinds = set(re.findall(r'_finding\(\s*"([a-z-]+)"', source)) | {"effective-sample"}
    assert kinds - set(record._IN_WORDS) == {"rare-actions", "thinned", "unverified"}


def test_the_sentence_names_the_most_severe_finding_and_what_to_do() -> None:
    log = piwo.Log.from_arrays(
        action=["a"] * 198 + ["b"] * 2, reward=[1] * 200, propensity=[0.99] * 198 + [0.01] * 2
    )
    health = piwo.check(log)
    assert str(health).startswith(f"{health.sentence}\n")
    assert health.sentence.startswith(
        "Unfit for use: few of its observations carry the value of this policy. First: evaluate "
        "policies closer to the logger"
    )
    assert health.display().title == health.sentence


def test_large_sizes_have_all_their_digits() -> None:
    rng = np.random.default_rng(0)
    rows = 30_000
    action = np.where(rng.random(rows) < 0.5, "a", "b")
    log = piwo.Log.from_arrays(action=action, reward=rng.random(rows), propensity=[0.5] * rows)
    text = str(piwo.check(log))
    assert "rows 30,000, actions 2" in text
    assert "effective sample size 30,000" in text
    assert "e+0" not in text
    one = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert "30,000" in one.display().text


def test_weights_of_units_and_of_rows_say_which_they_are() -> None:
    rng = np.random.default_rng(0)
    rows = 600
    action = np.where(rng.random(rows) < 0.2, "a", "b")
    log = piwo.Log.from_arrays(
        action=action,
        reward=rng.random(rows),
        propensity=np.where(action == "a", 0.2, 0.8),
        unit=np.arange(rows) // 3,
    )
    text = str(piwo.check(log))
    assert "largest 2.5, of a single row" in text
    assert "heaviest rows (weight: what the row adds to the mean weight of its unit; share" in text
    assert "how the weight is spread (of a unit: the mean over its rows" in text


def test_each_table_is_explained_if_asked_for() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.4, 0.6] * 50
    )
    health = piwo.check(log)
    plain, explained = record.health_text(health), record.health_text(health, explain=True)
    assert str(health) == plain
    added = [line for line in explained.splitlines() if line not in plain.splitlines()]
    assert added[0].startswith("rows, frequency: how often the action was taken.")
    assert max(map(len, added)) <= 100


def test_what_is_measured_is_said_in_words() -> None:
    rng = np.random.default_rng(0)
    action = np.where(rng.random(1000) < 0.2, "a", "b")
    propensity = np.where(action == "a", 0.2, 0.8)
    log = piwo.Log.from_arrays(action=action, reward=[0, 1] * 500, propensity=propensity)
    text = str(piwo.check(log))
    weight = 0.5 / propensity
    error = weight.std(ddof=1) / 1000**0.5
    off = (weight.mean() - 1) / error
    side = "below" if off < 0 else "above"
    assert f"expected 1 ({abs(off):.2g} standard errors {side}), largest 2.5" in text
    top, all_of_it = np.sort(weight)[::-1].cumsum(), weight.sum()
    first, two, ten = (f"{100 * top[k - 1] / all_of_it:.2g} %" for k in (1, 2, 10))
    assert f"the heaviest row carries {first}, the heaviest 2 {two}, the heaviest 10 {ten}" in text
    for jargon in ("factor of two", "1/mu", "z =", "powers of two"):
        assert jargon not in text
