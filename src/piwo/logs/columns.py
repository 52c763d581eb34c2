"""Which column of a log plays which role."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase

from piwo.errors import DataError, UsageError

__all__ = ["Columns", "match_names", "refuse_doubled"]


def match_names(patterns: Iterable[str], available: Sequence[str], role: str) -> tuple[str, ...]:
    """Return the column names that names and globs mean, in the log's order for a glob.

    Raises:
        DataError: where a name or glob matches nothing; near names are shown.

    >>> match_names(["user_*", "hour"], ["hour", "user_a", "user_b"], "context")
    ('user_a', 'user_b', 'hour')
    """
    found: list[str] = []
    for pattern in patterns:
        hits = (
            [pattern] if pattern in available else [x for x in available if fnmatchcase(x, pattern)]
        )
        if not hits:
            raise DataError(f"no column {pattern!r} for the {role}; {_nearest(pattern, available)}")
        found += [x for x in hits if x not in found]
    return tuple(found)


def refuse_doubled(names: Sequence[str], where: str) -> None:
    """Raise where two column names are the same but for their case, which DuckDB does not tell apart.

    Raises:
        DataError: naming the two.

    >>> refuse_doubled(["p", "P"], "the header of 'log.csv'")
    Traceback (most recent call last):
    piwo.errors.DataError: the header of 'log.csv' names columns 'p' and 'P', which differ in case at most; ...
    """
    seen: dict[str, str] = {}
    for name in names:
        if name.lower() in seen:
            raise DataError(
                f"{where} names columns {seen[name.lower()]!r} and {name!r}, which differ in case "
                "at most; give each column a name of its own"
            )
        seen[name.lower()] = name


def _nearest(name: str, available: Sequence[str]) -> str:
    near = difflib.get_close_matches(name, available, n=3, cutoff=0.5)
    shown = ", ".join(repr(x) for x in available[:20]) + (", ..." if len(available) > 20 else "")
    hint = f"did you mean {' or '.join(repr(x) for x in near)}? " if near else ""
    return f"{hint}the columns are {shown}"


@dataclass(frozen=True)
class Columns:
    """The roles of a log's columns, by name. None: the log has no such column.

    Args:
        action: the action taken (any label).
        reward: the reward; or, with `cost=True`, a cost, whose negative is the reward.
        propensity: mu(A | X), the probability with which the logged action was taken.
        log_propensity: its natural logarithm, for propensities that underflow.
        propensities: the full vector mu(. | X), one list column, in the order of the action list.
        context: names or globs of context columns.
        weight: sampling weight of a thinned log.
        policies: target-policy columns that hold pi(A | X).
        cost: the reward column holds costs.
        key: another value in every row; a split goes by it in place of row numbers.

    >>> Columns(action="item", reward="click", context=("user_*",)).resolve(
    ...     ["item", "click", "propensity", "user_age"]
    ... ).context
    ('user_age',)
    """

    action: str = "action"
    reward: str = "reward"
    propensity: str | None = "propensity"
    log_propensity: str | None = None
    propensities: str | None = None
    context: tuple[str, ...] = ()
    weight: str | None = None
    policies: tuple[str, ...] = ()
    cost: bool = False
    key: str | None = None

    def numbers(self) -> dict[str, str]:
        """Return role -> column for every role that holds one number a row."""
        named = {
            "cost" if self.cost else "reward": self.reward,
            "propensity": self.propensity,
            "log-propensity": self.log_propensity,
            "sampling weight": self.weight,
        }
        return {role: name for role, name in named.items() if name is not None}

    def resolve(self, available: Sequence[str]) -> Columns:
        """Return the same roles with context globs spelled out, every name seen to exist.

        Raises:
            DataError: where a column is missing; a missing propensity never becomes a default.
            UsageError: where two roles claim one column.
        """
        doubled = next((x for x in self.used() if list(available).count(x) > 1), None)
        if doubled is not None:
            raise DataError(
                f"column {doubled!r} is in the log twice; give each column a name of its own"
            )
        roles = {"action": self.action, **self.numbers()}
        if self.propensities is not None:
            roles["propensity vector"] = self.propensities
        for role, name in roles.items():
            match_names([name], available, role)
        if self.key is not None:
            match_names([self.key], available, "key")
            if self.key in (*roles.values(), *self.policies):
                raise UsageError(
                    f"key column {self.key!r} has another role too, expected a column that says "
                    "nothing of what was decided, such as the number of an event"
                )
        names = list(roles.values())
        doubled = next((x for i, x in enumerate(names) if x in names[:i]), None)
        if doubled is not None:
            raise UsageError(
                f"column {doubled!r} was given two roles; each role needs a column of its own"
            )
        context = match_names(self.context, available, "context")
        clash = [x for x in self.context if x in names]
        if clash:
            raise UsageError(
                f"column {clash[0]!r} is context and has another role too; leave it out of the "
                "context"
            )
        context = tuple(x for x in context if x not in names and x not in self.policies)
        policies = match_names(self.policies, available, "target policy")
        taken = next((x for x in policies if x in names and x != self.propensity), None)
        if taken is not None:
            raise UsageError(
                f"column {taken!r} is a target policy and has another role too, expected a column "
                "of probabilities of the logged action"
            )
        return replace(self, context=context, policies=policies)

    def used(self) -> tuple[str, ...]:
        """Return every column that is read, each once."""
        names = [self.action, *self.numbers().values(), *self.context, *self.policies]
        if self.propensities is not None:
            names.append(self.propensities)
        if self.key is not None:
            names.append(self.key)
        return tuple(dict.fromkeys(names))
