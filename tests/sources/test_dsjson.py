"""dsjson: the ranked order, pdrop, lines that are no events, context paths; and the real sample
files."""

import gzip
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.evaluation import evaluate
from piwo.logs import Log, read, read_dsjson
from piwo.oracles import JointRidge
from piwo.policies import Constant, Uniform
from piwo.scores import IX
from piwo.sources import dsjson_entries, spool
from piwo.sources import lines as module


def event(ranking: list[int], p: list[float], cost: float = 0.0, **more: Any) -> dict[str, Any]:
    return {
        "_label_cost": cost,
        "_label_probability": p[0],
        "_label_Action": ranking[0],
        "_labelIndex": ranking[0] - 1,
        "a": ranking,
        "p": p,
        "c": {
            "U": {"x": 1, "city": "Łódź", "deep": [{"y": 2.5}]},
            "_multi": [{"f": i} for i in sorted(ranking)],
        },
    } | more


def written(path: Path, *events: dict[str, Any] | str) -> Path:
    path.write_text(
        "\n".join(x if isinstance(x, str) else json.dumps(x) for x in events) + "\n", "utf-8"
    )
    return path


def read_silently(path: Path, **options: Any) -> Log:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return read_dsjson(path, **options)


def test_many_events_with_small_chunks_are_the_twin_of_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    events = []
    for _ in range(300):
        p = random.dirichlet(np.ones(4)).round(6)
        ranking = (random.permutation(4) + 1).tolist()
        events.append(event(ranking, (p / p.sum()).tolist(), -float(random.integers(2))))
    path = written(tmp_path / "log.dsjson", *events)
    monkeypatch.setattr(module, "_CHUNK", 1000)
    log = read(path)
    batches = list(log.each_batch(propensities=True))
    vectors = np.concatenate([x.propensities for x in batches if x.propensities is not None])
    for row, one in enumerate(events):
        for action, p in zip(one["a"], one["p"], strict=True):
            assert vectors[row, action - 1] == pytest.approx(p, rel=1e-12)
    assert np.concatenate([x.action for x in batches]).tolist() == [x["a"][0] - 1 for x in events]
    assert np.concatenate([x.reward for x in batches]).tolist() == [
        -x["_label_cost"] for x in events
    ]
    assert np.concatenate([x.propensity for x in batches]).tolist() == [x["p"][0] for x in events]
    assert log.columns.cost
    assert log.columns.weight is None


def test_values_of_a_thinned_log_are_those_of_vw_estimators_by_hand(tmp_path: Path) -> None:
    events = [
        event([1, 2], [0.5, 0.5], -1.0, pdrop=0.75),
        event([2, 1], [0.25, 0.75], -0.5, pdrop=0.0),
        event([1, 2], [0.8, 0.2], -0.25, pdrop=0.5),
    ]
    log = read_silently(written(tmp_path / "log.dsjson", *events))
    # there, a row counts 1/(1 - pdrop) times: 4, 1 and 2; always-1 has the weights 2, 0 and 1.25
    first = Constant(1, log.actions)
    top, weights = 4 * 2 * 1.0 + 2 * 1.25 * 0.25, 4 * 2 + 2 * 1.25
    assert evaluate(log, first).value == pytest.approx(top / 7)
    assert evaluate(log, first, estimator="snips").value == pytest.approx(top / weights)


def test_a_log_that_is_larger_than_memory_goes_to_temporary_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events = [
        event([2, 1] if i % 3 else [1, 2], [0.75, 0.25], -i / 256, pdrop=0.5 * (i == 7))
        | {"EventId": f"e{i}"}
        for i in range(200)
    ]
    path = written(tmp_path / "log.dsjson", *events)
    whole = read_silently(path, context=["U/x", "U/city"], actions=["a", "b"])
    monkeypatch.setattr(module, "_CHUNK", 2000)
    monkeypatch.setattr(spool, "IN_MEMORY", 1000)
    log = read_silently(path, context=["U/x", "U/city"], actions=["a", "b"])
    assert (type(whole.source).__name__, type(log.source).__name__) == (
        "TableSource",
        "ParquetSource",
    )
    assert log.columns == whole.columns
    assert log.columns.key == "EventId"
    one, two = (next(x.each_batch(context=True, propensities=True)) for x in (whole, log))
    for name in ("action", "reward", "propensity", "propensities", "context", "weight", "keys"):
        assert np.array_equal(getattr(one, name), getattr(two, name)), name


