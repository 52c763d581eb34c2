"""Linear scores: the action with the highest one, or actions drawn by a softmax of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, check_positive, numbers
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.foreign import RowError
from piwo.messages import argument
from piwo.policies.blocks import Codes, check_dense, row_blocks
from piwo.policies.policy import ActionList, DeterministicPolicy, Policy, action_list
from piwo.policies.restricted import highest, softmax, taken
from piwo.policies.sampling import draw_columns, running_sums
from piwo.policies.state import State

__all__ = ["LinearGreedy", "LinearSoftmax", "best"]


def coefficients(
    coef: Any, intercept: Any, actions: Actions, features: Features | None
) -> tuple[Floats, Floats]:
    """Return (K, d) coefficients and (K,) intercepts as read-only float64 copies.

    Raises:
        UsageError: for other shapes, NaN or infinite numbers. An intercept may be -inf: that action
            is not available.
    """
    check_kind("features", features, (Features, type(None)))
    matrix = numbers("coef", coef).copy()
    constant = numbers("intercept", intercept).copy()
    if matrix.ndim != 2 or len(matrix) != len(actions):
        raise UsageError(
            f"{argument('coef')} has shape {matrix.shape}, expected ({len(actions)}, "
            "d): one row per action"
        )
    if constant.shape != (len(actions),):
        raise UsageError(
            f"{argument('intercept')} has shape {constant.shape}, expected "
            f"({len(actions)},): one number per action"
        )
    if features is not None and features.width != matrix.shape[1]:
        raise UsageError(
            f"{argument('coef')} has {matrix.shape[1]} columns, the features make "
            f"{features.width}: {', '.join(features.names[:8])}"
        )
    if not np.isfinite(matrix).all():
        raise UsageError(f"{argument('coef')} holds NaN or infinite numbers, expected finite ones")
    if not (constant < np.inf).all():
        raise UsageError(
            f"{argument('intercept')} holds NaN or +inf, expected finite numbers, or "
            "-inf for an action that is not available"
        )
    if not (constant > -np.inf).any():
        raise UsageError(
            "every intercept is -inf, so no action is available; make at least one finite"
        )
    matrix.flags.writeable = constant.flags.writeable = False
    return matrix, constant


def is_plain(X: Any, width: int | None) -> bool:
    """Whether X can be scored as it is. NaN and infinite numbers in it appear in the scores."""
    return (
        isinstance(X, np.ndarray) and X.dtype == np.float64 and X.ndim == 2 and X.shape[1] == width
    )


def score_blocks(
    context: Floats, coef: Floats, intercept: Floats
) -> Iterator[tuple[slice, Floats]]:
    """Yield (rows, X C' + b) for blocks of rows, (m, K). The next block overwrites the buffer."""
    transposed = coef.T
    buffer: npt.NDArray[np.float64] | None = None
    # Scores of a NaN or infinite context are NaN or infinite, and `best` refuses them by row.
    with np.errstate(invalid="ignore", over="ignore"):
        for block in row_blocks(len(context), len(coef)):
            count = block.stop - block.start
            if buffer is None:
                buffer = np.empty((count, len(coef)))
            scores = buffer[:count]
            np.matmul(context[block], transposed, out=scores)
            scores += intercept
            yield block, scores


def best(scores: Floats, start: int) -> tuple[Codes, Floats]:
    """Return each row's best action, the lowest code of equal ones, and its score.

    Args:
        scores: (m, K); -inf: not available.
        start: row number of the first row, for errors.

    Returns:
        (m,) codes and (m,) scores, all finite.

    Raises:
        DataError: for a NaN or +inf score, or a row with no available action; the row is named.

    >>> best(np.array([[1.0, 2.0, 2.0]]), 0)[0].tolist()
    [1]
    """
    codes = scores.argmax(axis=1)
    # argmax prefers NaN to any number, so the winning score shows whether anything in the row is
    # invalid.
    top = scores[np.arange(len(scores)), codes]
    _check_top(top, start)
    return codes.astype(np.int32), top


def pair_scores(context: Floats, eligible: Eligible, coef: Floats, intercept: Floats) -> Floats:
    """Return <c_a, x> + b_a of the eligible actions a of each row, (m,).

    >>> some = Eligible(np.array([0, 1, 3]), np.array([1, 0, 1], np.int32))
    >>> pair_scores(np.array([[1.0], [2.0]]), some, np.array([[1.0], [3.0]]), np.zeros(2)).tolist()
    [3.0, 2.0, 6.0]
    """
    from piwo.policies.kernels import score_pairs

    scores = np.empty(len(eligible.codes))
    context = np.ascontiguousarray(context, np.float64)
    score_pairs(context, eligible.starts, eligible.codes, coef, intercept, scores)
    return scores


def _check_top(top: Floats, start: int) -> None:
    """Raise unless the highest score of each row is finite; `start` is the first row's number."""
    if np.isfinite(top).all():
        return
    row = int(np.flatnonzero(~np.isfinite(top))[0])
    if top[row] == -np.inf:
        problem = "no action is available (every score is -inf); make one intercept finite"
    else:
        problem = f"a score is {top[row]}; look for NaN or huge numbers in the context"
    raise RowError(problem, start + row)


@final
class LinearGreedy(DeterministicPolicy):
    """pi(x) = argmax_a <c_a, x> + b_a; of equal scores the lowest code wins.

    The class that PIWO with a ridge oracle learns from (arXiv 2309.15771, section 6). "Equal" means
    equal in floating point: scores that differ by rounding alone are not equal, and rounding may
    depend on how rows are cut into batches.

    Args:
        coef: (K, d), one row per action.
        intercept: (K,); -inf: this action is not available.
        actions: the K labels.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for other shapes, or NaN and infinite coefficients.
        DataError: if a context makes a score NaN or +inf, or leaves no action; the row is named.

    >>> policy = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["up", "down"])
    >>> policy.act([[2.0], [-3.0], [0.0]]).actions.tolist()
    ['up', 'down', 'up']
    """

    kind: ClassVar[str] = "linear-greedy"

    def __init__(
        self, coef: Any, intercept: Any, actions: ActionList, features: Features | None = None
    ) -> None:
        self.listed = action_list(actions)
        self.coef, self.intercept = coefficients(coef, intercept, self.listed, features)
        self.features = features
        self.width = self.coef.shape[1]

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix; a float64 matrix of the right width as it is."""
        if is_plain(X, self.width):
            return np.asarray(X)
        return super().context(X)

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action with the highest score in each row, (n,) codes."""
        codes = np.empty(n, np.int32)
        assert context is not None
        for block, scores in score_blocks(context, self.coef, self.intercept):
            codes[block], _ = best(scores, block.start)
        return codes

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return 1 for the eligible action with the highest score in each row, (m,)."""
        assert context is not None
        scores = pair_scores(context, eligible, self.coef, self.intercept)
        return taken(highest(scores, eligible), eligible)

    def logged(self, batch: Batch) -> Floats:
        """Return 1 where the logged action is the one taken, else 0, (n,)."""
        if batch.eligible is None:
            return super().logged(batch)
        context = self.context(batch.context)
        assert context is not None
        try:
            scores = pair_scores(context, batch.eligible, self.coef, self.intercept)
            return np.asarray(highest(scores, batch.eligible) == batch.action, np.float64)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def state(self) -> State:
        """Return coefficients and intercepts."""
        return State(
            self.actions, self.features, arrays={"coef": self.coef, "intercept": self.intercept}
        )

    @classmethod
    def from_state(cls, state: State) -> LinearGreedy:
        """Return the policy of a state."""
        count = len(state.known())
        return cls(
            state.array("coef", count, -1),
            state.array("intercept", count),
            state.known(),
            state.features,
        )


@final
class LinearSoftmax(Policy):
    """pi(a | x) proportional to exp((<c_a, x> + b_a) / temperature).

    It explores, so its log supports learning and evaluation later. If probabilities underflow,
    `log_probabilities` and `log_logged` are still correct.

    Args:
        coef: (K, d), one row per action.
        intercept: (K,); -inf: this action is not available and has probability 0.
        actions: the K labels.
        temperature: > 0; near 0 the policy is nearly greedy (ties share), for large ones uniform.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for other shapes, NaN and infinite coefficients, or a temperature that is not a
            positive number.
        DataError: if a context makes a score NaN or +inf, or leaves no action; the row is named.

    >>> LinearSoftmax([[1000.0], [999.0], [0.0]], [0, 0, 0], ["a", "b", "c"]).probabilities(
    ...     [[1.0]]
    ... ).round(6).tolist()
    [[0.731059, 0.268941, 0.0]]
    """

    kind: ClassVar[str] = "linear-softmax"

    def __init__(
        self,
        coef: Any,
        intercept: Any,
        actions: ActionList,
        temperature: float = 1.0,
        features: Features | None = None,
    ) -> None:
        self.listed = action_list(actions)
        self.coef, self.intercept = coefficients(coef, intercept, self.listed, features)
        check_positive("temperature", temperature)
        self.temperature = float(temperature)
        self.features = features
        self.width = self.coef.shape[1]

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix; a float64 matrix of the right width as it is."""
        if is_plain(X, self.width):
            return np.asarray(X)
        return super().context(X)

    def exponents(self, context: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield (rows, z = (s - max s) / temperature), (K, m). The next block overwrites the last.

        pi(a | x) = exp(z_a) / sum_b exp(z_b). Actions come first, so that sums and maxima over them
        are of whole vectors of rows.

        Args:
            context: (n, d) context matrix.

        >>> policy = LinearSoftmax([[1.0], [0.0]], [0.0, 0.0], ["a", "b"])
        >>> [(rows, z.tolist()) for rows, z in policy.exponents(np.array([[3.0], [-1.0]]))]
        [(slice(0, 2, None), [[0.0, -1.0], [-3.0, 0.0]])]
        """
        buffer: npt.NDArray[np.float64] | None = None
        for block in row_blocks(len(context), len(self.coef)):
            count = block.stop - block.start
            if buffer is None or buffer.shape[1] != count:
                buffer = np.empty((len(self.coef), count))
            # A NaN or infinite context is refused by its row.
            with np.errstate(invalid="ignore", over="ignore"):
                z = np.matmul(self.coef, context[block].T, out=buffer)
                z += self.intercept[:, None]
                # The maximum is NaN if a score is.
                top = z.max(axis=0)
                _check_top(top, block.start)
                z -= top
                # Subtracted first: 0 / temperature is 0 and -1 / 1e-320 is -inf, never inf - inf.
                if self.temperature != 1.0:
                    z /= self.temperature
            yield block, z

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return exp(z) / sum exp(z) over the eligible actions of each row, (m,)."""
        assert context is not None
        z = pair_scores(context, eligible, self.coef, self.intercept)
        return softmax(z, eligible, self.temperature)

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return exp(z) / sum exp(z), (n, K)."""
        assert context is not None
        table = np.empty((n, len(self.actions)))
        for block, z in self.exponents(context):
            chances = np.exp(z, out=z)
            chances /= chances.sum(axis=0)
            table[block] = chances.T
        return table

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return one action per row, (n,) codes, drawn with one uniform number per row."""
        return self.draw_logged(context, n, rng)[0]

    def draw_logged(
        self, context: Floats | None, n: int, rng: np.random.Generator, logarithm: bool = False
    ) -> tuple[Codes, Floats]:
        """Return what `draw` returns, and pi or log pi of it, from one softmax."""
        assert context is not None
        codes, found = np.empty(n, np.int32), np.empty(n)
        for block, z in self.exponents(context):
            running = running_sums(np.exp(z))
            drawn = codes[block] = draw_columns(running, rng)
            # log pi(a | x) = z_a - log sum_b exp(z_b)
            found[block] = z[drawn, np.arange(len(drawn))] - np.log(running[-1])
        if logarithm:
            return codes, found
        return codes, np.exp(found, out=found)

    def _log_chances(self, context: Floats | None, codes: Codes) -> Floats:
        assert context is not None
        found = np.empty(len(codes))
        for block, z in self.exponents(context):
            found[block] = z[codes[block], np.arange(z.shape[1])]
            found[block] -= np.log(np.exp(z, out=z).sum(axis=0))
        return found

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the probability of one action per row, (n,)."""
        return np.asarray(np.exp(self._log_chances(context, codes)))

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return log pi(a | x), (n, K), correct even if pi underflows; -inf: not available."""
        context = self.context(X)
        assert context is not None
        if n not in {None, len(context)}:
            raise UsageError(
                f"got {argument('n', n)} for {len(context)} contexts; leave {argument('n')} out"
            )
        check_dense(len(context), len(self.actions))
        table = np.empty((len(context), len(self.actions)))
        for block, z in self.exponents(context):
            np.subtract(z, np.log(np.exp(z).sum(axis=0)), out=z)
            table[block] = z.T
        return table

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the logged actions, (n,), correct even if pi underflows."""
        if batch.eligible is not None:
            return super().log_logged(batch)
        try:
            return self._log_chances(self.context(batch.context), batch.action)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def state(self) -> State:
        """Return coefficients, intercepts and temperature."""
        arrays = {"coef": self.coef, "intercept": self.intercept}
        return State(self.actions, self.features, {"temperature": self.temperature}, arrays)

    @classmethod
    def from_state(cls, state: State) -> LinearSoftmax:
        """Return the policy of a state."""
        count = len(state.known())
        coef, intercept = state.array("coef", count, -1), state.array("intercept", count)
        return cls(
            coef, intercept, state.known(), float(state.parameters["temperature"]), state.features
        )
