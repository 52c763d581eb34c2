"""The data of the explorer: sums as base64, for as many policies and segments as fit a page."""

from __future__ import annotations

import base64
import json
import math

import numpy as np

from piwo.bounds.mixture import grid_size
from piwo.decision import Units
from piwo.report.details import Explorer, Sums

__all__ = ["DELTAS", "explorer_json"]

DELTAS = (0.5, 0.4, 0.3, 0.2, 0.15, 0.1, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001)
"""Values of delta on the slider, besides the one of the page."""
_MOST_BYTES = 200_000
"""Of the sums in a page."""


def explorer_json(
    found: Explorer, units: Units, chosen: str, *, cost: bool = False
) -> tuple[str, int]:
    """Return the data as JSON that is safe inside a script element, and how many are left out.

    Args:
        found: the sums.
        units: of gains.
        chosen: the policy that is shown first, which is always in.
        cost: whether rewards are negative costs.
    """
    size = _bets(found)
    names = list(found.policies)
    first = names.index(chosen)
    order = [first, *(i for i in range(len(names)) if i != first)]
    parts = 1 + len(found.segments)
    each = parts * (len(_numbers(found.sums[first, 0], size)) * 11 + 120)
    kept = order[: max(1, _MOST_BYTES // each)]
    policies = []
    for i in kept:
        sums = [_packed(found.sums[i, k], size) for k in range(parts)]
        policies.append({"name": names[i], "sums": sums})
    data = {
        "policies": policies,
        "segments": list(found.segments),
        "count": found.count,
        "delta": found.delta,
        "deltas": sorted({*DELTAS, found.delta}, reverse=True),
        "low": found.low,
        "span": found.span,
        "gammas": list(found.gammas),
        "bets": list(found.bets[:size]),
        "per": units.per,
        "axis": units.axis,
        "legend": units.legend(cost=cost),
    }
    text = json.dumps(data, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    # Labels must not end the script element.
    safe = text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
    return safe, len(names) - len(kept)


def _bets(found: Explorer) -> int:
    """Return how many bets the bounds on the slider can use: those of the largest delta."""
    most = max(*DELTAS, found.delta)
    rows = max(one.rows for one in found.sums.values())
    return grid_size(max(1, rows), math.log(1.0 / most))


def _numbers(sums: Sums, size: int) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    bets = [one[:size] for one in sums.bets]
    return np.concatenate([*bets, sums.credit, sums.loss]).astype("<f8")


def _packed(sums: Sums, size: int) -> dict[str, object]:
    """Return the sums of one policy on one part of the log."""
    numbers = np.where(np.isfinite(_numbers(sums, size)), _numbers(sums, size), 0.0)
    return {
        "n": sums.rows,
        "logged": sums.logging_value,
        "value": sums.value,
        "usable": sums.usable and bool(np.isfinite(_numbers(sums, size)).all()),
        "sums": base64.b64encode(numbers.tobytes()).decode("ascii"),
    }
