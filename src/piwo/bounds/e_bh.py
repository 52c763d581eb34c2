"""e-BH: which of N hypotheses to reject, if few of those rejected may be true?"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from piwo.checks import check_delta, numbers
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = ["e_bh"]


def e_bh(log_e_values: ArrayLike, rate: float) -> NDArray[np.bool_]:
    """Return which of N hypotheses are rejected, with a false discovery rate of at most `rate`.

    Of the hypotheses rejected, a share of at most `rate` is true, on average over logs. This holds
    under any dependence of the e-values, such as that of many policies measured on the same rows.
    Prefer it to N simultaneous bounds if many candidates are screened and a few mistakes among
    those kept are acceptable.

        reject the k largest,  k = max{ k : e_(k) >= N / (rate k) }

    Args:
        log_e_values: (N,) natural logarithms of e-values, see `piwo.bounds.log_e_value`; -inf for
            no evidence.
        rate: false discovery rate, in (0, 1).

    Returns:
        (N,) mask of the rejected hypotheses.

    Raises:
        UsageError: for e-values that are not one-dimensional or NaN, and a rate out of range.

    >>> e_bh(np.log([41.0, 0.5, 21.0, 20.0]), rate=0.1).tolist()
    [True, False, True, True]

    Source: Wang and Ramdas 2022 (arXiv 2009.02824), Theorem 2; docs/theory.md, section "Selection".
    """
    check_delta(rate)
    logs = numbers("log_e_values", log_e_values)
    if logs.ndim != 1 or np.isnan(logs).any():
        raise UsageError(
            f"{argument('log_e_values')} has shape {logs.shape} or holds a NaN; expected (N,) "
            "logarithms: pass one a hypothesis"
        )
    falling = np.sort(logs)[::-1]
    # log of N / (rate k) for k = 1, ..., N
    needed = math.log(max(logs.size, 1)) - math.log(rate) - np.log(np.arange(1, logs.size + 1))
    enough = np.flatnonzero(falling >= needed)
    if not enough.size:
        return np.zeros(logs.shape, np.bool_)
    # all that are at least e_(k) for the largest k
    rejected: NDArray[np.bool_] = logs >= falling[enough[-1]]
    return rejected & (logs > -math.inf)
