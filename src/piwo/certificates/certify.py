"""certify: certificates of several policies on one log, which hold together, from one request."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, Self, runtime_checkable

from piwo import bounds
from piwo.certificates.certificate import ASSUMED_FIXED, Certificate, Kind
from piwo.checks import check_flag, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline
from piwo.evaluation.contradiction import RawBounds
from piwo.evaluation.notes import as_notes, copies_note, logger_note, unit_note
from piwo.evaluation.provenance import Overlap, overlaps
from piwo.evaluation.request import ErrorBudget, Request
from piwo.evaluation.result import PolicyResult, RequestResult
from piwo.evaluation.unsupported import with_masses
from piwo.intervals import INTERVALS, IntervalMethod, interval_named
from piwo.intervals.matching import check_actions_known, check_named
from piwo.intervals.point import importance_weighted
from piwo.intervals.weight_sums import effective_size
from piwo.logs.log import Log
from piwo.logs.split import HeldOut
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sameness import policy_digest
from piwo.records import now
from piwo.reductions import Digest, Joint, MomentState
from piwo.reductions.reduce import reduce

__all__ = ["CertificateRequest", "PolicyClass", "certify", "check_declared"]


_FIELDS = frozenset(x.name for x in fields(Certificate))


@runtime_checkable
class PolicyClass(Protocol):
    """A class of policies that was declared before the log was seen, such as an exhaustive oracle.

    An in-sample certificate is made of such a class, and covers its policies alone: which of them
    was taken may have been decided by the rewards, the class itself may not.
    """

    def log_class_size(self) -> float | None:
        """Return log |Pi|; None if the class is infinite or unknown."""
        ...

    def contains(self, policy: Policy) -> bool:
        """Whether a policy is one of the class."""
        ...


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
    facts: Mapping[str, Any] | None = None,
) -> dict[Any, Certificate]:
    """Return certificates of several policies on one log, which hold for all of them together.

    Formula: value_lower is the mixture lower bound on w R, improvement_lower that on w R + 1 - R
    minus 1, each at log(m / delta) for m candidates on held-out rows, log(|Pi| / delta) in-sample;
    see `piwo.bounds.value_lower` and `piwo.bounds.improvement_lower`. If the log has full
    propensity vectors, both are pooled with their doubly robust forms, as in `piwo.evaluate`:
    `piwo.bounds.pooled_lower`.

    Args:
        log: rows that were not used to make the policies; with `within`, any rows.
        policies: key -> policy over the log's action list.
        delta: how often a bound may be wrong.
        within: the class that was declared before these rows were seen, and that the policies were
            chosen from by looking at them: an oracle such as `piwo.oracles.Exhaustive`. Makes the
            certificates in-sample. None: the policies were made without these rows, and the
            certificates are held-out.
        baseline: the policy to improve on, fixed before these rows were looked at: a policy, or the
            name of one of those given; None: the logging policy.
        interval: "auto": "mixture-cv" if the log has the probability of every action
            (`propensities=` or `behavior=`) and the policy gives full vectors, else "mixture";
            either of them by name.
        q: a reward model for "auto" and "mixture-cv", as in `piwo.evaluate`: "forward", each row's
            predictions from earlier rows alone; or predictions made from other rows. The
            improvement over a `baseline` goes without it.
        shares: key -> the share of delta that is spent on that policy, in place of 1/m each; above
            0, at most 1 in all, fixed before these rows were looked at. Policies that are the same
            have theirs together.
        earlier: how many candidates were certified on these rows before, or the last of their
            certificates, which knows: a holdout that is used again pays for all of them. They must
            have been made without looking at what was certified. What was certified earlier paid
            for fewer; only what is certified last has paid for all, and which call is the last must
            not depend on what was certified: "until one is certified" takes a series.
        series: this is the first of a series of calls on these rows, which may go on until
            something is certified: the i-th spends delta/(i(i+1)), delta in all, and all
            certificates of the series hold together. The next call takes `earlier=` and any
            certificate of the last one.
        horizon: None for one look at these rows; a number of rows, or "universal", declared before
            the first look, if the log grows and is certified again (docs/adaptive.md).
        facts: further fields of `Certificate` to record.

    Returns:
        key -> `Certificate`.

    Raises:
        UsageError: for policies that are known to be learned from these rows (unless they are
            `within` a class), or that are not of the class, a class of unknown size, an earlier
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
    request = CertificateRequest.of(
        log,
        policies,
        delta=delta,
        within=within,
        baseline=baseline,
        interval=interval,
        q=q,
        shares=shares,
        earlier=earlier,
        series=series,
        horizon=horizon,
        facts=facts,
    )
    return request.finish(reduce(request.log, request.sums))


