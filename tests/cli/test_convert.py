"""`piwo convert`: from any format to any other, with counts, and the command that comes next."""

import json
import shlex
from pathlib import Path

import pytest

from tests.cli.conftest import Command

EVENT = {
    "_label_cost": -1.0,
    "_label_probability": 0.75,
    "_label_Action": 2,
    "_labelIndex": 1,
    "EventId": "e1",
    "a": [2, 1],
    "p": [0.75, 0.25],
    "c": {"U": {"x": 3}, "_multi": [{}, {}]},
}


@pytest.fixture
def events(tmp_path: Path) -> Path:
    path = tmp_path / "log.dsjson"
    skip = EVENT | {"_skipLearn": True}
    lines = [json.dumps(x) for x in (EVENT, skip, EVENT | {"EventId": "e2", "_label_cost": 0.0})]
    path.write_text("\n".join(lines) + "\n")
    return path


def test_each_format_in_turn(piwo: Command, events: Path) -> None:
    ran = piwo("convert", events, "log.parquet", "--context", "U/x")
    assert (ran.code, ran.err.count("\n")) == (0, 1)
    assert "1 of 3 lines are not events (skip-learn 1)" in ran.err
    assert ran.out.startswith("wrote 2 rows to log.parquet\n")
    assert "lines that are not decisions: skip-learn 1" in ran.out
    words = shlex.split(ran.out.partition("next: ")[2])
    assert words[:3] == ["piwo", "check", "log.parquet"]
    options = words[3:]
    assert options[:2] == ["--actions", "1..2"]
    assert options[2:8] == ["--cost", "cost", "--context", "U/x", "--key", "EventId"]
    assert options[8:] == ["--propensity", "propensity", "--propensities", "propensities"]
    values = set()
    for before, after in (
        ("log.parquet", "log.jsonl"),
        ("log.jsonl", "again.dsjson"),
        ("again.dsjson", "log.vw.gz"),
    ):
        ran = piwo("convert", before, after, *options)
        assert (ran.err, ran.code) == ("", 0)
        options = shlex.split(ran.out.partition("next: ")[2])[3:]
        ran = piwo("evaluate", after, *options, "--policy", "constant:2", "--json")
        assert ran.code == 0
        values.add(ran.document["policies"][0]["value"])
    # 1/0.75 and 0, over two rows
    assert len(values) == 1
    assert values.pop() == pytest.approx(2 / 3)


def test_json_has_counts_and_what_is_left_out(piwo: Command, events: Path) -> None:
    document = piwo("convert", events, "log.vw", "--json").document
    assert document["rows"] == 2
    assert document["skipped"] == {"skip-learn": 1}
    assert document["left_out"] == [
        "the probabilities of all actions 'propensities'",
        "the key 'EventId'",
    ]


def test_errors_are_one_line(piwo: Command, events: Path) -> None:
    assert "is what the command reads" in piwo("convert", events, events).err
    ran = piwo("convert", events, "log.csv")
    assert ran.code == 2
    assert "holds lists or objects" in ran.err
    assert ran.err.count("\n") == 2  # one is the warning of what was skipped
    assert "unknown ending" in piwo("convert", events, "log.xyz").err
