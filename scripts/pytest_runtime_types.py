"""A pytest plugin: arguments and results of piwo are type-checked while tests run."""

from collections.abc import Generator
from pathlib import Path
from traceback import walk_tb
from typing import Any

import pytest
from beartype import BeartypeConf
from beartype.claw import beartype_package
from beartype.roar import BeartypeCallHintParamViolation

# Set up when pytest loads the plugin, which is before any test can have imported piwo.
# Compiled loops call each other as what Numba made of them, so they are left alone.
COMPILED = (
    "piwo.bounds.kernels",
    "piwo.logs.kernels",
    "piwo.oracles.kernels",
    "piwo.oracles.tree_kernels",
    "piwo.policies.kernels",
    "piwo.reductions.bet_kernels",
    "piwo.reductions.kernels",
)
beartype_package(
    "piwo",
    conf=BeartypeConf(
        is_color=False, claw_is_pep526=False, is_pep484_tower=True, claw_skip_package_names=COMPILED
    ),
)
TESTS = str(Path(__file__).resolve().parent.parent / "tests")


def pytest_configure(config: pytest.Config) -> None:
    """Leave to mypy what run time cannot check: protocols without `runtime_checkable`."""
    config.addinivalue_line("filterwarnings", "ignore::beartype.roar.BeartypeClawDecorWarning")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, Any, Any]:
    """Skip the tests that give what an annotation refuses: their own refusals never get to run."""
    try:
        return (yield)
    except BeartypeCallHintParamViolation as refused:
        if not _given_by_a_test(refused):
            raise
        pytest.skip("annotations are checked first")


def _given_by_a_test(refused: BaseException) -> bool:
    """Whether the refused argument came from a test, and not from piwo itself."""
    files = [frame.f_code.co_filename for frame, _ in walk_tb(refused.__traceback__)]
    written = [x for x in files if not x.startswith("<") and f"{Path('beartype')}/" not in x]
    return bool(written) and written[-1].startswith(TESTS)
