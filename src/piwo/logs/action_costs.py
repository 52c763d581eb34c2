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
    """What each action costs, in the reward's unit: every statistic then sees R - c(A).

    Formula: the net value of a policy is v(pi) - E sum_a pi(a|X) c(a), the value less its expected
    cost. With w = pi(A|X) / mu(A|X), the weighted mean of net rewards is unbiased for it, also for
    policies that take other actions than the logged ones:

        E[w (R - c(A))] = E[w R] - E sum_a mu(a|X) (pi(a|X) / mu(a|X)) c(a)
                        = v(pi) - E sum_a pi(a|X) c(a),

    as the cost depends on the action alone, and is known for each. Net rewards are in
    [lo - max c, hi - min c], which takes the place of the declared [lo, hi].

    >>> costs = ActionCosts.of({"a": 0.0, "b": 0.25}, (0.0, 1.0))
    >>> costs.net_range, costs.of_actions(Actions(["b", "a"])).tolist()
    ((-0.25, 1.0), [0.25, 0.0])
    """

    labels: tuple[Label, ...]
    costs: tuple[float, ...]
    gross_range: tuple[float, float]
    """The declared range of the reward before costs."""

    @classmethod
    def of(cls, given: Any, gross_range: tuple[float, float]) -> Self:
        """Return the costs of a mapping from label to number.

        Raises:
            UsageError: for something else, labels given twice, and costs that are not finite.
        """
        wanted = "expected a mapping from every label to a finite number, such as {'a': 0.1}"
        if not isinstance(given, Mapping) or not given:
            raise UsageError(f"{argument('action_cost')} is {a_kind(given)}, {wanted}")
        for label, cost in given.items():
            if not (is_number(cost) and math.isfinite(cost)):
                raise UsageError(
                    f"{argument('action_cost')} has cost {cost!r:.80} for {label!r:.80}, {wanted}"
                )
        labels = Actions(list(given)).labels
        low, high = gross_range
        return cls(labels, tuple(map(float, given.values())), (low, high))

    @property
    def net_range(self) -> tuple[float, float]:
        """The range of the reward minus the cost."""
        low, high = self.gross_range
        return (low - max(self.costs), high - min(self.costs))

    def of_actions(self, actions: Actions) -> Floats:
        """Return the cost of each action, (K,).

        Raises:
            UsageError: for actions without a cost.
        """
        return _aligned(self, actions)

    @property
    def note(self) -> Note:
        """What results say of them."""
        low, high = self.gross_range
        shown = []
        for label, cost in list(zip(self.labels, self.costs, strict=True))[:_SHOWN]:
            shown.append(f"{label} {cost:g}")
        if len(self.labels) > _SHOWN:
            shown.append("...")
        net_low, net_high = self.net_range
        return Note(
            f"net of costs: every reward is the logged one less the cost of its action "
            f"({', '.join(shown)}), so that rewards in [{low:g}, {high:g}] become "
            f"[{net_low:g}, {net_high:g}]",
            kind="net-of-costs",
        )

    def to_dict(self) -> dict[str, float]:
        """Return label -> cost, for JSON."""
        return {str(x): cost for x, cost in zip(self.labels, self.costs, strict=True)}


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
