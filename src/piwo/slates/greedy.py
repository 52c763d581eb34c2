"""Greedy slates: each slot shows the best item that is not shown yet."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.state import State
from piwo.slates.policies import OneSlate
from piwo.slates.restricting import require_filled, require_slots
from piwo.slates.rows import Codes, SlateRows

__all__ = ["GreedySlate"]


@dataclass(frozen=True, eq=False)
class GreedySlate(OneSlate):
    """Fills slots from the first to the last with the best item that is not shown yet.

    Made by `piwo.slates.learn`. Greedy: not always the best slate, even if items compare alike in
    all slots. If rows have eligible actions, the best of these.

    Args:
        actions: K labels.
        features: the context, d columns; None: without.
        coef: (L, K, d) scores of items in slots.
        intercept: (L, K).

    >>> best = GreedySlate(
    ...     Actions(["a", "b"]), None, np.zeros((2, 2, 0)), np.array([[1.0, 2.0], [1.0, 2.0]])
    ... )
    >>> best.act(n=1).slates
    [['b', 'a']]
    """

    kind: ClassVar[str] = "greedy"

    actions: Actions
    features: Features | None
    coef: Floats
    intercept: Floats
    learned_from: Any = None
    """The rows it was learned from, a `SlateLog`."""
    record: Mapping[str, Any] | None = None
    """What its file says of them."""

    @property
    def listed(self) -> Actions:
        """Its actions."""
        return self.actions

    @property
    def most_slots(self) -> int:
        """The number L of slots."""
        return len(self.coef)

    @property
    def fills(self) -> int:
        """The number L of slots."""
        return self.most_slots

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """The name and the number of the rows that it was learned from."""
        if self.record is not None or self.learned_from is None:
            return self.record
        return {"source": self.learned_from.name, "rows": len(self.learned_from)}

    def state(self) -> State:
        """Return the scores, and what is known of the rows that they were learned from."""
        learned = self.learned
        parameters = {"learned": None if learned is None else dict(learned)}
        arrays = {"coef": self.coef, "intercept": self.intercept}
        return State(self.actions, self.features, parameters, arrays)

    @classmethod
    def from_state(cls, state: State) -> GreedySlate:
        """Return the policy of a state."""
        actions = state.known()
        width = 0 if state.features is None else state.features.width
        coef = state.array("coef", -1, len(actions), width)
        intercept = state.array("intercept", len(coef), len(actions))
        if not (np.isfinite(coef).all() and np.isfinite(intercept).all()):
            raise ValueError("it has NaN or infinite numbers")
        learned = state.parameters["learned"]
        if learned is not None:
            kept = {"sample": learned["sample"]} if "sample" in learned else {}
            learned = {"source": str(learned["source"]), "rows": int(learned["rows"]), **kept}
        return cls(actions, state.features, coef, intercept, record=learned)

    def shown(self, matrix: Floats, slots: int) -> Codes:
        """Return the best items, slot by slot."""
        free = np.ones((len(matrix), len(self.actions)), np.bool_)
        return self._greedy(matrix, slots, free)

    @property
    def encoding(self) -> Features | None:
        """The context that it reads."""
        return self.features

    def __post_init__(self) -> None:
        slots, items, _ = self.coef.shape
        if self.intercept.shape != (slots, items) or items != len(self.actions):
            raise UsageError(
                f"{argument('coef')} has shape {self.coef.shape} and {argument('intercept')} "
                f"{self.intercept.shape}, expected (L, {len(self.actions)}, d) and "
                f"(L, {len(self.actions)})"
            )
        if slots > items:
            raise UsageError(
                f"there are {slots} slots and {items} actions, expected at least as many actions: "
                "no item is shown twice"
            )

    def aligned(self, actions: Actions) -> GreedySlate:
        """Return the policy over the same actions in another order."""
        places = actions.positions_in(self.actions)
        if len(actions) != len(self.actions) or (places < 0).any():
            raise DataError(
                f"the log has the actions {actions.preview()}, and the policy was learned for "
                f"{self.actions.preview()}; declare {argument('actions', '[...]')} when reading"
            )
        return replace(
            self,
            actions=actions,
            coef=self.coef[:, places],
            intercept=self.intercept[:, places],
        )

    def codes(self, rows: SlateRows) -> Codes:
        """Return the slates, (n, L)."""
        if self.features is None:
            matrix = np.empty((len(rows), 0))
        else:
            columns = dict(rows.context or {})
            matrix, _ = self.features.encode_columns(columns, len(rows))
            if not np.isfinite(matrix).all():
                raise DataError(
                    "the context has missing or infinite values; drop such rows yourself first"
                )
        return self.among(matrix, rows)

    def among(self, matrix: Floats, rows: SlateRows) -> Codes:
        """Return the best eligible items, slot by slot, (n, L)."""
        require_slots(len(self.coef), rows, "learned positions")
        slots = min(rows.slots, len(self.coef))
        free = np.ones((len(rows), len(self.actions)), np.bool_)
        if rows.by_slot:
            found = np.full((len(rows), rows.slots), -1, np.int32)
            for slot in range(slots):
                could = rows.could(slot)
                inside = np.zeros_like(free)
                inside[could.rows, could.codes] = True
                inside &= free
                best = self._best(matrix, slot, inside)
                some = inside.any(axis=1)
                found[some, slot] = best[some]
                free[some, best[some]] = False
            require_filled(found, rows, "action")
            return found
        if rows.eligible is not None:
            require_slots(rows.eligible.sizes, rows, "eligible actions")
            free[:] = False
            free[rows.eligible.rows, rows.eligible.codes] = True
        found = np.full((len(rows), rows.slots), -1, np.int32)
        found[:, :slots] = self._greedy(matrix, slots, free)
        return np.where(rows.mask, found, np.int32(-1))

    def _greedy(self, matrix: Floats, slots: int, free: npt.NDArray[np.bool_]) -> Codes:
        """Return the best free items, slot by slot, (n, L); they are taken from `free`."""
        chosen = np.empty((len(matrix), slots), np.int32)
        for slot in range(slots):
            chosen[:, slot] = self._best(matrix, slot, free)
            free[np.arange(len(matrix)), chosen[:, slot]] = False
        return chosen

    def _best(self, matrix: Floats, slot: int, free: npt.NDArray[np.bool_]) -> Codes:
        """Return the best free item of a slot, (n,)."""
        scores = matrix @ self.coef[slot].T + self.intercept[slot]
        return np.asarray(np.where(free, scores, -np.inf).argmax(axis=1), np.int32)
