"""What evaluations of slates say together: improvements, the sentence, the gate."""

from __future__ import annotations

import numpy as np
import pytest

from piwo import bounds, slates
from piwo.errors import UsageError
from piwo.reductions.bets import bet_sums
from tests.slates.simulator import ITEMS, LOGGER, TARGET_COLUMNS, SlateBandit
from tests.slates.test_estimators import additive

DELTA = 0.1


def test_improvements_are_those_of_a_naive_twin() -> None:
    bandit = SlateBandit("independent")
    table = bandit.table(400, 3)
    found = slates.evaluate(
        bandit.log(400, 3),
        TARGET_COLUMNS,
        estimator="independent",
        interval="mixture",
        delta=DELTA,
    )
    weights = np.array(table["pi_alone"]) / np.array(table["mu_alone"])
    rewards = np.array(table["rs"])
    # a slate is worth at most 2
    credit, logged = (weights * rewards).sum(axis=1) / 2, rewards.sum(axis=1) / 2
    missed = (weights * (1 - rewards)).sum(axis=1) / 2
    whole, half = np.log(1 / DELTA), np.log(2 / DELTA)
    lower = bounds.lower(bet_sums(credit + 1 - logged), 400, whole) - 1
    assert found.improvement_lower == pytest.approx(2 * lower, abs=1e-12)
    most = 1 - bounds.lower(bet_sums(missed), 400, half)
    upper = most - bounds.logged_value_lower(logged.sum(), 400, half)
    assert found.improvement_upper == pytest.approx(2 * upper, abs=1e-12)


def logged_value(bandit: SlateBandit) -> float:
    """The true value of the logger."""
    total = 0.0
    for one in ITEMS:
        for two in ITEMS:
            each = float(np.prod(bandit.probability(LOGGER, (one, two))))
            total += each * sum(bandit.chance((one, two), slot) for slot in (0, 1))
    return total


@pytest.mark.parametrize("interval", ["deadline", "mixture", "normal"])
def test_improvements_hold_as_often_as_they_say(interval: str) -> None:
    bandit, wrong, logs = SlateBandit("cascade"), 0, 40
    truth = bandit.value - logged_value(bandit)
    for seed in range(logs):
        found = slates.evaluate(
            bandit.log(300, seed),
            TARGET_COLUMNS,
            estimator="cascade",
            interval=interval,
            delta=DELTA,
        )
        lower, upper = found.improvement_lower, found.improvement_upper
        # bounds that are withheld, as the interval has crossed ends, count as wrong
        wrong += lower is None or upper is None or not lower <= truth <= upper
    # of 40 pairs of bounds at 90 % each, more than 14 wrong ones have a probability below .02
    assert wrong <= 14


def test_no_improvement_is_below_or_above_what_is_possible() -> None:
    log, _ = additive(20, 0)
    target = slates.Deterministic(["d", "c"])
    found = slates.evaluate(log, target, estimator="pseudo-inverse")
    assert found.shift > 0
    most = found.largest_value
    assert most is not None
    assert found.improvement_lower == -most
    assert found.improvement_upper is None or found.improvement_upper <= most
    assert [note.kind for note in found.notes].count("vacuous") == 1
    large, _ = additive(4000, 0)
    assert "vacuous" not in [x.kind for x in slates.evaluate(large, target).notes]


