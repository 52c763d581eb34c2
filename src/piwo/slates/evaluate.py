"""Evaluate a slate policy: its value under a stated assumption, with an interval, in one pass."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from piwo import bounds
from piwo.bounds.deadline import deadline_lower
from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.checks import check_delta, check_flag, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.contradiction import beyond_range, empty_ends
from piwo.evaluation.result import improvement_in_units
from piwo.intervals.deadline import plain_bets
from piwo.intervals.point import mean_of_credits
from piwo.intervals.weight_sums import effective_size
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Floats
from piwo.logs.column_names import require_columns
from piwo.logs.provable import unprovable
from piwo.logs.split import HeldOut
from piwo.messages import Note, argument
from piwo.reductions import MomentState, PolicyState
from piwo.reductions.blocks import Partition
from piwo.scores.slot_weights import least_of_product, least_of_ranking
from piwo.slates.estimators import SlateEstimator, slate_estimator
from piwo.slates.log import SlateLog
from piwo.slates.notes import few_of, notes_on, outside_notes, vacuous_notes
from piwo.slates.policy import SlatePolicy
from piwo.slates.provenance import overlap_of
from piwo.slates.result import SlateEvaluation, SlotValue
from piwo.slates.sums import SlateState, SlateSums, reduce_slates
from piwo.sources.clusters import Cluster

__all__ = [
    "Gains",
    "bounds_of",
    "check_target",
    "evaluate",
    "finished",
    "gains_of",
    "mean_credit",
    "most_of",
    "never_logged",
    "no_value_left",
    "reason_against",
    "settled_interval",
    "shares_rows",
    "shown_of",
    "sums_for",
    "too_much",
    "weight_p",
]

INTERVALS = ("auto", "deadline", "mixture", "normal")


def evaluate(
    log: SlateLog,
    policy: SlatePolicy,
    *,
    estimator: str = "standard",
    self_normalized: bool = False,
    interval: str = "auto",
    delta: float = 0.05,
    name: str | None = None,
) -> SlateEvaluation:
    """Return the value of a slate policy with its interval. Answers: what would it have earned?

    Formula: the value is the mean of Y = sum_l alpha_l w_l r_l over the rows, alpha the position
    weights. The weights w_l, and what must hold for the mean of Y to be the value:

    - "standard": w = prod_j pi_j/mu_j, of the whole slate. Nothing is assumed of the rewards.
    - "cascade" (RIPS): w_l = prod_{j <= l} pi_j/mu_j. The reward of a slot depends on its own
      action and those above it, not below.
    - "independent" (IIPS): w_l = pi(a_l in slot l)/mu(a_l in slot l), of marginal probabilities.
      The reward of a slot depends on its position and its own action alone.
    - "adaptive" (AIPS): each row's weights are those of one of these three, as the log's column of
      user behaviors says. It must say rightly what the reward depends on, and must not depend on
      the slate that was shown.
    - "pseudo-inverse" (PI): one weight of the reward of the slate, sum_l pi_l/mu_l - (L - 1) if the
      logger draws slots independently. The reward is a sum of unknown parts, each of one slot and
      its action, and the logger can show every slate that the target shows. Rewards must have an
      upper end.

    Bounds: Y >= 0 for all but the pseudo-inverse, of any size, so the library's bets on w R apply
    to Y, and those on w (1 - R) to sum_l alpha_l w_l (1 - r_l) plus the alpha_l of slots that a
    slate lacks. They are valid at this n if the assumption holds, for any weights. Weights of the
    pseudo-inverse are at least -B, with B = L - 1; for uniform rankings of m items B is
    (m - 1) L/(m - L) - 1, or m - 2 if L = m. So the bets are on Y + B R_max, and B R_max is
    subtracted from the bound.

    Args:
        log: of `slates.read`.
        policy: the target: `slates.FromColumns`, `Factored`, `Uniform`, `Deterministic`, or what
            `slates.learn` returns. One that was learned from these rows gets no interval.
        estimator: see above.
        self_normalized: each slot's mean of w_l r_l is divided by its mean of w_l: less variance, a
            small bias. The interval is the same, because it does not rest on the estimate; except
            the one of interval="normal".
        interval: "auto": "deadline", or "mixture" if the logger learned or rows are in a cluster;
            "normal": asymptotic, for comparison.
        delta: error probability of the interval, both sides together; for the best of N policies
            or estimators give each delta / N.
        name: what to call the policy in the result.

    Returns:
        A `SlateEvaluation`.

    Raises:
        DataError: for rows that break a rule.
        UsageError: if the log or the policy lacks the probabilities that the estimator needs.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {
    ...         "slate": [["a", "b"], ["b", "a"]],
    ...         "rs": [[1.0, 0.0], [0.0, 1.0]],
    ...         "above": [[0.5, 1.0], [0.5, 1.0]],
    ...         "pi": [[1.0, 1.0], [0.0, 1.0]],
    ...     },
    ...     rewards="rs",
    ...     propensities="above",
    ... )
    >>> target = piwo.slates.FromColumns(above="pi")
    >>> piwo.slates.evaluate(log, target, estimator="cascade").value
    1.0

    Source: McInerney et al. 2020 (arXiv 2007.12986); Li et al. 2018 (arXiv 1804.10488); Kiyohara et
    al. 2023 (arXiv 2306.15098); Swaminathan et al. 2017 (arXiv 1605.04812); bounds: docs/theory.md,
    section "Slates".
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    chosen = slate_estimator(estimator)
    check_flag("self_normalized", self_normalized)
    check_delta(delta)
    check_target(log, policy)
    chosen.check(log, policy)
    settled = settled_interval(log, interval)
    task = sums_for(log, policy, chosen, settled)
    (state,) = reduce_slates(log, [task])
    shown_as = name or type(policy).__name__
    return finished(log, policy, task, state, settled, delta, bool(self_normalized), shown_as)


