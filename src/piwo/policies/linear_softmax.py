"""Actions drawn with probability proportional to exp(linear score / temperature)."""

from __future__ import annotations

from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_positive
from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.policies.blocks import Codes, RowError, check_dense
from piwo.policies.linear_scores import best, coefficients, is_plain, score_blocks
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.policies.sampling import draw_rows
from piwo.policies.state import State

__all__ = ["LinearSoftmax"]


@final
class LinearSoftmax(Policy):
    """pi(a | x) proportional to exp((<c_a, x> + b_a) / temperature).

    It explores: what it serves can be learned from later. Where probabilities underflow, their
    logarithms are
    right: `log_probabilities`, `log_logged`.

    Args:
        coef: (K, d), one row an action.
        intercept: (K,); -inf: this action is not available and has probability 0.
        actions: the K labels.
        temperature: > 0; towards 0 it becomes greedy (ties share), towards infinity uniform.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for other shapes, NaN and infinite coefficients, or a temperature that is not a
            positive number.
        DataError: where a context makes a score NaN or +inf, or leaves no action; the row is named.

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
        return X if is_plain(X, self.width) else super().context(X)

    def _scaled(self, scores: Floats, start: int) -> Floats:
        """Return z = (s - max s) / temperature, (m, K), in place."""
        scores -= best(scores, start)[1][:, None]
        # Subtracted first: 0 / temperature is 0 and -1 / 1e-320 is -inf, never inf - inf.
        if self.temperature != 1.0:
            with np.errstate(over="ignore"):
                scores /= self.temperature
        return scores

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return exp(z) / sum exp(z), (n, K)."""
        assert context is not None
        table = np.empty((n, len(self.actions)))
        for block, scores in score_blocks(context, self.coef, self.intercept):
            chances = np.exp(self._scaled(scores, block.start), out=table[block])
            chances /= chances.sum(axis=1)[:, None]
        return table

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return one action a row, drawn with its probability, (n,) codes; one uniform number a row."""
        return self.draw_logged(context, n, rng)[0]

    def draw_logged(
        self, context: Floats | None, n: int, rng: np.random.Generator, logarithm: bool = False
    ) -> tuple[Codes, Floats]:
        """Return one action a row, as `draw` does, and log pi or pi of it, from one softmax."""
        assert context is not None
        codes, found = np.empty(n, np.int32), np.empty(n)
        for block, scores in score_blocks(context, self.coef, self.intercept):
            z = self._scaled(scores, block.start)
            chances = np.exp(z)
            codes[block] = draw_rows(chances, rng)
            found[block] = z[np.arange(len(z)), codes[block]] - np.log(chances.sum(axis=1))
        return codes, found if logarithm else np.exp(found, out=found)

    def _log_chances(self, context: Floats | None, codes: Codes) -> Floats:
        assert context is not None
        found = np.empty(len(codes))
        for block, scores in score_blocks(context, self.coef, self.intercept):
            z = self._scaled(scores, block.start)
            found[block] = z[np.arange(len(z)), codes[block]]
            found[block] -= np.log(np.exp(z, out=z).sum(axis=1))
        return found

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the probability of one action a row, (n,)."""
        return np.asarray(np.exp(self._log_chances(context, codes)))

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return log pi(a | x), (n, K), right where pi underflows to 0; -inf: not available."""
        context = self.context(X)
        if context is None or n not in {None, len(context)}:
            raise UsageError(
                f"got n={n} for {0 if context is None else len(context)} contexts; leave n out"
            )
        check_dense(len(context), len(self.actions))
        table = np.empty((len(context), len(self.actions)))
        for block, scores in score_blocks(context, self.coef, self.intercept):
            z = self._scaled(scores, block.start)
            np.subtract(z, np.log(np.exp(z).sum(axis=1))[:, None], out=table[block])
        return table

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the logged actions, (n,), right where the probability underflows."""
        try:
            return self._log_chances(self.context(batch.context), batch.action)
        except RowError as wrong:
            raise RowError(wrong.problem, int(batch.row_numbers[wrong.row])) from None

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
