"""Costs of actions, which are subtracted from rewards where rows are validated."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Self

import numpy as np

from piwo.checks import a_kind, is_number
from piwo.errors import UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Floats
from piwo.messages import Note, argument

__all__ = ["ActionCosts"]

_SHOWN = 5


@dataclass(frozen=True)
class ActionCosts:
    """What actions cost, in the reward's unit: every statistic then sees R - C.

    C is c(A), from a table with one cost for each action, or a column of the log with one for each
    row: what the action that was taken there did cost.

    Formula: the net value of a policy is v(pi) - E sum_a pi(a|X) c(a), the value less its expected
    cost. With w = pi(A|X) / mu(A|X), the weighted mean of net rewards is unbiased for it, also for
    policies that take other actions than the logged ones:

        E[w (R - c(A))] = E[w R] - E sum_a mu(a|X) (pi(a|X) / mu(a|X)) c(a)
                        = v(pi) - E sum_a pi(a|X) c(a),

    as the cost depends on the action alone, and is known for each. For a column, c(X, a) =
    E[C | X, a] takes the place of c(a). Net rewards are in [lo - max c, hi - min c], which takes
    the place of the declared [lo, hi]. The range of a column is declared, too, and never inferred.

    >>> costs = ActionCosts.of({"a": 0.0, "b": 0.25}, (0.0, 1.0))
    >>> costs.net_range, costs.of_actions(Actions(["b", "a"])).tolist()
    ((-0.25, 1.0), [0.25, 0.0])
    >>> ActionCosts.of("fee", (0.0, 1.0), (0.0, 0.5)).net_range
    (-0.5, 1.0)
    """

    labels: tuple[Label, ...]
    """The actions of the table; none with a column."""
    costs: tuple[float, ...]
    """The cost of each of them; of a column the two ends of its range."""
    gross_range: tuple[float, float]
    """The declared range of the reward before costs."""
    column: str | None = None
    """The column of costs; None: there is a table."""

    @classmethod
    def of(
        cls,
        given: Any,
        gross_range: tuple[float, float],
        cost_range: tuple[float, float] | None = None,
    ) -> Self:
        """Return the costs of a mapping from label to number, or of a column.

        Args:
            given: the mapping, or the name of the column.
            gross_range: the declared range of the reward.
            cost_range: that of the column; None: (0, 1), as for rewards.

        Raises:
            UsageError: for something else, labels given twice, costs that are not finite, and a
                range without finite ends.
        """
        low, high = gross_range
        if isinstance(given, str):
            ends = _checked_range(cost_range)
            return cls((), ends, (low, high), given)
        if cost_range is not None:
            raise UsageError(
                f"{argument('action_cost_range')} is the range of a column of costs, and "
                f"{argument('action_cost')} is {a_kind(given)}; leave one of them out"
            )
        wanted = (
            "expected a mapping from every label to a finite number, such as {'a': 0.1}, or the "
            "name of a column"
        )
        if not isinstance(given, Mapping) or not given:
            raise UsageError(f"{argument('action_cost')} is {a_kind(given)}, {wanted}")
        for label, cost in given.items():
            if not (is_number(cost) and math.isfinite(cost)):
                raise UsageError(
                    f"{argument('action_cost')} has cost {cost!r:.80} for {label!r:.80}, {wanted}"
                )
        labels = Actions(list(given)).labels
        return cls(labels, tuple(map(float, given.values())), (low, high))

    @property
    def net_range(self) -> tuple[float, float]:
        """The range of the reward minus the cost."""
        low, high = self.gross_range
        return (low - max(self.costs), high - min(self.costs))

    def of_actions(self, actions: Actions) -> Floats:
        """Return the cost of each action, (K,), from the table.

        Raises:
            UsageError: for actions without a cost.
        """
        return _aligned(self, actions)

    @property
    def note(self) -> Note:
        """What results say of them."""
        low, high = self.gross_range
        net_low, net_high = self.net_range
        return Note(
            f"net of costs: every reward is the logged one less the cost of its action "
            f"({self._shown}), so that rewards in [{low:g}, {high:g}] become "
            f"[{net_low:g}, {net_high:g}]",
            kind="net-of-costs",
        )

    @property
    def _shown(self) -> str:
        """The costs in a few words."""
        if self.column is not None:
            least, most = self.costs
            return f"column {self.column!r}, in [{least:g}, {most:g}]"
        shown = []
        for label, cost in list(zip(self.labels, self.costs, strict=True))[:_SHOWN]:
            shown.append(f"{label} {cost:g}")
        if len(self.labels) > _SHOWN:
            shown.append("...")
        return ", ".join(shown)

    def to_dict(self) -> dict[str, Any]:
        """Return label -> cost, or the column and its range, for JSON."""
        if self.column is not None:
            return {"column": self.column, "range": list(self.costs)}
        return {str(x): cost for x, cost in zip(self.labels, self.costs, strict=True)}


def _checked_range(given: Any) -> tuple[float, float]:
    """Return the declared range of a column of costs.

    Raises:
        UsageError: for one without two finite ends: a cost without an upper end would leave net
            rewards without a lower one.
    """
    if given is None:
        return (0.0, 1.0)
    try:
        low, high = map(float, given)
    except (TypeError, ValueError, OverflowError):
        low = high = math.nan
    if not (math.isfinite(high - low) and low < high):
        raise UsageError(
            f"{argument('action_cost_range')} is {given!r:.80}, expected (lo, hi) with finite "
            "lo < hi"
        )
    return (low, high)


@lru_cache(maxsize=16)
def _aligned(costs: ActionCosts, actions: Actions) -> Floats:
    # Labels match as those of policies do: 1 and "1" are the same.
    places = actions.positions_in(Actions(costs.labels))
    missing = [x for x, at in zip(actions.labels, places, strict=True) if at < 0]
    if missing:
        some = ", ".join(repr(x) for x in missing[:_SHOWN])
        raise UsageError(
            f"{argument('action_cost')} has no cost for {len(missing)} of the {len(actions)} "
            f"actions ({some}); give each a cost, 0 for those that are free"
        )
    found = np.array(costs.costs)[places]
    found.flags.writeable = False
    return found
