"""`python -m experiments.compare A B`: how much the mean rewards of two runs differ."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from experiments.averages import FloatArray, LoggerSet, average, gather, spread, within
from experiments.claims import NEAR, WORDS, check_claims, short
from experiments.command import DONE, Command, say
from experiments.files import markdown
from experiments.protocol import gamma_star
from experiments.results import Finished, finished
from piwo.errors import UsageError

__all__ = ["Apart", "compare", "differences", "main"]

HELP = """Compare the mean rewards of two finished runs, by logger and hyper-parameter.

Exit codes: 0 done; 2 wrong usage, or folders that cannot be used; 130 interrupted.
"""
HEAD = (
    "second less first",
    "mean",
    "mean absolute",
    "largest",
    "where",
    "sd over folds, first",
    "second",
)


@dataclass(frozen=True)
class Apart:
    """Differences of an algorithm's mean rewards between two runs, over loggers and settings."""

    loggers: LoggerSet
    algorithm: str
    places: Sequence[int]
    """Which hyper-parameters."""
    change: FloatArray
    """The second run less the first one, (E, places)."""
    spread: tuple[float, float]
    """Standard deviation over folds, the mean of all cells, of the first run and of the second."""

    @property
    def largest(self) -> tuple[int, int]:
        """Where the change is largest, up or down."""
        i, j = np.unravel_index(int(np.abs(self.change).argmax()), self.change.shape)
        return int(i), int(j)

    def row(self) -> list[str]:
        """Return what `HEAD` names, but for the first."""
        i, j = self.largest
        where = f"eta = {short(self.loggers.eta[i])}, h = {short(self.loggers.h[self.places[j]])}"
        numbers = (
            f"{self.change.mean():+.4f}",
            f"{np.abs(self.change).mean():.4f}",
            f"{self.change[i, j]:+.4f}",
        )
        return [*numbers, where, *(f"{sd:.4f}" for sd in self.spread)]


def differences(
    first: Mapping[str, LoggerSet], second: Mapping[str, LoggerSet], near: float | None
) -> list[Apart]:
    """Return how far two runs are apart, one entry a set and algorithm.

    Args:
        first: the sets of a run, from `gather`.
        second: those of another run, with the same loggers, algorithms and hyper-parameters.
        near: count only hyper-parameters within a factor `NEAR` of it; None: all.

    Raises:
        UsageError: the two runs do not have the same cells.
    """
    found = []
    for name, ours in first.items():
        theirs = second.get(name)
        if theirs is None or not _alike(ours, theirs) or len(first) != len(second):
            raise UsageError(
                "the runs have not the same loggers, algorithms and hyper-parameters, so nothing "
                "can be compared; give two runs with the same --sets"
            )
        places = np.arange(len(ours.h)) if near is None else within(ours.h, near, NEAR)
        for algorithm, folds in ours.rewards.items():
            before, after = folds[:, places], theirs.rewards[algorithm][:, places]
            sd = float(spread(before).mean()), float(spread(after).mean())
            found.append(
                Apart(ours, algorithm, places.tolist(), average(after) - average(before), sd)
            )
    return found


def _alike(ours: LoggerSet, theirs: LoggerSet) -> bool:
    same_grid = np.array_equal(ours.eta, theirs.eta) and np.array_equal(ours.h, theirs.h)
    return same_grid and list(ours.rewards) == list(theirs.rewards)


def compare(
    first: Annotated[Path, Parameter(help="Folder of a finished run.")],
    second: Annotated[Path, Parameter(help="Folder of another one.")],
    /,
    *,
    debug: Annotated[bool, Parameter(help="Show where an error comes from.")] = False,  # noqa: ARG001
) -> int:
    """Compare two runs."""
    runs = finished(first), finished(second)
    stars = [gamma_star(*(int(run.settings[key]) for key in ("n", "d", "folds"))) for run in runs]
    if stars[0] != stars[1]:
        raise UsageError(
            f"sqrt(d/n) is {stars[0]:.3g} and {stars[1]:.3g}, expected the same; give runs of one "
            "size"
        )
    sets = [gather(run.results, run.loggers) for run in runs]
    lines = [_what_differs(*runs), ""]
    for title, near in (
        (f"At every h within a factor {NEAR:g} of sqrt(d/n):", stars[0]),
        ("At every h:", None),
    ):
        apart = differences(sets[0], sets[1], near)
        rows = [[f"{x.loggers.name}, {x.algorithm}", *x.row()] for x in apart]
        lines += [title, "", *markdown(HEAD, rows), ""]
    say([*lines, *_verdicts(*runs, stars[0])])
    return DONE


def _what_differs(first: Finished, second: Finished) -> str:
    keys = dict.fromkeys([*first.settings, *second.settings])
    told = [
        f"{key} ({first.settings.get(key)}, {second.settings.get(key)})"
        for key in keys
        if first.settings.get(key) != second.settings.get(key)
    ]
    return f"The runs differ in {', '.join(told) or 'nothing'}."


def _verdicts(first: Finished, second: Finished, star: float) -> list[str]:
    """Return the claims that the runs decide differently."""
    before, after = (check_claims(run.results, run.loggers, star) for run in (first, second))
    both = zip(
        before["claim"].to_pylist(),
        before["holds"].to_pylist(),
        after["holds"].to_pylist(),
        strict=True,
    )
    changed = [
        f"- {claim} {WORDS[ours]}, then {WORDS[theirs]}"
        for claim, ours, theirs in both
        if ours != theirs
    ]
    return (
        ["Claims decided differently:", *changed] if changed else ["All claims are decided alike."]
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the words after `experiments.compare`; None: those that were typed.

    Returns:
        The exit code.
    """
    return Command("experiments.compare", HELP, compare).run(argv)


if __name__ == "__main__":
    sys.exit(main())
