"""evaluate and compare: one pass over the log, every policy at once."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.checks import check_finite
from piwo.engines.engine import reduce
from piwo.errors import UsageError
from piwo.estimators.contradiction import Claim, beside, contradiction, weight_p
from piwo.estimators.difference import Baseline, Difference
from piwo.estimators.evaluation import SUSPICIOUS, Evaluation
from piwo.estimators.intervals import INTERVALS, Evidence, IntervalMethod, interval_named
from piwo.estimators.point import Estimator, estimator_named
from piwo.estimators.predicted_baselines import with_predictions
from piwo.estimators.prepare import check_named, name_of, prepare, resolve_gamma, unknown_actions
from piwo.estimators.support import unsupported_masses
from piwo.estimators.weight_sums import effective_size, weight_z
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.policies.sampling import check_random_state
from piwo.reductions import ActionCount, PolicyState, PolicySums, Together
from piwo.reductions.pair_sums import PairSums
from piwo.reductions.shared_policy import SharedPolicy
from piwo.scores import IW, Score
from piwo.visible import p_value

__all__ = ["INTERVALS", "compare", "evaluate"]


def evaluate(
    log: Log,
    policy: Any,
    *,
    estimator: str = "iw",
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    name: str | None = None,
    random_state: Any = 0,
) -> Evaluation:
    """Return the value of a policy with an interval that holds. Answers: what would it have earned?

    Formula: `value` is the point estimate named by `estimator`; [lower, upper] contains the true value with
    probability at least 1 - delta, delta/2 a side, by the mixture bound on w R and on w (1 - R), and on their
    doubly robust forms where the log has full propensity vectors: no bound on the weights, no normality, valid
    where the policy plays what the logger never did.

    Args:
        log: the logged decisions.
        policy: a `Policy`; or an array, (n,) pi(A_t|X_t) or (n, K) with columns in the order of the log's
            explicit action list; or a data frame with one column an action, matched by name.
        estimator: "iw", "snips", "ix", "clip", "ls", "ls-linear", or another score by its name (docs/reference.md).
        gamma: for ix and clip, half of lam for ls and ls-linear, and what goes with it for other scores; "auto":
            sqrt(log(2/delta) / n).
        interval: "auto" (the default): "mixture-cv", the mixture bound with control variates, where the log has the
            probability of every action (`propensities=` or `behavior=`) and the policy gives full vectors,
            else "mixture", which needs the logged actions' alone; "ix", "ls"; "normal" and "bootstrap" are
            asymptotic, for comparison; more in docs/bounds.md.
        q: a reward model, whose predictions "auto" and "mixture-cv" take as baselines beside the constant ones:
            "forward" fits one to the log itself, each row's on earlier rows alone (`piwo.estimators.forward_model`);
            or predictions made from other rows, see `piwo.estimators.doubly_robust`. Refused where no policy's interval
            can use it.
        baseline: what `improvement_lower` is over: a policy fixed before this log was looked at, such as the one that
            runs today; None: the logging policy.
        delta: how often the interval may be wrong, both sides together.
        propensity_factor: the true propensities are at most this times the logged ones (`Log.doubted`); at least 1.
        sensitivity: Gamma: by how much a hidden cause may have changed the odds of an action; at least 1.
        horizon: None: the bounds hold for one look at this log; a number of rows, or "universal", declared before the
            first look: they hold at all looks together, as rows come in (docs/adaptive.md).
        threshold: a value, fixed in advance, to have evidence that the policy's is above it (`log_e_above`).
        name: what to call the policy in the result.
        random_state: seed of the bootstrap.

    Returns:
        An `Evaluation`.

    Raises:
        DataError: for rows that break a rule, and for policies that do not fit the log.
        UsageError: for arguments out of range.

    Source: docs/theory.md, sections "The mixture bound" and "Control variates"; point estimates: Gabbianelli, Neu,
    Papini 2024.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)
    >>> result = evaluate(log, piwo.policies.Constant("a", log.actions))
    >>> result.value, result.lower > 0.5, result.upper
    (1.0, True, 1.0)
    """
    found = compare(
        log,
        {name or name_of(policy): policy},
        estimator=estimator,
        gamma=gamma,
        interval=interval,
        q=q,
        baseline=baseline,
        delta=delta,
        propensity_factor=propensity_factor,
        sensitivity=sensitivity,
        horizon=horizon,
        threshold=threshold,
        random_state=random_state,
    )
    return next(iter(found.values()))


def compare(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimator: str = "iw",
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    random_state: Any = 0,
) -> dict[str, Evaluation]:
    """Return the evaluations of several policies; their intervals hold together with probability 1 - delta.

    One pass over the log serves all policies. Each interval, and each improvement bound, is at level delta /
    N, so the best may be picked: its bound still holds. Where the rows contradict their propensities by the weights
    of one policy, no policy has bounds.

    Args:
        log: the logged decisions.
        policies: name -> policy; see `evaluate` for what a policy may be.
        estimator: see `evaluate`.
        gamma: see `evaluate`.
        interval: see `evaluate`.
        q: see `evaluate`.
        baseline: see `evaluate`; or the name of one of the policies.
        delta: how often any of the intervals may be wrong.
        propensity_factor: see `evaluate`.
        sensitivity: see `evaluate`.
        horizon: see `evaluate`.
        threshold: see `evaluate`.
        random_state: seed of the bootstrap.

    Returns:
        name -> `Evaluation`, in the order given.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)
    >>> both = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    >>> [r.simultaneous for r in compare(log, both).values()]
    [2, 2]
    """
    check_named(log, policies)
    method, chosen = interval_named(interval), estimator_named(estimator)
    if not method.goes_with(chosen):
        raise UsageError(
            f"interval={interval!r} comes from that score, got estimator={estimator!r}; use the same for both"
        )
    given, base = log, Baseline.of(log, policies, baseline)
    simultaneous = len(policies)
    log, ready = prepare(log, policies if base is None else {**policies, base.key: base.policy})
    bounds.check_horizon(horizon)
    check_random_state(random_state)
    if not chosen.smoothed and gamma != "auto":
        resolve_gamma(gamma, 1, delta)  # not used, but what is no number is a mistake
    asked = _Question(
        chosen.on(log.origin),
        delta,
        bounds.log_inv_delta(delta),
        simultaneous,
        random_state,
        horizon,
        None if threshold is None else _unit(threshold, log),
        None if base is None else replace(base, policy=ready.pop(base.key)),
    )
    log = log.doubted(propensity_factor, sensitivity)
    methods = {name: method.settled(log, policy) for name, policy in ready.items()}
    methods = with_predictions(methods, q, log, ready, asked=method, given=given)
    for one in methods.values() if horizon is not None else ():
        _check_anytime(one, gamma, horizon)
    planned = horizon if isinstance(horizon, int) else len(log)
    score = chosen.score(resolve_gamma(gamma, planned, delta)) if chosen.smoothed else IW()
    return _measured(asked, log, ready, methods, score)


def _measured(
    asked: _Question, log: Log, ready: Mapping[str, Policy], methods: Mapping[str, IntervalMethod], score: Score
) -> dict[str, Evaluation]:
    """Return what the pass over the log says of each policy."""
    bounded = math.isfinite(log.reward_range[1])
    sums = tuple(
        SharedPolicy(
            policy,
            (
                PolicySums(policy, score, bounded),
                *methods[name].sums(log, policy),
                *asked.against(policy, methods[name]),
            ),
        )
        for name, policy in ready.items()
    )
    base = asked.baseline
    others = () if base is None else base.sums
    played = (*ready.values(), *(() if base is None else (base.policy,)))
    counts = log.declared_actions is not None or any(policy.plays_what_was_seen for policy in played)
    counted = (ActionCount(len(log.actions)),) if counts else ()  # else every action was seen, and none is asked for
    states = reduce(log, Together((*sums, *others, *counted)))
    count = states[-1].count if counts else np.empty(0)
    masses = unsupported_masses(log, ready, np.flatnonzero(count == 0))
    once = int((count == 1).sum())
    own = dict(zip(ready, states, strict=False))
    against = None
    if base is not None:
        state = own[base.twins[0]][0] if base.twins else states[len(own)]
        against = _Against(base, state, _obstacle(log, base.policy, once))
    found = {}
    for name, policy in ready.items():
        state, *more = own[name]
        pair = None if base is None else (Difference.of(policy, base.policy, methods[name]), more.pop())
        evidence = asked.evidence(log, policy, score, state, tuple(more))
        found[name] = _Measured.of(methods[name], evidence, _obstacle(log, policy, once), pair, against)
    weights = asked.tested(found, against)
    claims = {name: Claim(one.raw, one.gain) for name, one in found.items() if one.obstacle is None}
    why_not = contradiction(weights, claims, log.reward_range)
    return {name: _finish(asked, name, one, masses[name], weights, why_not) for name, one in found.items()}


def _unit(threshold: Any, log: Log) -> float:
    """Return a threshold on the unit scale."""
    check_finite("threshold", threshold)
    low, high = log.reward_range
    unit = (float(threshold) - low) / log.span
    if unit > 1.0 and math.isfinite(high):
        raise UsageError(f"threshold is {threshold!r}, expected a value of at most {high:g}, the highest reward")
    if not 0.0 <= unit < math.inf:
        raise UsageError(
            f"threshold is {threshold!r}, expected a value of at least {log.reward_range[0]:g}, the lowest reward"
        )
    return unit


def _check_anytime(method: IntervalMethod, gamma: float | str, horizon: bounds.Horizon) -> None:
    if not method.anytime:
        raise UsageError(
            f"{method.name} intervals hold at one n at most, and a horizon asks for all; use interval='mixture'"
        )
    if method.fixed_bet and gamma == "auto" and not isinstance(horizon, int):
        raise UsageError(
            f"gamma is 'auto', which follows the number of rows, and horizon is {horizon!r}; "
            "give gamma as a number, or the horizon as a number of rows"
        )


def _obstacle(log: Log, policy: Policy, once: int) -> str | None:
    """Return why no finite-sample statement can be made, None where one can.

    Args:
        log: the rows.
        policy: over the log's action list.
        once: how many actions of the list were logged exactly once.
    """
    if log.columns.weight is not None:
        return "the log was thinned (sampling weights) and the dropped rows are not counted: no finite-sample interval"
    if policy.plays_what_was_seen and once:
        # a policy that plays whatever was seen is made from the data: E w <= 1 does not hold for it
        return (
            f"{unknown_actions(once, len(log.actions))}: no finite-sample interval; "
            "give the list (actions=[...], --actions)"
        )
    return None


@dataclass(frozen=True)
class _Question:
    """What was asked."""

    estimator: Estimator
    delta: float
    log_inv_delta: float
    simultaneous: int
    random_state: Any
    horizon: bounds.Horizon
    threshold: float | None
    """On the unit scale."""
    baseline: Baseline | None = None
    """None: the logging policy."""

    @property
    def each(self) -> float:
        """Return log(N / delta), what each of the N policies pays."""
        return self.log_inv_delta + math.log(self.simultaneous)

    def tested(self, found: Mapping[str, _Measured], against: _Against | None) -> dict[Any, float]:
        """Return the p-value by the weights of every policy, the baseline's too, which pay for each other."""
        states: dict[Any, PolicyState] = {x: one.evidence.state for x, one in found.items() if one.obstacle is None}
        paid = math.log(self.simultaneous)
        if against is not None and against.obstacle is None and not against.baseline.twins:
            states[against.baseline.key], paid = against.state, beside(paid, 1)
        return {key: weight_p(state, paid) for key, state in states.items()}

    def against(self, policy: Policy, method: IntervalMethod) -> tuple[PairSums, ...]:
        """Return what must be summed to compare a policy with the baseline."""
        return () if self.baseline is None else (Difference.of(policy, self.baseline.policy, method).sums,)

    def evidence(self, log: Log, policy: Policy, score: Score, state: PolicyState, own: tuple[Any, ...]) -> Evidence:
        """Return what the pass over the log found about one policy."""
        return Evidence(
            log=log,
            policy=policy,
            score=score,
            estimator=self.estimator,
            estimate=self.estimator.finish(state.moments),
            state=state,
            own=own,
            delta=self.delta / self.simultaneous,
            log_inv_delta=self.each,
            random_state=self.random_state,
            horizon=self.horizon,
        )


