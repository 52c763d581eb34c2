"""Certifying: from the sums of a log to certificates of several policies, which hold together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, Protocol, runtime_checkable

from piwo import bounds
from piwo.certificates.certificate import Certificate, Kind
from piwo.checks import check_flag, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline, Difference
from piwo.evaluation.contradiction import Claim, contradiction, union_penalty, weight_p
from piwo.evaluation.predicted_baselines import with_predictions
from piwo.intervals import INTERVALS, Evidence, IntervalMethod, interval_named
from piwo.intervals.point import estimator_named, importance_weighted
from piwo.intervals.prepare import check_actions_known, check_named, prepare
from piwo.intervals.weight_sums import effective_size
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sameness import joined_shares, policy_digest
from piwo.records import now
from piwo.reductions import Digest, Joint, MomentState, PolicyState, PolicySums
from piwo.reductions.reduce import reduce
from piwo.reductions.shared_policy import SharedPolicy
from piwo.scores import IW

__all__ = ["Certifying", "PolicyClass", "certify", "check_declared"]


_FIELDS = frozenset(x.name for x in fields(Certificate))


@runtime_checkable
class PolicyClass(Protocol):
    """A class of policies that was declared before the log was seen, such as an exhaustive oracle.

    An in-sample certificate is made of such a class, and covers its policies alone: which of them
    was taken may have been decided by the rewards, the class itself may not.
    """

    def log_class_size(self) -> float | None:
        """Return log |Pi|; None where the class is infinite or unknown."""
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
    see `piwo.bounds.value_lower` and `piwo.bounds.improvement_lower`. Where the log has full
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
        interval: "auto": "mixture-cv" where the log has the probability of every action
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
            the first look, where the log grows and is certified again (docs/adaptive.md).
        facts: further fields of `Certificate` to record.

    Returns:
        key -> `Certificate`.

    Raises:
        UsageError: for policies that are not of the class, a class of unknown size, an earlier
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
    asked = Certifying.of(
        log, policies, delta=delta, within=within, baseline=baseline, interval=interval, q=q, shares=shares,
        earlier=earlier, series=series, horizon=horizon, facts=facts,
    )  # fmt: skip
    return asked.finish(reduce(asked.log, asked.sums))


@dataclass(frozen=True)
class Certifying:
    """What `certify` was asked: what it must sum over the log, and what the sums then say.

    For those who sum something else in the same pass: `reduce(asked.log, Joint((asked.sums,
    other)))`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> asked = Certifying.of(log, {0: piwo.policies.Constant("a", log.actions)})
    >>> asked.finish(reduce(asked.log, asked.sums))[0].certified
    True
    """

    log: Log
    policies: Mapping[Any, Policy]
    """key -> policy, ready for the log; those that differ."""
    same_as: Mapping[Any, Any]
    """key -> key of the same policy in `policies`, for every key asked for."""
    methods: Mapping[Any, IntervalMethod]
    """key -> how the bounds of that policy are made, for each of `policies`."""
    delta: float
    within: PolicyClass | None
    earlier: int | Certificate
    facts: Mapping[str, Any]
    horizon: bounds.Horizon = None
    baseline: Baseline | None = None
    """What they are compared with, ready for the log; None: the logging policy."""
    shares: Mapping[Any, float] | None = None
    """key -> share of delta, for each of `policies`; None: the same for all."""
    place: int | None = None
    """Which call of a series it is, from 1 on; None outside of one."""
    price: float | None = None
    """What all bounds pay beside log(1/delta), where that is no union over policies but a
    divergence from a prior: the policies were made by looking at these rows, and are of no class
    that could be counted. None: see `certify`."""

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
    ) -> Certifying:
        """Return what was asked, checked; the arguments are those of `certify`, and `price`.

        Raises:
            UsageError: see `certify`.
        """
        check_named(log, policies)
        method = interval_named(interval)
        if not method.certifies:
            known = ", ".join(name for name, one in INTERVALS.items() if one.certifies)
            raise UsageError(
                f"{argument('interval', interval)} makes no certificates, expected one of {known}"
            )
        if log.columns.weight is not None:
            raise UsageError(
                "the log was thinned (sampling weights) and the dropped rows are not counted: no "
                "certificate holds"
            )
        first: dict[str, Any] = {}
        same_as = {
            key: first.setdefault(policy_digest(policy), key) for key, policy in policies.items()
        }
        bounds.check_horizon(horizon)
        check_kind("facts", facts, (Mapping, type(None)))
        unknown = next((x for x in facts or () if x not in _FIELDS), None)
        if unknown is not None:
            raise UsageError(f"facts names {shown(unknown)}, which is no field of Certificate")
        place = _place(earlier, series, within, delta)
        if within is not None:
            check_declared(within, {key: policies[key] for key in first.values()})
        base = Baseline.of(log, policies, baseline)
        given = log
        log, ready = prepare(
            log,
            {
                **{key: policies[key] for key in first.values()},
                **({} if base is None else {base.key: base.policy}),
            },
        )
        if base is not None:
            twins = tuple(dict.fromkeys(same_as[key] for key in base.twins))
            base = replace(base, policy=ready.pop(base.key), twins=twins)
            check_actions_known(log, [base.policy])
        if (
            within is not None or price is not None
        ):  # on held-out rows the test of the propensities sees it
            check_actions_known(log, ready.values())
        if horizon is not None and horizon != "universal" and earlier:
            raise UsageError(
                "the bets of a horizon depend on how many candidates pay, so earlier must be 0 "
                "with one"
            )
        shares = _shares(shares, same_as, fixed=within is None and not earlier, place=place)
        methods = {key: method.settled(log, policy) for key, policy in ready.items()}
        methods = with_predictions(methods, q, log, ready, asked=method, given=given)
        return cls(
            log,
            ready,
            same_as,
            methods,
            delta,
            within,
            earlier,
            facts or {},
            horizon,
            base,
            shares,
            place,
            price,
        )

    @property
    def kind(self) -> Kind:
        """ "in-sample" for policies of a declared class, or at a price of their own, else "held-out"."""
        return "held-out" if self.within is None and self.price is None else "in-sample"

    @property
    def log_class_size(self) -> float:
        """Log |Pi| of the declared class, 0 without."""
        return 0.0 if self.within is None else self.within.log_class_size() or 0.0

    @property
    def candidates(self) -> int:
        """How many policies the rows have been used for by now."""
        before = self.earlier.candidates if isinstance(self.earlier, Certificate) else self.earlier
        return before + len(self.policies)

    @property
    def sums(self) -> Joint:
        """What must be summed: a digest, the sums of every policy, and the baseline's own."""
        others = () if self.baseline is None else self.baseline.sums
        return Joint(
            (Digest(), Joint(tuple(self._sums(key) for key in self.policies)), Joint(others))
        )

    def _sums(self, key: Any) -> SharedPolicy:
        policy = self.policies[key]
        own = self.methods[key].sums(self.log, policy)
        pair = () if self.baseline is None else (self._difference(key, self.baseline).sums,)
        return SharedPolicy(policy, (PolicySums(policy, IW(), self._bounded), *own, *pair))

    def _difference(self, key: Any, baseline: Baseline) -> Difference:
        return Difference.of(self.policies[key], baseline.policy, self.methods[key])

    @property
    def _bounded(self) -> bool:
        return math.isfinite(self.log.reward_range[1])

    def finish(
        self, sums: tuple[Any, ...], claims: Mapping[Any, Claim] | None = None
    ) -> dict[Any, Certificate]:
        """Return key -> `Certificate`.

        Args:
            sums: the state of `sums`.
            claims: key -> bounds that were found otherwise; None: those of `claims`.
        """
        digest, states, _ = sums
        before = self.earlier.log_digest if isinstance(self.earlier, Certificate) else None
        if before is not None and before != digest.text(self.log.actions):
            raise UsageError(
                "the earlier certificate is of other rows, so they are not used again; leave "
                "earlier out"
            )
        claims, weights = self.claims(sums) if claims is None else claims, self.weights(sums)
        why_not = contradiction(weights, claims, self.log.reward_range)
        known = {"log_digest": digest.text(self.log.actions), "propensity_p": min(weights.values())}
        if self.baseline is not None:
            known["baseline"] = self.baseline.name
            known["baseline_value"] = self.baseline.value(
                self._others(sums)[self.baseline.key], self.log
            )
        made = {}
        for (key, claim), (own, *_) in zip(claims.items(), states, strict=True):
            one = self._record(own, claim, known, why_not)
            share = None if self.shares is None else self.shares[key]
            made[key] = replace(one, bound=self.methods[key].name, share=share)
        return {key: made[one] for key, one in self.same_as.items()}

    def claims(self, sums: tuple[Any, ...]) -> dict[Any, Claim]:
        """Return key -> the raw lower bounds on value and improvement, for each of `policies`."""
        return {
            key: self._claim(key, state) for key, state in zip(self.policies, sums[1], strict=True)
        }

    def weights(
        self, sums: tuple[Any, ...], others: Mapping[Any, PolicyState] | None = None
    ) -> dict[Any, float]:
        """Return key -> p-value of "the propensities are not too small" by its weights, at what all of them pay.

        Args:
            sums: the state of `sums`.
            others: key -> state of policies beside the ones asked for and the baseline, which are
                tested too.
        """
        more = dict(others or {})
        if self.baseline is not None and not self.baseline.twins:
            more |= self._others(sums)
        # those beside share what this call of a series may spend
        spent = 0.0 if self.place is None else math.log(_spent(self.place))
        paid = {
            key: union_penalty(self._paid(key) + spent, len(more)) - spent for key in self.policies
        }
        tested = {
            key: weight_p(state, paid[key])
            for key, (state, *_) in zip(self.policies, sums[1], strict=True)
        }
        union = union_penalty(self._union + spent, len(more)) - spent
        return tested | {key: weight_p(state, union) for key, state in more.items()}

    def _others(self, sums: tuple[Any, ...]) -> dict[Any, PolicyState]:
        """Return the state of the baseline by its key, whether it is one of the policies or not."""
        if self.baseline is None:
            return {}
        (twin, *_), states = (
            self.baseline.twins or (None,),
            dict(zip(self.policies, sums[1], strict=True)),
        )
        return {self.baseline.key: states[twin][0] if self.baseline.twins else sums[2][0]}

    def moments(self, sums: tuple[Any, ...]) -> dict[Any, MomentState]:
        """Return key -> the sums of weights and rewards that point estimates are made of, from the state of `sums`."""
        each = dict(zip(self.policies, sums[1], strict=True))
        return {key: each[one][0].moments for key, one in self.same_as.items()}

    @property
    def _union(self) -> float:
        """The logarithm of how many policies the bounds of all hold for, or what they pay in its place."""
        if self.price is not None:
            return max(0.0, self.price)
        # the union over a whole class covers every candidate in it; held-out rows pay for each
        # candidate
        if self.place is not None:
            return math.log(len(self.policies)) - math.log(_spent(self.place))
        return math.log(self.candidates) if self.within is None else self.log_class_size

    def _paid(self, key: Any) -> float:
        """Return what the bounds of a policy pay beside log(1/delta)."""
        return self._union if self.shares is None else -math.log(self.shares[key])

    @property
    def each(self) -> float:
        """Log(1/delta) of each bound, where all policies pay alike."""
        return bounds.log_inv_delta(self.delta, log_class_size=self._union)

    def _claim(self, key: Any, state: tuple[Any, ...]) -> Claim:
        (own, *more), method = state, self.methods[key]
        pair: Any = more.pop() if self.baseline is not None else None
        evidence = self._evidence(self.policies[key], own, tuple(more), self._paid(key))
        low = bounds.Interval(method.value_lower(evidence), None)
        if self.baseline is None:
            return Claim(low, method.improvement(evidence) if self._bounded else None)
        return Claim(
            low,
            self._difference(key, self.baseline).lower(pair, evidence.log_inv_delta, self.horizon),
        )

    def _evidence(
        self, policy: Policy, state: PolicyState, own: tuple[Any, ...], paid: float
    ) -> Evidence:
        return Evidence(
            log=self.log,
            policy=policy,
            score=IW(),
            estimator=estimator_named("iw"),
            estimate=importance_weighted(state.moments, self.log.origin),
            state=state,
            own=own,
            delta=self.delta,
            log_inv_delta=bounds.log_inv_delta(self.delta, log_class_size=paid),
            random_state=None,
            horizon=self.horizon,
        )

    def _record(
        self, state: PolicyState, claim: Claim, known: Mapping[str, Any], why_not: str | None
    ) -> Certificate:
        """Return the certificate of raw bounds, which are not given where something speaks against them."""
        log, moments, n = self.log, state.moments, state.moments.rows
        low, gain = max(0.0, claim.raw.lower or 0.0), claim.gain
        return Certificate(
            kind=self.kind,
            value=_point(log, moments),
            value_lower=None if why_not is not None else log.value(low),
            improvement_lower=None
            if gain is None or why_not is not None
            else log.span * max(-1.0, gain),
            logging_value=log.value(moments.reward / n) if n else None,
            delta=self.delta,
            candidates=self.candidates,
            log_class_size=self.log_class_size,
            rows=n,
            ess=effective_size(moments.w, moments.w2),
            mean_weight=moments.w / n if n else None,
            reward_range=log.reward_range,
            cost=log.columns.cost,
            horizon=self.horizon,
            series=self.place,
            assumes=log.assumption,
            created=now(),
            notes=(
                *log.propensity_caveats,
                *(() if self.place or not self.earlier else (_last_call(),)),
                *_notes(moments, low, why_not),
            ),
            **known,
            **self.facts,
        )


