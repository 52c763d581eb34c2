"""Tasks: what one pass over a source computes, a fragment at a time, whichever engine runs it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import Generic, TypeVar

import pyarrow as pa

from piwo.engines.packed import packed, unpacked
from piwo.sources.source import Fragment

__all__ = ["Task", "Worker"]

S = TypeVar("S")


class Task(ABC, Generic[S]):
    """One pass: the state of one fragment, and how states merge. Picklable, for other processes.

    Merging is associative, and the state of no rows is its identity.
    """

    @abstractmethod
    def empty(self) -> S:
        """Return the state of no rows."""

    @abstractmethod
    def of_fragment(self, fragment: Fragment) -> S:
        """Return the state of one fragment."""

    def merge(self, one: S, other: S) -> S:
        """Return the state of both parts together."""
        merged: S = one.merge(other)  # type: ignore[attr-defined]
        return merged

    def settled(self, state: S) -> bool:  # noqa: ARG002 (most tasks need every row)
        """Whether more rows would change nothing; the pass ends there."""
        return False

    def to_bytes(self, state: S) -> bytes:
        """Return a state as bytes, for other machines and for checkpoints."""
        return packed(state)

    def from_bytes(self, data: bytes) -> S:
        """Return the state that `to_bytes` wrote."""
        state: S = unpacked(data)
        return state


@dataclass(frozen=True)
class Worker(Generic[S]):
    """What one worker does with one fragment: the task, with the number of rows that it read.

    Args:
        task: the pass.
        stop: ends the work between two record batches when it is set.
        report: called with the rows of each record batch once they are done.
    """

    task: Task[S]
    stop: Event | None = None
    report: Callable[[int], None] | None = None

    def __call__(self, fragment: Fragment) -> tuple[S, int]:
        """Return the state of a fragment and the number of its rows."""
        watched = _Watched(fragment, self.stop, self.report)
        return self.task.of_fragment(watched), watched.rows


@dataclass
class _Watched:
    """A fragment whose rows are counted and reported as they are read, until `stop` is set."""

    fragment: Fragment
    stop: Event | None
    report: Callable[[int], None] | None
    rows: int = 0

    @property
    def start(self) -> int:
        """The row number of its first row."""
        return self.fragment.start

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows as Arrow batches."""
        for record in self.fragment.records():
            if self.stop is not None and self.stop.is_set():
                return
            self.rows += record.num_rows
            yield record
            # reached when the next batch is asked for: these rows are done
            if self.report is not None:
                self.report(record.num_rows)
