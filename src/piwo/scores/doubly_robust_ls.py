"""Doubly robust LS: logarithmic smoothing of a reward model corrected by the logged rewards."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.messages import argument
from piwo.scores.bet_score import DenseBetScore
from piwo.scores.ratio import over, vectors_of
from piwo.scores.score import Score, check_parameter

__all__ = ["FORWARD", "DoublyRobustLS", "RewardGuess"]

FORWARD = "forward"
"""The value of q that asks a learner to fit it, for each row on earlier rows alone."""


@runtime_checkable
class RewardGuess(Protocol):
    """Predicts the reward of each action without using the reward of that row or of later ones."""

    def of(self, batch: Batch) -> Floats:
        """Return q(X_t, a) >= 0 on the unit scale, (n, K)."""


@dataclass(frozen=True)
class DoublyRobustLS(DenseBetScore):
    """Doubly robust gains, smoothed: a model's prediction for every action, corrected where logged.

    Answers what LSLinear answers, with less noise, and without its tendency to imitate the logger
    if all rewards are high: an action not taken is credited with q, not with 0. Even a constant q
    helps much. Needs full propensity vectors, and an oracle that takes dense gains (ridge,
    exhaustive).

    Formula: G[t, a] = log(1 + lam Y_t(a)) / lam, Y_t(a) = 1{A_t = a} (R_t - b_a) / mu_a + b_a + k
    >= 0, b_a = min(q(X_t, a), k mu(a|X_t)). With g the mean of sum_a pi(a|X_t) G[t, a], v(pi) >=
    (exp(lam g - log(|Pi|/delta)/n) - 1)/lam - k with probability 1 - delta, for all policies of a
    class at once.
    Source: docs/theory.md, section "Doubly robust learning".

    Args:
        lam: the bet size, 2 gamma in terms of IX; a number, "auto" or several (see `IX`).
        q: a prediction of the reward on the unit scale: a number of at least 0, the same for all
            actions; several, from which a learner chooses as from a path; a `RewardGuess`; or
            "forward": the learner fits a model to its training rows, for each row on earlier rows
            alone (`piwo.estimators.forward_model`). A held-out certificate then rests on rows that
            q never saw; an in-sample one is valid for the whole class, whatever q is.
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
                also = ""
                if name == "q":
                    also = f", or {FORWARD!r}"
                raise UsageError(
                    f"{argument(name)} of {self.label} is {value!r}, expected a number, or "
                    f"several{also}"
                )
            check_parameter(name, value, positive=positive)

    def variants(self) -> list[Score]:
        """Return one score for each q and each k."""
        guesses: tuple[Any, ...]
        if isinstance(self.q, tuple):
            guesses = self.q
        else:
            guesses = (self.q,)
        if isinstance(self.k, tuple):
            shifts = self.k
        else:
            shifts = (self.k,)
        return [DoublyRobustLS(self.lam, q, k) for q, k in product(guesses, shifts)]

    @property
    def wants_model(self) -> bool:
        """Whether a learner has to fit q."""
        return isinstance(self.q, str)

    @property
    def needs_context(self) -> bool:
        """Whether q depends on the context."""
        return bool(getattr(self.q, "needs_context", False))

    def with_model(self, model: RewardGuess | str) -> DoublyRobustLS:
        """Return the score with predicted rewards for q."""
        return replace(self, q=model)

    @property
    def key(self) -> tuple[float | None, ...]:
        """Lam, q and k; None for a q that is a model."""
        q = None
        if isinstance(self.q, int | float):
            q = float(self.q)
        return (self.value, q, self.shift)

    @property
    def shift(self) -> float:
        """K.

        Raises:
            UsageError: if it is several numbers; learners settle those.
        """
        if isinstance(self.k, tuple):
            raise UsageError(
                f"k of {self.label} is {self.k}, expected one number by now; see .variants()"
            )
        return float(self.k)

    def parts(self, batch: Batch) -> tuple[Floats, Floats, Floats]:
        """Return b_a + k, (n, K), and b + k - b/mu_a and R_t of the logged actions.

        Raises:
            UsageError: if the log has no full vectors.
        """
        k, mu = self.shift, vectors_of(batch, self.label)
        guess = self._guess(batch, mu.shape[1])
        # a != A_t: Y(a) = b_a + k, b_a = min(q, k mu_a)
        others = np.minimum(guess, k * mu) + k
        # a = A_t: Y(a) = b_a + k - b_a/mu_a + R/mu_a, and b_a/mu_a = min(q/mu_a, k), which is
        # finite even if q/mu_a is not
        mu_a = batch.propensity
        q_a = np.broadcast_to(guess, mu.shape)[np.arange(len(batch)), batch.action]
        rest = np.minimum(q_a, k * mu_a) + (k - np.minimum(over(q_a, mu_a), k))
        return others, rest, batch.reward

    def _guess(self, batch: Batch, actions: int) -> Floats:
        """Return q, (n, K), or (1, 1) for a constant."""
        if isinstance(self.q, RewardGuess):
            found = self.q.of(batch)
            if found.shape != (len(batch), actions):
                raise UsageError(
                    f"q gave shape {found.shape}, expected ({len(batch)}, {actions}): one "
                    "prediction for each action"
                )
            # a model may predict less than 0, Y may not
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
