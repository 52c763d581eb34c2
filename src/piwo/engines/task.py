"""What one worker does with one fragment of a log, whichever engine gave it to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from typing import Any

from piwo.logs.log import Reader
from piwo.logs.validation import Finding
from piwo.reductions.reduction import Reduction
from piwo.sources.source import Fragment

__all__ = ["Folded", "Task"]

Folded = tuple[Any, list[Finding], int]
"""State, harmless findings and row count of one fragment."""


@dataclass(frozen=True)
class Task:
    """Folds the batches of one fragment."""

    reader: Reader
    reduction: Reduction[Any]
    stop: Event | None = None
    tell: Callable[[int], None] | None = None

    def __call__(self, fragment: Fragment) -> Folded:
        """Return what its rows sum to."""
        state, notes, rows = self.reduction.empty(), list[Finding](), 0
        for part in self.reader.read(fragment):
            if self.stop is not None and self.stop.is_set():
                break
            notes += part.findings
            rows += len(part.batch)
            if len(part.batch):
                state = self.reduction.update(state, part.batch)
            if self.tell is not None:
                self.tell(part.rows)
        return state, notes, rows
