"""Interval methods of a request: with a reward model, and with a horizon."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piwo import bounds
from piwo.errors import UsageError
from piwo.estimators.cross_fit import CrossFit
from piwo.estimators.forward_model import forward_model
from piwo.estimators.reward_model import reward_model
from piwo.intervals import IntervalMethod
from piwo.intervals.matching import whole_length
from piwo.intervals.method import lacking
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions.model_variate import Predictor

__all__ = ["check_anytime", "with_model"]


def with_model(
    methods: Mapping[Any, IntervalMethod],
    asked: IntervalMethod,
    q: Any,
    log: Log,
    policies: Mapping[Any, Policy],
    given: Log,
) -> dict[Any, IntervalMethod]:
    """Return interval methods with the predictions of a reward model as baselines, if they can.

    Args:
        methods: key -> method, settled for the policy.
        asked: the method before it was settled, which its user named.
        q: "forward", or predictions made from other rows; see `piwo.evaluate`.
        log: ready for the policies.
        policies: key -> policy, ready for the log.
        given: the log as it came, whose context a model may have been fitted on.

    Raises:
        UsageError: if q would change nothing.
    """
    if not asked.takes_model:
        raise UsageError(
            f"{argument('interval', asked.name)} takes no reward model; leave "
            f"{argument('q')} out, or use {argument('interval', 'mixture-cv')}"
        )
    if not any(one.takes_model for one in methods.values()):
        reason = (
            lacking(log, next(iter(policies.values())))
            or "no finite-sample bound holds on a thinned log"
        )
        raise UsageError(
            f"{argument('q')} serves control variates: {reason}, or leave {argument('q')} out"
        )
    if isinstance(q, CrossFit) and not q.forward:
        raise UsageError(
            f"{argument('q')} is cross-fitted with folds that predict each other, expected "
            f"predictions from earlier rows or other data; use {argument('q', 'forward')}, "
            f"piwo.cross_fit with {argument('by', 'time')} on rows in order of time, or "
            "piwo.estimators.doubly_robust"
        )
    model: Predictor
    if isinstance(q, str) and q == "forward":
        log.columns.require_single_rows(
            f"{argument('q', 'forward')}, which predicts from earlier rows,",
            "give predictions made from other units",
        )
        model = forward_model(log)
    else:
        model = reward_model(q, log, whole_length(log), given.features)
    return {key: one.with_model(model) for key, one in methods.items()}


def check_anytime(method: IntervalMethod, gamma: float | str, horizon: bounds.Horizon) -> None:
    """Raise for an interval method that does not hold at all looks of a horizon.

    Args:
        method: settled for a policy.
        gamma: see `piwo.evaluate`.
        horizon: that was declared.

    Raises:
        UsageError: saying what to use instead.

    >>> from piwo.intervals import interval_named
    >>> check_anytime(interval_named("mixture"), "auto", "universal")
    """
    if not method.anytime:
        raise UsageError(
            f"{method.name} intervals hold at one n at most, and a horizon asks for "
            f"all; use {argument('interval', 'mixture')}"
        )
    if method.fixed_bet and gamma == "auto" and not isinstance(horizon, int):
        raise UsageError(
            f"{argument('gamma')} is 'auto', which follows the number of rows, and "
            f"{argument('horizon')} is {horizon!r}; "
            "give gamma as a number, or the horizon as a number of rows"
        )
