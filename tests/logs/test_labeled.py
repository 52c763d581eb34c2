"""Propensities as objects {label: p}: the same numbers as lists, in files and in memory."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo import evaluate, read
from piwo.cli.main import main
from piwo.errors import DataError
from piwo.policies import Uniform

LABELS = ["01", "b", "Other"]
RNG = np.random.default_rng(3)
MU = RNG.dirichlet([1.0, 2.0, 3.0], 400)
ACTION = [LABELS[int((p.cumsum() > u).argmax())] for p, u in zip(MU, RNG.random(400), strict=True)]
REWARD = RNG.random(400).tolist()


def _objects() -> list[dict[str, float]]:
    return [dict(zip(LABELS, p, strict=True)) for p in MU.tolist()]


def _rows(mu: list[Any], **more: list[Any]) -> list[dict[str, Any]]:
    names = ["action", "reward", "mu", *more]
    columns = zip(ACTION, REWARD, mu, *more.values(), strict=False)
    return [dict(zip(names, values, strict=True)) for values in columns]


def _file(folder: Path, kind: str, mu: list[Any], **more: list[Any]) -> Path:
    rows = _rows(mu, **more)
    path = folder / f"log{kind}"
    if kind == ".jsonl":
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    elif kind == ".json":
        path.write_text(json.dumps(rows))
    else:
        table = pa.Table.from_pylist(rows)
        if kind == ".map.parquet":
            pairs = [None if x is None else list(x.items()) for x in mu]
            maps = pa.array(pairs, pa.map_(pa.string(), pa.float64()))
            table = table.set_column(2, "mu", maps)
        pq.write_table(table, path, row_group_size=150)
    return path


KINDS = [".jsonl", ".json", ".parquet", ".map.parquet"]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("where", [None, "reward < 0.9"])
def test_objects_equal_lists(kind: str, where: str | None, tmp_path: Path) -> None:
    lists = tmp_path / "lists.parquet"
    order = sorted(LABELS)
    pq.write_table(pa.Table.from_pylist(_rows([[x[a] for a in order] for x in _objects()])), lists)
    expected = read(lists, propensities="mu", where=where)
    log = read(_file(tmp_path, kind, _objects()), propensities="mu", where=where)
    assert log.actions.labels == tuple(order)
    policy = Uniform(order)
    assert evaluate(log, policy).to_dict() == evaluate(expected, policy).to_dict()
    declared = read(_file(tmp_path, kind, _objects()), propensities="mu", actions=LABELS)
    batch = next(declared.each_batch(propensities=True))
    assert batch.propensities is not None
    assert batch.propensities.tolist() == MU[: len(batch)].tolist()


def test_the_command_gives_the_same(tmp_path: Path, capsys: Any) -> None:
    values = []
    for kind in KINDS:
        path = str(_file(tmp_path, kind, _objects()))
        command = ["evaluate", path, "--propensities", "mu", "--policy", "uniform", "--json"]
        assert main(command) == 0
        (found,) = json.loads(capsys.readouterr().out)["policies"]
        values.append((found["value"], found["lower"], found["upper"]))
    log = read(_file(tmp_path, ".json", _objects()), propensities="mu")
    result = evaluate(log, Uniform(log.actions))
    assert set(values) == {(result.value, result.lower, result.upper)}


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_were_never_logged_are_actions(kind: str, tmp_path: Path) -> None:
    objects = [{**x, "Other": 0.0, "never": x["Other"]} for x in _objects()]
    mu = [x if a != "Other" else {"Other": 1.0} for x, a in zip(objects, ACTION, strict=True)]
    log = read(_file(tmp_path, kind, mu), propensities="mu")
    assert log.actions.labels == ("01", "Other", "b", "never")
    row = ACTION.index("Other")
    batch = next(log.each_batch(propensities=True))
    assert batch.propensities is not None
    # Labels that the object lacks have propensity 0.
    assert batch.propensities[row].tolist() == [0.0, 1.0, 0.0, 0.0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"01": 0.5, "b": 0.2}, "does not sum to 1 within 0.0001 in 1 row .*from 0: 7.; such as a"),
        ({"01": 0.4, "b": 0.3, "z": 0.3}, "labels that are not among the 3 .*from 0: 7.; .*'z'"),
        ({"01": -0.5, "b": 1.5}, "has negative probabilities in 1 row .*from 0: 7"),
        (None, "'mu' is missing in 1 row .*from 0: 7"),
    ],
)
def test_what_is_wrong_is_named_with_its_row(
    kind: str, row: Any, words: str, tmp_path: Path
) -> None:
    objects: list[Any] = _objects()
    objects[7] = row
    log = read(_file(tmp_path, kind, objects), propensities="mu", actions=LABELS)
    with pytest.raises(DataError, match=words):
        evaluate(log, Uniform(LABELS))


def test_entries_that_are_no_probabilities(tmp_path: Path) -> None:
    for entry, words in ((None, "missing or infinite"), ("much", '"much"')):
        objects: list[Any] = _objects()
        objects[7] = {"01": 0.5, "b": 0.5, "Other": entry}
        log = read(_file(tmp_path, ".jsonl", objects), propensities="mu", actions=LABELS)
        with pytest.raises(DataError, match=words) as refused:
            evaluate(log, Uniform(LABELS))
        assert "\n" not in str(refused.value)
    path = tmp_path / "log.jsonl"
    path.write_text('{"action": "a", "reward": 1, "mu": {"a": 0.4, "b": 0.6, "a": 0.4}}\n' * 5)
    with pytest.raises(DataError, match="has a label twice"):
        evaluate(read(path, propensities="mu", actions=["a", "b"]), Uniform(["a", "b"]))
    twice = pa.array([[("a", 0.5), ("a", 0.5)]], pa.map_(pa.string(), pa.float64()))
    table = pa.table({"action": ["a"], "reward": [1.0], "mu": twice})
    with pytest.raises(DataError, match="has a label twice in 1 row"):
        evaluate(read(table, propensities="mu", actions=["a", "b"]), Uniform(["a", "b"]))
    words = pa.table({"action": ["a"], "reward": [1.0], "mu": [{"a": "x"}]})
    with pytest.raises(DataError, match="holds objects of string, expected a number for each"):
        evaluate(read(words, propensities="mu", actions=["a", "b"]), Uniform(["a", "b"]))


def test_whole_numbers_and_parts_of_a_table() -> None:
    mu = pa.array([[("10", 0.5), ("9", 0.5)]] * 4, pa.map_(pa.string(), pa.float64()))
    table = pa.table({"action": [9, 9, 10, 9], "reward": [0, 1, 1, 0], "mu": mu})
    log = read(table.slice(1), propensities="mu")
    assert log.actions.labels == (9, 10)
    batch = next(log.each_batch(propensities=True))
    assert batch.propensities is not None
    assert batch.propensities.shape == (3, 2)
    named = table.set_column(2, "mu", [[{"9": 0.5, "010": 0.5, "10": 0.0}] * 4])
    assert read(named, propensities="mu").actions.labels == ("010", "10", "9")


def test_by_unit_and_split(tmp_path: Path) -> None:
    rows = _rows(_objects(), user=[f"u{i % 100}" for i in range(400)])
    path = tmp_path / "log.json"
    path.write_text(json.dumps(rows))
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "log.parquet")
    results = []
    for file in (path, tmp_path / "log.parquet"):
        log = read(file, propensities="mu", unit="user")
        results.append(evaluate(log, Uniform(log.actions)).to_dict())
        assert len(read(file, propensities="mu").split(0.5).test) > 100
    assert results[0] == results[1]
    assert piwo.check(read(path, propensities="mu")).verdict


@pytest.mark.parametrize("kind", KINDS)
def test_labels_that_differ_in_case_alone(kind: str, tmp_path: Path) -> None:
    objects = [{"01": x["01"], "b": x["b"], "B": x["Other"]} for x in _objects()]
    labels = ["01", "b", "B"]
    action = [x.replace("Other", "B") for x in ACTION]
    path = _file(tmp_path, kind, objects, action=action)
    log = read(path, propensities="mu")
    assert set(log.actions) == set(labels)
    batch = next(read(path, propensities="mu", actions=labels).each_batch(propensities=True))
    assert batch.propensities is not None
    assert batch.propensities.tolist() == MU[: len(batch)].tolist()
    if kind == ".parquet":
        # A struct of DuckDB's cannot have both. Some versions of Arrow sort the fields of dicts.
        stored = [x.name for x in pq.read_schema(path).field("mu").type if x.name != "01"]
        assert sorted(stored) == ["B", "b"]
        with pytest.raises(DataError, match="'{}' and '{}', which differ in case".format(*stored)):
            read(path, propensities="mu", where="reward > -1")
