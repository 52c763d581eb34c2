"""Several certificates on the same rows: what earlier calls cost, and series of calls."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from piwo.certificates.certificate import Certificate
from piwo.checks import check_flag, shown
from piwo.errors import UsageError
from piwo.messages import Note, argument

__all__ = ["call_of_series", "earlier_count", "part_of_delta", "used_before_note", "withheld"]


def call_of_series(earlier: Any, series: Any, within: object | None, delta: float) -> int | None:
    """Return the number of this call in its series; None outside of one.

    Args:
        earlier: see `piwo.certify`.
        series: see `piwo.certify`.
        within: the declared class; None: there is none.
        delta: of this call.

    Raises:
        UsageError: for arguments that do not go together.

    >>> call_of_series(0, True, None, 0.05), call_of_series(0, False, None, 0.05)
    (1, None)
    """
    _check_earlier(earlier, within)
    check_flag("series", series)
    last = None
    if isinstance(earlier, Certificate):
        last = earlier.series
    if last is None and not series:
        return None
    if within is not None:
        raise UsageError(
            "an in-sample certificate has paid for its whole class, later ones "
            f"included; leave {argument('series')} out"
        )
    if last is None and earlier:
        raise UsageError(
            "a series is declared in its first call, and the earlier certificates are "
            f"not of a series; leave {argument('series')} out"
        )
    # Later candidates could be made from the numbers: see `withheld`.
    if last is not None and earlier.value_lower is not None:
        raise UsageError(
            "the series is over, as it has certified something and shown its numbers; "
            "certify later candidates on other rows"
        )
    if last is not None and earlier.delta != delta:
        raise UsageError(
            f"{argument('delta')} is {shown(delta)}, and the series was declared with "
            f"{earlier.delta:g}; use the same"
        )
    return (last or 0) + 1


def part_of_delta(series_call: int | None) -> float:
    """Return the part of delta that a call of a series spends: 1/2, 1/6, 1/12, ..., in all 1.

    >>> part_of_delta(1), part_of_delta(None)
    (0.5, 1.0)
    """
    if series_call is None:
        return 1.0
    # The sum of 1/(i(i + 1)) over i = 1, 2, ... is 1.
    return 1.0 / (series_call * (series_call + 1.0))


def earlier_count(earlier: Any) -> Any:
    """Return how many candidates were certified earlier, not checked yet.

    >>> earlier_count(3)
    3
    """
    if isinstance(earlier, Certificate):
        return earlier.candidates
    return earlier


def _check_earlier(earlier: Any, within: object | None) -> None:
    count = earlier_count(earlier)
    # True is an int to Python, and an error here.
    if isinstance(count, bool) or not isinstance(count, int) or count < 0:
        raise UsageError(
            f"{argument('earlier')} is {earlier!r:.80}, expected a whole number of at "
            "least 0, or a certificate"
        )
    in_sample = isinstance(earlier, Certificate) and earlier.kind != "held-out"
    if in_sample or (count and within is not None):
        raise UsageError(
            "an in-sample certificate has paid for its whole class, earlier ones "
            f"included; leave {argument('earlier')} out"
        )


def withheld(made: Certificate) -> Certificate:
    """Return a certificate of a series without the numbers that later candidates could use.

    If the only fact shown before the first success is that there was none, candidates depend on
    nothing else, and each call's part of delta covers its own: the sum of the parts is delta.
    """
    note = Note(
        "withheld: a series shows numbers only when something is certified, as later candidates "
        "could be made from them",
        kind="withheld",
    )
    return replace(
        made,
        value=None,
        value_lower=None,
        improvement_lower=None,
        baseline_value=None,
        ess=None,
        mean_weight=None,
        unsupported_mass=None,
        propensity_p=None,
        notes=(note,),
    )


def used_before_note() -> Note:
    """Return the note on rows that certificates of earlier calls are of.

    >>> used_before_note().kind
    'used-before'
    """
    return Note(
        "these rows were used before: the bounds hold if neither the candidates nor "
        "which call is the last depend on what earlier calls showed; going on until "
        f"something is certified takes certify({argument('series', value=True)})",
        kind="used-before",
    )
