"""The content digest: says whether two logs hold the same decisions, whatever the order of their rows."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.reductions.reduction import Reduction
from piwo.reductions.state import State

__all__ = ["Digest", "DigestState"]

_MASK = (1 << 64) - 1


@dataclass(frozen=True)
class DigestState(State):
    """Row count, and the sum modulo 2^64 of one hash a row.

    >>> DigestState(1, 2**64 - 1).merge(DigestState(1, 2)).total
    1
    """

    rows: int = 0
    total: int = 0

    def merge(self, other: DigestState) -> DigestState:
        """Return the digest of both parts together."""
        return DigestState(self.rows + other.rows, (self.total + other.total) & _MASK)

    def text(self, actions: Actions) -> str:
        """Return 16 hexadecimal digits for these rows and this action list."""
        labels = json.dumps([str(label) for label in actions])
        return hashlib.sha256(f"{self.rows}:{self.total}:{labels}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Digest(Reduction[DigestState]):
    """Reduction: digest of action, reward and propensity.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25])
    >>> piwo.engines.reduce(log, Digest()).rows
    3
    """

    def empty(self) -> DigestState:
        """Return the state of no rows."""
        return DigestState()

    def update(self, state: DigestState, batch: Batch) -> DigestState:
        """Return the digest with a batch added."""
        h = _mix(batch.action.astype(np.uint64))
        for column in (batch.reward, batch.propensity):
            h = _mix(h ^ (np.ascontiguousarray(column) + 0.0).view(np.uint64))  # + 0.0: -0.0 and 0.0 are one number
        return state.merge(DigestState(len(batch), int(h.sum(dtype=np.uint64))))


def _mix(x: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """Scramble 64-bit numbers (the finalizer of SplitMix64, Steele, Lea, Flood 2014)."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
