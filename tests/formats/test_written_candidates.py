"""Logs whose candidates change, in the formats of Vowpal Wabbit, and back: the same decisions."""

import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.errors import UsageError
from piwo.formats import write_dsjson, write_vw
from piwo.logs import Log, read_dsjson, read_vw
from piwo.policies import Constant, Uniform

OFFERS = [["tea", "cake"], ["cake", "pie", "tea"], ["pie"]]
FEATURES = [
    [{"price": 1.0, "a/kind": "x y"}, {"price": 2.0, "a/kind": "z"}],
    [{"price": 3.0, "a/kind": "z"}, {"price": 4.0, "a/kind": "z"}, {"price": 5.0, "a/kind": "z"}],
    [{"price": 6.0, "a/kind": "x y"}],
]
TABLE = {"item": ["tea", "cake", "pie"], "price": [1.0, 2.0, 4.0], "a/kind": ["x y", "z", "z"]}
UNIFORM = (1 / 0.25 / 2 + 0.5 / 0.25 / 3 + 0.75) / 3
"""pi = 1/2, 1/3, 1; mu = 1/4, 1/4, 1; rewards 1, .5, .75."""


def offers(**more: Any) -> Log:
    known = {"items": FEATURES, "propensities": [[0.25, 0.75], [0.5, 0.25, 0.25], [1.0]]}
    return Log.from_arrays(
        action=["tea", "pie", "pie"],
        reward=[1, 0.5, 0.75],
        eligible=OFFERS,
        context={"u/x": [1.0, 2.0, 3.0]},
        **(known | more),
    )


def rows(log: Log, price: bool = True) -> list[dict[str, Any]]:
    """Each decision in labels, with the feature `price` of the candidates."""
    found = []
    for batch in log.each_batch(context=True, propensities=True):
        some = batch.eligible
        assert some is not None
        for i in range(len(batch)):
            pairs = slice(some.starts[i], some.starts[i + 1])
            row: dict[str, Any] = {
                "action": str(log.actions.labels[batch.action[i]]),
                "reward": batch.reward[i],
                "propensity": batch.propensity[i],
                "eligible": [str(log.actions.labels[x]) for x in some.codes[pairs]],
            }
            if some.propensities is not None:
                row["propensities"] = some.propensities[pairs].tolist()
            if batch.context is not None:
                row["context"] = batch.context[i].tolist()
            if some.inline is not None and price:
                row["price"] = some.inline["price"].to_pylist()[pairs]
            found.append(row)
    return found


def again(path: Path, label: str, **options: Any) -> Log:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return piwo.read(str(path), items_label=label, **options)


def uniform(log: Log) -> float:
    return piwo.evaluate(log, Uniform(log.actions), estimator="iw").value


def test_lines_by_hand(tmp_path: Path) -> None:
    made = write_vw(offers(), tmp_path / "log.vw", kind="cb_adf")
    assert made.left_out == ("the probabilities of all actions 'propensities'",)
    assert str(made).endswith("; items_label='a/action' reads the labels of actions")
    assert (tmp_path / "log.vw").read_text().splitlines()[:8] == [
        "shared |u x:1",
        "0:-1:0.25 |a action=tea kind=x%20y | price:1",
        "|a action=cake kind=z | price:2",
        "",
        "shared |u x:2",
        "|a action=cake kind=z | price:3",
        "0:-0.5:0.25 |a action=pie kind=z | price:4",
        "|a action=tea kind=z | price:5",
    ]


def test_events_by_hand(tmp_path: Path) -> None:
    made = write_dsjson(offers(), tmp_path / "log.dsjson")
    assert (made.left_out, made.items_label) == ((), "_tag")
    second = json.loads((tmp_path / "log.dsjson").read_text().split("\n")[1])
    multi = second["c"].pop("_multi")
    assert multi[1] == {"_tag": "pie", "a": {"action": "pie", "kind": "z"}, "price": 4.0}
    assert [x["_tag"] for x in multi] == OFFERS[1]
    assert second["a"] == [2, 1, 3]
    assert second["p"] == [0.25, 0.5, 0.25]
    assert (second["_label_Action"], second["_labelIndex"], second["_label_cost"]) == (2, 1, -0.5)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    log = offers()
    assert uniform(log) == pytest.approx(UNIFORM, abs=1e-12)
    write_vw(log, tmp_path / "log.vw.gz", kind="cb_adf")
    write_dsjson(log, tmp_path / "log.dsjson")
    features = {"items": "price,a/kind", "context": "u/x"}
    text = again(tmp_path / "log.vw.gz", "a/action", **features)
    events = again(tmp_path / "log.dsjson", "_tag", **features)
    assert rows(events) == rows(log)
    assert rows(text) == [
        {k: x for k, x in row.items() if k != "propensities"} for row in rows(log)
    ]
    for one in (text, events):
        assert uniform(one) == pytest.approx(UNIFORM, abs=1e-12)
        assert one.actions.labels == ("cake", "pie", "tea")
    # features that hold the label, written once more
    whole = {"items": "price,a/action", "context": "u/x"}
    for path, label in (("log.vw.gz", "a/action"), ("log.dsjson", "_tag")):
        log = again(tmp_path / path, label, **whole)
        if label == "_tag":
            write_dsjson(log, tmp_path / "twice.dsjson")
            assert rows(again(tmp_path / "twice.dsjson", label, **whole)) == rows(log)
        write_vw(log, tmp_path / "twice.vw", kind="cb_adf")
        text = again(tmp_path / "twice.vw", "a/action", **whole)
        assert [x["price"] for x in rows(text)] == [x["price"] for x in rows(log)]


