"""Regret certificates: how far a policy can be below others, or below the best of a class."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from piwo import bounds
from piwo._version import __version__
from piwo.certificates.certificate import SHARED_RULES, Kind
from piwo.certificates.certify import (
    CertificateRequest,
    PolicyClass,
    check_declared,
    in_sample,
)
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline, Difference
from piwo.evaluation.contradiction import RawBounds, contradiction
from piwo.evaluation.notes import as_notes, refusal, unit_note
from piwo.evaluation.provenance import overlaps
from piwo.evaluation.record import rows_text
from piwo.intervals.matching import check_actions_known, matched
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.oracles import Oracle
from piwo.policies import Policy
from piwo.records import Rule, SavedRecord, maybe, now, number, one_of, text, whole
from piwo.reductions import Joint, PolicySums
from piwo.reductions.reduce import reduce
from piwo.reductions.shared_policy import SharedPolicy
from piwo.scores import IW, LSLinear
from piwo.visible import visible_lines

__all__ = ["RegretCertificate", "regret_certificate"]

SELF = "policy"


@dataclass(frozen=True)
class RegretCertificate(SavedRecord):
    """Upper bounds on the regret of one policy, in the reward's unit, which hold together.

    >>> RegretCertificate("comparators", {"old": 0.02, "new": 0.3}, 0.05, "held-out").regret_upper
    0.3
    """

    what: ClassVar[str] = "the regret certificate"
    remedy: ClassVar[str] = "certify the policy again"
    scope: Literal["comparators", "class"]
    """comparators: those named; class: every policy of a finite class, whichever is best."""
    against: Mapping[str, float | None]
    """Name of the comparator, or of the oracle of the class -> v(comparator) - v(policy) is at most
    this. None if the rows contradict their propensities: the notes say how."""
    delta: float
    kind: Kind
    log_class_size: float = 0.0
    """log |Pi| that an in-sample certificate pays for."""
    rows: int = 0
    unit: str | None = None
    """The column of units, whose means the bounds are on; None: bounds count rows."""
    units: int | None = None
    propensity_p: float | None = None
    """p-value of "the propensities are not too small" (E w <= 1), the smallest of the policy and
    all comparators, with what they pay; below `SUSPICIOUS` there is no bound."""
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost: bool = False
    log_digest: str | None = None
    version: str = __version__
    created: str = ""
    notes: tuple[str, ...] = ()
    bound: str = "mixture"
    """What the policy is measured with: "mixture", the logged propensities; "mixture-cv", those of
    the actions not taken too."""

    @property
    def regret_upper(self) -> float | None:
        """The largest of the bounds; None if there is none."""
        return max((most for most in self.against.values() if most is not None), default=None)

    @classmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:  # noqa: ARG003 (regrets do not depend on it)
        """Return what the fields must be."""
        return {
            **SHARED_RULES,
            "unit": maybe(text),
            "units": maybe(whole(0)),
            "scope": one_of("comparators", "class"),
            "against": lambda value: bool(value) and all(map(_is_bound, value.items())),
        }

    def __str__(self) -> str:
        number = rows_text(self.rows, self.units, self.unit)
        how = f"{self.bound} bound, delta {self.delta:g}, {number}"
        lines = [f"{self.kind} regret certificate, {how}"]
        for name, most in self.against.items():
            other = name
            if self.scope == "class":
                other = f"every policy of the class of {name}"
            if most is None:
                lines.append(f"  below {other}: no bound")
            elif most >= 0:
                lines.append(f"  below {other} by at most {most:.4g}")
            else:
                # a negative regret is an improvement
                lines.append(f"  better than {other} by at least {-most:.4g}")
        return visible_lines(lines + [f"  note: {note}" for note in self.notes])


def regret_certificate(
    log: Log,
    policy: Any,
    against: Mapping[str, Any] | Oracle,
    *,
    delta: float = 0.05,
    within: PolicyClass | None = None,
    interval: str = "auto",
) -> RegretCertificate:
    """Return how far a policy can be below others. Answers: what do we lose at most by running it?

    Formula: against N comparators, each minus the improvement over it that
    `piwo.certify(baseline=)` certifies at delta/N. Against a class, `piwo.bounds.best_value_upper`
    at delta/2 minus the certified value at delta/2.

    Args:
        log: rows that were not used to make the policy; with `within`, any rows.
        policy: the one that runs; see `piwo.evaluate` for what a policy may be.
        against: name -> comparator, each fixed before looking; or an exact oracle, for the best of
            its class.
        delta: joint error probability of all bounds.
        within: the declared class that the policy was chosen from by looking at these rows; see
            `piwo.certify`.
        interval: how the policy is measured; see `piwo.certify`.

    Returns:
        A `RegretCertificate`.

    Raises:
        UsageError: for an oracle that is not exact, a policy that is not of the class, thinned
            logs, rewards without an upper end.

    Source: docs/theory.md, section "Regret certificates".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> a, b = (piwo.policies.Constant(x, log.actions) for x in log.actions)
    >>> found = regret_certificate(log, a, {"b": b})
    >>> found.regret_upper < -0.9  # b is worse
    True
    >>> 0 <= regret_certificate(log, a, piwo.oracles.Exhaustive([a, b])).regret_upper < 0.2
    True
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    log.require_provable("no certificate holds")
    if not math.isfinite(log.reward_range[1]):
        raise UsageError(
            "a regret certificate needs rewards with an upper end, else nothing "
            f"bounds what another policy earns; declare {argument('reward_range')}"
        )
    bounds.log_inv_delta(delta)
    if within is not None:
        check_declared(within, {SELF: policy})
    # an in-sample certificate may be of a policy that was chosen by these rows; comparators may not
    asked = {SELF: policy}
    if within is not None:
        asked = {}
    if isinstance(against, Mapping):
        asked |= against
    unknown = _made_elsewhere(log, asked)
    if isinstance(against, Oracle):
        made = CertificateRequest.of(
            log,
            {SELF: policy},
            delta=delta / 2,
            within=within,
            interval=interval,
            provenance=False,
        )
        found = _of_class(made, policy, against, delta)
        return replace(found, notes=(*found.notes, *unknown))
    if not isinstance(against, Mapping):
        raise UsageError(
            f"{argument('against')} is {against!r:.80}, expected name -> comparator, "
            "or an exact oracle"
        )
    if not against:
        raise UsageError("no comparators; name at least one policy, or give an exact oracle")
    named = {f"against {name}": one for name, one in against.items()}
    log, ready = matched(log, {**named, SELF: policy})
    check_actions_known(log, ready.values())
    made = CertificateRequest.of(
        log,
        {SELF: ready.pop(SELF)},
        delta=delta / len(against),
        within=within,
        interval=interval,
        provenance=False,
    )
    found = _of_comparators(made, dict(zip(against, ready.values(), strict=True)), against, delta)
    return replace(found, notes=(*found.notes, *unknown))


