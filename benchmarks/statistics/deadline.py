"""Deadline intervals: level on bandits built to hurt them, widths and the power of gates.

The level is that of C(v) at the true v, and of the bound: at most delta, whatever the bandit does,
if blocks are as docs/theory.md asks. Two cells break that and fail, which they should.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit
from scipy import stats

import piwo
from benchmarks.other_bounds import bernstein, betting
from piwo import bounds
from piwo.bounds.deadline import DESIGN, Blocks, Mixture, Use, deadline_lower, log_wealth, use_of
from piwo.logs import Batch
from piwo.reductions.bets import BETS
from piwo.reductions.blocks import BLOCK_BETS, BLOCKS, Partition

__all__ = [
    "HURTING",
    "LEARNING",
    "REPS",
    "SORTED_IN_TIME",
    "Cell",
    "Level",
    "Sums",
    "gate_rows",
    "level",
    "level_learning",
    "level_rows",
    "rising_logger",
    "rows",
    "spread",
    "width_rows",
]

REPS = 20_000
Floats = npt.NDArray[np.float64]
Random = np.random.Generator


# --- sums of many logs


@njit(cache=True)
def _add(y: Any, ends: Any, bets: Any, sums: Any, moments: Any, whole: Any) -> None:
    """Add the sums of each log by products; y is in the order of the blocks."""
    for log in range(len(y)):
        start = 0
        for b in range(len(ends)):
            products, logs = np.ones(len(bets)), np.zeros(len(bets))
            for t in range(start, ends[b]):
                one = y[log, t]
                moments[log, b, 0] += one
                moments[log, b, 1] += one * one
                if one == 0.0:
                    continue
                for j in range(len(bets)):
                    products[j] *= 1.0 + bets[j] * one
                if products[0] > 1e150:
                    logs += np.log(products)
                    products[:] = 1.0
            logs += np.log(products)
            whole[log] += logs
            for j in range(sums.shape[2]):
                sums[log, b, j] = logs[2 * j]
            start = ends[b]


@dataclass(frozen=True)
class Sums:
    """What each of many logs leaves: block sums, and the bet sums of all rows."""

    counts: Floats
    moments: Floats
    blocks: Floats
    bets: Floats
    uses: tuple[Use, ...] | None = None
    """What is bet on the blocks of each log; None: the design's share."""

    @classmethod
    def of(cls, y: Floats, ends: npt.NDArray[np.int64]) -> Sums:
        """Return the sums of (logs, n) rows in the order of their blocks."""
        logs = len(y)
        moments = np.zeros((logs, len(ends), 2))
        sums = np.zeros((logs, len(ends), len(BLOCK_BETS)))
        whole = np.zeros((logs, len(BETS)))
        _add(np.ascontiguousarray(y), ends, BETS, sums, moments, whole)
        return cls(np.diff(ends, prepend=0).astype(np.float64), moments, sums, whole)

    @property
    def n(self) -> int:
        """The number of rows of a log."""
        return int(self.counts.sum())

    def of_log(self, i: int) -> Blocks:
        """Return one log's block sums."""
        moments = self.moments[i]
        use: Use = "all" if self.uses is None else self.uses[i]
        return Blocks(
            rows=self.counts,
            total=np.ascontiguousarray(moments[:, 0])[None],
            squares=np.ascontiguousarray(moments[:, 1])[None],
            sums=self.blocks[i][None],
            bets=BLOCK_BETS,
            shifts=np.zeros(1),
            use=use,
        )

    def mixture(self, i: int, penalty: float, *, gate: bool = False) -> Mixture:
        """Return one log's mixture; `gate`: with the weights for improvements."""
        size = bounds.grid_size(self.n, penalty)
        weights = np.full(size, 1.0 / size)
        if gate:
            weights = bounds.improvement_bets(self.n, penalty)
        return Mixture(self.bets[i][None], np.zeros(1), np.ones(1), weights, self.n)

    def log_wealth(self, i: int, mean: float, penalty: float) -> float:
        """Return log W of one log."""
        target = penalty - math.log(DESIGN.share)
        return float(log_wealth(self.of_log(i), np.array([mean]), target)[0])

    def log_c(self, i: int, mean: float, penalty: float, *, gate: bool = False) -> float:
        """Return log C of one log."""
        log_share, log_rest = self.of_log(i).log_shares(DESIGN)
        safe = log_rest + self.mixture(i, penalty, gate=gate).log_wealth(np.array([mean]))[0]
        if log_share == -math.inf:
            return float(safe)
        return float(np.logaddexp(log_share + self.log_wealth(i, mean, penalty), safe))


