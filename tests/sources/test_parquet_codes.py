"""Parquet pages whose codes lie outside of their dictionary are refused."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.errors import FileError
from piwo.sources.parquet import ParquetSource


@pytest.mark.parametrize("listed", [False, True])
@pytest.mark.parametrize(("codes", "labels"), [([0, 7], ["a", "b"]), ([0, 0], [])])
def test_codes_outside_of_the_dictionary_are_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    listed: bool,
    codes: list[int],
    labels: list[str],
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table({"action": ["a", "b"] * 50, "could": [["a", "b"]] * 100}), path)
    source = ParquetSource([str(path)]).with_dictionaries(["action", "could"])
    name = "could" if listed else "action"
    (fragment,) = source.fragments([name])
    assert sum(record.num_rows for record in fragment.records()) == 100
    # What the decoder makes of a page that was changed and has no checksum.
    bad = pa.DictionaryArray.from_arrays(
        pa.array(codes, pa.int32()), pa.array(labels, pa.string()), safe=False
    )

    def batches(*_: Any, **__: Any) -> Any:
        values = pa.ListArray.from_arrays(pa.array([0, 2], pa.int32()), bad) if listed else bad
        yield pa.record_batch({name: values})

    monkeypatch.setattr(pq.ParquetFile, "iter_batches", batches)
    with pytest.raises(FileError, match=r"log.parquet' cannot be read as Parquet") as wrong:
        list(fragment.records())
    assert "\n" not in str(wrong.value)
