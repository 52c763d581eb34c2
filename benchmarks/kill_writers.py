"""Whether a killed writer loses an acknowledged row: kill -9 at random moments, in a loop.

    python benchmarks/kill_writers.py [--kills 20] [--seconds 3]

Two processes decide and log into one folder, and print each id once it is acknowledged. Some
seconds after their first decision both are killed; the folder must then hold every decision and
reward that was printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path

import numpy as np
import pyarrow as pa

import piwo

WRITES = """
import sys
from piwo.policies import Uniform
from piwo.serve import Server

server = Server(Uniform(["a", "b"]), sys.argv[1], uncertified=True)
server.log.rows_a_file = 100
while True:
    choice = server.decide()
    print("decision", choice.decision_id, flush=True)
    server.reward(choice.decision_id, 1.0)
    print("reward", choice.decision_id, flush=True)
"""


def main() -> None:
    """Print how many rows were acknowledged, read and lost."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=3.0, help="that writers live at least")
    options = parser.parse_args()
    kills = min(options.kills, 1000)
    moments = np.random.default_rng(1)
    known: dict[str, set[str]] = {"decision": set(), "reward": set()}
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for _ in range(kills // 2):
            outs = [folder / f"{i}.txt" for i in range(2)]
            processes = []
            for out in outs:
                with out.open("w") as file:
                    words = [sys.executable, "-c", WRITES, str(folder / "log")]
                    processes.append(subprocess.Popen(words, stdout=file))
            until = time.monotonic() + 60
            while not all(out.stat().st_size for out in outs) and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(options.seconds * (1 + 4 / 3 * moments.random()))
            for one in processes:
                one.kill()
                one.wait()
            for out in outs:
                for line in out.read_text().splitlines(keepends=True):
                    if line.endswith("\n"):
                        kind, number = line.split()
                        known[kind].add(number)
        warnings.simplefilter("ignore", piwo.PiwoWarning)
        source = piwo.read(folder / "log").source
        parts = source.fragments(["decision_id", "reward"])
        table = pa.Table.from_batches([x for part in parts for x in part.records()])
    ids = table.column("decision_id").to_pylist()
    earned = {x for x, r in zip(ids, table.column("reward").to_pylist(), strict=True) if r == 1.0}
    for kind, found in (("decision", set(ids)), ("reward", earned)):
        lost = len(known[kind] - found)
        print(f"{kind}s: {len(known[kind])} acknowledged, {len(found)} read, {lost} lost")
    print(f"{kills // 2 * 2} kills, {len(ids) - len(set(ids))} rows read twice")


if __name__ == "__main__":
    main()
