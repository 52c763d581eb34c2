"""The folder of a run: ended at any point, the same command goes on to the same bytes; nothing is
ever mixed.

Run as a program, this file is the run that a test kills: `python test_results.py FOLDER SECONDS`.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from experiments import files
from experiments import results as module
from experiments.data import load
from experiments.results import LOGGERS, RESULTS, Run, open_folder, run_all, settings_of
from piwo.errors import FileError

ROOT = Path(__file__).resolve().parents[2]
NAMES = ("good-00", "good-01", "good-02", "bad-00")
FOLDS, H = 3, np.logspace(-10, 0, 4)
SETTINGS = {
    "seed": 3,
    "sets": ["good", "bad"],
    "data": "made up",
    "digest": "0" * 64,
    "version": "1.2.3",
}


@dataclass(frozen=True)
class Logger:
    name: str


@dataclass(frozen=True)
class Outcome:
    results: pa.Table
    logger: pa.Table


@dataclass
class Experiment:
    """Numbers that depend on the logger alone, with as many digits as a float has."""

    seconds: float = 0.0
    ran: list[str] = field(default_factory=list)

    def loggers(self) -> list[Logger]:
        return [Logger(name) for name in NAMES]

    def run(self, logger: Logger) -> Outcome:
        time.sleep(self.seconds)
        self.ran.append(logger.name)
        rng = np.random.default_rng(NAMES.index(logger.name))
        kind, number = logger.name.split("-")
        eta = 10.0 ** int(number) / 3
        cells = [(a, h, fold) for fold in range(FOLDS) for h in H for a in ("PIWO-PL", "PIWO-IX")]
        reward = rng.random(len(cells))
        results = {
            "regret": 1 - reward,  # the columns in another order
            "set": [kind] * len(cells),
            "eta": [eta] * len(cells),
            "algorithm": pa.array([a for a, _, _ in cells]).dictionary_encode(),
            "h": [h for _, h, _ in cells],
            "fold": pa.array([fold for _, _, fold in cells], pa.int32()),
            "reward": reward,
        }
        values = {name: rng.random(FOLDS) for name in LOGGERS.names[3:]}
        logger_row = {"set": [kind] * FOLDS, "eta": [eta] * FOLDS, "fold": range(FOLDS), **values}
        return Outcome(pa.table(results), pa.table(logger_row))


@dataclass
class Heard:
    """A listener that remembers."""

    total: int = 0
    kept: int = 0
    names: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def begin(self, total: int, kept: int) -> None:
        self.total, self.kept = total, kept

    def done(self, name: str) -> None:
        self.names.append(name)

    def warn(self, text: str) -> None:
        self.warnings.append(text)


def run_in(path: Path, experiment: Any = None, heard: Heard | None = None, **settings: Any) -> Run:
    with open_folder(path, SETTINGS | settings) as folder:
        return run_all(experiment or Experiment(), folder, heard or Heard())


def content(path: Path) -> dict[str, bytes]:
    """All that lies in a folder, but for the lock."""
    return {
        x.relative_to(path).as_posix(): x.read_bytes()
        for x in path.rglob("*")
        if x.is_file() and x.name != ".lock"
    }


@pytest.fixture
def whole(tmp_path: Path) -> dict[str, bytes]:
    """The files of a run that nothing interrupted."""
    run_in(tmp_path / "whole")
    return content(tmp_path / "whole")


# --- results


def test_what_a_run_leaves(tmp_path: Path) -> None:
    heard = Heard()
    run = run_in(tmp_path, heard=heard)
    assert (heard.total, heard.kept, tuple(heard.names), heard.warnings) == (4, 0, NAMES, [])
    assert (run.kept, run.computed) == (0, 4)
    assert run.results.num_rows == len(NAMES) * FOLDS * len(H) * 2
    assert run.loggers.num_rows == len(NAMES) * FOLDS
    for kind, schema in (("results", RESULTS), ("loggers", LOGGERS)):
        found = pq.read_table(tmp_path / f"{kind}.parquet")
        assert found.schema.equals(schema)
        assert found.equals(getattr(run, kind))
        metadata = {key.decode(): value.decode() for key, value in found.schema.metadata.items()}
        assert metadata == {
            key: str(SETTINGS[key]) for key in ("seed", "data", "digest", "version")
        }
        csv = pyarrow.csv.read_csv(tmp_path / f"{kind}.csv").cast(schema)
        assert csv.equals(found)
    top = {name for name in content(tmp_path) if "/" not in name}
    assert top == {
        "settings.json",
        "results.parquet",
        "results.csv",
        "loggers.parquet",
        "loggers.csv",
    }


def test_rows_are_sorted(tmp_path: Path) -> None:
    run = run_in(tmp_path)
    for table, keys in ((run.results, 5), (run.loggers, 3)):
        rows = [tuple(row.values())[:keys] for row in table.to_pylist()]
        assert rows == sorted(rows)
        assert len(set(rows)) == len(rows)
    assert run.results["set"][0].as_py() == "bad"


# --- resume


class Killed(BaseException):
    """In the place of a signal that leaves no time for anything."""


def test_an_interrupt_loses_one_logger(tmp_path: Path, whole: dict[str, bytes]) -> None:
    class Interrupted(Experiment):
        def run(self, logger: Logger) -> Outcome:
            if logger.name == NAMES[2]:
                raise KeyboardInterrupt
            return super().run(logger)

    with pytest.raises(KeyboardInterrupt):
        run_in(tmp_path / "a", Interrupted())
    experiment, heard = Experiment(), Heard()
    run = run_in(tmp_path / "a", experiment, heard)
    assert (heard.total, heard.kept, tuple(experiment.ran)) == (4, 2, NAMES[2:])
    assert (run.kept, run.computed) == (2, 2)
    assert content(tmp_path / "a") == whole


def test_a_finished_run_computes_nothing(tmp_path: Path, whole: dict[str, bytes]) -> None:
    experiment = Experiment()
    run = run_in(tmp_path / "whole", experiment)
    assert (run.kept, experiment.ran) == (4, [])
    assert content(tmp_path / "whole") == whole


@pytest.mark.parametrize("moment", ["half a file", "before the new name", "after it"])
def test_killed_at_any_file(
    moment: str, tmp_path: Path, whole: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed at each of the files that a run writes in turn, it goes on; what was done is not
    done again."""
    original: Callable[..., None] = files.replace
    for fatal in range(len(whole)):
        path, written = tmp_path / f"killed at {fatal}", []

        def replace(
            file: Path, write: Any, fatal: int = fatal, written: list[Path] = written
        ) -> None:
            written.append(file)
            if len(written) <= fatal:
                original(file, write)
                return
            if moment == "half a file":
                file.with_name(file.name + files.PARTIAL).write_bytes(b"half")
            elif moment == "before the new name":
                original(file, write)
                file.rename(file.with_name(file.name + files.PARTIAL))
            else:
                original(file, write)
            raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(files, "replace", replace)
            patch.setattr(module, "replace", replace)
            patch.setattr(
                module, "_remove_partial", lambda path: None
            )  # nobody tidies up after a kill
            with pytest.raises(Killed):
                run_in(path)
        before = sum(x.parent.name == module.PARTS for x in written[:fatal])
        experiment, heard = Experiment(), Heard()
        run_in(path, experiment, heard)
        assert len(experiment.ran) <= len(NAMES) - before // 2
        assert heard.warnings == []
        assert content(path) == whole


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL")
def test_killed_for_good(tmp_path: Path, whole: dict[str, bytes]) -> None:
    """`kill -9` while a logger runs, again and again; the lock of the dead run holds nobody up."""
    path = tmp_path / "killed"
    here = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    command = [sys.executable, __file__, str(path), "0.3"]
    for done in (1, 3):
        with subprocess.Popen(command, env=os.environ | {"PYTHONPATH": here}) as process:
            deadline = time.monotonic() + 60
            while len(list(path.glob(f"{module.PARTS}/*.loggers.parquet"))) < done:
                assert process.poll() is None, "ended before it was killed"
                assert time.monotonic() < deadline
                time.sleep(0.02)
            process.send_signal(signal.SIGKILL)
        assert process.returncode == -signal.SIGKILL
    experiment = Experiment()
    run_in(path, experiment)
    assert len(experiment.ran) <= len(NAMES) - 3
    assert content(path) == whole


