"""The laws that every reduction obeys, on every engine. A new reduction is one line in
`REDUCTIONS`."""

import dataclasses
import functools
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from piwo.engines import using
from piwo.errors import FileError
from piwo.estimators import ForwardModel
from piwo.estimators.mrdr import WeightedSquares
from piwo.estimators.reward_model import Correction, ModelSums, RewardModel
from piwo.estimators.slope import PathSums
from piwo.evaluation.coverage import CoverageSums
from piwo.health.check import ActionEvidence, ContextGaps
from piwo.intervals.efron_stein import EfronSteinSums
from piwo.intervals.empirical_likelihood import WeightPairs
from piwo.logs import Batch, Log, read
from piwo.logs.segments import Segments
from piwo.policies import Column, Constant, Logging, Tabular, Uniform
from piwo.reductions import (
    BETS,
    ActionTable,
    ControlVariates,
    Digest,
    DigestState,
    Folds,
    ForwardSums,
    Gram,
    Joint,
    ModelVariates,
    MomentState,
    PolicySums,
    Reduction,
    WeightHistogram,
    packed,
    reduce,
    unpacked,
)
from piwo.reductions.action_gram import ActionGram
from piwo.reductions.action_mass import ActionMass
from piwo.reductions.action_mix import ActionMix
from piwo.reductions.action_rewards import ActionRewards
from piwo.reductions.blocks import Partition
from piwo.reductions.by_segment import BySegment
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.digest import LoggerDigest
from piwo.reductions.eligible_gram import EligibleGram
from piwo.reductions.improvement_sums import ImprovementSums
from piwo.reductions.ix_path import IXPath
from piwo.reductions.joint_gram import JointGram
from piwo.reductions.losses import Losses
from piwo.reductions.pair_sums import PairSums
from piwo.reductions.rate_cells import RateCells
from piwo.reductions.repeats import Repeats
from piwo.reductions.row_sample import RowSample
from piwo.reductions.shared_policy import SharedPolicy
from piwo.reductions.unsupported import UnsupportedMass
from piwo.scores import (
    IW,
    IX,
    LS,
    BaselineRelative,
    Clip,
    DoublyRobustLS,
    LSLinear,
    PseudoLoss,
    Shrinkage,
    Switch,
)
from piwo.sources import source as sources_module
from piwo.sources.table import TableSource

N, ACTIONS, WIDTH = 997, 5, 3


def table() -> pa.Table:
    random = np.random.default_rng(7)
    mu = random.dirichlet(np.full(ACTIONS, 0.3), N).clip(1e-9)
    mu /= mu.sum(axis=1, keepdims=True)
    action = np.array([random.choice(ACTIONS, p=row) for row in mu])
    context = random.normal(size=(N, WIDTH)) + 100.0
    return pa.table(
        {
            "action": action,
            "reward": np.where(random.random(N) < 0.5, 0.0, random.random(N)),
            "propensity": mu[np.arange(N), action],
            "mu": pa.FixedSizeListArray.from_arrays(pa.array(mu.ravel()), ACTIONS),
            "weight": 1.0 + random.random(N),
            "pi": random.random(N),
            "part": random.integers(0, 3, N),
            **{f"x{i}": context[:, i] for i in range(WIDTH)},
        }
    )


@functools.cache
def whole_table() -> pa.Table:
    return table()


@functools.cache
def log() -> Log:
    rows = whole_table()
    made = read(
        rows,
        action="action",
        propensity="propensity",
        propensities="mu",
        weight="weight",
        policy_columns="pi",
        context="x*",
        segments="part",
        actions=range(ACTIONS),
    )
    sizes = np.bincount(rows["part"].to_numpy())
    parts = Segments("part", ("0", "1", "2"), tuple(sizes.tolist()))
    return dataclasses.replace(made, segments=parts)


