"""The point estimate "mips": weights of categories of actions, in place of weights of actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from piwo.errors import UsageError
from piwo.estimators.mips import ASSUMPTION, MarginalEstimate, mips
from piwo.evaluation.record import Evaluation
from piwo.intervals.point import MARGINAL
from piwo.logs.log import Log
from piwo.messages import Note, argument

__all__ = ["check_categories", "marginal_estimates"]

_OWN = frozenset({"assumptions", "estimated-weights"})
"""The kinds of the notes that are about the point estimate; others are those of the interval."""


def check_categories(estimator: str | None, categories: Any, by: str | None) -> str | None:
    """Return the estimator of weights of actions, if categories and estimator go together.

    For "mips" None: its value is put in the place of that of the interval's own estimator.

    Raises:
        UsageError: saying what is missing, or too much.

    >>> check_categories("iw", None, "country")
    'iw'
    """
    if estimator != MARGINAL and categories is not None:
        raise UsageError(
            f"got {argument('categories')} without {argument('estimator', MARGINAL)}, which "
            "weights by them; give both, or leave them out"
        )
    if estimator == MARGINAL and categories is None:
        raise UsageError(
            f"{argument('estimator', MARGINAL)} weights by categories of actions; give "
            f"{argument('categories')}: label -> category, or columns of {argument('items')}"
        )
    if estimator == MARGINAL and by is not None:
        raise UsageError(
            f"{argument('estimator', MARGINAL)} estimates the value of all rows together, got "
            f"{argument('by', by)}; leave one of them out"
        )
    if estimator == MARGINAL:
        return None
    return estimator


def marginal_estimates(
    found: Mapping[str, Evaluation],
    log: Log,
    policies: Mapping[str, Any],
    categories: Any,
    error: tuple[float, float],
) -> dict[str, Evaluation]:
    """Return the evaluations with the point estimates by weights of categories; one pass each.

    The intervals stay as they are: they do not rest on what this estimate assumes.

    Args:
        found: name -> evaluation, by weights of actions.
        log: the logged decisions.
        policies: name -> policy.
        categories: see `piwo.estimators.mips`.
        error: the propensity factor and the sensitivity.
    """
    if error != (1.0, 1.0):
        log = log.with_propensity_error(*error)
    made = {}
    for name, one in found.items():
        estimate = mips(log, policies[name], categories, name=name)
        made[name] = replace(
            one,
            estimator=MARGINAL,
            gamma=None,
            value=estimate.value,
            standard_error=estimate.standard_error,
            ess_used=estimate.ess,
            notes=(*_notes(one, estimate), *one.notes),
        )
    return made


def _notes(one: Evaluation, estimate: MarginalEstimate) -> list[Note]:
    """Return what the point estimate assumes, and what the interval has to do with it."""
    notes: list[Note] = []
    for note in estimate.notes:
        if isinstance(note, Note) and note.kind in _OWN:
            notes.append(note)
    if one.lower is None or one.upper is None:
        return notes
    if one.lower <= estimate.value <= one.upper:
        text = f"the {one.interval} interval is that of weights of actions and assumes none of that"
        return [*notes, Note(text, kind="marginal-interval")]
    text = (
        f"the value is outside of the {one.interval} interval, which does not assume that "
        f"{ASSUMPTION}"
    )
    return [*notes, Note(text, kind="marginal-interval")]
