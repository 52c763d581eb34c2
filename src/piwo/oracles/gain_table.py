"""Gains of all actions as a table, for the oracles of piwo and of other libraries."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind
from piwo.errors import DataError
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.logs.options import check_fixed_actions
from piwo.oracles.oracle import check_score
from piwo.policies.blocks import check_size, row_blocks
from piwo.scores import Score
from piwo.sources.row_labels import place

__all__ = ["GainBlock", "gain_blocks", "gains", "relative_gains"]

_BLOCK_BYTES = 2**24
_LARGEST_LOG = 600.0
"""exp(600) times a million rows is far below the largest float64."""


@dataclass(frozen=True)
class GainBlock:
    """The gains of some rows of a log.

    >>> GainBlock(np.array([7]), None, np.array([[0.5, 2.0]])).table.argmax(axis=1).tolist()
    [1]
    """

    rows: npt.NDArray[np.int64]
    """(m,) row numbers in the log."""
    context: Floats | None
    """(m, d) encoded context; None if the log was read without."""
    table: Any
    """(m, K) gains, of the type that `gains` returns."""


def gains(log: Log, score: Score) -> Any:
    """Return the (n, K) gains of a score: what each action in each row is credited with.

    Answers: how can a learner of another library use piwo's scores? An oracle of piwo maximizes
    sum_t sum_a pi(a|X_t) G[t, a] over policies; policytree (`policy_tree(X, G)`), EconML
    (`PolicyTree().fit(X, G)`) and similar tools take the same table. Row t is row t of the log
    (with a condition or in a split: the t-th of the rows that are left), column a the action
    `log.actions.labels[a]`; all gains are on the unit scale of the reward, (R - lo)/(hi - lo), so
    that costs give the highest gains where they are lowest. `gain_blocks` gives the context of the
    same rows, as the oracles see it.

    Formula: G[t, a] = s_t (1{a = A_t} g_t + c D[t, a]), with g_t the gain of the logged action,
    c the weight of the dense gains D (0 for IX and other scores that credit the logged action
    alone) and s_t the sampling weight of the row: 1, or one over the number of its unit's rows if
    the log declares units. The score of a policy pi is sum_t sum_a pi(a|X_t) G[t, a] / sum_t s_t.

    Args:
        log: n rows with K actions.
        score: a score that is linear in the policy, with a number as hyper-parameter.

    Returns:
        (n, K). For scores that credit the logged action alone a `scipy.sparse.csr_array` with one
        entry in each row, also if its gain is 0: `data` holds the n gains, `indices` the logged
        actions. For scores that credit every action (`DoublyRobustLS`, `BaselineRelative`,
        `PseudoLoss`), which need full propensity vectors, a NumPy array.

    Raises:
        UsageError: for a score that is not linear, or whose hyper-parameter is not a number; for
            rows in a cluster; for an array of more than 4 GiB (`piwo.policies.DENSE_LIMIT`), which
            `gain_blocks` gives in parts.
        DataError: for a gain that is beyond float64, and for rows that break a rule.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 1], propensity=[0.4, 0.9], actions=["a", "b", "c"]
    ... )
    >>> piwo.gains(log, piwo.IX(0.1)).toarray().tolist()
    [[2.0, 0.0, 0.0], [0.0, 1.0, 0.0]]
    """
    from scipy.sparse import csr_array, vstack

    _check(log, score)
    actions = len(log.actions)
    dense = score.dense_weight != 0.0
    if dense:
        _check_size(log, score, "take it in parts from piwo.oracles.gain_blocks")
    blocks = [(block.rows, block.table) for block in _blocks(log, score, context=False)]
    if not blocks:
        return np.zeros((0, actions)) if dense else csr_array((0, actions))
    rows = np.concatenate([some for some, _ in blocks])
    tables = [table for _, table in blocks]
    table = np.concatenate(tables) if dense else csr_array(vstack(tables, format="csr"))
    # rows of one unit are read together
    if (np.diff(rows) < 0).any():
        table = table[np.argsort(rows)]
    return table


def gain_blocks(log: Log, score: Score) -> Iterator[GainBlock]:
    """Yield the gains of a log block by block with its context, however large the table is.

    Args:
        log: see `gains`.
        score: see `gains`.

    Returns:
        The blocks, of at most 16 MB if gains are dense, in the order in which rows are read: by row
        number, or unit by unit if the log declares units. Rows are numbered as in the source.

    Raises:
        UsageError: see `gains`.
        DataError: see `gains`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[5.0], [6.0]], action=["a", "b"], reward=[1, 1], propensity=[0.4, 0.9]
    ... )
    >>> [(x.context.tolist(), x.table.data.tolist()) for x in gain_blocks(log, piwo.IX(0.1))]
    [([[5.0], [6.0]], [2.0, 1.0])]
    """
    _check(log, score)
    return _blocks(log, score, context=log.has_context)


def relative_gains(log: Log, score: Score) -> tuple[Floats, Floats]:
    """Return the context, (n, d), and the dense gains of all rows up to a positive factor, (n, K).

    With the factor, gains that are beyond float64 can be compared.

    Raises:
        UsageError: for a table above `DENSE_LIMIT`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[5.0]], action=["a"], reward=[1], propensities=[[0.5, 0.5]], actions=["a", "b"]
    ... )
    >>> relative_gains(log, piwo.PseudoLoss(0.25))[1].tolist()
    [[1.5, -0.5]]
    """
    _check_size(log, score, "use the ridge oracle, or read a sample of the rows")
    contexts: list[Any] = []
    parts, scales = [], []
    for batch in log.each_batch(context=True, propensities=True):
        for block in row_blocks(len(batch), len(log.actions), size=_BLOCK_BYTES):
            part = batch.take(block)
            dense = score.dense_gains(part)
            contexts.append(part.context)
            few = replace(part, context=None, propensities=None, log_propensities=None)
            parts.append((few, part.sampled(score.gains(part)), part.sampled(dense.values)))
            scales.append(dense.scale)
    if not parts:
        raise DataError(f"no rows in {log.name!r}, expected at least one logged decision")
    # G exp(-unit) = s (1{a = A} g exp(-unit) + c values exp(scale - unit))
    unit = max(0.0, float(np.max(scales)) - _LARGEST_LOG)
    tables = []
    for (part, logged, values), scale in zip(parts, scales, strict=True):
        table = values * (score.dense_weight * np.exp(scale - unit))
        table[np.arange(len(part)), part.action] += logged * np.exp(-unit)
        _check_finite(part, table, score)
        tables.append(table)
    return np.concatenate(contexts), np.concatenate(tables)


def _check_size(log: Log, score: Score, instead: str) -> None:
    rows, actions = len(log), len(log.actions)
    what = f"{score.label} credits every action: its table of {rows:,} rows x {actions} actions"
    check_size(what, rows * actions, instead)


def _check(log: Any, score: Any) -> None:
    check_kind("log", log, Log, "; piwo.read makes one")
    check_score(score)
    log.require_one_machine("a table of gains")
    check_fixed_actions(log.columns, "whoever reads a table of gains")
    # raises if the hyper-parameter is not a number
    _ = score.value


def _blocks(log: Log, score: Score, context: bool) -> Iterator[GainBlock]:
    dense, actions = score.dense_weight != 0.0, len(log.actions)
    # a sparse table has one number in each row
    width = actions if dense else 1
    for batch in log.each_batch(context=context or score.needs_context, propensities=dense):
        for block in row_blocks(len(batch), width, size=_BLOCK_BYTES):
            part = batch.take(block)
            table = _dense(part, score) if dense else _sparse(part, score, actions)
            yield GainBlock(part.row_numbers, part.context if context else None, table)


def _sparse(batch: Batch, score: Score, actions: int) -> Any:
    from scipy.sparse import csr_array

    # G[t, A_t] = s_t g_t, stored also where it is 0
    found = batch.sampled(score.gains(batch))
    _check_finite(batch, found, score)
    starts = np.arange(len(batch) + 1)
    return csr_array((found, batch.action, starts), shape=(len(batch), actions))


def _dense(batch: Batch, score: Score) -> Floats:
    # G[t, a] = s_t (1{a = A_t} g_t + c D[t, a])
    with np.errstate(over="ignore", invalid="ignore"):
        table = score.dense_weight * score.dense_gains(batch).table
        table[np.arange(len(batch)), batch.action] += score.gains(batch)
        table = batch.sampled(table)
    _check_finite(batch, table, score)
    return table


def _check_finite(batch: Batch, found: Floats, score: Score) -> None:
    wrong = np.flatnonzero(~np.isfinite(found.reshape(len(found), -1)).all(axis=1))
    if len(wrong):
        where = place(int(batch.row_numbers[wrong[0]]))
        raise DataError(
            f"a gain of {score.label} is beyond float64 in {where}: the propensity is too small, "
            "expected finite gains; use a score with gamma > 0 such as IX"
        )
