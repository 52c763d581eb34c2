"""Rows of one unit depend on each other: statistics, splits and bounds are of units."""

import dataclasses
import math
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo import bounds
from piwo.errors import DataError, UsageError
from piwo.logs import read
from piwo.logs.hashing import key_numbers
from piwo.logs.units import UnitSource, order_of_units, whole_units
from piwo.policies import Constant, Logging, Tabular, Uniform
from piwo.reductions import Digest, reduce
from piwo.reductions.bets import bet_sums
from piwo.sources import source as sources_module
from piwo.sources.table import TableSource

N, UNITS = 1_000, 83
COLUMNS = {"action": "a", "reward": "r", "propensity": "p", "unit": "user"}


def frame(seed: int = 0) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    mu = random.dirichlet(np.ones(3), N).clip(0.05)
    mu /= mu.sum(axis=1, keepdims=True)
    action = np.array([random.choice(3, p=row) for row in mu])
    user = random.integers(0, UNITS, N)
    return pd.DataFrame(
        {
            "user": [f"u{i}" for i in user],
            "a": np.array(["x", "y", "z"])[action],
            "r": (random.random(N) < 0.2 + 0.3 * (user % 2)).astype(float),
            "p": mu[np.arange(N), action],
            "mu": list(mu),
        }
    )


def log(rows: Any = None, **options: Any) -> piwo.Log:
    return read(frame() if rows is None else rows, **COLUMNS, **options)


def unit_means(rows: pd.DataFrame, action: str) -> pd.DataFrame:
    """The means of w, w R, w (1 - R) and w R + 1 - R over the rows of each unit."""
    w = (rows.a == action) / rows.p
    of = {"w": w, "value": w * rows.r, "loss": w * (1 - rows.r), "better": w * rows.r + 1 - rows.r}
    return pd.DataFrame({**of, "user": rows.user}).groupby("user").mean()


def test_evaluate_is_of_the_means_of_units() -> None:
    rows = frame()
    found = piwo.evaluate(log(rows), Constant("x", ["x", "y", "z"]), interval="mixture")
    means = unit_means(rows, "x")
    n, half = len(means), math.log(2 / 0.05)
    assert (found.units, found.rows, found.unit) == (n, N, "user")
    assert found.value == pytest.approx(means.value.mean(), rel=1e-12)
    assert found.standard_error == pytest.approx(means.value.std(ddof=1) / n**0.5, rel=1e-9)
    assert found.ess == pytest.approx(means.w.sum() ** 2 / (means.w**2).sum(), rel=1e-12)
    lower = bounds.value_lower(bet_sums(means.value), n, half)
    upper = 1 - bounds.value_lower(bet_sums(means.loss), n, half)
    assert (found.lower, found.upper) == pytest.approx((lower, upper), rel=1e-9)
    better = bounds.improvement_lower(bet_sums(means.better), n, math.log(1 / 0.05))
    assert found.improvement_lower == pytest.approx(better, rel=1e-9)
    assert "by-unit" in {note.kind for note in found.notes}
    assert "units" in piwo.evaluate(log(rows.head(90)), Uniform(["x", "y", "z"])).notes[0]


def test_texts_of_whole_numbers_are_these_numbers() -> None:
    """CSV files have no types: their keys and units are those of the same Parquet file."""
    numbers = [0, 7, -3, 10**17, 8 * 10**18, -(10**17)]
    texts = pa.array([str(x) for x in numbers])
    assert (key_numbers(texts, "k") == key_numbers(pa.array(numbers), "k")).all()
    odd = pa.array(["07", "-0", "+7", "7.0", "", "1e3", " 7", "99999999999999999999"])
    assert not set(key_numbers(odd, "k")) & set(key_numbers(pa.array([7, 0, 1000]), "k"))


