"""PostgreSQL: a real server that the tests start. One snapshot for all passes, streaming, and no
password anywhere."""

import json
import os
import pickle
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from datetime import UTC, date, datetime, time
from pathlib import Path
from time import sleep
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.cli.main import main
from piwo.engines import checkpointing
from piwo.errors import DataError, FileError, UsageError
from piwo.logs import read
from piwo.reductions import ActionTable, Digest, reduce
from piwo.sources import source as sources_module
from piwo.sources.postgres import postgres_source

SECRET = "s3cr3t/=@#"
QUOTED = "s3cr3t%2F=%40%23"
ROWS = 20_000


def binaries() -> Path | None:
    """The folder of initdb: Debian keeps it off the path."""
    found = shutil.which("initdb")
    places = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return places[-1] if places else None


def as_user(words: list[str], user: str | None) -> None:
    # the server refuses to run as root
    prefix = [] if user is None else ["runuser", "-u", user, "--"]
    subprocess.run([*prefix, *words], check=True, capture_output=True, text=True)


def other_user() -> str | None:
    if os.geteuid() != 0:
        return None
    names = {x.pw_name for x in pwd.getpwall()}
    return next((x for x in ("postgres", "nobody") if x in names), None)


@pytest.fixture(scope="module")
def started() -> Iterator[str]:
    """The address of a server with a few tables."""
    pytest.importorskip("adbc_driver_postgresql", reason="needs piwo[postgres]")
    place, user = binaries(), other_user()
    if place is None:
        pytest.skip("needs PostgreSQL's server programs (initdb)")
    if os.geteuid() == 0 and (user is None or shutil.which("runuser") is None):
        pytest.skip("needs a user besides root to run PostgreSQL as")
    folder = Path(tempfile.mkdtemp(prefix="piwo-pg-", dir="/tmp"))  # a socket's path is short
    try:
        (folder / "password").write_text(SECRET)
        if user is not None:
            shutil.chown(folder, user)
            shutil.chown(folder / "password", user)
        data = str(folder / "data")
        as_user(
            [
                str(place / "initdb"),
                "-D",
                data,
                "-A",
                "scram-sha-256",
                "-U",
                "me",
                "--pwfile",
                str(folder / "password"),
                "--no-sync",
                "-E",
                "UTF8",
                "--locale=C",
            ],
            user,
        )
        options = (
            f"-c listen_addresses= -c unix_socket_directories={folder} -c fsync=off -c "
            "shared_buffers=16MB"
        )
        control = [str(place / "pg_ctl"), "-D", data, "-w"]
        as_user([*control, "-o", options, "-l", str(folder / "log"), "start"], user)
        try:
            address = f"postgresql://me:{QUOTED}@/postgres?host={folder}"
            fill(address)
            yield address
        finally:
            as_user([*control, "-m", "immediate", "stop"], user)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def server(started: str) -> str:
    """The address of the server, without tables that other tests made."""
    ask(started, "drop table if exists moving, other")
    return started


def ask(address: str, *statements: str) -> None:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(address, autocommit=True) as connection, connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement)


def fill(address: str) -> None:
    ask(
        address,
        "create table clicks as select i, (i % 3)::text as action, (i % 2)::numeric(5, 2) as "
        "reward, 0.5::float4 as propensity, date '2026-01-01' + i % 5 as day, i % 7 = 0 as flag, "
        "array[i % 2, 0.5]::numeric[] as both, "
        f"gen_random_uuid() as id, ('{{\"a\": ' || i || '}}')::jsonb as page from "
        f"generate_series(1, {ROWS}) i",
        "create index on clicks (action)",
        "create schema shop",
        "create table shop.clicks as select * from clicks where i <= 100",
        'create table "a""b; drop table clicks; --" as select * from clicks where i <= 50',
        "create view recent as select * from clicks where i <= 10",
        "analyze",
    )


