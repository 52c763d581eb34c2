"""Checks what policy classes of users return, wherever piwo or the user calls them."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from piwo.errors import DataError, UsageError
from piwo.logs import foreign

__all__ = ["check_outputs", "is_foreign"]


def is_foreign(kind: type) -> bool:
    """Whether a class is defined outside of piwo.

    >>> from piwo.policies.context_free import Uniform
    >>> is_foreign(Uniform)
    False
    """
    return kind.__module__.partition(".")[0] != "piwo"


# name of a method -> number of rows by its arguments (or their eligible actions), check of what
# it returns
_Check = Callable[[Any, Any, Any, str], Any]
_OUTPUTS: dict[str, tuple[Callable[..., Any], _Check]] = {
    "distribution": (
        lambda context, n: n,  # noqa: ARG005
        lambda policy, found, n, giver: foreign.distributions(found, n, len(policy.actions), giver),
    ),
    "full": (
        len,
        lambda policy, found, n, giver: foreign.distributions(found, n, len(policy.actions), giver),
    ),
    "chances": (
        lambda context, codes: len(codes),  # noqa: ARG005
        lambda policy, found, n, giver: foreign.probabilities(found, n, giver),  # noqa: ARG005
    ),
    "logged": (
        len,
        lambda policy, found, n, giver: foreign.probabilities(found, n, giver),  # noqa: ARG005
    ),
    "log_logged": (
        len,
        lambda policy, found, n, giver: foreign.log_probabilities(found, n, giver),  # noqa: ARG005
    ),
    "within": (
        lambda context, eligible: eligible,  # noqa: ARG005
        lambda policy, found, some, giver: foreign.pair_probabilities(found, some, giver),  # noqa: ARG005
    ),
    "decide": (
        lambda context, n: n,  # noqa: ARG005
        lambda policy, found, n, giver: foreign.action_codes(found, n, len(policy.actions), giver),
    ),
    "draw": (
        lambda context, n, rng: n,  # noqa: ARG005
        lambda policy, found, n, giver: foreign.action_codes(found, n, len(policy.actions), giver),
    ),
}


def check_outputs(kind: type) -> None:
    """Make the methods that a class of a user defines check what they return.

    Args:
        kind: a subclass of `Policy`, defined outside of piwo.
    """
    for name, (rows, check) in _OUTPUTS.items():
        if name in vars(kind):
            setattr(kind, name, _checked(vars(kind)[name], rows, check))


def _checked(
    method: Callable[..., Any], rows: Callable[..., Any], check: _Check
) -> Callable[..., Any]:
    @wraps(method)
    def checked(policy: Any, *args: Any, **named: Any) -> Any:
        given = (*args, *named.values())
        giver = f"{type(policy).__name__}.{method.__name__}"
        try:
            found = method(policy, *args, **named)
        except (AttributeError, IndexError, TypeError) as cause:
            if given[0] is not None or policy.needs_context:
                raise
            raise UsageError(
                f"{giver} failed without a context ({cause}); if it looks at the context, define "
                "width = None in the class (any number of columns), or the number of columns"
            ) from cause
        asked = rows(*given)
        try:
            return check(policy, found, asked, giver)
        except DataError as wrong:
            # `piwo.compare` knows the name that the user gave to the policy
            wrong.policy = policy
            if not isinstance(wrong, foreign.RowError):
                raise
            # a batch knows the numbers of its rows in the log
            numbers = getattr(given[0], "row_numbers", None)
            if numbers is None:
                raise
            raise wrong.at(numbers) from None

    return checked
