"""Records: results as JSON, and records in files of their own, which are checked when read."""

from __future__ import annotations

import hashlib
import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from piwo.checks import each_once
from piwo.display import Display, field_rows, frame_of
from piwo.errors import DataError, FileError
from piwo.files import read_file, write_file

__all__ = [
    "Record",
    "Rule",
    "SavedRecord",
    "frames_field",
    "jsonable",
    "maybe",
    "now",
    "number",
    "one_of",
    "text",
    "whole",
]

Rule: TypeAlias = Callable[[Any], bool]
"""Returns whether a field may have a value."""


def jsonable(value: Any) -> Any:
    """Return a value for JSON: NaN and infinity as None, tuples as lists, Python's numbers.

    >>> jsonable({"a": float("nan"), "b": (1.0, float("inf"))})
    {'a': None, 'b': [1.0, None]}
    """
    if isinstance(value, Mapping):
        return {str(key): jsonable(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [jsonable(item) for item in value]
    if isinstance(value, str):
        return str(value)  # a note is plain text in JSON
    if hasattr(value, "item"):
        value = value.item()
    if isinstance(value, float) and not (float("-inf") < value < float("inf")):
        return None
    return value


def frames_field() -> Any:
    """Return the field `frames` of a result: kept in memory, neither compared nor saved.

    >>> frames_field().compare
    False
    """
    return field(default=None, kw_only=True, repr=False, compare=False)


class Record:
    """Base of results: frozen dataclasses that can be written as JSON, and shown in notebooks.

    >>> from piwo.estimators.slope import Slope
    >>> made = Slope("new", "ix", 0.1, 0.5, 0.01, 0.1, 100, ())
    >>> made.to_frame().column("value").to_pylist()
    [0.5]
    """

    frames: str | None = None
    """The library of the frame that the log was read from, "pandas" or "polars"; None: of none."""

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: no NaN, no infinity."""
        made: dict[str, Any] = jsonable(asdict(self))  # type: ignore[call-overload]
        made.pop("frames", None)
        return made

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: the fields that are text or numbers, in one row."""
        columns: dict[str, Sequence[Any]] = {}
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            plain = isinstance(value, str | int | float) or value is None
            if plain and one.name != "frames":
                columns[one.name] = [value]
        return columns

    def to_frame(self, kind: str | None = None) -> Any:
        """Return the record as a data frame.

        Args:
            kind: "pandas", "polars" or "arrow"; None: as the log was, an Arrow table if that was no
                frame.

        Raises:
            UsageError: for another kind, and if the library is not installed.
        """
        return frame_of(self.frame_columns(), kind or self.frames)

    def display(self) -> Display:
        """Return the record as it is shown in a notebook."""
        notes = getattr(self, "notes", ())
        rows = field_rows(Record.frame_columns(self))
        return Display(type(self).__name__, ("field", "value"), rows, tuple(map(str, notes)))

    def _repr_html_(self) -> str:
        return self.display().html


class SavedRecord(Record):
    """Base of records with a file of their own. Reading checks every field.

    They have `reward_range` and `notes`; `rules` says what each field must be.

    >>> from piwo.certificates.certificate import Certificate
    >>> made = Certificate(
    ...     kind="held-out", value=0.6, value_lower=0.5, improvement_lower=0.1, logging_value=0.5
    ... )
    >>> Certificate.from_dict(made.to_dict()) == made
    True
    """

    what: ClassVar[str]
    """The name of such a record in messages."""
    remedy: ClassVar[str]
    """What to do if it is damaged."""

    @classmethod
    @abstractmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:
        """Return the rules of fields for rewards of at least `low`; optional ones may be absent."""

    @classmethod
    def today(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record of an earlier version as this version would write it."""
        return record

    @property
    def derived(self) -> Mapping[str, Any]:
        """What follows from the fields and is saved with them; a file must agree with it."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: no NaN, no infinity."""
        return {**super().to_dict(), **self.derived}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return the object of a record that `to_dict` made.

        Raises:
            FileError: if the record is damaged.
        """
        try:
            return cls._read(cls.today(record))
        except (AttributeError, KeyError, TypeError, ValueError) as cause:
            raise FileError(f"{cls.what} is damaged ({cause!r}); {cls.remedy}") from None

    @classmethod
    def _read(cls, record: Mapping[str, Any]) -> Self:
        """Return the record, or raise for the first field that breaks its rule."""
        known = cls.__dataclass_fields__.keys() - {"frames"}  # type: ignore[attr-defined]
        given = {key: value for key, value in record.items() if key in known}
        low, high = given["reward_range"]
        given["reward_range"] = (low, math.inf if high is None else high)
        for name, fits in {"reward_range": _is_range, **cls.rules(low)}.items():
            if name in given and not fits(given[name]):
                raise cls._damaged(name, record)
        made = cls(**{**given, "notes": tuple(given.get("notes", ()))})
        for name, fact in made.derived.items():
            if record.get(name, fact) is not fact:
                raise cls._damaged(name, record)
        return made

    @classmethod
    def _damaged(cls, name: str, record: Mapping[str, Any]) -> FileError:
        found = f"{record.get(name)!r:.80}"
        return FileError(f"{cls.what} is damaged: {name} is {found}; {cls.remedy}")

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON, complete or not at all.

        Raises:
            FileError: if the file cannot be written.
        """
        page = self.to_dict()
        page["checksum"] = _checksum(page)
        made = json.dumps(page, indent=2, ensure_ascii=False, allow_nan=False)
        # file names may hold half characters (surrogates), which have no UTF-8; JSON escapes them
        write_file(Path(path), f"{made}\n".encode(errors="backslashreplace"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the record that `save` wrote.

        Raises:
            FileError: if the file cannot be read, or the record is damaged.
        """
        try:
            record = json.loads(read_file(Path(path)), object_pairs_hook=each_once)
        except (ValueError, RecursionError, DataError) as cause:
            raise FileError(f"{path} is not JSON ({cause}); {cls.remedy}") from None
        written = record.pop("checksum", None) if isinstance(record, dict) else None
        changed = written is not None and written != _checksum(record)
        made = None if changed else cls.from_dict(record)
        # Files of piwo before 0.1.0 have no checksum. A name in such a file that no record has is
        # a damaged one, perhaps that of the checksum.
        if made is None or (written is None and record.keys() - made.to_dict().keys()):
            raise FileError(f"{path}: {cls.what} was changed after it was written; {cls.remedy}")
        return made


def _checksum(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()[:32]


def now() -> str:
    """Return the date and time in UTC, to the second.

    >>> now().endswith("+00:00")
    True
    """
    return datetime.now(UTC).isoformat(timespec="seconds")


def is_time(value: Any) -> bool:
    """Whether a value is a time as `now` writes it; the first files had an empty one.

    >>> is_time("2026-11-29T01:53:53+00:00"), is_time(""), is_time("2026-11-2e7bfecda164")
    (True, True, False)
    """
    if value == "":
        return True
    try:
        written = datetime.fromisoformat(value).isoformat(timespec="seconds")
    except (TypeError, ValueError):
        return False
    return bool(written == value)


def number(least: float = -math.inf, most: float = math.inf) -> Rule:
    """Return the rule for a finite number in a range.

    >>> number(0.0)(0.5), number(0.0)(True), number(0.0)(-1)
    (True, False, False)
    """
    return lambda value: (
        type(value) in {int, float} and math.isfinite(value) and least <= value <= most
    )


def whole(least: int) -> Rule:
    """Return the rule for a whole number of at least `least`.

    >>> whole(0)(3), whole(0)(3.0)
    (True, False)
    """
    return lambda value: type(value) is int and value >= least


def one_of(*known: Any) -> Rule:
    """Return the rule for one of several values.

    >>> one_of("a", "b")("c")
    False
    """
    return lambda value: any(type(value) is type(one) and value == one for one in known)


def text(value: Any) -> bool:
    """Whether a value is text.

    >>> text("a"), text(None)
    (True, False)
    """
    return isinstance(value, str)


def maybe(rule: Rule) -> Rule:
    """Return the rule that allows None, too.

    >>> maybe(text)(None)
    True
    """
    return lambda value: value is None or rule(value)


def _is_range(value: Any) -> bool:
    low, high = value
    return number()(low) and (high == math.inf or number()(high)) and low < high
