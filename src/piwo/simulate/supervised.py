"""Labeled data as a bandit: actions are classes, and the value of every policy is known."""

from __future__ import annotations

import math
from collections.abc import Sequence
from copy import copy
from functools import cached_property
from typing import Any, Self, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import (
    check_count,
    check_finite,
    check_kind,
    check_non_negative,
    is_number,
    is_whole,
    numbers,
    shown,
)
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Label, label_array
from piwo.logs.batch import Floats
from piwo.logs.columns import Columns
from piwo.logs.features import Features
from piwo.logs.foreign import RowError
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import (
    DeterministicPolicy,
    LinearGreedy,
    LinearSoftmax,
    LinearStack,
    Policy,
    aligned,
)
from piwo.policies.blocks import row_blocks, spread, take
from piwo.policies.policy import ActionList, action_list
from piwo.policies.sampling import RandomState, generator
from piwo.reductions.large_contexts import check_sums_of_squares
from piwo.simulate.coverage import Coverage, coverage_of
from piwo.sources.frames import is_frame, to_table
from piwo.sources.table import TableSource

__all__ = ["ClassificationBandit"]

_SLICE = 65_536
"""Rows in a slice, the unit of work of a thread."""


@final
class ClassificationBandit:
    """A bandit made from n labeled rows: action a on a row of class c earns 1 with chance M[a, c].

    Use it to test learners and intervals against the truth. Rows are drawn uniformly, and the value
    of a policy is exact: v(pi) = (1/n) sum_i sum_a pi(a|x_i) M[a, y_i].

    Args:
        X: the contexts, an (n, d) matrix, or a data frame.
        y: (n,) class labels.
        rewards: (K, K) mean rewards M[action, class] in [0, 1]; None: 1 if they agree, else 0.
        actions: the K labels, of actions and of classes; None: the sorted distinct labels of y.
        features: how a data frame becomes the context matrix; None: as for a log of these
            columns.

    Raises:
        UsageError: for shapes that do not fit together, or mean rewards outside [0, 1].
        DataError: for labels that are not among the actions, or missing or infinite contexts.

    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6 (the conversion of
    BNG(letter)).

    >>> import piwo
    >>> bandit = ClassificationBandit([[0.0], [1.0], [2.0]], ["a", "b", "b"])
    >>> (
    ...     bandit.best_fixed_action(),
    ...     round(bandit.value(piwo.policies.Constant("b", bandit.actions)), 6),
    ... )
    ('b', 0.666667)
    """

    def __init__(
        self,
        X: Any,
        y: Any,
        *,
        rewards: Any = None,
        actions: ActionList | None = None,
        features: Features | None = None,
    ) -> None:
        labels = label_array(y, "y")
        if actions is None:
            actions = Actions(sorted(labels.unique().to_pylist()))
        self.actions = action_list(actions)
        self.classes = _codes(labels, self.actions)
        self.table, self.features, self.context = _context(X, features)
        if len(self.context) != len(self.classes):
            raise UsageError(
                f"got {len(self.context)} contexts and {len(self.classes)} labels, "
                "expected as many of each"
            )
        self.rewards = _mean_rewards(rewards, len(self.actions))

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        size = f"{len(self):,} rows, {self.features.width} columns, {len(self.actions)} actions"
        return f"ClassificationBandit({size})"

    @cached_property
    def _by_class(self) -> Floats:
        """M transposed, (class, action): one row is the mean rewards of a class."""
        return np.ascontiguousarray(self.rewards.T)

    @cached_property
    def _all_columns(self) -> dict[str, Any]:
        """The context columns of all rows, which every log of all rows shares."""
        return _columns(self.table, self.features, self.context, slice(None))

    @cached_property
    def _action_values(self) -> Floats:
        """The (K,) mean rewards over all rows."""
        counts = np.bincount(self.classes, minlength=len(self.actions))
        return np.asarray(self.rewards @ counts / len(self))

    def take(self, rows: npt.NDArray[Any] | slice) -> Self:
        """Return the bandit of some of the rows, such as one part to learn on, another to test on.

        Args:
            rows: an index array, a mask, or a slice, whose rows are not copied.

        >>> len(ClassificationBandit([[0.0], [1.0]], ["a", "b"]).take(np.array([0])))
        1
        """
        part = copy(self)
        # The copies of cached properties are those of all rows.
        for name in ("_all_columns", "_action_values"):
            part.__dict__.pop(name, None)
        part.classes = self.classes[rows]
        part.context = self.context[rows]
        if self.table is not None:
            part.table = self.table.take(pa.array(np.arange(len(self))[rows]))
        return part

    # --- known values

    def value(self, policy: Policy) -> float:
        """Return the exact value of a policy, block by block, without a table of rows x actions.

        Args:
            policy: over these actions, in any order.

        Returns:
            (1/n) sum_i sum_a pi(a|x_i) M[a, y_i].

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]], ["a", "b"])
        >>> bandit.value(piwo.policies.Uniform(bandit.actions))
        0.5
        """
        policy = aligned(policy, self.actions)
        if not policy.needs_context:
            return float(policy.distribution(None, 1)[0] @ self._action_values)
        context = policy.context(self.context)

        def earned(rows: slice) -> float:
            total = 0.0
            for block in row_blocks(rows.stop - rows.start, len(self.actions)):
                here = slice(rows.start + block.start, rows.start + block.stop)
                classes = self.classes[here]
                some = take(context, here)
                # sum_i sum_a pi(a|x_i) M[a, y_i]
                if isinstance(policy, DeterministicPolicy):
                    total += self.rewards[policy.decide(some, len(classes)), classes].sum()
                else:
                    chances = policy.distribution(some, len(classes))
                    total += float(np.einsum("ij,ij->", chances, self._by_class[classes]))
            return total

        return float(sum(spread(len(self), _SLICE, earned))) / len(self)

    def coverage(self, policy: Policy, logger: Policy, gamma: float = 0.0) -> float:
        """Return how well a logger covers a policy's rewards; inf without support.

        Args:
            policy: over these actions, in any order.
            logger: likewise; the policy that writes the log.
            gamma: what is added to the propensities, at least 0.

        Returns:
            C_gamma = (1/n) sum_i sum_a pi(a|x_i) M[a, y_i] / (mu(a|x_i) + gamma).

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]], ["a", "b"])
        >>> uniform = piwo.policies.Uniform(bandit.actions)
        >>> bandit.coverage(piwo.policies.Constant("a", bandit.actions), uniform)
        1.0
        """
        return self.coverages(policy, logger, gamma).coverage

    def coverages(self, policy: Policy, logger: Policy, gamma: float = 0.0) -> Coverage:
        """Return `coverage`, its reward-free form, and what the logger misses, block by block.

        Args:
            policy: over these actions, in any order.
            logger: likewise; the policy that writes the log.
            gamma: what is added to the propensities, at least 0.

        Returns:
            C_gamma, its reward-free form and what is missing, as averages over the rows.

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]], ["a", "b"])
        >>> uniform = piwo.policies.Uniform(bandit.actions)
        >>> found = bandit.coverages(piwo.policies.Constant("a", bandit.actions), uniform, 0.5)
        >>> found.coverage, found.reward_free
        (0.5, 1.0)
        """
        policy, logger = aligned(policy, self.actions), aligned(logger, self.actions)
        contexts = policy.context(self.context), logger.context(self.context)

        def table(one: Policy, context: Floats | None, rows: slice) -> Floats:
            return one.distribution(take(context, rows), rows.stop - rows.start)

        parts = []
        for rows in row_blocks(len(self), len(self.actions)):
            pi, mu = table(policy, contexts[0], rows), table(logger, contexts[1], rows)
            found = coverage_of(pi, mu, self._by_class[self.classes[rows]], gamma)
            means = [found.coverage, found.reward_free, found.missing_value, found.missing_mass]
            parts.append((rows.stop - rows.start) * np.array(means))
        total: Floats = np.sum(parts, axis=0) / len(self)
        return Coverage(
            gamma=gamma,
            coverage=float(total[0]),
            reward_free=float(total[1]),
            missing_value=float(total[2]),
            missing_mass=float(total[3]),
        )

    def values(self, policies: Sequence[Policy]) -> Floats:
        """Return the exact values of many policies, (P,); linear greedy ones on all cores at once.

        Args:
            policies: over these actions.

        Returns:
            `value` of each.

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]], ["a", "b"])
        >>> bandit.values([piwo.policies.Uniform(bandit.actions)] * 2).tolist()
        [0.5, 0.5]
        """
        found = np.zeros(len(policies))
        linear, places = [], []
        for i, policy in enumerate(policies):
            if isinstance(policy, LinearGreedy) and policy.actions == self.actions:
                linear.append(policy)
                places.append(i)
            else:
                found[i] = self.value(policy)
        if linear:
            stack = LinearStack(linear)
            found[places] = stack.mean_rewards(self.context, self.classes, self._by_class)
        return found

    def best_fixed_action(self) -> Label:
        """Return the action with the highest mean reward over all rows, the first of equal ones.

        >>> ClassificationBandit([[0.0], [1.0]], [7, 7], actions=[3, 7]).best_fixed_action()
        7
        """
        return self.actions.labels[int(self._action_values.argmax())]

    # --- loggers and logs

    def softmax_logger(
        self,
        eta: float,
        rows: float | None = None,
        *,
        alpha: float = 1.0,
        random_state: RandomState = 0,
    ) -> LinearSoftmax:
        """Return a softmax policy over ridge regressions of the mean rewards on the context.

        Formula: pi(a|x) proportional to exp(eta s_a(x)), s_a the ridge regression of M[a, y] on x,
        with intercept.

        Args:
            eta: inverse temperature; 0 is uniform, large is nearly greedy, negative prefers bad
                actions.
            rows: fraction of the rows for the regression, drawn at random; None: all.
            alpha: the ridge penalty, as in scikit-learn.
            random_state: seed of the drawn rows.

        Raises:
            UsageError: for an eta that is not finite.
            DataError: if the squares of the context leave float64.

        >>> bandit = ClassificationBandit([[0.0], [1.0]] * 9, ["a", "b"] * 9)
        >>> bandit.softmax_logger(0.0).probabilities([[0.5]]).tolist()
        [[0.5, 0.5]]
        """
        check_finite("eta", eta)
        check_finite("alpha", alpha)
        check_non_negative("alpha", alpha)
        context, classes = self.context, self.classes
        if rows is not None:
            seen = _fraction(rows, len(self), generator(random_state))
            context, classes = context[seen], classes[seen]
        coef, intercept = _ridge(context, classes, self._by_class, alpha)
        return LinearSoftmax(eta * coef, eta * intercept, self.actions, features=self.features)

    def log(
        self,
        behavior: Policy,
        *,
        rows: int | npt.NDArray[np.integer[Any]] | None = None,
        random_state: RandomState,
        full_propensities: bool = False,
        log_propensities: bool = False,
    ) -> Log:
        """Return a log of a behavior policy: one action and one reward of 0 or 1 a row.

        Args:
            behavior: draws the actions.
            rows: None: every row once, in order; a number of rows, drawn uniformly with
                replacement; or the indices of rows.
            random_state: a seed, or a numpy Generator, which advances.
            full_propensities: the log keeps the behavior policy, and so has the full vector mu(.|X)
                of every row, without storing a table of rows x actions.
            log_propensities: log the logarithm of the propensity, which is exact even if the
                propensity underflows.

        Returns:
            A `Log` in memory, with the context of this bandit.

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]] * 50, ["a", "b"] * 50)
        >>> log = bandit.log(piwo.policies.Uniform(bandit.actions), random_state=0)
        >>> len(log), log.actions.labels
        (100, ('a', 'b'))
        """
        rng, behavior = generator(random_state), aligned(behavior, self.actions)
        index = _drawn(rows, len(self), rng)
        context, classes = self.context[index], self.classes[index]
        codes, propensity, reward = self._draw(
            behavior, behavior.context(context), classes, rng, log_propensities
        )
        roles = {
            "action": pa.DictionaryArray.from_arrays(
                pa.array(codes), pa.array(self.actions.labels)
            ),
            "reward": reward,
        }
        role = "propensity"
        if log_propensities:
            role = "log_propensity"
        roles[role] = propensity
        columns = self._all_columns
        if not isinstance(index, slice):
            columns = _columns(self.table, self.features, context, index)
        return self._logged(roles, columns, behavior if full_propensities else None)

    def _draw(
        self,
        behavior: Policy,
        context: Floats | None,
        classes: npt.NDArray[np.int32],
        rng: np.random.Generator,
        logarithm: bool,
    ) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
        """Return actions, their propensities (or logarithms) and rewards, on all cores.

        Each slice of rows has its own generator, so the draws do not depend on the number of
        threads.
        """
        n = len(classes)
        # A policy made for the rows of one log takes all rows at once.
        step = _SLICE
        if behavior.rows is not None:
            step = n
        seeds = None
        if n > step:
            seeds = rng.integers(2**63, size=(math.ceil(n / step), 2))

        def work(rows: slice) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
            here = rng
            if seeds is not None:
                here = np.random.default_rng(seeds[rows.start // step])
            seen, some = take(context, rows), classes[rows]
            try:
                codes, propensity = behavior.draw_logged(seen, len(some), here, logarithm)
            except RowError as wrong:
                raise wrong.after(rows.start) from None
            # R = 1 with probability M[A, y]: one uniform number per row
            won = here.random(len(some)) < self.rewards[codes, some]
            return codes, propensity, won.astype(np.float64)

        parts = spread(n, max(step, 1), work) or [work(slice(0, 0))]
        codes, propensity, reward = (np.concatenate(column) for column in zip(*parts, strict=True))
        return codes, propensity, reward

    def _logged(
        self, roles: dict[str, Any], context: dict[str, Any], behavior: Policy | None
    ) -> Log:
        for name in context:
            if name in roles:
                raise UsageError(f"context column {name!r} has the name of a role; rename it")
        columns = Columns(
            propensity="propensity" if "propensity" in roles else None,
            log_propensity="log_propensity" if "log_propensity" in roles else None,
            context=tuple(context),
        )
        source = TableSource(pa.table({**context, **roles}), "the simulated log")
        return Log(
            source,
            columns,
            declared_actions=self.actions,
            declared_features=self.features,
            behavior=behavior,
        )

    @staticmethod
    def paper_rewards(actions: int, random_state: RandomState) -> Floats:
        """Return mean rewards as in the paper: 1 for the true class, uniform on [0, 1) otherwise.

        Args:
            actions: K.
            random_state: a seed, or a numpy Generator, which advances.

        Returns:
            (K, K) matrix M[action, class].

        Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Section 6.

        >>> ClassificationBandit.paper_rewards(2, random_state=0).round(3).tolist()
        [[1.0, 0.27], [0.041, 1.0]]
        """
        check_count("actions", actions, 1, "how many actions there are")
        made = generator(random_state).random((actions, actions))
        np.fill_diagonal(made, 1.0)
        return made


def _codes(labels: pa.Array, actions: Actions) -> npt.NDArray[np.int32]:
    codes = actions.codes(labels, "y")
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        raise DataError(
            f"y holds {len(unknown)} labels that are missing or not among the "
            f"{len(actions)} actions ({actions.preview()}); first: row {unknown[0]}; "
            f"give {argument('actions', '[...]')} with every label"
        )
    return codes


def _context(X: Any, features: Features | None) -> tuple[pa.Table | None, Features, Floats]:
    """Return the data frame (None for a plain matrix), its features and its (n, d) matrix."""
    check_kind("features", features, (Features, type(None)))
    if not is_frame(X):
        matrix = numbers("X", X, "an (n, d) matrix or a data frame")
        if matrix.ndim != 2:
            raise UsageError(
                f"X has shape {matrix.shape}, expected (n, d); write x.reshape(-1, 1) "
                "for one column"
            )
        if features is None:
            features = Features.numeric(matrix.shape[1])
        return None, features, features.encode(matrix)
    table = to_table(X)
    if features is None:
        features = Log(TableSource(table), Columns(context=tuple(table.column_names))).features
    assert features is not None
    return table.select(list(features.columns)), features, features.encode(table)


def _columns(
    table: pa.Table | None, features: Features, context: Floats, index: Any
) -> dict[str, Any]:
    """Return the context columns of the drawn rows by name, as the log holds them."""
    if table is None:
        return {name: np.ascontiguousarray(context[:, i]) for i, name in enumerate(features.names)}
    if not isinstance(index, slice):
        table = table.take(pa.array(index))
    return {name: table[name] for name in table.column_names}


def _mean_rewards(rewards: Any, actions: int) -> Floats:
    matrix = np.eye(actions)
    if rewards is not None:
        matrix = numbers("rewards", rewards).copy()
    if matrix.shape != (actions, actions):
        raise UsageError(
            f"{argument('rewards')} has shape {matrix.shape}, expected ({actions}, "
            f"{actions}): M[action, class]"
        )
    if not ((matrix >= 0) & (matrix <= 1)).all():
        raise UsageError("rewards holds numbers outside [0, 1], expected chances of a reward of 1")
    matrix.flags.writeable = False
    return matrix


def _fraction(rows: float, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if not (is_number(rows) and 0 < rows <= 1):
        raise UsageError(
            f"{argument('rows')} is {shown(rows)}, expected a fraction of the rows, "
            "above 0 and at most 1"
        )
    return rng.choice(n, size=max(1, round(rows * n)), replace=False, shuffle=False)


def _drawn(rows: Any, n: int, rng: np.random.Generator) -> Any:
    """Return the index of the rows to log."""
    if rows is None:
        return slice(None)
    if is_whole(rows):
        check_count("rows", rows, 1, "how many to draw, or the indices of rows")
        return rng.integers(0, n, size=int(rows))
    index = np.asarray(rows)
    whole = index.ndim == 1 and index.dtype.kind in "iu"
    if not whole or (index.size and not -n <= index.min() <= index.max() < n):
        raise UsageError(
            f"{argument('rows')} is {shown(rows)}, expected a number of rows, or the "
            f"indices of rows below {n}"
        )
    return index


def _ridge(
    context: Floats, classes: npt.NDArray[np.int32], by_class: Floats, alpha: float
) -> tuple[Floats, Floats]:
    """Return (K, d) coefficients and (K,) intercepts of the ridge regressions of M[a, y] on x.

    The targets depend on a row through its class alone, so X'G is a product of sums by class, and
    no n x K table is needed.
    """
    # imported when needed: it takes longer than all of this package
    from scipy.sparse import csr_array

    center, d = context.mean(axis=0), context.shape[1]
    xx, sums = np.zeros((d, d)), np.zeros((len(by_class), d))
    for start in range(0, len(context), _SLICE):
        shifted = context[start : start + _SLICE] - center
        here = classes[start : start + _SLICE]
        # An overflow is reported below.
        with np.errstate(over="ignore", invalid="ignore"):
            xx += shifted.T @ shifted
            # a row has its one in the column of its class, so the transpose adds rows by class
            ones = np.ones(len(here)), here, np.arange(len(here) + 1)
            sums += csr_array(ones, shape=(len(here), len(by_class))).T @ shifted
    check_sums_of_squares(xx)
    # coef = (X'X + alpha I)^-1 X'G with centered X; intercept = mean of G - coef @ center
    mean = np.bincount(classes, minlength=len(by_class)) @ by_class / len(classes)
    coef = np.asarray(np.linalg.solve(xx + alpha * np.eye(d), sums.T @ by_class).T, np.float64)
    return coef, np.asarray(mean - coef @ center, np.float64)
