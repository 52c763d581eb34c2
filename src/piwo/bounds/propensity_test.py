"""Propensity test: are the logged propensities too small, which makes every estimate too high?"""

import math
from dataclasses import dataclass

from piwo.bounds.mixture import FloatArray, log_e_value

__all__ = ["SUSPICIOUS", "PropensityTest", "propensity_e_test"]

SUSPICIOUS = 1e-3
"""Propensities whose p-value is below this are not believed: too small ones make every bound too
high."""


@dataclass(frozen=True, slots=True)
class PropensityTest:
    """Evidence against E w <= 1.

    Args:
        log_e_value: natural logarithm of the e-value; log 20 = 3.0 is evidence at the level .05.
        p_value: min(1, 1/e-value), valid however often the log was looked at.

    >>> PropensityTest(log_e_value=3.5, p_value=0.03).p_value
    0.03
    """

    log_e_value: float
    p_value: float


def propensity_e_test(weight_sums: FloatArray, n: int) -> PropensityTest:
    """Test that the mean weight is at most 1, as it is for every policy if propensities are right.

    A rejection means propensities that are too small. The policy must be fixed before the data: one
    learned on the same rows raises false alarms. The absence of a rejection proves nothing:
    propensities that are too large are not detected.

    Args:
        weight_sums: (48,) bet sums of Y = w.
        n: number of rows.

    Returns:
        The e-value, as a logarithm, and its p-value.

    >>> from piwo.reductions.bets import bet_sums
    >>> propensity_e_test(bet_sums([2.0] * 900 + [0.0] * 100), 1000).p_value < 1e-9
    True
    >>> propensity_e_test(bet_sums([2.0, 0.0] * 500), 1000).p_value
    1.0

    Source: docs/theory.md, section "Are the propensities right?".
    """
    # log of mean_j prod_t (1 + lambda_j w_t) / (1 + lambda_j)
    evidence = log_e_value(weight_sums, n, null_mean=1.0)
    return PropensityTest(log_e_value=evidence, p_value=math.exp(min(0.0, -evidence)))