LABELS = range(ACTIONS)
HASHED, IN_TIME = Partition("hash"), Partition("time", (100, 500))
REDUCTIONS: dict[str, Callable[[], Reduction[Any]]] = {
    "digest": Digest,
    "digest of the logger": lambda: LoggerDigest(LABELS),
    "row sample": lambda: RowSample(LABELS, with_context=True),
    "repeats, rows": lambda: Repeats("rows"),
    "repeats, propensities": lambda: Repeats("propensities"),
    "repeats, contents": lambda: Repeats("contents"),
    "action evidence": lambda: ActionEvidence(ACTIONS),
    "action table": lambda: ActionTable(ACTIONS),
    "rate cells": lambda: RateCells(Uniform(LABELS)),
    "weight histogram": lambda: WeightHistogram(Uniform(LABELS)),
    "policy sums, IW": lambda: PolicySums(Uniform(LABELS), IW()),
    "policy sums, IX, without an upper end": lambda: PolicySums(
        Column("pi", LABELS), IX(0.1), bounded=False
    ),
    "policy sums, LS": lambda: PolicySums(Constant(2, LABELS), LS(0.1)),
    "policy sums, logging": lambda: PolicySums(Logging(LABELS), Clip(0.1)),
    "control variates": lambda: ControlVariates(Uniform(LABELS)),
    "control variates, one action, without an upper end": lambda: ControlVariates(
        Constant(2, LABELS), bounded=False
    ),
    "model variates": lambda: ModelVariates(
        Uniform(LABELS), ForwardModel(np.full((9, ACTIONS, WIDTH + 1), 0.01))
    ),
    "shared policy": lambda: SharedPolicy(
        (PolicySums(Uniform(LABELS), IW()), ControlVariates(Uniform(LABELS))), Uniform(LABELS)
    ),
    "policy sums, hashed blocks": lambda: PolicySums(Uniform(LABELS), IW(), partition=HASHED),
    "policy sums, blocks in time": lambda: PolicySums(Uniform(LABELS), IW(), partition=IN_TIME),
    "control variates, hashed blocks": lambda: ControlVariates(Uniform(LABELS), partition=HASHED),
    "control variates, blocks in time": lambda: ControlVariates(Uniform(LABELS), partition=IN_TIME),
    "model variates, hashed blocks": lambda: ModelVariates(
        Uniform(LABELS), ForwardModel(np.full((9, ACTIONS, WIDTH + 1), 0.01)), partition=HASHED
    ),
    "model variates, blocks in time": lambda: ModelVariates(
        Uniform(LABELS), ForwardModel(np.full((9, ACTIONS, WIDTH + 1), 0.01)), partition=IN_TIME
    ),
    "pair, hashed blocks": lambda: PairSums(
        Uniform(LABELS), Constant(1, LABELS), full=True, variates=True, partition=HASHED
    ),
    "pair, blocks in time": lambda: PairSums(
        Column("pi", LABELS), Uniform(LABELS), full=False, partition=IN_TIME
    ),
    "forward sums": lambda: ForwardSums(ACTIONS, WIDTH + 1),
    "credits": lambda: CreditSums((Uniform(LABELS), Constant(0, LABELS)), (IX(0.1), LS(0.2), IW())),
    "improvements": lambda: ImprovementSums((Uniform(LABELS), Constant(0, LABELS)), (0.2, 4.0)),
    "coverage": lambda: CoverageSums(Uniform(LABELS), 0.1, full=False),
    "coverage, full": lambda: CoverageSums(Constant(1, LABELS), 0.1, full=True),
    "credits, dense": lambda: CreditSums(
        (Uniform(LABELS), Constant(0, LABELS)), (DoublyRobustLS(0.2, 0.5), PseudoLoss(0.1))
    ),
    "pair": lambda: PairSums(Uniform(LABELS), Constant(1, LABELS), full=True),
    "pair, with control variates": lambda: PairSums(
        Uniform(LABELS), Constant(1, LABELS), full=True, variates=True
    ),
    "pair, logged actions alone": lambda: PairSums(
        Column("pi", LABELS), Uniform(LABELS), full=False
    ),
    "credits of losses": lambda: CreditSums((Uniform(LABELS),), (IX(0.1),), losses=True),
    "weight pairs": lambda: WeightPairs(Column("pi", LABELS)),
    "Efron-Stein": lambda: EfronSteinSums(Constant(2, LABELS)),
    "path of scores": lambda: PathSums(Uniform(LABELS), (Clip(0.1), Switch(9.0), IX(0.1))),
    "weighted squares": lambda: WeightedSquares(Constant(2, LABELS), WIDTH, ACTIONS),
    "reward model": lambda: ModelSums(
        Uniform(LABELS),
        RewardModel(np.full((N, ACTIONS), 0.5), None, ACTIONS, 0.0, 1.0),
        Correction(Shrinkage(10.0)),
    ),
    "context gaps": lambda: ContextGaps(WIDTH),
    "unsupported mass": lambda: UnsupportedMass(Uniform(LABELS)),
    "policy sums, IW, in another unit": lambda: PolicySums(Uniform(LABELS), IW(), origin=-0.5),
    "action mass": lambda: ActionMass(Uniform(LABELS), (0, 3)),
    "path of gammas": lambda: IXPath((Uniform(LABELS), Column("pi", LABELS)), (0.1, 0.5)),
    "action mix": lambda: ActionMix(Uniform(LABELS), ACTIONS),
    "action mix, logged actions alone": lambda: ActionMix(Column("pi", LABELS), ACTIONS),
    "action rewards": lambda: ActionRewards(ACTIONS),
    "by segment": lambda: BySegment(
        tuple(PolicySums(Uniform(LABELS), IX(gamma), partition=HASHED) for gamma in (0.1, 0.2, 0.3))
    ),
    "gram": lambda: Gram((IX(0.1), LSLinear(0.3), IW()), ACTIONS, np.full(WIDTH, 99.0)),
    "joint gram": lambda: JointGram(
        (IX(0.1), LSLinear(0.3)),
        np.full(WIDTH, 9.0),
        np.linspace(-1.0, 1.0, 2 * ACTIONS).reshape(-1, 2),
    ),
    "joint gram, direct": lambda: JointGram(None, np.zeros(WIDTH), np.ones((ACTIONS, 1))),
    "action gram": lambda: ActionGram(ACTIONS, np.full(WIDTH, 99.0)),
    "eligible gram": lambda: EligibleGram(ACTIONS, np.full(WIDTH, 99.0)),
    "gram, dense": lambda: Gram((PseudoLoss(0.1), IX(0.1)), ACTIONS, np.zeros(WIDTH)),
    "gram, doubly robust": lambda: Gram(
        (DoublyRobustLS(0.2, 0.5), BaselineRelative(0.2)), ACTIONS, np.zeros(WIDTH)
    ),
    "folds": lambda: Folds(
        Gram((IX(0.1), PseudoLoss(0.1)), ACTIONS, np.zeros(WIDTH)), np.arange(10**6) % 3, 3
    ),
    "of losses": lambda: Losses(PolicySums(Uniform(LABELS), IX(0.5))),
    "together": lambda: Joint(
        (Digest(), ActionTable(ACTIONS), PolicySums(Uniform(LABELS), IX(0.5)))
    ),
}


