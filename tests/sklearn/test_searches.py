"""Scorers and splitters, and searches that use both."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sklearn
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import piwo
from piwo.sklearn import (
    OffPolicyClassifier,
    PolicyScorer,
    TimeFold,
    UnitFold,
    improvement_lcb,
    ips,
    ix,
    lcb,
    snips,
)
from tests.sklearn.world import metadata, rows


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return rows()


def log_of(made: dict[str, Any], some: Any = slice(None)) -> piwo.Log:
    return piwo.Log.from_arrays(
        context=made["X"][some], action=made["y"][some], **metadata(made, some)
    )


def test_a_search_over_gamma_chooses_as_the_path_by_hand(made: dict[str, Any]) -> None:
    gammas = [0.001, 0.3, 30.0]
    folds = KFold(3, shuffle=True, random_state=0)
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(OffPolicyClassifier(), {"gamma": gammas}, cv=folds)
        search.fit(made["X"], made["y"], **metadata(made))
    by_hand = np.zeros((3, 3))
    for i, gamma in enumerate(gammas):
        for k, (train, test) in enumerate(folds.split(made["X"])):
            learner = piwo.PIWO(piwo.IX(gamma), certificate=None).fit(log_of(made, train))
            result = piwo.evaluate(log_of(made, test), learner.policy_, estimator="ix")
            by_hand[i, k] = result.value
    # the choice is one: neighbors differ
    assert len(set(by_hand.mean(axis=1))) == 3
    assert search.best_params_["gamma"] == gammas[int(by_hand.mean(axis=1).argmax())]
    for k in range(3):
        assert search.cv_results_[f"split{k}_test_score"] == pytest.approx(by_hand[:, k], abs=1e-12)


def test_all_scorers_in_one_search_over_a_pipeline(made: dict[str, Any]) -> None:
    model = make_pipeline(StandardScaler(), OffPolicyClassifier())
    scoring = {
        "ips": ips,
        "snips": snips,
        "ix": ix,
        "lcb": lcb,
        "improvement_lcb": improvement_lcb,
    }
    with sklearn.config_context(enable_metadata_routing=True):
        search = GridSearchCV(
            model,
            {"offpolicyclassifier__gamma": [0.01, 0.1]},
            scoring=scoring,
            refit="lcb",
            cv=UnitFold(2),
            error_score="raise",
        )
        search.fit(made["X"], made["y"], unit=made["unit"], **metadata(made))
        new = rows(seed=1)
        assert search.score(new["X"], new["y"], **metadata(new)) > 0.5
    results = search.cv_results_
    assert (results["mean_test_lcb"] < results["mean_test_ix"] + 0.2).all()
    assert (results["mean_test_ix"] < results["mean_test_ips"]).all()
    assert (results["mean_test_improvement_lcb"] < results["mean_test_lcb"]).all()


def test_scorers_are_the_numbers_of_evaluate(made: dict[str, Any]) -> None:
    train, test = slice(0, 300), slice(300, 600)
    model = OffPolicyClassifier().fit(made["X"][train], made["y"][train], **metadata(made, train))
    found = piwo.evaluate(log_of(made, test), model.policy_)
    given = (model, made["X"][test], made["y"][test])
    more = metadata(made, test)
    assert lcb(*given, **more) == pytest.approx(found.lower)
    assert improvement_lcb(*given, **more) == pytest.approx(found.improvement_lower)
    assert ips(*given, **more) == pytest.approx(found.value)
    wanted = piwo.evaluate(log_of(made, test), model.policy_, estimator="snips").value
    assert snips(*given, **more) == pytest.approx(wanted)


def test_a_bound_on_rows_that_were_learned_from_is_refused(made: dict[str, Any]) -> None:
    model = OffPolicyClassifier().fit(made["X"], made["y"], **metadata(made))
    with pytest.raises(piwo.UsageError, match="in-sample"):
        lcb(model, made["X"], made["y"], **metadata(made))


def test_other_classifiers_are_scored_by_probabilities_or_greedily(made: dict[str, Any]) -> None:
    model = LogisticRegression().fit(made["X"], made["y"])
    drawn, greedy = PolicyScorer("ips"), PolicyScorer("ips", response_method="predict")
    scored = drawn(model, made["X"], made["y"], **metadata(made))
    place = np.searchsorted(model.classes_, made["y"])
    taken = model.predict_proba(made["X"])[np.arange(600), place]
    weight = made["reward"] / made["propensity"]
    assert scored == pytest.approx(float((taken * weight).mean()))
    same = model.predict(made["X"]) == made["y"]
    assert greedy(model, made["X"], made["y"], **metadata(made)) == pytest.approx(
        float((same * weight).mean())
    )


def test_a_scorer_without_metadata_names_the_routing_call(made: dict[str, Any]) -> None:
    model = LogisticRegression().fit(made["X"], made["y"])
    with pytest.raises(piwo.UsageError, match=r"set_score_request\(reward=True"):
        ix(model, made["X"], made["y"])
    assert repr(PolicyScorer("lcb", delta=0.1)) == "PolicyScorer(delta=0.1, measure='lcb')"


def test_units_stay_together_whatever_the_actions(made: dict[str, Any]) -> None:
    folds = list(UnitFold(3).split(made["X"], made["y"], groups=made["unit"]))
    for train, test in folds:
        assert not set(made["unit"][train]) & set(made["unit"][test])
    assert sorted(np.concatenate([test for _, test in folds])) == list(range(600))
    again = list(UnitFold(3).split(made["X"], made["y"][::-1], groups=made["unit"].astype(str)))
    assert all((one[1] == other[1]).all() for one, other in zip(folds, again, strict=True))
    assert UnitFold(3).get_n_splits() == 3
    with pytest.raises(piwo.DataError, match="take fewer folds"):
        list(UnitFold(3).split(np.zeros(6), groups=[1] * 6))


def test_folds_in_time_learn_from_earlier_rows_alone(made: dict[str, Any]) -> None:
    time = np.random.default_rng(0).integers(0, 50, 600)
    for train, test in TimeFold(4).split(made["X"], time=time):
        assert time[train].max() < time[test].min()
    days = np.datetime64("2026-01-01") + time
    assert [len(test) for _, test in TimeFold(2).split(made["X"], time=days)] == [
        len(test) for _, test in TimeFold(2).split(made["X"], time=time)
    ]
    with pytest.raises(piwo.DataError, match="missing in 1 rows"):
        list(TimeFold(2).split([0, 1, 2], time=[0.0, np.nan, 1.0]))
    with pytest.raises(piwo.DataError, match="take fewer folds"):
        list(TimeFold(2).split([0, 1, 2], time=[5, 5, 5]))
    with pytest.raises(piwo.UsageError, match="expected dates or numbers"):
        list(TimeFold(2).split([0, 1], time=["x", "y"]))


def test_times_are_routed_to_the_splitter(made: dict[str, Any]) -> None:
    with sklearn.config_context(enable_metadata_routing=True):
        found = cross_validate(
            OffPolicyClassifier(),
            made["X"],
            made["y"],
            params={**metadata(made), "time": np.arange(600)[::-1]},
            cv=TimeFold(2),
            scoring=ix,
            return_indices=True,
            error_score="raise",
        )
    assert len(found["test_score"]) == 2
    assert found["indices"]["test"][-1].max() == 199


def test_the_package_is_imported_on_demand_and_is_not_scikit_learn() -> None:
    code = (
        "import sys, piwo; assert 'sklearn' not in sys.modules; "
        "assert piwo.sklearn.ix.measure == 'ix'; import sklearn; "
        "assert sklearn.__name__ == 'sklearn' and piwo.sklearn.__name__ == 'piwo.sklearn'; "
        "from piwo.sklearn import OffPolicyClassifier; "
        "assert 'numba' not in sys.modules and 'duckdb' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
