"""OffPolicyClassifier passes scikit-learn's own checks of estimators."""

import json
import os
import subprocess
import sys

# Prints one line of JSON: scikit-learn's version, and name and status of each check. The checks
# call fit(X, y) without rewards: y is declared to hold labels.
CHECKS = """
import json, warnings
import sklearn
from sklearn.utils.estimator_checks import check_estimator
from piwo.sklearn import OffPolicyClassifier

warnings.simplefilter("ignore")
model = OffPolicyClassifier(missing_reward="labels")
if tuple(map(int, sklearn.__version__.split(".")[:2])) >= (1, 6):
    found = check_estimator(model, on_skip=None, on_fail=None)
    statuses = [(one["check_name"], one["status"]) for one in found]
else:
    # before 1.6 the checks are callables; each raises if it fails
    statuses = []
    for one, check in check_estimator(model, generate_only=True):
        check(one)
        statuses.append((check.func.__name__, "passed"))
print(json.dumps({"version": sklearn.__version__, "statuses": statuses}))
"""


def test_all_checks_pass_with_labels_as_the_checks_have_them() -> None:
    # in a process of its own: the check of array API input is skipped unless the variable is set
    # before SciPy is imported
    environment = os.environ | {"SCIPY_ARRAY_API": "1"}
    done = subprocess.run(
        [sys.executable, "-c", CHECKS], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    failed = [name for name, status in found["statuses"] if status != "passed"]
    passed = len(found["statuses"]) - len(failed)
    print(f"scikit-learn {found['version']}: {passed} of {len(found['statuses'])} checks passed")
    assert not failed
    assert passed >= 40