def sums_for(
    log: SlateLog, policy: SlatePolicy, estimator: SlateEstimator, interval: str
) -> SlateSums:
    """Return the sums that an evaluation takes.

    Args:
        log: the rows.
        policy: the target, which was checked.
        estimator: which makes the weights.
        interval: the method.
    """
    return SlateSums(
        reader=log.reader(policy),
        estimator=estimator,
        alpha=log.position_weights if log.by_slot else np.ones(1),
        bounded=log.bounded,
        shift=_shift_of(log, estimator),
        partition=Partition("hash") if interval == "deadline" else None,
    )


def finished(
    log: SlateLog,
    policy: SlatePolicy,
    task: SlateSums,
    state: SlateState,
    settled: str,
    delta: float,
    self_normalized: bool,
    name: str,
    unproved: Note | None = None,
) -> SlateEvaluation:
    """Return the evaluation of one policy by one estimator, from the sums.

    Args:
        log: the rows.
        policy: the target.
        task: what was summed.
        state: its sums.
        settled: the interval method.
        delta: error probability.
        self_normalized: whether means of weighted rewards are divided by mean weights.
        name: of the policy.
        unproved: why no interval is made; None: one is, if nothing speaks against it.
    """
    chosen, alpha, shift = task.estimator, task.alpha, task.shift
    value, error = mean_credit(state)
    if self_normalized:
        shares = np.ones(1) if chosen.negative else alpha / alpha.sum()
        value, error = _self_normalized(state, shares)
    sums = state.policy.moments
    p_value = weight_p(log, state, shift)
    never = never_logged(log, policy, state)
    why_not = reason_against(log, policy, chosen, p_value, settled, never) or unproved
    raw, gains, no_interval = bounds.Interval(None, None), Gains(), why_not
    if why_not is None:
        raw = bounds_of(state.policy, settled, delta, shift, log.bounded, value, error)
        gains = gains_of(log, state.policy, settled, delta, shift)
        no_interval = no_value_left(log, raw, settled, log.scale) or too_much(gains, log.scale)
    reported = shown_of(log, raw)
    if no_interval is not None:
        reported = bounds.Interval(None, None)
        if no_interval.kind != "beyond-range":
            gains = Gains()
    by_slot = _slots(log, state, self_normalized)
    if why_not is not None and why_not.kind == "unsupported":
        # the weights are not those of the target
        value, error, by_slot = None, None, ()
    guarantee = "asymptotic" if settled == "normal" else "finite-sample"
    remarks: tuple[Note, ...] = vacuous_notes(reported, most_of(log))
    if no_interval is None:
        remarks += outside_notes(value, raw.lower, raw.upper, sums.w / sums.total)
    return SlateEvaluation(
        name=name,
        estimator=chosen.name,
        assumption=chosen.assumption,
        self_normalized=self_normalized,
        value=_in_units(value, log),
        standard_error=_in_units(error, log),
        lower=_in_units(reported.lower, log),
        upper=_in_units(reported.upper, log),
        lower_raw=_in_units(raw.lower, log),
        upper_raw=_in_units(raw.upper, log),
        interval=settled,
        guarantee=guarantee if no_interval is None else "none",
        delta=delta,
        rows=sums.logged,
        slots=log.slots,
        largest_value=log.scale if log.bounded else None,
        shift=shift,
        mean_weight=sums.w / sums.total,
        max_weight=sums.max_weight,
        ess=None if chosen.negative else effective_size(sums.w, sums.w2),
        logging_value=sums.reward / sums.total * log.scale,
        improvement_lower=improvement_in_units(gains.lower, log.scale),
        improvement_upper=improvement_in_units(gains.upper, log.scale),
        propensity_p=p_value,
        by_slot=by_slot,
        no_interval=no_interval,
        notes=(
            *notes_on(log, policy, task, state, settled, no_interval, never, self_normalized),
            *remarks,
        ),
        logger=log.learning,
        unit=log.columns.unit,
        units=None if log.columns.unit is None else sums.rows,
    )