@pytest.mark.parametrize(
    "damage", ["empty", "cut", "flipped", "of another logger", "of other settings", "a folder"]
)
def test_a_damaged_file_is_noticed(damage: str, tmp_path: Path, whole: dict[str, bytes]) -> None:
    path = tmp_path / "whole"
    part = path / module.PARTS / "good-01.results.parquet"
    good = part.read_bytes()
    if damage == "empty":
        part.write_bytes(b"")
    elif damage == "cut":
        part.write_bytes(good[: len(good) // 2])
    elif damage == "of another logger":
        part.write_bytes((path / module.PARTS / "good-02.results.parquet").read_bytes())
    elif damage == "of other settings":
        run_in(tmp_path / "other", seed=4)
        part.write_bytes((tmp_path / "other" / module.PARTS / part.name).read_bytes())
    elif damage == "flipped":
        found = pq.read_table(part)
        reward = found["reward"].to_numpy().copy()
        reward[5] = np.nextafter(reward[5], 2)
        pq.write_table(found.set_column(5, "reward", pa.array(reward)).cast(found.schema), part)
    else:
        part.unlink()
        part.mkdir()
        with pytest.raises(OSError, match=part.name):  # nothing can be renamed onto a folder
            run_in(path)
        part.rmdir()
    experiment, heard = Experiment(), Heard()
    run_in(path, experiment, heard)
    assert experiment.ran == ["good-01"]
    assert heard.warnings == (
        [] if damage == "a folder" else [f"{part.name} is damaged; computing good-01 again"]
    )
    assert content(path) == whole


def test_any_flipped_byte_is_noticed_or_means_nothing(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    path = tmp_path / "whole"
    part = path / module.PARTS / "good-01.loggers.parquet"
    good = part.read_bytes()
    for place in range(0, len(good), 97):
        part.write_bytes(good[:place] + bytes([good[place] ^ 0x41]) + good[place + 1 :])
        run = run_in(path)
        assert (tmp_path / "whole" / "loggers.parquet").read_bytes() == whole["loggers.parquet"]
        assert run.kept >= 3


# --- settings


def test_settings_name_all_that_results_depend_on() -> None:
    rows = load("synthetic", 500, 0)
    found = settings_of(rows, {"seed": 0, "sets": ("good",), "penalty": 0.1})
    assert json.loads(json.dumps(found)) == found
    assert found == {
        "format": 1,
        "version": found["version"],
        "data": "synthetic data",
        "n": 500,
        "d": 16,
        "K": 26,
        "digest": rows.digest,
        "seed": 0,
        "sets": ["good"],
        "penalty": 0.1,
    }


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"seed": 4}, ": seed was 3, now 4;"),
        ({"sets": ["good"]}, ': sets was ["good", "bad"], now ["good"];'),
        ({"version": "1.2.4"}, ': version was "1.2.3", now "1.2.4";'),
        ({"digest": "1" * 64}, ": digest was 000000000000..., now 111111111111...;"),
        ({"seed": 4, "data": "x"}, ': seed was 3, now 4; data was "made up", now "x";'),
        ({"resample": True}, ": resample was absent, now true;"),
    ],
)
def test_other_settings_are_refused(
    change: dict[str, Any], told: str, tmp_path: Path, whole: dict[str, bytes]
) -> None:
    with pytest.raises(FileError) as caught:
        run_in(tmp_path / "whole", **change)
    assert told in str(caught.value)
    assert "\n" not in str(caught.value)
    assert content(tmp_path / "whole") == whole


