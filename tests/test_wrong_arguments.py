"""Whatever is given for an argument: a right result, or an error of piwo in one line. A new
callable is one line here.

`CALLS` holds one good call of everything that is public and takes arguments. Each argument in turn
becomes each of `WRONG`. Where the good value is a number, what is no number must be refused, never
be accepted in silence.
"""

import inspect
import math
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo import (
    bounds,
    estimators,
    formats,
    learners,
    oracles,
    policies,
    reductions,
    scores,
    simulate,
)

WRONG: dict[str, Any] = {
    "None": None,
    "a text": "x",
    "-1": -1,
    "0": 0,
    "True": True,
    "nan": math.nan,
    "inf": math.inf,
    "-inf": -math.inf,
    "1e-320": 1e-320,
    "1e308": 1e308,
    "nothing": [],
    "an object": object(),
}
NO_NUMBERS = ("a text", "True", "nan", "nothing", "an object")
Call = tuple[Callable[..., Any], dict[str, Any]]


def make_log() -> piwo.Log:
    rng = np.random.default_rng(0)
    n, mu = 60, np.full((60, 3), 1 / 3)
    action = rng.integers(0, 3, n)
    reward = (rng.random(n) < 0.3 + 0.2 * action) * 1.0
    return piwo.Log.from_arrays(
        action=action,
        reward=reward,
        propensities=mu,
        context=rng.normal(size=(n, 2)),
        actions=range(3),
    )


def classifier() -> Any:
    from sklearn.linear_model import LogisticRegression

    return LogisticRegression().fit(np.arange(9.0).reshape(9, 1), [0, 1, 2] * 3)


def regressor() -> Any:
    from sklearn.linear_model import Ridge

    return Ridge().fit(np.arange(9.0).reshape(9, 1), np.arange(9.0))


def fitted(learner: Any) -> Callable[..., Any]:
    """A learner that is made and fitted at once; what is wrong may show at either."""
    return lambda log, **given: learner(**given).fit(log)


def fitted_oracle(oracle: Any) -> Callable[..., Any]:
    """The same for an oracle."""
    return lambda **given: piwo.PIWO(piwo.IX(0.1), oracle(**given), certificate=None).fit(LOG)


def fitted_on_items(oracle: Any) -> Callable[..., Any]:
    """The same for an oracle that takes items."""
    return lambda **given: oracle(**given).solve(ITEM_LOG, piwo.IX(0.1))


def monitored(**given: Any) -> Any:
    """A monitor that is made and has seen a log."""
    return piwo.Monitor(**given).update(LOG).look()


def entered(context: Any) -> Callable[..., Any]:
    """A context manager around a pass over the log."""

    def run(**given: Any) -> Any:
        with context(**given):
            return piwo.evaluate(LOG, UNIFORM)

    return run


def uniform_of(bandit: Any) -> Any:
    """A policy over the actions of a bandit."""
    return policies.Uniform(bandit.actions)


def with_file(name: str, text: str, read: Callable[..., Any]) -> Callable[..., Any]:
    """A reader of a file, which is written first."""

    def run(**given: Any) -> Any:
        Path(name).write_text(text + "\n")
        return read(**given)

    return run


INTERACTION = {"context": (1, 2), "action": 1, "reward": 1.0, "probability": 0.5, "actions": [0, 1]}
LOG = make_log()
SLATE_FEEDBACK = {
    "slate_id": [0, 0],
    "position": [0, 1],
    "action": [2, 0],
    "reward": [1, 0],
    "pscore": [0.25, 0.25],
    "n_unique_action": 3,
}
FEEDBACK = piwo.to_obp(LOG)
ACTIONS = LOG.actions
ONE, UNIFORM = policies.Constant(1, ACTIONS), policies.Uniform(ACTIONS)
SLATES = {
    "s": [["a", "b"], ["b", "a"]] * 20,
    "rs": [[1.0, 0.0], [0.5, 1.0]] * 20,
    "mu": [[0.5, 0.5], [0.5, 0.5]] * 20,
    "x": [0.0, 1.0] * 20,
    "could": [["a", "b"]] * 40,
}
CCB_LOG = piwo.slates.read(
    {"s": [["a", "b"]] * 2, "rs": [[1, 0]] * 2, "mu": [[0.5, 0.5]] * 2},
    slate="s",
    rewards="rs",
    propensities="mu",
)
ADAPTED_LOG = piwo.slates.read(
    {
        "slate": [["a", "b"], ["b", "a"]] * 60,
        "rs": [[1.0, 0.0], [0.0, 0.5]] * 60,
        "x": [0.0, 0.0, 1.0] * 40,
    },
    rewards="rs",
    behavior=piwo.slates.Uniform(["a", "b"]),
    context="x",
)
SLATE_LOG = piwo.slates.read(
    SLATES, slate="s", rewards="rs", propensities="mu", independent=True, context="x"
)
SLATE_VALUE = piwo.slates.evaluate(SLATE_LOG, piwo.slates.Deterministic(["a", "b"]), name="one")
BOTH = {"one": ONE, "uniform": UNIFORM}
ITEM_LOG = piwo.Log.from_arrays(
    context=np.arange(8.0)[:, None],
    action=[0, 1] * 4,
    reward=[0, 1] * 4,
    propensity=[0.5] * 8,
    items={"action": [0, 1], "z": [0.0, 1.0]},
)
JOINT = policies.JointModel(np.zeros((2, 1)), [0.0], np.zeros((3, 1)))
LINEAR = policies.LinearGreedy(np.zeros((3, 2)), np.zeros(3), ACTIONS)
SUMS = reductions.bet_sums([0.5, 1.0] * 50)
BANDIT = simulate.adversarial_bandits()[0]
MANY = simulate.ClassificationBandit(
    np.random.default_rng(1).normal(size=(30, 2)), np.arange(30) % 3
)
POOL = (piwo.Candidate("ridge", oracles.Ridge(), piwo.LSLinear(0.1)),)
EVALUATIONS = piwo.compare(LOG, BOTH)
PARTS = piwo.Log.from_arrays(
    action=[0, 1, 2] * 20,
    reward=[0.0, 1.0] * 30,
    propensity=[1 / 3] * 60,
    segments={"part": [0, 1] * 30, "fee": [0.5] * 60},
)
LEARNED = piwo.PIWO(oracle=oracles.Exhaustive([ONE, UNIFORM])).fit(PARTS)
FRAME = pa.table(
    {
        "action": ["a", "b"] * 20,
        "reward": [0.0, 1.0] * 20,
        "p": [0.5] * 40,
        "x": [float(i % 7) for i in range(40)],
    }
)
FITTED = piwo.PACBayes([ONE, UNIFORM], score=piwo.IX(0.1)).fit(LOG)

