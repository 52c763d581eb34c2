"""Regret certificates: how far a policy can be below others, or below the best of a class."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

from piwo import bounds
from piwo._version import __version__
from piwo.certificates.certificate import ASSUMED_FIXED, SHARED_RULES, Kind, assumed_fixed
from piwo.certificates.request import (
    CertificateRequest,
    PolicyClass,
    check_declared,
    declared_logger,
    in_sample_message,
)
from piwo.checks import check_kind
from piwo.display import Display
from piwo.errors import UsageError
from piwo.evaluation.baseline import Baseline, Difference
from piwo.evaluation.contradiction import RawBounds, contradiction
from piwo.evaluation.learning_logger import as_learning_if_seen
from piwo.evaluation.notes import notes_on_rows, refusal
from piwo.evaluation.result import PolicyResult
from piwo.intervals.matching import check_actions_known, matched
from piwo.intervals.provenance import overlaps
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.oracles import Oracle
from piwo.policies import Policy
from piwo.records import Rule, SavedRecord, frames_field, maybe, now, number, one_of, text
from piwo.reductions import Joint, PolicySums
from piwo.reductions.reduce import reduce
from piwo.reductions.shared_policy import SharedPolicy
from piwo.scores import IW, LSLinear
from piwo.visible import number as shown
from piwo.visible import rows_text, visible_lines

__all__ = ["RegretCertificate", "regret_certificate"]

SELF = "policy"
"""The key of the policy that runs."""


@dataclass(frozen=True)
class RegretCertificate(SavedRecord):
    """Upper bounds on the regret of one policy, in the reward's unit, which hold jointly.

    >>> RegretCertificate("comparators", {"old": 0.02, "new": 0.3}, 0.05, "held-out").regret_upper
    0.3
    """

    what: ClassVar[str] = "the regret certificate"
    remedy: ClassVar[str] = "certify the policy again"
    scope: Literal["comparators", "class"]
    """comparators: the named policies; class: every policy of a finite class, so also its best."""
    against: Mapping[str, float | None]
    """Name of the comparator, or of the oracle of the class -> upper bound on v(comparator) -
    v(policy). None if the rows contradict their propensities; then a note says how."""
    delta: float
    kind: Kind
    log_class_size: float = 0.0
    """log |Pi|, the penalty of an in-sample certificate."""
    rows: int = 0
    unit: str | None = None
    """The column of units, over whose means the values are; None: over rows."""
    units: int | None = None
    propensity_p: float | None = None
    """p-value of "the propensities are not too small" (E w <= 1): the smallest of the policy and
    all comparators, with the union penalty. Below `SUSPICIOUS` there is no bound."""
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost: bool = False
    log_digest: str | None = None
    version: str = __version__
    created: str = ""
    notes: tuple[str, ...] = ()
    bound: str = "mixture"
    """The method for the policy: "deadline" or "mixture", from the propensities of the logged
    actions; "deadline-cv" or "mixture-cv", from those of all actions."""
    logger: str | None = None
    """The declared logger; "assumed fixed": see `Certificate.logger`."""
    frames: str | None = frames_field()

    @property
    def regret_upper(self) -> float | None:
        """The largest of the bounds; None if there is none."""
        given = [most for most in self.against.values() if most is not None]
        return max(given, default=None)

    @classmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:  # noqa: ARG003 (regrets do not use it)
        """Return the rule of each field."""
        return {
            **SHARED_RULES,
            "scope": one_of("comparators", "class"),
            "against": lambda value: bool(value) and all(map(_is_bound, value.items())),
        }

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: a row a comparator."""
        return {"against": list(self.against), "regret_upper": list(self.against.values())}

    def display(self) -> Display:
        """Return the bounds as they are shown in a notebook."""
        rows = tuple((name, shown(most)) for name, most in self.against.items())
        size = rows_text(self.rows, self.units, self.unit)
        title = f"{self.kind} regret certificate, {size}; bounds hold together at {self.delta:g}"
        return Display(title, ("below", "by at most"), rows, tuple(map(str, self.notes)))

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
                lines.append(f"  below {other} by at most {shown(most)}")
            else:
                # A negative regret is an improvement.
                lines.append(f"  better than {other} by at least {shown(-most)}")
        if self.logger == ASSUMED_FIXED:
            lines.append(f"  assumes {assumed_fixed(self.unit)}")
        elif self.logger == "fixed" and self.unit is None:
            lines.append("  assumes that rows are independent")
        return visible_lines(lines + [f"  note: {note}" for note in self.notes])


