"""What a score is: the credit that a policy gets for one logged row."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats

__all__ = ["DenseGains", "Parameter", "Score", "check_parameter"]

Parameter = float | str | tuple[float, ...] | list[float]
"""A hyper-parameter: a number, "auto", or several numbers (a path)."""


@dataclass(frozen=True)
class DenseGains:
    """Gains of every action in every row of a batch: values * exp(scale).

    >>> DenseGains(np.ones((1, 2)), np.zeros(2)).table.tolist()
    [[1.0, 1.0]]
    """

    values: Floats
    """(n, K)."""
    scale: Floats
    """(K,) at least 0; above 0 only where the gains may be beyond float64."""

    @property
    def table(self) -> Floats:
        """The gains themselves, (n, K); infinite where they are beyond float64."""
        with np.errstate(over="ignore"):
            return self.values * np.exp(self.scale) if self.scale.any() else self.values


class Score(ABC):
    """Credits a policy for each row: rho(pi, mu, R) >= 0, whose mean estimates the policy's value.

    Concrete scores are small frozen dataclasses. They state two properties:

    - `linear`: rho = pi * gain, with a gain that does not depend on the policy; such a score can be
    given to an oracle.
    - `pessimistic`: 0 <= rho <= log(1 + lam * y) / lam with y = pi R / mu and lam the score's bet
      size; then lower bounds on the value hold for one policy, and for all of a class Pi at the
      price of log|Pi| (Sakhi et al. 2024; docs/theory.md). IX has this property for rewards of at
      most 1.
    """

    name: ClassVar[str]
    """Short name, as on the command line."""
    label: ClassVar[str]
    """Name in tables and figures."""
    linear: ClassVar[bool] = True
    pessimistic: ClassVar[bool] = False
    penalized: ClassVar[bool] = False
    """Whether the hyper-parameter weighs a penalty, and may be 0."""
    parameter: ClassVar[str | None] = None
    """Name of the one hyper-parameter, None where there is none."""
    relative: ClassVar[bool] = False
    """Whether it credits what a policy improves on the logging policy."""
    dense: ClassVar[bool] = False
    """Whether actions not taken have gains too (`dense_gains`): it learns, and is no estimate of a
    value."""
    needs_upper_end: ClassVar[bool] = False
    """Whether its bounds hold for rewards of at most 1 only, so that a log must declare an upper
    end."""
    small_bets: ClassVar[bool] = False
    """Whether a grid of it begins with gamma = 1 (`piwo.bounds.gamma_grid_ix`), others' with a bet
    of 32."""
    regret_known: ClassVar[bool] = False
    """Whether the theorems of docs/grid.md bound the regret of what is learned with it."""
    per_gamma: ClassVar[float] = 1.0
    """The hyper-parameter that goes with gamma = 1 of IX: 2 for the bet size lam."""
    of_gamma: ClassVar[str] = "{}"
    """How the hyper-parameter is made from a gamma of IX, in words: "2 {}" for the bet size lam."""
    largest: ClassVar[float] = np.inf
    """The largest value that the hyper-parameter may have."""
    auto_finite: ClassVar[str] = "the same as for IX, by analogy: there is no theory for this score"
    """What "auto" rests on for a finite class of policies."""

    def __post_init__(self) -> None:
        if self.parameter is None:
            return
        asked = getattr(self, self.parameter)
        if isinstance(asked, list):
            object.__setattr__(self, self.parameter, tuple(asked))
        value = getattr(self, self.parameter)
        check_parameter(
            self.parameter, value, positive=self.penalized is False, largest=self.largest
        )

    @classmethod
    @abstractmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return the (n, S) sparse gains for S values of the hyper-parameter at once; the formula's one home.

        Args:
            batch: the rows.
            parameters: (S,) values; their number alone counts for a score without hyper-parameter.

        Raises:
            UsageError: for a score that is not linear in the policy.
        """

    def gains(self, batch: Batch) -> Floats:
        """Return the (n,) sparse gains: what action A_t is worth to a policy that plays it in row t.

        Raises:
            UsageError: for a score that is not linear in the policy.
        """
        return self.gains_path(batch, np.array([self.value or 0.0]))[:, 0]

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return the (n,) credits of a policy with probabilities pi, (n,), of the logged actions."""
        return pi * self.gains(batch)

    @property
    def number(self) -> float:
        """The hyper-parameter, which must be settled.

        Raises:
            UsageError: where it is "auto" or a path; `evaluate` and learners settle those.
        """
        value = self.value
        if value is None:
            raise UsageError(f"{self.label} has no hyper-parameter")
        return value

    @property
    def value(self) -> float | None:
        """The value of the hyper-parameter, None where there is none.

        Raises:
            UsageError: where it is "auto" or a path; `evaluate` and learners settle those.
        """
        asked = self.asked
        if isinstance(asked, str | tuple):
            raise UsageError(
                f"{self.parameter} of {self.label} is {asked!r}, expected one number by now; see "
                ".at(0.1)"
            )
        return None if asked is None else float(asked)

    @property
    def gamma_equivalent(self) -> float | None:
        """The gamma of IX that the hyper-parameter amounts to (lam / 2 for a bet size); None without one."""
        return None if self.value is None else self.value / self.per_gamma

    def at_gamma(self, gamma: float) -> Self:
        """Return the same score with the hyper-parameter that goes with this gamma of IX."""
        return self.at(self.per_gamma * gamma)

    def changed(self, batch: Batch, pi: Floats) -> Any:
        """Return the (n,) mask of rows whose weight is not pi/mu."""
        return np.zeros(len(batch), np.bool_) if self.parameter is None else pi > 0

    def note_on_changed(self, rows: int) -> str | None:  # noqa: ARG002 (for scores that tell it)
        """Return what must be known of the rows whose weight was changed; None for scores that change nearly all."""
        return None

    @property
    def asked(self) -> float | str | tuple[float, ...] | None:
        """The hyper-parameter as the user gave it: a number, "auto", or several numbers (a path)."""
        asked: float | str | tuple[float, ...] | None
        asked = None if self.parameter is None else getattr(self, self.parameter)
        return asked

    def at(self, value: float) -> Self:
        """Return the same score with another hyper-parameter."""
        return self if self.parameter is None else replace(self, **{self.parameter: float(value)})  # type: ignore[type-var]

    @property
    def bet(self) -> float | None:
        """Lam, the bet size of a pessimistic score (lam = 2 gamma for IX), None for other scores."""
        gamma = self.gamma_equivalent if self.pessimistic else None
        return None if gamma is None else 2.0 * gamma

    def variants(self) -> Sequence[Score]:
        """Return the scores that this one stands for: itself, or one for each setting beside the hyper-parameter."""
        return (self,)

    @property
    def admissible(self) -> bool:
        """Whether the mean g of its credits bounds the value (the improvement, if `relative`) from below.

        For all of a class at once, by (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - shift with
        probability 1 - delta.
        """
        return self.pessimistic and self.linear

    @property
    def wants_model(self) -> bool:
        """Whether it asks for a reward model, which a learner fits to the rows that it learns from."""
        return False

    @property
    def needs_context(self) -> bool:
        """Whether its gains look at the context."""
        return False

    def with_model(self, model: Any) -> Score:
        """Return the score with predicted rewards.

        Args:
            model: predictions; or "forward", for a learner to fit.

        Raises:
            UsageError: for scores that take none.
        """
        raise UsageError(
            f"{self.label} takes no reward model, got {model!r:.40}; use DoublyRobustLS"
        )

    @property
    def key(self) -> Any:
        """What tells the scores of a path apart: the hyper-parameter, with any other setting."""
        return self.value

    @property
    def shift(self) -> float:
        """By how much the bets on dense gains are raised: v >= bound - shift."""
        return 0.0

    @property
    def dense_weight(self) -> float:
        """The weight of the dense gains, G[t, a] = 1{a = A_t} gains[t] + weight dense[t, a]; 0 without them."""
        return 0.0

    def dense_gains(self, batch: Batch) -> DenseGains:  # noqa: ARG002 (for scores that have them)
        """Return the part of the gains that actions not taken have too, (n, K), without its weight.

        Asked for only where `dense_weight` is not 0; the batch then has full propensity vectors.
        """
        raise AssertionError(f"{self.label} has sparse gains")


def check_parameter(name: str, value: Any, positive: bool = True, largest: float = np.inf) -> None:
    """Raise where a hyper-parameter is neither a finite number above 0 (or at least 0), "auto", nor several numbers.

    Raises:
        UsageError: naming the parameter, the value and the rule.

    >>> check_parameter("gamma", 0.1)
    >>> check_parameter("gamma", "auto")
    """
    if isinstance(value, str) and value == "auto":
        return
    numbers = value if isinstance(value, tuple) and value else (value,)
    for one in numbers:
        good = (
            isinstance(one, int | float | np.floating | np.integer)
            and not isinstance(one, bool)
            and np.isfinite(one)
        )
        if not good or one < 0 or (positive and one == 0) or one > largest:
            least = "above 0" if positive else "of at least 0"
            most = "" if largest == np.inf else f" and at most {largest:g}"
            raise UsageError(
                f"{name} is {one!r}, expected a finite number {least}{most}, several of them, or "
                "'auto'"
            )
