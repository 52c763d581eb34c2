"""Tidy results as arrays: loggers by hyper-parameters by folds, for figures and claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from piwo.errors import UsageError

__all__ = [
    "ALGORITHMS",
    "SETS",
    "LoggerSet",
    "average",
    "gather",
    "nearest",
    "spread",
    "uses",
    "within",
]

FloatArray = NDArray[np.float64]

SETS = ("good", "bad")
ALGORITHMS = ("PIWO-IX", "PIWO-Clip", "PIWO-PL", "PIWO-LS")
HYPER_PARAMETERS = {"PIWO-IX": "γ", "PIWO-Clip": "γ", "PIWO-PL": "β", "PIWO-LS": "γ = λ/2"}


@dataclass(frozen=True)
class LoggerSet:
    """Everything that a run found out about one set of loggers ("good" or "bad")."""

    name: str
    eta: FloatArray
    """The loggers, (E,), rising."""
    h: FloatArray
    """The hyper-parameters, (H,), rising."""
    rewards: Mapping[str, FloatArray]
    """Algorithm to the true mean reward of its policies on each fold, (E, H, F); in the order of
    `ALGORITHMS`."""
    behavior: FloatArray
    """Value of each logger, (E,), mean over folds; so are the next two."""
    best_fixed: FloatArray
    full_information: FloatArray
    log10_min_propensity: FloatArray
    """The smallest over the folds, (E,)."""


def uses(algorithm: str) -> str:
    """Return which parameter of an algorithm h is."""
    return HYPER_PARAMETERS[algorithm]


def average(folds: FloatArray) -> FloatArray:
    """Return the mean over folds, the last axis."""
    return np.asarray(folds.mean(axis=-1))


def spread(folds: FloatArray) -> FloatArray:
    """Return the standard deviation over folds, the last axis; zero for a single fold."""
    if folds.shape[-1] == 1:
        return np.zeros(folds.shape[:-1])
    return np.asarray(folds.std(axis=-1, ddof=1))


def nearest(h: FloatArray, target: float) -> int:
    """Return where in `h` the value nearest to `target` is, on a logarithmic scale."""
    return int(np.argmin(np.abs(np.log(h) - np.log(target))))


def within(h: FloatArray, target: float, factor: float) -> NDArray[np.intp]:
    """Return the places in `h` of values within a factor of `target`."""
    return np.flatnonzero(np.abs(np.log(h) - np.log(target)) <= np.log(factor) + 1e-9)


def gather(results: pa.Table, loggers: pa.Table) -> dict[str, LoggerSet]:
    """Return the sets of loggers that a run has, good before bad.

    Args:
        results: columns set, eta, algorithm, h, fold, reward; one row a learned policy.
        loggers: columns set, eta, fold, behavior, best_fixed, full_information,
            log10_min_propensity.

    Returns:
        Name of the set to its arrays.

    Raises:
        UsageError: a set is unknown, or a policy or a logger is missing or there twice.
    """
    present = results["set"].unique().to_pylist()
    unknown = sorted(set(present) - set(SETS))
    if unknown or not present:
        raise UsageError(
            f"results: sets {unknown or 'none'}, expected {' or '.join(SETS)}; pass the results of "
            "a run"
        )
    return {name: _logger_set(name, results, loggers) for name in SETS if name in present}


def _logger_set(name: str, results: pa.Table, loggers: pa.Table) -> LoggerSet:
    results, loggers = (table.filter(pc.equal(table["set"], name)) for table in (results, loggers))
    eta, h, fold = (np.unique(results[column].to_numpy()) for column in ("eta", "h", "fold"))
    present = set(results["algorithm"].unique().to_pylist())
    if not present <= set(ALGORITHMS):
        unknown = ", ".join(sorted(present - set(ALGORITHMS)))
        raise UsageError(f"results: algorithm {unknown}, expected one of {', '.join(ALGORITHMS)}")
    rewards = {
        algorithm: _cells(
            results.filter(pc.equal(results["algorithm"], algorithm)),
            {"eta": eta, "h": h, "fold": fold},
            "reward",
            f"the {name} set, {algorithm}",
        )
        for algorithm in ALGORITHMS
        if algorithm in present
    }
    axes = {"eta": eta, "fold": fold}
    columns = ("behavior", "best_fixed", "full_information", "log10_min_propensity")
    of_logger = {
        column: _cells(loggers, axes, column, f"the loggers of the {name} set")
        for column in columns
    }
    return LoggerSet(
        name=name,
        eta=eta,
        h=h,
        rewards=rewards,
        behavior=average(of_logger["behavior"]),
        best_fixed=average(of_logger["best_fixed"]),
        full_information=average(of_logger["full_information"]),
        log10_min_propensity=of_logger["log10_min_propensity"].min(axis=-1),
    )


def _cells(table: pa.Table, axes: Mapping[str, FloatArray], column: str, what: str) -> FloatArray:
    """Return one column as an array with the given axes; every cell must be there once."""
    shape = tuple(len(values) for values in axes.values())
    found = [table[axis].to_numpy() for axis in axes]
    at = tuple(
        np.searchsorted(values[:-1], entries)
        for values, entries in zip(axes.values(), found, strict=True)
    )
    known = all(
        np.array_equal(values[i], x) for values, i, x in zip(axes.values(), at, found, strict=True)
    )
    times = np.zeros(shape, dtype=np.int64)
    np.add.at(times, at, 1)
    if not known or not np.all(times == 1):
        size = " x ".join(f"{len(values)} {axis}" for axis, values in axes.items())
        raise UsageError(
            f"{what}: {table.num_rows} rows, expected one for each of {size}; finish the run with "
            "the same command"
        )
    cells = np.empty(shape)
    cells[at] = table[column].to_numpy()
    return cells
