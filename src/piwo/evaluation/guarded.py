"""The passes over a log that bound other outcomes under policies, one for each guardrail."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from piwo.errors import DataError
from piwo.evaluation.guardrails import Guardrail, GuardrailResult
from piwo.evaluation.request import Request
from piwo.evaluation.result import PolicyResult, improvement_in_units
from piwo.logs.log import Log
from piwo.reductions import Joint
from piwo.reductions.losses import Losses
from piwo.reductions.reduce import reduce

__all__ = ["results_of_guardrails"]


def results_of_guardrails(
    guards: Sequence[Guardrail], log: Log, asked: Callable[[Log, Guardrail], Request]
) -> dict[Any, tuple[GuardrailResult, ...]]:
    """Return key -> what the rows say about each guardrail.

    Args:
        guards: the limits.
        log: the rows, over which an earlier pass looked for copies.
        asked: returns the request on a view of the log with the outcome as its reward: one-sided,
            and with what the guardrail is over as its baseline.
    """
    found: dict[Any, tuple[GuardrailResult, ...]] = {}
    for guard in guards:
        request = replace(asked(guard.view(log), guard), first_look=False)
        for key, one in _results(guard, request).items():
            found[key] = (*found.get(key, ()), one)
    return found


def _results(guard: Guardrail, request: Request) -> dict[Any, GuardrailResult]:
    """Return key -> what the rows say about a guardrail, from one pass."""
    log = request.log
    low, high = log.reward_range
    # R -> -R: losses on the unit scale, whose lower bounds are the upper ones of R
    opposite = replace(
        request,
        log=replace(
            log, columns=replace(log.columns, cost=not log.columns.cost), reward_range=(-high, -low)
        ),
    )
    try:
        with request.naming_policies():
            states, against = reduce(log, Joint((request.sums, Losses(opposite.sums))))
    except DataError as wrong:
        if "range" not in wrong.kinds:
            raise
        # what was read as the reward is the outcome, and its range is that of the guardrail
        raise DataError(
            f"guardrail {str(guard)!r}: {wrong.args[0]}; the outcome of a guardrail is read as the "
            f"reward, and its range is given with the limit: '{guard} in LO,HI'"
        ) from wrong
    above, below = request.finish(states), opposite.finish(against)
    found = {}
    for key, one in above.policies.items():
        lower = _least(guard, one, log)
        upper = _least(guard, below.policies[key], opposite.log)
        if upper is not None:
            # Not -0.
            upper = 0.0 - upper
        found[key] = GuardrailResult.made(
            guard, lower, upper, request.budget.delta, one.method.name
        )
    return found


def _least(guard: Guardrail, found: PolicyResult, log: Log) -> float | None:
    """Return the lower bound on the mean outcome, or on the difference; None if there is none."""
    if found.why_not is not None:
        return None
    if guard.over is None:
        lower = found.raw.interval.lower
        if lower is None:
            return None
        return log.value(max(0.0, lower))
    return improvement_in_units(found.raw.gain, log.span)
