"""From a case to its log, and to the exact value of every policy on rows that nobody saw."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

import piwo
from benchmarks.quality.cases import Case
from piwo.logs.batch import Floats
from piwo.simulate import ClassificationBandit

__all__ = ["World", "missing", "world"]

Codes = npt.NDArray[np.intp]

FRESH = 5000
"""At most so many rows value the policies."""
SEEN = 0.1
"""Fraction of the rows to learn from that a logger was made from."""
ROWS = 20_000
"""Rows of a synthetic data set, for logs of up to 10,000 rows."""
TEMPERATURES = {
    "softmax 0.5": 0.5,
    "softmax 5": 5.0,
    "softmax 50": 50.0,
    "softmax 500": 500.0,
    "reversed": -5.0,
}
_BUNDLED = ("digits", "cancer")
_SYNTHETIC = ("blobs-", "clusters-", "network-")
_FILES = {"letter": "letter.parquet", "bng-letter": "bng_letter_1m.parquet"}


class Labeled(NamedTuple):
    """Contexts, and classes 0..K-1."""

    x: Floats
    y: Codes


class Rewards(NamedTuple):
    """Mean rewards (action, class) in the unit of the log, and how single rewards are drawn."""

    mean: Floats
    draw: Callable[[Floats, Codes, np.random.Generator], Floats]
    """From the mean rewards of the rows and their actions."""
    low: float = 0.0
    high: float = 1.0

    @property
    def spread(self) -> float:
        return float(self.mean.max() - self.mean.min())


@dataclass(frozen=True)
class World:
    """One log, with what is needed to judge the policies that are learned from it."""

    log: piwo.Log
    x: Floats
    action: Codes
    reward: Floats
    """On the unit scale."""
    propensity: Floats
    actions: int
    fresh: Floats
    """Contexts of the rows that value the policies."""
    fresh_rewards: Floats
    """(m, K) mean rewards of these rows, in the unit of the log."""
    logged: float
    skyline: float
    spread: float
    seed: int

    def value(self, played: npt.NDArray[Any]) -> float:
        """Return the exact mean reward of codes (m,), or of probabilities (m, K)."""
        if played.ndim == 2:
            return float(np.einsum("ij,ij->", played, self.fresh_rewards)) / len(self.fresh)
        return float(self.fresh_rewards[np.arange(len(played)), played].mean())


def missing(data: str, folder: Path) -> str | None:
    """Return why a data set cannot be used, or None."""
    if data in _BUNDLED or data.startswith(_SYNTHETIC):
        return None
    path = folder / _file(data)
    if path.exists():
        return None
    return f"there is no {path}"


def world(case: Case, folder: Path) -> World:
    """Return the log of a case."""
    labeled, fresh = _halves(case.data, folder, case.seed, *_rows(case))
    k = case.actions
    rewards = _rewards(case.rewards, k, case.seed)
    # the seed of a log depends on the case alone
    rng = np.random.default_rng(
        [case.seed, case.size, *case.rewards.encode(), *case.logger.encode()]
    )
    bandit = ClassificationBandit(
        labeled.x,
        labeled.y,
        rewards=(rewards.mean - rewards.mean.min()) / rewards.spread,
        actions=range(k),
    )
    logger = _logger(case, bandit)
    if case.own_size:
        drawn = rng.permutation(case.size)
    else:
        drawn = rng.integers(0, len(labeled.y), case.size)
    x, y = labeled.x[drawn], labeled.y[drawn]
    made = logger.act(x, rng, n=case.size)
    action = np.asarray(made.actions, np.intp)
    reward = rewards.draw(rewards.mean[action, y], action, rng)
    return World(
        log=piwo.Log.from_arrays(
            context=x,
            action=action,
            reward=reward,
            propensity=made.propensities,
            actions=range(k),
            reward_range=(rewards.low, rewards.high),
        ),
        x=x,
        action=action,
        reward=(reward - rewards.low) / (rewards.high - rewards.low),
        propensity=made.propensities,
        actions=k,
        fresh=fresh.x,
        fresh_rewards=rewards.mean.T[fresh.y],
        logged=_value(logger, fresh, rewards),
        skyline=_skyline(case, folder, rewards, fresh),
        spread=rewards.spread,
        seed=case.seed,
    )


def _value(policy: piwo.policies.Policy, fresh: Labeled, rewards: Rewards) -> float:
    chances = policy.distribution(policy.context(fresh.x), len(fresh.y))
    return float(np.einsum("ij,ij->", chances, rewards.mean.T[fresh.y])) / len(fresh.y)


def _logger(case: Case, bandit: ClassificationBandit) -> piwo.policies.Policy:
    if case.logger == "uniform":
        return piwo.policies.Uniform(bandit.actions)
    eta = TEMPERATURES.get(case.logger, 1.0)
    softmax = bandit.softmax_logger(eta, rows=SEEN, random_state=case.seed)
    if case.logger in TEMPERATURES:
        return softmax
    greedy = piwo.policies.LinearGreedy(softmax.coef, softmax.intercept, bandit.actions)
    return piwo.policies.EpsilonGreedy(greedy, 0.1)


# --- rewards


def _rewards(kind: str, k: int, seed: int) -> Rewards:
    right = np.eye(k, dtype=bool)
    rng = np.random.default_rng([1, seed])
    if kind == "paper":
        return Rewards(np.where(right, 1.0, rng.random((k, k))), _coins)
    if kind == "noise":
        return Rewards(np.where(right, 0.7, 0.3), _uneven_noise)
    if kind == "costs":
        cost = 0.3 * rng.random(k)

        def less_cost(mean: Floats, action: Codes, rng: np.random.Generator) -> Floats:
            return _coins(mean + cost[action], action, rng) - cost[action]

        return Rewards(np.where(right, 0.8, 0.1) - cost[:, None], less_cost, low=-0.3)
    high, low = {"sharp": (0.95, 0.05), "weak": (0.2, 0.1), "rare": (0.06, 0.02)}[kind]
    return Rewards(np.where(right, high, low), _coins)


def _coins(mean: Floats, action: Codes, rng: np.random.Generator) -> Floats:
    return (rng.random(len(action)) < mean).astype(np.float64)


def _uneven_noise(mean: Floats, action: Codes, rng: np.random.Generator) -> Floats:
    """Coins for even actions; within .1 of the mean for odd ones."""
    near = mean + rng.uniform(-0.1, 0.1, len(action))
    return np.where(action % 2 == 0, _coins(mean, action, rng), near)


# --- the skyline


def _skyline(case: Case, folder: Path, rewards: Rewards, fresh: Labeled) -> float:
    """Return the value of the best policy from chances of the classes, of which each is a fit."""
    best = -np.inf
    for chances in _fitted(case.data, folder, case.seed, *_rows(case)):
        # argmax over a of sum_c P(c|x) M[a, c]
        played = (chances @ rewards.mean.T).argmax(axis=1)
        best = max(best, float(rewards.mean[played, fresh.y].mean()))
    return best


@lru_cache(maxsize=2)
def _fitted(data: str, folder: Path, seed: int, rows: int, first: int) -> tuple[Floats, ...]:
    from sklearn.ensemble import ExtraTreesClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    learned, fresh = _halves(data, folder, seed, rows, first)
    x, y = learned.x[:FULL_INFORMATION], learned.y[:FULL_INFORMATION]
    scaler = StandardScaler().fit(x)
    x, new = scaler.transform(x), scaler.transform(fresh.x)
    k = int(learned.y.max()) + 1
    found = [Ridge().fit(x, np.eye(k)[y]).predict(new)]
    trees = ExtraTreesClassifier(100, min_samples_leaf=2, random_state=0)
    for model in (LogisticRegression(max_iter=200), trees):
        model.fit(x, y)
        chances = np.zeros((len(new), k))
        chances[:, model.classes_] = model.predict_proba(new)
        found.append(chances)
    return tuple(found)


FULL_INFORMATION = 10_000
"""At most so many rows make the skyline."""


# --- data sets


def _rows(case: Case) -> tuple[int, int]:
    """Return how many rows a synthetic data set has, 0 for others, and how many are to learn from.

    The latter is 0 if this is half of them.
    """
    synthetic = case.data.startswith(_SYNTHETIC)
    if case.own_size:
        return (case.size + FRESH) * synthetic, case.size
    return max(ROWS, 2 * case.size) * synthetic, 0


@lru_cache(maxsize=2)
def _halves(data: str, folder: Path, seed: int, rows: int, first: int) -> tuple[Labeled, Labeled]:
    """Return the rows to learn from, and those that value the policies."""
    x, y = _labeled(data, folder, rows)
    order = np.random.default_rng([2, seed]).permutation(len(y))
    first = first or len(y) // 2
    learned, fresh = order[:first], order[first:][:FRESH]
    return Labeled(x[learned], y[learned]), Labeled(x[fresh], y[fresh])


@lru_cache(maxsize=2)
def _labeled(data: str, folder: Path, rows: int) -> Labeled:
    if data.startswith("blobs-"):
        return _blobs(int(data.removeprefix("blobs-")), rows)
    if data.startswith("clusters-"):
        return _clusters(int(data.removeprefix("clusters-")), rows)
    if data.startswith("network-"):
        return _network(int(data.removeprefix("network-")), rows)
    if data in _BUNDLED:
        from sklearn.datasets import load_breast_cancer, load_digits

        load = {"digits": load_digits, "cancer": load_breast_cancer}[data]
        x, labels = load(return_X_y=True)
    else:
        import pyarrow.parquet as pq

        table = pq.read_table(folder / _file(data))
        *columns, label = table.column_names
        x = np.column_stack([table[name].to_numpy() for name in columns])
        labels = np.array([str(one) for one in table[label].to_pylist()])
    _, y = np.unique(labels, return_inverse=True)
    return Labeled(np.asarray(x, np.float64), y)


def _file(data: str) -> str:
    return _FILES.get(data, f"sup_{data}.parquet")


def _blobs(k: int, rows: int) -> Labeled:
    """One Gaussian cluster a class in 5 of 10 columns: linear scores suffice; 5 % wrong labels."""
    rng = np.random.default_rng([5, k])
    centers, y = 2.0 * rng.normal(size=(k, 5)), rng.integers(0, k, rows)
    useful = centers[y] + rng.normal(size=(rows, 5))
    return Labeled(np.hstack([useful, rng.normal(size=(rows, 5))]), _flipped(y, k, rng))


def _clusters(k: int, rows: int) -> Labeled:
    """Two Gaussian clusters a class, of unequal widths, in 10 of 20 columns; 5 % wrong labels."""
    rng = np.random.default_rng([3, k])
    centers, widths = 2.0 * rng.normal(size=(2 * k, 10)), rng.uniform(0.5, 1.5, 2 * k)
    # some classes are up to ten times as frequent as others
    frequency = np.geomspace(1.0, 0.1, 2 * k)
    cluster = rng.choice(2 * k, rows, p=rng.permutation(frequency) / frequency.sum())
    useful = centers[cluster] + widths[cluster, None] * rng.normal(size=(rows, 10))
    return Labeled(np.hstack([useful, rng.normal(size=(rows, 10))]), _flipped(cluster // 2, k, rng))


def _network(k: int, rows: int) -> Labeled:
    """The class with the highest output of a random network; 5 % wrong labels."""
    rng = np.random.default_rng([4, k])
    hidden = rng.normal(size=(16, 64)) / 4.0
    out, direct = rng.normal(size=(64, k)) / 8.0, rng.normal(size=(16, k)) / 4.0
    x = rng.normal(size=(rows, 16))
    parts = []
    for start in range(0, rows, 50_000):
        some = x[start : start + 50_000]
        parts.append((np.tanh(3.0 * some @ hidden) @ out + some @ direct).argmax(axis=1))
    return Labeled(x, _flipped(np.concatenate(parts), k, rng))


def _flipped(y: Codes, k: int, rng: np.random.Generator) -> Codes:
    return np.where(rng.random(len(y)) < 0.05, rng.integers(0, k, len(y)), y)
