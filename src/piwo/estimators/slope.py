"""SLOPE: chooses the hyper-parameter of a biased estimator."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo import bounds
from piwo.checks import check_kind, check_listed
from piwo.errors import UsageError
from piwo.estimators.reward_model import (
    RewardModel,
    check_exact,
    check_full_vectors,
    reward_model,
)
from piwo.intervals.matching import matched, name_of, whole_length
from piwo.intervals.point import estimator_named, mean_of_credits
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.records import Record
from piwo.reductions import MomentState, PolicyReduction, State, VectorSums
from piwo.reductions.reduce import reduce
from piwo.scores import Score
from piwo.scores.score import check_parameter

__all__ = ["Slope", "SlopePoint", "slope"]

GAMMAS = tuple(2.0**-j for j in range(14))
"""The gammas that are tried by default."""


@dataclass(frozen=True)
class SlopePoint:
    """One hyper-parameter of the path, in the reward's own unit.

    >>> SlopePoint(0.1, 0.5, 0.02, True).kept
    True
    """

    gamma: float
    """The gamma of IX that is equivalent to the hyper-parameter."""
    value: float
    half_width: float
    """Half the width of its Student interval."""
    kept: bool
    """Whether its bias is not distinguishable from the noise of those before it."""


@dataclass(frozen=True)
class Slope(Record):
    """The chosen hyper-parameter, its value, and the whole path.

    >>> Slope("new", "ix", 0.1, 0.5, 0.01, 0.1, 100, ()).to_dict()["guarantee"]
    'none'
    """

    name: str
    estimator: str
    gamma: float
    value: float
    half_width: float
    delta: float
    rows: int
    """n: rows, or units if the log is by unit."""
    path: tuple[SlopePoint, ...]
    """Widest interval first."""
    guarantee: str = "none"
    """The value is a point estimate; `piwo.evaluate` has finite-sample intervals."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class PathState(State):
    """Rows, the sum of sampling weights, and (S,) sums and sums of squares of credits.

    >>> PathState(1, 1.0, np.ones(2), np.ones(2), 0.0, np.zeros(2)).credit.tolist()
    [1.0, 1.0]
    """

    rows: int
    total: float
    credit: Floats
    squares: Floats
    s2: float
    """sum s^2 of a thinned log, else 0; see `MomentState`."""
    crossed: Floats
    """(S,) sums of s^2 times the credits of a thinned log."""

    @staticmethod
    def nothing(scores: int) -> PathState:
        """Return the state of no rows."""
        return PathState(0, 0.0, np.zeros(scores), np.zeros(scores), 0.0, np.zeros(scores))

    @staticmethod
    def of(batch: Batch, each: Sequence[Floats]) -> PathState:
        """Return the sums of the observed credits of a batch, one array for each score."""
        s, s2, crossed = batch.thinned, 0.0, np.zeros(len(each))
        with np.errstate(over="ignore", invalid="ignore"):
            if s is not None:
                s2, crossed = float(s @ s), np.array([float(s @ one) for one in each])
            credit = np.array([one.sum() for one in each])
            squares = np.array([(one * one).sum() for one in each])
        total = float(batch.sampled(np.ones(len(batch))).sum())
        return PathState(batch.count, total, credit, squares, s2, crossed)


@dataclass(frozen=True)
class PathSums(PolicyReduction[PathState]):
    """Reduction: credits of one policy under S scores.

    >>> import piwo
    >>> PathSums(piwo.policies.Uniform(["a", "b"]), (piwo.IX(0.1),)).empty().rows
    0
    """

    scores: tuple[Score, ...]

    def empty(self) -> PathState:
        """Return the state of no rows."""
        return PathState.nothing(len(self.scores))

    def update(self, state: PathState, batch: Batch) -> PathState:
        """Return the state with a batch added."""
        pi = self.policy.logged(batch)
        each = [batch.observed(score.rho(batch, pi)) for score in self.scores]
        return state.merge(PathState.of(batch, each))


@dataclass(frozen=True)
class ModelPathSums(VectorSums[PathState]):
    """Reduction: doubly robust credits of one policy with the weights of S scores.

    Args:
        policy: over the log's action list; it must give full vectors.
        model: q.
        scores: S.
    """

    model: RewardModel
    scores: tuple[Score, ...]

    @property
    def context(self) -> bool:
        """Whether the policy or the model uses the context."""
        return self.policy.needs_context or self.model.needs_context

    def empty(self) -> PathState:
        """Return the state of no rows."""
        return PathState.nothing(len(self.scores))

    def block(self, batch: Batch) -> PathState:
        """Return the sums of a few rows."""
        pi, q = self.policy.logged(batch), self.model.of(batch)
        # sum_a pi(a|X) q(X, a) + u (R - q(X, A)), u the credit at reward 1
        direct = np.einsum("ta,ta->t", self.policy.full(batch), q)
        residual = batch.reward - q[np.arange(len(batch)), batch.action]
        ones = batch.with_reward(np.ones(len(batch)))
        with np.errstate(over="ignore", invalid="ignore"):
            each = [
                batch.observed(direct + score.rho(ones, pi) * residual) for score in self.scores
            ]
        return PathState.of(batch, each)


