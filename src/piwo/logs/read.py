"""Make a log of files, globs, queries, data frames or arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from fnmatch import fnmatchcase
from typing import Any, Unpack, cast

import numpy as np
import pyarrow as pa

from piwo.checks import a_kind, real_array
from piwo.errors import DataError, FileError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.column_names import refuse_unknown
from piwo.logs.columns import (
    ARRAYS,
    ROLES,
    Columns,
    Roles,
)
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding, Missing
from piwo.logs.inline import is_objects, object_lists
from piwo.logs.items import items_of
from piwo.logs.log import Log
from piwo.logs.options import Logger
from piwo.logs.role_docs import documents_roles
from piwo.logs.served import ServedLog, logger_of, served_log
from piwo.logs.source_of import paths_of, source_of
from piwo.logs.validation import Behavior
from piwo.logs.vowpal_wabbit import check_items_label, features_named, read_dsjson, read_vw
from piwo.messages import argument
from piwo.sources.filters import condition, mentioned
from piwo.sources.frames import (
    frames_library,
    is_frame,
    refuse_twice,
    same_index,
    to_table,
    unmasked,
)
from piwo.sources.paths import kind_of
from piwo.sources.table import TableSource

__all__ = ["log_of_arrays", "read"]


_MOST_CELLS = 2**27
"""Entries of a sparse context that is made plain: 1 GB."""


@documents_roles(ROLES)
def read(
    source: Any,
    *,
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    behavior: Behavior | None = None,
    normalize: bool = False,
    missing: Missing = "refuse",
    max_levels: int = DEFAULT_ENCODING.max_levels,
    hash_size: int = DEFAULT_ENCODING.hash_size,
    where: str | None = None,
    logger: Logger | None = None,
    action_cost: Mapping[Any, float] | str | None = None,
    action_cost_range: tuple[float, float] | None = None,
    items: Any = None,
    items_label: str | None = None,
    **roles: Unpack[Roles],
) -> Log:
    """Return a log over files, a query or a data frame: the rows, and what their columns mean.

    Rows are validated whenever they are read: a missing or impossible value is an error that names
    the column, the rule, how many rows and the first of them. Nothing is filled, clipped or
    dropped. How text becomes columns, and which context values are missing, is learned in one pass
    and saved with policies.

    Args:
        source: a path or glob (Parquet, CSV, JSON, dsjson, .vw), a list of them, a folder that
            `piwo.serve` writes (which names the columns itself), a DuckDB query, any data frame,
            "spark:TABLE", "spark:select ...", a Spark or Dask DataFrame (rows stay in the cluster),
            or a `Source`.
        actions: the action list; None: the sorted distinct labels of the action column and of
            propensities that are objects {label: p}.
        reward_range: the declared (lo, hi) of the reward (of -cost for costs); never inferred; hi
            may be inf.
        behavior: the behavior policy as an object with `probabilities(X)`; with `eligible=` it is
            restricted to the list of each row, as target policies are.
        normalize: divide each row of `propensities` by its sum.
        missing: what to do about missing context values (null or NaN): "refuse" such rows, or
            "indicator": a context column that has any gets one more column, which is 1 for missing
            values, and its other columns are 0 there. An infinite value is always refused.
        max_levels: a text column of at most so many distinct values becomes one column a value
            (one-hot); a text column with more is hashed.
        hash_size: columns that a hashed text fills, a power of two; see `logs.Feature`.
        where: an SQL condition on any columns, such as "day >= '2026-01-01'"; the log has the rows
            for which it holds. Its days and hours are those of UTC. If it mentions the action, the
            reward or a propensity, there is an estimate and no interval or certificate.
        logger: "learning" if the system that wrote the log learned from earlier rows of it: what is
            learned is then certified on the last rows. "fixed" if it did not. None: not declared;
            learners, and evaluations of policies that read all contexts, look whether one context
            and action had several propensities. If so, it counts as "learning".
        action_cost: label -> cost of the action, in the reward's unit, or the column of what the
            action of each row cost; every result is then net of costs, see `Log.with_action_cost`.
            None: rewards as logged.
        action_cost_range: the declared (lo, hi) of a column of costs; None: (0, 1).
        items: features of the actions, for models of context and item such as
            `oracles.JointRidge`: a data frame, a file or a query with one row a label. Its other
            columns are numbers, text or lists of numbers, encoded as the context is. Its labels are
            the action list, unless `actions` is given. Or the name of a column of the log that
            holds lists of objects, the features of each eligible action in its row, in the order
            of `eligible`: they may differ from row to row for one label, as a price does. For
            Vowpal Wabbit's files: names of features of the action lines ("ad/price") or of paths
            inside the entries of `c._multi`.
        items_label: its column of labels; None: the name of the action column. For Vowpal Wabbit's
            files: what in an action is its label, a feature of the action lines ("a/id") or a path
            inside the entries of `c._multi` ("id", "_tag"); None: the number of the line or entry.
            A table of items then has the labels in the column of the last part of that name ("id").
        **roles: the columns, by role. A default propensity column is read only if propensities
            are given in no other way:

    Returns:
        A `Log`.

    Raises:
        FileError: for files that are missing or cannot be read.
        DataError: for columns that do not exist (near names are shown).
        UsageError: for arguments that do not exist (near names are shown) or exclude each other.

    Warns:
        PiwoWarning: if that pass finds columns to hash, or missing values with
            missing="indicator".

    >>> log = read(
    ...     {"item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]},
    ...     action="item",
    ...     reward="click",
    ...     propensity="p",
    ... )
    >>> log.actions.labels
    ('a', 'b')
    """
    refuse_unknown(read, roles, ROLES)
    served = served_log(source)
    if served is not None:
        source, roles = served.source, _with_roles(served, roles)
        actions = served.actions if actions is None else actions
        items = served.items if items is None else items
        reward_range = _range_of(served, reward_range)
    columns = Columns.of_roles(roles, behavior is not None)
    if isinstance(action_cost, str):
        # Globs of the context must leave it out.
        columns = replace(columns, action_cost=action_cost)
    encoding = Encoding(max_levels, hash_size, missing)
    paths = paths_of(source)
    kind = None
    if paths is not None:
        kind = kind_of(paths)
    if paths is not None and kind in {"dsjson", "vw"}:
        # Every line of such a log names its action, cost and propensity itself.
        redundant = behavior is not None or normalize or where is not None
        if redundant or replace(columns, context=()) != Columns():
            names = ("context", "actions", "items", "items_label", "reward_range")
            takes = ", ".join(map(argument, names))
            raise UsageError(
                f"{paths[0]!r} is a {kind} log, whose lines state action, cost and "
                f"propensity; give at most {takes}"
            )
        stated = {"context": columns.context, "reward_range": reward_range}
        log = _of_lines(paths, kind, stated, actions, (items, items_label), hash_size)
        log = replace(log, encoding=encoding, logger=logger)
        return _net(log, action_cost, action_cost_range)
    if columns.eligible is not None and _names_column(items):
        # Readers of text take the types of columns from their roles.
        columns, items = _with_inline(columns, items), None
    made = source_of(source, columns, where, paths)
    logger = logger_of(logger, served, made)
    if isinstance(items, str) and _is_inline(items, made.schema):
        columns, items = _with_inline(columns, items), None
    actions = _listed(actions, items, items_label, columns.action)
    if columns.item_features is not None:
        actions = _marked(actions, columns.action)
    log = Log.of(
        made,
        columns,
        actions,
        logger=logger,
        chosen_by=_decided(where, columns, made.schema.names),
        reward_range=reward_range,
        behavior=behavior,
        normalize=normalize,
        encoding=encoding,
        frames=frames_library(source),
    )
    return _net(log, action_cost, action_cost_range)


def _of_lines(
    paths: list[str],
    kind: str | None,
    stated: dict[str, Any],
    actions: Sequence[Any] | Actions | None,
    items: tuple[Any, str | None],
    hash_size: int,
) -> Log:
    """Return the log of files of Vowpal Wabbit.

    Args:
        paths: of the files.
        kind: of these.
        stated: the context and the range of the reward.
        actions: as in `read`.
        items: and `items_label`, as there.
        hash_size: as there.
    """
    table, items_label = items
    check_items_label(items_label)
    features = features_named(table)
    if features:
        table = None
    label = None
    if table is not None and items_label is not None:
        label = items_label.rpartition("/")[2]
    known = _listed(actions, table, label, "action")
    given: dict[str, Any] = {**stated, "actions": known, "items": features}
    if kind == "vw":
        return read_vw(paths, hash_size=hash_size, items_label=items_label, **given)
    return read_dsjson(paths, items_label=items_label, **given)


def _names_column(items: Any) -> bool:
    """Whether a text can only be the name of a column: it looks like no file, and there is none."""
    if not isinstance(items, str) or "." in items or "/" in items:
        return False
    try:
        return paths_of(items) == []
    except FileError:
        return True


def _is_inline(items: str, schema: pa.Schema) -> bool:
    """Whether a text names a column of objects, rather than a file or a query."""
    return items in schema.names and is_objects(schema.field(items).type)


def _with_inline(columns: Columns, items: str) -> Columns:
    """Return the columns with one of features of the eligible actions."""
    if columns.eligible is None:
        raise UsageError(
            f"{argument('items', items)} has a list of objects in each row, one for each eligible "
            f"action; name the column of their labels, too ({argument('eligible')})"
        )
    return replace(columns, item_features=items)


def _without_inline(
    items: tuple[Any, str | None], present: dict[str, Any]
) -> tuple[Any, str | None]:
    """Return items without lists of objects, which become a column of those present."""
    inline = object_lists(items[0])
    if inline is None:
        return items
    present["items"] = inline
    return None, items[1]


def _marked(actions: Actions | None, label: str) -> Actions | None:
    """Return the declared action list, whose features are in the rows of the log."""
    if actions is None:
        return None
    return actions.with_inline_items(label)


def _range_of(served: ServedLog, given: tuple[float, float]) -> tuple[float, float]:
    """Return the range of the rewards: that of the folder's manifest, unless another was given."""
    if tuple(given) == (0.0, 1.0):
        return served.reward_range
    return given


def _with_roles(served: ServedLog, roles: Roles) -> Roles:
    """Return the roles that were given, and those of the folder's manifest for the others."""
    # The command gives every role, with its default.
    given = {x: role for x, role in roles.items() if role and role != ROLES[x].default}
    if "context" in given:
        given["context"] = _of_context(given["context"], served)
    return cast(Roles, {**served.roles, **given})


def _of_context(patterns: Any, served: ServedLog) -> list[str]:
    """Return context columns by name; globs are of those that the folder logs as context.

    Its other columns are about decisions, such as which policy decided.
    """
    if isinstance(patterns, str):
        patterns = [patterns]
    found: list[str] = []
    for pattern in patterns:
        hits = [pattern]
        if pattern not in served.source.schema.names:
            hits = [x for x in served.roles["context"] if fnmatchcase(x, pattern)] or hits
        found += hits
    return list(dict.fromkeys(found))


def _listed(
    actions: Sequence[Any] | Actions | None, items: Any, label: str | None, column: str
) -> Actions | None:
    """Return the declared action list, with the features of items if there are any."""
    if items is None and label is not None:
        raise UsageError(
            f"got {argument('items_label')} without items; give their table ({argument('items')})"
        )
    known = None
    if isinstance(actions, Actions):
        known = actions
    elif actions is not None:
        known = Actions(actions)
    if items is None:
        return known
    return items_of(items, label or column, known)


def _net(
    log: Log,
    action_cost: Mapping[Any, float] | str | None,
    cost_range: tuple[float, float] | None,
) -> Log:
    """Return the log with net rewards, if actions have costs."""
    if action_cost is None and cost_range is not None:
        raise UsageError(
            f"got {argument('action_cost_range')} without a column of costs; name it "
            f"({argument('action_cost')})"
        )
    if action_cost is None:
        return log
    return log.with_action_cost(action_cost, cost_range)


def _decided(where: str | None, columns: Columns, available: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of what was decided or earned that a condition mentions."""
    if where is None:
        return ()
    return mentioned(condition(where), columns.resolve(available).decided)


def log_of_arrays(
    given: Mapping[str, Any],
    context: Any,
    policies: Mapping[str, Any],
    outcomes: Mapping[str, Any],
    segments: Mapping[str, Any],
    actions: Any,
    items: tuple[Any, str | None],
    options: Mapping[str, Any],
) -> Log:
    """Return the log of arrays, one entry a row; see `Log.from_arrays`."""
    if not isinstance(policies, Mapping):
        raise UsageError(
            f"{argument('policies')} is {a_kind(policies)}, expected a "
            "mapping from name to probabilities"
        )
    if not isinstance(outcomes, Mapping):
        raise UsageError(
            f"{argument('outcomes')} is {a_kind(outcomes)}, expected a mapping from name to values"
        )
    if not isinstance(segments, Mapping):
        raise UsageError(
            f"{argument('segments')} is {a_kind(segments)}, expected a mapping from name to values"
        )
    _refuse_taken("policy", policies, ARRAYS, "a role")
    _refuse_taken("outcome", outcomes, [*ARRAYS, *given, *policies], "a role or a policy")
    taken = [*ARRAYS, *given, *policies, *outcomes]
    _refuse_taken("segment column", segments, taken, "a role, a policy or an outcome")
    present = {name: values for name, values in given.items() if values is not None}
    indexed = {**present, **policies, **outcomes, **segments}
    if context is not None:
        indexed["context"] = context
    same_index(indexed)
    if actions is not None:
        actions = Actions(actions)
    known = _listed(actions, *_without_inline(items, present), "action")
    if "propensities" in present and "eligible" in present:
        _require_lists(present["propensities"])
    elif "propensities" in present:
        present["propensities"] = _vector_columns(present["propensities"], known)
    table: dict[Any, Any] = {**present, **policies, **outcomes, **segments}
    extra: dict[str, Any] = {}
    if context is not None:
        extra = _context_columns(context)
        _refuse_taken("context column", extra, map(str, table), "a role, a policy or the like")
        table.update(extra)
    _require_one_length(table)
    # An array becomes a column with the name of its role.
    optional: dict[str, Any] = {role: role for role in ARRAYS if role in present}
    names = tuple(map(str, policies))
    columns = Columns(propensity=None, context=tuple(extra), policies=names)
    columns = replace(
        columns, outcomes=tuple(map(str, outcomes)), segments=tuple(map(str, segments))
    )
    columns = replace(columns, **optional)
    if "items" in present:
        columns, known = _with_inline(columns, "items"), _marked(known, "action")
    libraries = dict.fromkeys(map(frames_library, indexed.values()))
    frames = next(filter(None, libraries), None)
    source = TableSource(to_table(table), "the arrays")
    return Log.of(source, columns, known, frames=frames, **options)


def _refuse_taken(
    what: str,
    names: Iterable[Any],
    taken: Iterable[str],
    owner: str,
) -> None:
    """Raise if one of the names belongs to another column."""
    known = set(taken)
    for name in names:
        if str(name) in known:
            raise UsageError(f"{what} {name!r} has the name of {owner}; rename it")


def _require_one_length(columns: Mapping[Any, Any]) -> None:
    """Raise unless all columns have the same number of entries."""
    lengths: dict[Any, int] = {}
    for name, values in columns.items():
        if not hasattr(values, "__len__"):
            kind = type(values).__name__
            raise UsageError(
                f"{name} is of type {kind}, expected an array or a list with one entry a row"
            )
        lengths[name] = len(values)
    if len(set(lengths.values())) > 1:
        shown = ", ".join(f"{name}: {count}" for name, count in lengths.items())
        raise DataError(
            f"columns of different lengths ({shown}); every column needs one entry a row"
        )


def _context_columns(context: Any) -> dict[str, Any]:
    if is_frame(context):
        table = to_table(context)
        refuse_twice(table.column_names)
        return dict(zip(table.column_names, table.columns, strict=True))
    matrix = _matrix(context, "the context")
    if matrix.ndim != 2:
        raise UsageError(
            f"the context has shape {matrix.shape}, expected (n, d); write "
            "x.reshape(-1, 1) for one column"
        )
    return {f"x{i}": np.ascontiguousarray(matrix[:, i]) for i in range(matrix.shape[1])}


def _matrix(values: Any, name: str) -> Any:
    """Return values as an array of numbers, masked entries as NaN."""
    if hasattr(values, "toarray") and hasattr(values, "nnz"):
        # A sparse matrix of SciPy; passes over a log need plain rows.
        cells = values.shape[0] * values.shape[1]
        if cells > _MOST_CELLS:
            raise UsageError(
                f"{name} is a sparse matrix of {values.shape[0]} x {values.shape[1]}, which would "
                f"take {8 * cells / 2**30:.3g} GB; give columns of text, which are hashed, instead "
                "of one column a value"
            )
        values = values.toarray()
    try:
        matrix = np.asarray(unmasked(values))
        if matrix.dtype.kind in "biuf":
            return matrix
        return real_array(matrix)
    except (TypeError, ValueError):
        raise DataError(
            f"{name} cannot be read as an (n, d) array of numbers: it holds text, "
            "times, complex numbers or rows of different lengths; give numbers, or a "
            "data frame with named columns"
        ) from None


def _require_lists(vectors: Any) -> None:
    """Raise for propensities of eligible actions that are columns: whose they are is not known."""
    if is_frame(vectors) or getattr(vectors, "ndim", 1) != 1:
        raise UsageError(
            f"{argument('propensities')} has columns, expected lists: with {argument('eligible')}, "
            "the list of a row has the probabilities of its eligible actions, in their order"
        )


def _vector_columns(vectors: Any, known: Actions | None) -> Any:
    """Return (n, K) propensities in the order of the actions; data frames are matched by name."""
    if known is None:
        raise UsageError(
            f"full propensity vectors need {argument('actions', '[...]')}, the labels "
            "of their columns in order"
        )
    if is_frame(vectors):
        table = to_table(vectors)
        named = Actions(table.column_names)
        order = known.positions_in(named)
        if len(named) != len(known) or (order < 0).any():
            raise DataError(
                f"the propensity columns are {named.preview()}, expected exactly the "
                f"actions {known.preview()}"
            )
        vectors = np.column_stack([table[int(i)].to_numpy() for i in order])
    matrix = _matrix(vectors, "propensities").astype(np.float64, copy=False)
    if matrix.ndim != 2 or matrix.shape[1] != len(known):
        raise DataError(
            f"propensities have shape {matrix.shape}, expected (n, {len(known)}), one "
            "column an action"
        )
    return matrix
