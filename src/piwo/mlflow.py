"""Policies in MLflow: logged with certificate and report, and loaded as a model that acts.

The model is a policy file of piwo and the name of this module: no pickle. Needs `piwo[mlflow]`.
"""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from typing import Any

from piwo._version import __version__
from piwo.certificates import Certificate
from piwo.checks import check_kind, check_path
from piwo.errors import FileError, UsageError
from piwo.policies import Policy, load

__all__ = ["ActingModel", "log_model", "save_model"]

POLICY_FILE = "policy.piwo"
_NO_LIST: Mapping[bool, list[Any]] = {True: [0, 0], False: ["", ""]}
"""Whether labels are whole numbers -> `eligible` if it is not given: MLflow knows no None for
lists, and no list of eligible actions names one twice."""


class ActingModel:
    """What `mlflow.pyfunc.load_model` holds of a policy: `predict` draws actions.

    >>> from piwo.policies import Constant
    >>> model = ActingModel(Constant("a", ["a", "b"]))
    >>> model.policy.actions.labels
    ('a', 'b')
    """

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        """The policy that acts."""

    def predict(self, model_input: Any, params: Mapping[str, Any] | None = None) -> Any:
        """Return a pandas frame with `action` and `propensity`, a row for each row of the input.

        Args:
            model_input: contexts, as `policy.act` takes them: (n, d) numbers, or a frame with the
                columns that the policy reads.
            params: "random_state", a whole number: the draws of `policy.act` with this seed;
                negative or not given: other draws at each call. Log the propensities in either
                case. "eligible", one list of the labels that may be chosen in all rows; not given:
                all actions.

        Raises:
            DataError: for contexts that cannot be used, and if the policy can take no eligible
                action.
        """
        import pandas as pd

        asked = dict(params or {})
        seed = int(asked.get("random_state", -1))
        eligible = asked.get("eligible")
        if eligible is not None:
            eligible = list(eligible)
            if eligible == _NO_LIST[_whole(self.policy)]:
                eligible = None
        made = self.policy.act(
            model_input, random_state=seed if seed >= 0 else None, eligible=eligible
        )
        return pd.DataFrame({"action": made.actions, "propensity": made.propensities})


def save_model(
    policy: Policy, path: str | PathLike[str], *, certificate: Certificate | None = None
) -> None:
    """Write a policy to a folder, as a model of MLflow with the flavor `python_function`.

    `mlflow.pyfunc.load_model(path).predict(X, params={"random_state": 0})` gives the actions and
    propensities of `policy.act(X, random_state=0)`; `params` has `eligible`, too. The folder holds
    the policy file (`piwo.load` reads it, too), with the certificate in its metadata. Loading
    executes the code of piwo that is installed, and nothing from the folder.

    Args:
        policy: any policy that can be saved.
        path: a folder that does not exist yet.
        certificate: of this policy, from `piwo.certify` or a learner.

    Raises:
        UsageError: for a policy that cannot be saved, or if mlflow is not installed.
        FileError: if the folder exists.

    Source: the documentation of MLflow, "mlflow.pyfunc", `loader_module`.

    >>> from piwo.policies import Constant
    >>> save_model(Constant("a", ["a", "b"]), "model")
    >>> sorted(path.name for path in Path("model").rglob("*.piwo"))
    ['policy.piwo']
    """
    _check(policy, certificate)
    check_path(path)
    if Path(path).exists():
        raise FileError(f"{path} exists, expected a folder that does not; give another path")
    with _pyfunc() as pyfunc, tempfile.TemporaryDirectory() as folder:
        pyfunc.save_model(path=str(path), **_model(policy, certificate, Path(folder)))


def log_model(
    policy: Policy,
    name: str = "policy",
    *,
    certificate: Certificate | None = None,
    report: str | PathLike[str] | None = None,
) -> Any:
    """Log a policy to the active run of MLflow: the model, its certificate, its report.

    The model is that of `save_model`. The certificate becomes the artifact `certificate.json` and
    the metrics `value`, `value_lower` and `improvement_lower`; the page of `piwo report` an
    artifact under its own name.

    Args:
        policy: any policy that can be saved.
        name: of the model in the run.
        certificate: of this policy, from `piwo.certify` or a learner.
        report: path of a page that `piwo report` wrote.

    Returns:
        MLflow's `ModelInfo`; `mlflow.pyfunc.load_model(info.model_uri)` acts.

    Raises:
        UsageError: for a policy that cannot be saved, or if mlflow is not installed.
        FileError: if there is no such report.

    Source: the documentation of MLflow, "mlflow.pyfunc", `loader_module`.

    >>> from piwo.policies import Constant
    >>> log_model(Constant("a", ["a", "b"]), report="none.html")
    Traceback (most recent call last):
    piwo.errors.FileError: no such file: none.html; write it with piwo report
    """
    _check(policy, certificate)
    check_kind("name", name, str)
    if report is not None:
        check_path(report)
        if not Path(report).is_file():
            raise FileError(f"no such file: {report}; write it with piwo report")
    with _pyfunc() as pyfunc, tempfile.TemporaryDirectory() as folder:
        info = pyfunc.log_model(name=name, **_model(policy, certificate, Path(folder)))
    import mlflow

    if certificate is not None:
        mlflow.log_dict(certificate.to_dict(), "certificate.json")
        for key in ("value", "value_lower", "improvement_lower"):
            number = getattr(certificate, key)
            if number is not None:
                mlflow.log_metric(key, number)
    if report is not None:
        mlflow.log_artifact(str(report))
    return info


def _check(policy: Policy, certificate: Certificate | None) -> None:
    """Require a policy and its certificate."""
    check_kind("policy", policy, Policy, " of piwo.policies")
    if certificate is not None:
        check_kind("certificate", certificate, Certificate, " of piwo.certify or a learner")


@contextmanager
def _pyfunc() -> Iterator[Any]:
    """Give `mlflow.pyfunc`, without two warnings that no caller can act on.

    They are about type hints inside of MLflow, and the example input that it would like to have.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".*(type hint|input example)", UserWarning)
        try:
            from mlflow import pyfunc
        except ImportError:
            raise UsageError("this needs mlflow; run: pip install 'piwo[mlflow]'") from None
        yield pyfunc


def _model(policy: Policy, certificate: Certificate | None, folder: Path) -> dict[str, Any]:
    """Return the arguments that make a policy a model; its file is written into a folder."""
    from mlflow.models import ModelSignature
    from mlflow.types import ParamSchema, ParamSpec
    from mlflow.types.schema import DataType

    metadata = None
    if certificate is not None:
        metadata = {"certificate": certificate.to_dict()}
    policy.save(folder / POLICY_FILE, metadata)
    seed = ParamSpec("random_state", DataType.long, -1)
    whole = _whole(policy)
    label = DataType.long if whole else DataType.string
    eligible = ParamSpec("eligible", label, _NO_LIST[whole], shape=(-1,))
    return {
        "loader_module": "piwo.mlflow",
        "data_path": str(folder / POLICY_FILE),
        "signature": ModelSignature(params=ParamSchema([seed, eligible])),
        # given, so that MLflow does not look for them by running the model
        "pip_requirements": [f"piwo[mlflow]=={__version__}"],
    }


def _whole(policy: Policy) -> bool:
    """Whether the labels of a policy are whole numbers."""
    return policy.listed is not None and isinstance(policy.listed.labels[0], int)


def _load_pyfunc(path: str) -> ActingModel:
    """Return the model of a policy file; MLflow calls this by name."""
    return ActingModel(load(path))