def test_a_table_is_a_log_of_plain_types(server: str) -> None:
    log = read(f"{server}#clicks", context=["flag", "i"])
    assert reduce(log, Digest()).rows == ROWS
    assert log.actions.labels == ("0", "1", "2")
    kinds = {x.name: str(x.type) for x in log.source.schema}
    assert (kinds["reward"], kinds["both"], kinds["id"], kinds["page"]) == (
        "double", "list<item: double>", "string", "string",
    )  # fmt: skip
    assert reduce(log, ActionTable(3)).reward.sum() == ROWS / 2
    assert log.source.steady
    context = np.concatenate([batch.context for batch in log.each_batch(context=True)])
    assert context[:, 1].tolist() == list(range(1, ROWS + 1))


@pytest.mark.parametrize(
    ("asked", "rows"),
    [
        ("shop.clicks", 100),
        ('a"b; drop table clicks; --', 50),
        ("recent", 10),
        ("public.clicks", ROWS),
        ("select * from clicks where i < 31;", 30),
        ("with a as (select * from clicks limit 7) select * from a -- so", 7),
    ],
)
def test_tables_by_schema_hostile_names_and_queries(asked: str, rows: int, server: str) -> None:
    log = read(f"{server}#{asked}")
    assert reduce(log, Digest()).rows == rows
    assert log.source.steady == (asked != "recent" and " " not in asked.partition(";")[0])


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        ("clicks where random() < 0.5", r"random\(\) in "),
        ("clicks where $$it's$$ <> '' and random() < 0.5 and 'x' <> ''", r"random\(\) in "),
        ("clicks where E'it\\'s' <> '' and random() < 0.5 and 'x' <> ''", r"random\(\) in "),
        ("clicks where /* it's */ random/**/() < 0.5 and 'x' <> ''", r"random\(\) in "),
        ("clicks where 1 = 1 -- it's\n and random() < 0.5 and 'x' <> ''", r"random\(\) in "),
        ("clicks tablesample system (10)", "a sample without a seed in "),
        ("clicks where day < now() - interval '7 days'", "now in .* is another time at every pass"),
        ("clicks where day < localtimestamp", "localtimestamp in .* is another time at every pass"),
    ],
)
def test_chance_and_clocks_are_refused(asked: str, told: str, server: str) -> None:
    with pytest.raises(UsageError, match=told):
        read(f"{server}#select * from {asked}")
    if "where" in asked:
        with pytest.raises(UsageError, match=told):
            read(f"{server}#clicks", where=asked.partition("where")[2])
    again = (
        "select * from clicks tablesample bernoulli (50) repeatable (3) where action <> 'now()' "
        "and day < current_date"
    )
    assert len({reduce(read(f"{server}#{again}"), Digest()) for _ in range(2)}) == 1


def test_every_pass_sees_one_snapshot(server: str) -> None:
    ask(server, "create table moving as select * from clicks")
    log = read(f"{server}#moving")
    before = reduce(log, Digest())
    ask(server, "update moving set reward = 1 where i < 500", "delete from moving where i > 15000")
    assert reduce(log, Digest()) == before
    parts = log.split(0.5)
    assert reduce(parts.train, Digest()).merge(reduce(parts.test, Digest())) == before
    assert reduce(read(f"{server}#moving"), Digest()).rows == 15_000


TYPES = {
    "true": ("bool", True),
    "7::int2": ("int16", 7),
    "7": ("int32", 7),
    "7::int8": ("int64", 7),
    "0.5::float4": ("float", 0.5),
    "0.1": ("double", 0.1),
    "0.5::numeric(6,3)": ("double", 0.5),
    "'7.25'::money": ("double", 7.25),
    "4294967295::oid": ("int64", 4294967295),
    "0.5::smaller": ("double", 0.5),
    "'x'": ("string", "x"),
    "'x'::char(3)": ("string", "x"),
    "'x'::name": ("string", "x"),
    "'ok'::mood": ("string", "ok"),
    "'{}'::json": ("string", "{}"),
    "'10.0.0.1'::inet": ("string", "10.0.0.1/32"),
    "null::text": ("string", None),
    "point(1, 2)": ("string", "(1,2)"),
    "'12:00+01'::timetz": ("string", "12:00:00+01"),
    "'a'::bytea": ("binary", b"a"),
    "date '2026-01-31'": ("date32[day]", date(2026, 1, 31)),
    "time '12:00'": ("time64[us]", time(12)),
    "timestamp '2026-01-31'": ("timestamp[us]", datetime(2026, 1, 31)),  # noqa: DTZ001
    "timestamptz '2026-01-31+01'": ("timestamp[us, tz=UTC]", datetime(2026, 1, 30, 23, tzinfo=UTC)),
    "array[1, null]": ("list<item: int32>", [1, None]),
    "array[0.5]": ("list<item: double>", [0.5]),
    "array['ok'::mood]": ("list<item: string>", ["ok"]),
    "array[date '2026-01-31']": ("list<item: date32[day]>", [date(2026, 1, 31)]),
    "array[]::float8[]": ("list<item: double>", []),
}


