"""Policy files: what goes in comes out, in a new process too, byte for byte the same, whole or
not at all."""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest

from piwo.errors import FileError, PiwoWarning, UsageError
from piwo.logs.features import Feature, Features
from piwo.policies import (
    Column,
    Constant,
    Deterministic,
    EpsilonGreedy,
    LinearGreedy,
    LinearSoftmax,
    Logging,
    Mixture,
    Policy,
    RowWise,
    Tabular,
    Uniform,
    load,
    load_with_metadata,
)
from piwo.policies.files import KINDS

HOSTILE = [
    '"quoted\' text"',
    "../../x",
    "</script><img src=x onerror=alert(1)>",
    "L" * 100_000,
    "Łódź −5 %",
    "",
    "\n\0",
]
# Reads every path given, asks each policy for its table, and prints them with the labels.
READER = """
import json, sys, warnings
warnings.simplefilter("error")
import numpy as np
from piwo.policies import load
x = np.array(json.loads(sys.stdin.readline()))
out = {}
for path in sys.argv[1:]:
    policy = load(path)
    out[path] = [policy.kind, list(policy.actions.labels), policy.probabilities(x).tolist()]
print(json.dumps(out))
"""


def read_elsewhere(paths: list[Path], contexts: np.ndarray) -> dict[str, list[object]]:
    """What a new process finds in the files."""
    command = [sys.executable, "-c", READER, *map(str, paths)]
    done = subprocess.run(
        command, input=json.dumps(contexts.tolist()), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, list[object]] = json.loads(done.stdout)
    return found


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "p.piwo"


def a_function(policy: Policy) -> bool:
    return "Deterministic" in repr(policy) or "Function" in repr(policy)


def test_every_kind_comes_back_in_a_new_process(
    tmp_path: Path, examples: dict[str, Policy], contexts: np.ndarray
) -> None:
    saved = {name: policy for name, policy in examples.items() if not a_function(policy)}
    for name, policy in saved.items():
        policy.save(tmp_path / name)
    found = read_elsewhere([tmp_path / name for name in saved], contexts)
    for name, policy in saved.items():
        kind, labels, table = found[str(tmp_path / name)]
        assert (kind, labels) == (policy.kind, list(policy.actions.labels))
        np.testing.assert_array_equal(table, policy.probabilities(contexts))
    in_no_table = {Column.kind, Logging.kind}
    assert {policy.kind for policy in saved.values()} | in_no_table == set(KINDS)


def test_every_kind_comes_back_here(policy: Policy, path: Path, contexts: np.ndarray) -> None:
    if a_function(policy):
        with pytest.raises(UsageError, match=r"(rule|function) policy cannot be saved"):
            policy.save(path)
        assert not path.exists()
        return
    policy.save(path)
    again = load(path)
    assert type(again) is type(policy)
    assert again.actions == policy.actions
    assert again.features == policy.features
    np.testing.assert_array_equal(again.probabilities(contexts), policy.probabilities(contexts))
    np.testing.assert_array_equal(again.act(contexts, 0).actions, policy.act(contexts, 0).actions)


def test_the_same_policy_gives_the_same_bytes(policy: Policy, path: Path) -> None:
    if a_function(policy):
        pytest.skip("cannot be saved")
    policy.save(path, {"training": {"rows": 7}})
    first = path.read_bytes()
    load(path).save(path, {"training": {"rows": 7}})
    assert path.read_bytes() == first


def test_policies_of_the_log_come_back(path: Path) -> None:
    Column("new").save(path)
    assert load(path).name == "new"  # type: ignore[attr-defined]
    assert load(path).listed is None
    Mixture([Logging(), Uniform(["b", "a"])], [0.75, 0.25]).save(path)
    again = load(path)
    assert isinstance(again, Mixture)
    assert again.weights.tolist() == [0.75, 0.25]
    assert [x.kind for x in again.policies] == ["logging", "uniform"]


def test_row_wise_policies_are_refused_in_one_line(path: Path) -> None:
    for policy in (RowWise([0.5]), EpsilonGreedy(RowWise([[0.5, 0.5]], ["a", "b"]), 0.1)):
        with pytest.raises(UsageError, match="rows of one log; save a linear") as wrong:
            policy.save(path)
        assert "\n" not in str(wrong.value)
        assert not path.exists()


