"""What was decided in one context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from piwo.logs.actions import Label

__all__ = ["Choice", "Chosen"]


class Choice(NamedTuple):
    """One decision.

    >>> Choice("send", 0.75, "4f2c").propensity
    0.75
    """

    action: Label
    """The label, in the type that it has in the policy."""
    propensity: float
    """The probability with which the policy takes that action in this context."""
    decision_id: str
    """What a later reward names; 32 hexadecimal digits."""


@dataclass(frozen=True)
class Chosen:
    """A decision that is not logged yet, and its row of the log.

    >>> from piwo.policies import Uniform
    >>> from piwo.serve import Server
    >>> chosen = Server(Uniform(["a", "b"]), uncertified=True).choose()
    >>> chosen.choice.propensity == chosen.row["propensity"]
    True
    """

    choice: Choice
    row: Mapping[str, Any]
    unseen: int
    """How many levels of the context the policy has never seen."""
