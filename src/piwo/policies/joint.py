"""Policies over joint features of context and item; they act on items never seen in training."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind, check_positive, numbers
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.inline import encoded_pairs
from piwo.logs.items import encoded
from piwo.messages import argument
from piwo.policies.blocks import Codes
from piwo.policies.linear import LinearGreedy, LinearSoftmax, pair_scores
from piwo.policies.policy import ActionList, DeterministicPolicy, Policy, action_list
from piwo.policies.restricted import highest, softmax, taken
from piwo.policies.state import State

__all__ = ["JointLinear", "JointModel", "JointPolicy", "JointSoftmax", "check_model"]

_MOST_COEFFICIENTS = 2**28
"""Of all items together: 2 GB."""


@dataclass(frozen=True, eq=False)
class JointModel:
    """Scores s(x, a) = x'W z_a + v'z_a of a context x, (d,), and the features z_a of an item, (f,).

    For each item they are linear in x, with the coefficients W z_a and the intercept v'z_a, so
    products of context and item are never formed. Terms in x alone would not change a choice.

    Args:
        cross: (d, f) W.
        item: (f,) v.
        table: (K, f) the features of K items.
        features: how columns of items become such a table; None: the policy acts on these items
            alone.
        label: the column of labels in tables of items.
        by_row: whether it was learned from features that change by row (inside the log): the table
            then has means, and policies act only on rows that bring the features of their items.

    Raises:
        UsageError: for other shapes, NaN or infinite numbers.

    >>> JointModel([[1.0, 0.0]], [0.0, 2.0], [[3.0, 1.0], [0.0, 1.0]]).coef.tolist()
    [[3.0], [0.0]]
    """

    cross: Any
    item: Any
    table: Any
    features: Features | None = None
    label: str = "action"
    by_row: bool = False

    def __post_init__(self) -> None:
        check_kind("features", self.features, (Features, type(None)))
        if self.by_row and self.features is None:
            raise UsageError(
                f"{argument('by_row')} is True, but {argument('features')} is None, so that rows "
                "cannot bring the features of their items; give both"
            )
        for name in ("cross", "item", "table"):
            array = numbers(name, getattr(self, name)).copy()
            if not np.isfinite(array).all():
                raise UsageError(f"{argument(name)} has NaN or infinite numbers, expected finite")
            array.flags.writeable = False
            object.__setattr__(self, name, array)
        width = self.item.shape[-1] if self.item.ndim == 1 else -1
        if not (self.cross.ndim == self.table.ndim == 2) or {
            self.cross.shape[1],
            self.table.shape[1],
        } != {width}:
            raise UsageError(
                f"cross, item and table have the shapes {self.cross.shape}, {self.item.shape} and "
                f"{self.table.shape}, expected (d, f), (f,) and (K, f)"
            )
        if len(self.table) * len(self.cross) > _MOST_COEFFICIENTS:
            raise UsageError(
                f"{len(self.table)} items and {len(self.cross)} columns of context make "
                f"{len(self.table) * len(self.cross)} coefficients, expected at most "
                f"{_MOST_COEFFICIENTS}; use fewer columns, or act on parts of the items"
            )
        if self.features is not None and self.features.width != width:
            raise UsageError(
                f"{argument('item')} has {width} entries, the features make {self.features.width}"
            )

    @property
    def coef(self) -> Floats:
        """The coefficients W z_a of each item, (K, d)."""
        return np.ascontiguousarray(self.table @ self.cross.T)

    @property
    def intercept(self) -> Floats:
        """The intercepts v'z_a, (K,)."""
        return np.asarray(self.table @ self.item)

    def of(self, actions: Actions, own: Actions) -> JointModel | None:
        """Return the model of the items of another list; None if their features are unknown.

        Args:
            actions: the other list.
            own: the list of this model.
        """
        if self.features is None or actions.items is None:
            return None
        if actions.items.inline:
            # Each row brings its features; without a row a new item is an average one.
            rows = actions.positions_in(own)
            known = self.table[np.maximum(rows, 0)]
            return replace(self, table=np.where(rows[:, None] < 0, self.table.mean(axis=0), known))
        return replace(self, table=encoded(actions.items, self.features), by_row=False)

    def scores(self, context: Floats, eligible: Eligible) -> Floats:
        """Return s(x, a) of pairs that bring their own features, (m,)."""
        assert self.features is not None
        pairs = encoded_pairs(eligible, self.features)
        # W z and v'z of each pair
        return pair_scores(context, eligible.apart(), pairs @ self.cross.T, pairs @ self.item)

    def state(self, actions: Actions, features: Features | None, **parameters: Any) -> State:
        """Return what a file holds of a policy with this model."""
        spec = None
        if self.features is not None:
            spec = self.features.to_spec()
        known = {"item_features": spec, "item_label": self.label, **parameters}
        if self.by_row:
            known["item_by_row"] = True
        arrays = {"cross": self.cross, "item": self.item, "items": self.table}
        return State(actions, features, known, arrays)

    @classmethod
    def from_state(cls, state: State) -> JointModel:
        """Return the model of a policy's state."""
        features = state.parameters["item_features"]
        if features is not None:
            features = Features.from_spec(features)
        return cls(
            state.array("cross", -1, -1),
            state.array("item", -1),
            state.array("items", len(state.known()), -1),
            features,
            str(state.parameters["item_label"]),
            # Older files lack it.
            bool(state.parameters.get("item_by_row", False)),
        )


