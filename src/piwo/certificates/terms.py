"""Checks of what certificates are asked for: a least value, guardrails, facts to record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any

from piwo.certificates.certificate import Certificate
from piwo.checks import check_finite, check_kind, shown
from piwo.errors import UsageError
from piwo.evaluation.guardrails import Guardrail
from piwo.logs.log import Log
from piwo.messages import argument

__all__ = ["check_at_least", "check_facts", "check_terms"]

_FIELDS = frozenset(x.name for x in fields(Certificate)) - {"frames"}


def check_terms(
    at_least: Any, guards: Sequence[Guardrail], by: Any, log: Log, series: bool, earlier: Any
) -> None:
    """Raise for a least value that no policy can miss or have, and for more numbers in a series.

    Args:
        at_least: see `piwo.certify`.
        guards: the guardrails.
        by: see `piwo.certify`.
        log: the rows.
        series: see `piwo.certify`.
        earlier: see `piwo.certify`.

    Raises:
        UsageError: saying what to leave out.

    >>> log = Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
    >>> check_terms(0.5, (), None, log, series=False, earlier=0)
    """
    if at_least is not None:
        check_at_least(at_least, log)
    in_series = series or (isinstance(earlier, Certificate) and earlier.series is not None)
    if in_series and (guards or by is not None):
        name, what = "guardrail", "guardrails"
        if not guards:
            name, what = "by", "segments"
        raise UsageError(
            f"a series shows numbers only when something is certified, and {what} show theirs "
            f"at each call; leave one of {argument(name)} and {argument('series')} out"
        )


def check_at_least(at_least: Any, log: Log) -> None:
    """Raise for a least value that is not a number, or beyond the highest reward.

    Raises:
        UsageError: saying what was received and expected.

    >>> log = Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
    >>> check_at_least(0.5, log)
    """
    check_finite("at_least", at_least)
    low, high = log.reward_range
    if not low <= at_least <= high:
        raise UsageError(
            f"{argument('at_least')} is {at_least!r}, expected a value in the reward range "
            f"[{low:g}, {high:g}]"
        )


def check_facts(facts: Any) -> None:
    """Raise for facts that are not fields of a certificate.

    >>> check_facts({"score": "ix"})
    """
    check_kind("facts", facts, (Mapping, type(None)))
    for name in facts or ():
        if name not in _FIELDS:
            raise UsageError(
                f"{argument('facts')} names {shown(name)}, which is not a field of Certificate"
            )
