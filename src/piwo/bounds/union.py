"""Union bound: the price of several statements that hold together.

Every primitive of this layer takes `log_inv_delta`, the log(1/delta) of its one statement.
delta/(2|Pi|) is zero in floating point once log|Pi| > 745, a class of modest size; its logarithm is
an ordinary number.
"""

import math

from piwo.checks import check_count, check_delta, check_non_negative

__all__ = ["log_inv_delta"]


def log_inv_delta(delta: float, *, statements: int = 1, log_class_size: float = 0.0) -> float:
    """Return log(1/delta) of each of several statements that hold together at 1 - delta.

        log(statements * |Pi| / delta)

    Args:
        delta: chance that any one of the statements fails, in (0, 1).
        statements: how many bounds are wanted for one policy; 2 for an interval.
        log_class_size: log|Pi|, the natural logarithm of the number of policies; 0 for one policy.

    Returns:
        log(1/delta) + log(statements) + log|Pi|.

    Raises:
        UsageError: an argument is out of range.

    >>> round(log_inv_delta(0.05), 6), log_inv_delta(0.05, statements=2, log_class_size=1e4) > 1e4
    (2.995732, True)

    Source: Boole's inequality; docs/theory.md, section "One log, many statements".
    """
    check_delta(delta)
    check_count("statements", statements, 1)
    check_non_negative("log_class_size", log_class_size)
    # log(statements |Pi| / delta), without forming a quotient that may underflow
    return math.log(statements) + log_class_size - math.log(delta)
