"""Policies learned on a bandit with known values: one model of context and item, or one an item.

python benchmarks/items.py --rows 200000
"""

from __future__ import annotations

import argparse
import time

import piwo
from piwo.oracles import (
    Classifier,
    ConditionalLogit,
    Direct,
    JointBoosting,
    JointDirect,
    JointRidge,
    Oracle,
    Ridge,
)
from piwo.simulate import ItemBandit


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=200_000)
    parser.add_argument("--items", type=int, default=500)
    parser.add_argument("--candidates", type=int, default=20)
    parser.add_argument("--wave", type=float, default=0.0)
    parser.add_argument("--gamma", type=float, default=0.01)
    parser.add_argument("--slow", action="store_true", help="also logistic regression by item")
    given = parser.parse_args()
    bandit = ItemBandit(items=given.items, candidates=given.candidates, wave=given.wave)
    print(
        f"{given.items} items, {given.candidates} candidates, {given.rows} rows: logger "
        f"{bandit.logging_value:.4f}, best {bandit.optimal_value:.4f}"
    )
    listed = bandit.log(given.rows, random_state=1)
    plain = bandit.log(given.rows, random_state=1, eligible=False)
    oracles: list[tuple[Oracle, piwo.Log]] = [
        (JointRidge(), listed),
        (JointDirect(), listed),
        (ConditionalLogit(), listed),
        (JointBoosting(), listed),
        # Models of each item learn without the sets, and choose within them.
        (Ridge(), plain),
        (Direct(), plain),
    ]
    if given.slow:
        oracles.append((Classifier(), plain))
    for oracle, log in oracles:
        start = time.perf_counter()
        policy = oracle.solve(log, piwo.IX(given.gamma))
        seconds = time.perf_counter() - start
        print(f"{oracle.name:<20} value {bandit.value(policy):.4f}  {seconds:6.2f} s", flush=True)


if __name__ == "__main__":
    main()
