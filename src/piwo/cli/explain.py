"""`--explain`: what the columns of a command's tables mean, a paragraph under each table."""

from __future__ import annotations

import textwrap
from typing import Annotated, TypeAlias

from cyclopts import Parameter

__all__ = ["CANDIDATES", "POLICIES", "SEGMENTS", "ExplainOption", "explained"]

_WIDTH = 100

ExplainOption: TypeAlias = Annotated[
    bool,
    Parameter(help="Explain the columns of each table under it.", show_default=False),
]

POLICIES = (
    "value: what the policy would have earned a row, estimated. lower, upper: the ends of its "
    "interval. improvement, at least: a lower bound on its value minus that of what it is compared "
    "with; above 0, it is certified better. ESS: effective sample size, about how many rows (or "
    "units) carry the estimate. mean weight: the mean of its probabilities over those of the "
    "logger, expected 1. unsupported: the probability that it gives to actions the log cannot "
    "show, which count as the lowest reward; at most that if a note says so."
)
"""On the table of `piwo evaluate`."""

SEGMENTS = (
    "value, lower, upper, improvement: as above, for the rows of one segment; the bounds of all "
    "segments hold together. actions today -> then: shares of the actions that change most."
)
"""On the table of segments."""

CANDIDATES = (
    "estimate: what the candidate would earn a row on rows that it was not learned from (both "
    "parts: each part of the rows judges what was learned from the other). less its error: that "
    "minus one standard error; the highest of those certified better is chosen. improvement, at "
    "least, or at least: the lower bound of its certificate, which holds for all candidates "
    "together: they share the error probability delta, and the line of what a certificate rests "
    "on says which share this one has. IX gamma: the weight of a row is pi / (propensity + gamma), "
    "so that no row counts too much; the larger, the more cautious. value: the "
    "estimate on the rows of the certificate."
)
"""On the table of candidates of `piwo learn`."""


def explained(text: str, asked: bool = True) -> list[str]:
    """Return a paragraph as lines, with an empty one before; none if it was not asked for.

    >>> explained("ESS: effective sample size."), explained("ESS", asked=False)
    (['', 'ESS: effective sample size.'], [])
    """
    if not asked:
        return []
    return ["", *textwrap.wrap(text, _WIDTH)]
