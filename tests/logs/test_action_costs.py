"""Costs of actions: rewards less the cost of their action, everywhere."""

import numpy as np
import pytest

import piwo

COSTS = {"a": 0.0, "b": 0.25}


def table(n: int = 400, seed: int = 0):
    rng = np.random.default_rng(seed)
    b = rng.random(n) < 0.4
    return {
        "action": np.where(b, "b", "a"),
        "reward": (rng.random(n) < np.where(b, 0.7, 0.5)) * 1.0,
        "propensity": np.where(b, 0.4, 0.6),
    }


def test_the_net_value_by_hand() -> None:
    """b at .25 was taken in rows 2 and 3: (1 - .25)/.5 and (0 - .25)/.25, over four rows."""
    rows = {
        "action": ["a", "b", "b", "a"],
        "reward": [1.0, 1.0, 0.0, 0.0],
        "propensity": [0.5, 0.5, 0.25, 0.5],
    }
    log = piwo.read(rows, action_cost=COSTS)
    assert log.reward_range == (-0.25, 1.0)
    found = piwo.evaluate(log, piwo.policies.Constant("b", ["a", "b"]))
    assert found.value == pytest.approx((0.75 / 0.5 - 0.25 / 0.25) / 4)
    assert found.logging_value == pytest.approx((1.0 + 0.75 - 0.25 + 0.0) / 4)
    assert [note.kind for note in found.notes].count("net-of-costs") == 1
    assert "net of costs" in str(found)


def test_everything_is_that_of_a_log_with_net_rewards() -> None:
    """The naive twin: the costs are subtracted by hand, and the range is declared."""
    rows = table()
    costs = np.where(rows["action"] == "b", 0.25, 0.0)
    twin = piwo.read({**rows, "reward": rows["reward"] - costs}, reward_range=(-0.25, 1.0))
    log = piwo.read(rows, action_cost=COSTS)
    new = piwo.policies.Constant("b", ["a", "b"])
    one, other = piwo.evaluate(log, new), piwo.evaluate(twin, new)
    for name in ("value", "lower", "upper", "improvement_lower", "logging_value"):
        assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-12)
    made, theirs = (piwo.certify(x, {0: new})[0] for x in (log, twin))
    assert made.value_lower == pytest.approx(theirs.value_lower, abs=1e-12)
    assert any("net of costs" in note for note in made.notes)
    parts = log.split()
    assert parts.test.action_costs == log.action_costs


def test_the_value_of_a_policy_that_takes_other_actions_is_less_its_expected_cost() -> None:
    """v(pi) - E sum_a pi(a) c(a), by enumeration of a log of all actions and their chances."""
    rows = {
        "action": ["a"] * 6 + ["b"] * 4,
        "reward": [1] * 10,
        "propensity": [0.6] * 6 + [0.4] * 4,
    }
    log = piwo.read(rows, action_cost=COSTS)
    for policy, cost in (
        (piwo.policies.Constant("a", ["a", "b"]), 0.0),
        (piwo.policies.Constant("b", ["a", "b"]), 0.25),
        (piwo.policies.Uniform(["a", "b"]), 0.125),
    ):
        assert piwo.evaluate(log, policy).value == pytest.approx(1.0 - cost)


def test_the_declared_range_is_that_of_the_logged_reward() -> None:
    rows = {**table(), "reward": np.full(400, 1.5)}
    with pytest.raises(piwo.DataError, match=r"outside the declared range \[0, 1\]"):
        piwo.evaluate(piwo.read(rows, action_cost=COSTS), piwo.policies.Logging())
    endless = piwo.read(table(), action_cost=COSTS, reward_range=(0, np.inf))
    assert endless.reward_range == (-0.25, np.inf)
    cheap = piwo.read(table(), action_cost={"a": 0.1, "b": 0.1})
    assert cheap.reward_range == (-0.1, 0.9)


def test_labels_match_as_text_and_whole_numbers() -> None:
    rows = {**table(), "action": np.where(table()["action"] == "b", 1, 0)}
    by_number = piwo.read(rows, action_cost={0: 0.0, 1: 0.25})
    by_text = piwo.read(rows, action_cost={"1": 0.25, "0": 0.0})
    new = piwo.policies.Constant(1, [0, 1])
    assert piwo.evaluate(by_number, new).value == piwo.evaluate(by_text, new).value


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": 0.1}, r"action_cost has no cost for 1 of the 2 actions \('b'\)"),
        ({"a": 0.1, "b": "x"}, "action_cost has cost 'x' for 'b', expected a mapping"),
        ({"a": np.nan, "b": 0}, "has cost nan for 'a'"),
        ({}, "expected a mapping from every label"),
        ("fee", "action_cost is a str, expected a mapping"),
    ],
)
def test_wrong_costs_are_one_line(given, said: str) -> None:
    with pytest.raises(piwo.UsageError, match=said) as caught:
        piwo.evaluate(piwo.read(table(), action_cost=given), piwo.policies.Logging())
    assert "\n" not in str(caught.value)


def test_costs_are_given_once() -> None:
    log = piwo.read(table(), action_cost=COSTS)
    with pytest.raises(piwo.UsageError, match="net of action costs already"):
        log.with_action_cost(COSTS)


def test_guardrails_are_not_net_of_costs() -> None:
    rows = {**table(), "bad": np.zeros(400)}
    log = piwo.read(rows, outcomes="bad", action_cost=COSTS)
    new = piwo.policies.Constant("b", ["a", "b"])
    (one,) = piwo.evaluate(log, new, guardrail="bad<=.5").guardrails
    assert (one.lower, one.answer) == (0.0, "harmless")
