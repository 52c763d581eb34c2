"""Action lists: labels in, labels out, nothing lost between."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.logs import Actions


def test_labels_come_back_with_every_digit_and_no_padding():
    wide = Actions([2**63 + 1, -5])
    assert wide.take(np.array([0, 1])).tolist() == [2**63 + 1, -5]
    long = Actions(["x" * 10_000, "b"])
    assert long.take(np.zeros(1000, np.int64)).nbytes <= 8000
    assert Actions(["a", "bc"]).take(np.array([1])).tolist() == ["bc"]


@pytest.mark.parametrize(
    "kind", [pa.string(), pa.large_string(), pa.dictionary(pa.int8(), pa.string())]
)
def test_text_actions_of_files_are_those_of_the_rows(tmp_path, kind):
    labels = pa.array(["b", "a", None, "b", "c"], pa.string()).cast(kind)
    table = pa.table({"action": labels, "reward": [1.0] * 5, "propensity": [0.5] * 5})
    for day in ("1", "2"):
        folder = tmp_path / f"part=p{day}"
        folder.mkdir()
        pq.write_table(table, folder / "rows.parquet", row_group_size=2)
    pattern = str(tmp_path / "*" / "*.parquet")
    assert piwo.read(pattern).actions.labels == ("a", "b", "c")
    assert piwo.read(pattern, action="part").actions.labels == ("p1", "p2")


def test_labels_that_differ_after_a_nul_are_two_labels() -> None:
    labels = np.array(["a\0b", "a\0c"] * 2)
    roles = {"reward": [1, 0] * 2, "propensity": [0.5] * 4}
    log = piwo.Log.from_arrays(action=labels, **roles)
    assert log.actions.labels == ("a\0b", "a\0c")
    assert log.actions.codes(labels, "action").tolist() == [0, 1, 0, 1]
    listed = piwo.Log.from_arrays(action=labels.tolist(), **roles)
    assert listed.actions.labels == log.actions.labels
