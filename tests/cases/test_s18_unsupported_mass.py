"""S18: with full propensity vectors, unsupported is the mean of sum_a pi(a|x) 1{mu(a|x) = 0}."""

from typing import Any

import numpy as np
import pytest

import piwo
from piwo.policies import Constant, Logging, RowWise, Tabular, Uniform

N, LABELS = 2000, ["a", "b", "c"]


def vectors(share: float = 0.9) -> np.ndarray:
    """mu = (.5, .5, 0) in most rows, (.25, .25, .5) in the others."""
    mu = np.tile([0.5, 0.5, 0.0], (N, 1))
    mu[: round(N * (1 - share))] = [0.25, 0.25, 0.5]
    return mu


def made(**more: Any) -> piwo.Log:
    rng = np.random.default_rng(0)
    mu = vectors()
    action = (rng.random(N)[:, None] > np.cumsum(mu, axis=1)).sum(axis=1)
    given = {
        "context": mu[:, 2:],
        "action": np.array(LABELS)[action],
        "reward": rng.integers(0, 2, N) * 1.0,
        "propensities": mu,
        "actions": LABELS,
    }
    given.update(more)
    return piwo.Log.from_arrays(**{k: v for k, v in given.items() if v is not None})


def test_a_policy_that_is_impossible_in_most_rows() -> None:
    log = made()
    found = piwo.evaluate(log, Constant("c", LABELS))
    assert found.unsupported_mass == pytest.approx(0.9)
    assert any("could not take there (propensity 0)" in note for note in found.notes)
    assert piwo.evaluate(log, Uniform(LABELS)).unsupported_mass == pytest.approx(0.3)
    assert piwo.evaluate(log, Logging()).unsupported_mass == 0.0


@pytest.mark.parametrize("interval", ["auto", "mixture", "normal", "cressie-read"])
def test_whatever_the_interval_and_the_kind_of_policy(interval: str) -> None:
    rng = np.random.default_rng(1)
    table = rng.dirichlet(np.ones(3), N)
    expected = (table * (vectors() == 0)).sum(axis=1).mean()
    found = piwo.evaluate(made(), RowWise(table, LABELS), interval=interval)
    assert found.unsupported_mass == pytest.approx(expected, abs=1e-12)
    seen = Tabular([[0.0, 0.0, 1.0], [0.5, 0.5, 0.0]], LABELS, contexts=[[0.5], [0.0]])
    assert piwo.evaluate(made(), seen, interval=interval).unsupported_mass == 0.0


def test_a_behavior_policy_gives_it_too() -> None:
    class Logger:
        def probabilities(self, X: Any) -> Any:
            return np.where(X == 0.5, [[0.25, 0.25, 0.5]], [[0.5, 0.5, 0.0]])

    log = made(propensities=None, behavior=Logger())
    assert piwo.evaluate(log, Constant("c", LABELS)).unsupported_mass == pytest.approx(0.9)


def test_an_action_that_was_possible_and_never_drawn_is_supported() -> None:
    mu = np.tile([0.5, 0.4999, 0.0001], (20, 1))
    given = {"action": ["a", "b"] * 10, "reward": [1, 0] * 10, "actions": LABELS}
    log = piwo.Log.from_arrays(**given, propensities=mu)
    assert piwo.evaluate(log, Constant("c", LABELS)).unsupported_mass == 0.0
    # without vectors, what was never logged is all that is known
    plain = piwo.Log.from_arrays(**given, propensity=[0.5] * 20)
    assert piwo.evaluate(plain, Constant("c", LABELS)).unsupported_mass == 1.0


def test_by_unit_each_unit_counts_the_same() -> None:
    # rows 0..199 are possible: one unit; the others are 100 units
    unit = ["first"] * 200 + [f"u{i % 100}" for i in range(N - 200)]
    found = piwo.evaluate(made(unit=unit), Constant("c", LABELS))
    assert found.unsupported_mass == pytest.approx(100 / 101)


def test_probabilities_of_logged_actions_alone_do_not_show_it() -> None:
    assert piwo.evaluate(made(), np.full(N, 0.25)).unsupported_mass is None


def test_certificates_and_health_say_it() -> None:
    log = made()
    certificate = piwo.certify(log, {"c": Constant("c", LABELS)})["c"]
    assert certificate.unsupported_mass == pytest.approx(0.9)
    assert "weights      mean 0." in str(certificate)
    assert "unsupported 0.9" in str(certificate)
    assert certificate.to_dict()["unsupported_mass"] == pytest.approx(0.9)
    health = piwo.check(log, Constant("c", LABELS))
    assert health.unsupported_mass == pytest.approx(0.9)
    assert any(
        "gives probability 0.9 to actions that the logger could not" in x.text
        for x in health.findings
    )
    plain = made(propensities=None, propensity=np.full(N, 1 / 3))
    assert piwo.certify(plain, {"c": Constant("c", LABELS)})["c"].unsupported_mass == 0.0


def test_a_policy_of_the_context_on_a_log_without_vectors() -> None:
    plain = made(propensities=None, propensity=np.full(N, 1 / 3), actions=[*LABELS, "d"])
    policy = Tabular(
        [[0.0, 0.0, 0.0, 1.0], [0.5, 0.5, 0.0, 0.0]], [*LABELS, "d"], contexts=[[0.5], [0.0]]
    )
    assert piwo.evaluate(plain, policy).unsupported_mass == pytest.approx(0.1)
    assert piwo.certify(plain, {"new": policy})["new"].unsupported_mass == pytest.approx(0.1)
