"""Requests for certificates: candidates on the same rows, and what they pay for each other."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Protocol, Self, runtime_checkable

from piwo import bounds
from piwo.certificates.certificate import ASSUMED_FIXED, Certificate, Kind
from piwo.certificates.series import (
    call_of_series,
    earlier_count,
    part_of_delta,
    used_before_note,
    withheld,
)
from piwo.certificates.terms import check_facts
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline
from piwo.evaluation.contradiction import RawBounds
from piwo.evaluation.notes import loss_notes, notes_on_rows, outside_notes
from piwo.evaluation.request import ErrorBudget, Request, policy_words
from piwo.evaluation.result import PolicyResult, RequestResult, improvement_in_units
from piwo.evaluation.unsupported import with_masses
from piwo.intervals import INTERVALS, IntervalMethod, interval_named
from piwo.intervals.matching import check_actions_known, check_named
from piwo.intervals.point import importance_weighted
from piwo.intervals.provenance import Overlap, overlaps
from piwo.intervals.weight_sums import effective_size
from piwo.logs.log import Log
from piwo.logs.split import at_random
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.records import now
from piwo.reductions import Digest, Joint, MomentState

__all__ = [
    "CertificateRequest",
    "PolicyClass",
    "check_declared",
    "declared_logger",
    "in_sample_message",
    "same_policies",
]


@runtime_checkable
class PolicyClass(Protocol):
    """A class of policies that was declared before the log was seen, such as an exhaustive oracle.

    An in-sample certificate covers the policies of such a class only. The rewards may decide which
    of them is chosen, but not what the class is.
    """

    def log_class_size(self) -> float | None:
        """Return log |Pi|; None if the class is infinite or unknown."""
        ...

    def contains(self, policy: Policy) -> bool:
        """Whether a policy is one of the class."""
        ...


@dataclass(frozen=True)
class CertificateRequest:
    """A request for lower bounds, and the other facts of its certificates.

    To sum something else in the same pass: `reduce(made.log, Joint((made.sums, other)))`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> made = CertificateRequest.of(log, {0: piwo.policies.Constant("a", log.actions)})
    >>> made.finish(piwo.reductions.reduce(made.log, made.sums))[0].certified
    True
    """

    request: Request
    """The request for the distinct policies."""
    same_as: Mapping[Any, Any]
    """key, for all that were given -> key of the same policy in the request."""
    kind: Kind
    log_class_size: float
    """log |Pi| of the declared class; 0 without one."""
    candidates: int
    """How many policies were certified on these rows, with earlier calls."""
    earlier: int | Certificate
    series_call: int | None
    """The number of the call in a series, from 1; None outside of one."""
    facts: Mapping[str, Any]

    @classmethod
    def of(
        cls,
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
        facts: Mapping[str, Any] | None = None,
        price: float | None = None,
        provenance: bool = True,
        detects_learning: bool = False,
    ) -> Self:
        """Return the checked request; the arguments are those of `certify`, and three more.

        `price` is the penalty of all bounds besides log(1/delta), if it is not a union penalty but
        a divergence from a prior: the policies were chosen by these rows from an infinite class.
        `provenance` is whether to refuse policies that were learned from these rows; learners,
        which hold rows out themselves, pass False for their candidates. `detects_learning`: see
        `Request.detects_learning`; learners have looked before.

        Raises:
            UsageError: see `certify`.
        """
        check_named(log, policies)
        method = _method_for_certificates(interval)
        log.require_provable("no certificate is valid")
        same_as = same_policies(policies)
        distinct = {key: policies[key] for key in same_as.values()}
        check_facts(facts)
        series_call = call_of_series(earlier, series, within, delta)
        if within is not None:
            check_declared(within, distinct)
        named = isinstance(baseline, str) and baseline in policies
        given = baseline
        if named:
            # Not by its name: that may be of a policy which is the same as another.
            given = policies[baseline]
        request = Request.of(
            log,
            distinct,
            method=method,
            q=q,
            baseline=given,
            delta=delta,
            horizon=horizon,
            one_sided=True,
            provenance=provenance and within is None and price is None,
            detects_learning=detects_learning,
        )
        for key, overlap in request.overlaps.items():
            if overlap.certain:
                raise UsageError(in_sample_message(key, overlap))
        if named and request.baseline is not None:
            request = replace(request, baseline=replace(request.baseline, name=baseline))
        held_out = within is None and price is None
        _check_inferred_actions(request, held_out)
        if horizon is not None and horizon != "universal" and earlier:
            # The bets are optimized for log(1/delta) plus the penalty, and must stay as they were.
            raise UsageError(
                "the bets of a horizon depend on the number of candidates, so "
                f"{argument('earlier')} must be 0 with one"
            )
        candidates = earlier_count(earlier) + len(distinct)
        part, size = part_of_delta(series_call), 0.0
        if within is not None:
            # log |Pi|: a union over the whole class covers every candidate in it.
            size = union = within.log_class_size() or 0.0
        elif price is not None:
            union = max(0.0, price)
        else:
            # log N for the N candidates of all calls; in a series, log(N / part) for this call's.
            paying = len(distinct) if series_call is not None else candidates
            union = math.log(paying) - math.log(part)
        may_have_shares = within is None and not earlier
        each = _shares(shares, same_as, allowed=may_have_shares, series_call=series_call)
        budget = ErrorBudget(delta, union=union, shares=each, part=part)
        return cls(
            request=replace(request, budget=budget),
            same_as=same_as,
            kind="held-out" if held_out else "in-sample",
            log_class_size=size,
            candidates=candidates,
            earlier=earlier,
            series_call=series_call,
            facts=facts or {},
        )

    @property
    def log(self) -> Log:
        """The log, ready for the policies."""
        return self.request.log

    @property
    def sums(self) -> Joint:
        """The sums over the log that the bounds need, and a digest of the rows."""
        return Joint((self.request.sums, Digest()))

    def finish(
        self, states: tuple[Any, ...], raw: Mapping[Any, RawBounds] | None = None
    ) -> dict[Any, Certificate]:
        """Return key -> `Certificate`.

        Args:
            states: of `sums`.
            raw: key -> bounds that were computed elsewhere; None: those of the interval methods.
        """
        digest = states[1].text(self.log.actions)
        earlier_digest = None
        if isinstance(self.earlier, Certificate):
            earlier_digest = self.earlier.log_digest
        # A certificate made by hand may have none.
        if earlier_digest is not None and earlier_digest != digest:
            raise UsageError(
                "the earlier certificate is of other rows, so these are not used again; "
                f"leave {argument('earlier')} out"
            )
        found = self.request.finish(states[0], raw)
        result = with_masses(self.log, self.request.policies, found)
        made = {key: self._certificate(key, result, digest) for key in result.policies}
        if self.series_call and not any(one.improves for one in made.values()):
            made = {key: withheld(one) for key, one in made.items()}
        return {key: made[one] for key, one in self.same_as.items()}

    def moments(self, states: tuple[Any, ...]) -> dict[Any, MomentState]:
        """Return key -> the sums of weights and rewards for point estimates.

        Args:
            states: of `sums`.
        """
        each = dict(zip(self.request.policies, states[0][0], strict=True))
        return {key: each[one][0].moments for key, one in self.same_as.items()}

    def _certificate(self, key: Any, result: RequestResult, digest: str) -> Certificate:
        """Return one certificate; without bounds if the rows contradict their propensities.

        Args:
            key: of the policy.
            result: the results of the pass over the log.
            digest: of the rows.
        """
        found, log, budget = result.policies[key], self.log, self.request.budget
        moments, n = found.evidence.state.moments, found.evidence.rows
        # On the unit scale, where no value is below 0.
        low = max(0.0, found.raw.interval.lower or 0.0)
        # Without rows there is no mean.
        logged = mean_weight = None
        if n:
            logged, mean_weight = log.value(moments.reward / n), moments.w / n
        made = Certificate(
            frames=log.frames,
            kind=self.kind,
            value=_point_estimate(log, moments),
            value_lower=None,
            improvement_lower=None,
            logging_value=logged,
            baseline=None,
            baseline_value=None,
            share=None,
            bound=found.method.name,
            delta=budget.delta,
            candidates=self.candidates,
            log_class_size=self.log_class_size,
            rows=moments.logged,
            unit=log.columns.unit,
            units=log.columns.units_of(n),
            ess=effective_size(moments.w, moments.w2),
            mean_weight=mean_weight,
            unsupported_mass=found.unsupported,
            propensity_p=result.least_p,
            reward_range=log.reward_range,
            cost=log.columns.cost,
            horizon=self.request.horizon,
            series=self.series_call,
            assumes=log.assumption,
            log_digest=digest,
            logger=declared_logger(log, found.method),
            created=now(),
            notes=self._notes(found, low, result.contradicted),
            **self.facts,
        )
        if budget.shares is not None:
            made = replace(made, share=budget.shares[key])
        if result.baseline is not None:
            base = result.baseline
            made = replace(made, baseline=base.baseline.name, baseline_value=base.value(log))
        if result.contradicted is None:
            gain = improvement_in_units(found.raw.gain, log.span)
            made = replace(made, value_lower=log.value(low), improvement_lower=gain)
            outside = outside_notes(made.value, made.value_lower, None)
            ends = (made.value, made.value_lower, None)
            loss = loss_notes(ends, made.logging_value, log.reward_range, (gain, None))
            made = replace(made, notes=(*made.notes, *outside, *loss))
        return made

    def _notes(self, found: PolicyResult, low: float, why_not: Note | None) -> tuple[Note, ...]:
        """Return the notes of one certificate, the most important first."""
        over_logger = self.request.baseline is None
        notes = notes_on_rows(self.log, found, over_logger and why_not is None)
        if self.earlier and not self.series_call:
            notes.append(used_before_note())
        notes += _evidence_notes(found.evidence.state.moments, low, why_not)
        if found.provenance is not None:
            notes.append(found.provenance)
        return (*notes, *found.method.assumptions, *self.log.caveats)


def same_policies(policies: Mapping[Any, Policy]) -> dict[Any, Any]:
    """Return key -> the first key of the same policy.

    The same policy under two names is one candidate, and is paid for once.
    """
    first: dict[str, Any] = {}
    same_as: dict[Any, Any] = {}
    for key, policy in policies.items():
        same_as[key] = first.setdefault(policy_digest(policy), key)
    return same_as


def _check_baseline(log: Log, baseline: Baseline) -> None:
    """Raise for a baseline that was learned from the rows of an in-sample certificate.

    The union penalty covers the policies of the class, not pairs of a policy and a baseline.
    """
    overlap = overlaps(log, {baseline.key: baseline.policy})[baseline.key]
    if overlap.certain:
        raise UsageError(
            f"the baseline was learned from part of this log ({overlap.how}), and must be fixed "
            "before; certify on rows that it was not learned from"
        )


def _check_inferred_actions(request: Request, held_out: bool) -> None:
    """Raise for policies over an action list that was inferred from the log and may lack actions.

    On held-out rows, the test of the propensities detects this, except for a baseline.
    """
    unprotected: list[Policy] = []
    if request.baseline is not None:
        unprotected.append(request.baseline.policy)
        if not held_out:
            _check_baseline(request.log, request.baseline)
    if not held_out:
        unprotected += request.policies.values()
    check_actions_known(request.log, unprotected)


def _method_for_certificates(interval: str) -> IntervalMethod:
    """Return the interval method of a name, if it gives one-sided bounds."""
    method = interval_named(interval)
    if not method.certifies:
        known = ", ".join(name for name, one in INTERVALS.items() if one.certifies)
        raise UsageError(
            f"{argument('interval', interval)} makes no certificates, expected one of {known}"
        )
    return method


def in_sample_message(key: Any, overlap: Overlap) -> str:
    """Return why a policy is not certified on rows that it was learned from."""
    return (
        f"{policy_words(key)} was learned from part of this log ({overlap.how}), so no certificate "
        f"on it is valid; certify on other rows, or give the declared class ({argument('within')})"
    )


def check_declared(within: PolicyClass, policies: Mapping[Any, Policy]) -> None:
    """Raise for policies that are not in a declared class of known size.

    Raises:
        UsageError: naming the policy, or with the fault of the class.

    >>> import piwo
    >>> a, b = (piwo.policies.Constant(x, ["a", "b"]) for x in "ab")
    >>> check_declared(piwo.oracles.Exhaustive([a, b]), {"new": a})
    """
    if not (hasattr(within, "contains") and hasattr(within, "log_class_size")):
        raise UsageError(
            f"{argument('within')} is {within!r:.80}, expected the class that was "
            "declared, such as piwo.oracles.Exhaustive(policies)"
        )
    if within.log_class_size() is None:
        raise UsageError(
            "the class has unknown size, so no in-sample certificate is valid; certify on "
            "rows that were not used to learn"
        )
    for key, policy in policies.items():
        if not within.contains(policy):
            raise UsageError(
                f"policy {key!r} is not in the class that was declared, and an in-sample "
                "certificate covers that class only; certify this policy on rows that it was "
                f"not learned from, without {argument('within')}"
            )


def declared_logger(log: Log, method: IntervalMethod | None = None) -> str | None:
    """Return the declared logger, or the one that is assumed: see `Certificate.logger`.

    Args:
        log: the rows.
        method: the bounds, some of which assume a fixed logger; None: there are none.
    """
    by_blocks = method is not None and method.assumes_fixed_logger
    if log.logger is None and (at_random(log.selector) or by_blocks):
        return ASSUMED_FIXED
    return log.logger


def _shares(
    shares: Any, same_as: Mapping[Any, Any], *, allowed: bool, series_call: int | None
) -> Mapping[Any, float] | None:
    """Return key -> share of delta, for each distinct policy; None: equal shares.

    Args:
        shares: see `certify`.
        same_as: see `CertificateRequest.same_as`.
        allowed: whether this is one call on held-out rows.
        series_call: see `CertificateRequest.series_call`.
    """
    if shares is not None and not allowed and series_call is None:
        raise UsageError(
            f"{argument('shares')} are of one call on held-out rows; leave them out "
            f"with {argument('within')} or {argument('earlier')}"
        )
    if shares is None and series_call is None:
        return None
    if shares is None:
        each = dict.fromkeys(same_as.values(), 1.0 / len(set(same_as.values())))
    else:
        each = _joined_shares(shares, same_as)
    # A call of a series has only its part of delta to share.
    part = part_of_delta(series_call)
    return {key: share * part for key, share in each.items()}


def _joined_shares(shares: Any, same_as: Mapping[Any, Any]) -> dict[Any, float]:
    """Return key -> share of delta, for each distinct policy: the sum over its keys.

    Args:
        shares: key -> share.
        same_as: key -> key of the policy that it is the same as.

    Raises:
        UsageError: for numbers that are not shares.

    >>> _joined_shares({"a": 0.5, "b": 0.25, "again": 0.25}, {"a": "a", "b": "b", "again": "b"})
    {'a': 0.5, 'b': 0.5}
    """
    valid = isinstance(shares, Mapping) and shares.keys() == same_as.keys()
    if valid:
        positive = all(isinstance(x, int | float) and x > 0 for x in shares.values())
        # Shares such as ten times 0.1 add up to 1 but for rounding.
        valid = positive and sum(shares.values()) <= 1.0 + 1e-12
    if not valid:
        raise UsageError(
            f"{argument('shares')} is {shares!r:.80}, expected a number above 0 for "
            "each policy, at most 1 in all"
        )
    joined = dict.fromkeys(same_as.values(), 0.0)
    for key, one in same_as.items():
        joined[one] += shares[key]
    return joined


def _point_estimate(log: Log, sums: MomentState) -> float | None:
    """Return the importance-weighted estimate in the reward's unit; None if it is not finite."""
    value = importance_weighted(sums, log.origin).value
    if value is None or not math.isfinite(value):
        return None
    return log.value(value)


def _evidence_notes(sums: MomentState, low: float, why_not: Note | None) -> list[Note]:
    """Return the notes on why there is no bound, or why one says little.

    Args:
        sums: of weights and rewards of the policy.
        low: its certified value on the unit scale.
        why_not: why no bound is given; None if one is.
    """
    notes = []
    if why_not is not None:
        # Weights of tiny propensities may overflow.
        mean, number = sums.w / sums.rows, "beyond float64"
        if math.isfinite(mean):
            number = f"{mean:.4g}"
        notes.append(
            Note(
                f"{why_not.template}; mean weight here {number}, expected 1: no bound "
                "is given, and nothing is certified",
                why_not.kind,
            )
        )
    what = f"{sums.logged:,} rows"
    if sums.rows != sums.logged:
        what = f"means of {sums.rows:,} units"
    if sums.rows and sums.reward < 100:
        notes.append(
            Note(
                f"the {what} have a total reward of {sums.reward:.4g} on the scale from 0 to 1; "
                "bounds from so few rewards are weak",
                kind="few-rewards",
            )
        )
    if low <= 0 and why_not is None:
        notes.append(
            Note(
                "the value bound is vacuous: no higher than the lowest possible reward",
                kind="vacuous",
            )
        )
    return notes