def check_target(log: SlateLog, policy: Any) -> None:
    """Raise unless this is a slate policy whose columns, labels and slots the log has."""
    check_kind("policy", policy, SlatePolicy, ", such as slates.Deterministic or slates.Uniform")
    needed = [*policy.numbers, *policy.slate_columns]
    if policy.encoding is not None:
        needed += policy.encoding.columns
    require_columns(needed, log.source.schema.names, "slate policy")
    lost = policy.unknown(log.actions)
    if lost:
        raise UsageError(
            f"the log's list of {len(log.actions)} actions lacks {len(lost)} of the policy's: "
            f"{few_of(lost)}; pass {argument('actions', '[...]')} with every action that "
            "could have been shown, logged or not"
        )
    # of a longer order of preference the first eligible labels are shown
    chosen = policy.orders and log.columns.eligible is not None
    if policy.fills is not None and policy.fills > log.slots and not chosen:
        raise UsageError(
            f"the policy fills {policy.fills} slots, and slates of {log.name} have up to "
            f"{log.slots}; give one of at most {log.slots} slots, or declare {argument('slots')} "
            "when reading if more could be shown"
        )


def settled_interval(log: SlateLog, interval: Any) -> Literal["deadline", "mixture", "normal"]:
    """Return the interval method to use: the one asked for, or the one that suits the log.

    Raises:
        UsageError: for other names, and for a method that the log does not allow.
    """
    if interval not in INTERVALS:
        raise UsageError(
            f"{argument('interval')} is {shown(interval)}, expected one of {', '.join(INTERVALS)}"
        )
    placed = not isinstance(log.source, Cluster) and log.learning != "learning"
    if interval == "auto":
        return "deadline" if placed else "mixture"
    if interval == "deadline" and not placed:
        raise UsageError(
            f"{argument('interval', 'deadline')} needs independent rows with numbers that are the "
            "same in every pass, and this logger learned or these rows are in a cluster; use "
            f"{argument('interval', 'mixture')}"
        )
    settled: Literal["deadline", "mixture", "normal"] = interval
    return settled


