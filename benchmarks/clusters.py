"""Logs on clusters: rows/s a core on Spark and Dask beside the local engine, bytes of states, and memory of the driver.

    python benchmarks/clusters.py                 20 million rows in 8 files, about five minutes
    python benchmarks/clusters.py 1e8 --only "local" "spark, 1 core" "spark, 2 cores"

All ways read the same Parquet files; Spark's executors themselves, and once more as rows that come through the JVM, as
they do of any frame that is more than its files. Each way runs in a process of its own, so that its peak memory is its
own, and every pass once before it is timed: what is compared is passes, not the start of machines. The extrapolation
is one.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import peak_memory

import piwo
from piwo.engines import reduce
from piwo.oracles.ridge import first_mean
from piwo.reductions import Gram, PolicySums, Reduction, packed
from piwo.scores import IW, IX

WIDTH, ACTIONS, FILE_ROWS = 8, 16, 2_500_000
WAYS = ("local", "spark, 1 core", "spark, 2 cores", "spark's rows, 2 cores", "dask, 1 core", "dask, 2 cores")
REPEATS = 3
HOP = "nothing: rows counted in Python"
"""What every pass over Spark's rows pays: they become Arrow in the JVM, and go to Python."""


def write(folder: Path, rows: int) -> None:
    """Write the log: three numeric roles, 8 context columns, 16 actions."""
    for i, first in enumerate(range(0, rows, FILE_ROWS)):
        rng, n = np.random.default_rng(i), min(FILE_ROWS, rows - first)
        action = rng.integers(0, ACTIONS, n)
        columns = {
            "action": action,
            "reward": (rng.random(n) < 0.1).astype(float),
            "propensity": np.full(n, 1 / ACTIONS),
        }
        context = {f"x{j}": rng.normal(size=n) for j in range(WIDTH)}
        pq.write_table(pa.table(columns | context), folder / f"part-{i:04}.parquet", row_group_size=262_144)


@contextmanager
def opened(way: str, folder: Path) -> Iterator[Any]:
    """Give what piwo reads the rows from."""
    name, _, cores = way.partition(", ")
    count = int(cores.split()[0]) if cores else 2
    if name == "local":
        yield f"{folder}/*.parquet"
    elif name.startswith("spark"):
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import lit

        builder = SparkSession.builder.master(f"local[{count}]").config("spark.ui.enabled", "false")
        # where rows come from Spark: half a file or so a partition, however many cores there are
        builder = builder.config("spark.sql.files.maxPartitionBytes", "16m").config("spark.log.level", "OFF")
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        try:
            frame = session.read.parquet(str(folder))
            yield frame if name == "spark" else frame.withColumn("one", lit(1))  # and so more than its files
        finally:
            session.stop()
    else:
        import dask.dataframe as dd
        from distributed import Client, LocalCluster

        with (
            LocalCluster(n_workers=count, threads_per_worker=1, dashboard_address=":0") as cluster,
            Client(cluster),
        ):
            yield dd.read_parquet(folder, split_row_groups=True)


def passes(log: piwo.Log) -> dict[str, Callable[[], object]]:
    """Return what is timed: one pass each."""
    uniform, scores = piwo.policies.Uniform(log.actions), tuple(IX(0.001 * 2.0**i) for i in range(8))
    gram = Gram(scores, ACTIONS, first_mean(log))
    return {
        "evaluate, uniform policy": lambda: reduce(log, PolicySums(uniform, IW())),
        f"Gram sums, {WIDTH} features, 8 scores": lambda: reduce(log, gram),
    }


def timed(way: str, folder: Path) -> dict[str, Any]:
    """Return the median seconds of each pass, and the peak memory of this process and of those it started."""
    import psutil  # comes with Dask

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    with opened(way, folder) as source:
        log = piwo.read(source, context="x*", actions=range(ACTIONS))
        hop: dict[str, Callable[[], object]] = {HOP: lambda: rows_in_python(source)} if "rows" in way else {}
        for name, run in {**passes(log), **hop}.items():
            run()
            seconds = []
            for _ in range(REPEATS):
                start = time.perf_counter()
                run()
                seconds.append(time.perf_counter() - start)
            found[name] = statistics.median(seconds)
        largest = max([_peak_of(child) for child in psutil.Process().children(recursive=True)], default=0.0)
    return {"seconds": found, "driver": peak_memory(), "largest child": largest}


