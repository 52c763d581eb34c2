"""Reward models q(x, a): predictions of what each action would have earned, as part of a value estimate."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from piwo import bounds
from piwo.engines.engine import reduce
from piwo.errors import DataError, UsageError
from piwo.estimators.evaluation import jsonable
from piwo.estimators.point import mean_of_credits
from piwo.estimators.prepare import name_of, prepare, whole_length
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.logs.frames import is_frame
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.policies.blocks import row_blocks
from piwo.policies.distributions import named_table
from piwo.reductions import MomentState, Reduction
from piwo.scores import IX
from piwo.scores.ratio import importance_weights

__all__ = ["ModelEstimate", "estimate_with_model", "reward_model"]


@dataclass(frozen=True)
class ModelEstimate:
    """A value estimate that rests on a reward model, in the reward's own unit. Its interval is asymptotic.

    >>> made = ModelEstimate("new", "dm", None, 0.5, 0.01, 0.48, 0.52, 0.05, 100, 0.5, None, (0.0, 1.0), False)
    >>> made.to_dict()["guarantee"]
    'asymptotic'
    """

    name: str
    estimator: str
    """dm: direct method; dr: doubly robust."""
    gamma: float | None
    value: float
    standard_error: float | None
    lower: float | None
    """Normal interval at delta, as the formula gives it: doubly robust values may leave the reward range."""
    upper: float | None
    delta: float
    rows: int
    direct: float
    """Mean of sum_a pi(a|X) q(X, a): what the model alone says."""
    correction: float | None
    """What the logged rewards added to it."""
    reward_range: tuple[float, float]
    cost: bool
    interval: str = "normal"
    guarantee: str = "asymptotic"
    notes: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON: no NaN, no infinity."""
        made: dict[str, Any] = jsonable(asdict(self))
        return made

    def __str__(self) -> str:
        ends = "no interval" if self.lower is None else f"[{self.lower:.4g}, {self.upper:.4g}], asymptotic"
        return f"{self.name}: {self.value:.4g} ({self.estimator}), {1 - self.delta:.0%} interval {ends}"


@dataclass(frozen=True)
class RewardModel:
    """q for the rows of any batch.

    Args:
        table: (n, K) for the rows of one log, or None.
        predict: contexts (m, d) to (m, K), or None.
        actions: K.
        low: the reward's lower end.
        span: hi - lo.
    """

    table: Floats | None
    predict: Callable[[Floats], Any] | None
    actions: int
    low: float
    span: float

    @property
    def needs_context(self) -> bool:
        """Tell whether it looks at the context."""
        return self.predict is not None

    def of(self, batch: Batch) -> Floats:
        """Return q on the unit scale, (m, K).

        Raises:
            UsageError: for a model that gives another shape.
            DataError: for predictions that are NaN or infinite.
        """
        if self.table is not None:
            found = self.table[batch.row_numbers]
        else:
            assert self.predict is not None
            found = np.asarray(self.predict(batch.context), np.float64)  # type: ignore[arg-type]
        if found.shape != (len(batch), self.actions):
            raise UsageError(
                f"the reward model gave shape {found.shape} for {len(batch)} rows, expected "
                f"({len(batch)}, {self.actions}): one column an action, in the order of log.actions"
            )
        if not np.isfinite(found).all():
            row = int(batch.row_numbers[np.flatnonzero(~np.isfinite(found).all(axis=1))[0]])
            raise DataError(f"the reward model gives NaN or infinity in row {row}; expected a number for every action")
        return (found - self.low) / self.span


def reward_model(q: Any, log: Log, rows: int | None, fitted_on: Features | None) -> RewardModel:
    """Return the model of what a user calls q; see `piwo.estimators.doubly_robust`.

    Args:
        q: what the user gave.
        log: with the context that the policies need.
        rows: those of the log before a split; None if unknown.
        fitted_on: the context of the log that the user gave.

    Raises:
        UsageError: for arrays that do not say which column is which action, and for anything that is no
            model.
    """
    low, span, actions = log.reward_range[0], log.span, len(log.actions)
    predict = getattr(q, "predict", None) or (q if callable(q) else None)
    if predict is not None:
        if log.features is None:
            raise UsageError(
                "a fitted reward model needs the context; read the log with context=[...], or give an array"
            )
        if fitted_on is not None and fitted_on != log.features:
            raise UsageError(
                "the policy encodes the context in its own way, so the reward model would see other columns than "
                "the log's; "
                "give its predictions as an (n, K) array"
            )
        return RewardModel(None, predict, actions, low, span)
    if isinstance(q, str) or not (is_frame(q) or np.ndim(q) == 2):
        raise UsageError(
            f"q is {type(q).__name__}, expected an (n, {actions}) array of predicted rewards, a data frame "
            "with one column an action, a function of the context, or an object with predict"
        )
    values, named = named_table(q, log.actions if is_frame(q) else _declared(log))
    assert named == log.actions
    table = np.asarray(values, np.float64)
    if rows is not None and len(table) != rows:
        raise UsageError(f"q has {len(table)} rows, the log has {rows}; give one row a row of the log, in its order")
    return RewardModel(table, None, actions, low, span)