@dataclass(frozen=True)
class _Against:
    """What the pass found of the baseline itself."""

    baseline: Baseline
    state: PolicyState
    obstacle: str | None


@dataclass(frozen=True)
class _Measured:
    """What the formulas say of one policy, before it is known whether the rows can be believed."""

    method: IntervalMethod
    evidence: Evidence
    obstacle: str | None
    raw: bounds.Interval
    gain: float | None
    """Lower bound on the improvement."""
    log_e_better: float | None
    against: _Against | None

    @classmethod
    def of(
        cls,
        method: IntervalMethod,
        evidence: Evidence,
        obstacle: str | None,
        pair: tuple[Difference, Any] | None,
        against: _Against | None,
    ) -> _Measured:
        """Return what the formulas say; where there is an obstacle asymptotic ones alone."""
        raw = bounds.Interval(None, None)
        if obstacle is None or method.guarantee == "asymptotic":
            raw = method.finish(evidence)
        gain = log_e = None
        if pair is not None and against is not None:
            if obstacle is None and against.obstacle is None:
                difference, sums = pair
                gain = difference.lower(sums, evidence.log_inv_delta, evidence.horizon)
                log_e = difference.log_e_value(sums)
        elif evidence.bounded and obstacle is None:
            gain = method.improvement(evidence)
            log_e = bounds.log_e_value(evidence.state.bets.improvement, evidence.rows, 1.0)
        return cls(method, evidence, obstacle, raw, gain, log_e, against)