def test_types(server: str) -> None:
    ask(
        server,
        "drop domain if exists smaller, small",
        "drop type if exists mood",
        "create domain small as numeric(5, 1)",
        "create domain smaller as small",
        "create type mood as enum ('ok')",
    )
    columns = ", ".join(f"{sql} as c{i}" for i, sql in enumerate(TYPES))
    source = postgres_source(f"{server}#select {columns}")
    table = pa.Table.from_batches(list(source.fragments(source.schema.names)[0].records()))
    assert table.schema == source.schema
    found = [(str(x.type), table[x.name][0].as_py()) for x in table.schema]
    assert dict(zip(TYPES, found, strict=True)) == TYPES


def test_a_database_in_another_encoding(server: str) -> None:
    other = server.replace("/postgres?", "/latin?")
    ask(
        server,
        "drop database if exists latin",
        "create database latin encoding 'LATIN1' template template0",
    )
    ask(other, "create table clicks as select chr(233) as action, 1 as reward, 0.5 as propensity")
    assert read(f"{other}#clicks").actions.labels == ("\u00e9",)


def test_conditions_are_decided_by_the_server(server: str) -> None:
    log = read(f"{server}#clicks", where="day >= '2026-01-03' and reward > 0 -- paid")
    rows = [i for i in range(1, ROWS + 1) if i % 5 >= 2 and i % 2]
    assert reduce(log, Digest()).rows == len(rows)
    with pytest.raises(FileError, match="nope"):
        read(f"{server}#clicks", where="nope > 1")
    with pytest.raises(FileError, match="division by zero"):
        reduce(read(f"{server}#clicks", where="i / (i - 30) > 1"), Digest())


def test_rows_are_streamed(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 500)
    log = read(f"{server}#select * from clicks, generate_series(1, 50)")
    (fragment,) = log.fragments()
    pieces = fragment.pieces()
    first = [next(pieces) for _ in range(3)]
    assert [x.start for x in first] == [0, 2000, 4000]
    pieces.close()
    assert reduce(log, Digest()).rows == 50 * ROWS


