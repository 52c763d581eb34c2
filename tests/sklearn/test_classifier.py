"""OffPolicyClassifier: what it learns, what it refuses, and inside of scikit-learn's tools."""

import io
from typing import Any

import joblib
import numpy as np
import pandas as pd
import pytest
import sklearn
import skops.io
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler
from sklearn.utils import estimator_html_repr

import piwo
from piwo.sklearn import OffPolicyClassifier
from tests.sklearn.world import metadata, rows


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return rows()


def fitted(made: dict[str, Any], **arguments: Any) -> OffPolicyClassifier:
    return OffPolicyClassifier(**arguments).fit(made["X"], made["y"], **metadata(made))


def test_it_learns_what_the_learner_of_the_log_api_learns(made: dict[str, Any]) -> None:
    log = piwo.Log.from_arrays(context=made["X"], action=made["y"], **metadata(made))
    by_hand = piwo.PIWO(piwo.LSLinear(0.4), piwo.oracles.Ridge(), certificate=None).fit(log)
    model = fitted(made, gamma=0.2, credit=piwo.LSLinear(), oracle=piwo.oracles.Ridge())
    assert model.credit_ == piwo.LSLinear(0.4)
    table = by_hand.policy_.probabilities(made["X"])
    assert (model.predict_proba(made["X"]) == table).all()
    assert (model.predict(made["X"]) == by_hand.policy_.act(made["X"]).actions).all()


def test_auto_gamma_is_that_of_the_learner(made: dict[str, Any]) -> None:
    # sqrt(d / n) for linear policies
    assert fitted(made).credit_ == piwo.IX(np.sqrt(3 / 600))
    assert fitted(made, credit=piwo.IX(0.3)).credit_ == piwo.IX(0.3)
    assert fitted(made, oracle=piwo.oracles.Direct()).credit_ is None


def test_score_is_the_ix_estimate_of_evaluate(made: dict[str, Any]) -> None:
    model, new = fitted(made), rows(seed=1)
    log = piwo.Log.from_arrays(context=new["X"], action=new["y"], **metadata(new))
    wanted = piwo.evaluate(log, model.policy_, estimator="ix").value
    assert model.score(new["X"], new["y"], **metadata(new)) == pytest.approx(wanted, abs=1e-12)


@pytest.mark.parametrize("method", ["fit", "score"])
@pytest.mark.parametrize("lacking", ["reward", "propensity"])
def test_what_is_missing_names_the_routing_call(
    made: dict[str, Any], method: str, lacking: str
) -> None:
    model, given = fitted(made), metadata(made)
    del given[lacking]
    with pytest.raises(piwo.UsageError, match=rf"no {lacking}=.*set_{method}_request\(reward=True"):
        getattr(model, method)(made["X"], made["y"], **given)


def test_labels_are_taken_for_the_best_actions_only_if_that_is_declared() -> None:
    X, y = [[0.0], [1.0], [2.0], [3.0]], [7, 7, 8, 8]
    with pytest.raises(piwo.UsageError, match="declare missing_reward='labels'"):
        OffPolicyClassifier().fit(X, y)
    model = OffPolicyClassifier(missing_reward="labels").fit(X, y)
    assert model.predict(X).tolist() == y
    assert model.score(X, [7, 7, 8, 7]) == 0.75
    # a propensity without a reward is a logged decision that lacks its reward
    with pytest.raises(piwo.UsageError, match="fit got no reward="):
        model.fit(X, y, propensity=[0.5] * 4)


@pytest.mark.parametrize("change", [lambda P: P[:, ::-1], lambda P: 1.5 * P])
def test_vectors_that_contradict_the_propensity_are_refused_by_fit_as_by_score(
    made: dict[str, Any], change: Any
) -> None:
    given = metadata(made) | {"propensities": change(made["propensities"])}
    model = fitted(made, actions=["a", "b", "c"])
    for method in (model.fit, model.score):
        with pytest.raises(piwo.DataError, match="disagrees with the propensity of the logged"):
            method(made["X"], made["y"], **given)