GOOD: dict[str, Any] = {
    **dict.fromkeys(("n", "horizon"), 100),
    **dict.fromkeys(("delta", "rate"), 0.05),
    "log_inv_delta": 3.0,
    **dict.fromkeys(("gamma", "bet", "target"), 0.2),
    **dict.fromkeys(("coverage", "log_class_size", "kl", "variance"), 2.0),
    **dict.fromkeys(
        ("mean", "value", "raw", "value_ix", "value_ls", "mean_score", "null_mean", "estimate"), 0.5
    ),
    **dict.fromkeys(("standard_error", "changes", "expected_changes", "missing"), 0.1),
    "total_weight": 100.0,
    "inflation": 1.0,
    "largest": 2.0,
    "bounded": True,
    "successes": 5,
    "statements": 2,
    "width": 4,
    "upper_end": 1.0,
    "learner": "grid",
    "grid": bounds.gamma_grid_ls(1000, 2.0, 0.05),
    **dict.fromkeys(("w", "w2", "wr", "w2r", "w2r2", "total", "squares", "earned"), 50.0),
    **dict.fromkeys(
        (
            "bet_sums",
            "covered_sums",
            "uncovered_sums",
            "gain_sums",
            "weight_sums",
            "reward_sums",
            "loss_sums",
        ),
        SUMS,
    ),
    **{
        x: [0.3, 0.2]
        for x in ("values", "loss_values", "reward_scores", "loss_scores", "least_loss_scores")
    },
    **{x: [0.2, 0.1] for x in ("bets", "gammas")},
    **{x: [0.5, 0.5] for x in ("prior", "posterior")},
    "log_e_values": [3.0, 0.0],
    "regret": lambda n: 1.0 / n,
    "y": [0.5, 1.0],
    "shifts": [0.0],
    "weights": [1.0],
}
"""A good value of every argument of the bounds, by its name."""
OF_ONE: dict[str, dict[str, Any]] = {
    "cressie_read_interval": {
        "n": 1000,
        "w": 1000.0,
        "w2": 2000.0,
        "wr": 500.0,
        "w2r": 1000.0,
        "w2r2": 1000.0,
    },
    "empirical_likelihood_interval": {
        "w": [0.0, 2.0, 2.0],
        "reward": [0.0, 1.0, 0.0],
        "count": [5, 3, 2],
    },
    "kl_divergence_normal": {
        "mean": [0.1, 0.2],
        "scale": [1.0, 2.0],
        "prior_mean": 0.0,
        "prior_scale": 1.0,
    },
    "lower": {"prior": None},
    "lower_many": {"bet_sums": SUMS[None], "prior": None},
    "pooled_lower": {"bet_sums": SUMS[None]},
    "pooled_lower_many": {"bet_sums": SUMS[None, None]},
    "rate_cap_log_e_values": {"cells": np.ones((80, 4)), "rho": 0.5},
    "rate_cap_rows": {"cells": np.ones((80, 4)), "rho": 0.5},
    "rate_cap_upper": {"cells": np.ones((80, 4)), "rho": 0.5},
    "value_interval": {"loss_sums": 0.5 * SUMS},
}


