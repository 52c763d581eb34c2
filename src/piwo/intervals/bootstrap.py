"""Bootstrap: how an estimate varies over resampled rows. Asymptotic, for comparison only."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo.bounds import Interval
from piwo.checks import check_count, check_delta, is_whole, shown
from piwo.errors import UsageError
from piwo.intervals.matching import matched, name_of, resolve_gamma
from piwo.intervals.point import Estimator, estimator_named
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.policies.sampling import RandomState, generator
from piwo.records import Record
from piwo.reductions import MomentState, PolicyReduction, State
from piwo.reductions.reduce import reduce
from piwo.scores import IW, Score

__all__ = ["Bootstrap", "BootstrapResult", "bootstrap", "bootstrap_interval"]

COLUMNS = ("total", "w", "wr", "rho")
"""The sums of `MomentState` that point estimates are made of; each is a column with one number a
row."""


@dataclass(frozen=True)
class BootstrapResult:
    """The replicates and their interval, on the unit scale.

    >>> BootstrapResult(
    ...     Interval(0.4, 0.6, "asymptotic"), np.array([0.4, 0.5, 0.6]), 0
    ... ).empty_replicates
    0
    """

    interval: Interval
    estimates: Floats
    """(B',) the estimates of the replicates that have one, in the order of their seeds."""
    empty_replicates: int
    """Replicates in which no row had any weight: they have no self-normalized estimate."""


@dataclass(frozen=True)
class Bootstrap(Record):
    """A bootstrap interval for the value of one policy, in the reward's own unit.

    >>> Bootstrap("new", "snips", None, 0.5, 0.4, 0.6, 0.05, 400, 0, 100).guarantee
    'asymptotic'
    """

    name: str
    estimator: str
    gamma: float | None
    value: float | None
    """The estimate on the rows themselves."""
    lower: float | None
    upper: float | None
    delta: float
    replicates: int
    empty_replicates: int
    """Replicates without an estimate, as no row in them had any weight; they are left out of the
    interval."""
    rows: int
    """n: rows, or units if the log is by unit."""
    guarantee: str = "asymptotic"
    """"none" if there is no interval."""
    notes: tuple[str, ...] = ()


def bootstrap(
    log: Log,
    policy: Any,
    estimator: str = "snips",
    gamma: float | str = "auto",
    *,
    replicates: int = 400,
    delta: float = 0.05,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> Bootstrap:
    """Return a percentile bootstrap interval for the value of a policy.

    For comparison with other tools. If rare rows carry the value, no replicate holds the rows that
    were never logged, and the interval is wrong far more often than delta: prefer `piwo.evaluate`,
    whose interval is valid at every n.

    Formula: B times, n rows are drawn with replacement and the estimate is computed from them anew,
    numerator and denominator; the ends are the delta/2 and 1 - delta/2 quantiles of the B
    estimates.

    Args:
        log: the logged decisions.
        policy: see `piwo.evaluate`.
        estimator: "iw", "snips", "cressie-read", "ix", "clip", "ls", "ls-linear", or another score
            by its name
            (docs/reference.md).
        gamma: see `piwo.evaluate`.
        replicates: B.
        delta: nominal chance of error, both sides together.
        random_state: None, a seed, or a numpy Generator, which advances.
        n_jobs: workers, as joblib counts them; the numbers do not depend on it.

    Returns:
        A `Bootstrap`; without an interval if rows were chosen by what was decided or earned.

    Raises:
        DataError: for rows that break a rule, and for policies that do not fit the log.
        UsageError: for arguments out of range.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = bootstrap(log, piwo.policies.Uniform(log.actions), "iw")
    >>> found.value, 0.3 < found.lower < 0.5 < found.upper < 0.7
    (0.5, True)

    Source: Efron 1979; percentile interval, Efron and Tibshirani 1993, chapter 13.
    """
    name = name_of(policy)
    log, ready = matched(log, {name: policy})
    chosen = estimator_named(estimator)
    score: Score = IW()
    if chosen.smoothed:
        score = chosen.score(resolve_gamma(gamma, len(log), delta))
    rows = _columns(log, ready[name], score, squares=chosen.squares)
    chosen = chosen.on(log.origin)
    found = _resampled(rows, chosen, replicates, delta, random_state, n_jobs)
    made = Bootstrap(
        name=name,
        estimator=estimator,
        gamma=score.gamma_equivalent,
        value=_in_units(log, _estimate(rows, chosen)),
        lower=_in_units(log, found.interval.lower),
        upper=_in_units(log, found.interval.upper),
        delta=delta,
        replicates=replicates,
        empty_replicates=found.empty_replicates,
        rows=rows.shape[1],
        notes=(*log.propensity_caveats, *log.approximate_caveats),
    )
    if log.chosen_by:
        made = replace(made, lower=None, upper=None, guarantee="none")
    return made


def _in_units(log: Log, number: float | None) -> float | None:
    """Return a number of the unit scale in the reward's own unit; None if it is not finite."""
    if number is None or not np.isfinite(number):
        return None
    return log.value(float(number))


def bootstrap_interval(
    log: Log,
    policy: Policy,
    score: Score,
    estimator: Estimator,
    *,
    replicates: int = 400,
    delta: float = 0.05,
    random_state: RandomState = 0,
    n_jobs: int | None = None,
) -> BootstrapResult:
    """Return the replicates and their percentile interval, on the unit scale.

    Holds four numbers a row in memory: drawing rows again needs the rows.

    Args:
        log: the logged decisions, with the context that the policy needs.
        policy: over the log's action list.
        score: the score whose credits the estimator sums.
        estimator: how sums become a number.
        replicates: B.
        delta: nominal chance of error, both sides together.
        random_state: None, a seed, or a numpy Generator, which advances.
        n_jobs: workers, as joblib counts them. Every replicate has a seed of its own, so numbers do
            not depend on it.

    Raises:
        UsageError: for arguments out of range.

    >>> import piwo
    >>> from piwo.intervals.point import estimator_named
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> always = piwo.policies.Constant("a", log.actions)
    >>> len(
    ...     bootstrap_interval(
    ...         log, always, piwo.IW(), estimator_named("iw"), replicates=20
    ...     ).estimates
    ... )
    20
    """
    rows = _columns(log, policy, score, squares=estimator.squares)
    return _resampled(rows, estimator.on(log.origin), replicates, delta, random_state, n_jobs)


# --- the rows


@dataclass(frozen=True)
class RowState(State):
    """Pieces of the columns, each with the number of its first row, in the order of the rows."""

    pieces: tuple[tuple[int, Floats], ...] = ()

    def merge(self, other: RowState) -> RowState:
        """Return the pieces of both parts."""
        return RowState(tuple(sorted(self.pieces + other.pieces, key=lambda piece: piece[0])))


@dataclass(frozen=True)
class RowCredits(PolicyReduction[RowState]):
    """Reduction: the columns `COLUMNS` of one policy and score, which replicates sum over rows."""

    score: Score
    squares: bool = False

    def empty(self) -> RowState:
        """Return the state of no rows."""
        return RowState()

    def update(self, state: RowState, batch: Batch) -> RowState:
        """Return the state with the rows of a batch added."""
        pi = self.policy.logged(batch)
        weights = self.weights(batch, pi)
        wr = weights.times(batch.reward)
        if isinstance(self.score, IW):
            rho = wr
        else:
            rho = self.score.rho(batch, pi)
        # s, w, w R and the credit rho of each row, times its sampling weight s
        given = [np.ones(len(batch)), weights.w, wr, rho]
        if self.squares:
            given.append(batch.reward)
        # By unit, units are drawn instead of rows.
        columns = np.ascontiguousarray(batch.observed(np.stack(given, axis=1)).T)
        if self.squares:
            with np.errstate(over="ignore", invalid="ignore"):
                # w^2 and w^2 R, of what is drawn
                w, wr = columns[1], columns[2]
                columns = np.vstack([columns, w * w, np.where(wr > 0.0, w * wr, 0.0)])
        return state.merge(RowState(((int(batch.row_numbers[0]), columns),)))


def _columns(log: Log, policy: Policy, score: Score, *, squares: bool) -> Floats:
    """Return the columns of a whole log, (4, n), or (7, n) with R, w^2 and w^2 R."""
    log.require_order("the bootstrap")
    pieces = reduce(log, RowCredits(policy, score, squares)).pieces
    return np.concatenate([columns for _, columns in pieces], axis=1)


# --- the replicates


def _resampled(
    rows: Floats,
    estimator: Estimator,
    replicates: int,
    delta: float,
    random_state: RandomState,
    n_jobs: int | None,
) -> BootstrapResult:
    check_delta(delta)
    check_count("replicates", replicates, 2, "how often the rows are drawn again")
    if n_jobs is not None and (not is_whole(n_jobs) or n_jobs == 0):
        raise UsageError(
            f"{argument('n_jobs')} is {shown(n_jobs)}, expected None or a whole number that is not "
            "0: the workers"
        )
    seeds = _seeds(random_state, int(replicates))
    sums = np.concatenate(list(_in_parallel(rows, seeds, n_jobs)))
    values = [estimator.finish(_moments(one, rows.shape[1])).value for one in sums]
    estimates = np.array([x for x in values if x is not None])
    interval = Interval(None, None, "asymptotic")
    # with one row, no weight at all, or a weight beyond float64 there is no spread to measure
    if rows.shape[1] > 1 and len(estimates) > 1 and _estimate(rows, estimator) is not None:
        # the delta/2 and 1 - delta/2 quantiles of the B estimates
        lower, upper = np.quantile(estimates, [delta / 2.0, 1.0 - delta / 2.0])
        interval = Interval(float(lower), float(upper), "asymptotic")
    return BootstrapResult(interval, estimates, values.count(None))


def _seeds(random_state: RandomState, replicates: int) -> list[np.random.SeedSequence]:
    """Return one child seed a replicate, never one a worker; a Generator passed in advances."""
    # the seeds depend on the random state only, so the numbers do not depend on `n_jobs`
    entropy = generator(random_state).integers(2**32, size=4, dtype=np.uint32)
    return np.random.SeedSequence(entropy.tolist()).spawn(replicates)


def _in_parallel(rows: Floats, seeds: Sequence[Any], n_jobs: int | None) -> Iterator[Floats]:
    """Yield (b, 4) sums of replicates in the order of their seeds, a few replicates a task."""
    from joblib import Parallel, delayed

    tasks = [seeds[at : at + _A_TASK] for at in range(0, len(seeds), _A_TASK)]
    yield from Parallel(n_jobs=n_jobs)(delayed(_replicates)(rows, task) for task in tasks)


_A_TASK = 25


def _replicates(rows: Floats, seeds: Sequence[np.random.SeedSequence]) -> Floats:
    """Return the column sums of n rows drawn with replacement, once a seed, (b, 4)."""
    n = rows.shape[1]
    sums = np.empty((len(seeds), len(rows)))
    with np.errstate(invalid="ignore"):  # a weight beyond float64 that was not drawn: 0 * inf
        for i, seed in enumerate(seeds):
            # how often each row is drawn
            drawn = np.bincount(np.random.default_rng(seed).integers(n, size=n), minlength=n)
            for j, column in enumerate(rows):
                # a matrix product would add in an order that depends on the worker's threads
                sums[i, j] = (drawn * column).sum()
    return sums


def _moments(sums: Floats, rows: int) -> MomentState:
    total, w, wr, rho, *more = (float(x) for x in sums)
    # w R is nan if a row of infinite weight that earned nothing was not drawn
    made = MomentState(rows=rows, total=total, w=w, wr=wr, rho=rho, earned=wr)
    if not more:
        return made
    reward, w2, w2r = more
    return replace(made, reward=reward, w2=w2, w2r=w2r)


def _estimate(rows: Floats, estimator: Estimator) -> float | None:
    """Return the estimate on the rows themselves, None if it is not a finite number."""
    value = estimator.finish(_moments(rows.sum(axis=1), rows.shape[1])).value
    if value is not None and np.isfinite(value):
        return value
    return None
