"""The action with the highest predicted reward."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.checks import check_kind, check_listed, numbers
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.foreign import RowError, predictions
from piwo.policies.blocks import Codes, row_blocks
from piwo.policies.linear import best
from piwo.policies.policy import ActionList, DeterministicPolicy, action_list
from piwo.policies.restricted import highest, taken
from piwo.policies.state import State

__all__ = ["RewardModels"]

# Each call of scikit-learn has a fixed cost, so blocks are larger than for our matrix products.
_BLOCK_BYTES = 2**24


@final
class RewardModels(DeterministicPolicy):
    """pi(x) = argmax_a scale_a f_a(x) + offset_a, each f_a a fitted scikit-learn regressor.

    The direct oracle learns such policies if it is given a regressor. Of equal scores the lowest
    code wins.

    Args:
        models: K fitted regressors; None: f_a = 0.
        scale: (K,) finite.
        offset: (K,); -inf: this action is not available.
        actions: the K labels.
        features: how data frames become the context matrix; None: plain matrices only.

    Raises:
        UsageError: for other counts, models that are not fitted, or NaN and infinite numbers.

    >>> from sklearn.linear_model import LinearRegression
    >>> up = LinearRegression().fit([[0.0], [1.0]], [0.0, 1.0])
    >>> RewardModels([up, None], [1.0, 1.0], [0.0, 0.5], ["up", "flat"]).act(
    ...     [[0.0], [1.0]]
    ... ).actions.tolist()
    ['flat', 'up']
    """

    kind: ClassVar[str] = "reward-models"

    def __init__(
        self,
        models: Sequence[Any],
        scale: Any,
        offset: Any,
        actions: ActionList,
        features: Features | None = None,
    ) -> None:
        self.listed = action_list(actions)
        check_kind("features", features, (Features, type(None)))
        check_listed("models", models)
        self.models = tuple(models)
        self.scale, self.offset = numbers("scale", scale).copy(), numbers("offset", offset).copy()
        count = len(self.listed)
        if not (len(self.models) == count and self.scale.shape == self.offset.shape == (count,)):
            raise UsageError(
                f"got {len(self.models)} models, scales of shape {self.scale.shape} "
                f"and offsets of shape {self.offset.shape}, expected {count} of each: "
                "one per action"
            )
        available = self.offset > -np.inf
        if not (np.isfinite(self.scale).all() and (self.offset < np.inf).all() and available.any()):
            raise UsageError(
                "scale or offset holds NaN or infinite numbers, expected finite ones; "
                "some offsets may be -inf"
            )
        self.scale.flags.writeable = self.offset.flags.writeable = False
        self.features = features
        self.width = _width(self.models, features)

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action with the highest predicted reward in each row, (n,) codes."""
        assert context is not None
        codes = np.empty(n, np.int32)
        for block, scores in self._scores(context):
            codes[block], _ = best(scores, block.start)
        return codes

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return 1 for the eligible action with the highest predicted reward, (m,)."""
        assert context is not None
        found = np.empty(len(eligible.codes))
        for block, scores in self._scores(context):
            some = eligible.take(block)
            pairs = slice(eligible.starts[block.start], eligible.starts[block.stop])
            found[pairs] = scores[some.rows, some.codes]
        return taken(highest(found, eligible), eligible)

    def _scores(self, context: Floats) -> Iterator[tuple[slice, Floats]]:
        """Yield (rows, scale_a f_a(x) + offset_a), (m, K), block by block."""
        for block in row_blocks(len(context), len(self.models), _BLOCK_BYTES):
            scores = np.tile(self.offset, (block.stop - block.start, 1))
            for a, model in enumerate(self.models):
                if model is not None:
                    scores[:, a] += self.scale[a] * _predicted(model, context[block], block.start)
            yield block, scores

    def state(self) -> State:
        """Return models, scales and offsets."""
        arrays: dict[str, npt.NDArray[np.float64]] = {"scale": self.scale, "offset": self.offset}
        return State(self.actions, self.features, arrays=arrays, model=list(self.models))

    @classmethod
    def from_state(cls, state: State) -> RewardModels:
        """Return the policy of a state."""
        count = len(state.known())
        scale, offset = state.array("scale", count), state.array("offset", count)
        return cls(list(state.model), scale, offset, state.known(), state.features)


def _predicted(model: Any, context: Floats, start: int) -> Floats:
    """Return a model's predictions, (n,) finite; errors count rows from `start`."""
    giver = f"{type(model).__name__}.predict"
    try:
        return predictions(model.predict(context), (len(context),), giver)
    except RowError as wrong:
        raise wrong.after(start) from None


def _width(models: tuple[Any, ...], features: Features | None) -> int | None:
    """Return the number of context columns, the same for all models and the features."""
    fitted = [model for model in models if model is not None]
    if not all(hasattr(model, "n_features_in_") for model in fitted):
        raise UsageError("a model is not a fitted scikit-learn regressor; call fit first")
    found: set[int] = {model.n_features_in_ for model in fitted}
    if features is not None:
        found.add(features.width)
    if len(found) > 1:
        raise UsageError(
            f"models and features differ in their number of columns: {sorted(found)}; "
            "fit all on the same"
        )
    if not found:
        return None
    return found.pop()
