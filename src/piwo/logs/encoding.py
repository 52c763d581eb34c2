"""One pass over context columns: their levels, lengths of lists, and missing values."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import shown
from piwo.engines.engine import fold
from piwo.engines.task import Task
from piwo.errors import DataError, UsageError, warn
from piwo.logs.actions import is_text
from piwo.logs.features import (
    Feature,
    Features,
    is_list,
    is_number,
    missing_rows,
    texts,
)
from piwo.logs.hashing import check_hash_size
from piwo.logs.reader import Reader
from piwo.messages import argument
from piwo.sources.query import QuerySource
from piwo.sources.source import Fragment, Source
from piwo.visible import type_text

__all__ = [
    "DEFAULT_ENCODING",
    "Encoding",
    "Missing",
    "context_kinds",
    "learn_features",
    "mark_among_numbers",
]

Missing = Literal["refuse", "indicator"]
Found = dict[str, "_Facts"]

_MARKS = ("na", "n/a", "nan", "null", "none", "?", "-", ".", "missing")
_NUMBER = r"^\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*$"


_MOST_LEVELS = 2**20


@dataclass(frozen=True)
class Encoding:
    """Options for the encoding of context columns.

    Args:
        max_levels: a text column with at most this many distinct values becomes one column a value
            (one-hot); with more, it is hashed. The default is that of `hash_size`: one-hot is
            exact, so it is used as long as it is not wider.
        hash_size: number of columns of a hashed text; a power of two. Two values share a column
            with probability 1 / hash_size. The cost of rows and gains grows with the width, the
            cost of ridge regression with its square.
        missing: "refuse" rows without a value; or "indicator": a column with missing values gets
            one more, which is 1 in those rows, and the value's other columns are 0 there.

    Raises:
        UsageError: for other values.

    >>> Encoding(missing="indicator").hash_size
    256
    """

    max_levels: int = 256
    hash_size: int = 256
    missing: Missing = "refuse"

    def __post_init__(self) -> None:
        if type(self.max_levels) is not int or not 0 <= self.max_levels <= _MOST_LEVELS:
            raise UsageError(
                f"{argument('max_levels')} is {shown(self.max_levels)}, expected a "
                f"whole number from 0 (hash every text) to {_MOST_LEVELS}"
            )
        check_hash_size(self.hash_size)
        if self.missing not in get_args(Missing):
            raise UsageError(
                f"{argument('missing')} is {self.missing!r}, expected 'refuse' or 'indicator'"
            )


DEFAULT_ENCODING = Encoding()
"""Missing values are refused; text with many values is hashed."""


@dataclass(frozen=True)
class _Facts:
    """Facts about one context column in some rows."""

    nulls: int = 0
    nans: int = 0
    levels: pa.Array = field(default_factory=lambda: pa.array([], pa.large_string()))
    """Distinct texts, at most `max_levels` + 1."""
    marks: str | None = None
    """A text such as NA, the first by the alphabet."""
    numbers: bool = False
    """Whether a text is a number."""
    words: bool = False
    """Whether a text is neither."""
    counts: tuple[int, int] = (0, 0)
    """How many rows hold numbers, and how many hold words: text that is neither number nor mark."""
    first: tuple[int, str] | None = None
    """The row number of the first word, and the word."""
    size: int | None = None
    """Length of the first list."""

    @property
    def mostly_numbers(self) -> bool:
        """Whether more rows hold numbers than words, and some hold words."""
        return self.numbers and self.words and self.counts[0] > self.counts[1]

    def merge(self, other: _Facts, most: int) -> _Facts:
        """Return the facts of both parts together; levels are counted up to `most` + 1."""
        levels, marks, size = self.levels, self.marks, self.size
        if len(other.levels):
            levels = pc.unique(pa.chunked_array([levels, other.levels]))
        if marks is None or (other.marks is not None and other.marks < marks):
            marks = other.marks
        if size is None:
            size = other.size
        firsts = [one for one in (self.first, other.first) if one is not None]
        return _Facts(
            nulls=self.nulls + other.nulls,
            nans=self.nans + other.nans,
            levels=levels.slice(0, most + 1),
            marks=marks,
            numbers=self.numbers or other.numbers,
            words=self.words or other.words,
            counts=(self.counts[0] + other.counts[0], self.counts[1] + other.counts[1]),
            first=min(firsts, default=None),
            size=size,
        )


@dataclass(frozen=True)
class _Look(Task[Found]):
    """Task: facts about context columns, as far as their encoding depends on them."""

    reader: Reader
    kinds: dict[str, pa.DataType]
    encoding: Encoding

    def empty(self) -> Found:
        """Return the facts of no rows."""
        return {name: _Facts() for name in self.kinds}

    def of_fragment(self, fragment: Fragment) -> Found:
        """Return the facts of a fragment; reading stops once the encoding is known."""
        found = self.empty()
        for record, rows in self.reader.records(fragment):
            if self.settled(found):
                break
            seen: Found = {}
            for name, facts in found.items():
                seen[name] = self._look(record[name], facts, rows)
            found = self.merge(found, seen)
        return found

    def merge(self, one: Found, other: Found) -> Found:
        """Return the facts of both parts together."""
        merged: Found = {}
        for name, facts in one.items():
            merged[name] = facts.merge(other[name], self.encoding.max_levels)
        return merged

    def settled(self, state: Found) -> bool:
        """Whether more rows would change nothing."""
        if self.encoding.missing == "indicator":
            # Every missing value is counted.
            return False
        return all(self._known(name, state[name]) for name in self.kinds)

    def to_bytes(self, state: Found) -> bytes:
        """Return the facts as JSON."""
        plain: dict[str, Any] = {}
        for name, facts in state.items():
            plain[name] = {**vars(facts), "levels": facts.levels.to_pylist()}
        return json.dumps(plain).encode()

    def from_bytes(self, data: bytes) -> Found:
        """Return the facts that `to_bytes` wrote."""
        found = {}
        for name, plain in json.loads(data).items():
            levels = pa.array(plain.pop("levels"), pa.large_string())
            counts, first = tuple(plain.pop("counts")), plain.pop("first")
            if first is not None:
                first = (int(first[0]), str(first[1]))
            found[name] = _Facts(levels=levels, counts=counts, first=first, **plain)
        return found

    def _known(self, name: str, facts: _Facts) -> bool:
        """Whether the kind of a column is known, whatever more rows hold."""
        if is_list(self.kinds[name]):
            return facts.size is not None
        return self._hashed(facts)

    def _hashed(self, facts: _Facts) -> bool:
        """Whether a text column is hashed, whatever more rows hold."""
        # Many numbers with a mark for missing ones are an error, not a text to hash; and those
        # among numbers are counted.
        many = len(facts.levels) > self.encoding.max_levels
        return many and facts.words and not facts.mostly_numbers

    def _look(self, values: pa.Array, known: _Facts, rows: npt.NDArray[np.int64]) -> _Facts:
        kind, found = values.type, _Facts()
        if self.encoding.missing == "indicator":
            nulls, nans = missing_rows(values)
            found = _Facts(int(nulls.sum()), int(nans.sum()))
        if is_list(kind) and known.size is None:
            lengths = pc.drop_null(pc.list_value_length(values))
            if len(lengths):
                found = replace(found, size=int(lengths[0].as_py()))
        elif _is_categorical(kind) and not self._hashed(known):
            found = _of_texts(values, found)
            if found.words and known.first is None:
                found = replace(found, first=_first_word(values, rows))
        return found


def _of_texts(values: pa.Array, facts: _Facts) -> _Facts:
    """Return the facts of text, whose first word is not looked for."""
    # Distinct values first: a dictionary or few levels make the rest cheap.
    counted = pc.value_counts(values)
    distinct = texts(counted.field(0))
    levels = pc.unique(pc.drop_null(distinct))
    numbers, words = _numbers_and_words(distinct)
    rows = counted.field(1).to_numpy()
    marked = levels.filter(_are_marks(levels))
    return replace(
        facts,
        levels=levels,
        marks=pc.min(marked).as_py(),
        numbers=bool(numbers.any()),
        words=bool(words.any()),
        counts=(int(rows[numbers].sum()), int(rows[words].sum())),
    )


def _are_marks(levels: pa.Array) -> pa.Array:
    """Return which texts are marks of missing values, such as NA."""
    plain = pc.utf8_lower(pc.utf8_trim_whitespace(levels))
    return pc.is_in(plain, value_set=pa.array(_MARKS, pa.large_string()))


def _numbers_and_words(
    levels: pa.Array,
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]]:
    """Return which texts are numbers, and which are neither numbers, marks, nor missing."""
    numbers = pc.fill_null(pc.match_substring_regex(levels, _NUMBER), fill_value=False)
    words = pc.invert(pc.or_(pc.or_(numbers, _are_marks(levels)), pc.is_null(levels)))
    return numbers.to_numpy(zero_copy_only=False), words.to_numpy(zero_copy_only=False)


def _first_word(values: pa.Array, rows: npt.NDArray[np.int64]) -> tuple[int, str]:
    """Return the first row that holds a word, and the word.

    Args:
        values: with at least one word.
        rows: (n,) their row numbers.
    """
    plain = texts(values)
    _, words = _numbers_and_words(plain)
    places = np.flatnonzero(words)
    place = int(places[np.argmin(rows[places])])
    return int(rows[place]), str(plain[place].as_py())


def mark_among_numbers(values: pa.Array) -> str | None:
    """Return a mark of missing values, such as NA, in text that is numbers besides; None: none.

    Args:
        values: of one column.

    >>> mark_among_numbers(pa.array(["5", "NA"])), mark_among_numbers(pa.array(["low", "NA"]))
    ('NA', None)
    """
    if not _is_categorical(values.type):
        return None
    found = _of_texts(values, _Facts())
    if not found.numbers or found.words:
        return None
    return found.marks


def _is_categorical(kind: pa.DataType) -> bool:
    return is_text(kind) or pa.types.is_dictionary(kind)


def context_kinds(columns: Sequence[str], source: Source) -> dict[str, pa.DataType]:
    """Return the types of context columns.

    Raises:
        DataError: for a column of a text file with numbers and a few other values.
        UsageError: for a type that is neither number, text nor list of numbers.
    """
    kinds: dict[str, pa.DataType] = {}
    doubts = source.doubts if isinstance(source, QuerySource) else {}
    for name in columns:
        if name in doubts:
            raise DataError(doubts[name])
        kind = source.schema.field(name).type
        kinds[name] = kind
        if not (is_number(kind) or _is_categorical(kind) or is_list(kind)):
            raise UsageError(
                f"context column {name!r} has {type_text(kind)}, expected numbers, text or "
                "lists of numbers"
            )
    return kinds


def learn_features(
    columns: Sequence[str],
    source: Source,
    reader: Reader,
    encoding: Encoding,
    also: Sequence[str] = (),
    *,
    what: str = "context column",
    numbered: bool = True,
) -> Features:
    """Return how context columns are encoded; one pass over columns whose type does not decide it.

    Memory does not grow with the number of levels: they are counted up to `max_levels` + 1.

    Args:
        columns: names of context columns.
        source: the rows.
        reader: selects the rows.
        encoding: the options.
        also: other columns that the reader needs.
        what: a column, in words.
        numbered: whether the rows have numbers that a user knows.

    Raises:
        UsageError: for a type that is neither number, text nor list of numbers.
        DataError: for a list column without any list, and for numbers that became text because of a
            mark such as NA.

    Warns:
        PiwoWarning: naming the columns that are hashed, those with missing values, and those that
            are text because of some texts among more numbers.
    """
    kinds = context_kinds(columns, source)
    unknown: dict[str, pa.DataType] = {}
    for name, kind in kinds.items():
        by_type = is_number(kind) or pa.types.is_fixed_size_list(kind)
        # Missing values are found in the rows only.
        if encoding.missing == "indicator" or not by_type:
            unknown[name] = kind
    facts: Found = {}
    if unknown:
        facts = fold(source, [*unknown, *also], _Look(reader, unknown, encoding))
    items: list[Feature] = []
    for name, kind in kinds.items():
        items.append(_feature(name, kind, facts.get(name, _Facts()), encoding))
    hashed = _hashed_note(items, encoding)
    if hashed:
        warn(hashed)
    _warn_of_facts(facts, what, numbered)
    return Features(tuple(items))


def _warn_of_facts(facts: Found, what: str, numbered: bool) -> None:
    """Warn of text that is mostly numbers, and of missing values."""
    gaps: dict[str, tuple[int, int]] = {}
    for name, one in facts.items():
        if one.mostly_numbers:
            note = _mixed_note(f"{what} {name!r}", one, numbered)
            warn(note, kind=f"numbers and text in {name}")
        if one.nulls + one.nans:
            gaps[name] = (one.nulls + one.nans, one.nans)
    if gaps:
        # One kind for the log and its parts: the same columns lack values.
        warn(_missing_note(gaps), kind=f"missing values of {', '.join(gaps)}")


def _feature(
    name: str,
    kind: pa.DataType,
    facts: _Facts,
    encoding: Encoding,
) -> Feature:
    missing = facts.nulls + facts.nans > 0
    if is_list(kind):
        size = facts.size
        if pa.types.is_fixed_size_list(kind):
            size = kind.list_size
        if size is None:
            raise DataError(
                f"context column {name!r} holds no lists at all, expected one in every row"
            )
        return Feature(name, "vector", size=size, missing=missing)
    if not _is_categorical(kind):
        return Feature(name, missing=missing)
    if facts.marks is not None and facts.numbers and not facts.words:
        raise DataError(
            f"context column {name!r} holds numbers and {facts.marks!r}; fill or drop "
            "such rows yourself first, or turn the column into text labels"
        )
    if len(facts.levels) > encoding.max_levels:
        return Feature(name, "hashed", size=encoding.hash_size, missing=missing)
    # Sorted, so that the encoding does not depend on the order of the rows.
    levels = tuple(sorted(facts.levels.to_pylist()))
    return Feature(name, "levels", levels, missing=missing)


def _hashed_note(items: Iterable[Feature], encoding: Encoding) -> str:
    names = [repr(item.column) for item in items if item.kind == "hashed"]
    if not names:
        return ""
    return (
        f"context columns with more than {encoding.max_levels} levels: "
        f"{', '.join(names)}; each is hashed into {encoding.hash_size} columns, which "
        f"some levels share ({argument('max_levels')} and {argument('hash_size')} "
        "change that)"
    )


def _mixed_note(column: str, facts: _Facts, numbered: bool) -> str:
    """Return the warning for text that is mostly numbers."""
    numbers, words = facts.counts
    assert facts.first is not None
    row, word = facts.first
    first = f"such as {word!r}"
    if numbered:
        first = f"first {word!r} in row {row} (from 0)"
    return (
        f"{column} holds numbers in {numbers:,} rows and text in {words:,}, {first}, so that each "
        "of its values is a category of its own; for numbers, correct or drop the rows with text; "
        "for categories, write them with a letter in front, such as 'n12'"
    )


def _missing_note(found: dict[str, tuple[int, int]]) -> str:
    """Return the warning for columns with missing values: their count, and how many are NaN."""
    listed: list[str] = []
    for name, (count, nans) in found.items():
        text = f"{name!r} in {count:,} rows"
        if count == 1:
            text = f"{name!r} in 1 row"
        if nans:
            text += f" ({nans} of them NaN)"
        listed.append(text)
    return (
        f"context values are missing: {', '.join(listed)}; there a column such as "
        f"'{next(iter(found))} is missing' is 1 and the value's own columns are 0 "
        f"({argument('missing', 'indicator')})"
    )
