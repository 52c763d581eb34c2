"""The one place where importance weights pi / mu are formed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.messages import argument

__all__ = [
    "Weights",
    "importance_weights",
    "log1p_ratio",
    "log_ratio",
    "over",
    "over_propensity",
    "vectors_of",
]


def over(numerator: Floats, denominator: Floats) -> Floats:
    """Return numerator / denominator, and 0 if the numerator is 0, whatever the denominator.

    Args:
        numerator: (n,) non-negative.
        denominator: (n,) non-negative.

    Returns:
        (n,); inf if the quotient is beyond float64.

    >>> over(np.array([0.0, 1.0]), np.array([0.0, 0.5])).tolist()
    [0.0, 2.0]
    """
    with np.errstate(divide="ignore", over="ignore"):
        # the common case needs no mask
        if len(denominator) and denominator.min() > 0:
            return numerator / denominator
        return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=numerator > 0)


def over_propensity(numerator: Floats, batch: Batch) -> Floats:
    """Return numerator / mu(A_t | X_t) for every row.

    Rows with numerator 0 give 0 and never divide. If mu underflows, its logarithm is used, and the
    result is inf only if the quotient itself is beyond float64; `log_ratio` still represents it.

    Args:
        numerator: (n,) non-negative, such as pi * R.
        batch: the rows.

    >>> over_propensity(
    ...     np.array([1.0]), Batch(0, np.zeros(1, np.int32), np.ones(1), np.array([0.25]))
    ... ).tolist()
    [4.0]
    """
    ratio = over(numerator, batch.propensity)
    if batch.log_propensity is not None:
        # below the smallest normal number mu has lost digits, or all of them
        low = (batch.propensity < np.finfo(np.float64).tiny) & (numerator > 0)
        if low.any():
            with np.errstate(over="ignore"):
                # numerator / mu = exp(log numerator - log mu)
                ratio[low] = np.exp(np.log(numerator[low]) - batch.log_propensity[low])
    return ratio


def log_ratio(numerator: Floats, batch: Batch, rows: npt.NDArray[np.intp]) -> Floats:
    """Return log(numerator / mu) for the given rows, whose numerators are positive."""
    if batch.log_propensity is None:
        log_mu = np.log(batch.propensity[rows])
    else:
        log_mu = batch.log_propensity[rows]
    # log numerator - log mu, finite even if mu underflows
    return np.log(numerator[rows]) - log_mu


def log1p_ratio(scales: Floats, numerator: Floats, batch: Batch) -> Floats:
    """Return log(1 + scale * numerator / mu) for S scales, (n, S).

    Finite for every positive mu, however small.

    >>> batch = Batch(
    ...     0, np.zeros(1, np.int32), np.ones(1), np.zeros(1), log_propensity=np.array([-1000.0])
    ... )
    >>> log1p_ratio(np.ones(1), np.ones(1), batch).tolist()
    [[1000.0]]
    """
    ratio = over_propensity(numerator, batch)
    with np.errstate(over="ignore"):
        # log(1 + scale numerator / mu)
        result = np.multiply.outer(ratio, scales)
        np.log1p(result, out=result)
    # rows whose ratio is beyond float64
    lost = np.flatnonzero(~np.isfinite(result).all(axis=1))
    if len(lost):
        # log(1 + exp(z)), z = log(numerator / mu) + log scale
        z = np.add.outer(log_ratio(numerator, batch, lost), np.log(scales))
        result[lost] = np.logaddexp(0.0, z)
    return result


def vectors_of(batch: Batch, label: str) -> Floats:
    """Return the full propensity vectors, (n, K).

    Args:
        batch: the rows.
        label: of what needs them, for the error.

    Raises:
        UsageError: if the log has none.

    >>> vectors_of(Batch(0, np.zeros(1, np.int32), np.ones(1), np.ones(1)), "this")
    Traceback (most recent call last):
    piwo.errors.UsageError: this needs the full propensity vector of every row; ...
    """
    if batch.eligible is not None:
        raise UsageError(
            f"{label} needs the full propensity vector of every row, which logs with eligible "
            "actions do not have; use IX"
        )
    if batch.propensities is None:
        raise UsageError(
            f"{label} needs the full propensity vector of every row; give "
            f"{argument('propensities')} or {argument('behavior')}, or use IX"
        )
    return batch.propensities


@dataclass(frozen=True)
class Weights:
    """Importance weights of one policy on one batch, and their logarithms in case they overflow."""

    w: Floats
    """(n,) pi(A_t | X_t) / mu(A_t | X_t); inf if that is beyond float64."""
    logarithm: Callable[[], Floats]
    """Returns (n,) log w, -inf if w is 0."""

    def times(self, factor: Floats) -> Floats:
        """Return w * factor, (n,), and 0 if the factor is 0."""
        with np.errstate(invalid="ignore"):
            product = self.w * factor
        if np.isfinite(product.sum()):
            return product
        # inf * 0 is not a number, and must be 0
        return np.where(factor > 0, product, 0.0)


def importance_weights(
    batch: Batch, pi: Floats, log_pi: Callable[[], Floats] | None = None
) -> Weights:
    """Return the importance weights w = pi(A_t | X_t) / mu(A_t | X_t) of a batch.

    Args:
        batch: the rows.
        pi: (n,) pi(A_t | X_t).
        log_pi: returns (n,) log pi(A_t | X_t); by default the logarithm of `pi`.

    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.25]))
    >>> importance_weights(batch, np.array([1.0, 0.0])).w.tolist()
    [2.0, 0.0]
    """

    def logarithm() -> Floats:
        with np.errstate(divide="ignore"):
            if log_pi is None:
                log_of_pi = np.log(pi)
            else:
                log_of_pi = log_pi()
            if batch.log_propensity is None:
                return log_of_pi - np.log(batch.propensity)
            # log w = log pi - log mu
            return log_of_pi - batch.log_propensity

    if batch.log_propensity is None:
        # the weight w = pi / mu
        return Weights(over(pi, batch.propensity), logarithm)
    with np.errstate(over="ignore"):
        # w = exp(log pi - log mu)
        return Weights(np.exp(logarithm()), logarithm)
