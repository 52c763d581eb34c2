"""Files, globs, queries and frames: what they hold arrives as it was written, or is refused in
one line."""

import datetime as dt
import gzip
import io
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.logs import Log, read
from piwo.reductions import Digest, reduce

TABLE = pa.table(
    {
        "action": ["b", "a", "b", "c"],
        "reward": [0.0, 1.0, 0.5, 0.25],
        "propensity": [0.5, 0.25, 1.0, 0.125],
        "age": [1, 2, 3, 4],
        "city": ["x", "y", "x", "x"],
    }
)


def contents(log: Log) -> tuple[list[Any], list[float], list[float]]:
    batches = list(log.each_batch())
    actions = [x for b in batches for x in log.actions.take(b.action).tolist()]
    return (
        actions,
        np.concatenate([b.reward for b in batches]).tolist(),
        np.concatenate([b.propensity for b in batches]).tolist(),
    )


def write(path: Path, text: str) -> str:
    path.write_text(text, "utf-8")
    return str(path)


def refusal(call: Any) -> str:
    with pytest.raises(PiwoError) as refused:
        call()
    assert "\n" not in str(refused.value), str(refused.value)
    return str(refused.value)


CONNECTION = duckdb.connect()
EXPECTED = contents(read(TABLE))


# --- the same everywhere


def save(kind: str, folder: Path) -> Any:
    frame = TABLE.to_pandas()
    path = folder / f"log.{kind}"
    if kind in ("parquet", "pq"):
        pq.write_table(TABLE, path, row_group_size=2)
    elif kind in ("csv", "txt"):
        frame.to_csv(path, index=False)
    elif kind == "tsv":
        frame.to_csv(path, index=False, sep="\t")
    elif kind == "csv.gz":
        frame.to_csv(path, index=False, compression="gzip")
    elif kind in ("jsonl", "ndjson", "json"):
        frame.to_json(path, orient="records", lines=True)
    elif kind == "jsonl.gz":
        frame.to_json(path, orient="records", lines=True, compression="gzip")
    return str(path)


@pytest.mark.parametrize(
    "kind", ["parquet", "pq", "csv", "txt", "tsv", "csv.gz", "jsonl", "ndjson", "json", "jsonl.gz"]
)
def test_every_file_type_holds_the_same_log(kind: str, tmp_path: Path) -> None:
    log = read(save(kind, tmp_path), context=["age", "city"])
    assert contents(log) == EXPECTED
    assert log.features is not None
    assert log.features.names == ("age", "city=x", "city=y")
    assert reduce(log, Digest()) == reduce(read(TABLE), Digest())


FRAMES = {
    "arrow": lambda: TABLE,
    "record batch": lambda: TABLE.to_batches()[0],
    "reader": lambda: TABLE.to_reader(),
    "pandas": TABLE.to_pandas,
    "pandas with another index": lambda: TABLE.to_pandas().set_index(pd.Index([9, 7, 5, 5])),
    "pandas nullable": lambda: TABLE.to_pandas().convert_dtypes(),
    "pandas categorical": lambda: TABLE.to_pandas().astype({"action": "category"}),
    "polars": lambda: pl.DataFrame(TABLE),
    "polars categorical": lambda: pl.DataFrame(TABLE).with_columns(
        pl.col("action").cast(pl.Categorical)
    ),
    "polars enum": lambda: pl.DataFrame(TABLE).with_columns(
        pl.col("action").cast(pl.Enum(["c", "a", "b"]))
    ),
    "duckdb relation": lambda: CONNECTION.from_arrow(TABLE),
    "mapping": TABLE.to_pydict,
    "query": lambda: (
        "-- Łódź; a comment\nselect * from (values ('b', 0.0, 0.5), ('a', 1, 0.25), ('b', 0.5, 1), "
        "('c', 0.25, 0.125)) as t(action, reward, propensity); -- the end"
    ),
}


@pytest.mark.parametrize("kind", FRAMES)
def test_every_frame_holds_the_same_log(kind: str) -> None:
    assert contents(read(FRAMES[kind]())) == EXPECTED