def _made_elsewhere(log: Log, policies: Mapping[str, Any]) -> list[Note]:
    """Return notes on policies that may have been learned from these rows.

    Raises:
        UsageError: for one that was.
    """
    notes: list[Note] = []
    for key, overlap in overlaps(log, policies).items():
        if overlap.certain:
            raise UsageError(in_sample(key, overlap))
        if overlap.note is not None:
            notes.append(Note(f"{key}: {overlap.note.template}", overlap.note.kind))
    return notes


def _of_comparators(
    made: CertificateRequest, others: Mapping[str, Policy], given: Mapping[str, Any], delta: float
) -> RegretCertificate:
    """Return the certificate against named policies.

    Args:
        made: of the policy, at its share of delta.
        others: name -> comparator, ready for the log.
        given: name -> comparator, as its user gave it.
        delta: of all bounds together.
    """
    request, log = made.request, made.log
    mine, method = request.policies[SELF], request.methods[SELF]
    # over the logging policy, the certificate itself has the improvement
    pairs = {
        name: Difference.of(mine, one, method)
        for name, one in others.items()
        if Baseline.of(log, {}, given[name]) is not None
    }
    sums, paired, states = reduce(
        log,
        Joint(
            (
                made.sums,
                SharedPolicy(mine, tuple(pair.sums for pair in pairs.values())),
                Joint(tuple(PolicySums(one, IW(), bounded=False) for one in others.values())),
            )
        ),
    )
    result = request.finish(sums[0])
    itself = result.policies[SELF].raw
    gains = dict.fromkeys(others, itself.gain)
    each = request.budget.log_inv_delta(SELF)
    for (name, pair), state in zip(pairs.items(), paired, strict=True):
        gains[name] = pair.lower(state, each)
    claimed = {SELF: itself}
    for name, gain in gains.items():
        claimed[name] = RawBounds(bounds.Interval(None, None), gain)
    tested = {("comparator", name): x for name, x in zip(others, states, strict=True)}
    p_values = request.p_values(result, tested)
    why_not = contradiction(p_values, claimed, log.reward_range)
    # regret: v(comparator) - v(policy) is at most -LB(v(policy) - v(comparator))
    most = {name: -gain for name, gain in gains.items() if gain is not None}
    return _regret(made, sums, "comparators", most, delta, min(p_values.values()), why_not)


