"""Loggers in processes of their own: the same files, and nothing is left running."""

import contextlib
import os
import signal
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from pathlib import Path

import pytest

from experiments.data import load
from experiments.loggers import outcomes
from experiments.protocol import Experiment, Protocol
from experiments.results import open_folder, run_all, settings_of
from piwo.errors import PiwoError

ROOT = Path(__file__).resolve().parents[2]
PROTOCOL = Protocol(sets=("good",))
# What runs forever: the process tells its number to the file that its name is.
ENDLESS = """
import os, sys, time
from pathlib import Path

from experiments.loggers import outcomes


class Logger:
    def __init__(self, name):
        self.name = name


class Endless:
    def run(self, logger):
        Path(logger.name).write_text(str(os.getpid()))
        time.sleep(600)


if __name__ == "__main__":
    try:
        list(outcomes(Endless(), [Logger(name) for name in sys.argv[1:]], 2))
    except KeyboardInterrupt:
        sys.exit(130)
"""


class Silent:
    def begin(self, total: int, kept: int) -> None: ...
    def done(self, name: str) -> None: ...
    def warn(self, text: str) -> None: ...


class Deadly(Experiment):
    def run(self, logger):
        os._exit(9)


def files_of(path: Path, processes: int) -> dict[str, bytes]:
    rows = load("synthetic", 2000, 0)
    with open_folder(path, settings_of(rows, asdict(PROTOCOL))) as folder:
        run = run_all(Experiment(rows, PROTOCOL), folder, Silent(), processes)
    assert run.computed == 20
    return {
        x.relative_to(path).as_posix(): x.read_bytes()
        for x in path.rglob("*")
        if x.is_file() and x.name != ".lock"
    }


def test_the_same_bytes_from_two_processes(tmp_path):
    one = files_of(tmp_path / "one", 1)
    assert len(one) == 2 * 20 + 5
    assert files_of(tmp_path / "two", 2) == one


def test_a_killed_process_is_told():
    experiment = Deadly(load("synthetic", 500, 0), PROTOCOL)
    with pytest.raises(PiwoError, match=r"was killed, probably for lack of memory; the same"):
        list(outcomes(experiment, experiment.loggers()[:3], 2))


@pytest.mark.parametrize("error", [OSError("handle is closed"), OSError(24, "too many files")])
def test_a_pool_that_breaks_between_two_loggers_is_told(monkeypatch, error):
    def submit(*_):
        raise error

    monkeypatch.setattr(ProcessPoolExecutor, "submit", submit)
    experiment = Deadly(load("synthetic", 500, 0), PROTOCOL)
    with pytest.raises((PiwoError, OSError)) as found:
        list(outcomes(experiment, experiment.loggers()[:3], 2))
    assert ("was killed" in str(found.value)) == (error.errno is None)


def alive(number: int) -> bool:
    with contextlib.suppress(ProcessLookupError):
        os.kill(number, 0)
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_no_process_outlives_its_parent(tmp_path, end):
    script = tmp_path / "endless.py"
    script.write_text(ENDLESS)
    names = [tmp_path / "a", tmp_path / "b"]
    here = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    deadline = time.monotonic() + 60
    with subprocess.Popen(
        [sys.executable, str(script), *map(str, names)],
        env=os.environ | {"PYTHONPATH": here},
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while not all(x.exists() and x.read_text() for x in names):
            assert process.poll() is None, "ended before it was killed"
            assert time.monotonic() < deadline
            time.sleep(0.02)
        children = [int(x.read_text()) for x in names]
        assert all(map(alive, children))
        process.send_signal(end)
        _, said = process.communicate(timeout=60)
    assert process.returncode == (130 if end == signal.SIGINT else -end)
    if end == signal.SIGINT:
        assert said == ""
    while any(map(alive, children)):
        assert time.monotonic() < deadline
        time.sleep(0.02)
