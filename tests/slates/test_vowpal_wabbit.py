"""Vowpal Wabbit's ccb and slates as slate logs: values by hand, what is left out and refused, the
round trip, and the tool's own files."""

import json
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import DataError, PiwoError, PiwoWarning, UsageError
from piwo.slates import Deterministic, Factored, SlateLog, evaluate, read_dsjson, read_vw

CCB = (
    "ccb shared |u x:1\nccb action |a a\nccb action |a b\nccb action |a c\n"
    "ccb slot 2:-1:0.5 |\nccb slot 0:0:0.75,1:0.25 0,1 |s b\n\n"
    "ccb shared 'id|u x:3\nccb action |a a\nccb action |a b\nccb action |a c\n"
    "ccb slot 0:-0.5:0.25 |\nccb slot 1:-1:0.5 |s b\n"
)
SLATES = "".join(
    f"slates shared {cost} |u x:1\nslates action 0 | a\nslates action 0 | b\nslates action 1 | a\n"
    f"slates action 1 | b\nslates slot {one} |\nslates slot {two} |\n\n"
    for cost, one, two in (("-1", "1:0.25,0:0.75", "0:0.5"), ("0", "0:0.75", "1:0.5"))
)


def outcome(actions: list[int], chances: list[float], cost: float | None = None) -> dict[str, Any]:
    made: dict[str, Any] = {"_a": actions, "_p": chances}
    if cost is not None:
        made["_label_cost"] = cost
    return made


def ccb(*outcomes: dict[str, Any], actions: int = 3, x: float = 1, **more: Any) -> dict[str, Any]:
    slots = [{"_id": i} for i, _ in enumerate(outcomes)]
    context = {"u": {"x": x}, "_multi": [{"a": i} for i in range(actions)], "_slots": slots}
    return {"c": context, "_outcomes": list(outcomes), **more}


def slates(cost: float | None, *outcomes: dict[str, Any], **more: Any) -> dict[str, Any]:
    made = ccb(*outcomes, **more)
    made["c"]["_multi"] = [{"_slot_id": i} for i in (0, 0, 1, 1)]
    return made if cost is None else {"_label_cost": cost, **made}


CCB_EVENTS = (
    ccb(outcome([2, 0, 1], [0.5, 0.25, 0.25], -1), outcome([0, 1], [0.75, 0.25], 0)),
    ccb(outcome([0], [0.25], -0.5), outcome([1, 2], [0.5, 0.5], -1), x=3),
)
SLATES_EVENTS = (
    slates(-1, outcome([1, 0], [0.25, 0.75]), outcome([0, 1], [0.5, 0.5])),
    slates(0, outcome([0], [0.75]), outcome([1], [0.5])),
)


def lines(path: Path, *events: dict[str, Any] | str) -> Path:
    made = [x if isinstance(x, str) else json.dumps(x) for x in events]
    path.write_text("\n".join(made) + "\n", "utf-8")
    return path


def text(path: Path, content: str) -> Path:
    path.write_text(content, "utf-8")
    return path


def columns(log: SlateLog) -> list[dict[str, Any]]:
    rows = []
    for fragment in log.source.fragments(log.source.schema.names):
        for record in fragment.records():
            rows += record.to_pylist()
    return rows


