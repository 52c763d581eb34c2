"""Make a log larger than memory: Parquet files partitioned by day, same rows for same seed.

    python benchmarks/big_log.py FOLDER [--rows 200000000] [--features 0] [--days 100] [--seed 0]

Columns: action (20 banners; 26 with features), reward (clicks), propensity, pi (a target policy's
probability of the action), and with --features x0, x1, ... A file appears when it is whole, so that
a second run goes on where a first was stopped, and a run that is done does nothing. A day is made
from the seed and its own number alone.
"""

import argparse
import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

START = np.datetime64("2026-01-01")
GROUP = 500_000
"""Rows of a row group."""


def group(rows: int, features: int, random: np.random.Generator) -> pa.Table:
    """Return some rows; with features, logged by a softmax over half-informed linear scores."""
    actions = 26 if features else 20
    if not features:
        propensity = 0.02 + 0.9 * random.random(rows)
        action = random.integers(0, actions, rows, dtype=np.int32)
        reward = (random.random(rows) < 0.1).astype(np.float64)
        return pa.table(
            {
                "action": action,
                "reward": reward,
                "propensity": propensity,
                "pi": random.random(rows),
            }
        )
    truth = np.random.default_rng(1).normal(size=(features, actions)) / np.sqrt(features)
    x = random.normal(size=(rows, features))
    scores = x @ truth
    # Gumbel's trick: the largest score plus noise is a draw from the softmax
    action = (0.5 * scores + random.gumbel(size=scores.shape)).argmax(axis=1).astype(np.int32)
    peak = np.exp(0.5 * scores)
    propensity = peak[np.arange(rows), action] / peak.sum(axis=1)
    chance = 0.4 / (1.0 + np.exp(1.0 - scores[np.arange(rows), action]))
    columns = {
        "action": action,
        "reward": (random.random(rows) < chance).astype(np.float64),
        "propensity": propensity,
    }
    return pa.table(
        {**columns, "pi": random.random(rows), **{f"x{i}": x[:, i] for i in range(features)}}
    )


def write_day(path: Path, day: int, rows: int, features: int, seed: int) -> None:
    """Write the file of one day, whole or not at all."""
    random = np.random.default_rng([seed, day])
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    writer = None
    for at in range(0, rows, GROUP):
        table = group(min(GROUP, rows - at), features, random)
        writer = writer or pq.ParquetWriter(
            partial, table.schema, compression="zstd", compression_level=1
        )
        writer.write_table(table)
    assert writer is not None
    writer.close()
    partial.replace(path)


def write_log(folder: Path, rows: int, features: int = 0, days: int = 100, seed: int = 0) -> str:
    """Write what is not there yet; return the glob of the files."""
    folder.mkdir(parents=True, exist_ok=True)
    asked = {"rows": rows, "features": features, "days": days, "seed": seed}
    note = folder / "asked.json"
    if note.exists() and json.loads(note.read_text()) != asked:
        raise SystemExit(
            f"{folder} holds another log ({note.read_text()}); name another folder, or remove it"
        )
    note.write_text(json.dumps(asked))
    for day in range(days):
        count = rows // days + (day < rows % days)
        path = folder / f"day={START + day}" / "part.parquet"
        if count and not path.exists():
            write_day(path, day, count, features, seed)
    return str(folder / "*" / "*.parquet")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--rows", type=int, default=200_000_000)
    parser.add_argument("--features", type=int, default=0)
    parser.add_argument("--days", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    print(write_log(asked.folder, asked.rows, asked.features, asked.days, asked.seed))


if __name__ == "__main__":
    main()
