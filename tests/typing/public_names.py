"""What the public names promise to a type checker. Checked by `make types`, never run."""

# pyright: strict

from typing import assert_type

import numpy as np
import numpy.typing as npt

import piwo


def from_log_to_policy(
    X: npt.NDArray[np.float64], labels: list[str], numbers: npt.NDArray[np.float64]
) -> None:
    log = piwo.Log.from_arrays(context=X, action=labels, reward=numbers, propensity=numbers)
    assert_type(piwo.read("log.parquet", action="item"), piwo.Log)
    assert_type(log.actions, piwo.Actions)
    assert_type(piwo.check(log), piwo.Health)
    result = piwo.evaluate(log, piwo.policies.Uniform(log.actions), estimator="ix", gamma=0.1)
    assert_type(result, piwo.Evaluation)
    assert_type(result.lower, float | None)
    path = piwo.evaluate(log, piwo.policies.Uniform(log.actions), gamma=[0.1, 0.2], delta=0.1)
    assert_type(path, piwo.evaluation.GammaPath)
    found = piwo.compare(log, {"a": piwo.policies.Logging()})
    assert_type(found, piwo.evaluation.Comparison)
    assert_type(found["a"], piwo.Evaluation)
    assert_type(piwo.weights(log, piwo.policies.Logging()), npt.NDArray[np.float64])
    learner = piwo.PIWO(piwo.IX(gamma=(0.1, 0.2)), piwo.oracles.Ridge(alpha=2.0)).fit(log)
    assert_type(learner, piwo.PIWO)
    assert_type(learner.policy_, piwo.policies.Policy)
    assert_type(learner.certificate_, piwo.Certificate | None)
    grid = piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(log)
    assert_type(grid.path_[1.0], piwo.learners.GridPoint)
    assert_type(grid.certificate_, piwo.Certificate)
    assert_type(grid.regret_bound(lambda gamma: 1 / (0.1 + gamma)), float)
    assert_type(piwo.load("policy.piwo"), piwo.policies.Policy)
    assert_type(learner.policy_.act(X, random_state=0).propensities, npt.NDArray[np.float64])
    assert_type(piwo.bounds.lcb_mean(numbers, 0.05), float)


def items(log: piwo.Log, numbers: npt.NDArray[np.float64]) -> None:
    assert_type(piwo.read("log.csv", items="ads.csv", items_label="ad"), piwo.Log)
    assert_type(piwo.Log.from_arrays(action=["a"], reward=numbers, items={}), piwo.Log)
    oracle = piwo.oracles.JointRidge(alpha=2.0, crosses=[("age", "price")])
    policy = oracle.solve_path(log, [piwo.IX(0.1)])[0]
    assert_type(policy, piwo.policies.JointLinear)
    soft = piwo.policies.JointSoftmax(policy.model, policy.actions, 0.5, policy.features)
    assert_type(soft.act({}, items={}, eligible=[["a"]]).propensities, npt.NDArray[np.float64])
    assert_type(piwo.simulate.ItemBandit(items=9, candidates=3).value(soft), float)


def from_columns_to_log(numbers: npt.NDArray[np.float64]) -> None:
    log = piwo.read("log.csv", action="item", cost="ms", context=["a*", "b"], weight=None, key="id")
    assert_type(log, piwo.Log)
    assert_type(piwo.Log.from_frame({}, propensity="p", missing="indicator"), piwo.Log)
    assert_type(piwo.Log.from_sql("select 1", connection=None, reward="r", where="x > 1"), piwo.Log)
    assert_type(piwo.Log.from_arrays(action=["a"], reward=numbers, weight=numbers), piwo.Log)
    assert_type(piwo.estimate_propensities("log.csv", context="a", unit="u"), piwo.Log)


def formats(log: piwo.Log) -> None:
    assert_type(piwo.logs.read_vw("log.vw", context="user/age", kind="cb_adf"), piwo.Log)
    assert_type(piwo.formats.write_vw(log, "log.vw", kind="cb"), piwo.formats.Written)
    assert_type(piwo.formats.write_dsjson(log, "log.dsjson").rows, int)
    assert_type(piwo.formats.write_log(log, "log.parquet").left_out, tuple[str, ...])
    made = piwo.join("shown.parquet", {}, on="id", window=3.5, several="sum", out="all.csv")
    assert_type(made, piwo.formats.Joined)
    assert_type(made.mean_low, float)
    assert_type(piwo.from_obp(piwo.to_obp(log), policies={"new": []}, position=0), piwo.Log)
    assert_type(piwo.formats.from_coba([{}]), piwo.Log)
    assert_type(piwo.formats.read_open_bandit("all.csv", position=1), piwo.Log)
    assert_type(piwo.formats.read_kuairand(["a.csv"], context="tab", users=None), piwo.Log)
    assert_type(
        piwo.formats.read_criteo("a.txt", policies={"x": lambda c: [1.0] * len(c)}), piwo.Log
    )
    assert_type(piwo.formats.read_movielens("ratings.csv", items={}, liked=None), piwo.Log)
    piwo.formats.write_vw(log, "log.vw", kind="adf")  # type: ignore[arg-type]


def wrong_columns(numbers: npt.NDArray[np.float64]) -> None:
    piwo.read("log.csv", contxt="a")  # type: ignore[call-arg]
    piwo.read("log.csv", weight=numbers)  # type: ignore[arg-type]
    piwo.Log.from_frame({}, propensty="p")  # type: ignore[call-arg]
    piwo.Log.from_sql("select 1", actions="p", wher="x")  # type: ignore[call-arg]
    piwo.Log.from_arrays(action=["a"], reward=numbers, wieght=numbers)  # type: ignore[call-arg]
    piwo.estimate_propensities("log.csv", propensity="p")  # type: ignore[call-arg]


def slates(log: piwo.Log) -> None:
    shown = piwo.slates.read("feed.parquet", rewards="clicks", propensities="ps", context=["x"])
    assert_type(shown, piwo.slates.SlateLog)
    assert_type(piwo.slates.from_obp({}, policies={"new": {}}), piwo.slates.SlateLog)
    assert_type(shown.position(1), piwo.Log)
    assert_type(shown.split().train, piwo.slates.SlateLog)
    target = piwo.slates.Deterministic(["a", "b"])
    found = piwo.slates.evaluate(shown, target, estimator="cascade", self_normalized=True)
    assert_type(found, piwo.slates.SlateEvaluation)
    assert_type(piwo.slates.adapt(shown, target).rules, tuple[tuple[str, ...], ...])
    assert_type(found.by_slot, tuple[piwo.slates.SlotValue, ...])
    assert_type(piwo.slates.by_position(shown).positions, tuple[piwo.slates.PositionValue, ...])
    assert_type(piwo.slates.learn(shown).policy, piwo.slates.GreedySlate)
    found_by_category = piwo.estimators.mips(log, piwo.policies.Logging(), {"a": 1})
    assert_type(found_by_category, piwo.estimators.MarginalEstimate)
    piwo.slates.read("feed.parquet", rewards="clicks", propensity="p")  # type: ignore[call-arg]
    piwo.slates.evaluate(shown, piwo.policies.Logging())  # type: ignore[arg-type]


def mistakes(log: piwo.Log) -> None:
    piwo.evaluate(log, piwo.policies.Logging(), gama=0.1)  # type: ignore[call-overload]
    piwo.IX(gamma=None)  # type: ignore[arg-type]
    piwo.PIWO(oracle="ridge")  # type: ignore[arg-type]
