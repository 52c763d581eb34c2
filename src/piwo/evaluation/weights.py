"""The importance weights of one policy as an array, one entry a row of the log."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.intervals.matching import check_actions_known, matched, name_of
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.scores.ratio import importance_weights

__all__ = ["weights"]


def weights(log: Log, policy: Any) -> Floats:
    """Return the importance weights of a policy, in the order of the rows. For looking at them.

    Statistics need no such array: they sum the weights while the log is read. Prefer
    `piwo.check(log, policy)` to judge weights: its histogram and heaviest rows take no memory.

    Formula: w_t = pi(A_t|X_t) / mu(A_t|X_t), by the smallest propensities that the log allows for
    (`Log.with_propensity_error`). Sampling weights and units do not change it.

    Args:
        log: the logged decisions, n rows.
        policy: see `piwo.evaluate` for what it may be.

    Returns:
        (n,) float64, at least 0; inf if a quotient is beyond float64. Rows are read batch by batch,
        so that memory is 8 bytes a row.

    Raises:
        DataError: for rows that break a rule, and policies that do not fit the log.
        UsageError: for rows without a fixed order: those of a cluster, and of queries.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b", "a"], reward=[1, 0, 1], propensity=[0.5, 0.5, 0.25]
    ... )
    >>> weights(log, piwo.policies.Constant("a", log.actions)).tolist()
    [2.0, 0.0, 4.0]
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    log.require_order("an array of weights")
    if not log.source.steady:
        key = argument("key")
        raise UsageError(
            f"rows of {log.name} may come in another order at each pass, and an array of weights "
            f"is by row; store them in a file first, with a column that names each row ({key})"
        )
    # By unit, rows would come in another order.
    by_row = replace(log, columns=replace(log.columns, unit=None))
    by_row, ready = matched(by_row, {name_of(policy): policy})
    (made,) = ready.values()
    check_actions_known(by_row, (made,))
    found: Floats = np.empty(len(by_row))
    filled = 0
    for batch in by_row.each_batch(context=made.needs_context):
        taken = made.logged(batch)
        w = importance_weights(batch, taken, lambda batch=batch: made.log_logged(batch)).w  # type: ignore[misc]
        found[filled : filled + len(w)] = w
        filled += len(w)
    return found