def check_declared(within: PolicyClass, policies: Mapping[Any, Policy]) -> None:
    """Raise where policies are not of a declared class of known size.

    Raises:
        UsageError: naming the policy, or what is wrong with the class.

    >>> import piwo
    >>> a, b = (piwo.policies.Constant(x, ["a", "b"]) for x in "ab")
    >>> check_declared(piwo.oracles.Exhaustive([a, b]), {"new": a})
    """
    if not (hasattr(within, "contains") and hasattr(within, "log_class_size")):
        raise UsageError(
            f"{argument('within')} is {within!r:.80}, expected the class that was declared, such as "
            "piwo.oracles.Exhaustive(policies)"
        )
    if within.log_class_size() is None:
        raise UsageError(
            "the class has unknown size, so no in-sample certificate holds; certify on rows that "
            "learning did not see"
        )
    for key, policy in policies.items():
        if not within.contains(policy):
            raise UsageError(
                f"policy {key!r} is not in the class that was declared, whose certificate covers "
                "its policies alone; certify this one on rows that did not make it, without within"
            )


def _check_earlier(earlier: Any, within: PolicyClass | None) -> None:
    count = earlier.candidates if isinstance(earlier, Certificate) else earlier
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UsageError(
            f"{argument('earlier')} is {earlier!r:.80}, expected a whole number of at least 0, or a certificate"
        )
    in_sample = isinstance(earlier, Certificate) and earlier.kind != "held-out"
    if in_sample or (count and within is not None):
        raise UsageError(
            "an in-sample certificate has paid for its whole class, earlier ones included; leave "
            "earlier out"
        )


