"""Labeled data as a bandit: contexts are rows, actions are classes, and every policy has a known value."""

from __future__ import annotations

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
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.ridge import require_finite_squares
from piwo.policies import (
    DeterministicPolicy,
    LinearGreedy,
    LinearSoftmax,
    LinearStack,
    Policy,
    aligned,
)
from piwo.policies.blocks import RowError, row_blocks, spread
from piwo.policies.policy import ActionList, action_list
from piwo.policies.sampling import RandomState, generator
from piwo.simulate.coverage import Coverage, coverage_of
from piwo.sources.frames import is_frame, to_table
from piwo.sources.source import TableSource

__all__ = ["ClassificationBandit"]

_SLICE = 65_536


@final
class ClassificationBandit:
    """A bandit made from n labeled rows: playing action a on a row of class c earns 1 with chance M[a, c].

    Answers: how good is what a learner or an interval says, where the truth can be computed? Rows
    are drawn evenly; the value of a policy is exact, v(pi) = (1/n) sum_i sum_a pi(a|x_i) M[a, y_i].

    Args:
        X: the contexts, an (n, d) matrix, or a data frame.
        y: (n,) class labels.
        rewards: (K, K) mean rewards M[action, class] in [0, 1]; None: 1 where they agree, else 0.
        actions: the K labels, of actions and of classes; None: the sorted distinct labels of y.
        features: how a data frame becomes the context matrix; None: as a log of these columns
            would.

    Raises:
        UsageError: for shapes that do not go together, or mean rewards outside [0, 1].
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
        self.actions = (
            Actions(sorted(labels.unique().to_pylist()))
            if actions is None
            else action_list(actions)
        )
        self.classes = _codes(labels, self.actions)
        self.table, self.features, self.context = _context(X, features)
        if len(self.context) != len(self.classes):
            raise UsageError(
                f"got {len(self.context)} contexts and {len(self.classes)} labels, expected as "
                "many of each"
            )
        self.rewards = _mean_rewards(rewards, len(self.actions))

    def __len__(self) -> int:
        return len(self.classes)

    def __repr__(self) -> str:
        size = f"{len(self)} rows, {self.features.width} columns, {len(self.actions)} actions"
        return f"ClassificationBandit({size})"

    @cached_property
    def _by_class(self) -> Floats:
        """M transposed, (class, action): a row of it is the reward vector of a logged row."""
        return np.ascontiguousarray(self.rewards.T)

    @cached_property
    def _all_columns(self) -> dict[str, Any]:
        """The context columns of all rows; every log of all rows shares them."""
        return _columns(self.table, self.features, self.context, slice(None))

    @cached_property
    def _action_values(self) -> Floats:
        """The (K,) mean rewards over all rows."""
        counts = np.bincount(self.classes, minlength=len(self.actions))
        return np.asarray(self.rewards @ counts / len(self))

    def take(self, rows: npt.NDArray[Any]) -> Self:
        """Return the bandit of some of the rows, such as one part to learn on and another to test on.

        Args:
            rows: an index array or a mask.

        >>> len(ClassificationBandit([[0.0], [1.0]], ["a", "b"]).take(np.array([0])))
        1
        """
        index = np.arange(len(self))[rows]
        table = None if self.table is None else self.table.take(pa.array(index))
        part = copy(self)
        for name in ("_all_columns", "_action_values"):  # what was worked out for all rows
            part.__dict__.pop(name, None)
        part.classes = self.classes[index]
        part.table, part.context = table, self.context[index]
        return part

    # --- what is known

    def value(self, policy: Policy) -> float:
        """Return the true value of a policy, exactly; block by block, without a table of rows x actions.

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
                some, classes = None if context is None else context[here], self.classes[here]
                if isinstance(policy, DeterministicPolicy):
                    total += self.rewards[policy.decide(some, len(classes)), classes].sum()
                else:
                    chances = policy.distribution(some, len(classes))
                    total += float(np.einsum("ij,ij->", chances, self._by_class[classes]))
            return total

        return float(sum(spread(len(self), _SLICE, earned))) / len(self)

    def coverage(self, policy: Policy, logger: Policy, gamma: float = 0.0) -> float:
        """Return how well a logger covers what a policy earns: 0 where it earns nothing, inf without support.

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
        """Return `coverage` with its reward-free form, and what the logger never shows; block by block.

        Args:
            policy: over these actions, in any order.
            logger: likewise; the policy that writes the log.
            gamma: what is added to the propensities, at least 0.

        Returns:
            C_gamma, its reward-free form and what is missing; averages over the rows.

        >>> import piwo
        >>> bandit = ClassificationBandit([[0.0], [1.0]], ["a", "b"])
        >>> uniform = piwo.policies.Uniform(bandit.actions)
        >>> found = bandit.coverages(piwo.policies.Constant("a", bandit.actions), uniform, 0.5)
        >>> found.coverage, found.reward_free
        (0.5, 1.0)
        """
        both = [aligned(one, self.actions) for one in (policy, logger)]
        contexts = [one.context(self.context) for one in both]

        def of_block(rows: slice) -> Floats:
            classes = self.classes[rows]
            pi, mu = (
                one.distribution(None if context is None else context[rows], len(classes))
                for one, context in zip(both, contexts, strict=True)
            )
            found = coverage_of(pi, mu, self._by_class[classes], gamma)
            return len(classes) * np.array(
                [found.coverage, found.reward_free, found.missing_value, found.missing_mass]
            )

        total: Floats = np.sum(
            [of_block(block) for block in row_blocks(len(self), len(self.actions))], axis=0
        )
        return Coverage(gamma, *(float(x) for x in total / len(self)))

    def values(self, policies: Sequence[Policy]) -> Floats:
        """Return the true values of many policies, (P,), exactly; linear greedy ones together, on all cores.

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
        linear = [
            i
            for i, p in enumerate(policies)
            if isinstance(p, LinearGreedy) and p.actions == self.actions
        ]
        if linear:
            stack = LinearStack([policies[i] for i in linear])  # type: ignore[misc]
            found[linear] = stack.mean_rewards(self.context, self.classes, self._by_class)
        for i in set(range(len(policies))).difference(linear):
            found[i] = self.value(policies[i])
        return found

    def best_fixed_action(self) -> Label:
        """Return the label of the action with the highest mean reward over all rows; of equal ones the first.

        >>> ClassificationBandit([[0.0], [1.0]], [7, 7], actions=[3, 7]).best_fixed_action()
        7
        """
        return self.actions.labels[int(self._action_values.argmax())]

    # --- what acts and what is logged

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
            eta: inverse temperature; 0 is uniform, large is nearly greedy, negative prefers what is
                bad.
            rows: fraction of the rows that the regression sees, drawn at random; None: all.
            alpha: the ridge penalty, as in scikit-learn.
            random_state: seed of the rows seen.

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
        seen = slice(None) if rows is None else _fraction(rows, len(self), generator(random_state))
        coef, intercept = _ridge(self.context[seen], self.classes[seen], self._by_class, alpha)
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
        """Return the log that a behavior policy would have written: one action and one 0/1 reward a row.

        Args:
            behavior: draws the actions.
            rows: None: every row once, in order; a number: so many rows drawn evenly with
                replacement; or the indices of rows.
            random_state: a seed, or a numpy Generator, which advances.
            full_propensities: the log knows the behavior policy, and so the whole vector mu(.|X) of
                every row, and its logarithm where the policy has one; no table of rows x actions is
                stored.
            log_propensities: log the logarithm in place of the propensity: exact where that
                underflows.

        Returns:
            A `Log` in memory, whose context is this bandit's.

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
            "log_propensity" if log_propensities else "propensity": propensity,
        }
        return self._logged(
            roles,
            self._all_columns
            if isinstance(index, slice)
            else _columns(self.table, self.features, context, index),
            behavior if full_propensities else None,
        )

    def _draw(
        self,
        behavior: Policy,
        context: Floats | None,
        classes: npt.NDArray[np.int32],
        rng: np.random.Generator,
        logarithm: bool,
    ) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
        """Return actions, their propensities (or logarithms) and rewards; slices of rows on all cores.

        A slice has a generator of its own, so that what is drawn does not depend on the number of
        threads.
        """
        n = len(classes)
        # a policy made for the rows of one log takes them all at once
        step = n if behavior.rows is not None else _SLICE
        seeds = rng.integers(2**63, size=(-(-n // max(step, 1)), 2)) if n > step else None

        def work(rows: slice) -> tuple[npt.NDArray[np.int32], Floats, Floats]:
            here = rng if seeds is None else np.random.default_rng(seeds[rows.start // step])
            seen, some = None if context is None else context[rows], classes[rows]
            try:
                codes, propensity = behavior.draw_logged(seen, len(some), here, logarithm)
            except RowError as wrong:
                raise RowError(wrong.problem, rows.start + wrong.row) from None
            # one uniform number a row
            return (
                codes,
                propensity,
                (here.random(len(some)) < self.rewards[codes, some]).astype(np.float64),
            )

        parts = spread(n, max(step, 1), work) or [work(slice(0, 0))]
        codes, propensity, reward = (np.concatenate(column) for column in zip(*parts, strict=True))
        return codes, propensity, reward

    def _logged(
        self, roles: dict[str, Any], context: dict[str, Any], behavior: Policy | None
    ) -> Log:
        clash = next((name for name in context if name in roles), None)
        if clash is not None:
            raise UsageError(f"context column {clash!r} has the name of a role; rename it")
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
        """Return mean rewards as in the paper: 1 for the right action, uniform on [0, 1) for the others.

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
            f"y holds {len(unknown)} labels that are missing or not among the {len(actions)} "
            f"actions ({actions.preview()}); first: row {unknown[0]}; give {argument('actions', '[...]')} with "
            "every label"
        )
    return codes


