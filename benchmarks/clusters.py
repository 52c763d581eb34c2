"""Logs on clusters: Spark and Dask against the local engine, in rows/s per core, and memory.

    python benchmarks/clusters.py                 20 million rows in 8 files, about ten minutes
    python benchmarks/clusters.py 2e8 --only "local, 1 core" "local, 2 cores" "spark, 1 core"
    "spark, 2 cores"

All ways read the same Parquet files; Spark's executors themselves, and once more as rows that come
through the JVM, as those of any frame do that is more than its files. Each way runs in a process of
its own, so that its peak memory is its own, and every pass once before it is timed: what is
compared is passes, not the start of machines. Seconds and ratios are medians over rounds, a round
being all ways one after the other. The extrapolation is one.
"""

import argparse
import json
import os
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
from piwo.oracles.examples import first_mean
from piwo.reductions import Gram, PolicySums, Reduction, packed, reduce
from piwo.scores import IW, IX

WIDTH, ACTIONS, FILE_ROWS = 8, 16, 2_500_000
WAYS = (
    "local, 1 core",
    "local, 2 cores",
    "spark, 1 core",
    "spark, 2 cores",
    "spark through the JVM, 2 cores",
    "dask, 1 core",
    "dask, 2 cores",
)
Rounds = list[dict[str, dict[str, Any]]]
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
        pq.write_table(
            pa.table(columns | context), folder / f"part-{i:04}.parquet", row_group_size=262_144
        )


@contextmanager
def opened(way: str, folder: Path) -> Iterator[Any]:
    """Give what piwo reads the rows from."""
    name, _, cores = way.partition(", ")
    count = int(cores.split()[0])
    if name == "local":
        if hasattr(os, "sched_setaffinity"):  # Linux
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:count])
        yield f"{folder}/*.parquet"
    elif name.startswith("spark"):
        from pyspark.sql import SparkSession
        from pyspark.sql.functions import lit

        builder = SparkSession.builder.master(f"local[{count}]").config("spark.ui.enabled", "false")
        # where rows come from Spark: half a file or so a partition, however many cores there are
        builder = builder.config("spark.sql.files.maxPartitionBytes", "16m").config(
            "spark.log.level", "OFF"
        )
        session = builder.config("spark.ui.showConsoleProgress", "false").getOrCreate()
        try:
            frame = session.read.parquet(str(folder))
            yield (
                frame if name == "spark" else frame.withColumn("one", lit(1))
            )  # and so more than its files
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
    uniform, scores = (
        piwo.policies.Uniform(log.actions),
        tuple(IX(0.001 * 2.0**i) for i in range(8)),
    )
    gram = Gram(scores, ACTIONS, first_mean(log))
    return {
        "evaluate, uniform policy": lambda: reduce(log, PolicySums(uniform, IW())),
        f"Gram sums, {WIDTH} features, 8 scores": lambda: reduce(log, gram),
    }


def timed(way: str, folder: Path) -> dict[str, Any]:
    """Return seconds of each pass, and peak memory of this process, a JVM, the largest worker."""
    import psutil  # comes with Dask

    warnings.simplefilter("ignore")
    found: dict[str, Any] = {}
    with opened(way, folder) as source:
        log = piwo.read(source, context="x*", actions=range(ACTIONS))
        hop: dict[str, Callable[[], object]] = (
            {HOP: lambda: rows_in_python(source)} if "JVM" in way else {}
        )
        for name, run in {**passes(log), **hop}.items():
            run()
            start = time.perf_counter()
            run()
            found[name] = time.perf_counter() - start
        others = psutil.Process().children(recursive=True)
        peaks = {
            kind: [_peak_of(x) for x in others if x.name().startswith(kind)]
            for kind in ("java", "python")
        }
    return {
        "seconds": found,
        "driver": peak_memory(),
        **{kind: max(x, default=0.0) for kind, x in peaks.items()},
    }


