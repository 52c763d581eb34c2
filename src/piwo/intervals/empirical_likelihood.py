"""Empirical likelihood, and the pairs (w, R) that it needs. Asymptotic, for comparison."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from piwo import bounds
from piwo.engines.state import State
from piwo.intervals.method import Evidence
from piwo.logs.batch import Batch, Floats
from piwo.reductions.policy_reduction import PolicyReduction

__all__ = ["PairState", "WeightPairs", "empirical_likelihood_ends"]


def empirical_likelihood_ends(evidence: Evidence) -> bounds.Interval:
    """Return `bounds.empirical_likelihood_interval` of the distinct pairs."""
    # all laws of (w, R) on [0, M] x [0, 1] with E w = 1, M the declared weight
    pairs: PairState = evidence.own[0]
    return bounds.empirical_likelihood_interval(
        pairs.w, pairs.reward, evidence.delta, count=pairs.count, largest=evidence.max_weight
    )


def _none() -> Floats:
    return np.empty(0)


@dataclass(frozen=True)
class PairState(State):
    """The distinct pairs in order, each (m,), and how often each occurs.

    There are few if logger and policy have few probabilities, otherwise up to one a row.

    >>> PairState().merge(PairState(np.array([2.0]), np.array([1.0]), np.array([3.0]))).count
    array([3.])
    """

    w: Floats = field(default_factory=_none)
    reward: Floats = field(default_factory=_none)
    count: Floats = field(default_factory=_none)

    def merge(self, other: PairState) -> PairState:
        """Return the pairs of both parts."""
        return _distinct(
            np.concatenate([self.w, other.w]),
            np.concatenate([self.reward, other.reward]),
            np.concatenate([self.count, other.count]),
        )


def _distinct(w: Floats, reward: Floats, count: Floats) -> PairState:
    """Return the pairs in order, each once."""
    # equal pairs become neighbors
    order = np.lexsort((reward, w))
    w, reward, count = w[order], reward[order], count[order]
    # whether a pair differs from the one before it
    first = np.ones(len(w), bool)
    first[1:] = (w[1:] != w[:-1]) | (reward[1:] != reward[:-1])
    at = np.flatnonzero(first)
    return PairState(w[at], reward[at], np.add.reduceat(count, at) if len(at) else count)


@dataclass(frozen=True)
class WeightPairs(PolicyReduction[PairState]):
    """Reduction: the pairs (w, R) of one policy, for a method that needs more than sums.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.5]
    ... )
    >>> piwo.reductions.reduce(log, WeightPairs(piwo.policies.Constant("a", log.actions))).w
    array([0., 2.])
    """

    def empty(self) -> PairState:
        """Return the state of no rows."""
        return PairState()

    def update(self, state: PairState, batch: Batch) -> PairState:
        """Return the state with the rows of a batch added."""
        w = self.weights(batch).w
        return state.merge(_distinct(w, batch.reward, np.ones(len(batch))))
