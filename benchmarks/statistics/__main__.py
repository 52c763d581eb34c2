"""The theory, simulated: violation rates, widths and separations, on adversarial bandits.

    python -m benchmarks.statistics [NAME ...] [--quick]

All parts, or those named; --quick: a tenth of the repetitions.

Every part is a module beside this one with a function rows(reps), which returns one mapping a line
of its table, and a number REPS of repetitions. Everything is seeded: the same numbers each time.
"""

from __future__ import annotations

import argparse
import importlib
import pkgutil
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

__all__ = ["main", "parts", "table"]

HERE = Path(__file__).parent


def parts() -> list[str]:
    """Return the names of the parts.

    >>> "intervals" in parts()
    True
    """
    return sorted(
        module.name
        for module in pkgutil.iter_modules([str(HERE)])
        if not module.name.startswith("_")
    )


def table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return rows as a Markdown table; columns in the order in which they first occur.

    >>> print(table([{"case": "I1", "width": 0.11}]))
    | case | width |
    | --- | --- |
    | I1 | 0.11 |
    """
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [
        names,
        ["---"] * len(names),
        *([_text(row.get(name, "")) for name in names] for row in rows),
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _text(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def main(argv: Sequence[str] | None = None) -> None:
    """Print the tables."""
    known = parts()
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("name", nargs="*", metavar="NAME", help=", ".join(known))
    parser.add_argument("--quick", action="store_true", help="a tenth of the repetitions")
    asked = parser.parse_args(argv)
    unknown = [name for name in asked.name if name not in known]
    if unknown:
        parser.error(f"no part is called {unknown[0]!r}, expected one of {', '.join(known)}")
    for name in asked.name or known:
        module = importlib.import_module(f"benchmarks.statistics.{name}")
        reps = max(1, module.REPS // 10) if asked.quick else module.REPS
        title = (module.__doc__ or name).strip().splitlines()[0].rstrip(".")
        print(f"{name}: {reps} repetitions ...", file=sys.stderr, flush=True)
        start = time.perf_counter()
        rows = module.rows(reps)
        print(
            f"## {title}\n\n{table(rows)}\n\n"
            f"`python -m benchmarks.statistics {name}`, {reps} repetitions\n",
            flush=True,
        )
        print(f"{name}: {time.perf_counter() - start:.0f} s", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
