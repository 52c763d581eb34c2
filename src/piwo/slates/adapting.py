"""Adaptive importance sampling of slates with user behaviors that are estimated from the log."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_flag, check_kind, check_seed
from piwo.engines.engine import fold
from piwo.engines.task import Task
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.logs.findings import Refused
from piwo.logs.hashing import uniform
from piwo.messages import Note, argument
from piwo.oracles.bins import binned
from piwo.records import Record
from piwo.scores.slot_weights import SlotWeights
from piwo.slates.behaviors import BehaviorTree, fit_tree, sums_of
from piwo.slates.estimators import ESTIMATORS
from piwo.slates.evaluate import check_target, finished
from piwo.slates.log import SlateLog
from piwo.slates.policy import SlatePolicy
from piwo.slates.result import SlateEvaluation
from piwo.slates.rows import Codes, SlateRows
from piwo.slates.sums import SlateSums, reduce_slates
from piwo.slates.validation import USER_BEHAVIORS, SlateReader
from piwo.sources.source import Fragment

__all__ = ["SlateAdaptation", "adapt"]


@dataclass(frozen=True)
class SlateAdaptation(Record):
    """The value under estimated user behaviors, and the behaviors. `adapt` makes it.

    >>> list(SlateAdaptation.__dataclass_fields__)
    ['evaluation', 'rules']
    """

    evaluation: SlateEvaluation
    rules: tuple[tuple[str, ...], ...]
    """Of each fold: the leaves of the tree by which its rows were weighted."""

    def __str__(self) -> str:
        return str(self.evaluation)


def adapt(
    log: SlateLog,
    policy: SlatePolicy,
    *,
    depth: int = 3,
    folds: int = 5,
    self_normalized: bool = False,
    random_state: int = 0,
    name: str | None = None,
) -> SlateAdaptation:
    """Return the value by AIPS with user behaviors that are estimated, context by context.

    The estimator "adaptive" weights each row by what the reward of a slot depends on there, which
    it takes from a column. Here trees over the context estimate it: each leaf takes one of
    `slates.USER_BEHAVIORS`, so that the estimated mean squared error is least. The rows of a fold
    are weighted by a tree that was fitted to the other folds. Prefer it to one behavior for all
    rows if the log is large and users differ: of few rows a bias is not seen.

    Formula: the mean of Y as in `piwo.slates.evaluate`, with the weights of the behavior that the
    tree says. A tree minimizes, greedily, the sum over its leaves of n/N (b^2 + s^2/N): n of N rows
    are in the leaf, s^2 is the variance of Y, and b^2 = max(0, D^2 - S^2/n) the squared bias, D and
    S^2 mean and variance of the difference from the Y of whole slates ("standard", without bias).
    The bias of "independent" is that of "cascade" and the one against it together: "cascade"
    usually varies less than "standard", so that this is estimated better.

    There is no interval: the trees trade bias for variance, and accept a bias about as large as the
    error that they save. The standard error is that of the weighted mean, without this bias. For a
    bound use "standard" in `piwo.slates.evaluate`, which has no bias.

    Args:
        log: of `slates.read`, with rewards of slots, context, and the probabilities that the
            estimators "standard", "cascade" and "independent" need.
        policy: the target.
        depth: most splits above a leaf; 0: one behavior for all rows.
        folds: K, the parts of the rows, by row number.
        self_normalized: see `piwo.slates.evaluate`.
        random_state: seed of the folds.
        name: what to call the policy in the result.

    Returns:
        A `SlateAdaptation`. Leaves have at least 50 rows. Credits and context of all rows are held
        in memory.

    Raises:
        DataError: for rows that break a rule, and for fewer than 100 of them.
        UsageError: if log or policy lack the probabilities, for a log without context, with units
            or sampling weights, whose logger learned, or in a cluster.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {
    ...         "slate": [["a", "b"], ["b", "a"]] * 100,
    ...         "rs": [[1, 0], [0, 0]] * 100,
    ...         "young": [0, 0, 1, 1] * 50,
    ...     },
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ...     context="young",
    ... )
    >>> found = adapt(log, piwo.slates.Deterministic(["a", "b"]))
    >>> found.evaluation.value, found.rules[0]
    (1.0, ('all: standard',))

    Source: Kiyohara et al. 2023 (arXiv 2306.15098), section 3; the bias of "independent", and the
    bound on the error of several leaves, are piwo's.
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    check_target(log, policy)
    for one in USER_BEHAVIORS:
        ESTIMATORS[one].check(
            log, policy, argument("slates.adapt"), "; the estimators standard and cascade need none"
        )
    check_count("depth", depth, 0, "the most splits above a leaf")
    check_count("folds", folds, 2, "the number of folds")
    check_flag("self_normalized", self_normalized)
    check_seed("random_state", random_state)
    _require_fit(log)
    log = log.in_fixed_order()
    features = log.position(1).features
    assert features is not None
    model = _fitted(log, policy, _Folds(features, folds, random_state), depth)
    estimator = replace(
        ESTIMATORS["adaptive"],
        assumption="trees over the context, fitted to other rows, say rightly what the reward of a "
        "slot depends on, which nothing certifies",
        source="Kiyohara et al. 2023 (arXiv 2306.15098)",
        weigh=partial(_weigh, model),
    )
    task = SlateSums(
        reader=log.reader(policy, context=True),
        estimator=estimator,
        alpha=log.position_weights,
        bounded=log.bounded,
    )
    (state,) = reduce_slates(log, [task])
    shown_as = name or type(policy).__name__
    unknown = Note(
        f"user behaviors were estimated by trees, for each of {folds} parts of the rows from the "
        "others; they trade bias for variance, and no interval counts that bias",
        kind="chosen",
    )
    found = finished(
        log, policy, task, state, "none", _DELTA, bool(self_normalized), shown_as, unproved=unknown
    )
    rules = tuple(tuple(tree.rules(features.names)) for tree in model.trees)
    return SlateAdaptation(found, rules)