def test_actions_get_labels_in_the_order_of_multi(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]))
    assert read_silently(path).actions.labels == (1, 2)
    log = read_silently(path, actions=["tea", "cake"])
    assert log.actions.take(next(log.each_batch()).action).tolist() == ["cake"]
    with pytest.raises(UsageError, match=r"got 3 actions, but every event .* has 2"):
        read_dsjson(path, actions=["a", "b", "c"])


def test_context_paths(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]), event([1, 2], [0.6, 0.4]))
    log = read_silently(path, context=["U/x", "U/city", "U/deep/0/y"])
    assert log.features is not None
    assert log.features.names == ("U/x", "U/city=Łódź", "U/deep/0/y")
    context = next(log.each_batch(context=True)).context
    assert context is not None
    assert context.tolist() == [[1.0, 1.0, 2.5]] * 2
    with pytest.raises(DataError, match="no event has a value at c/U/z"):
        read_dsjson(path, context="U/z")
    with pytest.raises(DataError, match="no single value at c/U/deep"):
        read_dsjson(path, context="U/deep")


BROKEN = {
    "_label_probability that is not the first of p": event(
        [2, 1], [0.6, 0.4], _label_probability=0.4
    ),
    "_label_Action that is not the first of a": event([2, 1], [0.6, 0.4], _label_Action=1),
    "_labelIndex that is not the place of the first of a": event([2, 1], [0.6, 0.4], _labelIndex=0),
    "not a ranking of 1..K": event([2, 2], [0.6, 0.4]),
    "not a ranking of 1..K or 0..K-1": event([0, 2], [0.5, 0.5]),
    "place of the first of a, from 0": event([1, 0], [0.6, 0.4], _label_Action=1, _labelIndex=0),
    "_label_Action that is not the first": event([1, 0], [0.6, 0.4], _label_Action=0),
    "not as long as c._multi": event([2, 1], [0.6, 0.3, 0.1]),
    "no action list": event([2, 1], [0.6, 0.4], c={"U": 1}),
    "entries that are not numbers": event([2, 1], [0.6, "x"]),  # type: ignore[list-item]
    "no number in _label_cost": event([2, 1], [0.6, 0.4], _label_cost=None),
    "multi-slot": event([2, 1], [0.6, 0.4], _outcomes=[{"_a": [1]}]),
    "pdrop outside": event([2, 1], [0.6, 0.4], pdrop=1.0),
    "pdrop that is not a number": event([2, 1], [0.6, 0.4], pdrop="abc"),
    "_label_cost that is not a number": event([2, 1], [0.6, 0.4], _label_cost=True),
    "_label_Action that is not a whole number": event([2, 1], [0.6, 0.4], _label_Action="2"),
    "_labelIndex that is not a whole number": event([2, 1], [0.6, 0.4], _labelIndex="x"),
    "_skipLearn that is not true or false": event([2, 1], [0.6, 0.4], _skipLearn="junk"),
}
"""Words of the rule -> an event that breaks it."""


