"""`check`: what it finds, what it lets pass, and that labels from outside cannot
harm a terminal.
"""

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.health.check import ActionEvidence
from piwo.health.record import TABLE_ROWS
from piwo.reductions import reduce


def uniform_log(n: int = 2000, k: int = 4, seed: int = 0, **options: Any) -> piwo.Log:
    rng = np.random.default_rng(seed)
    action, reward = rng.integers(0, k, n), rng.integers(0, 2, n)
    return piwo.Log.from_arrays(
        action=action, reward=reward, propensity=np.full(n, 1 / k), **options
    )


def texts(health: piwo.Health, severity: str) -> str:
    return "\n".join(finding.text for finding in health.findings if finding.severity == severity)


def test_an_honest_log_is_fit() -> None:
    health = piwo.check(uniform_log())
    assert (health.verdict, health.findings, health.fit) == ("fit", (), True)
    assert health.rows == 2000
    assert health.ess == pytest.approx(2000)
    assert (health.propensity_min, health.propensity_median) == (0.25, pytest.approx(0.25))
    assert (health.mean_weight, health.max_weight, health.unsupported_mass) == (1.0, 1.0, 0.0)


def test_the_per_action_table_against_numpy() -> None:
    rng = np.random.default_rng(1)
    n, mu = 500, rng.uniform(0.2, 0.9, 500)
    action, reward = rng.integers(0, 3, n), rng.random(n)
    health = piwo.check(
        piwo.Log.from_arrays(action=action, reward=4 * reward, propensity=mu, reward_range=(0, 4))
    )
    for row in health.by_action:
        mine = action == row.action
        inverse = np.where(mine, 1 / mu, 0.0)
        assert row.count == mine.sum()
        assert row.frequency == mine.mean()
        assert row.mean_propensity == pytest.approx(mu[mine].mean())
        assert row.mean_reward == pytest.approx(4 * reward[mine].mean())
        assert row.mean_inverse == pytest.approx(inverse.mean())
        error = inverse.std(ddof=1) / math.sqrt(n)
        assert row.standard_error == pytest.approx(error)
        assert row.z == pytest.approx((inverse.mean() - 1) / error)


def test_rows_of_one_weight_share_a_line() -> None:
    mu = np.array([0.9] * 40 + [0.1] * 14 + [0.05] * 5)
    log = piwo.Log.from_arrays(
        action=["a"] * 40 + ["b"] * 19, reward=[1] * 40 + [0] * 19, propensity=mu
    )
    lines = str(piwo.check(log)).splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("heaviest rows"))
    rows = [line.partition("'b'")[0].strip() for line in lines[start + 2 : start + 4]]
    # the list has ten rows: all five of the first weight, five of 14 of the second
    assert rows == ["54, 55, 56 and 2 more", "40, 41, 42 and at least 2 more"]


def test_heaviest_rows_shares_and_histogram() -> None:
    mu = np.array([0.5] * 96 + [0.001, 0.01, 0.25, 0.02])
    log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=mu)
    health = piwo.check(log)
    total = (0.5 / mu).sum()
    assert [x.row for x in health.heaviest[:4]] == [96, 97, 99, 98]
    assert health.heaviest[0].action == "a"
    assert (health.heaviest[0].propensity, health.heaviest[0].weight) == (0.001, 500.0)
    assert health.top_share[1] == pytest.approx(500 / total)
    assert health.top_share[2] == pytest.approx(550 / total)
    assert [(x.least, x.rows) for x in health.histogram] == [
        (1.0, 96),
        (2.0, 1),
        (16.0, 1),
        (32.0, 1),
        (256.0, 1),
    ]
    assert sum(x.share or 0.0 for x in health.histogram) == pytest.approx(1)
    assert health.verdict == "unfit"
    assert "an effective sample of two rows" in texts(health, "unfit")


def test_evidence_is_a_p_value_in_honest_logs_and_finds_one_wrong_action() -> None:
    rng = np.random.default_rng(2)
    rejected = 0
    for _ in range(400):
        mu = np.array([0.01, 0.19, 0.8])
        action = rng.choice(3, 300, p=mu)
        log = piwo.Log.from_arrays(
            action=action, reward=np.ones(300), propensity=mu[action], actions=range(3)
        )
        rejected += bool(reduce(log, ActionEvidence(3)).p_values().min() * 3 < 0.05)
    assert rejected <= 20  # 5 %
    action = rng.choice(3, 3000, p=[0.03, 0.17, 0.8])
    log = piwo.Log.from_arrays(
        action=action, reward=np.ones(3000), propensity=np.array([0.01, 0.19, 0.8])[action]
    )
    p = reduce(log, ActionEvidence(3)).p_values()
    assert p[0] < 1e-6
    assert p[1:].min() > 0.05