_LEAST = 50
"""Fewest rows of a leaf."""
_DELTA = 0.05
"""Of no interval; the field of the result needs a number."""


def _require_fit(log: SlateLog) -> None:
    """Raise for a log that no tree can be fitted to."""
    if not log.columns.context:
        raise UsageError(
            f"user behaviors are estimated from the context, and {log.name} was read without; name "
            f"its columns ({argument('context', '[...]')})"
        )
    for role in ("unit", "weight"):
        if getattr(log.columns, role) is not None:
            raise UsageError(
                f"{log.name} has {argument(role)}, and the trees take rows as independent and "
                "equally likely; use slates.evaluate with one estimator, or read the log without it"
            )
    if log.learning == "learning":
        raise UsageError(
            f"the logger of {log.name} learned from earlier rows, so that parts of the rows depend "
            "on each other, and no tree is fitted to other rows than those it weights; use "
            "slates.evaluate with one estimator"
        )


@dataclass(frozen=True)
class _Folds:
    """How rows are parted, and their context is encoded."""

    features: Features
    count: int
    seed: int

    def of(self, rows: SlateRows) -> npt.NDArray[np.int64]:
        """Return the fold of each row, (n,), by its number."""
        return (uniform(self.seed, rows.rows) * self.count).astype(np.int64)

    def matrix(self, rows: SlateRows) -> Floats:
        """Return the encoded context, (n, d)."""
        found, _ = self.features.encode_columns(dict(rows.context or {}), len(rows))
        if not np.isfinite(found).all():
            row, column = np.argwhere(~np.isfinite(found))[0].tolist()
            raise DataError(
                f"context {self.features.names[column]!r} is {found[row, column]} in row "
                f"{rows.rows[row]}, expected a finite number; drop such rows yourself first"
            )
        return found


