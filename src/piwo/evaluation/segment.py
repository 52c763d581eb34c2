"""A segment: what one policy is worth, and would change, where a column has one value."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any, Self

from piwo.messages import Note
from piwo.records import Record, jsonable, maybe, number, text, whole
from piwo.visible import confidence, visible
from piwo.visible import number as shown

__all__ = ["Segment", "changes_text", "segments_note"]

_CHANGES = 3
"""So many actions are named that change most."""


@dataclass(frozen=True)
class Segment(Record):
    """What one policy is worth among the rows with one value of a column, and what it would change.

    The bounds are at `delta`, the delta of all segments over their number: those on the values
    hold together for all segments, and those on the improvements do.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50,
    ...     reward=[1, 0] * 50,
    ...     propensity=[0.5] * 100,
    ...     segments={"country": ["DE"] * 60 + ["FR"] * 40},
    ... )
    >>> found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), by="country")
    >>> [(one.label, one.rows, one.value, one.delta) for one in found.segments]
    [('DE', 60, 1.0, 0.025), ('FR', 40, 1.0, 0.025)]
    >>> found.segments[0].today, found.segments[0].then
    ({'a': 0.5, 'b': 0.5}, {'a': 1.0, 'b': 0.0})
    """

    column: str
    label: str | None
    """The value of the column as text; None: it is missing."""
    rows: int
    units: int | None
    """How many units have rows here; None without units."""
    ess: float | None
    """Effective sample size of the weights."""
    value: float | None
    """The point estimate."""
    lower: float | None
    """Lower bound on the value; None: no bound can be given."""
    upper: float | None
    """Upper bound on the value; None for certificates, too, which have none."""
    improvement_lower: float | None
    """Lower bound on the value minus that of the logging policy, or of the baseline."""
    logging_value: float | None
    """Mean logged reward."""
    baseline_value: float | None
    """Importance-weighted estimate of what a baseline other than the logging policy is worth."""
    delta: float
    bound: str
    """The method of the bounds."""
    today: Mapping[str, float]
    """Action -> its share among the rows."""
    then: Mapping[str, float]
    """Action -> the share that the policy would give it, an estimate."""
    notes: tuple[Note, ...] = ()
    improvement_upper: float | None = None
    """Upper bound on the value minus that of the logging policy; None: there is none."""

    @property
    def name(self) -> str:
        """The segment in words."""
        if self.label is None:
            return f"{self.column} is missing"
        return f"{self.column} {self.label!r}"

    @property
    def changes(self) -> str:
        """The actions whose shares change most, in words."""
        return changes_text(self.today, self.then)

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON."""
        made: dict[str, Any] = jsonable(asdict(self))
        return made

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the object of a record that `to_dict` made.

        Raises:
            ValueError: for a damaged record.
        """
        # files of earlier versions have no upper bound on the improvement
        known = {"improvement_upper": None} | dict(record)
        given = {x.name: known[x.name] for x in fields(cls)}
        bounded = ("lower", "upper", "improvement_lower", "improvement_upper")
        numbers = ("ess", "value", *bounded, "logging_value")
        sound = all(map(maybe(number()), [given[x] for x in (*numbers, "baseline_value")]))
        sound = sound and all(map(text, (given["column"], given["bound"], *given["notes"])))
        sound = sound and maybe(text)(given["label"]) and whole(0)(given["rows"])
        sound = sound and maybe(whole(0))(given["units"]) and number(0.0, 1.0)(given["delta"])
        for name in ("today", "then"):
            shares = given[name].items()
            sound = sound and all(text(x) and number(0.0, 1.0)(share) for x, share in shares)
        if not sound:
            raise ValueError(f"the segment {given['label']!r:.80} has a field of another kind")
        return cls(**{**given, "notes": tuple(given["notes"])})

    def __str__(self) -> str:
        value = "not defined"
        if self.value is not None:
            value = shown(self.value)
        parts = [f"{value}, {_bounds_text(self)}"]
        if self.improvement_lower is not None:
            parts.append(f"improvement at least {shown(self.improvement_lower)}")
        parts.append(self.changes)
        size = f"{self.rows:,} rows"
        if self.units is not None:
            size = f"{self.units:,} units, {size}"
        return visible(f"{self.name} ({size}): {'; '.join(parts)}")


def _bounds_text(one: Segment) -> str:
    if one.lower is None and one.upper is None:
        return "no bound"
    if one.upper is None:
        return f"at least {shown(one.lower)}"
    if one.lower is None:
        return f"at most {shown(one.upper)}"
    return f"between {shown(one.lower)} and {shown(one.upper)}"


def changes_text(today: Mapping[str, float], then: Mapping[str, float]) -> str:
    """Return the actions whose shares change most, in words.

    >>> changes_text({"a": 0.9, "b": 0.1}, {"a": 0.2, "b": 0.8})
    'a 90 % -> 20 %, b 10 % -> 80 %'
    >>> changes_text({"a": 1.0}, {"a": 1.0})
    'no change of actions'
    """
    moves = {}
    for label, share in then.items():
        move = abs(share - today.get(label, 0.0))
        if move >= 0.0005:
            moves[label] = move
    # of equal changes, as of two actions, in the order of the actions
    largest = sorted(moves, key=lambda label: -round(moves[label], 9))
    if not largest:
        return "no change of actions"
    parts = []
    for label in largest[:_CHANGES]:
        before, after = 100.0 * today.get(label, 0.0), 100.0 * then[label]
        parts.append(f"{label} {before:.3g} % -> {after:.3g} %")
    if len(largest) > _CHANGES:
        parts.append("...")
    return ", ".join(parts)


def segments_note(segments: Sequence[Segment], delta: float) -> Note:
    """Return the note on what is claimed for the segments.

    Args:
        segments: all of them.
        delta: of all together.
    """
    first = segments[0]
    return Note(
        f"by {first.column!r}: {len(segments)} segments, each at delta {first.delta:.4g}, so that "
        f"with probability at least {confidence(delta)} the bounds on the values of all "
        "segments hold together, and so do those on the improvements (besides what is stated of "
        "all rows); shares of actions are estimates",
        kind="segments",
    )
