"""Doubly robust LS: logarithmic smoothing of a reward model corrected by what was logged, for every action."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Protocol, runtime_checkable

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.scores.bet_score import DenseBetScore
from piwo.scores.ratio import over, vectors_of
from piwo.scores.score import Score, check_parameter

__all__ = ["FORWARD", "DoublyRobustLS", "RewardGuess"]

FORWARD = "forward"
"""What q is called that a learner fits, each row's on earlier rows alone."""


@runtime_checkable
class RewardGuess(Protocol):
    """Predicts what each action would have earned, from nothing that a row or a later one says of rewards."""

    def of(self, batch: Batch) -> Floats:
        """Return q(X_t, a) >= 0 on the unit scale, (n, K)."""


@dataclass(frozen=True)
class DoublyRobustLS(DenseBetScore):
    """Doubly robust gains, smoothed: every action gets what a model guesses, the logged one its correction too.

    Answers what LSLinear answers, with less noise, and without its habit of imitating the logger
    where all rewards are high: an action not taken is credited with q, not with 0. A constant q
    helps much already. Needs full propensity vectors, and an oracle that takes dense gains (ridge,
    exhaustive).

    Formula: G[t, a] = log(1 + lam Y_t(a)) / lam, Y_t(a) = 1{A_t = a} (R_t - b_a) / mu_a + b_a + k
    >= 0, b_a = min(q(X_t, a), k mu(a|X_t)). With g the mean of sum_a pi(a|X_t) G[t, a] and all
    policies of a class, v(pi) >= (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - k with probability 1 -
    delta.
    Source: docs/theory.md, section "Doubly robust learning".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).
        q: a guess of the reward on the unit scale: a number of at least 0, the same for all
            actions; several, from which a learner chooses as from a path; a `RewardGuess`; or
            "forward": the learner fits one to the rows that it learns from, each row's on earlier
            rows alone (`piwo.estimators.forward_model`). A held-out certificate then rests on rows
            that q never saw, an in-sample one pays for the whole class, whatever q is.
        k: above 0; how far below 0 the correction may reach. Several: a learner chooses.

    Raises:
        UsageError: for numbers out of range.

    >>> import numpy as np
    >>> batch = Batch(
    ...     0,
    ...     np.zeros(1, np.int32),
    ...     np.ones(1),
    ...     np.array([0.5]),
    ...     propensities=np.array([[0.5, 0.5]]),
    ... )
    >>> np.expm1(DoublyRobustLS(1.0, q=0.5, k=4.0).dense_gains(batch).table).round(12).tolist()
    [[5.5, 4.5]]
    """

    q: float | tuple[float, ...] | RewardGuess | str = (0.25, 0.5, 0.75, 1.0)
    k: float | tuple[float, ...] = 4.0
    name: ClassVar[str] = "dr-ls"
    label: ClassVar[str] = "DR-LS"

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, positive in (("q", False), ("k", True)):
            value = getattr(self, name)
            if isinstance(value, list):
                value = tuple(value)
                object.__setattr__(self, name, value)
            if name == "q" and (isinstance(value, RewardGuess) or value == FORWARD):
                continue
            if isinstance(value, str):
                also = f", or {FORWARD!r}" if name == "q" else ""
                raise UsageError(
                    f"{name} of {self.label} is {value!r}, expected a number, or several{also}"
                )
            check_parameter(name, value, positive=positive)

    def variants(self) -> list[Score]:
        """Return one score for each q and each k."""
        guesses = self.q if isinstance(self.q, tuple) else (self.q,)
        shifts = self.k if isinstance(self.k, tuple) else (self.k,)
        return [DoublyRobustLS(self.lam, q, k) for q in guesses for k in shifts]

    @property
    def wants_model(self) -> bool:
        """Whether q is to be fitted by a learner."""
        return isinstance(self.q, str)

    @property
    def needs_context(self) -> bool:
        """Whether q looks at the context."""
        return bool(getattr(self.q, "needs_context", False))

    def with_model(self, model: RewardGuess | str) -> DoublyRobustLS:
        """Return the score with predicted rewards for q."""
        return replace(self, q=model)

    @property
    def key(self) -> tuple[float | None, ...]:
        """Lam, q and k; None for a q that is no number."""
        return (self.value, float(self.q) if isinstance(self.q, int | float) else None, self.shift)

    @property
    def shift(self) -> float:
        """K.

        Raises:
            UsageError: where it is several numbers; learners settle those.
        """
        if isinstance(self.k, tuple):
            raise UsageError(
                f"k of {self.label} is {self.k}, expected one number by now; see .variants()"
            )
        return float(self.k)

    def parts(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        """Return b_a + k, (n, K), and b + k - b/mu_a and R_t of the logged actions.

        Raises:
            UsageError: where the log has no full vectors.
        """
        k, mu = self.shift, vectors_of(batch, self.label)
        guess = self._guess(batch, mu.shape[1])
        # at the logged action b/mu = min(q/mu, k), finite where q/mu is not
        mu_a, q_a = (
            batch.propensity,
            np.broadcast_to(guess, mu.shape)[np.arange(len(batch)), batch.action],
        )
        rest = np.minimum(q_a, k * mu_a) + (k - np.minimum(over(q_a, mu_a), k))
        return np.minimum(guess, k * mu) + k, rest, batch.reward

    def _guess(self, batch: Batch, actions: int) -> Floats:
        if isinstance(self.q, RewardGuess):
            found = self.q.of(batch)
            if found.shape != (len(batch), actions):
                raise UsageError(
                    f"q gave shape {found.shape}, expected ({len(batch)}, {actions}): one guess an "
                    "action"
                )
            return np.maximum(found, 0.0)
        if isinstance(self.q, str):
            raise UsageError(
                f"q of {self.label} is {self.q!r}, which a learner fits; learn with PIWO, PIWOGrid "
                "or Auto, or give q=piwo.estimators.forward_model(log)"
            )
        if isinstance(self.q, tuple):
            raise UsageError(
                f"q of {self.label} is {self.q}, expected one number by now; see .variants()"
            )
        return np.full((1, 1), float(self.q))
