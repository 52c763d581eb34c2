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
