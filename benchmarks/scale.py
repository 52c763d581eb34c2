"""Logs larger than memory: speed and peak memory by number of rows, one process per figure.

    python benchmarks/scale.py FOLDER [--rows 2000000 20000000 200000000] [--learn-rows 20000000]
    [--repeats 3]

The logs are made in FOLDER (benchmarks/big_log.py) and kept there; they grow by files of two
million rows. Prints, for every size, the median seconds, rows/s and the largest resident memory of
`evaluate` (both ends of the default interval; again: the second time in a process, whose memory was
in use before), of the mixture interval, of `compare` for twenty policies, of `check`, of `evaluate`
with a condition (streamed by DuckDB) and with a checkpoint; for 16 features the time of learning 20
gammas at once as a multiple of reading the columns; and what it costs to read the smallest log from
100 files. Wanted: evaluate at 8 million rows/s or more on two
cores, its time per row within 15 % from the smallest log to the largest, learning at most 4 times
reading, and never more than 1,500 MB.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from big_log import write_log
from timing import peak_memory

import piwo
from piwo.reductions import Gram, reduce
from piwo.sources.parquet import ParquetSource

GAMMAS = 20
DAY = 2_000_000
"""Rows of a file."""


def evaluate(files: str, where: str | None = None, interval: str = "auto") -> object:
    log = piwo.read(files, policy_columns="pi", where=where)
    return piwo.evaluate(log, piwo.policies.Column("pi"), interval=interval)


def mixture(files: str) -> object:
    """Evaluate with bets of fixed sizes on all rows."""
    return evaluate(files, interval="mixture")


def twenty(files: str) -> object:
    """Compare twenty policies, each mostly one action, in one pass."""
    log = piwo.read(files, actions=range(20))
    policies = {}
    for action in range(20):
        greedy = piwo.policies.Constant(action, log.actions)
        policies[f"mostly {action}"] = piwo.policies.EpsilonGreedy(greedy, 0.5)
    return piwo.compare(log, policies)


def again(files: str) -> object:
    """Evaluate; what is timed is the second time, when all memory was in use before."""
    return evaluate(files)


def conditioned(files: str) -> object:
    return evaluate(files, "day >= '2026-01-01' and propensity > 0")


def checkpointed(files: str) -> object:
    with (
        tempfile.TemporaryDirectory() as folder,
        piwo.checkpointing(Path(folder) / "kept", every=1.0),
    ):
        return evaluate(files)


def check(files: str) -> object:
    return piwo.check(piwo.read(files))


def learn(files: str) -> object:
    """Twenty ridge policies, from the sums of one pass."""
    log = piwo.read(files, context="x*", actions=range(26))
    scores = [piwo.IX(float(x)) for x in np.geomspace(1e-4, 1.0, GAMMAS)]
    return piwo.oracles.Ridge().solve_path(log, scores)


def sums(files: str) -> object:
    """The pass of `learn` alone."""
    log = piwo.read(files, context="x*", actions=range(26))
    scores = tuple(piwo.IX(float(x)) for x in np.geomspace(1e-4, 1.0, GAMMAS))
    return reduce(log, Gram(scores, 26, np.zeros(16)))


def read_columns(files: str) -> int:
    """Read the columns that learning needs on all cores, and touch nothing."""
    import glob
    import os
    from concurrent.futures import ThreadPoolExecutor

    source = ParquetSource(sorted(glob.glob(files)))
    columns = ["action", "reward", "propensity", *(f"x{i}" for i in range(16))]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return sum(
            pool.map(
                lambda part: sum(x.num_rows for x in part.records()), source.fragments(columns)
            )
        )


WAYS: dict[str, Callable[[str], object]] = {
    "evaluate": evaluate,
    "evaluate, again": again,
    "evaluate, mixture": mixture,
    "twenty policies": twenty,
    "check": check,
    "evaluate, condition": conditioned,
    "evaluate, checkpoint": checkpointed,
    "learn": learn,
    "learn, the pass": sums,
    "read the columns": read_columns,
}
SMALL = (
    "evaluate",
    "evaluate, again",
    "evaluate, mixture",
    "twenty policies",
    "check",
    "evaluate, condition",
    "evaluate, checkpoint",
)
WIDE = ("learn", "learn, the pass", "read the columns")


def measured(way: str, files: str, warm: str | Path, repeats: int) -> tuple[float, float]:
    """Return the median seconds and the peak memory in MB of processes that do one thing."""
    found = []
    for _ in range(repeats):
        words = [sys.executable, __file__, "--only", way, files, str(warm)]
        run = subprocess.run(words, capture_output=True, text=True, check=True)
        found.append(json.loads(run.stdout))
    return statistics.median(x["seconds"] for x in found), max(x["memory"] for x in found)


def only(way: str, files: str, warm: str) -> None:
    """Do one thing on a small log to warm up, then on the log that is asked for; print JSON."""
    WAYS[way](warm)
    if way == "evaluate, again":
        WAYS[way](files)
    start = time.perf_counter()
    WAYS[way](files)
    print(json.dumps({"seconds": time.perf_counter() - start, "memory": peak_memory()}))


def main() -> None:
    if sys.argv[1:2] == ["--only"]:
        only(*sys.argv[2:])
        return
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, nargs="+", default=[2_000_000, 20_000_000, 200_000_000])
    parser.add_argument("--learn-rows", type=int, nargs="+", default=[2_000_000, 20_000_000])
    parser.add_argument("--repeats", type=int, default=3)
    asked = parser.parse_args()
    print(f"{'':22}{'rows':>14}{'seconds':>10}{'million rows/s':>16}{'peak MB':>10}")
    seconds: dict[tuple[str, int], float] = {}
    for ways, features, sizes in ((SMALL, 0, asked.rows), (WIDE, 16, asked.learn_rows)):
        warm = write_log(asked.folder / f"warm-{features}", 10_000, features, days=2)
        for rows in sorted(sizes):
            files = write_log(
                asked.folder / f"{rows}-{features}", rows, features, days=max(1, rows // DAY)
            )
            for way in ways:
                took, memory = measured(way, files, warm, asked.repeats)
                seconds[way, rows] = took
                print(
                    f"{way:22}{rows:14,}{took:10.3f}{rows / took / 1e6:16.1f}{memory:10.0f}",
                    flush=True,
                )
    small, large = min(asked.rows), max(asked.rows)
    for way in ("evaluate", "evaluate, again", "twenty policies"):
        ratio = (seconds[way, large] / large) / (seconds[way, small] / small)
        print(f"time per row of {way}, {large:,} to {small:,} rows (0.85 to 1.15): {ratio:.2f}")
    cut = write_log(asked.folder / f"{small}-0-cut", small, days=100)
    took, memory = measured(
        "evaluate", cut, asked.folder / "warm-0" / "*" / "*.parquet", asked.repeats
    )
    print(
        f"{'evaluate, 100 files':22}{small:14,}{took:10.3f}{small / took / 1e6:16.1f}{memory:10.0f}"
    )
    wide = max(asked.learn_rows)
    for way in ("learn", "learn, the pass"):
        ratio = seconds[way, wide] / seconds["read the columns", wide]
        print(f"{way} to reading the columns, {wide:,} rows (learn: at most 4): {ratio:.2f}")


if __name__ == "__main__":
    main()
