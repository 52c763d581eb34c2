"""Joint oracles: ridge regression on products of context and item, then the best eligible item."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_finite, check_flag, check_non_negative
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import first_mean
from piwo.oracles.joint_features import (
    WIDEST,
    Crosses,
    ItemOracle,
    ItemTable,
    crossed,
    joint_policy,
)
from piwo.oracles.oracle import shared_by_neighbors
from piwo.policies import JointLinear
from piwo.reductions.joint_gram import JointGram, JointGramState, symmetric
from piwo.reductions.reduce import reduce
from piwo.scores import Score

__all__ = ["JointDirect", "JointRidge", "reward_fit"]

# As in `ridge.py`: shares of the largest weight that differ by less are equal.
_ROUNDING = 1e-11


@dataclass(frozen=True)
class _Regression(ItemOracle):
    """The arguments of both regressions."""

    alpha: float = 1.0
    crosses: Crosses | None = None
    standardize: bool = True

    def __post_init__(self) -> None:
        check_finite("alpha", self.alpha)
        check_non_negative("alpha", self.alpha)
        check_flag("standardize", self.standardize)
        if self.crosses is None:
            return
        crosses: Any = self.crosses
        listed = isinstance(crosses, Sequence) and not isinstance(crosses, str)
        if not listed or not all(
            isinstance(pair, Sequence) and not isinstance(pair, str) and len(pair) == 2
            for pair in crosses
        ):
            raise UsageError(
                f"{argument('crosses')} is {crosses!r:.80}, expected pairs of a context column and "
                "an item column, or None for all"
            )
        object.__setattr__(self, "crosses", tuple(tuple(pair) for pair in crosses))


@dataclass(frozen=True)
class JointRidge(_Regression):
    """Ridge regression of the gains on products of context and item.

    Answers: which policy, if actions have features and change from row to row? One model for all
    items: it learns from few rows of each, and acts on items never seen in training. Per-action
    models (`Ridge`) are for short fixed lists. The log needs `piwo.read(items=)`; `eligible=` is
    used if it has it, otherwise all items could be taken.

    Formula: min over weights w of sum_t sum_{a eligible} (G[t, a] - w'phi(x_t, a))^2 + alpha |w|^2,
    G[t, a] = gain of the score if a = A_t, else 0; phi(x, a) all products of (1, x) and (1, z_a),
    z_a the features of item a; the constant is not penalized. pi(x) = argmax over eligible a of
    w'phi(x, a), a `JointLinear`. It regresses the paper's gains, as `Ridge` does for each action.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6, with features of actions.

    The log is read once. Sums take (p / 2)^2 numbers for p = (d + 1)(f + 1) features, whatever the
    numbers of rows, items and eligible actions; p above 4096 is refused.

    Args:
        alpha: the penalty, at least 0; with 0 the minimum-norm least-squares solution.
        crosses: pairs of a context column and an item column whose products are features, such as
            [("age", "price")]; None: all. Each column alone always is one.
        standardize: divide columns by their standard deviation (of the context over the pairs, of
            items over their table), so that the unit of a column does not matter. They are centered
            in any case.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X,
    ...     action=A,
    ...     reward=(A == (X[:, 0] > 0)) * 1.0,
    ...     propensity=np.full(400, 0.5),
    ...     items={"action": [0, 1], "heat": [-1.0, 1.0]},
    ... )
    >>> policy = JointRidge().solve(log, piwo.IX(0.1))
    >>> new = {"action": [7, 8], "heat": [-3.0, 2.0]}
    >>> policy.act([[-2.0], [2.0]], items=new).actions.tolist()
    [7, 8]
    """

    name: ClassVar[str] = "joint-ridge"

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[JointLinear]:
        """Return one policy for each score; one pass over the log for all of them."""
        self.fit_for(log)
        for score in scores:
            if score.dense_weight != 0.0:
                raise UsageError(
                    f"{score.label} credits every action of a row, and the {self.name} oracle "
                    "takes credits of the logged one; use IX, Clip, LSLinear or IW"
                )
        return _policies(self, log, tuple(scores))


@dataclass(frozen=True)
class JointDirect(_Regression):
    """Ridge regression of the reward on products of context and item; propensities are ignored.

    Answers: which policy, if a reward model of context and item is right, or the log explores
    evenly? It is then more precise than `JointRidge`, and may be worse than the logger otherwise:
    check its certificate. The score is not used.

    Formula: min over weights w of sum_t (R_t - w'phi(x_t, A_t))^2 + alpha |w|^2, over logged pairs
    alone, phi as of `JointRidge`; pi(x) = argmax over eligible a of w'phi(x, a).

    Args:
        alpha: as of `JointRidge`.
        crosses: as of `JointRidge`.
        standardize: as of `JointRidge`.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X,
    ...     action=A,
    ...     reward=(A == (X[:, 0] > 0)) * 1.0,
    ...     propensity=np.full(400, 0.5),
    ...     items={"action": [0, 1], "heat": [-1.0, 1.0]},
    ... )
    >>> JointDirect().solve(log, piwo.IW()).act([[-2.0], [2.0]]).actions.tolist()
    [0, 1]
    """

    name: ClassVar[str] = "joint-direct"
    uses_score: ClassVar[bool] = False

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[JointLinear]:
        """Return the same policy for every score; one pass over the log."""
        self.fit_for(log)
        return _policies(self, log, None) * len(scores)


def _policies(oracle: _Regression, log: Log, scores: tuple[Score, ...] | None) -> list[JointLinear]:
    """Return the policies of the regressions of gains, or of the reward without scores."""
    items, frame, weights = _fits(oracle, log, scores, oracle.name)
    # weights of the constant and of the context alone change no choice
    shares = [one[:, 1:] / max(float(np.abs(one[:, 1:]).max()), 1e-300) for one in weights]

    def policy(s: int, _: Floats) -> JointLinear:
        return joint_policy((frame.T @ weights[s])[:, 1:], items, log)

    return shared_by_neighbors(shares, policy, atol=_ROUNDING)


def reward_fit(log: Log, alpha: float, name: str) -> tuple[ItemTable, Floats]:
    """Return the items of a log and the weights M of the regression of `JointDirect`.

    It predicts the reward (1, x)'M (1, z), z the standardized features of an item, (d + 1, f + 1).

    Args:
        log: with context and items.
        alpha: the penalty.
        name: of the oracle, for errors.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0], [0.0]],
    ...     action=[0, 1],
    ...     reward=[0, 1],
    ...     propensity=[0.5] * 2,
    ...     items={"action": [0, 1], "heat": [0.0, 1.0]},
    ... )
    >>> reward_fit(log, 0.0, "joint-direct")[1].round(6).tolist()
    [[0.5, 0.5], [0.0, 0.0]]
    """
    items, frame, weights = _fits(JointDirect(alpha), log, None, name)
    return items, frame.T @ weights[0]


def _fits(
    oracle: _Regression, log: Log, scores: tuple[Score, ...] | None, name: str
) -> tuple[ItemTable, Floats, list[Floats]]:
    """Return the items, L with L (1, x) = (1, (x - mean) / scale), and weights in such columns."""
    assert log.features is not None
    items = ItemTable.of(log, oracle.standardize)
    d, f = log.features.width, items.features.width
    if (d + 1) * (f + 1) > WIDEST:
        raise UsageError(
            f"the {name} oracle makes {(d + 1) * (f + 1)} products of {d} columns of the "
            f"context and {f} of items, expected at most {WIDEST}; read fewer columns, lower "
            f"{argument('hash_size')} and {argument('max_levels')}, or use the conditional-logit "
            "oracle, which has no limit"
        )
    used = crossed(oracle.crosses, log.features, items.features)
    shift = first_mean(log)
    of_pairs = items.of_pairs if items.inline else None
    state = reduce(log, JointGram(scores, shift, items.table, of_pairs))
    frame = _frame(state, shift, oracle.standardize)
    weights = _solved(state, frame, oracle.alpha, used)
    # (1, x) is brought to u by the shift of the sums first
    move = np.eye(d + 1)
    move[1:, 0] = -shift
    return items, frame @ move, weights


def _frame(state: JointGramState, shift: Floats, standardize: bool) -> Floats:
    """Return L with L u = (1, (x - mean) / scale), over the pairs; u = (1, x - shift)."""
    d = len(shift)
    places = symmetric(d + 1)
    # the sums of u u' over the pairs: v v' has 1 in its first entry
    uu = state.products[places, 0]
    pairs = max(uu[0, 0], np.finfo(np.float64).tiny)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = uu[0, 1:] / pairs
        variance = np.diag(uu)[1:] / pairs - mean**2
    scale = np.ones(d)
    if standardize:
        scale = np.where(variance > 0.0, np.sqrt(np.maximum(variance, 0.0)), 1.0)
    frame = np.eye(d + 1)
    frame[1:, 0] = -mean / scale
    frame[1:, 1:] = np.diag(1.0 / scale)
    return frame


def _solved(
    state: JointGramState, frame: Floats, alpha: float, used: npt.NDArray[np.bool_]
) -> list[Floats]:
    """Return the weights of each regression, (d + 1, f + 1), in centered columns."""
    from scipy.linalg import LinAlgError, cho_factor, cho_solve, lstsq

    first, second = used.shape
    # sum phi phi' = sum u u' (x) v v', as a tensor, then with L u in place of u
    rows, columns = symmetric(first), symmetric(second)
    with np.errstate(over="ignore", invalid="ignore"):
        tensor = state.products[rows[:, None, :, None], columns[None, :, None, :]]
        tensor = np.einsum("ai,ibjc->abjc", frame, tensor, optimize=True)
        tensor = np.einsum("dj,abjc->abdc", frame, tensor, optimize=True)
        target = np.einsum("ai,sib->abs", frame, state.gains)
    if not (np.isfinite(tensor).all() and np.isfinite(target).all()):
        raise DataError(
            "sums of products of context and item leave float64: propensities are too small or "
            "columns too large, expected sums below 1e308; use a score with gamma > 0 such as IX, "
            "or divide columns by a constant"
        )
    kept = np.flatnonzero(used.ravel())
    gram = tensor.reshape(used.size, used.size)[np.ix_(kept, kept)]
    target = target.reshape(used.size, -1)[kept]
    # (sum phi phi' + alpha I) w = sum g phi; the constant comes first, and is not penalized
    penalty = np.full(len(kept), alpha)
    penalty[0] = 0.0
    gram[np.diag_indices(len(kept))] += penalty
    try:
        solved = cho_solve(cho_factor(gram), target)
    except LinAlgError:
        solved = lstsq(gram, target)[0]
    weights = []
    for one in solved.T:
        full = np.zeros(used.size)
        full[kept] = one
        weights.append(full.reshape(used.shape))
    return weights
