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
        (["fee"], "action_cost is a list, expected a mapping"),
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


def fees(n: int = 400, seed: int = 0):
    """A fee that varies from row to row, and more for b."""
    rows = table(n, seed)
    rng = np.random.default_rng(seed + 1)
    return {**rows, "fee": rng.random(n) * np.where(rows["action"] == "b", 0.5, 0.2)}


def test_a_column_of_costs_by_hand() -> None:
    """b was taken in rows 2 and 3: (1 - .4)/.5 and (0 - .1)/.25, over four rows."""
    rows = {
        "action": ["a", "b", "b", "a"],
        "reward": [1.0, 1.0, 0.0, 0.0],
        "propensity": [0.5, 0.5, 0.25, 0.5],
        "fee": ["0.2", "0.4", "0.1", "0"],
    }
    log = piwo.read(rows, action_cost="fee", action_cost_range=(0.0, 0.5))
    assert log.reward_range == (-0.5, 1.0)
    found = piwo.evaluate(log, piwo.policies.Constant("b", ["a", "b"]))
    assert found.value == pytest.approx((0.6 / 0.5 - 0.1 / 0.25) / 4)
    assert found.logging_value == pytest.approx((0.8 + 0.6 - 0.1 + 0.0) / 4)
    (note,) = [note for note in found.notes if note.kind == "net-of-costs"]
    assert "(column 'fee', in [0, 0.5]), so that rewards in [0, 1] become [-0.5, 1]" in note


def test_a_column_of_costs_is_that_of_a_log_with_net_rewards(tmp_path) -> None:
    """The naive twin, also from a text file, by unit, and with costs instead of rewards."""
    rows = {**fees(), "user": np.arange(400) // 3}
    path = tmp_path / "log.csv"
    names = list(rows)
    lines = zip(*(np.asarray(rows[name]).tolist() for name in names), strict=True)
    path.write_text(",".join(names) + "\n" + "".join(",".join(map(str, x)) + "\n" for x in lines))
    new = piwo.policies.Constant("b", ["a", "b"])
    for unit in (None, "user"):
        for sign, role, ends in ((1, "reward", (-0.5, 1.0)), (-1, "cost", (-1.5, 0.0))):
            net = {**rows, "net": sign * rows["reward"] - rows["fee"]}
            twin = piwo.read(net, reward="net", reward_range=ends, unit=unit)
            gross = (0.0, 1.0) if sign > 0 else (-1.0, 0.0)
            options = {role: "reward", "reward_range": gross, "unit": unit}
            log = piwo.read(path, action_cost="fee", action_cost_range=(0, 0.5), **options)
            assert log.reward_range == pytest.approx(ends)
            one, other = piwo.evaluate(log, new), piwo.evaluate(twin, new)
            for name in ("value", "lower", "upper", "improvement_lower", "logging_value"):
                assert getattr(one, name) == pytest.approx(getattr(other, name), abs=1e-9)
    assert log.split().test.action_costs == log.action_costs


def test_a_cost_is_no_context_no_outcome_and_no_condition() -> None:
    rows = {**fees(), "x": np.arange(400) / 400}
    for made in (
        piwo.read(rows, context="*", action_cost="fee"),
        piwo.estimate_propensities(
            {name: rows[name] for name in rows if name != "propensity"},
            context="*",
            action_cost="fee",
        ),
    ):
        assert made.columns.context == ("x",)
        assert made.reward_range == (-1.0, 1.0)
    chosen = piwo.read(rows, action_cost="fee", where="fee < .3")
    assert piwo.evaluate(chosen, piwo.policies.Logging()).lower is None
    log = piwo.read(rows, outcomes="x", action_cost="fee")
    (one,) = piwo.evaluate(log, piwo.policies.Logging(), guardrail="x<=.9").guardrails
    assert one.lower > 0.3
    # of the checks of a log, one reads rewards by user
    people = {**rows, "user_id": np.arange(400) // 4}
    assert piwo.check(piwo.read(people, action_cost="fee")).rows == 400


@pytest.mark.parametrize(
    ("change", "options", "kind", "said"),
    [
        ({"fee": None}, {}, piwo.DataError, "column 'fee' is missing in 1 row"),
        ({"fee": np.nan}, {}, piwo.DataError, "column 'fee' is NaN in 1 row"),
        ({"fee": np.inf}, {}, piwo.DataError, "column 'fee' is infinite in 1 row"),
        (
            {"fee": 1.5},
            {},
            piwo.DataError,
            r"outside the declared range \[0, 1\] in 1 row .*declare action_cost_range=\(lo, hi",
        ),
        ({}, {"action_cost": "free"}, piwo.DataError, "no column 'free' for the action cost"),
        ({}, {"action_cost": "reward"}, piwo.UsageError, "'reward' was given two roles"),
        (
            {},
            {"action_cost_range": (0, np.inf)},
            piwo.UsageError,
            r"action_cost_range is \(0, inf\), expected \(lo, hi\) with finite lo < hi",
        ),
        (
            {},
            {"action_cost": COSTS, "action_cost_range": (0, 2)},
            piwo.UsageError,
            "action_cost_range is the range of a column of costs, and action_cost is a dict",
        ),
        (
            {},
            {"action_cost": None, "action_cost_range": (0, 2)},
            piwo.UsageError,
            "got action_cost_range without a column of costs",
        ),
    ],
)
def test_wrong_columns_of_costs_are_one_line(change, options, kind, said: str) -> None:
    rows = fees()
    for name, value in change.items():
        rows[name] = [value, *rows[name][1:].tolist()]
    with pytest.raises(kind, match=said) as caught:
        piwo.evaluate(piwo.read(rows, **{"action_cost": "fee", **options}), piwo.policies.Logging())
    assert "\n" not in str(caught.value)