def numbers(state: Any) -> list[float]:
    """Every number of a state, in order."""
    if dataclasses.is_dataclass(state):
        return [x for item in dataclasses.fields(state) for x in numbers(getattr(state, item.name))]
    if isinstance(state, tuple | list):
        return [x for item in state for x in numbers(item)]
    if isinstance(state, np.ndarray):
        return state.ravel().astype(float).tolist()
    return [float(state % (1 << 52)) if isinstance(state, int) else float(state)]


def same(one: Any, other: Any) -> None:
    mine, theirs = np.array(numbers(one)), np.array(numbers(other))
    assert mine.shape == theirs.shape
    assert np.allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@functools.cache
def whole() -> Batch:
    (batch,) = log().each_batch(context=True, propensities=True)
    return batch


@pytest.fixture(autouse=True)
def _read_whole_before_batches_are_made_small() -> None:
    whole()


def folded(reduction: Reduction[Any], rows: np.ndarray) -> Any:
    return reduction.update(reduction.empty(), whole().take(rows))


@functools.cache
def folded_at_once(name: str) -> Any:
    return folded(REDUCTIONS[name](), np.arange(N))


@pytest.mark.parametrize("name", REDUCTIONS)
@settings(max_examples=15)
@given(cuts=st.tuples(st.integers(0, N), st.integers(0, N)))
def test_merging(name: str, cuts: tuple[int, int]) -> None:
    reduction, at_once = REDUCTIONS[name](), folded_at_once(name)
    first, second = sorted(cuts)
    rows = np.arange(N)
    a, b, c = (folded(reduction, x) for x in (rows[:first], rows[first:second], rows[second:]))
    empty = reduction.empty()
    same(reduction.merge(empty, a), a)
    same(reduction.merge(a, empty), a)
    same(reduction.merge(a, b), reduction.merge(b, a))
    merged = reduction.merge(reduction.merge(a, b), c)
    same(merged, reduction.merge(a, reduction.merge(b, c)))
    # split anywhere: the same as at once, and as one batch after the other
    same(merged, at_once)
    same(reduction.update(a, whole().take(rows[first:])), at_once)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_the_order_of_rows_does_not_matter(name: str) -> None:
    reduction = REDUCTIONS[name]()
    same(folded(reduction, np.random.default_rng(0).permutation(N)), folded_at_once(name))


