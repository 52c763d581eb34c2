"""Slate logs by unit and with sampling weights: by hand, twins without either, known truths."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from piwo import slates
from piwo.errors import DataError, UsageError
from tests.slates.simulator import ITEMS, TARGET_COLUMNS, SlateBandit, misses

ESTIMATORS = ("standard", "cascade", "independent")
Table = dict[str, list[Any]]


def read(table: Table, **more: Any) -> slates.SlateLog:
    return slates.read(
        table,
        slate="shown",
        rewards="rs",
        propensities="mu_above",
        marginals="mu_alone",
        slots=2,
        actions=ITEMS,
        **more,
    )


def repeated(table: Table, times: list[int]) -> Table:
    """Each row as often as it says, all copies of the unit of its number; shuffled."""
    places = np.random.default_rng(1).permutation(np.repeat(np.arange(len(times)), times))
    made = {name: [values[i] for i in places] for name, values in table.items()}
    made["user"] = [f"u{i}" for i in places]
    return made


@pytest.mark.parametrize("interval", ["mixture", "normal"])
@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("normalized", [False, True])
def test_a_unit_of_equal_rows_is_one_row(estimator: str, normalized: bool, interval: str) -> None:
    table = SlateBandit("cascade").table(60, 0)
    how = {"estimator": estimator, "self_normalized": normalized, "interval": interval}
    plain = slates.evaluate(read(table), TARGET_COLUMNS, **how)  # type: ignore[arg-type]
    times = np.random.default_rng(2).integers(1, 6, 60).tolist()
    log = read(repeated(table, times), unit="user")
    found = slates.evaluate(log, TARGET_COLUMNS, **how)  # type: ignore[arg-type]
    assert (found.rows, found.units, found.unit) == (sum(times), 60, "user")
    for name in ("value", "standard_error", "lower", "upper", "ess", "mean_weight", "max_weight"):
        assert getattr(found, name) == pytest.approx(getattr(plain, name), rel=1e-9), name
    assert found.logging_value == pytest.approx(plain.logging_value)
    assert found.propensity_p == pytest.approx(plain.propensity_p)
    for one, other in zip(found.by_slot, plain.by_slot, strict=True):
        assert (one.value, one.mean_weight) == pytest.approx((other.value, other.mean_weight))
        assert one.rows == sum(times)
    assert "by-unit" in [note.kind for note in found.notes]


def test_rows_differ_within_units_by_hand() -> None:
    table = {
        "shown": [["a", "b"], ["b", "a"], ["a", "b"]],
        "rs": [[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]],
        "user": [7, 8, 7],
    }
    log = slates.read(
        table, slate="shown", rewards="rs", behavior=slates.Uniform(["a", "b"]), unit="user"
    )
    found = slates.evaluate(log, slates.Deterministic(["a", "b"]))
    # weights 2, 0, 2: unit 7 earns (2 + 4) / 2, unit 8 nothing
    assert found.value == pytest.approx(1.5)
    assert found.logging_value == pytest.approx((1.5 + 1.0) / 2)
    assert found.mean_weight == pytest.approx(1.0)
    # the position's log has the same units
    assert log.position(1).columns.unit == "user"
    by = slates.by_position(log, slates.Deterministic(["a", "b"])).positions
    # unit 7 earns 2 in the first position, and (0 + 2) / 2 in the second
    assert [one.value for one in by] == pytest.approx([1.0, 0.5])
    assert [one.rows for one in by] == [3, 3]


def test_splits_and_learning_keep_units_whole() -> None:
    table = repeated(SlateBandit("independent").table(400, 0), [3] * 400)
    table["x"] = np.random.default_rng(0).normal(size=1200).tolist()
    log = read(table, unit="user", context="x")
    parts = log.split(0.5, 3)
    assert parts.train_rows % 3 == parts.test_rows % 3 == 0
    learned = slates.learn(log)
    assert learned.evaluation.units == learned.evaluation.rows // 3
    assert learned.evaluation.lower is not None


def test_what_is_refused() -> None:
    table = repeated(SlateBandit("cascade").table(5, 0), [1] * 5)
    log = read(table | {"user": ["u"] * 5}, unit="user")
    with pytest.raises(DataError, match="one value of the unit column 'user'"):
        slates.evaluate(log, TARGET)
    with pytest.raises(DataError, match="'user' is missing"):
        slates.evaluate(read(table | {"user": ["u", None, "v", "w", "x"]}, unit="user"), TARGET)
    with pytest.raises(UsageError, match="unit and weight exclude each other"):
        read(table | {"s": [1.0] * 5}, unit="user", weight="s")
    with pytest.raises(DataError, match="is not positive"):
        slates.evaluate(read(table | {"s": [0.0] * 5}, weight="s"), TARGET)
    with pytest.raises(DataError, match="'no'"):
        read(table, unit="no")
    log = read(table, unit="user", logger="learning")
    assert slates.evaluate(log, TARGET).no_interval is not None
    with pytest.raises(UsageError, match="its logger learned"):
        log.split()


TARGET = TARGET_COLUMNS


def test_undeclared_units_are_noted() -> None:
    table = repeated(SlateBandit("cascade").table(5, 0), [1] * 5)
    found = slates.evaluate(read(table), TARGET)
    assert any("'user'" in note for note in found.notes)


@pytest.mark.parametrize("estimator", ESTIMATORS)
@pytest.mark.parametrize("normalized", [False, True])
def test_whole_sampling_weights_are_copies(estimator: str, normalized: bool) -> None:
    table = SlateBandit("cascade").table(60, 0)
    times = np.random.default_rng(2).integers(1, 6, 60)
    how: dict[str, Any] = {"estimator": estimator, "self_normalized": normalized}
    many = slates.evaluate(read(repeated(table, times.tolist())), TARGET, **how)
    log = read(table | {"s": times.astype(float).tolist()}, weight="s")
    found = slates.evaluate(log, TARGET, **how)
    assert found.value == pytest.approx(many.value, rel=1e-12)
    assert found.logging_value == pytest.approx(many.logging_value)
    assert found.mean_weight == pytest.approx(many.mean_weight)
    for one, other in zip(found.by_slot, many.by_slot, strict=True):
        assert (one.value, one.mean_weight) == pytest.approx((other.value, other.mean_weight))
        assert one.rows == 60
    assert found.no_interval is not None
    assert (found.no_interval.kind, found.lower, found.improvement_lower) == ("thinned", None, None)
    assert found.guarantee == "none"
    normal = slates.evaluate(log, TARGET, interval="normal", **how)
    assert normal.lower is not None
    assert normal.guarantee == "asymptotic"


@pytest.mark.statistics
@pytest.mark.parametrize("interval", ["deadline", "mixture"])
def test_intervals_by_unit_hold_where_rows_of_a_unit_are_alike(interval: str) -> None:
    """A tenth of the users see their one slate ten times; rewards are those of the first time.

    How many rows a user has does not depend on what is shown, so the mean over users is the value.
    """
    bandit, wrong, narrow, naive = SlateBandit("cascade"), 0, 0, 0
    for seed in range(150):
        table = bandit.table(300, seed)
        times = np.where(np.arange(300) % 10 == 0, 10, 1).tolist()
        log = read(repeated(table, times), unit="user")
        found = slates.evaluate(log, TARGET, estimator="cascade", interval=interval, delta=0.1)
        wrong += misses(found, bandit.value)
        narrow += found.upper is not None and found.upper - (found.lower or 0.0) < 1.0
        rows = slates.evaluate(
            read(repeated(table, times)), TARGET, estimator="cascade", interval="normal", delta=0.1
        )
        naive += misses(rows, bandit.value)
    # of 150 intervals at 90 %, more than 26 wrong ones have a probability below .002
    assert wrong <= 26
    assert narrow > 75
    # without units, they are wrong far more often
    assert naive > 40


@pytest.mark.statistics
@pytest.mark.parametrize("estimator", ["standard", "cascade"])
def test_weighted_values_are_right_for_a_thinned_log(estimator: str) -> None:
    """Rows without a click are kept with probability .2, and weigh 5."""
    bandit, wrong, values, plain = SlateBandit("cascade"), 0, [], []
    for seed in range(150):
        table = bandit.table(1500, seed)
        clicked = np.array(table["rs"]).sum(axis=1) > 0
        kept = np.flatnonzero(clicked | (np.random.default_rng(seed + 10_000).random(1500) < 0.2))
        thinned = {name: [values_[i] for i in kept] for name, values_ in table.items()}
        thinned["s"] = np.where(clicked[kept], 1.0, 5.0).tolist()
        found = slates.evaluate(
            read(thinned, weight="s"), TARGET, estimator=estimator, interval="normal", delta=0.1
        )
        assert found.lower is not None
        assert found.upper is not None
        wrong += not found.lower <= bandit.value <= found.upper
        values.append(found.value)
        plain.append(slates.evaluate(read(thinned), TARGET, estimator=estimator).value)
    error = np.std(values) / np.sqrt(150)
    assert abs(np.mean(values) - bandit.value) < 4 * error
    assert np.mean(plain) > bandit.value * 1.1
    assert wrong <= 30
