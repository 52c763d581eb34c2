"""Labels of actions in files of Vowpal Wabbit: a feature of each action says which one it is."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import DataError, UsageError
from piwo.logs import Log, read_dsjson, read_vw
from piwo.policies import Constant
from piwo.sources import spool

PERMUTED = """shared | hour:9
0:-1:0.25 |a id=cake price:3
|a id=tea price:2

shared | hour:12
|a id=tea price:2.5
0:-1:0.5 |a id=cake price:3.5

"""
ALWAYS_CAKE = 3.0
"""(1 / .25 + 1 / .5) / 2"""
OTHERS = """shared | hour:15
0:0:0.75 |a id=pie price:1
|a id=cake price:4

"""
"""With it (4 + 2 + 0) / 3."""


def quiet(path: Path, **options: Any) -> Log:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return piwo.read(str(path), **options)


def in_dsjson(text: str, numbers: bool = False) -> str:
    """The same decisions, as events; p of the other action is the rest."""
    events = []
    for block in text.strip().split("\n\n"):
        _, *lines = block.split("\n")
        multi, chosen, cost, p = [], 0, "", ""
        for i, line in enumerate(lines):
            head, _, features = line.partition("|a id=")
            name, _, price = features.partition(" price:")
            multi.append({"id": len(name) if numbers else name, "price": float(price)})
            if head:
                chosen, (_, cost, p) = i, head.strip().split(":")
        event = {"_label_cost": float(cost), "_label_probability": float(p)}
        event |= {"_label_Action": chosen + 1, "_labelIndex": chosen}
        event |= {"a": [chosen + 1, 2 - chosen], "p": [float(p), 1 - float(p)]}
        events.append(json.dumps(event | {"c": {"_multi": multi}}))
    return "\n".join(events) + "\n"


def files(folder: Path, text: str) -> dict[str, Path]:
    """The label of an action -> a file in which it is that."""
    (folder / "adf.vw").write_text(text)
    (folder / "log.dsjson").write_text(in_dsjson(text))
    return {"a/id": folder / "adf.vw", "id": folder / "log.dsjson"}


def value(log: Log, label: Any) -> float:
    return piwo.evaluate(log, Constant(label, log.actions), estimator="iw").value


def test_labels_of_permuted_actions_make_a_fixed_list(tmp_path: Path) -> None:
    for label, path in files(tmp_path, PERMUTED).items():
        log = quiet(path, items_label=label)
        assert log.actions.labels == ("cake", "tea")
        assert log.columns.eligible is None
        assert value(log, "cake") == ALWAYS_CAKE
        named = quiet(path, items_label=label, actions=["tea", "cake"])
        assert named.actions.labels == ("tea", "cake")
        assert value(named, "cake") == ALWAYS_CAKE
    # the propensities of dsjson are in the order of the labels
    (batch,) = named.each_batch(propensities=True)
    assert batch.propensities.tolist() == [[0.75, 0.25], [0.5, 0.5]]


def test_labels_that_change_are_eligible_actions(tmp_path: Path) -> None:
    for label, path in files(tmp_path, PERMUTED + OTHERS).items():
        log = quiet(path, items_label=label)
        assert log.actions.labels == ("cake", "pie", "tea")
        (batch,) = log.each_batch(propensities=True)
        assert log.actions.take(batch.action).tolist() == ["cake", "cake", "pie"]
        assert batch.eligible.starts.tolist() == [0, 2, 4, 6]
        listed = log.actions.take(batch.eligible.codes).tolist()
        assert listed == ["cake", "tea", "tea", "cake", "pie", "cake"]
        # tea cannot be taken in the third row: there every eligible action has a half
        assert value(log, "cake") == pytest.approx(2.0, abs=1e-12)
        # a label that no decision lists is eligible in none
        known = ["tea", "cake", "pie", "soup"]
        assert quiet(path, items_label=label, actions=known).columns.eligible == "eligible"
    assert batch.eligible.propensities.tolist() == [0.25, 0.75, 0.5, 0.5, 0.75, 0.25]


def test_a_label_that_is_not_declared_is_refused_also_if_it_is_never_taken(tmp_path: Path) -> None:
    # cake is taken in both rows, and a policy over cake alone would have the value 3 for Uniform
    for label, path in files(tmp_path, PERMUTED).items():
        log = quiet(path, items_label=label, actions=["cake"])
        with pytest.raises(DataError, match=r"labels .* not in the action list in 2 rows"):
            list(log.each_batch())
    slots = {"_slots": [{}], "_multi": [{"id": "cake"}, {"id": "tea"}]}
    outcome = {"_label_cost": -1, "_a": [0], "_p": [0.5]}
    event = {"Version": "1", "c": slots, "_outcomes": [outcome]}
    (tmp_path / "ccb.dsjson").write_text(json.dumps(event) + "\n")
    ccb = piwo.slates.read_dsjson(tmp_path / "ccb.dsjson", items_label="id", actions=["cake"])
    with pytest.raises(DataError, match=r"labels .* not in the action list in 1 row"):
        piwo.slates.evaluate(ccb, piwo.slates.Uniform(["cake"]), estimator="cascade")


def test_features_of_labeled_actions(tmp_path: Path) -> None:
    prices = [[3.0, 2.0], [2.5, 3.5]]
    for label, path in files(tmp_path, PERMUTED).items():
        price = label.replace("id", "price")
        log = quiet(path, items_label=label, items=price)
        assert log.actions.items is not None
        assert log.actions.items.inline
        assert value(log, "cake") == ALWAYS_CAKE
        rows = [x for part in log.source.fragments(["items"]) for x in part.records()]
        assert [[x[price] for x in row] for row in rows[0]["items"].to_pylist()] == prices
        # a table has the labels in the column of the last part of the name
        table = {"id": ["tea", "cake", "soup"], "sweet": [0.0, 1.0, 0.0]}
        priced = quiet(path, items_label=label, items=table)
        assert priced.actions.labels == ("tea", "cake", "soup")
        assert priced.actions.items is not None
        assert priced.actions.items.table["sweet"].to_pylist() == [0.0, 1.0, 0.0]
        assert value(priced, "cake") == ALWAYS_CAKE


def test_labels_that_are_whole_numbers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "log.dsjson").write_text(in_dsjson(PERMUTED + OTHERS, numbers=True))
    (tmp_path / "log.vw").write_text(PERMUTED.replace("id=cake", "id:12").replace("id=tea", "id:7"))
    # pie has as many letters as tea
    log = quiet(tmp_path / "log.dsjson", items_label="id")
    assert (log.actions.labels, log.columns.eligible) == ((3, 4), None)
    monkeypatch.setattr(spool, "IN_MEMORY", 1)
    log = quiet(tmp_path / "log.vw", items_label="a/id")
    assert type(log.source).__name__ == "ParquetSource"
    assert log.actions.labels == (7, 12)
    assert value(log, 12) == ALWAYS_CAKE


@pytest.mark.parametrize(
    ("line", "rule"),
    [
        ("|a price:1", r"an action line without 'a/id' \(items_label\), which names actions"),
        ("|a id=cake", r"two action lines with the same 'a/id' \(items_label\)"),
    ],
)
def test_a_line_without_a_label_of_its_own(line: str, rule: str, tmp_path: Path) -> None:
    (tmp_path / "adf.vw").write_text(PERMUTED.replace("|a id=tea price:2\n", line + "\n"))
    with pytest.raises(DataError, match=rule):
        read_vw(tmp_path / "adf.vw", items_label="a/id")


@pytest.mark.parametrize(
    ("entry", "rule"),
    [
        ({"price": 1}, r"an entry of c._multi without a value at id \(items_label\)"),
        ({"id": 1.5}, r"neither text nor a whole number at id \(items_label\)"),
        ({"id": "cake"}, r"two entries of c._multi with the same value at id \(items_label\)"),
    ],
)
def test_an_entry_without_a_label_of_its_own(entry: Any, rule: str, tmp_path: Path) -> None:
    wrong = in_dsjson(PERMUTED).replace('{"id": "tea", "price": 2.0}', json.dumps(entry))
    (tmp_path / "log.dsjson").write_text(wrong)
    with pytest.raises(DataError, match=rule + r".* line 1\)"):
        read_dsjson(tmp_path / "log.dsjson", items_label="id")


def test_what_cannot_name_a_label(tmp_path: Path) -> None:
    path = files(tmp_path, PERMUTED)["a/id"]
    for wrong in ("", "/", 3):
        with pytest.raises(UsageError, match=r"items_label is .*, expected one name"):
            piwo.read(str(path), items_label=wrong)  # type: ignore[arg-type]
    (tmp_path / "cb.vw").write_text("1:-1:0.5 | x\n")
    with pytest.raises(UsageError, match=r"items_label names features of action lines, and each"):
        read_vw(tmp_path / "cb.vw", items_label="a/id")
