"""Files at addresses: a server that the tests start, read by DuckDB's extension `httpfs` where it
is installed."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.errors import FileError
from piwo.logs import read
from piwo.reductions import Digest, reduce

N = 3000
SECRET = "s3cr3t"


def rows(first: int) -> pa.Table:
    i = np.arange(first, first + N)
    columns = {
        "action": np.array(["a", "b"])[i % 2],
        "reward": (i % 4 == 0) * 1.0,
        "propensity": np.full(N, 0.5),
    }
    return pa.table({**columns, "i": i})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for day in (1, 2, 3):
        place = tmp_path / "bucket" / f"day=2026-01-0{day}"
        place.mkdir(parents=True)
        pq.write_table(rows(N * day), place / "a.parquet", row_group_size=1000)
    return tmp_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home with the extensions of the user's, and nothing else of his."""
    with closing(duckdb.connect()) as connection:
        asked = "select installed from duckdb_extensions() where extension_name = 'httpfs'"
        if connection.execute(asked).fetchall() != [(True,)]:
            pytest.skip("needs DuckDB's extension httpfs: make test-duckdb-extensions")
    made = tmp_path / "home" / ".duckdb"
    made.mkdir(parents=True)
    (made / "extensions").symlink_to(Path.home() / ".duckdb" / "extensions")
    monkeypatch.setenv("HOME", str(made.parent))
    return made.parent


@pytest.fixture
def port(folder: Path, home: Path) -> Iterator[int]:
    """The port of a server in a process of its own: DuckDB may hold the interpreter while it
    waits for an answer."""
    words = [sys.executable, str(Path(__file__).with_name("file_server.py")), str(folder)]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        yield int(server.stdout.readline())
        server.terminate()


def test_files_at_an_address_are_a_log(port: int, folder: Path) -> None:
    place = f"http://127.0.0.1:{port}/bucket"
    addresses = [f"{place}/day=2026-01-0{day}/a.parquet" for day in (1, 2)]
    there, here = read(addresses), read(f"{folder}/bucket/day=2026-01-0[12]/*.parquet")
    assert reduce(there, Digest()) == reduce(here, Digest())
    assert reduce(read(addresses[0], where="i % 3 = 0"), Digest()).rows == N // 3
    parts = there.split(0.5)
    assert reduce(parts.train, Digest()) == reduce(here.split(0.5).train, Digest())
    with pytest.raises(FileError, match=r"^[^\n]*404[^\n]*$") as caught:
        read(f"{place}/nothing.parquet?signature={SECRET}")
    assert SECRET not in str(caught.value)


def test_a_bucket_is_read_by_globs_and_days(port: int, folder: Path, home: Path) -> None:
    with closing(duckdb.connect()) as connection:
        connection.execute(
            f"create persistent secret shop (type s3, key_id 'me', secret '{SECRET}', region 'x', "
            f"use_ssl false, url_style 'path', endpoint '127.0.0.1:{port}')"
        )
    there, here = read("s3://bucket/day=*/*.parquet"), read(f"{folder}/bucket/day=*/*.parquet")
    assert reduce(there, Digest()) == reduce(here, Digest())
    uniform = piwo.policies.Uniform(there.actions)
    found = piwo.evaluate(read("s3://bucket/day=*/*.parquet", where="day >= '2026-01-02'"), uniform)
    expected = piwo.evaluate(
        read(f"{folder}/bucket/day=*/*.parquet", where="day >= '2026-01-02'"), uniform
    )
    assert (found.value, found.lower, found.upper) == (
        expected.value,
        expected.lower,
        expected.upper,
    )
    assert SECRET not in repr(there)
