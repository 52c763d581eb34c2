"""The engine: maps a reduction over the fragments of a log and folds the states. It knows no formula."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, TypeVar

from piwo.engines.checkpoint import Passed, current
from piwo.engines.cluster import in_cluster
from piwo.engines.settings import current_progress, mapping
from piwo.engines.task import Folded, Task
from piwo.engines.threads import on_threads
from piwo.errors import DataError
from piwo.logs.log import Log, warn_of
from piwo.logs.validation import Refused
from piwo.reductions.reduction import Reduction
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment, Streamed

__all__ = ["reduce"]

S = TypeVar("S")


def reduce(log: Log, reduction: Reduction[S]) -> S:
    """Return the state of a whole log: one pass, all cores, the same numbers however it is cut.

    Threads by default (the kernels release the interpreter lock); another mapper with `using`.
    States are folded in the order of the fragments, so a result does not depend on which worker was
    first.

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
    fragments = (
        []
        if isinstance(log.source, Cluster)
        else log.fragments(reduction.context, reduction.propensities)
    )
    kept = current()
    passed = (
        Passed(reduction.empty()) if kept is None else kept.begin(log, reduction, _cut(fragments))
    )
    if not passed.done:
        passed = _folded(log, reduction, fragments, passed)
    if passed.rows == 0:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    log.passed(passed.rows)
    warn_of(passed.findings)
    state: S = passed.state
    return state


def _folded(
    log: Log, reduction: Reduction[Any], fragments: list[Fragment], passed: Passed
) -> Passed:
    """Return a pass that is done, going on where it had come to."""
    kept = current()
    if not log.source.steady:  # what the first pieces held once says nothing of what they hold now
        passed = Passed(reduction.empty())
    try:
        with _states(log, reduction, fragments, passed) as parts:
            for part, findings, count in parts:
                passed = passed.plus(reduction.merge(passed.state, part), findings, count)
                if kept is not None:
                    kept.keep(passed)
    except Refused as refused:
        raise log.counted(refused) from None
    passed = replace(passed, done=True)
    if kept is not None:
        kept.keep(passed)
    return passed


def _cut(fragments: list[Fragment]) -> str:
    """Say how a log is cut: mappers get the fragments, threads the pieces of those that are streams."""
    streams = mapping() is None and any(isinstance(x, Streamed) for x in fragments)
    return f"{len(fragments)} {'streams' if streams else 'fragments'}"


def _states(
    log: Log, reduction: Reduction[Any], fragments: list[Fragment], passed: Passed
) -> AbstractContextManager[Iterable[Folded]]:
    """Give what the pieces after those that have passed sum to."""
    chosen, task = mapping(), Task(log.reader(reduction.labels, reduction.context), reduction)
    if isinstance(log.source, Cluster):
        return nullcontext([_clustered(log, log.source, task)])
    if chosen is not None:
        return nullcontext(chosen.map(task, fragments[passed.pieces :]))
    return on_threads(
        task, fragments, total=log.source.rows, pieces=passed.pieces, rows=passed.rows
    )


def _clustered(log: Log, source: Cluster, task: Task) -> Folded:
    reduction, tell = task.reduction, current_progress()
    found = in_cluster(
        source, log.wanted(reduction.context, reduction.propensities), reduction, task
    )
    if tell is not None:  # clusters have displays of their own while they work
        tell(found[2], None)
    return found
