"""The base of all slate policies: probabilities of shown slates, acting, and files."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from os import PathLike
from typing import Any, ClassVar, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from piwo.checks import check_count
from piwo.errors import UsageError, warn
from piwo.logs.actions import Actions, Label
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible, lists_by_slot
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.restricted import eligible_lists, list_array
from piwo.policies.sampling import RandomState, generator
from piwo.policies.saving import save
from piwo.policies.state import State
from piwo.slates.acting import Decided, SlateDecisions, rows_to_fill, slots_to_fill
from piwo.slates.rows import SlateRows

__all__ = [
    "SLATE_FORMAT",
    "SLATE_VERSION",
    "Probability",
    "SlatePolicy",
    "UnknownMarginalsError",
    "marginals_of",
]

Probability: TypeAlias = Literal["above", "marginal", "slate"]
"""Probabilities of a shown slate: of each action given those above it, of each action in its slot,
of the whole slate."""


SLATE_FORMAT = "piwo-slate-policy"
SLATE_VERSION = 1
"""Of the files that `SlatePolicy.save` writes."""


class UnknownMarginalsError(UsageError):
    """The rows of a log leave a policy's marginal probabilities without a simple form."""


def marginals_of(policy: SlatePolicy, rows: SlateRows) -> Floats | None:
    """Return the probability of each shown action in its slot, (n, L); None if it is not known.

    Args:
        policy: aligned to the actions of the rows.
        rows: the slates.
    """
    try:
        return policy.marginal(rows)
    except UnknownMarginalsError:
        return None