@dataclass(frozen=True)
class _Model:
    """The trees: fold k is weighted by tree k, which was fitted to the other folds."""

    folds: _Folds
    trees: tuple[BehaviorTree, ...]

    def places(self, rows: SlateRows) -> Codes:
        """Return the behavior of each row, (n,) places in `USER_BEHAVIORS`."""
        matrix, parts = self.folds.matrix(rows), self.folds.of(rows)
        each = np.stack([tree.places(matrix) for tree in self.trees])
        found: Codes = each[parts, np.arange(len(rows))]
        return found


def _weigh(model: _Model, rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    """Return the weights of the behavior that the trees say."""
    known = replace(rows, user_behavior=model.places(rows))
    return ESTIMATORS["adaptive"].weigh(known, logger, target)


@dataclass(frozen=True)
class _Gathered:
    """Rows, in no order: numbers, folds, contexts, and credits under each behavior."""

    numbers: tuple[npt.NDArray[np.int64], ...] = ()
    folds: tuple[npt.NDArray[np.int64], ...] = ()
    matrices: tuple[Floats, ...] = ()
    credits: tuple[Floats, ...] = ()
    refused: tuple[Any, ...] = ()


@dataclass(frozen=True)
class _Gather(Task[_Gathered]):
    """Task: context and credits of all rows."""

    reader: SlateReader
    folds: _Folds
    alpha: Floats

    def empty(self) -> _Gathered:
        """Return no rows."""
        return _Gathered()

    def of_fragment(self, fragment: Fragment) -> _Gathered:
        """Return those of a fragment."""
        found = self.empty()
        try:
            for rows in self.reader.read(fragment):
                one = _Gathered(
                    (rows.rows,),
                    (self.folds.of(rows),),
                    (self.folds.matrix(rows),),
                    (self._credits(rows),),
                )
                found = self.merge(found, one)
        except Refused as refused:
            return replace(self.empty(), refused=refused.findings)
        return found

    def merge(self, one: _Gathered, other: _Gathered) -> _Gathered:
        """Return the rows of both parts."""
        return _Gathered(
            one.numbers + other.numbers,
            one.folds + other.folds,
            one.matrices + other.matrices,
            one.credits + other.credits,
            one.refused or other.refused,
        )

    def settled(self, state: _Gathered) -> bool:
        """Whether the pass has met rows that break a rule."""
        return bool(state.refused)

    def _credits(self, rows: SlateRows) -> Floats:
        """Return Y under each behavior, (n, 3)."""
        target = self.reader.target
        assert target is not None
        earned = rows.reward * self.alpha
        each = []
        for one in USER_BEHAVIORS:
            made = ESTIMATORS[one].weigh(rows, self.reader.logger, target)
            with np.errstate(over="ignore", invalid="ignore"):
                each.append(np.where(earned != 0.0, made.w * earned, 0.0).sum(axis=1))
        return np.stack(each, axis=1)


def _fitted(log: SlateLog, policy: SlatePolicy, folds: _Folds, depth: int) -> _Model:
    """Return the trees."""
    reader = log.reader(policy, context=True)
    shares = log.position_weights / log.position_weights.sum()
    gathered = fold(log.source, reader.names, _Gather(reader, folds, shares))
    if gathered.refused:
        raise Refused(gathered.refused)
    rows = sum(map(len, gathered.numbers))
    if rows < 2 * _LEAST:
        raise DataError(
            f"{log.name} has {rows:,} rows, expected at least {2 * _LEAST} to estimate user "
            "behaviors; use slates.evaluate with one estimator"
        )
    order = np.argsort(np.concatenate(gathered.numbers))
    parts = np.concatenate(gathered.folds)[order]
    earned = np.concatenate(gathered.credits)[order]
    if not np.isfinite(earned).all():
        raise DataError(
            f"weights of {log.name} are beyond float64, of which no variance is known; correct the "
            "propensities"
        )
    matrix = np.concatenate(gathered.matrices)[order]
    sums = sums_of(earned)
    trees = []
    for part in range(folds.count):
        others = parts != part
        trees.append(fit_tree(binned(matrix[others]), sums[others], depth, _LEAST))
    return _Model(folds, tuple(trees))
