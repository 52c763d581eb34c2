"""The page of a report: its time over that of evaluating the same policies.

    python benchmarks/report.py [--rows 1000000] [--policies 20] [--repeats 3]

A log of 50 actions in memory; the policies are constant. Wanted: at most 1.5 times `compare`, and a
page under 500 kB.
"""

from __future__ import annotations

import argparse

import numpy as np
from timing import alternate

import piwo
from piwo.report import describe, page

ACTIONS = 50


def made(rows: int) -> piwo.Log:
    """Return the log."""
    random = np.random.default_rng(0)
    action = random.integers(ACTIONS, size=rows)
    return piwo.Log.from_arrays(
        action=action,
        reward=(random.random(rows) < 0.05 + 0.001 * action) * 1.0,
        propensity=np.full(rows, 1.0 / ACTIONS),
        actions=range(ACTIONS),
        time=np.arange(rows),
        logger="fixed",
    )


def main() -> None:
    """Print the times."""
    options = argparse.ArgumentParser()
    options.add_argument("--rows", type=int, default=1_000_000)
    options.add_argument("--policies", type=int, default=20)
    options.add_argument("--repeats", type=int, default=3)
    asked = options.parse_args()
    log = made(asked.rows)
    policies = {f"only {i}": piwo.policies.Constant(i, log.actions) for i in range(asked.policies)}
    pages: list[int] = []

    def report() -> None:
        pages.append(len(page(describe(log, policies)).encode()))

    seconds = alternate(
        {"compare": lambda: piwo.compare(log, policies), "report": report}, asked.repeats
    )
    ratio = seconds["report"] / seconds["compare"]
    print(f"{asked.rows:,} rows, {asked.policies} policies: compare {seconds['compare']:.2f} s,")
    print(f"report {seconds['report']:.2f} s, {ratio:.2f} times; page of {pages[-1]:,} bytes")


if __name__ == "__main__":
    main()
