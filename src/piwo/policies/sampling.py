"""Draws actions: the generator, the draw, and the record of what was drawn."""

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from piwo.checks import is_seed, shown
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.messages import argument
from piwo.policies.blocks import Codes

__all__ = [
    "Decisions",
    "RandomState",
    "check_random_state",
    "draw_columns",
    "draw_rows",
    "generator",
    "running_sums",
]

RandomState = int | np.random.Generator | None


class Decisions(NamedTuple):
    """The actions that a policy chose, and their probabilities. Log both, to learn from later.

    >>> actions, propensities = Decisions(np.array(["a"]), np.array([0.25]))
    >>> propensities.tolist()
    [0.25]
    """

    actions: npt.NDArray[Any]
    """(n,) action labels, in the type they have in the log."""
    propensities: Floats
    """(n,) probability with which the policy takes that action in that context."""


def generator(random_state: RandomState) -> np.random.Generator:
    """Return the generator to draw from. A given generator is used as it is, and advances.

    NumPy's global state is neither read nor changed.

    >>> generator(0).random() == generator(0).random()
    True
    """
    check_random_state(random_state)
    return np.random.default_rng(random_state)


def check_random_state(random_state: object) -> None:
    """Raise unless it is None, a whole number of at least 0, or a Generator.

    >>> check_random_state(0)
    """
    if not (
        random_state is None
        or isinstance(random_state, np.random.Generator)
        or is_seed(random_state)
    ):
        raise UsageError(
            f"{argument('random_state')} is {shown(random_state)}, expected None, a "
            "whole number of at least 0, or a Generator"
        )


def draw_rows(table: Floats, rng: np.random.Generator) -> Codes:
    """Draw one column per row, with the probabilities in that row.

    One uniform number per row is looked up in the row's cumulative sum. A column of probability 0
    is never drawn.

    Args:
        table: (n, K) probabilities.
        rng: advances by n numbers.

    Returns:
        (n,) codes.

    >>> draw_rows(np.array([[0.0, 1.0], [1.0, 0.0]]), generator(0)).tolist()
    [1, 0]
    """
    return draw_columns(running_sums(table.T.copy()), rng)


def running_sums(weights: Floats) -> Floats:
    """Return the running sums of each column of weights, (K, n), in their place.

    >>> running_sums(np.array([[1.0, 3.0], [2.0, 4.0]])).tolist()
    [[1.0, 3.0], [3.0, 7.0]]
    """
    if weights.shape[0] > weights.shape[1]:
        return np.cumsum(weights, axis=0, out=weights)
    # `numpy.cumsum` follows one column after the other; sums of whole rows are 4 times as fast.
    for a in range(1, len(weights)):
        weights[a] += weights[a - 1]
    return weights


def draw_columns(running: Floats, rng: np.random.Generator) -> Codes:
    """Draw one code per row from cumulative sums of weights, as `draw_rows` does.

    Args:
        running: (K, n) running sums of each row's weights, of any total.
        rng: advances by n numbers.

    Returns:
        (n,) codes.

    >>> draw_columns(np.array([[0.0, 2.0], [1.0, 2.0]]), generator(0)).tolist()
    [1, 0]
    """
    # u is at most 1 - 2**-53, and u * total then rounds to below total: a code is always found.
    point = rng.random(running.shape[1]) * running[-1]
    # Running sums ascend, so those up to the point are the codes before the one that is drawn.
    codes: Codes = np.add.reduce(running <= point, axis=0, dtype=np.int32)
    return codes
