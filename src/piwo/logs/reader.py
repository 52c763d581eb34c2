"""How fragments of a log are read, and the passes that only count rows and broken rules."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.engines.task import Task
from piwo.errors import warn
from piwo.logs.batch import Batch
from piwo.logs.hashing import key_numbers
from piwo.logs.validation import Finding, Refused, Schema, merge_findings, validate
from piwo.sources.source import Fragment, cut

__all__ = ["CountRows", "FindRefused", "Part", "Reader", "Selector", "warn_of"]

Numbers = npt.NDArray[np.int64]


@runtime_checkable
class Selector(Protocol):
    """Chooses rows by their number, or that of their key, never by what else is in them."""

    def keep(self, rows: Numbers) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the row numbers that stay."""
        ...


@dataclass(frozen=True)
class Part:
    """One batch: the rows that stay, and the harmless findings."""

    batch: Batch
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Reader:
    """Reads fragments of a log anywhere: what the columns mean and which rows stay."""

    schema: Schema
    selector: Selector | None = None

    def read(self, fragment: Fragment) -> Iterator[Part]:
        """Yield the validated batches of one fragment.

        Raises:
            Refused: if rows break a rule.
        """
        for record, rows in self.records(fragment):
            batch, findings = validate(record, self.schema, rows)
            yield Part(batch, findings)

    def records(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """Yield the raw rows that stay, with their numbers in the log."""
        for record, rows, numbers in self.numbered(fragment):
            if self.selector is None:
                yield record, rows
            else:
                keep = self.selector.keep(numbers)
                yield record.filter(pa.array(keep)), rows[keep]

    def numbered(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers, Numbers]]:
        """Yield raw rows, their numbers in the log, and those they are chosen by (the key's)."""
        start, key = fragment.start, self.schema.columns.key
        for whole in fragment.records():
            for record in cut(whole, self._width(whole)):
                rows = numbers = np.arange(start, start + record.num_rows)
                start += record.num_rows
                if key is not None and key in record.schema.names:
                    numbers = key_numbers(record[key], key)
                yield record, rows, numbers

    def _width(self, record: pa.RecordBatch) -> int:
        """Return how many numbers a row of the context, and of the behavior policy, will be."""
        features = self.schema.features
        if features is None or not set(record.schema.names).issuperset(features.columns):
            return 0
        return features.width + (self.schema.count if self.schema.behavior is not None else 0)


@dataclass(frozen=True)
class CountRows(Task[int]):
    """Task: the number of rows that stay; none is validated."""

    reader: Reader

    def empty(self) -> int:
        """Return 0."""
        return 0

    def of_fragment(self, fragment: Fragment) -> int:
        """Return the number of rows of a fragment that stay."""
        return sum(record.num_rows for record, _ in self.reader.records(fragment))

    def merge(self, one: int, other: int) -> int:
        """Return the sum."""
        return one + other


@dataclass(frozen=True)
class FindRefused(Task[tuple[Finding, ...]]):
    """Task: every broken rule of the whole log, with its count and first rows."""

    reader: Reader

    def empty(self) -> tuple[Finding, ...]:
        """Return nothing."""
        return ()

    def of_fragment(self, fragment: Fragment) -> tuple[Finding, ...]:
        """Return what is wrong with the rows of a fragment."""
        found: list[Finding] = []
        for record, rows in self.reader.records(fragment):
            try:
                validate(record, self.reader.schema, rows)
            except Refused as refused:
                found += refused.findings
        return merge_findings(found)

    def merge(self, one: tuple[Finding, ...], other: tuple[Finding, ...]) -> tuple[Finding, ...]:
        """Return one finding a rule."""
        return merge_findings((*one, *other))


def warn_of(findings: Sequence[Finding]) -> None:
    """Issue one warning a rule for harmless findings, with its count."""
    for finding in merge_findings(findings):
        warn(str(finding))