def numbers_of_bounds() -> dict[str, Call]:
    """Every function of `piwo.bounds`, with good arguments."""
    made: dict[str, Call] = {}
    for name in bounds.__all__:
        function = getattr(bounds, name)
        if inspect.isfunction(function):
            own = OF_ONE.get(name, {})
            made[f"bounds.{name}"] = (
                function,
                {
                    x: own[x] if x in own else GOOD[x]
                    for x in inspect.signature(function).parameters
                },
            )
    return made


def parameters_of_scores() -> dict[str, Call]:
    """Every score with a number as its parameter."""
    made: dict[str, Call] = {}
    for name in scores.__all__:
        score = getattr(scores, name)
        if inspect.isclass(score) and name not in ("Score", "RewardGuess"):
            given = {
                x: {"q": 0.5, "k": 4.0}.get(x, 0.5) for x in inspect.signature(score).parameters
            }
            made[f"scores.{name}"] = (score, {**given, "tau": 9.0} if "tau" in given else given)
    return made


SPLIT = {"delta": 0.05, "holdout": 0.5, "random_state": 0, "tail": False, "log": LOG}
EVALUATE: dict[str, Any] = {
    "log": LOG,
    "estimator": "ls",
    "gamma": 0.1,
    "interval": "auto",
    "delta": 0.05,
    "propensity_factor": 1.0,
    "sensitivity": 1.0,
    "rate_cap": 0.95,
    "horizon": 100,
    "threshold": 0.5,
    "random_state": 0,
}

