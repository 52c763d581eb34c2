"""Joint boosting oracle: trees on pairs of context and item, added to a linear model."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_finite, check_non_negative, check_seed
from piwo.engines.stages import check_time
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.logs.hashing import scramble
from piwo.logs.inline import encoded_pairs
from piwo.logs.log import Log
from piwo.oracles.bins import Bins, binned
from piwo.oracles.boosting import check_trees, joined
from piwo.oracles.examples import check_sparse
from piwo.oracles.joint_features import ItemOracle, ItemTable, joint_policy
from piwo.oracles.joint_ridge import reward_fit
from piwo.oracles.oracle import shared_by_neighbors
from piwo.policies import JointTrees
from piwo.policies.trees import MOST_LEAVES
from piwo.scores import Score

__all__ = ["JointBoosting"]

_MOST_CELLS = 2**25
"""Most numbers of context and items that trees are grown from; the rows are a sample then."""
_LEAST_ROWS = 10_000


@dataclass(frozen=True)
class _Pairs:
    """The logged pairs that trees are grown from."""

    columns: Floats
    """(n, d + f) context and features of the logged item."""
    misses: Floats
    """(n,) what the linear model predicts, less the reward."""
    weights: Floats
    """(S, n) by score."""


@dataclass(frozen=True)
class JointBoosting(ItemOracle):
    """Boosted trees of the reward on columns of context and item, added to a linear model of both.

    Answers: which policy, if actions have features and change from row to row, and rewards depend
    on thresholds, or on interactions that are no products? Where products suffice, the trees add
    little, and `JointDirect` alone is as good. The policy acts on items never seen in training.
    The log needs `piwo.read(items=)`.

    Formula: f(x, a) = (1, x)'M (1, z_a) + sum_j tree_j(x, z_a); M as of `JointDirect`, then trees
    by least-squares boosting on the logged pairs,
    min sum_t g_t (R_t - f(x_t, A_t))^2, g_t = the gain that the score gives to a reward of 1, such
    as 1/(mu + gamma) of IX: weights that make the logged pairs count like all eligible ones. With a
    large gamma all rows count nearly the same, and propensities are not used. pi(x) = argmax over
    eligible a of f(x, a).
    Source: Friedman 2001 (Annals of Statistics 29), from a linear model instead of a constant.

    Memory does not depend on the number of rows or candidates: only logged pairs are held, and if
    they have more than 33 million numbers, trees grow from a random part of the rows, at least
    10,000.

    Args:
        alpha: the penalty of the linear model; see `JointDirect`.
        steps: how many trees there are.
        leaves: most leaves of a tree, 2 to 16.
        rate: what leaf values are multiplied by, in (0, 1].
        least: fewest rows of a leaf.
        random_state: seed of the sample of rows.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> x, A = rng.integers(0, 2, 800), rng.integers(0, 4, 800)
    >>> log = piwo.Log.from_arrays(
    ...     context=x[:, None] * 1.0,
    ...     action=A,
    ...     reward=((A == 1) | (A == 2)) == x,  # the middle for x = 1, the ends for x = 0
    ...     propensity=np.full(800, 0.25),
    ...     items={"action": range(4), "size": [0.0, 1.0, 2.0, 3.0]},
    ... )
    >>> policy = JointBoosting().solve(log, piwo.IX(0.1))
    >>> policy.act([[0.0], [1.0]], items={"action": [7, 8], "size": [1.2, 9.0]}).actions.tolist()
    [8, 7]
    """

    alpha: float = 1.0
    steps: int = 60
    leaves: int = 15
    rate: float = 0.15
    least: int = 20
    random_state: int = 0
    name: ClassVar[str] = "joint-boosting"

    def __post_init__(self) -> None:
        check_finite("alpha", self.alpha)
        check_non_negative("alpha", self.alpha)
        check_trees(self.steps, self.leaves, self.rate, self.least, most=MOST_LEAVES)
        check_seed("random_state", self.random_state)

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[JointTrees]:
        """Return one policy for each score; the log is read once for all trees.

        Neighbors with proportional weights share a policy.
        """
        self.fit_for(log)
        check_sparse(scores)
        items, weights = reward_fit(log, self.alpha, self.name)
        linear = joint_policy(weights[:, 1:], items, log)
        pairs = self._logged(log, scores, items, weights, linear.model.table)
        table = binned(pairs.columns)

        def policy(_: int, weight: Floats) -> JointTrees:
            nodes, roots = self._grown(table, pairs.misses, weight)
            return JointTrees(linear.model, nodes, roots, log.actions, log.features)

        # scaled to mean 1, the result does not depend on the unit of the weights
        scaled = (one / one.mean() for one in pairs.weights)
        return shared_by_neighbors(scaled, policy, rtol=1e-12)

    def _logged(
        self, log: Log, scores: Sequence[Score], items: ItemTable, weights: Floats, table: Floats
    ) -> _Pairs:
        """Return the logged pairs, or a sample of them.

        Args:
            log: with context and items.
            scores: what rows are weighted by.
            items: see `reward_fit`.
            weights: likewise.
            table: (K, f) the features of the items, as the policy has them.
        """
        assert log.features is not None
        width = log.features.width + items.features.width
        share = max(_MOST_CELLS // width, _LEAST_ROWS) / len(log)
        columns, misses, gains = [], [], []
        for batch in log.each_batch(context=True):
            part = batch
            if share < 1.0:
                part = batch.take(self._sampled(batch, share))
            assert part.context is not None
            z = _of_logged(part, items, table)
            # (1, x)'M (1, z), z standardized
            y = weights[0] + part.context @ weights[1:]
            predicted = y[:, 0] + np.einsum("nj,nj->n", y[:, 1:], (z - items.center) / items.scale)
            columns.append(np.column_stack([part.context, z]))
            misses.append(predicted - part.reward)
            paid = part.with_reward(np.ones(len(part)))
            gains.append(np.stack([part.sampled(score.gains(paid)) for score in scores]))
        return _Pairs(
            np.concatenate(columns), np.concatenate(misses), np.concatenate(gains, axis=1)
        )

    def _sampled(self, batch: Batch, share: float) -> npt.NDArray[np.bool_]:
        """Return which rows are in a random share of them; it depends on their numbers alone."""
        seed = scramble(np.array([self.random_state], np.uint64))
        hashes = scramble(batch.row_numbers.astype(np.uint64) ^ seed)
        kept: npt.NDArray[np.bool_] = hashes < np.uint64(share * 2.0**64)
        return kept

    def _grown(self, table: Bins, misses: Floats, weight: Floats) -> tuple[Floats, Floats]:
        """Return the nodes and roots of trees on the residuals of weighted rows."""
        from piwo.oracles.kernels import grow_rewards

        nodes = np.zeros((1, self.steps, 2 * self.leaves, 4))
        counts = np.zeros((1, self.steps), np.int64)
        order, first = np.arange(len(misses), dtype=np.int32), np.array([0, len(misses)])
        # half the weighted squared error: g (f - R), and its second derivative g
        slope = weight * misses
        for step in range(self.steps):
            check_time()
            grow_rewards(
                table.codes,
                table.counts,
                order,
                first,
                slope,
                weight,
                np.zeros(1, np.int64),
                self.leaves,
                self.least,
                self.rate,
                nodes[:, step],
                counts[:, step],
            )
        made, roots, _ = joined(nodes, counts, table)
        return made, roots


def _of_logged(batch: Batch, items: ItemTable, table: Floats) -> Floats:
    """Return the features of the logged item of each row, (n, f)."""
    some = batch.eligible
    if not items.inline or some is None:
        return np.asarray(table[batch.action])
    assert some.inline is not None
    places = some.places(batch.action)
    alone = Eligible(np.arange(len(batch) + 1), batch.action, some.inline.take(places))
    return encoded_pairs(alone, items.features)
