"""Plain queries share one database, in which nothing stays."""

from pathlib import Path

import duckdb
import pytest

from piwo.errors import DataError
from piwo.sources.query import QuerySource, rows_of


def test_plain_queries_open_no_database_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    assert rows_of("select 1", "a query") == [(1,)]
    monkeypatch.setattr(duckdb, "connect", None)
    assert rows_of("select 2", "a query") == [(2,)]
    # the environment may have other settings of addresses by now
    with pytest.raises(TypeError):
        rows_of("from 's3://bucket/log.csv'", "a query")


def test_what_a_statement_makes_is_gone() -> None:
    QuerySource("create table made as select 1 as a")
    with pytest.raises(DataError, match="made does not exist"):
        QuerySource("from made")


def test_a_file_of_the_same_size_and_time_is_read_anew(tmp_path: Path) -> None:
    path, found = tmp_path / "log.parquet", []
    for value in (1, 2):
        duckdb.sql(f"select {value} as a").write_parquet(str(path))
        found += rows_of(f"from '{path}'", "a query")
    assert found == [(1,), (2,)]
