"""Adapters of other libraries, and methods of others that need none.

Each returns the actions that its policy plays on the fresh rows. vowpalwabbit and
contextualbandits are optional. The learner of Open Bandit Pipeline is a few lines and is written
out here, because obp imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from benchmarks.quality.worlds import World
from piwo.logs.batch import Floats
from piwo.oracles.softmax import SoftmaxObjective

__all__ = [
    "Codes",
    "doubly_robust",
    "installed",
    "ipw_learner",
    "offset_tree",
    "poem",
    "policy_tree",
    "standardized",
    "vw",
    "vw_mtr",
]

Codes = npt.NDArray[np.intp]


def installed(library: str) -> bool:
    """Whether a library can be imported."""
    return find_spec(library) is not None


def standardized(world: World) -> tuple[Floats, Floats]:
    """Return the contexts of the log and of the fresh rows, by the log's means and deviations."""
    center, scale = world.x.mean(axis=0), world.x.std(axis=0)
    scale = np.where(scale > 0, scale, 1.0)
    return (world.x - center) / scale, (world.fresh - center) / scale


# --- written out here


def ipw_learner(world: World) -> Codes:
    """obp.policy.IPWLearner with its logistic regression: label A, weight R/p."""
    from sklearn.linear_model import LogisticRegression

    x, fresh = standardized(world)
    kept = world.reward > 0
    actions = np.unique(world.action[kept])
    if len(actions) < 2:
        return np.full(len(fresh), actions[0] if len(actions) else 0)
    weight = world.reward[kept] / world.propensity[kept]
    model = LogisticRegression(max_iter=1000)
    model.fit(x[kept], world.action[kept], sample_weight=weight)
    return cast("Codes", model.predict(fresh))


def poem(world: World) -> Codes:
    """POEM (Swaminathan and Joachims 2015): clipped weights, a penalty on their variance.

    The weight of the penalty is chosen by the clipped estimate on a quarter of the rows, as in the
    paper; then all rows are learned from. The most probable action is played.
    """
    x, fresh = standardized(world)
    x, fresh = _with_one(x), _with_one(fresh)
    # the paper clips at the ratio of the 90th and the 10th percentile of the propensities
    low, high = np.quantile(world.propensity, [0.1, 0.9])
    gain = world.reward / np.maximum(world.propensity, low / high)
    if not gain.any():
        return np.zeros(len(fresh), np.intp)
    held = np.random.default_rng(world.seed).random(len(x)) < 0.25
    best, chosen = -np.inf, 0.0
    for penalty in (0.0, 0.1, 1.0, 10.0):
        weights = _climb(world, x, gain, ~held, penalty)
        chance = _softmax(x[held] @ weights.T)[np.arange(held.sum()), world.action[held]]
        value = float((chance * gain[held]).sum())
        if value > best:
            best, chosen = value, penalty
    weights = _climb(world, x, gain, np.ones(len(x), bool), chosen)
    return cast("Codes", (fresh @ weights.T).argmax(axis=1))


def _climb(
    world: World, x: Floats, gain: Floats, rows: npt.NDArray[np.bool_], penalty: float
) -> Floats:
    from scipy.optimize import minimize

    kept = rows & (gain > 0)
    n = int(rows.sum())
    start = np.zeros((world.actions, x.shape[1]))
    if not kept.any():
        return start
    scaled = gain[kept] * (n / gain[kept].sum())
    climb = SoftmaxObjective(x[kept, :-1], world.action[kept], scaled, n, penalty, 1e-3)
    found = minimize(climb, start.ravel(), jac=True, method="L-BFGS-B", options={"maxiter": 60})
    return cast("Floats", found.x.reshape(start.shape))


def _with_one(x: Floats) -> Floats:
    return np.hstack([x, np.ones((len(x), 1))])


def _softmax(scores: Floats) -> Floats:
    scores = np.exp(scores - scores.max(axis=1, keepdims=True))
    return cast("Floats", scores / scores.sum(axis=1, keepdims=True))


def policy_tree(world: World) -> Codes:
    """The best tree of depth 2 on IX gains, gamma = sqrt(d/n), as policytree searches it.

    Exact over the thresholds at 15 quantiles of each column (policytree tries every value).
    """
    n, d = world.x.shape
    gain = world.reward / (world.propensity + np.sqrt(d / n))
    cuts = np.quantile(world.x, np.arange(1, 16) / 16, axis=0)
    bins = np.stack([np.searchsorted(cuts[:, j], world.x[:, j]) for j in range(d)], axis=1)
    best, tree = -np.inf, (0, 0, (0, 0, 0, 0), (0, 0, 0, 0))
    for root in range(d):
        # joint[f, r, b, a]: gains of action a, by bin r of the root's column and b of column f
        joint = np.empty((d, 16, 16, world.actions))
        for f in range(d):
            cell = (bins[:, root] * 16 + bins[:, f]) * world.actions + world.action
            sums = np.bincount(cell, gain, minlength=256 * world.actions)
            joint[f] = sums.reshape(16, 16, world.actions)
        left = joint.cumsum(axis=1)
        for cut in range(15):
            below = _stump(left[:, cut])
            above = _stump(left[:, -1] - left[:, cut])
            if below[0] + above[0] > best:
                best, tree = below[0] + above[0], (root, cut, below[1], above[1])
    root, cut, below_tree, above_tree = tree
    first = world.fresh[:, root] <= cuts[cut, root]
    return np.where(
        first, _plays(below_tree, cuts, world.fresh), _plays(above_tree, cuts, world.fresh)
    )