def test_labels_come_back_as_they_were(path: Path) -> None:
    ids = [1582218195625938945, 1582218195625938944, -(2**63), 2**63 - 1, 2**64 - 1]
    for labels in (HOSTILE, ids, ["01", "1", "NA"], [1, 10, 2], ["1", "10", "2"]):
        LinearGreedy(np.eye(len(labels)), np.zeros(len(labels)), labels).save(path)
        assert list(load(path).actions.labels) == labels
        assert [type(x) for x in load(path).actions] == [type(x) for x in labels]
        with zipfile.ZipFile(path) as file:
            assert file.namelist() == ["policy.json", "policy/coef.npy", "policy/intercept.npy"]


def test_features_come_back(path: Path) -> None:
    items = (
        Feature("age"),
        Feature("color", "levels", ("blue", *HOSTILE)),
        Feature("v", "vector", size=3),
    )
    features = Features(items)
    LinearSoftmax(np.zeros((2, features.width)), [0, 0], ["a", "b"], 1e-320, features).save(path)
    again = load(path)
    assert again.features == features
    assert again.temperature == 1e-320  # type: ignore[attr-defined]


def test_metadata_comes_back(path: Path) -> None:
    metadata = {
        "certificate": {"lower": 0.25, "claim": "value"},
        "training": {"labels": HOSTILE, "n": None},
    }
    Uniform(["a"]).save(path, metadata)
    found = load_with_metadata(path)
    assert found.metadata == metadata
    assert found.library
    for wrong in ({"value": np.nan}, {"value": np.float32(1)}, {"value": object()}):
        with pytest.raises(UsageError, match="metadata is not JSON"):
            Uniform(["b"]).save(path, wrong)
    assert load(path).actions.labels == ("a",)


def test_numbers_at_the_edge_come_back(path: Path) -> None:
    coef = [[5e-324, -0.0], [1e308, 0.1 + 0.2]]
    LinearGreedy(coef, [-np.inf, 0.0], ["a", "b"]).save(path)
    again = load(path)
    assert isinstance(again, LinearGreedy)
    assert again.coef.tobytes() == np.array(coef).tobytes()
    assert again.intercept.tolist() == [-np.inf, 0.0]
    Tabular(np.array([1 / 3, 1 / 3, 1 / 3]), ["a", "b", "c"]).save(path)
    assert load(path).probabilities(n=1).tolist() == [[1 / 3, 1 / 3, 1 / 3]]


def test_who_reads_the_old_file_still_reads_the_old_file(path: Path) -> None:
    Constant("a", ["a", "b"]).save(path)
    old = path.read_bytes()
    with path.open("rb") as reader:
        Constant("b", ["a", "b"]).save(path)
        assert reader.read() == old
    assert path.read_bytes() != old


def test_no_clock_is_in_the_file(path: Path) -> None:
    LinearGreedy([[1.0]], [0.0], ["a"]).save(path)
    with zipfile.ZipFile(path) as file:
        assert {x.date_time for x in file.infolist()} == {(1980, 1, 1, 0, 0, 0)}


