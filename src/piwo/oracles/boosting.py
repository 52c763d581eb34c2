"""Boosting oracles: trees on binned columns, of the logged actions or of their rewards."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_positive, check_seed
from piwo.engines.cores import cores
from piwo.engines.stages import check_time, current_limit
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.bins import Bins, binned
from piwo.oracles.examples import Examples, check_sparse, rewarded
from piwo.oracles.oracle import Oracle, shared_by_neighbors
from piwo.policies import Constant, Policy, Trees
from piwo.policies.blocks import spread
from piwo.scores import Score

__all__ = ["Boosting", "DirectBoosting", "check_trees", "joined"]

_MOST_CELLS = 2**23
"""Most pairs of a row and an action that trees are grown from; the rows are a sample then."""
_LEAST_ROWS = 10_000
_FEW_CELLS = 2**15
"""With fewer pairs a tree takes less time than a thread."""


@dataclass(frozen=True)
class Boosting(Oracle):
    """Policies by boosted trees: weighted classification of the logged actions.

    Answers: which policy, if the best action depends on interactions and thresholds of columns?
    The algorithm is that of scikit-learn's HistGradientBoostingClassifier, compiled for many
    actions: one tree for each action and step, grown on columns of 64 bins. Only rewarded rows are
    held in memory; if they times the actions are more than 8 million, trees grow from a random part
    of the rows, at least 10,000.

    Formula: min over F of sum_t G[t, A_t] (-log softmax_A_t F(X_t)); at each step a tree for each
    action a with leaf values -rate sum g / sum h, g = G (p_a - 1{A = a}), h = G p_a (1 - p_a);
    pi(x) = argmax_a F_a(x). sum g / sum h is kept between -4 and 4, as in LogitBoost: without
    bounds a single leaf of an action that has hardly any chance could outvote all other trees.
    Source: Friedman 2001 (Annals of Statistics 29); oracle: arXiv 2309.15771, Section 4.

    Args:
        steps: how many trees each action has.
        leaves: most leaves of a tree.
        rate: what leaf values are multiplied by, in (0, 1].
        least: fewest rows of a leaf.
        random_state: seed of the sample of rows.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 50, reward=[1, 1] * 50, propensity=[0.5] * 100
    ... )
    >>> Boosting().solve(log, piwo.IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    steps: int = 40
    leaves: int = 15
    rate: float = 0.15
    least: int = 20
    random_state: int = 0
    name: ClassVar[str] = "boosting"

    def __post_init__(self) -> None:
        check_trees(self.steps, self.leaves, self.rate, self.least)
        check_seed("random_state", self.random_state)

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return one policy for each score; the log is read once.

        Neighbors with proportional gains share a policy.
        """
        self.fit_for(log)
        check_sparse(scores)
        examples = self._sample(rewarded(log, scores))
        table = binned(examples.context)
        # scaled to mean 1, the result does not depend on the unit of the reward
        weights = (gains * (len(gains) / gains.sum()) for gains in examples.gains)
        return shared_by_neighbors(
            weights, lambda _, weight: self._grown(table, examples.action, weight, log), rtol=1e-12
        )

    def _sample(self, examples: Examples) -> Examples:
        """Return all rewarded rows, or a sample of as many as trees are grown from."""
        most = max(_MOST_CELLS // len(np.unique(examples.action)), _LEAST_ROWS)
        if len(examples.action) <= most:
            return examples
        chosen = np.random.default_rng(self.random_state).choice(
            len(examples.action), most, replace=False
        )
        chosen.sort()
        return Examples(
            examples.context[chosen],
            examples.action[chosen],
            examples.gains[:, chosen],
            examples.rows,
        )

    def _grown(
        self, table: Bins, action: npt.NDArray[np.int32], weight: Floats, log: Log
    ) -> Policy:
        from piwo.oracles.kernels import grow_classes, scale_chances

        seen, label = np.unique(action, return_inverse=True)
        if len(seen) == 1:
            return Constant(log.actions.labels[int(seen[0])], log.actions)
        label = label.astype(np.int32)
        # F starts at the logarithm of the shares of the actions
        shares = np.bincount(label, weight) / weight.sum()
        shares = np.maximum(shares, 1e-30)
        chances = np.tile(shares.astype(np.float32)[:, None], (1, len(label)))
        # two actions need one tree, for their difference
        classes = np.arange(len(seen))[len(seen) == 2 :]
        nodes, counts = _room(len(seen), self.steps, self.leaves)
        cells = chances.size
        for step in range(self.steps):
            check_time()

            def grow(part: slice, step: int = step) -> None:
                grow_classes(
                    table.codes,
                    table.counts,
                    label,
                    weight,
                    chances,
                    classes[part],
                    self.leaves,
                    self.least,
                    self.rate,
                    nodes[:, step],
                    counts[:, step],
                )

            _on_cores(len(classes), cells, grow)
            _on_cores(len(label), cells, lambda part: scale_chances(chances, part.start, part.stop))
        offset = np.full(len(log.actions), -np.inf)
        offset[seen] = np.log(shares)
        return _policy(nodes, counts, np.ones(len(seen)), offset, seen, table, log)


@dataclass(frozen=True)
class DirectBoosting(Oracle):
    """The action with the highest reward by boosted trees for each action; propensities are unused.

    Answers: the question of `Direct`, if rewards depend on interactions and thresholds of columns.
    All rows are held in memory.

    Formula: f_a by least-squares boosting on the n_a rows of action a, from their mean reward;
    pi(x) = argmax_a (n_a f_a(x) + alpha m) / (n_a + alpha), m the mean reward, over the actions
    that were logged. Rarely logged actions are shrunk towards m.
    Source: Friedman 2001 (Annals of Statistics 29).

    Args:
        alpha: the penalty, above 0: the mean reward counts as much as this number of rows.
        steps: how many trees each action has.
        leaves: most leaves of a tree.
        rate: what leaf values are multiplied by, in (0, 1].
        least: fewest rows of a leaf.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 100, reward=[1, 0, 0, 1] * 50, propensity=[0.5] * 200
    ... )
    >>> DirectBoosting().solve(log, piwo.IW()).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    alpha: float = 10.0
    steps: int = 40
    leaves: int = 8
    rate: float = 0.15
    least: int = 5
    name: ClassVar[str] = "direct-boosting"
    uses_score: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        check_trees(self.steps, self.leaves, self.rate, self.least)

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return the same policy for every score; the log is read once."""
        from piwo.oracles.kernels import grow_rewards

        self.fit_for(log)
        parts = list(log.each_batch(context=True))
        table = binned(np.concatenate([x.context for x in parts if x.context is not None]))
        action = np.concatenate([part.action for part in parts])
        reward = np.concatenate([part.reward for part in parts])
        del parts
        rows = np.bincount(action, minlength=len(log.actions))
        order = np.argsort(action, kind="stable").astype(np.int32)
        first = np.append(0, np.cumsum(rows))
        logged = np.flatnonzero(rows)
        means = np.bincount(action, reward, len(rows)) / np.maximum(rows, 1)
        # half the squared error: its derivative is prediction - reward, its second derivative 1
        slope, curvature = means[action] - reward, np.ones(len(reward))
        nodes, counts = _room(len(rows), self.steps, self.leaves)
        limit = current_limit()

        def grow(part: slice) -> None:
            for step in range(self.steps):
                check_time(limit)
                grow_rewards(
                    table.codes,
                    table.counts,
                    order,
                    first,
                    slope,
                    curvature,
                    logged[part],
                    self.leaves,
                    self.least,
                    self.rate,
                    nodes[:, step],
                    counts[:, step],
                )

        _on_cores(len(logged), len(reward) * self.steps, grow)
        # (n_a f_a(x) + alpha m) / (n_a + alpha)
        weight = rows / (rows + self.alpha)
        offset = weight * means + (1.0 - weight) * reward.mean()
        offset[rows == 0] = -np.inf
        policy = _policy(nodes, counts, weight, offset, np.arange(len(rows)), table, log)
        return [policy] * len(scores)


def check_trees(steps: Any, leaves: Any, rate: Any, least: Any, most: int | None = None) -> None:
    """Check what the boosting oracles are given.

    Args:
        steps: see `Boosting`.
        leaves: likewise.
        rate: likewise.
        least: likewise.
        most: the largest number of leaves.

    Raises:
        UsageError: naming the argument, the value and the rule.

    >>> check_trees(40, 8, 0.15, 5)
    """
    check_count("steps", steps, 1, "how many trees each action has")
    check_count("leaves", leaves, 2, "the most leaves of a tree")
    if most is not None and leaves > most:
        raise UsageError(f"{argument('leaves')} is {leaves}, expected at most {most}")
    check_count("least", least, 1, "the fewest rows of a leaf")
    check_positive("rate", rate)
    if rate > 1.0:
        raise UsageError(f"{argument('rate')} is {rate!r}, expected above 0 and at most 1")


def _room(classes: int, steps: int, leaves: int) -> tuple[Floats, npt.NDArray[np.int64]]:
    """Return room for trees: nodes (classes, steps, 2 leaves, 4) and their counts."""
    return np.zeros((classes, steps, 2 * leaves, 4)), np.zeros((classes, steps), np.int64)


def _policy(
    nodes: Floats,
    counts: npt.NDArray[np.int64],
    weight: Floats,
    offset: Floats,
    codes: npt.NDArray[Any],
    table: Bins,
    log: Log,
) -> Trees:
    """Return the policy of grown trees.

    Args:
        nodes: see `_room`.
        counts: likewise.
        weight: (C,) what the leaves of each class are multiplied by.
        offset: (K,) the scores before any tree.
        codes: (C,) the action of each class.
        table: the bins.
        log: the log.
    """
    # a tree of one leaf is a constant
    alone = counts == 1
    offset = offset.copy()
    offset[codes] += weight * (nodes[:, :, 0, 3] * alone).sum(axis=1)
    made, roots, own = joined(nodes, counts, table)
    leaf = made[:, 0] < 0
    made[leaf, 2] = codes[own[leaf]]
    made[leaf, 3] *= weight[own[leaf]]
    return Trees(made, roots, offset, log.actions, table.codes.shape[1], log.features)


def joined(
    nodes: Floats, counts: npt.NDArray[np.int64], table: Bins
) -> tuple[Floats, Floats, npt.NDArray[Any]]:
    """Return grown trees in the form of `Trees`: all nodes, the roots, the class of each node.

    Trees of one leaf are left out; leaves name the action 0.

    Args:
        nodes: (C, steps, 2 leaves, 4); see `grow_rewards` of the kernels.
        counts: (C, steps).
        table: the bins that the trees were grown on.

    >>> table = binned(np.array([[1.0], [2.0]]))
    >>> grown = np.zeros((1, 1, 4, 4))
    >>> grown[0, 0, :3] = [[0, 0, 1, 0], [-1, 0, 0, 5.0], [-1, 0, 0, 7.0]]
    >>> joined(grown, np.array([[3]]), table)[0].tolist()
    [[0.0, 1.5, 1.0, 0.0], [-1.0, 0.0, 0.0, 5.0], [-1.0, 0.0, 0.0, 7.0]]
    """
    classes, steps, most, _ = nodes.shape
    counts = np.where(counts == 1, 0, counts)
    kept = np.arange(most) < counts[:, :, None]
    starts = np.cumsum(counts.ravel()) - counts.ravel()
    own = np.broadcast_to(np.arange(classes)[:, None, None], kept.shape)[kept]
    start = np.broadcast_to(starts.reshape(classes, steps, 1), kept.shape)[kept]
    made = nodes[kept]
    leaf = made[:, 0] < 0
    inner = ~leaf
    made[inner, 1] = table.edges[made[inner, 0].astype(int), made[inner, 1].astype(int)]
    made[inner, 2] += start[inner]
    made[inner, 3] = 0.0
    made[leaf, 1:3] = 0.0
    roots = starts[counts.ravel() > 0].astype(np.float64)
    return made, roots, own


def _on_cores(count: int, cells: int, work: Callable[[slice], None]) -> None:
    """Do work on 0..count-1, cut for all cores if there is enough of it."""
    if cells < _FEW_CELLS:
        work(slice(0, count))
        return
    spread(count, max(1, -(-count // (2 * cores()))), work)