def check_model(model: Any) -> None:
    """Raise for anything but a `JointModel`.

    >>> check_model(JointModel([[1.0]], [0.0], [[1.0]]))
    """
    check_kind("model", model, JointModel, " of piwo.policies")


class JointPolicy(Policy):
    """What all kinds share: a model, which may be taken over other items. A kind defines `over`."""

    model: JointModel

    @abstractmethod
    def over(self, model: JointModel, actions: Actions) -> Policy:
        """Return the policy with the scores of other items."""

    def _brings(self, eligible: Eligible | None) -> bool:
        """Whether rows bring features of their items, and the policy can use them."""
        known = self.model.features is not None
        return known and eligible is not None and eligible.inline is not None

    def require_table(self) -> None:
        """Raise if the features of items change by row, so that those of the model are only means.

        Raises:
            UsageError: with what to give.
        """
        if self.model.by_row:
            raise UsageError(
                f"the {self.kind} policy was learned from features of items that change by row, "
                "and here the rows have none, so what it would choose is unknown; name their "
                f"column ({argument('items')}, next to {argument('eligible')}), also when the log "
                "is read"
            )

    def onto(self, actions: Actions) -> Policy:
        """Return the policy over a log's items, if their features are known; else as `aligned`."""
        inline = actions.items is not None and actions.items.inline
        if self.listed == actions and (inline or actions.items is self.actions.items):
            return self
        model = self.model.of(actions, self.actions)
        if model is None:
            return super().onto(actions)
        return self.over(model, actions)


class _ByItem(JointPolicy):
    """In each item's own coefficients the policy is a linear one, `by_item`."""

    _by_item: LinearGreedy | LinearSoftmax

    def _set(self, model: JointModel, by_item: LinearGreedy | LinearSoftmax) -> None:
        self.model, self._by_item = model, by_item
        self.listed, self.features, self.width = by_item.listed, by_item.features, by_item.width
        self.item_features, self.item_label = model.features, model.label

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix; a float64 matrix of the right width as it is."""
        return self._by_item.context(X)

    @property
    @abstractmethod
    def by_item(self) -> LinearGreedy | LinearSoftmax:
        """The linear policy; an error if the features of items change by row."""

    @abstractmethod
    def among(self, scores: Floats, eligible: Eligible) -> Floats:
        """Return the probabilities of pairs with such scores, (m,)."""

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return the probabilities of the eligible items of each row, (m,)."""
        if not self._brings(eligible):
            return self.by_item.within(context, eligible)
        assert context is not None
        return self.among(self.model.scores(context, eligible), eligible)


