"""What all tests share: where real logs are found, and that no setting of the user leaks into a test."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
# Read once, before any test clears PIWO_ variables.
SHARED_FROM_ENVIRONMENT = os.environ.get("PIWO_SHARED", "")

# The same examples on every run and every machine; no deadline, because tests are not timed.
settings.register_profile("piwo", derandomize=True, deadline=None, database=None)
settings.load_profile("piwo")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real logs: `$PIWO_SHARED/data`, or `../shared/data` beside the repository."""
    if SHARED_FROM_ENVIRONMENT:
        folder = Path(SHARED_FROM_ENVIRONMENT) / "data"
        if not folder.is_dir():
            pytest.fail(f"PIWO_SHARED is {SHARED_FROM_ENVIRONMENT!r}, but has no folder data")
        return folder
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip("needs real logs: set PIWO_SHARED to the folder whose data/ holds them, or put it at ../shared")
    return folder


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIWO_ variables are settings of the command line; a test sets those that it means."""
    for name in list(os.environ):
        if name.startswith("PIWO_"):
            monkeypatch.delenv(name)
