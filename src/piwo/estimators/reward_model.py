"""Reward models q(x, a), predicted rewards of each action, and the estimates that use them."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.checks import numbers
from piwo.errors import DataError, UsageError
from piwo.estimators.cross_fit import CrossFit
from piwo.estimators.pair_rewards import (
    PREDICTIONS,
    PairFunction,
    PairLists,
    lists_of,
    takes_pairs,
)
from piwo.intervals.matching import matched, name_of, whole_length
from piwo.intervals.point import Estimate, mean_of_credits
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.logs.foreign import RowError, predictions
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.distributions import named_table
from piwo.records import Record
from piwo.reductions import MomentState, State, VectorSums
from piwo.reductions.reduce import reduce
from piwo.reductions.vector_sums import Vectors, in_blocks, width_of
from piwo.scores import IX, Score
from piwo.sources.frames import is_frame
from piwo.visible import confidence, number, visible_lines

__all__ = [
    "Correction",
    "ModelEstimate",
    "RewardModel",
    "check_exact",
    "check_full_vectors",
    "estimate_with_model",
    "reward_model",
]


@dataclass(frozen=True)
class ModelEstimate(Record):
    """A value estimate from a reward model, in the reward's own unit, with asymptotic interval.

    >>> made = ModelEstimate(
    ...     "new", "dm", None, 0.5, 0.01, 0.48, 0.52, 0.05, 100, 0.5, None, (0.0, 1.0), False
    ... )
    >>> made.to_dict()["guarantee"]
    'asymptotic'
    """

    name: str
    estimator: str
    """dm: direct method; dr: doubly robust; dr-switch, dr-shrinkage, ...: other weights; sndr:
    self-normalized."""
    gamma: float | None
    """0 for plain weights; else the gamma that is equivalent to the weights."""
    value: float
    standard_error: float | None
    lower: float | None
    """Normal interval at delta, not clipped: doubly robust values may leave the reward range."""
    upper: float | None
    delta: float
    rows: int
    """n: rows, or units if the log is by unit."""
    direct: float
    """Mean of sum_a pi(a|X) q(X, a): the estimate of the model alone."""
    correction: float | None
    """The correction by the logged rewards."""
    reward_range: tuple[float, float]
    cost: bool
    interval: str = "normal"
    guarantee: str = "asymptotic"
    """"none" if there is no interval."""
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        ends = "no interval"
        if self.lower is not None:
            ends = f"[{number(self.lower)}, {number(self.upper)}], asymptotic"
        value = f"{number(self.value)} ({self.estimator})"
        lines = [f"{self.name}: {value}, {confidence(self.delta, '%')} interval {ends}"]
        lines += [f"  note: {note}" for note in self.notes]
        return visible_lines(lines)


@dataclass(frozen=True)
class RewardModel:
    """q for the rows of any batch.

    Args:
        table: (n, K) for the rows of one log, or None.
        predict: contexts (m, d) to (m, K), or None.
        actions: K.
        low: the reward's lower end.
        span: hi - lo.
        pairs: predicted rewards of eligible actions; None: `table` or `predict` have those of all
            actions. Without any of the three they are a column of the log.
    """

    table: Floats | None
    predict: Callable[[Floats], Any] | None
    actions: int
    low: float
    span: float
    pairs: PairLists | PairFunction | None = None

    @property
    def needs_context(self) -> bool:
        """Whether it uses the context."""
        if self.pairs is not None:
            return self.pairs.needs_context
        return self.predict is not None

    def of(self, batch: Batch) -> Floats:
        """Return q on the unit scale, (m, K), or as wide as the longest list of eligible actions.

        Raises:
            DataError: for predictions of another shape, and for those that are NaN or infinite.
        """
        found, some = self._own_unit(batch), batch.eligible
        try:
            with np.errstate(over="raise"):
                found = (found - self.low) / self.span
        except FloatingPointError:
            raise DataError(
                "the reward model predicts rewards that are beyond float64 in units of the reward "
                f"range, whose width is {self.span:g}; predict rewards in that range, or declare "
                f"{argument('reward_range', '(lo, hi)')}"
            ) from None
        if some is None:
            return found
        return some.table(found)

    def _own_unit(self, batch: Batch) -> Floats:
        """Return q in the reward's own unit, (m, K), or of the pairs of eligible actions."""
        some = batch.eligible
        if self.pairs is not None:
            return self.pairs.of(batch)
        if self.table is None and self.predict is None:
            assert some is not None
            assert some.predictions is not None
            return some.predictions
        if some is None:
            return self._of_all(batch)
        # so few rows at a time that a row of every action is small
        parts = [
            self._of_all(part)[part.eligible.rows, part.eligible.codes]
            for part in in_blocks(batch, self.actions)
            if part.eligible is not None
        ]
        return np.concatenate(parts)

    def _of_all(self, batch: Batch) -> Floats:
        """Return q of all actions in the reward's own unit, (m, K)."""
        given: Any
        if self.table is not None:
            given = self.table[batch.row_numbers]
        else:
            assert self.predict is not None
            given = self.predict(batch.context)  # type: ignore[arg-type]
        try:
            return predictions(given, (len(batch), self.actions), "the reward model")
        except RowError as wrong:
            raise wrong.at(batch.row_numbers) from None