@pytest.mark.parametrize("rule", sorted(BROKEN))
@pytest.mark.parametrize("on_error", ["raise", "skip"])
def test_a_contradictory_event_is_refused_whatever_the_option(
    rule: str, on_error: str, tmp_path: Path
) -> None:
    path = written(
        tmp_path / "log.dsjson",
        event([1, 2], [0.6, 0.4]),
        "",
        BROKEN[rule],
        event([1, 2], [0.6, 0.4]),
    )
    words = "ranking" if rule == "zero-based" else rule
    with pytest.raises(DataError) as refused:
        read_dsjson(path, on_error=on_error)  # type: ignore[arg-type]
    assert words.split(".")[0] in str(refused.value)
    assert "line 3)" in str(refused.value)
    assert "in 1 line" in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("more", "rule"),
    [
        ({"a": [2.4, 1.4]}, "a with entries that are not whole"),
        ({"a": [2, True]}, "a with entries that are not whole"),
        ({"a": ["2", "1"]}, "a with entries that are not whole"),
        ({"p": [0.6, "0.4"]}, "entries that are not numbers"),
        ({"_label_Action": 1.4}, "_label_Action that is not a whole"),
        ({"_label_Action": 2.4}, "_label_Action that is not a whole"),
        ({"_labelIndex": 0.6}, "_labelIndex that is not a whole"),
        ({"pdrop": [0.1]}, "pdrop that is not a number"),
        ({"_skipLearn": 1}, "_skipLearn that is not"),
    ],
)
def test_values_are_neither_rounded_nor_converted(
    more: dict[str, Any], rule: str, tmp_path: Path
) -> None:
    path = written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]) | more)
    with pytest.raises(DataError, match=rf"{rule}.* \(.*log\.dsjson, line 1\)"):
        read_dsjson(path)


def test_whole_numbers_may_be_written_as_decimals(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.dsjson",
        event([2, 1], [0.6, 0.4]) | {"a": [2.0, 1.0], "_label_Action": 2.0, "pdrop": None},
    )
    assert next(read_dsjson(path).each_batch(propensities=True)).propensities.tolist() == [
        [0.4, 0.6]
    ]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("once", "twice", "field"),
    [
        ('"_label_cost":', '"_label_cost": -1, "_label_cost":', "_label_cost"),
        ('"pdrop":', '"pdrop": 0.1, "pdrop":', "pdrop"),
        ('"_skipLearn":', '"_skipLearn": true, "_skipLearn":', "_skipLearn"),
        ('"_multi":', '"_multi": [], "_multi":', "c/_multi"),
        ('"x":', '"x": 2, "x":', "c/U/x"),
        ('"U":', '"U": {"x": 5}, "U":', "c/U"),
    ],
)
def test_a_field_that_is_read_must_not_be_there_twice(
    once: str, twice: str, field: str, tmp_path: Path
) -> None:
    line = json.dumps(event([2, 1], [0.6, 0.4], pdrop=0.0, _skipLearn=False))
    path = written(tmp_path / "log.dsjson", line, line.replace(once, twice))
    with pytest.raises(DataError, match=rf"has {field} twice in 1 line \(.*, line 2\)"):
        read_dsjson(path, context="U/x")


def test_a_field_that_is_not_read_may_be_there_twice(tmp_path: Path) -> None:
    line = json.dumps(event([2, 1], [0.6, 0.4]))
    path = written(tmp_path / "log.dsjson", line.replace('"x":', '"z": 1, "z": 2, "x":'))
    assert len(read_dsjson(path, context="U/x")) == 1


def test_line_numbers_go_on_from_piece_to_piece_and_all_broken_lines_are_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[dict[str, Any] | str] = [event([1, 2], [0.6, 0.4]) for _ in range(100)]
    for i in (3, 40, 41, 77, 80, 99):
        events[i] = event([1, 2], [0.6, 0.4], _labelIndex=1)
    path = written(tmp_path / "log.dsjson", *events)
    monkeypatch.setattr(module, "_CHUNK", 1000)
    with pytest.raises(DataError, match="in 6 lines") as refused:
        read_dsjson(path)
    for line in (4, 41, 42, 78, 81):
        assert f"line {line}" in str(refused.value)
    assert "line 100" not in str(refused.value)


def test_probabilities_as_float32_writers_print_them_agree(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.dsjson", event([2, 1], [0.05, 0.95], _label_probability=0.05000000074505806)
    )
    assert len(read_silently(path)) == 1