@pytest.mark.parametrize("name", REDUCTIONS)
def test_states_are_not_changed_by_what_is_done_with_them(name: str) -> None:
    reduction = REDUCTIONS[name]()
    state = folded(reduction, np.arange(10))
    before = numbers(state)
    reduction.update(state, whole())
    reduction.merge(state, state)
    assert numbers(state) == before
    assert numbers(reduction.empty()) == numbers(reduction.empty())


@pytest.mark.parametrize("name", REDUCTIONS)
def test_an_empty_batch_changes_nothing(name: str) -> None:
    reduction = REDUCTIONS[name]()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        nothing = folded(reduction, np.arange(0))
    same(nothing, reduction.empty())


def identical(one: Any, other: Any) -> None:
    """The same classes, the same bits and, as sums over arrays depend on it, the same order in
    memory."""
    assert type(one) is type(other)
    if dataclasses.is_dataclass(one):
        for item in dataclasses.fields(one):
            identical(getattr(one, item.name), getattr(other, item.name))
    elif isinstance(one, tuple | list):
        assert len(one) == len(other)
        for mine, theirs in zip(one, other, strict=True):
            identical(mine, theirs)
    elif isinstance(one, np.ndarray):
        assert (one.dtype, one.shape, one.flags.c_contiguous) == (
            other.dtype,
            other.shape,
            other.flags.c_contiguous,
        )
        assert one.tobytes() == other.tobytes()
    else:
        assert repr(one) == repr(other)


@pytest.mark.parametrize("name", REDUCTIONS)
def test_a_state_as_bytes_is_the_same_state(name: str) -> None:
    reduction = REDUCTIONS[name]()
    for state in (reduction.empty(), folded(reduction, np.arange(300))):
        read_back = unpacked(packed(state))
        identical(read_back, state)
        identical(reduction.merge(read_back, state), reduction.merge(state, state))


def test_damaged_bytes_are_no_state() -> None:
    data = packed(folded(Digest(), np.arange(9)))
    for bad in (data[:-30], b"", b"PK", data.replace(b"DigestState", b"DogestState")):
        with pytest.raises(FileError, match="cannot be read"):
            unpacked(bad)


def test_a_state_that_nobody_knows_is_not_looked_for() -> None:
    class Elsewhere(DigestState):
        """As a later version may have it."""

    data = packed(Elsewhere(1, 2))
    Elsewhere.__qualname__ = "Another"
    with pytest.raises(FileError, match="of another version"):
        unpacked(data)


# --- by unit

BY_ROW = {
    "digest",
    "digest of the logger",
    "row sample",
    "repeats, rows",
    "repeats, propensities",
    "repeats, contents",
    "action rewards",
    "action table",
    "weight histogram",  # its heaviest rows
    "forward sums",
    "weight pairs",
    "Efron-Stein",
    "context gaps",
    "action mass",
    "action gram",
    "folds",
    "together",
    # Rows of a unit have many times.
    "policy sums, blocks in time",
    "control variates, blocks in time",
    "model variates, blocks in time",
    "pair, blocks in time",
}
"""Those that count rows, or that do not exist by unit."""


def without_counts(state: Any) -> Any:
    """The same state without what counts rows."""
    if isinstance(state, tuple):
        return tuple(without_counts(one) for one in state)
    if isinstance(state, MomentState):
        return dataclasses.replace(state, logged=0, changed=0)
    if dataclasses.is_dataclass(state):
        own = {item.name: getattr(state, item.name) for item in dataclasses.fields(state)}
        return dataclasses.replace(state, **{name: without_counts(x) for name, x in own.items()})
    return state


@pytest.mark.parametrize("name", sorted(REDUCTIONS.keys() - BY_ROW))
@pytest.mark.parametrize("times", [1, 3])
def test_units_of_equal_rows_are_rows(name: str, times: int) -> None:
    rows = dataclasses.replace(whole(), weight=None, keys=np.arange(N))
    repeated = np.repeat(np.arange(N), times)
    units = rows.take(repeated).of_units(repeated)
    reduction = REDUCTIONS[name]()
    if name == "reward model":
        # Its predictions are looked up by row number.
        units = dataclasses.replace(units, rows=np.repeat(rows.row_numbers, times))
    by_row = reduction.update(reduction.empty(), rows)
    by_unit = reduction.update(reduction.empty(), units)
    same(without_counts(by_unit), without_counts(by_row))


