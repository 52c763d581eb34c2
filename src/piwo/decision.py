"""The decision: evaluations, the health of the log and certificates in one sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from piwo.certificates.certificate import Certificate
from piwo.checks import check_finite, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.comparison import require_together
from piwo.evaluation.gains import Units, gain_words
from piwo.evaluation.record import Evaluation
from piwo.health.record import Health, label_text
from piwo.messages import Note, argument
from piwo.records import Record
from piwo.visible import confidence, rounded, visible

__all__ = [
    "UNPROVABLE",
    "Candidate",
    "Decision",
    "Frame",
    "Units",
    "decide",
    "decide_by_certificate",
    "decided",
    "today_of",
]

Verdict = Literal["switch", "keep", "unfit"]

_FATAL = ("propensities-too-small", "no-exploration")
"""Findings that make every value doubtful, whichever policy the log was checked for."""
_WEAKENING = (
    "assumed-fixed",
    "by-unit",
    "undeclared-units",
    "estimated-propensities",
    "allowed-error",
    "copies",
    "logger",
    "learning",
    "learning-approximate",
    "propensity-mismatch",
    "provenance",
    "sorted",
    "in-sample-baseline",
    "unverified",
)
"""Notes on what the statement assumes, or on what speaks against it."""
UNPROVABLE = (
    "propensity-mismatch",
    "contradicted",
    "thinned",
    "learning-units",
    "learning-at-random",
    "condition",
    "in-sample-baseline",
)
"""Notes that say why the improvement has no bound."""
_DOUBTFUL = ("assumptions", "estimated-weights", "marginal-interval")
"""Notes on values that rest on an assumption about the actions (MIPS)."""
_UNSUPPORTED = 0.01
"""From this share of the policy on, actions that the log lacks are worth exploring."""
_EXPLORE = 0.05
"""The share of decisions that is proposed for exploring."""
_NAMED = 5
_FAR = 1000.0
"""More than so many times the rows at hand are not worth a number."""


@dataclass(frozen=True)
class Decision(Record):
    """Whether to switch, to keep what runs today, or that the log cannot say.

    Gains are in the reward's own unit, in `per` decisions. A decision says no more than the bounds
    that it comes from: "switch" needs a lower bound on the improvement above 0 that holds for all
    policies compared together, and no guardrail that is certified to be broken.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> both = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    >>> found = decide(piwo.compare(log, both), units=Units("clicks", 100, "visits"))
    >>> found.verdict, found.policy
    ('switch', 'a')
    >>> print(found.sentence)
    Switch to a: it earns at least 46.4 clicks more per 100 visits than today's system, by its
    estimate 50.0 (95 %, 1,000 visits).
    """

    verdict: Verdict
    policy: str
    """The policy to switch to; else the one that looks best."""
    over: str
    """What it is compared with, in words, such as "today's system"."""
    gain: float | None
    """Its estimated gain, in `per` decisions; None: not defined."""
    gain_lower: float | None
    """Lower bound on the gain; None: there is none."""
    gain_upper: float | None
    """Upper bound on the gain; None: there is none, as for gains over another baseline."""
    level: float
    """1 - delta."""
    simultaneous: int
    """For how many policies the bounds hold together."""
    rows: int
    """How many rows, or units if there are any."""
    units: Units
    sentence: str
    """The decision in words."""
    settles: str | None
    """What would settle it, in words; None: nothing needs settling, or nothing can be said."""
    rows_needed: int | None = None
    """About so many rows more, an estimate; None: unknown, or none."""
    explore: tuple[str, ...] = ()
    """Actions that the log lacks and the policy plays."""
    caveats: tuple[Note, ...] = ()
    """What the decision assumes, and what speaks against it."""

    def __str__(self) -> str:
        lines = [self.sentence]
        if self.settles is not None:
            lines.append(self.settles)
        return visible(" ".join(lines))


@dataclass(frozen=True)
class Candidate:
    """What one policy shows, from an evaluation or a certificate.

    >>> Candidate("a", 0.6, 0.05, 0.2, 0.5, (), None, None, ()).proved
    True
    """

    name: str
    value: float | None
    gain_lower: float | None
    gain_upper: float | None
    today: float | None
    refused: tuple[str, ...]
    """Why it must not run although it may be better."""
    unproved: Note | None
    unsupported: float | None
    notes: tuple[Note, ...]
    assumes: str | None = None
    """Under what its own bounds hold, in words; None: nothing besides what all assume."""

    @property
    def gain(self) -> float | None:
        """The estimated gain over today."""
        if self.value is None or self.today is None:
            return None
        return self.value - self.today

    @property
    def proved(self) -> bool:
        """Whether it is certified better, and may run."""
        return self.gain_lower is not None and self.gain_lower > 0.0 and not self.refused


@dataclass(frozen=True)
class Frame:
    """What all candidates share.

    >>> Frame("today's system", 100, 0.05, 1, Units(), False, None).evidence_of(None)
    '(95 %, 100 decisions)'
    """

    over: str
    rows: int
    delta: float
    simultaneous: int
    units: Units
    cost: bool
    assumes: str | None
    unit: str | None = None
    """The column of units, which `rows` then counts; None: rows."""

    @property
    def noun(self) -> str:
        """What is counted, in the plural."""
        return self.units.decisions if self.unit is None else "units"

    @property
    def counted(self) -> str:
        """The number of rows or units, in words.

        >>> Frame("today's system", 100, 0.05, 1, Units(), False, None, "user").counted
        "100 units of 'user'"
        """
        text = f"{self.rows:,} {self.noun}"
        return text if self.unit is None else f"{text} of {self.unit!r}"

    def evidence_of(self, one: Candidate | None) -> str:
        """Return the level, the number of rows and what is assumed, in parentheses."""
        level = f"{confidence(self.delta)}"
        assumed = ""
        for premise in (self.assumes, one.assumes if one is not None else None):
            if premise is not None:
                assumed += f", if {premise}"
        return f"({level}, {self.counted}{assumed})"


def decide(
    evaluations: Evaluation | Mapping[str, Evaluation] | Iterable[Evaluation],
    *,
    health: Health | None = None,
    units: Units | None = None,
    at_least: float | None = None,
    assumes: str | None = None,
) -> Decision:
    """Return what evaluations say: switch, keep, or that it cannot be told.

    Args:
        evaluations: all of one `piwo.compare`, or one of `piwo.evaluate`; to leave out those that
            looked bad is not allowed.
        health: the result of `piwo.check`; a log whose propensities contradict its actions, or
            that never explored, is "unfit".
        units: how gains are written.
        at_least: a least value that a policy must be certified to have, in the reward's unit.
        assumes: what the results assume of the propensities (`Log.assumption`); None: nothing.

    Returns:
        A `Decision`.

    Raises:
        UsageError: for no evaluations, and for those that were not made together: their bounds hold
            one at a time, and picking the best of them would break the level.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 2, reward=[1, 0] * 2, propensity=[0.5] * 4)
    >>> print(decide(piwo.evaluate(log, piwo.policies.Constant("a", log.actions))).sentence)
    Keep today's system: constant:a is not proved better on 4 decisions; it may earn up to 1.0 more,
    or 0.6 less, per decision.
    """
    given: Any = evaluations
    if isinstance(evaluations, Evaluation):
        given = [evaluations]
    if isinstance(evaluations, Mapping):
        given = evaluations.values()
    if not isinstance(given, Iterable) or isinstance(given, str):
        raise UsageError(
            f"{argument('evaluations')} is {shown(evaluations)}, expected the evaluations of "
            "piwo.compare, or a list of them"
        )
    listed = list(given)
    for one in listed:
        check_kind("evaluations", one, Evaluation, "; piwo.evaluate and piwo.compare make them")
    check_kind("health", health, (Health, type(None)), "; piwo.check makes one")
    check_kind("units", units, (Units, type(None)))
    if at_least is not None:
        check_finite("at_least", at_least)
    check_kind("assumes", assumes, (str, type(None)))
    if not listed:
        raise UsageError(f"{argument('evaluations')} is empty; pass at least one")
    first = listed[0]
    require_together(listed)
    frame = _frame_of(first, first.simultaneous, assumes, units)
    candidates = [_of_evaluation(one, at_least) for one in listed]
    made = decided(candidates, frame, health)
    return replace(made, caveats=(*made.caveats, *_doubts(health, made)))


def _doubts(health: Health | None, made: Decision) -> tuple[Note, ...]:
    """Return what makes the log unfit for the policy, of findings that stop no decision."""
    if health is None or made.verdict == "unfit" or health.policy != made.policy:
        return ()
    return tuple(
        Note(f"the log is unfit for {made.policy}: {finding.text}", kind=finding.kind)
        for finding in health.findings
        if finding.severity == "unfit"
    )


def _frame_of(
    made: Evaluation | Certificate, simultaneous: int, assumes: str | None, units: Units | None
) -> Frame:
    """Return what the sentence says around the numbers of an evaluation or a certificate."""
    count = made.rows
    if made.units is not None:
        count = made.units
    return Frame(
        over=today_of(made.baseline, made.logger),
        rows=count,
        delta=made.delta,
        simultaneous=simultaneous,
        units=units or Units(),
        cost=made.cost,
        assumes=assumes,
        unit=made.unit if made.units is not None else None,
    )


def decide_by_certificate(
    certificate: Certificate, name: str, *, units: Units | None = None
) -> Decision:
    """Return what the certificate of a learned policy says: switch or keep.

    Args:
        certificate: of `piwo.certify` or a learner.
        name: of the policy.
        units: how gains are written.

    >>> made = Certificate(
    ...     kind="held-out", value=0.6, value_lower=0.5, improvement_lower=0.04, logging_value=0.5
    ... )
    >>> print(decide_by_certificate(made, "policy.piwo").sentence)
    Switch to policy.piwo: it earns at least 0.040 more per decision than today's system, by its
    estimate 0.100 (95 %, 0 decisions).
    """
    frame = _frame_of(certificate, certificate.candidates, certificate.assumes, units)
    refused = [why for why in certificate.refusals if not why.startswith("not certified better")]
    # A certificate about another policy proves nothing of the one that it is stored with.
    gain_lower, unproved = certificate.improvement_lower, None
    if certificate.about is not None:
        unproved = Note(_of_another(certificate, name, frame), kind="about")
    if not certificate.certified:
        gain_lower = None if certificate.certified is None else min(gain_lower or 0.0, 0.0)
    one = Candidate(
        name=name,
        value=certificate.value,
        gain_lower=gain_lower,
        gain_upper=None,
        today=_earned_today(certificate),
        refused=tuple(refused),
        unproved=unproved,
        unsupported=certificate.unsupported_mass,
        notes=tuple(note for note in certificate.notes if isinstance(note, Note)),
    )
    return decided([one], frame, None)


def _earned_today(made: Evaluation | Certificate) -> float | None:
    """Return the estimated value of what candidates are compared with."""
    return made.logging_value if made.baseline is None else made.baseline_value


def _of_another(certificate: Certificate, name: str, frame: Frame) -> str:
    """Return why a certificate that is about another policy proves nothing of this one."""
    text = f"nothing is proved of {visible(name)}: the certificate is of {certificate.about}"
    lower, value, today = certificate.improvement_lower, certificate.value, frame.over
    earned = _earned_today(certificate)
    if not certificate.improves or lower is None:
        return f"{text}; that one is not certified better than {today}"
    gain = None if value is None or earned is None else value - earned
    more = frame.units.more(lower, gain, today, cost=frame.cost)
    return f"{text}; that one {more} {frame.evidence_of(None)}"


def _of_evaluation(one: Evaluation, at_least: float | None) -> Candidate:
    refused = [str(guard) for guard in one.guardrails if guard.harmful]
    if at_least is not None and not one.reaches(at_least):
        refused.append(f"its value is not certified to be at least {at_least:g}")
    unproved = one.no_interval
    if unproved is None and one.improvement_lower is None:
        # An asymptotic interval is there, and says itself why nothing is proved.
        unproved = next((note for note in one.notes if note.kind in UNPROVABLE), None)
    return Candidate(
        name=one.name,
        value=one.value,
        gain_lower=one.improvement_lower,
        gain_upper=one.improvement_upper,
        today=_earned_today(one),
        refused=tuple(refused),
        unproved=unproved,
        unsupported=one.unsupported_mass,
        notes=one.notes,
    )


def today_of(baseline: str | None, logger: str | None) -> str:
    """Return what candidates are compared with, in words.

    Args:
        baseline: its name; None: the logging policy.
        logger: what was declared of it.

    >>> today_of(None, None)
    "today's system"
    """
    if baseline is not None:
        return f"the baseline {visible(baseline)}"
    if logger == "learning":
        return "the average of today's learning system"
    return "today's system"


def decided(candidates: Sequence[Candidate], frame: Frame, health: Health | None) -> Decision:
    """Return what candidates show: switch to one, keep what runs today, or that it is unknown.

    Args:
        candidates: at least one.
        frame: what they share.
        health: of the log; None: not known.

    Returns:
        The `Decision`.

    >>> frame = Frame("today's system", 100, 0.05, 1, Units(), False, None)
    >>> one = Candidate("a", 0.6, 0.05, 0.2, 0.5, (), None, None, (), assumes="b holds")
    >>> print(decided([one], frame, None).sentence)
    Switch to a: it earns at least 0.050 more per decision than today's system, by its estimate
    0.100 (95 %, 100 decisions, if b holds).
    """
    unfit = _unfit(candidates, health)
    best = _likeliest(candidates)
    if unfit is not None:
        return _made("unfit", best, frame, f"Cannot be told: {unfit}.", None)
    proved = [one for one in candidates if one.proved]
    if proved:
        best = max(proved, key=lambda one: one.gain_lower or 0.0)
        return _made("switch", best, frame, _switch_text(best, frame), None)
    explore = _explored(best, health)
    needed = rows_needed(best.gain, best.gain_lower, frame.rows)
    settles = _settles(best, frame, needed, explore)
    judged = [one for one in candidates if not _learned_here(one)]
    text = _keep_text(best, frame, len(judged))
    # The best of all may be one that these rows cannot judge, with a certificate of its own.
    learned = [visible(one.name) for one in candidates if _learned_here(one)]
    if learned:
        rest = "was learned from these rows, which cannot judge it."
        if len(learned) > 1:
            rest = "were learned from these rows, which cannot judge them."
        text += f" {' and '.join(learned)} {rest}"
    return _made("keep", best, frame, text, settles, needed, explore)


def _learned_here(one: Candidate) -> bool:
    return one.unproved is not None and one.unproved.kind == "in-sample"


def _unfit(candidates: Sequence[Candidate], health: Health | None) -> str | None:
    """Return why nothing can be told, in words; None if something can."""
    if health is not None:
        for finding in health.findings:
            if finding.severity == "unfit" and finding.kind in _FATAL:
                return f"unfit log, because {finding.text}"
    if any(one.gain_lower is not None for one in candidates):
        return None
    reasons = [one.unproved for one in candidates if one.unproved is not None]
    if not reasons:
        # Intervals without a bound on the improvement, as of rewards without an upper end.
        return "no improvement can be bounded, as rewards have no upper end"
    kinds = {why.kind for why in reasons}
    if kinds == {"in-sample"}:
        return (
            "the policies were learned from these rows, which therefore prove nothing of them; "
            "evaluate them on other rows"
        )
    if kinds in ({"about"}, {"chosen"}):
        return reasons[0]
    others = [why for why in reasons if why.kind != "in-sample"]
    return f"unfit log, because {others[0]}"


def _likeliest(candidates: Sequence[Candidate]) -> Candidate:
    """Return the candidate that looks best: with a bound rather than without, not today's own."""

    def rank(one: Candidate) -> tuple[bool, bool, float]:
        gain = one.gain
        if gain is None:
            gain = -math.inf
        # The improvement of what all are compared with over itself is bounded by exactly 0.
        return one.gain_lower is not None, one.gain_lower != 0.0, gain

    return max(candidates, key=rank)


