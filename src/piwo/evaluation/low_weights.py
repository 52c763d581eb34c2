"""The note on weights that are too low on average."""

from __future__ import annotations

import math

from piwo.intervals.weight_sums import FAR, ROUNDING, weight_z
from piwo.messages import Note
from piwo.reductions import MomentState
from piwo.visible import number

__all__ = ["far_below", "low_weight_notes", "low_weight_text"]


def far_below(mean: float, z: float | None, rows: int, unsupported: float | None = None) -> bool:
    """Return whether a mean weight is below 1 by more than chance and what was never logged.

    Formula: 1 - mean - unsupported > max(4 s, 1/1000), with s the standard error of the mean; less
    than 1/1000 is within the rounding of propensities, see `piwo.intervals.weight_sums.ROUNDING`.

    Weights that are large in rare rows have a mean far below 1 and a small s whenever those rows
    are missing by chance. With right propensities and log-normal weights (the logarithm has
    deviation 1, 1.5, 2, 2.5), 0.1, 0.9, 4 and 12 % of logs of 400 rows were far below in
    simulations, and of 4,000 rows 0.03, 0.2, 0.6 and 4 %. That too is a policy whose actions are
    not in the log, and no proof that they never will be.

    Args:
        mean: of the weights.
        z: (mean - 1)/s; None: all weights are equal, so that s is 0, or the mean is near 1.
        rows: how many weights; one shows no spread.
        unsupported: what the policy is known to give to actions that were never logged, which
            explains as much; None: unknown.

    >>> far_below(0.6, -60.0, 1000), far_below(0.6, -60.0, 1000, 0.4), far_below(0.98, -1.0, 1000)
    (True, False, False)
    """
    gone = 1.0 - mean
    unexplained = gone - (unsupported or 0.0)
    if not unexplained > ROUNDING or rows < 2:
        return False
    if z is None:
        return True
    # the standard error is the distance of the mean from 1 over z
    return z < -FAR and unexplained > FAR * (gone / -z)


def low_weight_text(mean: float, whose: str = "") -> str:
    """Return what a mean weight far below 1 says.

    Args:
        mean: of the weights.
        whose: of which policy, such as " of the uniform policy"; empty: the context says it.

    >>> low_weight_text(0.62).partition(":")[0]
    'the mean weight is 0.62, expected 1'
    """
    return (
        f"the mean weight{whose} is {number(mean)}, expected 1: about {100.0 * (1.0 - mean):.2g} % "
        "of what the policy plays is not in the log, or the logged propensities are too large; "
        "either way the estimate is too low"
    )


def low_weight_notes(
    sums: MomentState, unsupported: float | None = None, *, exact: bool = True
) -> tuple[Note, ...]:
    """Return the note on weights that are too low on average, if they are.

    One rule for evaluations, looks, certificates and checks of the log. A thinned log has none: its
    mean weight is a ratio of sums, of which `weight_z` does not know the error.

    Args:
        sums: of the weights of a policy, which is not that of the log.
        unsupported: see `far_below`.
        exact: whether propensities are those that were logged, without an allowed error. Else the
            weights are by the smallest that are allowed, or by estimates, and there is no note.

    >>> from piwo.reductions import MomentState
    >>> low_weight_notes(MomentState())
    ()
    """
    thinned = sums.s2 > 0.0
    if thinned or not exact or not sums.total > 0.0 or not 0.0 < sums.w2 < math.inf:
        return ()
    mean, z = sums.w / sums.total, weight_z(sums.w, sums.w2, sums.rows)
    if not far_below(mean, z, sums.rows, unsupported):
        return ()
    text = f"{low_weight_text(mean)} (check shows by action which it is)"
    return (Note(text, kind="propensity-mismatch"),)
