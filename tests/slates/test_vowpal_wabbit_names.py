"""Actions of ccb and slates that a feature names: labels by hand, refusals, the tool's own file."""

import warnings
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.slates import Deterministic, SlateLog, Uniform, evaluate, read_dsjson, read_vw
from tests.slates.test_vowpal_wabbit import ccb, columns, lines, outcome, slates, text

OFFERS = (["tea", "cake", "pie"], ["pie", "soup"], ["cake", "tea", "soup", "pie"])
OUTCOMES = (
    (outcome([2, 0, 1], [0.5, 0.25, 0.25], -1), outcome([0, 1], [0.75, 0.25], 0)),
    (outcome([0, 1], [0.5, 0.5], -0.5), outcome([1], [1], 0)),
    (outcome([3], [0.25], -1),),
)


def events(*offers: Any, key: str = "id", outcomes: Any = OUTCOMES) -> list[dict[str, Any]]:
    made = []
    for names, chosen in zip(offers, outcomes, strict=False):
        event = ccb(*chosen, actions=len(names))
        for entry, name in zip(event["c"]["_multi"], names, strict=True):
            entry[key] = name
        made.append(event)
    return made


def in_text(*offers: list[str]) -> str:
    """The same decisions, as lines."""
    blocks = []
    for names, chosen in zip(offers, OUTCOMES, strict=False):
        block = ["ccb shared |u x:1", *(f"ccb action |a f id={x}" for x in names)]
        for one in chosen:
            pairs = [f"{a}:{p}" for a, p in zip(one["_a"], one["_p"], strict=True)]
            pairs[0] = pairs[0].replace(":", f":{one['_label_cost']}:")
            block.append(f"ccb slot {','.join(pairs)} |")
        blocks.append("\n".join(block))
    return "\n\n".join(blocks) + "\n"


def quiet(path: Path, **options: Any) -> SlateLog:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return piwo.slates.read(path, **options)


def test_a_feature_names_actions_whose_places_change(tmp_path: Path) -> None:
    vw = quiet(text(tmp_path / "log.vw", in_text(*OFFERS)), items_label="a/id")
    dsjson = quiet(lines(tmp_path / "log.dsjson", *events(*OFFERS)), items_label="id")
    for log in (vw, dsjson):
        assert log.actions.labels == ("cake", "pie", "soup", "tea")
        rows = columns(log)
        assert [row["slate"] for row in rows] == [["pie", "tea"], ["pie", "soup"], ["pie"]]
        assert [row["eligible"] for row in rows] == list(OFFERS)
        # pie, then tea; then soup: the weights are 2, 2/.75 | 2, 2 | 4
        found = evaluate(log, Deterministic(["pie", "tea", "soup"]), estimator="cascade")
        assert found.value == pytest.approx((2 + 0 + 2 * 0.5 + 4) / 3)
        # uniform over 3, 2 and 4 labels: 2/3, 1/0.5, 1
        found = evaluate(log, Uniform(log.actions), estimator="cascade")
        assert found.value == pytest.approx((2 / 3 + 0.5 + 1) / 3)


def test_the_same_actions_in_another_order_are_one_list(tmp_path: Path) -> None:
    offers = (["tea", "cake", "pie"], ["pie", "tea", "cake"])
    chosen = (OUTCOMES[0], (outcome([0], [0.5], 0), outcome([1], [0.5], 0)))
    log = quiet(lines(tmp_path / "log.dsjson", *events(*offers, outcomes=chosen)), items_label="id")
    assert log.columns.eligible is None
    assert log.actions.labels == ("cake", "pie", "tea")
    assert [row["slate"] for row in columns(log)] == [["pie", "tea"], ["pie", "tea"]]
    named = quiet(tmp_path / "log.dsjson", items_label="id", actions=["tea", "pie", "cake", "soup"])
    assert named.actions.labels == ("tea", "pie", "cake", "soup")
    # each of the four was not on offer: it is a list of labels, not of places
    missing = read_dsjson(tmp_path / "log.dsjson", items_label="id", actions=["tea", "pie"])
    assert [row["slate"] for row in columns(missing)] == [["pie", "tea"], ["pie", "tea"]]


def test_whole_numbers_are_labels_as_numbers(tmp_path: Path) -> None:
    offers = ([12, 7, 9], [9, 11], [7, 12, 11, 9])
    log = quiet(lines(tmp_path / "log.dsjson", *events(*offers, key="_tag")), items_label="_tag")
    assert log.actions.labels == (7, 9, 11, 12)
    assert [row["slate"] for row in columns(log)] == [[9, 12], [9, 11], [9]]
    in_lines = in_text(*[[str(x) for x in offer] for offer in offers]).replace("id=", "id:")
    assert columns(quiet(text(tmp_path / "log.vw", in_lines), items_label="a/id")) == columns(log)
    mixed = lines(tmp_path / "mixed.dsjson", *events(*[[*x[:-1], "x"] for x in offers]))
    assert "12" in read_dsjson(mixed, items_label="id").actions.labels
    long = lines(tmp_path / "long.dsjson", *events([10**18, 7, 9]))
    assert read_dsjson(long, items_label="id").actions.labels == ("1000000000000000000", "7", "9")