@final
class JointLinear(_ByItem, DeterministicPolicy):
    """pi(x) = argmax over the (eligible) items a of x'W z_a + v'z_a; of equal ones the first item.

    Items with features act whether they were seen in training or not: `act(X, items=table)` chooses
    among the items of a table, and a log read with `piwo.read(items=)` brings its own.

    Args:
        model: the scores; see `JointModel`.
        actions: the K labels of its items.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for a model of another number of items, or of another width.

    >>> from piwo.logs import Features
    >>> model = JointModel([[1.0]], [0.0], [[1.0], [-1.0]], Features.numeric(["heat"]))
    >>> policy = JointLinear(model, ["soup", "ice"])
    >>> policy.act([[2.0], [-2.0]]).actions.tolist()
    ['soup', 'ice']
    >>> policy.act([[2.0]], items={"action": ["tea", "cola"], "heat": [0.5, -2.0]}).actions.tolist()
    ['tea']
    """

    kind: ClassVar[str] = "joint-linear"
    _by_item: LinearGreedy

    @property
    def by_item(self) -> LinearGreedy:
        """The linear policy; an error if the features of items change by row."""
        self.require_table()
        return self._by_item

    def __init__(
        self, model: JointModel, actions: ActionList, features: Features | None = None
    ) -> None:
        check_model(model)
        known = action_list(actions)
        self._set(model, LinearGreedy(model.coef, model.intercept, known, features))

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the item with the highest score in each row, (n,) codes."""
        return self.by_item.decide(context, n)

    def logged(self, batch: Batch) -> Floats:
        """Return 1 where the logged item is the one taken, else 0, (n,)."""
        if self._brings(batch.eligible):
            return super().logged(batch)
        return self.by_item.logged(batch)

    def among(self, scores: Floats, eligible: Eligible) -> Floats:
        """Return 1 for the best pair of each row, else 0, (m,)."""
        return taken(highest(scores, eligible), eligible)

    def over(self, model: JointModel, actions: Actions) -> Policy:
        """Return the policy with the scores of other items."""
        return JointLinear(model, actions, self.features)

    def state(self) -> State:
        """Return the model and its items."""
        return self.model.state(self.actions, self.features)

    @classmethod
    def from_state(cls, state: State) -> JointLinear:
        """Return the policy of a state."""
        return cls(JointModel.from_state(state), state.known(), state.features)


@final
class JointSoftmax(_ByItem):
    """pi(a | x) proportional to exp((x'W z_a + v'z_a) / temperature) over the (eligible) items.

    It explores, so its log supports learning and evaluation later. Acts on items never seen in
    training, as `JointLinear` does.

    Args:
        model: the scores; see `JointModel`.
        actions: the K labels of its items.
        temperature: > 0; near 0 the policy is nearly greedy, for large ones uniform.
        features: how data frames become the context matrix of width d; None: plain matrices only.

    Raises:
        UsageError: for a model of another number of items, or of another width.

    >>> model = JointModel([[1.0]], [0.0], [[1.0], [-1.0]])
    >>> JointSoftmax(model, ["a", "b"]).probabilities([[0.0]]).tolist()
    [[0.5, 0.5]]
    """

    kind: ClassVar[str] = "joint-softmax"
    _by_item: LinearSoftmax

    @property
    def by_item(self) -> LinearSoftmax:
        """The linear policy; an error if the features of items change by row."""
        self.require_table()
        return self._by_item

    def __init__(
        self,
        model: JointModel,
        actions: ActionList,
        temperature: float = 1.0,
        features: Features | None = None,
    ) -> None:
        check_model(model)
        check_positive("temperature", temperature)
        known = action_list(actions)
        self.temperature = float(temperature)
        self._set(
            model, LinearSoftmax(model.coef, model.intercept, known, self.temperature, features)
        )

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the softmax of the scores, (n, K)."""
        return self.by_item.distribution(context, n)

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the probability of one item per row, (n,)."""
        return self.by_item.chances(context, codes)

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return one item per row, (n,) codes, drawn with one uniform number per row."""
        return self.by_item.draw(context, n, rng)

    def draw_logged(
        self, context: Floats | None, n: int, rng: np.random.Generator, logarithm: bool = False
    ) -> tuple[Codes, Floats]:
        """Return what `draw` returns, and pi or log pi of it, from one softmax."""
        return self.by_item.draw_logged(context, n, rng, logarithm)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return log pi(a | x), (n, K), correct even if pi underflows."""
        return self.by_item.log_probabilities(X, n=n)

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the logged items, (n,)."""
        if self._brings(batch.eligible):
            return super().log_logged(batch)
        return self.by_item.log_logged(batch)

    def among(self, scores: Floats, eligible: Eligible) -> Floats:
        """Return the softmax of the scores over the pairs of each row, (m,)."""
        return softmax(scores, eligible, self.temperature)

    def over(self, model: JointModel, actions: Actions) -> Policy:
        """Return the policy with the scores of other items."""
        return JointSoftmax(model, actions, self.temperature, self.features)

    def state(self) -> State:
        """Return the model, its items and the temperature."""
        return self.model.state(self.actions, self.features, temperature=self.temperature)

    @classmethod
    def from_state(cls, state: State) -> JointSoftmax:
        """Return the policy of a state."""
        model = JointModel.from_state(state)
        temperature = float(state.parameters["temperature"])
        return cls(model, state.known(), temperature, state.features)
