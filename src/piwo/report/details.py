"""What a page shows besides evaluations: the mix of actions, the path over gamma, over time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from piwo.evaluation.evaluate import Summed
from piwo.evaluation.result import PolicyResult
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.records import Record
from piwo.reductions.bets import BETS
from piwo.reductions.ix_path import IXState

__all__ = ["GAMMAS", "ActionShare", "Details", "Explorer", "PeriodRow", "Sums", "explorer_of"]

GAMMAS = tuple(
    float(f"{digit}e{power}") for power in (-4, -3, -2, -1) for digit in (1, 1.5, 2, 3, 5, 7)
)
"""The values of gamma at which IX credits are summed."""


@dataclass(frozen=True)
class ActionShare(Record):
    """The share of one action in the log, and under the policy.

    >>> ActionShare("a", 0.5, 1.0).to_dict()
    {'action': 'a', 'today': 0.5, 'then': 1.0}
    """

    action: str
    today: float
    then: float


@dataclass(frozen=True)
class PeriodRow(Record):
    """What was logged in one period.

    >>> PeriodRow("2026-01-01", 2, 0.5, 1.0, {"a": 0.5}).rows
    2
    """

    label: str
    """When it begins."""
    rows: int
    reward: float | None
    """Mean reward, in its own unit; None without rows."""
    mean_weight: float | None
    """Mean weight of the policy that the page is about; its expectation is 1."""
    shares: Mapping[str, float]
    """Action -> its share, of the most frequent ones."""


@dataclass(frozen=True)
class Sums:
    """The sums of one policy on one part of the log, from which bounds are made at any delta."""

    rows: int
    """n: rows, or units."""
    logging_value: float
    """Mean logged reward, in its own unit."""
    value: float | None
    """The estimate, in the reward's unit."""
    usable: bool
    """Whether bounds can be given."""
    bets: tuple[Floats, Floats, Floats]
    """(48,) bet sums of w R, w (1 - R) and w R + 1 - R."""
    credit: Floats
    """(G,) sums of IX credits of rewards."""
    loss: Floats
    """(G,) sums of IX credits of losses."""


@dataclass(frozen=True)
class Explorer:
    """What the explorer of a page computes from: sums by policy and segment.

    >>> Explorer(("a",), (), {}, count=1, delta=0.05, low=0.0, span=1.0).gammas[:3]
    (0.0001, 0.00015, 0.0002)
    """

    policies: tuple[str, ...]
    segments: tuple[str, ...]
    """Labels; empty: results are not split."""
    sums: Mapping[tuple[int, int], Sums]
    """(policy, part) -> sums; part 0 is the whole log, others are segments."""
    count: int
    """How many policies share delta."""
    delta: float
    low: float
    """The lowest reward."""
    span: float
    """The highest minus the lowest reward."""
    gammas: tuple[float, ...] = GAMMAS
    bets: tuple[float, ...] = tuple(BETS.tolist())


@dataclass(frozen=True)
class Details:
    """All of it, for the policy that the decision names.

    >>> Details().explorer is None
    True
    """

    mix: tuple[ActionShare, ...] = ()
    periods: tuple[PeriodRow, ...] = ()
    period: str | None = None
    """How long a period is, in words."""
    explorer: Explorer | None = None
    """None: rewards have no upper end, or nothing was summed."""


def explorer_of(made: Summed) -> Explorer | None:
    """Return what the explorer computes from.

    Args:
        made: a comparison that summed a `IXPath` of all policies, too.
    """
    request, log = made.request, made.request.log
    if not request.bounded or not made.more:
        return None
    # The sums of policies come first among those of a request; of each, the bet sums.
    names = tuple(made.evaluations)
    found: dict[tuple[int, int], Sums] = {}
    for i, name in enumerate(names):
        one = made.result.policies[name]
        path: IXState = made.more[0]
        found[i, 0] = _sums(log, one, path, i)
    segments: tuple[str, ...] = ()
    if made.split is not None:
        labels = made.split.segments.labels
        segments = tuple("(missing)" if label is None else label for label in labels)
        numbered = zip(made.split.each, made.parts, made.more[1], strict=True)
        for k, (part, states, path) in enumerate(numbered, start=1):
            here = part.finish(states[0])
            for i, name in enumerate(names):
                found[i, k] = _sums(log, here.policies[name], path, i)
                if made.result.policies[name].why_not is not None:
                    found[i, k] = replace(found[i, k], usable=False)
    return Explorer(
        policies=names,
        segments=segments,
        sums=found,
        count=request.budget.count,
        delta=request.budget.delta,
        low=log.reward_range[0],
        span=log.span,
    )


def _sums(log: Log, one: PolicyResult, path: IXState, place: int) -> Sums:
    """Return the sums of one policy."""
    state = one.evidence.state
    moments = state.moments
    value = one.evidence.estimate.value
    if value is not None:
        value = float(log.value(value)) if np.isfinite(value) else None
    logged = log.reward_range[0]
    if moments.total:
        logged = float(log.value(moments.reward / moments.total))
    return Sums(
        rows=moments.rows,
        logging_value=logged,
        value=value,
        usable=one.why_not is None,
        bets=(state.bets.value, state.bets.loss, state.bets.improvement),
        credit=path.credit[place],
        loss=path.loss[place],
    )
