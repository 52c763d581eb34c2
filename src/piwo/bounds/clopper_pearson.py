"""Clopper-Pearson bound: exact, for counts of successes."""

import math

from piwo.checks import check_count, check_positive
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = ["clopper_pearson_lower"]


def clopper_pearson_lower(successes: int, n: int, log_inv_delta: float) -> float:
    """Lower bound on the chance of success, from the number of successes in n independent trials.

    The value of a policy is such a chance if rewards are 0 or 1 and every weight is 0 or one
    number c by design: on the logger's own policy (c = 1), and for a deterministic policy on a
    uniform logger (c = K); then v >= c times this.

        the p with P(Binomial(n, p) >= successes) = delta, 0 without successes

    Args:
        successes: how many rows have Y > 0.
        n: number of rows.
        log_inv_delta: log(1/delta) of this one statement.

    Returns:
        The bound, in [0, 1].

    >>> round(clopper_pearson_lower(8, 10, log_inv_delta=math.log(20)), 4)
    0.4931

    Source: Clopper and Pearson 1934.
    """
    from scipy.special import betaincinv

    check_count("n", n, 1)
    check_count("successes", successes, 0)
    check_positive("log_inv_delta", log_inv_delta)
    if successes > n:
        raise UsageError(
            f"{argument('successes')} is {successes}, n is {n}; expected at most n: pass the count "
            "of rows as n"
        )
    if successes == 0:
        return 0.0
    # P(Binomial(n, p) >= k) = I_p(k, n - k + 1), the regularized incomplete beta function
    return float(betaincinv(successes, n - successes + 1, math.exp(-log_inv_delta)))