def slope(
    log: Log,
    policy: Any,
    estimator: str = "clip",
    gammas: Sequence[float] = GAMMAS,
    *,
    q: Any = None,
    delta: float = 0.1,
    name: str | None = None,
) -> Slope:
    """Choose the narrowest smoothed estimator without detectable bias (Lepski's method).

    For clip, switch, shrinkage, exponential smoothing and similar estimators, whose bias grows as
    their variance falls; one pass for the whole path. If the intervals are valid, the error is at
    most (sqrt(6) + 3) times the least sum of bias and half width on the path: close to the best
    choice, but not always better than no smoothing. It has no finite-sample guarantee; the bounds
    of `piwo.evaluate` do, and need no tuning.

    Formula: order by the width of the intervals V_i -+ c_i, widest first; go on to i while
    |V_i - V_j| <= c_i + (sqrt(6) - 1) c_j for every j before it. c_i is the 1 - delta/2 quantile of
    Student's distribution times the standard error. With a reward model q the V_i are doubly
    robust: sum_a pi(a|X_t) q(X_t, a) + u_t (R_t - q(X_t, A_t)), u_t the credit of the estimator at
    reward 1.

    Args:
        log: the logged decisions.
        policy: see `piwo.evaluate`.
        estimator: the name of a smoothed estimator.
        gammas: the hyper-parameters, as gammas of IX (lam = 2 gamma, tau = 1/gamma, ...).
        q: predicted rewards, see `piwo.estimators.doubly_robust`; None: no model.
        delta: nominal error probability of the intervals.
        name: the name of the policy in the result.

    Returns:
        A `Slope`.

    Raises:
        UsageError: for an estimator without hyper-parameter, no gammas, or fewer than two rows;
            with a model also for what `doubly_robust` refuses.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = slope(log, piwo.policies.Constant("a", log.actions), gammas=[0.1, 0.6, 0.9])
    >>> found.gamma, round(found.value, 4)
    (0.6, 0.8333)

    Source: Su, Srinath, Krishnamurthy 2020 (arXiv 2002.07729); by width, not by parameter, as in
    Tucker and Lee 2021 ("Improved estimator selection for off-policy evaluation").
    """
    from scipy.special import stdtrit

    check_kind("log", log, Log, "; piwo.read makes one")
    bounds.log_inv_delta(delta)  # raises unless 0 < delta < 1
    chosen = estimator_named(estimator)
    check_listed("gammas", gammas)
    tried = tuple(gammas)
    if not chosen.smoothed:
        raise UsageError(
            f"the estimator {estimator!r} has no hyper-parameter to choose; use clip, switch, ..."
        )
    if not tried:
        raise UsageError(f"{argument('gammas')} is empty; pass at least one")
    check_parameter("gammas", tried)
    name = name or name_of(policy)
    fitted_on = log.features
    log, ready = matched(log, {name: policy})
    scores = tuple(map(chosen.score, tried))
    if q is None:
        sums = reduce(log, PathSums(ready[name], scores))
    else:
        check_exact(log)
        check_full_vectors(ready[name], log)
        model = reward_model(q, log, whole_length(log), fitted_on)
        sums = reduce(log, ModelPathSums(ready[name], model, scores))
        estimator = f"dr-{estimator}"
    if sums.rows < 2:
        raise UsageError(
            f"the log has {sums.rows:,} rows, expected at least 2: one row has no width"
        )
    quantile = float(stdtrit(sums.rows - 1, 1.0 - delta / 2.0))
    # Each point is a width, a gamma and a value.
    points = []
    for gamma, credit, squares, crossed in zip(
        tried, sums.credit, sums.squares, sums.crossed, strict=True
    ):
        moments = MomentState(
            rows=sums.rows,
            total=sums.total,
            rho=float(credit),
            rho2=float(squares),
            s2=sums.s2,
            srho=float(crossed),
        )
        found = mean_of_credits(moments)
        if found.value is None or found.standard_error is None:
            continue
        # c_i
        width = quantile * found.standard_error
        if math.isfinite(found.value) and math.isfinite(width):
            points.append((width, gamma, found.value))
    if not points:
        raise UsageError("no gamma gives a finite estimate; give larger ones")
    points.sort(key=lambda point: (-point[0], point[1]))
    kept = _kept([(value, width) for width, _, value in points])
    path = []
    for i, (width, gamma, value) in enumerate(points):
        half_width = log.span * width
        path.append(SlopePoint(gamma, log.value(value), half_width, i < kept))
    # The narrowest interval that agrees with all wider ones.
    best = path[kept - 1]
    return Slope(
        name=name,
        estimator=estimator,
        gamma=best.gamma,
        value=best.value,
        half_width=best.half_width,
        delta=delta,
        rows=sums.rows,
        path=tuple(path),
        notes=(*log.propensity_caveats, *log.approximate_caveats),
    )


def _kept(found: Sequence[tuple[float, float]]) -> int:
    """Return how many of the (value, half width), widest first, agree with all before them.

    >>> _kept([(0.5, 0.2), (0.45, 0.1), (0.1, 0.01), (0.4, 0.01)])
    2
    """
    for i, (value, width) in enumerate(found):
        for other, wider in found[:i]:
            if abs(value - other) > width + (math.sqrt(6.0) - 1.0) * wider:
                return i
    return len(found)
