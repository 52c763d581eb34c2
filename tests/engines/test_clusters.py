"""Logs on Spark and Dask: the laws, the same numbers, accidents, and errors in one line."""

import os
import signal
import threading
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.engines import reporting
from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.logs import Log, read
from piwo.reductions import Digest, Gram, Joint, reduce
from piwo.scores import PseudoLoss
from piwo.sources.spark_session import canceled_by_interrupts
from tests.engines.clusters import DaskHome, Home, SparkFilesHome, SparkHome, layouts, plain
from tests.reductions import test_laws as laws

pytestmark = [pytest.mark.clusters, pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning")]

HOMES = ("spark", "spark, files", "dask, threads", "dask, cluster")
LAYOUTS = tuple(layouts(laws.table()))
BY_ROW_NUMBER = {
    "folds",
    "reward model",
    "forward sums",
    "model variates",
    "Efron-Stein",
    "by segment",
}
"""Reductions that go by row numbers, which no cluster promises."""


@pytest.fixture(params=HOMES)
def home(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    made = {
        "spark": lambda: SparkHome(request.getfixturevalue("spark")),
        "spark, files": lambda: SparkFilesHome(request.getfixturevalue("spark"), tmp_path),
        "dask, threads": lambda: DaskHome(pytest.importorskip("dask.dataframe") and None),
        "dask, cluster": lambda: DaskHome(request.getfixturevalue("dask_cluster")),
    }[request.param]()
    with made.chosen():
        yield made


def log_of(frame: Any, **more: Any) -> Log:
    roles = {
        "propensity": "propensity",
        "propensities": "mu",
        "weight": "weight",
        "policy_columns": "pi",
    }
    return read(frame, **({"context": "x*", "actions": range(laws.ACTIONS)} | roles | more))


def without_rows(state: Any) -> Any:
    """The heaviest rows without their numbers."""
    if not hasattr(state, "top"):
        return state
    return state.count, state.weight, sorted((w, code, p) for w, _, code, p in state.top.rows)


# --- laws


@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_reduction_gives_the_same_numbers_for_every_layout(home: Home, layout: str) -> None:
    names = []
    for name in laws.REDUCTIONS:
        # Blocks of rows without a key are by row number, too.
        if name not in BY_ROW_NUMBER and "blocks" not in name:
            names.append(name)
    everything = Joint(tuple(laws.REDUCTIONS[name]() for name in names))
    expected = everything.update(everything.empty(), laws.whole())
    found = reduce(log_of(home.frame(layouts(laws.table())[layout])), everything)
    for name, one, other in zip(names, found, expected, strict=True):
        assert type(one) is type(other), name
        laws.same(without_rows(one), without_rows(other))


def test_results_by_segment_are_those_of_one_machine(home: Home) -> None:
    roles: dict[str, Any] = {"propensities": None, "weight": None}
    frame = home.frame(layouts(laws.table())["reordered"])
    policy = piwo.policies.Uniform(range(laws.ACTIONS))
    asked: dict[str, Any] = {"by": "part", "interval": "mixture"}
    found = piwo.evaluate(log_of(frame, **roles, segments="part"), policy, **asked)
    expected = piwo.evaluate(log_of(laws.table(), **roles), policy, **asked)
    for one, other in zip(found.segments, expected.segments, strict=True):
        assert (one.label, one.rows) == (other.label, other.rows)
        assert one.value == pytest.approx(other.value, rel=1e-9)
        assert one.lower == pytest.approx(other.lower, rel=1e-9)


@pytest.mark.parametrize("accident", ["raises", "killed"])
@pytest.mark.parametrize("home", ["spark", "dask, cluster"], indirect=True)
def test_a_task_that_fails_and_a_worker_that_dies_change_nothing(
    home: Home, accident: Any, tmp_path: Path
) -> None:
    parts, once = layouts(laws.table())["reordered"], tmp_path / f"{type(home).__name__}-{accident}"
    log = log_of(home.frame(parts, accident, str(once)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = reduce(log, Digest())
    assert once.exists()
    assert found == reduce(laws.log(), Digest())


@pytest.mark.parametrize("where", [None, "x0 > 99.5"])
def test_units_that_are_spread_over_partitions_come_together(home: Home, where: str | None) -> None:
    user = np.random.default_rng(2).integers(0, 60, laws.N)
    table = laws.table().append_column("user", pa.array([f"u{i}" for i in user]))
    by_unit = {"unit": "user", "weight": None, "where": where}
    frame = home.frame(layouts(table)["reordered"])
    policy = piwo.policies.Constant(2, range(laws.ACTIONS))
    found, expected = (
        piwo.evaluate(log_of(rows, **by_unit), policy) for rows in (frame, plain(table))
    )
    assert (found.units, found.rows) == (expected.units, expected.rows)
    for name in ("value", "lower", "upper", "improvement_lower", "ess", "standard_error"):
        assert getattr(found, name) == pytest.approx(getattr(expected, name), rel=1e-9)


def test_users_that_are_not_declared_are_found(home: Home) -> None:
    user = np.random.default_rng(2).integers(0, 60, laws.N)
    table = laws.table().append_column("user_id", pa.array([f"u{i}" for i in user]))
    frame = home.frame(layouts(table)["reordered"])
    (found,), (expected,) = (piwo.check(log_of(x)).unit_columns for x in (frame, plain(table)))
    assert (found.column, found.dependent) == ("user_id", expected.dependent)
    assert (found.rows_each, found.z) == pytest.approx((expected.rows_each, expected.z), rel=1e-9)


# --- whole stories


def story(n: int = 3000) -> pa.Table:
    rng = np.random.default_rng(5)
    x, shop = rng.normal(size=n), rng.choice(["north", "south"], n)
    action = rng.integers(0, 3, n)
    best = np.where(x > 0, 0, np.where(shop == "north", 1, 2))
    return pa.table(
        {
            "action": np.array(["a", "b", "c"])[action],
            "reward": (rng.random(n) < np.where(action == best, 0.8, 0.2)).astype(float),
            "propensity": np.full(n, 1 / 3),
            "x.0": x,
            "shop": shop,
            "event": [f"event-{i}" for i in range(n)],
        }
    )


def said(result: Any) -> Any:
    """What a result says, but for the moment and the row numbers."""
    return {k: v for k, v in result.to_dict().items() if k not in {"created", "heaviest"}}


def near(value: Any) -> Any:
    """The same to 1e-12, however deep the numbers lie."""
    if isinstance(value, dict):
        return {k: near(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [near(x) for x in value]
    return pytest.approx(value, rel=1e-12, abs=1e-12) if isinstance(value, float) else value


@pytest.mark.parametrize("key", [None, "event"])
def test_check_evaluate_compare_and_certify_say_the_same(home: Home, key: str | None) -> None:
    """Without keys rows have no numbers in a cluster, so deadline bets need a key."""
    table = story()
    roles = {"context": ["x*", "shop"], "key": key}
    here = read(table, **roles)
    there = read(
        home.frame([table.slice(1000, 2000), table.slice(0, 0), table.slice(0, 1000)]), **roles
    )
    assert there.actions == here.actions
    assert there.features == here.features
    assert len(there) == len(here)
    assert said(piwo.check(there)) == near(said(piwo.check(here)))
    policy = piwo.oracles.Ridge().solve(here, piwo.IX(0.05))
    policies = {"new": policy, "uniform": piwo.policies.Uniform(here.actions)}
    sure = {"new": policy}
    found = piwo.compare(there, sure)["new"]
    assert found.interval == ("mixture" if key is None else "deadline")
    assert any("name a unique row id (key)" in note for note in found.notes) == (key is None)
    interval = "mixture" if key is None else "auto"
    expected = piwo.compare(here, policies, interval=interval)
    for name, found in piwo.compare(there, policies, interval=interval).items():
        assert said(found) == near(said(expected[name]))
    one, other = (piwo.certify(log, sure, interval=interval)["new"] for log in (there, here))
    assert said(one) == near(said(other))


CONDITIONS = {
    "a few": "\"x.0\" > 0.3 and shop = 'north' and reward is not null",
    "none of the first thousand": "cast(split_part(event, '-', 2) as bigint) >= 1500",
    "all columns": "columns(*) is not null",
    "by the time": "now() > timestamp '2020-01-01' and shop = 'south'",
}


@pytest.mark.parametrize("where", CONDITIONS.values(), ids=CONDITIONS)
def test_a_condition_keeps_the_rows_that_it_keeps_on_one_machine(home: Home, where: str) -> None:
    table = story()
    roles = {"context": ["x*", "shop"], "where": where}
    here = read(table, **roles)
    there = read(
        home.frame([table.slice(0, 1000), table.slice(0, 0), table.slice(1000, 2000)]), **roles
    )
    assert (there.actions, there.features, len(there)) == (here.actions, here.features, len(here))
    assert len(here) > 0
    assert said(piwo.check(there)) == near(said(piwo.check(here)))
    shift = there.first_batch(context=True)
    assert shift is not None
    assert len(shift) > 0


def test_conditions_that_are_none_are_refused_there_too(home: Home) -> None:
    frame = home.frame([story(50)])
    for where, what in (
        ("random() < 0.5", "other rows at every pass"),
        ("nosuch > 1", "nosuch"),
        ("1; 2", "not one"),
    ):
        with pytest.raises(piwo.PiwoError, match=what):
            read(frame, where=where)
    nothing = read(frame, where="reward > 7")
    with pytest.raises(piwo.DataError, match=r"no rows in .* where reward > 7"):
        piwo.check(nothing)


def test_a_grid_learned_there_is_the_same_file_with_the_same_certificate(
    home: Home, tmp_path: Path
) -> None:
    table = story()
    roles = {"context": ["x*", "shop"], "key": "event"}
    here = piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(read(table, **roles))
    parts = [table.slice(2000, 1000), table.slice(0, 0), table.slice(0, 2000)]
    there = piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(read(home.frame(parts), **roles))
    there.policy_.save(tmp_path / "there.piwo")
    read_back = piwo.load(tmp_path / "there.piwo")
    assert np.allclose(read_back.coef, here.policy_.coef, rtol=1e-12, atol=1e-12)
    assert np.allclose(read_back.intercept, here.policy_.intercept, rtol=1e-12, atol=1e-12)
    assert read_back.features == here.policy_.features
    assert said(there.certificate_) == near(said(here.certificate_))
    assert list(there.path_) == pytest.approx(list(here.path_), rel=1e-12)


# --- errors


def broken(column: str, value: Any, *rows: int) -> list[pa.Table]:
    table = plain(laws.table())
    values = table[column].to_pylist()
    for row in rows:
        values[row] = value
    i = table.schema.get_field_index(column)
    table = table.set_column(i, column, pa.array(values, table.schema.field(column).type))
    return [table.slice(0, 0), table.slice(0, 500), table.slice(500)]


def test_rows_that_break_a_rule_are_named_in_one_line(home: Home) -> None:
    log = log_of(home.frame(broken("propensity", 0.0, 10, 499, 503)), propensities=None)
    with pytest.raises(DataError) as caught:
        reduce(log, Digest())
    words = str(caught.value)
    assert "\n" not in words
    assert words.startswith(
        "column 'propensity' is 0, which cannot happen for an action that was taken, in 3 rows "
        "(counted from 0: row 10 of partition 1, row 499 of partition 1, row 3 of partition 2)"
    )


def test_errors_of_sums_come_back_as_they_are(home: Home) -> None:
    mu = np.full(laws.ACTIONS, 1 / (laws.ACTIONS - 1))
    mu[0] = 0.0
    log = log_of(home.frame(broken("mu", mu.tolist(), 600)), propensity=None)
    with pytest.raises(UsageError, match=r"^PIWO-PL needs [^\n]*row 100 of partition 2 [^\n]*$"):
        reduce(log, Gram((PseudoLoss(0.1),), laws.ACTIONS, np.zeros(laws.WIDTH)))


def test_harmless_findings_are_one_warning_and_rows_are_told_once(home: Home) -> None:
    told: list[int] = []
    log = log_of(home.frame(broken("pi", 1.00001, 10, 600)))
    with (
        reporting(lambda rows, total: told.append(rows)),
        pytest.warns(PiwoWarning, match="in 2 rows") as caught,
    ):
        reduce(log, Digest())
    assert len([one for one in caught if one.category is PiwoWarning]) == 1
    assert sum(told) == laws.N


def test_a_log_without_rows_is_an_error(home: Home) -> None:
    nothing = plain(laws.table()).slice(0, 0)
    with pytest.raises(DataError, match=r"no rows in the (Spark|Dask) DataFrame"):
        reduce(log_of(home.frame([nothing, nothing])), Digest())


def test_what_needs_all_rows_in_one_place_is_refused(home: Home) -> None:
    table = story(30)
    log = read(home.frame([table]), context="x*")
    for work in (
        lambda: next(log.each_batch()),
        lambda: piwo.oracles.Softmax().solve(log, piwo.IX(0.1)),
        lambda: log.split(0.5),
        lambda: log.split(0.5, tail=True),
        lambda: piwo.evaluate(log, np.full(30, 0.5)),
        lambda: piwo.estimators.forward_model(log),
        lambda: piwo.evaluate(log, piwo.policies.Uniform(log.actions), interval="bootstrap"),
        lambda: piwo.oracles.Ridge().solve_folds(log, [piwo.IX(0.1)], np.arange(30) % 2),
    ):
        with pytest.raises(UsageError, match=r"^[^\n]*(Spark|Dask) DataFrame[^\n]*$"):
            work()


@pytest.mark.parametrize("home", ["spark"], indirect=True)
def test_an_interrupt_cancels_the_job(home: SparkHome, tmp_path: Path) -> None:
    begun = tmp_path / "begun"

    def slow(batches: Any) -> Any:
        begun.touch()
        time.sleep(60)
        yield from batches

    frame = home.frame([plain(laws.table())])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about versions of pandas
        log = log_of(frame.mapInArrow(slow, frame.schema))

    def press() -> None:
        while not begun.exists():
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()
    with pytest.raises(KeyboardInterrupt):
        reduce(log, Digest())
    tracker = home.session.sparkContext.statusTracker()
    ends = time.monotonic() + 10
    while tracker.getActiveJobsIds() and time.monotonic() < ends:
        time.sleep(0.05)
    assert tracker.getActiveJobsIds() == []


def test_an_interrupt_is_one_whatever_spark_makes_of_it() -> None:
    """The interrupt breaks the connection, and the next call on it fails with an error of its
    own."""
    errors = pytest.importorskip("py4j.protocol", reason="needs Spark: pip install 'piwo[spark]'")
    called: list[str] = []

    class Session:
        def addTag(self, tag: str) -> None:  # noqa: N802 (as Spark calls it)
            called.append("add")

        def removeTag(self, tag: str) -> None:  # noqa: N802
            called.append("remove")

        def interruptTag(self, tag: str) -> None:  # noqa: N802
            called.append("cancel")
            if called.count("cancel") == 1:
                raise errors.Py4JError("Answer from Java side is empty")

    def collect() -> None:
        try:
            raise KeyboardInterrupt
        finally:
            raise errors.Py4JError("Answer from Java side is empty")

    with pytest.raises(KeyboardInterrupt), canceled_by_interrupts(Session()):
        collect()
    assert called == ["add", "cancel", "cancel", "remove"]
    with pytest.raises(ValueError, match="other"), canceled_by_interrupts(Session()):
        raise ValueError("other")
    assert called[4:] == ["add", "remove"]
