"""PAC-Bayes bounds: valid for all distributions over policies at once, given a prior.

A posterior Q draws a policy and lets it act; its value is v(Q) = E_Q v(pi). In place of log|Pi| for
|Pi| policies its penalty is KL(Q || P), the divergence from a prior P that was fixed before the
rewards were seen: 0 for the prior itself, log|Pi| for one policy under a uniform prior. Q may
depend on the log in any way.

V is the mean of an admissible score that is linear in the policy, at lambda = 2 gamma: IX, or
linear LS.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from piwo.bounds.fixed_bet import score_lower
from piwo.bounds.grid import GammaGrid, regret_bound_grid
from piwo.bounds.regret import regret_bound_one_comparator
from piwo.checks import (
    check_count,
    check_finite,
    check_kind,
    check_non_negative,
    check_positive,
    is_number,
    numbers,
)
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = [
    "Gibbs",
    "gibbs_posterior",
    "kl_divergence",
    "kl_divergence_normal",
    "pac_bayes_lower",
    "regret_bound_pac_bayes_grid",
    "regret_bound_pac_bayes_one_comparator",
]

FloatArray = NDArray[np.float64]
# as for the shares of a mixture policy
_TOLERANCE = 1e-6


def pac_bayes_lower(value: float, kl: float, n: int, bet: float, log_inv_delta: float) -> float:
    """Lower bound on the value of a posterior, exact inverse; for all posteriors together.

        ( exp(lambda V(Q) - (KL(Q || P) + log(1/delta))/n) - 1 ) / lambda

    Args:
        value: V(Q), the mean of an admissible linear score under Q, over n rows.
        kl: KL(Q || P); infinite if Q plays what P rules out. For a mixture of policies that were
            drawn from Q, the mean of log dQ/dP over the draws, which may be negative; the bound is
            then on that mixture.
        n: number of rows.
        bet: lambda > 0.
        log_inv_delta: log(1/delta) of this one statement; add log m for a lambda chosen among m.

    Returns:
        The raw bound, above -1/lambda.

    >>> round(pac_bayes_lower(0.5, kl=2.0, n=1000, bet=0.1, log_inv_delta=3.0), 6)
    0.460279

    Source: docs/pac_bayes.md, Theorems 1 and 4; sharpens Lemma 4 of arXiv 2309.15771.
    """
    check_positive("log_inv_delta", log_inv_delta)
    check_finite("value", value)
    check_count("n", n, 1)
    check_positive("the bet size", bet)
    if is_number(kl) and kl == math.inf:
        return -1.0 / bet
    check_finite("kl", kl)
    # V(Q) - KL/(lambda n). The penalty may be below 0 for drawn policies; the inverse takes any
    # number
    return score_lower(value - kl / (bet * n), n, bet, log_inv_delta)


@dataclass(frozen=True, slots=True)
class Gibbs:
    """The posterior that maximizes the PAC-Bayes bound at one lambda, and what it reaches.

    >>> gibbs_posterior([0.0, 0.0], [0.5, 0.5], n=10, bet=1.0).kl
    0.0
    """

    weights: FloatArray
    """(N,) Q(pi), proportional to P(pi) exp(lambda n V(pi)); sums to 1."""
    value: float
    """V(Q)."""
    kl: float
    """KL(Q || P)."""
    log_partition: float
    """log E_P exp(lambda n V) = lambda n V(Q) - KL(Q || P), the most that any posterior reaches."""


def gibbs_posterior(values: ArrayLike, prior: ArrayLike, n: int, bet: float) -> Gibbs:
    """Return the Gibbs posterior over N policies: the maximum of V(Q) - KL(Q || P)/(lambda n).

        Q(pi) proportional to P(pi) exp(lambda n V(pi));  in the paper lambda n = 2 gamma n is the
        inverse temperature

    Args:
        values: (N,) V(pi), mean scores over n rows at lambda.
        prior: (N,) shares >= 0 that sum to 1.
        n: number of rows.
        bet: lambda > 0.

    >>> gibbs = gibbs_posterior([0.0, math.log(3.0) / 4.0], [0.5, 0.5], n=2, bet=2.0)
    >>> gibbs.weights.round(4).tolist(), round(gibbs.log_partition, 6)
    ([0.25, 0.75], 0.693147)

    Source: docs/pac_bayes.md, section "The Gibbs posterior"; arXiv 2309.15771, section 5.
    """
    check_count("n", n, 1)
    check_positive("the bet size", bet)
    shares = _shares(prior)
    value = numbers("values", values)
    if value.shape != shares.shape or not np.isfinite(value).all():
        raise UsageError(
            f"{argument('values')} has shape {value.shape} and {np.isfinite(value).sum()} finite "
            f"numbers, expected {shares.shape} finite ones: one mean score for each policy of the "
            "prior"
        )
    check_finite(
        "bet times n times the largest value", bet * n * float(np.abs(value).max(initial=0.0))
    )
    with np.errstate(divide="ignore"):
        # lambda n V(pi) + log P(pi)
        logits = bet * n * value + np.log(shares)
    peak = float(logits.max())
    weights = np.exp(logits - peak)
    total = float(weights.sum())
    weights /= total
    mean = float(weights @ value)
    # log E_P exp(lambda n V)
    log_partition = peak + math.log(total)
    # KL(Q || P) = lambda n V(Q) - log E_P exp(lambda n V)
    kl = max(0.0, bet * n * mean - log_partition)
    return Gibbs(weights, mean, kl, log_partition)


def kl_divergence(posterior: ArrayLike, prior: ArrayLike) -> float:
    """Return KL(Q || P) = sum Q log(Q/P) of two distributions over the same N policies.

    0 log 0 counts as 0.

    Args:
        posterior: (N,) shares >= 0 that sum to 1.
        prior: likewise.

    Returns:
        At least 0; infinite if Q plays a policy that P rules out.

    >>> round(kl_divergence([1.0, 0.0], [0.25, 0.75]), 6) == round(math.log(4), 6)
    True
    """
    q, p = _shares(posterior), _shares(prior)
    if q.shape != p.shape:
        raise UsageError(
            f"the posterior has {len(q)} shares and the prior {len(p)}, expected as many: one a "
            "policy"
        )
    used = q > 0.0
    if (p[used] == 0.0).any():
        return math.inf
    # sum Q (log Q - log P), as a quotient of shares may leave float64
    return max(0.0, float((q[used] * (np.log(q[used]) - np.log(p[used]))).sum()))


def kl_divergence_normal(
    mean: ArrayLike, scale: ArrayLike, prior_mean: ArrayLike, prior_scale: ArrayLike
) -> float:
    """Return KL(Q || P) of two normal distributions with independent coordinates.

        sum of log(s0/s) + (s^2 + (m - m0)^2)/(2 s0^2) - 1/2

    Args:
        mean: m of Q, any shape.
        scale: standard deviations s > 0 of Q, of the same shape or a number.
        prior_mean: m0 of P.
        prior_scale: s0 > 0 of P.

    >>> kl_divergence_normal([0.0, 1.0], 1.0, 0.0, 1.0)
    0.5
    """
    given = {"mean": mean, "scale": scale, "prior_mean": prior_mean, "prior_scale": prior_scale}
    try:
        m, s, m0, s0 = np.broadcast_arrays(*(numbers(name, x) for name, x in given.items()))
    except ValueError as error:
        if isinstance(error, UsageError):
            raise
        raise UsageError(
            "mean, scale, prior_mean, prior_scale differ in shape; expected one, or numbers"
        ) from None
    if not all(np.isfinite(x).all() for x in (m, s, m0, s0)) or not (
        (s > 0).all() and (s0 > 0).all()
    ):
        raise UsageError(
            "a mean is not finite or a standard deviation not above 0; expected finite and "
            "positive ones"
        )
    # far apart the divergence is infinite
    with np.errstate(over="ignore", under="ignore"):
        # the ratio s/s0 and the shift (m - m0)/s0
        ratio, shift = s / s0, (m - m0) / s0
        return float((np.log(s0) - np.log(s) + (ratio * ratio - 1.0 + shift * shift) / 2.0).sum())


def regret_bound_pac_bayes_one_comparator(
    n: int, gamma: float, coverage: float, kl: float, delta: float
) -> float:
    """Return `regret_bound_pac_bayes` against one posterior named before the data were seen.

        (KL(Q* || P)/2 + log(1/delta))/(gamma n) + 2 gamma C_gamma(Q*)

    >>> round(
    ...     regret_bound_pac_bayes_one_comparator(
    ...         100_000, 0.01, coverage=2.0, kl=math.log(1000), delta=0.05
    ...     ),
    ...     4,
    ... )
    0.0464

    Source: docs/pac_bayes.md, Theorem 2.
    """
    check_non_negative("kl", kl)
    return regret_bound_one_comparator(n, gamma, coverage, kl, delta)


def regret_bound_pac_bayes_grid(
    grid: GammaGrid, coverage: float | Callable[[float], float], kl: float
) -> float:
    """Return the regret of the best Gibbs posterior of a grid, for all Q* together.

    It is valid jointly with the lower bounds of the grid.

        min over gamma of (KL(Q* || P) + L)/(gamma n) + 2 gamma C_gamma(Q*)   (linear LS: C_{2
            gamma}) <= min(1, 3 sqrt(C_0(Q*) (KL(Q* || P) + L)/n))

    Neither the coverage nor the divergence has to be known to reach the minimum.

    Args:
        grid: of `gamma_grid_ix` or `gamma_grid_ls` with log_class_size = 0.
        coverage: gamma -> C_gamma of Q*, or C_0 or any number above it.
        kl: KL(Q* || P).

    >>> from piwo.bounds.grid import gamma_grid_ix
    >>> round(
    ...     regret_bound_pac_bayes_grid(
    ...         gamma_grid_ix(10_000, 0.0, 0.05), coverage=45.0, kl=math.log(200)
    ...     ),
    ...     3,
    ... )
    0.656

    Source: docs/pac_bayes.md, Theorem 3.
    """
    check_kind("grid", grid, GammaGrid, "; gamma_grid_ix and gamma_grid_ls make one")
    check_non_negative("kl", kl)
    # L + KL(Q* || P) in place of L
    return regret_bound_grid(replace(grid, penalty=grid.penalty + kl), coverage)


def _shares(weights: ArrayLike) -> FloatArray:
    """Return weights that sum to 1 to the last digits."""
    shares = numbers("weights", weights, "shares >= 0 that sum to 1: one a policy")
    with np.errstate(over="ignore", invalid="ignore"):
        total = float(shares.sum())
    if shares.ndim != 1 or not ((shares >= 0.0).all() and abs(total - 1.0) <= _TOLERANCE):
        raise UsageError(
            f"the weights have shape {shares.shape} and sum to {total:.6g}, expected shares >= 0 "
            "that sum to 1: one a policy"
        )
    return np.asarray(shares / total)
