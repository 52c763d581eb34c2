"""What the cases share: the value of a policy, with and without implicit exploration."""

from collections.abc import Callable
from typing import Any

import pytest


@pytest.fixture
def value() -> Callable[..., float]:
    """Return V_gamma(policy) on the reward's own scale."""
    # imported here: a conftest is loaded before the run-time type checks are set up
    from piwo.reductions import PolicySums, reduce
    from piwo.scores import IW, IX

    def of(log: Any, policy: Any, gamma: float = 0.0) -> float:
        moments = reduce(log, PolicySums(policy, IX(gamma) if gamma else IW())).moments
        return float(log.value(moments.rho / moments.total))

    return of
