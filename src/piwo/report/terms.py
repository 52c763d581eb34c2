"""Terms of the page: explained on focus and hover, and in a list at its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

__all__ = ["LOOK_TERMS", "TERMS", "Term"]


@dataclass(frozen=True)
class Term:
    """A term and what it means."""

    name: str
    text: str


TERMS: Mapping[str, Term] = {
    "estimate": Term(
        "estimate",
        "The best guess from this log, by weighting each row with how much more often the policy "
        "would take its action. It may be off by chance in either direction.",
    ),
    "bound": Term(
        "proved gain",
        "The gain is at least this, unless an event happened whose probability is at most delta. "
        "It holds for all policies on this page together, so the best may be picked. Below 0 it "
        "proves nothing; it may even be lower than a loss of all that today's system earns, since "
        "it does not use what that is.",
    ),
    "no_proof": Term(
        "no proof",
        "The policy was learned from these rows, or the rows contradict their propensities. The "
        "estimate may then be too high, and no bound is given.",
    ),
    "upper": Term(
        "upper end",
        "The value of the policy is at most this. Of gains: an upper bound of their own, wrong "
        "with probability at most delta.",
    ),
    "ess": Term(
        "effective rows",
        "How many equal rows would say as much about the policy. Few mean wide intervals.",
    ),
    "weight": Term(
        "weight",
        "How much more often the policy takes the logged action than today's system does. The mean "
        "is expected to be 1.",
    ),
    "propensity": Term(
        "propensity", "The probability with which today's system took the logged action."
    ),
    "unsupported": Term(
        "unsupported share",
        "How much of what the policy does was never tried in this log; what it would earn there is "
        "unknown.",
    ),
    "gamma": Term(
        "gamma",
        "Smoothing: propensities are raised by gamma, which makes estimates lower and steadier.",
    ),
    "delta": Term("delta", "The probability with which a bound may be wrong."),
}

LOOK_TERMS: Mapping[str, Term] = {
    "estimate": TERMS["estimate"],
    "policy": Term(
        "policy", "A rule that says which action to take in which context, possibly by drawing."
    ),
    "certified": Term(
        "certified",
        "The improvement over today's system is above 0, unless an event happened whose "
        "probability is at most delta.",
    ),
    "deadline": Term(
        "deadline",
        "When the watch ends, fixed before the first look. After it, a policy that is not "
        "certified is answered by stop.",
    ),
    "bets": Term(
        "bets",
        "How the bounds are made: a value is ruled out once a capital that is bet against it has "
        "grown to 1/delta times its start, which has probability at most delta if that value is "
        "the true one. The number of rows that bets are planned for is fixed before the first "
        "look.",
    ),
    "delta": TERMS["delta"],
}
"""Of the page of a watch."""
