"""MLflow, where it is installed; its own warnings are not ours."""

import importlib
import warnings
from typing import Any

import pytest


def installed(name: str) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        pytest.importorskip("mlflow", reason="mlflow is not installed")
        return importlib.import_module(name)
