"""Monitor files: the sums of one policy as JSON. A file whose sums cannot be those of any rows is refused."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal

import numpy as np

from piwo._version import __version__
from piwo.errors import FileError
from piwo.files import read_file, write_file
from piwo.logs.batch import Floats
from piwo.logs.propensity_error import ErrorBoundRows, PropensityErrorBound
from piwo.records import jsonable
from piwo.reductions import BETS, BetState, MomentState, PolicyState
from piwo.reductions.bets import bet_sums_of_logs

__all__ = ["MonitorRecord", "read_monitor", "write_monitor"]

FORMAT, FORMAT_VERSION = "piwo-monitor", 3
"""3: what is with_propensity_error of the propensities, which older files do not tell."""
_KEYS = {
    "format", "version", "library", "name", "policy", "policy_digest", "delta", "horizon", "reward_range", "cost",
    "moments", "bets", "with_propensity_error", "checksum",
}  # fmt: skip
_COUNTS = ("rows", "changed")
_FINITE = ("rows", "changed", "total", "reward", "loss_rho")
_PLAIN = (("u", "w"), ("u2", "w2"), ("rho", "wr"), ("rho2", "w2r2"))
"""Sums of used weights, and those of pi/mu that they equal: a monitor weights by pi/mu."""
_LOOSE = 1e-9
"""Sums are exact to about 1e-12 of themselves."""
_TINY = 1e-300


@dataclass(frozen=True)
class MonitorRecord:
    """What a monitor's file holds.

    >>> MonitorRecord("new", "constant", None, 0.05, "universal", None, False, PolicyState()).kind
    'constant'
    """

    name: str
    kind: str
    """The kind of the policy."""
    policy_digest: str | None
    """`piwo.policies.sameness.content_digest` of the policy."""
    delta: float
    horizon: int | Literal["universal"]
    reward_range: tuple[float, float] | None
    cost: bool
    state: PolicyState
    with_propensity_error: ErrorBoundRows = ErrorBoundRows()  # noqa: RUF009 (frozen)


def write_monitor(record: MonitorRecord, path: Path) -> None:
    """Write a record as JSON, complete or not at all.

    Raises:
        FileError: where the file cannot be written.
    """
    page = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "library": __version__,
        "name": record.name,
        "policy": record.kind,
        "policy_digest": record.policy_digest,
        "delta": record.delta,
        "horizon": record.horizon,
        "reward_range": jsonable(record.reward_range),
        "cost": record.cost,
        "moments": jsonable(asdict(record.state.moments)),
        "bets": {
            item.name: getattr(record.state.bets, item.name).tolist() for item in fields(BetState)
        },
        "with_propensity_error": [
            {
                "estimated": one.estimated,
                "factor": one.factor,
                "sensitivity": one.sensitivity,
                "rows": rows,
            }
            for one, rows in record.with_propensity_error.each.items()
        ],
    }
    page["checksum"] = _checksum(page)
    write_file(path, json.dumps(page, indent=1, allow_nan=False).encode())


def read_monitor(path: Path) -> MonitorRecord:
    """Return the record of a file. Reading it executes no code.

    Raises:
        FileError: for a file that is missing, damaged, of another version, or no monitor.
    """
    page = _page(path)
    try:
        return _record(page)
    except (ValueError, TypeError, KeyError, OverflowError) as cause:
        raise FileError(
            f"the monitor {str(path)!r} is damaged: {cause}; sum the logs again"
        ) from None


def _page(path: Path) -> dict[str, Any]:
    try:
        page = json.loads(read_file(path), parse_constant=_no_constant)
    except (ValueError, RecursionError) as cause:
        raise FileError(
            f"{str(path)!r} is no monitor ({cause}); give a file that Monitor.save wrote"
        ) from None
    if not isinstance(page, dict) or page.get("format") != FORMAT:
        raise FileError(f"{str(path)!r} is no monitor; give a file that Monitor.save wrote")
    version = page.get("version")
    if type(version) is not int or version != FORMAT_VERSION:
        newer = type(version) is int and version > FORMAT_VERSION
        advice = "update piwo" if newer else "sum the logs again"
        raise FileError(
            f"the monitor {str(path)!r} has version {version!r:.80}, expected {FORMAT_VERSION}; "
            f"{advice}"
        )
    return page


def _no_constant(text: str) -> None:
    raise ValueError(f"it holds {text}, expected finite numbers")


def _checksum(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()[:32]


def _record(page: dict[str, Any]) -> MonitorRecord:
    _check_keys("it", page, _KEYS)
    horizon, digest, delta = page["horizon"], page["policy_digest"], page["delta"]
    texts = (page["name"], page["policy"], "" if digest is None else digest)
    if not all(isinstance(x, str) for x in texts) or type(page["cost"]) is not bool:
        raise ValueError("its name, policy or cost is not of its type")
    if not (type(delta) is float and 0.0 < delta < 1.0):
        raise ValueError(f"delta is {delta!r:.80}")
    if horizon != "universal" and not (type(horizon) is int and horizon >= 1):
        raise ValueError(f"the horizon is {horizon!r:.80}")
    made = MonitorRecord(
        page["name"],
        page["policy"],
        digest,
        delta,
        horizon,
        _range(page["reward_range"]),
        page["cost"],
        PolicyState(_moments(page["moments"]), _bets(page["bets"])),
        _doubted(page["with_propensity_error"]),
    )
    for what in _inconsistent(made):
        raise ValueError(f"{what}, which no rows give")
    if page.pop("checksum") != _checksum(page):
        raise ValueError("it was changed after it was written")
    return made


def _check_keys(what: str, record: Any, keys: set[str]) -> None:
    if not isinstance(record, dict):
        raise ValueError(f"{what} holds no fields")
    odd = sorted(keys ^ record.keys())
    if odd:
        raise ValueError(
            f"{what} {'lacks' if odd[0] in keys else 'has an unknown'} field {odd[0]!r:.80}"
        )


def _number(what: str, value: Any) -> float:
    if type(value) not in {int, float} or not 0.0 <= value < math.inf:
        raise ValueError(f"{what} holds {value!r:.80}, expected a finite number of at least 0")
    return float(value)


def _range(ends: Any) -> tuple[float, float] | None:
    if ends is None:
        return None
    if (
        not isinstance(ends, list)
        or len(ends) != 2
        or not all(type(x) in {int, float} for x in (ends[0], ends[1] or 0))
    ):
        raise ValueError(f"the reward range is {ends!r:.80}")
    low, high = float(ends[0]), math.inf if ends[1] is None else float(ends[1])
    if not -math.inf < low < high or (high < math.inf and math.isinf(high - low)):
        raise ValueError(f"the reward range is {ends!r:.80}")
    return low, high


def _moments(record: Any) -> MomentState:
    """Return the sums; JSON has no infinity, which some of these are where weights are beyond float64."""
    _check_keys("moments", record, {x.name for x in fields(MomentState)})
    for name in _COUNTS:
        if type(record[name]) is not int:
            raise ValueError(f"{name} is {record[name]!r:.80}, expected a whole number")
    made: dict[str, Any] = {
        name: math.inf if value is None and name not in _FINITE else _number(name, value)
        for name, value in record.items()
    }
    return MomentState(**{**made, **{name: int(record[name]) for name in _COUNTS}})


def _bets(record: Any) -> BetState:
    _check_keys("bets", record, {x.name for x in fields(BetState)})
    made = {}
    for name, sums in record.items():
        if not isinstance(sums, list) or len(sums) != len(BETS):
            raise ValueError(f"the bets of {name} are not {len(BETS)} numbers")
        made[name] = np.array([_number(name, x) for x in sums])
    return BetState(**made)


def _doubted(records: Any) -> ErrorBoundRows:
    """Return which doubts belong to how many rows."""
    if not isinstance(records, list):
        raise ValueError("what is with_propensity_error is no list")
    found = ErrorBoundRows()
    for record in records:
        _check_keys("a doubt", record, {"estimated", "factor", "sensitivity", "rows"})
        estimated, rows = record["estimated"], record["rows"]
        factor, sensitivity = (_number(name, record[name]) for name in ("factor", "sensitivity"))
        if (
            not (estimated is None or isinstance(estimated, str))
            or type(rows) is not int
            or rows < 1
            or min(factor, sensitivity) < 1.0
        ):
            raise ValueError(f"{record!r:.80} is no doubt")
        found = found.merge(
            ErrorBoundRows.of(PropensityErrorBound(factor, sensitivity, estimated), rows)
        )
    if len(found.each) != len(records):
        raise ValueError("what is with_propensity_error is said twice, or doubts nothing")
    return found


def _inconsistent(made: MonitorRecord) -> Iterator[str]:
    """Yield what the sums of one policy's rows cannot be, for R in [0, 1] where the reward has an upper end."""
    sums, bets, n = made.state.moments, made.state.bets, made.state.moments.rows
    if sum(made.with_propensity_error.each.values()) > n:
        yield "more rows are with_propensity_error than there are"
        return
    if n == 0:
        if any(asdict(sums).values()) or any(getattr(bets, x.name).any() for x in fields(BetState)):
            yield "there are sums without rows"
        return
    if made.reward_range is None:
        yield "there are rows without a reward range"
        return
    if (
        sums.total != n
        or sums.changed
        or sums.loss_rho
        or any(getattr(sums, a) != getattr(sums, b) for a, b in _PLAIN)
    ):
        yield "the sums of the weights used are not those of pi/mu"
    bounded = math.isfinite(made.reward_range[1])
    largest = sums.max_weight
    least = [
        (sums.w, largest),
        (n * largest, sums.w),
        (n * sums.w2, sums.w * sums.w),
        (sums.w2, largest * largest),
    ]
    if bounded:
        least += [(n, sums.reward), (sums.w, sums.wr), (sums.w2, sums.w2r), (sums.w2r, sums.w2r2)]
    if not all(more >= less * (1.0 - _LOOSE) - _TINY for more, less in least):
        yield "the sums of weights and rewards do not go together"
    of_weights = [("value", sums.wr, largest, bets.value), ("weight", sums.w, largest, bets.weight)]
    if bounded:
        of_weights.append(
            ("improvement", sums.wr + (n - sums.reward), max(1.0, largest), bets.improvement)
        )
    for name, total, most, each in of_weights:
        if not _between(each, total, most if bounded or name == "weight" else math.inf, n):
            yield f"the bets of {name} are not those of the weights"
    yield from _uneven_bets(bets, bounded)