def test_evidence_is_the_same_however_the_log_is_cut() -> None:
    log = uniform_log(500)
    batch = next(iter(log.each_batch()))
    reduction = ActionEvidence(4)
    whole = reduction.update(reduction.empty(), batch)
    parts = [
        reduction.update(reduction.empty(), batch.take(np.arange(a, b)))
        for a, b in ((0, 130), (130, 500))
    ]
    merged = reduction.merge(reduction.merge(parts[1], reduction.empty()), parts[0])
    assert merged.rows == whole.rows == 500
    np.testing.assert_allclose(merged.sums, whole.sums, rtol=1e-12)


def test_few_rows_are_no_proof_of_wrong_propensities() -> None:
    # All three rows took the same of two actions: that happens in a quarter of honest logs.
    health = piwo.check(
        piwo.Log.from_arrays(
            action=["a"] * 3, reward=[1, 0, 1], propensity=[0.5] * 3, actions=["a", "b"]
        )
    )
    assert not any("do not match" in finding.text for finding in health.findings)


def test_constant_weights_above_one_are_found() -> None:
    # One of two actions, always, at a stated probability of one half: its standard error is 0.
    health = piwo.check(
        piwo.Log.from_arrays(
            action=["a"] * 100, reward=[0.5] * 100, propensity=[0.5] * 100, actions=["a", "b"]
        )
    )
    assert "action 'a' was taken in 100 of 100 rows" in texts(health, "unfit")


def test_a_logger_that_never_explored() -> None:
    health = piwo.check(
        piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[1.0] * 100)
    )
    assert health.verdict == "unfit"
    assert "never explored" in texts(health, "unfit")


def test_actions_never_logged_are_named() -> None:
    health = piwo.check(uniform_log(actions=range(5)))
    assert health.never_logged == (4,)
    assert health.unsupported_mass == pytest.approx(0.2)
    assert "1 of 5 actions were never logged (4)" in texts(health, "care")
    health = piwo.check(uniform_log(actions=range(12)))
    assert health.verdict == "unfit"
    assert "8 of 12 actions were never logged (4, 5, 6, 7, 8, ...)" in texts(health, "unfit")


def test_a_policy_that_stays_with_logged_actions_does_not_mind_the_others() -> None:
    log = uniform_log(actions=range(12))
    health = piwo.check(log, piwo.policies.Constant(2, log.actions))
    assert health.verdict == "fit"
    assert "8 of 12 actions were never logged" in texts(health, "note")
    assert health.policy == "constant:2"


def test_an_array_has_no_name_and_is_called_the_policy() -> None:
    health = piwo.check(uniform_log(actions=range(12)), np.eye(12)[np.full(2000, 11)])
    assert health.policy == "policy"
    assert "the policy never takes a logged action" in texts(health, "unfit")
    assert "\npolicy: effective sample size" in str(health)


def test_missing_mass_within_logged_actions() -> None:
    # Action b is only ever tried in the first half of the contexts.
    rng = np.random.default_rng(0)
    first = np.arange(4000) < 400
    action = np.where(first & (rng.random(4000) < 0.5), "b", "a")
    log = piwo.Log.from_arrays(
        action=action, reward=rng.integers(0, 2, 4000), propensity=np.where(first, 0.5, 1.0)
    )
    health = piwo.check(log, piwo.policies.Constant("b", log.actions))
    assert health.verdict == "unfit"
    assert "is not in the log" in texts(health, "unfit")
    assert piwo.check(log).verdict == "fit with care"


def test_a_policy_that_plays_nothing_logged() -> None:
    log = piwo.Log.from_arrays(
        action=["a"] * 20, reward=[1, 0] * 10, propensity=[0.5] * 20, actions=["a", "b"]
    )
    health = piwo.check(log, piwo.policies.Constant("b", log.actions))
    assert "never takes a logged action" in texts(health, "unfit")
    assert health.ess is None
    json.dumps(health.to_dict(), allow_nan=False)
    str(health)


def test_rewards_that_never_differ() -> None:
    log = piwo.Log.from_arrays(action=["a", "b"] * 200, reward=[0] * 400, propensity=[0.5] * 400)
    assert "every reward is 0" in texts(piwo.check(log), "care")


