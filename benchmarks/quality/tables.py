"""Tables of what the runs found."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.quality.cases import HALVES, LOGGERS, REWARDS

__all__ = ["HARM", "Summary", "summary", "tables"]

HARM = 0.01
"""Of the spread: so much below the logger's value is harm."""
LOSS = 0.1
STAYS = ("logging", "imitation")
WAYS = ("certified", "vote", *STAYS)
LEAST_GAP = 0.02
"""Of the spread: where the skyline is nearer to the logger, a log has no gain."""

Line = Mapping[str, Any]


@dataclass(frozen=True)
class Summary:
    """One learner over some logs."""

    logs: int
    gain: float
    gain_error: float
    """Standard error of the mean over the cells."""
    harm: float
    """Share of the logs with more than .01 of the spread lost."""
    loss: float
    """Share of the logs with more than .1 of the spread lost."""
    stays: float
    """Share of the logs in which the logging policy, or an imitation of it, is kept."""
    seconds: float
    """The median: the first log of a process includes imports and compilation."""
    failed: int = 0


def summary(lines: Sequence[Line]) -> Summary:
    """Return the summary of the lines of one learner.

    >>> log = dict(half="choose", data="vowel", rewards="weak", logger="uniform", size=300, seed=0)
    >>> log |= dict(logged=0.1, skyline=0.2, spread=0.1, how="", seconds=1.0)
    >>> found = summary([log | {"value": 0.15}, log | {"value": 0.098, "size": 1000}])
    >>> found.logs, round(found.gain, 2), round(found.gain_error, 2), found.harm
    (2, 0.24, 0.26, 0.5)
    """
    valued = [line for line in lines if "value" in line]
    cells = defaultdict(list)
    moved = []
    for line in valued:
        above = (line["value"] - line["logged"]) / line["spread"]
        gap = (line["skyline"] - line["logged"]) / line["spread"]
        moved.append(above)
        if gap >= LEAST_GAP:
            cell = line["data"], line["rewards"], line["logger"], line["size"]
            cells[cell].append(above / gap)
    gains = [max(-1.0, float(np.mean(found))) for found in cells.values()]
    change = np.array(moved)
    return Summary(
        logs=len(valued),
        gain=_mean(gains),
        gain_error=_mean_error(gains),
        harm=_mean(change < -HARM),
        loss=_mean(change < -LOSS),
        stays=_mean([line["how"] in STAYS for line in valued]),
        seconds=_median([line["seconds"] for line in valued]),
        failed=len(lines) - len(valued),
    )


def _mean(numbers: Any) -> float:
    if len(numbers) == 0:
        return float("nan")
    return float(np.mean(numbers))


def _median(numbers: Sequence[float]) -> float:
    if not numbers:
        return float("nan")
    return float(np.median(numbers))


def _mean_error(numbers: Sequence[float]) -> float:
    if len(numbers) < 2:
        return float("nan")
    return float(np.std(numbers, ddof=1)) / math.sqrt(len(numbers))


def tables(lines: Sequence[Line], names: Sequence[str]) -> str:
    """Return Markdown tables: over all logs, and gain and harm by each property of the logs."""
    by_name = {name: [line for line in lines if line["learner"] == name] for name in names}
    by_name = {name: some for name, some in by_name.items() if some}
    parts = [_overall(by_name)]
    for what, order in (
        ("size", sorted({line["size"] for line in lines})),
        ("logger", LOGGERS),
        ("rewards", REWARDS),
        ("how", WAYS),
        ("data", list(dict.fromkeys(data for half in HALVES.values() for data in half.sets))),
    ):
        present = {line.get(what) for line in lines}
        kinds = [kind for kind in order if kind in present]
        if kinds:
            parts.append(_by(by_name, what, kinds))
    return "\n\n".join(parts)


def _overall(by_name: Mapping[str, Sequence[Line]]) -> str:
    rows = [["learner", "gain", "harm", "loses .1", "keeps the logger", "s", "logs"]]
    for name, lines in by_name.items():
        one = summary(lines)
        logs = str(one.logs)
        if one.failed:
            logs += f" ({one.failed} failed)"
        shares = [f"{100 * share:.1f} %" for share in (one.harm, one.loss)]
        gain = f"{one.gain:.3f} ± {one.gain_error:.3f}"
        row = [name, gain, *shares, f"{100 * one.stays:.0f} %", f"{one.seconds:.1f}", logs]
        rows.append(row)
    return _markdown(rows)


def _by(by_name: Mapping[str, Sequence[Line]], what: str, kinds: Sequence[Any]) -> str:
    """Return a table with gain and harm (%) for each kind of logs."""
    rows = [[f"gain, harm % by {what}", *map(str, kinds)]]
    for name, lines in by_name.items():
        row = [name]
        for kind in kinds:
            one = summary([line for line in lines if line.get(what) == kind])
            row.append(f"{one.gain:.2f}, {100 * one.harm:.0f}" if one.logs else "")
        if any(row[1:]):
            rows.append(row)
    return _markdown(rows)


def _markdown(rows: list[list[str]]) -> str:
    ruled = [rows[0], ["---"] * len(rows[0]), *rows[1:]]
    return "\n".join(f"| {' | '.join(row)} |" for row in ruled)