@pytest.mark.parametrize("name", sorted(REDUCTIONS.keys() - BY_ROW))
def test_units_merge(name: str) -> None:
    unit = np.sort(np.random.default_rng(0).integers(0, 60, N))
    rows, cut = dataclasses.replace(whole(), weight=None), int(np.searchsorted(unit, 20))
    reduction = REDUCTIONS[name]()
    state = reduction.empty()
    for part in (slice(cut, N), slice(0, cut)):
        state = reduction.update(state, rows.take(part).of_units(unit[part]))
    same(state, reduction.update(reduction.empty(), rows.of_units(unit)))


# --- on engines


class Serial:
    """A mapper that does one fragment after the other."""

    def map(self, fn: Callable[[Any], Any], fragments: Any) -> Any:
        return [fn(x) for x in fragments]


@pytest.fixture(scope="module")
def processes() -> Any:
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        yield pool


@pytest.mark.parametrize("name", REDUCTIONS)
@pytest.mark.parametrize("rows", [1, 10, N])
def test_threads_give_the_same_numbers_for_every_cut(
    name: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = {1: 40, 10: 595, N: N}[rows]
    expected = folded(REDUCTIONS[name](), np.arange(count))
    monkeypatch.setattr(sources_module, "BATCH_ROWS", rows)
    source = whole_table().slice(0, count)
    cut = dataclasses.replace(log(), source=TableSource(source))
    results = [reduce(cut, REDUCTIONS[name]())]
    with using(Serial()):
        results.append(reduce(cut, REDUCTIONS[name]()))
    with ThreadPoolExecutor(7) as pool, using(pool):
        results.append(reduce(cut, REDUCTIONS[name]()))
    for result in results:
        same(result, expected)
        # the same cut: the same bits, whoever was first
        assert numbers(result) == numbers(results[0])


@pytest.mark.parametrize("name", REDUCTIONS)
def test_processes_give_the_same_numbers(
    name: str, processes: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 100)
    with using(processes):
        result = reduce(log(), REDUCTIONS[name]())
    same(result, folded_at_once(name))


def test_a_tabular_policy_crosses_processes(processes: Any) -> None:
    policy = Tabular(np.full((1, ACTIONS), 1 / ACTIONS), actions=LABELS)
    with using(processes):
        result = reduce(log(), PolicySums(policy, IW()))
    same(result, reduce(log(), PolicySums(Uniform(LABELS), IW())))


# --- digest


def test_the_digest_sees_every_decision_and_no_order() -> None:
    digest = Digest()

    def text(rows: np.ndarray, **changes: Any) -> str:
        batch = dataclasses.replace(whole().take(rows), **changes)
        return digest.update(digest.empty(), batch).text(log().actions)

    rows = np.arange(50)
    first = text(rows)
    assert text(rows[::-1]) == first
    part = whole().take(rows)
    for column in ("action", "reward", "propensity"):
        values = getattr(part, column).copy()
        values[7] = (values[7] + 1) % 5 if column == "action" else np.nextafter(values[7], 2.0)
        assert text(rows, **{column: values}) != first
    assert text(rows[:-1]) != first
    assert text(np.append(rows[:-1], 0)) != first
    assert text(rows, reward=np.where(part.reward == 0, -0.0, part.reward)) == first
    state = digest.update(digest.empty(), part)
    assert state.text(log().actions) != state.text(read(table(), actions=[4, 3, 2, 1, 0]).actions)


def test_the_digest_does_not_change_from_release_to_release() -> None:
    small = Log.from_arrays(action=["a", "b"], reward=[0.0, 1.0], propensity=[0.5, 0.25])
    assert reduce(small, Digest()).text(small.actions) == GOLDEN_DIGEST


GOLDEN_DIGEST = "8e253b87f34ebde0"


def test_rewards_of_0_and_1_take_a_shorter_way_to_the_same_sums() -> None:
    """A batch with one reward in between takes the long way; both are the sums of their
    definition."""
    random = np.random.default_rng(0)
    w, r = random.exponential(2.0, 500), (random.random(500) < 0.3).astype(float)
    for reward in (r, np.where(np.arange(500) == 7, 0.5, r)):
        columns = {
            "action": [0] * 500,
            "reward": reward,
            "propensity": np.full(500, 1 / 64),
            "pi": w / 64,
        }
        rows = read(columns, policy_columns="pi")
        bets = reduce(rows, PolicySums(Column("pi", [0]), IW())).bets
        for sums, y in (
            (bets.value, w * reward),
            (bets.loss, w * (1 - reward)),
            (bets.improvement, w * reward + 1 - reward),
            (bets.weight, w),
        ):
            assert sums == pytest.approx(np.log1p(np.outer(y, BETS)).sum(axis=0), rel=1e-12)