CALLS: dict[str, Call] = {
    **numbers_of_bounds(),
    **parameters_of_scores(),
    "oracles.Boosting": (
        fitted_oracle(oracles.Boosting),
        {"steps": 2, "leaves": 3, "rate": 0.5, "least": 1, "random_state": 0},
    ),
    "oracles.Classifier": (fitted_oracle(oracles.Classifier), {"model": None, "C": 1.0}),
    "oracles.Direct": (fitted_oracle(oracles.Direct), {"alpha": 1.0, "model": None}),
    "oracles.DirectBoosting": (
        fitted_oracle(oracles.DirectBoosting),
        {"alpha": 1.0, "steps": 2, "leaves": 3, "rate": 0.5, "least": 1},
    ),
    "oracles.PolicyTree": (
        fitted_oracle(oracles.PolicyTree),
        {"depth": 1, "lookahead": 1, "bins": 4, "least": 1},
    ),
    "oracles.gain_blocks": (
        lambda **given: list(oracles.gain_blocks(**given)),
        {"log": LOG, "score": piwo.IX(0.1)},
    ),
    "cross_fit": (
        piwo.cross_fit,
        {"log": LOG, "regressor": regressor(), "folds": 2, "by": "row", "random_state": 0},
    ),
    "gains": (piwo.gains, {"log": LOG, "score": piwo.IX(0.1)}),
    "oracles.Exhaustive": (fitted_oracle(oracles.Exhaustive), {"policies": [ONE, UNIFORM]}),
    "simulate.ItemBandit": (
        lambda **given: simulate.ItemBandit(**given).optimal_value,
        {
            "items": 4,
            "candidates": 2,
            "context": 1,
            "features": 1,
            "situations": 5,
            "bias": 0.0,
            "wave": 0.0,
            "peak": 0.5,
            "seed": 0,
        },
    ),
    "oracles.ConditionalLogit": (
        fitted_on_items(oracles.ConditionalLogit),
        {"alpha": 1.0, "steps": 5, "rank": None},
    ),
    "oracles.JointDirect": (
        lambda **given: oracles.JointDirect(**given).solve(ITEM_LOG, piwo.IW()),
        {"alpha": 1.0, "crosses": None, "standardize": True},
    ),
    "oracles.JointBoosting": (
        fitted_on_items(oracles.JointBoosting),
        {"alpha": 1.0, "steps": 2, "leaves": 3, "rate": 0.5, "least": 1, "random_state": 0},
    ),
    "oracles.JointRidge": (
        fitted_on_items(oracles.JointRidge),
        {"alpha": 1.0, "crosses": None, "standardize": True},
    ),
    "oracles.Ridge": (
        fitted_oracle(oracles.Ridge),
        {"alpha": 1.0, "intercept": True, "standardize": False},
    ),
    "oracles.Softmax": (
        fitted_oracle(oracles.Softmax),
        {"penalty": 1.0, "ridge": 0.001, "steps": 5},
    ),
    "policies.Classifier": (
        policies.Classifier,
        {"model": classifier(), "actions": range(3), "greedy": True, "classes": None},
    ),
    "policies.Column": (policies.Column, {"name": "pi", "actions": range(3)}),
    "policies.Constant": (policies.Constant, {"label": 1, "actions": range(3)}),
    "policies.Deterministic": (
        policies.Deterministic,
        {"rule": len, "actions": range(3), "features": None},
    ),
    "policies.Function": (policies.Function, {"f": len, "actions": range(3), "features": None}),
    "policies.EpsilonGreedy": (policies.EpsilonGreedy, {"policy": ONE, "epsilon": 0.1}),
    "policies.JointModel": (
        policies.JointModel,
        {"cross": np.zeros((2, 1)), "item": [0.0], "table": np.zeros((3, 1)), "features": None},
    ),
    "policies.JointLinear": (
        policies.JointLinear,
        {"model": JOINT, "actions": range(3), "features": None},
    ),
    "policies.JointTrees": (
        policies.JointTrees,
        {
            "model": JOINT,
            "nodes": [[2, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 0, 2.0]],
            "roots": [0],
            "actions": range(3),
            "features": None,
        },
    ),
    "policies.JointSoftmax": (
        policies.JointSoftmax,
        {"model": JOINT, "actions": range(3), "temperature": 1.0, "features": None},
    ),
    "policies.LinearGreedy": (
        policies.LinearGreedy,
        {"coef": np.zeros((3, 2)), "intercept": np.zeros(3), "actions": range(3), "features": None},
    ),
    "policies.LinearSoftmax": (
        policies.LinearSoftmax,
        {
            "coef": np.zeros((3, 2)),
            "intercept": np.zeros(3),
            "actions": range(3),
            "temperature": 1.0,
            "features": None,
        },
    ),
    "policies.LinearStack": (policies.LinearStack, {"policies": [LINEAR, LINEAR]}),
    "policies.Logging": (policies.Logging, {"actions": range(3)}),
    "policies.MajorityVote": (policies.MajorityVote, {"members": [ONE, UNIFORM]}),
    "policies.Mixture": (policies.Mixture, {"policies": [ONE, UNIFORM], "weights": [0.5, 0.5]}),
    "policies.RewardModels": (
        policies.RewardModels,
        {
            "models": [regressor()] * 3,
            "scale": [1.0] * 3,
            "offset": [0.0] * 3,
            "actions": range(3),
            "features": None,
        },
    ),
    "policies.Trees": (
        policies.Trees,
        {
            "nodes": [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]],
            "roots": [0],
            "offset": [0.0] * 3,
            "actions": range(3),
            "width": 1,
            "features": None,
        },
    ),
    "policies.RowChoices": (policies.RowChoices, {"choices": [0, 1], "actions": range(3)}),
    "policies.RowWise": (policies.RowWise, {"values": [[0.5, 0.5]], "actions": range(2)}),
    "policies.Tabular": (
        policies.Tabular,
        {"probabilities": [0.5, 0.5], "actions": range(2), "contexts": None, "features": None},
    ),
    "policies.Uniform": (policies.Uniform, {"actions": range(3)}),
    "policies.aligned": (policies.aligned, {"policy": ONE, "actions": ACTIONS}),
    "policies.check_fits": (
        policies.check_fits,
        {"policy": ONE, "features": None, "actions": ACTIONS, "rows": 3},
    ),
    "policies.load": (policies.load, {"path": "no such file"}),
    "policies.load_with_metadata": (policies.load_with_metadata, {"path": "no such file"}),
    "act": (UNIFORM.act, {"X": None, "n": 3, "random_state": 0}),
    "probabilities": (UNIFORM.probabilities, {"X": None, "n": 3}),
    "linear act": (LINEAR.act, {"X": np.zeros((3, 2)), "random_state": 0}),
    "linear probabilities": (LINEAR.probabilities, {"X": np.zeros((3, 2)), "n": None}),
    "Actions": (piwo.Actions, {"labels": ["a", "b"], "seen": False}),
    "Candidate": (
        piwo.Candidate,
        {"name": "one", "oracle": oracles.Ridge(), "score": piwo.LSLinear(0.1)},
    ),
    "PIWO": (
        fitted(piwo.PIWO),
        {**SPLIT, "score": piwo.IX(0.1), "oracle": oracles.Ridge(), "certificate": "held-out"},
    ),
    "PIWOGrid": (
        fitted(piwo.PIWOGrid),
        {**SPLIT, "score": piwo.LSLinear(), "oracle": oracles.Ridge(), "certificate": "auto"},
    ),
    "PACBayes": (
        fitted(piwo.PACBayes),
        {
            "policies": [ONE, UNIFORM],
            "prior": [0.5, 0.5],
            "score": piwo.IX(0.1),
            "delta": 0.05,
            "log": LOG,
        },
    ),
    "PACBayes.bound": (FITTED.bound, {"posterior": [0.5, 0.5]}),
    "PACBayes.certificate": (FITTED.certificate, {"posterior": [0.5, 0.5]}),
    "PACBayes.regret_bound": (FITTED.regret_bound, {"coverage": 2.0, "kl": 0.5}),
    "PACBayesLinear": (
        fitted(piwo.PACBayesLinear),
        {
            **SPLIT,
            "score": piwo.IX(0.1),
            "policy": "softmax",
            "prior": "split",
            "prior_scale": 1.0,
            "draws": 4,
            "steps": 2,
        },
    ),
    "Auto": (
        fitted(piwo.Auto),
        {**SPLIT, "pool": POOL, "extra": (), "refit": True, "keep": "logger"},
    ),
    "CoverageScaled": (
        fitted(learners.CoverageScaled),
        {
            "oracle": oracles.Exhaustive([ONE, UNIFORM]),
            "coverage": [3.0, 3.0],
            "delta": 0.05,
            "log": LOG,
        },
    ),
    "segments_of_learned": (
        learners.segments_of_learned,
        {
            "by": "part",
            "log": PARTS,
            "policy": LEARNED.policy_,
            "certificate": LEARNED.certificate_,
            "baseline": None,
        },
    ),
    "Log.with_action_cost": (
        lambda **given: piwo.evaluate(PARTS.with_action_cost("fee", **given), UNIFORM),
        {"cost_range": (0.0, 1.0)},
    ),
    "default_pool": (learners.default_pool, {"random_state": 0}),
    "evaluate": (
        piwo.evaluate,
        {**EVALUATE, "policy": UNIFORM, "q": None, "baseline": None, "name": "one"},
    ),
    "compare": (piwo.compare, {**EVALUATE, "policies": BOTH, "q": None, "baseline": None}),
    "plots.figure": (
        piwo.plots.figure,
        {"result": EVALUATIONS, "reward": "clicks"},
    ),
    "mlflow.save_model": (piwo.mlflow.save_model, {"policy": LINEAR, "path": "model"}),
    # of a policy that cannot be saved, so that no run begins
    "mlflow.log_model": (
        piwo.mlflow.log_model,
        {"policy": policies.RowChoices([0], [0, 1]), "name": "policy", "report": None},
    ),
    "to_onnx": (
        policies.to_onnx,
        {"policy": policies.LinearGreedy([[1.0], [0.0]], [0.0, 0.0], ["a", "b"]), "path": "p.onnx"},
    ),
    "weights": (piwo.weights, {"log": LOG, "policy": UNIFORM}),
    "decide": (
        piwo.decide,
        {
            "evaluations": EVALUATIONS,
            "health": piwo.check(LOG),
            "units": None,
            "at_least": 0.1,
            "assumes": None,
        },
    ),
    "gate": (
        piwo.gate,
        {
            "log": LOG,
            "evaluations": EVALUATIONS,
            "policies": None,
            "at_least": 0.1,
            "independent_rows": False,
        },
    ),
    "select": (
        piwo.select,
        {
            "log": LOG,
            "policies": BOTH,
            "delta": 0.05,
            "rate": 0.05,
            "threshold": 0.5,
            "interval": "auto",
            "baseline": None,
            "horizon": 100,
        },
    ),
    "Selection.of": (
        piwo.Selection.of,
        {"evaluations": EVALUATIONS, "rate": 0.05, "threshold": None},
    ),
    "check": (piwo.check, {"log": LOG, "policy": UNIFORM, "delta": 0.05}),
    "certify": (
        piwo.certify,
        {
            "log": LOG,
            "policies": BOTH,
            "delta": 0.05,
            "within": None,
            "baseline": None,
            "interval": "auto",
            "earlier": 0,
            "series": False,
            "horizon": 100,
            "by": None,
            "facts": None,
        },
    ),
    "regret_certificate": (
        piwo.regret_certificate,
        {
            "log": LOG,
            "policy": UNIFORM,
            "against": BOTH,
            "delta": 0.05,
            "within": None,
            "interval": "auto",
        },
    ),
    "estimate_propensities": (
        piwo.estimate_propensities,
        {
            "source": FRAME,
            "action": "action",
            "reward": "reward",
            "context": "x",
            "model": None,
            "folds": 2,
            "forward": False,
            "random_state": 0,
            "actions": None,
            "reward_range": (0.0, 1.0),
            "missing": "refuse",
        },
    ),
    "read": (
        piwo.read,
        {
            "source": FRAME,
            "action": "action",
            "reward": "reward",
            "propensity": "p",
            "context": "x",
            "actions": None,
            "reward_range": (0.0, 1.0),
        },
    ),
    "Log.from_arrays": (
        piwo.Log.from_arrays,
        {
            "action": [0, 1],
            "reward": [0.0, 1.0],
            "propensity": [0.5, 0.5],
            "context": None,
            "actions": range(2),
            "reward_range": (0.0, 1.0),
            "weight": None,
            "policies": None,
        },
    ),
    "Log.split": (LOG.split, {"holdout": 0.5, "seed": 0, "min_rows": 1, "tail": False}),
    "Log.with_propensity_error": (
        LOG.with_propensity_error,
        {"propensity_factor": 1.5, "sensitivity": 1.5},
    ),
    "Log.value": (LOG.value, {"unit": 0.5}),
    "Monitor": (
        monitored,
        {
            "policy": UNIFORM,
            "delta": 0.05,
            "horizon": 100,
            "name": "one",
            "reward_range": (0.0, 1.0),
            "cost": False,
        },
    ),
    "Monitor.update": (piwo.Monitor(UNIFORM).update, {"log": LOG}),
    "Monitor.merge": (piwo.Monitor(UNIFORM).merge, {"other": piwo.Monitor(UNIFORM)}),
    "Monitor.load": (piwo.Monitor.load, {"path": "no such file", "policy": UNIFORM}),
    "Monitor.save": (piwo.Monitor(UNIFORM).save, {"path": object()}),
    "bootstrap": (
        piwo.intervals.bootstrap,
        {
            "log": LOG,
            "policy": UNIFORM,
            "estimator": "ix",
            "gamma": 0.1,
            "replicates": 3,
            "delta": 0.05,
            "random_state": 0,
            "n_jobs": 1,
        },
    ),
    "coverage": (
        piwo.evaluation.coverage,
        {"log": LOG, "policy": UNIFORM, "gamma": 0.1, "delta": 0.05, "horizon": 100},
    ),
    "direct_method": (
        estimators.direct_method,
        {"log": LOG, "policy": UNIFORM, "q": np.full((60, 3), 0.5), "delta": 0.05, "name": "one"},
    ),
    "doubly_robust": (
        estimators.doubly_robust,
        {
            "log": LOG,
            "policy": UNIFORM,
            "q": np.full((60, 3), 0.5),
            "gamma": 0.1,
            "weights": None,
            "self_normalized": False,
            "delta": 0.05,
            "name": "one",
        },
    ),
    "forward_model": (estimators.forward_model, {"log": LOG}),
    "mips": (
        estimators.mips,
        {
            "log": LOG,
            "policy": UNIFORM,
            "categories": dict.fromkeys(LOG.actions, 1),
            "delta": 0.05,
            "name": "one",
        },
    ),
    "slates.read": (
        piwo.slates.read,
        {
            "source": SLATES,
            "slate": "s",
            "eligible": "could",
            "rewards": "rs",
            "propensities": "mu",
            "independent": True,
            "position_weights": [1.0, 0.5],
            "context": ["x"],
            "actions": ["a", "b"],
            "slots": 2,
            "reward_range": (0.0, 1.0),
            "where": None,
            "logger": None,
            "items_label": None,
        },
    ),
    "slates.evaluate": (
        piwo.slates.evaluate,
        {
            "log": SLATE_LOG,
            "policy": piwo.slates.Deterministic(["a", "b"]),
            "estimator": "cascade",
            "self_normalized": False,
            "interval": "auto",
            "delta": 0.05,
            "name": "one",
        },
    ),
    "slates.adapt": (
        piwo.slates.adapt,
        {
            "log": ADAPTED_LOG,
            "policy": piwo.slates.Deterministic(["a", "b"]),
            "depth": 1,
            "folds": 2,
            "self_normalized": False,
            "random_state": 0,
            "name": "one",
        },
    ),
    "slates.compare": (
        piwo.slates.compare,
        {
            "log": SLATE_LOG,
            "policies": {"one": piwo.slates.Deterministic(["a", "b"])},
            "estimators": ["cascade"],
            "self_normalized": False,
            "interval": "auto",
            "delta": 0.05,
        },
    ),
    "slates.choose": (
        piwo.slates.choose,
        {
            "log": SLATE_LOG,
            "policy": piwo.slates.Deterministic(["a", "b"]),
            "estimators": ["standard"],
            "holdout": 0.5,
            "interval": "auto",
            "delta": 0.05,
            "random_state": 0,
            "name": "one",
        },
    ),
    "slates.check": (piwo.slates.check, {"log": SLATE_LOG, "delta": 0.05}),
    "slates.decide": (piwo.slates.decide, {"evaluations": SLATE_VALUE, "at_least": 0.5}),
    "slates.gate": (
        piwo.slates.gate,
        {
            "log": SLATE_LOG,
            "evaluations": SLATE_VALUE,
            "policies": ["one"],
            "at_least": 0.5,
            "independent_rows": False,
        },
    ),
    "slates.load": (piwo.slates.load, {"path": "no such file"}),
    "slates.load_with_metadata": (piwo.slates.load_with_metadata, {"path": "no such file"}),
    "slates.EpsilonSlate": (
        piwo.slates.EpsilonSlate,
        {"policy": piwo.slates.Deterministic(["a", "b"]), "epsilon": 0.1, "items": ["a", "b"]},
    ),
    "slates.by_position": (
        piwo.slates.by_position,
        {
            "log": SLATE_LOG,
            "policy": piwo.slates.Deterministic(["a", "b"]),
            "interval": "auto",
            "delta": 0.05,
            "name": "one",
        },
    ),
    "slates.learn": (
        piwo.slates.learn,
        {
            "log": SLATE_LOG,
            "score": None,
            "alpha": 1.0,
            "holdout": 0.5,
            "delta": 0.05,
            "random_state": 0,
        },
    ),
    "SlateLog.position": (lambda position: SLATE_LOG.position(position), {"position": 1}),
    "SlateLog.split": (
        lambda holdout, seed: SLATE_LOG.split(holdout, seed),
        {"holdout": 0.5, "seed": 0},
    ),
    "slates.Factored": (piwo.slates.Factored, {"slots": [{"a": 0.5, "b": 0.5}]}),
    "slates.Uniform": (piwo.slates.Uniform, {"items": ["a", "b"]}),
    "slates.Deterministic": (piwo.slates.Deterministic, {"slate": ["a", "b"]}),
    "slates.FromColumns": (
        piwo.slates.FromColumns,
        {"above": "mu", "marginal": None, "slate": None, "independent": False},
    ),
    "mrdr_model": (estimators.mrdr_model, {"log": LOG, "policy": ONE, "alpha": 0.001}),
    "slope": (
        estimators.slope,
        {
            "log": LOG,
            "policy": UNIFORM,
            "estimator": "clip",
            "gammas": [0.1, 0.01],
            "q": np.full((60, 3), 0.5),
            "delta": 0.1,
            "name": "one",
        },
    ),
    "reductions.bet_sums": (reductions.bet_sums, {"y": [0.5, 1.0]}),
    "reductions.unpacked": (reductions.unpacked, {"data": b"x"}),
    "Bandit": (
        simulate.Bandit,
        {
            "name": "a coin",
            "log_mu": (math.log(0.5),) * 2,
            "pi": (1.0, 0.0),
            "chance": (0.5, 0.5),
            "high": 1.0,
        },
    ),
    "Bandit.coverage": (BANDIT.coverage, {"policy": None, "gamma": 0.1}),
    "Bandit.log": (BANDIT.log, {"n": 3, "random_state": 0}),
    "Bandit.counts": (BANDIT.counts, {"n": 3, "logs": 2, "random_state": 0}),
    "ClassificationBandit": (
        simulate.ClassificationBandit,
        {
            "X": np.zeros((4, 2)),
            "y": [0, 1, 0, 1],
            "rewards": None,
            "actions": range(2),
            "features": None,
        },
    ),
    "ClassificationBandit.log": (
        MANY.log,
        {
            "behavior": uniform_of(MANY),
            "rows": 5,
            "random_state": 0,
            "full_propensities": True,
            "log_propensities": False,
        },
    ),
    "ClassificationBandit.value": (MANY.value, {"policy": uniform_of(MANY)}),
    "ClassificationBandit.coverage": (
        MANY.coverage,
        {"policy": uniform_of(MANY), "logger": uniform_of(MANY), "gamma": 0.1},
    ),
    "ClassificationBandit.softmax_logger": (
        MANY.softmax_logger,
        {"eta": 1.0, "rows": 0.5, "alpha": 1.0, "random_state": 0},
    ),
    "using": (entered(piwo.using), {"mapper": ThreadPoolExecutor(1)}),
    "reporting": (entered(piwo.reporting), {"progress": lambda done, total: None}),
    "checkpointing": (entered(piwo.checkpointing), {"path": "no such folder/file", "every": 10.0}),
    "from_obp": (
        piwo.from_obp,
        {
            "feedback": FEEDBACK,
            "policies": {"new": np.full((60, 3), 1 / 3)},
            "position": 0,
            "reward_range": (0, 1),
        },
    ),
    "to_obp": (piwo.to_obp, {"log": LOG}),
    "join": (
        piwo.join,
        {
            "decisions": {"id": [1, 2], "time": [0, 5]},
            "outcomes": {"id": [1], "time": [9], "reward": [0.5]},
            "on": "id",
            "window": 9,
            "time": "time",
            "outcome": "reward",
            "several": "first",
            "absent": 0.0,
            "until": 10,
            "reward_range": (0, 1),
            "out": None,
        },
    ),
    "formats.from_coba": (
        formats.from_coba,
        {"interactions": [INTERACTION], "reward_range": (0, 1)},
    ),
    "formats.write_log": (formats.write_log, {"log": LOG, "path": "log.parquet"}),
    "formats.write_vw": (formats.write_vw, {"log": LOG, "path": "log.vw", "kind": "cb"}),
    "formats.write_dsjson": (formats.write_dsjson, {"log": LOG, "path": "log.dsjson"}),
    "slates.read_vw": (
        with_file(
            "slates.vw",
            "ccb shared | a\nccb action | x\nccb action | y\nccb slot 0:0:0.5 |",
            piwo.slates.read_vw,
        ),
        {
            "paths": "slates.vw",
            "context": "a",
            "actions": ["x", "y"],
            "reward_range": (0, 1),
            "position_weights": [1.0],
            "logger": None,
            "hash_size": 8,
            "items_label": None,
        },
    ),
    "slates.read_dsjson": (
        with_file(
            "slates.dsjson",
            '{"c": {"a": 1, "_multi": [{}, {}], "_slots": [{}]}, "_outcomes": '
            '[{"_label_cost": 0, "_a": [0], "_p": [0.5]}]}',
            piwo.slates.read_dsjson,
        ),
        {
            "paths": "slates.dsjson",
            "context": "a",
            "actions": ["x", "y"],
            "reward_range": (0, 1),
            "position_weights": [1.0],
            "logger": None,
            "on_error": "raise",
            "items_label": None,
        },
    ),
    "slates.from_obp": (
        piwo.slates.from_obp,
        {
            "feedback": SLATE_FEEDBACK,
            "policies": {"new": {"evaluation_policy_pscore": [0.5, 0.5]}},
            "position_weights": [1.0, 0.5],
            "reward_range": (0, 1),
            "logger": None,
        },
    ),
    "slates.write_log": (
        piwo.slates.write_log,
        {"log": CCB_LOG, "path": "slates.parquet"},
    ),
    "slates.write_dsjson": (
        piwo.slates.write_dsjson,
        {"log": CCB_LOG, "path": "slates.dsjson"},
    ),
    "logs.read_vw": (
        with_file("log.vw", "1:0:0.5 | a", piwo.logs.read_vw),
        {
            "paths": "log.vw",
            "context": "a",
            "actions": ["x", "y"],
            "reward_range": (0, 1),
            "kind": "cb",
            "hash_size": 8,
            "items": (),
        },
    ),
    "formats.read_open_bandit": (
        with_file(
            "all.csv",
            "item_id,position,click,propensity_score,user_feature_0\n3,1,1,0.5,aa",
            formats.read_open_bandit,
        ),
        {"path": "all.csv", "position": 1, "affinities": False},
    ),
    "formats.read_kuairand": (
        with_file(
            "log.csv",
            "user_id,video_id,hourmin,is_click,is_rand,tab\n0,7,900,1,1,4",
            formats.read_kuairand,
        ),
        {
            "path": "log.csv",
            "reward": "is_click",
            "reward_range": (0, 1),
            "candidates": 2,
            "users": None,
            "context": "tab",
        },
    ),
    "formats.read_criteo": (
        with_file("a.txt", "1 |l 0.001 |p 4.0 |f 0:3\n1 |f 0:5", formats.read_criteo),
        {"path": "a.txt", "policies": {"one": lambda x: [1.0 / len(x)] * len(x)}},
    ),
    "formats.read_movielens": (
        formats.read_movielens,
        {
            "ratings": {"u": [1, 1], "i": ["a", "b"], "r": [5, 3], "t": [0, 1], "age": [9, 9]},
            "items": {"i": ["a", "b"], "year": [1999, 2001], "g": ["x|y", "x"]},
            "user": "u",
            "item": "i",
            "rating": "r",
            "time": "t",
            "liked": 4.0,
            "reward_range": (0, 1),
            "candidates": 2,
            "popularity": 1.0,
            "context": "age",
            "genres": "g",
            "seed": 0,
        },
    ),
    "paper_rewards": (MANY.paper_rewards, {"actions": 3, "random_state": 0}),
}


