"""`python -m experiments.less_data`: what PIWO-IX near sqrt(d/n) loses with fewer rows.

Folds share the luck of a draw, so that their deviation says little of another draw's. Here logs are
drawn anew.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import numpy as np
from cyclopts import Parameter

from experiments.averages import ALGORITHMS, FloatArray, average, spread, within
from experiments.claims import NEAR, short
from experiments.command import DONE, Command, say
from experiments.data import load
from experiments.files import markdown
from experiments.protocol import PARAMETERS, Experiment, Logger, Protocol
from piwo.errors import UsageError

__all__ = ["Behind", "less_data", "main", "measure"]

HELP = """Measure how far PIWO-IX near sqrt(d/n) is behind its best gamma as data grow.

Exit codes: 0 done; 2 wrong usage; 130 interrupted.
"""
SIZES = (20_000, 60_000, 200_000, 1_000_000)
LOGGERS = (0, 8)
"""Of the good ones: eta = 0.1 and eta = 4.83, where least is learned and where most is lost."""
HEAD = (
    "eta",
    "rows",
    "logs",
    "near sqrt(d/n), lowest to highest",
    "best gamma",
    "best fixed action",
    "lowest behind best",
    "its sd over logs",
    "sd of the mean reward over logs",
    "its standard error over folds",
)


@dataclass(frozen=True)
class Behind:
    """The mean rewards of PIWO-IX at every gamma, for several logs of one logger."""

    eta: float
    rows: int
    rewards: FloatArray
    """(logs, H, folds)."""
    near: Sequence[int]
    """Which gammas are near sqrt(d/n)."""
    best_fixed: float

    def row(self) -> list[str]:
        """Return what `HEAD` names."""
        mean = average(self.rewards)
        near, gap = mean[:, self.near], mean.max(axis=1) - mean[:, self.near].min(axis=1)
        low, high, best = near.mean(axis=0).min(), near.mean(axis=0).max(), mean.mean(axis=0).max()
        folds = spread(self.rewards)[:, self.near] / np.sqrt(self.rewards.shape[-1])
        numbers = (
            low,
            high,
            best,
            self.best_fixed,
            gap.mean(),
            spread(gap),
            spread(near.T).mean(),
            folds.mean(),
        )
        first, second, *others = (f"{x:.3f}" for x in numbers)
        return [short(self.eta), f"{self.rows:,}", str(len(mean)), f"{first} to {second}", *others]


def measure(rows: int, logs: int, seed: int) -> list[Behind]:
    """Return what several logs of each of `LOGGERS` give.

    Args:
        rows: of synthetic data.
        logs: how many are drawn of each logger.
        seed: of all random numbers.
    """
    experiment = Experiment(load("synthetic", rows, seed), Protocol(seed=seed))
    near = within(PARAMETERS, experiment.gamma_star, NEAR).tolist()
    start = ALGORITHMS.index("PIWO-IX") * len(PARAMETERS)
    found = []
    for number in LOGGERS:
        logger = Logger("good", number)
        # folds x scores of each log; one number more in the seed than the experiment's own log has
        drawn = np.array([experiment.rewards(logger, (log,)) for log in range(logs)])
        of_ix = drawn[:, :, start : start + len(PARAMETERS)].swapaxes(1, 2)
        found.append(Behind(logger.eta, rows, of_ix, near, float(np.mean(experiment.best_fixed))))
    return found


def less_data(
    *,
    logs: Annotated[int, Parameter(help="Logs of each logger.")] = 10,
    most: Annotated[int, Parameter(help="Leave out larger numbers of rows.")] = SIZES[-1],
    seed: Annotated[int, Parameter(help="Of all random numbers.")] = 0,
    debug: Annotated[bool, Parameter(help="Show where an error comes from.")] = False,  # noqa: ARG001
) -> int:
    """Measure and print a table."""
    for name, given, least in (("logs", logs, 1), ("most", most, SIZES[0]), ("seed", seed, 0)):
        if given < least:
            raise UsageError(f"--{name} is {given}, expected {least} or more")
    found = [behind for rows in SIZES if rows <= most for behind in measure(rows, logs, seed)]
    say(markdown(HEAD, [behind.row() for behind in sorted(found, key=lambda x: (x.eta, x.rows))]))
    return DONE


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command.

    Args:
        argv: the words after `experiments.less_data`; None: those that were typed.

    Returns:
        The exit code.
    """
    return Command("experiments.less_data", HELP, less_data).run(argv)


if __name__ == "__main__":
    sys.exit(main())
