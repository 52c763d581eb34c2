"""Policies on the eligible actions of each row: probabilities and scores of pairs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, label_array
from piwo.logs.batch import Floats
from piwo.logs.eligible import LISTS, Eligible, is_list, ragged
from piwo.logs.foreign import RowError
from piwo.messages import argument
from piwo.policies.blocks import Codes
from piwo.sources.source import decoded
from piwo.visible import type_text

__all__ = [
    "at_places",
    "draw_pairs",
    "eligible_lists",
    "highest",
    "labels_of_lists",
    "list_array",
    "renormalized",
    "shares",
    "softmax",
    "spread_out",
    "taken",
]


def renormalized(chances: Floats, eligible: Eligible) -> Floats:
    """Return p(a | x) / sum_b p(b | x), b eligible, of all pairs, (m,).

    Args:
        chances: (m,) p, at least 0.
        eligible: of n rows.

    Raises:
        RowError: for the first row in which every eligible action has probability 0.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> renormalized(np.array([0.1, 0.3, 0.2]), some).tolist()
    [0.25, 0.75, 1.0]
    """
    if not len(eligible):
        return chances
    sums = np.add.reduceat(chances, eligible.starts[:-1])
    if not (sums > 0.0).all():
        raise RowError(
            "the policy gives each eligible action probability 0; give every action some "
            "probability",
            np.flatnonzero(~(sums > 0.0)).tolist(),
        )
    found: Floats = chances / np.repeat(sums, eligible.sizes)
    return found


def softmax(z: Floats, eligible: Eligible, temperature: float = 1.0) -> Floats:
    """Return exp(z / T) / sum exp(z / T) over the pairs of each row, (m,); -inf: not available.

    Args:
        z: (m,) scores.
        eligible: of n rows.
        temperature: T.

    Raises:
        RowError: for the first row without an available action, or with a score that is NaN.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> softmax(np.array([800.0, 800.0, -9.0]), some).tolist()
    [0.5, 0.5, 1.0]
    """
    if not len(eligible):
        return z
    top = np.maximum.reduceat(z, eligible.starts[:-1])
    _check_top(top)
    z = z - np.repeat(top, eligible.sizes)
    if temperature != 1.0:
        # Subtracted first: 0 / T is 0 and -1 / 1e-320 is -inf, never inf - inf.
        with np.errstate(over="ignore"):
            z /= temperature
    return renormalized(np.exp(z), eligible)


def eligible_lists(values: Any, actions: Actions, rows: int) -> Eligible:
    """Return the eligible actions that a policy has, for a policy that acts.

    Args:
        values: n lists of labels, or one list for all rows; labels that the policy does not have
            are left out.
        actions: of the policy.
        rows: n.

    Raises:
        UsageError: for another number of lists.
        RowError: for rows without an action that the policy has, or with one twice.

    >>> some = eligible_lists([["a", "b"], ["c", "b"]], Actions(["a", "b"]), 2)
    >>> some.starts.tolist(), some.codes.tolist()
    ([0, 2, 3], [0, 1, 1])
    """
    array = list_array(values, rows)
    if not is_list(array.type):
        raise DataError(f"{argument('eligible')} has {type_text(array.type)}, expected {LISTS}")
    if len(array) != rows:
        raise UsageError(
            f"{argument('eligible')} has {len(array):,} lists, expected one for each of {rows:,} "
            "rows"
        )
    name = "eligible"
    starts, labels = ragged(array, name, LISTS)
    listed = Eligible(starts, actions.codes(labels, name))
    table = np.append(np.arange(len(actions), dtype=np.int32), np.int32(-1))
    found, _ = listed.recoded(table)
    for problem, bad in (
        ("no eligible action is an action of the policy", found.sizes == 0),
        ("an eligible action is listed twice; list each once", found.doubled(len(actions))),
    ):
        if bad.any():
            raise RowError(problem, np.flatnonzero(bad).tolist())
    return found


def labels_of_lists(values: Any) -> list[Any]:
    """Return the distinct labels of lists of eligible actions, sorted.

    Raises:
        DataError: for lists without a label.

    >>> labels_of_lists([["b", "a"], ["a"]])
    ['a', 'b']
    """
    array = list_array(values, 1)
    if not is_list(array.type):
        raise DataError(f"{argument('eligible')} has {type_text(array.type)}, expected {LISTS}")
    found = decoded(pc.unique(ragged(array, "eligible", LISTS)[1]))
    labels = pc.drop_null(label_array(found, "eligible")).to_pylist()
    if not labels:
        raise DataError(f"{argument('eligible')} has no label, expected {LISTS}")
    return sorted(labels)


def list_array(values: Any, rows: int) -> pa.Array:
    """Return lists of labels as an Arrow array; one list of labels is that of all rows.

    Args:
        values: lists of labels, or lists of such lists, of slots.
        rows: how many rows one list of labels is of.

    >>> list_array(["a", "b"], 2).to_pylist()
    [['a', 'b'], ['a', 'b']]
    """
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, pa.Array):
        return values
    wrong = isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable)
    # A column of a data frame is one-dimensional, a data frame is not.
    if wrong or hasattr(values, "columns") or isinstance(values, pa.Table | pa.RecordBatch):
        raise UsageError(f"{argument('eligible')} is {shown(values)}, expected {LISTS}")
    listed = [_plain(x) for x in values]
    if not listed:
        return pa.array([], pa.list_(pa.string()))
    count = len(listed)
    if not any(isinstance(x, list | tuple | pa.Scalar) or x is None for x in listed):
        listed, count = [listed], rows
    try:
        array = pa.array(listed)
        if count == len(listed):
            return array
        # One list of labels, which is that of all rows.
        return array.take(pa.array(np.zeros(count, np.int64)))
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as cause:
        line = " ".join(str(cause).split())[:200]
        raise DataError(f"{argument('eligible')} cannot be read as {LISTS}: {line}") from None


def _plain(entry: Any) -> Any:
    """Return an array, or a polars Series, as a list; anything else as it is."""
    if isinstance(entry, np.ndarray):
        return entry.tolist()
    if hasattr(entry, "to_list"):
        return entry.to_list()
    return entry


def highest(scores: Floats, eligible: Eligible) -> Codes:
    """Return the eligible action with the highest score in each row, (n,) codes.

    Of equal scores the lowest code wins, whatever the order of the pairs.

    Args:
        scores: (m,); -inf: not available.
        eligible: of n rows.

    Raises:
        RowError: for the first row without an available action, or with a score that is NaN.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> highest(np.array([0.5, 0.5, 0.1]), some).tolist()
    [1, 4]
    """
    from piwo.policies.kernels import highest_of_pairs

    codes, top = np.empty(len(eligible), np.int32), np.empty(len(eligible))
    highest_of_pairs(eligible.starts, eligible.codes, scores, codes, top)
    _check_top(top)
    return codes


def taken(codes: Codes, eligible: Eligible) -> Floats:
    """Return 1 for the pair of each row that has the given code, and 0 for the others, (m,).

    Raises:
        RowError: for the first row in which that action is not eligible.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> taken(np.array([1, 4], np.int32), some).tolist()
    [0.0, 1.0, 1.0]
    """
    places = eligible.places(codes)
    if (places < 0).any():
        raise RowError(
            "the policy takes an action that is not eligible; use a policy that scores every "
            "action, or one that draws among them",
            np.flatnonzero(places < 0).tolist(),
        )
    found = np.zeros(len(eligible.codes))
    found[places] = 1.0
    return found


def at_places(values: Floats, places: npt.NDArray[np.int64]) -> Floats:
    """Return the values at some pairs, (n,); 0 for -1.

    >>> at_places(np.array([0.25, 0.75]), np.array([1, -1])).tolist()
    [0.75, 0.0]
    """
    if not len(values):
        return np.zeros(len(places))
    return np.where(places >= 0, values[np.maximum(places, 0)], 0.0)


def spread_out(values: Floats, eligible: Eligible, actions: int) -> Floats:
    """Return the values of pairs as a table of rows x actions, (n, K), 0 elsewhere.

    >>> some = Eligible(np.array([0, 1, 2]), np.array([1, 0], np.int32))
    >>> spread_out(np.array([1.0, 2.0]), some, 2).tolist()
    [[0.0, 1.0], [2.0, 0.0]]
    """
    table = np.zeros((len(eligible), actions))
    table[eligible.rows, eligible.codes] = values
    return table


def draw_pairs(
    chances: Floats, eligible: Eligible, rng: np.random.Generator
) -> npt.NDArray[np.int64]:
    """Draw one pair of each row with its probability, (n,) pairs; one uniform number a row.

    >>> some = Eligible(np.array([0, 2, 3]), np.array([4, 1, 4], np.int32))
    >>> draw_pairs(np.array([0.0, 1.0, 1.0]), some, np.random.default_rng(0)).tolist()
    [1, 2]
    """
    from piwo.policies.kernels import pairs_at

    places = np.empty(len(eligible), np.int64)
    pairs_at(eligible.starts, chances, rng.random(len(eligible)), places)
    return places


def shares(eligible: Eligible) -> Floats:
    """Return 1 over the number of eligible actions of each row, (n,)."""
    return np.asarray(1.0 / eligible.sizes)


def _check_top(top: Floats) -> None:
    """Raise unless the highest score of each row is finite."""
    if np.isfinite(top).all():
        return
    row = int(np.flatnonzero(~np.isfinite(top))[0])
    problem = f"a score is {top[row]}; look for NaN or huge numbers in the context"
    if top[row] == -np.inf:
        problem = "none of the eligible actions is available to the policy"
    raise RowError(problem, row)
