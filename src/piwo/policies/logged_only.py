"""What the policies share of which nothing is known but what the log says."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

import numpy as np

from piwo.logs.batch import Batch, Floats
from piwo.policies.blocks import Codes
from piwo.policies.policy import Policy

__all__ = ["LoggedOnly"]


class LoggedOnly(Policy):
    """Known on the logged actions only. A new one says `logged`, and what to tell those who ask for more."""

    @abstractmethod
    def unknown(self) -> NoReturn:
        """Raise the error that says what can be asked instead."""

    @abstractmethod
    def logged(self, batch: Batch) -> Floats:
        """Return pi(A | X) of the logged actions, (n,)."""

    @property
    def needs_actions(self) -> bool:
        """Tell that it need not be said which action was taken: the log holds its probability."""
        return False

    @property
    def gives_full_distribution(self) -> bool:
        """Tell that only the logged actions' probabilities are known."""
        return False

    def distribution(self, context: Floats | None, n: int) -> Floats:  # noqa: ARG002
        """Raise: the log alone knows."""
        self.unknown()

    def chances(self, context: Floats | None, codes: Codes) -> Floats:  # noqa: ARG002
        """Raise: the log alone knows."""
        self.unknown()

    def draw(self, context: Floats | None, n: int, rng: np.random.Generator) -> Codes:  # noqa: ARG002
        """Raise: the log alone knows."""
        self.unknown()

    def full(self, batch: Batch) -> Floats:  # noqa: ARG002
        """Raise: the log tells of the logged actions only."""
        self.unknown()
