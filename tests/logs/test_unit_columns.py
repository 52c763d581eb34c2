"""Columns that look like ids of persons: whether `check` finds that their rows depend on each
other, from every kind of source, and how rarely it does if they do not."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.engines.packed import packed, unpacked
from piwo.logs.person_columns import is_person
from piwo.logs.unit_columns import UnitState, candidates
from piwo.sources import source as sources_module

UNITS, EACH = 100, 20


def rows(seed: int = 0, alike: bool = True, **columns: Any) -> pd.DataFrame:
    """Users who like one of two arms; not alike: rewards of independent coins."""
    random = np.random.default_rng(seed)
    n = UNITS * EACH
    user, action = random.permutation(np.arange(n) % UNITS), random.integers(0, 2, n)
    reward = (action == random.integers(0, 2, UNITS)[user]) & (random.random(n) < 0.8)
    if not alike:
        reward = random.random(n) < 0.4
    # A user who earns more, whatever is done.
    reward |= alike & (user % 4 == 0)
    return pd.DataFrame(
        {
            "user_id": [f"u{i}" for i in user],
            "action": np.array(["a", "b"])[action],
            "reward": reward.astype(float),
            "propensity": 0.5,
            **columns,
        }
    )


def found_in(log: piwo.Log) -> list[tuple[str, str]]:
    health = piwo.check(log)
    return [(x.severity, x.text) for x in health.findings if x.kind == "units"]


def test_rows_of_a_user_that_depend_on_each_other_need_care() -> None:
    health = piwo.check(piwo.read(rows()))
    (column,) = health.unit_columns
    assert (column.column, column.person, column.dependent) == ("user_id", True, True)
    assert column.rows_each == EACH
    assert health.verdict == "fit with care"
    ((severity, text),) = found_in(piwo.read(rows()))
    assert severity == "care"
    assert "one value of 'user_id' are alike (20 rows a value, z = " in text
    assert text.endswith("read the log with unit='user_id'")
    assert found_in(piwo.read(rows(), unit="user_id")) == []
    assert json.loads(json.dumps(health.to_dict()))["unit_columns"][0]["column"] == "user_id"


def test_users_in_the_context_are_found() -> None:
    log = piwo.read(rows(user_age=3), context="user_*")
    assert log.columns.context == ("user_id", "user_age")
    ((severity, text),) = found_in(log)
    assert severity == "care"
    assert text.endswith("read the log with unit='user_id'")
    assert piwo.check(log).verdict == "fit with care"


def test_rows_that_do_not_depend_on_each_other_get_a_note() -> None:
    health = piwo.check(piwo.read(rows(alike=False)))
    assert health.verdict == "fit"
    ((severity, text),) = found_in(piwo.read(rows(alike=False)))
    assert severity == "note"
    assert "consider reading the log with unit='user_id'" in text


def test_other_ids_get_a_note() -> None:
    log = piwo.read(rows().rename(columns={"user_id": "store_id"}))
    ((severity, text),) = found_in(log)
    assert severity == "note"
    assert "'store_id' are alike" in text
    assert "if such rows come from one user or session" in text


def test_the_sums_against_pandas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 64)
    table = rows()
    table["reward"] = table.groupby("user_id").reward.transform("mean").round() * 0.5 + 0.25
    z = piwo.check(piwo.read(table)).unit_columns[0].z
    d = table.reward - table.reward.mean()
    n, groups = len(table), d.groupby(table.user_id)
    pairs = (groups.size() * (groups.size() - 1)).sum()
    products = (groups.sum() ** 2 - (d**2).groupby(table.user_id).sum()).sum()
    expected = (products + pairs * d.var() / n) / (d.var() * np.sqrt(2 * pairs))
    assert z == pytest.approx(expected, rel=1e-9)


@pytest.mark.parametrize("kind", ["parquet", "csv", "sql", "where", "mapper", "cost", "split"])
def test_every_source_finds_the_same(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = rows(other=1)
    expected = piwo.check(piwo.read(table)).unit_columns
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 64)
    for i in range(4):
        part = pa.Table.from_pandas(table.iloc[i::4], preserve_index=False)
        pq.write_table(part, tmp_path / f"{i}.parquet", row_group_size=50)
    files = [str(path) for path in sorted(tmp_path.glob("*.parquet"))]
    table.to_csv(tmp_path / "log.csv", index=False)
    made: dict[str, Callable[[], piwo.Log]] = {
        "parquet": lambda: piwo.read(files),
        "csv": lambda: piwo.read(tmp_path / "log.csv"),
        "sql": lambda: piwo.read(f"from '{tmp_path}/*.parquet'"),
        "where": lambda: piwo.read(files, where="other = 1"),
        "mapper": lambda: piwo.read(files),
        "cost": lambda: piwo.read(
            table.assign(cost=-3 * table.reward).drop(columns="reward"),
            cost="cost",
            reward_range=(0, 3),
        ),
        "split": lambda: piwo.read(files).split(0.5, seed=1).test,
    }
    log = made[kind]()
    if kind == "mapper":
        with ThreadPoolExecutor(3) as pool, piwo.using(pool):
            found = piwo.check(log).unit_columns
    else:
        found = piwo.check(log).unit_columns
    if kind == "split":
        assert found[0].rows_each == pytest.approx(EACH / 2, rel=0.1)
        return
    assert found[0].rows_each == expected[0].rows_each
    assert found[0].z == pytest.approx(expected[0].z, rel=1e-9)


def test_rows_without_an_id_are_skipped() -> None:
    table = rows(alike=False)
    # Rows of nobody in particular have rewards that are alike.
    table.loc[:500, ["user_id", "reward"]] = [None, 1.0]
    table.loc[500:900, ["user_id", "reward"]] = ["", 1.0]
    ((severity, _),) = found_in(piwo.read(table))
    assert severity == "note"


@pytest.mark.parametrize(
    "column",
    [
        {"user_age": np.arange(2000) % 50},
        {"item_id": np.arange(2000) % 50},
        {"id": np.arange(2000) % 50},
        {"user_id": np.arange(2000) / 7},
        {"session": np.arange(2000)},
        {"device": ["mobile", "desktop"] * 1000},
    ],
)
def test_what_is_no_unit_finds_nothing(column: dict[str, Any]) -> None:
    log = piwo.read(rows().drop(columns="user_id").assign(**column))
    assert piwo.check(log).unit_columns == ()


def test_candidates_have_no_role_and_persons_come_first() -> None:
    table = rows(store_id=1, visitor=1, shopId=1, customer_key="x", sessionID=1)
    assert candidates(piwo.read(table)) == ("user_id", "visitor", "customer_key")
    log = piwo.read(table, context=["sessionID", "store_id"], key="customer_key")
    # Ids of persons are looked at in the context, too; other ids there may be why rows are alike.
    assert candidates(log) == ("user_id", "visitor", "sessionID")
    log = piwo.read(table.drop(columns=["user_id", "visitor"]), context="store_id")
    assert candidates(log) == ("customer_key", "sessionID", "shopId")
    assert candidates(piwo.read(table, unit="visitor")) == ()
    assert [is_person(x) for x in ("uid", "USER_ID", "AccountNumber", "new_user", "ids")] == [
        *[True] * 3,
        *[False] * 2,
    ]


def test_large_logs_keep_a_sample_that_merges() -> None:
    random = np.random.default_rng(0)
    keys = random.integers(0, 5000, 20_000)
    parts = []
    for some in np.array_split(np.arange(20_000), 7):
        part = UnitState()
        for i in np.array_split(some, 3):
            part = part.merge(UnitState.of(keys[i], keys[i] % 3, np.ones(len(i))))
        parts.append(part)
    one = parts[0]
    for part in parts[1:]:
        one = one.merge(part)
    assert one.keys.tolist() == sorted(set(keys.tolist()))[:1024]
    assert one.rows.sum(axis=1).tolist() == [int((keys == k).sum()) for k in one.keys]
    whole = UnitState.of(keys, keys % 3, np.ones(20_000))
    assert (whole.rows == one.rows).all()
    back = unpacked(packed((one,)))[0]
    assert back.keys.tolist() == one.keys.tolist()


def test_the_command_names_its_option(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows().to_csv(tmp_path / "log.csv", index=False)
    assert main(["check", str(tmp_path / "log.csv")]) == 0
    assert "read the log with --unit=user_id" in capsys.readouterr().out


Rewards = Callable[[np.random.Generator, int], npt.NDArray[np.float64]]
KINDS: dict[str, Rewards] = {
    "coins": lambda random, n: (random.random(n) < 0.3) * 1.0,
    "clicks": lambda random, n: (random.random(n) < 0.001) * 1.0,
    "heavy": lambda random, n: random.pareto(1.5, n),
}


@pytest.mark.statistics
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", ["even", "few", "uneven"])
def test_independent_rows_are_seldom_taken_for_dependent(kind: str, sizes: str) -> None:
    random = np.random.default_rng(1)
    alarms, repetitions = 0, 400
    for _ in range(repetitions):
        each = {
            "even": np.full(1024, 8),
            "few": np.full(12, 50),
            "uneven": 1 + random.pareto(1.2, 300).astype(int).clip(0, 3000),
        }[sizes]
        unit = np.repeat(np.arange(len(each)), each)
        reward = KINDS[kind](random, len(unit))
        action = random.integers(0, 3, len(unit))
        alarms += UnitState.of(unit, action, reward).dependence()[1]
    assert alarms / repetitions < 0.01


def test_users_who_like_different_actions_are_found() -> None:
    """Rewards of a user are independent as long as the action is not looked at."""
    random = np.random.default_rng(0)
    user, action = np.repeat(np.arange(100), 50), random.integers(0, 2, 5000)
    reward = (action == random.integers(0, 2, 100)[user]) * 1.0
    z, dependent = UnitState.of(user, action, reward).dependence()
    assert dependent
    # In independent rows of equal action: about 25 of a user, all alike.
    assert z == pytest.approx(24 * np.sqrt(200 / 2), rel=0.1)
    assert not UnitState.of(user, np.zeros(5000, int), reward).dependence()[1]


@pytest.mark.statistics
def test_dependence_that_matters_is_found() -> None:
    """Rates from 0.1 to 0.5: 100 users of 20 rows are worth about 900 independent rows."""
    random = np.random.default_rng(2)
    found = 0
    for _ in range(100):
        user = np.repeat(np.arange(100), 20)
        reward = (random.random(2000) < random.uniform(0.1, 0.5, 100)[user]) * 1.0
        found += UnitState.of(user, random.integers(0, 2, 2000), reward).dependence()[1]
    assert found >= 95
