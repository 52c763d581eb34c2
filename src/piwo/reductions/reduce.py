"""One pass over a log: a reduction as a task that any engine runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeVar

from piwo.engines.engine import fold
from piwo.engines.state import State
from piwo.engines.task import Task
from piwo.errors import DataError
from piwo.logs.findings import Finding, Refused, merge_findings
from piwo.logs.first_pass import validated, with_unread
from piwo.logs.log import Log
from piwo.logs.reader import Reader, warn_of
from piwo.reductions.reduction import Reduction
from piwo.sources.source import Fragment

__all__ = ["reduce"]

S = TypeVar("S")


def reduce(log: Log, reduction: Reduction[S]) -> S:
    """Return the state of a whole log: one pass, all cores, the same numbers however it is cut.

    Threads by default (the kernels release the interpreter lock); another mapper with `using`.

    Args:
        log: the rows.
        reduction: what to sum.

    Raises:
        DataError: for rows that break a rule, for a log without rows, and for one that has another
            number of rows than at an earlier pass.

    >>> from piwo.reductions import Digest
    >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
    >>> reduce(log, Digest()).rows
    2
    """
    wanted = log.wanted(reduction.context, reduction.propensities, reduction.placing)
    reader = log.reader(reduction.labels, reduction.context)
    found = fold(log.source_by_unit, with_unread(log, wanted), _Sum(reader, reduction))
    if found.refused:
        raise log.counted(Refused(found.refused))
    if found.rows == 0:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    if found.count < 2 and log.columns.unit is not None:
        raise DataError(
            f"all {found.rows:,} rows of {log.name} have one value of the unit column "
            f"{log.columns.unit!r}, expected at least two units; name the column whose values "
            "do not depend on each other"
        )
    log.passed(found.rows)
    validated(log)
    warn_of(found.findings)
    state: S = found.state
    return state


@dataclass(frozen=True)
class _Summed(State):
    """What a reduction made of some rows, and what validation found in them."""

    state: Any
    rows: int = 0
    count: int = 0
    """Independent observations: rows, or units."""
    findings: tuple[Finding, ...] = ()
    """Harmless ones."""
    refused: tuple[Finding, ...] = ()
    """Why the pass ended: rows break a rule."""


@dataclass(frozen=True)
class _Sum(Task[_Summed]):
    """Task: a reduction of the validated batches."""

    reader: Reader
    reduction: Reduction[Any]

    def empty(self) -> _Summed:
        """Return the state of no rows."""
        return _Summed(self.reduction.empty())

    def of_fragment(self, fragment: Fragment) -> _Summed:
        """Return what the rows of a fragment sum to."""
        state, rows, count, findings = self.reduction.empty(), 0, 0, list[Finding]()
        try:
            for batch, found in self.reader.read(fragment):
                findings += found
                rows += len(batch)
                count += batch.count
                if len(batch):
                    state = self.reduction.update(state, batch)
        except Refused as refused:
            return _Summed(self.reduction.empty(), refused=refused.findings)
        return _Summed(state, rows, count, merge_findings(findings))

    def merge(self, one: _Summed, other: _Summed) -> _Summed:
        """Return the sums of both parts; the first refusal stays."""
        return _Summed(
            self.reduction.merge(one.state, other.state),
            one.rows + other.rows,
            one.count + other.count,
            merge_findings((*one.findings, *other.findings)),
            one.refused or other.refused,
        )

    def settled(self, state: _Summed) -> bool:
        """Whether the pass has met rows that break a rule."""
        return bool(state.refused)
