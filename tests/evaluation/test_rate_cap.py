"""A declared cap on rates: upper ends that assume it and say so, and logs that contradict it."""

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest

import piwo
from piwo import bounds
from piwo.cli.main import main
from piwo.errors import DataError, UsageError
from piwo.policies import Column, Constant, Uniform
from piwo.reductions import reduce
from piwo.reductions.rate_cells import RateCells


def rows(n: int = 4000, rate: float = 0.01) -> dict[str, Any]:
    random = np.random.default_rng(7)
    peaked = random.random(n) < 0.98
    action = np.where(peaked, 0, random.integers(1, 3, n))
    return {
        "action": action,
        "reward": (random.random(n) < rate) * 1.0,
        "propensity": np.where(action == 0, 0.98, 0.01),
    }


def columns(**more: Any) -> dict[str, Any]:
    return {"action": "action", "reward": "reward", "propensity": "propensity"} | more


def log_of(data: dict[str, Any], **more: Any) -> piwo.Log:
    return piwo.read(pl.DataFrame(data), actions=[0, 1, 2], **columns(**more))


def found(log: piwo.Log, **more: Any) -> piwo.Evaluation:
    return piwo.evaluate(log, Uniform(log.actions), rate_cap=0.05, **more)


def test_the_upper_end_is_the_bound_under_the_cap() -> None:
    log = log_of(rows())
    plain, one = piwo.evaluate(log, Uniform(log.actions)), found(log)
    cells = reduce(log, RateCells(Uniform(log.actions))).cells
    # 9/10 of delta/2
    expected = bounds.rate_cap_upper(cells, 4000, 0.05, -math.log(0.9 * 0.025))
    assert one.upper == pytest.approx(expected, rel=1e-12)
    assert plain.upper is not None
    assert expected < plain.upper / 2
    assert (one.lower, one.upper_without_cap) == (plain.lower, plain.upper)
    assert one.improvement_lower == plain.improvement_lower
    assert (one.rate_cap, plain.rate_cap, plain.upper_without_cap) == (0.05, None, None)


def test_the_assumption_is_said_wherever_the_interval_is() -> None:
    one = found(log_of(rows()))
    assert "if E[reward | context, action] <= 0.05)" in str(one).splitlines()[0]
    (note,) = (note for note in one.notes if note.kind == "rate-cap")
    assert "assumes E[reward | context, action] <= 0.05 for every context and action" in note
    assert f"without it the upper end is {one.upper_without_cap:.4g}" in note
    assert one.to_dict()["rate_cap"] == 0.05


def test_an_estimate_near_zero_makes_no_infinite_number() -> None:
    data = rows(500, 0.0) | {"reward": (np.arange(500) == 0) * 1e-310}
    log = log_of(data)
    plain = piwo.evaluate(log, Uniform(log.actions), interval="mixture")
    (note,) = (note for note in plain.notes if note.kind == "upper-end")
    assert "is more than a million times the estimate" in note


def test_a_far_upper_end_says_why_and_what_would_help() -> None:
    data = rows(500, 0.0) | {"reward": (np.arange(500) % 100 == 0) * 1.0}
    log = log_of(data)
    plain = piwo.evaluate(log, Uniform(log.actions), interval="mixture")
    kinds = [note.kind for note in plain.notes]
    (note,) = (note for note in plain.notes if note.kind == "upper-end")
    assert plain.upper is not None
    assert plain.value is not None
    assert plain.upper > 20 * plain.value
    assert "if you know one (rate_cap), the probability of every action, or a logger" in note
    capped = found(log, interval="mixture")
    assert "upper-end" in kinds
    assert "upper-end" not in [note.kind for note in capped.notes]
    near = piwo.evaluate(log, Constant(0, log.actions), interval="mixture")
    assert "upper-end" not in [note.kind for note in near.notes]


def test_a_cap_that_says_little_costs_little() -> None:
    """The interval's own upper end keeps a tenth of delta/2."""
    data = rows(2000)
    policy = Column("pi")
    log = piwo.read(
        pl.DataFrame(data | {"pi": data["propensity"]}),
        policy_columns="pi",
        actions=[0, 1, 2],
        **columns(),
    )
    plain = piwo.evaluate(log, policy)
    one = piwo.evaluate(log, policy, rate_cap=0.999)
    assert plain.upper is not None
    assert one.upper is not None
    assert one.upper < 1.35 * plain.upper


@pytest.mark.parametrize(
    ("interval", "horizon"),
    [
        ("mixture", None),
        ("mixture", 5000),
        ("mixture", "universal"),
        ("deadline", None),
        ("ix", None),
        ("ix", "universal"),
        ("hoeffding:50", None),
    ],
)
def test_with_every_proved_interval_and_a_horizon(interval: str, horizon: Any) -> None:
    gamma = 0.01 if interval == "ix" else "auto"
    one = found(log_of(rows()), interval=interval, horizon=horizon, gamma=gamma)
    assert one.upper is not None
    assert one.upper < 0.05


def test_policies_together_pay_for_each_other() -> None:
    log = log_of(rows())
    both = piwo.compare(
        log, {"u": Uniform(log.actions), "c": Constant(0, log.actions)}, rate_cap=0.05, baseline="c"
    )
    alone = found(log, delta=0.025)
    assert both["u"].upper == pytest.approx(alone.upper, rel=1e-12)


def test_the_cap_is_in_the_unit_of_the_reward() -> None:
    data = rows()
    unit = found(log_of(data))
    other = log_of(data | {"reward": 10.0 * data["reward"] - 2.0}, reward_range=(-2.0, 8.0))
    one = piwo.evaluate(other, Uniform(other.actions), rate_cap=10 * 0.05 - 2)
    assert unit.upper is not None
    assert one.upper == pytest.approx(10 * unit.upper - 2, rel=1e-9)
    assert one.rate_cap == pytest.approx(-1.5)