@pytest.mark.parametrize("series", [pd.Series, pl.Series, pa.array, np.array, list])
def test_every_kind_of_column_holds_the_same_log(series: Any) -> None:
    values = {name: TABLE[name].to_pylist() for name in ("action", "reward", "propensity")}
    assert contents(Log.from_arrays(**{name: series(x) for name, x in values.items()})) == EXPECTED


def test_an_index_is_no_column() -> None:
    frame = TABLE.to_pandas().drop(columns="city").set_index(pd.Index([9, 7, 5, 5]))
    log = read(frame, context="*")
    assert log.features is not None
    assert log.features.names == ("age",)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        (lambda: (x for x in TABLE.to_pylist()), "cannot read a log from generator"),
        (lambda: pd.Series([1, 2]), ""),
        (lambda: pl.Series([1, 2]), ""),
        (lambda: TABLE.to_pylist(), "cannot read a log from list"),
        (lambda: np.zeros((3, 3)), "cannot read a log from ndarray"),
        (lambda: None, "cannot read a log from NoneType"),
        (lambda: {"action": ["a", 1], "reward": [0, 1], "propensity": [1, 1]}, "one type"),
        (lambda: {"action": ["a"], "reward": [0, 1], "propensity": [1, 1]}, ""),
        (
            # The column matters when it is used.
            lambda: read(pd.DataFrame({"action": ["a", 1], "reward": 0, "propensity": 1})).actions,
            "values of several types",
        ),
        (
            lambda: pd.DataFrame([["a", 1, 1.0]], columns=["action", "reward", "reward"]),
            "two columns",
        ),
    ],
)
def test_what_is_no_frame_is_refused(source: Any, words: str) -> None:
    assert words in refusal(lambda: read(source()))


@pytest.mark.parametrize("role", ["action", "reward", "propensity"])
def test_missing_values_of_nullable_pandas_columns_are_named(role: str) -> None:
    frame = TABLE.to_pandas().convert_dtypes()
    frame.loc[2, role] = pd.NA
    message = refusal(lambda: contents(read(frame)))
    assert f"column {role!r} is missing in 1 row (row numbers from 0: 2)" in message


# --- names


NAMES = [
    "a.b",
    'quo"te',
    "it's",
    "with space",
    "Łódź −5",
    "select",
    "semi;colon",
    "a,b",
    "[x]",
    "{y}",
    "*",
    "-- x",
    "CASE",
    "case",
]


@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
@pytest.mark.parametrize("name", NAMES)
def test_columns_of_any_name(kind: str, name: str, tmp_path: Path) -> None:
    frame = TABLE.to_pandas().rename(
        columns={"action": name, "propensity": name + "_p", "age": name + "_c"}
    )
    path = tmp_path / f"log.{kind}"
    {
        "parquet": frame.to_parquet,
        "csv": lambda x: frame.to_csv(x, index=False),
        "jsonl": lambda x: frame.to_json(x, orient="records", lines=True),
    }[kind](path)
    log = read(path, action=name, propensity=name + "_p", context=name + "_c")
    assert contents(log) == EXPECTED
    assert log.features is not None