def test_vectors_that_do_not_sum_to_one_are_named_by_the_door(tmp_path: Path) -> None:
    log = read_silently(written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.3])))
    with pytest.raises(DataError, match="'propensities' does not sum to 1"):
        list(log.each_batch(propensities=True))


def test_gz_bom_windows_line_ends_and_no_last_newline(tmp_path: Path) -> None:
    text = (
        "\ufeff"
        + json.dumps(event([2, 1], [0.6, 0.4]))
        + "\r\n"
        + json.dumps(event([1, 2], [0.6, 0.4]))
    )
    path = tmp_path / "log.dsjson.gz"
    path.write_bytes(gzip.compress(text.encode()))
    assert len(read_silently(path)) == 2
    path.write_bytes(gzip.compress(text.encode())[:-20])
    with pytest.raises(FileError, match="cannot be read"):
        read_dsjson(path)


def test_text_that_is_not_utf8_is_named_by_line(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    path.write_bytes(json.dumps(event([2, 1], [0.6, 0.4])).encode() + b'\n{"a": "\xff"}\n')
    with pytest.raises(DataError, match="line 2: not UTF-8"):
        read_dsjson(path)


def test_several_files_are_one_log(tmp_path: Path) -> None:
    for i in range(2):
        written(tmp_path / f"{i}.dsjson", event([2, 1], [0.6, 0.4], -float(i)))
    log = read(str(tmp_path / "*.dsjson"))
    assert next(log.each_batch()).reward.tolist() == [0.0, 1.0]


def test_roles_are_not_given_for_dsjson(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]))
    with pytest.raises(UsageError, match="lines state action"):
        read(path, propensity="p")
    with pytest.raises(FileError, match="no file"):
        read_dsjson(tmp_path / "none.dsjson")


def test_on_error_is_one_of_two_words(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]))
    with pytest.raises(UsageError, match="on_error"):
        read_dsjson(path, on_error="ignore")  # type: ignore[arg-type]


def test_an_outcome_by_itself_is_no_decision(tmp_path: Path) -> None:
    path = written(
        tmp_path / "log.dsjson", event([2, 1], [0.6, 0.4]), '{"RewardValue":1,"EventId":"e"}'
    )
    with pytest.warns(PiwoWarning, match=r"1 of 2 lines are not events \(no decision 1\)"):
        log = read_dsjson(path)
    assert log.source.skipped == {"no decision": 1}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["dsjson_cb.json", "dsjson_cb_default_ns.json"])
def test_real_events(name: str, shared_data: Path) -> None:
    path = shared_data / "vw" / name
    lines = [json.loads(x) for x in path.read_text("utf-8").splitlines()]
    where = "FromUrl/0/weather" if name == "dsjson_cb.json" else "weather"
    log = read_silently(path, context=[where])
    batch = next(log.each_batch(context=True, propensities=True))
    assert log.actions.labels == (1, 2, 3, 4)
    assert batch.action.tolist() == [x["_labelIndex"] for x in lines]
    assert batch.reward.tolist() == [-x["_label_cost"] for x in lines]
    assert np.allclose(batch.propensity, [x["_label_probability"] for x in lines], rtol=1e-6)
    assert log.features is not None
    assert set(log.features.names) <= {f"{where}={x}" for x in ("Sunny", "Rainy", "Snowy")}


def test_a_real_event_with_pdrop(shared_data: Path) -> None:
    batch = next(read_silently(shared_data / "vw" / "cb_simple_pdrop.json").each_batch())
    assert batch.weight is not None
    assert batch.weight.tolist() == pytest.approx([10.0])


@pytest.mark.parametrize(
    ("name", "rule"),
    [
        ("ccb_reuse_medium.dsjson", "multi-slot"),
    ],
)
def test_real_files_of_other_kinds_are_refused(name: str, rule: str, shared_data: Path) -> None:
    with pytest.raises(DataError, match=rule):
        read_dsjson(shared_data / "vw" / name)


# --- rankings from 0


