"""Estimated propensities: from other folds only, marked, calibrated where the classifier is right."""

import numpy as np
import pytest

import piwo
from piwo.estimators.propensities import COLUMN


def rows(n: int = 4000, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A log without propensities, and the propensities of its actions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    of_one = 1 / (1 + np.exp(-1.5 * x))
    action = (rng.random(n) < of_one) * 1
    reward = (rng.random(n) < 0.2 + 0.6 * (action == (x > 0))) * 1.0
    return {"x": x, "action": action, "reward": reward}, np.where(action == 1, of_one, 1 - of_one)


def estimated(log: piwo.Log) -> np.ndarray:
    return np.concatenate([batch.propensity for batch in log.each_batch()])


def test_a_logistic_logger_is_found_by_logistic_regression() -> None:
    frame, truth = rows()
    log = piwo.estimate_propensities(frame, context="x")
    assert np.abs(estimated(log) - truth).mean() < 0.02
    assert log.doubt is not None
    assert log.doubt.estimated == "LogisticRegression, 5 folds"
    assert sum(one.pairs for one in log.doubt.calibration) == 2 * 4000
    assert sum(one.pairs * one.observed for one in log.doubt.calibration) == pytest.approx(4000)
    assert sum(one.pairs * one.predicted for one in log.doubt.calibration) == pytest.approx(4000)
    assert max(abs(one.z) for one in log.doubt.calibration) < 4


def test_no_row_is_seen_by_the_classifier_that_judges_it() -> None:
    """A classifier that knows its rows by heart gives every action of other rows 1/3 or 2/3, never 1."""
    from sklearn.neighbors import KNeighborsClassifier

    frame, _ = rows(300)
    for forward in (False, True):
        log = piwo.estimate_propensities(frame, context="x", model=KNeighborsClassifier(1), forward=forward)
        p = estimated(log)
        assert (p < 0.01).mean() > 0.1  # its own row would always be its nearest


def test_forward_leaves_the_first_part_out_and_looks_only_back() -> None:
    frame, _ = rows(1000)
    log = piwo.estimate_propensities(frame, context="x", forward=True, folds=4)
    assert len(log) == 750
    later = {name: np.concatenate([column[:750], column[:250]]) for name, column in frame.items()}
    again = piwo.estimate_propensities(later, context="x", forward=True, folds=4)
    assert np.array_equal(estimated(log)[:500], estimated(again)[:500])


def test_without_context_they_are_frequencies() -> None:
    frame = {"action": ["a"] * 30 + ["b"] * 10, "reward": [1.0] * 40}
    log = piwo.estimate_propensities(frame, folds=2, random_state=3)
    p = estimated(log)
    # of the 20 rows of the other fold k are `a`: (k + 1/2) / 21
    counts = p[:30] * 21 - 0.5
    assert np.allclose(counts, counts.round(), atol=1e-9)
    assert p[:30].mean() == pytest.approx(0.75, abs=0.05)


def test_every_result_says_it() -> None:
    frame, _ = rows()
    log = piwo.estimate_propensities(frame, context="x")
    word = "the propensities were estimated"
    evaluation = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert word in evaluation.notes[0]
    assert evaluation.lower is not None
    assert evaluation.lower <= 0.5 <= (evaluation.upper or 0)
    health = piwo.check(log)
    assert any(word in finding.text for finding in health.findings if finding.severity == "care")
    assert "calibration of the estimated propensities" in str(health)
    assert len(health.to_dict()["calibration"]) > 3
    with pytest.warns(piwo.PiwoWarning, match=word):
        learner = piwo.PIWO().fit(log)
    assert learner.certificate_ is not None
    assert word in learner.certificate_.notes[0]
    assert word in piwo.estimators.bootstrap(log, piwo.policies.Uniform(log.actions), replicates=9).notes[0]
    q = np.full((4000, 2), 0.5)
    declared = piwo.estimate_propensities(frame, context="x", actions=[0, 1])
    assert word in piwo.estimators.doubly_robust(declared, piwo.policies.Uniform([0, 1]), q).notes[0]


def test_wrong_arguments() -> None:
    frame, _ = rows(50)
    with pytest.raises(piwo.DataError, match="cut into 51 folds"):
        piwo.estimate_propensities(frame, context="x", folds=51)
    with pytest.raises(piwo.UsageError, match="no predict_proba"):
        piwo.estimate_propensities(frame, context="x", model=object())
    with pytest.raises(piwo.UsageError, match="rename it"):
        piwo.estimate_propensities({**frame, COLUMN: frame["x"]}, context=["x", COLUMN])


def test_the_order_of_folds_is_in_the_seed() -> None:
    frame, _ = rows(200)
    one, same, other = (
        estimated(piwo.estimate_propensities(frame, context="x", random_state=seed)) for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)