def test_certificates_are_of_units() -> None:
    rows, actions = frame(), ["x", "y", "z"]
    policies = {"x": Constant("x", actions)}
    found = piwo.certify(log(rows, actions=actions), policies, interval="mixture")["x"]
    means = unit_means(rows, "x")
    lower = bounds.value_lower(bet_sums(means.value), len(means), math.log(1 / 0.05))
    assert found.value_lower == pytest.approx(lower, rel=1e-9)
    assert (found.units, found.rows) == (len(means), N)
    assert f"{len(means)} units ('user', 1,000 rows)" in str(found)
    regret = piwo.regret_certificate(
        log(rows, actions=actions), Constant("x", actions), {"y": Constant("y", actions)}
    )
    assert regret.units == len(means)


def test_one_row_a_unit_is_no_unit() -> None:
    rows = frame().assign(user=range(N))
    actions = ["x", "y", "z"]
    options: dict[str, Any] = {**COLUMNS, "propensity": None, "propensities": "mu"}
    rows = rows.assign(action=rows.a)
    plain = read(rows, **{**options, "unit": None}, actions=actions)
    by_unit = read(rows, **options, actions=actions)
    for policy in (Constant("y", actions), Uniform(actions), Logging(actions)):
        for interval in ("mixture", "mixture-cv", "ix", "gamma-exponential", "normal"):
            one = piwo.evaluate(plain, policy, interval=interval).to_dict()
            two = piwo.evaluate(by_unit, policy, interval=interval).to_dict()
            for name in ("value", "standard_error", "lower", "upper", "ess", "improvement_lower"):
                if one[name] is None:
                    assert two[name] is None
                else:
                    assert two[name] == pytest.approx(one[name], rel=1e-9, abs=1e-12)
    assert piwo.check(by_unit).action_p == pytest.approx(piwo.check(plain).action_p)


@pytest.mark.parametrize("kind", ["table", "parquet", "csv", "sql", "where", "mapper", "arrays"])
def test_every_source_gives_the_same_numbers(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 64)
    rows = frame().drop(columns="mu")
    expected = piwo.evaluate(log(rows), Constant("x", ["x", "y", "z"]))
    # Units are spread over files and row groups.
    for i in range(4):
        part = rows.iloc[i::4]
        pq.write_table(pa.Table.from_pandas(part), tmp_path / f"{i}.parquet", row_group_size=50)
    files = [str(path) for path in sorted(tmp_path.glob("*.parquet"))]
    rows.to_csv(tmp_path / "log.csv", index=False)
    made = {
        "table": lambda: log(pa.Table.from_pandas(rows)),
        "parquet": lambda: log(files),
        "csv": lambda: log(tmp_path / "log.csv"),
        "sql": lambda: log(f"from '{tmp_path}/*.parquet'"),
        "where": lambda: log(files, where="user <> 'nobody'"),
        "mapper": lambda: log(files),
        "arrays": lambda: piwo.Log.from_arrays(
            action=rows.a, reward=rows.r, propensity=rows.p, unit=rows.user
        ),
    }[kind]()
    policy = Constant("x", ["x", "y", "z"])
    if kind == "mapper":
        with ThreadPoolExecutor(3) as pool, piwo.using(pool):
            found = piwo.evaluate(made, policy)
    else:
        found = piwo.evaluate(made, policy)
    for name in ("value", "lower", "upper", "standard_error", "ess", "units", "rows"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-12)


def test_a_split_parts_units() -> None:
    parts = log().split(0.3, seed=1)
    sides = []
    for side in (parts.train, parts.test):
        numbers = np.concatenate([batch.row_numbers for batch in side.each_batch()])
        sides.append(set(frame().user.iloc[numbers]))
    assert not sides[0] & sides[1]
    assert len(sides[0] | sides[1]) == frame().user.nunique()
    assert 0.1 < len(sides[1]) / UNITS < 0.5
    assert parts.train_rows + parts.test_rows == N
    with pytest.raises(UsageError, match="both sides"):
        log().split(0.3, tail=True)


