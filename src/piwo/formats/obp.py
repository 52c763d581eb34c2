"""Open Bandit Pipeline's `bandit_feedback`, both ways; obp itself is not needed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_kind
from piwo.errors import DataError, UsageError
from piwo.formats.rows import require_fixed_actions, require_writable, rewards_of, rows_of
from piwo.logs.column_names import NO_PROPENSITIES
from piwo.logs.foreign import distributions
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.source import decoded

__all__ = [
    "context_in",
    "from_obp",
    "numbers_in",
    "require_entries",
    "to_obp",
    "whole_in",
]

_POSITION = "position"
_NEEDED = ("n_rounds", "n_actions", "action", "reward")

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]


def from_obp(
    feedback: Mapping[str, Any],
    *,
    policies: Mapping[str, Any] | None = None,
    position: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
) -> Log:
    """Return the log of a `bandit_feedback` of Open Bandit Pipeline (obp).

    A row is one action at one position, as obp's estimators for single actions count it: the value
    of a policy is mean(pi(A | X, position) / pscore * reward) over all rows. This assumes that the
    reward at a position depends on the action there alone. If there are several positions,
    the column "position" is part of the context (as text, so that each position is a level of its
    own), and `pi_b` and `policies` are taken at the position of each row.

    Args:
        feedback: the dictionary: `n_rounds`, `n_actions`, `action` (n,) from 0, `reward` (n,),
            `pscore` (n,) or `pi_b` (n, K, L) or both, and, if not None, `context` (n, d) and
            `position` (n,) from 0. `action_context` and `expected_reward` are not read.
        policies: name -> obp's `action_dist`, (n, K, L), (n, K, 1) or (n, K): columns of target
            policies, `piwo.policies.Column(name)`. Each row is a distribution: numbers in [0, 1]
            with the sum 1, within `piwo.logs.foreign.TOLERANCE`, and divided by their sum.
        position: only the rows at this position; None: all.
        reward_range: the declared (lo, hi) of the reward.

    Returns:
        A `Log` with actions 0, ..., K-1; with all their probabilities if there is a `pi_b`.

    Raises:
        UsageError: for a dictionary without these entries, for distributions that differ by
            position where rows have none, and for slates, which `piwo.slates.from_obp` reads.
        DataError: for arrays whose shapes do not fit, and for rows of `policies` that are no
            distribution.

    Source: the documentation of obp 0.5, "obp.dataset".

    >>> feedback = {
    ...     "n_rounds": 2,
    ...     "n_actions": 2,
    ...     "action": np.array([0, 1]),
    ...     "position": None,
    ...     "reward": np.array([1, 0]),
    ...     "pscore": np.array([0.5, 0.25]),
    ...     "context": np.eye(2),
    ... }
    >>> log = from_obp(feedback, policies={"new": np.full((2, 2, 1), 0.5)})
    >>> log.actions.labels, next(log.each_batch()).policies["new"].tolist()
    ((0, 1), [0.5, 0.5])
    """
    _refuse_slates(feedback)
    require_entries(feedback, _NEEDED, ("pscore", "pi_b"), "bandit feedback")
    if policies is not None:
        check_kind("policies", policies, Mapping)
    if position is not None:
        check_count("position", position, 0, "the position, from 0")
    n, count = int(feedback["n_rounds"]), int(feedback["n_actions"])
    action = whole_in(feedback, "action", n, count)
    places, length = _positions(feedback, n)
    unplaced = feedback.get(_POSITION) is None and position is None
    keep = np.ones(n, bool)
    if position is not None:
        keep = places == position
        if not keep.any():
            raise UsageError(
                f"no row has {argument('position', position)}, expected one of 0..{length - 1}"
            )
    given: dict[str, Any] = {}
    if feedback.get("pscore") is not None:
        given["propensity"] = numbers_in(feedback, "pscore", n)[keep]
    if feedback.get("pi_b") is not None:
        vectors = _at_positions(feedback["pi_b"], "pi_b", places, count, length, unplaced)
        given["propensities"] = vectors[keep]
    columns = {}
    for name, values in (policies or {}).items():
        given_dist = _at_positions(values, name, places, count, length, unplaced)
        checked = distributions(given_dist, n, count, f"policy {name!r}")
        columns[name] = checked[np.arange(n), action][keep]
    context: dict[str, Any] = {}
    for i, values in enumerate(context_in(feedback, n)):
        context[f"x{i}"] = values[keep]
    if length > 1 and position is None:
        context[_POSITION] = places.astype(str)
    log = Log.from_arrays(
        action=action[keep],
        reward=numbers_in(feedback, "reward", n)[keep],
        context=context or None,
        policies=columns,
        actions=range(count),
        reward_range=reward_range,
        **given,
    )
    return replace(log, source=replace(log.source, name="the bandit feedback"))  # type: ignore[type-var]


def _refuse_slates(feedback: Any) -> None:
    if isinstance(feedback, Mapping) and "slate_id" in feedback:
        raise UsageError(
            "the bandit feedback is that of slates, which show several actions; read it with "
            "piwo.slates.from_obp"
        )


def require_entries(feedback: Any, needed: Sequence[str], one_of: Sequence[str], what: str) -> None:
    """Raise unless a dictionary of obp has entries.

    Args:
        feedback: the dictionary.
        needed: all of these.
        one_of: one or more of these.
        what: it is.

    Raises:
        UsageError: saying what is missing.

    >>> require_entries({"pi_b": [[[1.0]]]}, (), ("pscore", "pi_b"), "bandit feedback")
    """
    if not isinstance(feedback, Mapping):
        raise UsageError(
            f"{argument('feedback')} is {type(feedback).__name__}, expected the dictionary "
            "bandit_feedback of Open Bandit Pipeline"
        )
    missing = [x for x in needed if feedback.get(x) is None]
    if all(feedback.get(x) is None for x in one_of):
        missing.append(one_of[0])
    if missing:
        advice = NO_PROPENSITIES if missing == ["pscore"] and "pi_b" in one_of else ""
        raise UsageError(
            f"the {what} has no {', '.join(map(repr, missing))}; it has "
            f"{', '.join(map(repr, feedback))}{advice}"
        )


def context_in(feedback: Mapping[str, Any], n: int) -> Floats:
    """Return the columns of the context, (d, n); none if there is no context.

    >>> context_in({"context": [[1.0, 2.0]]}, 1).tolist()
    [[1.0], [2.0]]
    """
    if feedback.get("context") is None:
        return np.empty((0, n))
    matrix = np.asarray(feedback["context"], np.float64)
    if matrix.ndim != 2 or len(matrix) != n:
        raise DataError(f"'context' has shape {matrix.shape}, expected ({n}, d)")
    return matrix.T


def numbers_in(feedback: Mapping[str, Any], name: str, n: int) -> Floats:
    """Return an entry of a dictionary as numbers, (n,).

    Raises:
        DataError: for what is no number, and for another shape.

    >>> numbers_in({"reward": [1, 0]}, "reward", 2).tolist()
    [1.0, 0.0]
    """
    try:
        values = np.asarray(feedback[name], np.float64)
    except (TypeError, ValueError):
        raise DataError(
            f"{name!r} holds what is no number, expected {n} numbers; of texts give their codes, "
            f"numpy.unique({name}, return_inverse=True)[1]"
        ) from None
    if values.shape != (n,):
        raise DataError(f"{name!r} has shape {values.shape}, expected ({n},)")
    return values


def whole_in(feedback: Mapping[str, Any], name: str, n: int, count: int | None) -> Numbers:
    """Return an entry of a dictionary as whole numbers from 0 to count - 1, (n,).

    Args:
        feedback: the dictionary.
        name: of the entry.
        n: how many numbers there are.
        count: one more than the largest; None: any.

    >>> whole_in({"action": [1, 0]}, "action", 2, 2).tolist()
    [1, 0]
    """
    values = numbers_in(feedback, name, n)
    most = np.inf if count is None else count
    # NaN is not whole
    wrong = (values != np.floor(values)) | (values < 0) | (values >= most) | np.isinf(values)
    if wrong.any():
        row = int(np.flatnonzero(wrong)[0])
        upto = "from 0 on" if count is None else f"from 0 to {count - 1}"
        raise DataError(f"{name!r} is {values[row]:g} in row {row}, expected a whole number {upto}")
    return values.astype(np.int64)


def _positions(feedback: Mapping[str, Any], n: int) -> tuple[Numbers, int]:
    """Return the position of each row and how many there are; 0 and 1 if none are given."""
    if feedback.get(_POSITION) is None:
        return np.zeros(n, np.int64), 1
    known = whole_in(feedback, _POSITION, n, None)
    return known, int(known.max(initial=0)) + 1


def _at_positions(
    values: Any, name: str, places: Numbers, count: int, length: int, unplaced: bool
) -> Floats:
    """Return the distributions at the positions of the rows, (n, K).

    Args:
        values: (n, K, L), (n, K, 1) or (n, K).
        name: of the values.
        places: (n,) position of each row.
        count: K.
        length: how many positions the rows have.
        unplaced: whether nothing says at which position a row was.

    Raises:
        DataError: for another shape.
        UsageError: for distributions that differ by position, if it is unknown.
    """
    table = np.asarray(values, np.float64)
    if table.ndim == 2:
        table = table[:, :, np.newaxis]
    n = len(places)
    fits = table.ndim == 3 and table.shape[:2] == (n, count)
    # More positions than rows have is fine: the last ones are of no row.
    if not fits or (table.shape[2] < length and table.shape[2] != 1):
        raise DataError(
            f"{name!r} has shape {np.shape(values)}, expected ({n}, {count}, {length}), "
            f"({n}, {count}, 1) or ({n}, {count})"
        )
    if unplaced and not np.array_equal(table, np.broadcast_to(table[:, :, :1], table.shape)):
        raise UsageError(
            f"{name!r} differs by position (shape {table.shape}), and the bandit feedback has no "
            f"{_POSITION!r}; give that of each row, or say which one is meant "
            f"({argument(_POSITION, 0)})"
        )
    if table.shape[2] == 1:
        return np.ascontiguousarray(table[:, :, 0])
    found: Floats = table[np.arange(n), :, places]
    return found


def to_obp(log: Log) -> dict[str, Any]:
    """Return a log as the `bandit_feedback` of Open Bandit Pipeline (obp), in memory.

    Args:
        log: the log. Its sampling weights, units, times and keys have no place there.

    Returns:
        `n_rounds`, `n_actions`, `action` (n,) codes in the order of `log.actions`, `position` (n,)
        if a context column has that name, else None, `reward` (n,), `pscore` (n,), `context`
        (n, d) as the log encodes it, without columns if there is none, and `action_context`, the
        unit matrix (K, K). `pi_b`, (n, K, 1), if the log has the probability of every action and
        no positions. Rewards are net of action costs.

    Raises:
        UsageError: for a log with sampling weights, with eligible actions, in a cluster, or with
            estimated propensities.
        DataError: for rows that break a rule.

    >>> log = Log.from_arrays(action=["b", "a"], reward=[0.5, 1], propensity=[0.5, 0.25])
    >>> feedback = to_obp(log)
    >>> feedback["n_actions"], feedback["action"].tolist(), feedback["pscore"].tolist()
    (2, [1, 0], [0.5, 0.25])
    """
    require_writable(log, "a bandit feedback")
    require_fixed_actions(log, "a bandit feedback")
    if log.columns.weight is not None:
        raise UsageError(
            f"{log.name} has sampling weights ({argument('weight')}), which a bandit feedback "
            "cannot state; leave the role out if every row counts the same"
        )
    with_position = log.features is not None and _POSITION in log.features.columns
    parts: dict[str, list[Any]] = {}
    for record, batch in rows_of(log, log.columns.context, context=True):
        found: dict[str, Any] = {
            "action": batch.action.astype(np.int64),
            "reward": rewards_of(log, record, batch),
            "pscore": batch.propensity,
            "context": np.empty((len(batch), 0)),
        }
        if batch.context is not None:
            found["context"] = batch.context[:, ~_position_columns(log)]
        if batch.propensities is not None and not with_position:
            found["pi_b"] = batch.propensities[:, :, np.newaxis]
        if with_position:
            found[_POSITION] = _position_numbers(decoded(record[_POSITION]).to_pylist())
        for name, values in found.items():
            parts.setdefault(name, []).append(values)
    if not parts:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    feedback = {name: np.concatenate(arrays) for name, arrays in parts.items()}
    count = len(log.actions)
    return {
        "n_rounds": len(feedback["action"]),
        "n_actions": count,
        _POSITION: None,
        "action_context": np.eye(count),
        **feedback,
    }


def _position_columns(log: Log) -> npt.NDArray[np.bool_]:
    """Return the (d,) mask of the columns of the context that encode the position."""
    mask: list[bool] = []
    if log.features is not None:
        for item in log.features.items:
            mask += [item.column == _POSITION] * item.width
    return np.array(mask, bool)


def _position_numbers(values: list[Any]) -> Numbers:
    try:
        numbers = np.array([int(x) for x in values], np.int64)
    except (TypeError, ValueError):
        raise DataError(
            "the context column 'position' does not hold whole numbers, expected positions from 0"
        ) from None
    return numbers
