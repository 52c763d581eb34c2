"""Coverage of a policy by a logger, exactly, where everything is known."""

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
    """How well a logger tries what a policy plays.

    >>> known = coverage_of(
    ...     np.array([[0.5, 0.5]]), np.array([[1.0, 0.0]]), np.array([[1.0, 0.5]]), 0.25
    ... )
    >>> known.coverage, known.reward_free, known.missing_value, known.missing_mass
    (1.4, 2.4, 0.25, 0.5)
    """

    gamma: float
    coverage: float
    """C_gamma = E sum_a pi(a|X) r(X, a)/(mu(a|X) + gamma), what regret bounds ask for; at most
    1/gamma."""
    reward_free: float
    """E sum_a pi(a|X)/(mu(a|X) + gamma): above it whatever the rewards; C(pi) at gamma = 0.
    Infinite where gamma is 0 and the logger never takes what the policy plays."""
    missing_value: float
    """What the policy earns where the logger never goes."""
    missing_mass: float
    """How often it goes there."""


def coverage_of(chances: Floats, logged: Floats, rewards: Floats, gamma: float) -> Coverage:
    """Return the coverage on n contexts, each as likely as the others.

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
    tried = (logged + gamma).ravel()
    n, missing = len(chances), logged == 0.0
    return Coverage(
        gamma=gamma,
        coverage=float(over((chances * rewards).ravel(), tried).sum()) / n,
        reward_free=float(over(chances.ravel(), tried).sum()) / n,
        missing_value=float((chances * rewards)[missing].sum()) / n,
        missing_mass=float(chances[missing].sum()) / n,
    )
