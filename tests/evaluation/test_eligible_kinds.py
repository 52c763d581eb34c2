"""Wrong columns of eligible actions, and globs where one column is meant: one line each."""

from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.policies import Constant, Policy, Uniform

ROWS = {
    "action": ["a", "b"],
    "reward": [1.0, 0.0],
    "propensity": [0.5, 0.5],
    "could": [["a", "b"], ["b", "a"]],
    "mu": [[0.5, 0.5], [0.5, 0.5]],
    "fee": [0.0, 0.1],
    "age": [1, 2],
}


@pytest.mark.parametrize(
    "roles",
    [
        {"eligible": "c*"},
        {"eligible": "could", "propensities": "m*"},
        {"propensity": "prop*"},
        {"unit": "a?e"},
        {"key": "ag*"},
        {"action_cost": "fe*"},
        {"reward": "rew*"},
    ],
)
def test_a_role_of_one_column_takes_no_glob(roles: dict[str, str]) -> None:
    with pytest.raises(piwo.DataError, match=r"takes a name and not a glob; did you mean '\w+'"):
        piwo.read(ROWS, **roles)


def test_results_are_split_by_a_name() -> None:
    log = piwo.read(ROWS)
    for by in ("*", "ag*"):
        with pytest.raises(piwo.DataError, match=r"for the segments, which takes a name and not"):
            piwo.evaluate(log, Uniform(log.actions), by=by)


@pytest.mark.parametrize(
    "lists",
    [
        [["0.5", "0.5"], ["0.5", "0.5"]],
        [[[0.5], [0.5]], [[0.5], [0.5]]],
        [[{"a": 0.5}, {"a": 0.5}], [{"a": 0.5}, {"a": 0.5}]],
        pa.array([[0, 1], [0, 1]], pa.list_(pa.timestamp("us"))),
    ],
)
def test_probabilities_of_eligible_actions_are_numbers(lists) -> None:
    log = piwo.read(pa.table({**ROWS, "mu": lists}), eligible="could", propensities="mu")
    with pytest.raises(piwo.DataError, match=r"column 'mu' has lists of .*, expected lists of the"):
        piwo.evaluate(log, Uniform(log.actions))


@pytest.mark.parametrize("lists", [[[["a"]], [["b"]]], [[{"x": "a"}], [{"x": "b"}]]])
def test_eligible_actions_are_labels(lists) -> None:
    for actions in (None, ["a", "b"]):
        log = piwo.read(pa.table({**ROWS, "could": lists}), eligible="could", actions=actions)
        with pytest.raises(piwo.DataError, match=r"column 'could' has .*, expected text or whole"):
            piwo.evaluate(log, Constant("a", ["a", "b"]))


def test_a_missing_entry_is_no_action() -> None:
    log = piwo.read({**ROWS, "could": [["a", None], ["b", "a"]]}, eligible="could")
    assert list(log.actions) == ["a", "b"]
    with pytest.raises(piwo.DataError, match=r"has labels that are missing or not in the action"):
        piwo.evaluate(log, Uniform(log.actions))


def test_a_propensity_that_contradicts_its_list_is_found() -> None:
    rows = {**ROWS, "propensity": [0.5, 0.3]}
    log = piwo.read(rows, propensity="propensity", propensities="mu", eligible="could")
    with pytest.raises(piwo.DataError, match="'mu' disagrees with the propensity of the logged"):
        piwo.evaluate(log, Uniform(log.actions))


def test_whole_decimals_are_whole_numbers() -> None:
    kind = pa.decimal128(20, 2)
    rows = {**ROWS, "age": pa.array([Decimal("2.00"), None], kind)}
    log = piwo.read(pa.table(rows))
    result = piwo.evaluate(log, Uniform(log.actions), by="age")
    assert {x.label for x in result.segments} == {"2", None}
    rows["age"] = pa.array([Decimal("2.50"), None], kind)
    with pytest.raises(piwo.DataError, match=r"numbers that are not whole"):
        piwo.evaluate(piwo.read(pa.table(rows)), Uniform(["a", "b"]), by="age")


@pytest.mark.parametrize("wrong", [5, "ab", {"a": 1}, pa.table({"a": [["a"], ["b"]]})])
def test_what_is_not_lists_is_refused_by_act(wrong) -> None:
    with pytest.raises(piwo.UsageError, match=r"eligible is .*, expected lists of the actions"):
        Uniform(["a", "b"]).act(n=2, eligible=wrong)


def test_large_numbers_and_no_rows() -> None:
    policy = Uniform(["a", "b"])
    with pytest.raises(piwo.DataError, match="eligible cannot be read as lists"):
        policy.act(n=2, eligible=[[10**20], [2]])
    for none in ([], ["a"], pa.array([], pa.list_(pa.string()))):
        assert len(policy.act(n=0, eligible=none).actions) == 0


class Wrong(Policy):
    """Gives what it is made with to the eligible actions."""

    def __init__(self, gives: object) -> None:
        self.gives = gives
        self.listed = ["a", "b"]

    def distribution(self, context, n):
        return np.full((n, 2), 0.5)

    def within(self, context, eligible):
        return self.gives


@pytest.mark.parametrize(
    ("gives", "problem"),
    [
        ([0.5, 0.5], r"gave the shape \(2,\), expected the shape \(3,\)"),
        (
            [0.5, 0.6, 1.0],
            r"row 0: Wrong.within gave \[0.5, 0.6\] with the sum 1.1, expected probabilities",
        ),
        ([0.5, 0.5, np.nan], r"row 1: Wrong.within gave \[nan\]"),
        ([1.5, -0.5, 1.0], r"row 0: Wrong.within gave \[1.5, -0.5\]"),
        (None, "Wrong.within gave None"),
    ],
)
def test_what_a_class_of_a_user_gives_is_checked(gives, problem: str) -> None:
    with pytest.raises(piwo.DataError, match=problem):
        Wrong(gives).act(n=2, eligible=[["a", "b"], ["a"]])


@pytest.mark.parametrize("lists", ['["a", 1]', '["a", true]', "[1.5]", "[[1]]"])
def test_json_lists_hold_one_kind_of_labels(tmp_path: Path, lists: str) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"action": "a", "reward": 1, "propensity": 0.5, "could": %s}\n'
    path.write_text(row % lists + row % '["a", "b"]')
    with pytest.raises(piwo.DataError, match=r"column 'could' of .* holds lists of .*such as"):
        piwo.read(str(path), eligible="could")
    path.write_text(row % '["a", null]' + row % '["a", "b"]')
    assert list(piwo.read(str(path), eligible="could").actions) == ["a", "b"]


def test_the_command_names_the_column(tmp_path: Path, capsys) -> None:
    log, policy = str(tmp_path / "log.parquet"), str(tmp_path / "p.piwo")
    pq.write_table(pa.table({**ROWS, "id": ["x", "y"]}), log)
    Uniform(["a", "b"]).save(policy)
    act = ["policy", "act", policy, log]
    assert main([*act, "--eligible", "coul*"]) != 0
    assert "did you mean 'could'" in capsys.readouterr().err
    assert main([*act, "--eligible", "id"]) != 0
    assert "column 'id' has" in capsys.readouterr().err
    assert main([*act, "--eligible", "could", "--keep", "i*"]) == 0
    assert capsys.readouterr().out.startswith("id,action,propensity\nx,")