def _last_call() -> Note:
    """Return the note for rows that earlier calls have used."""
    return Note(
        "these rows were used before: the bounds hold if which call is the last does not depend on "
        "what was certified; going on until something is certified takes "
        f"certify({argument('series', True)})",
        kind="used-before",
    )


def _place(earlier: Any, series: Any, within: PolicyClass | None, delta: float) -> int | None:
    """Return which call of a series it is, None outside of one."""
    _check_earlier(earlier, within)
    check_flag("series", series)
    before = earlier.series if isinstance(earlier, Certificate) else None
    if before is None and not series:
        return None
    if within is not None:
        raise UsageError(
            "an in-sample certificate has paid for its whole class, later ones included; leave "
            "series out"
        )
    if before is None and earlier:
        raise UsageError(
            "a series is declared in its first call, and what was certified earlier is of none; "
            "leave series out"
        )
    if before is not None and earlier.delta != delta:
        raise UsageError(
            f"{argument('delta')} is {shown(delta)}, and the series was declared with {earlier.delta:g}; use the "
            "same"
        )
    return 1 if before is None else before + 1


def _spent(place: int) -> float:
    """Return the share of delta that a call of a series spends: 1/2, 1/6, 1/12 and so on, 1 in all."""
    return 1.0 / (place * (place + 1.0))


