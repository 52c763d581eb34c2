"""Normal distributions over the coefficients of linear policies, and how one is fitted to gains."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.engines.native_threads import native_threads
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.oracles.examples import Examples
from piwo.policies import LinearGreedy, LinearSoftmax
from piwo.policies.blocks import spread

__all__ = [
    "MOST_COEFFICIENT",
    "ExpectedGains",
    "NormalPosterior",
    "check_prior_scale",
    "fit_normal",
]

# Rows that share one stream of noise: the noise depends on the seed and on these, not on threads.
_ROWS = 2048
# Noise vectors a row; they average out over rows.
_SAMPLES = 4

MOST_COEFFICIENT = 1e100
"""Largest coefficient, and number of the context in the prior's coordinates: products of their
squares are finite."""
_LEAST_SCALE, _MOST_SCALE = 1e-50, 1e50


@dataclass(frozen=True)
class NormalPosterior:
    """Independent normal coefficients of linear policies: a prior, or a posterior.

    The score of action a is w_a'z + b_a in the coordinates z = (x - center)/width, with (w_a, b_a)
    normal.

    >>> NormalPosterior.about(np.zeros((2, 3)), 1.0).kl(NormalPosterior.about(np.ones((2, 3)), 1.0))
    3.0
    """

    mean: Floats
    """(K, d + 1), the intercept last."""
    scale: Floats
    """(K, d + 1) standard deviations."""
    center: Floats
    """(d,)"""
    width: Floats
    """(d,)"""

    @classmethod
    def about(
        cls, mean: Floats, scale: float, center: Floats | None = None, width: Floats | None = None
    ) -> Self:
        """Return N(mean, scale^2 I), by default in the coordinates of the raw context."""
        d = mean.shape[1] - 1
        if center is None:
            center = np.zeros(d)
        if width is None:
            width = np.ones(d)
        return cls(mean, np.full(mean.shape, float(scale)), center, width)

    def kl(self, prior: NormalPosterior) -> float:
        """Return KL(Q || P)."""
        return bounds.kl_divergence_normal(self.mean, self.scale, prior.mean, prior.scale)

    def draw(self, count: int, rng: np.random.Generator) -> Floats:
        """Return coefficients, (count, K, d + 1)."""
        return np.asarray(self.mean + self.scale * rng.standard_normal((count, *self.mean.shape)))

    def log_ratio(self, prior: NormalPosterior, drawn: Floats) -> Floats:
        """Return log dQ/dP at drawn coefficients, (count,)."""
        # log N(m, s^2) = -((x - m)/s)^2/2 - log s + const, the same constant for both
        mine, theirs = (drawn - self.mean) / self.scale, (drawn - prior.mean) / prior.scale
        each = (theirs * theirs - mine * mine) / 2.0 + np.log(prior.scale) - np.log(self.scale)
        return np.asarray(each.sum(axis=(1, 2)))

    def policies(
        self, drawn: Floats, actions: Actions, features: Features | None, greedy: bool
    ) -> list[LinearGreedy | LinearSoftmax]:
        """Return one linear policy for each draw."""
        # w'(x - center)/width + b = (w/width)'x + b - (w/width)'center
        coef = drawn[:, :, :-1] / self.width
        offset = drawn[:, :, -1] - coef @ self.center
        pairs = list(zip(coef, offset, strict=True))
        if greedy:
            return [LinearGreedy(c, b, actions, features) for c, b in pairs]
        return [LinearSoftmax(c, b, actions, 1.0, features) for c, b in pairs]

    def inputs(self, context: Floats) -> Floats:
        """Return (z, 1), (n, d + 1).

        Raises:
            DataError: for numbers whose squares would overflow float64.
        """
        with np.errstate(over="ignore"):
            z = (context - self.center) / self.width
        fits = (np.abs(z) <= MOST_COEFFICIENT).all(axis=0)
        if not fits.all():
            column = int(np.flatnonzero(~fits)[0])
            raise DataError(
                f"context column {column} holds numbers up to "
                f"{np.abs(context[:, column]).max():.4g}, too far from the prior's "
                "center; bring it to size 1 by a scale fixed beforehand"
            )
        return np.hstack([z, np.ones((len(context), 1))])


def check_prior_scale(scale: Any) -> None:
    """Check that a prior's standard deviation is a number whose square fits into float64.

    Raises:
        UsageError: naming the value.

    >>> check_prior_scale(1.0)
    """
    number = isinstance(scale, int | float | np.number) and not isinstance(scale, bool)
    if not (number and _LEAST_SCALE <= scale <= _MOST_SCALE):
        raise UsageError(
            f"{argument('prior_scale')} is {scale!r:.80}, expected a number from "
            f"{_LEAST_SCALE:g} to {_MOST_SCALE:g}, usually 1"
        )


@dataclass(frozen=True)
class ExpectedGains:
    """V(Q), the mean gain of softmax policies with normal coefficients, and its gradient.

    A row depends on the coefficients only through its K scores, which are normal with means (w_a'z
    + b_a) and variances sum_j s_aj^2 z_j^2. So noise is drawn for the scores, separately for each
    row, and averages out over rows (local reparameterization). The noise is fixed by the seed: each
    call returns the same V.

    Source: Kingma, Salimans, Welling 2015 (arXiv 1506.02557).

    Args:
        inputs: (m, d + 1) of the rewarded rows.
        action: (m,) codes.
        gains: (m,)
        rows: n, those without reward included.
        seed: of the noise.

    >>> one = ExpectedGains(np.ones((1, 1)), np.zeros(1, int), np.ones(1), 2, 0)
    >>> round(one(np.zeros((2, 1)), np.full((2, 1), 1e-9))[0], 6)
    0.25
    """

    inputs: Floats
    action: Any
    gains: Floats
    rows: int
    seed: int

    def __call__(self, mean: Floats, scale: Floats) -> tuple[float, Floats, Floats]:
        """Return V(Q), and its derivatives by the means and by the logarithms of the scales."""
        m = len(self.action)
        if m <= _ROWS:
            # threads cost more than they save for one block
            parts = [self._block(slice(0, m), mean, scale)]
        else:
            parts = spread(m, _ROWS, lambda rows: self._block(rows, mean, scale))
        value, by_mean, by_scale = (sum(x[1:], x[0]) for x in zip(*parts, strict=True))
        # dV/d log s = (dV/ds) s = sum_j (dV/d deviation / deviation) z_j^2 s^2
        return float(value) / self.rows, by_mean / self.rows, by_scale * scale * scale / self.rows

    def _block(self, rows: slice, mean: Floats, scale: Floats) -> tuple[float, Floats, Floats]:
        z, action, gains = self.inputs[rows], self.action[rows], self.gains[rows] / _SAMPLES
        squares, at = z * z, (np.arange(len(action)), action)
        # scores ~ N(center, deviation^2)
        center = z @ mean.T
        deviation = np.sqrt(squares @ (scale * scale).T)
        rng = np.random.default_rng([self.seed, rows.start])
        # each noise vector is used with both signs, which lowers the variance
        noise = rng.standard_normal((_SAMPLES // 2, *center.shape))
        value, by_score, by_deviation = 0.0, np.zeros_like(center), np.zeros_like(center)
        for one in (*noise, *-noise):
            pi = center + deviation * one
            pi -= pi.max(axis=1, keepdims=True)
            np.exp(pi, out=pi)
            pi /= pi.sum(axis=1, keepdims=True)
            credit = pi[at] * gains
            value += float(credit.sum())
            # d pi(A) G / d scores = pi(A) G (e_A - pi)
            pi *= -credit[:, None]
            pi[at] += credit
            by_score += pi
            by_deviation += pi * one
        with np.errstate(invalid="ignore", divide="ignore"):
            # d deviation / d s_j^2 = z_j^2 / (2 deviation)
            by_deviation = np.where(deviation > 0, by_deviation / deviation, 0.0)
        return value, by_score.T @ z, by_deviation.T @ squares


def fit_normal(
    examples: Examples, gains: Floats, prior: NormalPosterior, bet: float, *, steps: int, seed: int
) -> NormalPosterior:
    """Return the normal posterior that maximizes V(Q) - KL(Q || P)/(lambda n), by L-BFGS.

    Args:
        examples: the rewarded rows; their actions are those of the prior.
        gains: (m,) an admissible linear score's.
        prior: P.
        bet: lambda.
        steps: most steps; stopping early is harmless, since the certificate is valid for every Q.
        seed: of the noise.
    """
    from scipy.optimize import minimize

    # the rows in one order whatever order they came in, so that they get the same noise
    order = np.lexsort((gains, examples.action, *examples.context.T))
    inputs = prior.inputs(examples.context[order])
    objective = ExpectedGains(inputs, examples.action[order], gains[order], examples.rows, seed)
    shape, price = prior.mean.shape, 1.0 / (bet * examples.rows)

    def climb(flat: Floats) -> tuple[float, Floats]:
        mean, logs = flat.reshape(2, *shape)
        scale = np.exp(logs)
        value, by_mean, by_log = objective(mean, scale)
        # V(Q) - KL(Q || P)/(lambda n), and its gradient by means and log scales
        ratio = scale / prior.scale
        by_mean -= price * (mean - prior.mean) / prior.scale**2
        by_log -= price * (ratio * ratio - 1.0)
        kl = bounds.kl_divergence_normal(mean, scale, prior.mean, prior.scale)
        return float(price * kl - value), -np.concatenate([by_mean.ravel(), by_log.ravel()])

    start = np.concatenate([prior.mean.ravel(), np.log(prior.scale).ravel() - 1.0])
    # scales beyond these limits are useless, and steps there overflow
    limits: list[tuple[float | None, float | None]] = [(None, None)] * prior.mean.size
    limits += [(x - 12.0, x + 1.0) for x in np.log(prior.scale).ravel()]
    # the optimizer's own products are too small for threads
    with native_threads(1, "blas"):
        found = minimize(
            climb, start, jac=True, method="L-BFGS-B", bounds=limits, options={"maxiter": steps}
        ).x
    mean, logs = found.reshape(2, *shape)
    return replace(prior, mean=mean, scale=np.exp(logs))
