"""Checks that a policy fits a log, before any row is read."""

from __future__ import annotations

from piwo.checks import check_count, check_kind
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.column_names import require_columns
from piwo.logs.features import Features
from piwo.messages import argument
from piwo.policies.policy import Policy

__all__ = ["check_fits"]


def check_fits(
    policy: Policy, features: Features | None, actions: Actions, rows: int | None = None
) -> None:
    """Raise if a policy cannot be used on a log.

    Args:
        policy: any policy.
        features: the log's context; None if it has none.
        actions: the log's action list.
        rows: the log's number of rows, if known.

    Raises:
        DataError: if the log lacks context columns that the policy needs (similar names are shown),
            or its context has another width.
        UsageError: if the policy takes actions that the list lacks, or was made for another
            number of rows.

    >>> from piwo.policies.context_free import Uniform
    >>> check_fits(Uniform(["a", "b"]), None, Actions(["b", "a"]))
    """
    check_kind("policy", policy, Policy, " of piwo.policies")
    check_kind("actions", actions, Actions)
    check_kind("features", features, (Features, type(None)))
    if rows is not None:
        check_count("rows", rows, 0)
    policy.onto(actions)
    if rows is not None and policy.rows is not None and rows != policy.rows:
        raise UsageError(
            f"the policy has {policy.rows:,} rows, the log has {rows:,}; give one row for "
            "each row of the log, in its order"
        )
    if not policy.needs_context:
        return
    if features is None:
        wanted = ""
        if policy.features is not None:
            wanted = f": {', '.join(policy.features.columns[:8])}"
        raise DataError(
            f"the policy needs the context{wanted}, but the log was read without one; "
            f"read it with {argument('context', '[...]')}"
        )
    if policy.features is not None:
        require_columns(policy.features.columns, features.columns, "policy's context")
    elif policy.width not in {None, features.width}:
        raise DataError(
            f"the policy takes a context of {policy.width} columns, the log has "
            f"{features.width} ({', '.join(features.names[:8])}); read the log with "
            "the columns of the policy"
        )