def _shift_of(log: SlateLog, estimator: SlateEstimator) -> float:
    """Return B with weights of at least -B, for slates of up to L slots.

    Then w R + B >= 0 for R in [0, 1]: estimators of negative weights refuse unbounded rewards.
    """
    if not estimator.negative:
        return 0.0
    if log.logger.ranks:
        return least_of_ranking(log.slots, log.logger.ranks)
    return least_of_product(log.slots)


def _lower_end(
    state: PolicyState,
    what: Literal["value", "loss", "improvement"],
    log_inv_delta: float,
    interval: str,
) -> float:
    """Return the lower bound on the mean of one of the quantities.

    Args:
        state: bet sums.
        what: the quantity.
        log_inv_delta: log(1/delta) of this one statement.
        interval: "deadline" or "mixture".
    """
    if interval == "deadline":
        return deadline_lower(*plain_bets(state, what, log_inv_delta, None), log_inv_delta)
    return bounds.lower(getattr(state.bets, what), state.moments.rows, log_inv_delta)


def weight_p(log: SlateLog, state: SlateState, shift: float = 0.0) -> float:
    """Return the p-value of "propensities are not too small", by bets on w + B; 1 without rows.

    It is 1 of a thinned log, too: bets are on the rows that were kept.
    """
    if log.columns.weight is not None:
        return 1.0
    test = bounds.log_e_value(state.policy.bets.weight, state.policy.moments.rows, 1.0 + shift)
    return math.exp(min(0.0, -test))


def bounds_of(
    state: PolicyState,
    interval: str,
    delta: float,
    shift: float,
    bounded: bool,
    value: float | None,
    error: float | None,
) -> bounds.Interval:
    """Return the raw interval on the unit scale.

    Args:
        state: bet sums of credits to which `shift` was added.
        interval: the method.
        delta: of both ends together.
        shift: B.
        bounded: whether rewards have an upper end.
        value: the estimate, for "normal".
        error: its standard error.
    """
    if interval == "normal":
        if value is None:
            return bounds.Interval(None, None, "asymptotic")
        return bounds.normal_interval(value, error, delta)
    if not bounded:
        low = _lower_end(state, "value", bounds.log_inv_delta(delta), interval) - shift
        return bounds.Interval(low, None)
    # delta / 2 for each side
    half = bounds.log_inv_delta(delta, statements=2)
    low = _lower_end(state, "value", half, interval) - shift
    return bounds.Interval(low, _upper_end(state, half, interval, shift))


def _upper_end(state: PolicyState, log_inv_delta: float, interval: str, shift: float) -> float:
    """Return the upper bound on the value: V = 1 - E Z, so V <= 1 - (LB(E[Z + B]) - B)."""
    return 1.0 + shift - _lower_end(state, "loss", log_inv_delta, interval)


@dataclass(frozen=True)
class Gains:
    """Bounds on the value minus the logger's, on the unit scale; None: there is none."""

    lower: float | None = None
    upper: float | None = None


