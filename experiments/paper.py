"""`python -m experiments.paper --out DIR` runs the paper's experiments, or resumes them."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from experiments.command import DONE, Command, say
from piwo.errors import UsageError

if TYPE_CHECKING:  # what takes a while is loaded when Ctrl-C is listened to
    import pyarrow as pa

    from experiments.data import Data
    from experiments.results import Folder, Run

__all__ = ["main", "paper"]

QUICK_ROWS = 20_000
PAPER_ROWS = 1_000_000
SMALL_ROWS = 200_000
MOST_PROCESSES = 4
HOLDS = {True: "yes", False: "no", None: "not tested"}

HELP = """Run the experiments of "Importance-Weighted Offline Learning Done Right".

The same command goes on where an earlier one was stopped, and gives the same files, byte for byte.
Exit codes: 0 done; 2 wrong usage, or data or files that cannot be used; 130 interrupted.
"""


def paper(
    *,
    out: Annotated[
        Path, Parameter(help="Folder for the results: a new one, or the one of the same run.")
    ],
    data: Annotated[
        str,
        Parameter(help="A .parquet or .csv file, openml:247 (BNG(letter)), letter, or synthetic."),
    ] = "synthetic",
    target: Annotated[
        str | None, Parameter(help="The class column of a file; class where none is named.")
    ] = None,
    quick: Annotated[bool, Parameter(help="Use 20,000 rows.")] = False,
    sets: Annotated[str, Parameter(help="Which loggers: good, bad, or both.")] = "good,bad",
    resample: Annotated[bool, Parameter(help="Draw the log afresh for each repetition.")] = False,
    seed: Annotated[int, Parameter(help="Of all random numbers.")] = 0,
    figures: Annotated[bool, Parameter(negative="--no-figures", help="Draw the figures.")] = True,
    debug: Annotated[bool, Parameter(help="Show where an error comes from.")] = False,  # noqa: ARG001 (main reads it)
) -> int:
    """Run the experiments and write results, claims and figures."""
    from experiments.data import load
    from experiments.progress import progress
    from experiments.protocol import Experiment, Protocol
    from experiments.results import open_folder, refuse_foreign, run_all, settings_of

    started = time.monotonic()
    if seed < 0:
        raise UsageError(f"--seed is {seed}, expected 0 or more")
    protocol = Protocol(seed=seed, sets=_sets(sets), resample=resample)
    if figures:
        _require_plots()
    refuse_foreign(out)
    rows = load(data, QUICK_ROWS if quick else None, seed, target)
    with open_folder(out, settings_of(rows, asdict(protocol))) as folder:
        experiment = Experiment(rows, protocol)
        with progress() as listener:
            run = run_all(experiment, folder, listener, _processes(len(rows.X)))
        gamma_star = experiment.gamma_star
        claims = _write_claims(run, gamma_star, folder)
        if figures:
            from experiments.figures import write_figures

            write_figures(run.results, run.loggers, rows.name, rows.synthetic, gamma_star, out)
    lines = _closing(run, claims, rows, time.monotonic() - started)
    also = ", figures" if figures else ""
    say([*lines, f"in {out}: results and loggers (.parquet, .csv), summary (.md, .csv){also}"])
    return DONE


def _sets(words: str) -> tuple[str, ...]:
    """Return the named sets in a fixed order: "bad,good" is the same run as "good,bad"."""
    from experiments.averages import SETS

    named = {word.strip() for word in words.split(",")}
    if not named <= set(SETS):
        raise UsageError(f"--sets is {words!r}, expected good, bad, or good,bad")
    return tuple(name for name in SETS if name in named)


def _processes(rows: int) -> int:
    """Return how many loggers to run at once: each needs a copy of the rows.

    Starting a process takes about as long as a logger with few rows.
    """
    from piwo.engines.cores import cores

    return 1 if rows < SMALL_ROWS else min(cores(), MOST_PROCESSES)


def _require_plots() -> None:
    missing = [name for name in ("altair", "vl_convert") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"figures need {' and '.join(missing)}, not installed; pip install 'piwo[plots]', or "
            "give --no-figures"
        )


def _write_claims(run: Run, gamma_star: float, folder: Folder) -> pa.Table:
    from experiments.claims import check_claims, write_summary

    claims = check_claims(run.results, run.loggers, gamma_star)
    write_summary(run.results, run.loggers, claims, gamma_star, folder.settings, folder.path)
    return claims


def _closing(run: Run, claims: pa.Table, rows: Data, seconds: float) -> list[str]:
    """Return what is said at the end: how much, how long, and which claims hold."""
    loggers = run.kept + run.computed
    before = f", {run.kept} of them by an earlier run" if run.kept else ""
    small = f"with {len(rows.X):,}, some fail for lack of data"
    few = f"  the claims are about {PAPER_ROWS:,} rows; {small}"
    done = f"{rows.name}: {run.results.num_rows:,} policies from {loggers} loggers{before}"
    return [
        f"{done}; this run took {seconds:.1f} s",
        *(f"  {HOLDS[claim['holds']]:<12}{claim['claim']}" for claim in claims.to_pylist()),
        *([few] if len(rows.X) < PAPER_ROWS else []),
    ]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the words after `experiments.paper`; None: those that were typed.

    Returns:
        The exit code.
    """
    return Command("experiments.paper", HELP, paper, resumes=True).run(argv)


if __name__ == "__main__":
    sys.exit(main())
