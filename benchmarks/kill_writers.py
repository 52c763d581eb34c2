"""Whether a killed writer loses an acknowledged row: kill -9 at random moments, in a loop.

    python benchmarks/kill_writers.py [--kills 20]

Two processes decide and log into one folder, and print each id once it is acknowledged. After some
seconds both are killed; the folder must then hold every decision and reward that was printed.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np

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
    kills = min(parser.parse_args().kills, 1000)
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
            time.sleep(3 + 4 * moments.random())
            for one in processes:
                one.kill()
                one.wait()
            for out in outs:
                for line in out.read_text().splitlines(keepends=True):
                    if line.endswith("\n"):
                        kind, number = line.split()
                        known[kind].add(number)
        warnings.simplefilter("ignore", piwo.PiwoWarning)
        source: Any = piwo.read(folder / "log").source
    table = source.table
    ids = table.column("decision_id").to_pylist()
    earned = {x for x, r in zip(ids, table.column("reward").to_pylist(), strict=True) if r == 1.0}
    for kind, found in (("decision", set(ids)), ("reward", earned)):
        lost = len(known[kind] - found)
        print(f"{kind}s: {len(known[kind])} acknowledged, {len(found)} read, {lost} lost")
    print(f"{kills // 2 * 2} kills, {len(ids) - len(set(ids))} rows read twice")


if __name__ == "__main__":
    main()
