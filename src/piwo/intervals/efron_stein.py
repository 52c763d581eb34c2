"""The Efron-Stein interval around the self-normalized estimate (ESLB), and the sums that it needs.

The sums say how much one row can move the estimate, as Laplace transforms of sums of weights.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import reduce

import numpy as np

from piwo import bounds
from piwo.engines.state import State
from piwo.intervals.method import Evidence
from piwo.logs.batch import Batch, Floats
from piwo.reductions.vector_sums import Vectors, VectorSums, width_of
from piwo.scores.ratio import over

__all__ = [
    "POINTS",
    "EfronSteinMoments",
    "EfronSteinState",
    "EfronSteinSums",
    "efron_stein_ends",
]

_STEP = 0.6 * np.log(2.0)
POINTS: Floats = np.exp(_STEP * np.arange(-84, 51))
"""s, (G,): a trapezoid over log s is exact to 1e-8 for sums of weights between 2^-25 and 2^45."""
_NEGLIGIBLE = np.log(1e-7)
"""An integrand that is this far below its maximum at both ends of `POINTS` lies within them."""
_LARGEST = 2.0**40
"""Larger weights are not evaluated: `POINTS` cover sums of weights up to about 2^45."""


def efron_stein_ends(evidence: Evidence) -> bounds.Interval:
    """Return `bounds.efron_stein_interval`; [0, 1] if all weights are 0 or some are too large."""
    sums, moments = evidence.state.moments, evidence.own[0].moments()
    if moments is None or not sums.w < math.inf or sums.max_weight > _LARGEST:
        return bounds.Interval(0.0, 1.0)
    # S = sum w R / sum w
    estimate = 0.0
    if sums.w > 0.0:
        estimate = min(1.0, sums.wr / sums.w)
    return bounds.efron_stein_interval(
        estimate,
        sums.w,
        moments.changes,
        moments.expected_changes,
        moments.inflation,
        evidence.rows,
        evidence.log_inv_delta,
    )


Run = tuple[int, int, float, Floats, Floats]
"""Consecutive rows: the first and the last number, the sum of W, and two arrays at the points s.

