"""JSON files that are not one object a line are named; dsjson is known by its fields."""

import gzip
import json
from pathlib import Path

import pandas as pd
import pytest

from piwo import evaluate
from piwo.errors import DataError
from piwo.logs import read
from piwo.policies import Uniform

FRAME = pd.DataFrame(
    {"action": ["a", "b"] * 50, "reward": [1, 1] * 50, "propensity": [0.5, 0.5] * 50}
)
EVENT = {
    "_label_cost": -1,
    "_label_probability": 0.6,
    "_label_Action": 2,
    "_labelIndex": 1,
    "a": [2, 1],
    "p": [0.6, 0.4],
    "c": {"_multi": [{}, {}]},
}


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.json.gz"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FRAME.to_json(orient="records"), r"is one JSON array, .*lines=True.*format='array'"),
        (FRAME.to_json(orient="records", indent=2), "is one JSON array"),
        ("\ufeff \n" + FRAME.to_json(orient="records"), "is one JSON array"),
        (FRAME.to_json(), "is one JSON object of columns"),
        (FRAME.to_json(orient="index"), "is one JSON object of columns"),
        (FRAME.to_json(orient="split"), "is one JSON object of columns"),
        (FRAME.to_json(orient="values"), "holds lists"),
        ('["a", 1, 0.5]\n["b", 1, 0.5]\n', "holds lists"),
        (json.dumps(FRAME.to_dict(orient="list")), "is one JSON object of columns"),
        (json.dumps({"action": "a", "reward": 1}, indent=1), "over several lines"),
    ],
)
def test_other_shapes_are_named(text: str, words: str, name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    with pytest.raises(DataError, match=words) as refused:
        read(path)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("indent", [None, 2])
def test_the_query_that_the_message_gives(indent: int | None, tmp_path: Path) -> None:
    path = tmp_path / "it's.json"
    path.write_text(FRAME.to_json(orient="records", indent=indent))
    with pytest.raises(DataError) as refused:
        read(path)
    log = read(str(refused.value).rpartition("query: ")[2])
    assert evaluate(log, Uniform(log.actions)).value == 1


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.ndjson.gz"])
def test_dsjson_under_any_name(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    data = (json.dumps(EVENT) + "\n").encode() * 3
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    log = read(path)
    assert len(log) == 3
    batch = next(log.each_batch(propensities=True))
    assert batch.propensities is not None
    assert batch.propensities.tolist() == [[0.4, 0.6]] * 3


def test_one_object_a_line_is_still_read(tmp_path: Path) -> None:
    path = tmp_path / "log.json"
    path.write_text(FRAME.to_json(orient="records", lines=True))
    assert len(read(path)) == 100


def test_propensities_as_an_object_are_named(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    path.write_text('{"action": "a", "reward": 1, "mu": {"a": 0.4, "b": 0.6}}\n' * 5)
    with pytest.raises(DataError, match="holds text or objects, expected lists of 2"):
        evaluate(read(path, propensities="mu", actions=["a", "b"]), Uniform(["a", "b"]))
