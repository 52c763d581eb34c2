"""Logs whose actions change from row to row: speed and memory.

    python benchmarks/eligible.py FOLDER [--rows 5000000] [--repeats 3]

Prints the rows/s of `evaluate` with 20 candidates of 500 items a row, over that of a fixed list of
20 actions whose rows have as many bytes in memory (10 more context columns instead of the list);
the time of learning `oracles.JointRidge` over reading the same columns (1,000,000 rows of 20
candidates: 30 products of 4 columns of context and 5 of items, and 231 of 10 and 20); the time with
text labels over that with whole numbers; and the peak memory with 100,000 items and 50 candidates,
for two numbers of rows. Wanted: at least half the rows/s, at most 4 times reading, text at most
1.5 times the time, equal memory.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from timing import alternate, peak_memory

import piwo
from piwo.oracles import JointRidge
from piwo.policies import JointLinear, JointModel, LinearGreedy

WIDTH = 5
PART = 100_000


def write(
    path: Path,
    rows: int,
    items: int,
    candidates: int,
    width: int,
    listed: bool,
    labels: pa.Array | None = None,
) -> str:
    """Write a log and return its path; text labels in dictionaries, as Parquet has them."""
    if path.exists():
        return str(path)
    unfinished = path.with_suffix(".partial")
    random = np.random.default_rng(0)
    writer = None
    for at in range(0, rows, PART):
        n = min(PART, rows - at)
        # Distinct items: a random one and those that follow it at a fixed distance.
        step = items // candidates
        codes = (random.integers(items, size=n)[:, None] + step * np.arange(candidates)) % items
        columns = {
            "action": pa.array(codes[:, 0] if listed else random.integers(candidates, size=n)),
            "reward": pa.array(random.integers(0, 2, n) * 1.0),
            "propensity": pa.array(np.full(n, 1.0 / candidates)),
        }
        for i in range(width):
            columns[f"x{i}"] = pa.array(random.normal(size=n))
        if listed:
            flat = pa.array(codes.ravel().astype(np.int32))
            starts = pa.array(np.arange(n + 1, dtype=np.int32) * candidates)
            columns["could"] = pa.ListArray.from_arrays(starts, flat)
        if labels is not None:
            columns["action"] = labels.take(columns["action"])
            columns["could"] = pa.ListArray.from_arrays(starts, labels.take(flat))
        table = pa.table(columns)
        if writer is None:
            writer = pq.ParquetWriter(unfinished, table.schema, use_dictionary=labels is not None)
        writer.write_table(table, row_group_size=PART)
    assert writer is not None
    writer.close()
    unfinished.rename(path)
    return str(path)


def table_of(items: int, features: int) -> dict[str, np.ndarray]:
    """Features of items."""
    random = np.random.default_rng(1)
    return {
        "action": np.arange(items),
        **{f"z{j}": random.normal(size=items) for j in range(features)},
    }


def evaluated(folder: Path, rows: int, repeats: int) -> None:
    """Print the speed of `evaluate` with lists, over that with a fixed list."""
    ragged = write(folder / f"ragged-{rows}.parquet", rows, 500, 20, WIDTH, listed=True)
    fixed = write(folder / f"fixed-{rows}.parquet", rows, 20, 20, WIDTH + 10, listed=False)
    random = np.random.default_rng(2)
    by_item = LinearGreedy(random.normal(size=(500, WIDTH)), np.zeros(500), range(500))
    by_action = LinearGreedy(random.normal(size=(20, WIDTH + 10)), np.zeros(20), range(20))
    lists = piwo.read(ragged, context="x*", eligible="could", actions=range(500))
    plain = piwo.read(fixed, context="x*", actions=range(20))
    seconds = alternate(
        {
            "ragged": lambda: piwo.evaluate(lists, by_item),
            "fixed": lambda: piwo.evaluate(plain, by_action),
        },
        repeats,
    )
    sizes = [Path(path).stat().st_size / rows for path in (ragged, fixed)]
    print(
        f"evaluate: {rows / seconds['ragged'] / 1e6:.2f} million rows/s of 20 candidates "
        f"({sizes[0]:.0f} bytes a row), {seconds['fixed'] / seconds['ragged']:.2f} of a fixed list "
        f"({rows / seconds['fixed'] / 1e6:.2f}; {sizes[1]:.0f} bytes a row)",
        flush=True,
    )


def of_texts(folder: Path, rows: int, repeats: int) -> None:
    """Print the speed of `evaluate` and of `read` with text labels in lists, over whole numbers."""
    labels = pa.array([f"article-{i:06d}" for i in range(500)])
    paths = {
        "text": write(
            folder / f"text-{rows}.parquet", rows, 500, 20, WIDTH, listed=True, labels=labels
        ),
        "number": write(folder / f"number-{rows}.parquet", rows, 500, 20, WIDTH, listed=True),
    }
    known = {"text": labels.to_pylist(), "number": list(range(500))}
    random = np.random.default_rng(2)
    coef = random.normal(size=(500, WIDTH))
    work: dict[str, Callable[[], object]] = {}
    for kind, path in paths.items():
        log = piwo.read(path, context="x*", eligible="could", actions=known[kind])
        policy = LinearGreedy(coef, np.zeros(500), known[kind])
        work[kind] = partial(piwo.evaluate, log, policy)
        # The list of actions is taken from the rows.
        work[f"{kind}, found"] = partial(_found, path)
    seconds = alternate(work, repeats)
    print(
        f"text labels, {rows} rows of 20 candidates: evaluate {rows / seconds['text'] / 1e6:.2f} "
        f"million rows/s, {seconds['text'] / seconds['number']:.2f} times the time of whole "
        f"numbers; finding the actions {rows / seconds['text, found'] / 1e6:.2f} million rows/s, "
        f"{seconds['text, found'] / seconds['number, found']:.2f} times",
        flush=True,
    )


def _found(path: str) -> int:
    """Return how many actions the rows of a log have."""
    return len(piwo.read(path, context="x*", eligible="could").actions)


def learned(folder: Path, rows: int, repeats: int, width: int, features: int) -> None:
    """Print the time of the joint ridge, over reading."""
    path = write(folder / f"learn-{width}-{rows}.parquet", rows, 500, 20, width, listed=True)
    log = piwo.read(path, context="x*", eligible="could", items=table_of(500, features))

    def read() -> int:
        return sum(len(batch) for batch in log.each_batch(context=True))

    seconds = alternate(
        {"read": read, "learn": lambda: JointRidge().solve(log, piwo.IX(0.1))}, repeats
    )
    print(
        f"joint ridge, {rows} rows of 20 candidates, {width} columns of context and {features} of "
        f"items, {(width + 1) * (features + 1)} products: "
        f"{seconds['learn']:.2f} s, {seconds['learn'] / seconds['read']:.2f} times reading on one "
        f"thread ({seconds['read']:.2f} s)",
        flush=True,
    )


def memory_of(folder: Path, rows: int) -> None:
    """Print the peak memory of learning and evaluating with many items."""
    items = 100_000
    path = write(folder / f"many-{rows}.parquet", rows, items, 50, WIDTH, listed=True)
    log = piwo.read(path, context="x*", eligible="could", items=table_of(items, 5))
    JointRidge().solve(log, piwo.IX(0.1))
    model = JointModel(np.eye(WIDTH, 5), np.zeros(5), np.ones((items, 5)))
    piwo.evaluate(log, JointLinear(model, log.actions))
    print(f"{items} items, {rows} rows of 50 candidates: {peak_memory():.0f} MB", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--memory", type=int, help="only the memory, for so many rows")
    given = parser.parse_args()
    given.folder.mkdir(parents=True, exist_ok=True)
    if given.memory is not None:
        memory_of(given.folder, given.memory)
        return
    evaluated(given.folder, given.rows, given.repeats)
    of_texts(given.folder, min(given.rows, 1_000_000), given.repeats)
    for width, features in ((4, 5), (10, 20)):
        learned(given.folder, min(given.rows, 1_000_000), given.repeats, width, features)
    for rows in (given.rows // 5, 2 * given.rows // 5):
        words = [sys.executable, __file__, str(given.folder), "--memory", str(rows)]
        subprocess.run(words, check=True)


if __name__ == "__main__":
    main()
