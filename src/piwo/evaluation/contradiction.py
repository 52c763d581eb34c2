"""Rows that contradict what they claim: the one rule by which no bound is given then, for all that gives bounds.

The evidence is about the log, not about a policy: where the weights of one policy contradict the
propensities, or a bound of one is outside of what rewards can be, no bound of the same call is
believed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo import bounds
from piwo.evaluation.record import SUSPICIOUS, ends_text
from piwo.reductions import PolicyState
from piwo.visible import p_value

__all__ = ["Claim", "contradiction", "impossible", "union_penalty", "weight_p"]


@dataclass(frozen=True)
class Claim:
    """What the formulas say of one policy, before it is known whether the rows can be believed; on the unit scale.

    >>> Claim(bounds.Interval(0.2, 0.9)).gain is None
    True
    """

    raw: bounds.Interval
    gain: float | None = None
    """Lower bound on an improvement; None where there is none."""


def weight_p(state: PolicyState, paid: float) -> float:
    """Return the p-value of "the propensities are not too small", by the weights of one policy: E w <= 1.

    Args:
        state: of that policy, which is one of several, baselines included.
        paid: log of what it pays for being one of them.

    >>> weight_p(PolicyState(), 0.0)
    1.0
    """
    return math.exp(
        min(0.0, paid - bounds.propensity_e_test(state.bets.weight, state.moments.rows).log_e_value)
    )


def union_penalty(paid: float, others: int) -> float:
    """Return log(e^paid + others): what each test pays where `others` policies are tested beside those that paid.

    >>> round(union_penalty(math.log(4), 1), 4) == round(math.log(5), 4), union_penalty(0.5, 0)
    (True, 0.5)
    """
    return float(np.logaddexp(paid, math.log(others))) if others else paid


def contradiction(
    weights: Mapping[Any, float], claims: Mapping[Any, Claim], reward_range: tuple[float, float]
) -> str | None:
    """Return why no bound of a call can be believed; None where nothing speaks against its rows.

    Either the weights of one policy reject the propensities at `SUSPICIOUS`, or a bound of one is
    outside of what rewards can be, by chance at most as often as a bound is wrong.

    Args:
        weights: policy -> p-value by its weights, see `weight_p`; baselines too.
        claims: policy -> what the formulas say of it.
        reward_range: of the log.

    >>> sound, range_ = Claim(bounds.Interval(0.2, 0.9), 0.1), (0.0, 1.0)
    >>> contradiction({"a": 1.0}, {"a": sound}, range_) is None
    True
    >>> contradiction({"a": 1.0, "b": 1e-9}, {"a": sound}, range_)
    'the logged propensities are too small for how often actions were taken (p = 1e-09, by the weights of b)...'
    >>> contradiction({"a": 0.5}, {"a": Claim(bounds.Interval(1.5, None))}, range_)
    'at this delta the log contradicts its own propensities or its reward range (raw ends [1.5, no upper end])'
    """
    suspect = min(weights, key=lambda key: weights[key], default=None)
    if suspect is not None and weights[suspect] < SUSPICIOUS:
        told = f"{p_value(weights[suspect])}{_whose(suspect, weights, 'by the weights of ')}"
        # E w <= 1 supposes that policies were fixed beforehand: one that follows the actions of the
        # rows fails it, too
        return f"the logged propensities are too small for how often actions were taken ({told}){_OR_LEARNED}"
    low, high = reward_range
    most, span = (1.0, high - low) if math.isfinite(high) else (math.inf, 1.0)
    for key, claim in claims.items():
        if claim.raw.contradicts(most):
            ends = ends_text(
                *(None if x is None else low + span * x for x in (claim.raw.lower, claim.raw.upper))
            )
            return impossible(f"raw ends {ends}{_whose(key, claims, 'of ')}")
        if claim.gain is not None and claim.gain > 1.0:
            return impossible(
                f"an improvement of at least {span * claim.gain:.4g}{_whose(key, claims, 'of ')}"
            )
    return None


_OR_LEARNED = ", or a policy was learned from these very rows"


def impossible(what: str) -> str:
    """Say that a bound is outside of what it can be.

    >>> impossible("a coverage below 0")
    'at this delta the log contradicts its own propensities or its reward range (a coverage below 0)'
    """
    return f"at this delta the log contradicts its own propensities or its reward range ({what})"


def _whose(key: Any, among: Mapping[Any, Any], words: str) -> str:
    """Return which of several policies it is, where they have names."""
    name = " ".join(key) if isinstance(key, tuple) and all(isinstance(x, str) for x in key) else key
    return f", {words}{name}" if len(among) > 1 and isinstance(name, str) else ""
