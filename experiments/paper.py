"""The command: `python -m experiments.paper --out DIR` runs the paper's experiments, or goes on where they stopped."""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Sequence
from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import App, CycloptsError, Parameter

from piwo.errors import PiwoError, UsageError

if TYPE_CHECKING:  # what takes a while is loaded when Ctrl-C is listened to
    import pyarrow as pa

    from experiments.results import Folder, Run

__all__ = ["main", "paper"]

DONE, UNUSABLE, INTERRUPTED = 0, 2, 130
QUICK_ROWS = 20_000
HOLDS = {True: "yes", False: "no", None: "not tested"}

HELP = """Run the experiments of Gabbianelli, Neu and Papini, "Importance-Weighted Offline Learning Done Right".

The same command goes on where an earlier one was stopped, and gives the same files, byte for byte.
Exit codes: 0 done; 2 wrong usage, or data or files that cannot be used; 130 interrupted.
"""


def paper(
    *,
    out: Annotated[Path, Parameter(help="Folder for the results: a new one, or the one of the same run.")],
    data: Annotated[
        str, Parameter(help="A .parquet or .csv file, openml:247 (BNG(letter)), letter, or synthetic.")
    ] = "synthetic",
    target: Annotated[str | None, Parameter(help="The class column of a file; class where none is named.")] = None,
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
            run = run_all(experiment, folder, listener)
        gamma_star = experiment.gamma_star
        claims = _write_claims(run, gamma_star, folder)
        if figures:
            from experiments.figures import write_figures

            write_figures(run.results, run.loggers, rows.name, rows.synthetic, gamma_star, out)
    print("\n".join(_closing(run, claims, rows.name, out, figures, time.monotonic() - started)))
    return DONE


def _sets(words: str) -> tuple[str, ...]:
    """Return the sets that were named, in one order, so that "bad,good" is the same run as "good,bad"."""
    from experiments.averages import SETS

    named = {word.strip() for word in words.split(",")}
    if not named <= set(SETS):
        raise UsageError(f"--sets is {words!r}, expected good, bad, or good,bad")
    return tuple(name for name in SETS if name in named)


def _require_plots() -> None:
    missing = [name for name in ("altair", "vl_convert") if find_spec(name) is None]
    if missing:
        raise UsageError(
            f"figures need {' and '.join(missing)}, not installed; pip install 'piwo[plots]', or give --no-figures"
        )


def _write_claims(run: Run, gamma_star: float, folder: Folder) -> pa.Table:
    from experiments.claims import check_claims, write_summary

    claims = check_claims(run.results, run.loggers, gamma_star)
    write_summary(run.results, run.loggers, claims, gamma_star, folder.settings, folder.path)
    return claims


def _closing(run: Run, claims: pa.Table, name: str, out: Path, figures: bool, seconds: float) -> list[str]:
    """Return what is said at the end: how much, how long, where, and which claims hold."""
    loggers = run.kept + run.computed
    before = f", {run.kept} of them by an earlier run" if run.kept else ""
    return [
        f"{name}: {run.results.num_rows:,} policies from {loggers} loggers{before}; this run took {seconds:.1f} s",
        *(f"  {HOLDS[claim['holds']]:<12}{claim['claim']}" for claim in claims.to_pylist()),
        f"in {out}: results and loggers (.parquet, .csv), summary (.md, .csv){', figures' if figures else ''}",
    ]


# ---------------------------------------------------------------------------------------- exit codes, one-line errors


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the words after `experiments.paper`; None: those that were typed.

    Returns:
        The exit code.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    pressed = False

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed = True
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # pressed again, it ends at once; nothing is lost
        signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, stop)
    try:
        return _ran(words)
    except BaseException as cause:  # noqa: BLE001 (the last line of defence: every exception is told in one line)
        if "--debug" in words:
            traceback.print_exc()
        if pressed or isinstance(cause, KeyboardInterrupt):  # a library may have made another exception of it
            _say("interrupted; the same command goes on from here")
            return INTERRUPTED
        return _told(cause)
    finally:
        signal.signal(signal.SIGINT, before)


def _ran(words: list[str]) -> int:
    app = App(
        name="python -m experiments.paper",
        help=HELP,
        help_format="plaintext",
        default_parameter=Parameter(negative=()),
        version_flags=(),
    )
    app.default(paper)
    command, bound, _ = app.parse_args(words, print_error=False, exit_on_error=False, verbose=False)
    answer: Any = command(*bound.args, **bound.kwargs)
    sys.stdout.flush()
    return int(answer or DONE)


def _told(cause: BaseException) -> int:
    """Say in one line what went wrong, and return the exit code."""
    if isinstance(cause, BrokenPipeError):  # whoever read the closing lines has seen enough; all is written by then
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return DONE
    if isinstance(cause, SystemExit):
        return cause.code if isinstance(cause.code, int) else DONE if cause.code is None else UNUSABLE
    if isinstance(cause, PiwoError):
        _say(f"error: {cause}")
    elif isinstance(cause, CycloptsError):
        _say(f"error: {str(cause).rstrip().rstrip('.')}; --help tells more")
    elif isinstance(cause, MemoryError):
        _say("error: there is not enough memory for this; try --quick")
    elif isinstance(cause, OSError):
        place = "" if cause.filename is None else f": {cause.filename!r}"
        _say(f"error: {cause.strerror or cause}{place}; what was finished is kept, the same command goes on from there")
    else:
        _say(f"error: unexpected {type(cause).__name__}: {cause}; this is a fault of the program, --debug shows where")
    return UNUSABLE


def _say(text: str) -> None:
    print(" ".join(text.split()), file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
