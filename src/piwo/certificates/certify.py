"""certify: certificates of several policies on one log, which hold jointly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.certificates.request import CertificateRequest, PolicyClass, same_policies
from piwo.certificates.series import earlier_count
from piwo.certificates.terms import check_terms
from piwo.evaluation.guarded import results_of_guardrails
from piwo.evaluation.guardrails import (
    Guardrail,
    GuardrailResult,
    guardrails_of,
    share_of_delta,
    shared_note,
)
from piwo.evaluation.learning_logger import as_learning_if_seen
from piwo.evaluation.request import Request
from piwo.evaluation.segment import segments_note
from piwo.evaluation.segments import SegmentRequest
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.policies import Policy
from piwo.reductions import Joint
from piwo.reductions.reduce import reduce

__all__ = ["certificates_of", "certify", "guardrail_results"]

_CONTRADICTED = Note("all rows together contradict their propensities", kind="contradicted")


@as_learning_if_seen
def certify(
    log: Log,
    policies: Mapping[Any, Policy],
    *,
    delta: float = 0.05,
    within: PolicyClass | None = None,
    baseline: Any = None,
    interval: str = "auto",
    q: Any = None,
    shares: Mapping[Any, float] | None = None,
    earlier: int | Certificate = 0,
    series: bool = False,
    horizon: bounds.Horizon = None,
    at_least: float | None = None,
    guardrail: Any = None,
    by: str | None = None,
    facts: Mapping[str, Any] | None = None,
) -> dict[Any, Certificate]:
    """Return certificates of several policies on one log, which hold jointly.

    Formula: value_lower is the mixture lower bound on w R, improvement_lower that on w R + 1 - R
    minus 1, each at log(m / delta) for m candidates on held-out rows, log(|Pi| / delta) in-sample;
    see `piwo.bounds.value_lower` and `piwo.bounds.improvement_lower`. If the log has full
    propensity vectors, both are pooled with their doubly robust forms, as in `piwo.evaluate`:
    `piwo.bounds.pooled_lower`.

    Args:
        log: rows that were not used to make the policies; with `within`, any rows.
        policies: key -> policy over the log's action list.
        delta: error probability of a bound.
        within: the class that the policies were chosen from by looking at these rows, declared
            before: an oracle such as `piwo.oracles.Exhaustive`. The certificates are then
            in-sample. None: the policies were made without these rows, and the certificates are
            held-out.
        baseline: the policy to improve on, fixed before these rows were seen: a policy, or the name
            of one of those given; None: the logging policy.
        interval: "auto": "deadline-cv" if the log has the probability of every action
            (`propensities=` or `behavior=`) and the policy gives full vectors, else "deadline"; if
            the logger learned, "mixture-cv" or "mixture"; each of them by name.
        q: a reward model for "auto", "deadline-cv" and "mixture-cv", as in `piwo.evaluate`:
            "forward", each row's predictions from earlier rows only; or predictions made from other
            rows. Improvements over a `baseline` do not use it.
        shares: key -> share of delta for that policy, instead of 1/m each; above 0, at most 1 in
            all, fixed before these rows were seen. The same policy under several keys has the sum.
        earlier: how many candidates were certified on these rows before, or the last of their
            certificates. A holdout that is used again has a union penalty for all of them. They
            must have been made without knowing what was certified. The certificates of the last
            call are the valid ones, as those of earlier calls paid for fewer candidates; which call
            is the last must not depend on what was certified. To go on until something is
            certified, use a series.
        series: whether this is the first of a series of calls on these rows, which may go on until
            something is certified. Call i spends delta/(i(i+1)), delta in all, and all certificates
            of the series hold jointly. The next call takes `earlier=` with any certificate of the
            last one.
        horizon: None for one look at these rows; if the log grows and is certified again, a number
            of rows, or "universal", declared before the first look (docs/adaptive.md).
        at_least: the least value that a policy must have, fixed beforehand: see
            `Certificate.reaches`.
        guardrail: a limit on the mean of another outcome, such as "complaints<=.01" or
            "complaints<=logger+.005" (`piwo.evaluation.Guardrail`), or several of them; the log
            declares the column (`outcomes=["complaints"]`). delta is shared equally:
            the value, the improvement, and each guardrail's answer are each wrong with probability
            at most delta / (1 + number of guardrails).
        by: a column that is known before the decision and that earlier decisions do not influence:
            `segments` of a certificate has the bounds
            and the mix of actions for each of its values, as in `piwo.evaluate`: each at delta over
            the number of segments, besides what the policies pay for each other.
        facts: further fields of `Certificate` to record.

    Returns:
        key -> `Certificate`.

    Raises:
        UsageError: for policies that are known to be learned from these rows (except `within` a
            class), policies that are not of the class, a class of unknown size, an earlier
            certificate on other rows, an interval method without one-sided bounds, and for thinned
            logs.

    Source: docs/theory.md, sections "The mixture bound", "One log, many statements", "Control
    variates" and "Improvement over another policy".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> certify(log, {0: piwo.policies.Constant("a", log.actions)})[0].certified
    True
    """
    guards = guardrails_of(guardrail, log, baseline is not None)
    check_terms(at_least, guards, by, log, series, earlier)
    share = share_of_delta(delta, guards)
    request = CertificateRequest.of(
        log,
        policies,
        delta=share,
        within=within,
        baseline=baseline,
        interval=interval,
        q=q,
        shares=shares,
        earlier=earlier,
        series=series,
        horizon=horizon,
        facts=facts,
        detects_learning=True,
    )
    made = certificates_of(request, by)
    if at_least is not None:
        made = {key: replace(one, at_least=float(at_least)) for key, one in made.items()}
    if not guards:
        return made
    kept = guardrail_results(
        guards,
        log,
        policies,
        delta=share,
        within=within,
        baseline=baseline,
        interval=interval,
        shares=shares,
        earlier=earlier_count(earlier),
        horizon=horizon,
    )
    note = shared_note(delta, guards)
    for key, one in made.items():
        made[key] = replace(one, guardrails=kept[key], notes=(*one.notes, note))
    return made


def certificates_of(request: CertificateRequest, by: str | None = None) -> dict[Any, Certificate]:
    """Return key -> the certificate that one pass over the log gives, with that of its segments.

    Args:
        request: what was asked.
        by: see `certify`.
    """
    if by is None:
        with request.request.naming_policies():
            states = reduce(request.log, request.sums)
        return request.finish(states)
    split = SegmentRequest.of(request.request, by)
    with request.request.naming_policies():
        states, parts = reduce(split.log, Joint((request.sums, split.sums)))
    made = request.finish(states)
    # Bounds of a segment are not given if all rows contradict their propensities.
    why_not: dict[Any, Note | None] = dict.fromkeys(made)
    for key, one in made.items():
        if one.value_lower is None:
            why_not[key] = _CONTRADICTED
    each = split.finish(parts, why_not)
    for key, one in made.items():
        segments = each[request.same_as[key]]
        note = segments_note(segments, request.request.budget.delta)
        made[key] = replace(one, segments=segments, notes=(*one.notes, note))
    return made


def guardrail_results(
    guards: Sequence[Guardrail],
    log: Log,
    policies: Mapping[Any, Policy],
    *,
    delta: float,
    within: PolicyClass | None = None,
    baseline: Any = None,
    interval: str = "auto",
    shares: Mapping[Any, float] | None = None,
    earlier: int = 0,
    horizon: bounds.Horizon = None,
    provenance: bool = True,
) -> dict[Any, tuple[GuardrailResult, ...]]:
    """Return key -> the result of each guardrail; one pass over the log for each.

    Args:
        guards: the limits.
        log: the rows.
        policies: see `certify`.
        delta: error probability of each answer, for all policies together.
        within: see `certify`.
        baseline: see `certify`.
        interval: see `certify`.
        shares: see `certify`.
        earlier: how many candidates were certified on these rows before.
        horizon: see `certify`.
        provenance: see `CertificateRequest.of`.
    """

    def asked(view: Log, guard: Guardrail) -> Request:
        return CertificateRequest.of(
            view,
            policies,
            delta=delta,
            within=within,
            baseline=baseline if guard.over == "baseline" else None,
            interval=interval,
            shares=shares,
            earlier=earlier,
            horizon=horizon,
            provenance=provenance,
        ).request

    found = results_of_guardrails(guards, log, asked)
    return {key: found[same] for key, same in same_policies(policies).items()}