def _declared(log: Log) -> Actions:
    if log.declared_actions is None:
        raise UsageError(
            "an array of predicted rewards does not say which column is which action; read the log with "
            "actions=[...], "
            "or give a data frame with one column an action"
        )
    return log.declared_actions


@dataclass(frozen=True)
class ModelSums(Reduction[tuple[MomentState, float]]):
    """Reduction: the credits of the direct method, or of the doubly robust estimate.

    Args:
        policy: over the log's action list; gives full vectors.
        model: q.
        gamma: None: the direct method; 0: plain weights; above 0: those of IX.
    """

    policy: Policy
    model: RewardModel
    gamma: float | None

    @property
    def context(self) -> bool:
        """Tell whether the policy or the model looks at the context."""
        return self.policy.needs_context or self.model.needs_context

    @property
    def propensities(self) -> bool:
        """Tell that policies may need the full propensity vectors."""
        return True

    def empty(self) -> tuple[MomentState, float]:
        """Return the sums of no rows."""
        return MomentState(), 0.0

    def update(self, state: tuple[MomentState, float], batch: Batch) -> tuple[MomentState, float]:
        """Return the sums with a batch added, cut so that no block of rows x actions is large."""
        for block in row_blocks(len(batch), self.model.actions, size=2**23):
            part = batch.take(np.arange(block.start, block.stop))
            state = self.merge(state, self._block(part))
        return state

    def _block(self, batch: Batch) -> tuple[MomentState, float]:
        q = self.model.of(batch)
        direct = np.einsum("ta,ta->t", self.policy.full(batch), q)
        credit = direct
        if self.gamma is not None:
            residual = batch.reward - q[np.arange(len(batch)), batch.action]
            credit = direct + self._weights(batch) * residual
        s = np.ones(len(batch)) if batch.weight is None else batch.weight
        return (
            MomentState(
                rows=len(batch),
                total=float(s.sum()),
                rho=float((s * credit).sum()),
                rho2=float(((s * credit) ** 2).sum()),
            ),
            float((s * direct).sum()),
        )

    def _weights(self, batch: Batch) -> Floats:
        pi = self.policy.logged(batch)
        if self.gamma:
            return IX(self.gamma).rho(batch.with_reward(np.ones(len(batch))), pi)
        return importance_weights(batch, pi, lambda: self.policy.log_logged(batch)).w

    def merge(self, one: tuple[MomentState, float], other: tuple[MomentState, float]) -> tuple[MomentState, float]:
        """Return the sums of both parts together."""
        return one[0].merge(other[0]), one[1] + other[1]


def estimate_with_model(
    log: Log, policy: Any, q: Any, gamma: float | None, delta: float, name: str | None
) -> ModelEstimate:
    """Return the direct (gamma None) or the doubly robust estimate."""
    bounds.log_inv_delta(delta)  # 0 < delta < 1
    name = name or name_of(policy)
    if gamma is not None and log.doubt is not None and not log.doubt.exact:
        raise UsageError(
            "the doubly robust estimate needs the propensities as they are, and these may be too small "
            "(propensity_factor, sensitivity); use piwo.evaluate with interval='mixture'"
        )
    fitted_on = log.features
    log, ready = prepare(log, {name: policy})
    target = ready[name]
    if not target.tells_all and not (target.kind == "logging" and _full_vectors(log)):
        raise UsageError(
            "the policy tells the probabilities of the logged actions only; a reward model needs full vectors, (n, K)"
        )
    model = reward_model(q, log, whole_length(log), fitted_on)
    sums, direct = reduce(log, ModelSums(target, model, gamma))
    found = mean_of_credits(sums)
    if found.value is None or not math.isfinite(found.value):
        raise DataError("a weight pi/mu is beyond float64; give gamma > 0, which keeps every weight below 1/gamma")
    span, value = log.span, log.value
    ends = bounds.normal_interval(found.value, found.standard_error, delta)
    alone = direct / sums.total
    return ModelEstimate(
        name=name,
        estimator="dm" if gamma is None else "dr",
        gamma=gamma,
        value=value(found.value),
        standard_error=None if found.standard_error is None else span * found.standard_error,
        lower=None if ends.lower is None else value(ends.lower),
        upper=None if ends.upper is None else value(ends.upper),
        delta=delta,
        rows=sums.rows,
        direct=value(alone),
        correction=None if gamma is None else span * (found.value - alone),
        reward_range=log.reward_range,
        cost=log.columns.cost,
        notes=_ERROR_OF_MODEL if gamma is None else (*log.doubts, *_INDEPENDENT),
    )


_ERROR_OF_MODEL = ("the interval is asymptotic, and knows nothing of the model's own error",)
_INDEPENDENT = ("the interval is asymptotic, and supposes that the model was made from other rows than these",)


def _full_vectors(log: Log) -> bool:
    return log.tells_all
