"""Members of the guarded vote that read unrewarded rows, too, and the imitation of a logger."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.engines.native_threads import native_threads
from piwo.engines.stages import check_time
from piwo.errors import NothingToLearnError
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.oracles import Oracle
from piwo.oracles.examples import standardized
from piwo.oracles.softmax import SoftmaxObjective
from piwo.policies import Classifier as ClassifierPolicy
from piwo.policies import Constant, EpsilonGreedy, LinearGreedy, LinearSoftmax, Policy
from piwo.policies.models import weighted_model
from piwo.scores import IX, Score

__all__ = [
    "CREDIT",
    "RIDGE",
    "STEPS",
    "HalfBaseline",
    "LowerBounds",
    "PseudoLabels",
    "RewardLikelihood",
    "Rows",
    "imitation",
]

STEPS = 60
"""Of L-BFGS; stopping early regularizes."""
RIDGE = 2e-3
CREDIT = IX(0.1)
_NEVER = 1e-9
"""The least probability in a logarithm."""


@dataclass(frozen=True)
class Rows:
    """All rows of a log in memory.

    >>> log = Log.from_arrays(context=[[1.0]], action=[0], reward=[1], propensity=[0.9])
    >>> Rows.of(log).credit.tolist()
    [1.0]
    """

    context: Floats
    action: npt.NDArray[np.int32]
    reward: Floats
    credit: Floats
    """(n,) s / (mu + 0.1), the gain of a reward of 1."""
    weight: Floats
    """(n,) sampling weights s."""
    propensity: Floats
    """(n,) mu(A_t | X_t)."""

    @classmethod
    def of(cls, log: Log) -> Rows:
        """Return the rows of a log with context."""
        parts = []
        for batch in log.each_batch(context=True):
            assert batch.context is not None
            ones = np.ones(len(batch))
            credit = batch.sampled(CREDIT.gains(batch.with_reward(ones)))
            weight = batch.sampled(ones)
            known = (batch.context, batch.action, batch.reward)
            parts.append((*known, credit, weight, batch.propensity))
        columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
        return cls(*columns)


@dataclass(frozen=True)
class _RowsOracle(Oracle):
    """An oracle that learns one policy from all rows in memory, whatever the score."""

    uses_score: ClassVar[bool] = False

    def needs_rows(self) -> bool:
        """True: sums do not suffice."""
        return True

    def solve_path(self, log: Log, scores: Sequence[Score]) -> list[Policy]:
        """Return the same policy for every score; one pass over the log.

        Raises:
            NothingToLearnError: if no row has a reward.
        """
        self.fit_for(log)
        rows = Rows.of(log)
        if not (rows.reward > 0).any():
            raise NothingToLearnError(
                "no row has a reward above the lowest: there is nothing to learn from"
            )
        return [self._learned(rows, log)] * len(scores)

    @abstractmethod
    def _learned(self, rows: Rows, log: Log) -> Policy:
        """Return the policy learned from the rows of a log."""


@dataclass(frozen=True)
class HalfBaseline(_RowsOracle):
    """The softmax oracle with gains (R - m/2)/(mu + 0.1), m the mean reward.

    Rows that earn less than half of the mean count against their action.
    Source: `oracles.Softmax`; a baseline as in policy gradients (Williams 1992, REINFORCE).

    >>> log = Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 50,
    ...     action=[0, 1] * 50,
    ...     reward=[1] * 100,
    ...     propensity=[0.5] * 100,
    ... )
    >>> HalfBaseline().solve(log, IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    name: ClassVar[str] = "softmax with a baseline"

    def _learned(self, rows: Rows, log: Log) -> Policy:
        mean = float((rows.weight * rows.reward).sum() / rows.weight.sum())
        gains = rows.credit * (rows.reward - 0.5 * mean)
        gains /= max(float(np.abs(gains).mean()), np.finfo(np.float64).tiny)
        # an action that was never rewarded is never played
        seen = np.unique(rows.action[rows.reward > 0])
        some = np.isin(rows.action, seen) & (gains != 0)
        context, center, scale = standardized(rows.context)
        climb = SoftmaxObjective(
            context[some],
            np.searchsorted(seen, rows.action[some]),
            gains[some],
            len(gains),
            1.0,
            RIDGE,
        )
        found = _lowest(climb, len(seen), context.shape[1] + 1, STEPS)
        return _linear(found, seen, center, scale, log)


@dataclass(frozen=True)
class RewardLikelihood(_RowsOracle):
    """The most likely right action, if one action in each context is right.

    Formula: P(R = 1 | x, a) = .03 + .94 softmax(W x + b)_a, W and b by maximum likelihood with a
    ridge penalty, on standardized columns; the policy plays the argmax. R between 0 and 1 counts as
    a share of both. Propensities are not used. The two constants are fixed: if they are learned
    too, the policy is at times worse by half of the reward range.

    >>> log = Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 50,
    ...     action=[0, 1] * 50,
    ...     reward=[1] * 100,
    ...     propensity=[0.5] * 100,
    ... )
    >>> RewardLikelihood().solve(log, IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    name: ClassVar[str] = "reward likelihood"

    def _learned(self, rows: Rows, log: Log) -> Policy:
        return _Softmax.fitted(rows, rows.reward, 0.03, 0.94, RIDGE, STEPS, log).greedy


@dataclass(frozen=True)
class PseudoLabels(_RowsOracle):
    """A classifier learned from rewarded rows, then again with labels for unrewarded ones.

    A row with reward 0 gets the action that the first classifier finds most likely, except the
    logged one, at half of its probability as weight. Source: self-training (Lee 2013).

    Args:
        model: a scikit-learn classifier with probabilities.
        first: makes the labels, if not the same.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> log = Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 50,
    ...     action=[0, 1] * 50,
    ...     reward=[1] * 100,
    ...     propensity=[0.5] * 100,
    ... )
    >>> learner = PseudoLabels(DecisionTreeClassifier())
    >>> learner.solve(log, IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    model: Any
    first: Any = None
    name: ClassVar[str] = "trees with pseudo-labels"

    def _learned(self, rows: Rows, log: Log) -> Policy:
        good, bad = rows.reward > 0, rows.reward <= 0
        gains = (rows.credit * rows.reward)[good]
        context, action, weight = rows.context[good], rows.action[good], gains / gains.mean()
        if not bad.any() or len(np.unique(action)) == 1:
            return _classified(self.model, context, action, weight, log)
        first = self.model if self.first is None else self.first
        guess = weighted_model(first, context, action, weight)
        likely = np.zeros((int(bad.sum()), len(log.actions)))
        likely[:, guess.classes_] = guess.predict_proba(rows.context[bad])
        each = np.arange(len(likely))
        likely[each, rows.action[bad]] = -1.0
        other = likely.argmax(axis=1).astype(np.int32)
        # 1/2 P(other action) s / (1 + 0.1)
        pseudo = rows.weight[bad] * np.maximum(likely[each, other], 0.0) / 2.2
        context = np.concatenate([context, rows.context[bad][pseudo > 0]])
        action = np.concatenate([action, other[pseudo > 0]])
        weight = np.concatenate([gains, pseudo[pseudo > 0]])
        return _classified(self.model, context, action, weight / weight.mean(), log)


@dataclass(frozen=True)
class LowerBounds(_RowsOracle):
    """A classifier of the actions with the highest lower confidence bounds of linear rewards.

    Propensities are not used: where an action was hardly logged, its bound is low.

    Formula: with z = (.95 x / sqrt d, 1) of standardized columns x and S_a = (sum z z' + I)^-1
    over the rows of action a, the label of x is argmax_a z' S_a sum z R - sd(R) sqrt(z' S_a z). The
    classifier is fitted to the labels of all rows.
    Source: the confidence bounds of LinUCB (Li et al. 2010), on the other side; pessimism: Jin,
    Yang, Wang 2021 (arXiv 2012.15085).

    Args:
        model: a scikit-learn classifier.

    >>> from sklearn.tree import DecisionTreeClassifier
    >>> log = Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 50,
    ...     action=[0, 1] * 50,
    ...     reward=[1] * 100,
    ...     propensity=[0.5] * 100,
    ... )
    >>> learner = LowerBounds(DecisionTreeClassifier())
    >>> learner.solve(log, IX(0.1)).act([[0.0], [1.0]]).actions.tolist()
    [0, 1]
    """

    model: Any
    name: ClassVar[str] = "lower bounds"

    def _learned(self, rows: Rows, log: Log) -> Policy:
        x = standardized(rows.context)[0]
        z = np.column_stack([0.95 * x / math.sqrt(max(x.shape[1], 1)), np.ones(len(x))])
        share = rows.weight / rows.weight.sum()
        mean = float(share @ rows.reward)
        deviation = math.sqrt(float(share @ (rows.reward - mean) ** 2))
        best, label = np.full(len(z), -np.inf), np.zeros(len(z), np.int32)
        # an action that was never logged has the lowest bounds of all
        for a in np.unique(rows.action):
            here = rows.action == a
            mine = z[here] * rows.weight[here, None]
            inverse = np.linalg.inv(mine.T @ z[here] + np.eye(z.shape[1]))
            estimate = z @ (inverse @ (mine.T @ rows.reward[here]))
            # z' S_a z
            spread = np.einsum("ij,ij->i", z @ inverse, z)
            bound = estimate - deviation * np.sqrt(np.maximum(spread, 0.0))
            label[bound > best] = a
            np.maximum(best, bound, out=best)
        return _classified(self.model, rows.context, label, rows.weight, log)


def _classified(
    model: Any, context: Floats, action: npt.NDArray[np.int32], weight: Floats, log: Log
) -> Policy:
    """Return the policy of a classifier fitted to codes of actions; of one action: always that."""
    codes = np.unique(action)
    if len(codes) == 1:
        return Constant(log.actions.labels[int(codes[0])], log.actions)
    fitted = weighted_model(model, context, action, weight)
    classes = [log.actions.labels[int(c)] for c in fitted.classes_]
    return ClassifierPolicy(fitted, log.actions, log.features, classes=classes)


def imitation(log: Log) -> Policy:
    """Return a policy that takes each action about as often as the logger, given the context.

    Formula: min over W, b of sum_t -mu_t log q_t - (1 - mu_t) log(1 - q_t), mu_t the propensity of
    the logged action and q_t = softmax(W X_t + b)_{A_t}, on standardized columns; actions are drawn
    from the softmax. A softmax of linear scores is matched exactly by a few rows, as propensities
    are less noisy than actions. If (1 - epsilon) q_t + epsilon/K fits better, with epsilon/K the
    smallest propensity, the policy explores that much, as epsilon-greedy loggers do.

    >>> log = Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 50,
    ...     action=[0, 1] * 50,
    ...     reward=[1] * 100,
    ...     propensity=[0.9] * 100,
    ... )
    >>> imitation(log).probabilities([[0.0]]).round(2).tolist()
    [[0.9, 0.1]]
    """
    rows = Rows.of(log)
    least, actions = float(rows.propensity.min()), len(log.actions)
    found = _Softmax.fitted(rows, rows.propensity, _NEVER, 1.0 - 2.0 * _NEVER, 1e-6, 200, log)
    epsilon = 0.0
    if _NEVER < least < 1.0 / actions:
        span = 1.0 - actions * least
        other = _Softmax.fitted(rows, rows.propensity, least, span, 1e-6, 200, log)
        if other.loss < found.loss:
            found, epsilon = other, actions * least
    greedy = found.greedy
    drawn = LinearSoftmax(greedy.coef, greedy.intercept, log.actions, features=log.features)
    if epsilon == 0.0:
        return drawn
    return EpsilonGreedy(drawn, epsilon)


@dataclass(frozen=True)
class _Softmax:
    """A softmax of linear scores, as the policy that plays its argmax, and how badly it fits."""

    greedy: LinearGreedy
    loss: float

    @classmethod
    def fitted(
        cls,
        rows: Rows,
        target: Floats,
        low: float,
        span: float,
        ridge: float,
        steps: int,
        log: Log,
    ) -> _Softmax:
        """Return the softmax with the best probabilities of the logged actions.

        Args:
            rows: all rows.
            target: (n,) in [0, 1]: what q = low + span softmax(W x + b)_A is to be.
            low: above 0.
            span: below 1 - low.
            ridge: weight of |W|^2/2.
            steps: of L-BFGS.
            log: of the rows.
        """
        context, center, scale = standardized(rows.context)
        seen, action = np.unique(rows.action, return_inverse=True)
        table = np.column_stack([context, np.ones(len(context))])
        each, share = np.arange(len(table)), rows.weight / rows.weight.sum()

        def objective(parameters: Floats) -> tuple[float, Floats]:
            weights = parameters.reshape(len(seen), -1)
            pi = table @ weights.T
            pi -= pi.max(axis=1, keepdims=True)
            np.exp(pi, out=pi)
            pi /= pi.sum(axis=1, keepdims=True)
            mine = pi[each, action]
            q = low + span * mine
            # sum_t s_t (y_t log q_t + (1 - y_t) log(1 - q_t))
            value = float(share @ (target * np.log(q) + (1.0 - target) * np.log(1.0 - q)))
            slope = share * (target / q - (1.0 - target) / (1.0 - q)) * span * mine
            # d pi(A) = pi(A) (e_A - pi)
            moved = pi * -slope[:, None]
            moved[each, action] += slope
            gradient = moved.T @ table
            gradient[:, :-1] -= ridge * weights[:, :-1]
            size = 0.5 * ridge * float((weights[:, :-1] ** 2).sum())
            return size - value, -gradient.ravel()

        found = _lowest(objective, len(seen), table.shape[1], steps)
        loss = objective(found.ravel())[0]
        return cls(_linear(found, seen, center, scale, log), loss)


def _lowest(
    objective: Callable[[Floats], tuple[float, Floats]],
    actions: int,
    width: int,
    steps: int,
) -> Floats:
    """Return (actions, width) parameters after some steps of L-BFGS from 0."""
    from scipy.optimize import minimize

    def in_time(parameters: Floats) -> tuple[float, Floats]:
        check_time()
        return objective(parameters)

    start = np.zeros(actions * width)
    options = {"maxiter": steps}
    # steps are short: threads of BLAS would mostly wait for each other, and spin
    with native_threads(1):
        found = minimize(in_time, start, jac=True, method="L-BFGS-B", options=options).x
    return np.asarray(found.reshape(actions, width))


def _linear(
    weights: Floats, seen: npt.NDArray[Any], center: Floats, scale: Floats, log: Log
) -> LinearGreedy:
    """Return the greedy policy of weights on standardized columns; other actions are not played."""
    coef = np.zeros((len(log.actions), len(center)))
    offset = np.full(len(log.actions), -np.inf)
    # w'(x - center)/scale + b = (w/scale)'x + b - (w/scale)'center
    coef[seen] = weights[:, :-1] / scale
    offset[seen] = weights[:, -1] - coef[seen] @ center
    return LinearGreedy(coef, offset, log.actions, log.features)