def test_row_numbers_are_those_of_the_log() -> None:
    batches = list(log().each_batch())
    numbers = np.concatenate([batch.row_numbers for batch in batches])
    reward = np.concatenate([batch.reward for batch in batches])
    assert sorted(numbers) == list(range(N))
    assert (frame().r.to_numpy()[numbers] == reward).all()
    bad = frame()
    bad.loc[[17, 400], "r"] = np.nan
    with pytest.raises(DataError, match=r"2 rows \(row numbers from 0: 17, 400\)"):
        piwo.evaluate(log(bad), Constant("x", ["x", "y", "z"]))


def test_missing_units_and_a_single_one_are_refused() -> None:
    lacking = frame()
    lacking.loc[[3, 5, 900], "user"] = None
    with pytest.raises(DataError, match=r"column 'user' is missing in 3 rows \(.*: 3, 5, 900\)"):
        piwo.evaluate(log(lacking), Uniform(["x", "y", "z"]))
    with pytest.raises(DataError, match=r"all 1,000 rows .* one value of the unit column 'user'"):
        piwo.evaluate(log(frame().assign(user=7)), Uniform(["x", "y", "z"]))
    with pytest.raises(DataError, match="unit column 'user' has type double"):
        piwo.evaluate(log(frame().assign(user=0.5)), Uniform(["x", "y", "z"]))
    with pytest.raises(DataError, match="no column 'usr' for the unit; did you mean 'user'"):
        read(frame(), **{**COLUMNS, "unit": "usr"})
    with pytest.raises(UsageError, match="unit column 'a' has another role"):
        read(frame(), **{**COLUMNS, "unit": "a"})
    with pytest.raises(UsageError, match="expected one of the two"):
        read(frame().assign(s=1.0), **COLUMNS, weight="s")


@pytest.mark.parametrize("interval", ["eslb", "empirical-likelihood", "clopper-pearson"])
def test_intervals_of_independent_rows_are_refused(interval: str) -> None:
    rows = frame()
    options = {**COLUMNS, "propensity": None, "propensities": "mu"}
    made = read(rows, **options, actions=["x", "y", "z"])
    with pytest.raises(UsageError, match="treats rows as independent"):
        piwo.evaluate(made, Uniform(["x", "y", "z"]), interval=interval)
    monitor = piwo.Monitor(Uniform(["x", "y", "z"]), horizon=1000)
    with pytest.raises(UsageError, match="a monitor treats rows as independent"):
        monitor.update(made)


def test_weights_beyond_float64() -> None:
    # Unit 1 has a row of weight 1e310: its mean w R is beyond float64, and a bet on it is finite.
    rows = pd.DataFrame(
        {
            "user": [1, 1, 2, 2, 3, 3],
            "a": ["x"] * 6,
            "r": [1.0, 0.0, 1.0, 1.0, 0.0, 0.0],
            "p": [1e-310, 0.5, 0.5, 0.5, 0.5, 0.25],
        }
    )
    found = reduce(
        log(rows, actions=["x", "y"]),
        piwo.reductions.PolicySums(Constant("x", ["x", "y"]), piwo.IW()),
    )
    lam = piwo.reductions.BETS
    expected = np.log(lam) - math.log(1e-310) - math.log(2) + np.log1p(lam * 2.0)
    assert np.allclose(found.bets.value, expected, rtol=1e-12)
    assert (found.moments.rows, found.moments.logged) == (3, 6)


def test_a_unit_larger_than_a_batch_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    table = pa.table({"u": [1] * 5 + [2] * 300 + [3] * 2 + [4] * 70, "x": range(377)})
    records = table.to_batches(max_chunksize=60)
    sizes = [(x["u"][0].as_py(), len(x)) for x in whole_units(iter(records), "u", 64)]
    assert sizes == [(1, 5), (2, 300), (3, 2), (4, 70)]
    small = whole_units(iter(table.slice(300).to_batches(max_chunksize=3)), "u", 1000)
    assert sum(len(x) for x in small) == 77


