"""Monitor files: the sums of one policy as JSON, with a checksum over all of it."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from piwo._version import __version__
from piwo.checks import each_once
from piwo.errors import DataError, FileError
from piwo.files import read_file, write_file
from piwo.intervals.partition import planned_counts
from piwo.logs.propensity_error import ErrorBoundRows, PropensityErrorBound
from piwo.records import jsonable, number, text, whole
from piwo.reductions import BETS, BetState, MomentState, PolicyState
from piwo.reductions.blocks import no_blocks
from piwo.reductions.policy_sums import BlockState

__all__ = ["monitor_of_page", "monitor_page", "read_monitor", "write_monitor"]

FORMAT, FORMAT_VERSION, BLOCKS_VERSION = "piwo-monitor", 3, 4
"""3: holds the error bounds of the propensities ("doubted"), which older files lack; 4: deadline
bets, with sums by block."""
_FOUR = ("value", "loss", "improvement", "weight")
"""The quantities with sums by block."""


def write_monitor(path: Path, kind: str, digest: str | None, facts: Mapping[str, Any]) -> None:
    """Write a monitor as JSON, complete or not at all.

    Args:
        path: where to.
        kind: of the policy.
        digest: `piwo.policies.sameness.content_digest` of the policy.
        facts: the fields of the monitor by name, but for the policy.

    Raises:
        FileError: if the file cannot be written.
    """
    page = monitor_page(kind, digest, facts)
    write_file(path, json.dumps(page, indent=1, allow_nan=False).encode())


def monitor_page(kind: str, digest: str | None, facts: Mapping[str, Any]) -> dict[str, Any]:
    """Return a monitor as plain data, with a checksum; the arguments are those of `write_monitor`.

    >>> from dataclasses import fields
    >>> import piwo
    >>> monitor = piwo.Monitor(piwo.policies.Constant("a", ["a", "b"]))
    >>> facts = {one.name: getattr(monitor, one.name) for one in fields(monitor)}
    >>> monitor_page("constant", None, facts)["version"]
    3
    """
    state, errors = facts["state"], facts["propensity_errors"]
    bets = {item.name: getattr(state.bets, item.name).tolist() for item in fields(BetState)}
    page = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        "name": facts["name"],
        "policy": kind,
        "policy_digest": digest,
        "delta": facts["delta"],
        "horizon": facts["horizon"],
        "reward_range": jsonable(facts["reward_range"]),
        "cost": facts["cost"],
        "moments": jsonable(asdict(state.moments)),
        "bets": bets,
        "doubted": [_error_bound_page(*one) for one in errors.each.items()],
        "fed": list(facts["fed"]),
    }
    if facts["interval"] == "deadline":
        sums = {name: getattr(state.blocks, name).tolist() for name in _FOUR}
        page["version"] = BLOCKS_VERSION
        page["interval"] = facts["interval"]
        page["logger"] = facts["logger"]
        page["blocks"] = jsonable(sums)
    page["checksum"] = _checksum(page)
    return page


def _error_bound_page(bound: PropensityErrorBound, rows: int) -> dict[str, Any]:
    return {
        "estimated": bound.estimated,
        "factor": bound.factor,
        "sensitivity": bound.sensitivity,
        "rows": rows,
    }


def read_monitor(path: Path) -> tuple[str, str | None, dict[str, Any]]:
    """Return what `write_monitor` was given. Reading it executes no code.

    That is: the kind of the policy, its digest, and the fields of the monitor.

    Raises:
        FileError: for a file that is missing, damaged, of another version, or not a monitor.
    """
    return monitor_of_page(_page(path), path)


def monitor_of_page(page: dict[str, Any], path: Path) -> tuple[str, str | None, dict[str, Any]]:
    """Return what `monitor_page` was given.

    Args:
        page: the plain data.
        path: the file that it is from, for messages.

    Raises:
        FileError: for a page that is damaged, or of another version.
    """
    _check_version(page, path)
    try:
        # What the checksum covers is what `write_monitor` wrote, so impossible sums and wrong
        # types are not looked for.
        if page.pop("checksum", None) != _checksum(page):
            raise ValueError("it was changed after it was written")
        return page["policy"], page["policy_digest"], _fields(page)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as cause:
        raise FileError(
            f"the monitor {str(path)!r} is damaged: {cause}; sum the logs again"
        ) from None


def _page(path: Path) -> dict[str, Any]:
    try:
        page = json.loads(read_file(path), parse_constant=_no_constant, object_pairs_hook=each_once)
    except (ValueError, RecursionError, DataError) as cause:
        raise FileError(
            f"{str(path)!r} is not a monitor ({cause}); give a file that Monitor.save wrote"
        ) from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise FileError(f"{str(path)!r} is not a monitor; give a file that Monitor.save wrote")
    return page


def _check_version(page: Mapping[str, Any], path: Path) -> None:
    version = page.get("version")
    if type(version) is not int or version not in (FORMAT_VERSION, BLOCKS_VERSION):
        newer = type(version) is int and version > BLOCKS_VERSION
        advice = "sum the logs again"
        if newer:
            advice = "update piwo"
        raise FileError(
            f"the monitor {str(path)!r} has version {version!r:.80}, expected "
            f"{FORMAT_VERSION} or {BLOCKS_VERSION}; {advice}"
        )


def _no_constant(text: str) -> None:
    raise ValueError(f"it holds {text}, expected finite numbers")


def _checksum(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()[:32]


def _fields(page: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the monitor by name, but for the policy."""
    # JSON has no infinity, which sums of weights beyond float64 are
    moments = {name: _sum(value) for name, value in page["moments"].items()}
    if "earned" not in moments and math.isfinite(moments["w"]):
        # a file of before these sums; they matter once a weight is beyond float64
        low, high = _range(page["reward_range"]) or (0.0, 1.0)
        origin = low / (high - low) if math.isfinite(high) else low
        moments["earned"] = moments["wr"] + origin * moments["w"]
    bets = {name: _bet_sums(name, values) for name, values in page["bets"].items()}
    _check_facts(page)
    interval, logger, blocks = "mixture", None, BlockState()
    if page["version"] == BLOCKS_VERSION:
        interval, logger, blocks = "deadline", page["logger"], _blocks(page)
    return {
        "interval": interval,
        "logger": logger,
        "name": page["name"],
        "delta": page["delta"],
        "horizon": page["horizon"],
        "reward_range": _range(page["reward_range"]),
        "cost": page["cost"],
        "state": PolicyState(MomentState(**moments), BetState(**bets), blocks),
        "propensity_errors": _error_bounds(page["doubted"]),
        # absent from older files
        "fed": tuple(map(str, page.get("fed", ()))),
    }


