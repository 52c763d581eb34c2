"""Tasks: what one pass over a source computes, fragment by fragment, on any engine."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from threading import Event
from typing import ClassVar, Generic, TypeVar

import pyarrow as pa

from piwo.engines.packed import packed, unpacked
from piwo.sources.source import Fragment

__all__ = ["Task", "fold_fragment"]

S = TypeVar("S")


class Task(ABC, Generic[S]):
    """One pass: the state of one fragment, and how states merge. Picklable, for other processes.

    Merging is associative, and the state of no rows is its identity.
    """

    resumable: ClassVar[bool] = True
    """Whether a checkpoint may keep its states; no if they refer to files that will be gone."""

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


def fold_fragment(
    task: Task[S],
    fragment: Fragment,
    stop: Event | None = None,
    report: Callable[[int], None] | None = None,
) -> tuple[S, int]:
    """Return the state of one fragment and the number of rows that were read: one worker's share.

    Args:
        task: the pass.
        fragment: the rows.
        stop: ends the work between two record batches once it is set.
        report: called with the number of rows of each record batch once they are done.
    """
    watched = _Watched(fragment, stop, report)
    return task.of_fragment(watched), watched.rows


@dataclass
class _Watched:
    """A fragment that counts and reports its rows as they are read, until `stop` is set."""

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
            # Reached when the next batch is asked for: these rows are done.
            if self.report is not None:
                self.report(record.num_rows)
