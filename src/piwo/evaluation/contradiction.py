"""Contradictions: evidence in the rows against their own propensities or reward range.

The evidence is about the log, not about a policy: if the weights of one policy contradict the
propensities, or a bound of one is outside of what rewards can be, no bound of the same request is
believed.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from piwo import bounds
from piwo.bounds import deadline
from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.evaluation.record import ends_text
from piwo.intervals.deadline import plain_bets
from piwo.messages import Note, argument
from piwo.reductions import PolicyState
from piwo.visible import number, p_value

__all__ = [
    "RawBounds",
    "beyond_range",
    "contradiction",
    "empty_ends",
    "impossible",
    "union_penalty",
    "weight_p",
]


@dataclass(frozen=True)
class RawBounds:
    """The bounds of one policy as the formulas give them, on the unit scale.

    >>> RawBounds(bounds.Interval(0.2, 0.9)).gain is None
    True
    """

    interval: bounds.Interval
    gain: float | None = None
    """Lower bound on an improvement; None if there is none."""


def weight_p(state: PolicyState, paid: float, planned: float | None = None) -> float:
    """Return the p-value of "the propensities are not too small" by the weights of one policy.

    Formula: E w <= 1 if they are not; min(1, e^paid / e-value) of the bets on w.

    Args:
        state: of that policy.
        paid: log of what it pays for being one of several, baselines included.
        planned: number of rows that bets on blocks are planned for; None: those of the log.

    >>> weight_p(PolicyState(), 0.0)
    1.0
    """
    if state.blocks.rows.any():
        log_e_value = _deadline(state, paid, planned)
    else:
        log_e_value = bounds.propensity_e_test(state.bets.weight, state.moments.rows).log_e_value
    return math.exp(min(0.0, paid - log_e_value))


def _deadline(state: PolicyState, paid: float, planned: float | None) -> float:
    """Return the log e-value against E w <= 1 of bets that aim at the level `SUSPICIOUS`."""
    level = paid - math.log(SUSPICIOUS)
    blocks, mixture = plain_bets(state, "weight", level, "universal")
    return deadline.deadline_log_e_value(blocks, mixture, 1.0, [level], planned=planned)


def union_penalty(paid: float, others: int) -> float:
    """Return log(e^paid + others): what each test pays if `others` more policies are tested.

    >>> round(union_penalty(math.log(4), 1), 4) == round(math.log(5), 4), union_penalty(0.5, 0)
    (True, 0.5)
    """
    if not others:
        return paid
    return float(np.logaddexp(paid, math.log(others)))


def contradiction(
    p_values: Mapping[Any, float],
    claimed: Mapping[Any, RawBounds],
    reward_range: tuple[float, float],
) -> Note | None:
    """Return why no bound of a request can be believed; None if nothing speaks against its rows.

    Either the weights of one policy reject the propensities at `SUSPICIOUS`, or a bound is outside
    of what rewards can be, which happens by chance at most as often as a bound is wrong.

    Args:
        p_values: policy -> p-value by its weights, see `weight_p`; baselines too.
        claimed: policy -> its bounds.
        reward_range: of the log.

    >>> sound, range_ = RawBounds(bounds.Interval(0.2, 0.9), 0.1), (0.0, 1.0)
    >>> contradiction({"a": 1.0}, {"a": sound}, range_) is None
    True
    >>> contradiction({"a": 1.0, "b": 1e-9}, {"a": sound}, range_)
    'the logged propensities are too small for how often actions were taken (p = 1e-09, by the ...'
    >>> contradiction({"a": 0.5}, {"a": RawBounds(bounds.Interval(1.5, None))}, range_)
    'at this delta the log contradicts ... (raw ends [1.5, no upper end])'
    """
    suspect = min(p_values, key=lambda key: p_values[key], default=None)
    if suspect is not None and p_values[suspect] < SUSPICIOUS:
        evidence = p_value(p_values[suspect])
        whose = _whose(suspect, p_values, "by the weights of ")
        # E w <= 1 holds for policies fixed beforehand. One that follows the actions of the rows
        # violates it, too.
        return Note(
            "the logged propensities are too small for how often actions were taken "
            f"({evidence}{whose}), or a policy was learned from these very rows",
            kind="contradicted",
        )
    low, high = reward_range
    most, span = 1.0, high - low
    if math.isinf(high):
        most, span = math.inf, 1.0
    for key, raw in claimed.items():
        whose = _whose(key, claimed, "of ")
        if raw.interval.contradicts(most):
            least, greatest = raw.interval.lower, raw.interval.upper
            if least is not None:
                least = low + span * least
            if greatest is not None:
                greatest = low + span * greatest
            ends = ends_text(least, greatest)
            return impossible(f"raw ends {ends}{whose}")
        if raw.gain is not None and raw.gain > 1.0:
            return impossible(f"an improvement of at least {span * raw.gain:.4g}{whose}")
    return None


def impossible(what: str) -> Note:
    """Return the note that a bound is outside of what it can be.

    >>> impossible("a coverage below 0")
    'at this delta the log contradicts its own ... or its reward range (a coverage below 0)'
    """
    return Note(
        f"at this delta the log contradicts its own propensities or its reward range ({what})",
        kind="contradicted",
    )


def empty_ends(
    interval: bounds.Interval, most: float, units: Callable[[float], float | None]
) -> str | None:
    """Return how an interval leaves out every possible value, in words; None if it does not.

    Args:
        interval: raw, on the unit scale.
        most: the highest possible value on the unit scale, the lowest being 0.
        units: a number of the unit scale -> in the reward's own unit.

    >>> empty_ends(bounds.Interval(1.06, 4.28), 1.0, lambda unit: 10.0 * unit)
    '[10.6, 42.8] lies above the highest possible value, 10'
    >>> empty_ends(bounds.Interval(0.6, 0.5), 1.0, lambda unit: unit)
    '[0.6, 0.5] has crossed ends'
    >>> empty_ends(bounds.Interval(0.9, 4.28), 1.0, lambda unit: unit) is None
    True
    """
    if not interval.empty(most):
        return None
    lower, upper = interval.lower, interval.upper
    ends = ends_text(
        None if lower is None else units(lower), None if upper is None else units(upper)
    )
    if lower is not None and lower > most:
        return f"{ends} lies above the highest possible value, {number(units(most))}"
    if upper is not None and upper < 0.0:
        return f"{ends} lies below the lowest possible value, {number(units(0.0))}"
    return f"{ends} has crossed ends"


def beyond_range(
    interval: bounds.Interval, method: str, most: float, units: Callable[[float], float | None]
) -> Note | None:
    """Return why an asymptotic interval is not given; None if some possible value is in it.

    This is no contradiction: right propensities and few rows for their weights can do it.

    Args:
        interval: raw, on the unit scale.
        method: its name.
        most: see `empty_ends`.
        units: likewise.

    >>> beyond_range(bounds.Interval(1.06, 4.28, "asymptotic"), "normal", 1.0, lambda unit: unit)
    "the normal interval [1.06, 4.28] lies above the highest possible value, 1: too few rows for it,
    or wrong propensities; use interval='auto'"
    """
    what = empty_ends(interval, most, units)
    if what is None:
        return None
    return Note(
        f"the {method} interval {what}: too few rows for it, or wrong propensities; "
        f"use {argument('interval', 'auto')}",
        kind="beyond-range",
    )


def _whose(key: Any, among: Mapping[Any, Any], words: str) -> str:
    """Return which of several policies it is, if they have names."""
    name = key
    if isinstance(key, tuple) and all(isinstance(x, str) for x in key):
        name = " ".join(key)
    if len(among) > 1 and isinstance(name, str):
        return f", {words}{name}"
    return ""