def gains_of(log: SlateLog, state: PolicyState, interval: str, delta: float, shift: float) -> Gains:
    """Return finite-sample bounds on the improvement over the logger.

    They hold if the estimator's assumption does, and each is a statement of its own. With an
    asymptotic interval of the value they are those of the mixture. The lower one is from value and
    logged reward of the same rows; the upper one from bounds on each, at delta / 2.

        LB(E[Y + 1 - R + B]) - 1 - B <= v(pi) - v(mu)
        v(pi) - v(mu) <= min(1, 1 + B - LB(E[Z + B])) - LB(E R)

    Args:
        log: the rows.
        state: bet sums of credits to which `shift` was added.
        interval: the method.
        delta: of each bound.
        shift: B.
    """
    if not log.bounded or unprovable(log.roles, log.learning, ()) is not None:
        return Gains()
    how = "mixture" if interval == "normal" else interval
    lower = _lower_end(state, "improvement", bounds.log_inv_delta(delta), how) - 1.0 - shift
    half = bounds.log_inv_delta(delta, statements=2)
    n, earned = state.moments.rows, state.moments.reward
    # no value is above 1
    highest = min(1.0, _upper_end(state, half, how, shift))
    upper = highest - bounds.logged_value_lower(earned, n, half)
    if upper < lower:
        # they say nothing together
        return Gains(lower)
    return Gains(lower, upper)


def too_much(gains: Gains, unit: float) -> Note | None:
    """Return why a bound on the improvement is not believed: no value is that high; None if it is.

    Args:
        gains: on the unit scale.
        unit: what 1 on the unit scale is worth.
    """
    if gains.lower is None or gains.lower <= 1.0:
        return None
    return Note(
        "at this delta the rows contradict their propensities, or the assumption: the improvement "
        f"would be at least {gains.lower * unit:.4g}, and values lie in [0, {unit:.4g}]",
        kind="contradicted",
    )


def no_value_left(log: SlateLog, raw: bounds.Interval, interval: str, unit: float) -> Note | None:
    """Return why an interval is not given: it leaves out every possible value; None if it is.

    Args:
        log: the rows.
        raw: the interval, on the unit scale.
        interval: the method.
        unit: what 1 on the unit scale is worth.
    """
    most = most_of(log)
    if raw.guarantee == "asymptotic":
        return beyond_range(raw, interval, most, lambda end: end * unit)
    what = empty_ends(raw, most, lambda end: end * unit)
    if what is None:
        return None
    return Note(
        "at this delta the rows contradict their propensities, or the assumption: the interval "
        f"{what}",
        kind="contradicted",
    )


def shown_of(log: SlateLog, raw: bounds.Interval) -> bounds.Interval:
    """Return an interval without what the range of rewards rules out, on the unit scale."""
    return raw.reported(0.0, most_of(log))


def most_of(log: SlateLog) -> float:
    """Return the highest possible value on the unit scale."""
    return 1.0 if log.bounded else math.inf


def mean_credit(state: SlateState) -> tuple[float | None, float | None]:
    """Return the mean of Y and its standard error, on the unit scale; None if not defined."""
    sums = state.policy.moments
    moments = MomentState(
        rows=sums.rows,
        total=sums.total,
        rho=state.y,
        rho2=state.y2,
        s2=float(state.products[-1, -1]),
        srho=state.sy,
    )
    found = mean_of_credits(moments)
    return _finite(found.value), _finite(found.standard_error)


def _self_normalized(state: SlateState, shares: Floats) -> tuple[float | None, float | None]:
    """Return the self-normalized value and its standard error, on the unit scale."""
    n, total = state.policy.moments.rows, state.policy.moments.total
    there = state.slots > 0
    if (state.w[there] <= 0).any():
        return None, None
    # V_l = sum w_l r_l / sum w_l, with the weight alpha_l times the share of rows that have slot l
    each = np.divide(state.wr, state.w, out=np.zeros(len(shares)), where=there)
    weight = shares * state.slots / total
    value = _finite(float(weight @ each))
    # the delta method: a row's part is sum_l c_l (w_l r_l - V_l w_l), c_l = weight_l / sum w_l, and
    # sum_l alpha_l V_l (1{row has l} - N_l/n) / n, which is the same of rows that lack l, negative
    slope = np.divide(weight, state.w, out=np.zeros(len(shares)), where=there)
    share = shares * each / total
    lacking = float(share @ (1.0 - state.slots / total))
    factors = np.concatenate([-slope * each, slope, -share, [lacking]])
    with np.errstate(over="ignore", invalid="ignore"):
        spread = float(factors @ state.products @ factors)
    if n < 2 or not math.isfinite(spread):
        return value, None
    return value, math.sqrt(max(0.0, spread))


