"""Options that name a log's columns; shared by every command that reads a log."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from cyclopts import Group, Parameter, Token

import piwo
from piwo.cli.settings import settings_of
from piwo.errors import FileError, UsageError
from piwo.files import read_file
from piwo.logs.columns import ROLES, UNLOGGED_ROLES, Columns, Roles, UnloggedRoles
from piwo.logs.encoding import DEFAULT_ENCODING
from piwo.logs.propensity_error import PropensityErrorBound
from piwo.messages import argument
from piwo.visible import without_secrets

__all__ = [
    "DEFAULT_COLUMNS",
    "LogOptions",
    "LogPaths",
    "action_labels",
    "comma_list",
    "log_facts",
    "number_of",
    "whole",
]

LogPaths = Annotated[
    list[str],
    Parameter(
        help="Files, globs, addresses (s3://, https://), a DuckDB query (select ...), "
        "duckdb:FILE#TABLE, postgresql://...#TABLE, spark:TABLE, 'spark:select ...'.",
        show=True,
    ),
]

_COLUMNS = Group("Columns of the log", sort_key=2)
_PROPENSITIES = Group("Missing or uncertain propensities", sort_key=2)
_FITTED = ("folds", "forward")


def _role_options() -> list[tuple[str, Any, Any]]:
    """Return name, type and default of each role's option; `PolicyOptions` has policy columns."""
    found: list[tuple[str, Any, Any]] = []
    for name, role in ROLES.items():
        if name == "policy_columns":
            continue
        text = f"{role.help[0].upper()}{role.help[1:]}."
        if role.default is not None:
            kind: Any = str
        else:
            kind = str | None
        if role.holds == "several columns":
            kind, text = list[str] | None, f"{text[:-1]}, separated by commas or repeated."
        if role.common:
            option = Parameter(help=text, show=True)
        else:
            option = Parameter(help=text)
        found.append((name, Annotated[kind, option], role.default))
    return found


ColumnOptions: Any = make_dataclass("ColumnOptions", _role_options(), frozen=True)
"""An option for each role of `piwo.logs.columns.ROLES`."""


def whole(_: Any, tokens: Sequence[Token]) -> int:
    """Return a whole number that was typed; 1.5 is not rounded.

    Raises:
        ValueError: for other text.
    """
    text = tokens[0].value
    if not re.fullmatch(r"[0-9]+", text):
        # The command's own message names the option.
        raise ValueError(f"got {text!r}, expected a whole number from 0 on, such as 7")
    return int(text)


