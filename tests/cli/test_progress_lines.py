"""Lines of progress while a policy is learned, and Ctrl-C then."""

import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import piwo as library
from piwo.cli import progress
from piwo.engines.stages import Stage, report_stage

LEARNING = """
import sys, time
import piwo
from piwo.cli.main import main
from piwo.learners import Candidate
class Slow(piwo.oracles.Ridge):
    def solve_path(self, log, scores):
        print("ready", flush=True)
        time.sleep(60)
score = piwo.IX(0.1)
pool = (Candidate("quick", piwo.oracles.Ridge(), score), Candidate("slow", Slow(), score))
piwo.learners.auto.default_pool = lambda _: pool
sys.exit(main(sys.argv[1:]))
"""


def test_a_line_for_each_finished_stage_and_after_a_silence(monkeypatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.2)
    lines: list[str] = []
    with progress.stage_lines(lines.append):
        report_stage(Stage("learned 1 of 3: quick", done=True, left=5.0))
        report_stage(Stage("learning slow"))
        time.sleep(0.8)
        report_stage(Stage("learned 2 of 3: slow", done=True, left=2.0))
    # the first came before half of the silence was over
    assert lines[0] == "piwo: learning slow (0 s)"
    assert lines[-1] == "piwo: learned 2 of 3: slow (1 s, about 2 s left)"
    assert 2 <= len(lines) <= 7


def test_a_silence_shows_the_time_left_of_a_stage(monkeypatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.1)
    lines: list[str] = []
    with progress.stage_lines(lines.append):
        report_stage(Stage("certifying 3 policies", left=20.0))
        time.sleep(0.2)
    assert lines[0] == "piwo: certifying 3 policies (0 s, about 20 s left)"


def test_an_estimate_that_is_over_says_finishing() -> None:
    lines: list[str] = []
    with progress.stage_lines(lines.append, every=True):
        report_stage(Stage("learned 1 of 3: quick", done=True, left=0.2))
        report_stage(Stage("learned 2 of 3: slow", done=True, left=0.0))
    assert lines == [
        "piwo: learned 1 of 3: quick (0 s, about 1 s left)",
        "piwo: learned 2 of 3: slow (0 s, finishing)",
    ]


def test_interrupted_learning_ends_with_a_policy(learnable: Path, roles, tmp_path: Path) -> None:
    out = tmp_path / "p.piwo"
    words = ["learn", learnable, *roles, "--context", "user x,shop", "--out", out]
    command = [sys.executable, "-c", LEARNING, *map(str, words)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGINT)
        printed, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert b"interrupted: finishing with what was learned" in err
    assert b"not tried: slow" in printed
    assert f"interrupted: saved the best of what was learned to {out}".encode() in printed
    saved = library.policies.load_with_metadata(out)
    assert saved.metadata["training"]["not_tried"] == ["slow, IX gamma=0.1"]
    assert saved.metadata["certificate"]["certified"]


def test_a_silence_shows_rows_rate_and_time_left(monkeypatch) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.1)
    lines: list[str] = []
    rows = progress.Rows()
    with progress.stage_lines(lines.append, rows):
        rows.add(0, 40_000)
        rows.add(10_000, 40_000)
        time.sleep(0.3)
    shown = re.compile(r"piwo: 10,000 of 40,000 rows, [\d,]+ a second \(\d+ s, about \d+ s left\)")
    assert lines
    assert all(map(shown.fullmatch, lines))


def test_on_a_terminal_each_candidate_is_a_line() -> None:
    lines: list[str] = []
    stage = Stage("learned 1 of 3: quick", done=True, left=5.0)
    with progress.stage_lines(lines.append, every=True):
        report_stage(stage)
    assert lines == ["piwo: learned 1 of 3: quick (0 s, about 5 s left)"]
    with progress.stage_lines(lines.append):
        report_stage(stage)
    assert len(lines) == 1
