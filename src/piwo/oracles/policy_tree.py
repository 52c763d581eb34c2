"""Policy trees: one decision tree with an action in each leaf, by search for the highest gains."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count
from piwo.engines.cores import cores
from piwo.engines.stages import check_time, current_limit
from piwo.errors import DataError, UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.bins import BINS, Bins, binned
from piwo.oracles.examples import rewarded
from piwo.oracles.gain_table import relative_gains
from piwo.oracles.oracle import Oracle, shared_by_neighbors
from piwo.policies import Constant, Policy, Trees
from piwo.policies.blocks import spread
from piwo.scores import Score

__all__ = ["PolicyTree"]

Whole = npt.NDArray[np.int64]

_MOST_DEPTH = 12
_FEW_CELLS = 2**17
"""With fewer additions the search in a node takes less time than threads."""


@dataclass(frozen=True)
class PolicyTree(Oracle):
    """One decision tree that collects the highest gains, small enough to be read and explained.

    Answers: which simple rule is best, if actions should depend on thresholds of a few columns? The
    search is on the gains themselves, without a surrogate loss, and takes gains of any score that
    is linear in the policy, also negative ones and those of `DoublyRobustLS`. Columns are cut into
    at most 64 bins. On these bins no tree of depth 1 or 2 collects more than the one found
    (lookahead=2, the default). Deeper trees are grown from the root: each node takes the root of
    the best tree of depth 2 for its rows. The bins depend on the log, so the class is not declared
    beforehand: certificates come from held-out rows.

    Formula: max over trees f of sum_t G[t, f(X_t)]; a tree of depth 2 by trying every split of the
    root with the best splits of both parts, from sums of gains by column, bin and action:
    O(n d^2 + d^2 bins^2 K) steps for scores that credit the logged action. Gains are rounded to
    multiples of about 2^-60 n times the largest, and sums are exact, so that a policy does not
    depend on the order of the rows or the number of threads. Of equal trees the one with fewest
    splits is taken, then the first by column and threshold; of equal actions the first.
    Source: Zhou, Athey, Wager 2023 (Operations Research 71); search in the manner of policytree
    (Sverdrup et al. 2020, JOSS 5(50)).

    Args:
        depth: most splits on the way to a leaf, from 1 to 12.
        lookahead: 2: the search of each node sees two splits; 1: it sees one, which is faster, and
            misses rules such as "b if exactly one of two columns is high".
        bins: most bins of a column, from 2 to 256.
        least: fewest rows in a leaf, of those with a reward above the lowest (of all rows if the
            score credits every action).

    Raises:
        UsageError: for numbers out of range.

    >>> import numpy as np, piwo
    >>> X = np.array([[0, 0], [0, 1], [1, 0], [1, 1]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1, 1, 0] * 50, reward=[1] * 200, propensity=[0.5] * 200
    ... )
    >>> PolicyTree().solve(log, piwo.IX(0.1)).act(X[:4]).actions.tolist()
    [0, 1, 1, 0]
    """

    depth: int = 2
    lookahead: int = 2
    bins: int = BINS
    least: int = 20
    name: ClassVar[str] = "tree"

    def __post_init__(self) -> None:
        check_count("depth", self.depth, 1, "most splits on the way to a leaf")
        check_count("lookahead", self.lookahead, 1, "how many splits the search sees")
        check_count("bins", self.bins, 2, "most bins of a column")
        check_count("least", self.least, 1, "the fewest rows of a leaf")
        for name, most in (("depth", _MOST_DEPTH), ("lookahead", 2), ("bins", 256)):
            if getattr(self, name) > most:
                raise UsageError(
                    f"{argument(name)} is {getattr(self, name)!r}, expected at most {most}"
                )

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return one policy for each score; dense gains take a pass for each score.

        Scores that credit the logged action are read in one pass, in which only rewarded rows are
        kept; neighbors of them with proportional gains share a policy.

        Raises:
            NothingToLearnError: if such a score meets no row with a reward above the lowest.
            DataError: for gains beyond float64.
            UsageError: for dense gains of more than 4 GiB (`piwo.policies.DENSE_LIMIT`).
        """
        self.fit_for(log)
        made: dict[int, Policy] = {}
        sparse = [i for i, score in enumerate(scores) if score.dense_weight == 0.0]
        if sparse:
            some = self._of_sparse(log, [scores[i] for i in sparse])
            made.update(zip(sparse, some, strict=True))
        for i, score in enumerate(scores):
            if i not in made:
                context, table = relative_gains(log, score)
                none = np.empty(0, np.int32)
                made[i] = self._policy(binned(context, self.bins), none, table, log)
        return [made[i] for i in range(len(scores))]

    def _of_sparse(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        examples = rewarded(log, scores)
        table = binned(examples.context, self.bins)
        for gains, score in zip(examples.gains, scores, strict=True):
            if not np.isfinite(gains).all():
                raise DataError(
                    f"a gain of {score.label} is beyond float64: a propensity is too small, "
                    "expected finite gains; use a score with gamma > 0 such as IX"
                )
        return shared_by_neighbors(
            (gains / (np.abs(gains).max() or 1.0) for gains in examples.gains),
            lambda i, _: self._policy(table, examples.action, examples.gains[i][:, None], log),
            rtol=1e-12,
        )

    def _policy(
        self, table: Bins, action: npt.NDArray[np.int32], gains: Floats, log: Log
    ) -> Policy:
        """Return the policy of the gains of each row's action, or of all if there is none."""
        part = _Part(table.codes, action, _whole(gains), np.arange(len(log.actions)))
        # an action without a row has gain 0, which is not the best of gains of at least 0
        nodes = self._grown(part, table, fewer=len(action) > 0 and bool((gains >= 0).all()))
        if len(nodes) == 1:
            return Constant(log.actions.labels[int(nodes[0, 2])], log.actions)
        offset = np.zeros(len(log.actions))
        return Trees(nodes, [0], offset, log.actions, table.codes.shape[1], log.features)

    def _grown(self, whole: _Part, table: Bins, fewer: bool) -> Floats:
        """Return the nodes of the tree, see `piwo.policies.Trees`.

        Args:
            whole: all rows.
            table: the bins.
            fewer: whether a part may leave out actions without a row in it.
        """
        nodes = [[-1.0, 0.0, 0.0, 1.0]]

        def end(place: int, part: _Part, action: int) -> None:
            nodes[place][2] = float(part.names[action])

        def divide(place: int, split: list[int]) -> int:
            child = len(nodes)
            edge = table.edges[split[0], split[1]]
            nodes[place] = [float(split[0]), float(edge), float(child), 0.0]
            nodes.extend([[-1.0, 0.0, 0.0, 1.0], [-1.0, 0.0, 0.0, 1.0]])
            return child

        pending = [(0, whole, self.depth)]
        while pending:
            place, part, depth = pending.pop()
            if fewer:
                part = part.with_fewer_actions()
            seen = min(depth, self.lookahead)
            root, *below = self._search(part, table.counts, seen)
            if root[0] < 0:
                end(place, part, root[2])
                continue
            child = divide(place, root)
            if depth > seen:
                left = part.codes[:, root[0]] <= root[1]
                pending.append((child, part.take(left), depth - 1))
                pending.append((child + 1, part.take(~left), depth - 1))
                continue
            for side, split in zip((child, child + 1), below, strict=True):
                if split[0] < 0:
                    end(side, part, split[2])
                    continue
                leaf = divide(side, split)
                end(leaf, part, split[2])
                end(leaf + 1, part, split[3])
        return np.array(nodes)

    def _search(self, part: _Part, bins: npt.NDArray[np.int64], depth: int) -> list[list[int]]:
        """Return the best splits of root, left and right, (3, 4), of a tree of depth 1 or 2."""
        from piwo.oracles.tree_kernels import best_pair, best_split, sum_bins

        limit = current_limit()
        check_time(limit)
        columns = len(bins)
        sums = np.zeros((columns, int(bins.max()), len(part.names)), np.int64)
        sizes = np.zeros(sums.shape[:2], np.int64)
        cells = part.codes.size * part.gains.shape[1]

        def add(some: slice) -> None:
            sum_bins(part.codes, part.action, part.gains, some.start, some.stop, sums, sizes)

        _by_column(columns, cells, add)
        found = np.zeros((3, 4), np.int64)
        if depth == 1:
            best_split(sums, sizes, bins, self.least, found[0])
            found[1:, 0] = -1
            found[1:, 2] = found[0, 2:]
            return list(found.tolist())

        def search(some: slice) -> tuple[int, int, Whole]:
            check_time(limit)
            out = np.zeros((3, 4), np.int64)
            of_rows = (part.codes, bins, part.action, part.gains, sums, sizes)
            value = best_pair(*of_rows, some.start, some.stop, self.least, out)
            # without a root, the other two are not splits
            splits = int((out[:, 0] >= 0).sum()) if out[0, 0] >= 0 else 0
            return int(value), -splits, out

        every = _by_column(columns, (cells + sums.size * int(bins.max())) * columns, search)
        # max keeps the first of equal trees with as many splits
        best = max(every, key=lambda one: one[:2])[2]
        return list(best.tolist())


@dataclass(frozen=True)
class _Part:
    """Some rows, with the gains of their actions, or of all."""

    codes: npt.NDArray[np.uint8]
    """(m, d) by bin."""
    action: npt.NDArray[np.int32]
    """(m,) numbers among the names; empty if all actions have gains."""
    gains: Whole
    """(m, 1), or (m, K) for all actions."""
    names: npt.NDArray[np.intp]
    """(K,) the action codes of the numbers."""

    def take(self, rows: npt.NDArray[np.bool_]) -> _Part:
        """Return the rows of a mask."""
        action = self.action
        if len(action):
            action = action[rows]
        return _Part(self.codes[rows], action, self.gains[rows], self.names)

    def with_fewer_actions(self) -> _Part:
        """Return the same rows without actions that none of them has."""
        used = np.bincount(self.action, minlength=len(self.names)) > 0
        number = np.cumsum(used, dtype=np.int32) - 1
        return _Part(self.codes, number[self.action], self.gains, self.names[used])


def _whole(gains: Floats) -> Whole:
    """Return gains as whole numbers, all in one unit, whose sums over rows are below 2^61.

    The unit is a power of two, so that equal sums of gains stay equal.
    """
    largest = float(np.abs(gains).max(initial=0.0))
    unit = 61 - len(gains).bit_length() - int(np.frexp(largest)[1])
    return np.asarray(np.rint(np.ldexp(gains, unit)), np.int64)


def _by_column(columns: int, cells: int, work: Any) -> list[Any]:
    """Return what work makes of slices of the columns, on all cores if there is enough of it."""
    if cells < _FEW_CELLS:
        return [work(slice(0, columns))]
    return spread(columns, max(1, -(-columns // (2 * cores()))), work)
