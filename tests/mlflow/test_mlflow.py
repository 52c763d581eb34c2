"""A policy in MLflow acts as it does here, and its folder holds no pickle."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.policies import EpsilonGreedy, Uniform
from tests.mlflow.installed import installed

# MLflow warns of changes of its own.
pytestmark = pytest.mark.filterwarnings("ignore::FutureWarning")


def learned() -> tuple[Any, piwo.Certificate, Any]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 2))
    action = rng.integers(0, 2, 2000)
    reward = (action == (X[:, 0] > 0)) * 1.0
    log = piwo.Log.from_arrays(
        context=X, action=action, reward=reward, propensity=np.full(2000, 0.5), logger="fixed"
    )
    learner = piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log)
    return learner.policy_, learner.certificate_, X[:50]


def test_a_saved_model_acts_as_the_policy(tmp_path: Path) -> None:
    pyfunc = installed("mlflow.pyfunc")
    policy, certificate, X = learned()
    explores = EpsilonGreedy(policy, 0.3)
    piwo.mlflow.save_model(explores, tmp_path / "model", certificate=certificate)
    model = pyfunc.load_model(str(tmp_path / "model"))
    for seed in (0, 7):
        found = model.predict(X, params={"random_state": seed})
        expected = explores.act(X, random_state=seed)
        assert list(found["action"]) == list(expected.actions)
        assert np.array_equal(found["propensity"], expected.propensities)
    assert set(model.predict(X)["action"]) <= {0, 1}
    files = [path for path in (tmp_path / "model").rglob("*") if path.is_file()]
    assert [path for path in files if path.suffix in {".pkl", ".pickle"}] == []
    (file,) = [path for path in files if path.suffix == ".piwo"]
    saved = piwo.policies.load_with_metadata(file)
    assert saved.metadata["certificate"] == json.loads(json.dumps(certificate.to_dict()))
    with pytest.raises(piwo.FileError, match="exists, expected a folder that does not"):
        piwo.mlflow.save_model(policy, tmp_path / "model")


def test_eligible_labels_are_a_parameter(tmp_path: Path) -> None:
    pyfunc = installed("mlflow.pyfunc")
    for labels in (["a", "b", "c"], [3, 1, 2]):
        policy = Uniform(labels)
        path = tmp_path / f"model-{labels[0]}"
        piwo.mlflow.save_model(policy, path)
        model = pyfunc.load_model(str(path))
        X = np.zeros((40, 1))
        some = labels[1:]
        found = model.predict(X, params={"random_state": 0, "eligible": some})
        expected = policy.act(n=40, random_state=0, eligible=some)
        assert list(found["action"]) == list(expected.actions)
        assert set(found["propensity"]) == {0.5}
        # not given, all actions may be chosen
        every = model.predict(X, params={"random_state": 0})
        assert list(every["action"]) == list(policy.act(n=40, random_state=0).actions)
        # an empty list is not the same as none
        with pytest.raises(piwo.PiwoError, match="eligible"):
            model.predict(X, params={"eligible": []})


def test_the_page_runs_as_a_new_user_runs_it(tmp_path: Path) -> None:
    installed("mlflow")
    pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed")
    page = Path(__file__).resolve().parents[2] / "docs" / "mlflow.md"
    blocks = re.findall(
        r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    (tmp_path / "page.py").write_text("\n".join(blocks), encoding="utf-8")
    # in a process and a folder of its own, without any setting of MLflow
    plain = {name: value for name, value in os.environ.items() if not name.startswith("MLFLOW")}
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "page.py"],
        cwd=tmp_path,
        env=plain,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "mlflow.db").exists()
    assert "params" not in done.stderr.lower()
    only = done.stdout.splitlines()[-3:]
    assert [line.split()[1] for line in only] == ["b", "b", "b"]


def test_a_run_holds_model_certificate_and_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mlflow = installed("mlflow")
    policy, certificate, X = learned()
    page = tmp_path / "report.html"
    page.write_text("<p>report</p>", encoding="utf-8")
    # a server or a database in use; files need nothing else to be installed
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    with mlflow.start_run() as run:
        info = piwo.mlflow.log_model(policy, certificate=certificate, report=page)
    model = mlflow.pyfunc.load_model(info.model_uri)
    found = model.predict(X, params={"random_state": 0})
    assert list(found["action"]) == list(policy.act(X, random_state=0).actions)
    kept = mlflow.get_run(run.info.run_id).data.metrics
    assert kept["value_lower"] == certificate.value_lower
    folder = Path(mlflow.artifacts.download_artifacts(run_id=run.info.run_id))
    assert (folder / "report.html").read_text(encoding="utf-8") == "<p>report</p>"
    told = json.loads((folder / "certificate.json").read_text(encoding="utf-8"))
    assert told["value_lower"] == certificate.value_lower
    with pytest.raises(piwo.FileError, match="no such file"):
        piwo.mlflow.log_model(policy, report=tmp_path / "none.html")