def _finish(
    asked: _Question,
    name: str,
    found: _Measured,
    mass: float | None,
    weights: Mapping[Any, float],
    contradicted: str | None,
) -> Evaluation:
    method, evidence, raw, against = found.method, found.evidence, found.raw, found.against
    log, sums, bets, bounded = evidence.log, evidence.state.moments, evidence.state.bets, evidence.bounded
    estimate, why_not = evidence.estimate, found.obstacle or contradicted
    most = 1.0 if bounded else math.inf
    silent = why_not is not None  # no finite-sample statement
    shown = raw.reported(0.0, most) if method.guarantee == "asymptotic" or not silent else bounds.Interval(None, None)
    defined = shown.lower is not None or shown.upper is not None
    missing = bounds.missing_mass_upper(bets.weight, sums.rows, asked.each, horizon=asked.horizon)
    value, span = log.value, log.span
    made = Evaluation(
        name=name,
        estimator=asked.estimator.name,
        gamma=evidence.score.gamma_equivalent,
        value=_scaled(estimate.value, value),
        standard_error=None if estimate.standard_error is None else span * estimate.standard_error,
        lower=_scaled(shown.lower, value),
        upper=_scaled(shown.upper, value),
        lower_raw=_scaled(raw.lower, value),
        upper_raw=_scaled(raw.upper, value),
        interval=method.name,
        guarantee=_guarantee(asked, shown),
        delta=asked.delta,
        simultaneous=asked.simultaneous,
        rows=sums.rows,
        mean_weight=sums.w / sums.total if sums.total else 0.0,
        mean_weight_z=weight_z(sums.w, sums.w2, sums.rows) if found.obstacle is None else None,
        ess=effective_size(sums.w, sums.w2),
        ess_used=effective_size(sums.u, sums.u2),
        changed_rows=sums.changed,
        max_weight=sums.max_weight,
        unsupported_mass=mass,
        missing_mass_upper=None if silent else min(1.0, max(0.0, missing)),
        logging_value=value(sums.reward / sums.total),
        improvement_lower=None if silent or found.gain is None else span * max(-1.0, found.gain),
        propensity_p=None if found.obstacle else min(weights.values()),
        reward_range=log.reward_range,
        cost=log.columns.cost,
        horizon=asked.horizon,
        log_e_better=None if silent else found.log_e_better,
        log_e_above=None
        if asked.threshold is None or silent
        else bounds.log_e_value(bets.value, sums.rows, asked.threshold),
        baseline=None if against is None else against.baseline.name,
        baseline_value=None if against is None else against.baseline.value(against.state, log),
        no_interval=None if defined else why_not or f"the {method.name} interval is not defined on these rows",
    )
    return replace(made, notes=_notes(made, found, weights.get(name), why_not))