def test_a_write_that_fails_leaves_the_old_file(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Constant("a", ["a", "b"]).save(path)
    old = path.read_bytes()

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        with pytest.raises(FileError, match=r"cannot be written: No space left on device"):
            Constant("b", ["a", "b"]).save(path)
    assert path.read_bytes() == old
    assert [x.name for x in path.parent.iterdir()] == [path.name]


def test_a_process_killed_while_writing_leaves_the_old_file(path: Path) -> None:
    Constant("a", ["a", "b"]).save(path)
    old = path.read_bytes()
    code = """
import os, sys, signal
from piwo.policies import Constant
os.fsync = lambda _: os.kill(os.getpid(), signal.SIGKILL)
Constant("b", ["a", "b"]).save(sys.argv[1])
"""
    done = subprocess.run([sys.executable, "-c", code, str(path)], check=False, capture_output=True)
    assert done.returncode < 0
    assert path.read_bytes() == old


def test_a_file_is_written_where_a_link_points_and_can_be_read_by_others(path: Path) -> None:
    link = path.with_name("link")
    link.symlink_to(path)
    umask = os.umask(0o022)
    try:
        Uniform(["a"]).save(link)
    finally:
        os.umask(umask)
    assert link.is_symlink()
    assert path.stat().st_mode & 0o777 == 0o644
    load(link)


def test_where_no_file_can_be(tmp_path: Path) -> None:
    with pytest.raises(
        FileError, match=r"missing.p: cannot|cannot be written: No such file"
    ) as wrong:
        Uniform(["a"]).save(tmp_path / "missing" / "p")
    assert "\n" not in str(wrong.value)
    with pytest.raises(FileError, match="cannot be read: No such file"):
        load(tmp_path / "missing")
    with pytest.raises(FileError, match="is a folder, expected an ordinary file"):
        load(tmp_path)


# --- models


def models() -> dict[str, object]:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.ensemble import (
        HistGradientBoostingClassifier,
        RandomForestClassifier,
        VotingClassifier,
    )
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import GridSearchCV
    from sklearn.naive_bayes import GaussianNB
    from sklearn.neighbors import KNeighborsClassifier
    from sklearn.neural_network import MLPClassifier
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import PolynomialFeatures, StandardScaler

    forest = RandomForestClassifier(5, random_state=0)
    return {
        "pipeline": make_pipeline(StandardScaler(), PolynomialFeatures(2), LogisticRegression()),
        "forest": forest,
        "boosting": HistGradientBoostingClassifier(max_iter=5, categorical_features=[1]),
        "voting": VotingClassifier(
            [("a", LogisticRegression()), ("b", GaussianNB())], voting="soft"
        ),
        "calibrated": CalibratedClassifierCV(forest, cv=2),
        "neighbors": KNeighborsClassifier(algorithm="brute"),
        "search": GridSearchCV(LogisticRegression(), {"C": [1.0, 2.0]}, cv=2),
        "network": MLPClassifier((4,), max_iter=300, tol=0.1, random_state=0),
    }


@pytest.mark.parametrize("name", sorted(models()))
def test_models_come_back(name: str, path: Path) -> None:
    from piwo.policies import Classifier

    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(size=200), rng.integers(0, 3, 200)])
    y = np.where(x[:, 0] > 0.2, "yes", np.where(x[:, 1] > 1, "no", "maybe"))
    model = models()[name].fit(x, y)  # type: ignore[attr-defined]
    policy = Classifier(model, ["no", "maybe", "yes", "other"], greedy=False)
    policy.save(path)
    first = path.read_bytes()
    np.testing.assert_array_equal(load(path).probabilities(x), policy.probabilities(x))
    policy.save(path)
    assert path.read_bytes() == first


def test_models_keep_the_names_of_their_columns_and_classes(path: Path) -> None:
    import pandas as pd
    from sklearn.linear_model import LogisticRegression

    from piwo.policies import Classifier

    x = pd.DataFrame({"a": [0.0, 1.0, 2.0, 3.0], "b": [1.0, 0.0, 1.0, 0.0]})
    model = LogisticRegression().fit(x, [0, 0, 1, 1])
    Classifier(model, ["low", "none", "high"], classes=["low", "high"]).save(path)
    again = load(path)
    assert again.act({"b": [0.0, 0.0], "a": [3.0, 0.0]}).actions.tolist() == ["high", "low"]


def test_models_that_would_not_be_loaded_are_not_saved(path: Path) -> None:
    from sklearn.neighbors import KNeighborsClassifier

    from piwo.policies import Classifier

    model = KNeighborsClassifier(1, algorithm="kd_tree").fit([[0.0], [1.0]], ["a", "b"])
    with pytest.raises(UsageError, match=r"_kd_tree\.KDTree.*algorithm='brute'"):
        Classifier(model, ["a", "b"]).save(path)
    assert not path.exists()

    class Mine:
        classes_ = np.array(["a"])

        def predict(self, x: np.ndarray) -> np.ndarray:
            return np.repeat("a", len(x))

    with pytest.raises(UsageError, match="Mine"):
        Classifier(Mine(), ["a"]).save(path)


def test_another_version_of_scikit_learn_is_told(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sklearn.tree import DecisionTreeClassifier

    from piwo.policies import Classifier

    with monkeypatch.context() as patched:
        patched.setattr("sklearn.__version__", "1.8.0")
        patched.setattr("sklearn.base.__version__", "1.8.0")
        model = DecisionTreeClassifier().fit([[0.0], [1.0]], ["a", "b"])
        Classifier(model, ["a", "b"]).save(path)
    with pytest.warns(
        PiwoWarning, match=r"p\.piwo.*scikit-learn 1\.8\.0.*evaluate it again"
    ) as told:
        load(path)
    assert len(told) == 1


def test_a_rule_is_not_saved_inside_another_policy(path: Path) -> None:
    policy = EpsilonGreedy(Deterministic(lambda x: ["a"] * len(x), ["a"]), 0.1)
    with pytest.raises(UsageError, match="rule policy cannot be saved"):
        policy.save(path)
