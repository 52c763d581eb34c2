"""The one place where a propensity divides anything."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats

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
    """Return numerator / denominator, 0 wherever the numerator is 0 whatever the denominator.

    Args:
        numerator: (n,) non-negative.
        denominator: (n,) non-negative.

    Returns:
        (n,); inf where the quotient does not fit into float64.

    >>> over(np.array([0.0, 1.0]), np.array([0.0, 0.5])).tolist()
    [0.0, 2.0]
    """
    with np.errstate(divide="ignore", over="ignore"):
        if len(denominator) and denominator.min() > 0:
            return numerator / denominator
        return np.divide(numerator, denominator, out=np.zeros(len(numerator)), where=numerator > 0)


def over_propensity(numerator: Floats, batch: Batch) -> Floats:
    """Return numerator / mu(A_t | X_t) for every row.

    Rows with numerator 0 give 0 and never divide. Where mu underflows, the logarithm is used, and
    the result is inf only if the quotient itself is beyond float64; `log_ratio` then still knows
    it.

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
        low = (batch.propensity < np.finfo(np.float64).tiny) & (numerator > 0)
        if low.any():
            with np.errstate(over="ignore"):
                ratio[low] = np.exp(np.log(numerator[low]) - batch.log_propensity[low])
    return ratio


def log_ratio(numerator: Floats, batch: Batch, rows: npt.NDArray[np.intp]) -> Floats:
    """Return log(numerator / mu) for the given rows, whose numerators are positive."""
    log_mu = (
        np.log(batch.propensity[rows])
        if batch.log_propensity is None
        else batch.log_propensity[rows]
    )
    return np.log(numerator[rows]) - log_mu


def log1p_ratio(scales: Floats, numerator: Floats, batch: Batch) -> Floats:
    """Return log(1 + scale * numerator / mu) for S scales, (n, S), finite for every positive mu, however small.

    >>> batch = Batch(
    ...     0, np.zeros(1, np.int32), np.ones(1), np.zeros(1), log_propensity=np.array([-1000.0])
    ... )
    >>> log1p_ratio(np.ones(1), np.ones(1), batch).tolist()
    [[1000.0]]
    """
    ratio = over_propensity(numerator, batch)
    with np.errstate(over="ignore"):
        result = np.multiply.outer(ratio, scales)
        np.log1p(result, out=result)
    lost = np.flatnonzero(~np.isfinite(result).all(axis=1))
    if len(lost):
        result[lost] = np.logaddexp(
            0.0, np.add.outer(log_ratio(numerator, batch, lost), np.log(scales))
        )
    return result


def vectors_of(batch: Batch, label: str) -> Floats:
    """Return the full propensity vectors, (n, K).

    Args:
        batch: the rows.
        label: what needs them.

    Raises:
        UsageError: where the log has none.

    >>> vectors_of(Batch(0, np.zeros(1, np.int32), np.ones(1), np.ones(1)), "this")
    Traceback (most recent call last):
    piwo.errors.UsageError: this needs the full propensity vector of every row; ...
    """
    if batch.propensities is None:
        raise UsageError(
            f"{label} needs the full propensity vector of every row; give propensities= or "
            "behavior=, or use IX"
        )
    return batch.propensities


@dataclass(frozen=True)
class Weights:
    """Importance weights of one policy on one batch, with their logarithms within reach where they overflow."""

    w: Floats
    """(n,) pi(A_t | X_t) / mu(A_t | X_t); inf where that is beyond float64."""
    logarithm: Callable[[], Floats]
    """Gives (n,) log w, -inf where w is 0."""

    def times(self, factor: Floats) -> Floats:
        """Return w * factor, (n,), 0 wherever the factor is 0."""
        with np.errstate(invalid="ignore"):
            product = self.w * factor
        return product if np.isfinite(product.sum()) else np.where(factor > 0, product, 0.0)


def importance_weights(
    batch: Batch, pi: Floats, log_pi: Callable[[], Floats] | None = None
) -> Weights:
    """Return the importance weights w = pi(A_t | X_t) / mu(A_t | X_t) of a batch.

    Args:
        batch: the rows.
        pi: (n,) pi(A_t | X_t).
        log_pi: gives (n,) log pi(A_t | X_t); by default the logarithm of `pi`.

    >>> batch = Batch(0, np.zeros(2, np.int32), np.ones(2), np.array([0.5, 0.25]))
    >>> importance_weights(batch, np.array([1.0, 0.0])).w.tolist()
    [2.0, 0.0]
    """

    def logarithm() -> Floats:
        with np.errstate(divide="ignore"):
            log_of_pi = np.log(pi) if log_pi is None else log_pi()
            return log_of_pi - (
                np.log(batch.propensity) if batch.log_propensity is None else batch.log_propensity
            )

    if batch.log_propensity is None:
        return Weights(over(pi, batch.propensity), logarithm)
    with np.errstate(over="ignore"):
        return Weights(np.exp(logarithm()), logarithm)
