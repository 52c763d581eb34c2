"""OffPolicyClassifier passes scikit-learn's own checks of estimators."""

import warnings

import pytest
import sklearn
from sklearn.utils.estimator_checks import check_estimator

from piwo.sklearn import OffPolicyClassifier


def statuses(model: OffPolicyClassifier) -> list[tuple[str, str]]:
    """Name and status of each of scikit-learn's checks."""
    if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 6):
        found = check_estimator(model, on_skip=None, on_fail=None)
        return [(one["check_name"], one["status"]) for one in found]
    made = []
    # before 1.6 the checks are callables; each raises if it fails
    for one, check in check_estimator(model, generate_only=True):
        check(one)
        made.append((check.func.__name__, "passed"))
    return made


def test_all_checks_pass_with_labels_as_the_checks_have_them(
    request: pytest.FixtureRequest,
) -> None:
    # the checks call fit(X, y) without rewards: y is declared to hold labels
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = statuses(OffPolicyClassifier(missing_reward="labels"))
    passed = [name for name, status in found if status == "passed"]
    print(f"scikit-learn {sklearn.__version__}: {len(passed)} of {len(found)} checks passed")
    assert len(passed) >= 40
    # skipped unless SCIPY_ARRAY_API is set before SciPy is imported; passes then
    others = {"check_array_api_input"}
    if request.config.pluginmanager.has_plugin("pytest_runtime_types"):
        # it gives the constructor values of all types
        others.add("check_do_not_raise_errors_in_init_or_set_params")
    assert {name for name, status in found if status != "passed"} <= others
