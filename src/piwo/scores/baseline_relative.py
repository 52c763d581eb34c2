"""Baseline-relative gains: what a policy improves on the logging policy, rather than what it earns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.scores.ratio import log1p_ratio, vectors_of
from piwo.scores.score import DenseGains, Parameter, Score

__all__ = ["BaselineRelative"]


@dataclass(frozen=True)
class BaselineRelative(Score):
    """Smoothed gains over the logging policy, for rewards in [0, 1]: safe policy improvement for any oracle.

    Answers: which policy is surely better than the one that wrote the log? Its maximum is the policy with the highest
    lower bound on v(pi) - v(mu), where other scores have the highest lower bound on v(pi). A policy that plays as the
    logger does where little is known loses nothing by it. Needs full propensity vectors, and an oracle that takes
    dense gains (ridge, exhaustive).

    Formula: G[t, a] = log(1 + lam Y_t(a)) / lam,
    Y_t(a) = 1{A_t = a} (1 - mu_a) R_t / mu_a + 1{A_t != a} (1 - R_t) + mu_a;
    E Y(a) = r(X, a) - v(mu|X) + 1. With g the mean of sum_a pi(a|X_t) G[t, a] and all policies of a class,
    v(pi) - v(mu) >= (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - 1 with probability 1 - delta.
    Source: docs/theory.md, section "Learning what is better than the logger".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).

    >>> import numpy as np
    >>> batch = Batch(0, np.zeros(1, np.int32), np.ones(1), np.array([0.5]), propensities=np.array([[0.5, 0.5]]))
    >>> np.expm1(BaselineRelative(1.0).dense_gains(batch).table).round(12).tolist()
    [[1.5, 0.5]]
    """

    lam: Parameter = "auto"
    name: ClassVar[str] = "baseline"
    label: ClassVar[str] = "baseline-relative"
    parameter: ClassVar[str | None] = "lam"
    per_gamma: ClassVar[float] = 2.0
    of_gamma: ClassVar[str] = "2 {}"
    auto_finite: ClassVar[str] = "the theory for a finite class"
    relative: ClassVar[bool] = True

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return 0, (n, S): all that a row is worth is in the dense gains."""
        return np.zeros((len(batch), len(parameters)))

    @property
    def admissible(self) -> bool:
        """Return True: its mean bounds the improvement."""
        return True

    @property
    def dense_weight(self) -> float:
        """Return 1."""
        return 1.0

    @property
    def shift(self) -> float:
        """Return 1."""
        return 1.0

    def dense_gains(self, batch: Batch) -> DenseGains:
        """Return log(1 + lam Y_t(a)) / lam, (n, K), finite for every positive propensity.

        Raises:
            UsageError: where the log has no full vectors.
        """
        lam, mu = self.number, vectors_of(batch, self.label)
        rows, mu_a = np.arange(len(batch)), batch.propensity
        gains = np.log1p(lam * ((1.0 - batch.reward)[:, None] + mu)) / lam
        # log(1 + lam (mu + (1 - mu) R/mu)) = log(1 + lam mu) + log(1 + lam (1 - mu) R/(1 + lam mu)/mu)
        smaller = (1.0 - mu_a) * batch.reward / (1.0 + lam * mu_a)
        gains[rows, batch.action] = (np.log1p(lam * mu_a) + log1p_ratio(np.array([lam]), smaller, batch)[:, 0]) / lam
        return DenseGains(gains, np.zeros(mu.shape[1]))