def running(server: str) -> int:
    from adbc_driver_postgresql import dbapi

    with dbapi.connect(server, autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute(
            "select count(*) from pg_stat_activity where state = 'active' and pid <> "
            "pg_backend_pid()"
        )
        return int(cursor.fetchone()[0])


def test_a_query_that_is_not_read_to_its_end_is_stopped(server: str) -> None:
    log = read(f"{server}#select clicks.* from clicks, generate_series(1, 100000)")
    (fragment,) = log.fragments()
    pieces = fragment.pieces()
    next(pieces)
    assert running(server) == 1
    pieces.close()  # two billion rows are neither read to their end nor sent
    for _ in range(100):
        if not running(server):
            break
        sleep(0.1)  # a busy server takes a moment to stop
    assert running(server) == 0


@pytest.mark.parametrize("quick", [0, 400_000])  # rows that come before the server lets one wait
def test_ctrl_c_stops_the_server(quick: int, server: str) -> None:
    ask(
        server,
        "create or replace function slow(i int) returns int as $$begin perform pg_sleep(60); "
        "return i; end$$ "
        "language plpgsql stable",
    )
    slow = f"select 1 as x from generate_series(1, 500000) i where i <= {quick} or slow(i) > 0"
    source = postgres_source(f"{server}#{slow}")
    (fragment,) = source.fragments(["x"])
    timer = threading.Timer(0.5, os.kill, [os.getpid(), signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        sum(x.num_rows for x in fragment.records())
    assert running(server) == 0


def test_a_fragment_is_pickled(server: str) -> None:
    log = read(f"{server}#clicks")
    (fragment,) = log.source.fragments(["i"])
    copy = pickle.loads(pickle.dumps(fragment))
    assert sum(x.num_rows for x in copy.records()) == ROWS


def test_a_checkpoint_is_of_one_snapshot(server: str, tmp_path: Path) -> None:
    def run() -> Any:
        with checkpointing(tmp_path / "kept"):
            found = reduce(read(f"{server}#clicks"), Digest())
            if (tmp_path / "stop").exists():
                raise KeyboardInterrupt
            return found

    (tmp_path / "stop").touch()
    with pytest.raises(KeyboardInterrupt):
        run()
    ask(server, "create table other as select 1 as x")
    (tmp_path / "stop").unlink()
    with pytest.raises(FileError, match="has changed since"):
        run()


def test_no_password_is_printed(
    server: str, capfd: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    table = f"{server}#clicks"
    told: list[str] = [repr(read(table)), repr(read(table).source), repr(read(table).fragments())]
    for bad in (
        f"{server}#nope", server, f"{server}#", f"{server}#select nope",
        f"{server}#select 1/0 as action",
        table.replace(QUOTED, "s3cr3t%zz"), table.replace(QUOTED, "s3cr3t%00"),
        table.replace("me:", "you:"),
        table.replace("host=", "nonsense="), table.replace("/postgres", "/nope"),
        "postgresql://me:" + SECRET + "@localhost:1/db#t",
    ):  # fmt: skip
        with pytest.raises((FileError, UsageError, DataError)) as caught:
            reduce(read(bad), Digest())
        told.append(str(caught.value))
        assert "\n" not in told[-1]
        assert main(["check", bad, "--debug"]) == 2
    assert main(["check", table]) == 0
    assert main(["evaluate", table, "--policy", "uniform", "--json"]) == 0
    policy = str(tmp_path / "p.piwo")
    assert main(["learn", table, "--context", "flag", "--oracle", "ridge", "--out", policy]) == 0
    assert main(["policy", "show", policy]) == 0
    told += [*capfd.readouterr(), (tmp_path / "p.piwo").read_bytes().decode("latin-1")]
    for text in told:
        assert SECRET not in text
        assert QUOTED not in text
        assert "s3cr3t" not in text


def test_the_command_reads_a_table(server: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert (
        main(
            [
                "evaluate",
                f"{server}#clicks",
                "--policy",
                "constant:1",
                "--where",
                "i <= 1000",
                "--json",
            ]
        )
        == 0
    )
    found = json.loads(capsys.readouterr().out)
    assert found["log"]["rows"] == 1000
    assert found["log"]["source"].startswith("postgresql:///postgres#clicks")


def test_without_the_driver_one_line_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "adbc_driver_postgresql", None)
    with pytest.raises(FileError, match=r"not installed; pip install 'piwo\[postgres\]'"):
        piwo.read("postgresql://me@localhost:1/db#clicks")


def test_conditions_on_instants_are_in_utc_whatever_the_server_says(server: str) -> None:
    ask(
        server,
        "create table moving as select 'a'::text as action, 1.0::float8 as reward, 0.5::float8 "
        "as propensity, timestamptz '2025-12-31 12:00+00' + i * interval '1 hour' as ts "
        "from generate_series(0, 23) i",
        "alter database postgres set timezone = 'Asia/Tokyo'",
    )
    try:
        for where in ("ts >= '2026-01-01'", "cast(ts as date) = date '2026-01-01'"):
            assert len(read(f"{server}#moving", where=where)) == 12
    finally:
        ask(server, "alter database postgres reset timezone")