BROKEN = {
    "has an entry of c._multi without a value at id": ["tea", None, "pie"],
    "neither text nor a whole number at id": ["tea", 1.5, "pie"],
    "with neither text nor a whole number at id ": ["tea", ["pie"], "pie"],
    "two entries of c._multi with the same value at id": ["tea", "pie", "pie"],
}


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_entries_without_a_label_of_their_own_are_refused(rule: str, tmp_path: Path) -> None:
    made = [*events(*OFFERS), *events(BROKEN[rule])]
    with pytest.raises(DataError) as refused:
        read_dsjson(lines(tmp_path / "log.dsjson", *made), items_label="id")
    assert rule.strip() in str(refused.value)
    assert "(items_label), which names actions in 1 line" in str(refused.value)
    assert "line 4)" in str(refused.value)


def test_a_key_that_is_absent_is_refused(tmp_path: Path) -> None:
    made = events(*OFFERS)
    del made[1]["c"]["_multi"][0]["id"]
    with pytest.raises(DataError, match=r"without a value at id .* in 1 line \(.*line 2\)"):
        read_dsjson(lines(tmp_path / "log.dsjson", *made), items_label="id")


BROKEN_TEXT = {
    "has an action line without 'a/id' (items_label)": "ccb action |a f",
    "has two action lines with the same 'a/id'": "ccb action |a f id=tea",
    "has a number in 'a/id', and others have a text": "ccb action |a f id:7",
}


@pytest.mark.parametrize("rule", sorted(BROKEN_TEXT))
def test_action_lines_without_a_label_of_their_own_are_refused(rule: str, tmp_path: Path) -> None:
    content = in_text(*OFFERS).replace("ccb action |a f id=cake", BROKEN_TEXT[rule], 1)
    with pytest.raises(DataError) as refused:
        read_vw(text(tmp_path / "log.vw", content), items_label="a/id")
    assert rule in str(refused.value)
    assert "line 1)" in str(refused.value)


def test_what_is_no_name_is_refused(tmp_path: Path) -> None:
    path = text(tmp_path / "log.vw", in_text(*OFFERS))
    half = text(tmp_path / "half.vw", in_text(*OFFERS).replace("id=", "id:0.5 "))
    with pytest.raises(DataError, match="neither text nor a whole number in 'a/id'"):
        read_vw(half, items_label="a/id")
    with pytest.raises(UsageError, match="items_label is 'a/\\*', a whole namespace"):
        read_vw(path, items_label="a/*")
    for label in (["id"], "", 3):
        with pytest.raises(UsageError, match="expected one name, as text"):
            read_vw(path, items_label=label)  # type: ignore[arg-type]
    table = {"slate": [["a"]], "r": [1], "p": [0.5]}
    with pytest.raises(UsageError, match="the labels of this log are in slate"):
        piwo.slates.read(table, reward="r", slate_propensity="p", items_label="id")


def test_slates_are_named_too(tmp_path: Path) -> None:
    first, second = (outcome([1], [0.25]), outcome([0], [0.5])), (outcome([0], [1.0]),) * 2
    made = [slates(-1, *first), slates(0, *second)]
    for event in made:
        for entry, name in zip(event["c"]["_multi"], "abcd", strict=True):
            entry["id"] = name
    log = quiet(lines(tmp_path / "log.dsjson", *made), items_label="id")
    assert [row["slate"] for row in columns(log)] == [["b", "c"], ["a", "c"]]


def test_entries_that_change_and_not_their_number_are_said(tmp_path: Path) -> None:
    offers = (["tea", "cake", "pie"], ["tea", "soup", "pie"])
    path = lines(tmp_path / "log.dsjson", *events(*offers, outcomes=(OUTCOMES[0],) * 2))
    words = r"1 of 2 decisions have other entries in c\._multi than the first one"
    with pytest.warns(PiwoWarning, match=words):
        assert read_dsjson(path).columns.eligible is None
    assert quiet(path, actions=["a", "b", "c"]).columns.eligible is None
    log = quiet(path, items_label="id")
    assert [row["eligible"] for row in columns(log)] == list(offers)


def test_changing_actions_are_written_and_read_back(tmp_path: Path) -> None:
    log = quiet(lines(tmp_path / "log.dsjson", *events(*OFFERS)), items_label="id", context="u/x")
    made = piwo.slates.write_dsjson(log, tmp_path / "again.dsjson")
    assert (made.rows, made.left_out) == (3, ())
    again = quiet(tmp_path / "again.dsjson", items_label="_tag", context="u/x")
    assert again.actions.labels == log.actions.labels
    assert columns(again) == columns(log)
    # by number, each decision counts its own entries
    plain = piwo.slates.read_dsjson
    with pytest.warns(PiwoWarning, match="an action is the number of its line or entry"):
        numbered = plain(tmp_path / "again.dsjson")
    assert [row["slate"] for row in columns(numbered)] == [[2, 0], [0, 1], [3]]


