"""The content digest: equal if two logs hold the same decisions, in any order of rows."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo.engines.state import State, modular
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.logs.hashing import scramble
from piwo.reductions.reduction import Reduction
from piwo.reductions.row_sample import label_hashes

__all__ = ["Digest", "DigestState", "LoggerDigest"]


@dataclass(frozen=True)
class DigestState(State):
    """Number of rows, and the sum modulo 2^64 of one hash per row.

    >>> DigestState(1, 2**64 - 1).merge(DigestState(1, 2)).total
    1
    """

    rows: int = 0
    total: int = modular(default=0)

    @property
    def digest(self) -> str:
        """16 hexadecimal digits for these rows."""
        return hashlib.sha256(f"{self.rows}:{self.total}".encode()).hexdigest()[:16]

    def text(self, actions: Actions) -> str:
        """Return 16 hexadecimal digits for these rows and this action list."""
        labels = json.dumps([str(label) for label in actions])
        return hashlib.sha256(f"{self.rows}:{self.total}:{labels}".encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Digest(Reduction[DigestState]):
    """Reduction: digest of action, reward, propensity and sampling weight.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> piwo.reductions.reduce(log, Digest()).rows
    3
    """

    def empty(self) -> DigestState:
        """Return the state of no rows."""
        return DigestState()

    def update(self, state: DigestState, batch: Batch) -> DigestState:
        """Return the digest with a batch added."""
        # One hash per row, of its columns in turn. The sum does not depend on the order of rows.
        h = scramble(batch.action.astype(np.uint64))
        for column in (batch.reward, batch.propensity, batch.log_propensity, batch.weight):
            if column is not None:
                # + 0.0: -0.0 and 0.0 are the same number
                bits = (np.ascontiguousarray(column) + 0.0).view(np.uint64)
                h = scramble(h ^ bits)
        return state.merge(DigestState(len(batch), int(h.sum(dtype=np.uint64))))


@dataclass(frozen=True)
class LoggerDigest(Reduction[DigestState]):
    """Reduction: digest of action labels and propensities: of what the logger did.

    It depends neither on the order of rows nor on that of the action list, nor on which columns are
    the reward and the context. Propensities count to float32.

    Args:
        labels_of: the action list, in the order of its codes.

    >>> import piwo
    >>> logs = [
    ...     piwo.Log.from_arrays(
    ...         action=x, reward=[1, 0], propensity=[0.5, 0.25], actions=["a", "b"]
    ...     )
    ...     for x in (["a", "b"], ["b", "a"])
    ... ]
    >>> len({piwo.reductions.reduce(log, LoggerDigest(("a", "b"))).digest for log in logs})
    2
    """

    labels_of: Sequence[Any]

    def empty(self) -> DigestState:
        """Return the state of no rows."""
        return DigestState()

    def update(self, state: DigestState, batch: Batch) -> DigestState:
        """Return the digest with a batch added."""
        # One hash per row, of its label, then of its propensity; the sum depends on no order.
        h = label_hashes(self.labels_of)[batch.action]
        bits = batch.propensity.astype(np.float32).view(np.uint32).astype(np.uint64)
        if batch.log_propensity is not None:
            # a propensity may underflow
            bits = batch.log_propensity.astype(np.float32).view(np.uint32).astype(np.uint64)
        h = scramble(h ^ bits)
        return state.merge(DigestState(len(batch), int(h.sum(dtype=np.uint64))))