def rows_in_python(frame: Any) -> None:
    """Take three columns to Spark's Python workers, and only count their rows there."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": pa.array([sum(x.num_rows for x in batches)])})

    frame.select("action", "reward", "propensity").mapInArrow(counted, "rows long").collect()


def _peak_of(process: Any) -> float:
    """Return the largest resident memory of another process so far, in MB; what it holds now where nothing tells."""
    status = Path(f"/proc/{process.pid}/status")
    lines = status.read_text(encoding="utf-8").splitlines() if status.exists() else []
    peaks = [float(line.split()[1]) / 1e3 for line in lines if line.startswith("VmHWM")]
    return peaks[0] if peaks else float(process.memory_info().rss) / 1e6


def alone(way: str, folder: Path) -> dict[str, Any]:
    """Return `timed` of a process of its own."""
    words = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{way}: {done.stderr[-2000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def state_sizes() -> list[tuple[str, int]]:
    """Return the bytes that a partition sends, by what is summed."""
    made: list[tuple[str, Reduction[Any]]] = [("one policy", PolicySums(piwo.policies.Uniform(range(16)), IW()))]
    for d, k, s in ((8, 16, 1), (8, 16, 8), (16, 26, 20), (100, 26, 20), (100, 1000, 1), (100, 1000, 20)):
        made.append((f"ridge, d = {d}, K = {k}, {s} scores", Gram((IX(0.1),) * s, k, np.zeros(d))))
    return [(name, len(packed(reduction.empty()))) for name, reduction in made]


def report(found: dict[str, dict[str, Any]], rows: int) -> None:
    """Print the tables of docs/clusters.md."""
    print(f"\n{rows:,} rows in {-(-rows // FILE_ROWS)} files\n")
    print("| way | pass | seconds | rows/s a core | driver, MB | largest worker, MB |\n|---|---|---|---|---|---|")
    for way, one in found.items():
        cores = 1 if "1 core" in way else 2
        for name, seconds in one["seconds"].items():
            rate, worker = f"{rows / seconds / cores:,.0f}", "" if way == "local" else f"{one['largest child']:.0f}"
            print(f"| {way} | {name} | {seconds:.2f} | {rate} | {one['driver']:.0f} | {worker} |")
    print("\n| ratio | pass | measured | aim |\n|---|---|---|---|")
    for above, below, aim in (
        ("spark, 2 cores", "local", "at most 3"),
        ("spark, 1 core", "spark, 2 cores", "at least 1.7"),
        ("spark's rows, 2 cores", "local", ""),
        ("spark's rows, 2 cores", "spark, 2 cores", ""),
        ("dask, 2 cores", "local", ""),
        ("dask, 1 core", "dask, 2 cores", ""),
    ):
        if above in found and below in found:
            for name, seconds in found[below]["seconds"].items():
                print(f"| {above} / {below} | {name} | {found[above]['seconds'][name] / seconds:.2f} | {aim} |")
    print("\n| sums of | bytes that a partition sends |\n|---|---|")
    for name, size in state_sizes():
        print(f"| {name} | {size:,} |")
    print("\nExtrapolated, not measured: 1e11 rows on 400 cores at these rates a core\n")
    print("| way | pass | minutes |\n|---|---|---|")
    for way in (x for x in found if x.endswith("2 cores")):
        for name, seconds in ((x, y) for x, y in found[way]["seconds"].items() if x != HOP):
            print(f"| {way.split(',')[0]} | {name} | {1e11 / (rows / seconds / 2) / 400 / 60:.0f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="?", type=float, default=20e6)
    parser.add_argument("--only", nargs="+", choices=WAYS, default=WAYS, help="ways, all of them by default")
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.way:
        print(json.dumps(timed(asked.way, asked.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), int(asked.rows))
        found = {}
        for way in asked.only:
            print(way, "...", file=sys.stderr, flush=True)
            found[way] = alone(way, Path(folder))
    report(found, int(asked.rows))


if __name__ == "__main__":
    main()
