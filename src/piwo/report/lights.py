"""The health of a log as traffic lights: each finding in words, and what to do about it."""

from __future__ import annotations

from dataclasses import dataclass

from piwo.health import Health
from piwo.health.record import label_text
from piwo.health.rows import ActionRow
from piwo.report.axis import Axis, axis_of
from piwo.visible import number

__all__ = ["Calibration", "Light", "calibration_of", "lights_of"]

_WORDS = {"unfit": "stop", "care": "care", "note": "note"}
_KINDS = {"unfit": "bad", "care": "care", "note": "note"}
_VERDICTS = {"fit": "good", "fit with care": "care", "unfit": "bad"}
_REMEDIES = {
    "propensity-error": "Log the probability with which each action was drawn.",
    "no-overlap": "Value this policy on a log whose logger took its actions.",
    "effective-sample": "Prefer policies closer to today's system, or log more exploration.",
    "propensities-too-small": "Log the probability with which the action was really drawn; until "
    "then, trust no value on this page.",
    "copies": "Remove the copies, or name the column of a unique id as the key.",
    "logger": "Declare whether the logger was fixed or learning.",
    "units": "Name the column of users or sessions as the unit.",
    "no-exploration": "Let the logger draw its actions at random for a share of the decisions.",
    "one-action": "Give the list of actions if others could be taken.",
    "never-logged": "Explore these actions, or keep new policies away from them.",
    "policy-not-in-log": "Explore what the policy would do, or choose one closer to today's.",
    "equal-rewards": "Check the column of rewards.",
    "missing-context": "Fill or drop the missing values, or let a column of their own mark them.",
    "infinite-context": "Find out why infinite values are there.",
    "rare-actions": "Nothing, if the propensities are right; lower bounds hold all the same.",
    "eligible": "Log candidates and propensities from one place.",
    "position-bias": "Compare rows of one position, or evaluate slates.",
    "many-positions": "Group the positions in a column of their own.",
    "position-of-action": "Find out how positions were chosen.",
    "inferred-actions": "Give the list of all actions.",
    "thinned": "Keep all rows if intervals are to be proved.",
    "unverified": "Read the files again if they may be damaged.",
}
_ROWS = 12
_RANGE = 3.0
"""The largest ratio that is drawn; others are cut."""


@dataclass(frozen=True)
class Light:
    """One light: its color, the same as a word, what was found, and what to do."""

    kind: str
    """good, care, bad or note: color and shape."""
    word: str
    text: str
    remedy: str | None


def lights_of(health: Health, name: str) -> tuple[Light, ...]:
    """Return the lights of a log: the verdict first, then the findings.

    Args:
        health: of the log, for a policy.
        name: what the page calls that policy.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> [light.kind for light in lights_of(piwo.check(log), "uniform")]
    ['good']
    """
    texts = {
        "fit": "nothing was found that speaks against the numbers on this page",
        "fit with care": "the numbers hold, with the reservations below",
        "unfit": "the log cannot answer what this policy would earn, for the reasons below",
    }
    kind, word = _VERDICTS[health.verdict], health.verdict
    made = [Light(kind, word, f"for {name}: {texts[health.verdict]}", None)]
    for finding in health.findings:
        made.append(
            Light(
                _KINDS[finding.severity],
                _WORDS[finding.severity],
                finding.text,
                _REMEDIES.get(finding.kind),
            )
        )
    return tuple(made)


@dataclass(frozen=True)
class CalibrationRow:
    """How often an action was taken, over how often its propensities say."""

    action: str
    words: str
    at: float
    low: float
    high: float
    far: bool
    """Whether it is more than four standard errors from 1."""


@dataclass(frozen=True)
class Calibration:
    """The calibration of the propensities of the actions with the largest deviations."""

    rows: tuple[CalibrationRow, ...]
    axis: Axis
    one: float
    """Place of 1, in percent."""
    left_out: int


def calibration_of(health: Health) -> Calibration | None:
    """Return the mean of 1/propensity of the actions, which is 1 if these are right."""
    known = [row for row in health.by_action if row.count and row.mean_inverse < float("inf")]
    if not known:
        return None
    known.sort(key=lambda row: (1.0 if row.p is None else row.p, -abs(row.z or 0.0)))
    shown = known[:_ROWS]
    ends = [1.0]
    for row in shown:
        error = 2.0 * (row.standard_error or 0.0)
        ends += [row.mean_inverse - error, row.mean_inverse + error]
    low, high = max(0.0, min(ends)), min(_RANGE, max(ends))
    air = 0.05 * max(high - low, 0.2)
    axis = axis_of(low - air, high + air)
    rows = tuple(_calibrated(axis, row) for row in shown)
    return Calibration(rows, axis, axis.at(1.0), health.actions_logged - len(shown))


def _calibrated(axis: Axis, row: ActionRow) -> CalibrationRow:
    error = 2.0 * (row.standard_error or 0.0)
    words = f"{row.mean_inverse:.3g}"
    if row.standard_error is not None:
        words += f" ± {error:.2g}"
    words += f"; {row.count:,} rows at {number(row.mean_propensity)}"
    return CalibrationRow(
        label_text(row.action),
        words,
        axis.at(row.mean_inverse),
        axis.at(row.mean_inverse - error),
        axis.at(row.mean_inverse + error),
        row.z is not None and abs(row.z) > 4.0,
    )
