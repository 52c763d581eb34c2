"""Text labels of Parquet files are read as dictionaries, and every batch is the same as without."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.logs.batch import Batch
from piwo.policies import Uniform
from piwo.sources.parquet import ParquetSource

ROWS = 90_000
LABELS = np.array([f"item-{i}" for i in range(60)], object)
RARE = np.array([f"item-{i:020d}" for i in range(3_000)], object)


def table(late: int = 0, gaps: bool = False) -> pa.Table:
    """A log with a text action and lists of 0 to 4 texts; the last rows have other labels."""
    random = np.random.default_rng(5)
    action = LABELS[random.integers(len(LABELS), size=ROWS)]
    if late:
        action[-late:] = RARE[:late]
    sizes = random.integers(0, 5, size=ROWS)
    entries = np.repeat(action, sizes)
    absent = np.zeros(ROWS, np.bool_)
    if gaps:
        action[::101], entries[::103], absent[::107] = None, None, True
    starts = np.append(0, np.cumsum(sizes))
    lists = pa.ListArray.from_arrays(
        pa.array(starts, pa.int32(), mask=np.append(absent, False)), pa.array(entries, pa.string())
    )
    columns = {"action": pa.array(action, pa.string()), "could": lists}
    return pa.table({**columns, "reward": random.random(ROWS), "propensity": np.full(ROWS, 0.5)})


def records(source: ParquetSource, columns: list[str]) -> list[pa.RecordBatch]:
    return [record for one in source.fragments(columns) for record in one.records()]


def plain(values: pa.Array, kind: pa.DataType) -> pa.Array:
    return values if values.type == kind else values.cast(kind)


WRITTEN: list[tuple[dict[str, Any], int, bool]] = [
    ({"row_group_size": 40_000}, 0, True),
    ({"row_group_size": 65_536}, 0, True),
    ({"row_group_size": ROWS, "data_page_version": "2.0"}, 0, True),
    # The dictionary is full before the last rows, whose pages hold texts.
    ({"row_group_size": ROWS, "dictionary_pagesize_limit": 4_000}, 3_000, True),
    # So are most texts of the last row group, which is in one fragment with the first.
    ({"row_group_size": 85_000, "dictionary_pagesize_limit": 4_000}, 3_000, False),
    # It is full after the first page of many.
    ({"row_group_size": 40_000, "dictionary_pagesize_limit": 200}, 0, False),
    ({"row_group_size": 40_000, "use_dictionary": False}, 0, False),
    # More dictionaries than repeated texts.
    ({"row_group_size": 90}, 0, False),
]


@pytest.mark.parametrize(("options", "late", "coded"), WRITTEN)
@pytest.mark.parametrize("kind", [pa.string(), pa.large_string()])
def test_batches_have_the_same_rows_and_cuts(
    tmp_path: Path, options: dict[str, Any], late: int, coded: bool, kind: pa.DataType
) -> None:
    path, rows = tmp_path / "log.parquet", table(late, gaps=True)
    rows = rows.set_column(0, "action", rows["action"].cast(kind))
    rows = rows.set_column(1, "could", rows["could"].cast(pa.list_(kind)))
    pq.write_table(rows, path, **options)
    source = ParquetSource([str(path)])
    for columns in (["action"], ["could"], ["reward", "could", "action"]):
        before = records(source, columns)
        after = records(source.with_dictionaries(["action", "could"]), columns)
        assert [len(x) for x in after] == [len(x) for x in before]
        for name in columns:
            schema = before[0].schema.field(name).type
            for one, other in zip(before, after, strict=True):
                assert plain(other[name], schema).equals(one[name])
        kinds = [str(x.schema.field(name).type) for x in after for name in columns[-1:]]
        assert all(("dictionary" in x) == coded for x in kinds)


def batches(log: piwo.Log) -> list[Batch]:
    return list(log.each_batch())


@pytest.mark.parametrize("listed", [False, True])
def test_files_with_different_dictionaries_give_the_same_bytes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, listed: bool
) -> None:
    random = np.random.default_rng(0)
    paths = []
    for part in range(3):
        labels = np.roll(LABELS, 7 * part)[:40]
        first = random.integers(40, size=80_000)
        codes = (first[:, None] + np.arange(3)) % 40
        starts = np.arange(len(codes) + 1) * 3
        columns = {
            "action": pa.array(labels[first]),
            "reward": random.random(len(codes)),
            "propensity": random.uniform(0.1, 1.0, len(codes)),
            "could": pa.ListArray.from_arrays(
                pa.array(starts, pa.int32()), pa.array(labels[codes.ravel()])
            ),
        }
        paths.append(str(tmp_path / f"{part}.parquet"))
        # One file holds its texts as they are.
        options: dict[str, Any] = {"use_dictionary": part != 1}
        pq.write_table(pa.table(columns), paths[-1], row_group_size=35_000, **options)
    chosen = {"eligible": "could"} if listed else {}

    def found() -> tuple[Any, ...]:
        log = piwo.read(paths, **chosen)
        result = piwo.evaluate(log, Uniform(log.actions))
        return log.actions.labels, batches(log), (result.value.hex(), str(result))

    after = found()
    monkeypatch.setattr(ParquetSource, "with_dictionaries", lambda source, _: source)
    before = found()
    assert after[0] == before[0]
    assert after[2] == before[2]
    for one, other in zip(before[1], after[1], strict=True):
        assert one.action.tobytes() == other.action.tobytes()
        assert one.propensity.tobytes() == other.propensity.tobytes()
        if listed:
            assert one.eligible is not None
            assert other.eligible is not None
            assert one.eligible.codes.tobytes() == other.eligible.codes.tobytes()


@pytest.mark.parametrize("after", [0, 2])
def test_rows_that_arrow_cannot_read_as_dictionaries_are_read_as_text(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(table(), path, row_group_size=40_000)
    source = ParquetSource([str(path)])
    known = pq.ParquetFile.iter_batches
    left = [after]

    # As for lists in which a second dictionary begins.
    def some(file: Any, *words: Any, **named: Any) -> Any:
        if file.schema_arrow.field("could").type.value_type == pa.string():
            yield from known(file, *words, **named)
            return
        for record in known(file, *words, **named):
            if not left[0]:
                raise pa.ArrowNotImplementedError("Nested data conversions not implemented")
            left[0] -= 1
            yield record

    before = records(source, ["could"])
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", some)
    found = records(source.with_dictionaries(["could"]), ["could"])
    for one, other in zip(found, before, strict=True):
        assert plain(one["could"], other["could"].type).equals(other["could"])
    assert found[-1].schema == before[-1].schema
    assert (found[0].schema == before[0].schema) == (after == 0)


def test_columns_that_are_dictionaries_already_are_left_alone(tmp_path: Path) -> None:
    path, rows = tmp_path / "log.parquet", table()
    rows = rows.set_column(0, "action", rows["action"].combine_chunks().dictionary_encode())
    pq.write_table(rows, path, row_group_size=40_000)
    source = ParquetSource([str(path)])
    before = records(source, ["action", "could"])
    found = records(source.with_dictionaries(["action", "could"]), ["action", "could"])
    assert len(found) == len(before)
    assert all(one.equals(other) for one, other in zip(found, before, strict=True))
    # Without that column, nothing cuts the batches.
    (fragment,) = source.with_dictionaries(["could"]).fragments(["could"])
    assert "dictionary" in str(next(fragment.records()).schema.field("could").type)


def test_a_column_whose_path_another_name_has_is_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = {"could": [["a"]] * 99, "could.list.element": ["b"] * 99, "action": ["a"] * 99}
    pq.write_table(pa.table(rows), path)
    source = ParquetSource([str(path)]).with_dictionaries(["action", "could"])
    (record,) = records(source, ["could", "could.list.element", "action"])
    assert record.to_pydict() == rows
    kinds = [str(field.type).startswith("dictionary") for field in record.schema]
    assert kinds == [False, False, True]
