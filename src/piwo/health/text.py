"""The health of a log as plain text. Labels come from outside: control characters in them are escaped."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from piwo.health.record import Health
from piwo.sources.row_labels import first_of, place
from piwo.visible import visible_lines

__all__ = ["health_text", "label_text"]

_SHOWN = 10
_WIDEST = 32


def label_text(label: object) -> str:
    r"""Return a label for people: quoted, control characters escaped, cut where it is long.

    >>> label_text("a\x1b[2J"), label_text(7)
    ("'a\\x1b[2J'", '7')
    """
    text = repr(label)
    return text if len(text) <= _WIDEST else text[: _WIDEST - 4] + "...'"


def health_text(health: Health) -> str:
    """Return the report: verdict, findings, and the tables' most current_progress rows."""
    lines = [f"verdict: {health.verdict}", ""]
    lines += [f"{finding.severity}: {finding.text}" for finding in health.findings]
    lines += [""] if health.findings else []
    lines += _summary(health)
    lines += ["", *_calibration(health)] if health.calibration else []
    lines += ["", *_actions(health), "", *_heaviest(health), "", *_histogram(health)]
    return visible_lines(lines)


def _summary(health: Health) -> list[str]:
    z = "" if health.mean_weight_z is None else f" (z = {health.mean_weight_z:.2f})"
    shares = ", ".join(f"{k}: {_number(share)}" for k, share in health.top_share.items())
    reward = "reward (minus the cost)" if health.cost else "reward"
    least, middle = (
        "below float64" if x == 0.0 else _number(x)
        for x in (health.propensity_min, health.propensity_median)
    )
    return [
        f"rows {health.rows}, actions {health.actions} ({health.actions_logged} logged)",
        f"mean {reward} {_number(health.mean_reward)}",
        f"propensities: smallest {least}, median about {middle}",
        f"{health.policy} policy: effective sample size {_number(health.ess)}",
        f"mean weight {_number(health.mean_weight)}{z}, largest {_number(health.max_weight)}",
        f"share of all weight in the heaviest rows: {shares}",
    ]


def _actions(health: Health) -> list[str]:
    def oddity(i: int) -> tuple[float, float]:
        row = health.by_action[i]
        return (1.0 if row.p is None else row.p, -abs(row.z or 0.0))

    order = sorted(range(len(health.by_action)), key=oddity)[:_SHOWN]
    rows = [
        (
            label_text(x.action),
            str(x.count),
            _number(x.frequency),
            _number(x.mean_propensity),
            _number(x.mean_reward),
            _number(x.mean_inverse),
            _number(x.standard_error),
            "-" if x.z is None else f"{x.z:.1f}",
        )
        for x in (health.by_action[i] for i in order)
    ]
    head = ("action", "rows", "frequency", "propensity", "reward", "mean 1/mu", "error", "z")
    title = (
        f"by action (largest deviation of mean 1/mu from 1 first; {len(rows)} of {health.actions})"
    )
    return [title, *_table(head, rows)]


def _calibration(health: Health) -> list[str]:
    head = ("estimated", "pairs", "mean estimated", "taken", "z")
    rows = [
        (
            f"{x.least:g} to {x.most:g}",
            _number(x.pairs),
            _number(x.predicted),
            _number(x.observed),
            f"{x.z:.1f}",
        )
        for x in health.calibration
    ]
    return [
        "calibration of the estimated propensities, on rows that the fit did not see",
        *_table(head, rows),
    ]


def _heaviest(health: Health) -> list[str]:
    if health.ess is not None and health.ess >= 0.999 * health.rows:
        return ["heaviest rows: none, all weights are alike"]
    head = ("row", "action", "propensity", "weight", "share of weight")
    rows = [
        (
            str(x.row) if x.row < first_of(0) else place(x.row),
            label_text(x.action),
            _number(x.propensity),
            _number(x.weight),
            _number(x.share),
        )
        for x in health.heaviest
    ]
    return ["heaviest rows", *_table(head, rows)]


def _histogram(health: Health) -> list[str]:
    head = ("weight from", "rows", "share of weight")
    rows = [(_number(x.least), str(x.rows), _number(x.share)) for x in health.histogram]
    if len(rows) > 2 * _SHOWN:
        rows = [*rows[:_SHOWN], ("...", "...", "..."), *rows[-_SHOWN:]]
    return ["weights by powers of two", *_table(head, rows)]


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Return aligned lines: the first column to the left, the others to the right."""
    cells = [head, *rows]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  "
        + "  ".join(
            x.ljust(w) if i == 0 else x.rjust(w)
            for i, (x, w) in enumerate(zip(row, widths, strict=True))
        )
        for row in cells
    ]


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    if value == math.inf:
        return "beyond float64"
    return f"{value:.0f}" if 1e4 <= abs(value) < 1e9 else f"{value:.4g}"
