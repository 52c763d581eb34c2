"""Predicted baselines: a reward model in the control variates of interval methods."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piwo.errors import UsageError
from piwo.estimators.forward_model import forward_model
from piwo.estimators.reward_model import reward_model
from piwo.intervals import IntervalMethod
from piwo.intervals.method import lacking
from piwo.intervals.prepare import whole_length
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy
from piwo.reductions.model_variate import Predictor

__all__ = ["with_predictions"]


def with_predictions(
    methods: Mapping[Any, IntervalMethod],
    q: Any,
    log: Log,
    policies: Mapping[Any, Policy],
    *,
    asked: IntervalMethod,
    given: Log,
) -> dict[Any, IntervalMethod]:
    """Return interval methods that take the predictions of a reward model as baselines, where they can.

    Args:
        methods: key -> method, settled for the policy.
        q: "forward", or predictions made from other rows (see `piwo.evaluate`); None: the methods
            as they are.
        log: ready for the policies.
        policies: key -> policy, ready for the log.
        asked: the method before it was settled, to which its user gave a name.
        given: the log as it came, whose context a model may have been fitted on.

    Raises:
        UsageError: where q would change nothing.
    """
    if q is None:
        return dict(methods)
    if not asked.takes_model:
        raise UsageError(
            f"{argument('interval', asked.name)} takes no reward model; leave {argument('q')} out, or use "
            f"{argument('interval', 'mixture-cv')}"
        )
    if not any(one.takes_model for one in methods.values()):
        reason = (
            lacking(log, next(iter(policies.values())))
            or "no finite-sample bound holds on a thinned log"
        )
        raise UsageError(
            f"{argument('q')} serves control variates: {reason}, or leave {argument('q')} out"
        )
    model = _model(q, log, given)
    return {key: one.with_model(model) for key, one in methods.items()}


def _model(q: Any, log: Log, given: Log) -> Predictor:
    if isinstance(q, str) and q == "forward":
        return forward_model(log)
    return reward_model(q, log, whole_length(log), given.features)