def pages(rows: int = 400) -> slates.SlateLog:
    return slates.read(
        {"slate": [["a", "b"], ["b", "a"]] * (rows // 2), "rs": [[1, 0], [0, 0]] * (rows // 2)},
        rewards="rs",
        behavior=slates.Uniform(["a", "b"]),
    )


def test_each_policy_is_judged_by_the_estimator_that_assumes_least() -> None:
    both = {name: slates.Deterministic(list(name)) for name in ("ab", "ba")}
    found = slates.compare(pages(), both)
    made = slates.decide(found)
    assert (made.verdict, made.policy, made.simultaneous) == ("switch", "ab", 8)
    assert "if the reward" not in made.sentence
    assert slates.gate(pages(), found, policies=["ab"])
    refused = slates.gate(pages(), found)
    assert refused.refused == {"ba": ("not certified better than the logging policy by standard",)}
    alone = slates.evaluate(pages(), both["ab"], estimator="independent", name="ab")
    assert "if the reward of a slot depends on its position and its own action alone)" in (
        slates.decide(alone).sentence
    )
    assert slates.gate(pages(), alone, at_least=0.5).passed
    least = slates.gate(pages(), alone, at_least=1.5)
    assert least.refused["ab"][0].startswith("not certified to be worth at least 1.5")
    assert slates.decide(alone, at_least=1.5).verdict == "keep"


def test_what_is_certified_under_more_assumptions_alone_is_said_and_does_not_pass() -> None:
    bandit = SlateBandit("independent")
    log = bandit.log(900, 5)
    found = slates.compare(log, {"new": TARGET_COLUMNS}, estimators=["standard", "independent"])
    standard, independent = found.evaluations
    assert (standard.certified_better, independent.certified_better) == (False, True)
    made = slates.decide(found)
    assert made.verdict == "keep"
    assert made.sentence.endswith("Certified better only if more is assumed: new by independent.")
    assert not slates.gate(log, found)


def test_nothing_is_told_of_what_was_learned_from_the_rows() -> None:
    log = slates.read(
        {
            "slate": [["a", "b"], ["b", "a"]] * 300,
            "rs": [[1, 0], [0, 0]] * 300,
            "hour": [1.0, 1.0, 2.0] * 200,
        },
        rewards="rs",
        behavior=slates.Uniform(["a", "b"]),
        context="hour",
    )
    policy = slates.learn(log).policy
    found = slates.compare(log, {"own": policy})
    made = slates.decide(found)
    assert made.verdict == "unfit"
    assert "learned from these rows, which therefore prove nothing of them" in made.sentence
    assert not any("delta is shared" in note for note in found.notes)
    assert all(one.in_sample for one in found.evaluations)
    assert not slates.gate(log, found)


def test_repeated_users_refuse_and_units_do_not() -> None:
    rows = {"slate": [["a", "b"], ["b", "a"]] * 200, "rs": [[1, 0], [0, 0]] * 200}
    rows["user_id"] = [i // 4 for i in range(400)]
    named = {"rewards": "rs", "behavior": slates.Uniform(["a", "b"])}
    log = slates.read(rows, **named)
    target = slates.Deterministic(["a", "b"])
    found = slates.evaluate(log, target)
    refused = slates.gate(log, found)
    assert refused.dependent is not None
    assert "'user_id' has about 4 rows a value" in refused.dependent
    assert slates.gate(log, found, independent_rows=True)
    grouped = slates.read(rows, unit="user_id", **named)
    with pytest.raises(UsageError, match="log has another unit"):
        slates.gate(grouped, found)
    # each user has both pages, so that units agree
    assert slates.gate(grouped, slates.evaluate(grouped, target)).dependent is None


def test_a_thinned_log_proves_no_improvement() -> None:
    log = slates.read(
        {"slate": [["a"], ["b"]] * 40, "r": [1, 0] * 40, "p": [0.5] * 80, "s": [2.0] * 80},
        reward="r",
        slate_propensity="p",
        weight="s",
    )
    found = slates.evaluate(log, slates.Deterministic(["a"]), interval="normal")
    assert (found.improvement_lower, found.guarantee) == (None, "asymptotic")
    assert "thinned" in slates.decide(found).sentence


def test_wrong_arguments_are_one_line() -> None:
    found = slates.evaluate(pages(40), slates.Deterministic(["a", "b"]), name="x")
    with pytest.raises(UsageError, match=r"expected what slates\.evaluate"):
        slates.decide([found])  # type: ignore[arg-type]
    with pytest.raises(
        UsageError, match=r"at_least is 5, expected a value of a slate, in \[0, 2\]"
    ):
        slates.decide(found, at_least=5)
    with pytest.raises(UsageError, match="policies has 'y', expected one of x"):
        slates.gate(pages(40), found, policies="y")
    with pytest.raises(UsageError, match="policies is empty"):
        slates.gate(pages(40), found, policies=[])


def test_an_adaptation_computes_no_interval_and_says_why() -> None:
    log = slates.read(
        {
            "slate": [["a", "b"], ["b", "a"]] * 100,
            "rs": [[1, 0], [0, 0]] * 100,
            "young": [0, 0, 1, 1] * 50,
        },
        rewards="rs",
        behavior=slates.Uniform(["a", "b"]),
        context="young",
    )
    one = slates.adapt(log, slates.Deterministic(["a", "b"])).evaluation
    assert (one.interval, one.guarantee, one.lower, one.improvement_lower) == (
        "none",
        "none",
        None,
        None,
    )
    assert slates.decide(one).sentence.startswith(
        "Cannot be told: user behaviors were estimated by trees"
    )
