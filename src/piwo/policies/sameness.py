"""Whether two policies are the same: a claim about a list of policies covers no others."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

from piwo.checks import a_kind
from piwo.errors import UsageError
from piwo.files import array_bytes
from piwo.policies.models import model_bytes
from piwo.policies.policy import Aligned, Policy

__all__ = ["content_digest", "plain_numbers", "policy_digest", "same_policy"]


def same_policy(one: Policy, other: Policy) -> bool:
    """Whether two policies are the same, whatever their order of actions.

    Policies are the same if they are one object, or of one kind with the same numbers and the same
    model objects. Policies that no file can hold are compared as objects.

    >>> from piwo.policies.context_free import Constant
    >>> a, again, b = (Constant(x, ["a", "b"]) for x in "aab")
    >>> same_policy(a, again), same_policy(a, b)
    (True, False)
    """
    return one is other or policy_digest(one) == policy_digest(other)


def policy_digest(policy: Any) -> str:
    """Return a text that is equal for two policies exactly if they are the same; see `same_policy`.

    It is valid in this process only: fitted models are compared as objects. `content_digest` is for
    files.

    >>> from piwo.policies.context_free import Constant
    >>> len({policy_digest(Constant(x, ["a", "b"])) for x in "aab"})
    2
    """
    inside = policy
    if isinstance(policy, Policy):
        inside = _inside(policy)
    try:
        return _digest(inside, _objects, policy_digest)
    except UsageError:
        original = getattr(inside, "original", None)
        if original is None:
            original = inside
        return f"object {id(original)}"


def content_digest(policy: Policy) -> str | None:
    """Return a digest of a policy's content, the same in any process; None if not savable.

    >>> from piwo.policies.context_free import Constant
    >>> content_digest(Constant("a", ["a", "b"])) == content_digest(Constant("a", ["a", "b"]))
    True
    """

    def of_model(model: Any) -> str:
        return hashlib.sha256(model_bytes(model)).hexdigest()

    def of_part(part: Policy) -> str:
        return _digest(_inside(part), of_model, of_part)

    try:
        return of_part(policy)
    except UsageError:
        return None


def _digest(policy: Any, of_model: Callable[[Any], Any], of_part: Callable[[Policy], str]) -> str:
    if not isinstance(policy, Policy):
        raise UsageError(f"got {a_kind(policy)}, expected a policy")
    state = policy.state()
    actions = None
    # A policy that is known on the rows of a log takes the log's list, whichever that is.
    if state.actions is not None and policy.gives_full_distribution:
        actions = state.actions.digest
    arrays = {}
    for name, array in state.arrays.items():
        # + 0.0: -0.0 and 0.0 are the same number
        arrays[name] = hashlib.sha256(array_bytes(array + 0.0)).hexdigest()
    features = model = None
    if state.features is not None:
        features = state.features.to_spec()
    if state.model is not None:
        model = of_model(state.model)
    page = {
        "kind": policy.kind,
        "actions": actions,
        "features": features,
        "parameters": plain_numbers(state.parameters),
        "arrays": arrays,
        "parts": [of_part(part) for part in state.parts],
        "model": model,
    }
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()[:32]


def _objects(model: Any) -> list[int]:
    """Return the identities of the model objects, which the policy keeps alive."""
    if isinstance(model, list | tuple):
        return [id(x) for x in model]
    return [id(model)]


def plain_numbers(value: Any) -> Any:
    """Return JSON in which equal numbers have the same type.

    >>> plain_numbers({"a": [1, 1.0, True]})
    {'a': [1.0, 1.0, True]}
    """
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) <= 2**53:
        return float(value)
    if isinstance(value, list | tuple):
        return [plain_numbers(x) for x in value]
    if hasattr(value, "items"):
        return {key: plain_numbers(x) for key, x in value.items()}
    return value


def _inside(policy: Policy) -> Policy:
    while isinstance(policy, Aligned):
        policy = policy.policy
    return policy
