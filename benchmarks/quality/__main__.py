"""The command; see the package."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

import benchmarks.quality
from benchmarks.quality.cases import HALVES, Case, plan
from benchmarks.quality.learners import LEARNERS
from benchmarks.quality.run import case_of, read, run_all
from benchmarks.quality.tables import tables
from benchmarks.quality.worlds import missing

__all__ = ["main"]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark, or print its tables."""
    asked = _parser().parse_args(argv)
    half = "confirm" if asked.confirm else "choose"
    if asked.comparable:
        half = f"comparable {half}"
    names = asked.learners or list(LEARNERS)
    if asked.command == "run":
        run_all(_cases(asked, half), names, asked.data, asked.out, asked.jobs)
        _say_left_out(names)
    lines = [line for line in read(asked.out) if line["half"] == half]
    if not lines:
        print(f"{asked.out} has no logs of this half", file=sys.stderr)
        return 1
    logs = len({case_of(line) for line in lines})
    print(f"{logs} logs, half: {half}\n\n{tables(lines, names)}")
    return 0


def _cases(asked: argparse.Namespace, half: str) -> list[Case]:
    """Return the logs asked for; say which data sets are not there."""
    found = []
    for data in asked.sets or HALVES[half].sets:
        why = missing(data, asked.data)
        if why is None:
            found.append(data)
        else:
            print(f"without {data}: {why}", file=sys.stderr)
    return plan(half, found, asked.seeds, full=asked.full, only=asked.sizes)[:: asked.every]


def _say_left_out(names: Sequence[str]) -> None:
    for name in names:
        why = LEARNERS[name].refuses(1, 1)
        if why is not None:
            print(f"without {name}: {why}", file=sys.stderr)


def _parser() -> argparse.ArgumentParser:
    shared = Path(os.environ.get("PIWO_SHARED", Path(__file__).parents[3] / "shared"))
    parser = argparse.ArgumentParser(
        description=benchmarks.quality.__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("command", choices=("run", "table"))
    parser.add_argument(
        "--confirm", action="store_true", help="the other half: once, when all is settled"
    )
    parser.add_argument(
        "--comparable", action="store_true", help="logs of own size, as in an earlier benchmark"
    )
    parser.add_argument("--full", action="store_true", help="all sizes, up to 1,000,000 rows")
    parser.add_argument("--sizes", type=int, nargs="+", help="only logs of so many rows")
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth log")
    parser.add_argument("--learners", nargs="+", choices=list(LEARNERS), metavar="NAME")
    parser.add_argument(
        "--sets",
        nargs="+",
        choices=sorted({data for one in HALVES.values() for data in one.sets}),
        metavar="NAME",
        help="only these data sets",
    )
    parser.add_argument("--jobs", type=int, default=2, help="processes; 1: this one alone")
    parser.add_argument("--data", type=Path, default=shared / "data", help="Parquet files")
    parser.add_argument(
        "--out", type=Path, default=Path("quality.jsonl"), help="results, one a line"
    )
    return parser


if __name__ == "__main__":
    sys.exit(main())