def test_one_action_one_row_and_weights_beyond_float64() -> None:
    assert "one action only" in texts(
        piwo.check(piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])), "care"
    )
    log = piwo.Log.from_arrays(
        action=[0, 1] * 50, reward=[0, 1] * 50, log_propensity=[-5000.0] + [math.log(0.5)] * 99
    )
    health = piwo.check(log)
    assert health.verdict == "unfit"
    assert "row 0" in texts(health, "unfit")
    json.dumps(health.to_dict(), allow_nan=False)
    str(health)


def test_a_thinned_log_is_not_tested_for_its_propensities() -> None:
    log = piwo.Log.from_arrays(
        action=["a"] * 900 + ["b"] * 100,
        reward=[1, 0] * 500,
        propensity=[0.5] * 1000,
        weight=[1.0] * 900 + [9.0] * 100,
    )
    health = piwo.check(log)
    assert (health.propensity_p, health.action_p, health.thinned) == (None, None, True)
    assert "thinned" in texts(health, "note")


def test_no_rows() -> None:
    with pytest.raises(piwo.DataError, match="no rows"):
        piwo.check(piwo.Log.from_arrays(action=[], reward=[], propensity=[], actions=["a"]))


@pytest.mark.parametrize("delta", [0.0, 1.0, 5])
def test_delta_out_of_range(delta: float) -> None:
    with pytest.raises(piwo.UsageError, match="delta"):
        piwo.check(uniform_log(50), delta=delta)


def test_labels_cannot_reach_the_terminal() -> None:
    hostile = "a\x1b[2J\r\n\u202eb"
    log = piwo.Log.from_arrays(
        action=[hostile] * 99 + ["b"], reward=[1] * 100, propensity=[0.5] * 100
    )
    text = str(piwo.check(log))
    assert "\\x1b[2J" in text
    assert not any(c in text for c in "\x1b\r\u202e")
    assert text.count("\n") == text.replace(hostile, "").count("\n")
    names = json.loads(json.dumps(piwo.check(log).to_dict(), allow_nan=False))["by_action"]
    assert {x["action"] for x in names} == {hostile, "b"}


def test_long_labels_do_not_break_the_table() -> None:
    log = piwo.Log.from_arrays(
        action=["x" * 500, "b"] * 20, reward=[1, 0] * 20, propensity=[0.5] * 40
    )
    assert max(len(line) for line in str(piwo.check(log)).splitlines()) < 200


def test_many_actions_keep_the_tables_small() -> None:
    n, k = 40_000, 20_000
    rng = np.random.default_rng(0)
    action = rng.integers(0, k, n)
    action[:60] = 17_000
    log = piwo.Log.from_arrays(
        action=action, reward=rng.integers(0, 2, n), propensity=np.full(n, 1 / k), actions=range(k)
    )
    health = piwo.check(log)
    assert len(health.by_action) == TABLE_ROWS
    assert health.actions_left_out == k - TABLE_ROWS
    assert "action 17000 was taken" in texts(health, "unfit")
    assert len(str(health).splitlines()) < 60


def test_the_policy_asked_about_is_the_one_that_is_weighed() -> None:
    rng = np.random.default_rng(0)
    log = uniform_log()
    pi = rng.random(2000)
    health = piwo.check(log, pi)
    w = pi / 0.25
    assert health.ess == pytest.approx(w.sum() ** 2 / (w**2).sum())
    assert health.mean_weight == pytest.approx(w.mean())
    assert health.heaviest[0].row == int(np.argmax(w))
    assert (health.policy, health.propensity_min) == ("policy", 0.25)


def test_weights_beyond_float64_are_told_in_words() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 200,
        reward=[1, 0] * 200,
        log_propensity=[-1000.0] + [math.log(0.5)] * 399,
    )
    health = piwo.check(log)
    text = str(health)
    first = health.findings[0].text
    assert first.startswith(
        "an effective sample of one row (of 400; a weight is beyond float64) for the uniform policy"
    )
    assert (
        "row 0 (weight beyond float64, propensity below float64, action 'a'); "
        "the value of this policy"
    ) in first
    assert "rests on it;" in first
    assert "(p < 1e-300)" in text
    assert "smallest below float64, middle (median) roughly 0.5" in text
    assert "mean weight beyond float64, expected 1, largest beyond float64" in text
    assert "inf" not in text
    assert "p = 0)" not in str(piwo.evaluate(log, piwo.policies.Uniform(["a", "b"])))