@pytest.mark.parametrize("first", [0, 1])
def test_a_ranking_from_0_is_the_same_decision(first: int, tmp_path: Path) -> None:
    # Vowpal Wabbit gives the label to the entry _labelIndex, from 0; _label_Action counts from 1
    # there, and from 0 as `a` does elsewhere.
    label = {"_label_Action": 1 + first, "_labelIndex": 1}
    events = [
        event([1, 0], [0.75, 0.25], -1.0, **label),
        event([0, 1], [0.5, 0.5], -0.25, _label_Action=first, _labelIndex=0),
    ]
    log = read_silently(written(tmp_path / "log.dsjson", *events))
    (batch,) = log.each_batch(propensities=True)
    assert log.actions.labels == (1, 2)
    assert batch.action.tolist() == [1, 0]
    assert batch.propensities.tolist() == [[0.25, 0.75], [0.5, 0.5]]
    # always entry 2 by hand: 1 / .75 / 2
    made = evaluate(log, Constant(2, log.actions), estimator="iw")
    assert made.value == pytest.approx(2 / 3, abs=1e-12)


MULTI = {"_multi": [{"f": 0}, {"f": 1}]}


@pytest.mark.parametrize(
    "second",
    [
        event([2, 1], [0.6, 0.4], c=MULTI),
        event([1, 0], [0.6, 0.4], _label_Action=2, _labelIndex=1, c=MULTI),
    ],
)
def test_a_file_that_counts_in_two_ways_is_refused(second: dict[str, Any], tmp_path: Path) -> None:
    first = event([1, 0], [0.6, 0.4], _labelIndex=1, c=MULTI)
    path = written(tmp_path / "log.dsjson", first, second)
    rule = "does not count actions as the first event of its file"
    told = r" \(a from 0 and _label_Action from 0\) in 1 line .* line 2\)"
    with pytest.raises(DataError, match=rule + told):
        read_dsjson(path)
    # each file counts for itself
    other = written(tmp_path / "other.dsjson", second)
    log = read_silently([written(path, first), other])
    assert next(log.each_batch()).action.tolist() == [1, 1]


def test_a_real_file_that_counts_from_0(shared_data: Path) -> None:
    path = shared_data / "vw" / "cb_features_w_zero_vals.dsjson"
    with pytest.warns(PiwoWarning, match="1 of 2 events have other entries"):
        log = read_dsjson(path)
    (batch,) = log.each_batch(propensities=True)
    assert batch.action.tolist() == [0, 0]
    assert batch.propensities.tolist() == [[0.5, 0.5]] * 2
    # both events chose the first entry and earned 1: 1 / .5
    assert evaluate(log, Constant(1, log.actions), estimator="iw").value == 2.0


# --- sets of actions that change


CHANGING = (
    event([2, 1], [0.6, 0.4], -1.0, EventId="a"),
    event([3, 1, 2], [0.5, 0.3, 0.2], EventId="b"),
    event([1], [1.0], -0.5, EventId="c"),
)


