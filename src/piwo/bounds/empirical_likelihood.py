"""Empirical likelihood with E w = 1: a convex program in two unknowns. Asymptotic."""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from piwo.bounds.interval import Interval
from piwo.checks import check_at_least, check_delta
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = ["empirical_likelihood_interval"]

Floats = NDArray[np.float64]

_HALVINGS = 60
_STEPS = 200


def empirical_likelihood_interval(
    w: ArrayLike,
    reward: ArrayLike,
    delta: float,
    *,
    count: ArrayLike | None = None,
    largest: float = math.inf,
) -> Interval:
    """Asymptotic interval: the values of all likely enough laws of (w, R) with E w = 1.

    What `cressie_read_interval` approximates by a quadratic. Laws may hold weights and rewards that
    were not seen, any w in [0, M] and any R in [0, 1]: if few rows matter the interval is not
    symmetric, and stays inside [0, 1]. It needs overlap, and propensities that are right; with rare
    rewards it is wrong more often than delta.

    A law that gives row i the mass q_i has log-likelihood ratio sum log(n q_i); those within F / 2
    of the best law with E w = 1 are likely enough, F the 1 - delta quantile of the F distribution
    with 1 and n - 1 degrees of freedom. The least sum q w R is, in its dual form, with g the
    geometric mean over the rows,

        max over p, s >= 0 of  exp(-D) g(p (1 - w/M) + s w + w R) - p (1 - 1/M) - s
        D = F / (2 n) + max over 0 <= b <= 1 of log g(b (1 - w/M) / (1 - 1/M) + (1 - b) w)

    and the upper end is 1 minus that of the losses, w (1 - R) in place of w R.

    Args:
        w: (m,) importance weights.
        reward: (m,) rewards in [0, 1].
        delta: nominal chance of error of both sides together.
        count: (m,) how often each pair occurs; None: once. n is their sum.
        largest: M, the largest weight that can occur; infinity if it is not known, which makes the
            interval wider.

    Returns:
        An interval whose guarantee is "asymptotic"; without ends for fewer than three rows, and
        if a weight is beyond float64.

    >>> rows = [0.0, 2.0, 2.0], [0.5, 0.0, 1.0]
    >>> found = empirical_likelihood_interval(*rows, 0.05, count=[500, 250, 250], largest=2.0)
    >>> round(found.lower, 4), round(found.upper, 4), found.guarantee
    (0.4562, 0.5438, 'asymptotic')

    Source: Karampatziakis, Langford, Mineiro 2020 (arXiv 1906.03323), Section 4, for the interval;
    the dual in geometric means is worked out in docs/bounds.md.
    """
    from scipy.special import fdtri

    check_delta(delta)
    w, reward, share, n = _rows(w, reward, count, largest)
    if n < 3 or not np.isfinite(w).all():
        return Interval(None, None, "asymptotic")
    # 1/M; for M = 1 all weights are 1, and p has no effect
    rest = 1.0 / largest if largest > 1.0 else 0.0
    # 1 - w/M and w, with the prices 1 - 1/M and 1 of p and s
    assets, price = np.stack([1.0 - rest * w, w]), np.array([1.0 - rest, 1.0])
    # D = F / (2 n) + max over b of log g(...)
    quantile = float(fdtri(1, n - 1, 1.0 - delta))
    allowed = 0.5 * quantile / n + _best_of_weights(assets / price[:, None], share)
    lower = _least(assets, price, w * reward, share, allowed)
    missed = _least(assets, price, w * (1.0 - reward), share, allowed)
    return Interval(lower, 1.0 - missed, "asymptotic")


