"""Marginalized importance weights (MIPS): of the category of the action, not of the action."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from piwo import bounds
from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.checks import check_kind
from piwo.engines.state import State, largest
from piwo.errors import DataError, UsageError
from piwo.estimators.categories import Codes, places_of
from piwo.intervals.matching import matched, name_of
from piwo.intervals.point import Estimate, mean_of_credits
from piwo.intervals.provenance import Overlap, overlaps
from piwo.intervals.weight_sums import effective_size
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.policies import Policy
from piwo.policies.restricted import spread_out
from piwo.records import Record
from piwo.reductions import Joint, MomentState, PolicyReduction, PolicySums, VectorSums
from piwo.reductions.reduce import reduce
from piwo.scores import IW
from piwo.scores.ratio import over
from piwo.visible import confidence, number, visible_lines

__all__ = ["MarginalEstimate", "mips"]

SUPPORT = "in every context the logger takes every category of actions that the policy takes"
ASSUMPTION = (
    "an action acts on the reward through its category alone: given context and category, the "
    "reward does not depend on the action"
)
_CONTEXT_FREE = (
    "the mean weight of a category is the same in every context, because the log lacks the "
    "probability of every action"
)

_LIST_FREE = (
    "the mean weight of a category is the same in every context and for every list of eligible "
    "actions, because the log lacks the probability of every eligible action"
)


@dataclass(frozen=True)
class MarginalEstimate(Record):
    """The value of a policy by the weights of categories, in the reward's own unit.

    >>> MarginalEstimate("new", 0.5, 0.1, 0.3, 0.7, 0.05, 9, 2, True, 1.0, 8.0, 2.0).estimator
    'mips'
    """

    name: str
    value: float
    standard_error: float | None
    lower: float | None
    """Normal interval at delta, not clipped; None if there is none, see `no_interval`."""
    upper: float | None
    delta: float
    rows: int
    """n: rows, or units if the log is by unit."""
    categories: int
    """The number of categories of the log's actions."""
    exact: bool
    """Whether the weights of categories are those of the logged propensity vectors; otherwise they
    are estimated from the rows."""
    mean_weight: float
    ess: float | None
    """Effective sample size of the weights of categories."""
    max_weight: float
    estimator: str = "mips"
    assumption: str = ASSUMPTION
    """Under what the value is right: one sentence."""
    interval: str = "normal"
    guarantee: str = "asymptotic"
    """"none" if there is no interval."""
    propensity_p: float = 1.0
    """p-value of "propensities are not too small", valid at any n."""
    no_interval: Note | None = None
    """Why there is no interval; None if there is one."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        ends = "no interval"
        if self.lower is not None:
            level = f"{confidence(self.delta, '%')} interval"
            ends = f"{level} [{number(self.lower)}, {number(self.upper)}], asymptotic"
        lines = [f"{self.name}: {number(self.value)} (mips), {ends}"]
        lines += [f"  note: {note}" for note in self.notes]
        return visible_lines(lines)


@dataclass(frozen=True)
class MarginalState(State):
    """Sums of the weights w_c = pi(c|X)/mu(c|X) and of the credits w_c R."""

    rows: int = 0
    total: float = 0.0
    w: float = 0.0
    w2: float = 0.0
    credit: float = 0.0
    credit2: float = 0.0
    s2: float = 0.0
    """sum s^2 of a thinned log, else 0; see `MomentState`."""
    crossed: float = 0.0
    """sum s^2 times the credits of a thinned log."""
    max_weight: float = largest(default=0.0)


@dataclass(frozen=True)
class MarginalSums(VectorSums[MarginalState]):
    """Reduction: credits with the exact weights of categories.

    Args:
        policy: over the log's action list; it must give full vectors.
        places: (K,) the category of each action.
        origin: what is added to R to make it a multiple of the reward's own unit.
    """

    places: Codes
    origin: float

    def empty(self) -> MarginalState:
        """Return the state of no rows."""
        return MarginalState()

    def block(self, batch: Batch) -> MarginalState:
        """Return the sums of a few rows."""
        mu, some = batch.propensities, batch.eligible
        if some is not None and some.propensities is not None:
            # actions that are not eligible have mu = pi = 0
            mu = spread_out(some.propensities, some, len(self.places))
        assert mu is not None
        # whether an action has the category of the logged one, (n, K)
        alike = self.places == self.places[batch.action][:, None]
        # pi(c|X) and mu(c|X), sums over the actions of the category
        target = np.where(alike, self.policy.full(batch), 0.0).sum(axis=1)
        logger = np.where(alike, mu, 0.0).sum(axis=1)
        w = over(target, logger)
        weight = batch.observed(w)
        credit = batch.observed(w * (batch.reward + self.origin))
        s, s2, crossed = batch.thinned, 0.0, 0.0
        if s is not None:
            s2, crossed = float(s @ s), float(s @ credit)
        return MarginalState(
            rows=batch.count,
            total=float(batch.sampled(np.ones(len(batch))).sum()),
            w=float(weight.sum()),
            w2=float(weight @ weight),
            credit=float(credit.sum()),
            credit2=float(credit @ credit),
            s2=s2,
            crossed=crossed,
            max_weight=float(w.max(initial=0.0)),
        )


def _six(count: int = 0) -> Floats:
    return np.zeros((6, count))


@dataclass(frozen=True)
class CategoryState(State):
    """By category the sums of 1, w, R, w^2, w R and R^2."""

    rows: int = 0
    sums: Floats = field(default_factory=_six)


@dataclass(frozen=True)
class CategorySums(PolicyReduction[CategoryState]):
    """Reduction: weights of actions and rewards by category, to estimate weights of categories.

    Args:
        policy: over the log's action list.
        places: (K,) the category of each action.
        count: the number of categories.
        origin: what is added to R to make it a multiple of the reward's own unit.
    """

    places: Codes
    count: int
    origin: float

    @property
    def labels(self) -> bool:
        """True: rows are put into categories by the logged action."""
        return True

    def empty(self) -> CategoryState:
        """Return the state of no rows."""
        return CategoryState(0, _six(self.count))

    def update(self, state: CategoryState, batch: Batch) -> CategoryState:
        """Return the state with the rows of a batch added."""
        w, reward = self.weights(batch).w, batch.reward + self.origin
        ones, category = np.ones(len(batch)), self.places[batch.action]
        sums = []
        for values in (ones, w, reward, w * w, w * reward, reward * reward):
            sums.append(np.bincount(category, batch.sampled(values), self.count))
        return state.merge(CategoryState(batch.count, np.stack(sums)))


def mips(
    log: Log,
    policy: Any,
    categories: Mapping[Any, Any] | str | Sequence[str],
    *,
    delta: float = 0.05,
    name: str | None = None,
) -> MarginalEstimate:
    """Return the value of a policy by importance weights of categories of actions (MIPS).

    For many similar actions: a weight is at most the inverse of the logger's probability of a
    category, so that it varies far less than that of an action. Assumes that an action acts on the
    reward through its category alone: given context and category, the reward does not depend on the
    action. Where it does, the estimate is biased, by more the more the two policies differ inside
    categories. Assumes also that the logger takes every category that the policy takes; what the
    policy earns by others is not counted.

    Formula: V = (1/n) sum_t w(X_t, c_t) R_t, c_t the category of A_t and

        w(x, c) = sum_{a in c} pi(a|x) / sum_{a in c} mu(a|x)

    over the eligible actions of the row, if these change (`eligible=`). It is exact if the log has
    the probability of every (eligible) action (`propensities=` or `behavior=`).
    Otherwise w(x, c) is the mean of pi(A_t|X_t)/mu(A_t|X_t) over the rows of category c, which
    assumes besides that it is the same in every context, and for every list of eligible actions;
    `exact` and a note say so.

    Args:
        log: the logged decisions.
        policy: see `piwo.evaluate`; with the exact weights it must give full vectors.
        categories: label of an action -> its category, for every action of the log: text, a number,
            or an embedding, a vector of these; or the name of a column of the log's `items`, or a
            list of several, which say the category together. Actions with equal vectors are one
            category, so the weights of a discrete embedding are exact. A continuous one, that no
            two actions share, is refused: round or bin it.
        delta: nominal error probability of the normal interval.
        name: the name of the policy in the result.

    Returns:
        A `MarginalEstimate`, whose interval is asymptotic and rests on the assumption. There is
        none for a policy that was learned from these rows, and if the weights of its actions
        contradict the propensities, as `piwo.evaluate` tests them.

    Raises:
        UsageError: for actions without a category, continuous embeddings, and a policy without full
            vectors.
        DataError: for rows that break a rule, and if no weight is finite.

    >>> log = Log.from_arrays(
    ...     action=["a", "b", "z"],
    ...     reward=[1, 0, 1],
    ...     propensities=[[0.2, 0.3, 0.5]] * 3,
    ...     actions=["a", "b", "z"],
    ... )
    >>> found = mips(log, [[1.0, 0.0, 0.0]] * 3, {"a": "low", "b": "low", "z": "high"})
    >>> found.exact, found.max_weight, round(found.value, 12)  # (1/.5 + 0 + 0)/3
    (True, 2.0, 0.666666666667)

    Source: Saito and Joachims 2022 (arXiv 2202.06317), section 3.
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    bounds.log_inv_delta(delta)  # raises unless 0 < delta < 1
    name = name or name_of(policy)
    log, ready = matched(log, {name: policy})
    places, count = places_of(log.actions, categories)
    target = ready[name]
    notes: list[str] = [Note(f"assumes: {x}", kind="assumptions") for x in (ASSUMPTION, SUPPORT)]
    overlap = overlaps(log, {name: policy})[name]
    tested = PolicySums(target, IW(), bounded=math.isfinite(log.span))
    exact = log.gives_every_propensity and log.propensity_error is None
    if exact:
        _require_full(target)
        sums, state = reduce(log, Joint((MarginalSums(target, places, log.origin), tested)))
        found = _exact(sums)
        weight, ess = sums.w / sums.total, effective_size(sums.w, sums.w2)
        rows, most = sums.rows, sums.max_weight
    else:
        reason = _CONTEXT_FREE
        if log.columns.eligible is not None:
            reason = _LIST_FREE
        notes.append(Note(f"weights are estimated: {reason}", kind="estimated-weights"))
        sums_by = CategorySums(target, places, count, log.origin)
        by_category, state = reduce(log, Joint((sums_by, tested)))
        found, weight, ess, most = _estimated(by_category.sums, by_category.rows)
        rows = by_category.rows
        if log.columns.unit is not None or log.columns.weight is not None:
            # the delta method is of rows that count once
            found = Estimate(found.value, None)
    if not found.finite or found.value is None:
        raise DataError(
            "a weight pi/mu is beyond float64, or no row has a positive sampling weight; correct "
            "the propensities"
        )
    p_value = bounds.propensity_e_test(state.bets.weight, state.moments.rows).p_value
    why_not = _why_not(log, overlap, p_value, found.standard_error)
    ends = bounds.Interval(None, None, "asymptotic")
    if why_not is None:
        ends = bounds.normal_interval(found.value, found.standard_error, delta)
    first = [x for x in (why_not, overlap.note) if x is not None]
    notes = [*first, *notes, *log.propensity_caveats, *log.approximate_caveats]
    span = log.span
    return MarginalEstimate(
        name=name,
        value=span * found.value,
        standard_error=None if found.standard_error is None else span * found.standard_error,
        lower=None if ends.lower is None else span * ends.lower,
        upper=None if ends.upper is None else span * ends.upper,
        delta=delta,
        rows=rows,
        categories=count,
        exact=exact,
        mean_weight=weight,
        ess=ess,
        max_weight=most,
        guarantee="asymptotic" if why_not is None else "none",
        propensity_p=p_value,
        no_interval=why_not,
        notes=tuple(dict.fromkeys(notes)),
    )


