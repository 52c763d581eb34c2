"""The value of one policy on one log: piwo and its peers, each in its own process.

    python benchmarks/peers.py [--rows 100000 1000000 10000000] [--peers PYTHON] [--seconds 120]
    [--memory 16]

Every way starts from the file and ends at its number, after a warm-up on a thousand rows; imports
are not counted. A way that needs more than --seconds or more than --memory GB at one size is not
tried at larger ones. --peers is a Python with the peers (pip install obp vw-estimators polars
pandas duckdb), where that is another one than this; a way whose library is missing is said to be
so.

A second table tells how often each interval of 95 % misses the true value, over --logs small logs
of the same kind.
"""

import argparse
import importlib.util
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

ACTIONS = 10
SHARE = 0.05
"""Chance that an interval may miss."""
SMALL = 2000
"""Rows of a log in the table of misses."""
RESAMPLES = 100
"""Bootstrap samples of Open Bandit Pipeline, its default."""

Answer = tuple[float, float | None, float | None]
"""Value, lower and upper bound."""


def bandit() -> tuple[Any, Any, Any]:
    """Return behavior policy, target policy and click rates; the target prefers rare actions."""
    import numpy as np

    behavior, target = np.geomspace(1, 1e-3, ACTIONS), np.geomspace(1, 10, ACTIONS)
    return behavior / behavior.sum(), target / target.sum(), np.linspace(0.02, 0.08, ACTIONS)


def write_log(path: Path, rows: int, seed: int = 7) -> None:
    """Write clicks on ten actions."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    behavior, target, clicks = bandit()
    writer, step = None, 1_000_000
    for number, start in enumerate(range(0, rows, step)):
        rng = np.random.default_rng([seed, number])
        action = rng.choice(ACTIONS, min(step, rows - start), p=behavior)
        reward = (rng.random(len(action)) < clicks[action]).astype(float)
        part = pa.table(
            {
                "action": action,
                "reward": reward,
                "propensity": behavior[action],
                "pi": target[action],
            }
        )
        writer = writer or pq.ParquetWriter(path, part.schema)
        writer.write_table(part, row_group_size=250_000)
    if writer is not None:
        writer.close()


def _columns(path: str, *names: str) -> list[Any]:
    """Read columns as a user of a NumPy library does."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=list(names))
    return [table[name].to_numpy() for name in names]


def piwo_evaluate(path: str) -> Answer:
    """Both sides of the mixture interval, every row validated."""
    import piwo

    found = piwo.evaluate(
        piwo.read(path, policy_columns="pi"), piwo.policies.Column("pi"), delta=SHARE
    )
    if found.value is None:
        raise SystemExit(str(found))
    return found.value, found.lower, found.upper


def duckdb_sql(path: str) -> Answer:
    """One line of SQL."""
    import duckdb

    ((value,),) = (
        duckdb.connect().sql(f"select avg(pi / propensity * reward) from '{path}'").fetchall()
    )
    return float(value), None, None


def polars_scan(path: str) -> Answer:
    """One lazy line."""
    import polars as pl

    weighted = pl.col("pi") / pl.col("propensity") * pl.col("reward")
    return (
        float(pl.scan_parquet(path).select(weighted.mean()).collect(engine="streaming").item()),
        None,
        None,
    )


def pandas_line(path: str) -> Answer:
    """One line over a frame in memory."""
    import pandas as pd

    frame = pd.read_parquet(path)
    return float((frame.pi / frame.propensity * frame.reward).mean()), None, None


def vw_ips(path: str) -> Answer:
    """The estimator of vw-estimators, fed row by row as its interface asks."""
    estimator = import_module("estimators.bandits.ips").Estimator()
    for p, r, pi in zip(*_columns(path, "propensity", "reward", "pi"), strict=True):
        estimator.add_example(p, r, pi)
    return estimator.get(), None, None