@Parameter(name="*", group=_COLUMNS)
@dataclass(frozen=True)
class LogOptions(ColumnOptions):  # type: ignore[misc] # its fields come from the table of roles
    """What the columns mean."""

    reward_range: Annotated[
        str,
        Parameter(
            help="Declared range LO,HI of the reward (of -cost for costs).",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = "0,1"
    actions: Annotated[
        str | None,
        Parameter(
            help="Actions: a,b,c, @FILE with one a line, or 0..79. [default: from the log]",
            show=True,
        ),
    ] = None
    normalize: Annotated[bool, Parameter(help="Divide each row of --propensities by its sum.")] = (
        False
    )
    missing: Annotated[
        Literal["refuse", "indicator"],
        Parameter(
            help="Missing context values: refuse such rows, or add a column that marks them."
        ),
    ] = "refuse"
    max_levels: Annotated[
        int,
        Parameter(
            help="A text column of at most so many distinct values becomes one column a value; "
            "with more, it is hashed.",
            converter=whole,
        ),
    ] = DEFAULT_ENCODING.max_levels
    hash_size: Annotated[
        int, Parameter(help="Columns that a hashed text fills; a power of two.", converter=whole)
    ] = DEFAULT_ENCODING.hash_size
    where: Annotated[
        str | None,
        Parameter(
            help="Read only the rows that satisfy an SQL condition: \"day >= '2026-01-01'\"."
        ),
    ] = None
    logger: Annotated[
        Literal["fixed", "learning"] | None,
        Parameter(
            help="Did the system that wrote the log learn from earlier rows of it? learning: what "
            "is learned is certified on the last rows (see --time)."
        ),
    ] = None
    estimate_propensities: Annotated[
        str | None,
        Parameter(
            help="For a log without propensities: estimate them by logistic regression of the "
            "action on --context, cross-fitted (folds) or from earlier rows only "
            "(forward). Results are valid only if the estimates are.",
            group=_PROPENSITIES,
        ),
    ] = None
    propensity_factor: Annotated[
        float | None,
        Parameter(
            help="True propensities are at most this times the logged ones; intervals and "
            "certificates allow for it. --gate requires it, or --sensitivity, for "
            "estimated propensities (1: they are right).",
            group=_PROPENSITIES,
        ),
    ] = None
    sensitivity: Annotated[
        float | None,
        Parameter(
            help="Hidden causes change the odds of an action at most by this factor; intervals "
            "and certificates allow for it.",
            group=_PROPENSITIES,
        ),
    ] = None

    def read(
        self, paths: Sequence[str], policy_columns: Sequence[str] = (), context: Sequence[str] = ()
    ) -> piwo.Log:
        """Return the log, with the declared error bound of its propensities.

        Args:
            paths: what was typed as LOG.
            policy_columns: target-policy columns to read, too.
            context: context columns to read if the user named none.

        Raises:
            UsageError: for a column without a name.
        """
        given = {x.name: getattr(self, x.name) for x in fields(ColumnOptions)}
        for name, column in given.items():
            if column == "":
                raise UsageError(f"{argument(name)} got '', expected the name of a column")
        given["context"] = comma_list(self.context) or list(context)
        given["policy_columns"] = list(policy_columns)
        source: str | list[str] = list(paths)
        if len(paths) == 1:
            source = paths[0]
        actions = None
        if self.actions is not None:
            actions = action_labels(self.actions)
        if self.estimate_propensities is not None:
            log = self._estimated(source, given, actions)
        else:
            log = piwo.read(
                source,
                actions=actions,
                reward_range=_range(self.reward_range),
                normalize=self.normalize,
                missing=self.missing,
                max_levels=self.max_levels,
                hash_size=self.hash_size,
                where=self.where,
                logger=self.logger,
                **cast(Roles, given),
            )
        factor, gamma = (
            1.0 if x is None else x for x in (self.propensity_factor, self.sensitivity)
        )
        return log.with_propensity_error(factor, gamma)

    def check_gate(self) -> None:
        """Raise if propensities are estimated and no bound on their error is declared.

        Raises:
            UsageError: saying what to declare.

        >>> LogOptions(estimate_propensities="folds", propensity_factor=1.2).check_gate()
        """
        declared = self.propensity_factor is not None or self.sensitivity is not None
        if self.estimate_propensities is not None and not declared:
            raise UsageError(
                "--gate got estimated propensities without a bound on their error; "
                "declare it with --propensity-factor or --sensitivity (1: they are "
                "right), or leave --gate out"
            )

    def _estimated(
        self, source: str | list[str], given: Mapping[str, Any], actions: Any
    ) -> piwo.Log:
        """Return the log of rows whose propensities were not logged."""
        how = self.estimate_propensities
        if how not in _FITTED:
            raise UsageError(
                f"--estimate-propensities got {how!r}, expected {' or '.join(_FITTED)}"
            )
        logged = [name for name in given if name not in UNLOGGED_ROLES and given[name] is not None]
        if self.normalize:
            logged.append("normalize")
        if logged:
            raise UsageError(
                f"--estimate-propensities excludes {argument(logged[0])}: use what was "
                "logged, or estimate"
            )
        roles = {name: given[name] for name in UNLOGGED_ROLES}
        return piwo.estimate_propensities(
            source,
            forward=how == "forward",
            actions=actions,
            reward_range=_range(self.reward_range),
            missing=self.missing,
            max_levels=self.max_levels,
            hash_size=self.hash_size,
            where=self.where,
            **cast(UnloggedRoles, roles),
        )

    def words(self, paths: Sequence[str], command: str) -> list[str]:
        """Return LOG and these options as typed, without what the settings file says."""
        kept = settings_of(command)
        words = []
        if kept.get("--log") != ",".join(paths):
            words += [without_secrets(path) for path in paths]
        for one in fields(self):
            option, text = "--" + one.name.replace("_", "-"), _as_typed(getattr(self, one.name))
            if text is None or text == kept.get(option, _as_typed(one.default)):
                continue
            if text == "true":
                words.append(option)
            elif text.startswith("-"):
                words.append(f"{option}={text}")
            else:
                words += [option, text]
        return words


def _as_typed(value: object) -> str | None:
    """Return the text that gives an option this value; None: none does."""
    if value is None or value is False:
        return None
    if value is True:
        return "true"
    if isinstance(value, list):
        return ",".join(value)
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return str(value)


DEFAULT_COLUMNS = LogOptions()
"""Columns with the default names."""


def comma_list(values: Sequence[str] | None) -> list[str]:
    """Return the entries of repeated comma lists.

    >>> comma_list(["a,b", "c"])
    ['a', 'b', 'c']
    """
    parts = ",".join(values or ()).split(",")
    return [part.strip() for part in parts if part.strip()]


def number_of(text: str, option: str) -> float:
    """Return a number that was typed.

    Raises:
        UsageError: naming the option.
    """
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option} got {text!r}, expected a number") from None


def _range(text: str) -> tuple[float, float]:
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(
            f"--reward-range got {text!r}, expected LO,HI such as 0,1 or -1,0 or 0,inf"
        )
    return number_of(parts[0], "--reward-range"), number_of(parts[1], "--reward-range")


_MOST_LABELS = 10_000_000


def action_labels(text: str) -> list[str] | list[int]:
    """Return the labels that --actions means: a comma list, @FILE with one a line, or a range.

    Raises:
        FileError: for a file that cannot be read.
        UsageError: for an empty range, and for one that is too long.

    >>> action_labels("0..3"), action_labels("a,b"), action_labels("01,1")
    ([0, 1, 2, 3], ['a', 'b'], ['01', '1'])
    """
    first, dots, last = text.partition("..")
    if dots and _whole(first) and _whole(last):
        if int(last) < int(first):
            raise UsageError(
                f"--actions got {text!r}, expected FIRST..LAST with FIRST at most LAST"
            )
        if int(last) - int(first) >= _MOST_LABELS:
            raise UsageError(
                f"--actions got {text!r}, more than {_MOST_LABELS} actions; check the "
                "ends of the range"
            )
        return list(range(int(first), int(last) + 1))
    if text.startswith("@"):
        labels = _lines(text[1:])
        # A line break at the end of the file is not a line.
        blank = [str(i) for i, label in enumerate(labels, 1) if not label.strip()]
        if blank:
            raise UsageError(
                f"--actions: {text[1:]!r} has {len(blank)} blank lines (line {', '.join(blank[:5])}"
                "), expected one label a line; remove them"
            )
    else:
        labels = [x.strip() for x in text.split(",")]
        if "" in labels:
            raise UsageError(
                f"--actions got {text!r}, which has an empty label; remove the comma too many"
            )
    if all(_whole(x) for x in labels):
        return [int(x) for x in labels]
    return labels


def _whole(text: str) -> bool:
    """Whether a text is a whole number written as piwo would write it: 7, not 07."""
    return text.removeprefix("-").isdecimal() and text.isascii() and str(int(text)) == text


def _lines(path: str) -> list[str]:
    try:
        return read_file(Path(path)).decode("utf-8-sig").splitlines()
    except FileError as cause:
        raise FileError(f"--actions: {cause}") from None
    except UnicodeError as cause:
        raise FileError(
            f"--actions: {path!r} cannot be read: {cause}; expected UTF-8 text, one label a line"
        ) from None


def log_facts(log: piwo.Log, rows: int) -> dict[str, Any]:
    """Return the JSON form of the log's description."""
    return {
        "source": log.source.name,
        "rows": rows,
        "actions": len(log.actions),
        "reward_range": [
            log.reward_range[0],
            log.reward_range[1] if log.reward_range[1] < float("inf") else None,
        ],
        "columns": _column_facts(log.columns),
        "propensities": _propensity_facts(log),
    }


def _column_facts(columns: Columns) -> dict[str, Any]:
    """Return role -> column or columns, without policies and the absent one of reward and cost."""
    found: dict[str, Any] = {}
    for role, column in columns.by_role().items():
        if role == "policy_columns" or role == ("reward" if columns.cost else "cost"):
            continue
        found[role] = column
        if isinstance(column, tuple):
            found[role] = list(column)
    return found


def _propensity_facts(log: piwo.Log) -> dict[str, Any]:
    """Return the JSON form of the origin of the propensities and the allowed error."""
    error = log.propensity_error or PropensityErrorBound()
    return {"estimated": error.estimated, "factor": error.factor, "sensitivity": error.sensitivity}
