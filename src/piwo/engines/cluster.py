"""The engine of logs whose rows lie in a cluster: sums travel as bytes, rows and stack traces do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.logs.clusters import Cluster
from piwo.logs.door import Finding, Refused, merge_findings
from piwo.logs.sources import Fragment
from piwo.reductions.packed import packed, unpacked
from piwo.reductions.reduction import Reduction

__all__ = ["in_cluster"]

Folded = tuple[Any, list[Finding], int]
_KINDS: dict[str, type[PiwoError]] = {kind.__name__: kind for kind in (DataError, FileError, UsageError)}


def in_cluster(
    source: Cluster, columns: Sequence[str], reduction: Reduction[Any], task: Callable[[Fragment], Folded]
) -> Folded:
    """Return the state of all partitions, their harmless findings and their rows.

    Args:
        source: maps and folds.
        columns: to read.
        reduction: how states merge.
        task: what is made of a partition, where it lies.

    Raises:
        PiwoError: what a partition raised; of several, the first partition's.
    """
    data = source.fold(columns, _One(task), _Merge(reduction))
    state, findings, rows, failure = unpacked(data)
    if failure is not None:
        _, kind, message, broken = failure
        raise _KINDS[kind](message) if kind in _KINDS else Refused(Finding(*x) for x in broken)
    return state, [Finding(*x) for x in findings], rows


@dataclass(frozen=True)
class _One:
    """Folds a partition. An error of the data is a result: the next attempt would meet the same rows."""

    task: Callable[[Fragment], Folded]

    def __call__(self, fragment: Fragment) -> bytes:
        from threadpoolctl import threadpool_limits

        try:
            with threadpool_limits(1, "blas"):  # the cluster's tasks are the parallelism
                state, findings, rows = self.task(fragment)
        except Refused as cause:
            return packed((None, (), 0, (fragment.start, "", "", tuple(map(astuple, cause.findings)))))
        except PiwoError as cause:
            kind = next((x for x in _KINDS if isinstance(cause, _KINDS[x])), "DataError")
            return packed((None, (), 0, (fragment.start, kind, str(cause), ())))
        return packed((state, tuple(map(astuple, merge_findings(findings))), rows, None))


@dataclass(frozen=True)
class _Merge:
    """Merges what partitions were made into, one after the other: two states are held at a time."""

    reduction: Reduction[Any]

    def __call__(self, parts: Iterable[bytes]) -> bytes:
        state, findings, rows, failures = self.reduction.empty(), list[Finding](), 0, list[Any]()
        for part in parts:
            other, found, count, failure = unpacked(part)
            if failure is not None:
                failures.append(failure)
                continue
            state, rows = self.reduction.merge(state, other), rows + count
            findings += [Finding(*x) for x in found]
        if failures:
            return packed((None, (), 0, min(failures)))
        return packed((state, tuple(map(astuple, merge_findings(findings))), rows, None))
