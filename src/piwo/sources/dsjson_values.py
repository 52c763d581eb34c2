"""Values of a path in dsjson that are numbers in some places and something else in others."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import warn

__all__ = ["NUMBERS", "ValueCounts"]

NUMBERS = ("BIGINT", "UBIGINT", "HUGEINT", "UHUGEINT", "DOUBLE")
"""The types that numbers have in DuckDB's JSON."""


@dataclass
class ValueCounts:
    """How many values of one path are numbers, and how many are not; missing ones do not count.

    >>> counts = ValueCounts()
    >>> counts.add(pa.array(["5", "NA", None]), pa.array(["BIGINT", "VARCHAR", None]))
    >>> counts.numbers, counts.others, counts.first
    (1, 1, 'NA')
    """

    numbers: int = 0
    others: int = 0
    first: str | None = None
    """The first value that is not a number."""

    def add(self, values: pa.Array | pa.ChunkedArray, kinds: pa.Array | pa.ChunkedArray) -> None:
        """Count values of JSON that were read as text.

        Args:
            values: text, or null.
            kinds: the types that they had.
        """
        is_number = pc.is_in(kinds, value_set=pa.array(NUMBERS))
        others = pc.and_(pc.is_valid(values), pc.invert(is_number))
        self.numbers += pc.sum(is_number).as_py() or 0
        count = pc.sum(others).as_py() or 0
        if count and self.first is None:
            self.first = values.filter(others)[0].as_py()
        self.others += count

    def warn(self, where: str, each: str) -> None:
        """Issue a warning if some values are numbers and some are not.

        Args:
            where: the path, in words.
            each: what has one value, in words: "events".
        """
        if self.numbers and self.others:
            total = self.numbers + self.others
            warn(
                f"{where} holds numbers in all but {self.others:,} of {total:,} {each}, which hold "
                f"others, such as {self.first!r}: all are taken as text, each a level of its own; "
                "correct or drop such events yourself",
                kind="mixed-values",
            )
