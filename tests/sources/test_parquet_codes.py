"""Parquet pages whose codes lie outside of their dictionary are refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import FileError
from piwo.sources.parquet import ParquetSource


@pytest.mark.parametrize(("codes", "labels"), [([0, 7], ["a", "b"]), ([0, 0], [])])
def test_codes_outside_of_the_dictionary_are_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, codes: list[int], labels: list[str]
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"action": ["a", "b"]}), path)
    source = ParquetSource([str(path)]).with_dictionary("action")
    (fragment,) = source.fragments(["action"])
    assert sum(record.num_rows for record in fragment.records()) == 2
    # What the decoder makes of a page that was changed and has no checksum.
    bad = pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array(labels, pa.string()), safe=False
    )

    def batches(*_: Any, **__: Any) -> Any:
        yield pa.record_batch({"action": bad})

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", batches)
    with pytest.raises(FileError, match=r"log.parquet' cannot be read as Parquet") as wrong:
        list(fragment.records())
    assert "\n" not in str(wrong.value)


def test_lists_of_text_are_read_by_dictionary(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = {
        "action": ["b", "a", "c", "a"],
        "reward": [1.0] * 4,
        "propensity": [0.5] * 4,
        "could": [["b", "x"], ["a"], ["y", "c"], ["a", "x"]],
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(rows), path, row_group_size=2)
    source = ParquetSource([str(path)])
    read = [
        x
        for one in source.with_dictionary_of_entries("could").fragments(["could"])
        for x in one.records()
    ]
    assert all(pa.types.is_dictionary(x["could"].type.value_type) for x in read)
    assert [row for x in read for row in x["could"].to_pylist()] == rows["could"]
    assert piwo.read(path, eligible="could").actions.labels == ("a", "b", "c", "x", "y")

    # Arrow reads no lists whose dictionary ends within a row group.
    plain = pq.ParquetFile.iter_batches

    def batches(file: Any, *words: Any, **named: Any) -> Any:
        if file.schema_arrow.field("could").type.value_type != pa.string():
            raise pa.ArrowNotImplementedError("Nested data conversions not implemented")
        return plain(file, *words, **named)

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", batches)
    assert piwo.read(path, eligible="could").actions.labels == ("a", "b", "c", "x", "y")
