"""evaluate and compare: the value of policies with intervals, all in one pass over the log."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypedDict, Unpack, overload

import numpy as np

from piwo import bounds
from piwo.checks import check_finite, is_number
from piwo.errors import UsageError
from piwo.evaluation.comparison import Comparison
from piwo.evaluation.gamma_path import GammaPath
from piwo.evaluation.guarded import results_of_guardrails
from piwo.evaluation.guardrails import (
    Guardrail,
    GuardrailResult,
    guardrails_of,
    share_of_delta,
    shared_note,
)
from piwo.evaluation.learning_logger import as_learning_if_seen
from piwo.evaluation.marginal import check_categories, marginal_estimates
from piwo.evaluation.notes import notes_of
from piwo.evaluation.record import Evaluation
from piwo.evaluation.request import Request
from piwo.evaluation.result import PolicyResult, RequestResult, in_units
from piwo.evaluation.segment import segments_note
from piwo.evaluation.segments import SegmentRequest
from piwo.evaluation.unsupported import masses_of, unsupported_masses
from piwo.intervals import interval_named
from piwo.intervals.matching import check_named, name_of
from piwo.intervals.point import MARGINAL
from piwo.intervals.weight_sums import effective_size, weight_z
from piwo.logs.log import Log
from piwo.logs.provable import assumed_of_logger
from piwo.messages import Note, argument
from piwo.reductions import Joint
from piwo.reductions.by_segment import BySegment
from piwo.reductions.reduce import reduce
from piwo.reductions.reduction import Reduction

__all__ = ["Summed", "compare", "compare_summing", "evaluate", "unsupported_masses"]


class _Asked(TypedDict, total=False):
    """The arguments of `evaluate` besides gamma, which decides what is returned."""

    estimator: str | None
    categories: Any
    interval: str
    q: Any
    baseline: Any
    guardrail: Any
    by: str | None
    delta: float
    propensity_factor: float
    sensitivity: float
    rate_cap: float | None
    horizon: bounds.Horizon
    threshold: float | None
    name: str | None
    random_state: Any


@overload
def evaluate(
    log: Log, policy: Any, *, gamma: float | str = "auto", **asked: Unpack[_Asked]
) -> Evaluation: ...
@overload
def evaluate(
    log: Log, policy: Any, *, gamma: Sequence[float], **asked: Unpack[_Asked]
) -> GammaPath: ...
def evaluate(
    log: Log,
    policy: Any,
    *,
    estimator: str | None = None,
    categories: Any = None,
    gamma: float | str | Sequence[float] = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    guardrail: Any = None,
    by: str | None = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    rate_cap: float | None = None,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    name: str | None = None,
    random_state: Any = 0,
) -> Evaluation | GammaPath:
    """Return the value of a policy with its interval. Answers: what would it have earned?

    Formula: `value` is the point estimate named by `estimator`; [lower, upper] contains the true
    value with probability at least 1 - delta, delta/2 a side, by bets on w R and on w (1 - R), and
    on their doubly robust forms if the log has full propensity vectors: valid at the given n, for
    any weights, including actions the logger never took. The bets are on blocks of rows in turn
    ("deadline"), which assumes a fixed logger and independent rows, or of fixed sizes ("mixture"),
    which does not: see `interval`. A policy that was learned from these rows gets no interval:
    learners and policy files know their rows.

    Args:
        log: the logged decisions.
        policy: a `Policy`; or an array, (n,) pi(A_t|X_t) or (n, K) with columns in the order of the
            log's explicit action list; or a data frame with one column an action, matched by name.
        estimator: "iw", "snips", "cressie-read", "ix", "clip", "ls", "ls-linear", or another score
            by its name (docs/reference.md); None (the default): "iw", or what the interval comes
            from: "ix" for `interval="ix"`, "ls" for "ls", "cressie-read" for "cressie-read"; or
            "mips", by weights of categories (`piwo.estimators.mips`): results state what it
            assumes, and the interval does not rest on that. One more pass for each policy.
        categories: for "mips": label of an action -> its category or vector, or the names of
            columns of the log's `items`.
        gamma: for ix and clip, half of lam for ls and ls-linear, and what goes with it for other
            scores; "auto": sqrt(log(2/delta) / n). A list: the path over these, in one pass, by
            "ix" unless `estimator` or `interval` says otherwise. Bounds that depend on gamma then
            hold at all of them together, each at delta / m. Without `guardrail` and `by`.
        interval: "auto" (the default): "deadline-cv" if the log has the probability of every action
            (`propensities=` or `behavior=`) and the policy gives full vectors, else "deadline"; if
            the logger learned, with a horizon, and in a cluster without a key, "mixture-cv" or
            "mixture"; or another method of the table
            `piwo.intervals.INTERVALS` (docs/bounds.md), possibly with a declared number, as in
            "hoeffding:20". Some are asymptotic, for comparison: the table and every result say so.
        q: a reward model, whose predictions "auto" and the "-cv" methods use as baselines besides
            the constant ones: "forward" fits one to the log itself, each row on earlier rows alone
            (`piwo.estimators.forward_model`); `piwo.cross_fit` with by="time"; "predictions": those
            of the log's own column of eligible actions (`predictions=`); or predictions made from
            other data, see `piwo.estimators.doubly_robust`. Refused if no policy's interval can use
            it.
        baseline: what `improvement_lower` is over: a policy fixed before this log was looked at,
            such as the one that runs today; None: the logging policy.
        guardrail: a limit on the mean of another outcome under the policy, such as
            "complaints<=.01" or "complaints<=logger+.005" (`piwo.evaluation.Guardrail`); or several
            of them. The log declares the column (`outcomes=["complaints"]`). delta is then shared
            equally: the interval of the value, the improvement, and each guardrail's answer are
            each wrong with probability at most delta / (1 + number of guardrails). Each guardrail
            takes one more pass.
        by: a column that is known before the decision and that earlier decisions do not influence:
            `segments` of the result has the value, the
            improvement and the mix of actions for each of its values, at most 100. They hold
            together: each is at the delta of the whole log over the number of segments. Rows
            without a value are a segment. In the same pass, after one over this column alone.
        delta: error probability of the interval, both sides together.
        propensity_factor: the true propensities are at most this times the logged ones
            (`Log.with_propensity_error`); at least 1.
        sensitivity: Gamma: by how much a hidden cause may have changed the odds of an action; at
            least 1.
        rate_cap: rho, declared before looking: E[R | x, a] <= rho for every context and action, in
            the reward's own unit, such as 0.05 for a click that no banner gets from more than 5 %.
            It makes upper ends useful for rare rewards; results state it as an assumption. A log
            that contradicts it is refused. None: nothing is assumed.
        horizon: None: the bounds hold for one look at this log; a number of rows, or "universal",
            declared before the first look: they hold at all looks together, as rows come in. With
            `interval="deadline"` and a number they are narrower near it, if rows are in the order
            of the decisions, and contexts and rewards do not drift; "auto" assumes neither
            (docs/adaptive.md).
        threshold: a value, fixed in advance, to have evidence that the policy's is above it
            (`log_e_above`).
        name: what to call the policy in the result.
        random_state: seed of the bootstrap.

    Returns:
        An `Evaluation`; for a list of gamma a `piwo.evaluation.GammaPath`.

    Raises:
        DataError: for rows that break a rule or contradict `rate_cap`, and for policies that do not
            fit the log.
        UsageError: for arguments out of range.

    Source: docs/theory.md, sections "The mixture bound", "Control variates" and "A cap on rates";
    point estimates:
    Gabbianelli, Neu, Papini 2024.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> result = evaluate(log, piwo.policies.Constant("a", log.actions))
    >>> result.value, result.lower > 0.5, result.upper
    (1.0, True, 1.0)
    """
    named = {name or name_of(policy): policy}
    check_categories(estimator, categories, by)
    if isinstance(gamma, Sequence | np.ndarray) and not isinstance(gamma, str):
        if guardrail is not None or by is not None:
            what = argument("by" if guardrail is None else "guardrail")
            raise UsageError(f"got {what} with a list of gamma; give one gamma, or leave it out")
        if categories is not None:
            raise UsageError(
                f"got a list of gamma with {argument('estimator', MARGINAL)}, which has none; "
                "leave it out"
            )
        return _path(
            log,
            named,
            gammas=gamma,
            estimator=estimator,
            interval=interval,
            delta=delta,
            threshold=threshold,
            options={
                "q": q,
                "baseline": baseline,
                "propensity_factor": propensity_factor,
                "sensitivity": sensitivity,
                "rate_cap": rate_cap,
                "horizon": horizon,
                "random_state": random_state,
            },
        )
    found = compare(
        log,
        named,
        estimator=estimator,
        categories=categories,
        gamma=gamma,
        interval=interval,
        q=q,
        baseline=baseline,
        guardrail=guardrail,
        by=by,
        delta=delta,
        propensity_factor=propensity_factor,
        sensitivity=sensitivity,
        rate_cap=rate_cap,
        horizon=horizon,
        threshold=threshold,
        random_state=random_state,
    )
    return next(iter(found.values()))


@as_learning_if_seen
def _path(
    log: Log,
    named: Mapping[str, Any],
    *,
    gammas: Sequence[float],
    estimator: str | None,
    interval: str,
    delta: float,
    threshold: float | None,
    options: Mapping[str, Any],
) -> GammaPath:
    """Return the evaluations of one policy at several gamma, from one pass over the log."""
    check_named(log, named)
    (name,) = named
    method = interval_named(interval)
    rising = _rising(gammas)
    # Bounds that certificates rest on are the same at every gamma; others are shared out.
    shared = 1
    if not method.certifies:
        shared = len(rising)
    smoothed = method.estimator(estimator)
    if not smoothed.smoothed and estimator is None:
        smoothed = method.estimator("ix")
    if not smoothed.smoothed:
        raise UsageError(
            f"got a list of gamma with {argument('estimator', smoothed.name)}, which has none; use "
            f"{argument('estimator', 'ix')} or another smoothed one"
        )
    requests = []
    for gamma in rising:
        request = Request.of(
            log,
            named,
            method=method,
            estimator=smoothed,
            gamma=gamma,
            delta=delta / shared,
            detects_learning=True,
            **options,
        )
        requests.append(request)
    with requests[0].naming_policies():
        states = reduce(requests[0].log, Joint(tuple(one.sums for one in requests)))
    evaluations = []
    for request, state in zip(requests, states, strict=True):
        evaluations.append(_evaluations(request, request.finish(state), threshold)[name])
    return GammaPath(tuple(evaluations), delta, shared, frames=log.frames)


def _rising(gammas: Sequence[float]) -> list[float]:
    """Return the different values of gamma, rising; each is checked where it is used."""
    if len(gammas) == 0 or not all(map(is_number, gammas)):
        raise UsageError(
            f"{argument('gamma')} is {gammas!r:.80}, expected a number, 'auto' or a list of numbers"
        )
    return sorted({float(gamma) for gamma in gammas})


def compare(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimator: str | None = None,
    categories: Any = None,
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    guardrail: Any = None,
    by: str | None = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    rate_cap: float | None = None,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    random_state: Any = 0,
) -> Comparison:
    """Return the evaluations of several policies, whose intervals hold together at 1 - delta.

    One pass over the log serves all policies. Each interval, and each improvement bound, is at
    level delta / N, so the best may be picked: its bound still holds. If the rows contradict
    their propensities by the weights of one policy, no policy has bounds. A policy that was learned
    from these rows has none and does not count in N (`Evaluation.in_sample`).

    Args:
        log: the logged decisions.
        policies: name -> policy; see `evaluate` for what a policy may be.
        estimator: see `evaluate`.
        categories: see `evaluate`.
        gamma: see `evaluate`.
        interval: see `evaluate`.
        q: see `evaluate`.
        baseline: see `evaluate`; or the name of one of the policies.
        guardrail: see `evaluate`.
        by: see `evaluate`.
        delta: joint error probability of all intervals.
        propensity_factor: see `evaluate`.
        sensitivity: see `evaluate`.
        rate_cap: see `evaluate`.
        horizon: see `evaluate`.
        threshold: see `evaluate`.
        random_state: seed of the bootstrap.

    Returns:
        A `piwo.evaluation.Comparison`: name -> `Evaluation`, in the order given. It prints as a
        table, with the highest lower bound first.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    >>> [r.simultaneous for r in compare(log, both).values()]
    [2, 2]
    """
    made = compare_summing(
        log,
        policies,
        estimator=estimator,
        categories=categories,
        gamma=gamma,
        interval=interval,
        q=q,
        baseline=baseline,
        guardrail=guardrail,
        by=by,
        delta=delta,
        propensity_factor=propensity_factor,
        sensitivity=sensitivity,
        rate_cap=rate_cap,
        horizon=horizon,
        threshold=threshold,
        random_state=random_state,
    )
    return Comparison(made.evaluations, frames=log.frames)


@dataclass(frozen=True)
class Summed:
    """What `compare` found, and the sums that it rests on, for those who show more of them.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> compare_summing(log, {"a": piwo.policies.Constant("a", log.actions)}).request.bounded
    True
    """

    evaluations: dict[str, Evaluation]
    request: Request
    result: RequestResult
    split: SegmentRequest | None
    """The requests of the segments; None without."""
    parts: tuple[Any, ...] = ()
    """The states of `split.sums`."""
    more: tuple[Any, ...] = ()
    """The state of what else was summed: over all rows, then by segment."""


@as_learning_if_seen
def compare_summing(
    log: Log,
    policies: Mapping[str, Any],
    *,
    more: Callable[[Request], Reduction[Any]] | None = None,
    estimator: str | None = None,
    categories: Any = None,
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    guardrail: Any = None,
    by: str | None = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    rate_cap: float | None = None,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    random_state: Any = 0,
) -> Summed:
    """Return what `compare` returns, with its sums, and sum something else in the same pass.

    Args:
        log: the logged decisions.
        policies: see `compare`.
        more: makes another reduction from the request, whose policies are over the log's actions.
        estimator: see `evaluate`; so are those that follow.
        categories: see `evaluate`.
        gamma: see `evaluate`.
        interval: see `evaluate`.
        q: see `evaluate`.
        baseline: see `compare`.
        guardrail: see `evaluate`.
        by: see `evaluate`.
        delta: see `compare`.
        propensity_factor: see `evaluate`.
        sensitivity: see `evaluate`.
        rate_cap: see `evaluate`.
        horizon: see `evaluate`.
        threshold: see `evaluate`.
        random_state: seed of the bootstrap.
    """
    check_named(log, policies)
    estimator = check_categories(estimator, categories, by)
    method = interval_named(interval)
    guards = guardrails_of(guardrail, log, baseline is not None)
    share = share_of_delta(delta, guards)
    request = Request.of(
        log,
        policies,
        method=method,
        estimator=method.estimator(estimator),
        gamma=gamma,
        q=q,
        baseline=baseline,
        delta=share,
        propensity_factor=propensity_factor,
        sensitivity=sensitivity,
        rate_cap=rate_cap,
        horizon=horizon,
        random_state=random_state,
        detects_learning=True,
    )
    split: SegmentRequest | None = None
    if by is not None:
        split = SegmentRequest.of(request, by, gamma)
    with request.naming_policies():
        states, parts, others = _summed(request, split, more)
    result = request.finish(states)
    found = _evaluations(request, result, threshold)
    if categories is not None:
        error = propensity_factor, sensitivity
        found = marginal_estimates(found, log, policies, categories, error)
    if split is not None:
        why_not = {name: one.why_not for name, one in result.policies.items()}
        each = split.finish(parts, why_not)
        for name, one in found.items():
            note = segments_note(each[name], share)
            found[name] = replace(one, segments=each[name], notes=(*one.notes, note))
    made = Summed(found, request, result, split, parts, others)
    if not guards:
        return made
    # Intervals that are approximations, or have no lower bound of their own, certify nothing.
    if not method.certifies:
        method = interval_named("auto")

    def asked(view: Log, guard: Guardrail) -> Request:
        return Request.of(
            view,
            policies,
            method=method,
            baseline=baseline if guard.over == "baseline" else None,
            delta=share,
            propensity_factor=propensity_factor,
            sensitivity=sensitivity,
            horizon=horizon,
            one_sided=True,
            # unless the pass for the values has looked
            detects_learning=not request.looks_at_logger,
        )

    kept = results_of_guardrails(guards, log, asked)
    shared = shared_note(delta, guards)
    guarded = {name: _guarded(one, kept[name], log, shared) for name, one in found.items()}
    return replace(made, evaluations=guarded)


def _evaluations(
    request: Request, result: RequestResult, threshold: float | None
) -> dict[str, Evaluation]:
    """Return the evaluations of all policies of a request."""
    unit = None
    if threshold is not None:
        unit = _unit(threshold, request.log)
    found = {}
    for name, mass in masses_of(request.log, request.policies, result).items():
        found[name] = _evaluation(request, result, name, mass, unit)
    return found


def _summed(
    request: Request,
    split: SegmentRequest | None,
    more: Callable[[Request], Reduction[Any]] | None,
) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
    """Return the states of all rows, of the segments, and of what else is summed: one pass."""
    extra: tuple[Reduction[Any], ...] = ()
    if more is not None:
        extra = (more(request),)
    if split is None:
        whole, others = reduce(request.log, Joint((request.sums, Joint(extra))))
        return whole, (), others
    if extra:
        extra = (*extra, BySegment(extra * len(split.each)))
    states: tuple[Any, Any, Any] = reduce(
        split.log, Joint((request.sums, split.sums, Joint(extra)))
    )
    return states


def _guarded(
    one: Evaluation, results: tuple[GuardrailResult, ...], log: Log, shared: Note
) -> Evaluation:
    """Return an evaluation with the results of its guardrails, and what these assume."""
    notes = list(one.notes)
    # the interval of the value may be of another method, which assumes nothing of the logger
    if any(interval_named(result.bound).assumes_fixed_logger for result in results):
        said = {note.kind for note in notes}
        notes += [
            note
            for note in assumed_of_logger(log.logger, log.columns.unit)
            if note.kind not in said
        ]
    return replace(one, guardrails=results, notes=(*notes, shared))


def _evaluation(
    request: Request, result: RequestResult, name: str, mass: float | None, threshold: float | None
) -> Evaluation:
    """Return the evaluation of one policy, in the reward's own unit.

    Args:
        request: what was asked.
        result: what the pass over the log found.
        name: of the policy.
        mass: what the policy gives to actions never logged.
        threshold: on the unit scale; None: none was asked for.
    """
    log, found = request.log, result.policies[name]
    shown, raw = found.shown, found.raw
    sums, estimate = found.evidence.state.moments, found.evidence.estimate
    made = Evaluation(
        name=name,
        estimator=request.estimator.name,
        gamma=request.score.gamma_equivalent,
        value=in_units(estimate.value, log),
        standard_error=None,
        lower=in_units(shown.lower, log),
        upper=in_units(shown.upper, log),
        lower_raw=in_units(raw.interval.lower, log),
        upper_raw=in_units(raw.interval.upper, log),
        interval=found.method.name,
        guarantee=found.guarantee,
        delta=request.budget.delta,
        simultaneous=request.budget.count,
        rows=sums.logged,
        # the total is 0 if all sampling weights are
        mean_weight=sums.w / (sums.total or 1.0),
        mean_weight_z=None,
        ess=effective_size(sums.w, sums.w2),
        ess_used=effective_size(sums.u, sums.u2),
        changed_rows=sums.changed,
        max_weight=sums.max_weight,
        unsupported_mass=mass,
        missing_mass_upper=None,
        logging_value=log.value(sums.reward / sums.total),
        improvement_lower=None,
        propensity_p=None,
        reward_range=log.reward_range,
        cost=log.columns.cost,
        horizon=request.horizon,
        unit=log.columns.unit,
        units=log.columns.units_of(sums.rows),
        logger=log.logger,
        copies=found.copied,
        no_interval=found.no_interval,
        frames=log.frames,
    )
    if estimate.standard_error is not None:
        made = replace(made, standard_error=log.span * estimate.standard_error)
    if result.baseline is not None:
        baseline = result.baseline
        made = replace(made, baseline=baseline.baseline.name, baseline_value=baseline.value(log))
    if found.uncapped is not None and request.rate_cap is not None:
        whole = found.uncapped.reported(0.0, found.most)
        made = replace(
            made, rate_cap=request.rate_cap.value, upper_without_cap=in_units(whole.upper, log)
        )
    if found.usable:
        z = weight_z(sums.w, sums.w2, sums.rows)
        made = replace(made, mean_weight_z=z, propensity_p=result.least_p)
    if found.why_not is None:
        made = replace(made, **_statements(request, found, threshold))
    return replace(made, notes=notes_of(made, found))


def _statements(request: Request, found: PolicyResult, threshold: float | None) -> dict[str, Any]:
    """Return the fields that state what holds at this n, besides the interval."""
    evidence = found.evidence
    gain, most = found.improvement(request.log.span)
    above = None
    if threshold is not None:
        above = found.method.log_e_above(evidence, threshold)
    return {
        "missing_mass_upper": found.missing_mass_upper,
        "improvement_lower": gain,
        "improvement_upper": most,
        "log_e_better": found.log_e_better,
        "log_e_above": above,
    }


def _unit(threshold: Any, log: Log) -> float:
    """Return a threshold on the unit scale."""
    check_finite("threshold", threshold)
    low, high = log.reward_range
    unit = (float(threshold) - low) / log.span
    received = f"{argument('threshold')} is {threshold!r}, expected a value of at"
    if unit > 1.0 and math.isfinite(high):
        raise UsageError(f"{received} most {high:g}, the highest reward")
    if not 0.0 <= unit < math.inf:
        raise UsageError(f"{received} least {low:g}, the lowest reward")
    return unit