def test_a_number_of_actions_that_changes_makes_them_eligible(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", *CHANGING)
    with pytest.warns(PiwoWarning, match=r"the number of actions changes, so that an action is"):
        log = read(path)
    assert log.actions.labels == (1, 2, 3)
    (batch,) = log.each_batch(propensities=True)
    assert batch.action.tolist() == [1, 2, 0]
    assert batch.eligible.starts.tolist() == [0, 2, 5, 6]
    assert batch.eligible.codes.tolist() == [0, 1, 0, 1, 2, 0]
    # p belongs to a: sorted by the action
    assert batch.eligible.propensities.tolist() == [0.4, 0.6, 0.3, 0.2, 0.5, 1.0]
    assert batch.propensity.tolist() == [0.6, 0.5, 1.0]
    # (.5 / .6 * 1 + (1/3) / .5 * 0 + 1 * .5) / 3, uniform over the eligible
    made = evaluate(log, Uniform(log.actions), estimator="iw")
    assert made.value == pytest.approx((0.5 / 0.6 + 0.5) / 3, abs=1e-12)


def test_features_of_entries_are_items_inside_the_log(tmp_path: Path) -> None:
    events = []
    for i, one in enumerate(CHANGING):
        entries = [{"f": 10 * i + j, "deep": {"topic": "xyz"[j]}} for j in range(len(one["a"]))]
        events.append(one | {"c": {"U": {"x": i}, "_multi": entries}})
    path = written(tmp_path / "log.dsjson", *events)
    log = read(path, context="U/x", items="f,deep/topic")
    (batch,) = log.each_batch(context=True)
    assert log.actions.items.inline
    rows = log.source.fragments(["items"])
    (record,) = [x for fragment in rows for x in fragment.records()]
    assert record["items"].to_pylist() == [
        [{"f": 0.0, "deep/topic": "x"}, {"f": 1.0, "deep/topic": "y"}],
        [{"f": 10.0 + j, "deep/topic": "xyz"[j]} for j in range(3)],
        [{"f": 20.0, "deep/topic": "x"}],
    ]
    assert len(batch.eligible.codes) == 6
    policy = JointRidge().solve(log, IX(0.1))
    offers = [[{"f": 1.0, "deep/topic": "x"}, {"f": 2.0, "deep/topic": "z"}]]
    actions, _ = policy.act(pa.table({"U/x": [0.0]}), 0, eligible=[[1, 2]], items=offers)
    assert actions[0] in (1, 2)


def test_fixed_lists_stay_fixed(tmp_path: Path) -> None:
    log = read_silently(written(tmp_path / "log.dsjson", CHANGING[0], event([1, 2], [0.7, 0.3])))
    assert log.columns.eligible is None


@pytest.mark.parametrize(
    ("items", "told"),
    [
        ("g", r"no entry of c._multi has a value at g \(items\); name paths inside its entries"),
        ("deep", r"deep \(items\) is no single value in each entry of c._multi; name a path"),
    ],
)
def test_features_that_are_not_there(items: str, told: str, tmp_path: Path) -> None:
    one = event([2, 1], [0.6, 0.4], c={"_multi": [{"f": 1, "deep": {"x": 1}}] * 2})
    with pytest.raises(DataError, match=told):
        read(written(tmp_path / "log.dsjson", one), items=items)


def test_many_changing_events_are_the_twin_of_a_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(0)
    events, lists = [], []
    for _ in range(300):
        k = int(random.integers(1, 6))
        p = random.dirichlet(np.ones(k))
        ranking = (random.permutation(k) + 1).tolist()
        events.append(event(ranking, p.tolist(), -float(random.integers(2))))
        lists.append([p[ranking.index(j)] for j in range(1, k + 1)])
    path = written(tmp_path / "log.dsjson", *events)
    monkeypatch.setattr(module, "_CHUNK", 1000)
    with pytest.warns(PiwoWarning, match="changes"):
        log = read(path)
    found = [b.eligible.propensities for b in log.each_batch(propensities=True)]
    assert np.concatenate(found).tolist() == np.concatenate(lists).tolist()
    actions = [x + 1 for b in log.each_batch() for x in b.action.tolist()]
    assert actions == [one["_label_Action"] for one in events]


def test_features_are_named_once(tmp_path: Path) -> None:
    path = written(tmp_path / "log.dsjson", *CHANGING)
    with pytest.raises(UsageError, match="items names 'f' twice; name each once"):
        read(path, items=["f", "f"])


def test_entries_that_differ_are_said_in_one_line(tmp_path: Path) -> None:
    """Entry 1 is the tea of the first event and the soup of the next."""
    first = event([1, 2], [0.5, 0.5], -1.0)
    first["c"]["_multi"] = [{"id": "tea", "price": 1}, {"id": "cake", "price": 2}]
    other = event([2, 1], [0.75, 0.25])
    other["c"]["_multi"] = [{"id": "soup", "price": 4}, {"id": "tea", "price": 1}]
    path = written(tmp_path / "log.dsjson", first, other, first)
    says = (
        r"1 of 3 events have other entries in c._multi than the first one, and an action is the "
        r"number of its entry, whatever it says; items_label says what in an entry is its label"
    )
    with pytest.warns(PiwoWarning, match=says):
        log = read_dsjson(path)
    assert log.actions.labels == (1, 2)
    # Named features, or labels that mean the same everywhere, leave nothing to say.
    assert read_silently(path, items_label="id").actions.labels == ("cake", "soup", "tea")
    assert read_silently(path, items="price").columns.eligible == "eligible"
    assert read_silently(path, actions=["left", "right"]).actions.labels == ("left", "right")
    # Spaces are no difference.
    same = json.dumps(first).replace(" ", "")
    assert len(read_silently(written(tmp_path / "same.dsjson", first, same))) == 2


def test_the_order_of_keys_is_no_difference_of_entries(tmp_path: Path) -> None:
    first = event([1, 2], [0.5, 0.5], -1.0)
    first["c"]["_multi"] = [{"id": "tea", "at": {"x": 1, "y": 2}}, {"id": "cup", "at": {"x": 3}}]
    other = event([2, 1], [0.75, 0.25])
    other["c"]["_multi"] = [{"at": {"y": 2, "x": 1}, "id": "tea"}, {"at": {"x": 3}, "id": "cup"}]
    assert len(read_silently(written(tmp_path / "keys.dsjson", first, other, other))) == 3
    # As long as the first, but with the entries exchanged, or a value moved.
    for at in [
        other["c"]["_multi"][::-1],
        [{"id": "tea", "at": {"x": 2, "y": 1}}, {"id": "cup", "at": {"x": 3}}],
    ]:
        other["c"]["_multi"] = at
        with pytest.warns(PiwoWarning, match="1 of 3 events have other entries"):
            read_dsjson(written(tmp_path / "other.dsjson", first, other, first))


def test_after_enough_other_entries_no_more_are_parsed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dsjson_entries, "_COMPARED", 2)
    events = [event([1, 2], [0.5, 0.5]) for _ in range(6)]
    for i, one in enumerate(events):
        one["c"]["_multi"] = [{"f": i}, {"f": 7}]
    with pytest.warns(PiwoWarning, match="5 of 6 events have other entries"):
        read_dsjson(written(tmp_path / "log.dsjson", *events))


