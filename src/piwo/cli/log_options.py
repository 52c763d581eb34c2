"""The options of a log: columns, rows and propensities; shared by every command that reads one."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, make_dataclass
from pathlib import Path
from types import MappingProxyType
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
    "categories_of",
    "comma_list",
    "log_facts",
    "number_of",
    "range_of",
    "typed_paths",
    "typed_words",
    "whole",
]

LogPaths = Annotated[
    list[str],
    Parameter(
        help="Files, globs, https://..., a query (select ...), "
        "duckdb:FILE#TABLE, postgresql://...#TABLE, spark:TABLE.",
        show=True,
    ),
]

_COLUMNS = Group("Columns of the log", sort_key=2)
_PROPENSITIES = Group("Missing or uncertain propensities", sort_key=2)
_WAYS_TO_ESTIMATE = ("folds", "forward")


def _role_options() -> list[tuple[str, Any, Any]]:
    """Return the name, type and default of the option of each role."""
    found: list[tuple[str, Any, Any]] = []
    for name, role in ROLES.items():
        # Policy columns are an option of `PolicyOptions`: not every command has policies. That of
        # segments is --by.
        if name in {"policy_columns", "segments"}:
            continue
        help_text = f"{role.help[0].upper()}{role.help[1:]}"
        kind: Any = str
        if role.default is None:
            kind = str | None
        if role.holds == "several columns":
            kind = list[str] | None
            help_text += " (a,b or repeated)"
        option = Parameter(help=f"{help_text}.")
        if role.common:
            option = Parameter(help=f"{help_text}.", show=True)
        found.append((name, Annotated[kind, option], role.default))
    return found


ColumnOptions: Any = make_dataclass("ColumnOptions", _role_options(), frozen=True)
"""An option for each role of `piwo.logs.columns.ROLES`."""


def whole(_: Any, tokens: Sequence[Token]) -> int:
    """Return a typed whole number; 1.5 is refused, not rounded.

    Raises:
        ValueError: for other text.
    """
    text = tokens[0].value
    if not re.fullmatch(r"[0-9]+", text):
        # Cyclopts adds the name of the option.
        raise ValueError(f"got {text!r}, expected a whole number of at least 0, such as 7")
    return int(text)


@Parameter(name="*", group=_COLUMNS)
@dataclass(frozen=True)
class LogOptions(ColumnOptions):  # type: ignore[misc] # (fields from the table of roles)
    """The meaning of the columns, the rows to read, and the error of propensities."""

    reward_range: Annotated[
        str,
        Parameter(
            help="Range LO,HI of the reward (or of -cost).",
            show=True,
            allow_leading_hyphen=True,
        ),
    ] = "0,1"
    actions: Annotated[
        str | None,
        Parameter(
            help="a,b,c, or 0..79, or @FILE. [default: from the log]",
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
            help="A text column with at most this many distinct values is one-hot "
            "encoded; with more, it is hashed.",
            converter=whole,
        ),
    ] = DEFAULT_ENCODING.max_levels
    hash_size: Annotated[
        int,
        Parameter(help="Number of columns of a hashed text; a power of two.", converter=whole),
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
            help="fixed, or learning: it learned from rows of the log.",
            show=True,
            show_choices=False,
        ),
    ] = None
    action_cost: Annotated[
        str | None,
        Parameter(
            help="Cost of each action in the reward's unit, a=.1,b=.2 or @FILE with one "
            "label=cost a line; or the column of what each row's action cost: results are net of "
            "costs."
        ),
    ] = None
    action_cost_range: Annotated[
        str | None,
        Parameter(
            help="Range LO,HI of the column that --action-cost names. [default: 0,1]",
            allow_leading_hyphen=True,
        ),
    ] = None
    items: Annotated[
        str | None,
        Parameter(
            help="File or query with features of the actions, one row a label, for models of "
            "context and item, which act on new items. Its labels are the actions. Of a file of "
            "Vowpal Wabbit: features of the action lines, such as a/price,a/topic."
        ),
    ] = None
    items_label: Annotated[
        str | None,
        Parameter(
            help="Its column of labels. [default: that of --action] Of a file of Vowpal Wabbit: "
            "what in an action is its label, such as a/id or _tag."
        ),
    ] = None
    independent_rows: Annotated[
        bool,
        Parameter(
            help="Rows are independent although a column named like the id of a user has values "
            "that repeat; without this or --unit, --gate refuses such a log."
        ),
    ] = False
    estimate_propensities: Annotated[
        str | None,
        Parameter(
            help="For a log without propensities: estimate them by logistic regression of "
            "the action on --context, cross-fitted (folds) or from earlier rows only "
            "(forward). Results are valid only if the estimates are right.",
            group=_PROPENSITIES,
        ),
    ] = None
    propensity_factor: Annotated[
        float | None,
        Parameter(
            help="True propensities are at most this times the given ones; intervals and "
            "certificates allow for it. --gate requires it, or --sensitivity, for "
            "estimated propensities (1: they are right).",
            group=_PROPENSITIES,
        ),
    ] = None
    sensitivity: Annotated[
        float | None,
        Parameter(
            help="Unobserved causes change the odds of an action by at most this factor; "
            "intervals and certificates allow for it.",
            group=_PROPENSITIES,
        ),
    ] = None

    def read(
        self,
        paths: Sequence[str],
        policy_columns: Sequence[str] = (),
        context: Sequence[str] = (),
        outcomes: Sequence[str] = (),
        segments: Sequence[str] = (),
        labels: Sequence[int | str] | None = None,
    ) -> piwo.Log:
        """Return the log, with the declared error bound of its propensities.

        Args:
            paths: the words for LOG.
            policy_columns: columns with the probabilities of policies.
            context: context columns to read if --context names none.
            outcomes: columns of outcomes that guardrails name, besides those of --outcomes.
            segments: the column of --by.
            labels: the action list if --actions gives none; None: from the log.

        Raises:
            UsageError: for a column without a name.
        """
        given = {x.name: getattr(self, x.name) for x in fields(ColumnOptions)}
        for name, column in given.items():
            if column == "":
                raise UsageError(f"{argument(name)} got '', expected the name of a column")
        given["context"] = comma_list(self.context) or list(context)
        given["policy_columns"] = list(policy_columns)
        given["outcomes"] = list(dict.fromkeys([*comma_list(self.outcomes), *outcomes]))
        given["segments"] = list(segments)
        source: str | list[str] = list(paths)
        if len(paths) == 1:
            source = paths[0]
        actions: Any = labels
        if self.actions is not None:
            actions = action_labels(self.actions)
        costs, cost_range = None, None
        if self.action_cost is not None:
            costs = costs_of(self.action_cost)
        if self.action_cost_range is not None:
            cost_range = range_of(self.action_cost_range, "--action-cost-range")
        if self.estimate_propensities is not None:
            log = self._estimated(source, given, actions, costs, cost_range)
        else:
            log = piwo.read(
                source,
                actions=actions,
                reward_range=range_of(self.reward_range, "--reward-range"),
                normalize=self.normalize,
                missing=self.missing,
                max_levels=self.max_levels,
                hash_size=self.hash_size,
                where=self.where,
                logger=self.logger,
                action_cost=costs,
                action_cost_range=cost_range,
                items=self.items,
                items_label=self.items_label,
                **cast(Roles, given),
            )
        factor, gamma = self.propensity_factor, self.sensitivity
        # `check_gate` must know whether 1 was typed, so it is not the default of the options.
        if factor is None:
            factor = 1.0
        if gamma is None:
            gamma = 1.0
        return log.with_propensity_error(factor, gamma)

    def check_gate(self) -> None:
        """Raise if propensities are estimated and no bound on their error is declared.

        Raises:
            UsageError: with the options that declare one.

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
        self,
        source: str | list[str],
        given: Mapping[str, Any],
        actions: Any,
        costs: dict[str, float] | str | None,
        cost_range: tuple[float, float] | None,
    ) -> piwo.Log:
        """Return the log of rows whose propensities were not logged."""
        how = self.estimate_propensities
        if how not in _WAYS_TO_ESTIMATE:
            known = " or ".join(_WAYS_TO_ESTIMATE)
            raise UsageError(f"--estimate-propensities got {how!r}, expected {known}")
        logged = []
        for name, column in given.items():
            if column is not None and name not in UNLOGGED_ROLES:
                logged.append(name)
        if self.normalize:
            logged.append("normalize")
        # Estimated propensities are those of all actions.
        if self.items is not None:
            logged.append("items")
        if logged:
            raise UsageError(
                f"--estimate-propensities excludes {argument(logged[0])}: use logged "
                "propensities, or estimate them"
            )
        if how == "forward" and given["unit"] is not None:
            raise UsageError(
                "--estimate-propensities forward excludes --unit, as rows of a unit are in several "
                "parts; use --estimate-propensities folds"
            )
        roles = {name: given[name] for name in UNLOGGED_ROLES}
        return piwo.estimate_propensities(
            source,
            forward=how == "forward",
            actions=actions,
            reward_range=range_of(self.reward_range, "--reward-range"),
            missing=self.missing,
            max_levels=self.max_levels,
            hash_size=self.hash_size,
            where=self.where,
            logger=self.logger,
            action_cost=costs,
            action_cost_range=cost_range,
            **cast(UnloggedRoles, roles),
        )

    def words(self, paths: Sequence[str], command: str) -> list[str]:
        """Return LOG and these options as a user would type them for a command.

        Args:
            paths: the words for LOG.
            command: whose settings in the settings file are left out.
        """
        return [*typed_paths(paths, command), *typed_words(self, command)]


