"""JSON is read as lines, as one array or as columns; dsjson is known by its fields.

What is unclear is named.
"""

import gzip
import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from piwo import evaluate
from piwo.cli.main import main
from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.logs import read
from piwo.logs.source_of import contexts_of
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


# What a file with guessed types would change: zeros in front, words, 64 bits, a short float.
ROWS: list[dict[str, Any]] = [
    {
        "action": f"0{i % 3}",
        "reward": (i * 37 % 101) / 100,
        "propensity": 1 / 3,
        "code": ["01234", "1e3", "NO"][i % 3],
        "hour": i % 24,
        "id": 2**62 + i,
        "likes": [i / 7, 0.1],
    }
    for i in range(300)
]
COLUMNS = {name: [row[name] for row in ROWS] for name in ROWS[0]}
BY_ROW = {name: dict(enumerate(values)) for name, values in COLUMNS.items()}
SPLIT = {
    "columns": list(COLUMNS),
    "index": list(range(300)),
    "data": [list(row.values()) for row in ROWS],
}


def _written(folder: Path, name: str, text: str) -> Path:
    path = folder / name
    data = text.encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.json.gz"])
@pytest.mark.parametrize(
    "text",
    [
        json.dumps(ROWS),
        "\ufeff \n" + json.dumps(ROWS, indent=2) + "\n\n",
        json.dumps(COLUMNS),
        json.dumps(COLUMNS, indent=1),
        json.dumps(BY_ROW),
        json.dumps(SPLIT),
    ],
    ids=["array", "array on lines", "list", "list on lines", "columns", "split"],
)
def test_the_same_rows_in_every_shape(text: str, name: str, tmp_path: Path) -> None:
    lines = "".join(json.dumps(row) + "\n" for row in ROWS)
    options: Any = {
        "context": ["code", "hour", "likes"],
        "where": f"hour > 2 and id <> {2**62 + 5} and code <> 'NO'",
    }
    log = read(_written(tmp_path, name, text), **options)
    expected = read(_written(tmp_path, "lines.jsonl", lines), **options)
    assert log.actions == expected.actions
    assert log.features == expected.features
    ours, theirs = log.each_batch(context=True), expected.each_batch(context=True)
    for batch, other in zip(ours, theirs, strict=True):
        assert batch.context is not None
        assert other.context is not None
        assert batch.context.tolist() == other.context.tolist()
        assert batch.reward.tolist() == other.reward.tolist()
    policy = Uniform(log.actions)
    assert evaluate(log, policy).to_dict() == evaluate(expected, policy).to_dict()


