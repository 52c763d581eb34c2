"""`import piwo` is light: heavy libraries are imported where they are used, not before."""

import json
import subprocess
import sys

import pytest

HEAVY = (
    "altair",
    "arviz",
    "dask",
    "distributed",
    "jinja2",
    "joblib",
    "matplotlib",
    "mlflow",
    "numba",
    "nutpie",
    "pandas",
    "plotly",
    "polars",
    "pyarrow.dataset",
    "pyspark",
    "ray",
    "scipy.stats",
    "skops",
    "sklearn",
    "tornado",
)


def loaded_after(statement: str) -> set[str]:
    """Names of the modules that a new interpreter has loaded after one statement."""
    code = f"{statement}\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return set(json.loads(done.stdout.splitlines()[-1]))


@pytest.fixture(scope="module")
def loaded() -> set[str]:
    return loaded_after("import piwo")


@pytest.mark.parametrize("library", HEAVY)
def test_import_piwo_does_not_load(library: str, loaded: set[str]) -> None:
    assert library not in loaded


def test_the_look_at_loaded_modules_sees_them() -> None:
    assert {"json", "decimal"} <= loaded_after("import decimal")


def test_every_public_name_can_be_had() -> None:
    import piwo

    assert [name for name in piwo.__all__ if not hasattr(piwo, name)] == []


def test_the_version_is_that_of_the_installed_wheel() -> None:
    from importlib.metadata import version

    import piwo

    assert piwo.__version__ == version("piwo")
