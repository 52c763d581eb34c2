"""A pytest plugin: docstring examples may write files, but not into the repository."""

import pytest


@pytest.fixture(autouse=True)
def _examples_in_a_temporary_folder(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Run every docstring example in a temporary folder."""
    if isinstance(request.node, pytest.DoctestItem):
        monkeypatch.chdir(request.getfixturevalue("tmp_path"))
