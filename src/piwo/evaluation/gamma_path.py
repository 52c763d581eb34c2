"""The value of one policy at several gamma: how much does the estimate depend on smoothing?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piwo.display import Display, Ruler
from piwo.evaluation.record import Evaluation, frame_columns_of
from piwo.messages import Note
from piwo.records import Record, frames_field
from piwo.visible import confidence, rows_text

__all__ = ["GammaPath"]


@dataclass(frozen=True, repr=False)
class GammaPath(Record):
    """The evaluations of one policy at several gamma, from one pass over the log.

    A path is for looking: does the estimate depend on gamma, and from where on does smoothing bias
    it? Bounds of methods that do not depend on gamma ("auto" and others that certificates rest on)
    are the same at every gamma, and hold at `delta`. Bounds of other methods, such as "ix" and
    "ls", are each at delta / m for m different gamma, so that they hold together and the best may
    be picked.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> path = piwo.evaluate(log, piwo.policies.Constant("a", log.actions), gamma=[0.1, 0.5])
    >>> print(path)
    constant:a by ix on 100 rows; 95 % bounds, the same at every gamma (deadline)
      gamma  value  at least  at most
      0.1     0.83      0.77     1.00
      0.5     0.50      0.77     1.00
      note: ...
    """

    evaluations: tuple[Evaluation, ...]
    """One a gamma, rising."""
    delta: float
    """Error probability of all bounds together."""
    simultaneous: int
    """m, by which delta is divided for each bound; 1 if bounds do not depend on gamma."""
    frames: str | None = frames_field()

    @property
    def name(self) -> str:
        """The name of the policy."""
        return self.evaluations[0].name

    @property
    def gammas(self) -> tuple[float, ...]:
        """The values of gamma, rising."""
        return tuple(one.gamma for one in self.evaluations if one.gamma is not None)

    @property
    def sureness(self) -> str:
        """At what level the bounds hold, in words."""
        level = f"{confidence(self.delta)} bounds"
        if self.simultaneous == 1:
            return f"{level}, the same at every gamma"
        return f"{level} at all {self.simultaneous} gamma together"

    @property
    def notes(self) -> tuple[Note, ...]:
        """The notes of the first evaluation, and those on an estimate outside its interval."""
        notes = list(self.evaluations[0].notes)
        for one in self.evaluations:
            notes += [note for note in one.notes if note.kind == "outside" and note not in notes]
        return tuple(notes)

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: a row a gamma."""
        return {**frame_columns_of(self.evaluations)}

    def display(self) -> Display:
        """Return the path as it is printed, and shown in a notebook."""
        first = self.evaluations[0]
        ruler = Ruler.of([(one.lower, one.upper) for one in self.evaluations])
        rows = []
        for one in self.evaluations:
            numbers = (ruler.value(one.value), ruler.lower(one.lower), ruler.upper(one.upper))
            rows.append((f"{one.gamma:.4g}", *numbers))
        size = rows_text(first.rows, first.units, first.unit)
        title = f"{self.name} by {first.estimator} on {size}; {self.sureness} ({first.interval})"
        header = ("gamma", "value", "at least", "at most")
        return Display(title, header, tuple(rows), tuple(map(str, self.notes)))

    def __str__(self) -> str:
        return self.display().text

    def __repr__(self) -> str:
        return str(self)