def test_copies_are_made_once_and_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    made = log()
    for _ in range(2):
        reduce(made, Digest())
        reduce(dataclasses.replace(made, reward_range=(0.0, 2.0)), Digest())
    assert len(list(tmp_path.iterdir())) == 1
    del made
    assert not list(tmp_path.iterdir())


def test_a_checkpoint_resumes_after_the_copy_is_gone(tmp_path: Path) -> None:
    pq.write_table(pa.Table.from_pandas(frame().drop(columns="mu")), tmp_path / "log.parquet")
    with piwo.checkpointing(tmp_path / "kept"):
        found = piwo.evaluate(log(tmp_path / "log.parquet"), Constant("x", ["x", "y", "z"]))
    again = piwo.evaluate(log(tmp_path / "log.parquet"), Constant("x", ["x", "y", "z"]))
    assert found.to_dict() == again.to_dict()


def test_learning_certifies_by_unit() -> None:
    rows = frame().assign(x=np.arange(N) % 7)
    learner = piwo.PIWO(holdout=0.5, random_state=0).fit(log(rows, context="x", logger="fixed"))
    certificate = learner.certificate_
    assert certificate.units is not None
    assert 20 < certificate.units < 60
    assert certificate.unit == "user"


def test_rows_of_the_copy_hold_every_row_once() -> None:
    source = UnitSource(TableSource(pa.table({"u": [3, 1, 3, 2, 1], "x": range(5)})), "u")
    found = [
        x for part in source.fragments(["x"]) for r in part.records() for x in r["x"].to_pylist()
    ]
    assert sorted(found) == list(range(5))


def test_policies_are_compared_on_the_rows_of_large_batches() -> None:
    """Row numbers of a batch by unit are in no order: probabilities are looked up all the same."""
    random = np.random.default_rng(0)
    n = 6_000
    x, action = random.random(n), random.integers(0, 3, n)
    reward = np.where(action == 1, x < 0.5, (action == 0) & (random.random(n) < 0.1)).astype(float)
    rows = {"action": action, "reward": reward, "propensity": 1 / 3, "x": x, "unit": range(n)}
    log, by_unit = (
        read(pd.DataFrame(rows), context="x", actions=[0, 1, 2], **more)
        for more in ({}, {"unit": "unit"})
    )
    policy = piwo.policies.Deterministic(lambda X: np.where(X[:, 0] >= 0.5, 1, 2), log.actions)
    other = piwo.policies.Deterministic(lambda X: np.where(X[:, 0] >= 0.3, 2, 0), log.actions)
    for baseline in (other, Constant(0, log.actions)):
        one, two = (
            piwo.certify(rows, {"p": policy}, baseline=baseline, interval="mixture")["p"]
            for rows in (log, by_unit)
        )
        assert two.improvement_lower == pytest.approx(one.improvement_lower, rel=1e-9)
        one, two = (
            piwo.evaluate(rows, policy, baseline=baseline, interval="mixture")
            for rows in (log, by_unit)
        )
        assert two.improvement_lower == pytest.approx(one.improvement_lower, rel=1e-9)
        one, two = (
            piwo.regret_certificate(rows, policy, {"other": baseline}, interval="mixture")
            for rows in (log, by_unit)
        )
        assert two.regret_upper == pytest.approx(one.regret_upper, rel=1e-9)


def test_the_unit_may_be_context_too() -> None:
    rows = frame().assign(x=np.arange(N) % 50)
    found = read(rows, **COLUMNS, context="user")
    assert piwo.check(found).units == rows.user.nunique()
    learner = piwo.PIWO(oracle=piwo.oracles.Ridge(), certificate=None)
    assert learner.fit(read(rows, **COLUMNS, context=["x", "us*"], logger="fixed")).policy_