def spread(y: Floats) -> Sums:
    """Return the sums over blocks that spread over the file, from rows in the order of files."""
    n = y.shape[1]
    found = Partition("hash").of(Batch(0, np.zeros(n, np.int32), np.ones(n), np.ones(n)))
    order = np.argsort(found.places, kind="stable")
    made = Sums.of(y[:, order], np.cumsum(found.rows).astype(np.int64))
    assert found.numbers is not None
    trends, (total, squares) = y @ found.numbers, made.moments.sum(axis=1).T
    each = zip(total, squares, trends, strict=True)
    numbers = found.number_sums
    return replace(made, uses=tuple(use_of(float(n), *one, numbers) for one in each))


def _equal(n: int) -> npt.NDArray[np.int64]:
    """Return where blocks of about equal length end."""
    return np.unique(n * np.arange(1, BLOCKS + 1) // BLOCKS)


# --- bandits built to hurt


@dataclass(frozen=True)
class Cell:
    """A bandit: draw gives w and R of (logs, n) rows in the order of the file."""

    name: str
    value: Callable[[int], float]
    draw: Callable[[Random, int, int], tuple[Floats, Floats]]
    by: str = "hash"


def _two(share: Callable[[int], float], reward: float) -> Callable[..., tuple[Floats, Floats]]:
    """Return the draws of a policy with one action, which the logger takes so often."""

    def draw(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
        mu = min(share(n), 1.0)
        w = (random.random((logs, n)) < mu) / mu
        return w, (random.random((logs, n)) < reward).astype(np.float64)

    return draw


def _heavy(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
    mu = np.maximum(random.random((logs, n)) ** 3, 1e-4)
    w = (random.random((logs, n)) < mu) / mu
    return w, (random.random((logs, n)) < 0.5).astype(np.float64)


def _near(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
    w = np.where(random.random((logs, n)) < 0.5, 0.9, 1.1)
    return w, random.beta(3.0, 2.0, (logs, n))


def _peaked(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
    w = np.where(random.random((logs, n)) < 0.007, 1 / 0.0105, 1 / 2.979)
    return w, (random.random((logs, n)) < 0.8).astype(np.float64)


def _context_drift(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
    """Half of the rows are used; the chance of a reward rises from .1 to .9 through the file."""
    chance = 0.1 + 0.8 * (np.arange(n) + 0.5) / n
    w = np.where(random.random((logs, n)) < 0.5, 2.0, 0.0)
    return w, (random.random((logs, n)) < chance).astype(np.float64)


def _sorted(sign: int) -> Callable[..., tuple[Floats, Floats]]:
    def draw(random: Random, logs: int, n: int) -> tuple[Floats, Floats]:
        w, r = _two(lambda _: 0.5, 0.4)(random, logs, n)
        order = np.argsort(sign * (w * r - w * (1 - r)), axis=1, kind="stable")
        return np.take_along_axis(w, order, 1), np.take_along_axis(r, order, 1)

    return draw


def _constant(value: float) -> Callable[[int], float]:
    return lambda _: value


HURTING = (
    Cell("half of the rows", _constant(0.5), _two(_constant(0.5), 0.5)),
    Cell("w = 1000", _constant(0.5), _two(_constant(0.001), 0.5)),
    Cell("three rows decide", _constant(0.9), _two(lambda n: 3 / n, 0.9)),
    Cell("one row decides", _constant(0.5), _two(lambda n: 0.7 / n, 0.5)),
    Cell("rare rewards on a rare action", _constant(0.02), _two(_constant(0.02), 0.02)),
    Cell("weights to 10,000", _constant(0.5), _heavy),
    Cell("near the logger", _constant(0.6), _near),
    Cell("clicks", _constant(0.003), _two(_constant(0.2), 0.003)),
    Cell("sure rewards", _constant(0.99), _two(_constant(0.3), 0.99)),
    Cell("uniform on a peaked logger", lambda _: 0.8 * (0.007 / 0.0105 + 0.993 / 2.979), _peaked),
    Cell("contexts drift", _constant(0.5), _context_drift),
    Cell("file sorted, best first", _constant(0.4), _sorted(-1)),
    Cell("file sorted, worst first", _constant(0.4), _sorted(1)),
)
"""Bandits with hashed blocks."""

SORTED_IN_TIME = Cell(
    "file sorted, best first, blocks in time", _constant(0.4), _sorted(-1), "time"
)
"""What must not be done."""


@dataclass(frozen=True)
class Level:
    """How often a cell's statements are wrong."""

    lower: float
    """P(C(v) >= 1/delta) for w R."""
    upper: float
    """The same for w (1 - R)."""
    bound: float
    """P(L > v)."""
    two_sided: float
    """P(L > v or U < v), delta/2 a side."""


def _ends_and_rows(cell: Cell, y: Floats) -> Sums:
    if cell.by == "time":
        return Sums.of(y, _equal(y.shape[1]))
    return spread(y)


def _next_of_grid(value: float, n: int) -> float:
    """Return the least value of the grid that is not below this one."""
    step = 1.0 / (DESIGN.resolution * math.sqrt(n))
    return math.exp(math.ceil(math.log(value) / step - 1e-9) * step)


def _wrong(sums: Sums, value: float, penalty: float) -> npt.NDArray[np.bool_]:
    """Return whether L > v, for each log."""
    wrong = np.zeros(len(sums.bets), bool)
    above = _next_of_grid(value * (1 + 1e-12), sums.n)
    for i in range(len(wrong)):
        # L > v takes that the value of the grid above v is refuted
        if sums.log_c(i, above, penalty) >= penalty - 1e-9:
            wrong[i] = deadline_lower(sums.of_log(i), sums.mixture(i, penalty), penalty) > value
    return wrong


def level(cell: Cell, n: int, logs: int, delta: float, seed: int = 0) -> Level:
    """Return how often a cell's statements are wrong, from seeded logs of n rows.

    >>> level(HURTING[0], 50, 40, 0.1).bound <= 0.3
    True
    """
    random = np.random.default_rng([seed, n, len(cell.name)])
    value, most = cell.value(n), max(1, 10_000_000 // n)
    lower, upper, bound, two = 0, 0, 0, 0
    one, half = math.log(1 / delta), math.log(2 / delta)
    left = logs
    while left:
        part = min(left, most)
        left -= part
        w, r = cell.draw(random, part, n)
        # sum_a pi(a|x) is below 1 if the policy's other actions are left out: E w is its sum
        missed = float(_mass(cell)) - value
        earned, lost = _ends_and_rows(cell, w * r), _ends_and_rows(cell, w * (1.0 - r))
        for i in range(part):
            lower += earned.log_c(i, value, one) >= one
            upper += lost.log_c(i, missed, one) >= one
        bound += int(_wrong(earned, value, one).sum())
        two += int((_wrong(earned, value, half) | _wrong(lost, missed, half)).sum())
    return Level(lower / logs, upper / logs, bound / logs, two / logs)


def _mass(cell: Cell) -> float:
    """Return E w."""
    if cell.name == "uniform on a peaked logger":
        return 0.007 / 0.0105 + 0.993 / 2.979
    return 1.0


# --- loggers that learn, in the order of their decisions


@dataclass(frozen=True)
class Learner:
    """A logger that sees the bettor's wealth: `share` gives mu of the policy's action.

    share(log of the wealth, part of the rows that is done); the action's mean reward is `value`.
    """

    name: str
    value: float
    share: Callable[[Floats, float], Floats]


LEARNING = (
    Learner("gambles when behind", 0.25, lambda won, _: np.where(won > 0.5, 1.0, 0.02)),
    Learner("gambles when ahead", 0.25, lambda won, _: np.where(won > 0.5, 0.02, 1.0)),
    Learner("rare rewards when behind", 0.02, lambda won, _: np.where(won > 0.0, 0.9, 0.05)),
    Learner(
        "quiet, then wild", 0.5, lambda won, done: np.full(len(won), 1.0 if done < 0.5 else 0.03)
    ),
    Learner(
        "quiet, then wild if the end is near",
        0.5,
        lambda won, done: np.where((done > 0.8) & (won < 2.5), 0.01, 0.8),
    ),
    Learner(
        "wild, then quiet", 0.5, lambda won, done: np.full(len(won), 0.03 if done < 0.5 else 1.0)
    ),
)
"""Loggers that bet against the user."""


def level_learning(
    learner: Learner, n: int, logs: int, delta: float, *, losses: bool = False, seed: int = 0
) -> float:
    """Return P(C(v) >= 1/delta) if the logger chooses propensities from the wealth so far.

    >>> level_learning(LEARNING[0], 64, 40, 0.1) <= 0.3
    True
    """
    random = np.random.default_rng([seed, n, len(learner.name)])
    ends, penalty = _equal(n), math.log(1 / delta)
    value = 1 - learner.value if losses else learner.value
    won, wrong = np.zeros(logs), 0
    y = np.zeros((logs, n))
    start = 0
    target = penalty - math.log(DESIGN.share)
    made: list[Sums] = []
    for end in ends:
        mu = learner.share(won, start / n)[:, None]
        taken = random.random((logs, end - start)) < mu
        y[:, start:end] = taken * (random.random((logs, end - start)) < value) / mu
        made.append(Sums.of(y[:, start:end], np.array([end - start])))
        start = int(end)
        so_far = _joined(made)
        for i in range(logs):
            if won[i] < target:
                known = so_far.of_log(i)
                won[i] = log_wealth(known, np.array([value]), target, planned=float(n))[0]
    whole = _joined(made)
    for i in range(logs):
        wrong += whole.log_c(i, value, penalty) >= penalty
    return wrong / logs


def _joined(made: list[Sums]) -> Sums:
    return Sums(
        np.concatenate([one.counts for one in made]),
        np.concatenate([one.moments for one in made], axis=1),
        np.concatenate([one.blocks for one in made], axis=1),
        np.sum([one.bets for one in made], axis=0),
    )


def rising_logger(n: int, logs: int, delta: float, seed: int = 0) -> tuple[float, float]:
    """Return how often a policy as good as its logger is called better: deadline, then mixture.

    Two actions with rewards 1 and 0, the policy uniform; the logger's value rises from .1 to .9,
    so that y = w R + 1 - R has means that fall from 1.4 to .6, and 1 on average.
    """
    random = np.random.default_rng([seed, n])
    mu = 0.1 + 0.8 * (np.arange(n) + 0.5) / n
    y = np.where(random.random((logs, n)) < mu, 0.5 / mu, 1.0)
    sums, penalty = Sums.of(y, _equal(n)), math.log(1 / delta)
    deadline = sum(sums.log_c(i, 1.0, penalty) >= penalty for i in range(logs))
    mixture = sum(
        sums.mixture(i, penalty, gate=True).log_wealth(np.ones(1))[0] >= penalty
        for i in range(logs)
    )
    return deadline / logs, mixture / logs


def level_rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the measured levels, delta = .1 and .025."""
    made: list[Mapping[str, Any]] = []
    for delta in (0.1, 0.025):
        for cell in (*HURTING, SORTED_IN_TIME):
            for n in (5, 60, 600, 5000):
                logs = reps if n < 5000 else max(1, reps // 10)
                found = level(cell, n, logs, delta)
                made.append(
                    {"cell": cell.name, "n": n, "logs": logs, "delta": delta, **vars(found)}
                )
        for learner in LEARNING:
            for n in (64, 1280):
                logs = max(1, reps // 10)
                one = level_learning(learner, n, logs, delta)
                other = level_learning(learner, n, logs, delta, losses=True)
                made.append(
                    {
                        "cell": f"logger learns: {learner.name}",
                        "n": n,
                        "logs": logs,
                        "delta": delta,
                        "lower": one,
                        "upper": other,
                    }
                )
        wrong, mixture = rising_logger(3000, max(1, reps // 10), delta)
        for name, rate in (("deadline", wrong), ("mixture", mixture)):
            made.append(
                {
                    "cell": f"logger's own value rises, improvement, {name}",
                    "n": 3000,
                    "logs": max(1, reps // 10),
                    "delta": delta,
                    "lower": rate,
                }
            )
    return made


# --- widths


@dataclass(frozen=True)
class Regime:
    """A bandit with one context: mu and pi of the actions, and mean rewards of 0 and 1."""

    name: str
    mu: tuple[float, ...]
    pi: tuple[float, ...]
    reward: tuple[float, ...]

    def log(self, random: Random, n: int) -> tuple[npt.NDArray[np.int64], Floats]:
        """Return actions and rewards."""
        action = random.choice(len(self.mu), n, p=self.mu)
        reward = (random.random(n) < np.array(self.reward)[action]).astype(np.float64)
        return action, reward


REGIMES = (
    Regime("half of the rows", (0.5, 0.5), (1, 0), (0.5, 0.5)),
    Regime("one row in twenty", (0.05, 0.95), (1, 0), (0.5, 0.5)),
    Regime("three rows in 3,000", (0.001, 0.999), (1, 0), (0.9, 0.5)),
    Regime("clicks", (0.1,) * 10, (1, *(0,) * 9), (0.01,) * 10),
    Regime("clicks, uniform", (0.4, 0.3, 0.2, 0.1), (0.25,) * 4, (0.01, 0.02, 0.01, 0.03)),
    Regime("near the logger", (0.7, 0.3), (0.5, 0.5), (0.5, 0.6)),
    Regime("very near the logger", (0.55, 0.45), (0.5, 0.5), (0.5, 0.6)),
    Regime("four actions", (0.4, 0.3, 0.2, 0.1), (0.1, 0.2, 0.3, 0.4), (0.2, 0.4, 0.5, 0.7)),
    Regime("epsilon-greedy", (0.98, 0.01, 0.01), (1 / 3,) * 3, (0.8, 0.7, 0.6)),
    Regime("on-policy", (0.1,) * 10, (0.1,) * 10, (0.1,) * 10),
)
_OURS = ("deadline", "mixture", "deadline-cv", "mixture-cv")


def width_rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean widths of two-sided intervals at delta = .05, and how many missed."""
    made: list[Mapping[str, Any]] = []
    for n in (300, 3000, 30_000):
        for regime in REGIMES:
            logs = max(2, reps // (10 if n == 30_000 else 4))
            made.append(_widths(regime, n, logs))
    return made


def _widths(regime: Regime, n: int, logs: int) -> Mapping[str, Any]:
    random = np.random.default_rng([n, len(regime.name)])
    ends: dict[str, list[tuple[float, float]]] = {}
    mu, pi = np.array(regime.mu, float), np.array(regime.pi, float)
    policy = piwo.policies.Tabular(pi[None], actions=range(len(mu)))
    value = float(pi @ np.array(regime.reward))
    ratios = pi / mu
    most = float(ratios.max())
    for _ in range(logs):
        action, reward = regime.log(random, n)
        log = piwo.Log.from_arrays(
            action=action,
            reward=reward,
            propensity=mu[action],
            propensities=np.tile(mu, (n, 1)),
            actions=range(len(mu)),
        )
        for name in _OURS:
            found = piwo.evaluate(log, policy, interval=name)
            pair = (math.nan, math.nan)
            if found.lower is not None and found.upper is not None:
                pair = (found.lower, found.upper)
            # no interval, because the ends contradict each other, is a miss
            ends.setdefault(name, []).append(pair)
        y = ratios[action] * reward
        for name, bound in (("WSR betting", betting), ("empirical Bernstein", bernstein)):
            low, high = bound(y, most), most - bound(most - y, most)
            ends.setdefault(name, []).append((max(low, 0.0), min(high, 1.0)))
        if len(np.unique(ratios[ratios > 0])) == 1:
            hits = stats.binomtest(int((y > 0).sum()), n).proportion_ci(0.95)
            ends.setdefault("Clopper-Pearson", []).append(
                (most * hits.low, min(most * hits.high, 1.0))
            )
        half = stats.t.ppf(0.975, n - 1) * y.std(ddof=1) / math.sqrt(n)
        ends.setdefault("Student t", []).append(
            (max(y.mean() - half, 0.0), min(y.mean() + half, 1.0))
        )
    row: dict[str, Any] = {"regime": regime.name, "n": n, "logs": logs}
    widths = {name: float(np.nanmean([b - a for a, b in ends[name]])) for name in ends}
    for name in (*_OURS, "WSR betting", "empirical Bernstein", "Clopper-Pearson", "Student t"):
        row[name] = widths.get(name, "")
    row["deadline/mixture"] = widths["deadline"] / widths["mixture"]
    row["cv ratio"] = widths["deadline-cv"] / widths["mixture-cv"]
    for name in ("deadline", "deadline-cv"):
        row[f"{name} misses"] = sum(not a <= value <= b for a, b in ends[name])
    return row


# --- gates

GATES = (
    Regime("peaked logger", (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.05, 0.10, 0.02)),
    Regime("two actions", (0.5, 0.5), (0.2, 0.8), (0.4, 0.5)),
    Regime("four actions", (0.4, 0.3, 0.2, 0.1), (0.2, 0.2, 0.3, 0.3), (0.3, 0.3, 0.4, 0.4)),
    Regime("near the logger", (0.55, 0.45), (0.4, 0.6), (0.3, 0.7)),
    Regime("clicks", (0.6, 0.4), (0.2, 0.8), (0.01, 0.025)),
    Regime("no gain", (0.8, 0.1, 0.1), (0.1, 0.8, 0.1), (0.05, 0.05, 0.05)),
)


def gate_rows(reps: int, full: int = 0) -> list[Mapping[str, Any]]:
    """Return P(certified) by case; with `full` vectors for so many logs of the first case."""
    made: list[Mapping[str, Any]] = []
    for n in (1000, 3000):
        for case in GATES:
            mu, pi = np.array(case.mu), np.array(case.pi)
            random = np.random.default_rng([n, len(case.name)])
            drawn = [case.log(random, n) for _ in range(reps)]
            w = np.array([pi[a] / mu[a] for a, _ in drawn])
            r = np.array([r for _, r in drawn])
            sums = spread(w * r + 1 - r)
            for delta, name in ((0.05, ".05"), (0.05 / 13, ".05/13")):
                penalty = math.log(1 / delta)
                row: dict[str, Any] = {"case": case.name, "n": n, "delta": name, "logs": reps}
                row["mixture"] = np.mean(
                    [
                        sums.mixture(i, penalty, gate=True).log_wealth(np.ones(1))[0] >= penalty
                        for i in range(reps)
                    ]
                ).item()
                row["deadline"] = np.mean(
                    [sums.log_c(i, 1.0, penalty, gate=True) >= penalty for i in range(reps)]
                ).item()
                if full and case is GATES[0]:
                    row |= {f"{m}, vectors": p for m, p in _full(case, drawn[:full], delta).items()}
                    row["logs with vectors"] = full
                made.append(row)
    return made


def _full(case: Regime, drawn: list[Any], delta: float) -> dict[str, float]:
    """Return P(certified) of the methods that use full vectors."""
    mu = np.array(case.mu)
    policy = piwo.policies.Tabular(np.array([case.pi]), actions=range(len(mu)))
    made = dict.fromkeys(("mixture-cv", "deadline-cv", "deadline"), 0.0)
    for action, reward in drawn:
        log = piwo.Log.from_arrays(
            action=action,
            reward=reward,
            propensity=mu[action],
            propensities=np.tile(mu, (len(action), 1)),
            actions=range(len(mu)),
        )
        for name in made:
            found = piwo.evaluate(log, policy, interval=name, delta=delta)
            assert found.improvement_lower is not None
            made[name] += (found.improvement_lower > 0.0) / len(drawn)
    return made


def rows(reps: int = REPS) -> list[Mapping[str, Any]]:
    """Return levels, widths and powers, one after the other."""
    return [
        *level_rows(reps),
        *width_rows(max(8, reps // 100)),
        *gate_rows(max(8, reps // 20), full=max(4, reps // 100)),
    ]
