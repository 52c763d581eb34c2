"""What a score is: the credit that a policy gets for one logged row."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.messages import argument

__all__ = ["DenseGains", "GammaScale", "Parameter", "Score", "check_parameter"]

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
    """(K,) at least 0; above 0 only if the gains may be beyond float64."""

    @property
    def table(self) -> Floats:
        """The gains themselves, (n, K); infinite if they are beyond float64."""
        if not self.scale.any():
            return self.values
        with np.errstate(over="ignore"):
            return self.values * np.exp(self.scale)


@dataclass(frozen=True)
class GammaScale:
    """How the hyper-parameter of a score corresponds to the gamma of IX.

    Theory and grids choose a gamma; each score converts it to its own hyper-parameter.

    >>> bet_size = GammaScale("2 {}", lambda gamma: 2.0 * gamma, lambda lam: lam / 2.0)
    >>> bet_size.words.format("sqrt(d/n)"), bet_size.of(0.1)
    ('2 sqrt(d/n)', 0.2)
    """

    words: str = "{}"
    """The formula in words, with braces in place of gamma."""
    of: Callable[[float], float] = lambda gamma: gamma
    """Converts a gamma to the hyper-parameter."""
    back: Callable[[float], float] = lambda own: own
    """Converts the hyper-parameter to a gamma."""


class Score:
    """Credits a policy for each row: rho(pi, mu, R) >= 0, whose mean estimates the policy's value.

    Concrete scores are small frozen dataclasses. A score that is linear in the policy defines
    `gains_path`, any other sets `linear = False` and defines `rho`. Two properties matter most:

    - `linear`: rho = pi * gain, with a gain that does not depend on the policy; such a score can be
      given to an oracle.
    - `pessimistic`: 0 <= rho <= log(1 + lam * y) / lam with y = pi R / mu and lam the score's bet
      size; then lower bounds on the value hold for one policy, and for all of a class Pi at the
      price of log|Pi| (Sakhi et al. 2024; docs/theory.md). IX has this property for rewards of at
      most 1.

    >>> from piwo.scores import IX
    >>> score = IX().at_gamma(0.1)
    >>> score.linear, score.value, score.bet
    (True, 0.1, 0.2)
    """

    name: ClassVar[str]
    """Short name, as on the command line."""
    label: ClassVar[str]
    """Name in tables and figures."""
    linear: ClassVar[bool] = True
    instead: ClassVar[str] = "LSLinear"
    """Label of a score to learn with, for a score that is not linear."""
    pessimistic: ClassVar[bool] = False
    parameter: ClassVar[str | None] = None
    """Name of the one hyper-parameter; None if there is none."""
    penalized: ClassVar[bool] = False
    """Whether the hyper-parameter is the weight of a penalty, and may be 0."""
    largest: ClassVar[float] = np.inf
    """The largest value that the hyper-parameter may have."""
    gamma_scale: ClassVar[GammaScale] = GammaScale()
    """How the hyper-parameter corresponds to the gamma of IX."""
    relative: ClassVar[bool] = False
    """Whether it credits the improvement of a policy over the logging policy."""
    dense: ClassVar[bool] = False
    """Whether actions not taken have gains too (`dense_gains`): such a score serves learning, and
    its mean is not an estimate of a value."""
    needs_upper_end: ClassVar[bool] = False
    """Whether its bounds hold only for rewards of at most 1, so that the log must declare an upper
    end."""
    small_bets: ClassVar[bool] = False
    """Whether its grid begins with gamma = 1 (`piwo.bounds.gamma_grid_ix`) instead of a bet of
    32."""
    regret_known: ClassVar[bool] = False
    """Whether the theorems of docs/grid.md bound the regret of what is learned with it."""

    def __post_init__(self) -> None:
        if self.parameter is None:
            return
        value = getattr(self, self.parameter)
        if isinstance(value, list):
            value = tuple(value)
            object.__setattr__(self, self.parameter, value)
        check_parameter(self.parameter, value, positive=not self.penalized, largest=self.largest)

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:  # noqa: ARG003
        """Return the (n, S) sparse gains for S values of the hyper-parameter: the formula's home.

        Args:
            batch: the rows.
            parameters: (S,) values; only their number matters for a score without hyper-parameter.

        Raises:
            UsageError: for a score that is not linear in the policy.
        """
        raise UsageError(
            f"{cls.label} is not linear in the policy, so it gives no gains; learn with "
            f"{cls.instead}"
        )

    def gains(self, batch: Batch) -> Floats:
        """Return the (n,) sparse gains: the credit of a policy that plays A_t in row t.

        Raises:
            UsageError: for a score that is not linear in the policy.
        """
        return self.gains_path(batch, np.array([self.value or 0.0]))[:, 0]

    def rho(self, batch: Batch, pi: Floats) -> Floats:
        """Return the (n,) credits of a policy that plays the logged actions with pi, (n,)."""
        return pi * self.gains(batch)

    @property
    def asked(self) -> float | str | tuple[float, ...] | None:
        """The hyper-parameter as given: a number, "auto", or several numbers (a path)."""
        if self.parameter is None:
            return None
        given: float | str | tuple[float, ...] = getattr(self, self.parameter)
        return given

    @property
    def value(self) -> float | None:
        """The value of the hyper-parameter; None if the score has none.

        Raises:
            UsageError: if it is "auto" or a path; `evaluate` and learners settle those.
        """
        asked = self.asked
        if isinstance(asked, str | tuple):
            raise UsageError(
                f"{self.parameter} of {self.label} is {asked!r}, expected one number by now; see "
                ".at(0.1)"
            )
        if asked is None:
            return None
        return float(asked)

    @property
    def number(self) -> float:
        """The value of a hyper-parameter that the score must have.

        Raises:
            UsageError: if there is none, or if it is "auto" or a path.
        """
        value = self.value
        if value is None:
            raise UsageError(f"{self.label} has no hyper-parameter")
        return value

    def at(self, value: float) -> Self:
        """Return the same score with another hyper-parameter."""
        if self.parameter is None:
            return self
        return replace(self, **{self.parameter: float(value)})  # type: ignore[type-var]

    def at_gamma(self, gamma: float) -> Self:
        """Return the same score with the hyper-parameter that corresponds to this gamma of IX."""
        return self.at(self.gamma_scale.of(gamma))

    @property
    def gamma_equivalent(self) -> float | None:
        """The gamma of IX to which the hyper-parameter corresponds; None without one."""
        if self.value is None:
            return None
        return self.gamma_scale.back(self.value)

    @property
    def bet(self) -> float | None:
        """The bet size lam of a pessimistic score (2 gamma for IX); None for other scores."""
        gamma = None
        if self.pessimistic:
            gamma = self.gamma_equivalent
        if gamma is None:
            return None
        return 2.0 * gamma

    @property
    def admissible(self) -> bool:
        """Whether the mean g of its credits bounds the value (if `relative`, the improvement).

        The lower bound (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - shift then holds for all policies
        of a class at once with probability 1 - delta.
        """
        return self.pessimistic and self.linear

    def changed(self, batch: Batch, pi: Floats) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of rows whose weight is not pi/mu."""
        if self.parameter is None:
            return np.zeros(len(batch), np.bool_)
        return np.asarray(pi > 0)

    def note_on_changed(self, rows: int) -> str | None:  # noqa: ARG002 (for scores that have one)
        """Return a note on rows with a changed weight; None for scores that change nearly all."""
        return None

    def variants(self) -> Sequence[Score]:
        """Return the scores to try: itself, or one for each combination of its other settings."""
        return (self,)

    @property
    def key(self) -> Any:
        """The key of the score on a path: the hyper-parameter, with any other setting."""
        return self.value

    @property
    def needs_context(self) -> bool:
        """Whether its gains depend on the context."""
        return False

    @property
    def wants_model(self) -> bool:
        """Whether it asks for a reward model, which a learner fits to its training rows."""
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
    def shift(self) -> float:
        """The constant added to the bets on dense gains: v >= bound - shift."""
        return 0.0

    @property
    def dense_weight(self) -> float:
        """The weight of dense gains: G[t, a] = 1{a = A_t} gains[t] + weight dense[t, a]."""
        return 0.0

    def dense_gains(self, batch: Batch) -> DenseGains:  # noqa: ARG002 (for scores that have them)
        """Return the part of the gains that actions not taken have too, (n, K), without its weight.

        Called only if `dense_weight` is not 0; the batch then has full propensity vectors.
        """
        raise AssertionError(f"{self.label} has sparse gains")


def check_parameter(name: str, value: Any, positive: bool = True, largest: float = np.inf) -> None:
    """Check that a hyper-parameter is a finite number in range, several of them, or "auto".

    Args:
        name: of the argument.
        value: the hyper-parameter.
        positive: whether it must be above 0; otherwise 0 is allowed.
        largest: the largest value.

    Raises:
        UsageError: naming the argument, the value and the rule.

    >>> check_parameter("gamma", 0.1)
    >>> check_parameter("gamma", "auto")
    """
    if isinstance(value, str) and value == "auto":
        return
    if isinstance(value, tuple) and value:
        numbers = value
    else:
        numbers = (value,)
    for one in numbers:
        if not _in_range(one, positive, largest):
            least = "of at least 0"
            if positive:
                least = "above 0"
            most = ""
            if largest != np.inf:
                most = f" and at most {largest:g}"
            raise UsageError(
                f"{argument(name)} is {one!r}, expected a finite number {least}{most}, several "
                "of them, or 'auto'"
            )


def _in_range(one: Any, positive: bool, largest: float) -> bool:
    # True and False are integers in Python
    if isinstance(one, bool) or not isinstance(one, int | float | np.floating | np.integer):
        return False
    if not np.isfinite(one) or one < 0 or (positive and one == 0):
        return False
    return bool(one <= largest)