def _sum(value: Any) -> Any:
    if value is None:
        return math.inf
    if not number()(value):
        raise ValueError(f"{value!r:.80} is not a number")
    return value


def _check_facts(page: Mapping[str, Any]) -> None:
    """Raise for a field that no monitor has, as in a file that was made by hand."""
    rules = {"name": text, "cost": _is_flag, "delta": number(0.0, 1.0)}
    for name, fits in rules.items():
        if not fits(page[name]):
            raise ValueError(f"{name} is {page[name]!r:.80}")
    if not whole(int(page["reward_range"] is not None))(page["moments"]["rows"]):
        raise ValueError(f"it has {page['moments']['rows']!r:.80} rows")


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _bet_sums(name: str, values: list[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    if len(values) != len(BETS):  # written with another grid of bets
        raise ValueError(f"the bets of {name} are not {len(BETS)} numbers")
    return np.array(values, np.float64)


def _blocks(page: Mapping[str, Any]) -> BlockState:
    """Return the sums by block of a monitor with deadline bets; none before the first row."""
    if page["interval"] != "deadline" or page["logger"] not in (None, "fixed", "learning"):
        raise ValueError("it has bets or a logger of an unknown kind")
    if not whole(1)(page["horizon"]):
        raise ValueError(f"the horizon is {page['horizon']!r:.80}")
    if page["reward_range"] is None:
        return BlockState()
    # rows come one after the other, so that their number says how many are in each block
    rows = planned_counts(page["horizon"], page["moments"]["rows"])
    shape = (len(rows), no_blocks().shape[1])
    return BlockState(rows, *(_block_sums(page["blocks"][name], shape) for name in _FOUR))


def _block_sums(written: Any, shape: tuple[int, ...]) -> np.ndarray[Any, np.dtype[np.float64]]:
    sums = np.array(written, np.float64)
    # JSON has no infinity: it was written as null, which is NaN by now
    sums[np.isnan(sums)] = np.inf
    if sums.shape != shape:
        raise ValueError(f"sums by block have the shape {sums.shape}, expected {shape}")
    return sums


def _range(ends: list[Any] | None) -> tuple[float, float] | None:
    if ends is None:
        return None
    low, high = ends
    high = _sum(high)
    if not number()(low) or low >= high:
        raise ValueError(f"the range of rewards is {ends!r:.80}")
    return float(low), high


def _error_bounds(records: list[dict[str, Any]]) -> ErrorBoundRows:
    """Return how many rows have which error bound of their propensities."""
    found = ErrorBoundRows()
    for one in records:
        bound = PropensityErrorBound(one["factor"], one["sensitivity"], one["estimated"])
        found = found.merge(ErrorBoundRows.of(bound, one["rows"]))
    return found
