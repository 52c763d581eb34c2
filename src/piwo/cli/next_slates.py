"""What to do next after `piwo slates`: the last lines of its answer, by what it found."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa

from piwo.cli.answer import next_lines
from piwo.cli.next_steps import KNOWN_BEFORE, after_in_sample, free_columns
from piwo.cli.settings import settings_of
from piwo.slates import SlateComparison, SlateHealth, SlateLog
from piwo.sources.clusters import Cluster

__all__ = ["Typed", "after_slate_check", "after_slates"]


@dataclass(frozen=True)
class Typed:
    """The command as it was typed, in parts."""

    log: Sequence[str]
    """LOG and its columns."""
    policies: Sequence[str]
    """The options that name policies."""
    named: Sequence[str]
    """The policies."""
    target: Iterable[str | None]
    """The columns of policies."""
    gate: bool


def after_slates(log: SlateLog, found: SlateComparison, typed: Typed) -> list[str]:
    """Return what comes after policies were evaluated: the command, and why.

    Args:
        log: the rows.
        found: the evaluations.
        typed: the command.
    """
    if all(one.in_sample for one in found.evaluations):
        return after_in_sample(typed.named)
    context = _context(log, typed.target)
    if context is not None and _learnable(log):
        words, why = ["piwo", "slates", *typed.log], "to learn a policy from a part of the rows"
        if context:
            words += ["--context", context]
            why += f"; {KNOWN_BEFORE}"
        if "--learn" not in settings_of("slates"):
            words += ["--learn", "page.piwo"]
        return next_lines(words, why)
    again = ["piwo", "slates", *typed.log, *typed.policies, "--gate"]
    if typed.gate:
        return next_lines(again, "when there are new rows")
    return next_lines(again, "its exit code is 0 only if all are certified better")


def after_slate_check(health: SlateHealth, log: Sequence[str]) -> list[str]:
    """Return what comes after a check of the slots: the command, and why if it needs a reason.

    Args:
        health: of the slots.
        log: LOG and its columns, as typed.
    """
    kinds = {one.kind for slot in health.slots for one in slot.findings if one.severity == "unfit"}
    if kinds - {"effective-sample"}:
        return next_lines(
            ["piwo", "slates", *log, "--check"],
            "once the log is repaired; results computed from it now would be wrong",
        )
    return next_lines(["piwo", "slates", *log, "--policy", "uniform"])


def _learnable(log: SlateLog) -> bool:
    """Return whether a policy can be learned from the rows."""
    known = log.by_slot and log.logger.states("marginal")
    return known and not isinstance(log.source, Cluster) and len(log.actions) >= log.slots


def _context(log: SlateLog, target: Iterable[str | None]) -> str | None:
    """Return the columns that may be context; empty: they are named; None: there are none."""
    columns = log.columns
    if columns.context:
        return ""
    taken = {*columns.used(), *log.logger.numbers, *target}
    plain = [one.name for one in log.source.schema if not pa.types.is_nested(one.type)]
    return free_columns(plain, taken) or None
