"""What each slot could show, written for Vowpal Wabbit and read back: ccb and slates."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import DataError
from piwo.slates import Deterministic, Factored, SlateLog, Uniform, evaluate, read_dsjson, read_vw
from tests.slates.test_vowpal_wabbit import columns, text

CCB: dict[str, list[Any]] = {
    "slate": [["tea", "pie"], ["pie"], ["cake", "tea"]],
    "could": [
        [["cake", "tea"], ["pie", "tea"]],
        [["soup", "pie"]],
        [["cake"], ["tea", "cake"]],
    ],
    "rs": [[1.0, 0.5], [1.0], [0.25, 0.0]],
    "ps": [[0.5, 1.0], [0.25], [1.0, 0.5]],
    "x": [1.0, 2.0, 3.0],
}
SLATES: dict[str, list[Any]] = {
    # tea in both slots, and twice in one slate
    "slate": [["tea", "tea"], ["pie", "cake"], ["cake"]],
    "could": [[["tea", "pie"], ["tea"]], [["cake", "pie"], ["cake", "tea", "pie"]], [["cake"]]],
    "r": [1.0, 0.0, 0.5],
    "ps": [[0.5, 1.0], [0.25, 0.5], [1.0]],
    "x": [1.0, 2.0, 3.0],
}
ROLES: dict[str, dict[str, Any]] = {
    "ccb": {"rewards": "rs"},
    "slates": {"reward": "r", "independent": True},
}
TABLES = {"ccb": CCB, "slates": SLATES}


def log_of(kind: str, **changes: Any) -> SlateLog:
    roles = ROLES[kind] | {"propensities": "ps", "eligible": "could", "context": "x"}
    return piwo.slates.read(TABLES[kind] | changes, **roles)


def written(log: SlateLog, path: Path) -> SlateLog:
    piwo.slates.write_dsjson(log, path)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_dsjson(path, items_label="_tag", context="x")


def sets(could: Any) -> Any:
    """Lists of slots, whose order says nothing."""
    return [[sorted(one) for one in row] for row in could]


@pytest.mark.parametrize("kind", ["ccb", "slates"])
def test_lists_of_slots_are_read_back(kind: str, tmp_path: Path) -> None:
    log = log_of(kind)
    again = written(log, tmp_path / "log.dsjson")
    rows = columns(again)
    table = TABLES[kind]
    assert [row["slate"] for row in rows] == table["slate"]
    assert sets(row["eligible"] for row in rows) == sets(table["could"])
    assert [row["propensities"] for row in rows] == table["ps"]
    earned = "rewards" if kind == "ccb" else "reward"
    assert [row[earned] for row in rows] == table["rs" if kind == "ccb" else "r"]
    labels = log.actions.labels
    targets: list[Any] = [Factored([dict.fromkeys(labels, 1 / len(labels))] * 2)]
    if kind == "ccb":
        targets.append(Deterministic(["tea", "pie", "cake"]))
    for target in targets:
        assert evaluate(again, target).value == evaluate(log, target).value > 0
    first = (tmp_path / "log.dsjson").read_bytes()
    written(again, tmp_path / "again.dsjson")
    assert (tmp_path / "again.dsjson").read_bytes() == first


def test_ccb_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    made = piwo.slates.write_dsjson(log_of("ccb"), path)
    assert (made.rows, made.left_out, made.items_label) == (3, (), "_tag")
    events = [json.loads(line) for line in path.read_text().splitlines()]
    # cake 0, tea 1, pie 2
    assert [x["_tag"] for x in events[0]["c"]["_multi"]] == ["cake", "tea", "pie"]
    assert events[0]["c"]["_slots"] == [{"_inc": [0, 1]}, {"_inc": [1, 2]}]
    assert [x["_a"] for x in events[0]["_outcomes"]] == [[1], [2]]
    assert events[1]["c"]["_slots"] == [{}]
    assert events[2]["c"]["_slots"] == [{"_inc": [0]}, {}]


def test_slates_by_hand(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    made = piwo.slates.write_dsjson(log_of("slates"), path)
    assert made.left_out == (
        "the order of the actions (each slot lists its own, with labels in _tag)",
    )
    events = [json.loads(line) for line in path.read_text().splitlines()]
    entries = [(x["_tag"], x["_slot_id"]) for x in events[0]["c"]["_multi"]]
    assert entries == [("tea", 0), ("pie", 0), ("tea", 1)]
    # counted within the slot
    assert [x["_a"] for x in events[1]["_outcomes"]] == [[1], [0]]
    # a shorter slate has no entries of slots that it lacks, which the tool refuses
    assert events[2]["c"]["_multi"] == [{"_tag": "cake", "a": {"action": "cake"}, "_slot_id": 0}]


def test_an_action_of_several_slots_is_in_the_list_of_each(tmp_path: Path) -> None:
    table = {"slate": [["b", "a"], ["a", "b"]], "r": [1.0, 0.0], "ps": [[0.5, 0.5]] * 2}
    log = piwo.slates.read(table, reward="r", propensities="ps", independent=True)
    path = tmp_path / "log.dsjson"
    piwo.slates.write_dsjson(log, path)
    again = read_dsjson(path, items_label="_tag")
    assert [row["eligible"] for row in columns(again)] == [[["a", "b"], ["a", "b"]]] * 2
    assert [row["slate"] for row in columns(again)] == table["slate"]
    target = Factored([{"a": 0.25, "b": 0.75}] * 2)
    # (9/16 1 + 3/16 ... ): (.75 .25) / (.5 .5) for the first row
    assert evaluate(again, target).value == evaluate(log, target).value == 0.75 * 0.25 / 0.25 / 2


def test_lists_that_leave_out_what_is_above_are_no_restriction(tmp_path: Path) -> None:
    table = {"slate": [["a", "b"]], "could": [[["a", "b"], ["b"]]], "rs": [[1, 0]], "ps": [[1, 1]]}
    log = piwo.slates.read(table, rewards="rs", propensities="ps", eligible="could")
    made = piwo.slates.write_dsjson(log, tmp_path / "log.dsjson")
    assert made.left_out == ("that slots cannot show what is shown above them, by their lists",)
    assert read_dsjson(tmp_path / "log.dsjson", items_label="_tag").columns.eligible is None


def test_a_name_may_be_in_several_slots_and_not_twice_in_one(tmp_path: Path) -> None:
    block = (
        "slates shared -1 |\nslates action 0 |a id=tea\nslates action 0 |a id=pie\n"
        "slates action 1 |a id=tea\nslates slot 0:0.5 |\nslates slot 0:1 |\n"
    )
    log = read_vw(text(tmp_path / "log.vw", block), items_label="a/id")
    (row,) = columns(log)
    assert (row["slate"], row["eligible"]) == (["tea", "tea"], [["tea", "pie"], ["tea"]])
    again = piwo.slates.write_dsjson(log, tmp_path / "log.dsjson")
    assert again.rows == 1
    (back,) = columns(read_dsjson(tmp_path / "log.dsjson", items_label="_tag"))
    assert back == row
    with pytest.raises(DataError, match="two action lines with the same"):
        read_vw(text(tmp_path / "log.vw", block.replace("pie", "tea")), items_label="a/id")
    event = (tmp_path / "log.dsjson").read_text().replace("pie", "tea")
    (tmp_path / "twice.dsjson").write_text(event)
    with pytest.raises(DataError, match=r"two entries of c\._multi with the same value"):
        read_dsjson(tmp_path / "twice.dsjson", items_label="_tag")


@pytest.mark.parametrize(("kind", "option"), [("ccb", "--ccb_explore_adf"), ("slates", "--slates")])
def test_vowpal_wabbit_itself_reads_lists_of_slots(kind: str, option: str, tmp_path: Path) -> None:
    tool = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    path = tmp_path / "log.dsjson"
    piwo.slates.write_dsjson(log_of(kind), path)
    workspace = tool.Workspace(f"{option} --dsjson -d {path} --quiet")
    assert workspace.get_weighted_examples() == 3
    assert workspace.get_sum_loss() != 0
    workspace.finish()


def test_real_files_of_lists_of_slots_are_written_and_read_back(
    shared_data: Path, tmp_path: Path
) -> None:
    log = read_dsjson(shared_data / "vw" / "ccb_reuse_medium.dsjson")
    piwo.slates.write_dsjson(log, tmp_path / "log.dsjson")
    again = read_dsjson(tmp_path / "log.dsjson", items_label="_tag")
    for before, after in zip(columns(log), columns(again), strict=True):
        # labels are text there
        assert after["slate"] == [str(x) for x in before.pop("slate")]
        assert after["eligible"] == [[str(x) for x in one] for one in before.pop("eligible")]
        assert before == {name: after[name] for name in before}
    one = evaluate(log, Uniform(range(9)), estimator="cascade").value
    labels = list(map(str, range(9)))
    assert evaluate(again, Uniform(labels), estimator="cascade").value == one
