"""The engine: maps a task over the fragments of a source and merges the states in order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from piwo.checks import shown
from piwo.engines.checkpoint import Checkpoint, Passed, current
from piwo.engines.cluster import in_cluster
from piwo.engines.settings import Mapper, mapping
from piwo.engines.task import Task, fold_fragment
from piwo.engines.threads import on_threads
from piwo.errors import PiwoError, UsageError
from piwo.sources.clusters import Cluster
from piwo.sources.source import Fragment, Source, Streamed

__all__ = ["fold"]

S = TypeVar("S")


def fold(source: Source, columns: Sequence[str], task: Task[S]) -> S:
    """Return the state of a task over all rows of a source: one pass, on the engine that applies.

    A pass runs on threads by default, on another mapper inside `using`, and in the cluster if the
    rows are in one. States are merged in the order of the fragments, so the result does not depend
    on which worker finished first. Every pass over a log is one call of this function.

    Args:
        source: the rows.
        columns: names of the columns to read.
        task: what to compute.

    Returns:
        The merged state.

    Raises:
        PiwoError: the error of a fragment; of several, that of the first fragment.

    >>> import piwo
    >>> class Rows(Task[int]):
    ...     def empty(self):
    ...         return 0
    ...
    ...     def of_fragment(self, fragment):
    ...         return sum(record.num_rows for record in fragment.records())
    ...
    ...     def merge(self, one, other):
    ...         return one + other
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
    >>> fold(log.source, ["action"], Rows())
    2
    """
    if isinstance(source, Cluster):
        if current() is not None:
            # This raises: a cluster repeats failed work itself and takes no checkpoint.
            source.source_id()
        return in_cluster(source, columns, task)
    fragments = source.fragments(columns)
    kept = current() if task.resumable else None
    if kept is None:
        return _finished(source, task, fragments, Passed(task.empty()), None).state
    passed = kept.begin(source, columns, task, _cut(fragments))
    if passed.done:
        return passed.state
    if not source.steady:
        # The first rows may differ from those of the interrupted pass.
        passed = replace(passed, state=task.empty(), rows=0, pieces=0)
    return _finished(source, task, fragments, passed, kept).state


def _finished(
    source: Source,
    task: Task[S],
    fragments: list[Fragment],
    passed: Passed[S],
    kept: Checkpoint | None,
) -> Passed[S]:
    """Return the completed pass, continued after the pieces that are merged already."""
    mapper = mapping()
    if not task.settled(passed.state):
        states: AbstractContextManager[Iterable[tuple[S, int]]]
        if mapper is None:
            pieces, rows = passed.pieces, passed.rows
            states = on_threads(task, fragments, total=source.rows, pieces=pieces, rows=rows)
        else:
            states = nullcontext(_mapped(mapper, task, fragments[passed.pieces :]))
        with states as parts:
            for part, rows in parts:
                state = task.merge(passed.state, part)
                done, pieces = passed.rows + rows, passed.pieces + 1
                passed = replace(passed, state=state, rows=done, pieces=pieces)
                if kept is not None:
                    kept.keep(passed)
                if task.settled(state):
                    break
    passed = replace(passed, done=True)
    if kept is not None:
        kept.keep(passed)
    return passed


def _mapped(mapper: Mapper, task: Task[S], fragments: list[Fragment]) -> Iterator[tuple[S, int]]:
    """Yield what a mapper returns, one result a fragment.

    Raises:
        UsageError: for anything else: rows would be lost, or counted twice.
    """
    count, name = 0, type(mapper).__name__
    expected = f"{len(fragments)} results of the function, one for each fragment, in order"
    found = mapper.map(partial(fold_fragment, task), fragments)
    if not isinstance(found, Iterable):
        raise UsageError(f"{name}.map gave {shown(found)}, expected {expected}")
    for one in _alive(found, name):
        count += 1
        if not (isinstance(one, tuple) and len(one) == 2) or count > len(fragments):
            received = f"{shown(one)} as result {count}"
            raise UsageError(f"{name}.map gave {received}, expected {expected}")
        yield one
    if count < len(fragments):
        raise UsageError(f"{name}.map gave {count} results, expected {expected}")


def _alive(found: Iterable[Any], name: str) -> Iterator[Any]:
    """Yield the results of a mapper; a worker that died is one line.

    Raises:
        PiwoError: if the mapper's processes ended before their work.
    """
    try:
        yield from found
    except BrokenExecutor as cause:
        raise PiwoError(
            f"a worker of {name} died ({cause}); give it more memory or fewer workers, and make "
            "the mapper anew"
        ) from None


def _cut(fragments: list[Fragment]) -> str:
    """Return how a source is cut: mappers get fragments, threads also the pieces of streams."""
    kind = "fragments"
    if mapping() is None and any(isinstance(x, Streamed) for x in fragments):
        kind = "streams"
    return f"{len(fragments)} {kind}"