def _switch_text(best: Candidate, frame: Frame) -> str:
    more = frame.units.more(best.gain_lower or 0.0, best.gain, frame.over, cost=frame.cost)
    return f"Switch to {visible(best.name)}: it {more} {frame.evidence_of(best)}."


def _keep_text(best: Candidate, frame: Frame, count: int) -> str:
    who, it = "no candidate is", f"the best, {visible(best.name)},"
    if count == 1:
        who, it = f"{visible(best.name)} is not", "it"
    if best.assumes is not None:
        it = f"if {best.assumes}, {it}"
    start = f"Keep {frame.over}: {who} proved better on {frame.counted}"
    if best.refused and best.gain_lower is not None and best.gain_lower > 0.0:
        why = "; ".join(best.refused)
        return visible(f"Keep {frame.over}: {best.name} is better, but must not run: {why}.")
    lower, upper = best.gain_lower, best.gain_upper
    if lower is None or upper is None:
        return f"{start}."
    units, (verb, (more, less)) = frame.units, _verb(frame)
    step = (upper - lower) * units.per / 5.0
    least = units.gain(lower, rounded(max(0.0, -lower) * units.per, step, down=False))
    if upper <= 0.0:
        sure = units.gain(upper, rounded(-upper * units.per, step, down=True))
        if count == 1:
            start = start.replace("is not proved better", f"is {gain_words(lower, upper)}")
        else:
            start += f"; {it} is {gain_words(lower, upper)}"
        return (
            f"{start}: it {verb} at least {sure} {less}, and at most {least} {less}, {units.each}."
        )
    most = units.gain(upper, rounded(upper * units.per, step, down=False))
    # A bare verb: "may earn".
    does = verb.removesuffix("s")
    amount = least.removesuffix(units.unit).rstrip()
    return f"{start}; {it} may {does} up to {most} {more}, or {amount} {less}, {units.each}."


