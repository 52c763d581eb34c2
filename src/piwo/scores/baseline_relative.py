"""Baseline-relative gains: the improvement over the logging policy, rather than the value."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import DenseBetScore
from piwo.scores.ratio import vectors_of

__all__ = ["BaselineRelative"]


@dataclass(frozen=True)
class BaselineRelative(DenseBetScore):
    """Smoothed gains over the logging policy: safe policy improvement for rewards in [0, 1].

    Answers: which policy is certainly better than the one that wrote the log? Its maximum is the
    policy with the highest lower bound on v(pi) - v(mu); with other scores it is the policy with
    the highest lower bound on v(pi). A policy that follows the logger where little is known loses
    nothing by that. Needs full propensity vectors, and an oracle that takes dense gains (ridge,
    exhaustive).

    Formula: G[t, a] = log(1 + lam Y_t(a)) / lam, Y_t(a) = 1{A_t = a} (1 - mu_a) R_t / mu_a + 1{A_t
    != a} (1 - R_t) + mu_a; E Y(a) = r(X, a) - v(mu|X) + 1. With g the mean of sum_a pi(a|X_t) G[t,
    a], v(pi) - v(mu) >= (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - 1 with probability 1 - delta,
    for all policies of a class at once.
    Source: docs/theory.md, section "Learning what is better than the logger".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(
    ...     0,
    ...     np.zeros(1, np.int32),
    ...     np.ones(1),
    ...     np.array([0.5]),
    ...     propensities=np.array([[0.5, 0.5]]),
    ... )
    >>> np.expm1(BaselineRelative(1.0).dense_gains(batch).table).round(12).tolist()
    [[1.5, 0.5]]
    """

    name: ClassVar[str] = "baseline"
    label: ClassVar[str] = "baseline-relative"
    relative: ClassVar[bool] = True
    needs_upper_end: ClassVar[bool] = True

    @property
    def shift(self) -> float:
        """1."""
        return 1.0

    def parts(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        """Return 1 - R_t + mu_a, (n, K), and mu_a and (1 - mu_a) R_t of the logged actions.

        Raises:
            UsageError: if the log has no full vectors.
        """
        mu, mu_a = vectors_of(batch, self.label), batch.propensity
        # a != A_t: Y(a) = 1 - R + mu_a
        others = (1.0 - batch.reward)[:, None] + mu
        # a = A_t: Y(a) = mu_a + (1 - mu_a) R / mu_a
        return others, mu_a, (1.0 - mu_a) * batch.reward
