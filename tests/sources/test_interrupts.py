"""Ctrl-C while DuckDB works is what Python raises then, however DuckDB tells it."""

import subprocess
import sys

import duckdb
import pyarrow as pa
import pytest

from piwo.sources.duckdb_errors import duckdb_errors

CODE = """
import os, signal, threading
import piwo
sql = (
    "select 'a' as action, 0.5 as propensity, 1 as reward from range(10000000) t(x) order by "
    "hash(x)"
)
log = piwo.read(sql, actions=['a'])
signal.signal(signal.SIGINT, signal.default_int_handler)
threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
try:
    piwo.evaluate(log, piwo.policies.Constant("a", ["a"]))
except BaseException as cause:
    print(type(cause).__name__)
"""


def test_an_interrupt_is_an_interrupt() -> None:
    run = [sys.executable, "-c", CODE]
    done = subprocess.run(run, capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "KeyboardInterrupt\n"


@pytest.mark.parametrize(
    "cause",
    [
        duckdb.InterruptException("INTERRUPT Error: Interrupted!"),
        RuntimeError("Query interrupted"),
        pa.ArrowInvalid("Unable to read: INTERRUPT Error: Interrupted!"),
    ],
)
def test_however_it_is_told(cause: Exception) -> None:
    with pytest.raises(KeyboardInterrupt), duckdb_errors("the query"):
        raise cause
    with pytest.raises(RuntimeError, match="something else"), duckdb_errors("the query"):
        raise RuntimeError("something else")