@dataclass(frozen=True)
class CertificateRequest:
    """A request for lower bounds, and what its certificates record besides them.

    To sum something else in the same pass: `reduce(made.log, Joint((made.sums, other)))`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> made = CertificateRequest.of(log, {0: piwo.policies.Constant("a", log.actions)})
    >>> made.finish(reduce(made.log, made.sums))[0].certified
    True
    """

    request: Request
    """Of the policies that differ."""
    same_as: Mapping[Any, Any]
    """key -> key of the same policy in the request, for every key asked for."""
    kind: Kind
    log_class_size: float
    """log |Pi| of the declared class, 0 without."""
    candidates: int
    """How many policies the rows have been used for by now."""
    earlier: int | Certificate
    place: int | None
    """Which call of a series it is, from 1 on; None outside of one."""
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
    ) -> Self:
        """Return the request, checked; the arguments are those of `certify`, and two more.

        `price` is what all bounds pay besides log(1/delta) if that is not a union over policies but
        a divergence from a prior: the policies were made by looking at these rows, and are of no
        class that could be counted. `provenance` is whether to refuse policies that were learned
        from these rows; learners, which hold rows out themselves, pass False for their candidates.

        Raises:
            UsageError: see `certify`.
        """
        check_named(log, policies)
        method = _certifying(interval)
        log.require_provable("no certificate holds")
        # the same policy under two names is one candidate
        first: dict[str, Any] = {}
        same_as: dict[Any, Any] = {}
        for key, policy in policies.items():
            same_as[key] = first.setdefault(policy_digest(policy), key)
        distinct = {key: policies[key] for key in first.values()}
        _check_facts(facts)
        place = _place(earlier, series, within, delta)
        if within is not None:
            check_declared(within, distinct)
        # the key that names the baseline may be of a policy that is the same as another
        named = isinstance(baseline, str) and baseline in policies
        given = policies[baseline] if named else baseline
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
        )
        for key, overlap in request.overlaps.items():
            if overlap.certain:
                raise UsageError(in_sample(key, overlap))
        if named and request.baseline is not None:
            request = replace(request, baseline=replace(request.baseline, name=baseline))
        held_out = within is None and price is None
        _check_lists(request, held_out)
        if horizon is not None and horizon != "universal" and earlier:
            raise UsageError(
                "the bets of a horizon depend on how many candidates pay, so "
                f"{argument('earlier')} must be 0 with one"
            )
        fixed = within is None and not earlier
        candidates, part, size = _count(earlier) + len(distinct), _spent(place), 0.0
        if within is not None:
            size = within.log_class_size() or 0.0
        if price is not None:
            union = max(0.0, price)
        elif within is not None:
            # the union over the whole class, log |Pi|, covers every candidate in it
            union = size
        else:
            # held-out rows pay for every candidate; a series, log(N / part) with its part of delta
            paying = candidates if place is None else len(distinct)
            union = math.log(paying) - math.log(part)
        kept = _shares(shares, same_as, fixed=fixed, place=place)
        budget = ErrorBudget(delta, union=union, shares=kept, part=part)
        return cls(
            request=replace(request, budget=budget),
            same_as=same_as,
            kind="held-out" if held_out else "in-sample",
            log_class_size=size,
            candidates=candidates,
            earlier=earlier,
            place=place,
            facts=facts or {},
        )

    @property
    def log(self) -> Log:
        """The log, ready for the policies."""
        return self.request.log

    @property
    def sums(self) -> Joint:
        """What must be summed over the log: what the bounds need, and a digest of the rows."""
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
        before = None
        if isinstance(self.earlier, Certificate):
            before = self.earlier.log_digest
        if before is not None and before != digest:
            raise UsageError(
                "the earlier certificate is of other rows, so they are not used "
                f"again; leave {argument('earlier')} out"
            )
        found = self.request.finish(states[0], raw)
        result = with_masses(self.log, self.request.policies, found)
        made = {key: self._certificate(key, result, digest) for key in result.policies}
        if self.place is not None and not any(one.improves for one in made.values()):
            made = {key: _withheld(one) for key, one in made.items()}
        return {key: made[one] for key, one in self.same_as.items()}

    def moments(self, states: tuple[Any, ...]) -> dict[Any, MomentState]:
        """Return key -> the sums of weights and rewards that point estimates are made of.

        Args:
            states: of `sums`.
        """
        each = dict(zip(self.request.policies, states[0][0], strict=True))
        return {key: each[one][0].moments for key, one in self.same_as.items()}

    def _certificate(self, key: Any, result: RequestResult, digest: str) -> Certificate:
        """Return one certificate; bounds are withheld if something contradicts them.

        Args:
            key: of the policy.
            result: what the pass over the log found.
            digest: of the rows.
        """
        found, log, budget = result.policies[key], self.log, self.request.budget
        moments, n = found.evidence.state.moments, found.evidence.rows
        low = max(0.0, found.raw.interval.lower or 0.0)
        # without rows there is no mean
        logged = mean_weight = None
        if n:
            logged, mean_weight = log.value(moments.reward / n), moments.w / n
        made = Certificate(
            kind=self.kind,
            value=_point(log, moments),
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
            series=self.place,
            assumes=log.assumption,
            log_digest=digest,
            logger=_logger(log),
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
            gain = found.raw.gain
            if gain is not None:
                # rewards are in [0, 1] on the unit scale, so no difference is below -1
                gain = log.span * max(-1.0, gain)
            made = replace(made, value_lower=log.value(low), improvement_lower=gain)
        return made

    def _notes(self, found: PolicyResult, low: float, why_not: Note | None) -> tuple[Note, ...]:
        """Return what a reader of one certificate must know, most important first."""
        notes = [*as_notes(self.log.propensity_caveats, "propensity-error")]
        if found.copied is not None:
            notes.append(copies_note(found.copied))
        if found.logger_changed is not None:
            notes.append(logger_note("fixed", found.logger_changed))
        if self.log.columns.unit is not None:
            notes.append(unit_note(self.log.columns.unit))
        if self.earlier and not self.place:
            notes.append(_last_call())
        notes += _notes(found.evidence.state.moments, low, why_not)
        if found.provenance is not None:
            notes.append(found.provenance)
        return (*notes, *self.log.caveats)


def _check_baseline(log: Log, baseline: Baseline) -> None:
    """Raise for a baseline that was learned from the rows of an in-sample certificate.

    What is paid for the class covers its policies, not pairs of a policy and a baseline.
    """
    overlap = overlaps(log, {baseline.key: baseline.policy})[baseline.key]
    if overlap.certain:
        raise UsageError(
            f"the baseline was learned from part of this log ({overlap.how}), and must be fixed "
            "before; certify on rows that did not make it"
        )


def _check_facts(facts: Any) -> None:
    check_kind("facts", facts, (Mapping, type(None)))
    for name in facts or ():
        if name not in _FIELDS:
            raise UsageError(
                f"{argument('facts')} names {shown(name)}, which is not a field of Certificate"
            )


def _check_lists(request: Request, held_out: bool) -> None:
    """Raise for policies that play whatever labels were logged, if nothing else notices them.

    On held-out rows the test of the propensities does, but not for a baseline.
    """
    exposed: list[Policy] = []
    if request.baseline is not None:
        exposed.append(request.baseline.policy)
        if not held_out:
            _check_baseline(request.log, request.baseline)
    if not held_out:
        exposed += request.policies.values()
    check_actions_known(request.log, exposed)


def _certifying(interval: str) -> IntervalMethod:
    """Return the interval method of that name, if certificates can rest on it."""
    method = interval_named(interval)
    if not method.certifies:
        known = ", ".join(name for name, one in INTERVALS.items() if one.certifies)
        raise UsageError(
            f"{argument('interval', interval)} makes no certificates, expected one of {known}"
        )
    return method


def in_sample(key: Any, overlap: Overlap) -> str:
    """Return why a policy is not certified on rows that it was learned from."""
    whose = f"policy {key!r}"
    if isinstance(key, tuple):  # see Baseline.key
        whose = " ".join(map(str, key))
    return (
        f"{whose} was learned from part of this log ({overlap.how}), so that no "
        "certificate on it holds; certify on other rows, or give the declared class "
        f"that it is of ({argument('within')})"
    )


def check_declared(within: PolicyClass, policies: Mapping[Any, Policy]) -> None:
    """Raise for policies that are not of a declared class of known size.

    Raises:
        UsageError: naming the policy, or what is wrong with the class.

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
            "the class has unknown size, so no in-sample certificate holds; certify "
            "on rows that learning did not see"
        )
    for key, policy in policies.items():
        if not within.contains(policy):
            raise UsageError(
                f"policy {key!r} is not in the class that was declared, whose "
                "certificate covers its policies alone; certify this one on rows that "
                f"did not make it, without {argument('within')}"
            )


def _count(earlier: Any) -> Any:
    """Return how many candidates were certified earlier."""
    if isinstance(earlier, Certificate):
        return earlier.candidates
    return earlier


def _check_earlier(earlier: Any, within: PolicyClass | None) -> None:
    count = _count(earlier)
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UsageError(
            f"{argument('earlier')} is {earlier!r:.80}, expected a whole number of at "
            "least 0, or a certificate"
        )
    in_sample = isinstance(earlier, Certificate) and earlier.kind != "held-out"
    if in_sample or (count and within is not None):
        raise UsageError(
            "an in-sample certificate has paid for its whole class, earlier ones "
            f"included; leave {argument('earlier')} out"
        )


def _logger(log: Log) -> str | None:
    """Return what is declared of the logger, or has to be assumed: see `Certificate.logger`."""
    chosen = log.selector
    if log.logger is None and isinstance(chosen, HeldOut) and chosen.cut is None:
        return ASSUMED_FIXED
    return log.logger


def _withheld(made: Certificate) -> Certificate:
    """Return a certificate of a series without numbers that the next candidate could be bred from.

    If all that is shown before the first success is that there was none, candidates can depend on
    nothing else, and each call's part of delta covers its own: the sum of the parts is delta.
    """
    note = Note(
        "withheld: a series shows numbers only when something is certified, as later candidates "
        "could be made from them",
        kind="withheld",
    )
    return replace(
        made,
        value=None,
        value_lower=None,
        improvement_lower=None,
        baseline_value=None,
        ess=None,
        mean_weight=None,
        unsupported_mass=None,
        propensity_p=None,
        notes=(note,),
    )


def _last_call() -> Note:
    """Return the note for rows that earlier calls have used."""
    return Note(
        "these rows were used before: the bounds hold if neither the candidates nor "
        "which call is the last depend on what earlier calls showed; going on until "
        f"something is certified takes certify({argument('series', value=True)})",
        kind="used-before",
    )


def _place(earlier: Any, series: Any, within: PolicyClass | None, delta: float) -> int | None:
    """Return which call of a series it is, None outside of one."""
    _check_earlier(earlier, within)
    check_flag("series", series)
    before = None
    if isinstance(earlier, Certificate):
        before = earlier.series
    if before is None and not series:
        return None
    if within is not None:
        raise UsageError(
            "an in-sample certificate has paid for its whole class, later ones "
            f"included; leave {argument('series')} out"
        )
    if before is None and earlier:
        raise UsageError(
            "a series is declared in its first call, and what was certified earlier "
            f"is of none; leave {argument('series')} out"
        )
    if before is not None and earlier.value_lower is not None:
        raise UsageError(
            "the series has certified something and shown its numbers, so that it is over; certify "
            "later candidates on other rows"
        )
    if before is not None and earlier.delta != delta:
        raise UsageError(
            f"{argument('delta')} is {shown(delta)}, and the series was declared with "
            f"{earlier.delta:g}; use the same"
        )
    if before is None:
        return 1
    return before + 1


def _spent(place: int | None) -> float:
    """Return the share of delta that a call of a series spends: 1/2, 1/6, 1/12, ...; 1 in all."""
    if place is None:
        return 1.0
    return 1.0 / (place * (place + 1.0))


def _shares(
    shares: Any, same_as: Mapping[Any, Any], *, fixed: bool, place: int | None
) -> Mapping[Any, float] | None:
    """Return key -> share of delta, for each policy that differs; None: equal shares."""
    if shares is not None and not fixed and place is None:
        raise UsageError(
            f"{argument('shares')} are of one call on held-out rows; leave them out "
            f"with {argument('within')} or {argument('earlier')}"
        )
    if shares is None and place is None:
        return None
    if shares is None:
        distinct = dict.fromkeys(same_as.values())
        each = dict.fromkeys(distinct, 1.0 / len(distinct))
    else:
        each = _joined_shares(shares, same_as)
    # a call of a series has only its part of delta to share
    return {key: share * _spent(place) for key, share in each.items()}


def _joined_shares(shares: Any, same_as: Mapping[Any, Any]) -> dict[Any, float]:
    """Return the shares of delta of the distinct policies: the sum over those that are the same.

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


def _point(log: Log, sums: MomentState) -> float | None:
    value = importance_weighted(sums, log.origin).value
    if value is None or not math.isfinite(value):
        return None
    return log.value(value)


def _notes(sums: MomentState, low: float, why_not: Note | None) -> list[Note]:
    notes = []
    if why_not is not None:
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
    what = f"{sums.logged} rows"
    if sums.rows != sums.logged:
        what = f"means of {sums.rows} units"
    if sums.rows and sums.reward < 100:
        notes.append(
            Note(
                f"the {what} hold a total reward of {sums.reward:.4g} on the scale from 0 to 1; "
                "little can be proved from so little",
                kind="few-rewards",
            )
        )
    if low <= 0 and why_not is None:
        notes.append(
            Note(
                "the value bound is vacuous: it says no more than the reward range does",
                kind="vacuous",
            )
        )
    return notes
