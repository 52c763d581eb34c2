"""Slate logs in other formats, in Python and by `piwo convert`: the same rows both ways."""

import json
import shlex
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import DataError, UsageError
from piwo.slates import FromColumns, Uniform, evaluate
from piwo.sources.slate_files import holds_slates
from tests.cli.conftest import Command
from tests.slates.test_vowpal_wabbit import columns
from tests.slates.test_written_lists_of_slots import CCB, ROLES, TABLES, log_of, sets

read_again, write = piwo.slates.read, piwo.slates.write_log
WORDS = {
    "ccb": ["--rewards", "rs"],
    "slates": ["--slate", "slate", "--reward", "r", "--independent"],
}
SHARED = ["--propensities", "ps", "--eligible", "could", "--context", "x"]


def table_of(path: Path) -> list[dict[str, Any]]:
    if path.suffix == ".parquet":
        return pq.read_table(path).to_pylist()
    return [json.loads(line) for line in path.read_text().splitlines()]


def next_words(out: str) -> list[str]:
    return shlex.split(out.partition("next: ")[2].partition("\n")[0])[1:]


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("kind", ["ccb", "slates"])
def test_a_table_holds_the_columns_with_a_role(kind: str, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{ending}"
    made = piwo.slates.write_log(log_of(kind, y=[4, 5, 6]), path)
    assert (made.rows, made.left_out) == (3, ("column 'y' (no role)",))
    table = TABLES[kind]
    assert [list(row) for row in table_of(path)] == [
        ["slate", "rs" if kind == "ccb" else "r", "x", "could", "ps"]
    ] * 3
    for name, values in table.items():
        assert [row[name] for row in table_of(path)] == values


@pytest.mark.parametrize("ending", ["parquet", "jsonl"])
@pytest.mark.parametrize("kind", ["ccb", "slates"])
def test_the_command_goes_there_and_back(
    kind: str, ending: str, piwo: Command, tmp_path: Path
) -> None:
    pq.write_table(pa.table(TABLES[kind]), tmp_path / "log.parquet")
    ran = piwo("convert", "log.parquet", "log.dsjson", *WORDS[kind], *SHARED)
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("wrote 3 rows to log.dsjson")
    assert piwo(*next_words(ran.out)).code == 0
    named = ["--items-label", "_tag", "--context", "x"]
    ran = piwo("convert", "log.dsjson", f"again.{ending}", *named)
    assert (ran.code, ran.err) == (0, "")
    assert "not read: features of actions and slots, and of the context but --context" in ran.out
    words = next_words(ran.out)
    assert piwo(*words).code == 0
    rows = table_of(tmp_path / f"again.{ending}")
    table = TABLES[kind]
    assert [row["slate"] for row in rows] == table["slate"]
    assert sets(row["eligible"] for row in rows) == sets(table["could"])
    assert [row["propensities"] for row in rows] == table["ps"]
    earned = "rewards" if kind == "ccb" else "reward"
    assert [row[earned] for row in rows] == table["rs" if kind == "ccb" else "r"]
    assert [row["x"] for row in rows] == table["x"]
    # the options of the next command read the same log: to dsjson once more
    options = words[2 : words.index("--target-propensities")]
    ran = piwo("convert", f"again.{ending}", "third.dsjson", *options)
    assert (ran.code, ran.err) == (0, "")
    assert (tmp_path / "third.dsjson").read_bytes() == (tmp_path / "log.dsjson").read_bytes()


def test_python_and_the_command_write_the_same(piwo: Command, tmp_path: Path) -> None:
    pq.write_table(pa.table(CCB), tmp_path / "log.parquet")
    document = piwo(
        "convert", "log.parquet", "log.jsonl", *WORDS["ccb"], "--propensities", "ps", "--json"
    ).document
    log = read_again(tmp_path / "log.parquet", rewards="rs", propensities="ps")
    made = write(log, tmp_path / "own.jsonl")
    assert (tmp_path / "log.jsonl").read_bytes() == (tmp_path / "own.jsonl").read_bytes()
    assert (document["rows"], document["left_out"]) == (3, list(made.left_out))
    assert document["left_out"] == ["column 'could' (no role)", "column 'x' (no role)"]
    assert document["skipped"] == {}


def test_every_role_is_in_the_table_and_in_the_next_command(piwo: Command, tmp_path: Path) -> None:
    table = {
        "shown": [["a", "b"], ["b"], ["b", "a"]],
        "rs": [[3.0, 0.5], [1.0], [0.25, 0.0]],
        "above": [[0.5, 1.0], [0.5], [0.5, 1.0]],
        "own": [[0.5, 0.5], [0.5], [0.5, 0.5]],
        "whole": [0.5, 0.5, 0.5],
        "user": ["u", "v", "u"],
        "how": ["cascade", "standard", "independent"],
    }
    pq.write_table(pa.table(table), tmp_path / "log.parquet")
    words = ["--slate", "shown", "--rewards", "rs", "--propensities", "above", "--marginals", "own"]
    words += ["--slate-propensity", "whole", "--unit", "user", "--user-behavior", "how"]
    words += ["--reward-range", "0,3", "--position-weights", "1,0.5", "--slots", "2"]
    words += ["--actions", "a,b,c", "--logger", "fixed"]
    ran = piwo("convert", "log.parquet", "out.parquet", *words)
    assert ran.code == 0
    assert "left out: the position weights" in ran.out
    assert (
        table_of(tmp_path / "out.parquet")
        == pa.table(table)
        .select(["shown", "rs", "how", "user", "above", "own", "whole"])
        .to_pylist()
    )
    following = next_words(ran.out)
    assert following[:2] == ["slates", "out.parquet"]
    for option, value in zip(words[::2], words[1::2], strict=True):
        assert following[following.index(option) + 1] == value
    assert piwo(*following).code == 0


def test_values_of_what_was_written_are_those_of_the_log(tmp_path: Path) -> None:
    log = log_of("ccb")
    write(log, tmp_path / "log.parquet")
    roles = ROLES["ccb"] | {"propensities": "ps", "eligible": "could", "context": "x"}
    again = read_again(tmp_path / "log.parquet", **roles)
    assert columns(again) == columns(log)
    one = evaluate(log, FromColumns("ps"), estimator="cascade")
    assert evaluate(again, FromColumns("ps"), estimator="cascade").value == one.value > 0


def test_a_part_of_a_log_is_written_alone(tmp_path: Path) -> None:
    table = {"slate": [["a"], ["b"]] * 20, "r": list(range(40)), "ps": [[0.5]] * 40}
    log = read_again(table, reward="r", propensities="ps", reward_range=(0, 40))
    part = log.split(0.5).train
    made = write(part, tmp_path / "part.parquet")
    kept = [row["r"] for row in table_of(tmp_path / "part.parquet")]
    assert made.rows == len(part) == len(kept) < 40
    assert kept == sorted(kept)


def test_skipped_lines_are_counted(piwo: Command, tmp_path: Path) -> None:
    write(log_of("ccb"), tmp_path / "log.dsjson")
    text = (tmp_path / "log.dsjson").read_text()
    (tmp_path / "log.dsjson").write_text("\n" + text + '{"_skipLearn": true, "c": {}}\n')
    ran = piwo("convert", "log.dsjson", "out.parquet", "--items-label", "_tag")
    assert "lines that are not decisions: blank 1, skip-learn 1" in ran.out
    document = piwo("convert", "log.dsjson", "out.parquet", "--json").document
    assert document["skipped"] == {"blank": 1, "skip-learn": 1}
    assert document["rows"] == 3


def test_labels_that_are_places_are_read_as_such(piwo: Command, tmp_path: Path) -> None:
    table = {"slate": [[1, 0], [0, 2]], "rs": [[1, 0], [0, 1]], "ps": [[0.5, 0.5]] * 2}
    write(read_again(table, rewards="rs", propensities="ps"), tmp_path / "log.dsjson")
    ran = piwo("convert", "log.dsjson", "log.parquet")
    words = next_words(ran.out)
    assert words[words.index("--actions") + 1] == "0..2"
    assert words[-2:] == ["--policy", "uniform"]
    assert piwo(*words).code == 0
    ran = piwo("convert", "log.parquet", "again.dsjson", *words[2:-2])
    assert next_words(ran.out) == ["slates", "again.dsjson", "--policy", "uniform"]
    assert (tmp_path / "again.dsjson").read_bytes() == (tmp_path / "log.dsjson").read_bytes()


def test_refusals(piwo: Command, tmp_path: Path) -> None:
    log = log_of("ccb")
    with pytest.raises(UsageError, match="is csv, which slates are not written to"):
        write(log, tmp_path / "log.csv")
    computed = read_again(
        {"slate": [["a", "b"]], "rs": [[1, 0]]}, rewards="rs", behavior=Uniform(["a", "b"])
    )
    with pytest.raises(UsageError, match="are computed by behavior, and a table would not hold"):
        write(computed, tmp_path / "log.parquet")
    assert write(computed, tmp_path / "log.dsjson").rows == 1
    with pytest.raises(DataError, match="which cannot happen for an action that was shown"):
        write(log_of("ccb", ps=[[0.5, 0.0], [0.25], [1.0, 0.5]]), tmp_path / "bad.parquet")
    assert not (tmp_path / "bad.parquet").exists()
    for option in (["--cost", "c"], ["--time", "t"], ["--policy-column", "pi"]):
        ran = piwo("convert", "log.dsjson", "log.parquet", *option)
        assert (ran.code, ran.out) == (2, "")
        assert f"{option[0]} is no option of a log of slates; leave it out" in ran.err
    ran = piwo("convert", "log.dsjson", "log.csv")
    assert "is csv, which slates are not written to; expected .parquet, .jsonl or" in ran.err


def test_which_files_hold_slates(tmp_path: Path) -> None:
    write(log_of("slates"), tmp_path / "log.dsjson.gz")
    assert holds_slates([str(tmp_path / "log.dsjson.gz")])
    path = tmp_path / "log.dsjson"
    path.write_text(
        '\nx\n[1]\n{"c": 1}\n{"c": {"_multi": [{}]}, "a": [1]}\n{"c": {"_slots": []}}\n'
    )
    assert not holds_slates([str(path)])
    for text, expected in {"\nslates shared 1 |\n": True, "shared |\n": False, "\n": False}.items():
        (tmp_path / "log.vw").write_text(text)
        assert holds_slates([str(tmp_path / "log.vw")]) == expected
    assert not holds_slates(["log.parquet"])