def test_full_propensities_are_in_the_order_of_the_declared_actions(made: dict[str, Any]) -> None:
    order = [2, 0, 1]
    model = OffPolicyClassifier(actions=["c", "a", "b"])
    vectors = made["propensities"][:, order]
    model.fit(made["X"], made["y"], reward=made["reward"], propensities=vectors)
    assert model.classes_.tolist() == ["a", "b", "c"]
    assert (model.predict(made["X"]) == fitted(made).predict(made["X"])).all()
    # a fold without an action still has a column for it
    some = made["y"] != "a"
    model.fit(
        made["X"][some],
        made["y"][some],
        reward=made["reward"][some],
        propensities=vectors[some],
    )
    with pytest.raises(piwo.UsageError, match="expected one column an action"):
        OffPolicyClassifier().fit(
            made["X"][some],
            made["y"][some],
            reward=made["reward"][some],
            propensities=vectors[some],
        )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"gamma": [0.1, 0.2]}, "GridSearchCV"),
        ({"gamma": -1.0}, "gamma is -1.0; expected a finite number above 0"),
        ({"gamma": 0.1, "oracle": piwo.oracles.Direct()}, "uses no score"),
        ({"credit": piwo.LS(0.1)}, "not linear in the policy"),
        ({"missing_reward": "ignore"}, "expected 'refuse' or 'labels'"),
        ({"actions": ["a", "b"]}, "y holds .*'c'"),
    ],
)
def test_wrong_arguments(made: dict[str, Any], arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(piwo.UsageError, match=message):
        fitted(made, **arguments)


def test_a_pipeline_over_a_data_frame(made: dict[str, Any]) -> None:
    frame = pd.DataFrame(made["X"], columns=["hour", "time", "age"])
    frame["country"] = np.where(made["X"][:, 1] > 5, "fr", "de")
    before = make_column_transformer(
        (StandardScaler(), ["hour", "age"]),
        (OneHotEncoder(sparse_output=False), ["country"]),
        verbose_feature_names_out=False,
    )
    model = make_pipeline(before, OffPolicyClassifier()).set_output(transform="pandas")
    given = {f"offpolicyclassifier__{k}": values for k, values in metadata(made).items()}
    model.fit(frame, made["y"], **given)
    names = ["hour", "age", "country_de", "country_fr"]
    assert model[-1].feature_names_in_.tolist() == names
    assert model[-1].policy_.features.names == tuple(names)
    assert (model.predict(frame)[frame.hour > 6] == "b").mean() > 0.9
    assert "OffPolicyClassifier" in estimator_html_repr(clone(model))


def test_parameters_of_a_classifier_as_oracle(made: dict[str, Any]) -> None:
    model = OffPolicyClassifier(oracle=HistGradientBoostingClassifier(max_iter=3))
    model.set_params(oracle__max_iter=2).fit(made["X"], made["y"], **metadata(made))
    assert model.policy_.model.n_iter_ == 2
    assert not hasattr(model.oracle, "classes_")


def by_joblib(model: Any) -> Any:
    file = io.BytesIO()
    joblib.dump(model, file)
    file.seek(0)
    return joblib.load(file)


def by_skops(model: Any) -> Any:
    data = skops.io.dumps(model)
    return skops.io.loads(data, trusted=skops.io.get_untrusted_types(data=data))


@pytest.mark.parametrize("kept", [by_joblib, by_skops])
def test_a_stored_classifier_acts_alike_and_knows_its_rows(made: dict[str, Any], kept: Any) -> None:
    model = fitted(made)
    again = kept(model)
    assert (again.predict(made["X"]) == model.predict(made["X"])).all()
    log = piwo.Log.from_arrays(context=made["X"], action=made["y"], **metadata(made))
    assert piwo.evaluate(log, again.policy_).in_sample


def test_its_policy_is_saved_as_any_other(made: dict[str, Any], tmp_path: Any) -> None:
    model = fitted(made)
    model.policy_.save(tmp_path / "policy.piwo")
    again = piwo.load(tmp_path / "policy.piwo")
    assert (again.act(made["X"]).actions == model.predict(made["X"])).all()


def test_series_with_other_indexes_are_refused(made: dict[str, Any]) -> None:
    frame, reward = pd.DataFrame(made["X"]), pd.Series(made["reward"])
    with pytest.raises(piwo.DataError, match="different indexes"):
        OffPolicyClassifier().fit(
            frame, made["y"], reward=reward.iloc[::-1], propensity=made["propensity"]
        )


def test_sparse_matrices_and_nan_name_what_goes_into_the_pipeline(made: dict[str, Any]) -> None:
    sparse = csr_array(made["X"])
    model = fitted(made)
    with pytest.raises(piwo.UsageError, match=r"sparse .*\(600, 3\).*sparse_output=False") as said:
        model.fit(sparse, made["y"], **metadata(made))
    assert "sparse_threshold=0" in str(said.value)
    assert "\n" not in str(said.value)
    for method in (model.predict, model.predict_proba):
        with pytest.raises(piwo.UsageError, match="sparse_threshold=0"):
            method(sparse)
    gaps = made["X"].copy()
    gaps[3, 1] = np.nan
    oracle = HistGradientBoostingClassifier(max_iter=5)
    with pytest.raises(piwo.UsageError, match=r"X contains NaN.*SimpleImputer\(add_indicator=True"):
        fitted(made | {"X": gaps}, oracle=oracle)
    # what the messages say works
    filled = make_pipeline(SimpleImputer(add_indicator=True), OffPolicyClassifier(oracle=oracle))
    with sklearn.config_context(enable_metadata_routing=True):
        filled.fit(gaps, made["y"], **metadata(made))
    assert filled.predict(gaps).shape == (600,)
    levels = (made["X"][:, :1] * 10).astype(int)
    dense = make_pipeline(OneHotEncoder(sparse_output=False), OffPolicyClassifier())
    with sklearn.config_context(enable_metadata_routing=True):
        dense.fit(levels, made["y"], **metadata(made))
    assert dense[-1].n_features_in_ > 50
