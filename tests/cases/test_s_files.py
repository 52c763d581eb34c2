"""Files that are damaged, or whose fields cannot be read: S20, S23."""

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library
from piwo.policies import Uniform

ROWS = pd.DataFrame(
    {"action": ["a", "b"] * 500, "reward": [1, 0] * 500, "propensity": [0.5] * 1000}
)


def evaluated(path: Path) -> Any:
    return library.evaluate(library.read(str(path)), Uniform(["a", "b"]))


# --- checksums: S20


@pytest.mark.parametrize("name", ["log.csv.gz", "log.jsonl.gz"])
@pytest.mark.parametrize("damage", ["reward", "cut", "crc"])
def test_a_damaged_gzip_file_is_refused(name: str, damage: str, tmp_path: Path) -> None:
    text = ROWS.to_csv(index=False)
    if "json" in name:
        text = ROWS.to_json(orient="records", lines=True)
    # Stored, not compressed: a changed byte still unpacks.
    data = bytearray(gzip.compress(text.encode(), compresslevel=0))
    path = tmp_path / name
    path.write_bytes(data)
    assert evaluated(path).rows == 1000
    if damage == "reward":
        place = data.index(b",0,") if "csv" in name else data.index(b'"reward":0') + 9
        data[place + (1 if "csv" in name else 0)] = ord("1")
    elif damage == "cut":
        del data[-9:]
    else:
        data[-5] ^= 1
    path.write_bytes(data)
    with pytest.raises(library.FileError, match=r"is damaged .*checksum; write or copy it again"):
        evaluated(path)


def test_changed_pages_of_parquet_files_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(
        pa.Table.from_pandas(ROWS),
        path,
        write_page_checksum=True,
        compression="none",
        use_dictionary=False,
    )
    whole, passed = path.read_bytes(), []
    truth = evaluated(path).value
    footer = len(whole) - 8 - int.from_bytes(whole[-8:-4], "little")
    random = np.random.default_rng(0)
    for place in random.choice(np.arange(4, footer), 60, replace=False).tolist():
        data = bytearray(whole)
        data[place] ^= 1 << int(random.integers(8))
        path.write_bytes(data)
        try:
            if evaluated(path).value != truth:
                passed.append(place)
        except library.PiwoError:
            continue
    assert passed == []


# --- fields of dsjson: S23


def event(**fields: Any) -> dict[str, Any]:
    return {
        "_label_cost": -1,
        "_label_probability": 0.6,
        "_label_Action": 2,
        "_labelIndex": 1,
        "a": [2, 1],
        "p": [0.6, 0.4],
        "c": {"_multi": [{}, {}]},
        **fields,
    }


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"pdrop": "abc"}, "a pdrop that is not a number"),
        ({"pdrop": "0.5"}, "a pdrop that is not a number"),
        ({"a": [1.4, 2.4]}, "an a with entries that are not whole numbers"),
        ({"a": ["2", "1"]}, "an a with entries that are not whole numbers"),
        ({"p": [0.6, "0.4"]}, "a p with entries that are not numbers"),
        ({"_label_Action": 1.4}, "a _label_Action that is not a whole number"),
        ({"_labelIndex": "1"}, "a _labelIndex that is not a whole number"),
        ({"_label_cost": "-1"}, "a _label_cost that is not a number"),
        ({"_label_probability": True}, "a _label_probability that is not a number"),
        ({"_skipLearn": "junk"}, "a _skipLearn that is not true or false"),
        ({"_skipLearn": 1}, "a _skipLearn that is not true or false"),
    ],
)
def test_fields_that_would_be_converted_are_refused(
    fields: dict[str, Any], says: str, tmp_path: Path
) -> None:
    path = tmp_path / "log.dsjson"
    path.write_text(json.dumps(event()) + "\n" + json.dumps(event(**fields)) + "\n")
    with pytest.raises(library.DataError, match=rf"{says} in 1 line .*line 2"):
        library.read(str(path))


def test_a_field_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    path, line = tmp_path / "log.dsjson", json.dumps(event())
    path.write_text(line.replace('"_label_cost": -1', '"_label_cost": -1, "_label_cost": 0') + "\n")
    with pytest.raises(library.DataError, match=r"has _label_cost twice in 1 line .*line 1"):
        library.read(str(path))
