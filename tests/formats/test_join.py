"""Outcomes joined to decisions: a table worked by hand, a naive twin, and what is refused."""

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, UsageError
from piwo.evaluation import evaluate
from piwo.formats import Joined, join
from piwo.logs import read
from piwo.policies import Uniform

SHOWN = {
    "id": ["a", "b", "c", "d", "e"],
    "time": [0, 1, 2, 12, 14],
    "action": ["x", "y", "x", "y", "x"],
    "propensity": [0.5] * 5,
}
CAME = {
    "id": ["a", "a", "b", "c", "z", "d", "e", "e", "d"],
    "time": [3, 4, 12, 1, 5, 13, 15, 16, 30],
    "reward": [0.25, 1.0, 1.0, 1.0, 1.0, 0.5, 0.75, 0.125, 1.0],
}
"""With a window of 10 up to 16: a has two, b comes one too late, c comes too early, z is unknown, d
and e are not over, d has one more that is not known yet."""


def counts(made: Joined) -> dict[str, int]:
    return {name: x for name, x in vars(made).items() if isinstance(x, int)}


def test_by_hand() -> None:
    made = join(SHOWN, CAME, on="id", window=10, until=16)
    assert counts(made) == {
        "decisions": 5,
        "arrived": 3,
        "absent": 2,
        "open": 0,
        "outcomes": 9,
        "used": 3,
        "repeated": 2,
        "late": 1,
        "early": 1,
        "unmatched": 1,
        "later": 1,
    }
    assert made.rows.to_pydict() == SHOWN | {
        "reward": [0.25, 0.0, 0.0, 0.5, 0.75],
        "reward_low": [0.25, 0.0, 0.0, 0.5, 0.75],
        "reward_high": [0.25, 0.0, 0.0, 0.5, 0.75],
        "reward_state": ["arrived", "absent", "absent", "arrived", "arrived"],
        "reward_closed": [True, True, True, False, False],
    }
    assert made.mean_low == made.mean_high == pytest.approx(1.5 / 5)
    assert "5 decisions: 3 with an outcome, 2 without, 0 open; 9 outcomes: 3 used" in str(made)


@pytest.mark.parametrize(
    ("several", "rewards"),
    [
        ("first", [0.25, 0.0, 0.0, 0.5, 0.75]),
        ("last", [1.0, 0.0, 0.0, None, None]),
        ("sum", [1.25, 0.0, 0.0, None, None]),
        ("max", [1.0, 0.0, 0.0, None, None]),
    ],
)
def test_several_outcomes_of_a_decision(several: Any, rewards: list[float | None]) -> None:
    made = join(SHOWN, CAME, on="id", window=10, until=16, several=several, reward_range=(0, 2))
    assert made.rows["reward"].to_pylist() == rewards
    low = [0.0 if x is None else x for x in rewards]
    high = [2.0 if x is None else x for x in rewards]
    assert made.rows["reward_low"].to_pylist() == low
    assert made.rows["reward_high"].to_pylist() == high
    assert (made.mean_low, made.mean_high) == (
        pytest.approx(sum(low) / 5),
        pytest.approx(sum(high) / 5),
    )
    assert made.open == rewards.count(None)


def test_worst_case_values_contain_that_of_what_comes_later() -> None:
    rng = np.random.default_rng(0)
    n = 400
    shown = {
        "id": np.arange(n),
        "time": np.arange(n),
        "action": rng.integers(0, 2, n),
        "propensity": np.full(n, 0.5),
    }
    came = {"id": np.arange(n), "time": np.arange(n) + 20, "reward": rng.random(n)}
    policy = Uniform([0, 1])
    now = join(shown, came, on="id", window=50, until=300)
    assert (now.arrived, now.open) == (281, 119)
    low = read(now.rows, reward="reward_low")
    high = read(now.rows, reward="reward_high")
    later = read(join(shown, came, on="id", window=50, until=n + 50).rows)
    value = evaluate(later, policy).value
    assert value is not None
    assert evaluate(low, policy).value <= value <= evaluate(high, policy).value  # type: ignore[operator]
    closed = read(now.rows, where="reward_closed")
    assert len(closed) == 251  # t + 50 <= 300