def reward_model(q: Any, log: Log, rows: int | None, fitted_on: Features | None) -> RewardModel:
    """Return the model of an argument q; see `piwo.estimators.doubly_robust`.

    Args:
        q: the argument.
        log: with the context that the policies need.
        rows: number of rows of the log before a split; None if unknown.
        fitted_on: the context of the log before the policies were prepared.

    Raises:
        UsageError: for arrays without an explicit action list, and for any other type.
    """
    low, span, actions = log.reward_range[0], log.span, len(log.actions)
    if isinstance(q, str) and q == PREDICTIONS:
        _require_predictions(log)
        return RewardModel(None, None, actions, low, span)
    pairs = _of_pairs(q, log, rows, fitted_on)
    if pairs is not None:
        return RewardModel(None, None, actions, low, span, pairs)
    if isinstance(q, CrossFit):
        return RewardModel(_checked_table(q, log, rows), None, actions, low, span)
    predict = getattr(q, "predict", None)
    if predict is None and callable(q):
        predict = q
    if predict is not None:
        if log.features is None:
            raise UsageError(
                "a fitted reward model needs the context; read the log with "
                f"{argument('context', '[...]')}, or give an array"
            )
        _check_encoding(log, fitted_on)
        return RewardModel(None, predict, actions, low, span)
    _check_is_table(q, log)
    # A data frame names its columns; an array needs the order that the user declared.
    expected = log.actions
    if not is_frame(q):
        expected = _declared(log)
    values, named = named_table(q, expected)
    assert named == log.actions
    table = numbers("q", values, "an array of predicted rewards")
    if rows is not None and len(table) != rows:
        raise UsageError(
            f"q has {len(table):,} rows, the log has {rows:,}; give one row for each row "
            "of the log, in its order"
        )
    return RewardModel(table, None, actions, low, span)


def _require_predictions(log: Log) -> None:
    """Raise for a log without a column of predicted rewards."""
    if log.columns.predictions is None:
        raise UsageError(
            f"{argument('q', PREDICTIONS)} needs a column with lists of the predicted rewards of "
            f"the eligible actions; name it ({argument('predictions')})"
        )


def _check_is_table(q: Any, log: Log) -> None:
    """Raise for anything but an array or a data frame with a column for each action."""
    if not isinstance(q, str) and (is_frame(q) or np.ndim(q) == 2):
        return
    lists = ""
    if log.columns.eligible is not None:
        lists = "lists of the predicted rewards of the eligible actions, "
    raise UsageError(
        f"{argument('q')} is {type(q).__name__}, expected {lists}an (n, {len(log.actions)}) array "
        "of predicted rewards, a data frame with one column per action, a function of the "
        "context, or an object with predict"
    )


def _check_encoding(log: Log, fitted_on: Features | None) -> None:
    """Raise if a policy encodes the context in its own way."""
    if fitted_on is not None and fitted_on != log.features:
        instead = "an (n, K) array"
        if log.columns.eligible is not None:
            instead = "lists"
        raise UsageError(
            "the policy encodes the context in its own way, so the reward model "
            f"would get other columns than the log's; pass its predictions as {instead}"
        )


def _of_pairs(
    q: Any, log: Log, rows: int | None, fitted_on: Features | None
) -> PairLists | PairFunction | None:
    """Return predicted rewards of eligible actions; None if q has those of all actions."""
    if log.columns.eligible is None:
        return None
    if takes_pairs(q):
        if log.features is not None:
            _check_encoding(log, fitted_on)
        labels = np.asarray(log.actions.labels)
        return PairFunction(q, labels, needs_context=log.features is not None)
    if isinstance(q, CrossFit) or callable(q) or hasattr(q, "predict"):
        return None
    lists = lists_of(q, log, rows)
    if lists is None:
        return None
    return PairLists(lists)


