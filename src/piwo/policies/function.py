"""A policy given as a function from contexts to probabilities."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.logs.foreign import RowError, distributions
from piwo.policies.blocks import Codes, row_blocks
from piwo.policies.distributions import named_table
from piwo.policies.policy import ActionList, Policy, action_list
from piwo.sources.frames import is_frame

__all__ = ["Function"]

# Calls of models of other libraries have a fixed cost, so blocks are larger than for our products.
_BLOCK_BYTES = 2**24


@final
class Function(Policy):
    """pi(. | x) = f(x), probabilities of all actions for many rows at once.

    Use it for models of other libraries and for services; `Deterministic` if the function decides
    for one action a row. What the function returns is checked at every call. It must be the same
    for the same row, whichever other rows come with it. A file cannot hold a function: to keep such
    a policy, write its probabilities into a column of the log.

    Args:
        f: receives the contexts, an (n, d) float64 array that is read-only, one row for each
            decision and one column for each context column as the log (or `features`) encodes them:
            `log.features.names` lists them. Returns n rows of K probabilities that sum to 1: an
            (n, K) array, columns in the order of `actions`, or a data frame with one column an
            action, matched by name. It is called from several threads.
        actions: the K labels.
        features: how data frames become the context matrix, such as `log.features`; None: plain
            matrices of any width.

    Raises:
        UsageError: for what is not a function.
        DataError: later, if it returns another shape, or rows that are not probabilities; the first
            rows are named.

    >>> def shy(X):
    ...     send = 1 / (1 + np.exp(-X[:, 0]))
    ...     return np.column_stack([1 - send, send])
    >>> policy = Function(shy, ["wait", "send"])
    >>> policy.probabilities([[0.0], [2.0]]).round(2).tolist()
    [[0.5, 0.5], [0.12, 0.88]]

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0], [2.0]],
    ...     action=["wait", "send"],
    ...     reward=[0, 1],
    ...     propensity=[0.5, 0.5],
    ...     actions=["wait", "send"],
    ... )
    >>> round(piwo.evaluate(log, policy).value, 2)
    0.88
    """

    kind: ClassVar[str] = "function"

    def __init__(
        self, f: Callable[[Floats], Any], actions: ActionList, features: Features | None = None
    ) -> None:
        if not callable(f):
            raise UsageError(
                f"got {type(f).__name__}, expected a function from contexts to probabilities; for "
                "a table use Tabular"
            )
        check_kind("features", features, (Features, type(None)))
        self.listed = action_list(actions)
        self.f = f
        self.features = features
        self.width = None if features is None else features.width

    def __repr__(self) -> str:
        return f"Function({self._name}, {len(self.actions)} actions)"

    @property
    def _name(self) -> str:
        return str(getattr(self.f, "__name__", type(self.f).__name__))

    @property
    def called(self) -> str:
        """The name of the function."""
        return self._name

    def distribution(self, context: Floats | None, n: int) -> Floats:
        """Return what the function returns, checked, (n, K)."""
        assert context is not None
        seen = context.view()
        seen.flags.writeable = False
        found = self.f(seen)
        if is_frame(found):
            found, _ = named_table(found, self.actions)
        return distributions(found, n, len(self.actions), f"the function {self._name}")

    def chances(self, context: Floats | None, codes: Codes) -> Floats:
        """Return the function's probability of one action per row, (n,)."""
        assert context is not None
        found = np.empty(len(codes))
        for block in row_blocks(len(codes), len(self.actions), _BLOCK_BYTES):
            some = codes[block]
            try:
                table = self.distribution(context[block], len(some))
            except RowError as wrong:
                raise wrong.after(block.start) from None
            found[block] = table[np.arange(len(some)), some]
        return found
