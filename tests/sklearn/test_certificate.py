"""Certificates of pipelines: on rows that no part of them has seen."""

import warnings
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import piwo
from piwo.sklearn import OffPolicyClassifier, certify
from tests.sklearn.world import metadata, rows

OLD, NEW = slice(0, 300), slice(300, 600)


@pytest.fixture(scope="module")
def made() -> dict[str, Any]:
    return rows()


def pipeline(made: dict[str, Any], some: Any = OLD) -> Any:
    given = {f"offpolicyclassifier__{k}": x for k, x in metadata(made, some).items()}
    model = make_pipeline(StandardScaler(), OffPolicyClassifier())
    return model.fit(made["X"][some], made["y"][some], **given)


def test_it_is_the_certificate_of_the_whole_pipeline(made: dict[str, Any]) -> None:
    model, new = pipeline(made), (made["X"][NEW], made["y"][NEW])
    found = certify(model, *new, **metadata(made, NEW))
    assert found.certified
    log = piwo.Log.from_arrays(
        context=new[0], action=new[1], actions=["a", "b", "c"], **metadata(made, NEW)
    )
    whole = piwo.policies.Classifier(model, log.actions)
    wanted = piwo.certify(log, {0: whole})[0]
    assert found.value_lower == pytest.approx(wanted.value_lower)
    assert found.improvement_lower == pytest.approx(wanted.improvement_lower)


def test_rows_that_were_learned_from_are_refused(made: dict[str, Any]) -> None:
    model = pipeline(made)
    with pytest.raises(piwo.UsageError, match="300 of the 600 rows"):
        certify(model, made["X"], made["y"], **metadata(made))


def test_columns_that_were_scaled_before_the_split_are_said(made: dict[str, Any]) -> None:
    X = StandardScaler().fit_transform(made["X"]).astype(np.float32)
    model = OffPolicyClassifier().fit(X[OLD], made["y"][OLD], **metadata(made, OLD))
    with pytest.warns(piwo.PiwoWarning, match="3 of 3 columns have mean 0 and variance 1"):
        found = certify(model, X[NEW], made["y"][NEW], **metadata(made, NEW))
    assert found.notes[-1].kind == "preprocessing"
    # scaled by the old rows alone, as in a pipeline: nothing to say
    scaled = StandardScaler().fit(made["X"][OLD]).transform(made["X"])
    model.fit(scaled[OLD], made["y"][OLD], **metadata(made, OLD))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        certify(model, scaled[NEW], made["y"][NEW], **metadata(made, NEW))


def test_a_column_that_has_seen_what_happened_makes_a_false_certificate() -> None:
    # what the page warns of: an encoder that was fitted to all rows wrote into the context what was
    # done, or what would have been good to do
    rng = np.random.default_rng(0)
    n = 2000
    y, reward = rng.integers(0, 2, n), (rng.random(n) < 0.5) * 1.0
    half = np.full(n, 0.5)
    old, new = slice(0, 1000), slice(1000, 2000)

    def lower(column: Any) -> float | None:
        model = OffPolicyClassifier()
        model.fit(column[old, None], y[old], reward=reward[old], propensity=half[old])
        found = certify(model, column[new, None], y[new], reward=reward[new], propensity=half[new])
        return found.value_lower

    # every policy is worth 0.5; nothing in these rows shows that the second column is a fraud
    assert lower(rng.normal(size=n)) < 0.5
    assert lower(np.where(reward > 0, y, 1 - y)) > 0.8
    # a policy that copies the logged actions contradicts the propensities: there is no bound
    assert lower(y) is None


def test_other_classifiers_and_what_is_missing(made: dict[str, Any]) -> None:
    model = LogisticRegression().fit(made["X"][OLD], made["y"][OLD])
    found = certify(model, made["X"][NEW], made["y"][NEW], **metadata(made, NEW))
    assert found.value_lower is not None
    with pytest.raises(piwo.UsageError, match="certify got no propensity="):
        certify(model, made["X"], made["y"], reward=made["reward"])
