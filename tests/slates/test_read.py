"""Reading slates: what is refused, in one line that names the rows."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo import DataError, UsageError, slates

GOOD: dict[str, list[Any]] = {
    "s": [["a", "b"], ["b", "a"], ["a"]],
    "rs": [[1.0, 0.0], [0.5, 1.0], [0.0]],
    "mu": [[0.5, 1.0], [0.5, 1.0], [0.5]],
}
TARGET = slates.Deterministic(["a", "b"])


def read(changes: dict[str, Any] | None = None, **options: Any) -> slates.SlateLog:
    named = {"slate": "s", "rewards": "rs", "propensities": "mu", **options}
    return slates.read({**GOOD, **(changes or {})}, **named)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"s": [["a", "b"], None, ["a"]]}, r"column 's' is missing in 1 row \(.* 1\)"),
        ({"s": [["a", "b"], [], ["a"]]}, r"column 's' holds an empty slate in 1 row \(.* 1\)"),
        ({"s": [["a", "b"], ["b", None], ["a"]]}, r"column 's' has missing labels in 1 row"),
        ({"rs": [[1.0, 0.0], [0.5], [0.0]]}, r"'rs' does not hold one number for each slot in 1"),
        ({"rs": [[1.0, 0.0], [0.5, None], [0.0]]}, r"'rs' has missing or infinite numbers in 1"),
        ({"rs": [[1.0, 0.0], [0.5, 2.0], [0.0]]}, r"outside the declared range \[0, 1\] in 1 row"),
        ({"rs": [[1.0, 0.0], [0.5, -1.0], [0.0]]}, r"outside the declared range \[0, 1\] in 1 row"),
        ({"mu": [[0.5, 1.0], [0.0, 1.0], [0.5]]}, r"'mu' is 0, which cannot happen .* \(.* 1\)"),
        ({"mu": [[0.5, 1.0], [-0.1, 1.0], [0.5]]}, r"column 'mu' is negative in 1 row"),
        ({"mu": [[0.5, 1.0], [1.1, 1.0], [0.5]]}, r"'mu' is above 1 by more than 0.0001 in 1 row"),
        ({"mu": [[0.5, 1.0], None, [0.5]]}, r"column 'mu' is missing in 1 row \(.* 1\)"),
    ],
)
def test_rows_that_break_a_rule_are_named(changes: dict[str, Any], message: str) -> None:
    log = read(changes)
    with pytest.raises(DataError, match=message) as raised:
        slates.evaluate(log, TARGET)
    assert "\n" not in str(raised.value)


def test_labels_outside_the_list_and_slates_that_are_too_long() -> None:
    with pytest.raises(DataError, match=r"not among the 1 actions .*such as 'b'"):
        slates.evaluate(read(actions=["a"]), slates.Deterministic(["a", "a"]))
    with pytest.raises(DataError, match=r"column 's' has more than 1 slots in 2 rows"):
        slates.evaluate(read(slots=1), slates.Deterministic(["a"]))


def test_probabilities_that_contradict_each_other() -> None:
    table = {"whole": [0.5, 0.4, 0.5]}
    log = read(table, slate_propensity="whole")
    with pytest.raises(DataError, match=r"not the product of those of its slots in 1 row \(.* 1"):
        slates.evaluate(log, TARGET)
    table_alone = {"alone": [[0.5, 0.5], [0.4, 0.5], [0.5]]}
    log = read(table_alone, marginals="alone")
    with pytest.raises(DataError, match=r"another probability in the first slot .* 1\)"):
        slates.evaluate(log, TARGET)


def test_what_the_declared_logger_cannot_show_is_refused() -> None:
    log = slates.read(
        {"s": [["a", "b"], ["a", "a"]], "r": [0, 1]},
        slate="s",
        reward="r",
        behavior=slates.Uniform(["a", "b"]),
    )
    with pytest.raises(DataError, match=r"slates that the logger cannot show in 1 row \(.* 1\)"):
        slates.evaluate(log, TARGET)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"reward": "rs"}, "expected one of reward .* got both"),
        ({"rewards": None}, "expected one of reward .* got neither"),
        ({"propensities": None}, "expected the logger's probabilities .* got none"),
        ({"behavior": slates.Uniform(["a"])}, "expected the logger's probabilities .* got both"),
        ({"reward_range": (-1, 1)}, r"expected \(0, hi\)"),
        ({"position_weights": [1.0, -1.0]}, "position_weights is"),
        ({"position_weights": [0.0]}, "position_weights is"),
        ({"position_weights": [1e308, 1e308]}, "not all of them 0, with a finite sum"),
        ({"slots": 0}, "slots is 0"),
        ({"where": "rs[1] > 0"}, "where mentions 'rs', which depends on what was decided"),
        ({"logger": "frozen"}, "logger is 'frozen'"),
    ],
)
def test_arguments_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        read(None, **options)


def test_columns_that_are_no_lists_or_do_not_exist() -> None:
    with pytest.raises(DataError, match=r"column 's' has .*, expected lists of labels"):
        read({"s": ["a", "b", "a"]})
    with pytest.raises(DataError, match=r"column 'mu' has .*, expected lists of probabilities"):
        read({"mu": [0.5, 0.5, 0.5]})
    with pytest.raises(DataError, match=r"no column 'slte' for the slate"):
        read(None, slate="slte")
    with pytest.raises(DataError, match=r"no column 'pi' for the slate policy"):
        slates.evaluate(read(), slates.FromColumns(above="pi"))
    with pytest.raises(UsageError, match=r"position_weights has 1 entries"):
        slates.evaluate(read(None, position_weights=[1.0]), TARGET)


@pytest.mark.parametrize(
    ("estimator", "message"),
    [
        ("independent", r"needs the marginal probability .* of the logger; name its column"),
        ("pseudo-inverse", r"needs a logger that draws slots independently"),
        ("adaptive", r"needs a column that says what the reward of a slot depends on"),
        ("ips", r"estimator is 'ips', expected one of standard, independent, cascade"),
    ],
)
def test_estimators_say_what_is_missing(estimator: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        slates.evaluate(read(), TARGET, estimator=estimator)


def test_the_target_must_state_the_same_probabilities() -> None:
    log = read({"pi": [0.5, 0.5, 0.5]})
    with pytest.raises(UsageError, match=r"above it of the target; name its column \(above="):
        slates.evaluate(log, slates.FromColumns(slate="pi"), estimator="cascade")
    with pytest.raises(UsageError, match=r"expected a SlatePolicy, such as slates.Deterministic"):
        slates.evaluate(log, "best")  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"row 0: shows 2 actions, and the slate policy has 1"):
        slates.evaluate(log, slates.Deterministic(["a"]))


def test_files_and_queries_are_read_part_by_part(tmp_path: Path) -> None:
    path = tmp_path / "slates.parquet"
    many = {name: values * 500 for name, values in GOOD.items()}
    pq.write_table(pa.table(many), path, row_group_size=100)
    expected = slates.evaluate(read(many), TARGET)
    named: dict[str, Any] = {"slate": "s", "rewards": "rs", "propensities": "mu"}
    for source in (str(path), f"select * from '{path}'"):
        log = slates.read(source, **named)
        assert len(log) == 1500
        found = slates.evaluate(log, TARGET)
        assert found.value == pytest.approx(expected.value)
        assert found.lower == pytest.approx(expected.lower)


def test_a_condition_chooses_rows_by_what_is_known_before(tmp_path: Path) -> None:
    path = tmp_path / "slates.parquet"
    pq.write_table(pa.table({**GOOD, "day": [1, 1, 2]}), path)
    named: dict[str, Any] = {"slate": "s", "rewards": "rs", "propensities": "mu"}
    assert len(slates.read(str(path), where="day = 1", **named)) == 2
    with pytest.raises(UsageError, match="where mentions 's'"):
        slates.read(str(path), where="len(s) = 2", **named)


def test_globs_of_the_context_leave_out_what_has_a_role() -> None:
    log = read({"x1": [1.0, 2.0, 3.0], "x2": [0.0, 0.0, 1.0]}, context="*")
    assert log.columns.context == ("x1", "x2")
    with pytest.raises(UsageError, match="column 'rs' has another role"):
        read(None, context=["rs"])


def test_csv_is_refused_with_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "slates.csv"
    path.write_text("s,r,p\na,1,0.5\n")
    with pytest.raises(UsageError, match=r"is CSV, which has no lists; give Parquet, JSON lines"):
        slates.read(str(path), slate="s", reward="r", slate_propensity="p")


def shown_rows() -> list[dict[str, Any]]:
    """Rows in which every value is a list, so that one of them could also be columns."""
    return [
        {"s": ["a", "b"], "rs": [1, 0.5], "mu": [0.5, 1], "best": ["b", "a"]},
        {"s": ["b"], "rs": [0], "mu": [0.5], "best": ["a"]},
    ]


def write_lines(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_array(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps(rows))


def write_columns(path: Path, rows: list[dict[str, Any]]) -> None:
    path.write_text(json.dumps({name: [row[name] for row in rows] for name in rows[0]}))


@pytest.mark.parametrize("write", [write_lines, write_array, write_columns])
@pytest.mark.parametrize("count", [1, 2])
def test_json_is_read_as_a_data_frame(tmp_path: Path, write: Any, count: int) -> None:
    rows = shown_rows()[:count]
    path = tmp_path / "slates.json"
    write(path, rows)
    named = {"slate": "s", "rewards": "rs", "propensities": "mu", "actions": ["a", "b"]}
    table = {name: [row[name] for row in rows] for name in rows[0]}
    target = slates.Deterministic("best")
    found = [
        slates.evaluate(slates.read(source, **named), target, name="best")
        for source in (str(path), table)
    ]
    assert found[0] == found[1]
    assert found[0].rows == count


@pytest.mark.parametrize("write", [write_lines, write_array, write_columns])
@pytest.mark.parametrize("count", [1, 2])
def test_json_has_eligible_labels_of_slots(tmp_path: Path, write: Any, count: int) -> None:
    # every value of a row is a list, as in a file of columns
    rows = [
        {"s": ["a", "c"], "rs": [1.0, 0.5], "mu": [0.5, 0.25], "could": [["a", "b"], ["c", "d"]]},
        {"s": ["b"], "rs": [1.0], "mu": [0.5], "could": [["b", "d"]]},
    ][:count]
    path = tmp_path / "slates.json"
    write(path, rows)
    named = {"slate": "s", "eligible": "could", "rewards": "rs", "propensities": "mu"}
    table = {name: [row[name] for row in rows] for name in rows[0]}
    target = slates.Uniform(["a", "b", "c", "d"])
    found = [slates.evaluate(slates.read(source, **named), target) for source in (str(path), table)]
    assert found[0] == found[1]
    assert found[0].value == pytest.approx([3.0, 2.0][count - 1])
    for row in rows:
        row["could"] = [[1, "1"] for _ in row["s"]]
    write(path, rows)
    with pytest.raises(DataError, match=r"column 'could' of .* holds lists of"):
        slates.read(str(path), **named)


def test_conditions_and_labels_of_json(tmp_path: Path) -> None:
    path = tmp_path / "slates.jsonl"
    rows = [{"s": [1, 2], "r": 1, "p": 0.5, "day": 1}, {"s": [2, 1], "r": 0, "p": 0.5, "day": 2}]
    write_lines(path, rows)
    named = {"slate": "s", "reward": "r", "slate_propensity": "p"}
    log = slates.read(str(path), where="day = 2", **named)
    assert (log.actions.labels, len(log)) == ((1, 2), 1)
    with pytest.raises(UsageError, match="which depends on what was decided"):
        slates.read(str(path), where="r > 0", **named)
    rows[1]["s"] = ["2", "1"]
    write_lines(path, rows)
    with pytest.raises(DataError, match="holds lists of whole numbers"):
        slates.read(str(path), **named)
    write_lines(path, [{"s": "a", "r": 1, "p": 0.5}])
    with pytest.raises(DataError, match="column 's' has type string, expected lists of labels"):
        slates.read(str(path), **named)


@pytest.mark.parametrize("kind", ["list", "large_list", "fixed"])
def test_every_kind_of_list(kind: str) -> None:
    text, number = pa.string(), pa.float64()
    of = {
        "list": pa.list_,
        "large_list": pa.large_list,
        "fixed": lambda entry: pa.list_(entry, 2),
    }[kind]
    table = pa.table(
        {
            "s": pa.array([["a", "b"], ["b", "a"]], of(text)),
            "rs": pa.array([[1.0, 0.0], [0.5, 1.0]], of(number)),
            "mu": pa.array([[0.5, 1.0], [0.5, 1.0]], of(number)),
        }
    )
    log = slates.read(table, slate="s", rewards="rs", propensities="mu")
    assert slates.evaluate(log, TARGET).value == pytest.approx(1.0)


def test_whole_numbers_are_labels_too() -> None:
    log = slates.read(
        {"s": [[1, 2], [2, 1]], "rs": [[1, 0], [0, 0]]},
        slate="s",
        rewards="rs",
        behavior=slates.Uniform([1, 2]),
    )
    assert slates.evaluate(log, slates.Deterministic([1, 2])).value == 1.0


def test_unbounded_rewards_have_a_lower_end_alone() -> None:
    log = read({"rs": [[9.0, 0.0], [0.5, 100.0], [0.0]]}, reward_range=(0.0, np.inf))
    found = slates.evaluate(log, TARGET)
    assert found.upper is None
    assert found.lower is not None
    assert found.largest_value is None
    assert found.improvement_lower is None


def test_unbounded_rewards_are_refused_with_weights_that_may_be_negative() -> None:
    log = read(
        {"rs": [[9.0, 0.0], [0.5, 100.0], [0.0]]}, reward_range=(0.0, np.inf), independent=True
    )
    with pytest.raises(UsageError, match=r"negative, .* have no bound; declare reward_range"):
        slates.evaluate(log, TARGET, estimator="pseudo-inverse")


def test_a_logger_that_learned_gets_the_mixture() -> None:
    log = read(None, logger="learning")
    assert slates.evaluate(log, TARGET).interval == "mixture"
    with pytest.raises(UsageError, match="'deadline' needs independent rows"):
        slates.evaluate(log, TARGET, interval="deadline")


def test_results_are_plain_json() -> None:
    import json

    found = slates.evaluate(read(), TARGET)
    assert json.loads(json.dumps(found.to_dict()))["estimator"] == "standard"
    assert "assumes: nothing is assumed" in str(found)


def test_actions_that_were_never_logged_are_said() -> None:
    log = read(actions=["a", "b", "z"])
    found = slates.evaluate(log, slates.Deterministic(["a", "z"]))
    assert any(note.kind == "unsupported" and "'z'" in note for note in found.notes)
    assert "nor does the estimate" in str(found)
    found = slates.evaluate(log, slates.Deterministic(["a", "z"]), self_normalized=True)
    assert "takes them to be like its other actions" in str(found)


@pytest.mark.parametrize(
    "policy",
    [
        slates.Deterministic(["a", "z"]),
        slates.Uniform(["a", "b", "z"]),
        slates.Factored([{"a": 0.5, "z": 0.5}, {"b": 1.0}]),
        slates.EpsilonSlate(slates.Deterministic(["a", "b"]), 0.1, ["a", "b", "z"]),
    ],
)
def test_labels_that_the_log_does_not_know_are_refused(policy: slates.SlatePolicy) -> None:
    message = (
        r"the log's list of 2 actions lacks 1 of the policy's: 'z'; pass actions=\[\.\.\.\] with"
    )
    with pytest.raises(UsageError, match=message):
        slates.evaluate(read(), policy)
    with pytest.raises(UsageError, match=message):
        slates.compare(read(), {"new": policy})
    with pytest.raises(UsageError, match=message):
        slates.by_position(read(marginals="mu"), policy)
    assert slates.evaluate(read(actions=["a", "b", "z"]), policy).value is not None


def test_labels_of_a_column_that_the_log_does_not_know_are_refused() -> None:
    log = read({"best": [["a", "z"], ["b", "a"], ["a"]]})
    with pytest.raises(DataError, match=r"'best' holds labels that are not .* such as 'z'; add"):
        slates.evaluate(log, slates.Deterministic("best"))


def test_more_slots_than_the_slates_have_are_refused() -> None:
    for policy in (
        slates.Deterministic(["a", "b", "a"]),
        slates.Factored([{"a": 1.0}] * 3),
    ):
        with pytest.raises(UsageError, match=r"fills 3 slots, and slates of .* have up to 2; give"):
            slates.evaluate(read(), policy)
        assert slates.evaluate(read(slots=3), policy).value is not None
    # a ranking of more items than slots is cut
    assert slates.evaluate(read(actions=["a", "b", "z"]), slates.Uniform(["a", "b", "z"])).value


def test_what_the_logger_can_show_is_known() -> None:
    table = {"s": [[1, 2], [2, 1]], "rs": [[1.0, 0.0], [0.0, 0.0]]}
    log = slates.read(table, slate="s", rewards="rs", behavior=slates.Uniform(["1", "2", "3"]))
    assert log.actions.labels == ("1", "2", "3")
    found = slates.evaluate(log, slates.Deterministic(["1", "3"]), estimator="independent")
    # 3 in the first slot of the first row
    assert found.value == 1.5
    assert not [note for note in found.notes if note.kind == "unsupported"]


def test_actions_that_the_logger_may_show_count_in_the_pseudo_inverse() -> None:
    table = {"s": [["a", "b"], ["b", "a"]], "r": [1.0, 0.0]}
    log = slates.read(table, slate="s", reward="r", behavior=slates.Uniform(["a", "b", "z"]))
    target = slates.Deterministic(["a", "z"])
    found = slates.evaluate(log, target, estimator="pseudo-inverse")
    assert found.value is not None
    assert found.lower is not None
    target = slates.Deterministic(["a", "y"])
    with pytest.raises(UsageError, match="the log's list of 3 actions lacks 1 of the policy's"):
        slates.evaluate(log, target, estimator="pseudo-inverse")
    declared = slates.read(
        table,
        slate="s",
        reward="r",
        behavior=slates.Uniform(["a", "b", "z"]),
        actions=["a", "b", "y", "z"],
    )
    found = slates.evaluate(declared, target, estimator="pseudo-inverse")
    assert found.value is found.standard_error is found.lower is found.improvement_lower is None
    assert found.guarantee == "none"
    assert found.no_interval is not None
    assert found.no_interval.kind == "unsupported"
    assert "'y'" in found.no_interval
    assert "does not count" not in str(found)


def test_position_weights_that_no_slate_uses_are_refused() -> None:
    message = r"has 3 entries, and slates have up to 2 slots; .* or declare slots=3"
    with pytest.raises(UsageError, match=message):
        slates.evaluate(read(position_weights=[0.0, 0.0, 1.0]), TARGET)


def test_slates_of_all_items_need_a_target_that_shows_each_once() -> None:
    table = {"s": [["a", "b"], ["b", "a"]], "r": [1.0, 0.0]}
    logger = slates.Uniform(["a", "b"])
    log = slates.read(table, slate="s", reward="r", behavior=logger, actions=["a", "b", "c"])
    for target in (
        slates.Deterministic(["a", "a"]),
        slates.Factored([{"a": 0.5, "b": 0.5}, {"a": 1.0}]),
        slates.Uniform(["a", "b", "c"]),
    ):
        with pytest.raises(DataError, match=r"row 0: shows all 2 items, .* expected 1"):
            slates.evaluate(log, target, estimator="pseudo-inverse")
    for target in (TARGET, slates.Factored([{"a": 0.25, "b": 0.75}, {"a": 0.75, "b": 0.25}])):
        found = slates.evaluate(log, target, estimator="pseudo-inverse")
        assert found.value is not None
        assert "can show every slate" in found.assumption


def test_values_beyond_the_largest_number_are_refused() -> None:
    table = {"s": [["a", "b"], ["b", "a"]], "r": [[1e308, 0.0]] * 2, "p": [[0.5, 1.0]] * 2}
    log = slates.read(table, slate="s", rewards="r", propensities="p", reward_range=(0, 1e308))
    with pytest.raises(UsageError, match=r"worth 2 times 1e\+308, more than a number"):
        slates.evaluate(log, TARGET, estimator="cascade")