def test_times_are_those_of_utc_in_any_form(tmp_path: Path) -> None:
    shown = pa.table(
        {
            "id": ["007", "8"],
            "when": pa.array([date(2026, 1, 1), date(2026, 1, 2)]),
        }
    )
    came = "event,at,money\n007,2026-01-02T01:00:00+01:00,0.5\n7,2026-01-03T00:00:00Z,1\n"
    (tmp_path / "came.csv").write_text(came)
    options: dict[str, Any] = {
        "on": ("id", "event"),
        "time": ("when", "at"),
        "outcome": "money",
        "window": timedelta(days=1),
    }
    # an id is text: 007 is not 7; exactly one day later is within the window
    made = join(shown, tmp_path / "came.csv", **options)
    assert made.rows["money"].to_pylist() == [0.5, 0.0]
    assert (made.used, made.unmatched) == (1, 1)
    assert made.until == datetime(2026, 1, 3, tzinfo=UTC)
    made = join(shown, tmp_path / "came.csv", until=date(2026, 1, 2), **options)
    assert made.rows["money_state"].to_pylist() == ["arrived", "open"]


@pytest.mark.parametrize(
    ("text", "hours"),
    [("48h", 48), ("2 days", 48), ("2d", 48), ("90 min", 1.5), ("1.5 hours", 1.5), ("5400s", 1.5)],
)
def test_windows_are_texts_too(text: str, hours: float) -> None:
    shown = {
        "id": [1, 2],
        "time": [datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 1, 2, tzinfo=UTC)],
    }
    came = {
        "id": [1, 2],
        "time": [datetime(2026, 1, 1, 1, 30, tzinfo=UTC), datetime(2026, 1, 3, 10, tzinfo=UTC)],
        "reward": [1, 1],
    }
    options: dict[str, Any] = {"on": "id", "until": date(2026, 2, 1)}
    made = join(shown, came, window=text, **options)
    assert counts(made) == counts(join(shown, came, window=timedelta(hours=hours), **options))
    assert made.arrived == (2 if hours == 48 else 1)
    assert str(join(SHOWN, CAME, on="id", window="10")) == str(
        join(SHOWN, CAME, on="id", window=10)
    )
    for wrong in ("soon", "1M", "7 fortnights", ".d"):
        with pytest.raises(UsageError, match="expected a span such as 48h, 7d, 30 min"):
            join(shown, came, window=wrong, **options)
    with pytest.raises(UsageError, match="window is 172800, expected a span of time such as 48h"):
        join(shown, came, window=172800, **options)


