"""The roles of a log's columns: one table, from which everything that takes columns is made.

`Roles` is the table, and `UnloggedRoles` its first part. An entry states, once, what a role is
called, what `piwo.read` accepts for it, what it means, how its column is validated and whether the
command lists it among the common options. `piwo.read`, `Log.from_arrays`,
`piwo.estimate_propensities` and the options of the command are made from it. A new optional column
of numbers is an entry here and in `Arrays`, a field of `Columns` and a field of `Batch`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, Literal, TypedDict, get_type_hints

from piwo.errors import DataError, UsageError
from piwo.logs.column_names import match_names, require_columns
from piwo.messages import argument

__all__ = [
    "ARRAYS",
    "ROLES",
    "UNLOGGED_ROLES",
    "Arrays",
    "Columns",
    "Role",
    "Roles",
    "UnloggedRoles",
]


@dataclass(frozen=True)
class Role:
    """What a column of a log is for.

    >>> ROLES["weight"].check
    'sampling weight'
    """

    help: str
    """What the column holds: for the documentation, and for the command's help, where that of a
    common role fits into one line."""
    detail: str = ""
    """What the documentation says besides."""
    label: str = ""
    """What error messages and reports call it, if not by its name."""
    holds: Literal["labels", "number", "vector", "keys", "several columns"] = "number"
    check: Literal["finite", "sampling weight"] | None = None
    """How a number is validated by itself and becomes the field of `Batch` that has its name; None:
    together with other columns or declarations, as rewards and propensities are."""
    default: str | None = None
    """The column that is read if the role is not given."""
    common: bool = False
    """Whether the command's short help lists it."""

    @property
    def text(self) -> str:
        """What the documentation says of the column."""
        if self.detail:
            return f"{self.help}; {self.detail}"
        return self.help


class UnloggedRoles(TypedDict, total=False):
    """The columns of a log without propensities, as `piwo.estimate_propensities` takes them."""

    action: Annotated[
        str,
        Role(
            "column of the action taken",
            detail="text stays text (01 is not 1)",
            holds="labels",
            default="action",
            common=True,
        ),
    ]
    reward: Annotated[
        str | None,
        Role("column of the reward (default: reward)", common=True),
    ]
    cost: Annotated[
        str | None,
        Role("column of a cost, instead of a reward: reward = -cost", common=True),
    ]
    context: Annotated[
        str | Sequence[str],
        Role("context columns, by names or globs", holds="several columns", common=True),
    ]
    policy_columns: Annotated[
        str | Sequence[str],
        Role(
            "columns of pi(A | X), the probabilities of target policies",
            label="target policy",
            holds="several columns",
        ),
    ]
    outcomes: Annotated[
        str | Sequence[str],
        Role(
            "columns of other outcomes, such as complaints, for guardrails",
            detail="globs of the context leave them out, as they are unknown at the decision",
            label="outcome",
            holds="several columns",
        ),
    ]
    segments: Annotated[
        str | Sequence[str],
        Role(
            "columns that results can be split by, such as a country, besides those of the context",
            label="segments",
            holds="several columns",
        ),
    ]
    position: Annotated[
        str | None,
        Role(
            "where the action was shown (1, 2, ...), for check",
            detail="globs of the context leave it out; name it there if it was known before the "
            "decision",
            holds="keys",
        ),
    ]
    key: Annotated[
        str | None,
        Role(
            "unique row id, used only to assign rows to the held-out split (required for clusters)",
            holds="keys",
        ),
    ]
    time: Annotated[
        str | None,
        Role(
            "time of the decision, for rows held out in time order",
            detail="the order of the rows if there is none",
            holds="keys",
            common=True,
        ),
    ]
    unit: Annotated[
        str | None,
        Role(
            "units (users, sessions) whose rows depend on each other",
            detail="statistics and splits are then by unit, and each unit counts the same",
            holds="keys",
            common=True,
        ),
    ]


