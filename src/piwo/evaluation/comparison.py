"""The evaluations that one `compare` made, as a mapping that prints as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from piwo.display import Display
from piwo.errors import UsageError
from piwo.evaluation.record import Evaluation, display_of, frame_columns_of
from piwo.messages import argument
from piwo.records import Record, frames_field
from piwo.visible import rows_text

__all__ = ["Comparison", "require_together"]


@dataclass(frozen=True, repr=False, eq=False)
class Comparison(Record, Mapping[str, Evaluation]):
    """The evaluations of several policies on one log, made together: name -> `Evaluation`.

    As a mapping it has the order in which policies were given. The table that it prints, and its
    frame, have the policy with the highest lower bound first, the one that `piwo.select` picks;
    policies without bounds are last.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[0, 1] * 50, propensity=[0.5] * 100
    ... )
    >>> found = piwo.compare(log, {x: piwo.policies.Constant(x, log.actions) for x in "ab"})
    >>> print(found)
    2 policies on 100 rows; 95 % bounds that hold together (deadline); gain over the logging policy
      policy  value  at least  at most  gain at least  effective rows
      b        1.00      0.78     1.00           0.40              50  certified better
      a        0.00      0.00     0.26          -0.62              50
      note: ...
    >>> list(found), found["b"].value, [one.name for one in found.ranked]
    (['a', 'b'], 1.0, ['b', 'a'])
    """

    evaluations: Mapping[str, Evaluation]
    frames: str | None = frames_field()

    def __getitem__(self, name: str) -> Evaluation:
        return self.evaluations[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.evaluations)

    def __len__(self) -> int:
        return len(self.evaluations)

    @property
    def ranked(self) -> tuple[Evaluation, ...]:
        """The evaluations, the highest lower bound first; without bounds, the highest value."""
        return tuple(sorted(self.evaluations.values(), key=_rank))

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: one object a policy, in the order given."""
        return {"policies": [one.to_dict() for one in self.evaluations.values()]}

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: a row a policy, as `ranked`."""
        return {**frame_columns_of(self.ranked)}

    def display(self) -> Display:
        """Return the comparison as it is printed, and shown in a notebook."""
        if not self.evaluations:
            return Display("no policies", (), ())
        first = next(iter(self.evaluations.values()))
        counted = "1 policy" if len(self) == 1 else f"{len(self)} policies"
        size = rows_text(first.rows, first.units, first.unit)
        return display_of(self.ranked, f"{counted} on {size}")

    def __str__(self) -> str:
        return self.display().text

    def __repr__(self) -> str:
        return str(self)


def require_together(listed: Sequence[Evaluation]) -> None:
    """Raise for evaluations whose bounds do not hold together, or that are of different logs.

    Args:
        listed: at least one.

    Raises:
        UsageError: saying in what they differ, or that each was made alone.
    """
    first = listed[0]
    for one in listed:
        for what in ("delta", "rows", "units", "baseline", "logging_value", "logger", "cost"):
            here, there = getattr(one, what), getattr(first, what)
            if here != there:
                raise UsageError(
                    f"{argument('evaluations')} differ in {what} ({there} and {here}), expected "
                    "those of one piwo.compare"
                )
    bounded = sum(one.guarantee != "none" for one in listed)
    if bounded > first.simultaneous:
        raise UsageError(
            f"{argument('evaluations')} has {bounded} with bounds that hold for "
            f"{first.simultaneous} at a time, so the best of them would be picked by chance; "
            "evaluate them together with piwo.compare"
        )


def _rank(one: Evaluation) -> tuple[bool, float, float]:
    """Return the key that sorts evaluations: what is proved of them, then what is estimated."""
    bounded = one.bounds_hold and one.lower is not None
    lower, value = 0.0, float("-inf")
    if bounded and one.lower is not None:
        lower = one.lower
    if one.value is not None:
        value = one.value
    return not bounded, -lower, -value
