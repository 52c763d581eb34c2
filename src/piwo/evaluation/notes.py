"""Notes on an evaluation: what its reader must know, one rule for each kind of note."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.evaluation.low_weights import low_weight_notes
from piwo.evaluation.record import Evaluation
from piwo.evaluation.result import PolicyResult
from piwo.intervals.deadline import beyond_horizon
from piwo.intervals.weight_sums import FAR
from piwo.logs.log import Log
from piwo.logs.provable import assumed_of_logger, unit_note
from piwo.messages import Note, argument
from piwo.visible import number, p_value
from piwo.visible import number as shown

__all__ = [
    "as_notes",
    "copies_note",
    "learning_note",
    "logger_note",
    "loss_notes",
    "notes_of",
    "notes_on_rows",
    "outside_notes",
    "refusal",
    "says_something",
    "unit_note",
]

# An upper end is called far from the estimate if it is so many times as large, on the unit scale,
# and the estimate is so small.
_FAR, _RARE = 20.0, 0.05
# A lower end is near the estimate up to this share of the way from there to the lowest reward.
_NEAR = 0.2


def notes_of(made: Evaluation, found: PolicyResult) -> tuple[Note, ...]:
    """Return the notes, in the order of the rules below.

    Args:
        made: the evaluation, without notes.
        found: what it was made from.
    """
    rules = (
        _in_sample,
        _obstacle,
        _by_unit,
        _copies,
        _logger,
        _learning,
        _mismatch,
        _contradicted,
        _beyond_range,
        _never_logged,
        _effective_sample,
        _changed_rows,
        _asymptotic,
        _rate_cap,
        _sorted_rows,
        _far_upper_end,
        _far_lower_end,
        _assumed_logger,
        _outside,
        _vacuous,
        _of_the_method,
        _beyond_horizon,
        _of_the_baseline,
        _provenance,
        _unverified,
    )
    notes: list[Note] = []
    for rule in rules:
        notes += rule(made, found)
    return tuple(notes)


def as_notes(texts: Iterable[str], kind: str) -> tuple[Note, ...]:
    """Return texts as notes of a kind; those that are notes keep theirs.

    >>> [note.kind for note in as_notes(["estimated", Note("thinned", kind="thinned")], "rough")]
    ['rough', 'thinned']
    """
    return tuple(x if isinstance(x, Note) else Note(x, kind) for x in texts)


def refusal(why: Note) -> Note:
    """Return the note that no bound is given, and why.

    >>> refusal(Note("the rows are wrong", kind="contradicted"))
    'the rows are wrong: no bound is given'
    """
    return Note(f"{why.template}: no bound is given", why.kind)


def _in_sample(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that the policy or the baseline was learned from these rows."""
    notes = [found.obstacle]
    if found.baseline is not None:
        notes.append(found.baseline.obstacle)
    for note in notes:
        if note is not None and note.kind in {"in-sample", "in-sample-baseline"}:
            yield note


