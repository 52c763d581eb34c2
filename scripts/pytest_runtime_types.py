"""A pytest plugin (`-p pytest_runtime_types`): arguments and results of piwo are checked while tests run."""

import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_package

# Set up when pytest loads the plugin, which is before any test can have imported piwo.
# Compiled loops call each other as what Numba made of them, so they are left alone.
COMPILED = ("piwo.policies.kernels", "piwo.reductions.kernels")
beartype_package(
    "piwo",
    conf=BeartypeConf(is_color=False, claw_is_pep526=False, is_pep484_tower=True, claw_skip_package_names=COMPILED),
)


def pytest_configure(config: pytest.Config) -> None:
    """What cannot be checked at run time (a protocol without `runtime_checkable`) is left to mypy."""
    config.addinivalue_line("filterwarnings", "ignore::beartype.roar.BeartypeClawDecorWarning")
