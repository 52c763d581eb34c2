"""Folders for temporary files go with their process, also if it is killed."""

import gc
import os
import pickle
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from piwo.errors import FileError
from piwo.sources.temporary import TemporaryFolder

OTHER = """
from piwo.sources.temporary import TemporaryFolder
folder = TemporaryFolder()
(folder.path / "rows.arrow").write_text("rows")
print(folder.path, flush=True)
input()
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


def started() -> tuple[subprocess.Popen[str], Path]:
    pipe = subprocess.PIPE
    made = subprocess.Popen([sys.executable, "-c", OTHER], stdin=pipe, stdout=pipe, text=True)
    assert made.stdout is not None
    return made, Path(made.stdout.readline().strip())


def test_folders_of_killed_processes_are_removed_and_no_others(place: Path) -> None:
    killed, stale = started()
    alive, used = started()
    try:
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        assert (stale / "rows.arrow").exists()
        # What is not such a folder, or may be in use on another machine.
        (place / "piwo-notes").mkdir()
        (place / "piwo-other").mkdir()
        (place / "piwo-other" / ".lock").write_text("another machine")
        (place / "elsewhere").mkdir()
        (place / "elsewhere" / ".lock").write_text(os.uname().nodename)
        (place / "piwo-link").symlink_to(place / "elsewhere")
        (place / "piwo-file").write_text("text")
        own = TemporaryFolder()
        left = {x.name for x in place.iterdir()}
        assert stale.name not in left
        kept = {"piwo-notes", "piwo-other", "piwo-link", "piwo-file", "elsewhere"}
        assert left == {*kept, used.name, own.path.name}
        assert (used / "rows.arrow").read_text() == "rows"
    finally:
        alive.communicate("\n")
        killed.communicate()
    assert not used.exists()


def test_a_folder_lives_as_long_as_its_object(place: Path) -> None:
    folder = TemporaryFolder()
    (folder.path / "file").write_text("x")
    assert pickle.loads(pickle.dumps(folder)) == str(folder.path)
    assert [x.name for x in place.iterdir()] == [folder.path.name]
    del folder
    gc.collect()
    assert not list(place.iterdir())


def test_no_place_for_it_is_one_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    with pytest.raises(FileError, match=r"cannot be made .*set TMPDIR"):
        TemporaryFolder()
