"""Direct oracle: a reward model for every action, and the action with the highest prediction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from piwo.checks import check_positive
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import first_mean
from piwo.oracles.oracle import Oracle
from piwo.policies import LinearGreedy, Policy, RewardModels
from piwo.policies.models import fitted_model
from piwo.reductions.action_gram import ActionGram, ActionGramState
from piwo.reductions.large_contexts import check_sums_of_squares
from piwo.reductions.reduce import reduce
from piwo.scores import Score

__all__ = ["Direct"]

_FEW = 5
"""An action with fewer rows gets no model."""


@dataclass(frozen=True)
class Direct(Oracle):
    """The action with the highest reward by a regression for each action; propensities are ignored.

    Answers: which policy, if the log explores evenly or badly, so that a reward model is more
    precise than weights? It is the best of the simple learners then, and often worse than the
    logging policy otherwise: use it in `piwo.Auto`, or check its certificate. The score is not
    used.

    Formula, with m the mean reward: for every action a, min over c, b of sum_{t: A_t = a} (R_t - m
    - c'X_t - b)^2 + alpha (|c|^2 + b^2), columns divided by their standard deviation; pi(x) =
    argmax_a c_a'x + b_a over the actions that were logged. With a model f_a fitted to the n_a rows
    of each action: pi(x) = argmax_a (n_a f_a(x) + alpha m) / (n_a + alpha), and if n_a < 5 the mean
    reward of these rows replaces f_a(x). In both cases rarely logged actions are shrunk towards m.

    Args:
        alpha: the penalty, above 0: the mean reward counts as much as this number of rows.
        model: a scikit-learn regressor, of which each action gets a copy, fitted to all of its rows
            in memory; None: ridge regression, in one pass over the log.

    >>> import numpy as np, piwo
    >>> X = np.array([[0.0], [0.0], [1.0], [1.0]] * 50)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=[0, 1] * 100, reward=[1, 0, 0, 1] * 50, propensity=[0.5] * 200
    ... )
    >>> Direct().solve(log, piwo.IW()).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    alpha: float = 1.0
    model: Any = None
    name: ClassVar[str] = "direct"
    uses_score: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_positive("alpha", self.alpha)
        is_regressor = hasattr(self.model, "fit") and hasattr(self.model, "predict")
        if self.model is not None and not is_regressor:
            raise UsageError(
                f"{argument('model')} is {self.model!r:.80}, expected a scikit-learn regressor"
            )

    def needs_rows(self) -> bool:
        """Whether a scikit-learn model predicts the rewards, for which sums do not suffice."""
        return self.model is not None

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return the same policy for every score; one pass over the log."""
        self.fit_for(log)
        if self.model is not None:
            return [self._fitted(log)] * len(scores)
        shift = first_mean(log)
        sums = reduce(log, ActionGram(len(log.actions), shift))
        return [self._policy(sums, shift, log)] * len(scores)

    def _policy(self, sums: ActionGramState, shift: Floats, log: Log) -> LinearGreedy:
        total = sums.zz.sum(axis=0)
        check_sums_of_squares(total)
        rows = sums.zz[:, -1, -1]
        # m, and mean and deviation of the columns
        mean = sums.zr[:, -1].sum() / rows.sum()
        center = total[-1, :-1] / rows.sum()
        deviation = np.sqrt(np.maximum(np.diag(total)[:-1] / rows.sum() - center**2, 0.0))
        # z = (x - shift, 1) to (x - shift - center, 1) / (deviation, 1)
        turn = np.eye(len(total))
        turn[:-1, -1] = -center
        turn[:-1] /= np.where(deviation > 0, deviation, 1.0)[:, None]
        zz = turn @ sums.zz @ turn.T
        zr = (sums.zr - mean * sums.zz[:, -1]) @ turn.T
        # (Z'Z + alpha I) (c, b) = Z'(R - m) for every action
        penalized = zz + self.alpha * np.eye(len(total))
        solved = np.linalg.solve(penalized, zr[:, :, None])[:, :, 0] @ turn
        # an action that was never logged is never played
        offset = np.where(rows > 0, solved[:, -1] - solved[:, :-1] @ shift, -np.inf)
        return LinearGreedy(solved[:, :-1], offset, log.actions, log.features)

    def _fitted(self, log: Log) -> RewardModels:
        from sklearn.base import clone

        parts = list(log.each_batch(context=True))
        context = np.concatenate([part.context for part in parts if part.context is not None])
        action = np.concatenate([part.action for part in parts])
        reward = np.concatenate([part.reward for part in parts])
        rows = np.bincount(action, minlength=len(log.actions))
        models: list[Any] = []
        for a in range(len(rows)):
            here, model = action == a, None
            if rows[a] >= _FEW:
                model = fitted_model(clone(self.model), context[here], reward[here])
            models.append(model)
        # (n_a f_a(x) + alpha m) / (n_a + alpha), with too few rows their mean reward for f_a
        total = np.bincount(action, reward, minlength=len(rows))
        few = np.where(rows >= _FEW, 0.0, total)
        offset = (few + self.alpha * reward.mean()) / (rows + self.alpha)
        offset[rows == 0] = -np.inf
        return RewardModels(models, rows / (rows + self.alpha), offset, log.actions, log.features)