def _shares(
    shares: Any, same_as: Mapping[Any, Any], *, fixed: bool, place: int | None
) -> Mapping[Any, float] | None:
    """Return key -> share of delta, for each policy that differs; None: the same for all that were ever certified."""
    if shares is not None and not fixed and place is None:
        raise UsageError(
            f"shares are of one call on held-out rows; leave them out with {argument('within')} or {argument('earlier')}"
        )
    if shares is None and place is None:
        return None
    even = dict.fromkeys(same_as.values())
    each = (
        dict.fromkeys(even, 1.0 / len(even)) if shares is None else joined_shares(shares, same_as)
    )
    return {key: share * (1.0 if place is None else _spent(place)) for key, share in each.items()}


def _point(log: Log, sums: MomentState) -> float | None:
    value = importance_weighted(sums, log.origin).value
    return None if value is None or not math.isfinite(value) else log.value(value)


def _notes(sums: MomentState, low: float, why_not: str | None) -> tuple[str, ...]:
    notes = []
    if why_not is not None:
        mean = sums.w / sums.rows
        shown = f"{mean:.4g}" if math.isfinite(mean) else "beyond float64"
        notes.append(
            f"{why_not}; mean weight here {shown}, expected 1: no bound is given, and nothing is "
            "certified"
        )
    if sums.rows and sums.reward < 100:
        total = f"the {sums.rows} rows hold a total reward of {sums.reward:.4g} on the unit scale"
        notes.append(f"{total}; little can be proved from so little")
    if low <= 0 and why_not is None:
        notes.append("the value bound is vacuous: it says no more than the reward range does")
    return tuple(notes)