def test_parquet_columns_that_differ_only_in_case(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(
        TABLE.append_column("Action", pa.array(["X"] * 4)).select(["Action", *TABLE.column_names]),
        path,
    )
    assert contents(read(path)) == EXPECTED


def test_a_column_is_not_the_field_of_another(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    struct = pa.array([{"b": i} for i in range(4)])
    pq.write_table(
        TABLE.append_column("a", struct).append_column("a.b", pa.array([5.0, 6.0, 7.0, 8.0])), path
    )
    batch = next(read(path, context="a.b").each_batch(context=True))
    assert batch.context is not None
    assert batch.context[:, 0].tolist() == [5.0, 6.0, 7.0, 8.0]


@pytest.mark.parametrize(
    "name", ["lo[1].g", "it's", "a*b", "what?", "Łódź −5 %", "two words", 'q"uote']
)
@pytest.mark.parametrize("kind", ["parquet", "csv", "jsonl"])
def test_files_of_any_name(name: str, kind: str, tmp_path: Path) -> None:
    for folder in (tmp_path / name, tmp_path / "other"):
        folder.mkdir()
    saved = Path(save(kind, tmp_path / "other"))
    path = saved.rename(tmp_path / name / f"{name}.{kind}")
    assert contents(read(path)) == EXPECTED


# --- CSV


HEAD = "action,reward,propensity\n"


def test_csv_in_the_wild(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    write(path, "\ufeff" + HEAD + "NA,1,0.5\n01,0,0.5\nnull,0,0.5\n")
    assert contents(read(path))[0] == ["NA", "01", "null"]
    write(path, "action;reward;propensity\na;1;0.5\nb;0;0.5\n")
    assert contents(read(path))[0] == ["a", "b"]
    write(path, HEAD + '"two\nlines",1,0.5\n"a ""quote"", and comma",0,0.5\n')
    assert contents(read(path))[0] == ["two\nlines", 'a "quote", and comma']
    write(path, HEAD + "only,1,0.5\n")
    assert contents(read(path)) == (["only"], [1.0], [0.5])
    write(path, HEAD.replace("\n", "\r\n") + "a,1,0.5\r\nb,0,0.5\r\n")
    assert contents(read(path))[0] == ["a", "b"]
    write(path, HEAD + "1582218195625938945,0,0.5\n1582218195625938944,1,0.5\n")
    assert contents(read(path))[0] == ["1582218195625938945", "1582218195625938944"]


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "the file is empty"),
        (HEAD, "no rows"),
        (HEAD.strip(), "no rows"),
        (HEAD + "a,1,0.5\n,0,0.5\n", "column 'action' is missing in 1 row (row numbers from 0: 1)"),
        (HEAD + "a,1,0.5\nb,,0.5\n", "column 'reward' is missing in 1 row"),
        (HEAD + "a,1,0.5\nb,0,\n", "column 'propensity' is missing in 1 row"),
        (
            HEAD + "a,1,0.5\nb,0,NA\n",
            "expected in 1 row (row numbers from 0: 1); such as 'NA'",
        ),
        (HEAD + "a,1,0.5\nb,0,1e400\n", "'propensity' is infinite"),
        (HEAD + "a,1,0.5\nb,0\n", ""),
        ("action,reward\na,1\n", "no column 'propensity'"),
        ("1,2,3\n4,5,6\n", "no column 'action'"),
        ("\x00\x01\x02", ""),
    ],
)
def test_csv_that_cannot_be_used(text: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", text)
    assert words in refusal(lambda: reduce(read(path), Digest()))


def test_a_number_column_with_a_mark_for_missing_is_no_label(tmp_path: Path) -> None:
    path = write(tmp_path / "log.csv", "action,reward,propensity,age\na,1,0.5,10\nb,0,0.5,NA\n")
    with pytest.raises(DataError, match="'age' holds numbers and 'NA'"):
        read(path, context="age").features  # noqa: B018


def test_a_word_after_the_rows_that_were_looked_at_first(tmp_path: Path) -> None:
    path = write(
        tmp_path / "log.csv",
        "action,reward,propensity,age\n" + "a,1,0.5,1\n" * 30_000 + "a,1,0.5,old\n",
    )
    assert "old" in refusal(lambda: list(read(path, context="age").each_batch(context=True)))
    path = write(tmp_path / "log2.csv", HEAD + "a,1,0.5\n" * 30_000 + "a,x,0.5\n")
    assert "(row numbers from 0: 30000); such as 'x'" in refusal(
        lambda: reduce(read(path), Digest())
    )


def test_dates_are_no_context(tmp_path: Path) -> None:
    day = str(dt.date(2026, 1, 2))
    for path in (
        write(
            tmp_path / "log.csv", f"action,reward,propensity,day\na,1,0.5,{day}\nb,0,0.5,{day}\n"
        ),
        write(
            tmp_path / "log.jsonl", f'{{"action":"a","reward":1,"propensity":1,"day":"{day}"}}\n'
        ),
    ):
        with pytest.raises(UsageError, match="context column 'day' has type"):
            read(path, context="day").features  # noqa: B018


def test_latin_1_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes((HEAD + "Łódź,1,0.5\n").encode("iso-8859-2"))
    assert refusal(lambda: reduce(read(path), Digest()))


# --- JSON


def test_json_lines_in_the_wild(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    write(
        path,
        '{"action":1582218195625938945,"reward":true,"propensity":0.5,"mu":[0.5,0.5],"x":1}\n'
        '{"action":7,"reward":0,"propensity":0.5,"mu":[0.5,0.5],"x":2}\n',
    )
    log = read(
        path,
        context="x",
        actions=[7, 1582218195625938945],
        propensities="mu",
        propensity="propensity",
    )
    assert contents(log) == ([1582218195625938945, 7], [1.0, 0.0], [0.5, 0.5])


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (
            '{"action":"a","reward":1,"propensity":1}\n{"action":"a"}\n',
            "'reward' is missing in 1 row",
        ),
        ('{"action":"a","reward":1,"propensity":1}\n{"action":"a","rew', ""),
        ('{"action":"a","reward":"x","propensity":1}\n', "'reward' holds text"),
        ('{"action":"a","reward":{"v":1},"propensity":1}\n', "'reward' holds text"),
        ("[1, 2]\n", ""),
        ("not json\n", ""),
    ],
)
def test_json_that_cannot_be_used(text: str, words: str, tmp_path: Path) -> None:
    path = write(tmp_path / "log.jsonl", text)
    assert words in refusal(lambda: reduce(read(path), Digest()))


