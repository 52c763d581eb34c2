"""Whether two policies are one: a claim about a declared list of policies covers those on the list and no other."""

from __future__ import annotations

import numpy as np

from piwo.errors import UsageError
from piwo.policies.policy import Policy

__all__ = ["same_policy"]


def same_policy(one: Policy, other: Policy) -> bool:
    """Tell whether two policies are the same, over whichever action lists of logs they were brought.

    The same object is; of others those of one kind that hold the same numbers. Policies that no file can hold
    are the same only as objects.

    >>> from piwo.policies.constant import Constant
    >>> a, again, b = (Constant(x, ["a", "b"]) for x in "aab")
    >>> same_policy(a, again), same_policy(a, b)
    (True, False)
    """
    one, other = _inside(one), _inside(other)
    if one is other:
        return True
    if one.kind != other.kind:
        return False
    try:
        mine, yours = one.state(), other.state()
    except UsageError:
        return False
    # what is known on the rows of a log alone is over whatever list the log has
    listed = not one.tells_all or mine.actions == yours.actions
    return (
        listed
        and mine.features == yours.features
        and mine.parameters == yours.parameters
        and mine.arrays.keys() == yours.arrays.keys()
        and all(np.array_equal(mine.arrays[name], yours.arrays[name]) for name in mine.arrays)
        and len(mine.parts) == len(yours.parts)
        and all(same_policy(a, b) for a, b in zip(mine.parts, yours.parts, strict=True))
        and mine.model is yours.model
    )


def _inside(policy: Policy) -> Policy:
    while policy.kind == "aligned":
        (policy,) = policy.state().parts
    return policy