def test_files_with_and_without_categories_come_together(tmp_path: Path) -> None:
    rows = frame().drop(columns="mu")
    expected = piwo.evaluate(log(rows), Constant("x", ["x", "y", "z"]))
    rows.iloc[:500].assign(a=rows.a[:500].astype("category")).to_parquet(tmp_path / "0.parquet")
    rows.iloc[500:].to_parquet(tmp_path / "1.parquet")
    found = piwo.evaluate(log(str(tmp_path / "*.parquet")), Constant("x", ["x", "y", "z"]))
    assert found.value == pytest.approx(expected.value, rel=1e-12)


def test_text_labels_give_the_numbers_of_whole_numbers(tmp_path: Path) -> None:
    """Dictionaries of row groups and files differ, and some files have too many texts for one."""
    rng = np.random.default_rng(0)
    n, m = 600, 4
    starts = rng.integers(0, 30, n)
    could = (starts[:, None] + np.arange(m)).tolist()
    taken = (starts + rng.integers(0, m, n)).tolist()
    table = pa.table(
        {
            "action": taken,
            "eligible": could,
            "reward": rng.random(n),
            "propensity": np.full(n, 1 / m),
            "user": rng.integers(0, 90, n),
        }
    )
    pq.write_table(table, tmp_path / "numbers.parquet")
    named = table.set_column(0, "action", pa.array([f"item {i}" for i in taken]))
    named = named.set_column(1, "eligible", pa.array([[f"item {i}" for i in row] for row in could]))
    (tmp_path / "texts").mkdir()
    for k, dictionaries in enumerate([True, False, True]):
        pq.write_table(
            named.slice(200 * k, 200),
            tmp_path / "texts" / f"{k}.parquet",
            row_group_size=70,
            use_dictionary=dictionaries,
        )
    results = []
    for path, first in (("numbers.parquet", 0), ("texts/*.parquet", len("item "))):
        log = read(tmp_path / path, eligible="eligible", unit="user", logger="fixed")
        shares = np.array([1.0 + int(str(label)[first:]) for label in log.actions.labels])
        results.append(piwo.evaluate(log, Tabular(shares / shares.sum(), log.actions)))
    one, other = results
    assert one.ess < n
    assert other.value == pytest.approx(one.value, rel=1e-12)
    assert (other.lower, other.upper) == pytest.approx((one.lower, one.upper), rel=1e-12)


@pytest.mark.parametrize("bits", [3, 33, 47, 63])
def test_equal_numbers_become_neighbors(bits: int) -> None:
    random = np.random.default_rng(bits)
    numbers = random.integers(0, 2**bits - 1, 400, dtype=np.int64)
    # Some numbers share their upper bits.
    numbers = random.choice(np.concatenate([numbers, numbers ^ 1, numbers ^ 5]), 5_000)
    order = order_of_units(numbers)
    assert sorted(order.tolist()) == list(range(5_000))
    assert (np.diff(numbers[order]) != 0).sum() + 1 == len(np.unique(numbers))


@pytest.mark.parametrize("kind", ["parquet", "csv", "json"])
def test_files_that_change_between_passes_are_refused(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{kind}"

    def write(rows: pd.DataFrame) -> None:
        if kind == "parquet":
            rows.to_parquet(path)
        elif kind == "csv":
            rows.to_csv(path, index=False)
        else:
            path.write_text(rows.to_json(orient="records"))

    rows = frame().drop(columns="mu")
    write(rows)
    for where in (None, "r >= 0"):
        opened = log(path, where=where)
        before = piwo.evaluate(opened, Uniform(opened.actions)).value
        assert piwo.evaluate(opened, Uniform(opened.actions)).value == before
        changed = rows.assign(r=1 - rows.r)
        write(changed)
        with pytest.raises(DataError, match=r"has changed since its rows were read \(unit\)"):
            piwo.evaluate(opened, Constant("x", opened.actions))
        opened = log(path)
        assert piwo.evaluate(opened, Uniform(opened.actions)).value != before
        path.unlink()
        with pytest.raises(DataError, match=r"has changed since its rows were read \(unit\)"):
            piwo.evaluate(opened, Constant("x", opened.actions))
        write(rows)