def _stump(gains: Floats) -> tuple[float, tuple[int, int, int, int]]:
    """Return the best value and (column, cut, action below, action above) from (d, bins, K)."""
    below = gains.cumsum(axis=1)
    above = below[:, -1:] - below
    value = below.max(axis=2) + above.max(axis=2)
    f, cut = np.unravel_index(int(value[:, :-1].argmax()), value[:, :-1].shape)
    actions = int(below[f, cut].argmax()), int(above[f, cut].argmax())
    return float(value[f, cut]), (int(f), int(cut), *actions)


def _plays(stump: tuple[int, int, int, int], cuts: Floats, fresh: Floats) -> Codes:
    f, cut, below, above = stump
    return np.where(fresh[:, f] <= cuts[cut, f], below, above)


# --- Vowpal Wabbit

_PASSES = 5


def vw(kind: str) -> Callable[[World], Codes]:
    """`--cb K` with one linear model of the costs for each action, 5 passes over the log."""

    def plays(world: World) -> Codes:
        x, fresh = standardized(world)
        model = _workspace(f"--cb {world.actions} --cb_type {kind}")
        logged = zip(world.action, world.reward, world.propensity, _features(x), strict=True)
        lines = [f"{a + 1}:{-r:.6g}:{p:.6g} {text}" for a, r, p, text in logged]
        _learn(model, lines)
        played = [model.predict(text) - 1 for text in _features(fresh)]
        model.finish()
        return np.array(played, np.intp)

    return plays


def vw_mtr(world: World) -> Codes:
    """`--cb_adf --cb_type mtr`: the action crossed with the context, 5 passes over the log."""
    x, fresh = standardized(world)
    model = _workspace("--cb_adf --cb_type mtr --interactions xa")
    arms = [f"|a a{k}" for k in range(world.actions)]
    examples = []
    logged = zip(world.action, world.reward, world.propensity, _features(x), strict=True)
    for a, r, p, text in logged:
        lines = ["shared " + text, *arms]
        lines[a + 1] = f"0:{-r:.6g}:{p:.6g} {arms[a]}"
        examples.append(lines)
    _learn(model, examples)
    played = []
    for text in _features(fresh):
        found = model.predict(["shared " + text, *arms])
        played.append(int(np.argmin(found)))
    model.finish()
    return np.array(played, np.intp)


def _workspace(options: str) -> Any:
    return import_module("vowpalwabbit").Workspace(f"{options} --quiet -b 20")


def _learn(model: Any, examples: list[Any]) -> None:
    for _ in range(_PASSES):
        for one in examples:
            model.learn(one)


def _features(x: Floats) -> Iterator[str]:
    names = [f" f{j}:" for j in range(x.shape[1])]
    for row in np.round(x, 4).tolist():
        yield "|x" + "".join(f"{name}{value}" for name, value in zip(names, row, strict=True))


# --- contextualbandits, which takes rewards of 0 or 1: others are drawn as coins with that mean


def offset_tree(world: World) -> Codes:
    """Beygelzimer and Langford 2009, over logistic regressions."""
    from sklearn.linear_model import LogisticRegression

    made = import_module("contextualbandits.offpolicy").OffsetTree(
        LogisticRegression(max_iter=200), world.actions, njobs=1, random_state=world.seed + 1
    )
    return _fitted(made, world)


def doubly_robust(world: World) -> Codes:
    """Dudik, Langford and Li 2011.

    A logistic regression of the reward for each action, then ridge regressions of the doubly robust
    rewards.
    """
    from sklearn.linear_model import LogisticRegression, Ridge

    made = import_module("contextualbandits.offpolicy").DoublyRobustEstimator(
        Ridge(),
        LogisticRegression(max_iter=200),
        world.actions,
        method="rovr",
        random_state=world.seed + 1,
        njobs=1,
    )
    return _fitted(made, world)


def _fitted(made: Any, world: World) -> Codes:
    x, fresh = standardized(world)
    coins = np.random.default_rng(world.seed).random(len(x)) < world.reward
    made.fit(x, world.action, coins.astype(np.float64), world.propensity)
    return np.asarray(made.predict(fresh), np.intp)
