"""Exact coverage of a policy by a logger, if all probabilities and rewards are known."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from piwo.checks import is_number, shown
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.messages import argument
from piwo.scores.ratio import over

__all__ = ["Coverage", "coverage_of"]


@dataclass(frozen=True)
class Coverage:
    """How well a logger covers the actions of a policy.

    >>> known = coverage_of(
    ...     np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([[1.0, 0.5]]), 0.25
    ... )
    >>> known.coverage, known.reward_free, known.missing_value, known.missing_mass
    (1.4, 2.4, 0.25, 0.5)
    """

    gamma: float
    coverage: float
    """C_gamma = E sum_a pi(a|X) r(X, a)/(mu(a|X) + gamma), used in regret bounds, <= 1/gamma."""
    reward_free: float
    """E sum_a pi(a|X)/(mu(a|X) + gamma): at least `coverage`; C(pi) at gamma = 0. Infinite if gamma
    is 0 and the logger never takes an action of the policy."""
    missing_value: float
    """The part of the policy's value from actions that the logger never takes."""
    missing_mass: float
    """The probability that the policy takes such actions."""


def coverage_of(chances: Floats, logged: Floats, rewards: Floats, gamma: float) -> Coverage:
    """Return the coverage on n equally likely contexts.

    Args:
        chances: (n, K) pi(a|x).
        logged: (n, K) mu(a|x).
        rewards: (n, K) mean rewards r(x, a) in [0, 1].
        gamma: at least 0.

    Raises:
        UsageError: for a gamma below 0.

    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Sections 3 and 4.
    """
    if not (is_number(gamma) and 0.0 <= gamma < np.inf):
        raise UsageError(
            f"{argument('gamma')} is {shown(gamma)}, expected a finite number of at least 0"
        )
    # C_gamma = (1/n) sum_t sum_a pi_a r_a / (mu_a + gamma); with r = 1 it is reward-free
    tried = (logged + gamma).ravel()
    n, missing = len(chances), logged == 0.0
    return Coverage(
        gamma=gamma,
        coverage=float(over((chances * rewards).ravel(), tried).sum()) / n,
        reward_free=float(over(chances.ravel(), tried).sum()) / n,
        missing_value=float((chances * rewards)[missing].sum()) / n,
        missing_mass=float(chances[missing].sum()) / n,
    )