def test_the_probabilities_of_a_declared_logger_are_written(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    log = offers(propensities=None, behavior=Uniform(["cake", "pie", "tea"]))
    assert not write_dsjson(log, path).left_out
    (batch,) = again(path, "_tag").each_batch(propensities=True)
    assert batch.eligible is not None
    assert batch.eligible.propensities == pytest.approx([1 / 2, 1 / 2, 1 / 3, 1 / 3, 1 / 3, 1.0])


def test_predicted_rewards_are_said_to_be_left_out(tmp_path: Path) -> None:
    log = offers(predictions=[[0.0] * len(x) for x in OFFERS])
    said = "the predicted rewards 'predictions'"
    assert said in write_dsjson(log, tmp_path / "log.dsjson").left_out
    assert said in write_vw(log, tmp_path / "log.vw", kind="cb_adf").left_out


def test_a_table_of_items_is_in_the_lines(tmp_path: Path) -> None:
    log = offers(items=TABLE, items_label="item")
    write_vw(log, tmp_path / "log.vw", kind="cb_adf")
    write_dsjson(log, tmp_path / "log.dsjson")
    for path, label in (("log.vw", "a/action"), ("log.dsjson", "_tag")):
        found = rows(again(tmp_path / path, label, items="price"))
        assert [x["price"] for x in found] == [[1.0, 2.0], [2.0, 4.0, 1.0], [4.0]]
        assert [x["eligible"] for x in found] == OFFERS


def test_a_fixed_list_has_its_labels_and_features_too(tmp_path: Path) -> None:
    log = Log.from_arrays(
        action=["tea", "cake"],
        reward=[1, 1],
        propensities=[[0.25, 0.75], [0.5, 0.5]],
        actions=["tea", "cake"],
        items={"item": ["tea", "cake"], "price": [1.0, 2.0]},
        items_label="item",
    )
    made = write_vw(log, tmp_path / "log.vw", kind="cb_adf")
    assert made.left_out == ("the probabilities of all actions 'propensities'",)
    assert write_dsjson(log, tmp_path / "log.dsjson").left_out == ()
    for path, label in (("log.vw", "a/action"), ("log.dsjson", "_tag")):
        found = again(tmp_path / path, label)
        assert (found.actions.labels, found.columns.eligible) == (("cake", "tea"), None)
        # tea by hand: 1 / .25 in one of two rows
        made_of = piwo.evaluate(found, Constant("tea", found.actions), estimator="iw")
        assert made_of.value == 2.0
    made = write_vw(log, tmp_path / "log.vw")
    assert made.items_label is None
    assert {"the labels of actions", "the features of actions"} <= set(made.left_out)


def test_what_cannot_be_said(tmp_path: Path) -> None:
    path = tmp_path / "log.dsjson"
    with pytest.raises(UsageError, match=r"a file for --cb cannot say; write kind='cb_adf'"):
        write_vw(offers(), path)
    alone = Log.from_arrays(action=["a"], reward=[1], propensity=[0.5], eligible=[["a", "b"]])
    with pytest.raises(UsageError, match="propensity of the action taken alone"):
        write_dsjson(alone, path)
    other = offers(items=[[{"_tag": "x"} for _ in x] for x in OFFERS])
    with pytest.raises(UsageError, match=r"items: column '_tag' is where the file has the labels"):
        write_dsjson(other, path)
    taken = offers(items=[[{"_slot_id": 1.0} for _ in x] for x in OFFERS])
    with pytest.raises(UsageError, match="column of items '_slot_id' cannot be a field"):
        write_dsjson(taken, path)
    lists = offers(items=[[{"v": [1.0, 2.0]} for _ in x] for x in OFFERS])
    with pytest.raises(UsageError, match="items: column 'v' holds lists"):
        write_dsjson(lists, path)
    write_vw(lists, tmp_path / "log.vw", kind="cb_adf")
    assert "| v[0]:1 v[1]:2" in (tmp_path / "log.vw").read_text()
    assert not path.exists()


@pytest.mark.parametrize(
    "name", ["cb_test.ldf", "cb_features_w_zero_vals.dat", "cb_test_small.ldf"]
)
def test_own_files_whose_lines_change_make_the_round_trip(
    name: str, tmp_path: Path, shared_data: Path
) -> None:
    options: dict[str, Any] = {"reward_range": (-1, 0), "items": ["a_1", "b_2", "c_1"]}
    if "zero" in name:
        # features of value 0 say nothing
        options["items"] = ["b_2", "c_1"]
    with pytest.warns(UserWarning, match="are not labeled decisions"):
        log = read_vw(shared_data / "vw" / name, **options)
    write_vw(log, tmp_path / "log.vw", kind="cb_adf")
    text = again(tmp_path / "log.vw", "a/action", **options)
    assert rows(text, price=False) == rows(log, price=False)
    (one,), (two,) = (
        [x for part in log.source.fragments(["items"]) for x in part.records()]
        for log in (log, text)
    )
    assert one["items"].to_pylist() == two["items"].to_pylist()
    # costs 1 and 0 with 3 and 2 candidates, at .5 each: -(1/3) / .5 / 2, the same twice over
    assert uniform(log) == uniform(text) == pytest.approx(-1 / 3, abs=1e-12)


def test_own_events_whose_number_of_actions_changes_make_the_round_trip(
    tmp_path: Path, shared_data: Path
) -> None:
    whole = (shared_data / "vw" / "cb_features_w_zero_vals.dsjson").read_text().split("\n")
    short = json.loads(whole[0])
    short |= {"a": [0], "p": [1.0], "_label_probability": 1.0}
    short["c"]["_multi"] = [{}]
    (tmp_path / "some.dsjson").write_text("\n".join([json.dumps(short), *whole[:2]]))
    with pytest.warns(UserWarning, match="the number of actions changes"):
        log = read_dsjson(tmp_path / "some.dsjson")
    write_dsjson(log, tmp_path / "log.dsjson")
    assert rows(again(tmp_path / "log.dsjson", "_tag")) == rows(log)


def test_vowpal_wabbit_itself_reads_both(tmp_path: Path) -> None:
    tool = pytest.importorskip("vowpalwabbit", reason="Vowpal Wabbit is not installed")
    write_vw(offers(), tmp_path / "log.vw", kind="cb_adf")
    write_dsjson(offers(), tmp_path / "log.dsjson")
    kind = tool.LabelType.CONTEXTUAL_BANDIT
    blocks: dict[str, list[Any]] = {
        "": (tmp_path / "log.vw").read_text().strip().split("\n\n"),
        " --dsjson": (tmp_path / "log.dsjson").read_text().splitlines(),
    }
    expected = [(0, -1.0, 0.25, 2), (1, -0.5, 0.25, 3), (0, -0.75, 1.0, 1)]
    for option, decisions in blocks.items():
        workspace = tool.Workspace(f"--cb_explore_adf --quiet{option}")
        found = []
        for decision in decisions:
            given = decision if option else decision.split("\n")
            examples = workspace.parse(given, kind)
            for place, example in enumerate(examples[1:]):
                for label in example.get_label(kind).costs:
                    found.append((place, label.cost, label.probability, len(examples) - 1))
            workspace.learn(examples)
            workspace.finish_example(examples)
        # an empty line may end a decision
        assert [x[:3] for x in found] == [pytest.approx(x[:3]) for x in expected]
        assert [x[3] - (x[3] > y[3]) for x, y in zip(found, expected, strict=True)] == [2, 3, 1]


def test_many_rows_are_the_twin_of_a_loop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("piwo.sources.table.batches_of", lambda x: x.to_batches(max_chunksize=7))
    rng = np.random.default_rng(0)
    table: dict[str, list[Any]] = {"action": [], "could": [], "mu": [], "r": [], "offers": []}
    for _ in range(40):
        size = int(rng.integers(1, 5))
        could = rng.permutation(9)[:size].tolist()
        mu = (rng.dirichlet(np.ones(size)) * 0.5 + 0.5 / size).tolist()
        table["could"].append(could)
        table["mu"].append(mu)
        table["action"].append(could[int(rng.integers(size))])
        table["r"].append(float(rng.random()))
        table["offers"].append([{"price": float(x)} for x in rng.random(size)])
    roles = {"eligible": "could", "propensities": "mu", "reward": "r", "items": "offers"}
    log = piwo.read(pa.table(table), **roles)  # type: ignore[arg-type]
    write_dsjson(log, tmp_path / "log.dsjson")
    write_vw(log, tmp_path / "log.vw", kind="cb_adf")
    events = again(tmp_path / "log.dsjson", "_tag", items="price")
    text = again(tmp_path / "log.vw", "a/action", items="price")
    assert rows(events) == rows(log)
    assert [x["price"] for x in rows(text)] == [x["price"] for x in rows(log)]
    assert uniform(events) == pytest.approx(uniform(log), abs=1e-12)
    assert uniform(text) == pytest.approx(uniform(log), abs=1e-12)
