"""Cross-fitting: predicted rewards of each row, from models that were fitted to other rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_kind, check_seed
from piwo.engines.stages import check_time
from piwo.errors import DataError, UsageError
from piwo.estimators.forward_model import FIRST_GUESS
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.foreign import predictions
from piwo.logs.hashing import uniform
from piwo.logs.log import Log
from piwo.logs.times import stretches
from piwo.messages import argument
from piwo.policies.blocks import check_dense

__all__ = ["By", "CrossFit", "cross_fit"]

By = Literal["row", "key", "unit", "time"]

_FEW = 5
"""An action with fewer rows gets no model."""


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Predicted rewards of every action in every row of one log, each made from other rows.

    It is the `q` of `direct_method` and `doubly_robust`; of `evaluate`, `compare` and `certify`
    too if every prediction was made from earlier rows (`forward`).

    >>> CrossFit(np.zeros((1, 2)), np.zeros(1, int), Actions(["a", "b"]), False).forward
    False
    """

    table: Floats
    """(n, K) in the reward's own unit, by row number; NaN in rows that a condition left out."""
    fold: npt.NDArray[np.int64]
    """(n,) the fold of each row; -1 in rows that a condition left out."""
    actions: Actions
    forward: bool
    """Whether each row is predicted from earlier rows of the log alone."""


def cross_fit(
    log: Log,
    regressor: Any,
    folds: int = 5,
    *,
    by: By | None = None,
    random_state: int = 0,
) -> CrossFit:
    """Return the rewards that a regression for each action predicts, on rows it was not fitted to.

    Answers: which q to give to `doubly_robust`, if there are no other data to fit one? Predictions
    that were fitted to their own rows make doubly robust estimates too sure of themselves.

    Formula: q(X_t, a) = f_{a, k(t)}(X_t), k(t) the fold of row t, f_{a, k} fitted to the rows of
    action a outside of fold k (by="time": to those of folds 0..k-1). With fewer than 5 such rows it
    is their mean reward, without any that of all actions, and without rows of any action the middle
    of the reward range. Sampling weights are not used. All rows are held in memory.
    Source: Chernozhukov et al. 2018 (Econometrics Journal 21), Definition 3.2.

    Args:
        log: the logged decisions, with context.
        regressor: a scikit-learn regressor; each action and fold gets a copy of it.
        folds: how many, at least 2.
        by: what rows have in common that are in one fold: "row": nothing, each is drawn by its
            number; "key", "unit": the value of the key or unit column; "time": folds are stretches
            of time (the time column, or the order of the rows), predicted from earlier ones alone,
            for a logger that learned. None: "unit" if the log declares units, "time" if its logger
            is declared as learning, otherwise "row".
        random_state: seed of the folds; unused for "time".

    Returns:
        A `CrossFit`. Random folds predict each other, which the finite-sample intervals of
        `evaluate` do not allow: give them q="forward", or by="time" on a log in order of time.

    Raises:
        UsageError: for an argument out of range, a column that the log does not declare, a
            regressor without `fit` and `predict`, and more than 4 GiB of predictions.
        DataError: for a log without context, rows that break a rule, and predictions that are NaN
            or infinite.

    >>> import piwo
    >>> from sklearn.linear_model import LinearRegression
    >>> X = np.arange(40.0)[:, None]
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=["a", "b"] * 20, reward=X[:, 0] / 39, propensity=[0.5] * 40
    ... )
    >>> q = piwo.cross_fit(log, LinearRegression())
    >>> piwo.estimators.doubly_robust(log, piwo.policies.Uniform(log.actions), q).value.__round__(6)
    0.5
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    check_count("folds", folds, 2, "the number of folds")
    check_seed("random_state", random_state)
    if not (hasattr(regressor, "fit") and hasattr(regressor, "predict")):
        raise UsageError(
            f"{argument('regressor')} is {regressor!r:.80}, expected a scikit-learn regressor"
        )
    how = _by(log, by)
    log.require_one_machine("cross-fitting")
    log.require_order("cross-fitting")
    if not log.has_context:
        raise DataError(
            "cross-fitting needs the context, and the log was read without; read it with "
            f"{argument('context', '[...]')}"
        )
    placing: Any = {"key": "hash", "unit": "hash", "time": "time"}.get(how)
    parts = list(log.each_batch(context=True, placing=placing))
    if not parts:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    rows = np.concatenate([part.row_numbers for part in parts])
    length, actions = int(rows.max()) + 1, len(log.actions)
    check_dense(length, actions)
    if how == "time":
        fold, forward = _stretches(parts, rows, folds)
    else:
        numbers = rows
        if how != "row":
            numbers = np.concatenate([part.keys for part in parts if part.keys is not None])
        fold, forward = np.floor(uniform(random_state, numbers) * folds).astype(np.int64), False
    context = np.concatenate([part.context for part in parts if part.context is not None])
    action = np.concatenate([part.action for part in parts])
    reward = np.concatenate([part.reward for part in parts])
    table, placed = np.full((length, actions), np.nan), np.full(length, -1)
    placed[rows] = fold
    for k in np.unique(fold):
        others = fold < k if how == "time" else fold != k
        some = fold == k
        rest = (context[others], action[others], reward[others])
        table[rows[some]] = _predicted(regressor, *rest, context[some], actions)
    # from the unit scale to the reward's own unit
    return CrossFit(log.reward_range[0] + log.span * table, placed, log.actions, forward)


def _by(log: Log, by: Any) -> str:
    """Return what folds are made by.

    Raises:
        UsageError: for another word, a column that was not declared, and rows of units apart.
    """
    columns = log.columns
    if by is None:
        if columns.unit is not None:
            return "unit"
        return "time" if log.logger == "learning" else "row"
    if by not in get_args(By):
        raise UsageError(f"{argument('by')} is {by!r}, expected 'row', 'key', 'unit' or 'time'")
    if by in ("key", "unit") and getattr(columns, by) is None:
        raise UsageError(
            f"{argument('by', by)} needs a column that the log does not declare; read it with "
            f"{argument(by, '...')}"
        )
    if by != "unit":
        columns.require_single_rows(
            f"cross-fitting with {argument('by', by)}", f"use {argument('by', 'unit')}"
        )
    return str(by)


def _stretches(
    parts: list[Batch], rows: npt.NDArray[np.int64], folds: int
) -> tuple[npt.NDArray[np.int64], bool]:
    """Return stretches of time of about equal size, and whether rows are in order of time."""
    if any(part.times is None for part in parts):
        times = rows
    else:
        times = np.concatenate([part.times for part in parts if part.times is not None])
    return stretches(times, folds), bool((np.diff(times[np.argsort(rows)]) >= 0).all())


def _predicted(
    regressor: Any,
    context: Floats,
    action: npt.NDArray[np.int32],
    reward: Floats,
    wanted: Floats,
    actions: int,
) -> Floats:
    """Return predictions of every action in other rows, (m, K), on the unit scale."""
    from sklearn.base import clone

    from piwo.policies.models import fitted_model

    found = np.full((len(wanted), actions), reward.mean() if len(reward) else FIRST_GUESS)
    for a in np.unique(action):
        check_time()
        here = action == a
        if here.sum() < _FEW:
            found[:, a] = reward[here].mean()
            continue
        model = fitted_model(clone(regressor), context[here], reward[here])
        guess = model.predict(wanted)
        found[:, a] = predictions(guess, (len(wanted),), f"{type(regressor).__name__}.predict")
    return found