def _of_class(
    made: CertificateRequest, policy: Any, oracle: Oracle, delta: float
) -> RegretCertificate:
    """Return the certificate against the best policy of the class of an exact oracle.

    Args:
        made: of the policy, at half of delta.
        policy: as its user gave it.
        oracle: of the class.
        delta: of both bounds together.
    """
    size = oracle.log_class_size()
    if not oracle.exact or size is None:
        raise UsageError(
            f"a bound for a whole class needs an exact oracle, and {oracle.name} finds "
            "some policy with a small loss, not the smallest; use oracles.Exhaustive, "
            "or name comparators"
        )
    request, log = made.request, made.log
    check_actions_known(log, request.policies.values())
    sums = reduce(log, made.sums)
    result = request.finish(sums[0])
    n, mine = result.policies[SELF].evidence.rows, result.policies[SELF].raw
    grid = bounds.gamma_grid_ls(n, size, delta)
    bets = grid.bets or (2.0 * bounds.gamma_auto(n, size, delta),)
    # min over the class of the sum of linear LS losses, at each bet
    least = oracle.least_losses(log, [LSLinear(bet) for bet in bets])
    half = bounds.log_inv_delta(delta, statements=2)
    best = bounds.best_value_upper([float(x) / n for x in least], bets, n, half + size)
    claimed = {SELF: mine, "the best of the class": RawBounds(bounds.Interval(0.0, best))}
    if oracle.contains(policy):  # then it is at most the best
        claimed[SELF] = replace(mine, interval=bounds.Interval(mine.interval.lower, best))
    why_not = contradiction(result.p_values, claimed, log.reward_range)
    most = {oracle.name: min(1.0, best) - (mine.interval.lower or 0.0)}
    evidence = min(result.p_values.values())
    return _regret(made, sums, "class", most, delta, evidence, why_not)


def _regret(
    made: CertificateRequest,
    sums: tuple[Any, ...],
    scope: Literal["comparators", "class"],
    most: Mapping[str, float],
    delta: float,
    evidence: float,
    why_not: Note | None,
) -> RegretCertificate:
    request, log = made.request, made.log
    policies, digest = sums[0][0], sums[1]
    notes = list(as_notes(log.propensity_caveats, "propensity-error"))
    if log.columns.unit is not None:
        notes.append(unit_note(log.columns.unit))
    if why_not is not None:
        notes.append(refusal(why_not))
    elif min(most.values()) >= 1.0:
        notes.append(
            Note("the bound is vacuous: it says no more than the reward range does", kind="vacuous")
        )
    against: dict[str, float | None] = dict.fromkeys(most)
    if why_not is None:
        against = {name: log.span * min(1.0, x) for name, x in most.items()}
    return RegretCertificate(
        scope=scope,
        against=against,
        delta=delta,
        kind=made.kind,
        log_class_size=made.log_class_size,
        rows=policies[0][0].moments.logged,
        unit=log.columns.unit,
        units=log.columns.units_of(policies[0][0].moments.rows),
        propensity_p=evidence,
        reward_range=log.reward_range,
        cost=log.columns.cost,
        log_digest=digest.text(log.actions),
        created=now(),
        notes=(*notes, *log.caveats),
        bound=request.methods[SELF].name,
    )


def _is_bound(named: tuple[Any, Any]) -> bool:
    name, most = named
    return text(name) and maybe(number())(most)
