"""Seconds, CPU and memory of `Auto().fit(log)`: the learner of `piwo learn`, by rows and actions.

    python benchmarks/learn.py [--sizes 20000x26 1000000x26 20000x500 200000x500] [--busy 8]
    [--folder FOLDER]

Every size is one process, which reads a Parquet file of 16 numeric context columns that was made
from a seed (kept in FOLDER if one is given): the logger is a softmax of half-informed linear
scores, a tenth of it uniform, and the best action pays with probability .9, others with .1. Prints
wall and CPU seconds of `fit` without imports, the largest resident memory, and what was chosen.
`--busy 8` runs each size beside 8 processes that keep the cores busy; CPU seconds then show whether
threads spin.

Wanted on two idle cores: 20,000 rows and 26 actions in 4 s, 1,000,000 in 40 s and 1,000 MB; 500
actions: 20,000 rows in 8 s, 200,000 in 60 s; beside 8 busy processes at most twice the CPU.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import peak_memory

import piwo

FEATURES = 16
SIZES = ("20000x26", "100000x26", "1000000x26", "20000x500", "200000x500")
GROUP = 100_000
"""Rows that are made at a time."""


def made(rows: int, actions: int, random: np.random.Generator) -> pa.Table:
    """Return some rows of the log."""
    truth = np.random.default_rng(1).normal(size=(FEATURES, actions))
    x = random.normal(size=(rows, FEATURES))
    scores = x @ truth
    best = scores.argmax(axis=1)
    scores *= 0.25
    scores += np.random.default_rng(2).normal(size=(FEATURES, actions)).T[:, 0] * 0.25
    chances = np.exp(scores - scores.max(axis=1, keepdims=True))
    chances *= 0.9 / chances.sum(axis=1, keepdims=True)
    chances += 0.1 / actions
    ends = chances.cumsum(axis=1)
    action = (random.random(rows)[:, None] * ends[:, -1:] > ends).sum(axis=1)
    action = np.minimum(action, actions - 1)
    pays = np.where(action == best, 0.9, 0.1)
    columns = {
        "action": action.astype(np.int32),
        "reward": (random.random(rows) < pays).astype(np.float64),
        "propensity": chances[np.arange(rows), action],
    }
    for i in range(FEATURES):
        columns[f"x{i}"] = x[:, i]
    return pa.table(columns)


def write(path: Path, rows: int, actions: int) -> None:
    """Write the log of a size."""
    random = np.random.default_rng([rows, actions])
    writer = None
    for at in range(0, rows, GROUP):
        table = made(min(GROUP, rows - at), actions, random)
        if writer is None:
            writer = pq.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def fit(path: str, actions: int) -> None:
    """Fit on one file and print the figures; this is what a process of its own does."""
    log = piwo.read(path, context="x*", actions=range(actions))
    learner = piwo.Auto()
    # actions that are logged too rarely for both parts
    warnings.simplefilter("ignore", piwo.PiwoWarning)
    # imports and compiled code are not timed
    small = piwo.read(path, context="x*", actions=range(actions), where="x0 > 2.5 and x0 < 2.8")
    learner.fit(small)
    start, busy = time.perf_counter(), time.process_time()
    learner.fit(log)
    figures = {
        "seconds": time.perf_counter() - start,
        "cpu": time.process_time() - busy,
        "megabytes": peak_memory(),
        "chosen": learner.chosen_,
        "standing": learner.path_[learner.chosen_].standing,
    }
    print(json.dumps(figures))


@contextmanager
def busy_beside(processes: int) -> Iterator[None]:
    """Keep the cores busy inside the block."""
    loops = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(processes)]
    try:
        yield
    finally:
        for one in loops:
            one.kill()
            one.wait()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", default=SIZES)
    parser.add_argument("--busy", type=int, default=0)
    parser.add_argument("--fit", nargs=2)
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.fit:
        fit(asked.fit[0], int(asked.fit[1]))
        return
    with tempfile.TemporaryDirectory() as made_here:
        folder = asked.folder or Path(made_here)
        folder.mkdir(parents=True, exist_ok=True)
        for size in asked.sizes:
            rows, actions = (int(part) for part in size.split("x"))
            path = folder / f"{size}.parquet"
            if not path.exists():
                write(path, rows, actions)
            command = [sys.executable, __file__, "--fit", str(path), str(actions)]
            with busy_beside(asked.busy):
                out = subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout
            print(size, out.decode().strip(), flush=True)


if __name__ == "__main__":
    main()
