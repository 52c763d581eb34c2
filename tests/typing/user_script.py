"""A user's script, as strict type checkers see it. Checked by `make types`, never run."""

# pyright: strict

import numpy as np
import numpy.typing as npt

import piwo
from piwo.sklearn import OffPolicyClassifier, PolicyScorer, TimeFold, UnitFold, certify, ix, lcb

Numbers = npt.NDArray[np.float64]


def from_file_to_certificate(path: str) -> float | None:
    log = piwo.read(path, action="item", reward="click", propensity="p", context=["x_*"])
    health = piwo.check(log)
    print(health.verdict, health.fit)
    today = piwo.evaluate(log, piwo.policies.Uniform(log.actions), estimator="snips", delta=0.1)
    for name, one in piwo.compare(log, {"uniform": piwo.policies.Uniform(log.actions)}).items():
        print(name, one.value, one.lower, one.notes)
    learner = piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(log)
    learner.policy_.save("policy.piwo", metadata={"value": today.value})
    if learner.certificate_.certified:
        decisions = piwo.load("policy.piwo").act({"x_0": [0.1]}, random_state=0)
        print(decisions.actions, decisions.propensities)
    return learner.certificate_.value_lower


def from_arrays_with_scikit_learn(X: Numbers, labels: list[str], numbers: Numbers) -> float:
    model = OffPolicyClassifier(gamma=0.1, credit=piwo.LSLinear(), oracle=piwo.oracles.Ridge())
    model.set_fit_request(reward=True, propensity="p", propensities=False, unit=None)
    model.set_score_request(reward=True, sample_weight=False).set_fit_request(unit="user")
    model.fit(X, labels, reward=numbers, propensity=numbers)
    table: Numbers = model.predict_proba(X)
    print(model.predict(X), table.sum(), model.policy_.actions.labels)
    for train, test in UnitFold(3).split(X, groups=labels):
        print(train.sum(), test.sum())
    for train, test in TimeFold().split(X, time=numbers):
        print(train.sum(), test.sum())
    made = certify(model, X, labels, reward=numbers, propensity=numbers, at_least=0.1)
    print(made.certified, made.improvement_lower, made.to_dict())
    cautious = PolicyScorer("lcb", delta=0.01)
    total = cautious(model, X, labels, reward=numbers, propensity=numbers)
    total += lcb(model, X, labels, reward=numbers, propensity=numbers)
    total += ix(model, X, labels, reward=numbers, propensity=numbers)
    return total + model.score(X, labels, reward=numbers, propensity=numbers)


def mistakes(model: OffPolicyClassifier, numbers: Numbers) -> None:
    OffPolicyClassifier(gama=0.1)  # type: ignore[call-arg]
    model.set_fit_request(rewards=True)  # type: ignore[call-arg]
    OffPolicyClassifier(credit="ix")  # type: ignore[arg-type]
    model.fit(numbers, numbers, rewards=numbers)  # type: ignore[call-arg]