def _checked_table(q: CrossFit, log: Log, rows: int | None) -> Floats:
    """Return the table of a cross-fit, if it is for a log with these actions and rows."""
    if q.actions != log.actions:
        raise UsageError(
            f"{argument('q')} was cross-fitted on a log with {len(q.actions)} actions, expected "
            f"the {len(log.actions)} of this log in their order; call piwo.cross_fit on this log"
        )
    if rows is not None and len(q.table) > rows:
        raise UsageError(
            f"{argument('q')} was cross-fitted on {len(q.table):,} rows, expected the {rows:,} of "
            "this log; call piwo.cross_fit on this log"
        )
    # rows that it lacks are NaN, which is refused when they are read
    table = np.full((rows or len(q.table), len(q.actions)), np.nan)
    table[: len(q.table)] = q.table
    return table


def _declared(log: Log) -> Actions:
    if log.declared_actions is None:
        raise UsageError(
            "an array of predicted rewards does not name the actions of its columns; "
            f"read the log with {argument('actions', '[...]')}, or give a data frame "
            "with one column per action"
        )
    return log.declared_actions


@dataclass(frozen=True)
class Correction:
    """The weights of the residuals that correct a reward model.

    Args:
        weights: the score whose credit at reward 1 is the weight; None: pi/mu.
        self_normalized: divide the sum of weighted residuals by the sum of weights.
    """

    weights: Score | None = None
    self_normalized: bool = False

    @property
    def name(self) -> str:
        """The name of the estimator."""
        if self.self_normalized:
            return "sndr"
        if self.weights is None or isinstance(self.weights, IX):
            return "dr"
        return f"dr-{self.weights.name}"

    @property
    def gamma(self) -> float | None:
        """The gamma that is equivalent to the weights; 0 for plain ones."""
        if self.weights is None:
            return 0.0
        return self.weights.gamma_equivalent


@dataclass(frozen=True)
class ModelState(State):
    """First and second moments of z = (sum_a pi q, w (R - q), w), times sampling weights s."""

    rows: int = 0
    total: float = 0.0
    """sum s."""
    first: Floats = field(default_factory=lambda: np.zeros(3))
    """(3,) sum s z."""
    second: Floats = field(default_factory=lambda: np.zeros((3, 3)))
    """(3, 3) sum s^2 z z'."""
    s2: float = 0.0
    """sum s^2 of a thinned log, else 0; see `MomentState`."""
    crossed: Floats = field(default_factory=lambda: np.zeros(3))
    """(3,) sum s^2 z of a thinned log."""

    def along(self, direction: Floats) -> MomentState:
        """Return the sums of the credits rho = direction . z."""
        if not np.isfinite(self.first).all():
            return MomentState(rows=self.rows, total=self.total, rho=math.inf, rho2=math.inf)
        with np.errstate(invalid="ignore", over="ignore"):
            rho2 = float(direction @ self.second @ direction)
        return MomentState(
            rows=self.rows,
            total=self.total,
            rho=float(direction @ self.first),
            rho2=rho2,
            s2=self.s2,
            srho=float(direction @ self.crossed),
        )

    def estimate(self, correction: Correction | None) -> Estimate:
        """Return the value and its standard error, for SNDR by the delta method."""
        if correction is None:
            return mean_of_credits(self.along(np.array([1.0, 0.0, 0.0])))
        if not correction.self_normalized:
            return mean_of_credits(self.along(np.array([1.0, 1.0, 0.0])))
        # V = direct + residual / w; its gradient is (1, 1/w, -residual/w^2)
        direct, residual, w = self.first / self.total
        if not (0 < w < math.inf):
            return Estimate(None, None)
        found = mean_of_credits(self.along(np.array([1.0, 1.0 / w, -residual / w**2])))
        return replace(found, value=direct + residual / w)