def gappy_log(**options: Any) -> piwo.Log:
    """Ages missing, NaN and infinite; a text and a list with gaps; a column that is whole."""
    n = 400
    rows = np.arange(n)
    age = pa.array(
        [
            None if i % 8 == 0 else math.nan if i % 8 == 1 else math.inf if i % 80 == 2 else 1.0
            for i in rows
        ]
    )
    shop = pa.array([None if i % 5 == 0 else "ab"[i % 2] for i in rows])
    pair = pa.array(
        [
            None
            if i == 0
            else [None, math.inf]
            if i == 1
            else [math.nan, 1.0]
            if i == 2
            else [-math.inf, 0.0]
            for i in rows
        ]
    )
    table = pa.table(
        {
            "action": [i % 2 for i in rows],
            "reward": [i // 2 % 2 for i in rows],
            "propensity": [0.5] * n,
            "age": age,
            "shop": shop,
            "pair": pair,
            "whole": [1.0] * n,
        }
    )
    return piwo.read(table, context=["age", "shop", "pair", "whole"], **options)


GAPS = [("age", 50, 50, 5), ("shop", 80, 0, 0), ("pair", 2, 1, 397)]


def test_gaps_of_the_named_context_are_counted_in_the_one_pass() -> None:
    told: list[tuple[int, int | None]] = []
    with piwo.engines.reporting(lambda done, total: told.append((done, total))):
        health = piwo.check(gappy_log(actions=[0, 1]))
    assert sum(done for done, _ in told) == 400
    assert [(x.column, x.missing, x.nan, x.infinite) for x in health.context_gaps] == GAPS
    assert health.verdict == "fit with care"
    said = texts(health, "care")
    assert (
        "context values are missing, of 400 rows: 'age' in 100 (50 of them NaN), 'shop' in 80, "
        "'pair' in 3" in said
    )
    assert "read the log with missing='indicator'" in said
    assert (
        "context values are infinite, of 400 rows: 'age' in 5, 'pair' in 397; learning refuses "
        "such rows" in said
    )
    assert health.to_dict()["context_gaps"][1] == {
        "column": "shop", "missing": 80, "nan": 0, "infinite": 0, "indicated": False,
    }  # fmt: skip


def test_missing_values_that_get_a_column_of_their_own_are_only_told() -> None:
    health = piwo.check(gappy_log(missing="indicator"))
    assert "'shop' in 80" in texts(health, "note")
    assert "infinite" in texts(health, "care")
    assert "missing" not in texts(health, "care")
    assert [x.refused for x in health.context_gaps] == [True, False, True]


def test_what_check_tells_is_what_learning_refuses() -> None:
    for name in ("age", "shop", "pair", "whole"):
        log = replace(gappy_log(), columns=replace(gappy_log().columns, context=(name,)))
        gaps = piwo.check(log).context_gaps
        if any(gap.refused for gap in gaps):
            with pytest.raises(piwo.DataError, match=name):
                list(log.each_batch(context=True))
        else:
            assert list(log.each_batch(context=True))
            assert name == "whole"


def test_a_policy_that_acts_on_some_of_the_context_leaves_the_rest_to_be_looked_at() -> None:
    log = gappy_log()
    policy = piwo.policies.LinearGreedy(
        np.zeros((2, 1)), np.zeros(2), log.actions, features=piwo.logs.Features.numeric(["whole"])
    )
    assert [
        (x.column, x.missing, x.nan, x.infinite) for x in piwo.check(log, policy).context_gaps
    ] == GAPS
    only = replace(log, columns=replace(log.columns, context=("whole",)))
    assert piwo.check(only, policy).context_gaps == ()


def test_lists_of_propensities_tell_what_was_never_logged_by_chance() -> None:
    rng = np.random.default_rng(0)
    action = rng.choice(2, size=400, p=[0.7, 0.3])
    # c could be taken, and never was; d could not
    every = np.tile([0.7, 0.2995, 0.0005, 0.0], (400, 1))

    def found(labels: str) -> tuple[float | None, str, str]:
        kept = every[:, : len(labels)]
        log = piwo.Log.from_arrays(
            action=np.array(["a", "b"])[action],
            reward=np.ones(400),
            propensity=kept[np.arange(400), action],
            propensities=kept,
            actions=list(labels),
        )
        health = piwo.check(log)
        (one,) = (x for x in health.findings if x.kind == "never-logged")
        # the number, and so the severity, is that of evaluate
        assert health.unsupported_mass == (
            piwo.evaluate(log, piwo.policies.Uniform(log.actions)).unsupported_mass
        )
        return health.unsupported_mass, one.severity, one.text

    mass, severity, text = found("abc")
    assert (mass, severity) == (0.0, "note")
    assert text == (
        "1 of 3 actions were never logged ('c'); the logger could take all that the uniform policy "
        "plays (propensities above 0), so it is by chance"
    )
    mass, severity, text = found("abcd")
    assert (mass, severity) == (0.25, "care")
    assert "probability 0.25 to actions that the logger could not take there" in text