@pytest.mark.parametrize("text", [json.dumps(ROWS), json.dumps(COLUMNS)])
def test_the_command_reads_them(text: str, tmp_path: Path, capsys: Any) -> None:
    path = _written(tmp_path, "it's.json", text)
    assert main(["evaluate", str(path), "--policy", "uniform", "--json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)["policies"]
    log = read(path)
    assert found["value"] == evaluate(log, Uniform(log.actions)).value


@pytest.mark.parametrize("text", [json.dumps(ROWS), json.dumps(COLUMNS)])
def test_rows_in_errors(text: str, tmp_path: Path) -> None:
    path = _written(tmp_path, "log.json", text.replace("0.37", "null", 1))
    with pytest.raises(DataError, match=r"'reward' is missing in 1 row \(row numbers from 0: 1\)"):
        evaluate(read(path), Uniform(["00", "01", "02"]))


def test_arrays_of_hive_folders_and_several_files(tmp_path: Path) -> None:
    for day, form in (("1", json.dumps(ROWS)), ("2", json.dumps(ROWS[:10], indent=1))):
        (tmp_path / f"day={day}").mkdir()
        _written(tmp_path, f"day={day}/log.json", form)
    log = read(str(tmp_path / "*" / "log.json"), context=["day", "code"])
    assert len(log) == 310
    for day in ("1", "2"):
        _written(tmp_path, f"day={day}/log.json", json.dumps(COLUMNS))
    log = read(str(tmp_path / "*" / "log.json"), context=["day", "code"], where="day = 2")
    assert len(log) == 300


@pytest.mark.parametrize(
    ("text", "error", "words"),
    [
        (json.dumps(ROWS)[:-1] + ",", FileError, "ends before its JSON array does"),
        (json.dumps(ROWS)[:-1], FileError, "ends before its JSON array does"),
        (json.dumps(ROWS)[:-2] + "]", DataError, "Malformed JSON"),
        (json.dumps(ROWS)[:-1] + " junk]", DataError, "Malformed JSON"),
        (json.dumps(ROWS) + json.dumps(ROWS), DataError, "Malformed JSON"),
        ('[{"action": "a", "Action": "b"}]', DataError, "'action' and 'Action', which differ"),
        (
            json.dumps({**COLUMNS, "hour": [1, 2]}),
            DataError,
            "columns of different lengths .*hour: 2",
        ),
        ('{"action": ["a"], "reward": [1], "action": ["b"]}', DataError, "'action' twice"),
    ],
)
def test_damaged_arrays_and_columns(
    text: str, error: type[PiwoError], words: str, tmp_path: Path
) -> None:
    path = _written(tmp_path, "log.json", text)
    with pytest.raises(error, match=words) as refused:
        evaluate(read(path), Uniform(["00", "01", "02"]))
    assert "\n" not in str(refused.value)


def test_a_packed_array_that_was_changed(tmp_path: Path) -> None:
    path = _written(tmp_path, "log.json.gz", json.dumps(ROWS))
    data = bytearray(path.read_bytes())
    data[-6] ^= 1
    path.write_bytes(data)
    with pytest.raises(FileError, match="do not match its checksum"):
        read(path)


def test_arrays_and_lines_are_not_mixed(tmp_path: Path) -> None:
    one = _written(tmp_path, "a.json", json.dumps(ROWS))
    other = _written(tmp_path, "b.json", json.dumps(ROWS[0]) + "\n")
    with pytest.raises(UsageError, match=r"several types in one log \(json, json array\)"):
        read([one, other])


def test_contexts_in_every_shape(tmp_path: Path) -> None:
    contexts = [{"code": "01234", "hour": 1}, {"code": "NO", "hour": 2}]
    for text in (
        "".join(json.dumps(x) + "\n" for x in contexts),
        json.dumps(contexts),
        json.dumps({"code": ["01234", "NO"], "hour": [1, 2]}),
    ):
        path = _written(tmp_path, "x.json", text)
        source = contexts_of([str(path)], {"code": "text", "hour": "number"})
        (fragment,) = source.fragments(["code", "hour"])
        (record,) = fragment.records()
        assert record.to_pylist() == contexts
    # Without an action, lists of numbers are one row.
    path = _written(tmp_path, "y.json", json.dumps({"u": [1, 2], "v": [0.5, 1]}))
    (fragment,) = contexts_of([str(path)], {}).fragments(["u", "v"])
    (record,) = fragment.records()
    assert record.to_pylist() == [{"u": [1.0, 2.0], "v": [0.5, 1.0]}]


@pytest.mark.parametrize("name", ["log.json", "log.jsonl", "log.json.gz"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        (FRAME.to_json(orient="index"), "holds JSON objects of columns"),
        (json.dumps(COLUMNS) + "\n" + json.dumps(COLUMNS), "holds JSON objects of columns"),
        (FRAME.to_json(orient="values"), "holds lists"),
        ('["a", 1, 0.5]\n["b", 1, 0.5]\n', "holds lists"),
        (json.dumps({"action": "a", "reward": 1}, indent=1), "over several lines"),
        ("[ ]", "array is empty"),
    ],
)
def test_unclear_shapes_are_named(text: str, words: str, name: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=words) as refused:
        read(_written(tmp_path, name, text))
    assert "\n" not in str(refused.value)


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


@pytest.mark.parametrize("packed", ["A.JSON.GZ", "a.jsonl.gz"])
@pytest.mark.parametrize("whole", [False, True], ids=["lines", "array"])
def test_packed_and_plain_files_in_one_log(packed: str, whole: bool, tmp_path: Path) -> None:
    """Names in .GZ, too, of which older versions of DuckDB may read no rows."""
    text = json.dumps(ROWS) if whole else "\n".join(map(json.dumps, ROWS))
    plain = tmp_path / "b.json"
    plain.write_text(text, "utf-8")
    (tmp_path / packed).write_bytes(gzip.compress(text.encode()))
    for paths in ([plain, tmp_path / packed], [tmp_path / packed, plain]):
        log = read(paths)
        assert len(log) == 2 * len(ROWS)
        total = sum(batch.reward.sum() for batch in log.each_batch())
        assert total == pytest.approx(2 * sum(row["reward"] for row in ROWS), rel=1e-12)