def _guarantee(asked: _Question, raw: bounds.Interval) -> str:
    if raw.lower is None and raw.upper is None:
        return "none"
    if raw.guarantee == "asymptotic" and asked.estimator.smoothed:
        return "asymptotic, for the smoothed value"
    return raw.guarantee


def _scaled(number: float | None, value: Any) -> float | None:
    return None if number is None or not math.isfinite(number) else float(value(number))


def _notes(made: Evaluation, found: _Measured, own_p: float | None, why_not: str | None) -> tuple[str, ...]:
    log, obstacle, against = found.evidence.log, found.obstacle, found.against
    notes = [*log.doubts, *([] if obstacle is None else [obstacle])]
    doubtful = own_p is not None and own_p < SUSPICIOUS
    notes += _mismatch(made, log, own_p, doubtful)
    if why_not is not None and why_not != obstacle and not doubtful:
        notes.append(f"{why_not}: no bound is given")
    if made.unsupported_mass:
        notes.append(
            f"the policy gives probability {made.unsupported_mass:.4g} to actions that were never logged; "
            f"what they would have earned is unknown, the value counts it as the lowest reward{_reach(made)}"
        )
    if made.ess is not None and made.ess < min(50, made.rows):
        notes.append(f"the effective sample size is {made.ess:.3g} of {made.rows} rows: a few rows carry the estimate")
    if made.changed_rows and made.estimator == "clip":
        notes.append(
            f"clipping at propensity {made.gamma:.4g} changed {made.changed_rows} "
            f"row{'' if made.changed_rows == 1 else 's'}"
        )
    if made.guarantee.startswith("asymptotic"):
        notes.append(f"the {made.interval} interval is asymptotic and may be wrong far more often than delta")
        if made.guarantee != "asymptotic":
            notes.append(f"it is for what the {made.estimator} estimate tends to, which is not the policy's value")
    low, high = made.reward_range
    outside = made.value is not None and not (
        (made.lower is None or made.lower <= made.value) and (made.upper is None or made.value <= made.upper)
    )
    if outside and made.guarantee == "finite-sample":
        notes.append(f"the {made.estimator} estimate lies outside the interval; believe the interval, not the estimate")
    if (
        made.guarantee == "finite-sample"
        and (made.lower is None or made.lower <= low)
        and (made.upper is None or made.upper >= high)
    ):
        notes.append("the interval is vacuous: this log says nothing about this policy at this delta")
    if found.method.note is not None and made.guarantee != "none":
        notes.append(found.method.note)
    if against is not None and against.obstacle is not None:
        notes.append(f"baseline {against.baseline.name}: {against.obstacle}")
    return tuple(notes)