def _why_not(
    log: Log, overlap: Overlap, p_value: float, standard_error: float | None
) -> Note | None:
    """Return why there is no interval; None if there is one."""
    if overlap.certain:
        return Note(
            f"in-sample: the policy was learned from part of this log ({overlap.how}), so that "
            "this value may be too high; evaluate it on other rows",
            kind="in-sample",
        )
    if p_value < SUSPICIOUS:
        return Note(
            "the logged propensities are too small for how often actions were taken "
            f"(p = {p_value:.2g}), or the policy was learned from these very rows",
            kind="contradicted",
        )
    for note in log.approximate_caveats:
        if note.kind == "condition":
            return note
    if standard_error is None:
        return Note(
            "there is no standard error: it needs two rows, and with estimated weights of "
            "categories rows that are independent and count once",
            kind="no-standard-error",
        )
    return None


def _require_full(target: Policy) -> None:
    if not (target.gives_full_distribution or target.is_logger):
        raise UsageError(
            "the policy gives the probabilities of the logged actions only, and the weight of a "
            "category needs those of all its actions; pass an (n, K) array, or another policy"
        )


def _exact(sums: MarginalState) -> Estimate:
    """Return the mean credit, in units of the span."""
    return mean_of_credits(
        MomentState(
            rows=sums.rows,
            total=sums.total,
            rho=sums.credit,
            rho2=sums.credit2,
            s2=sums.s2,
            srho=sums.crossed,
        )
    )


