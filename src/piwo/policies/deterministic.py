"""A policy given as a rule: a function from contexts to actions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

import numpy as np

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.features import Features
from piwo.policies.blocks import Codes
from piwo.policies.policy import ActionList, DeterministicPolicy, action_list

__all__ = ["Deterministic"]


@final
class Deterministic(DeterministicPolicy):
    """pi(x) = rule(x), one label per row: business rules, or models from other libraries.

    It never makes a table of rows x actions. A file cannot hold a function: to keep such a policy,
    write its choices into a column of the log, or use a classifier.

    Args:
        rule: takes the (n, d) context matrix, returns n labels (labels, not positions in the list).
        actions: the K labels.
        features: how data frames become the context matrix; None: plain matrices of any width.

    Raises:
        UsageError: later, if the rule returns another number of labels, or a label
            that is not an action.

    >>> policy = Deterministic(lambda x: np.where(x[:, 0] > 0, "up", "down"), ["up", "down"])
    >>> policy.act([[2.0], [-3.0]]).actions.tolist()
    ['up', 'down']
    """

    kind: ClassVar[str] = "rule"

    def __init__(
        self, rule: Callable[[Floats], Any], actions: ActionList, features: Features | None = None
    ) -> None:
        if not callable(rule):
            raise UsageError(
                "a rule is a function from contexts to labels, got "
                f"{type(rule).__name__}; for a table use Tabular"
            )
        check_kind("features", features, (Features, type(None)))
        self.listed = action_list(actions)
        self.rule = rule
        self.features = features
        self.width = None if features is None else features.width

    def decide(self, context: Floats | None, n: int) -> Codes:
        """Return the rule's action in each row, (n,) codes."""
        assert context is not None
        labels = self.rule(context)
        codes = self.actions.codes(labels, "the rule's actions")
        if len(codes) != n:
            raise UsageError(
                f"the rule returned {len(codes)} labels for {n} contexts, expected one "
                "label per row"
            )
        if (codes < 0).any():
            row = int(np.flatnonzero(codes < 0)[0])
            raise UsageError(
                f"the rule returned {np.asarray(labels)[row]!s:.80} for row {row}, "
                f"expected one of the actions ({self.actions.preview()}); a rule "
                "returns labels, not positions in the list"
            )
        return codes
