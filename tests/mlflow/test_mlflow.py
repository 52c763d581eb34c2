"""A policy in MLflow acts as it does here, and its folder holds no pickle."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.policies import EpsilonGreedy
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


def test_the_page_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mlflow = installed("mlflow")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "runs").as_uri())
    page = Path(__file__).resolve().parents[2] / "docs" / "mlflow.md"
    names: dict[str, Any] = {}
    for block in re.findall(
        r"^```python\n(.*?)^```$", page.read_text("utf-8"), re.DOTALL | re.MULTILINE
    ):
        exec(compile(block, str(page), "exec"), names)
    assert names["learner"].certificate_.certified


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