def _context(X: Any, features: Features | None) -> tuple[pa.Table | None, Features, Floats]:
    """Return the data frame (None for a plain matrix), the features and the (n, d) matrix."""
    check_kind("features", features, (Features, type(None)))
    if not is_frame(X):
        matrix = numbers("X", X, "an (n, d) matrix or a data frame")
        if matrix.ndim != 2:
            raise UsageError(
                f"X has shape {matrix.shape}, expected (n, d); write x.reshape(-1, 1) for one "
                "column"
            )
        features = Features.numeric(matrix.shape[1]) if features is None else features
        return None, features, features.encode(matrix)
    table = to_table(X)
    if features is None:
        features = Log(TableSource(table), Columns(context=tuple(table.column_names))).features
    assert features is not None
    return table.select(list(features.columns)), features, features.encode(table)


def _columns(
    table: pa.Table | None, features: Features, context: Floats, index: Any
) -> dict[str, Any]:
    """Return the context columns of the drawn rows by name, as the log shall hold them."""
    if table is None:
        return {name: np.ascontiguousarray(context[:, i]) for i, name in enumerate(features.names)}
    drawn = table if isinstance(index, slice) else table.take(pa.array(index))
    return {name: drawn[name] for name in drawn.column_names}


def _mean_rewards(rewards: Any, actions: int) -> Floats:
    matrix = np.eye(actions) if rewards is None else numbers("rewards", rewards).copy()
    if matrix.shape != (actions, actions):
        raise UsageError(
            f"{argument('rewards')} has shape {matrix.shape}, expected ({actions}, {actions}): M[action, class]"
        )
    if not ((matrix >= 0) & (matrix <= 1)).all():
        raise UsageError("rewards holds numbers outside [0, 1], expected chances of a reward of 1")
    matrix.flags.writeable = False
    return matrix


