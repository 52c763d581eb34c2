"""What the propensities say of actions by their age: how long ago a log first listed them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State, largest
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import over_propensity

__all__ = ["AGES", "AgeState", "FirstSeen", "FirstSeenState", "ItemAges"]

AGES = (0.0, 0.01, 0.03, 0.1, 0.3)
"""Where the bins of ages begin, as shares of the rows of the log."""
_NEVER = np.iinfo(np.int64).min


@dataclass(frozen=True)
class FirstSeenState(State):
    """When each action was first eligible.

    >>> FirstSeen(2).empty().latest.shape
    (2,)
    """

    latest: npt.NDArray[np.int64] = largest()  # noqa: RUF009 (a field)
    """(K,) the largest of -t over the times t of rows that list the action."""


@dataclass(frozen=True)
class FirstSeen(Reduction[FirstSeenState]):
    """Reduction: when each action was first eligible.

    Args:
        actions: K.
    """

    actions: int

    @property
    def placing(self) -> Literal["time"]:
        """Rows come with their times."""
        return "time"

    def empty(self) -> FirstSeenState:
        """Return the state of no rows."""
        return FirstSeenState(np.full(self.actions, _NEVER))

    def update(self, state: FirstSeenState, batch: Batch) -> FirstSeenState:
        """Return the state with a batch added."""
        assert batch.eligible is not None
        assert batch.times is not None
        found = state.latest.copy()
        np.maximum.at(found, batch.eligible.codes, -batch.times[batch.eligible.rows])
        return FirstSeenState(found)


@dataclass(frozen=True)
class AgeState(State):
    """Sums by age of the action, each (5,), in the bins of `AGES`."""

    rows: Floats
    """Rows whose logged action has that age."""
    reward: Floats
    weight: Floats
    """sum of the weights of the uniform policy, 1 / (|E| mu), over these rows."""
    listed: Floats
    """sum over all rows of the share of eligible actions with that age: the expectation of `weight`
    if the propensities are right."""
    squares: Floats
    """sum over all rows of the squared difference of both."""


@dataclass(frozen=True)
class ItemAges(Reduction[AgeState]):
    """Reduction: rows, rewards and weights of the uniform policy by age of the action.

    The age of an action in a row is the share of the log's rows since the first one that lists it.
    Propensities that are wrong for new or for old items show here.

    Formula: with pi = 1/|E|, E[pi/mu 1{age(A) in b}] is the share of eligible actions with ages in
    b, in every context.

    Args:
        first: (K,) when each action was first eligible.
        times: sorted times of a sample of the rows.
    """

    first: npt.NDArray[np.int64]
    times: npt.NDArray[np.int64]

    @property
    def placing(self) -> Literal["time"]:
        """Rows come with their times."""
        return "time"

    def empty(self) -> AgeState:
        """Return the state of no rows."""
        return AgeState(*(np.zeros(len(AGES)) for _ in range(5)))

    def update(self, state: AgeState, batch: Batch) -> AgeState:
        """Return the sums with a batch added."""
        eligible, n = batch.eligible, len(batch)
        assert eligible is not None
        assert batch.times is not None
        # how many rows of the sample come before
        now = np.searchsorted(self.times, batch.times)
        born = np.searchsorted(self.times, self.first)
        ages = (now[eligible.rows] - born[eligible.codes]) / max(len(self.times), 1)
        bins = np.maximum(np.searchsorted(AGES, ages, side="right") - 1, 0)
        of_pairs = eligible.rows * len(AGES) + bins
        listed = np.bincount(of_pairs, minlength=n * len(AGES)).reshape(n, len(AGES))
        shares = listed / eligible.sizes[:, None]
        taken = np.zeros((n, len(AGES)))
        taken[np.arange(n), bins[eligible.places(batch.action)]] = 1.0
        weights = taken * over_propensity(1.0 / eligible.sizes, batch)[:, None]
        with np.errstate(over="ignore", invalid="ignore"):
            squares = ((weights - shares) ** 2).sum(axis=0)
        reward = batch.reward @ taken
        return state.merge(
            AgeState(taken.sum(axis=0), reward, weights.sum(axis=0), shares.sum(axis=0), squares)
        )
