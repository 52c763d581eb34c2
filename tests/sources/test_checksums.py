"""Checksums that files carry are compared, also where DuckDB reads the rows."""

import gzip
import json
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from piwo import Log, certify, evaluate
from piwo.errors import FileError
from piwo.logs import read, read_dsjson
from piwo.policies import Uniform

ROWS = 3_000
COLUMNS = {
    "action": ["a", "b"] * (ROWS // 2),
    "reward": np.linspace(0, 1, ROWS),
    "propensity": np.full(ROWS, 0.5),
    "day": np.arange(ROWS) // 1000,
}


def valued(source: object, **options: object) -> float:
    log = read(source, **options)  # type: ignore[arg-type]
    return evaluate(log, Uniform(log.actions)).value


def stored(text: str) -> bytearray:
    """Return text in gzip, in the clear: a changed digit leaves a stream that can be read."""
    return bytearray(gzip.compress(text.encode(), compresslevel=0, mtime=0))


def damaged(data: bytearray, old: bytes, new: bytes) -> bytes:
    at = data.rindex(old)
    data[at : at + len(old)] = new
    return bytes(data)


CSV = "action,reward,propensity\n" + "a,1,0.5\nb,0,0.5\n" * 50
JSON = '{"action":"a","reward":1,"propensity":1}\n' * 50


@pytest.mark.parametrize(
    ("name", "text", "old", "new"),
    [
        ("log.csv.gz", CSV, b"b,0,", b"b,1,"),
        ("log.tsv.gz", CSV.replace(",", "\t"), b"b\t0\t", b"b\t1\t"),
        ("log.jsonl.gz", JSON, b'"reward":1', b'"reward":0'),
        ("LOG.JSON.GZ", JSON, b'"reward":1', b'"reward":0'),
        ("LOG.CSV.GZ", CSV, b"b,0,", b"b,1,"),
    ],
    ids=["csv", "tsv", "jsonl", "JSON", "CSV"],
)
@pytest.mark.parametrize("where", [None, "reward >= 0"])
def test_a_reward_that_changed_in_gzip(
    name: str, text: str, old: bytes, new: bytes, where: str | None, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_bytes(stored(text))
    whole = valued(path)
    assert whole == (0.5 if b"0" in old else 1.0)
    path.write_bytes(damaged(stored(text), old, new))
    with pytest.raises(FileError, match=rf"{name}' is damaged \(CRC check failed"):
        read(path, where=where)
    # So are the second of several files, and a file of several members.
    other = tmp_path / f"b{name}"
    other.write_bytes(path.read_bytes())
    path.write_bytes(stored(text))
    with pytest.raises(FileError, match=f"b{name}"):
        read([path, other], where=where)


@pytest.mark.parametrize("name", ["log.csv.gz", "log.json.gz", "log.dsjson.gz"])
@pytest.mark.parametrize("damage", ["cut", "length", "stream"])
def test_gzip_that_cannot_be_unpacked(name: str, damage: str, tmp_path: Path) -> None:
    line = {"_label_cost": 0, "_label_probability": 1.0, "_label_Action": 1, "a": [1], "p": [1.0]}
    event = json.dumps(line | {"c": {"_multi": [{}]}}) + "\n"
    text = {"log.csv.gz": CSV, "log.json.gz": JSON}.get(name, event) * 20
    data = bytearray(gzip.compress(text.encode(), mtime=0))
    if damage == "cut":
        del data[-9:]
    elif damage == "length":
        data[-2] ^= 1
    else:
        data[15:40] = b"\xff" * 25
    path = tmp_path / name
    path.write_bytes(data)
    with pytest.raises(FileError, match=name):
        read(path)


def test_a_cost_that_changed_in_dsjson(tmp_path: Path) -> None:
    line = {"_label_cost": 0, "_label_probability": 1.0, "_label_Action": 1, "a": [1], "p": [1.0]}
    text = json.dumps(line | {"c": {"_multi": [{}]}}) + "\n"
    path = tmp_path / "log.dsjson.gz"
    path.write_bytes(damaged(stored(text), b'cost": 0', b'cost": 1'))
    with pytest.raises(FileError, match="CRC"):
        read_dsjson(path)


def with_flip(path: Path, column: str, *, dictionary: bool) -> None:
    """Write a Parquet file with checksums, and flip one bit in the data of a column."""
    pq.write_table(
        pa.table(COLUMNS),
        path,
        write_page_checksum=True,
        compression="none",
        use_dictionary=dictionary,
        row_group_size=1000,
    )
    metadata = pq.read_metadata(path)
    chunk = metadata.row_group(1).column(list(COLUMNS).index(column))
    start = chunk.dictionary_page_offset if dictionary else chunk.data_page_offset
    data = bytearray(path.read_bytes())
    # Within the first value, far behind the header of the page.
    data[start + chunk.total_compressed_size // 2] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize("dictionary", [True, False])
@pytest.mark.parametrize("where", [None, "day >= 0"])
def test_a_page_that_changed(dictionary: bool, where: str | None, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    with_flip(path, "reward", dictionary=dictionary)
    with pytest.raises(FileError, match=r"log\.parquet' cannot be read as Parquet .*CRC"):
        valued(path, where=where)
    with pytest.raises(FileError, match="CRC"):
        valued(str(tmp_path / "*.parquet"), where=where)
    dataset = ds.dataset(path)
    with pytest.raises(FileError, match="CRC"):
        valued(dataset)
    with pytest.raises(FileError, match="CRC"):
        valued(dataset.filter(ds.field("day") >= 0))


def test_files_and_columns_that_are_not_read_are_not_looked_at(tmp_path: Path) -> None:
    for day in (1, 2):
        (tmp_path / f"month={day}").mkdir()
        with_flip(tmp_path / f"month={day}" / "f.parquet", "day", dictionary=False)
    pq.write_table(pa.table(COLUMNS), tmp_path / "month=1" / "f.parquet", write_page_checksum=True)
    files = str(tmp_path / "*" / "*.parquet")
    assert valued(files) == pytest.approx(0.5)
    assert valued(files, where="month = 1") == pytest.approx(0.5)
    assert valued(files, where="month = 1 and day >= 0") == pytest.approx(0.5)
    with pytest.raises(FileError, match=r"month=2.*CRC"):
        valued(files, where="month = 2 and day >= 0")


def test_files_without_checksums_are_read_once_less(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(COLUMNS), path)
    assert valued(path, where="day > 0") == pytest.approx(2 / 3, abs=0.01)
    monkeypatch.setattr("pyarrow.parquet.ParquetFile.iter_batches", None)
    assert valued(path, where="day > 0") == pytest.approx(2 / 3, abs=0.01)


def test_results_say_that_the_files_of_a_query_are_not_compared(tmp_path: Path) -> None:
    files = tmp_path / "log.parquet"
    table = pa.table(COLUMNS)
    pq.write_table(table, files)
    packed = tmp_path / "log.csv.gz"
    packed.write_bytes(stored(CSV))
    connection = duckdb.connect()
    connection.execute(f"create view kept as select * from read_parquet('{files}')")
    connection.register("frame", table)
    unverified = (
        read(f"select * from '{files}'"),
        read(f"select * from '{files}'", where="day >= 0"),
        read(f"from read_csv(['{packed}'])"),
        Log.from_sql("select * from kept", connection=connection),
    )
    verified = (
        read(files),
        read(files, where="day >= 0"),
        read(packed),
        read("select 'a' as action, 1 as reward, 0.5 as propensity union all select 'b', 1, 0.5"),
        Log.from_sql("select * from frame", connection=connection),
    )
    for log in (*unverified, *verified):
        policy = Uniform(log.actions)
        kinds = [[note.kind for note in evaluate(log, policy).notes]]
        if len(log) > 2:
            # A split of a query is of a copy.
            (made,) = certify(log.split().test, {"uniform": policy}).values()
            kinds.append([note.kind for note in made.notes])
        for found in kinds:
            assert ("unverified" in found) == any(log is x for x in unverified)