def tried(name: str, argument: str, wrong: Any) -> str:
    """What came: "accepted", the error of piwo, or what should not come."""
    function, good = CALLS[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", piwo.PiwoWarning)
        try:
            function(**{**good, argument: wrong})
        except piwo.PiwoError as error:
            return (
                f"refused: {error}"
                if "\n" not in str(error) and str(error)
                else f"BAD, several lines: {error}"
            )
        except Exception as error:  # noqa: BLE001 (whatever else comes is what the test is about)
            return f"BAD, {type(error).__name__}: {error}"
    return "accepted"


@pytest.mark.usefixtures("wrong_types")
@pytest.mark.parametrize("name", CALLS)
def test_wrong_arguments_are_refused_in_one_line(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # a text is a path to some of them
    _, good = CALLS[name]
    found = []
    for argument, value in good.items():
        number = isinstance(value, Real) and not isinstance(value, bool)
        for kind, wrong in WRONG.items():
            if (name, argument, kind) in SLOW:
                continue
            came = tried(name, argument, wrong)
            refused = came.startswith("refused")
            if came.startswith("BAD") or (
                number
                and not refused
                and kind in NO_NUMBERS
                and (name, argument, kind) not in MEANT
            ):
                found.append(f"{argument}={kind}: {came:.200}")
    assert not found, "\n" + "\n".join(found)


MEANT = {
    ("bounds.kl_divergence_normal", "prior_mean", "True"),
    ("bounds.kl_divergence_normal", "prior_scale", "True"),
    ("bounds.normal_interval", "standard_error", "nan"),
}
"""What is accepted on purpose: arrays of truth values are arrays of numbers, and a standard error
may be undefined."""


def test_every_public_callable_is_in_the_table() -> None:
    known = {getattr(function, "__qualname__", "") for function, _ in CALLS.values()}
    assert all(
        f"bounds.{name}" in CALLS
        for name in bounds.__all__
        if inspect.isfunction(getattr(bounds, name))
    )
    for module in (piwo, estimators, simulate, policies, oracles, learners, formats):
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)) and name not in NOT_CALLED:
                assert any(name in one for one in (*known, *CALLS)), name


SLOW = {("Auto", "pool", "None")}
"""The usual pool, which tests of its own learn with."""
NOT_CALLED = {"adversarial_bandits", "load", "bootstrap_interval"}
"""Without arguments, or with functions alone."""
