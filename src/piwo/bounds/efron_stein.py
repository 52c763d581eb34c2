"""Efron-Stein bound of the self-normalized estimate (ESLB). For comparison.

It needs no largest weight, but the propensity of every action.
"""

import math

from piwo.bounds.interval import Interval
from piwo.checks import check_count, check_non_negative, check_positive

__all__ = ["efron_stein_interval"]


def efron_stein_interval(
    estimate: float,
    total_weight: float,
    changes: float,
    expected_changes: float,
    inflation: float,
    n: int,
    log_inv_delta: float,
) -> Interval:
    """Interval of a value around the self-normalized estimate, for independent rows.

    Rests on how the weights could have come out under the logging policy: on the probabilities of
    all actions, and on all of them being right. The estimate is compared with its mean given the
    contexts (V, U), that mean with the value on these contexts (B), and that with the value on all
    contexts (Hoeffding, for independent contexts). It does not adapt to the variance of the
    rewards: prefer `lower`, which needs none of this and is narrower.

        B (S - e) - h  and  1 - B (1 - S - e) + h,  with x = log(3/delta),
        e = sqrt(2 (V + U) (x + log(1 + V/U) / 2)),  h = sqrt(x / (2 n)),  B = min(1, 1 / inflation)

    If all weights are 0 nothing was seen of the policy: 1 - S does not estimate its losses, and the
    interval is [0, 1].

    Args:
        estimate: S = sum w R / sum w, rewards in [0, 1]; any number if all weights are 0.
        total_weight: Z = sum w.
        changes: V, the sum over rows k of E[(W_k/Z)^2 + (W'_k/Z')^2 | the weights up to k, all
            contexts], Z the sum of the weights, those after k drawn anew; W' and Z': with W_k drawn
            anew too.
        expected_changes: U = E[V | all contexts].
        inflation: n max_k E[1 / (Z - W_k + m_k) | all contexts], m_k the smallest positive weight
            of row k.
        n: number of rows.
        log_inv_delta: log(1/delta) of the interval.

    Returns:
        The raw interval.

    >>> efron_stein_interval(0.5, 1000.0, 0.002, 0.002, 1.0, n=1000, log_inv_delta=3.0)
    Interval(lower=0.2661..., upper=0.7338..., guarantee='finite-sample')

    Source: Kuzborskij, Vernade, Gyorgy, Szepesvari 2021 (arXiv 2006.10460), Theorem 1, for both
    sides. Changed, with the reasons in docs/bounds.md: p^2 + q^2 for (p + q)^2 in V, the row itself
    left out in B, and Z > 0 required.
    """
    check_count("n", n, 1)
    check_positive("log_inv_delta", log_inv_delta)
    check_non_negative("estimate", estimate)
    check_non_negative("total_weight", total_weight)
    check_non_negative("changes", changes)
    check_positive("expected_changes", expected_changes)
    check_positive("inflation", inflation)
    if total_weight == 0.0:
        return Interval(0.0, 1.0)
    # delta / 3 for each of: S on both sides, and each side of the contexts
    x = log_inv_delta + math.log(3.0)
    e = math.sqrt(
        2.0 * (changes + expected_changes) * (x + 0.5 * math.log1p(changes / expected_changes))
    )
    h = math.sqrt(x / (2.0 * n))
    # B: the mean of S given the contexts is at most 1/B times the value on them
    b = min(1.0, 1.0 / inflation)
    # the ends B (S - e) - h and 1 - B (1 - S - e) + h
    return Interval(b * (estimate - e) - h, 1.0 - b * (1.0 - estimate - e) + h)