class Roles(UnloggedRoles, total=False):
    """The columns of a log by role, as `piwo.read` takes them.

    >>> ROLES["key"].help
    'unique row id, used only to assign rows to the held-out split (required for clusters)'
    """

    propensity: Annotated[
        str | None,
        Role(
            "probability of the action taken (default: propensity)",
            detail="column of mu(A | X)",
            common=True,
        ),
    ]
    log_propensity: Annotated[
        str | None,
        Role(
            "column of log mu(A | X), for propensities that underflow",
            label="log-propensity",
        ),
    ]
    propensities: Annotated[
        str | None,
        Role(
            "probabilities of all actions: lists, or {label: p}",
            detail="column of mu(. | X), lists in the order of the actions, or objects",
            label="propensity vector",
            holds="vector",
            common=True,
        ),
    ]
    eligible: Annotated[
        str | None,
        Role(
            "lists of the actions that could be taken, if they change from row to row",
            detail="column of lists of labels; absent: all actions in every row",
            label="eligible actions",
            holds="labels",
        ),
    ]
    predictions: Annotated[
        str | None,
        Role(
            "lists of the predicted rewards of the eligible actions, for control variates",
            detail="in the reward's own unit and in the order of `eligible`, made from other rows; "
            "results use them if asked to",
            label="predicted rewards",
            holds="vector",
        ),
    ]
    weight: Annotated[
        str | None,
        Role(
            "column of sampling weights, for a thinned log: 1 / (rate at which rows were kept)",
            label="sampling weight",
            check="sampling weight",
        ),
    ]


class Arrays(TypedDict, total=False):
    """The optional arrays of `Log.from_arrays`, one entry a row; what each must be.

    >>> ARRAYS["weight"]
    '(n,) sampling weights'
    """

    propensity: Annotated[Any, "(n,) mu(A_t | X_t)"]
    log_propensity: Annotated[Any, "(n,) log mu(A_t | X_t), for propensities that underflow"]
    propensities: Annotated[
        Any,
        "(n, K) mu(a | X_t), columns in the order of `actions`; a data frame is matched by name",
    ]
    eligible: Annotated[Any, "n lists of the actions that could be taken"]
    predictions: Annotated[Any, "n lists of the predicted rewards of the eligible actions"]
    weight: Annotated[Any, "(n,) sampling weights"]
    position: Annotated[Any, "(n,) where the action was shown, such as 1, 2, ..."]
    unit: Annotated[Any, "(n,) units (users, sessions) whose rows depend on each other"]
    time: Annotated[Any, "(n,) times of the decisions"]