# --- several files


@pytest.mark.parametrize(
    "name",
    [
        "rows.parquet",
        "day=1/rows.parquet",
        "day=1/shop=x/rows.PARQUET",
        "day=1/.rows.csv|day=1/b/rows.parquet",
    ],
)
def test_a_folder_is_refused_with_a_glob_that_means_its_files(tmp_path: Path, name: str) -> None:
    for path in (tmp_path / "log" / one for one in name.split("|")):
        path.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(
            pa.table({"action": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5]}), path
        )
    for given in (tmp_path / "log", f"{tmp_path / 'log'}/"):
        said = refusal(lambda given=given: read(given))
        glob = said.rpartition("such as ")[2]
        assert "//" not in glob
        assert len(read(glob)) == 2


def test_globs_and_lists_are_read_in_the_order_of_their_names(tmp_path: Path) -> None:
    for kind in ("parquet", "csv", "jsonl"):
        for i in (2, 0, 1):
            saved = Path(save(kind, tmp_path))
            saved.rename(tmp_path / f"{i}.{kind}")
        log = read(tmp_path / f"?.{kind}")
        assert contents(log)[0] == EXPECTED[0] * 3
        assert contents(read([tmp_path / f"{i}.{kind}" for i in range(3)]))[1] == EXPECTED[1] * 3


def test_files_with_their_columns_in_another_order_are_matched_by_name(tmp_path: Path) -> None:
    frame = TABLE.to_pandas().drop(columns=["age", "city"])
    for kind, name in (("csv", "to_csv"), ("parquet", "to_parquet")):
        options = {"index": False}
        getattr(frame, name)(tmp_path / f"1.{kind}", **options)
        getattr(frame[["propensity", "reward", "action"]], name)(tmp_path / f"2.{kind}", **options)
        log = read(tmp_path / f"*.{kind}")
        assert contents(log) == tuple(x * 2 for x in EXPECTED)


