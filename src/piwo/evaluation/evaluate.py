"""evaluate and compare: one pass over the log, every policy at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from piwo import bounds
from piwo.evaluation.record import Evaluation
from piwo.evaluation.request import Comparing
from piwo.intervals.prepare import name_of
from piwo.logs.log import Log
from piwo.reductions.reduce import reduce

__all__ = ["compare", "evaluate"]


def evaluate(
    log: Log,
    policy: Any,
    *,
    estimator: str | None = None,
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    name: str | None = None,
    random_state: Any = 0,
) -> Evaluation:
    """Return the value of a policy with an interval that holds. Answers: what would it have earned?

    Formula: `value` is the point estimate named by `estimator`; [lower, upper] contains the true
    value with probability at least 1 - delta, delta/2 a side, by the mixture bound on w R and on w
    (1 - R), and on their doubly robust forms where the log has full propensity vectors: no bound on
    the weights, no normality, valid where the policy plays what the logger never did.

    Args:
        log: the logged decisions.
        policy: a `Policy`; or an array, (n,) pi(A_t|X_t) or (n, K) with columns in the order of the
            log's explicit action list; or a data frame with one column an action, matched by name.
        estimator: "iw", "snips", "ix", "clip", "ls", "ls-linear", or another score by its name
            (docs/reference.md); None (the default): "iw", or what the interval comes from: "ix" for
            `interval="ix"`, "ls" for "ls".
        gamma: for ix and clip, half of lam for ls and ls-linear, and what goes with it for other
            scores; "auto": sqrt(log(2/delta) / n).
        interval: "auto" (the default): "mixture-cv", the mixture bound with control variates, if
            the log has the probability of every action (`propensities=` or `behavior=`) and the
            policy gives full vectors, otherwise "mixture"; or another method of the table
            `piwo.intervals.INTERVALS` (docs/bounds.md), possibly with a declared number, as in
            "hoeffding:20". Some are asymptotic, for comparison: the table and every result say so.
        q: a reward model, whose predictions "auto" and "mixture-cv" take as baselines beside the
            constant ones: "forward" fits one to the log itself, each row's on earlier rows alone
            (`piwo.estimators.forward_model`); or predictions made from other rows, see
            `piwo.estimators.doubly_robust`. Refused where no policy's interval can use it.
        baseline: what `improvement_lower` is over: a policy fixed before this log was looked at,
            such as the one that runs today; None: the logging policy.
        delta: how often the interval may be wrong, both sides together.
        propensity_factor: the true propensities are at most this times the logged ones
            (`Log.with_propensity_error`); at least 1.
        sensitivity: Gamma: by how much a hidden cause may have changed the odds of an action; at
            least 1.
        horizon: None: the bounds hold for one look at this log; a number of rows, or "universal",
            declared before the first look: they hold at all looks together, as rows come in
            (docs/adaptive.md).
        threshold: a value, fixed in advance, to have evidence that the policy's is above it
            (`log_e_above`).
        name: what to call the policy in the result.
        random_state: seed of the bootstrap.

    Returns:
        An `Evaluation`.

    Raises:
        DataError: for rows that break a rule, and for policies that do not fit the log.
        UsageError: for arguments out of range.

    Source: docs/theory.md, sections "The mixture bound" and "Control variates"; point estimates:
    Gabbianelli, Neu, Papini 2024.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> result = evaluate(log, piwo.policies.Constant("a", log.actions))
    >>> result.value, result.lower > 0.5, result.upper
    (1.0, True, 1.0)
    """
    found = compare(
        log,
        {name or name_of(policy): policy},
        estimator=estimator,
        gamma=gamma,
        interval=interval,
        q=q,
        baseline=baseline,
        delta=delta,
        propensity_factor=propensity_factor,
        sensitivity=sensitivity,
        horizon=horizon,
        threshold=threshold,
        random_state=random_state,
    )
    return next(iter(found.values()))


def compare(
    log: Log,
    policies: Mapping[str, Any],
    *,
    estimator: str | None = None,
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    delta: float = 0.05,
    propensity_factor: float = 1.0,
    sensitivity: float = 1.0,
    horizon: bounds.Horizon = None,
    threshold: float | None = None,
    random_state: Any = 0,
) -> dict[str, Evaluation]:
    """Return the evaluations of several policies; their intervals hold together with probability 1 - delta.

    One pass over the log serves all policies. Each interval, and each improvement bound, is at
    level delta / N, so the best may be picked: its bound still holds. Where the rows contradict
    their propensities by the weights of one policy, no policy has bounds.

    Args:
        log: the logged decisions.
        policies: name -> policy; see `evaluate` for what a policy may be.
        estimator: see `evaluate`.
        gamma: see `evaluate`.
        interval: see `evaluate`.
        q: see `evaluate`.
        baseline: see `evaluate`; or the name of one of the policies.
        delta: how often any of the intervals may be wrong.
        propensity_factor: see `evaluate`.
        sensitivity: see `evaluate`.
        horizon: see `evaluate`.
        threshold: see `evaluate`.
        random_state: seed of the bootstrap.

    Returns:
        name -> `Evaluation`, in the order given.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    >>> [r.simultaneous for r in compare(log, both).values()]
    [2, 2]
    """
    asked = Comparing.of(
        log, policies, estimator=estimator, gamma=gamma, interval=interval, q=q, baseline=baseline, delta=delta,
        propensity_factor=propensity_factor, sensitivity=sensitivity, horizon=horizon, threshold=threshold,
        random_state=random_state,
    )  # fmt: skip
    return asked.finish(reduce(asked.log, asked.sums))
