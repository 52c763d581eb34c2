"""A bandit whose actions have features and change from row to row, with known values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from piwo.checks import check_count, check_finite, check_kind, check_non_negative, is_number, shown
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.eligible import Eligible
from piwo.logs.items import items_of
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy, aligned
from piwo.policies.restricted import draw_pairs, softmax
from piwo.policies.sampling import RandomState, generator

__all__ = ["ItemBandit"]


@dataclass(frozen=True)
class ItemBandit:
    """Users, items with features, and in each situation a few candidates among the items.

    Answers: what is a policy over items worth, exactly? There are finitely many situations, each a
    user x and a set of candidates, all as likely, so a value is a mean over them.

    Formula: P(R = 1 | x, a) = sigmoid(x'W z_a + bias + wave sin(2 x_1 z_a1)), x and z_a standard
    normal, W with standard normal entries over sqrt(context features). The logger draws among the
    candidates from a softmax of peak x'V z_a, V = W + noise, so it prefers good items, imperfectly.

    Args:
        items: K, the number of items.
        candidates: how many are eligible in a situation; None: all items.
        context: d, columns of the context.
        features: f, columns of the items.
        situations: M, how many differ.
        bias: of the logits of the reward.
        wave: size of the part of the logits that no product of context and item expresses.
        peak: how sure the logger is, at least 0; 0: uniform.
        seed: of users, items and W.

    Raises:
        UsageError: for counts that are too small, or more candidates than items.

    >>> bandit = ItemBandit(items=30, candidates=5, situations=200)
    >>> 0.0 < bandit.logging_value < bandit.optimal_value < 1.0
    True
    >>> log = bandit.log(100, random_state=0)
    >>> len(log), len(log.actions), log.columns.eligible
    (100, 30, 'eligible')
    """

    items: int = 500
    candidates: int | None = 20
    context: int = 5
    features: int = 5
    situations: int = 5_000
    bias: float = 0.0
    wave: float = 0.0
    peak: float = 0.5
    seed: int = 0

    def __post_init__(self) -> None:
        for name, least in (("items", 2), ("context", 1), ("features", 1), ("situations", 1)):
            check_count(name, getattr(self, name), least)
        if self.candidates is not None:
            check_count("candidates", self.candidates, 1)
            if self.candidates > self.items:
                raise UsageError(
                    f"{argument('candidates')} is {self.candidates} for {self.items} items, "
                    "expected at most as many"
                )
        for name in ("bias", "wave", "peak"):
            value = getattr(self, name)
            if not is_number(value):
                raise UsageError(f"{argument(name)} is {shown(value)}, expected a number")
            check_finite(name, value)
        check_non_negative("peak", self.peak)
        check_count("seed", self.seed, 0)

    @cached_property
    def users(self) -> Floats:
        """The context of each situation, (M, d)."""
        made: Floats = self._random(0).normal(size=(self.situations, self.context))
        return made

    @cached_property
    def table(self) -> Floats:
        """The features of the items, (K, f)."""
        made: Floats = self._random(1).normal(size=(self.items, self.features))
        return made

    @cached_property
    def weights(self) -> Floats:
        """W, (d, f)."""
        drawn: Floats = self._random(2).normal(size=(self.context, self.features))
        return np.asarray(drawn / np.sqrt(self.context))

    @cached_property
    def eligible(self) -> Eligible:
        """The candidates of each situation, in a random order."""
        count = self.candidates or self.items
        random = self._random(3)
        codes = np.empty((self.situations, count), np.int32)
        for situation in codes:
            situation[:] = random.choice(self.items, count, replace=False)
        return Eligible(np.arange(self.situations + 1) * count, codes.ravel())

    @cached_property
    def actions(self) -> Actions:
        """The labels 0..K-1, with the features z0, z1, ... of the items."""
        columns = {f"z{j}": self.table[:, j] for j in range(self.features)}
        return items_of(pa.table({"action": range(self.items), **columns}), "action")

    @cached_property
    def chances(self) -> Floats:
        """P(R = 1) of each pair of a situation and a candidate, (m,)."""
        logits = self._bilinear(self.weights) + self.bias
        first = self.users[self.eligible.rows, 0] * self.table[self.eligible.codes, 0]
        logits += self.wave * np.sin(2.0 * first)
        # sigmoid(s) = exp(-log(1 + exp(-s))), without overflow
        return np.asarray(np.exp(-np.logaddexp(0.0, -logits)))

    @cached_property
    def propensities(self) -> Floats:
        """The logger's probability of each pair, (m,)."""
        noise = self._random(4).normal(size=self.weights.shape) / np.sqrt(self.context)
        return softmax(self.peak * self._bilinear(self.weights + noise), self.eligible)

    @property
    def logging_value(self) -> float:
        """The true value of the logger."""
        return self._mean(self.propensities)

    @property
    def optimal_value(self) -> float:
        """The true value of the policy that takes the best candidate in each situation."""
        best = np.maximum.reduceat(self.chances, self.eligible.starts[:-1])
        return float(best.mean())

    def value(self, policy: Policy) -> float:
        """Return the true value of a policy over these items, restricted to the candidates.

        >>> import piwo
        >>> bandit = ItemBandit(items=3, candidates=2, situations=10)
        >>> 0.0 < bandit.value(piwo.policies.Uniform(bandit.actions)) < bandit.optimal_value
        True
        """
        check_kind("policy", policy, Policy, " of piwo.policies")
        over = aligned(policy, self.actions)
        context = None
        if over.needs_context:
            context = over.context(self.users)
        return self._mean(over.within(context, self.eligible))

    def log(self, n: int, random_state: RandomState, eligible: bool = True) -> Log:
        """Return a log of n rows, with items.

        Args:
            n: rows.
            random_state: a seed, or a numpy Generator, which advances.
            eligible: whether the log states the candidates; without them, a learner takes all
                items for eligible.
        """
        check_count("n", n, 1)
        rng = generator(random_state)
        which = rng.integers(self.situations, size=n)
        some = self.eligible.take(which)
        pairs = self.eligible.starts[which]
        # The pairs of each situation, one after the other.
        places = np.repeat(pairs - some.starts[:-1], some.sizes) + np.arange(len(some.codes))
        taken = draw_pairs(self.propensities[places], some, rng)
        lists = None
        if eligible:
            lists = pa.ListArray.from_arrays(
                pa.array(some.starts, pa.int32()), pa.array(some.codes)
            )
        return Log.from_arrays(
            action=some.codes[taken],
            reward=(rng.random(n) < self.chances[places[taken]]) * 1.0,
            propensity=self.propensities[places[taken]],
            context=self.users[which],
            eligible=lists,
            items={
                "action": np.arange(self.items),
                **{f"z{j}": self.table[:, j] for j in range(self.features)},
            },
        )

    def _random(self, part: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, part])

    def _bilinear(self, weights: Floats) -> Floats:
        """Return x'W z_a of each pair, (m,)."""
        projected = self.users @ weights
        items = self.table[self.eligible.codes]
        return np.asarray(np.einsum("mj,mj->m", projected[self.eligible.rows], items))

    def _mean(self, chances: Floats) -> float:
        """Return the value of a policy with the given probabilities of all pairs."""
        return float(chances @ self.chances) / self.situations
