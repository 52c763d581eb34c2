"""Direct method: the value that a reward model predicts."""

from __future__ import annotations

from typing import Any

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.estimators.reward_model import ModelEstimate, estimate_with_model
from piwo.logs.log import Log
from piwo.messages import argument

__all__ = ["direct_method"]


def direct_method(
    log: Log, policy: Any, q: Any = None, *, delta: float = 0.05, name: str | None = None
) -> ModelEstimate:
    """Return the mean reward that a model predicts for a policy, with the model's bias.

    Prefer `doubly_robust`, which corrects the model by the logged rewards. A large difference
    between the two shows that the model is wrong.

    Formula: V = (1/n) sum_t sum_a pi(a|X_t) q(X_t, a).

    Args:
        log: the logged decisions; their rewards are not used.
        policy: see `piwo.evaluate`; it must give full vectors.
        q: predicted rewards, see `doubly_robust`.
        delta: nominal error probability of the normal interval.
        name: the name of the policy in the result.

    Returns:
        A `ModelEstimate`, whose interval ignores the model's error.

    Raises:
        UsageError: for a model or a policy that does not give one number per action.
        DataError: for rows that break a rule, and for predictions that are NaN or infinite.

    >>> log = Log.from_arrays(action=["b"], reward=[1], propensity=[0.5], actions=["a", "b"])
    >>> direct_method(log, [[0.25, 0.75]], [[0.2, 0.6]]).value
    0.5

    Source: Dudik, Langford, Li 2011 (arXiv 1103.4601), section 2.
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    if q is None:
        raise UsageError(
            f"got no reward model; give {argument('q')}: predicted rewards (n, K), a function of "
            "the context, or piwo.cross_fit(log, regressor)"
        )
    return estimate_with_model(log, policy, q, None, delta, name)
