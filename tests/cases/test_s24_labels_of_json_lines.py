"""S24: JSON values that differ are different labels, or an error; none are merged."""

import json
from pathlib import Path

import pytest

from piwo.errors import DataError
from piwo.logs import read


def written(labels: list[str], folder: Path, more: str = "") -> Path:
    lines = [f'{{"action":{x},"reward":1,"propensity":0.5{more}}}\n' for x in labels]
    path = folder / "log.jsonl"
    path.write_text("".join(lines))
    return path


@pytest.mark.parametrize("repeats", [1, 30_000])
@pytest.mark.parametrize(
    ("labels", "words"),
    [
        (["0.1", "0.10000000000000000001"], "floating-point numbers (such as 0.1)"),
        (["1", "1.0"], "whole numbers (such as 1)"),
        (["1.0", "2.0"], "floating-point numbers (such as "),
        (["1", '"1"'], 'text (such as "1")'),
        (["true", '"true"'], "true or false (such as true)"),
        (["true", "1"], "true or false (such as true)"),
        (["123456789012345678901234567890", "1e30"], "floating-point numbers (such as 1"),
        (["[1]", "[2]"], "lists (such as "),
        (['{"a":1}', '{"a":2}'], "objects (such as "),
    ],
)
def test_labels_of_several_kinds_are_refused(
    labels: list[str], words: str, repeats: int, tmp_path: Path
) -> None:
    path = written([labels[0]] * repeats + [labels[1]], tmp_path)
    with pytest.raises(DataError, match="column 'action'") as refused:
        read(path)
    assert words in str(refused.value)
    assert "expected text alone, whole numbers alone" in str(refused.value)


@pytest.mark.parametrize(
    "labels",
    [
        ['"1"', '"1.0"', '"01"'],
        ["1", "2", "-3"],
        ["9007199254740993", "9007199254740992", "18446744073709551615"],
        ["123456789012345678901234567890", "123456789012345678901234567891"],
        ["true", "false"],
        ['"true"', '"True"'],
        ['"2026-01-01"', '"2026-01-01T00:00:00Z"'],
        ['"NO"', '"no"'],
    ],
)
def test_labels_of_one_kind_keep_every_digit(labels: list[str], tmp_path: Path) -> None:
    log = read(written(labels, tmp_path))
    plain = [json.loads(x) for x in labels]
    expected = [str(x).lower() if isinstance(x, bool) else str(x) for x in plain]
    assert sorted(map(str, log.actions.labels)) == sorted(expected)


def test_keys_are_not_merged_either(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    line = '{{"action":"a","reward":1,"propensity":0.5,"id":{}}}\n'
    path.write_text(line.format(1) + line.format('"1"'))
    with pytest.raises(DataError, match="column 'id'"):
        read(path, key="id")