def vw_cressie_read(path: str) -> Answer:
    """The empirical-likelihood interval of vw-estimators, fed row by row."""
    library = import_module("estimators.bandits.cressieread")
    estimator, interval = library.Estimator(), library.Interval(empirical_r_bounds=False)
    for p, r, pi in zip(*_columns(path, "propensity", "reward", "pi"), strict=True):
        estimator.add_example(p, r, pi)
        interval.add_example(p, r, pi)
    lower, upper = interval.get(alpha=SHARE)
    return estimator.get(), lower, upper


def vw_sequence(path: str) -> Answer:
    """The confidence sequence of vw-estimators, fed row by row; it has no value of its own."""
    interval = import_module("estimators.bandits.cs").Interval(empirical_r_bounds=False)
    for p, r, pi in zip(*_columns(path, "propensity", "reward", "pi"), strict=True):
        interval.add_example(p, r, pi)
    lower, upper = interval.get(alpha=SHARE)
    return (lower + upper) / 2, lower, upper


def _obp_inputs(path: str) -> dict[str, Any]:
    import numpy as np

    action, reward, p, pi = _columns(path, "action", "reward", "propensity", "pi")
    table = np.repeat(((1 - pi) / (ACTIONS - 1))[:, None], ACTIONS, axis=1)
    table[np.arange(len(action)), action] = pi
    return {"reward": reward, "action": action, "pscore": p, "action_dist": table[:, :, None]}


def obp_ipw(path: str) -> Answer:
    """Open Bandit Pipeline: its table of a probability per row and action included."""
    estimator = import_module("obp.ope").InverseProbabilityWeighting()
    return float(estimator.estimate_policy_value(**_obp_inputs(path))), None, None


def obp_bootstrap(path: str) -> Answer:
    """Open Bandit Pipeline with its bootstrap interval."""
    found = (
        import_module("obp.ope")
        .InverseProbabilityWeighting()
        .estimate_interval(
            **_obp_inputs(path), alpha=SHARE, n_bootstrap_samples=RESAMPLES, random_state=1
        )
    )
    share = 100 * (1 - SHARE)
    return (
        float(found["mean"]),
        float(found[f"{share}% CI (lower)"]),
        float(found[f"{share}% CI (upper)"]),
    )


@dataclass(frozen=True)
class Way:
    """One way to a number."""

    name: str
    library: str
    run: Callable[[str], Answer]
    guarantee: str


WAYS = (
    Way(
        "piwo evaluate",
        "piwo",
        piwo_evaluate,
        "interval, 95 % at this n, no largest weight assumed; rows validated",
    ),
    Way("DuckDB, one line", "duckdb", duckdb_sql, "value only"),
    Way("polars, one line", "polars", polars_scan, "value only"),
    Way("pandas, one line", "pandas", pandas_line, "value only"),
    Way("vw-estimators, ips", "estimators", vw_ips, "value only"),
    Way("vw-estimators, Cressie-Read", "estimators", vw_cressie_read, "interval, 95 % as n grows"),
    Way("vw-estimators, cs", "estimators", vw_sequence, "interval, 95 % at every n"),
    Way("Open Bandit Pipeline, IPW", "obp", obp_ipw, "value only"),
    Way(
        "Open Bandit Pipeline, IPW, bootstrap",
        "obp",
        obp_bootstrap,
        f"interval, as n grows; {RESAMPLES} resamples",
    ),
)


def run_alone(way: Way, path: Path, warm: Path, logs: int) -> None:
    """Run one way here; print value, bounds, seconds and MB, or misses of many logs, as JSON."""
    if importlib.util.find_spec(way.library) is None:
        print(json.dumps({"failed": "not installed"}))
        return
    if logs:
        print(json.dumps(misses(way, path, logs)))
        return
    way.run(str(warm))
    start = time.perf_counter()
    value, lower, upper = way.run(str(path))
    seconds = time.perf_counter() - start
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1e6 if sys.platform == "darwin" else 1e3
    )
    print(
        json.dumps(
            {"value": value, "lower": lower, "upper": upper, "seconds": seconds, "memory": memory}
        )
    )