def _verb(frame: Frame) -> tuple[str, tuple[str, str]]:
    """Return what a policy does, and the words for better and worse: costs are to be low."""
    if frame.cost:
        return "costs", ("less", "more")
    return "earns", ("more", "less")


def rows_needed(gain: float | None, gain_lower: float | None, rows: int) -> int | None:
    """Return about how many rows more would prove an estimated gain; None: no number helps.

    An estimate, not a promise: it takes the estimated gain g for the true one, and lets the
    distance from g to its lower bound shrink with one over the root of the number of rows.

    Formula: n (((g - lower)/g)^2 - 1), rounded up to two digits.

    Args:
        gain: g, estimated.
        gain_lower: its lower bound.
        rows: n.

    >>> rows_needed(0.1, -0.1, 1000), rows_needed(-0.1, -0.3, 1000)
    (3000, None)
    """
    if gain is None or gain_lower is None or gain <= 0.0 or gain_lower > 0.0:
        return None
    # (g - lower) sqrt(n / n') <= g
    more = rows * (((gain - gain_lower) / gain) ** 2 - 1.0)
    if not 0.0 <= more < _FAR * max(rows, 1):
        return None
    step = 10.0 ** max(0, math.floor(math.log10(max(more, 1.0))) - 1)
    return int(math.ceil(max(more, 1.0) / step) * step)


