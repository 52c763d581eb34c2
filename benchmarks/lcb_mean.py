"""The mixture bound of a plain array, against one of its 48 sums of logarithms in NumPy.

    python benchmarks/lcb_mean.py [--rows 20000000]

Wanted: the whole bound in less time than two such sums. The bound of sums merged from parts is
printed beside it.
"""

import argparse

import numpy as np
from timing import alternate, peak_memory

from piwo import bounds
from piwo.reductions.bets import BETS, bet_sums

DELTA = 0.05
PARTS = 64


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=20_000_000)
    asked = parser.parse_args()
    rng = np.random.default_rng(0)
    y = rng.random(asked.rows) / rng.uniform(0.01, 1.0, asked.rows) * (rng.random(asked.rows) < 0.1)
    ways = {
        "bound": lambda: bounds.lcb_mean(y, DELTA),
        "one": lambda: float(np.log1p(BETS[24] * y).sum()),
        "read": lambda: float(y.sum()),
    }
    seconds = alternate(ways)
    merged = np.sum([bet_sums(part) for part in np.array_split(y, PARTS)], axis=0)
    whole, parts = bounds.lcb_mean(y, DELTA), bounds.lower(merged, asked.rows, -np.log(DELTA))
    print(f"rows                                     {asked.rows:,}")
    print(f"the bound                                {seconds['bound']:.3f} s")
    print(f"one of its 48 sums in NumPy              {seconds['one']:.3f} s")
    print(f"the plain sum in NumPy                   {seconds['read']:.3f} s")
    print(f"ratio to one of 48 sums (at most 2)      {seconds['bound'] / seconds['one']:.2f}")
    print(f"relative difference, {PARTS} parts merged    {abs(parts / whole - 1):.1e}")
    print(
        f"peak memory                              {peak_memory():.0f} MB, of which the numbers "
        f"{y.nbytes / 1e6:.0f}"
    )


if __name__ == "__main__":
    main()