class SlatePolicy(ABC):
    """Base of all slate policies, of loggers and of targets.

    Tables are (n, L) and 1 beyond the end of a slate.
    """

    kind: ClassVar[str]
    """Its name in files."""
    gives: ClassVar[frozenset[str]] = frozenset({"above", "marginal", "slate"})
    """Which probabilities it can state."""
    independent: bool = False
    """Whether the slots are drawn independently given the context."""
    learned_from: Any = None
    """The rows it was learned from, a `SlateLog`; None: none, or they are not known."""

    @property
    def ranks(self) -> int:
        """The number m of items, if it shows uniform rankings of them; otherwise 0."""
        return 0

    @property
    def orders(self) -> bool:
        """Whether its labels are an order of preference, of which rows show the first eligible."""
        return False

    @property
    def numbers(self) -> tuple[str, ...]:
        """Columns of probabilities that it reads."""
        return ()

    @property
    def slate_columns(self) -> tuple[str, ...]:
        """Columns of slates that it reads."""
        return ()

    @property
    def encoding(self) -> Features | None:
        """The context that it reads; None if it reads none."""
        return None

    @property
    def listed(self) -> Actions | None:
        """The actions that it shows; None if these are in columns of a log."""
        return None

    @property
    def most_slots(self) -> int | None:
        """How many slots it can fill; None if it cannot act."""
        return None

    @property
    def fills(self) -> int | None:
        """How many slots it is made for; None: it fills those that a slate has."""
        return None

    @property
    def learned(self) -> Mapping[str, Any] | None:
        """The record of the rows that it was learned from; None if it was not learned."""
        return None

    def state(self) -> State:
        """Return what a file must hold."""
        raise UsageError(f"{type(self).__name__} is not saved; save one of piwo.slates")

    def save(self, path: str | PathLike[str], metadata: Mapping[str, Any] | None = None) -> None:
        """Write the policy to one file, completely or not at all; `piwo.slates.load` reads it.

        Args:
            path: the file, replaced.
            metadata: records to keep with it, as JSON has them.

        Raises:
            FileError: if the file cannot be written.
        """
        save(self, path, metadata, format=SLATE_FORMAT, version=SLATE_VERSION)

    def act(
        self,
        context: Any = None,
        random_state: RandomState = None,
        *,
        n: int | None = None,
        slots: int | None = None,
        eligible: Any = None,
    ) -> SlateDecisions:
        """Return a slate for each context, with the probabilities to log.

        Args:
            context: a data frame, or an (n, d) array; None for a policy without context.
            random_state: seed or generator of the draws.
            n: the number of slates, if there is no context; None: 1.
            slots: how many slots to fill; None: all that the policy fills, with `eligible` as many
                of them as a row has eligible actions for.
            eligible: n lists of the labels that may be shown, or one list for all rows; or for each
                of n rows a list for each slot, whose number is then that of the slots to fill.
                None: all. The policy is restricted to them as `slates.read` says; labels that it
                does not have are not shown.

        Raises:
            DataError: for a row, or a slot, without an eligible action that the policy has, and for
                rows with fewer than `slots`.
            UsageError: for a policy that is known on the rows of a log alone, and for more slots
                than it fills.

        >>> import piwo
        >>> piwo.slates.Uniform(["a", "b", "c"]).act(n=1, slots=2).propensities
        [[0.3333333333333333, 0.5]]
        >>> piwo.slates.Deterministic(["a", "b", "c"]).act(n=2, eligible=[["c"], ["c", "b"]]).slates
        [['c'], ['b', 'c']]
        >>> could = [[["a", "b"], ["a", "c"]]]
        >>> piwo.slates.Deterministic(["a", "b", "c"]).act(eligible=could).slates
        [['a', 'c']]
        """
        most = self.most_slots
        if most is None or self.listed is None:
            raise UsageError(
                f"{type(self).__name__} is known on the rows of its log alone and cannot act; use "
                "a policy with labels, or what slates.learn returns"
            )
        if slots is not None:
            check_count("slots", slots, 1, "how many slots to fill")
            if slots > most:
                raise UsageError(f"{argument('slots')} is {slots}, and the policy fills {most}")
        if n is not None:
            check_count("n", n, 1, "the number of slates")
        matrix = np.empty((n or 1, 0))
        if self.encoding is not None:
            if context is None:
                raise UsageError(
                    f"the policy needs the context and got none; pass {argument('context', '...')}"
                )
            matrix = self.encoding.encode(context)
        rng = generator(random_state)
        if eligible is not None:
            return self._act_among(matrix, eligible, slots, rng)
        made = self.decide(matrix, slots or most, rng)
        return made.labeled(self.listed, np.full(len(matrix), slots or most))

    def _act_among(
        self, matrix: Floats, eligible: Any, slots: int | None, rng: np.random.Generator
    ) -> SlateDecisions:
        """Show eligible actions alone; see `act`."""
        n, listed, most = len(matrix), self.listed, self.most_slots
        assert listed is not None
        assert most is not None
        policy = self.aligned(listed)
        lists = list_array(eligible, n)
        if lists_by_slot(lists.type):
            rows = slots_to_fill(lists, listed, n, most, slots)
        else:
            some = eligible_lists(lists, listed, n)
            rows = rows_to_fill(some, policy.can_fill(some), slots)
        made = policy.decide_among(matrix, rows, rng)
        if made.marginal is None:
            warn(
                "the probability of each label in its slot, whatever is above (marginals), is not "
                "given: an item could be shown in several slots, whose lists differ, and then it "
                "has no simple form; log the propensities",
                kind="marginals",
            )
        return made.labeled(listed, rows.lengths)

    def can_fill(self, eligible: Eligible) -> npt.NDArray[np.int64]:
        """Return how many slots of each row it can fill with eligible actions, (n,).

        Args:
            eligible: of n rows, in the codes of its own actions.
        """
        assert self.most_slots is not None
        return np.minimum(self.most_slots, eligible.sizes)

    def decide_among(self, matrix: Floats, rows: SlateRows, rng: np.random.Generator) -> Decided:
        """Return slates of eligible actions; the policy is aligned to its own.

        Args:
            matrix: (n, d).
            rows: n, with the number of slots and the eligible actions of each.
            rng: advances.
        """
        del matrix, rows, rng  # only kinds that name their actions can act
        raise UsageError(f"{type(self).__name__} cannot act")

    def decide(self, matrix: Floats, slots: int, rng: np.random.Generator) -> Decided:
        """Return a slate of so many slots for each of n contexts.

        Args:
            matrix: (n, d); d is 0 for policies without context.
            slots: at most `most_slots`.
            rng: advances.
        """
        del matrix, slots, rng  # only kinds that name their actions can act
        raise UsageError(f"{type(self).__name__} cannot act")

    def states(self, what: Probability) -> bool:
        """Whether it can state such probabilities."""
        return what in self.gives

    def aligned(self, actions: Actions) -> SlatePolicy:  # noqa: ARG002 (only some have labels)
        """Return the policy over an action list."""
        return self

    def unknown(self, actions: Actions) -> tuple[Label, ...]:  # noqa: ARG002
        """Return the actions that it shows and an action list lacks, as far as it names them."""
        return ()

    @abstractmethod
    def above(self, rows: SlateRows) -> Floats:
        """Return the probability of each shown action given those above it, (n, L)."""

    @abstractmethod
    def marginal(self, rows: SlateRows) -> Floats:
        """Return the probability of each shown action in its slot, (n, L)."""

    def slate(self, rows: SlateRows) -> Floats:
        """Return the probability of the shown slate, (n,)."""
        return np.asarray(self.above(rows).prod(axis=1))

    def across(self, rows: SlateRows) -> Floats:  # noqa: ARG002 (others look at them)
        """Return the probability of shown action l in slot j, (n, L, L); 0 beyond the end.

        Raises:
            UsageError: if only probabilities in the action's own slot are known.
        """
        raise UsageError(
            f"{type(self).__name__} states the probability of a shown action in its own slot only, "
            "and a logger of uniform rankings needs those in all slots; use slates.Factored, "
            "slates.Uniform or slates.Deterministic"
        )