def test_numbers_and_text_in_one_place_are_said_once(tmp_path: Path) -> None:
    same = {"_multi": [{"x": 1}, {"x": 2}]}
    ages = [event([2, 1], [0.6, 0.4], c={"u": {"age": x}, **same}) for x in (5, 7, "NA", 6)]
    with pytest.warns(PiwoWarning) as caught:
        log = read(written(tmp_path / "ages.dsjson", *ages), context=["u/age"])
    (one,) = caught
    assert str(one.message).startswith(
        "c/u/age (context) holds numbers in all but 1 of 4 events, which hold others, such as 'NA'"
    )
    with pytest.raises(DataError, match="holds numbers and 'NA'; fill or drop such rows"):
        assert log.features is None
    prices = [event([2, 1], [0.6, 0.4], c={"_multi": [{"x": x}, {"x": 1}]}) for x in (1.5, "low")]
    with pytest.warns(PiwoWarning) as caught:
        read(written(tmp_path / "prices.dsjson", *prices), items="x")
    (one,) = caught
    assert str(one.message).startswith(
        "x (items) holds numbers in all but 1 of 4 entries of c._multi, which hold others, such as"
    )


def test_events_that_break_a_rule_are_named_by_their_lines(tmp_path: Path) -> None:
    sums_to_more = event([1, 2], [0.7, 0.5])
    path = written(tmp_path / "log.dsjson", "", event([1, 2], [0.5, 0.5]), "{}", sums_to_more)
    with pytest.warns(PiwoWarning, match="not events"):
        log = read_dsjson(path)
    with pytest.raises(DataError, match=r"in 1 row \(.*log\.dsjson, line 4\); such as a sum"):
        evaluate(log, Uniform(log.actions))
