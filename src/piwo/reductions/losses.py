"""A reduction of the losses 1 - R instead of the rewards R."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from piwo.logs.batch import Batch
from piwo.reductions.reduction import Reduction

__all__ = ["Losses"]


@dataclass(frozen=True)
class Losses(Reduction[Any]):
    """Reduction: another one, of rows with 1 - R in place of R; both then take one pass.

    >>> from piwo.reductions import Digest
    >>> Losses(Digest()).context
    False
    """

    of: Reduction[Any]

    @property
    def context(self) -> bool:
        """Whether the other reduction needs the context."""
        return self.of.context

    @property
    def propensities(self) -> bool:
        """Whether the other reduction needs full propensity vectors."""
        return self.of.propensities

    @property
    def labels(self) -> bool:
        """Whether the other reduction needs action codes."""
        return self.of.labels

    @property
    def placing(self) -> Literal["hash", "time"] | None:
        """By what the other reduction puts rows into blocks."""
        return self.of.placing

    def empty(self) -> Any:
        """Return the state of no rows."""
        return self.of.empty()

    def update(self, state: Any, batch: Batch) -> Any:
        """Return the state with the losses of a batch added."""
        return self.of.update(state, batch.losses())

    def merge(self, one: Any, other: Any) -> Any:
        """Return the state of both parts together."""
        return self.of.merge(one, other)
