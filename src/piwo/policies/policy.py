"""What every policy can do, and what a new one has to say."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count, real_array, shown
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Batch, Floats
from piwo.logs.features import Features
from piwo.policies.blocks import Codes, RowError, check_dense, checked_codes, row_blocks
from piwo.policies.sampling import Decisions, RandomState, draw_rows, generator
from piwo.policies.state import State
from piwo.sources.frames import is_frame, to_table

__all__ = ["ActionList", "DeterministicPolicy", "Policy", "action_list"]

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
        raise UsageError(f"a {self.kind} policy cannot be saved; save one of another kind")

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
                "with context=[...]"
            )
        if self.features is not None:
            return self.features.encode(X)
        if is_frame(X):
            raise UsageError(
                f"this {self.kind} policy was made without features=, so it cannot match a data "
                "frame's columns by name; give features=, or a plain matrix in its own column "
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
        from piwo.policies.aligned import Aligned

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
        from piwo.policies.files import save

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
