"""Efron-Stein sums: how much one row can move a self-normalized estimate, as Laplace transforms of sums of weights."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.reductions.state import State
from piwo.reductions.vector_sums import VectorSums
from piwo.scores.ratio import over

__all__ = ["POINTS", "EfronSteinMoments", "EfronSteinState", "EfronSteinSums"]

_STEP = 0.6 * np.log(2.0)
POINTS: Floats = np.exp(_STEP * np.arange(-84, 51))
"""s, (G,): a trapezoid over log s is exact to 1e-8 for sums of weights between 2^-25 and 2^45."""
_NEGLIGIBLE = np.log(1e-7)


@dataclass(frozen=True)
class Strand(State):
    """Runs of rows without a gap between them: (first, last, sum of W, log-Laplace, log-changes), in their order."""

    runs: tuple[tuple[int, int, float, Floats, Floats], ...] = ()

    def merge(self, other: Strand) -> Strand:
        """Return the runs of both; those that touch become one."""
        joined: list[tuple[int, int, float, Floats, Floats]] = []
        for run in sorted(self.runs + other.runs, key=lambda one: one[0]):
            touches = joined and joined[-1][1] + 1 == run[0]
            joined.append(_after(joined.pop(), run) if touches else run)
        return Strand(tuple(joined))


def _after(
    one: tuple[int, int, float, Floats, Floats], other: tuple[int, int, float, Floats, Floats]
) -> tuple[int, int, float, Floats, Floats]:
    """Return two runs as one: the rows of the other come after those of the first."""
    moved = other[4] - POINTS * one[2] - one[3]
    return one[0], other[1], one[2] + other[2], one[3] + other[3], np.logaddexp(one[4], moved)


@dataclass(frozen=True)
class EfronSteinMoments:
    """What the bound is made of (`bounds.efron_stein_interval`).

    >>> EfronSteinMoments(0.1, 0.1, 1.0).inflation
    1.0
    """

    changes: float
    """V: how much the estimate changes, as the rows are replaced one after the other, given those
    before."""
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
    """log E exp(-s Z) and, of every row, log of (W^2 exp(-s Z) + E W^2 exp(-s Z')), Z' with another
    W in its place."""
    squares: Floats = field(default_factory=lambda: np.zeros(len(POINTS)))
    """sum E[W^2 exp(-s W)] / E[exp(-s W)]."""
    lift: Floats = field(
        default_factory=lambda: np.full(len(POINTS), -np.inf), metadata={"merge": np.maximum}
    )
    """max over rows of log(exp(-s m) / E exp(-s W)), m the smallest positive weight of the row."""

    def moments(self) -> EfronSteinMoments | None:
        """Return V, U and the inflation; None where the weights are beyond the points s, or all 0."""
        if not self.rows:
            return None
        log_s = np.log(POINTS)
        run = self.strand.runs[0]
        for other in self.strand.runs[1:]:
            run = _after(run, other)
        with np.errstate(divide="ignore"):
            integrands = (
                2.0 * log_s + run[4] + run[3],
                2.0 * log_s + np.log(2.0 * self.squares) + run[3],
                log_s + self.lift + run[3],
            )
        sums = []
        for x in integrands:
            if not np.isfinite(x.max()) or max(x[0], x[-1]) > x.max() + _NEGLIGIBLE:
                return None
            sums.append(float(_STEP * np.exp(x).sum()))
        return EfronSteinMoments(sums[0], sums[1], self.rows * sums[2])


@dataclass(frozen=True)
class EfronSteinSums(VectorSums[EfronSteinState]):
    """Reduction: the moments of a self-normalized estimate, given the contexts: exact, without simulation.

    An expectation of 1/Z^2 over the actions that the logger could have taken is an integral of s E
    exp(-s Z), and for independent rows E exp(-s Z) is a product over rows, of which the logarithm
    is a sum.

        E (Y + Z)^-2 = integral of s exp(-s Y) prod_k sum_a mu(a|X_k) exp(-s w(a, X_k)) ds

    V looks at the rows in their order, as martingales do. In another order it is another number, as
    valid.

    Args:
        policy: over the log's action list; it must give full vectors, and so must the log.

    Source: Kuzborskij, Vernade, Gyorgy, Szepesvari 2021 (arXiv 2006.10460), Theorem 1, with the
    changes that docs/bounds.md proves; there the expectations are simulated.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"] * 9, reward=[1] * 9, propensities=[[0.5, 0.5]] * 9, actions=["a", "b"]
    ... )
    >>> state = piwo.engines.reduce(log, EfronSteinSums(piwo.policies.Uniform(log.actions)))
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

    def block(self, batch: Batch) -> EfronSteinState:
        """Return the state of a few rows that are in their order."""
        from piwo.reductions.kernels import add_efron_stein

        assert batch.propensities is not None
        pi = np.ascontiguousarray(self.policy.full(batch), np.float64)
        mu = np.ascontiguousarray(batch.propensities, np.float64)
        w = np.where(mu > 0.0, over(pi.ravel(), mu.ravel()).reshape(pi.shape), 0.0)
        logged = self.weights(batch, pi[np.arange(len(batch)), batch.action]).w
        state, laplace, changed = (
            EfronSteinState(rows=len(batch)),
            np.zeros(len(POINTS)),
            np.full(len(POINTS), -np.inf),
        )
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
        numbers = batch.row_numbers
        run = (int(numbers[0]), int(numbers[-1]), float(logged.sum()), laplace, changed)
        return EfronSteinState(len(batch), Strand((run,)), state.squares, state.lift)
