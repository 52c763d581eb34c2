"""How many actions rows could choose from, and what the propensities say of each number."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.engines.state import State
from piwo.logs.batch import Batch, Floats
from piwo.reductions.reduction import Reduction
from piwo.scores.ratio import over_propensity

__all__ = ["SetSizes", "SizeState"]

_BINS = 32
"""Powers of two, more than any list has."""


@dataclass(frozen=True)
class SizeState(State):
    """Sums by number of eligible actions, in bins [2^i, 2^(i+1)), each (32,).

    >>> SetSizes().empty().rows.sum()
    np.float64(0.0)
    """

    rows: Floats
    actions: Floats
    """sum of the numbers of eligible actions."""
    reward: Floats
    weight: Floats
    """sum of the weights of the uniform policy, 1 / (|E| mu), whose expectation is 1 in each bin if
    every eligible action has a propensity above 0."""
    weight2: Floats


@dataclass(frozen=True)
class SetSizes(Reduction[SizeState]):
    """Reduction: rows, rewards and weights of the uniform policy by number of eligible actions.

    A propensity that was computed over other candidates than those that are listed shows here.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"],
    ...     reward=[1, 0],
    ...     propensity=[0.5, 1.0],
    ...     eligible=[["a", "b"], ["b"]],
    ... )
    >>> piwo.reductions.reduce(log, SetSizes()).weight[:2].tolist()
    [1.0, 1.0]
    """

    def empty(self) -> SizeState:
        """Return the state of no rows."""
        return SizeState(*(np.zeros(_BINS) for _ in range(5)))

    def update(self, state: SizeState, batch: Batch) -> SizeState:
        """Return the sums with a batch added."""
        assert batch.eligible is not None
        sizes = batch.eligible.sizes.astype(np.float64)
        # The exponent e of size = m 2^e, with m from 1/2 to 1, less one.
        bins = np.frexp(sizes)[1] - 1
        # pi / mu with pi = 1 / |E|
        weight = over_propensity(1.0 / sizes, batch)

        def by_bin(values: Floats) -> Floats:
            return np.bincount(bins, values, minlength=_BINS).astype(np.float64, copy=False)

        with np.errstate(over="ignore"):
            squares = weight * weight
        sums = (np.ones(len(sizes)), sizes, batch.reward, weight, squares)
        return state.merge(SizeState(*map(by_bin, sums)))