def _finite(number: float | None) -> float | None:
    if number is None or not math.isfinite(number):
        return None
    return number


def _in_units(number: float | None, log: SlateLog) -> float | None:
    if number is None:
        return None
    return number * log.scale


def _slots(log: SlateLog, state: SlateState, normalized: bool) -> tuple[SlotValue, ...]:
    """Return what each slot contributes, if there is a weight for each."""
    if not log.by_slot or len(state.slots) != log.slots:
        return ()
    largest, found = log.largest if log.bounded else 1.0, []
    for slot, count in enumerate(state.slots):
        if count == 0:
            continue
        below = state.w[slot] if normalized else count
        value = None
        if below > 0:
            value = _finite(float(state.wr[slot] / below) * largest)
        found.append(
            SlotValue(
                position=slot + 1,
                rows=int(state.having[slot]),
                position_weight=float(log.position_weights[slot]),
                value=value,
                logging_value=float(state.logged[slot] / count) * largest,
                mean_weight=float(state.w[slot] / count),
            )
        )
    return tuple(found)


def never_logged(log: SlateLog, policy: SlatePolicy, state: SlateState) -> tuple[Label, ...]:
    """Return the actions that a target names, and that the logger never showed, as far as known.

    Args:
        log: the rows.
        policy: the target.
        state: sums over all rows.
    """
    labels = log.actions.labels
    known = {str(labels[code]): None for code in np.flatnonzero(state.taken)}
    # what a logger that names its items can show, it may not have shown by chance
    known |= dict.fromkeys(map(str, log.logger.listed or ()))
    return policy.unknown(Actions(list(known)))


def reason_against(
    log: SlateLog,
    policy: SlatePolicy,
    estimator: SlateEstimator,
    p_value: float,
    interval: str,
    never: Sequence[Label],
) -> Note | None:
    """Return why there is no interval; None if there is one.

    Args:
        log: the rows.
        policy: the target.
        estimator: which makes the weights.
        p_value: of "propensities are not too small", by the mean weight.
        interval: the method; of rows for which nothing is proved, "normal" alone exists.
        never: of `never_logged`.
    """
    if never and estimator.negative:
        return Note(
            f"the target shows actions that the logger does not ({few_of(never)}), and no "
            "estimate with weights that may be negative is valid then; use another estimator",
            kind="unsupported",
        )
    if shares_rows(log, policy.learned_from):
        return Note(
            "the policy was learned from these rows; evaluate it on held-out rows (SlateLog.split)",
            kind="in-sample",
        )
    if policy.learned_from is None:
        overlap = overlap_of(log, policy)
        if overlap.certain:
            return Note(
                f"the policy was learned from these rows ({overlap.how}); evaluate it on rows that "
                "it has not seen",
                kind="in-sample",
            )
    if interval != "normal":
        obstacle = unprovable(log.roles, log.learning, ())
        if obstacle is not None:
            return obstacle
    if p_value < SUSPICIOUS:
        return Note(
            f"the rows contradict their propensities (p = {p_value:.2g}): the mean weight is above "
            "1, so the propensities are too small or of other slates; correct them",
            kind="contradicted",
        )
    return None


def shares_rows(log: SlateLog, other: Any) -> bool:
    """Whether a slate log may have rows of another one."""
    if not isinstance(other, SlateLog):
        return False
    if (other.origin or other.source) is not (log.origin or log.source):
        return False
    if other.source is not log.source:
        # copies of a query may have other orders
        return True
    mine, theirs = log.selector, other.selector
    if isinstance(mine, HeldOut) and isinstance(theirs, HeldOut):
        return replace(mine, test=not mine.test) != theirs
    return True
