"""`python -m experiments.paper`: words in, exit codes, one line for what is wrong, and going on
after an interrupt.

Run as a program, this file is the command with an experiment that does nothing but sleep, and
claims about nothing.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import paper
from experiments.data import Data
from experiments.results import LOGGERS, RESULTS

ROOT = Path(__file__).resolve().parents[2]
LOGGERS_A_SET = 5


# --- in the place of the experiment


@dataclass(frozen=True)
class Protocol:
    seed: int
    sets: tuple[str, ...]
    resample: bool


@dataclass(frozen=True)
class Logger:
    set: str
    eta: float
    name: str


@dataclass(frozen=True)
class Outcome:
    results: pa.Table
    logger: pa.Table


@dataclass(frozen=True)
class Experiment:
    data: Data
    protocol: Protocol

    gamma_star = 0.01

    def loggers(self) -> list[Logger]:
        return [
            Logger(kind, 1.0 + i, f"{kind}-{i:02}")
            for kind in self.protocol.sets
            for i in range(LOGGERS_A_SET)
        ]

    def run(self, logger: Logger) -> Outcome:
        time.sleep(float(os.environ.get("SECONDS_A_LOGGER", "0")))
        reward = float(self.data.X[int(logger.eta), self.protocol.seed]) / 3
        results = [logger.set], [logger.eta], ["PIWO-IX"], [0.1], [0], [reward], [1 - reward]
        return Outcome(
            pa.table(dict(zip(RESULTS.names, results, strict=True))),
            pa.table(
                dict(
                    zip(
                        LOGGERS.names,
                        ([logger.set], [logger.eta], [0], *[[reward]] * 4),
                        strict=True,
                    )
                )
            ),
        )


def check_claims(results: pa.Table, loggers: pa.Table, gamma_star: float) -> pa.Table:
    return pa.table(
        {
            "claim": ["the sky is blue", "pigs fly", "the moon is hollow"],
            "holds": [True, False, None],
        }
    )


def write_summary(
    results: pa.Table,
    loggers: pa.Table,
    claims: pa.Table,
    gamma_star: float,
    settings: dict[str, Any],
    folder: Path,
) -> None:
    (folder / "summary.md").write_text(
        f"{results.num_rows} {loggers.num_rows} {claims.num_rows} {settings['seed']}"
    )


def fakes() -> dict[str, ModuleType]:
    protocol, claims = ModuleType("experiments.protocol"), ModuleType("experiments.claims")
    protocol.__dict__.update(Protocol=Protocol, Experiment=Experiment)
    claims.__dict__.update(check_claims=check_claims, write_summary=write_summary)
    return {module.__name__: module for module in (protocol, claims)}


# --- in process


@dataclass(frozen=True)
class Ran:
    code: int
    out: str
    err: str


Command = Callable[..., Ran]
SMALL = ("--data", "small.csv", "--no-figures", "--out", "out")


@pytest.fixture
def command(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, small: Path
) -> Command:
    """Run the command in an empty folder, but for small.csv."""
    monkeypatch.chdir(tmp_path)
    for name, module in fakes().items():
        monkeypatch.setitem(sys.modules, name, module)

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = paper.main([str(word) for word in words])
        return Ran(code, *capsys.readouterr())

    return run


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Two hundred rows, three classes."""
    path = tmp_path / "small.csv"
    path.write_text(
        "x,y,class\n" + "".join(f"{i / 7},{i * i},{'abc'[i % 3]}\n" for i in range(200)),
        encoding="utf-8",
    )
    return path


def content(path: Path) -> dict[str, bytes]:
    return {
        x.relative_to(path).as_posix(): x.read_bytes()
        for x in path.rglob("*")
        if x.is_file() and x.stat().st_size
    }


def test_a_run_says_what_it_did(command: Command, tmp_path: Path) -> None:
    ran = command(*SMALL)
    assert ran.code == 0
    first, *claims, few, last = ran.out.splitlines()
    assert first.startswith("small: 10 policies from 10 loggers; this run took ")
    assert claims == [
        "  yes         the sky is blue",
        "  no          pigs fly",
        "  not tested  the moon is hollow",
    ]
    assert few == "  the claims are about 1,000,000 rows; with 200, some fail for lack of data"
    assert last == "in out: results and loggers (.parquet, .csv), summary (.md, .csv)"
    assert ran.err.splitlines()[0].startswith("good-00: 1 of 10, ")
    assert len(ran.err.splitlines()) == 10
    assert (tmp_path / "out" / "summary.md").read_text() == "10 10 3 0"
    assert pq.read_metadata(tmp_path / "out" / "results.parquet").num_rows == 10
    again = command(*SMALL)
    assert (again.code, again.err) == (0, "")
    assert "10 of them by an earlier run" in again.out