def _table(kind: type) -> dict[str, Any]:
    # The annotations hold the entries, so that types and table cannot differ.
    hints = get_type_hints(kind, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


ROLES: Mapping[str, Role] = _table(Roles)
"""Every role by name."""
UNLOGGED_ROLES: Mapping[str, Role] = _table(UnloggedRoles)
"""Those of a log without propensities."""
ARRAYS: Mapping[str, str] = _table(Arrays)
"""Every optional array by name, and what it must be."""
NUMBERS = tuple(x for x, role in ROLES.items() if role.holds == "number" and x != "cost")
"""Roles with one number a row; the column of a cost is that of the reward."""
STATES_PROPENSITIES = ("propensity", "log_propensity", "propensities")
"""A log needs one of these roles, unless the behavior policy is given as an object."""


def _label(name: str) -> str:
    return ROLES[name].label or name


@dataclass(frozen=True)
class Columns:
    """The columns of a log by role, see `Roles`; None: the log has no such column.

    `reward` is the column of the reward, or of a cost if `cost` is True.

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
    eligible: str | None = None
    predictions: str | None = None
    """Lists of predicted rewards, one for each eligible action."""
    context: tuple[str, ...] = ()
    weight: str | None = None
    policies: tuple[str, ...] = ()
    outcomes: tuple[str, ...] = ()
    segments: tuple[str, ...] = ()
    cost: bool = False
    action_cost: str | None = None
    """What the action of each row cost, which is subtracted from its reward."""
    item_features: str | None = None
    """Lists of objects, the features of each eligible action."""
    position: str | None = None
    """Where the action was shown."""
    key: str | None = None
    unit: str | None = None
    time: str | None = None

    @classmethod
    def of_roles(cls, roles: Roles, behavior: bool = False) -> Columns:
        """Return the columns for roles as `piwo.read` takes them.

        Args:
            roles: by name.
            behavior: whether the behavior policy is given as an object, instead of propensities.

        Raises:
            UsageError: for values that are not column names, and for both a reward and a cost.

        >>> Columns.of_roles({"cost": "latency", "context": "hour"}).context
        ('hour',)
        """
        given: dict[str, Any] = {}
        for name, value in roles.items():
            if ROLES[name].holds == "several columns":
                given[name] = _names(name, value)
            elif isinstance(value, str):
                given[name] = value
            elif value is not None or ROLES[name].default is not None:
                raise UsageError(f"{argument(name)}={value!r} is not a column name, expected text")
        if "reward" in given and "cost" in given:
            raise UsageError(
                f"got {argument('reward')}={given['reward']!r} and "
                f"{argument('cost')}={given['cost']!r}, expected one of the two; a "
                "cost is minus the reward"
            )
        cost = given.pop("cost", None)
        if cost is not None:
            given["reward"] = cost
        # The default propensity column is read only without other propensities.
        if behavior or not given.keys().isdisjoint(STATES_PROPENSITIES):
            given.setdefault("propensity", None)
        given["policies"] = given.pop("policy_columns", ())
        return cls(cost=cost is not None, **given)

    @property
    def states_propensities(self) -> bool:
        """Whether a column holds propensities of the logged actions, in some form."""
        return any(getattr(self, name) is not None for name in STATES_PROPENSITIES)

    def by_role(self) -> dict[str, str | tuple[str, ...] | None]:
        """Return role -> its columns, for every role, as `piwo.read` takes them.

        >>> Columns(reward="latency", cost=True).by_role()["cost"]
        'latency'
        """
        own = {**vars(self), "policy_columns": self.policies, "cost": None}
        if self.cost:
            own |= {"cost": self.reward, "reward": None}
        return {role: own[role] for role in ROLES}

    def numbers(self) -> dict[str, str]:
        """Return the name of a role in messages -> its column, for roles with one number a row."""
        found: dict[str, str] = {}
        for name in NUMBERS:
            label, column = _label(name), getattr(self, name)
            if name == "reward" and self.cost:
                label = "cost"
            if column is not None:
                found[label] = column
        if self.action_cost is not None:
            found["action cost"] = self.action_cost
        return found

    def checked_alone(self) -> list[tuple[str, str, str]]:
        """Return role, column and `Role.check` of numbers that are validated on their own."""
        found: list[tuple[str, str, str]] = []
        for name in NUMBERS:
            column, check = getattr(self, name), ROLES[name].check
            if column is not None and check is not None:
                found.append((name, column, check))
        return found

    def scalars(self) -> tuple[str, ...]:
        """Return the columns with one value a row, but for context columns."""
        names = [self.action, *self.numbers().values(), *self.policies, *self.outcomes]
        names += [name for name in (self.key, self.unit, self.time) if name is not None]
        # Of the context, values keep their type.
        names += [x for x in (*self.segments, self.position) if x and x not in self.context]
        return tuple(names)

    @property
    def decided(self) -> tuple[str, ...]:
        """The columns of what was decided or earned, and of how rows were kept."""
        names = [self.action, *self.numbers().values(), *self.policies, *self.outcomes]
        if self.propensities is not None:
            names.append(self.propensities)
        return tuple(names)

    def check_segments(self, names: Iterable[str]) -> None:
        """Raise for columns that results cannot be split by.

        Args:
            names: of the columns.

        Raises:
            UsageError: for a column of what was decided or earned: its values choose rows by that.

        >>> Columns().check_segments(["country"])
        """
        for name in names:
            if name in self.decided:
                raise UsageError(
                    f"results cannot be split by {name!r}, which depends on what was decided: no "
                    "interval holds for rows that are chosen by it; expected a column that is "
                    "known before the decision"
                )

    def resolve(self, available: Sequence[str]) -> Columns:
        """Return the same roles with context globs replaced by names; every column must exist.

        Raises:
            DataError: if a column is missing; a missing propensity never becomes a default.
            UsageError: if two roles claim one column.
        """
        self._require_one_each(available)
        roles = {"action": self.action, **self.numbers()}
        for name in ("propensities", "eligible", "predictions"):
            column = getattr(self, name)
            if column is not None:
                roles[_label(name)] = column
        if self.item_features is not None:
            roles["features of items"] = self.item_features
        for role, name in roles.items():
            require_columns([name], available, role)
        event = "the number of an event"
        self._check_own("key", self.key, event, roles.values(), available)
        self._check_own("unit", self.unit, "the id of a user", roles.values(), available)
        self._check_own("time", self.time, "the time of the decision", roles.values(), available)
        if self.unit is not None and self.weight is not None:
            raise UsageError(
                f"got {argument('unit')}={self.unit!r} and {argument('weight')}={self.weight!r}, "
                "expected one of the two: nothing is proved for units of which rows are missing"
            )
        self._check_position(roles.values(), available)
        names = list(roles.values())
        for place, name in enumerate(names):
            if name in names[:place]:
                raise UsageError(
                    f"column {name!r} was given two roles; each role needs a column of its own"
                )
        context = match_names(self.context, available, "context")
        # A glob may match columns of roles, which are left out; a name is a mistake.
        clash = [x for x in self.context if x in names]
        if clash:
            raise UsageError(
                f"column {clash[0]!r} is context and has another role too; leave it "
                "out of the context"
            )
        outcomes = self._outcomes_in(available, names)
        # The id of a user or event, or a position, is a feature only if it is named.
        own = [x for x in self._own if x not in (None, *self.context)]
        left_out = (*names, *self.policies, *outcomes, *own)
        context = tuple(x for x in context if x not in left_out)
        policies = match_names(self.policies, available, _label("policy_columns"))
        taken = next((x for x in policies if x in names and x != self.propensity), None)
        if taken is not None:
            raise UsageError(
                f"column {taken!r} is a target policy and has another role too, "
                "expected a column of probabilities of the logged action"
            )
        segments = match_names(self.segments, available, _label("segments"))
        found = replace(
            self, context=context, policies=policies, outcomes=outcomes, segments=segments
        )
        found.check_segments(segments)
        return found

    def _outcomes_in(self, available: Sequence[str], taken: Iterable[str]) -> tuple[str, ...]:
        """Return the columns of outcomes, of which none may have another role."""
        outcomes = match_names(self.outcomes, available, _label("outcomes"))
        others = {*taken, *self.policies, *self.context}
        for name in outcomes:
            if name in others or name in self._own:
                raise UsageError(
                    f"column {name!r} is an outcome ({argument('outcomes')}) and has another role "
                    "too, expected a column that is only that"
                )
        return outcomes

    def _check_own(
        self,
        role: str,
        column: str | None,
        example: str,
        taken: Iterable[str],
        available: Sequence[str],
    ) -> None:
        """Raise unless a column exists and says nothing of decisions."""
        if column is None:
            return
        require_columns([column], available, role)
        if column in (*taken, *self.policies):
            raise UsageError(
                f"{role} column {column!r} has another role too, expected a column that does not "
                f"depend on the decision, such as {example}"
            )

    @property
    def _own(self) -> tuple[str | None, ...]:
        """The columns that are context only if they are named."""
        return (self.key, self.unit, self.time, self.position)

    def _check_position(self, taken: Iterable[str], available: Sequence[str]) -> None:
        """Raise unless the column of positions exists and is only that, or context, too."""
        if self.position is None:
            return
        require_columns([self.position], available, "position")
        if self.position in (*taken, *self.policies, self.key, self.unit, self.time):
            raise UsageError(
                f"position column {self.position!r} has another role too, expected a column that "
                "says where the action was shown, such as 1, 2, ..."
            )

    def units_of(self, count: int) -> int | None:
        """Return the number of observations if these are units; None if they are rows."""
        if self.unit is None:
            return None
        return count

    def require_single_rows(self, what: str, instead: str) -> None:
        """Raise if rows belong to units, and so depend on each other.

        Args:
            what: the caller in words, which treats rows as independent.
            instead: the advice.

        Raises:
            UsageError: if there is a column of units.
        """
        if self.unit is not None:
            raise UsageError(
                f"{what} treats rows as independent, and those of one {self.unit!r} "
                f"({argument('unit')}) are not; {instead}"
            )

    @property
    def numbering(self) -> str | None:
        """The column that splits go by; None: the number of a row."""
        return self.time or self.unit or self.key

    def splitting(self, tail: bool) -> Columns:
        """Return the columns for a split: by time for the last rows, else by unit or key.

        Raises:
            UsageError: for the last rows of a log with units.

        >>> Columns(key="event", time="day").splitting(tail=True).numbering
        'day'
        """
        if not tail:
            return replace(self, time=None)
        if self.unit is not None:
            raise UsageError(
                f"got {argument('unit')}={self.unit!r} for rows that are held out in time order "
                f"({argument('tail', value=True)}, {argument('logger', 'learning')}), expected one "
                "of the two: the rows of a unit would be on both sides"
            )
        return replace(self, key=None)

    def _require_one_each(self, available: Sequence[str]) -> None:
        """Raise if two columns have one name: only one of them would be read."""
        counts = Counter(available)
        for name in self.used():
            if counts[name] > 1:
                raise DataError(
                    f"column {name!r} is in the log twice; give each column a name of its own"
                )

    def used(self) -> tuple[str, ...]:
        """Return every column that is read, each once."""
        names = [*self.scalars(), *self.context]
        lists = (self.propensities, self.eligible, self.predictions, self.item_features)
        names += [x for x in lists if x is not None]
        return tuple(dict.fromkeys(names))

    def wanted(
        self,
        context: Sequence[str] | None,
        propensities: bool,
        choosing: Sequence[str],
        placing: Literal["hash", "time"] | None,
    ) -> tuple[str, ...]:
        """Return the columns that a pass over the rows reads; see `Log.wanted`.

        Args:
            context: the columns of the context; None: it is not needed.
            propensities: whether full propensity vectors are needed.
            choosing: the columns by which rows are selected.
            placing: by what rows are put into blocks.

        >>> Columns(key="event").wanted(["hour"], False, [], "hash")
        ('action', 'reward', 'propensity', 'hour', 'event')
        """
        names = [self.action, *self.numbers().values(), *self.policies, *(context or ())]
        # What is said of eligible actions is validated with these by every pass.
        lists = (self.item_features, self.predictions, self.eligible)
        names += [name for name in lists if name is not None]
        # Without a propensity column, mu(A_t | X_t) is taken from the vectors.
        # With eligible actions they are compared: the lists may be of other actions.
        vectors = propensities or self.propensity is None or self.eligible is not None
        if self.propensities is not None and vectors:
            names.append(self.propensities)
        names += choosing
        if self.unit is not None:
            names.append(self.unit)
        elif placing == "hash" and self.key is not None:
            names.append(self.key)
        elif placing == "time" and self.time is not None:
            names.append(self.time)
        return tuple(dict.fromkeys(names))


def _names(role: str, value: Any) -> tuple[str, ...]:
    """Return the names of several columns, given as text or as a list of texts."""
    if isinstance(value, str):
        return (value,)
    # The order of columns is that of the matrix, so sets are refused.
    unordered = isinstance(value, set | frozenset | Mapping)
    if unordered or not hasattr(value, "__iter__") or not all(isinstance(x, str) for x in value):
        raise UsageError(
            f"{argument(role)}={value!r} is not a list of column names, expected text "
            "or a list of texts"
        )
    return tuple(value)