def _fraction(rows: float, n: int, rng: np.random.Generator) -> npt.NDArray[np.int64]:
    if not (is_number(rows) and 0 < rows <= 1):
        raise UsageError(
            f"{argument('rows')} is {shown(rows)}, expected a fraction of the rows, above 0 and at most 1"
        )
    return rng.choice(n, size=max(1, round(rows * n)), replace=False, shuffle=False)


def _drawn(rows: Any, n: int, rng: np.random.Generator) -> Any:
    """Return which rows are logged, as an index."""
    if rows is None:
        return slice(None)
    if is_whole(rows):
        check_count("rows", rows, 1, "how many to draw, or the indices of rows")
        return rng.integers(0, n, size=int(rows))
    index = np.asarray(rows)
    if (
        index.ndim != 1
        or index.dtype.kind not in "iu"
        or (index.size and not -n <= index.min() <= index.max() < n)
    ):
        raise UsageError(
            f"{argument('rows')} is {shown(rows)}, expected a number of rows, or the indices of rows below {n}"
        )
    return index


def _ridge(
    context: Floats, classes: npt.NDArray[np.int32], by_class: Floats, alpha: float
) -> tuple[Floats, Floats]:
    """Return (K, d) coefficients and (K,) intercepts of the ridge regressions of M[a, y] on x.

    The targets depend on a row through its class alone, so X'G is a product of class sums: no n x K
    table.
    """
    center, d = context.mean(axis=0), context.shape[1]
    xx, sums = np.zeros((d, d)), np.zeros((len(by_class), d))
    for start in range(0, len(context), _SLICE):
        shifted = context[start : start + _SLICE] - center
        here = classes[start : start + _SLICE]
        with np.errstate(over="ignore", invalid="ignore"):  # told below
            xx += shifted.T @ shifted
        for j in range(d):
            sums[:, j] += np.bincount(here, weights=shifted[:, j], minlength=len(by_class))
    require_finite_squares(xx)
    mean = np.bincount(classes, minlength=len(by_class)) @ by_class / len(classes)
    coef = np.asarray(np.linalg.solve(xx + alpha * np.eye(d), sums.T @ by_class).T, np.float64)
    return coef, np.asarray(mean - coef @ center, np.float64)
