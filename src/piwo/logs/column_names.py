"""Names of columns and arguments: which ones are meant, and near names for those that are not."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from typing import Any

from piwo.errors import DataError, UsageError
from piwo.messages import argument

__all__ = ["NO_PROPENSITIES", "match_names", "refuse_unknown", "require_columns"]


def refuse_unknown(
    function: Callable[..., Any], given: Iterable[str], roles: Iterable[str]
) -> None:
    """Raise for keyword arguments that a function does not have.

    Args:
        function: takes roles as keywords, in addition to its own arguments.
        given: the names of the keywords.
        roles: the roles that the function takes.

    Raises:
        UsageError: with near names.

    >>> refuse_unknown(match_names, ["contxt"], ["context"])
    Traceback (most recent call last):
    piwo.errors.UsageError: match_names has no argument 'contxt'; did you mean 'context'? ...
    """
    roles = tuple(roles)
    for name in given:
        if name in roles:
            continue
        kinds = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
        own = inspect.signature(function).parameters.values()
        known = [*roles, *(x.name for x in own if x.kind in kinds)]
        raise UsageError(
            f"{function.__name__} has no argument {name!r}; {_nearest(name, known, 'arguments')}"
        )


def match_names(
    patterns: Iterable[str],
    available: Sequence[str],
    role: str,
) -> tuple[str, ...]:
    """Return the columns that match names and globs; those of a glob in the order of the log.

    Raises:
        DataError: if a name or glob matches nothing; near names are shown.

    >>> match_names(["user_*", "hour"], ["hour", "user_a", "user_b"], "context")
    ('user_a', 'user_b', 'hour')
    """
    found: list[str] = []
    for pattern in patterns:
        hits = [pattern]
        # A name that looks like a glob is a name first.
        if pattern not in available:
            hits = [x for x in available if fnmatchcase(x, pattern)]
        if not hits:
            raise DataError(
                f"no column {pattern!r} for the {role}; {_nearest(pattern, available, 'columns')}"
            )
        found += hits
    # Several globs may match one column.
    return tuple(dict.fromkeys(found))


NO_PROPENSITIES = (
    f"; if none were logged, fit them ({argument('piwo.estimate_propensities')}), or give the rule "
    "that drew (behavior= of piwo.read)"
)
"""What to do without a column of propensities."""


def require_columns(names: Iterable[str], available: Sequence[str], role: str) -> None:
    """Raise unless there is a column of each name; a glob is not a name.

    Raises:
        DataError: if there is no such column; near names are shown.

    >>> require_columns(["h*"], ["hour"], "key")
    Traceback (most recent call last):
    piwo.errors.DataError: no column 'h*' for the key, which takes a name and not a glob; ...
    """
    for name in names:
        if name in available:
            continue
        hits = [x for x in available if fnmatchcase(x, name)]
        if not hits:
            near, advice = _nearest(name, available, "columns"), ""
            if name == role:
                # As a rule nobody typed it: it is what is read if no other name is given.
                advice = f"; name yours: {argument(role, 'NAME')}"
            if role == "propensity":
                advice += NO_PROPENSITIES
            raise DataError(f"no column {name!r} for the {role}; {near}{advice}")
        raise DataError(
            f"no column {name!r} for the {role}, which takes a name and not a glob; "
            f"did you mean {' or '.join(map(repr, hits[:3]))}?"
        )


def _nearest(name: str, available: Sequence[str], what: str) -> str:
    if not available:
        return f"there are no {what}"
    near = difflib.get_close_matches(name, available, n=3, cutoff=0.5)
    shown = ", ".join(map(repr, available[:20]))
    if len(available) > 20:
        shown += ", ..."
    if not near:
        return f"the {what} are {shown}"
    return f"did you mean {' or '.join(map(repr, near))}? the {what} are {shown}"