def typed_paths(paths: Sequence[str], command: str) -> list[str]:
    """Return the words for LOG; none if they are those of the settings file.

    Args:
        paths: the words as they were typed.
        command: whose settings in the settings file are left out.
    """
    if settings_of(command).get("--log") == ",".join(paths):
        return []
    return list(map(without_secrets, paths))


def typed_words(
    options: Any, command: str, names: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    """Return options as a user would type them for a command.

    Args:
        options: a dataclass of them.
        command: whose settings in the settings file are left out.
        names: of options that are not called as their fields are.
    """
    settings = settings_of(command)
    words: list[str] = []
    for one in fields(options):
        option = names.get(one.name, "--" + one.name.replace("_", "-"))
        text = _typed_value(getattr(options, one.name))
        if text is None or text == settings.get(option, _typed_value(one.default)):
            continue
        if text == "true":
            words.append(option)
        elif text.startswith("-"):
            # As a word of its own, it would be read as an option.
            words.append(f"{option}={text}")
        else:
            words += [option, text]
    return words


def _typed_value(value: object) -> str | None:
    """Return the text that gives an option this value; None if leaving it out does."""
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
    """Return the entries of comma lists.

    >>> comma_list(["a,b", "c"])
    ['a', 'b', 'c']
    """
    parts = ",".join(values or ()).split(",")
    return [part.strip() for part in parts if part.strip()]


def number_of(text: str, option: str) -> float:
    """Return a typed number.

    Raises:
        UsageError: naming the option.
    """
    try:
        return float(text)
    except ValueError:
        raise UsageError(f"{option} got {text!r}, expected a number") from None


def range_of(text: str, option: str) -> tuple[float, float]:
    """Return the two numbers of LO,HI.

    Raises:
        UsageError: naming the option.

    >>> range_of("-1,0", "--reward-range")
    (-1.0, 0.0)
    """
    parts = text.split(",")
    if len(parts) != 2:
        raise UsageError(f"{option} got {text!r}, expected LO,HI such as 0,1 or -1,0 or 0,inf")
    return number_of(parts[0], option), number_of(parts[1], option)


_MOST_LABELS = 10_000_000


def action_labels(text: str) -> list[str] | list[int]:
    """Return the labels of --actions: a comma list, @FILE with one label a line, or a range.

    Raises:
        FileError: for a file that cannot be read.
        UsageError: for an empty range, and for one that is too long.

    >>> action_labels("0..3"), action_labels("a,b"), action_labels("01,1")
    ([0, 1, 2, 3], ['a', 'b'], ['01', '1'])
    """
    first, dots, last = text.partition("..")
    if dots and _is_whole(first) and _is_whole(last):
        if int(last) < int(first):
            raise UsageError(
                f"--actions got {text!r}, expected FIRST..LAST with FIRST at most LAST"
            )
        # Checked before the list is made, which could fill the memory.
        if int(last) - int(first) >= _MOST_LABELS:
            raise UsageError(
                f"--actions got {text!r}, more than {_MOST_LABELS} actions; check the "
                "ends of the range"
            )
        return list(range(int(first), int(last) + 1))
    if text.startswith("@"):
        labels = _lines(text[1:])
        blank = [str(i) for i, label in enumerate(labels, 1) if not label.strip()]
        if blank:
            some = ", ".join(blank[:5])
            raise UsageError(
                f"--actions: {text[1:]!r} has {len(blank)} blank lines (line {some}), "
                "expected one label a line; remove them"
            )
    else:
        labels = [x.strip() for x in text.split(",")]
        if "" in labels:
            raise UsageError(
                f"--actions got {text!r}, which has an empty label; remove the comma too many"
            )
    # 01 and 1 are two labels, as text columns of logs hold them.
    if all(map(_is_whole, labels)):
        return list(map(int, labels))
    return labels


def costs_of(text: str) -> dict[str, float] | str:
    """Return label -> cost of --action-cost: a comma list, or @FILE with one of them a line.

    A word without an equals sign is the name of a column, and is returned as it is.

    Raises:
        FileError: for a file that cannot be read.
        UsageError: for an entry that is not label=cost, and for a label that is there twice.

    >>> costs_of("a=.1,b=0"), costs_of("fee")
    ({'a': 0.1, 'b': 0.0}, 'fee')
    """
    if text.strip() and not text.startswith("@") and "=" not in text:
        return text
    costs = {}
    for label, cost in _by_label(text, "--action-cost", "COST", ".1").items():
        costs[label] = number_of(cost, "--action-cost")
    return costs


def categories_of(text: str) -> dict[str, str] | list[str]:
    """Return label -> category of --categories: a comma list, or @FILE with one of them a line.

    Words without an equals sign are the names of columns of items.

    Raises:
        FileError: for a file that cannot be read.
        UsageError: for an entry that is not label=category, and for a label that is there twice.

    >>> categories_of("a=x,b=y"), categories_of("topic,size")
    ({'a': 'x', 'b': 'y'}, ['topic', 'size'])
    """
    if text.strip() and not text.startswith("@") and "=" not in text:
        return comma_list([text])
    return _by_label(text, "--categories", "CATEGORY", "x")


def _by_label(text: str, option: str, what: str, example: str) -> dict[str, str]:
    """Return label -> what is written after its equals sign, of a comma list or a file."""
    if text.startswith("@"):
        entries = [x for x in _lines(text[1:], option) if x.strip()]
    else:
        entries = text.split(",")
    found: dict[str, str] = {}
    for entry in entries:
        label, sign, value = entry.rpartition("=")
        label = label.strip()
        if not (sign and label):
            raise UsageError(
                f"{option} got {entry!r:.80}, expected LABEL={what}, such as a={example}, or "
                "@FILE with one of them a line"
            )
        if label in found:
            raise UsageError(
                f"{option} names {label!r:.80} twice; give each label one {what.lower()}"
            )
        found[label] = value.strip()
    return found


def _is_whole(text: str) -> bool:
    """Whether a text is a whole number written as piwo would write it: 7, not 07."""
    digits = text.removeprefix("-")
    return digits.isdecimal() and text.isascii() and str(int(text)) == text


def _lines(path: str, option: str = "--actions") -> list[str]:
    try:
        return read_file(Path(path)).decode("utf-8-sig").splitlines()
    except FileError as cause:
        raise FileError(f"{option}: {cause}") from None
    except UnicodeError as cause:
        raise FileError(
            f"{option}: {path!r} cannot be read: {cause}; expected UTF-8 text, one label a line"
        ) from None


def log_facts(log: piwo.Log, rows: int) -> dict[str, Any]:
    """Return the description of a log as JSON has it."""
    low, high = log.reward_range
    upper: float | None = high
    # JSON has no infinity.
    if math.isinf(high):
        upper = None
    costs = None
    if log.action_costs is not None:
        costs = log.action_costs.to_dict()
    return {
        "source": log.source.name,
        "rows": rows,
        "actions": len(log.actions),
        "reward_range": [low, upper],
        "action_cost": costs,
        "columns": _column_facts(log.columns),
        "propensities": _propensity_facts(log),
    }


def _column_facts(columns: Columns) -> dict[str, Any]:
    """Return role -> column or columns, but for policies, and reward or cost if it is unused."""
    unused = "cost"
    if columns.cost:
        unused = "reward"
    found: dict[str, Any] = {}
    for role, column in columns.by_role().items():
        if role in {"policy_columns", unused}:
            continue
        found[role] = column
        if isinstance(column, tuple):
            found[role] = list(column)
    return found


def _propensity_facts(log: piwo.Log) -> dict[str, Any]:
    """Return whether propensities are estimated, and their declared error, as JSON has them."""
    error = log.propensity_error or PropensityErrorBound()
    return {
        "estimated": error.estimated,
        "factor": error.factor,
        "sensitivity": error.sensitivity,
    }