The arrays are log E exp(-s Z), Z the sum of W over these rows; and the log of the sum over rows of
W^2 exp(-s Z) + E W^2 exp(-s Z'), Z' with another W in place of the row's, later rows left out.
"""


@dataclass(frozen=True)
class Strand(State):
    """Runs of rows in their order, with gaps between them."""

    runs: tuple[Run, ...] = ()

    def merge(self, other: Strand) -> Strand:
        """Return the runs of both; those without a gap between them become one."""
        joined: list[Run] = []
        for run in sorted(self.runs + other.runs, key=lambda one: one[0]):
            if joined and joined[-1][1] + 1 == run[0]:
                joined[-1] = _joined(joined[-1], run)
            else:
                joined.append(run)
        return Strand(tuple(joined))


def _joined(one: Run, other: Run) -> Run:
    """Return two runs as one; the rows of the other come after those of the first."""
    first, _, weight, laplace, changes = one
    _, last, more_weight, more_laplace, more_changes = other
    # the weights of the first run are known, or drawn anew, when the rows of the other are reached
    moved = more_changes - POINTS * weight - laplace
    return (
        first,
        last,
        weight + more_weight,
        laplace + more_laplace,
        np.logaddexp(changes, moved),
    )


@dataclass(frozen=True)
class EfronSteinMoments:
    """What the bound is made of (`bounds.efron_stein_interval`).

    >>> EfronSteinMoments(0.1, 0.1, 1.0).inflation
    1.0
    """

    changes: float
    """V: how much the estimate changes as the rows are replaced one by one, given those before."""
    expected_changes: float
    """U = E V, given the contexts."""
    inflation: float
    """n max_k E 1/(Z_{-k} + m_k): by how much the expected estimate may exceed the value."""


@dataclass(frozen=True)
class EfronSteinState(State):
    """Sums over rows at the points s, each (G,); Z is the sum of all weights.

    >>> EfronSteinState().moments() is None
    True
    """

    rows: int = 0
    strand: Strand = Strand()
    """What depends on the order of the rows."""
    squares: Floats = field(default_factory=lambda: np.zeros(len(POINTS)))
    """sum E[W^2 exp(-s W)] / E[exp(-s W)]."""
    lift: Floats = field(
        default_factory=lambda: np.full(len(POINTS), -np.inf), metadata={"merge": np.maximum}
    )
    """max over rows of log(exp(-s m) / E exp(-s W)), m the smallest positive weight of the row."""

    def moments(self) -> EfronSteinMoments | None:
        """Return V, U and the inflation; None if the weights are beyond the points s, or all 0."""
        if not self.rows:
            return None
        log_s = np.log(POINTS)
        _, _, _, laplace, changes = reduce(_joined, self.strand.runs)
        with np.errstate(divide="ignore"):
            # logarithms of the integrands over log s: ds = s d(log s) gives one more factor s
            integrands = (
                # V: s^2 sum_k E[(W_k^2 + W'_k^2) exp(-s Z) | weights up to k]
                2.0 * log_s + changes + laplace,
                # U: s^2 sum_k 2 E[W_k^2 exp(-s Z)]
                2.0 * log_s + np.log(2.0 * self.squares) + laplace,
                # max_k E 1/(Z_{-k} + m_k): s max_k exp(-s m_k) E exp(-s Z_{-k})
                log_s + self.lift + laplace,
            )
        sums = []
        for x in integrands:
            highest = x.max()
            if not np.isfinite(highest) or max(x[0], x[-1]) > highest + _NEGLIGIBLE:
                return None
            sums.append(float(_STEP * np.exp(x).sum()))
        v, u, inflation = sums
        return EfronSteinMoments(v, u, self.rows * inflation)


@dataclass(frozen=True)
class EfronSteinSums(VectorSums[EfronSteinState]):
    """Reduction: moments of a self-normalized estimate given the contexts, without simulation.

    An expectation of 1/Z^2 over the actions that the logger could have taken is an integral of s E
    exp(-s Z). For independent rows E exp(-s Z) is a product over rows, so its logarithm is a sum.

        E (Y + Z)^-2 = integral of s exp(-s Y) prod_k sum_a mu(a|X_k) exp(-s w(a, X_k)) ds

    V follows the rows in their order, as martingales do. Another order gives another number that is
    as valid.

    If actions change from row to row, sums over a are over the eligible ones of the row.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.

    Source: Kuzborskij, Vernade, Gyorgy, Szepesvari 2021 (arXiv 2006.10460), Theorem 1, with the
    changes that docs/bounds.md proves; there the expectations are simulated.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"] * 9, reward=[1] * 9, propensities=[[0.5, 0.5]] * 9, actions=["a", "b"]
    ... )
    >>> state = piwo.reductions.reduce(log, EfronSteinSums(piwo.policies.Uniform(log.actions)))
    >>> round(state.moments().changes, 7)  # all weights are 1: 9 (1/9^2 + 1/9^2)
    0.2222222
    """

    def empty(self) -> EfronSteinState:
        """Return the state of no rows."""
        return EfronSteinState()

    def update(self, state: EfronSteinState, batch: Batch) -> EfronSteinState:
        """Return the state with the rows of a batch added, in their order."""
        if len(batch) and (np.diff(batch.row_numbers) < 0).any():
            batch = batch.take(np.argsort(batch.row_numbers, kind="stable"))
        return super().update(state, batch)

    def width(self, batch: Batch) -> int:
        """Return K, or the length of the longest list of eligible actions."""
        return width_of(batch, len(self.policy.actions))

    def block(self, batch: Batch) -> EfronSteinState:
        """Return the state of a few rows that are in their order."""
        from piwo.reductions.kernels import add_efron_stein

        vectors = Vectors(batch)
        pi, mu = vectors.of(self.policy), vectors.mu
        # w(a) = pi(a|X) / mu(a|X), and W of the logged action
        w = np.where(mu > 0.0, over(pi.ravel(), mu.ravel()).reshape(pi.shape), 0.0)
        logged = self.weights(batch, vectors.taken(pi)).w
        state = EfronSteinState(rows=len(batch))
        laplace, changed = np.zeros(len(POINTS)), np.full(len(POINTS), -np.inf)
        # a weight of 1e100 leaves nothing at any point, and its square stays within float64
        add_efron_stein(
            np.minimum(w, 1e100),
            mu,
            np.minimum(logged, 1e100),
            POINTS,
            laplace,
            changed,
            state.squares,
            state.lift,
        )
        # the rows of a block are in their order, so they are one run
        numbers = batch.row_numbers
        run = (int(numbers[0]), int(numbers[-1]), float(logged.sum()), laplace, changed)
        return EfronSteinState(len(batch), Strand((run,)), state.squares, state.lift)