def test_files_with_other_columns_are_refused(tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        frame = TABLE.to_pandas()
        for i, part in enumerate((frame, frame.rename(columns={"propensity": "pscore"}))):
            part.to_csv(tmp_path / f"{i}.csv", index=False)
            part.to_parquet(tmp_path / f"{i}.parquet")
        message = refusal(lambda: reduce(read(str(tmp_path / f"*.{kind}")), Digest()))  # noqa: B023
        assert "propensity" in message
    TABLE.to_pandas().assign(action=[1, 2, 3, 4]).to_parquet(tmp_path / "1.parquet")
    assert "has type" in refusal(lambda: reduce(read(str(tmp_path / "*.parquet")), Digest()))


def test_whole_numbers_of_two_widths_are_one_column(tmp_path: Path) -> None:
    for i, kind in enumerate(("int32", "int64")):
        TABLE.to_pandas().assign(action=np.array([1, 2, 3, 4], kind)).to_parquet(
            tmp_path / f"{i}.parquet"
        )
    assert contents(read(str(tmp_path / "*.parquet")))[0] == [1, 2, 3, 4] * 2


def test_files_of_several_types_or_none(tmp_path: Path) -> None:
    save("csv", tmp_path)
    save("parquet", tmp_path)
    assert "several types in one log (csv, parquet)" in refusal(
        lambda: read(str(tmp_path / "log.*"))
    )
    assert "no file" in refusal(lambda: read(str(tmp_path / "*.none")))
    (tmp_path / "empty").mkdir()
    assert "is a folder, expected files; it holds no file with a known ending" in refusal(
        lambda: read(tmp_path / "empty")
    )
    assert "unknown ending" in refusal(lambda: read(write(tmp_path / "log.xlsx", "x")))
    assert "no file" in refusal(lambda: read("x" * 5000))
    assert "no file" in refusal(lambda: read("from.csv"))


# --- Parquet


def test_parquet_that_is_damaged(tmp_path: Path) -> None:
    path = Path(save("parquet", tmp_path))
    whole = path.read_bytes()
    for damaged in (whole[:-50], whole[:10], b"PAR1", b"not parquet at all"):
        path.write_bytes(damaged)
        with pytest.raises(FileError, match="cannot be read as Parquet"):
            read(path)
    body = bytearray(whole)
    body[4:120] = b"\xff" * 116
    path.write_bytes(bytes(body))
    with pytest.raises(PiwoError) as refused:
        reduce(read(path, actions=["a", "b", "c"]), Digest())
    assert "\n" not in str(refused.value)
    with pytest.raises(PiwoError):
        reduce(read(path), Digest())


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(TABLE.slice(0, 0), path)
    assert "no rows" in refusal(lambda: reduce(read(path), Digest()))
    with pq.ParquetWriter(path, TABLE.schema):
        pass
    assert pq.read_metadata(path).num_row_groups == 0
    assert "no rows" in refusal(lambda: reduce(read(path, actions=["a"]), Digest()))
    pq.write_table(TABLE, tmp_path / "more.parquet")
    assert contents(read(str(tmp_path / "*.parquet"))) == EXPECTED


# --- SQL


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("select * from no_such_table", "no_such_table"),
        ("select * frm x", ""),
        ("select 1; select 2", "got 2 SQL statements"),
        ("select 'a' as action, 1 as reward", "no column 'propensity'"),
        ("select * from 'no/such/file.parquet'", ""),
        ("select 'a' as action, 1 as reward, 1/0.0 as propensity", "is infinite"),
        ("select 'a' as action, cast('x' as int) as reward, 1 as propensity", ""),
        ("select 'a' as action, 1 as reward, 1 as propensity where false", "no rows"),
    ],
)
def test_sql_that_cannot_be_used(sql: str, words: str) -> None:
    assert words in refusal(lambda: reduce(read(sql), Digest()))


def test_sql_with_a_connection_of_the_user() -> None:
    connection = duckdb.connect()
    connection.register("t", TABLE)
    assert contents(Log.from_sql("from t", connection=connection)) == EXPECTED
    assert contents(Log.from_sql(" \n select * from t ; ", connection=connection)) == EXPECTED


def test_gzip_that_is_cut_off(tmp_path: Path) -> None:
    data = io.BytesIO()
    with gzip.GzipFile(fileobj=data, mode="wb") as file:
        file.write((HEAD + "a,1,0.5\n" * 100_000).encode())
    path = tmp_path / "log.csv.gz"
    path.write_bytes(data.getvalue()[:-100])
    assert refusal(lambda: reduce(read(path), Digest()))