def test_the_order_of_the_sets_does_not_matter(command: Command, tmp_path: Path) -> None:
    assert command(*SMALL, "--sets", "bad,good").code == 0
    assert "10 of them by an earlier run" in command(*SMALL, "--sets", "good, bad").out
    assert command(*SMALL[:-1], "other", "--sets", "bad").out.startswith("small: 5 policies")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--seed", "1"], "seed was 0, now 1;"),
        (["--resample"], "resample was false, now true;"),
        (["--sets", "bad"], 'sets was ["good", "bad"], now ["bad"];'),
    ],
)
def test_other_settings_are_refused(
    words: list[str], told: str, command: Command, tmp_path: Path
) -> None:
    command(*SMALL)
    before = content(tmp_path / "out")
    ran = command(*SMALL, *words)
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1)
    assert f"begun with other settings: {told}" in ran.err
    assert content(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "--out"),
        (["--out", "out", "--quik"], "--quik"),
        (["--out", "out", "--seed", "x"], "--seed"),
        (["--out", "out", "--seed", "-1"], "--seed is -1, expected 0 or more"),
        (["--out", "out", "--sets", "good,ugly"], "expected good, bad, or good,bad"),
        (["--out", "out", "--sets", ""], "expected good, bad, or good,bad"),
        (["--out", "out", "--data", "nofile.csv"], "no file 'nofile.csv'"),
        (
            ["--out", "out", "--data", "small.csv", "--target", "x"],
            "column 'class' holds string (row 0: 'a')",
        ),
        (["--out", "out", "--data", "small.csv", "--target", "z"], "no column 'z' (x, y, class)"),
        (["--out", "small.csv"], "is a file"),
        (["--out", "."], "holds other files ('small.csv')"),
        (
            ["--out", ".", "--data", "nofile.csv"],
            "holds other files ('small.csv')",
        ),  # before data is read
        (["--out", "small.csv/out"], "small.csv"),
        (["out", "--out", "out"], "out"),
    ],
)
def test_what_is_wrong_is_told_in_one_line(
    words: list[str], told: str, command: Command, tmp_path: Path
) -> None:
    ran = command(*words, "--no-figures")
    assert (ran.code, ran.out, ran.err.count("\n")) == (2, "", 1), ran.err
    assert told in ran.err
    assert ran.err.startswith("error: ")
    assert {x.name for x in tmp_path.iterdir()} == {"small.csv"}


def test_missing_plots_are_told_before_the_work(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(paper, "find_spec", lambda name: None)
    ran = command("--data", "small.csv", "--out", "out")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "pip install 'piwo[plots]'" in ran.err
    assert not (tmp_path / "out").exists()


def test_a_fault_of_ours_is_one_line_too(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Experiment, "run", lambda self, logger: 1 / 0)
    ran = command(*SMALL)
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "ZeroDivisionError" in ran.err
    assert "Traceback" in command(*SMALL, "--debug").err


def test_help(command: Command) -> None:
    ran = command("--help")
    assert ran.code == 0
    for option in (
        "--out",
        "--data",
        "--target",
        "--quick",
        "--sets",
        "--resample",
        "--seed",
        "--no-figures",
    ):
        assert option in ran.out


def test_no_time_and_no_machine_in_the_files(command: Command, tmp_path: Path) -> None:
    """Two runs on different days in different folders leave the same bytes."""
    command(*SMALL)
    command(*SMALL[:-1], "another")
    assert content(tmp_path / "out") == content(tmp_path / "another")


# --- as a process


def started(out: Path, small: Path, seconds: float, **options: int) -> "subprocess.Popen[str]":
    path = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    words = [sys.executable, __file__, "--data", str(small), "--no-figures", "--out", str(out)]
    return subprocess.Popen(
        words,
        env=os.environ | {"PYTHONPATH": path, "SECONDS_A_LOGGER": str(seconds)},
        text=True,
        **({"stdout": subprocess.PIPE, "stderr": subprocess.PIPE} | options),
    )


def test_an_interrupt_is_one_line_and_the_command_resumes(
    tmp_path: Path, small: Path, command: Command
) -> None:
    with started(tmp_path / "a", small, 0.3) as process:
        assert process.stderr is not None
        first = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert first.startswith("good-00: 1 of 10, ")
    assert (process.returncode, out) == (130, "")
    assert err.splitlines()[-1] == "interrupted; the same command goes on from here"
    ran = command(*SMALL[:-1], tmp_path / "a")
    assert "of them by an earlier run" in ran.out
    assert len(ran.err.splitlines()) < 10
    command(*SMALL[:-1], tmp_path / "b")
    assert content(tmp_path / "a") == content(tmp_path / "b")


def test_a_terminal_gets_a_bar_with_the_time_left(tmp_path: Path, small: Path) -> None:
    pty = pytest.importorskip("pty")
    ours, theirs = pty.openpty()
    with started(tmp_path / "a", small, 0.05, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        assert process.stdout is not None
        assert "10 policies" in process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert b"/10" in shown
    assert b"left" in shown
    assert b"0:00:0" in shown
    assert b"good-00" not in shown


def test_a_reader_that_went_away(tmp_path: Path, small: Path) -> None:
    read, write = os.pipe()
    os.close(read)
    with started(tmp_path / "a", small, 0, stdout=write) as process:
        os.close(write)
        _, err = process.communicate(timeout=60)
    assert (process.returncode, err.count("\n")) == (0, 10)
    assert (tmp_path / "a" / "results.csv").exists()


if __name__ == "__main__":
    sys.modules.update(fakes())
    sys.exit(paper.main())
