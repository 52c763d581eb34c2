"""What a reader of an evaluation must know: from what was measured to what is said, a rule each."""

from __future__ import annotations

import math
from collections.abc import Iterator

from piwo.evaluation.measured import Measured
from piwo.evaluation.record import OUTSIDE, SUSPICIOUS, VACUOUS, Evaluation
from piwo.visible import p_value

__all__ = ["notes_of"]


def notes_of(made: Evaluation, found: Measured) -> tuple[str, ...]:
    """Return the notes, in the order of the rules below.

    Args:
        made: the evaluation, without notes.
        found: what it was made from.
    """
    rules = (
        _doubts,
        _mismatch,
        _refused,
        _never_logged,
        _effective_sample,
        _changed_rows,
        _asymptotic,
        _outside,
        _vacuous,
        _of_the_method,
        _of_the_baseline,
    )
    return tuple(note for rule in rules for note in rule(made, found))


def _doubts(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say that propensities are not what was logged, and what stands in the way of every bound."""
    yield from found.evidence.log.propensity_caveats
    if found.obstacle is not None:
        yield found.obstacle


def _mismatch(made: Evaluation, found: Measured) -> Iterator[str]:
    """Say what the mean weight tells of the propensities, where it is not near 1."""
    z, doubt = made.mean_weight_z, found.evidence.log.propensity_error
    if _doubtful(found) or (z is not None and z > 4):
        evidence = [] if z is None else [f"z = {z:.3g}"]
        evidence += [] if found.own_p is None else [p_value(found.own_p)]
        mean = f"{made.mean_weight:.4g}" if math.isfinite(made.mean_weight) else "beyond float64"
        yield (
            "logged propensities do not match action frequencies: "
            f"the mean weight is {mean}, expected 1 ({', '.join(evidence)}); "
            "propensities that are too small make every value too high"
            f"{', and no bound is given' if _doubtful(found) else ''}"
        )
    elif z is not None and z < -4 and (doubt is None or doubt.exact):
        yield (
            f"the mean weight is {made.mean_weight:.4g}, expected 1: the policy plays what the "
            "logger never did, or the logged propensities are too large"
        )


def _doubtful(found: Measured) -> bool:
    """Whether it is the weights of this very policy that contradict the propensities."""
    return found.own_p is not None and found.own_p < SUSPICIOUS


def _refused(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say why no bound is given, where no other note has said it."""
    if found.obstacle is None and found.contradicted is not None and not _doubtful(found):
        yield f"{found.contradicted}: no bound is given"


def _never_logged(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say how much of the policy is unknown, and what that would be worth at most."""
    if not made.unsupported_mass:
        return
    low, high = made.reward_range
    reach = ""
    if made.value is not None and math.isfinite(high):
        reach = f"; with the highest it would be {made.value + made.unsupported_mass * (high - low):.4g}"
    yield (
        f"the policy gives probability {made.unsupported_mass:.4g} to actions that were never "
        "logged; what they would have earned is unknown, the value counts it as the lowest "
        f"reward{reach}"
    )


def _effective_sample(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say that few rows carry the estimate."""
    if made.ess is not None and made.ess < min(50, made.rows):
        yield f"the effective sample size is {made.ess:.3g} of {made.rows} rows: a few rows carry the estimate"


def _changed_rows(made: Evaluation, found: Measured) -> Iterator[str]:
    """Say what the score did to rows, where its users expect that told."""
    told = found.evidence.score.note_on_changed(made.changed_rows)
    if made.changed_rows and told is not None:
        yield told


def _asymptotic(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say how little an asymptotic interval promises."""
    if made.guarantee.startswith("asymptotic"):
        yield f"the {made.interval} interval is asymptotic and may be wrong far more often than delta"
        if made.guarantee != "asymptotic":
            yield f"it is for what the {made.estimator} estimate tends to, which is not the policy's value"


def _outside(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say that the estimate is no value that the interval allows."""
    if made.guarantee != "finite-sample" or made.value is None:
        return
    if (made.lower is not None and made.value < made.lower) or (
        made.upper is not None and made.value > made.upper
    ):
        yield f"the {made.estimator} {OUTSIDE}"


def _vacuous(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say that the interval is all that rewards can be."""
    low, high = made.reward_range
    if made.guarantee != "finite-sample":
        return
    if (made.lower is None or made.lower <= low) and (made.upper is None or made.upper >= high):
        yield VACUOUS


def _of_the_method(made: Evaluation, found: Measured) -> Iterator[str]:
    """Say what the interval method has to say."""
    if found.method.note is not None and made.guarantee != "none":
        yield found.method.note


def _of_the_baseline(made: Evaluation, found: Measured) -> Iterator[str]:  # noqa: ARG001
    """Say why nothing is said of the improvement over the baseline."""
    if found.against is not None and found.against.obstacle is not None:
        yield f"baseline {found.against.baseline.name}: {found.against.obstacle}"