def _obstacle(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that propensities are not what was logged, and what prevents every bound."""
    yield from as_notes(found.evidence.log.propensity_caveats, "propensity-error")
    if found.obstacle is not None and found.obstacle.kind != "in-sample":
        yield found.obstacle


def _by_unit(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say what the value is a mean of."""
    if made.unit is not None:
        yield unit_note(made.unit)


def _copies(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that rows are copies of others."""
    if found.copied is not None:
        yield copies_note(found.copied)


def copies_note(share: float) -> Note:
    """Return the note on rows that are copies of others.

    >>> copies_note(0.5).kind
    'copies'
    """
    return Note(
        f"about {100.0 * share:.2g} % of the rows are copies of another row (same context, action, "
        "reward and propensity), as if events were delivered or joined twice: intervals are then "
        f"too narrow; read each event once, or name a unique row id ({argument('key')}), so that "
        "repeats are refused",
        kind="copies",
    )


def _logger(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that the rows contradict what was declared of the logger."""
    if found.logger_changed is not None:
        yield logger_note(found.declared_logger, found.logger_changed)


def _learning(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say what the improvement over a logger that learned is over."""
    if made.logger == "learning" and made.baseline is None and made.improvement_lower is not None:
        yield learning_note()


def logger_note(declared: str | None, changed: tuple[int, int]) -> Note:
    """Return the note on a logger that gave equal contexts different propensities.

    Args:
        declared: what was declared of it.
        changed: how many (context, action) had several propensities, of how many.

    >>> logger_note("fixed", (40, 90)).kind
    'logger'
    """
    pairs = (
        f"equal contexts got different propensities for the same action: {changed[0]} of "
        f"{changed[1]} pairs of a context and an action that were sampled"
    )
    start = f"looks like a learning logger: {pairs}"
    if declared == "fixed":
        start = f"declared fixed, but {pairs}"
    read_with = f"{argument('logger', 'learning')} and {argument('time')}"
    end = ""
    if declared is None:
        end = f", or declare {argument('logger', 'fixed')}"
    return Note(
        f"{start}; if the system learned from earlier rows, read the log with {read_with}, so that "
        "what is learned is certified on later rows; if propensities depend on columns that "
        f"{argument('context')} does not name, name those{end}",
        kind="logger",
    )


def notes_on_rows(log: Log, found: PolicyResult, over_logger: bool) -> list[Note]:
    """Return what every certificate says of the rows: their propensities, copies, logger, units.

    Args:
        log: the rows.
        found: the results of a policy.
        over_logger: whether the certificate compares a policy with the logging policy.

    Piwo itself calls it: `piwo.certify(log, policies)[key].notes` begins with these notes.

    >>> from piwo import Log, certify, policies
    >>> log = Log.from_arrays(
    ...     action=["a", "b"] * 9,
    ...     reward=[1] * 18,
    ...     propensity=[0.5] * 18,
    ...     unit=[user // 2 for user in range(18)],
    ... )
    >>> certify(log, {0: policies.Logging()})[0].notes[0].kind
    'by-unit'
    """
    notes = [*as_notes(log.propensity_caveats, "propensity-error")]
    if found.copied is not None:
        notes.append(copies_note(found.copied))
    if found.logger_changed is not None:
        notes.append(logger_note(found.declared_logger, found.logger_changed))
    if log.logger == "learning" and over_logger:
        notes.append(learning_note())
    if log.columns.unit is not None:
        notes.append(unit_note(log.columns.unit))
    if found.method.sees_sorted_rows(found.evidence, one_sided=True):
        notes.append(sorted_note())
    if found.contradicted is None:
        notes += _low_weights(found, found.unsupported)
    return notes


def learning_note() -> Note:
    """Return the note on what an improvement over a logger that learned is over.

    >>> learning_note().kind
    'learning'
    """
    return Note(
        f"the logger learned from earlier rows ({argument('logger', 'learning')}), so that it had "
        "another policy in every row: improvements are over the average of the logger's policies",
        kind="learning",
    )


def _mismatch(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say what the mean weight shows of the propensities, if it is not near 1."""
    z, refuted = made.mean_weight_z, _refuted(found)
    if refuted or (z is not None and z > FAR):
        evidence = []
        if z is not None:
            evidence.append(f"z = {shown(z)}")
        if found.own_p is not None:
            evidence.append(p_value(found.own_p))
        mean, end = "beyond float64", ""
        if math.isfinite(made.mean_weight):
            mean = shown(made.mean_weight)
        if refuted:
            end = ", and no bound is given"
        yield Note(
            f"logged propensities do not match action frequencies: the mean weight is {mean}, "
            f"expected 1 ({', '.join(evidence)}); propensities that are too small make every "
            f"value too high{end}",
            kind="propensity-mismatch",
        )
    else:
        yield from _low_weights(found, made.unsupported_mass)


def _low_weights(found: PolicyResult, unsupported: float | None) -> tuple[Note, ...]:
    """Return the note on weights that are too low on average, of rows that prove something."""
    if not found.usable:
        return ()
    error = found.evidence.log.propensity_error
    sums = found.evidence.state.moments
    return low_weight_notes(sums, unsupported, exact=error is None or error.exact)


def _refuted(found: PolicyResult) -> bool:
    """Whether it is the weights of this very policy that contradict the propensities."""
    return found.own_p is not None and found.own_p < SUSPICIOUS


def _contradicted(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say why no bound is given, if no other note has said it."""
    why_not = found.contradicted
    if why_not is not None and found.withheld == why_not and not _refuted(found):
        yield refusal(why_not)


def _beyond_range(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that an asymptotic interval leaves out every possible value."""
    why = found.withheld
    if why is not None and why.kind == "beyond-range":
        yield why


def _never_logged(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say how much of the policy is unknown, and what that would be worth at most."""
    if not made.unsupported_mass:
        return
    changing = found.evidence.log.columns.eligible is not None
    if changing and found.never_taken and found.unsupported is None:
        yield Note(
            f"at most {shown(made.unsupported_mass)} of what the policy plays, in actions that "
            "were never taken or were eligible next to one of propensity 1, may be out of the "
            "logger's reach; propensities of all eligible actions would say if they are "
            f"({argument('propensities')})",
            kind="out-of-reach",
        )
        return
    which = "were never logged"
    if found.unsupported is not None:
        which = "the logger could not take there (propensity 0)"
    elif changing:
        which = "the logger could not take there (another had propensity 1)"
    start = f"the policy gives probability {shown(made.unsupported_mass)} to actions that {which}"
    bound = made.missing_mass_upper
    if not changing and bound is not None and made.unsupported_mass > bound:
        yield Note(
            f"{start}, some of them by chance: at most {shown(bound)} of what it plays is out of "
            "the logger's reach, by the mean weight",
            kind="out-of-reach",
        )
        return
    low, high = made.reward_range
    reach = ""
    if made.value is not None and math.isfinite(high):
        # chance may leave the estimate above what the rest can be worth
        most = min(high, made.value + made.unsupported_mass * (high - low))
        reach = f"; with the highest it would be {shown(most)}"
    yield Note(
        f"{start}; what they would have earned is unknown, the value counts it as the lowest "
        f"reward{reach}",
        kind="never-logged",
    )


def _effective_sample(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that few rows carry the estimate."""
    number, what = made.rows, "rows"
    if made.units is not None:
        number, what = made.units, "units"
    if made.ess is not None and made.ess < min(50, number):
        yield Note(
            f"the effective sample size is {made.ess:.3g} of {number:,} {what}: a few {what} "
            "carry the estimate",
            kind="effective-sample",
        )


def _changed_rows(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say what the score did to rows, for scores whose users expect that."""
    changed = found.evidence.score.note_on_changed(made.changed_rows)
    if made.changed_rows and changed is not None:
        yield Note(changed, kind="changed-rows")


def _asymptotic(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say how little an asymptotic interval promises."""
    if found.shown.guarantee != "asymptotic" or made.guarantee == "none":
        return
    yield Note(
        f"the {made.interval} interval is asymptotic and may be wrong far more often than delta",
        kind="asymptotic",
    )
    if found.evidence.estimator.smoothed:
        yield Note(
            f"it is for what the {made.estimator} estimate tends to, which is not the "
            "policy's value",
            kind="smoothed",
        )


def _rate_cap(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say what the upper end assumes, and what it is without that."""
    if made.rate_cap is None:
        return
    without = "none"
    if made.upper_without_cap is not None:
        without = shown(made.upper_without_cap)
    yield Note(
        f"the upper end assumes E[reward | context, action] <= {made.rate_cap:.6g} for every "
        "context and action (declared; this log does not contradict it, and cannot test it where "
        f"rows are few, as those of large weight are); without it the upper end is {without}",
        kind="rate-cap",
    )


def _assumed_logger(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say that the interval is one for independent rows, as of a fixed logger."""
    if found.method.assumes_fixed_logger and made.guarantee != "none":
        yield from assumed_of_logger(made.logger, found.evidence.log.columns.unit)


def _sorted_rows(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say that bets on blocks are left out because of the order of the rows."""
    if made.guarantee == "finite-sample" and found.method.sees_sorted_rows(found.evidence):
        yield sorted_note()


def sorted_note() -> Note:
    """Return the note on a file that seems sorted by what was earned.

    >>> sorted_note().kind
    'sorted'
    """
    return Note(
        "weights or rewards follow the order of the file, as if rows were sorted by reward or "
        "action: bets on blocks of rows are left out, so that some bounds are weaker; "
        f"name a unique row id ({argument('key')}), whose blocks do not depend on the order",
        kind="sorted",
    )


def _far_upper_end(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say why the upper end is far above the estimate, and what would bring it nearer."""
    shown, value = found.shown, found.evidence.estimate.value
    if shown.guarantee != "finite-sample" or made.rate_cap is not None:
        return
    if shown.upper is None or value is None or not found.evidence.bounded:
        return
    if not 0.0 < value < _RARE or shown.upper < _FAR * value or shown.upper >= 1.0:
        return
    if made.cost:
        # a cap is on mean rewards; the likes of it for costs are not known
        return
    more = ", the probability of every action"
    if found.method.variates:
        more = ""
    times = "more than a million"
    if shown.upper < 1e6 * value:
        times = f"{shown.upper / value:.0f}"
    yield Note(
        f"the upper end is {times} times the estimate: rewards are rare, and the "
        "rows of large weight are too few to show how often they are rewarded; narrower with a cap "
        f"on mean rewards, if you know one ({argument('rate_cap')}){more}, or a logger that takes "
        "these actions more often",
        kind="upper-end",
    )


def _far_lower_end(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that the lower end is a loss, where the logging policy earns."""
    if made.guarantee == "finite-sample":
        yield from loss_notes(
            (made.value, made.lower, made.upper),
            made.logging_value,
            made.reward_range,
            (made.improvement_lower, made.improvement_upper),
        )


def loss_notes(
    ends: tuple[float | None, float | None, float | None],
    logging_value: float | None,
    reward_range: tuple[float, float],
    gains: tuple[float | None, float | None] = (None, None),
) -> tuple[Note, ...]:
    """Return the note on a lower end that is a loss although the logging policy earns, if it is.

    Such a bound is true and of no use: nobody expects the loss, the rows cannot exclude it. There
    is no note where the bounds say something: the policy is certified better or worse, its upper
    end is below what the logging policy earned, or its lower end is near the estimate, at most a
    fifth of the way from there to the lowest reward.

    Args:
        ends: estimate, lower and upper end of the value; None: there is none.
        logging_value: what the logging policy earned.
        reward_range: of the rewards, of which losses are below 0.
        gains: bounds on the improvement, the lower and the upper; None: there is none.

    >>> print(loss_notes((4.1, -5.7, 14.0), 3.8, (-40.0, 120.0))[0])
    the lower end is a loss, -5.7, where the logging policy earned 3.8: rewards may be as low as
    -40, and these rows cannot exclude that this policy meets such losses, so that they do not show
    whether it earns or loses; more rows help, or a narrower reward_range if lower rewards cannot
    occur
    >>> loss_notes((4.1, 0.1, 14.0), 3.8, (-40.0, 120.0))
    ()
    """
    value, lower, upper = ends
    low = reward_range[0]
    if lower is None or logging_value is None or not low <= lower < 0.0 < logging_value:
        return ()
    if value is None or value - lower <= _NEAR * (value - low):
        return ()
    if says_something(upper, logging_value, gains):
        return ()
    return (
        Note(
            f"the lower end is a loss, {number(lower)}, where the logging policy earned "
            f"{number(logging_value)}: rewards may be as low as {number(low)}, and these rows "
            "cannot exclude that this policy meets such losses, so that they do not show whether "
            f"it earns or loses; more rows help, or a narrower {argument('reward_range')} if lower "
            "rewards cannot occur",
            kind="lower-end",
        ),
    )


def says_something(
    upper: float | None, today: float | None, gains: tuple[float | None, float | None]
) -> bool:
    """Return whether bounds show that a policy is better or worse than today's.

    Args:
        upper: the upper end of its value; None: there is none.
        today: the value of today's policy; None: not known.
        gains: bounds on the improvement, the lower and the upper; None: there is none.

    >>> says_something(-3.0, 0.9, (None, None)), says_something(2.0, 0.9, (None, -0.2))
    (True, True)
    >>> says_something(2.0, 0.9, (-1.0, 0.2))
    False
    """
    least, most = gains
    if (least is not None and least > 0.0) or (most is not None and most < 0.0):
        return True
    return upper is not None and today is not None and upper < today


def _outside(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that the interval excludes the estimate."""
    finite = made.guarantee == "finite-sample"
    ends = (made.value, made.lower, made.upper)
    yield from outside_notes(*ends, made.estimator, finite=finite, gamma=made.gamma)


def outside_notes(
    value: float | None,
    lower: float | None,
    upper: float | None,
    estimator: str = "iw",
    *,
    finite: bool = True,
    gamma: float | None = None,
) -> tuple[Note, ...]:
    """Return the note on an estimate outside its interval, if it is.

    Args:
        value: the estimate; None: not defined.
        lower: the lower end; None: there is none.
        upper: likewise.
        estimator: which estimate it is.
        finite: whether the interval has a finite-sample guarantee, so that it is to be believed.
        gamma: at which the estimate is smoothed; None: it is not.

    >>> outside_notes(0.2, 0.3, None)
    ('the iw estimate lies outside the interval; believe the interval, not the estimate',)
    >>> outside_notes(0.3, 0.3, None)
    ()
    """
    below = value is not None and lower is not None and value < lower
    above = value is not None and upper is not None and value > upper
    if not (below or above):
        return ()
    advice = "believe the interval, not the estimate"
    if not finite:
        advice = "the interval is approximate, so believe neither without more rows"
    which = f"the {estimator} estimate"
    if gamma is not None:
        which += f" at gamma = {number(gamma)}"
    text = f"{which} lies outside the interval; {advice}"
    return (Note(text, kind="outside"),)


def _vacuous(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that the interval is all that rewards can be."""
    low, high = made.reward_range
    if made.guarantee != "finite-sample":
        return
    if (made.lower is None or made.lower <= low) and (made.upper is None or made.upper >= high):
        yield vacuous_note()


def vacuous_note() -> Note:
    """Return the note on an interval that is all that the value can be.

    >>> vacuous_note().kind
    'vacuous'
    """
    return Note(
        "the interval is vacuous: this log says nothing about this policy at this delta",
        kind="vacuous",
    )


def _of_the_method(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say what the interval method has to say."""
    if found.method.note is not None and made.guarantee != "none":
        yield from as_notes([found.method.note], "method")


def _beyond_horizon(made: Evaluation, found: PolicyResult) -> Iterator[Note]:
    """Say that rows came after those that deadline bets were planned for."""
    if found.method.needs_blocks and made.guarantee != "none":
        yield from beyond_horizon(found.evidence.rows, found.evidence.horizon)


def _of_the_baseline(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say why nothing is said of the improvement over the baseline."""
    if found.baseline is None or found.baseline.obstacle is None:
        return
    name, why = found.baseline.baseline.name, found.baseline.obstacle
    if why.kind != "in-sample-baseline":
        yield Note(f"baseline {name}: {why.template}", why.kind)


def _provenance(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say what the statements rest on."""
    if found.provenance is not None:
        yield found.provenance


def _unverified(made: Evaluation, found: PolicyResult) -> Iterator[Note]:  # noqa: ARG001
    """Say that damage to files may have gone unnoticed."""
    yield from found.evidence.log.caveats