def test_a_table_with_eligible_actions_becomes_ccb(tmp_path: Path) -> None:
    table = {
        "slate": [[30, 10], [20]],
        "could": [[20, 10, 30], [10, 20]],
        "rs": [[1.0, 0.25], [0.5]],
        "ps": [[0.5, 0.25], [0.75]],
        "s": [1.0, 4.0],
    }
    roles = {"rewards": "rs", "propensities": "ps", "eligible": "could", "weight": "s"}
    log = piwo.slates.read(table, **roles)
    piwo.slates.write_dsjson(log, tmp_path / "log.dsjson.gz")
    again = quiet(tmp_path / "log.dsjson.gz", items_label="_tag")
    rows = columns(again)
    # labels are text there
    assert [row["slate"] for row in rows] == [["30", "10"], ["20"]]
    assert [row["eligible"] for row in rows] == [["20", "10", "30"], ["10", "20"]]
    assert [row["rewards"] for row in rows] == table["rs"]
    assert [row["propensities"] for row in rows] == table["ps"]
    assert [row["weight"] for row in rows] == table["s"]
    for order, named in (([10, 20, 30], again), ([30, 20, 10], again)):
        one = evaluate(log, Deterministic(order), interval="normal").value
        assert evaluate(named, Deterministic(list(map(str, order))), interval="normal").value == one


def test_vowpal_wabbit_itself_reads_changing_actions(tmp_path: Path) -> None:
    tool = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    log = quiet(lines(tmp_path / "log.dsjson", *events(*OFFERS)), items_label="id")
    piwo.slates.write_dsjson(log, tmp_path / "again.dsjson")
    workspace = tool.Workspace(f"--ccb_explore_adf --dsjson -d {tmp_path / 'again.dsjson'} --quiet")
    assert workspace.get_weighted_examples() == 3
    workspace.finish()


def test_declared_actions_that_no_decision_offers_cannot_be_shown(tmp_path: Path) -> None:
    offers = (["tea", "pie"], ["pie", "tea"])
    chosen = ((outcome([0], [0.5], -1),), (outcome([0], [0.5], 0),))
    dsjson = lines(tmp_path / "log.dsjson", *events(*offers, outcomes=chosen))
    block = "ccb shared |\nccb action |a id={}\nccb action |a id={}\nccb slot 0:{}:0.5 |\n"
    content = "\n".join(block.format(*x, cost) for x, cost in zip(offers, (-1, 0), strict=True))
    vw = text(tmp_path / "log.vw", content)
    for path, items in ((dsjson, "id"), (vw, "a/id")):
        log = quiet(path, items_label=items, actions=["tea", "pie", "soup"])
        assert [row["eligible"] for row in columns(log)] == list(offers)
        # each is shown in half of the cases: soup cannot be
        found = evaluate(log, Uniform(log.actions), estimator="cascade")
        assert found.value == pytest.approx((1 + 0) / 2)
        assert found.mean_weight == pytest.approx(1.0)


def test_actions_of_slates_that_move_to_another_slot_are_eligible_there(tmp_path: Path) -> None:
    offers = (["tea", "pie", "cake", "soup"], ["cake", "soup", "tea", "pie"])
    made, blocks = [], []
    for names in offers:
        event = slates(-1, outcome([0], [0.5]), outcome([0], [0.5]))
        block = ["slates shared -1 |"]
        for entry, name in zip(event["c"]["_multi"], names, strict=True):
            entry["id"] = name
            block.append(f"slates action {entry['_slot_id']} |a id={name}")
        made.append(event)
        blocks.append("\n".join([*block, "slates slot 0:0.5 |", "slates slot 0:0.5 |", ""]))
    dsjson = lines(tmp_path / "log.dsjson", *made)
    vw = text(tmp_path / "log.vw", "\n".join(blocks))
    for path, items in ((dsjson, "id"), (vw, "a/id")):
        log = quiet(path, items_label=items)
        assert [row["eligible"] for row in columns(log)] == [
            [names[:2], names[2:]] for names in offers
        ]
        # tea and cake, then cake and tea, as both were shown: the weights are 4
        assert evaluate(log, Deterministic(["tea", "cake"])).value == pytest.approx(4.0)
    # the same lists in the same slots are no change
    assert (
        quiet(lines(tmp_path / "one.dsjson", *made[:1] * 2), items_label="id").columns.eligible
        is None
    )


def test_numbers_that_a_line_cannot_hold_exactly_are_no_names(tmp_path: Path) -> None:
    content = "ccb shared |\nccb action |a id:9007199254740993\nccb action |a id:2\n"
    path = text(tmp_path / "log.vw", content + "ccb slot 0:0:0.5 |\n")
    with pytest.raises(DataError, match="neither text nor a whole number"):
        read_vw(path, items_label="a/id")
