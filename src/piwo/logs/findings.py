"""Broken rules of a log: which column, which rule, how many rows, and the first of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.errors import DataError
from piwo.sources.lines import RowLines
from piwo.sources.row_labels import places
from piwo.sources.source import Source

__all__ = ["Finding", "Findings", "Refused", "in_lines", "merge_findings"]

_SHOWN = 5
"""Rows that a finding names."""


@dataclass(frozen=True)
class Finding(State):
    """One broken rule: its column, its count and first rows; if `fatal`, the batch is refused."""

    column: str
    rule: str
    advice: str
    count: int
    rows: tuple[int, ...]
    fatal: bool = True
    kind: str = ""
    """What callers ask for: "range" of rewards outside the declared range."""
    lines: tuple[str, ...] = ()
    """Of text files, instead of the rows, if they are known."""

    def __str__(self) -> str:
        count = f"{self.count:,} rows"
        if self.count == 1:
            count = "1 row"
        where = places(self.rows, self.count > len(self.rows))
        if self.lines:
            ending = "; ..." if self.count > len(self.lines) else ""
            where = "; ".join(self.lines) + ending
        return f"column {self.column!r} {self.rule} in {count} ({where}); {self.advice}"

    def merge(self, other: Finding) -> Finding:
        """Return the same rule broken in the rows of both."""
        rows = tuple(sorted(self.rows + other.rows)[:_SHOWN])
        return replace(self, count=self.count + other.count, rows=rows)


class Refused(DataError):  # noqa: N818 - named after what happens to the batch
    """A batch breaks a rule; `findings` has every broken rule."""

    def __init__(self, findings: Iterable[Finding]) -> None:
        self.findings = tuple(findings)
        super().__init__(" | ".join(map(str, self.findings)))
        self.kinds = tuple(one.kind for one in self.findings)

    def __reduce__(self) -> tuple[type[Refused], tuple[tuple[Finding, ...]]]:
        """Keep the findings when pickled, as errors of worker processes are."""
        return Refused, (self.findings,)


def merge_findings(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return one finding for each broken rule: counts added, the first rows kept."""
    merged: dict[tuple[str, str], Finding] = {}
    for one in findings:
        key = (one.column, one.rule)
        if key in merged:
            one = merged[key].merge(one)  # noqa: PLW2901 - the finding of all rows so far
        merged[key] = one
    return tuple(merged.values())


def in_lines(findings: Iterable[Finding], source: Source) -> list[Finding]:
    """Return findings that name the lines of the files, if the source knows them.

    Args:
        findings: of rows of the source.
        source: such as that of a text file of Vowpal Wabbit, which has lines that are not rows.

    >>> import pyarrow as pa
    >>> from piwo.sources.table import TableSource
    >>> in_lines([], TableSource(pa.table({"x": [1]})))
    []
    """
    findings = list(findings)
    lines: RowLines | None = getattr(source, "lines", None)
    if lines is None:
        return findings
    found = lines.of({row for one in findings for row in one.rows})
    named = []
    for one in findings:
        where = tuple(found[row] for row in one.rows if row in found)
        named.append(replace(one, lines=where))
    return named


class Findings:
    """The findings of one batch, as its columns are validated."""

    def __init__(self, rows: npt.NDArray[np.int64]) -> None:
        self.rows = rows
        self.noted: list[Finding] = []

    @property
    def fatal(self) -> list[Finding]:
        """The findings for which the batch is refused."""
        return [x for x in self.noted if x.fatal]

    def note(
        self,
        column: str,
        rule: str,
        advice: str,
        bad: npt.ArrayLike,
        fatal: bool = True,
        kind: str = "",
    ) -> bool:
        """Note the rows of a mask; return whether there were any."""
        places = np.flatnonzero(bad)
        if not len(places):
            return False
        shown = tuple(self.rows[places[:_SHOWN]].tolist())
        self.noted.append(Finding(column, rule, advice, len(places), shown, fatal, kind))
        return True