def test_a_naive_twin_agrees_from_files_and_in_files(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    n, m = 300, 500
    shown = pa.table({"id": rng.permutation(n), "time": rng.random(n) * 100, "x": rng.random(n)})
    came = pa.table(
        {"id": rng.integers(0, n + 50, m), "time": rng.random(m) * 120, "reward": rng.random(m)}
    )
    pq.write_table(shown, tmp_path / "shown.parquet")
    pa.csv.write_csv(came, tmp_path / "came.csv")
    made = join(
        tmp_path / "shown.parquet",
        str(tmp_path / "came.csv"),
        on="id",
        window=20.0,
        until=90.0,
        several="max",
        absent=0.5,
        out=tmp_path / "joined.parquet",
    )
    rows = pq.read_table(made.rows).to_pylist()
    assert [x["time"] for x in rows] == sorted(shown["time"].to_pylist())
    outcomes = came.to_pylist()
    for row in rows:
        mine = [
            x["reward"]
            for x in outcomes
            if x["id"] == row["id"] and row["time"] <= x["time"] <= min(row["time"] + 20.0, 90.0)
        ]
        expected = None
        if row["time"] + 20.0 <= 90.0:
            expected = max(mine, default=0.5)
        assert row["reward"] == expected
    found = counts(made)
    assert (
        found["outcomes"]
        == m
        == sum(found[x] for x in ("used", "repeated", "late", "early", "unmatched", "later"))
    )
    assert found["decisions"] == n == found["arrived"] + found["absent"] + found["open"]


@pytest.mark.parametrize(
    ("shown", "came", "options", "message"),
    [
        ({"id": ["a", "a", "b", "c", "d"]}, {}, {}, "ids more than once .such as 'a'."),
        ({"id": [None, "a", "b", "c", "d"]}, {}, {}, "1 decisions without an id"),
        ({"time": [0, 1, 2, 3, None]}, {}, {}, "1 decisions without a time"),
        ({}, {"time": [None] * 2 + [1] * 7}, {}, "2 outcomes without a time"),
        ({"time": [0.0, 1.0, 2.0, 3.0, np.inf]}, {}, {}, "1 decisions without a time"),
        ({}, {"time": [np.inf] + [1.0] * 8}, {}, "1 outcomes without a time"),
        ({}, {"time": [np.nan] + [1.0] * 8}, {"until": None}, "1 outcomes without a time"),
        ({}, {"time": [1.0] * 8 + [-np.inf]}, {"until": None}, "1 outcomes without a time"),
        ({}, {"reward": ["x"] * 9}, {}, "9 outcomes whose 'reward' is not a number"),
        ({}, {"reward": [9.0] * 9}, {}, r"3 rewards outside of \[0, 1\]"),
        ({}, {}, {"several": "refuse"}, "2 decisions with several outcomes"),
        ({}, {}, {"several": "all"}, "several is 'all', expected one of first, last"),
        ({}, {}, {"absent": 2.0}, r"absent is 2.0, expected a reward in \[0, 1\]"),
        ({}, {}, {"on": "user"}, "the decisions have no column 'user'; they have 'id', 'time'"),
        ({}, {}, {"outcome": "y"}, "the outcomes have no column 'y'"),
        ({"Reward": [0] * 5}, {}, {}, "the decisions have a column 'reward', which the join"),
        ({}, {}, {"window": timedelta(1)}, "window is .*, expected a number"),
        ({}, {}, {"window": -1}, "window is -1, expected at least 0"),
        ({}, {}, {"until": date(2026, 1, 1)}, "until is .*, expected a number"),
        ({"time": [date(2026, 1, 1)] * 5}, {}, {}, "times of two kinds: DATE in the"),
        ({}, {}, {"on": ("a", "b", "c")}, "on is .*, expected the name of a column"),
    ],
)
def test_what_is_refused(shown: Any, came: Any, options: Any, message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message):
        join(SHOWN | shown, CAME | came, **({"on": "id", "window": 10, "until": 16} | options))


def test_numbers_with_a_point_are_the_ids_of_whole_numbers() -> None:
    shown = {"id": [1, 2, 10**15], "time": [0, 0, 0]}
    came = {"id": [1.0, None, 1e15, 2.5], "time": [1, 1, 1, 1], "reward": [1.0, 1.0, 0.5, 1.0]}
    made = join(shown, came, on="id", window=5, until=9)
    assert (made.used, made.unmatched) == (2, 2)
    assert sorted(made.rows["reward"].to_pylist()) == [0.0, 0.5, 1.0]
    with pytest.raises(DataError, match="1 decisions without an id"):
        join({"id": [1.0, np.nan], "time": [0, 0]}, came, on="id", window=5)


def test_no_outcomes_need_an_end(tmp_path: Path) -> None:
    nothing = pa.table(
        {
            "id": pa.array([], pa.string()),
            "time": pa.array([], pa.int64()),
            "reward": pa.array([], pa.float64()),
        }
    )
    with pytest.raises(UsageError, match="up to when they would be; give until"):
        join(SHOWN, nothing, on="id", window=10)
    assert join(SHOWN, nothing, on="id", window=10, until=100).absent == 5
    with pytest.raises(UsageError, match="the decisions are an int"):
        join(3, nothing, on="id", window=10)
    (tmp_path / "log.vw").write_text("1:0:0.5 |\n")
    with pytest.raises(UsageError, match="is a vw log"):
        join(SHOWN, tmp_path / "log.vw", on="id", window=10)
