"""The base of all policies, and the view of a policy over another action list."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import check_kind, real_array
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Batch, Floats
from piwo.logs.eligible import Eligible
from piwo.logs.features import Features
from piwo.logs.findings import Findings, Refused
from piwo.logs.foreign import RowError
from piwo.logs.inline import inline_of, object_lists
from piwo.logs.items import items_of
from piwo.messages import argument
from piwo.policies.blocks import (
    Codes,
    check_dense,
    checked_codes,
    row_blocks,
    row_count,
    take,
)
from piwo.policies.provenance import Provenance
from piwo.policies.restricted import (
    at_places,
    draw_pairs,
    eligible_lists,
    labels_of_lists,
    renormalized,
    spread_out,
    taken,
)
from piwo.policies.sampling import Decisions, RandomState, draw_rows, generator
from piwo.policies.saving import save
from piwo.policies.state import State
from piwo.policies.subclasses import check_outputs, is_foreign
from piwo.sources.frames import is_frame

__all__ = ["ActionList", "Aligned", "DeterministicPolicy", "Policy", "action_list", "aligned"]

ActionList = Actions | Sequence[Label] | npt.NDArray[Any]


def action_list(actions: ActionList) -> Actions:
    """Return the labels as `Actions`.

    >>> len(action_list(["a", "b"]))
    2
    """
    if isinstance(actions, Actions):
        return actions
    return Actions(actions)


class Policy(ABC):
    """pi(a | x): a distribution over actions for every context.

    A policy is immutable. A new kind must define `distribution`, and set `listed`, its actions, in
    `__init__`; if it looks at the context, also `width` (None: any number of columns). It defines
    `chances` and `draw` if it can compute them without a table of rows x actions. Policies call
    these three on each other: the context is an (n, d) matrix that has been checked, or None for
    policies that need none. Users call the methods below them.

    What the methods of a user's class return is checked at every call: shape, finite, between 0 and
    1, rows sum to 1. Such a policy is evaluated, compared, certified and used as a baseline like
    any other. It cannot be saved, as files hold no code: `save` raises an error.

    >>> class Cautious(Policy):
    ...     width = None
    ...
    ...     def __init__(self):
    ...         self.listed = ["wait", "send"]
    ...
    ...     def distribution(self, context, n):
    ...         send = np.where(context[:, 0] > 0, 0.75, 0.25)
    ...         return np.column_stack([1 - send, send])
    >>> Cautious().probabilities([[1.0], [-1.0]]).tolist()
    [[0.25, 0.75], [0.75, 0.25]]
    """

    kind: ClassVar[str]
    """The policy's name in files and messages."""
    is_logger: ClassVar[bool] = False
    """Whether it is the policy that wrote the log: it knows all propensities that the log holds."""
    listed: Actions | None = None
    """The actions; None for a policy that is known only on the rows of a log."""
    features: Features | None = None
    """How data frames become the context matrix; None: plain matrices only, or no context."""
    item_features: Features | None = None
    """How tables of items become features, for policies that score items by these; None: others."""
    item_label: str = "action"
    """The column of labels in such tables."""
    width: int | None = 0
    """Number of context columns it takes; 0: none, None: any number."""
    rows: int | None = None
    """Number of rows of the one log that it was made for; None: any log."""
    provenance: tuple[Provenance, ...] = ()
    """Records of the rows that it was learned from. Digests and comparisons ignore it, and pickling
    (for the workers of an engine) omits it."""
    original: Policy | None = None
    """The policy that this one is a copy of, if the copy has a provenance."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if is_foreign(cls):
            if getattr(cls, "kind", None) is None:
                cls.kind = cls.__name__
            check_outputs(cls)

    def __getstate__(self) -> dict[str, Any]:
        state = dict(self.__dict__)
        state.pop("provenance", None)
        state.pop("original", None)
        return state

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(
                f"{name} of a {self.kind} policy cannot be changed; make a new policy"
            )
        if name == "listed" and value is not None:
            value = action_list(value)  # type: ignore[arg-type]
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        if self.listed is None:
            return f"{type(self).__name__}(actions of the log)"
        return f"{type(self).__name__}({len(self.listed)} actions)"

    def __str__(self) -> str:
        return "\n".join([repr(self), *self.rules()])

    def rules(self) -> tuple[str, ...]:
        """Return the policy as lines to read, which `print` shows; none if it has no such form.

        Only single decision trees have one.
        """
        return ()

    # --- what a kind defines

    @abstractmethod
    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return pi(a | x) for n rows, (n, K)."""

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return pi(a | x) of one action per row, (n,)."""
        found = np.empty(len(codes))
        for block in row_blocks(len(codes), len(self.actions)):
            some = codes[block]
            table = self._some(context, block)
            found[block] = table[np.arange(len(some)), some]
        return found

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return one action per row, drawn with its probability, (n,) codes."""
        codes = np.empty(n, np.int32)
        for block in row_blocks(n, len(self.actions)):
            codes[block] = draw_rows(self._some(context, block), rng)
        return codes

    def _some(self, context: Floats | None, block: slice) -> Floats:
        """Return pi(a | x) of some rows; errors count from the first of all rows."""
        try:
            return self.distribution(take(context, block), block.stop - block.start)
        except RowError as wrong:
            raise wrong.after(block.start) from None

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return the probabilities of the eligible actions of n rows, (m,), of all pairs.

        A policy is restricted to them: probabilities are divided by their sum over eligible
        actions. Policies that score actions take the best eligible one; mixtures restrict each
        part.

        Args:
            context: (n, d), or None.
            eligible: the actions that could be taken.

        Raises:
            RowError: for a row in which the policy can take no eligible action.
        """
        found = np.empty(len(eligible.codes))
        for block in row_blocks(len(eligible), len(self.actions)):
            some, table = eligible.take(block), self._some(context, block)
            pairs = slice(eligible.starts[block.start], eligible.starts[block.stop])
            found[pairs] = table[some.rows, some.codes]
        return renormalized(found, eligible)

    def draw_logged(
        self, context: Floats | None, n: int, rng: np.random.Generator, logarithm: bool = False
    ) -> tuple[Codes, Floats]:
        """Return what `draw` returns, and the probabilities or their logarithms, both (n,)."""
        codes = self.draw(context, n, rng)
        chances = self.chances(context, codes)
        if logarithm:
            return codes, np.log(chances)
        return codes, chances

    def state(self) -> State:
        """Return what a file must hold.

        Raises:
            UsageError: if no file can hold such a policy.
        """
        raise UsageError(
            f"a {self.kind} policy cannot be saved: it lives in this process or "
            "belongs to the rows of one log; save a linear, tabular or classifier "
            "policy, or write its probabilities into a column of the log"
        )

    # --- what users call

    @property
    def actions(self) -> Actions:
        """The action list.

        Raises:
            UsageError: if the policy was made without one.
        """
        if self.listed is None:
            if is_foreign(type(self)):
                raise UsageError(
                    f"{type(self).__name__} has no action list; set self.listed = [...] in its "
                    "__init__"
                )
            raise UsageError(
                f"this {self.kind} policy was made without its action list; pass "
                f"{argument('actions', 'log.actions')}"
            )
        return self.listed

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether it plays all actions that a log happened to hold.

        Such a policy is made from the data, so guarantees for policies fixed in advance do not
        cover it.
        """
        return False

    @property
    def called(self) -> str:
        """Its name if the user gives none."""
        return self.kind

    @property
    def needs_actions(self) -> bool:
        """Whether the logged action is needed to compute its probability."""
        return True

    @property
    def needs_context(self) -> bool:
        """Whether the policy uses the context."""
        return self.width != 0

    @property
    def gives_full_distribution(self) -> bool:
        """Whether it gives the probability of every action, not only of the logged ones."""
        return True

    def context(self, X: Any) -> Floats | None:
        """Return the (n, d) matrix of a data frame (by column name) or of an array (by position).

        Raises:
            UsageError: if X is None, or a data frame and the policy has no `features`.
            DataError: for missing columns, missing or infinite values, or another width.
        """
        if not self.needs_context:
            return None
        if X is None:
            raise UsageError(
                f"a {self.kind} policy needs the context and got none; pass "
                f"{argument('X')}, or read the log with {argument('context', '[...]')}"
            )
        if self.features is not None:
            return self.features.encode(X)
        if is_frame(X):
            raise UsageError(
                f"this {self.kind} policy was made without {argument('features')}, so "
                "it cannot match a data frame's columns by name; pass them, or a "
                "plain matrix in its own column order"
            )
        try:
            matrix = real_array(X)
        except (TypeError, ValueError):
            raise DataError(
                "the context array holds text, times or complex numbers, expected numbers"
            ) from None
        if matrix.ndim != 2 or self.width not in {None, matrix.shape[1]}:
            wanted = "d"
            if self.width is not None:
                wanted = str(self.width)
            raise DataError(
                f"the context has shape {matrix.shape}, expected (n, {wanted}) as when "
                "the policy was made"
            )
        if not np.isfinite(matrix).all():
            raise RowError(
                "the context is NaN or infinite; fill or drop such rows first", _first_bad(matrix)
            )
        return matrix

    def probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return pi(a | x) for every row and action.

        Args:
            X: the contexts, a data frame or an (n, d) matrix; None for a policy without context.
            n: number of rows, if X is None.

        Returns:
            (n, K) float64, rows sum to 1, columns in the order of `actions`.

        Raises:
            UsageError: if the table would be larger than `DENSE_LIMIT`; it is not allocated.
        """
        rows = row_count(X, n)
        check_dense(rows, len(self.actions))
        return self.distribution(self.context(X), rows)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return log pi(a | x), (n, K); -inf if the probability is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities(X, n=n)))

    def probability(self, X: Any, codes: Any) -> Floats:
        """Return pi(a | x) of one action per row, if possible without a table of rows x actions.

        Args:
            X: the contexts, or None for a policy without context.
            codes: (n,) action codes, positions in `actions`; `actions.codes(labels)` makes them
                of labels.

        Returns:
            (n,) float64.
        """
        checked = checked_codes(codes, len(self.actions))
        context = self.context(X)
        if context is not None and len(context) != len(checked):
            raise UsageError(
                f"got {len(context)} contexts and {len(checked)} action codes, "
                "expected equal numbers"
            )
        return self.chances(context, checked)

    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the logged actions of a batch, (n,).

        The batch's action codes must be this policy's: see `aligned`. If only some actions are
        eligible, the policy is restricted to them: see `within`.
        """
        try:
            if batch.eligible is not None:
                chances = self.within(self.context(batch.context), batch.eligible)
                return at_places(chances, batch.eligible.places(batch.action))
            return self.probability(batch.context, batch.action)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the logged actions, (n,); -inf if it is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.logged(batch)))

    def full(self, batch: Batch) -> Floats:
        """Return pi(a | X) for every row of a batch and every action, (n, K)."""
        check_dense(len(batch), len(self.actions))
        try:
            if batch.eligible is not None:
                return spread_out(self.pairs(batch), batch.eligible, len(self.actions))
            return self.distribution(self.context(batch.context), len(batch))
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def pairs(self, batch: Batch) -> Floats:
        """Return pi(a | X) of the eligible actions of every row of a batch, (m,).

        No table of rows x actions is made. For logs with eligible actions alone.
        """
        assert batch.eligible is not None
        try:
            return self.within(self.context(batch.context), batch.eligible)
        except RowError as wrong:
            raise wrong.at(batch.row_numbers, self) from None

    def act(
        self,
        X: Any = None,
        random_state: RandomState = None,
        *,
        n: int | None = None,
        eligible: Any = None,
        items: Any = None,
    ) -> Decisions:
        """Choose one action per row.

        Args:
            X: the contexts, a data frame or an (n, d) matrix; None for a policy without context.
            random_state: None, a seed, or a numpy Generator, which advances.
            n: number of rows, if X is None.
            eligible: n lists of the labels that may be chosen, or one list for all rows; None: all
                actions. The policy is restricted to them: probabilities are divided by their sum
                over eligible actions; a policy that scores actions takes the best eligible one.
                Labels that the policy does not have are not chosen.
            items: the items to choose from, for policies over joint features: a data frame, a file
                or a query with their labels and features; or n lists of objects, the features of
                each eligible action; None: those that it was made with.

        Returns:
            Action labels, and the exact probability with which each was taken.

        Raises:
            DataError: for a row in which the policy can take no eligible action.
            UsageError: for items and a policy that knows no features of items.

        >>> from piwo.policies.context_free import Uniform
        >>> Uniform(["a", "b", "c"]).act(n=1, eligible=["b"])
        Decisions(actions=array(['b'], dtype='<U1'), propensities=array([1.]))
        """
        inline = object_lists(items)
        if inline is not None:
            policy = self._over_rows(eligible)
            return policy._act_among(X, random_state, n, eligible, inline)  # noqa: SLF001
        if items is not None:
            policy = self._over(items)
            return policy.act(X, random_state, n=n, eligible=eligible)
        if eligible is not None:
            return self._act_among(X, random_state, n, eligible, None)
        rows, context = row_count(X, n), self.context(X)
        codes, chances = self.draw_logged(context, rows, generator(random_state))
        return Decisions(self.actions.take(codes), chances)

    def _act_among(
        self,
        X: Any,
        random_state: RandomState,
        n: int | None,
        eligible: Any,
        inline: pa.Array | None,
    ) -> Decisions:
        """Choose one eligible action per row; see `act`. `inline`: features of each of them."""
        rows, context = row_count(X, n), self.context(X)
        some = eligible_lists(eligible, self.actions, rows)
        if inline is not None:
            findings = Findings(np.arange(rows))
            some = inline_of(inline, "items", some, self.actions, findings)
            if findings.fatal:
                raise Refused(findings.fatal)
        chances = self.within(context, some)
        places = draw_pairs(chances, some, generator(random_state))
        return Decisions(self.actions.take(some.codes[places]), chances[places])

    def _over_rows(self, eligible: Any) -> Policy:
        """Return the policy over the labels of lists that bring features of their own."""
        self._require_item_features()
        if eligible is None:
            raise UsageError(
                f"{argument('items')} has lists of objects, one for each eligible action; give the "
                f"lists of their labels, too ({argument('eligible')})"
            )
        return self.onto(Actions(labels_of_lists(eligible)).with_inline_items("action"))

    def _require_item_features(self) -> None:
        """Raise for a policy that knows no features of items."""
        if self.item_features is None:
            raise UsageError(
                f"a {self.kind} policy knows no features of items; leave {argument('items')} out, "
                "or learn a policy over joint features, such as with oracles.JointRidge"
            )

    def _over(self, items: Any) -> Policy:
        """Return the policy over the items of a table."""
        self._require_item_features()
        assert self.item_features is not None
        return self.onto(items_of(items, self.item_label, types=self.item_features.types))

    @property
    def parts(self) -> tuple[Policy, ...]:
        """The inner policies; none for most kinds."""
        return ()

    @property
    def provenances(self) -> tuple[Provenance, ...]:
        """The provenance of this policy and of its parts, each once."""
        found = list(self.provenance)
        for part in self.parts:
            found.extend(part.provenances)
        return tuple(dict.fromkeys(found))

    def with_provenance(self, provenance: Provenance) -> Policy:
        """Return a copy of the policy with a record of the rows that it was learned from."""
        made = copy(self)
        made.provenance = (*self.provenance, provenance)
        if self.original is None:
            made.original = self
        return made

    def onto(self, actions: Actions) -> Policy:
        """Return this policy over the action list of a log; see `aligned`."""
        if self.listed == actions:
            return self
        return Aligned(self, actions)

    def save(self, path: str | PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Write the policy to one file, whole or not at all; `piwo.load` reads it.

        The file of a learned policy holds hashes of some of the rows that it was learned from, so
        that they can be recognized later. Saving takes one pass over these rows.

        Args:
            path: the file.
            metadata: JSON to store with it, such as "certificate" and "training".

        Raises:
            UsageError: if no file can hold such a policy.
            FileError: if the file cannot be written.
        """
        each = [one.of_rows for one in self.provenances if one.of_rows]
        known: dict[str, Any] = {}
        if len(each) == 1:
            known = each[0]
        elif each:
            known = {"learned": each}
        save(self, path, {**known, **(metadata or {})})


class DeterministicPolicy(Policy):
    """A policy that takes one action in each context. A new kind must define `decide`."""

    @abstractmethod
    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action taken in each of n rows, (n,) codes."""

    def choose(self, X: Any = None, *, n: int | None = None) -> Codes:
        """Return the action taken in each row, (n,) codes; `actions.take(codes)` are the labels."""
        return self.decide(self.context(X), row_count(X, n))

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return 1 for the action taken and 0 for the others, (n, K)."""
        table = np.zeros((n, len(self.actions)))
        table[np.arange(n), self.decide(context, n)] = 1.0
        return table

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return 1 if the action is the one taken, else 0, (n,)."""
        return np.asarray(self.decide(context, len(codes)) == codes, np.float64)

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return 1 for the action taken in each row, 0 for other eligible ones, (m,).

        Raises:
            RowError: for a row in which that action is not eligible.
        """
        return taken(self.decide(context, len(eligible)), eligible)

    def draw(
        self,
        context: Floats | None,
        n: int,
        rng: np.random.Generator,  # noqa: ARG002
    ) -> Codes:
        """Return the action taken; the generator does not advance."""
        return self.decide(context, n)


def aligned(policy: Policy, actions: Actions) -> Policy:
    """Return the policy over a log's action list; no probability changes.

    Args:
        policy: any policy.
        actions: the log's list. It holds the policy's actions in any order; other actions get
            probability 0.

    Raises:
        UsageError: if the list lacks actions of the policy. The list must include actions that were
            never logged: without them, part of the policy would be ignored.

    >>> from piwo.policies.context_free import Constant
    >>> aligned(Constant("a", ["a", "b"]), Actions(["c", "b", "a"])).probabilities(n=1).tolist()
    [[0.0, 0.0, 1.0]]
    """
    check_kind("policy", policy, Policy, " of piwo.policies")
    check_kind("actions", actions, Actions)
    made = policy.onto(actions)
    if made is not policy and not set(policy.provenance) <= set(made.provenances):
        made.provenance = policy.provenance
    return made


@final
class Aligned(Policy):
    """A view of a policy over a longer or reordered action list. Made by `aligned`.

    Attributes:
        policy: the policy itself, with its own codes.
        own: (K,) the policy's code of each action of the list; -1: not an action of the policy.
        place: the list's code of each of the policy's actions.
    """

    kind: ClassVar[str] = "aligned"

    def __init__(self, policy: Policy, actions: Actions) -> None:
        self.policy = policy
        self.listed = actions
        self.own = actions.positions_in(policy.actions)
        self.place = policy.actions.positions_in(actions)
        if (self.place < 0).any():
            unknown = [policy.actions.labels[i] for i in np.flatnonzero(self.place < 0)]
            few = ", ".join(map(repr, unknown[:5]))
            if len(unknown) > 5:
                few += ", ..."
            raise UsageError(
                f"the log's list of {len(actions)} actions lacks {len(unknown)} of the policy's: "
                f"{few}; pass {argument('actions', '[...]')} "
                "with every action that could have been taken, logged or not"
            )
        self.features = policy.features
        self.width = policy.width
        self.rows = policy.rows

    @property
    def parts(self) -> tuple[Policy, ...]:
        """The policy itself."""
        return (self.policy,)

    def __repr__(self) -> str:
        return f"aligned({self.policy!r}, {len(self.actions)} actions)"

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether the policy itself does."""
        return self.policy.depends_on_observed_actions

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the policy itself does."""
        return self.policy.gives_full_distribution

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix that the policy itself takes."""
        return self.policy.context(X)

    def _spread(self, inner: Floats) -> Floats:
        if inner.shape[1] != len(self.place):
            raise UsageError(
                f"the policy has {len(self.place)} actions, the log's propensity "
                f"vectors {inner.shape[1]}; make the policy with "
                f"{argument('actions', 'log.actions')}"
            )
        table = np.zeros((len(inner), len(self.actions)))
        table[:, self.place] = inner
        return table

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the policy's table in the list's order, 0 for other actions, (n, K)."""
        return self._spread(self.policy.distribution(context, n))

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the policy's probability of one action per row, (n,); 0 for actions it lacks."""
        own = self.own[codes]
        found = self.policy.chances(context, np.maximum(own, 0))
        return np.where(own >= 0, found, 0.0)

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return the policy's actions in the list's codes, (n,)."""
        return self.place[self.policy.draw(context, n, rng)]

    def within(self, context: Floats | None, eligible: Eligible) -> Floats:
        """Return the policy's probabilities, 0 for eligible actions that it lacks, (m,)."""
        own, kept = self._own(eligible)
        found = np.zeros(len(eligible.codes))
        found[kept] = self.policy.within(context, own)
        return found

    def _own(self, eligible: Eligible) -> tuple[Eligible, npt.NDArray[np.int64]]:
        """Return the eligible actions that the policy has, in its codes, and their pairs."""
        own, kept = eligible.recoded(self.own)
        none = np.flatnonzero(own.sizes == 0)
        if len(none):
            raise RowError("no eligible action is an action of the policy", none.tolist())
        return own, kept

    def _batch(self, batch: Batch) -> tuple[Batch, Any]:
        own, eligible = self.own[batch.action], batch.eligible
        if eligible is not None:
            try:
                eligible, _ = self._own(eligible)
            except RowError as wrong:
                raise wrong.at(batch.row_numbers, self) from None
        seen = replace(batch, action=np.maximum(own, 0), eligible=eligible)
        return seen, own >= 0

    def logged(self, batch: Batch) -> Floats:
        """Return the policy's probability of the logged actions, (n,); 0 for those it lacks."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.logged(seen), 0.0)

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi of the logged actions, (n,); -inf for those that the policy lacks."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.log_logged(seen), -np.inf)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return the policy's log-probabilities, (n, K); -inf for other actions."""
        inner = self.policy.log_probabilities(X, n=n)
        table = np.full((len(inner), len(self.actions)), -np.inf)
        table[:, self.place] = inner
        return table

    def full(self, batch: Batch) -> Floats:
        """Return the policy's full vectors on the rows of a batch, 0 for other actions, (n, K)."""
        seen, _ = self._batch(batch)
        return self._spread(self.policy.full(seen))

    def pairs(self, batch: Batch) -> Floats:
        """Return the policy's probabilities, 0 for eligible actions that it lacks, (m,)."""
        assert batch.eligible is not None
        found = np.zeros(len(batch.eligible.codes))
        seen, _ = self._batch(batch)
        found[self.own[batch.eligible.codes] >= 0] = self.policy.pairs(seen)
        return found

    def onto(self, actions: Actions) -> Policy:
        """Return the policy itself over another list; this one is only a view."""
        if self.listed == actions:
            return self
        return self.policy.onto(actions)

    def state(self) -> State:
        """Return the list and the policy itself."""
        return State(actions=self.actions, parts=(self.policy,))

    @classmethod
    def from_state(cls, state: State) -> Aligned:
        """Return the policy of a state."""
        (policy,) = state.parts
        return cls(policy, state.known())


def _first_bad(matrix: Floats) -> int:
    return int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
