"""Matches policies with a log: one action list, one context, the right number of rows."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.checks import a_kind, is_number, shown
from piwo.errors import DataError, UsageError
from piwo.intervals.loggers import check_loggers
from piwo.logs.actions import Actions
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy, RowWise, aligned, check_fits
from piwo.reductions import ActionCount
from piwo.reductions.reduce import reduce
from piwo.sources.frames import is_frame

__all__ = [
    "UNNAMED",
    "actions_logged_once",
    "check_actions_known",
    "check_kinds",
    "check_named",
    "matched",
    "may_lack_actions",
    "name_of",
    "resolve_gamma",
    "unknown_actions",
    "whole_length",
]

UNNAMED = "policy"
"""What an array, a column or a function is called, which has no name of its own."""


def matched(log: Log, policies: Mapping[Any, Any]) -> tuple[Log, dict[Any, Policy]]:
    """Return the log and the policies over one action list, with the context that they need.

    Policies may know actions that were never logged: an action list that was only seen is widened
    by them; an explicit one is not.

    Args:
        log: the logged decisions.
        policies: name -> policy, or what `piwo.evaluate` takes in place of one.

    Raises:
        UsageError: for arrays that do not say which column is which action, or have another number
            of rows, and for the logging policy of another log.
        DataError: for policies over other actions, or made from context columns that the log lacks.
    """
    check_kinds(log, policies)
    check_loggers(log, policies)
    made = {name: _as_policy(policy, log) for name, policy in policies.items()}
    alone = log.declared_actions is None and log.columns.eligible is None
    if alone and not any(policy.needs_actions for policy in made.values()):
        return log, made  # known by their columns alone: the action list need not be read
    log = _with_actions(log, made)
    log = _with_context(log, made)
    by_row = [name for name, policy in made.items() if policy.rows is not None]
    rows = None
    if by_row:
        log.require_order(f"policy {by_row[0]!r}, an array,")
        rows = whole_length(log)
    for policy in made.values():
        check_fits(policy, log.features if policy.needs_context else None, log.actions, rows)
    return log, {name: aligned(policy, log.actions) for name, policy in made.items()}


def _with_actions(log: Log, policies: Mapping[Any, Policy]) -> Log:
    """Return the log with the actions that only the policies know, unless its list is explicit."""
    extra = []
    for name, policy in policies.items():
        if policy.listed is None:
            continue
        if not any(label in log.actions for label in policy.listed):
            raise DataError(
                f"policy {name!r} is for other actions ({policy.listed.preview()}) than the log's "
                f"({log.actions.preview()}); was it made for another log, or is the action another "
                "column?"
            )
        extra += [label for label in policy.listed if label not in log.actions]
    if log.declared_actions is not None or not extra:
        return log
    return replace(log, declared_actions=_widened(log.actions, extra))


def _with_context(log: Log, policies: Mapping[Any, Policy]) -> Log:
    """Return the log with its context encoded as the policies need it."""
    asked = [policy.features for policy in policies.values() if policy.needs_context]
    features = {one for one in asked if one is not None}
    if len(features) > 1:
        raise UsageError(
            "these policies were made from different context columns; evaluate them one at a time"
        )
    if features:
        return log.encoded_by(features.pop())
    return log


def may_lack_actions(log: Log) -> bool:
    """Whether other actions may have been possible than those of the log's list.

    They may if it was taken from the rows. Rows that list their eligible actions lack none.

    >>> import piwo
    >>> may_lack_actions(piwo.Log.from_arrays(action=["a"], reward=[0], propensity=[0.5]))
    True
    """
    declared = log.declared_actions is not None and not log.declared_actions.seen
    return not declared and log.columns.eligible is None


def check_actions_known(log: Log, policies: Iterable[Policy]) -> None:
    """Refuse policies that depend on the observed actions if the log may lack some actions.

    Such a policy is made from the data: E w <= 1 does not hold for it, and no bound does.

    Raises:
        UsageError: if such a policy is among them and an action was logged exactly once.
    """
    if not may_lack_actions(log):
        return
    if any(policy.depends_on_observed_actions for policy in policies) and (
        once := actions_logged_once(log)
    ):
        raise UsageError(
            f"{unknown_actions(once, len(log.actions))}: no bound holds; give the list "
            f"({argument('actions', '[...]')})"
        )


def actions_logged_once(log: Log) -> int:
    """Return how many actions of the list were logged exactly once; a pass over the log."""
    return int((reduce(log, ActionCount(len(log.actions))).count == 1).sum())


def unknown_actions(once: int, actions: int) -> str:
    """Return why an action list that was inferred may be too short."""
    return (
        f"{once} of {actions} actions were logged only once and the action list was inferred, "
        "so others may be missing from it, and the policy would play those too"
    )


def check_kinds(log: Any, policies: Any) -> None:
    """Raise if a log is not a log, or policies come without names.

    Raises:
        UsageError: saying what was given.
    """
    if not isinstance(log, Log):
        # named, not imported: slates are a layer above
        slates = type(log).__name__ == "SlateLog"
        do = "piwo.slates.check, evaluate and others take it" if slates else "piwo.read makes one"
        raise UsageError(f"got {a_kind(log)} for the log, expected a piwo.Log; {do}")
    if not isinstance(policies, Mapping):
        raise UsageError(
            f"got {a_kind(policies)} for the policies, expected a mapping from name to policy"
        )


def check_named(log: Any, policies: Any) -> None:
    """Raise if a log is not a log, or no policy is named.

    Raises:
        UsageError: saying what was given.
    """
    check_kinds(log, policies)
    if not policies:
        raise UsageError("no policies were given; name at least one")


def resolve_gamma(
    gamma: float | str, rows: int, delta: float, log_class_size: float = 0.0
) -> float:
    """Return gamma as a number; "auto" is the theory's sqrt(log(2|Pi|/delta) / n).

    Args:
        gamma: a number above 0, or "auto".
        rows: n.
        delta: chance of error.
        log_class_size: log|Pi|.

    Raises:
        UsageError: for other text.

    >>> round(resolve_gamma("auto", 10_000, 0.05), 5)
    0.01921
    """
    if gamma == "auto":
        return bounds.gamma_auto(max(rows, 1), log_class_size, delta)
    if isinstance(gamma, str):
        raise UsageError(f"{argument('gamma')} is {gamma!r}, expected a number above 0 or 'auto'")
    if not (is_number(gamma) and 0 < gamma < math.inf):
        raise UsageError(
            f"{argument('gamma')} is {shown(gamma)}, expected one finite number above 0 or 'auto'"
        )
    return float(gamma)


def name_of(policy: Any) -> str:
    """Return what to call a policy that was given no name.

    >>> name_of([0.5, 0.5])
    'policy'
    """
    return str(getattr(policy, "called", UNNAMED))


def _as_policy(policy: Any, log: Log) -> Policy:
    if isinstance(policy, Policy):
        return policy
    if isinstance(policy, str):
        raise UsageError(
            f"{policy!r} is text, expected a policy; use piwo.load(path) or piwo.policies"
        )
    # A mapping is a data frame; an empty one is more likely meant for several policies.
    is_empty = isinstance(policy, Mapping) and not policy
    if is_frame(policy):
        shape = None
    else:
        shape = np.shape(policy)
    if shape == () or is_empty:
        raise UsageError(
            f"{shown(policy)} is not a policy; expected one of piwo.policies, piwo.load(path), an "
            "array of probabilities, or a data frame with one column an action"
        )
    if shape is not None and len(shape) == 2 and log.declared_actions is None:
        raise UsageError(
            f"an array of shape {shape} does not say which column is which action; read the log "
            f"with {argument('actions', '[...]')}, or give a data frame with one column an action"
        )
    return RowWise(policy, log.declared_actions)


def _widened(actions: Actions, extra: list[Any]) -> Actions:
    labels = [*actions, *dict.fromkeys(extra)]
    kinds = {type(x) for x in labels}
    return Actions(labels if len(kinds) == 1 else [str(x) for x in labels])


def whole_length(log: Log) -> int | None:
    """Return how many rows the row numbers count, before any split; None if unknown."""
    if log.source.rows is not None or log.selector is not None:
        return log.source.rows
    return len(log)
