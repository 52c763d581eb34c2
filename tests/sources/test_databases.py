"""Tables of DuckDB files, and files at addresses."""

import json
import shlex
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest

from piwo.cli.main import main
from piwo.errors import FileError, PiwoError, UsageError
from piwo.logs import read
from piwo.reductions import Digest, reduce
from piwo.visible import without_secrets

ROWS = (
    "select (i % 3)::varchar as action, (i % 2)::double as reward, 0.5 as propensity, i from "
    "range(500) t(i)"
)
HOSTILE = "a\"b'; drop table clicks; --#.x"


@pytest.fixture
def database(tmp_path: Path) -> Path:
    path = tmp_path / "the 'logs' #1.db"
    with duckdb.connect(str(path)) as connection:
        connection.execute(f"create table clicks as {ROWS}")
        connection.execute("create schema shop")
        connection.execute(f"create table shop.clicks as {ROWS} where i < 100")
        connection.execute(f"create table shop.only as {ROWS} where i < 200")
        connection.execute(
            'create table "' + HOSTILE.replace('"', '""') + f'" as {ROWS} where i < 50'
        )
        connection.execute("create view recent as from clicks where i >= 400")
    return path


@pytest.mark.parametrize(
    ("table", "rows"),
    [("clicks", 500), ("main.clicks", 500), ("shop.clicks", 100), ("only", 200), ("recent", 100)],
)
def test_a_table_is_a_log(table: str, rows: int, database: Path) -> None:
    log = read(f"duckdb:{database}#{table}")
    assert reduce(log, Digest()).rows == rows
    assert log.source.rows == (None if table == "recent" else rows)
    assert log.source.steady == (table != "recent")
    assert log.name == f"{database}#{table}"
    assert reduce(read(f"duckdb:{database}#{table}", where="i % 2 = 0"), Digest()).rows == rows // 2


def test_hostile_names_are_names(database: Path, tmp_path: Path) -> None:
    # the file that is there says which # is the mark
    assert reduce(read(f"duckdb:{database}#{HOSTILE}"), Digest()).rows == 50
    assert reduce(read(f"duckdb:{database}#clicks"), Digest()).rows == 500


@pytest.mark.parametrize(
    ("table", "rows"), [("CLICKS", 500), ("Shop.Clicks", 100), ("MAIN.clicks", 500), ("ONLY", 200)]
)
def test_case_does_not_count_as_in_duckdb(table: str, rows: int, database: Path) -> None:
    assert len(read(f"duckdb:{database}#{table}")) == rows


def test_a_file_that_another_process_writes_is_one_line(database: Path) -> None:
    code = (
        "import duckdb, sys; c = duckdb.connect(sys.argv[1]); print('ready', flush=True); "
        "sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(database)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == b"ready\n"
        with pytest.raises(
            FileError,
            match=r"cannot be read \(.*lock.*\); check that it exists, is complete and not in use",
        ) as caught:
            read(f"duckdb:{database}#clicks")
        other.communicate(b"")
    assert "\n" not in str(caught.value)
    assert "duckdb_tables" not in str(caught.value)


def test_what_is_not_there_is_said_in_one_line(database: Path, tmp_path: Path) -> None:
    (tmp_path / "text.db").write_text("no database at all, however long it is" * 200)
    for text, words in (
        (f"duckdb:{database}#click", "no table 'click' in .*, such as 'clicks'"),
        (f"duckdb:{tmp_path}/no.db#clicks", "no file .*no.db', expected a DuckDB database"),
        (f"duckdb:{tmp_path}/text.db#clicks", "cannot be read"),
    ):
        with pytest.raises(FileError, match=words) as caught:
            read(text)
        assert "\n" not in str(caught.value)
    for text in ("duckdb:", "duckdb:a.db", "duckdb:a.db#", "duckdb:#t"):
        with pytest.raises(UsageError, match="expected duckdb:FILE#TABLE"):
            read(text)


def test_the_database_is_not_written_to(database: Path) -> None:
    before = database.read_bytes()
    reduce(read(f"duckdb:{database}#clicks"), Digest())
    assert database.read_bytes() == before
    assert not list(database.parent.glob("*.wal"))


def test_the_command_reads_tables_and_suggests_what_can_be_typed(
    database: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["check", f"duckdb:{database}#clicks"]) == 0
    step = capsys.readouterr().out.splitlines()[-1].removeprefix("next: piwo ")
    assert main([*shlex.split(step), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["log"]["rows"] == 500


# --- addresses


def test_addresses_need_an_extension_and_show_no_secret() -> None:
    secret = "hunter2"
    for address in (
        f"s3://me:{secret}@bucket/day=*/*.parquet",
        f"https://localhost:1/a.parquet?X-Amz-Signature={secret}",
    ):
        with pytest.raises(FileError) as caught:
            read(address)
        assert secret not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_a_missing_extension_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(
        FileError, match=r"extension 'httpfs', .* is not installed; install it once.*install httpfs"
    ):
        read("select * from read_parquet('s3://bucket/a.parquet')")


def test_addresses_are_parquet_and_stand_alone(tmp_path: Path) -> None:
    (tmp_path / "a.parquet").write_text("x")
    for source in ("https://host/a.csv", ["https://host/a.parquet", str(tmp_path / "a.parquet")]):
        with pytest.raises(PiwoError, match="is an address, and addresses are read as Parquet"):
            read(source)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "postgresql://u:p@ss/w@h:1/db?sslmode=x&password=y#t",
            "postgresql://***@h:1/db?***#t",
        ),
        ("postgresql://u:p%40@h/db#t", "postgresql://***@h/db#t"),
        ("dbname=x password = 'a b' host=y", "dbname=x password = *** host=y"),
        ("password=abc", "password=***"),
        ("a.parquet", "a.parquet"),
    ],
)
def test_secrets_are_stars(text: str, shown: str) -> None:
    assert without_secrets(text) == shown