def _estimated(sums: Floats, n: int) -> tuple[Estimate, float, float | None, float]:
    """Return the estimate with weights of categories from the rows, and these weights' sums.

    V = (1/n) sum_c w_c sum_{t in c} R_t, w_c the mean weight of the rows of c, and R_c their mean
    reward. A row's part of the error is w_t R_c + w_c R_t - w_c R_c, whose squares sum to

        sum_c R_c^2 sum w^2 + w_c^2 sum R^2 + 2 w_c R_c sum w R - 3 n_c w_c^2 R_c^2
    """
    count, w, reward, w2, w_reward, reward2 = sums[:, sums[0] > 0]
    total = float(count.sum())
    if total <= 0 or not np.isfinite(w2).all():
        return Estimate(None, None), math.nan, None, math.nan
    mean_w, mean_r = w / count, reward / count
    value = float((mean_w * reward).sum()) / total
    squares = (
        mean_r**2 * w2
        + mean_w**2 * reward2
        + 2.0 * mean_w * mean_r * w_reward
        - 3.0 * count * (mean_w * mean_r) ** 2
    )
    moments = MomentState(rows=n, total=total, rho=value * total, rho2=float(squares.sum()))
    ess = effective_size(float(w.sum()), float((count * mean_w**2).sum()))
    return mean_of_credits(moments), float(w.sum()) / total, ess, float(mean_w.max())
