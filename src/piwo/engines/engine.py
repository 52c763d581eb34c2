"""The engine: maps a task over the fragments of a source and merges the states."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TypeVar

from piwo.engines.checkpoint import Passed, current
from piwo.engines.cluster import in_cluster
from piwo.engines.settings import mapping
from piwo.engines.task import Task, Worker
from piwo.engines.threads import on_threads
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment, Source, Streamed

__all__ = ["fold"]

S = TypeVar("S")


def fold(source: Source, columns: Sequence[str], task: Task[S]) -> S:
    """Return what a task makes of all rows of a source: one pass, the same however it is cut.

    It runs on threads by default, on another mapper inside `using`, and in the cluster for rows
    that are in one. States are merged in the order of the fragments, so the result does not depend
    on which worker was first. Every pass of piwo over a log is one call of this function.

    Args:
        source: the rows.
        columns: names of the columns to read.
        task: what to compute.

    Returns:
        The merged state.

    Raises:
        PiwoError: what a fragment raised; of several, the first fragment's.
    """
    if isinstance(source, Cluster):
        if current() is not None:
            source.source_id()  # refuses: a cluster repeats what fails by itself
        return in_cluster(source, columns, task)
    fragments = source.fragments(columns)
    kept = current()
    if kept is None:
        return _finished(source, task, fragments, Passed(task.empty())).state
    passed = kept.begin(source, columns, task, _cut(fragments))
    if passed.done:
        return passed.state
    if not source.steady:  # its first rows may be other ones now: begin again
        passed = Passed(task.empty())
    return _finished(source, task, fragments, passed).state


def _finished(
    source: Source, task: Task[S], fragments: list[Fragment], passed: Passed[S]
) -> Passed[S]:
    """Return a pass that is done, going on from how far it had come."""
    kept = current()
    if not task.settled(passed.state):
        with _states(source, task, fragments, passed) as parts:
            for part, rows in parts:
                state = task.merge(passed.state, part)
                passed = Passed(state, passed.rows + rows, passed.pieces + 1)
                if kept is not None:
                    kept.keep(passed)
                if task.settled(state):
                    break
    passed = replace(passed, done=True)
    if kept is not None:
        kept.keep(passed)
    return passed


def _cut(fragments: list[Fragment]) -> str:
    """Return how a source is cut: mappers get fragments, threads also the pieces of streams."""
    streams = mapping() is None and any(isinstance(x, Streamed) for x in fragments)
    return f"{len(fragments)} {'streams' if streams else 'fragments'}"


def _states(
    source: Source, task: Task[S], fragments: list[Fragment], passed: Passed[S]
) -> AbstractContextManager[Iterable[tuple[S, int]]]:
    """Give the states of the pieces that follow those that have passed."""
    mapper = mapping()
    if mapper is not None:
        return nullcontext(mapper.map(Worker(task), fragments[passed.pieces :]))
    return on_threads(task, fragments, total=source.rows, pieces=passed.pieces, rows=passed.rows)