@as_learning_if_seen
def regret_certificate(
    log: Log,
    policy: Any,
    against: Mapping[str, Any] | Oracle,
    *,
    delta: float = 0.05,
    within: PolicyClass | None = None,
    interval: str = "auto",
) -> RegretCertificate:
    """Return bounds on how far a policy is below others. Answers: what can running it cost?

    Formula: against N comparators, each minus the improvement over it that
    `piwo.certify(baseline=)` certifies at delta/N. Against a class, `piwo.bounds.best_value_upper`
    at delta/2 minus the certified value at delta/2.

    Args:
        log: rows that were not used to make the policy; with `within`, any rows.
        policy: the one that runs; see `piwo.evaluate` for what a policy may be.
        against: name -> comparator, each fixed before these rows were seen; or an exact oracle, for
            the best of its class.
        delta: joint error probability of all bounds.
        within: the declared class that the policy was chosen from by looking at these rows; see
            `piwo.certify`.
        interval: the method for the policy; see `piwo.certify`.

    Returns:
        A `RegretCertificate`.

    Raises:
        UsageError: for an oracle that is not exact, a policy that is not in the class, thinned
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
    log.require_provable("no certificate is valid")
    if not math.isfinite(log.reward_range[1]):
        raise UsageError(
            "a regret certificate needs rewards with an upper end, as the value of another "
            f"policy has no bound otherwise; declare {argument('reward_range')}"
        )
    bounds.log_inv_delta(delta)
    if within is not None:
        check_declared(within, {SELF: policy})
    # The policy of an in-sample certificate may be chosen by these rows; comparators may not.
    fixed_before = {SELF: policy}
    if within is not None:
        fixed_before = {}
    if isinstance(against, Mapping):
        fixed_before |= against
    provenance_notes = _provenance_notes(log, fixed_before)
    if isinstance(against, Oracle):
        made = CertificateRequest.of(
            log,
            {SELF: policy},
            delta=delta / 2,
            within=within,
            interval=interval,
            provenance=False,
            detects_learning=True,
        )
        found = _of_class(made, policy, against, delta)
        return replace(found, notes=(*found.notes, *provenance_notes))
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
        detects_learning=True,
    )
    comparators = dict(zip(against, ready.values(), strict=True))
    found = _of_comparators(made, comparators, against, delta)
    return replace(found, notes=(*found.notes, *provenance_notes))


def _provenance_notes(log: Log, policies: Mapping[str, Any]) -> list[Note]:
    """Return notes on policies that may have been learned from these rows.

    Raises:
        UsageError: for a policy that was.
    """
    notes: list[Note] = []
    for key, overlap in overlaps(log, policies).items():
        if overlap.certain:
            raise UsageError(in_sample_message(key, overlap))
        if overlap.note is not None:
            notes.append(Note(f"{key}: {overlap.note.template}", overlap.note.kind))
    return notes


def _of_comparators(
    made: CertificateRequest,
    others: Mapping[str, Policy],
    given: Mapping[str, Any],
    delta: float,
) -> RegretCertificate:
    """Return the certificate against named policies.

    Args:
        made: the request for the policy, at its share of delta.
        others: name -> comparator, ready for the log.
        given: name -> comparator, as the user gave it.
        delta: joint error probability of all bounds.
    """
    request, log = made.request, made.log
    mine, method = request.policies[SELF], request.methods[SELF]
    pairs: dict[str, Difference] = {}
    for name, one in others.items():
        # The request itself has the improvement over the logging policy.
        if Baseline.of(log, {}, given[name]) is not None:
            pairs[name] = Difference.of(mine, one, method, request.partition)
    # One pass: the policy, its differences, and the weights of the comparators for the test.
    sums, paired, states = reduce(
        log,
        Joint(
            (
                made.sums,
                SharedPolicy(tuple(pair.sums for pair in pairs.values()), mine),
                Joint(tuple(PolicySums(one, IW(), bounded=False) for one in others.values())),
            )
        ),
    )
    result = request.finish(sums[0])
    own_bounds = result.policies[SELF].raw
    gains = dict.fromkeys(others, own_bounds.gain)
    # Delta / N for each of N comparators: see `regret_certificate`.
    log_inv_delta = request.budget.log_inv_delta(SELF)
    for (name, pair), state in zip(pairs.items(), paired, strict=True):
        gains[name] = pair.lower(state, log_inv_delta)
    claimed = {SELF: own_bounds}
    for name, gain in gains.items():
        claimed[name] = RawBounds(bounds.Interval(None, None), gain)
    tested = {}
    for name, state in zip(others, states, strict=True):
        tested["comparator", name] = state
    p_values = request.p_values(result, tested)
    why_not = contradiction(p_values, claimed, log.reward_range)
    # The regret v(comparator) - v(policy) is at most -LB(v(policy) - v(comparator)).
    most = {name: -gain for name, gain in gains.items() if gain is not None}
    over_logger = len(pairs) < len(others)
    found = replace(result.policies[SELF], contradicted=why_not)
    return _regret(
        made, sums, "comparators", most, delta, min(p_values.values()), found, over_logger
    )


def _of_class(
    made: CertificateRequest, policy: Any, oracle: Oracle, delta: float
) -> RegretCertificate:
    """Return the certificate against the best policy of the class of an exact oracle.

    Args:
        made: the request for the policy, at delta/2.
        policy: as the user gave it.
        oracle: of the class.
        delta: joint error probability of both bounds.
    """
    size = oracle.log_class_size()
    if not oracle.exact or size is None:
        raise UsageError(
            f"a bound for a whole class needs an exact oracle, and {oracle.name} may not "
            "find the policy with the smallest loss; use piwo.oracles.Exhaustive, or name "
            "comparators"
        )
    request, log = made.request, made.log
    check_actions_known(log, request.policies.values())
    sums = reduce(log, made.sums)
    result = request.finish(sums[0])
    n, mine = result.policies[SELF].evidence.rows, result.policies[SELF].raw
    grid = bounds.gamma_grid_ls(n, size, delta)
    # A log of few rows has no grid: lam = 2 gamma then.
    bets = grid.bets or (2.0 * bounds.gamma_auto(n, size, delta),)
    # L(lam) / n, with L(lam) = min over pi of the sum of linear LS losses, at each bet lam
    losses = oracle.least_losses(log, [LSLinear(bet) for bet in bets])
    mean_losses = [float(loss) / n for loss in losses]
    # max over pi of v(pi) <= best, at log(2 |Pi| / delta)
    half = bounds.log_inv_delta(delta, statements=2)
    best = bounds.best_value_upper(mean_losses, bets, n, half + size)
    best_bounds = RawBounds(bounds.Interval(0.0, best))
    claimed = {SELF: mine, "the best of the class": best_bounds}
    if oracle.contains(policy):
        # Its value is then at most that of the best.
        interval = bounds.Interval(mine.interval.lower, best)
        claimed[SELF] = replace(mine, interval=interval)
    why_not = contradiction(result.p_values, claimed, log.reward_range)
    # The regret max v(pi) - v(policy) is at most best - LB(v(policy)), at delta/2 each.
    most = {oracle.name: min(1.0, best) - (mine.interval.lower or 0.0)}
    evidence = min(result.p_values.values())
    found = replace(result.policies[SELF], contradicted=why_not)
    return _regret(made, sums, "class", most, delta, evidence, found)


def _regret(
    made: CertificateRequest,
    sums: tuple[Any, ...],
    scope: Literal["comparators", "class"],
    most: Mapping[str, float],
    delta: float,
    evidence: float,
    found: PolicyResult,
    over_logger: bool = False,
) -> RegretCertificate:
    """Return the certificate, in the reward's unit and with its notes.

    Args:
        made: the request for the policy.
        sums: the states of its sums.
        scope: see `RegretCertificate.scope`.
        most: name -> upper bound on the regret, on the unit scale.
        delta: joint error probability of all bounds.
        evidence: p-value of "the propensities are not too small".
        found: the results of the policy; `contradicted` is why no bound is given.
        over_logger: whether one of the others is the logging policy.
    """
    request, log, why_not = made.request, made.log, found.contradicted
    policies, digest = sums[0][0], sums[1]
    notes = notes_on_rows(log, found, over_logger and why_not is None)
    if why_not is not None:
        notes.append(refusal(why_not))
    elif min(most.values()) >= 1.0:
        notes.append(
            Note("the bound is vacuous: no lower than the largest possible regret", "vacuous")
        )
    against: dict[str, float | None] = dict.fromkeys(most)
    if why_not is None:
        against = {name: log.span * min(1.0, x) for name, x in most.items()}
    return RegretCertificate(
        frames=log.frames,
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
        notes=(*notes, *found.method.assumptions, *log.caveats),
        bound=request.methods[SELF].name,
        logger=declared_logger(log, found.method),
    )


def _is_bound(named: tuple[Any, Any]) -> bool:
    name, most = named
    return text(name) and maybe(number())(most)