@pytest.mark.parametrize("text", ["", "{", "[]", '{"seed": '])
def test_damaged_settings_are_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text)
    with pytest.raises(FileError, match="delete the folder"):
        run_in(tmp_path)


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("mine")
    with pytest.raises(FileError, match=r"thesis\.txt"):
        run_in(tmp_path)
    assert [x.name for x in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(FileError, match="is a file"):
        run_in(tmp_path / "thesis.txt")


def test_an_empty_folder_and_one_within_others_will_do(
    tmp_path: Path, whole: dict[str, bytes]
) -> None:
    (tmp_path / "empty").mkdir()
    for path in (tmp_path / "empty", tmp_path / "a" / "b" / "c"):
        run_in(path)
        assert content(path) == whole


# --- lock


def test_two_runs_do_not_share_a_folder(tmp_path: Path) -> None:
    with open_folder(tmp_path, SETTINGS), pytest.raises(FileError, match="in use by another run"):
        run_in(tmp_path)
    run_in(tmp_path)


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    here = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    with open_folder(tmp_path, SETTINGS):
        command = [sys.executable, __file__, str(tmp_path), "0"]
        done = subprocess.run(
            command,
            env=os.environ | {"PYTHONPATH": here},
            capture_output=True,
            text=True,
            check=False,
        )
    assert done.returncode == 1
    assert "in use by another run" in done.stderr
    assert content(tmp_path).keys() == {"settings.json"}


if __name__ == "__main__":
    run_in(Path(sys.argv[1]), Experiment(float(sys.argv[2])))