def both(kind: str, tmp_path: Path) -> list[SlateLog]:
    content, events = (CCB, CCB_EVENTS) if kind == "ccb" else (SLATES, SLATES_EVENTS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return [
            piwo.slates.read(text(tmp_path / "log.vw", content), context="u/x"),
            piwo.slates.read(lines(tmp_path / "log.json", *events), context="u/x"),
        ]


def test_values_of_ccb_by_hand(tmp_path: Path) -> None:
    target = Deterministic([0, 1])
    for log in both("ccb", tmp_path):
        assert columns(log) == [
            {"slate": [2, 0], "rewards": [1, 0], "propensities": [0.5, 0.75], "u/x": 1.0},
            {"slate": [0, 1], "rewards": [0.5, 1], "propensities": [0.25, 0.5], "u/x": 3.0},
        ]
        # the second row shows 0, then 1: weights 4 and 8
        assert evaluate(log, target, estimator="cascade").value == (4 * 0.5 + 8 * 1) / 2
        assert evaluate(log, target).value == 8 * 1.5 / 2
        with pytest.raises(UsageError, match="marginal probability"):
            evaluate(log, target, estimator="independent")


def test_values_of_slates_by_hand(tmp_path: Path) -> None:
    # the second action of the first slot, and the first one of the second
    target = Deterministic([1, 2])
    for log in both("slates", tmp_path):
        assert columns(log) == [
            {"slate": [1, 2], "reward": 1.0, "propensities": [0.25, 0.5], "u/x": 1.0},
            {"slate": [0, 3], "reward": 0.0, "propensities": [0.75, 0.5], "u/x": 1.0},
        ]
        assert evaluate(log, target).value == (1 / 0.25) * (1 / 0.5) / 2
        found = evaluate(log, target, estimator="pseudo-inverse")
        # 1/0.25 + 1/0.5 - 1
        assert found.value == 5 / 2
        mixed = Factored([{0: 0.5, 1: 0.5}, {2: 1.0}])
        # 2 + 2 - 1, and 0.5/0.75 + 0 - 1 of the second row, which earns nothing
        assert evaluate(log, mixed, estimator="pseudo-inverse").value == 3 / 2


def test_actions_have_the_names_that_are_given(tmp_path: Path) -> None:
    for kind in ("ccb", "slates"):
        names = ["a", "b", "c", "d"][: 3 if kind == "ccb" else 4]
        content, events = (CCB, CCB_EVENTS) if kind == "ccb" else (SLATES, SLATES_EVENTS)
        for log in (
            read_vw(text(tmp_path / "log.vw", content), actions=names),
            read_dsjson(lines(tmp_path / "log.dsjson", *events), actions=names),
        ):
            assert log.actions.labels == tuple(names)
            first = ["c", "a"] if kind == "ccb" else ["b", "c"]
            assert columns(log)[0]["slate"] == first
        with pytest.raises(UsageError, match=rf"got 2 actions, but .* has {len(names)}"):
            read_vw(tmp_path / "log.vw", actions=["x", "y"])
        with pytest.raises(UsageError, match=rf"got 2 actions, but .* has {len(names)}"):
            read_dsjson(tmp_path / "log.dsjson", actions=["x", "y"])


def test_costs_above_zero_are_counted_from_the_least_reward(tmp_path: Path) -> None:
    path = text(tmp_path / "log.vw", SLATES.replace("shared -1", "shared 0.75"))
    with pytest.raises(DataError, match="outside the declared range"):
        evaluate(read_vw(path), Deterministic([1, 2]))
    with pytest.warns(PiwoWarning, match=r"rewards are minus the cost plus 1, because"):
        log = read_vw(path, reward_range=(-1, 0))
    assert [row["reward"] for row in columns(log)] == [0.25, 1.0]
    assert log.largest == 1.0


def test_what_is_left_out_is_counted_by_reason(tmp_path: Path) -> None:
    bare = ccb(outcome([0], [0.5]), outcome([1], [0.5]))
    tested = {"c": bare["c"]}
    rest = ("", "# no", {**CCB_EVENTS[0], "_skipLearn": True}, {"EventId": "1"}, bare, tested)
    path = lines(tmp_path / "log.dsjson", *CCB_EVENTS, *rest)
    reasons = "blank 1, not JSON 1, skip-learn 1, no decision 1, no label 2"
    with pytest.warns(PiwoWarning, match=rf"6 of 8 are not labeled decisions \({reasons}\)"):
        log = read_dsjson(path)
    assert len(log) == 2
    assert log.source.skipped == {  # type: ignore[attr-defined]
        "blank": 1,
        "not JSON": 1,
        "skip-learn": 1,
        "no decision": 1,
        "no label": 2,
    }
    unlabeled = slates(None, outcome([0], [0.5]), outcome([1], [0.5]))
    with pytest.warns(PiwoWarning, match=r"1 of 3 .* \(no label 1\)"):
        assert len(read_dsjson(lines(path, *SLATES_EVENTS, unlabeled))) == 2
    with pytest.raises(DataError, match=r"no line is a labeled decision \(lines: no label 1\)"):
        read_dsjson(lines(path, unlabeled))
    bare_text = "\nccb shared |\nccb action |a a\nccb action |a b\nccb action |a c\nccb slot |\n"
    with pytest.warns(PiwoWarning, match=r"1 of 3 .* \(no label 1\)"):
        assert len(read_vw(text(tmp_path / "log.vw", CCB + bare_text))) == 2
    with pytest.raises(DataError, match=r"no decision has a label \(left out: no label 1\)"):
        read_vw(text(tmp_path / "log.vw", bare_text))


def test_a_thinned_log_has_sampling_weights(tmp_path: Path) -> None:
    one, two = CCB_EVENTS
    log = read_dsjson(lines(tmp_path / "log.dsjson", {**one, "pdrop": 0.75}, two))
    assert log.columns.weight == "weight"
    # sum of s Y over the sum of s: (4 * 0 + 1 * 10) / 5
    assert evaluate(log, Deterministic([0, 1]), estimator="cascade", interval="normal").value == 2


GOOD = (outcome([0], [0.5], 0), outcome([1], [0.5], 0))
TWICE = (outcome([0], [0.5], 0), outcome([0], [0.5], 0))
CB = {"_label_cost": 0, "_label_probability": 1, "a": [1], "p": [1], "c": {"_multi": [{}]}}
BROKEN = {
    "is one decision with one action, which piwo.read reads": CB,
    "has no action list c._multi": {"c": {"_slots": [{}]}, "_outcomes": [GOOD[0]]},
    "has no slots c._slots": {"c": {"_multi": [{}]}, "_outcomes": [GOOD[0]]},
    "actions with a whole _slot_id and actions without": {
        "_label_cost": 0,
        "c": {"_multi": [{"_slot_id": 0}, {}], "_slots": [{}]},
        "_outcomes": [outcome([0], [1])],
    },
    "other numbers of _outcomes and c._slots": {**ccb(*GOOD), "_outcomes": [GOOD[0]]},
    "a field of an outcome twice": json.dumps(ccb(*GOOD)).replace('"_a":', '"_a": [2], "_a":'),
    "without lists _a and _p of the same length": ccb(outcome([0, 1], [1], 0), GOOD[1]),
    "_a with entries that are not whole numbers": ccb(outcome([0.5], [1], 0), GOOD[1]),
    "_a with numbers of no action": ccb(outcome([3], [1], 0), GOOD[1]),
    "_a that lists an action twice": ccb(outcome([0, 0], [0.5, 0.5], 0), GOOD[1]),
    "_p with entries that are not numbers": ccb(
        {"_a": [0], "_p": ["1"], "_label_cost": 0}, GOOD[1]
    ),
    "_p with negative entries": ccb(outcome([0, 1], [1.5, -0.5], 0), GOOD[1]),
    "_p that does not sum to 1": ccb(outcome([0, 2], [0.5, 0.4], 0), GOOD[1]),
    "shows an action in two slots": ccb(*TWICE),
    "a _label_cost that is not a number": ccb({"_a": [0], "_p": [1], "_label_cost": "0"}, GOOD[1]),
    "slots with a _label_cost and slots without": ccb(outcome([0], [1]), GOOD[1]),
    "a _skipLearn that is not true or false": ccb(*GOOD, _skipLearn=1),
    "a pdrop that is not a number": ccb(*GOOD, pdrop="0"),
    "a pdrop outside [0, 1)": ccb(*GOOD, pdrop=1),
    "has _outcomes twice": json.dumps(ccb(*GOOD)).replace('"c":', '"_outcomes": [], "c":'),
    "is not like the first event (ccb, 3 actions)": SLATES_EVENTS[0],
    "is broken JSON": '{"c": {',
}


@pytest.mark.parametrize("rule", sorted(BROKEN))
def test_a_broken_event_is_refused_with_its_line(rule: str, tmp_path: Path) -> None:
    path = lines(tmp_path / "log.dsjson", *CCB_EVENTS, BROKEN[rule])
    with pytest.raises(DataError) as refused:
        read_dsjson(path)
    assert rule in str(refused.value)
    assert "in 1 line (" in str(refused.value)
    assert "line 3)" in str(refused.value)


def test_broken_json_is_left_out_on_request(tmp_path: Path) -> None:
    path = lines(tmp_path / "log.dsjson", *CCB_EVENTS, '{"c": {')
    with pytest.warns(PiwoWarning, match="broken JSON 1"):
        assert len(read_dsjson(path, on_error="skip")) == 2
    with pytest.raises(UsageError, match="on_error is 'no'"):
        read_dsjson(path, on_error="no")  # type: ignore[arg-type]


HEAD = "ccb shared |\nccb action |a a\nccb action |a b\nccb action |a c\n"
BROKEN_TEXT = {
    "1:0:0.5 | a\n": "neither ccb nor slates",
    HEAD + "slates slot 0:1 |\n": "has ccb lines and slates lines",
    HEAD + "ccb slot 0:0:1 |\nccb action |a d\n": "not one shared line, then its action lines",
    "ccb action |a a\nccb slot 0:0:1 |\n": "not one shared line, then its action lines",
    HEAD: "has no slot lines",
    HEAD + "ccb slot 0:0:1 0:1:1 |\n": "the slot label '0:0:1 0:1:1'",
    HEAD + "ccb slot 0:1 |\n": "expected action:cost:probability",
    HEAD + "ccb slot 0:0:x |\n": "'x' in a label, expected a number",
    HEAD + "ccb slot x:0:1 |\n": "'x' in a label, expected a number from 0 on",
    HEAD + "ccb slot 0:0:1 a |\n": "'a' in a label, expected a number from 0 on",
    HEAD + "ccb slot 0:0:0.5,1:0.4 |\n": "do not sum to 1",
    HEAD + "ccb slot 0:0:0.5,1 |\n": "'1' in a label, expected action:probability",
    HEAD + "ccb slot 3:0:1 |\n": "the number of no action (3)",
    HEAD + "ccb slot 0:0:1 |\nccb slot |\n": "a label and slots without",
    HEAD + "ccb slot 0:0:1 |\nccb slot 0:0:1 |\n": "shows an action in two slots",
    SLATES.split("\n\n")[0]: "is not like the first event (ccb, 3 actions)",
    "ccb shared 1 |\n": "the shared label '1'",
    "ccb shared |\nccb action 1 |\n": "the action label '1', expected none",
    "slates shared |\nslates action |\n": "the action label '', expected the number of a slot",
}


@pytest.mark.parametrize("content", sorted(BROKEN_TEXT))
def test_a_broken_decision_is_refused_with_its_first_line(content: str, tmp_path: Path) -> None:
    path = text(tmp_path / "log.vw", f"{CCB}\n{content}")
    with pytest.raises(DataError) as refused:
        read_vw(path)
    assert BROKEN_TEXT[content] in str(refused.value)
    assert "line 15)" in str(refused.value)


MORE = (
    "\nccb shared |u x:5\nccb action |a a\nccb action |a d\n"
    "ccb slot 1:-1:0.5 |\nccb slot 0:0:1 |\n\n"
    "ccb shared |u x:5\nccb action |a a\nccb action |a b\nccb action |a c\nccb action |a d\n"
    "ccb slot 3:-0.5:0.25 |\n"
)
MORE_EVENTS = (
    ccb(outcome([1, 0], [0.5, 0.5], -1), outcome([0], [1], 0), actions=2, x=5),
    ccb(outcome([3], [0.25], -0.5), actions=4, x=5),
)


def test_actions_of_ccb_that_change_are_eligible_ones(tmp_path: Path) -> None:
    vw = text(tmp_path / "log.vw", CCB + MORE)
    dsjson = lines(tmp_path / "log.dsjson", *CCB_EVENTS, *MORE_EVENTS)
    for path, plain in ((vw, read_vw), (dsjson, read_dsjson)):
        with pytest.warns(PiwoWarning, match="an action is the number of its line or entry"):
            log = piwo.slates.read(path, context="u/x")
        assert log.columns.eligible == "eligible"
        assert log.actions.labels == (0, 1, 2, 3)
        rows = columns(log)
        assert [row["eligible"] for row in rows] == [[0, 1, 2], [0, 1, 2], [0, 1], [0, 1, 2, 3]]
        assert rows[2] == {
            "slate": [1, 0],
            "rewards": [1.0, 0.0],
            "propensities": [0.5, 1.0],
            "eligible": [0, 1],
            "u/x": 5.0,
        }
        # the order 3, 1, 0 shows 1, 0 in the first three rows, and 3 in the last: weights 2, 2 | 4
        found = evaluate(log, Deterministic([3, 1, 0]), estimator="cascade")
        assert found.value == (0 + 0 + 2 * 1 + 4 * 0.5) / 4
        # uniform: 1/3 1/2, 1/3 1/2, 1/2 1, 1/4
        whole = (1 / 3) / 0.5 * 1, (1 / 3) / 0.25 * 0.5 + (1 / 6) / (0.25 * 0.5), 1, 0.5
        found = evaluate(log, piwo.slates.Uniform(range(4)), estimator="cascade")
        assert found.value == pytest.approx(sum(whole) / 4)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            named = plain(path, actions=["a", "b", "c", "d"])
        assert [row["eligible"] for row in columns(named)][1:3] == [["a", "b", "c"], ["a", "b"]]
        with pytest.raises(UsageError, match=r"got 3 actions, but .* has 4"):
            plain(path, actions=["a", "b", "c"])
        with pytest.raises(UsageError, match=r"got 5 actions, but the longest event .* has 4"):
            plain(path, actions=["a", "b", "c", "d", "e"])


def test_lines_of_ccb_that_say_something_else_are_other_actions(tmp_path: Path) -> None:
    path = text(tmp_path / "log.vw", CCB.replace("|a c", "|a d", 1))
    with pytest.warns(PiwoWarning, match="the actions of a decision change"):
        log = read_vw(path)
    assert [row["eligible"] for row in columns(log)] == [[0, 1, 2]] * 2
    # names say that a line is always the same action
    assert read_vw(path, actions=["a", "b", "c"]).columns.eligible is None


def test_actions_of_slates_that_change_are_eligible_in_their_slot(tmp_path: Path) -> None:
    # another action in the second slot of the last decision, and none of the two in the first
    more = (
        "slates shared -0.5 |u x:1\nslates action 1 | c\nslates action 0 | a\n"
        "slates action 1 | b\nslates slot 0:1 |\nslates slot 1:0.25 |\n"
    )
    vw = text(tmp_path / "log.vw", SLATES + more)
    last = slates(-0.5, outcome([0], [1.0]), outcome([1], [0.25]))
    last["c"]["_multi"] = [{"_slot_id": i} for i in (1, 0, 1)]
    dsjson = lines(tmp_path / "log.dsjson", *SLATES_EVENTS, last)
    for path in (vw, dsjson):
        with pytest.warns(PiwoWarning, match="the actions of a decision change"):
            log = piwo.slates.read(path)
        rows = columns(log)
        assert [row["slate"] for row in rows] == [[1, 2], [0, 3], [1, 2]]
        could = [[[0, 1], [2, 3]], [[0, 1], [2, 3]], [[1], [0, 2]]]
        assert [row["eligible"] for row in rows] == could
        # of 0, 1, 2 the slots of the rows could show 0, 2 | 0, 2 | 1, 0
        assert evaluate(log, Deterministic([0, 1, 2])).value == 0
        # of 1, 2, 0: 1, 2 everywhere, which rows 0 and 2 show, w = 8 and 4
        assert evaluate(log, Deterministic([1, 2, 0])).value == (8 * 1 + 4 * 0.5) / 3
        # uniform in each slot: weights 1/2 4 and 1/2 2; the second earns nothing; 1 and 1/2 4
        uniform = piwo.slates.Uniform(range(4))
        found = evaluate(log, uniform, estimator="pseudo-inverse").value
        assert found == pytest.approx(((2 + 1 - 1) * 1 + (1 + 2 - 1) * 0.5) / 3)
        assert evaluate(log, uniform).value == pytest.approx((2 * 1 + 2 * 0.5) / 3)


def test_single_decisions_and_slates_name_each_other_s_reader(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"which piwo\.slates\.read reads"):
        piwo.read(lines(tmp_path / "log.json", *CCB_EVENTS))
    with pytest.raises(DataError, match=r"which piwo\.slates\.read_vw reads"):
        piwo.read(text(tmp_path / "log.vw", SLATES))
    with pytest.raises(UsageError, match="a vw log, whose lines state slates, costs"):
        piwo.slates.read(tmp_path / "log.vw", rewards="rs")
    with pytest.raises(UsageError, match="names 'slate', which is a column of its own"):
        read_vw(tmp_path / "log.vw", context="slate")


def test_many_events_in_small_pieces_are_those_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("piwo.sources.lines._CHUNK", 1000)
    monkeypatch.setattr("piwo.sources.spool.IN_MEMORY", 1000)
    monkeypatch.setattr("piwo.sources.vw_slates.rows_within", lambda width: 7)
    for log in (
        read_dsjson(lines(tmp_path / "log.dsjson.gz"[:-3], *CCB_EVENTS * 50), context="u/x"),
        read_vw(text(tmp_path / "log.vw", f"{CCB}\n" * 50), context="u/x"),
    ):
        assert type(log.source).__name__ == "ParquetSource"
        rows = columns(log)
        assert len(rows) == 100
        assert [row["slate"] for row in rows[::2]] == [[2, 0]] * 50
        assert [row["u/x"] for row in rows] == [1.0, 3.0] * 50
        assert evaluate(log, Deterministic([0, 1]), estimator="cascade").value == 5.0


@pytest.mark.parametrize("kind", ["ccb", "slates"])
def test_what_is_written_is_read_back(kind: str, tmp_path: Path) -> None:
    for log in both(kind, tmp_path):
        path = tmp_path / "again.dsjson.gz"
        made = piwo.slates.write_dsjson(log, path)
        assert (made.rows, made.left_out) == (2, ())
        first = path.read_bytes()
        again = read_dsjson(path, context="u/x", actions=log.actions)
        assert columns(again) == columns(log)
        assert (again.logger, again.columns) == (log.logger, log.columns)
        piwo.slates.write_dsjson(log, path)
        assert path.read_bytes() == first


def test_logs_of_columns_are_written(tmp_path: Path) -> None:
    table = {
        "slate": [["b", "a"], ["c"]],
        "rs": [[0.1 + 0.2, 0.0], [2.0]],
        "ps": [[0.5, 1 / 3], [0.25]],
        "w": [4.0, 1.0],
        "U/city": ["Łódź", None],
    }
    log = piwo.slates.read(
        table, rewards="rs", propensities="ps", weight="w", context="U/city", reward_range=(0, 2)
    )
    path = tmp_path / "log.dsjson"
    piwo.slates.write_dsjson(log, path)
    event = json.loads(path.read_text("utf-8").splitlines()[0])
    assert event["_outcomes"][0] == {"_a": [1], "_p": [0.5], "_label_cost": -(0.1 + 0.2)}
    assert event["pdrop"] == 0.75
    again = read_dsjson(path, context="U/city", actions=["a", "b", "c"], reward_range=(0, 2))
    rows = [{"weight" if k == "w" else k: v for k, v in row.items()} for row in columns(log)]
    for row in rows:
        row["rewards"], row["propensities"] = row.pop("rs"), row.pop("ps")
    assert columns(again) == rows


def test_what_dsjson_cannot_hold(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    table = {
        "slate": [["b", "a"], ["a", "b"]],
        "r": [1.0, 0.0],
        "rs": [[1.0, 0.0]] * 2,
        "ps": [[0.5, 0.5]] * 2,
        "ms": [[0.5, 0.5]] * 2,
        "v": [[1.0], [2.0]],
        "u": [1, 2],
    }

    def read(**more: Any) -> SlateLog:
        return piwo.slates.read(table, **more)

    for log, rule in (
        (read(reward="r", propensities="ps"), "slots that are not independent"),
        (read(rewards="rs", marginals="ms"), "no probability of each shown action given"),
        (read(rewards="rs", propensities="ps", context="v"), "holds lists"),
    ):
        with pytest.raises(UsageError, match=rule):
            piwo.slates.write_dsjson(log, path)
    twice = {"slate": [["a", "a"]], "rs": [[1, 0]], "ps": [[0.5, 0.5]]}
    with pytest.raises(DataError, match="row 0 shows an action twice"):
        piwo.slates.write_dsjson(piwo.slates.read(twice, rewards="rs", propensities="ps"), path)
    assert not path.exists()
    log = read(rewards="rs", propensities="ps", marginals="ms", unit="u", position_weights=[1, 2])
    made = piwo.slates.write_dsjson(log, path)
    assert made.left_out == (
        "the unit 'u'",
        "the marginal propensity 'ms'",
        "the position weights",
    )
    assert str(made).endswith("; items_label='_tag' reads the labels of actions")


def test_vowpal_wabbit_itself_reads_the_lines(tmp_path: Path) -> None:
    tool = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    path = tmp_path / "log.dsjson"
    for kind, option in (("ccb", "--ccb_explore_adf"), ("slates", "--slates")):
        log = both(kind, tmp_path)[0]
        piwo.slates.write_dsjson(log, path)
        workspace = tool.Workspace(f"{option} --dsjson -d {path} --quiet")
        # the tool's own estimates of its first choices
        assert workspace.get_weighted_examples() == 2
        assert workspace.get_sum_loss() != 0
        workspace.finish()


def test_slots_that_leave_out_actions_have_eligible_ones_of_their_own(tmp_path: Path) -> None:
    one, two = (json.loads(json.dumps(x)) for x in CCB_EVENTS)
    # 2 is shown above the second slot, so that 0 and 1 are all that is left there
    one["c"]["_slots"][1]["_inc"] = [0, 1]
    one["c"]["_slots"][0]["_inc"] = []
    path = tmp_path / "log.dsjson"
    assert read_dsjson(lines(path, one, two)).columns.eligible is None
    two["c"]["_slots"][1]["_inc"] = [1]
    changed = CCB.replace("ccb slot 1:-1:0.5 |s b", "ccb slot 1:-1:0.5 1 |s b")
    for log in (
        read_dsjson(lines(path, one, two)),
        read_vw(text(tmp_path / "log.vw", changed)),
    ):
        could = [row["eligible"] for row in columns(log)]
        assert could[1] == [[0, 1, 2], [1]]
        assert could[0] == [[0, 1, 2], [0, 1]]
        # 0 and 2 of the first decision, 0 and 1 of the second, whose second slot has 1 alone
        found = evaluate(log, Deterministic([0, 2, 1]), estimator="cascade").value
        assert found == (4 * 0.5 + 8 * 1) / 2
    two["c"]["_slots"][1]["_inc"] = [1, 3]
    with pytest.raises(DataError, match="an _inc with entries that are not numbers of its actions"):
        read_dsjson(lines(path, one, two))
    with pytest.raises(DataError, match=r"the number of no action \(3\) in a slot"):
        read_vw(text(tmp_path / "log.vw", changed.replace("0.5 1 |", "0.5 3 |")))
    two["c"]["_slots"][1]["_inc"] = [2]
    with pytest.raises(DataError, match=r"shows actions that 'eligible' does not list"):
        evaluate(read_dsjson(lines(path, one, two)), Deterministic([0, 1]))


def readers(path: Path) -> list[Callable[..., Any]]:
    with path.open("rb") as file:
        json_like = file.read(1) == b"{"
    if json_like:
        return [piwo.logs.read_dsjson, read_dsjson]
    return [piwo.logs.read_vw, read_vw]


def test_every_real_file_is_read_or_refused_in_one_line(shared_data: Path) -> None:
    files = sorted(x for x in (shared_data / "vw").iterdir() if x.name != "LICENSE")
    counts = {"single": 0, "several": 0, "refused": 0}
    for path in files:
        refusals = []
        for reader in readers(path):
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", PiwoWarning)
                    log = reader(path, reward_range=(-100, 100))
                rows = len(log)
            except PiwoError as cause:
                refusals.append(str(cause))
                continue
            assert rows > 0
            counts["several" if isinstance(log, SlateLog) else "single"] += 1
            break
        else:
            assert all("\n" not in x and len(x) > 20 for x in refusals), path
            counts["refused"] += 1
    print(counts)
    assert counts["several"] > 0
    assert sum(counts.values()) == len(files)


def test_a_real_file_of_ccb_is_the_twin_of_its_lines(shared_data: Path) -> None:
    path = shared_data / "vw" / "ccb_test.dat"
    with pytest.warns(PiwoWarning, match="no label"):
        log = read_vw(path)
    expected = []
    for block in path.read_text("utf-8").strip().split("\n\n"):
        labels = [x.split()[2] for x in block.split("\n") if x.startswith("ccb slot") and ":" in x]
        parts = [x.split(":") for x in labels]
        if parts:
            expected.append(
                {
                    "slate": [int(x[0]) for x in parts],
                    "rewards": [0.0 - float(x[1]) for x in parts],
                    "propensities": [float(x[2]) for x in parts],
                }
            )
    assert columns(log) == expected
    target = Deterministic([4, 3, 2])
    value = 0.0
    for row in expected:
        weight = 1.0
        for label, reward, p, wanted in zip(
            row["slate"], row["rewards"], row["propensities"], [4, 3, 2], strict=True
        ):
            weight *= (label == wanted) / p
            value += weight * reward
    found = evaluate(log, target, estimator="cascade").value
    assert found == pytest.approx(value / len(expected), rel=1e-12)


def test_a_real_file_of_ccb_in_dsjson(shared_data: Path) -> None:
    log = read_dsjson(shared_data / "vw" / "ccb_reuse_medium.dsjson")
    # its slots include some of the actions alone
    assert columns(log)[0]["eligible"] == [[0, 1, 2, 3], [4, 5, 6], [7, 8]]
    # the logger was uniform in each slot
    found = evaluate(log, piwo.slates.Uniform(range(9)), estimator="cascade")
    assert found.mean_weight == pytest.approx(1, rel=1e-5)
    rows = columns(log)
    assert (len(rows), len(log.actions), log.slots) == (4, 9, 3)
    assert rows[1]["slate"] == [0, 6, 7]
    assert rows[1]["rewards"] == [0.0917649] * 3