def _mismatch(made: Evaluation, log: Log, own_p: float | None, doubtful: bool) -> list[str]:
    """Return what the mean weight of a policy says about the propensities; nothing where it is near 1."""
    z = made.mean_weight_z
    if doubtful or (z is not None and z > 4):
        evidence = [*([] if z is None else [f"z = {z:.3g}"]), *([] if own_p is None else [p_value(own_p)])]
        mean = f"the mean weight is {_weight(made.mean_weight)}, expected 1 ({', '.join(evidence)})"
        high = (
            f"propensities that are too small make every value too high{', and no bound is given' if doubtful else ''}"
        )
        return [f"logged propensities do not match action frequencies: {mean}; {high}"]
    if z is not None and z < -4 and (log.doubt is None or log.doubt.exact):
        mean = f"the mean weight is {made.mean_weight:.4g}, expected 1"
        return [f"{mean}: the policy plays what the logger never did, or the logged propensities are too large"]
    return []


def _weight(weight: float) -> str:
    return f"{weight:.4g}" if math.isfinite(weight) else "beyond float64"


def _reach(made: Evaluation) -> str:
    """Return how far up the value reaches if the actions never logged earn the highest reward."""
    low, high = made.reward_range
    if made.value is None or made.unsupported_mass is None or not math.isfinite(high):
        return ""
    return f"; with the highest it would be {made.value + made.unsupported_mass * (high - low):.4g}"
