"""What every policy can do, and what a new one has to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any, ClassVar, final

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, check_kind, real_array, shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.blocks import Codes, RowError, check_dense, checked_codes, row_blocks
from piwo.policies.sampling import Decisions, RandomState, draw_rows, generator
from piwo.policies.saving import save
from piwo.policies.state import State
from piwo.sources.frames import is_frame, to_table

__all__ = ["ActionList", "Aligned", "DeterministicPolicy", "Policy", "action_list", "aligned"]

ActionList = Actions | Sequence[Label] | npt.NDArray[Any]


def action_list(actions: ActionList) -> Actions:
    """Return the labels as `Actions`.

    >>> len(action_list(["a", "b"]))
    2
    """
    return actions if isinstance(actions, Actions) else Actions(actions)


class Policy(ABC):
    """pi(a | x): a distribution over actions for every context.

    A policy never changes once made. A new one has to say `distribution`; it says `chances` and
    `draw` too where that needs no table of rows x actions. These three are for policies to call on
    each other: their context is an (n, d) matrix already checked, or None for policies that need
    none. Users call the methods below them.
    """

    kind: ClassVar[str]
    """The policy's name in files and messages."""
    is_logger: ClassVar[bool] = False
    """Whether it is the policy that wrote the log, which tells all that the log tells."""
    listed: Actions | None = None
    """The actions; None for a policy that knows only what the log says of it."""
    features: Features | None = None
    """How data frames become the context matrix; None: columns of a plain matrix, or no context at
    all."""
    width: int | None = 0
    """Context columns it takes: 0 none, None any number."""
    rows: int | None = None
    """Rows of the one log that it was made for; None: any log."""

    def __setattr__(self, name: str, value: object) -> None:
        if name in self.__dict__:
            raise AttributeError(
                f"{name} of a {self.kind} policy cannot be changed; make a new policy"
            )
        super().__setattr__(name, value)

    def __repr__(self) -> str:
        count = f"{len(self.listed)} actions" if self.listed is not None else "actions of the log"
        return f"{type(self).__name__}({count})"

    # --- what a policy says

    @abstractmethod
    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return pi(a | x) for n rows, (n, K)."""

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return pi(a | x) of one action a row, (n,)."""
        found = np.empty(len(codes))
        for block in row_blocks(len(codes), len(self.actions)):
            some = codes[block]
            table = self.distribution(None if context is None else context[block], len(some))
            found[block] = table[np.arange(len(some)), some]
        return found

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return one action a row, drawn with its probability, (n,) codes."""
        codes = np.empty(n, np.int32)
        for block in row_blocks(n, len(self.actions)):
            count = block.stop - block.start
            codes[block] = draw_rows(
                self.distribution(None if context is None else context[block], count), rng
            )
        return codes

    def draw_logged(
        self, context: Floats | None, n: int, rng: np.random.Generator, logarithm: bool = False
    ) -> tuple[Codes, Floats]:
        """Return one action a row, (n,) codes, as `draw` does, and its probability or the logarithm of that, (n,)."""
        codes = self.draw(context, n, rng)
        chances = self.chances(context, codes)
        return codes, np.log(chances) if logarithm else chances

    def state(self) -> State:
        """Return what a file has to hold.

        Raises:
            UsageError: for a policy that no file can hold.
        """
        raise UsageError(
            f"a {self.kind} policy cannot be saved: it lives in this process or belongs to the "
            "rows of one log; save a linear, tabular or classifier policy, or write its "
            "probabilities into a column of the log"
        )

    # --- what a user asks

    @property
    def actions(self) -> Actions:
        """The action list.

        Raises:
            UsageError: where the policy was made without one.
        """
        if self.listed is None:
            raise UsageError(
                f"this {self.kind} policy was made without its action list; give it one: "
                "actions=log.actions"
            )
        return self.listed

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether it plays the actions that a log happened to hold, whichever they were.

        Such a policy is made from the data, and what holds for a policy fixed beforehand does not
        hold for it.
        """
        return False

    @property
    def called(self) -> str:
        """What to call it where nobody gave it a name."""
        return self.kind

    @property
    def needs_actions(self) -> bool:
        """Whether it must be said which action was taken to know its probability."""
        return True

    @property
    def needs_context(self) -> bool:
        """Whether the policy looks at the context."""
        return self.width != 0

    @property
    def gives_full_distribution(self) -> bool:
        """Whether it gives the probability of every action, not of the logged ones alone."""
        return True

    def context(self, X: Any) -> Floats | None:
        """Return the (n, d) matrix of a data frame (by column name) or of an array (by position).

        Raises:
            UsageError: where there is no context, or a frame for a policy without `features`.
            DataError: for missing columns, missing or infinite values, or another width.
        """
        if not self.needs_context:
            return None
        if X is None:
            raise UsageError(
                f"a {self.kind} policy needs the context and got none; give X, or read the log "
                f"with {argument('context', '[...]')}"
            )
        if self.features is not None:
            return self.features.encode(X)
        if is_frame(X):
            raise UsageError(
                f"this {self.kind} policy was made without {argument('features')}, so it cannot match a data "
                f"frame's columns by name; give {argument('features')}, or a plain matrix in its own column "
                "order"
            )
        try:
            matrix = real_array(X)
        except (TypeError, ValueError):
            raise DataError(
                "the context array holds text, times or complex numbers, expected numbers"
            ) from None
        if matrix.ndim != 2 or self.width not in {None, matrix.shape[1]}:
            wanted = "d" if self.width is None else self.width
            raise DataError(
                f"the context has shape {matrix.shape}, expected (n, {wanted}) as when the policy "
                "was made"
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
            n: rows, where X is None.

        Returns:
            (n, K) float64, rows sum to 1, columns in the order of `actions`.

        Raises:
            UsageError: where the table would be larger than `DENSE_LIMIT`; nothing is allocated
                then.
        """
        rows = _row_count(X, n)
        check_dense(rows, len(self.actions))
        return self.distribution(self.context(X), rows)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return log pi(a | x), (n, K), -inf where the probability is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.probabilities(X, n=n)))

    def probability(self, X: Any, codes: Any) -> Floats:
        """Return pi(a | x) of one action a row, without a table of rows x actions where the policy allows it.

        Args:
            X: the contexts, or None for a policy without context.
            codes: (n,) action codes: positions in `actions`; labels become codes by
                `actions.codes(labels)`.

        Returns:
            (n,) float64.
        """
        checked = checked_codes(codes, len(self.actions))
        context = self.context(X)
        if context is not None and len(context) != len(checked):
            raise UsageError(
                f"got {len(context)} contexts and {len(checked)} action codes, expected as many of "
                "each"
            )
        return self.chances(context, checked)

    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the actions that a batch of a log took, (n,).

        The batch's action codes must be this policy's: see `aligned`.
        """
        try:
            return self.probability(batch.context, batch.action)
        except RowError as wrong:
            raise RowError(wrong.problem, int(batch.row_numbers[wrong.row])) from None

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi(A | X) of the logged actions, (n,), -inf where it is 0."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.logged(batch)))

    def full(self, batch: Batch) -> Floats:
        """Return pi(a | X) for every row of a batch and every action, (n, K)."""
        check_dense(len(batch), len(self.actions))
        return self.distribution(self.context(batch.context), len(batch))

    def act(
        self, X: Any = None, random_state: RandomState = None, *, n: int | None = None
    ) -> Decisions:
        """Choose one action a row.

        Args:
            X: the contexts, a data frame or an (n, d) matrix; None for a policy without context.
            random_state: None, a seed, or a numpy Generator, which advances.
            n: rows, where X is None.

        Returns:
            Action labels, and the exact probability with which each was taken.
        """
        rows, context = _row_count(X, n), self.context(X)
        codes, chances = self.draw_logged(context, rows, generator(random_state))
        return Decisions(self.actions.take(codes), chances)

    def onto(self, actions: Actions) -> Policy:
        """Return this policy over the action list of a log; see `aligned`."""
        return self if self.listed == actions else Aligned(self, actions)

    def save(self, path: str | PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Write the policy to one file, which `piwo.load` reads. The file is complete or not there at all.

        Args:
            path: where to.
            metadata: what to keep beside it, as JSON has it: "certificate", "training".

        Raises:
            UsageError: for a policy that no file can hold.
            FileError: where the file cannot be written.
        """
        save(self, path, metadata)


class DeterministicPolicy(Policy):
    """A policy that takes one action in each context with probability 1. A new one has to say `decide`."""

    @abstractmethod
    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the action taken in each of n rows, (n,) codes."""

    def choose(self, X: Any = None, *, n: int | None = None) -> Codes:
        """Return the action taken in each row, (n,) codes; `actions.take(codes)` are the labels."""
        return self.decide(self.context(X), _row_count(X, n))

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return 1 in the column of the action taken, 0 elsewhere, (n, K)."""
        table = np.zeros((n, len(self.actions)))
        table[np.arange(n), self.decide(context, n)] = 1.0
        return table

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return 1 where the action is the one taken, 0 elsewhere, (n,)."""
        return np.asarray(self.decide(context, len(codes)) == codes, np.float64)

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:  # noqa: ARG002 (nothing to draw)
        """Return the action taken; the generator does not advance."""
        return self.decide(context, n)


def aligned(policy: Policy, actions: Actions) -> Policy:
    """Return the policy over a log's action list; columns move, no probability changes.

    Args:
        policy: any policy.
        actions: the log's list: the policy's actions in any order, and others, which get
            probability 0.

    Raises:
        UsageError: where the policy takes actions that the list lacks. Actions never logged still
            belong to the list: left out, their share of the policy would go unseen.

    >>> from piwo.policies.context_free import Constant
    >>> aligned(Constant("a", ["a", "b"]), Actions(["c", "b", "a"])).probabilities(n=1).tolist()
    [[0.0, 0.0, 1.0]]
    """
    check_kind("policy", policy, Policy, " of piwo.policies")
    check_kind("actions", actions, Actions)
    return policy.onto(actions)


@final
class Aligned(Policy):
    """A policy seen through a longer or reordered action list. Made by `aligned`.

    Attributes:
        policy: the policy itself, with its own codes.
        own: (K,) the policy's code of each action of the list, -1 where the policy does not know
            it.
        place: the list's code of each of the policy's actions.
    """

    kind: ClassVar[str] = "aligned"

    def __init__(self, policy: Policy, actions: Actions) -> None:
        self.policy = policy
        self.listed = actions
        self.own = actions.positions_in(policy.actions)
        self.place = policy.actions.positions_in(actions)
        if (self.place < 0).any():
            unknown = [
                label for label, code in zip(policy.actions, self.place, strict=True) if code < 0
            ]
            shown = ", ".join(repr(x) for x in unknown[:5]) + (", ..." if len(unknown) > 5 else "")
            raise UsageError(
                f"the policy has {len(unknown)} actions that the log's list of {len(actions)} "
                f"lacks: {shown}; pass {argument('actions', '[...]')} with every action that could have been taken, "
                "logged or not"
            )
        self.features = policy.features
        self.width = policy.width
        self.rows = policy.rows

    def __repr__(self) -> str:
        return f"aligned({self.policy!r}, {len(self.actions)} actions)"

    @property
    def depends_on_observed_actions(self) -> bool:
        """Whether the policy inside does."""
        return self.policy.depends_on_observed_actions

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the policy inside does."""
        return self.policy.gives_full_distribution

    def context(self, X: Any) -> Floats | None:
        """Return the context matrix of the policy inside."""
        return self.policy.context(X)

    def _spread(self, inner: Floats) -> Floats:
        if inner.shape[1] != len(self.place):
            raise UsageError(
                f"the policy has {len(self.place)} actions, the log's propensity vectors "
                f"{inner.shape[1]}; make the policy inside with actions=log.actions"
            )
        table = np.zeros((len(inner), len(self.actions)))
        table[:, self.place] = inner
        return table

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return the policy's columns in the list's places, 0 elsewhere, (n, K)."""
        return self._spread(self.policy.distribution(context, n))

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the policy's probability of one action a row, 0 where it does not know the action, (n,)."""
        own = self.own[codes]
        found = self.policy.chances(context, np.maximum(own, 0))
        return np.where(own >= 0, found, 0.0)

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:
        """Return the policy's actions in the list's codes, (n,)."""
        return self.place[self.policy.draw(context, n, rng)]

    def _batch(self, batch: Batch) -> tuple[Batch, Any]:
        own = self.own[batch.action]
        return replace(batch, action=np.maximum(own, 0)), own >= 0

    def logged(self, batch: Batch) -> Floats:
        """Return the policy's probability of the logged actions, 0 for those it does not know, (n,)."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.logged(seen), 0.0)

    def log_logged(self, batch: Batch) -> Floats:
        """Return log pi of the logged actions, -inf for those that the policy does not know, (n,)."""
        seen, known = self._batch(batch)
        return np.where(known, self.policy.log_logged(seen), -np.inf)

    def log_probabilities(self, X: Any = None, *, n: int | None = None) -> Floats:
        """Return the policy's log-probabilities in the list's places, -inf elsewhere, (n, K)."""
        inner = self.policy.log_probabilities(X, n=n)
        table = np.full((len(inner), len(self.actions)), -np.inf)
        table[:, self.place] = inner
        return table

    def full(self, batch: Batch) -> Floats:
        """Return the policy's full vectors on a batch's rows in the list's places, 0 elsewhere, (n, K)."""
        seen, _ = self._batch(batch)
        return self._spread(self.policy.full(seen))

    def onto(self, actions: Actions) -> Policy:
        """Return the policy inside over another list; this one is only a view."""
        return self if self.listed == actions else self.policy.onto(actions)

    def state(self) -> State:
        """Return the list and the policy inside."""
        return State(actions=self.actions, parts=(self.policy,))

    @classmethod
    def from_state(cls, state: State) -> Aligned:
        """Return the policy of a state."""
        (policy,) = state.parts
        return cls(policy, state.known())


def _row_count(X: Any, n: int | None) -> int:
    if X is None:
        if n is None:
            raise UsageError("got neither contexts nor a number of rows; give X, or n=")
        check_count("n", n, 0)
        return int(n)
    if not is_frame(X) and (not hasattr(X, "__len__") or isinstance(X, str)):
        raise UsageError(f"X is {shown(X)}, expected a data frame or an (n, d) matrix of contexts")
    rows = to_table(X).num_rows if is_frame(X) else len(X)
    if n is not None and n != rows:
        raise UsageError(f"got {rows} contexts and n={n}; leave n out")
    return rows


def _first_bad(matrix: Floats) -> int:
    return int(np.flatnonzero(~np.isfinite(matrix).all(axis=1))[0])
