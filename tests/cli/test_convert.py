"""`piwo convert`: from any format to any other, with counts, and the command that comes next."""

import json
import shlex
from pathlib import Path

import pytest

import piwo as library
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


def test_candidates_that_change_keep_their_labels(piwo: Command, tmp_path: Path) -> None:
    lines = ["0:-1:0.25 |a id=cake price:3", "|a id=tea price:2", ""]
    lines += ["|a id=pie price:1", "0:-1:0.5 |a id=cake price:4", "|a id=tea price:2", "", ""]
    (tmp_path / "adf.vw").write_text("\n".join(lines))
    options = ["--items-label", "a/id", "--items", "a/price"]
    ran = piwo("convert", "adf.vw", "again.vw", *options)
    assert (ran.code, ran.err) == (0, "")
    assert "; --items-label=a/action reads the labels of actions" in ran.out
    again = shlex.split(ran.out.partition("next: ")[2])[3:]
    assert again == ["--items-label", "a/action", "--items", "a/price"]
    values = []
    for path, words in (("adf.vw", options), ("again.vw", again)):
        ran = piwo("evaluate", path, *words, "--policy", "uniform", "--json")
        values.append(ran.document["policies"][0]["value"])
    # 1/2 and 1/3 over the probabilities 1/4 and 1/2
    assert values == [pytest.approx((2 + 2 / 3) / 2, abs=1e-12)] * 2
    refused = piwo("convert", "adf.vw", "log.dsjson", *options)
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "propensity of the action taken alone, and dsjson states that of every" in refused.err


def test_numbers_of_lines_stay_in_their_order(piwo: Command, tmp_path: Path) -> None:
    many = "\n".join(["0:-1:0.25 | x", *["| x"] * 10, "", "0:0:0.5 | x", "| x", "", ""])
    (tmp_path / "adf.vw").write_text(many)
    ran = piwo("convert", "adf.vw", "again.vw")
    again = shlex.split(ran.out.partition("next: ")[2])[3:]
    assert again == ["--items-label", "a/action", "--actions", "1..11"]
    ran = piwo("evaluate", "again.vw", *again, "--policy", "uniform", "--json")
    # 1/11 over the probability 1/4 in one of two rows
    assert ran.document["policies"][0]["value"] == pytest.approx(2 / 11, abs=1e-12)
    assert library.read(
        "again.vw", items_label="a/action", actions=range(1, 12)
    ).actions.labels == (*range(1, 12),)


def test_a_served_folder_with_eligible_actions(piwo: Command, tmp_path: Path) -> None:
    from piwo.logs import Actions, Features
    from piwo.serve import LogWriter

    with LogWriter(tmp_path / "served", Actions(["a", "b", "c"]), Features.numeric(1)) as log:
        for i, (could, mu) in enumerate(((["b", "a"], [0.25, 0.75]), (["a", "c", "b"], [0.5] * 2))):
            row = {"decision_id": f"d{i}", "time": i, "action": could[0], "propensity": mu[0]}
            row |= {"propensities": [*mu, 0.0][: len(could)], "eligible": could, "x0": 1.5}
            log.decisions([row])
            log.rewards([{"decision_id": f"d{i}", "time": i, "reward": 1.0}])
    found = []
    for name in ("log.dsjson", "log.vw", "log.parquet"):
        ran = piwo("convert", "served", name)
        assert ran.code == 0
        options = shlex.split(ran.out.partition("next: ")[2])[3:]
        ran = piwo("evaluate", name, *options, "--policy", "uniform", "--json")
        found.append(ran.document["policies"][0]["value"])
    # 1/2 and 1/3 over the probabilities 1/4 and 1/2
    assert found == [pytest.approx((2 + 2 / 3) / 2, abs=1e-12)] * 3
    first = json.loads((tmp_path / "log.dsjson").read_text().split("\n")[0])
    assert (first["EventId"], first["p"]) == ("d0", [0.25, 0.75])
    assert [x["_tag"] for x in first["c"]["_multi"]] == ["b", "a"]
