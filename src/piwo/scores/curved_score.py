"""What the scores share that are not linear in the policy: they evaluate, and others learn."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar, NoReturn

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.scores.score import Score

__all__ = ["CurvedScore"]


class CurvedScore(Score):
    """A score whose credit is not linear in pi, so that no gain for each action tells what a policy collects.

    >>> from piwo.scores import LS
    >>> LS(0.1).linear
    False
    """

    linear: ClassVar[bool] = False
    instead: ClassVar[str] = "LSLinear"
    """Name of the score to learn with."""

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> NoReturn:  # noqa: ARG003
        """Raise: the credit depends on pi.

        Raises:
            UsageError: naming the score to learn with.
        """
        raise UsageError(
            f"{cls.label} is not linear in the policy, so it gives no gains; learn with "
            f"{cls.instead}"
        )

    @abstractmethod
    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return the (n,) credits of a policy with probabilities pi, (n,), of the logged actions."""