def test_units_of_equal_rows_are_rows() -> None:
    data = rows()
    repeated = {name: np.repeat(column, 3) for name, column in data.items()}
    log = log_of(repeated | {"unit": np.repeat(np.arange(4000), 3)}, unit="unit")
    assert found(log).upper == pytest.approx(found(log_of(data)).upper, rel=1e-9)


def test_propensities_that_may_be_too_small_are_allowed_for() -> None:
    log = log_of(rows())
    wider = found(log, propensity_factor=1.25).upper
    plain = found(log).upper
    assert plain is not None
    assert wider is not None
    assert plain < wider < 0.05


def test_a_log_with_a_higher_rate_contradicts_the_cap() -> None:
    log = log_of(rows(rate=0.12))
    with pytest.raises(
        DataError, match=r"rate_cap=0.05 is contradicted.*its rows earned 0\.1"
    ) as e:
        found(log)
    assert "\n" not in str(e.value)


def test_rows_of_one_weight_alone_contradict_the_cap() -> None:
    data = rows(20_000, 0.0)
    often = (data["action"] > 0) & (np.arange(20_000) % 3 == 0)
    log = log_of(data | {"reward": often * 1.0})
    message = r"rows of weight 32 to 64 under policy 'uniform' earned 0\.3\d* on average \(p = "
    with pytest.raises(DataError, match=message):
        found(log)


def test_a_lower_end_above_the_cap_contradicts_it() -> None:
    """Here the rows are too few for the test of the cap, which demands p < .001."""
    log = log_of(rows(60, 0.2))
    message = r"the value of policy 'constant:0' is at most 0\.05 under it, and at least 0\.08955"
    with pytest.raises(DataError, match=message):
        piwo.evaluate(log, Constant(0, log.actions), rate_cap=0.05, delta=0.6, interval="mixture")


@pytest.mark.parametrize(
    ("cap", "message"),
    [
        (0.0, r"rate_cap=0\.0: expected a mean reward between 0 and 1"),
        (1.0, r"rate_cap=1\.0: expected a mean reward"),
        (-0.1, r"rate_cap=-0\.1: expected"),
        (math.nan, "rate_cap=nan: expected"),
        ("x", "rate_cap='x': expected"),
        (True, "rate_cap=True: expected"),
    ],
)
def test_caps_that_are_refused(cap: Any, message: str) -> None:
    log = log_of(rows(100))
    with pytest.raises(UsageError, match=message):
        piwo.evaluate(log, Uniform(log.actions), rate_cap=cap)


def test_logs_and_intervals_without_caps() -> None:
    data = rows(100)
    cost = piwo.read(
        pl.DataFrame(data),
        actions=[0, 1, 2],
        action="action",
        cost="reward",
        propensity="propensity",
    )
    with pytest.raises(UsageError, match="this log has costs"):
        found(cost)
    with pytest.raises(UsageError, match="needs rewards with an upper end"):
        found(log_of(data, reward_range=(0, math.inf)))
    sample = log_of(data | {"s": np.full(100, 2.0)}, weight="s")
    with pytest.raises(UsageError, match="has sampling weights"):
        found(sample)
    with pytest.raises(UsageError, match="interval='normal' is asymptotic"):
        found(log_of(data), interval="normal")


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame(rows()).write_parquet(path)
    words = ["evaluate", str(path), "--policy", "uniform", "--quiet"]
    assert main([*words, "--rate-cap", ".05", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    (policy,) = document["policies"]
    log = piwo.read(path, **columns())
    one = found(log)
    assert (policy["lower"], policy["upper"]) == (one.lower, one.upper)
    assert (policy["rate_cap"], policy["upper_without_cap"]) == (0.05, one.upper_without_cap)
    assert document["notes"][0].endswith("if E[reward | context, action] <= 0.05 (declared)")
    assert main([*words, "--rate-cap", ".05"]) == 0
    text = capsys.readouterr().out
    assert "if E[reward | context, action] <= 0.05 (declared)" in text
    assert "note: " in text
    assert "without it the upper end is" in text
    assert main([*words, "--rate-cap", ".001"]) != 0
    error = capsys.readouterr().err
    assert "--rate-cap=0.001 is contradicted by this log" in error
    assert len(error.splitlines()) == 1


@pytest.mark.parametrize(("cap", "upper"), [(0.05, 0.02222), (0.02, 0.01324)])
def test_the_open_bandit_log(cap: float, upper: float, shared_data: Path) -> None:
    log = piwo.read(
        shared_data / "obd_bts_all.parquet",
        action="item_id",
        reward="click",
        propensity="propensity_score",
    )
    one = piwo.evaluate(log, Uniform(log.actions), rate_cap=cap)
    assert one.upper == pytest.approx(upper, abs=1e-5)
    assert one.lower is not None
    # the truth of the whole log
    assert one.lower < 0.0038 < one.upper


def test_weights_beyond_float64_are_truncated_like_others() -> None:
    data = rows() | {"propensity": np.where(np.arange(4000) == 5, 5e-324, 1.0)}
    log = piwo.read(
        pl.DataFrame(data | {"pi": np.ones(4000)}),
        policy_columns="pi",
        actions=[0, 1, 2],
        **columns(),
    )
    cells = reduce(log, RateCells(Column("pi"))).cells
    assert np.isfinite(cells).all()
    assert cells[-1].sum() == pytest.approx(1.0 + 2.0**47)
    assert 0 < bounds.rate_cap_upper(cells, 4000, 0.05, 3.0) < 0.05