def _settles(
    best: Candidate, frame: Frame, needed: int | None, explore: Sequence[str]
) -> str | None:
    """Return what would settle an open question, in words."""
    advice = []
    if best.gain is not None and best.gain <= 0.0:
        advice.append("a better candidate: by its estimate this one earns no more than today")
    elif needed is not None:
        advice.append(
            f"about {needed:,} {frame.noun} more at today's exploration, if the gain is "
            "as estimated (four times as many halve the width of a bound)"
        )
    elif best.gain is not None and best.gain_lower is not None:
        advice.append(
            f"more than {_FAR:,.0f} times these rows at today's exploration, so that other "
            "exploration or a better candidate is needed"
        )
    if explore:
        named = ", ".join(explore[:_NAMED])
        if len(explore) > _NAMED:
            named += f" and {len(explore) - _NAMED} more"
        advice.append(f"exploring {_EXPLORE:g} on these actions that the log lacks: {named}")
    if not advice:
        return None
    return visible(f"What would settle it: {'; or '.join(advice)}.")


def _explored(best: Candidate, health: Health | None) -> tuple[str, ...]:
    """Return the actions to explore: never logged, if the policy plays such actions."""
    if health is None or (best.unsupported or 0.0) < _UNSUPPORTED:
        return ()
    return tuple(label_text(label) for label in health.never_logged)


def _made(
    verdict: Verdict,
    best: Candidate,
    frame: Frame,
    sentence: str,
    settles: str | None,
    needed: int | None = None,
    explore: tuple[str, ...] = (),
) -> Decision:
    """Return the record, with gains in `per` decisions."""
    caveats = [note for note in best.notes if note.kind in (*_WEAKENING, *_DOUBTFUL)]

    def scaled(value: float | None) -> float | None:
        if value is None:
            return None
        return value * frame.units.per

    return Decision(
        verdict=verdict,
        policy=best.name,
        over=frame.over,
        gain=scaled(best.gain),
        gain_lower=scaled(best.gain_lower),
        gain_upper=scaled(best.gain_upper),
        level=1.0 - frame.delta,
        simultaneous=frame.simultaneous,
        rows=frame.rows,
        units=frame.units,
        sentence=visible(sentence),
        settles=settles,
        rows_needed=needed,
        explore=explore,
        caveats=tuple(caveats),
    )
