"""The engine of logs whose rows lie in a cluster: sums travel as bytes, rows and stack traces do not."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from piwo.engines.task import Folded
from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.logs.validation import Finding, Refused, merge_findings
from piwo.reductions.packed import packed, unpacked
from piwo.reductions.reduction import Reduction
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment

__all__ = ["in_cluster"]

_KINDS: dict[str, type[PiwoError]] = {
    kind.__name__: kind for kind in (DataError, FileError, UsageError)
}


def in_cluster(
    source: Cluster,
    columns: Sequence[str],
    reduction: Reduction[Any],
    task: Callable[[Fragment], Folded],
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
    state, findings, rows, failure = unpacked(source.fold(columns, _One(task), _Merge(reduction)))
    if failure is not None:
        _, kind, message, broken = failure
        raise Refused(Finding(*x) for x in broken) if broken else _KINDS[kind](message)
    return state, [Finding(*x) for x in findings], rows


@dataclass(frozen=True)
class _One:
    """Folds a partition. An error of the data is a result: the next attempt would meet the same rows."""

    task: Callable[[Fragment], Folded]

    def __call__(self, fragment: Fragment) -> bytes:
        from threadpoolctl import threadpool_limits

        try:
            with threadpool_limits(1, "blas"):  # the cluster's tasks are the parallelism
                return _sent(*self.task(fragment))
        except PiwoError as cause:
            kind = next(
                (name for name, one in _KINDS.items() if isinstance(cause, one)), "DataError"
            )
            broken = tuple(map(astuple, cause.findings)) if isinstance(cause, Refused) else ()
            return _sent(failure=(fragment.start, kind, str(cause), broken))


@dataclass(frozen=True)
class _Merge:
    """Merges what partitions were made into, one after the other: two states are held at a time."""

    reduction: Reduction[Any]

    def __call__(self, parts: Iterable[bytes]) -> bytes:
        state, findings, rows, failures = self.reduction.empty(), list[Finding](), 0, list[Any]()
        for other, found, count, failure in map(unpacked, parts):
            if failure is not None:
                failures.append(failure)
                continue
            state, rows = self.reduction.merge(state, other), rows + count
            findings += [Finding(*x) for x in found]
        return _sent(failure=min(failures)) if failures else _sent(state, findings, rows)


def _sent(
    state: Any = None, findings: Iterable[Finding] = (), rows: int = 0, failure: Any = None
) -> bytes:
    return packed((state, tuple(map(astuple, merge_findings(findings))), rows, failure))
