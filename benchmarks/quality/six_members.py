"""A guarded vote of six learners, the recipe that `learners.GuardedVote` is compared with.

It assumes that a right action pays nearly always. There it gains most; at weak and rare rewards it
harms, because its guard compares two votes with each other, and neither with the logger.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.quality.peers import Codes, standardized
from benchmarks.quality.worlds import World
from piwo.logs.batch import Floats
from piwo.oracles.softmax import SoftmaxObjective

__all__ = ["six_members"]

Plays = Callable[[Floats], Codes]
_FOLDS = 3


class _Rows:
    """Standardized contexts, actions, rewards and propensities."""

    def __init__(self, x: Floats, a: Codes, r: Floats, p: Floats, actions: int) -> None:
        self.x, self.a, self.r, self.p, self.actions = x, a, r, p, actions
        self.good = r > 0
        self.gain = r / (p + 0.1)

    def take(self, kept: npt.NDArray[np.bool_]) -> _Rows:
        return _Rows(self.x[kept], self.a[kept], self.r[kept], self.p[kept], self.actions)


def six_members(world: World) -> Codes:
    """Vote of kernel, complements, softmax with baseline and likelihood, or of the other three.

    bold = majority(kernel lower bounds, trees with complements, softmax with baseline .5, reward
    likelihood), safe = majority(trees, softmax, logistic); bold unless on three folds the mean of
    (1{bold = A} - 1{safe = A}) R/(p + .1) is below -2 standard errors.
    """
    x, fresh = standardized(world)
    rows = _Rows(x, world.action, world.reward, world.propensity, world.actions)
    fold = np.random.default_rng(world.seed).permutation(len(x)) % _FOLDS
    y = np.zeros(len(x))
    for k in range(_FOLDS):
        train, test = rows.take(fold != k), fold == k
        if not train.good.any():
            continue
        agreed = [vote(train, x[test]) == world.action[test] for vote in (_bold, _safe)]
        y[test] = (agreed[0] * 1.0 - agreed[1]) * rows.gain[test]
    if not rows.good.any():
        return np.zeros(len(fresh), np.intp)
    if y.mean() < -2.0 * y.std() / np.sqrt(len(y)):
        return _safe(rows, fresh)
    return _bold(rows, fresh)


def _bold(rows: _Rows, x: Floats) -> Codes:
    members = (_kernel, _complements, _softmax_with_baseline, _likelihood)
    return _majority([learn(rows)(x) for learn in members], rows.actions)


def _safe(rows: _Rows, x: Floats) -> Codes:
    members = (_trees, _softmax, _logistic)
    return _majority([learn(rows)(x) for learn in members], rows.actions)


def _majority(played: list[Codes], actions: int) -> Codes:
    votes = np.zeros((len(played[0]), actions))
    for i, codes in enumerate(played):
        # ties to the earlier
        votes[np.arange(len(codes)), codes] += 1.0 + 2.0 ** -(i + 2)
    chosen: Codes = votes.argmax(axis=1)
    return chosen


def _forest() -> Any:
    from sklearn.ensemble import ExtraTreesClassifier

    return ExtraTreesClassifier(60, min_samples_leaf=2, random_state=0)


def _classified(model: Any, x: Floats, a: Codes, weight: Floats) -> Plays:
    if len(np.unique(a)) == 1:
        return lambda new: np.full(len(new), a[0])
    model.fit(x, a, sample_weight=weight / weight.mean())
    return lambda new: np.asarray(model.predict(new))


def _trees(rows: _Rows) -> Plays:
    good = rows.good
    return _classified(_forest(), rows.x[good], rows.a[good], rows.gain[good])


def _logistic(rows: _Rows) -> Plays:
    from sklearn.linear_model import LogisticRegression

    good = rows.good
    model = LogisticRegression(max_iter=300)
    return _classified(model, rows.x[good], rows.a[good], rows.gain[good])


def _complements(rows: _Rows) -> Plays:
    good, bad = rows.good, ~rows.good
    if not bad.any() or len(np.unique(rows.a[good])) == 1:
        return _trees(rows)
    first = _forest().fit(rows.x[good], rows.a[good], sample_weight=rows.gain[good])
    likely = np.zeros((int(bad.sum()), rows.actions))
    likely[:, first.classes_] = first.predict_proba(rows.x[bad])
    each = np.arange(len(likely))
    likely[each, rows.a[bad]] = 0.0
    other = likely.argmax(axis=1)
    weight = np.append(rows.gain[good], 0.5 * likely[each, other] / 1.1)
    x, a = np.vstack([rows.x[good], rows.x[bad]]), np.append(rows.a[good], other)
    return _classified(_forest(), x[weight > 0], a[weight > 0], weight[weight > 0])


def _softmax(rows: _Rows, baseline: float = 0.0) -> Plays:
    gains = (rows.r - baseline * rows.r.mean()) / (rows.p + 0.1)
    gains /= np.abs(gains).mean()
    seen = np.unique(rows.a[rows.good])
    some = np.isin(rows.a, seen) & (gains != 0)
    action = np.searchsorted(seen, rows.a[some])
    climb = SoftmaxObjective(rows.x[some], action, gains[some], len(gains), 1.0, 2e-3)
    return _linear(climb, seen, rows.x.shape[1] + 1)


def _softmax_with_baseline(rows: _Rows) -> Plays:
    return _softmax(rows, 0.5)


def _likelihood(rows: _Rows) -> Plays:
    seen, action = np.unique(rows.a, return_inverse=True)
    z = np.hstack([rows.x, np.ones((len(rows.x), 1))])
    each = np.arange(len(z))

    def objective(flat: Floats) -> tuple[float, Floats]:
        weights = flat.reshape(len(seen), -1)
        pi = z @ weights.T
        pi = np.exp(pi - pi.max(axis=1, keepdims=True))
        pi /= pi.sum(axis=1, keepdims=True)
        mine = pi[each, action]
        # P(R = 1) = .03 + .94 pi(A)
        q = 0.03 + 0.94 * mine
        value = np.mean(rows.r * np.log(q) + (1.0 - rows.r) * np.log(1.0 - q))
        slope = (rows.r / q - (1.0 - rows.r) / (1.0 - q)) * 0.94 * mine / len(z)
        moved = -pi * slope[:, None]
        moved[each, action] += slope
        gradient = moved.T @ z
        gradient[:, :-1] -= 2e-3 * weights[:, :-1]
        return 1e-3 * float((weights[:, :-1] ** 2).sum()) - float(value), -gradient.ravel()

    return _linear(objective, seen, z.shape[1])


def _linear(objective: Any, seen: Codes, width: int) -> Plays:
    from scipy.optimize import minimize

    start = np.zeros(len(seen) * width)
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": 60}).x
    weights = found.reshape(len(seen), width)
    return lambda new: seen[(new @ weights[:, :-1].T + weights[:, -1]).argmax(axis=1)]


def _kernel(rows: _Rows) -> Plays:
    """Lower confidence bounds of the rewards on 300 random Fourier features."""
    rng, d = np.random.default_rng(0), rows.x.shape[1]
    frequencies = rng.normal(size=(d, 300)) * np.sqrt(2.0 / d)
    phases = rng.uniform(0.0, 2.0 * np.pi, 300)

    def lift(x: Floats) -> Floats:
        waves = np.sqrt(20.0 / 300.0) * np.cos(x @ frequencies + phases)
        return np.hstack([waves, 0.95 * x / np.sqrt(d), np.ones((len(x), 1))])

    z, deviation = lift(rows.x), rows.r.std()
    fits = []
    for a in range(rows.actions):
        mine = z[rows.a == a]
        inverse = np.linalg.inv(mine.T @ mine + np.eye(z.shape[1]))
        fits.append((inverse, inverse @ (mine.T @ rows.r[rows.a == a])))

    def plays(x: Floats) -> Codes:
        new, scores = lift(x), np.empty((len(x), rows.actions))
        for a, (inverse, coef) in enumerate(fits):
            spread = np.einsum("ij,ij->i", new @ inverse, new)
            scores[:, a] = new @ coef - deviation * np.sqrt(np.maximum(spread, 0.0))
        chosen: Codes = scores.argmax(axis=1)
        return chosen

    return plays