def _rows(
    w: ArrayLike, reward: ArrayLike, count: ArrayLike | None, largest: float
) -> tuple[Floats, Floats, Floats, int]:
    """Return weights, rewards, the share of each pair, and n."""
    try:
        pairs, rewards = np.asarray(w, np.float64), np.asarray(reward, np.float64)
        counts = np.ones(pairs.shape) if count is None else np.asarray(count, np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            "w, reward or count are not numbers, expected arrays of the same length"
        ) from None
    if not (pairs.ndim == 1 and pairs.size and pairs.shape == rewards.shape == counts.shape):
        raise UsageError(
            f"{argument('w')} has shape {pairs.shape}, reward {rewards.shape}, count "
            f"{counts.shape}; expected three times (m,), m > 0"
        )
    check_at_least("largest", largest, 1.0)
    if not ((pairs >= 0).all() and ((rewards >= 0) & (rewards <= 1)).all() and (counts > 0).all()):
        raise UsageError(
            "w, reward or count are out of range; expected weights >= 0, rewards in [0, 1], "
            "counts > 0"
        )
    n = float(counts.sum())
    if not (math.isfinite(n) and n == math.floor(n)):
        raise UsageError(
            f"count sums to {n!r}, expected a whole number of rows: pass how often each pair occurs"
        )
    if (pairs > largest * (1 + 1e-9)).any() and np.isfinite(pairs).all():
        raise UsageError(
            f"w is up to {pairs.max():g}, above largest={largest:g}; pass a number that no weight "
            "exceeds"
        )
    return np.minimum(pairs, largest), rewards, counts / n, int(n)


def _best_of_weights(assets: Floats, share: Floats) -> float:
    """Return max over 0 <= b <= 1 of mean log(b x_0 + (1 - b) x_1), by bisection of its slope."""
    gain = assets[0] - assets[1]

    def slope(b: float) -> float:
        # mean of (x_0 - x_1) / (b x_0 + (1 - b) x_1), which falls in b
        with np.errstate(divide="ignore"):
            return float(share @ (gain / (assets[1] + b * gain)))

    low, high = 0.0, 1.0
    if slope(high) >= 0.0:
        low = high
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        if slope(middle) > 0.0:
            low = middle
        else:
            high = middle
    return float(share @ np.log(assets[1] + high * gain))


def _least(assets: Floats, price: Floats, y: Floats, share: Floats, allowed: float) -> float:
    """Return max over x >= 0 of exp(mean log(x . assets + y) - allowed) - x . price.

    By Newton's method inside x > 0, x = (p, s). The function is concave, as geometric means are.
    Any x gives the end of an interval that is at least as wide.
    """
    x: Floats = np.ones(2)
    value, slope, curve = _derivatives(x, assets, price, y, share, allowed)
    for _ in range(_STEPS):
        step, scale, before = _step(x, slope, curve), 1.0, value
        # shorter steps until one leads upward
        while scale > 1e-9:
            moved: Floats = np.maximum(x + scale * step, 0.01 * x)
            found = _derivatives(moved, assets, price, y, share, allowed)
            if found[0] > value:
                x, (value, slope, curve) = moved, found
                break
            scale *= 0.25
        if not value > before + 1e-15:
            break
    return max(0.0, value)


def _step(x: Floats, slope: Floats, curve: Floats) -> Floats:
    """Return Newton's step.

    An unknown that it would take below 0, while it should fall, goes near 0; the other then takes
    its own step.
    """
    # the trace of the Hessian matrix of a concave function is below 0
    damped = curve - 1e-12 * (1.0 - np.trace(curve)) * np.eye(2)
    whole = np.asarray(-np.linalg.solve(damped, slope), np.float64)
    stopped = (x + whole <= 0.0) & (slope < 0.0)
    if not stopped.any():
        return whole
    return np.where(stopped, -0.99 * x, -slope / np.minimum(np.diag(curve), -1e-12))


def _derivatives(
    x: Floats, assets: Floats, price: Floats, y: Floats, share: Floats, allowed: float
) -> tuple[float, Floats, Floats]:
    """Return the function that `_least` maximizes, its gradient and its Hessian matrix."""
    # p (1 - w/M) + s w + y
    held = x @ assets + y
    if not (held > 0.0).all():
        return -math.inf, np.zeros(2), np.eye(2)
    mean, ratio = math.exp(float(share @ np.log(held)) - allowed), assets / held
    first = ratio @ share
    return (
        mean - float(x @ price),
        mean * first - price,
        mean * (np.outer(first, first) - (ratio * share) @ ratio.T),
    )
