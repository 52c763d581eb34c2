"""Records: what results have as JSON, and what those that are saved must be to come back."""

from __future__ import annotations

import json
import math
import os
from abc import abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Self, TypeAlias

from piwo.errors import FileError
from piwo.files import write_file

__all__ = [
    "Record",
    "Rule",
    "SavedRecord",
    "jsonable",
    "maybe",
    "now",
    "number",
    "one_of",
    "text",
    "whole",
]

Rule: TypeAlias = Callable[[Any], bool]
"""Tells whether a field has a value that it can have."""


def jsonable(value: Any) -> Any:
    """Return a value as JSON holds it: NaN and infinity as None, tuples as lists, plain numbers.

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


class Record:
    """Base of the results: frozen dataclasses that JSON can hold.

    >>> from piwo.estimators.slope import Slope
    >>> issubclass(Slope, Record)
    True
    """

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: no NaN, no infinity."""
        made: dict[str, Any] = jsonable(asdict(self))  # type: ignore[call-overload]
        return made


class SavedRecord(Record):
    """Base of the records that are written to a file of their own, and read back to the last field or refused.

    They have `reward_range` and `notes`, and say by `rules` what each field must be.

    >>> from piwo.certificates.certificate import Certificate
    >>> made = Certificate(
    ...     kind="held-out", value=0.6, value_lower=0.5, improvement_lower=0.1, logging_value=0.5
    ... )
    >>> Certificate.from_dict(made.to_dict()) == made
    True
    """

    what: ClassVar[str]
    """What it is called, and what to do where it is damaged."""
    remedy: ClassVar[str]

    @classmethod
    @abstractmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:
        """Return what the fields must be, for rewards of at least `low`; of those that a record has."""

    @classmethod
    def today(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record of an earlier version as it would be written now."""
        return record

    @property
    def told(self) -> Mapping[str, Any]:
        """What a record says beside its fields, which must agree with them."""
        return {}

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: no NaN, no infinity."""
        return {**super().to_dict(), **self.told}

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """Return what `to_dict` made a record of.

        Raises:
            FileError: where the record is damaged.
        """
        try:
            record = cls.today(record)
            given = {key: value for key, value in record.items() if key in cls.__dataclass_fields__}  # type: ignore[attr-defined]
            low, high = given["reward_range"]
            given["reward_range"] = (low, math.inf if high is None else high)
            rules = {"reward_range": _is_range, **cls.rules(low)}
            wrong = next(
                (name for name, fits in rules.items() if name in given and not fits(given[name])),
                None,
            )
            if wrong is None:
                made = cls(**{**given, "notes": tuple(given.get("notes", ()))})
                wrong = next(
                    (
                        name
                        for name, fact in made.told.items()
                        if record.get(name, fact) is not fact
                    ),
                    None,
                )
        except (AttributeError, KeyError, TypeError, ValueError) as cause:
            raise FileError(f"{cls.what} is damaged ({cause!r}); {cls.remedy}") from None
        if wrong is not None:
            raise FileError(
                f"{cls.what} is damaged: {wrong} is {record.get(wrong)!r:.80}; {cls.remedy}"
            )
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON, complete or not at all.

        Raises:
            FileError: where the file cannot be written.
        """
        made = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        # half characters of file names have no UTF-8; as escapes they are JSON
        write_file(Path(path), f"{made}\n".encode(errors="backslashreplace"))

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return what `save` wrote.

        Raises:
            FileError: where the file cannot be read, or the record is damaged.
        """
        try:
            record = json.loads(Path(path).read_text(encoding="utf-8"))
        except OSError as cause:
            raise FileError(
                f"{path} cannot be read: {cause.strerror or cause}; check the path"
            ) from None
        except ValueError as cause:
            raise FileError(f"{path} is no JSON ({cause}); {cls.remedy}") from None
        return cls.from_dict(record)


def now() -> str:
    """Return date and time, UTC, to the second.

    >>> now().endswith("+00:00")
    True
    """
    return datetime.now(UTC).isoformat(timespec="seconds")


def number(least: float = -math.inf, most: float = math.inf) -> Rule:
    """Return the rule for a finite number between two others.

    >>> number(0.0)(0.5), number(0.0)(True), number(0.0)(-1)
    (True, False, False)
    """
    return lambda value: (
        type(value) in {int, float} and math.isfinite(value) and least <= value <= most
    )


def whole(least: int) -> Rule:
    """Return the rule for a whole number of at least some.

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
    """Return the rule that None is fine, too.

    >>> maybe(text)(None)
    True
    """
    return lambda value: value is None or rule(value)


def _is_range(value: Any) -> bool:
    low, high = value
    return number()(low) and (high == math.inf or number()(high)) and low < high