@dataclass(frozen=True)
class ModelSums(VectorSums[ModelState]):
    """Reduction: the predictions of a reward model, and weighted residuals to correct them.

    Args:
        policy: over the log's action list; it must give full vectors.
        model: q.
        correction: None: the direct method.
    """

    model: RewardModel
    correction: Correction | None

    def width(self, batch: Batch) -> int:
        """Return K, or the length of the longest list of eligible actions."""
        return width_of(batch, len(self.policy.actions))

    @property
    def context(self) -> bool:
        """Whether the policy or the model uses the context."""
        return self.policy.needs_context or self.model.needs_context

    def empty(self) -> ModelState:
        """Return the sums of no rows."""
        return ModelState()

    def block(self, batch: Batch) -> ModelState:
        """Return the sums of a few rows."""
        q, vectors = self.model.of(batch), Vectors(batch)
        # z = (sum_a pi(a|X) q(X, a), u (R - q(X, A)), u)
        z = np.zeros((len(batch), 3))
        z[:, 0] = np.einsum("ta,ta->t", vectors.of(self.policy), q)
        if self.correction is not None:
            z[:, 2] = self._weights(batch, self.correction)
            z[:, 1] = z[:, 2] * (batch.reward - vectors.taken(q))
        total = float(batch.sampled(np.ones(len(batch))).sum())
        z, s, s2, crossed = batch.observed(z), batch.thinned, 0.0, np.zeros(3)
        with np.errstate(over="ignore", invalid="ignore"):
            if s is not None:
                s2, crossed = float(s @ s), s @ z
            return ModelState(batch.count, total, z.sum(axis=0), z.T @ z, s2, crossed)

    def _weights(self, batch: Batch, correction: Correction) -> Floats:
        pi = self.policy.logged(batch)
        if correction.weights is not None:
            return correction.weights.rho(batch.with_reward(np.ones(len(batch))), pi)
        return self.weights(batch, pi).w


def check_full_vectors(policy: Policy, log: Log) -> None:
    """Raise for a policy, ready for a log, that gives no probability of actions not logged.

    Raises:
        UsageError: saying what to give instead.
    """
    logger_is_full = policy.is_logger and log.gives_full_distribution
    if not (policy.gives_full_distribution or logger_is_full):
        raise UsageError(
            "the policy gives the probabilities of the logged actions only, and a "
            "reward model needs full vectors; pass an (n, K) array of probabilities, "
            "or another policy"
        )


def check_exact(log: Log) -> None:
    """Raise for a log whose propensities may be too small.

    Raises:
        UsageError: saying what to use instead.
    """
    if log.propensity_error is not None and not log.propensity_error.exact:
        raise UsageError(
            "the doubly robust estimate needs exact propensities, and these may be "
            "too small (propensity_factor, sensitivity); use piwo.evaluate with "
            f"{argument('interval', 'mixture')}"
        )


def estimate_with_model(
    log: Log, policy: Any, q: Any, correction: Correction | None, delta: float, name: str | None
) -> ModelEstimate:
    """Return the direct (correction None) or a doubly robust estimate."""
    bounds.log_inv_delta(delta)  # raises unless 0 < delta < 1
    name = name or name_of(policy)
    if correction is not None:
        check_exact(log)
    fitted_on = log.features
    log, ready = matched(log, {name: policy})
    target = ready[name]
    check_full_vectors(target, log)
    model = reward_model(q, log, whole_length(log), fitted_on)
    sums = reduce(log, ModelSums(target, model, correction))
    found = sums.estimate(correction)
    if found.value is None and correction is not None and correction.self_normalized:
        raise DataError(
            "the policy takes none of the logged actions: every weight is 0, and they "
            "cannot be normalized"
        )
    if found.value is None or not math.isfinite(found.value):
        raise DataError(
            "a weight pi/mu is beyond float64; give gamma > 0, which keeps every "
            "weight below 1/gamma"
        )
    # From the unit scale to the reward's own unit.
    value = log.value(found.value)
    direct = log.value(float(sums.first[0]) / sums.total)
    error = lower = upper = None
    ends = bounds.normal_interval(found.value, found.standard_error, delta)
    if found.standard_error is not None:
        error = log.span * found.standard_error
    if ends.lower is not None and ends.upper is not None:
        lower, upper = log.value(ends.lower), log.value(ends.upper)
    kind, gamma, part = "dm", None, None
    notes: tuple[str, ...] = _ERROR_OF_MODEL
    if correction is not None:
        kind, gamma = correction.name, correction.gamma
        part = log.span * (found.value - float(sums.first[0]) / sums.total)
        notes = (*log.propensity_caveats, *_INDEPENDENT)
    made = ModelEstimate(
        name=name,
        estimator=kind,
        gamma=gamma,
        value=value,
        standard_error=error,
        lower=lower,
        upper=upper,
        delta=delta,
        rows=sums.rows,
        direct=direct,
        correction=part,
        reward_range=log.reward_range,
        cost=log.columns.cost,
        notes=(*notes, *log.approximate_caveats),
    )
    if log.chosen_by:
        made = replace(made, lower=None, upper=None, guarantee="none")
    return made


_ERROR_OF_MODEL = (
    Note("the interval is asymptotic and ignores the error of the model", kind="reward-model"),
)
_INDEPENDENT = (
    Note(
        "the interval is asymptotic and assumes that the model was fitted on other rows",
        kind="reward-model",
    ),
)
