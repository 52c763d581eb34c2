"""What the text in a column of a CSV file means: numbers, true/false, times or text.

Every value decides, not the first ones. A column whose type is known, because a policy was made
from it, keeps that type whatever today's values look like.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.sources.query import ColumnType, QueryFragment, quoted

__all__ = ["Tally", "TypedQuery", "known_number", "tallied", "typed_query"]

_MOSTLY = 0.99
"""A column with at least this share of numbers was meant to hold only numbers."""
_PLAIN = r"(0|[1-9]\d*)"
_ANY = r"\d+"
_WHOLE = r"^\s*[-+]?{digits}\s*$"
_NUMBER = r"(?i)^\s*[-+]?(({digits}(\.\d*)?|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)\s*$"
_CODE = r"^\s*[-+]?0\d+(\.\d*)?\s*$"
"""Numbers with zeros in front, such as 01234: names of something, as in postal codes."""
_TRUTH = r"(?i)^\s*(true|false)\s*$"
_TIME = r"^\s*\d{4}-\d{2}-\d{2}([T ]\d{2}:\d{2}.*)?$"
_OFFSET = r"(?i):\d{2}.*([a-z]|[-+]\d{2}(:?\d{2})?\s*$)"
"""A time with a zone, such as Z, +09:00 or Asia/Tokyo."""


@dataclass
class Tally:
    """Counts of what the values of one text column look like.

    Args:
        zeros: whether 01234 is a number; else a column with such a value is text.

    >>> tally = Tally()
    >>> tally.add(pa.array(["1", "2.5", None]))
    >>> tally.type
    'DOUBLE'
    >>> tally.add(pa.array(["NO"]))
    >>> tally.type, tally.other
    (None, 'NO')
    """

    zeros: bool = False
    count: int = 0
    numbers: int = 0
    truths: int = 0
    other: str | None = None
    """The first value that is neither number nor true nor false."""
    _whole: bool = True
    _int64: bool = True
    _uint64: bool = True
    _code: bool = False
    _times: bool = True
    _offsets: bool = False

    def add(self, values: pa.Array) -> None:
        """Add values; missing ones do not count."""
        values = pc.drop_null(values)
        if not len(values):
            return
        self.count += len(values)
        # One code settles that the column is text.
        if self._code:
            return
        digits = _ANY if self.zeros else _PLAIN
        if self._whole:
            self._whole = _all(values, _WHOLE.format(digits=digits))
            if self._whole:
                self.numbers += len(values)
                self._fit(values)
                return
        is_number = pc.match_substring_regex(values, _NUMBER.format(digits=digits))
        numbers = _sum(is_number)
        self.numbers += numbers
        if numbers == len(values):
            return
        others = values.filter(pc.invert(is_number))
        self._code = not self.zeros and _any(others, _CODE)
        is_truth = pc.match_substring_regex(others, _TRUTH)
        self.truths += _sum(is_truth)
        words = others.filter(pc.invert(is_truth))
        if self.other is None and len(words):
            self.other = words[0].as_py()
        self._times = self._times and numbers == 0 and _all(others, _TIME)
        if self._times:
            self._offsets = self._offsets or _any(others, _OFFSET)

    def _fit(self, values: pa.Array) -> None:
        """Note whether whole numbers have at most 64 bits."""
        # The largest number of 18 digits is below 2^63.
        if pc.max(pc.binary_length(values)).as_py() <= 18 and not _any(values, "-"):
            return
        plain = pc.utf8_ltrim(pc.utf8_trim_whitespace(values), characters="+")
        self._int64 = self._int64 and _casts(plain, pa.int64())
        self._uint64 = self._uint64 and _casts(plain, pa.uint64())

    @property
    def type(self) -> str | None:
        """The SQL type that all values have; None for text. No values at all are numbers."""
        if self._code:
            return None
        if self.numbers == self.count:
            if self._whole and self.count and (self._int64 or self._uint64):
                return "BIGINT" if self._int64 else "UBIGINT"
            return "DOUBLE"
        if self.truths == self.count:
            return "BOOLEAN"
        return None

    @property
    def times(self) -> str | None:
        """The SQL type of times, if all values look like times."""
        if self._code or not self.count or self.numbers or not self._times:
            return None
        return "TIMESTAMPTZ" if self._offsets else "TIMESTAMP"

    def doubt(self, name: str) -> str | None:
        """Return why a column is neither numbers nor text; None if it is one of them."""
        if self._code or not _MOSTLY * self.count < self.numbers < self.count:
            return None
        return (
            f"context column {name!r} holds numbers in all but {self.count - self.numbers:,} of "
            f"{self.count:,} rows, which hold text such as {self.other or 'true'!r}; correct or "
            "drop such rows yourself, or make the column text in a query"
        )


@dataclass(frozen=True)
class TypedQuery:
    """A query for the rows of text files, with types for their columns."""

    sql: str
    doubts: Mapping[str, str] = field(default_factory=dict)
    """Columns that may not be used unless their type is known -> the error."""


def typed_query(
    sql: str,
    file: str,
    names: Sequence[str],
    *,
    undecided: Collection[str],
    seen: Collection[str],
    types: Mapping[str, ColumnType],
) -> TypedQuery:
    """Return the query with types for the columns that all come as text.

    Args:
        sql: the query.
        file: its name in messages.
        names: of all columns.
        undecided: columns whose values decide.
        seen: those of them that a condition sees.
        types: column -> its type, if it is known.

    Raises:
        DataError: for a column that does not have its type, and for a column of a condition that
            holds numbers and a few other values.
    """
    open_columns = [x for x in undecided if types.get(x) != "text"]
    numbers = [x for x in open_columns if x in types]
    tallies = tallied(sql, file, open_columns, zeros=numbers)
    untyped = {name: tally for name, tally in tallies.items() if name not in types}
    doubts = _doubts(untyped, seen)
    kinds = _time_types(sql, file, untyped)
    for name, tally in untyped.items():
        if tally.type is not None:
            kinds[name] = tally.type
    read = {name: _cast(name, kind) for name, kind in kinds.items()}
    for name in numbers:
        read[name] = known_number(name, tallies[name])
    if read:
        chosen = [read.get(name, quoted(name)) for name in names]
        sql = f"select {', '.join(chosen)} from ({sql})"
    return TypedQuery(sql, doubts)


def tallied(
    sql: str, file: str, names: Collection[str], zeros: Collection[str] = ()
) -> dict[str, Tally]:
    """Return the tally of each of these text columns of a query, in one pass.

    Args:
        sql: the query.
        file: its name in messages.
        names: of columns.
        zeros: those whose numbers may have zeros in front.
    """
    found = {name: Tally(zeros=name in zeros) for name in names}
    if found:
        for record in QueryFragment(sql, tuple(found), name=file).records():
            for name, tally in found.items():
                tally.add(record[name])
    return found


def _cast(name: str, kind: str) -> str:
    column = quoted(name)
    return f"cast({column} as {kind}) as {column}"


def _doubts(tallies: Mapping[str, Tally], seen: Collection[str]) -> dict[str, str]:
    """Return the errors for columns that hold numbers and a few other values.

    Raises:
        DataError: for such a column that a condition sees.
    """
    found: dict[str, str] = {}
    for name, tally in tallies.items():
        doubt = tally.doubt(name)
        if doubt is not None:
            found[name] = doubt
    for name in seen:
        if name in found:
            raise DataError(found[name])
    return found


def known_number(name: str, tally: Tally) -> str:
    """Return the SQL expression that reads a text column as the numbers that it must hold.

    Raises:
        DataError: if it holds anything else, with an example and the count.
    """
    column = quoted(name)
    if tally.type is not None:
        return _cast(name, tally.type)
    others = tally.count - tally.numbers - tally.truths
    if others:
        raise DataError(
            f"context column {name!r} holds text in {others:,} of {tally.count:,} rows, such as "
            f"{tally.other!r}, expected numbers as when the policy was made; correct the column, "
            "or learn the policy again"
        )
    truth = f"cast(try_cast({column} as BOOLEAN) as DOUBLE)"
    return f"coalesce(try_cast({column} as DOUBLE), {truth}) as {column}"


def _time_types(sql: str, file: str, tallies: Mapping[str, Tally]) -> dict[str, str]:
    """Return the SQL types of the text columns that hold only times."""
    likely: dict[str, str] = {}
    for name, tally in tallies.items():
        kind = tally.times
        if kind is not None:
            likely[name] = kind
    if not likely:
        return {}
    # What looks like a time may not be one, such as 2026-02-30.
    tests = []
    for name, kind in likely.items():
        column = quoted(name)
        tests.append(
            f"count(*) filter ({column} is not null and try_cast({column} as {kind}) is null) "
            f"as {column}"
        )
    asked = QueryFragment(f"select {', '.join(tests)} from ({sql})", tuple(likely), name=file)
    (record,) = asked.records()
    return {name: kind for name, kind in likely.items() if not record[name][0].as_py()}


def _all(values: pa.Array, pattern: str) -> bool:
    found: bool = pc.all(pc.match_substring_regex(values, pattern)).as_py()
    return found


def _any(values: pa.Array, pattern: str) -> bool:
    found: bool = pc.any(pc.match_substring_regex(values, pattern)).as_py()
    return found


def _sum(mask: pa.Array) -> int:
    return pc.sum(mask).as_py() or 0


def _casts(values: Any, kind: pa.DataType) -> bool:
    try:
        pc.cast(values, kind)
    except pa.ArrowInvalid:
        return False
    return True