def rows_in_python(frame: Any) -> None:
    """Take three columns to Spark's Python workers, and only count their rows there."""

    def counted(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield pa.record_batch({"rows": pa.array([sum(x.num_rows for x in batches)])})

    frame.select("action", "reward", "propensity").mapInArrow(counted, "rows long").collect()


def _peak_of(process: Any) -> float:
    """Return the peak resident memory of another process in MB; if unknown, its current one."""
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
    made: list[tuple[str, Reduction[Any]]] = [
        ("one policy", PolicySums(piwo.policies.Uniform(range(16)), IW()))
    ]
    for d, k, s in (
        (8, 16, 1),
        (8, 16, 8),
        (16, 26, 20),
        (100, 26, 20),
        (100, 1000, 1),
        (100, 1000, 20),
    ):
        made.append((f"ridge, d = {d}, K = {k}, {s} scores", Gram((IX(0.1),) * s, k, np.zeros(d))))
    return [(name, len(packed(reduction.empty()))) for name, reduction in made]


def median(rounds: Rounds, way: str, name: str, over: str | None = None) -> float:
    """Return the median seconds of a pass, or its median ratio to another way in the same round."""
    seconds: list[float] = [x[way]["seconds"][name] for x in rounds]
    below: list[float] = [1.0 if over is None else x[over]["seconds"][name] for x in rounds]
    return statistics.median(x / y for x, y in zip(seconds, below, strict=True))


def report(rounds: Rounds, rows: int) -> None:
    """Print the tables of docs/clusters.md."""
    found = rounds[0]
    print(f"\n{rows:,} rows in {-(-rows // FILE_ROWS)} files, {len(rounds)} rounds\n")
    print("| way | pass | seconds | rows/s a core | driver, MB | JVM, MB | largest worker, MB |")
    print("|---|---|---|---|---|---|---|")
    for way, one in found.items():
        cores = 1 if "1 core" in way else 2
        peaks = [max(x[way][kind] for x in rounds) for kind in ("driver", "java", "python")]
        memory = " | ".join(f"{x:.0f}" if x else "" for x in peaks)
        for name in one["seconds"]:
            seconds = median(rounds, way, name)
            print(f"| {way} | {name} | {seconds:.2f} | {rows / seconds / cores:,.0f} | {memory} |")
    print("\n| ratio | pass | measured | aim |\n|---|---|---|---|")
    for above, below, aim in (
        ("spark, 2 cores", "local, 2 cores", "at most 3"),
        ("spark, 1 core", "spark, 2 cores", "at least 1.7"),
        ("local, 1 core", "local, 2 cores", ""),
        ("spark through the JVM, 2 cores", "local, 2 cores", ""),
        ("spark through the JVM, 2 cores", "spark, 2 cores", ""),
        ("dask, 2 cores", "local, 2 cores", ""),
        ("dask, 1 core", "dask, 2 cores", ""),
    ):
        if above in found and below in found:
            for name in found[below]["seconds"]:
                print(
                    f"| {above} / {below} | {name} | {median(rounds, above, name, below):.2f} | "
                    f"{aim} |"
                )
    print("\n| sums of | bytes that a partition sends |\n|---|---|")
    for name, size in state_sizes():
        print(f"| {name} | {size:,} |")
    print("\nExtrapolated, not measured: 1e11 rows on 400 cores at these rates a core\n")
    print("| way | pass | minutes |\n|---|---|---|")
    for way in (x for x in found if x.endswith("2 cores") and not x.startswith("local")):
        for name in (x for x in found[way]["seconds"] if x != HOP):
            minutes = 1e11 / (rows / median(rounds, way, name) / 2) / 400 / 60
            print(f"| {way.split(',')[0]} | {name} | {minutes:.1f} |")


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("rows", nargs="?", type=float, default=20e6)
    parser.add_argument(
        "--only", nargs="+", choices=WAYS, default=WAYS, help="ways, all of them by default"
    )
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--way", choices=WAYS, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args(arguments)
    if asked.way:
        print(json.dumps(timed(asked.way, asked.folder)))
        return
    with tempfile.TemporaryDirectory() as folder:
        write(Path(folder), int(asked.rows))
        rounds: Rounds = []
        for i in range(asked.rounds):
            rounds.append({})
            for way in asked.only:
                print(f"round {i + 1}: {way} ...", file=sys.stderr, flush=True)
                rounds[-1][way] = alone(way, Path(folder))
    report(rounds, int(asked.rows))


if __name__ == "__main__":
    main()
