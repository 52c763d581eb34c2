"""`piwo join`: the counts, notes and refusals of `piwo.join`, on the command line."""

import json
from pathlib import Path

import pyarrow.parquet as pq
import pytest

import piwo as library

SHOWN = "id,time,action,propensity\na,0,x,.5\nb,1,y,.5\nc,20,x,.5\n"
CAME = "id,time,reward\na,3,1\nz,5,1\nb,22,1\n"


@pytest.fixture
def tables(tmp_path: Path) -> tuple[Path, Path]:
    shown, came = tmp_path / "shown.csv", tmp_path / "came.csv"
    shown.write_text(SHOWN)
    came.write_text(CAME)
    return shown, came


def test_the_answer_is_that_of_python(piwo, tables, tmp_path: Path) -> None:
    made = library.join(*map(str, tables), on="id", window=10)
    ran = piwo("join", *tables, "--id", "id", "--window", "10", "--out", "j.parquet", "--json")
    assert (ran.code, ran.err) == (0, "")
    document = ran.document
    assert (document.pop("piwo"), document.pop("out")) == (library.__version__, "j.parquet")
    # references in notes are options on the command line
    notes = document.pop("notes")
    assert document == {k: v for k, v in made.to_dict().items() if k != "notes"}
    assert (document["open"], document["late"], document["unmatched"]) == (1, 1, 1)
    assert [document["mean_low"], document["mean_high"]] == pytest.approx([1 / 3, 2 / 3])
    assert "--where=reward_closed" in notes[0]
    assert "where='reward_closed'" in made.notes[0]
    assert "declare --until" in notes[1]
    assert pq.read_table(tmp_path / "j.parquet").to_pydict() == made.rows.to_pydict()


def test_text_says_the_counts_and_what_comes_next(piwo, tables) -> None:
    words = ["join", *tables, "--id", "id", "--window", "10", "--out", "j.csv"]
    ran = piwo(*words)
    assert ran.out.startswith("3 decisions: 1 with an outcome, 1 without, 1 open; 3 outcomes")
    assert ran.out.endswith("next: piwo check j.csv --where reward_closed\n")
    ran = piwo(*words, "--until", "40", "--several", "last", "--absent", "0.25")
    assert "note:" not in ran.out
    assert ran.out.endswith("next: piwo check j.csv\n")
    assert "mean reward from 0.5 to 0.5" in ran.out


@pytest.mark.parametrize("ending", ["csv", "jsonl", "parquet"])
def test_the_next_command_names_what_the_log_calls_otherwise(piwo, tables, ending: str) -> None:
    shown, came = tables
    shown.write_text(SHOWN.replace("action,propensity", "offer,p"))
    out = f"j.{ending}"
    ran = piwo("join", shown, came, "--id", "id", "--window", "10", "--out", out)
    assert ran.next == ["check", "--help"]
    assert ran.why == (
        f"to check {out}, name its columns of the action (--action) and of its probability "
        "(--propensity)"
    )
    assert piwo(*ran.next).code == 0


def test_times_two_names_and_spans(piwo, tmp_path: Path) -> None:
    shown = {"id": "a", "time": "2026-01-01T00:00:00", "action": "x"}
    came = {"key": "a", "at": "2026-01-02T11:00:00", "clicks": 3}
    (tmp_path / "shown.jsonl").write_text(json.dumps(shown) + "\n")
    (tmp_path / "came.jsonl").write_text(json.dumps(came) + "\n")
    words = ["join", "shown.jsonl", "came.jsonl", "--id", "id,key", "--time", "time,at"]
    words += ["--outcome", "clicks", "--reward-range", "0,5", "--out", "j.jsonl", "--json"]
    words += ["--until", "2026-02-01"]
    found = piwo(*words, "--window", "36h").document
    assert (found["arrived"], found["mean_low"], found["notes"]) == (1, 3.0, [])
    assert found["until"] == "2026-02-01T00:00:00+00:00"
    assert piwo(*words, "--window", "1d").document["late"] == 1
    for text in ("2 days", "48h", "2880 min"):
        assert piwo(*words, "--window", text).document["arrived"] == 1
    message = "--window is 36, expected a span of time such as 48h"
    assert message in piwo(*words, "--window", "36").err


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--id", "no", "--window", "1"], "the decisions have no column 'no'"),
        (["--id", "id"], "expected --window, how long an outcome counts"),
        (["--window", "1"], "expected --id, the column of ids"),
        (["--id", "id", "--window", "soon"], "--window got 'soon', expected a span such as 48h"),
        (
            ["--id", "id", "--window", "1d"],
            "--window is 1 day, 0:00:00 (a span of time), expected a",
        ),
        (["--id", "a,b,c", "--window", "1"], "the decisions have no column 'a'"),
        (["--id", "id", "--window", "1", "--until", "x"], "--until got 'x', expected a date"),
        (["--id", "id", "--window", "1", "--several", "x"], "--several is 'x', expected one of"),
        (["--id", "id", "--window", "9", "--reward-range", "0,.5"], "outside of [0, 0.5]"),
        (["--id", "id", "--window", "1", "--absent", "7"], "--absent is 7.0, expected a reward"),
    ],
)
def test_errors_are_one_line(piwo, tables, words: list[str], message: str) -> None:
    ran = piwo("join", *tables, *words, "--out", "j.parquet")
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1
    assert not Path("j.parquet").exists()


def test_an_input_is_not_replaced(piwo, tables) -> None:
    for path in tables:
        ran = piwo("join", *tables, "--id", "id", "--window", "1", "--out", path)
        assert ran.code == 2
        assert "is what the command reads" in ran.err
