"""A two-sided evaluation of a large Parquet log, against the mixture, and DuckDB on the same file.

    python benchmarks/evaluate.py [--rows 20000000]

Prints the ratio of the default interval, bets on 64 blocks of rows, to the mixture, bets of fixed
sizes on all rows (wanted: at most 1.4), the ratio to streaming the same four columns to Arrow with
DuckDB (wanted: at most 2.5), the ratio of DuckDB computing twenty log-sums in SQL, one side of one
interval, to the whole evaluation (wanted: at least 3), and the peak memory of a process that only
evaluates (wanted: below 1 GB).
"""

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import duckdb
import pyarrow as pa
from timing import alternate, peak_memory

import piwo
from piwo.reductions import BETS

COLUMNS = "action, reward, propensity, pi"


def write_log(path: Path, rows: int) -> None:
    """Write a log of 20 actions with clicks, propensities from .02 and a target-policy column."""
    duckdb.sql(
        f"copy (select (random() * 20)::int as action, (random() < 0.1)::int::double as reward, "
        f"0.02 + 0.9 * random() as propensity, random() as pi from range({rows})) to '{path}'"
    )


def evaluate(path: Path, interval: str = "auto") -> piwo.Evaluation:
    """Evaluate as a user would: the action list is found, every row is validated."""
    log = piwo.read(str(path), policy_columns="pi")
    return piwo.evaluate(log, piwo.policies.Column("pi"), interval=interval)


def stream(path: Path) -> int:
    """Read the same columns with DuckDB and touch nothing."""
    relation = duckdb.connect().sql(f"select {COLUMNS} from '{path}'")
    return sum(batch.num_rows for batch in pa.RecordBatchReader.from_stream(relation))


def log_sums(path: Path) -> object:
    """Compute twenty of the log-sums in SQL."""
    sums = ", ".join(f"sum(ln(1 + {bet} * pi * reward / propensity))" for bet in BETS[:20])
    return duckdb.connect().sql(f"select {sums} from '{path}'").fetchall()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    parser.add_argument(
        "--only", type=Path, help="evaluate this file once and print the peak memory"
    )
    asked = parser.parse_args()
    if asked.only:
        evaluate(asked.only)
        print(f"{peak_memory():.0f}")
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "log.parquet"
        write_log(path, asked.rows)
        ways = {
            "piwo": lambda: evaluate(path),
            "mixture": lambda: evaluate(path, "mixture"),
            "stream": lambda: stream(path),
            "sql": lambda: log_sums(path),
        }
        seconds = alternate(ways, repeats=5)
        memory = subprocess.run(
            [sys.executable, __file__, "--only", str(path)],
            capture_output=True,
            text=True,
            check=True,
        )
    print(f"rows                                        {asked.rows:,}")
    speed = asked.rows / seconds["piwo"] / 1e6
    print(
        f"full two-sided evaluation                   {seconds['piwo']:.3f} s, {speed:.0f} million "
        "rows/s"
    )
    print(f"the same with the mixture interval          {seconds['mixture']:.3f} s")
    print(f"DuckDB streams the same columns             {seconds['stream']:.3f} s")
    print(f"DuckDB sums twenty logarithms               {seconds['sql']:.3f} s")
    print(f"ratio to the mixture (at most 1.4)          {seconds['piwo'] / seconds['mixture']:.2f}")
    print(f"ratio to streaming (at most 2.5)            {seconds['piwo'] / seconds['stream']:.2f}")
    print(f"times faster than twenty log-sums (3)       {seconds['sql'] / seconds['piwo']:.2f}")
    print(f"peak memory of an evaluation (below 1,000)  {memory.stdout.strip()} MB")


if __name__ == "__main__":
    main()