def _between(sums: Floats, total: float, most: float, n: int) -> bool:
    """Whether bet sums can be those of n numbers in [0, most] of a given total: log(1 + lam y) is concave."""
    if not 0.0 < total < math.inf:
        return total > 0.0 or not sums.any()
    below = n * bet_sums_of_logs([math.log(total) - math.log(n)])
    above = 0.0 if most == math.inf else bet_sums_of_logs([math.log(most)]) * (total / most)
    return bool(
        (sums <= below * (1.0 + _LOOSE) + _TINY).all()
        and (sums >= above * (1.0 - _LOOSE) - _TINY).all()
    )


def _uneven_bets(bets: BetState, bounded: bool) -> Iterator[str]:
    """Yield what bet sums cannot be: log(1 + lam y) rises with lam, by less than in proportion, and with y."""

    def above(more: Floats, less: Floats) -> bool:
        return bool((more >= less * (1.0 - _LOOSE) - _TINY).all())

    for item in fields(BetState):
        each = getattr(bets, item.name)
        if not (above(each[:-1], each[1:]) and above(2.0 * each[1:], each[:-1])):
            yield f"the bets of {item.name} do not go together"
    if not bounded:
        if bets.loss.any() or bets.improvement.any():
            yield "there are losses although the reward has no upper end"
    elif not (
        above(bets.weight, bets.value)
        and above(bets.weight, bets.loss)
        and above(bets.value + bets.loss, bets.weight)
        and above(bets.improvement, bets.value)
    ):
        yield "the bets do not go together"
