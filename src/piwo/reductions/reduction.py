"""Reductions: how a log becomes a small state, in one pass, in parts, anywhere."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeVar

from piwo.logs.batch import Batch
from piwo.reductions.blocks import Partition

__all__ = ["Joint", "Reduction"]

S = TypeVar("S")


class Reduction(ABC, Generic[S]):
    """Folds batches into a state, and says what batches must carry for that.

    Laws (tests/reductions/test_laws.py): `merge` is associative and commutative, `empty()` is its
    identity, and splitting the rows anywhere gives the same state, all to 1e-12 relative.
    """

    @property
    def context(self) -> bool:
        """Whether batches must carry the context."""
        return False

    @property
    def propensities(self) -> bool:
        """Whether batches must carry full propensity vectors."""
        return False

    @property
    def labels(self) -> bool:
        """Whether batches must carry action codes, for which the action list must be known."""
        return True

    partition: Partition | None = None
    """Into blocks of rows, by which sums are kept as well; None: there are no blocks."""

    @property
    def placing(self) -> Literal["hash", "time"] | None:
        """By what rows are put into blocks; None: there are no blocks."""
        if self.partition is None:
            return None
        return self.partition.by

    @abstractmethod
    def empty(self) -> S:
        """Return the state of no rows."""

    @abstractmethod
    def update(self, state: S, batch: Batch) -> S:
        """Return the state with the rows of a batch added."""

    def merge(self, one: S, other: S) -> S:
        """Return the state of both parts together."""
        merged: S = one.merge(other)  # type: ignore[attr-defined]
        return merged


@dataclass(frozen=True)
class Joint(Reduction[tuple[Any, ...]]):
    """Several reductions in one pass; the state is the tuple of theirs.

    >>> Joint(()).empty()
    ()
    """

    parts: tuple[Reduction[Any], ...]

    @property
    def context(self) -> bool:
        """Whether any part needs the context."""
        return any(part.context for part in self.parts)

    @property
    def propensities(self) -> bool:
        """Whether any part needs full propensity vectors."""
        return any(part.propensities for part in self.parts)

    @property
    def labels(self) -> bool:
        """Whether any part needs action codes."""
        return any(part.labels for part in self.parts)

    @property
    def placing(self) -> Literal["hash", "time"] | None:
        """By what rows are put into blocks, the same for all parts that have blocks."""
        return next((part.placing for part in self.parts if part.placing is not None), None)

    def empty(self) -> tuple[Any, ...]:
        """Return the states of no rows."""
        return tuple(part.empty() for part in self.parts)

    def update(self, state: tuple[Any, ...], batch: Batch) -> tuple[Any, ...]:
        """Return the states with the rows of a batch added."""
        states = []
        for part, one in zip(self.parts, state, strict=True):
            states.append(part.update(one, batch))
        return tuple(states)

    def merge(self, one: tuple[Any, ...], other: tuple[Any, ...]) -> tuple[Any, ...]:
        """Return the merged states."""
        states = []
        for part, a, b in zip(self.parts, one, other, strict=True):
            states.append(part.merge(a, b))
        return tuple(states)