def misses(way: Way, path: Path, logs: int) -> dict[str, Any]:
    """Return how many intervals of small logs lie below, and above, the true value."""
    _, target, clicks = bandit()
    truth, below, above = float(target @ clicks), 0, 0
    for seed in range(logs):
        write_log(path, SMALL, seed=1000 + seed)
        _, lower, upper = way.run(str(path))
        below += upper is not None and upper < truth
        above += lower is not None and lower > truth
    return {"below": below, "above": above}


def measure(
    way: Way, python: str, files: Sequence[Path], seconds: float, memory: float, logs: int = 0
) -> dict[str, Any]:
    """Run one way in a process of its own, within its limits."""
    command = [
        python,
        __file__,
        "--way",
        way.name,
        "--logs",
        str(logs),
        "--files",
        *map(str, files),
    ]
    limit = int(memory * 1e9)
    try:
        found = subprocess.run(
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=seconds,
            preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_DATA, (limit, limit)),
        )
    except subprocess.TimeoutExpired:
        return {"failed": f"more than {seconds:.0f} s"}
    if found.returncode:
        last = (found.stderr.strip().splitlines() or [f"exit code {found.returncode}"])[-1]
        return {
            "failed": f"more than {memory:.0f} GB" if "MemoryError" in found.stderr else last[:80]
        }
    return dict(json.loads(found.stdout.splitlines()[-1]))


def row(way: Way, rows: int, found: dict[str, Any]) -> str:
    """Return a row of the table."""
    if "failed" in found:
        return f"| {rows:,} | {way.name} | {found['failed']} | | | | {way.guarantee} |"
    interval = "" if found["lower"] is None else f"[{found['lower']:.4f}, {found['upper']:.4f}]"
    speed = f"{rows / found['seconds'] / 1e6:.3g}"
    memory, value = f"{found['memory']:,.0f}", f"{found['value']:.4f}"
    return (
        f"| {rows:,} | {way.name} | {speed} | {memory} | {value} | {interval} | {way.guarantee} |"
    )


def compare_misses(logs: int, peers: str) -> None:
    """Print how often the intervals miss."""
    print(
        f"\n| way | below the value, of {logs} logs of {SMALL:,} rows | above it | what it is "
        "|\n|---|---|---|---|"
    )
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.parquet"
        for way in WAYS:
            if "interval" in way.guarantee:
                python = sys.executable if way.library == "piwo" else peers
                found = measure(way, python, (path, path), 3600.0, 16.0, logs)
                told = (
                    found["failed"] if "failed" in found else f"{found['below']} | {found['above']}"
                )
                print(f"| {way.name} | {told} | {way.guarantee} |", flush=True)


def compare(sizes: Sequence[int], peers: str, seconds: float, memory: float) -> None:
    """Print the table, size by size."""
    print(
        "| rows | way | million rows/s | peak MB | value | interval | what it is "
        "|\n|---|---|---|---|---|---|---|"
    )
    gone: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        warm = Path(folder) / "warm.parquet"
        write_log(warm, 1000)
        for rows in sizes:
            path = Path(folder) / "log.parquet"
            write_log(path, rows)
            for way in WAYS:
                if way.name in gone:
                    continue
                python = sys.executable if way.library == "piwo" else peers
                found = measure(way, python, (path, warm), seconds, memory)
                if "failed" in found:
                    gone.add(way.name)
                print(row(way, rows, found), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, nargs="+", default=[100_000, 1_000_000, 10_000_000])
    parser.add_argument(
        "--peers", default=sys.executable, help="a Python in which the peers are installed"
    )
    parser.add_argument("--seconds", type=float, default=120.0, help="limit of one run")
    parser.add_argument("--memory", type=float, default=16.0, help="limit of one run in GB")
    parser.add_argument(
        "--logs", type=int, default=400, help="small logs for the table of misses; 0: none"
    )
    parser.add_argument("--way", help=argparse.SUPPRESS)
    parser.add_argument("--files", type=Path, nargs=2, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.way:
        path, warm = asked.files
        run_alone(next(way for way in WAYS if way.name == asked.way), path, warm, asked.logs)
        return
    compare(asked.rows, asked.peers, asked.seconds, asked.memory)
    if asked.logs:
        compare_misses(asked.logs, asked.peers)


if __name__ == "__main__":
    main()
