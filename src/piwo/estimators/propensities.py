"""Estimated propensities, for logs without logged ones; every result carries a caveat."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from piwo.checks import check_count, check_flag, check_seed
from piwo.errors import DataError, UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Floats
from piwo.logs.column_names import refuse_unknown
from piwo.logs.columns import (
    UNLOGGED_ROLES,
    Columns,
    UnloggedRoles,
)
from piwo.logs.encoding import DEFAULT_ENCODING, Missing
from piwo.logs.foreign import distributions
from piwo.logs.hashing import key_numbers, time_numbers
from piwo.logs.log import Log
from piwo.logs.options import Logger
from piwo.logs.propensity_error import CalibrationBin, PropensityErrorBound
from piwo.logs.read import read
from piwo.logs.role_docs import documents_roles
from piwo.messages import argument
from piwo.policies.blocks import row_blocks
from piwo.policies.models import fitted_model
from piwo.sources.table import TableSource

__all__ = ["COLUMN", "estimate_propensities"]

COLUMN = "estimated_propensity"
"""The column that is added to the rows."""
EDGES = np.array([0.0, 0.01, 0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.65, 0.8, 0.9, 1.0])
"""Edges of the bins of the calibration table, in estimated propensities."""
Codes = npt.NDArray[np.int64]


@documents_roles(UNLOGGED_ROLES)
def estimate_propensities(
    source: Any,
    *,
    model: Any = None,
    folds: int = 5,
    forward: bool = False,
    random_state: int = 0,
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    missing: Missing = "refuse",
    max_levels: int = DEFAULT_ENCODING.max_levels,
    hash_size: int = DEFAULT_ENCODING.hash_size,
    where: str | None = None,
    logger: Logger | None = None,
    action_cost: Mapping[Any, float] | str | None = None,
    action_cost_range: tuple[float, float] | None = None,
    **roles: Unpack[UnloggedRoles],
) -> Log:
    """Return a log with propensities estimated from contexts and actions, and marked as such.

    Prefer logged propensities whenever they are available. Estimated ones are right only if the
    classifier is, and if the context holds all inputs of the logging policy; neither can be checked
    in the log. No propensity comes from a classifier that saw its row. A propensity that is too
    small makes every value too high: allow for the error with
    `evaluate(..., propensity_factor=1.25)`. Every result carries a caveat, and `piwo.check` shows
    the calibration.

    If the log is divided, by `Log.split` or by a learner, the propensities are estimated again on
    each side: otherwise those of the training rows would reveal actions of the held-out rows to the
    learner.

    With `unit=` all rows of a unit are in one fold, and the log is by unit, as with `piwo.read`.
    With `key=` the folds, like splits, do not depend on the order of the rows.

    Formula: p(a | x) = (m f(a | x) + 1/K) / (m + 1), f fitted on m rows of other folds: no action
    is impossible.

    Args:
        source: see `piwo.read`; the rows are held in memory.
        model: a scikit-learn classifier with `predict_proba`; None: logistic regression on
            standardized columns.
        folds: how many parts the rows, or units, are cut into.
        forward: fit each part on the parts before it, in the order of the column of times, or else
            of the rows; the first part is left out of the log. False: fit each part on all others,
            parts chosen at random.
        random_state: seed of the parts.
        actions: see `piwo.read`, like all below.
        reward_range: the declared (lo, hi) of the reward.
        missing: what to do about missing context values.
        max_levels: most distinct values of a text column that is not hashed.
        hash_size: columns that a hashed text fills.
        where: an SQL condition on any columns.
        logger: whether the behavior policy was fixed or learning; see `piwo.read`.
        action_cost: what each action cost; see `piwo.read`.
        action_cost_range: the declared (lo, hi) of a column of costs.
        **roles: the columns, by role; without context, the action frequencies are the estimate:

    Returns:
        A `Log`, with `propensity_error.calibration`.

    Raises:
        DataError: for rows that break a rule, and for fewer rows, or units, than folds.
        UsageError: for a model that gives no probabilities, and for `forward` with units, whose
            rows would be in several parts.

    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> frame = {
    ...     "x": x,
    ...     "action": (rng.random(2000) < 0.2 + 0.6 * (x > 0)) * 1,
    ...     "reward": np.ones(2000),
    ... }
    >>> log = estimate_propensities(frame, context="x")
    >>> log.propensity_error.estimated
    'LogisticRegression, 5 folds'
    """
    check_count("folds", folds, 2, "how many parts the rows are cut into")
    check_flag("forward", forward)
    check_seed("random_state", random_state)
    if "eligible" in roles:
        declared = argument("behavior")
        raise UsageError(
            "estimate_propensities estimates over one list of actions for all rows, got "
            f"{argument('eligible')}; declare what wrote the log ({declared}), such as "
            "piwo.policies.Uniform(labels) if each eligible action was equally likely, or a model "
            "of your own with probabilities(X), which is restricted to each row's list"
        )
    refuse_unknown(estimate_propensities, roles, UNLOGGED_ROLES)
    found = read(
        source,
        actions=actions,
        reward_range=reward_range,
        behavior=_Unknown(),
        missing=missing,
        max_levels=max_levels,
        hash_size=hash_size,
        where=where,
        logger=logger,
        action_cost=action_cost,
        action_cost_range=action_cost_range,
        **roles,
    )
    log = replace(found, behavior=None)
    if forward:
        log.columns.require_single_rows(
            f"{argument('forward', value=True)}, which estimates from earlier rows,",
            f"leave {argument('forward')} out",
        )
    log.require_one_machine("estimate_propensities")
    # Examples are read in the order of the rows, not by unit.
    single = replace(log, columns=replace(log.columns, key=None, time=None, unit=None))
    table = _table(single, log.columns, forward)
    single = replace(single, source=TableSource(table, log.source.name))
    return _Fit(single, log.columns, model, folds, forward, random_state).log()


@dataclass(frozen=True)
class _Fit:
    """How propensities are estimated: rows without any, and the arguments of the public call."""

    rows: Log
    """Without the columns of keys, times and units."""
    columns: Columns
    """With them."""
    model: Any
    folds: int
    forward: bool
    random_state: int

    @property
    def table(self) -> pa.Table:
        """The rows as they were given."""
        assert isinstance(self.rows.source, TableSource)
        return self.rows.source.table

    def log(self) -> Log:
        """Return the log of all rows that have a propensity."""
        rows = self.rows
        found, bins = self.estimated(np.ones(len(self.table), bool))
        cut = f"{self.folds} folds"
        if self.forward:
            cut = f"{self.folds} parts, each from those before"
        elif self.columns.unit is not None:
            cut = f"{self.folds} folds by {self.columns.unit!r}"
        error = PropensityErrorBound(
            estimated=f"{_name(self.model, rows)}, {cut}", calibration=_calibration(bins)
        )
        columns = replace(self.columns, propensity=COLUMN)
        return replace(
            rows,
            source=self._source(found),
            columns=columns,
            propensity_error=error,
            reestimated=self.divided,
        )

    def divided(self, train: Log, test: Log) -> tuple[Log, Log]:
        """Return two sides of the log, each with propensities estimated from its own rows.

        If `forward`, the first part, which belongs to neither side, is used for both; and if the
        held-out rows are the last ones, theirs are estimated from all rows before.
        """
        assert train.selector is not None
        learned = np.ones(len(self.table), bool)
        chosen_by = np.arange(len(self.table) - self._left_out)
        if train.columns.numbering is not None:
            chosen_by = self._numbers(train.columns)[self._left_out :]
        learned[self._left_out :] = train.selector.keep(chosen_by)
        held = ~learned
        held[: self._left_out] = True
        if self.forward and not learned[(~learned).argmax() :].any():
            # The held-out rows are the last ones: all rows before them are in their past.
            held[:] = True
        of_train, train_bins = self.estimated(learned)
        of_test, test_bins = self.estimated(held)
        source = self._source(np.where(learned, of_train, of_test))
        return self._side(train, source, train_bins), self._side(test, source, test_bins)

    def _side(self, side: Log, source: TableSource, bins: Floats) -> Log:
        assert side.propensity_error is not None
        return replace(
            side,
            source=source,
            propensity_error=replace(side.propensity_error, calibration=_calibration(bins)),
            reestimated=None,
        )

    @property
    def _left_out(self) -> int:
        """The number of rows that are in no log: the first part, if `forward`."""
        if not self.forward:
            return 0
        return int(np.count_nonzero(self._part() == 0))

    def _numbers(self, columns: Columns) -> Codes:
        """Return the numbers that splits go by, of all rows, (n,): see `Columns.numbering`."""
        assert columns.numbering is not None
        values = self.table[columns.numbering].combine_chunks()
        if columns.numbering == columns.time:
            return time_numbers(values, columns.numbering)
        role = "key"
        if columns.numbering == columns.unit:
            role = "unit"
        return key_numbers(values, columns.numbering, role)

    def _groups(self, places: Codes) -> tuple[Codes, str]:
        """Return the group of each of some rows, whose rows are in one fold, and their name."""
        columns = replace(self.columns, time=None)
        if self.forward or columns.numbering is None:
            return np.arange(len(places)), "rows"
        # In the order of their numbers, which are hashes of the values: not in that of the rows.
        _, group = np.unique(self._numbers(columns)[places], return_inverse=True)
        if columns.unit is not None:
            return group, "units"
        return group, "keys"

    def _part(self) -> Codes:
        """Return the part of each row if rows are cut in their order, (n,)."""
        n = len(self.table)
        return np.arange(n) * self.folds // n

    def _source(self, propensity: Floats) -> TableSource:
        made = self.table.append_column(COLUMN, pa.array(propensity)).slice(self._left_out)
        return TableSource(made, self.rows.source.name)

    def estimated(self, kept: npt.NDArray[np.bool_]) -> tuple[Floats, Floats]:
        """Return propensities of the kept rows, from these alone, (n,), and their `_bins`.

        Args:
            kept: (n,) mask. Actions and levels that are not declared are taken from these rows
                alone, too.
        """
        places = np.flatnonzero(kept)
        group, what = self._groups(places)
        number = int(group.max(initial=-1)) + 1
        if number < self.folds:
            raise DataError(
                f"{number} {what} are to be cut into {self.folds} folds, expected "
                f"at least 2 folds and one of the {what} in each"
            )
        log = self.rows.where(_Kept(kept))
        context, action = _examples(log)
        count = len(log.actions)
        part = self._part()[places]
        if not self.forward:
            folds = np.arange(number) * self.folds // number
            part = np.random.default_rng(self.random_state).permutation(folds)[group]
        propensity, bins = np.zeros(len(kept)), np.zeros((3, len(EDGES) - 1))
        for fold in range(int(self.forward), self.folds):
            train = part != fold
            if self.forward:
                train = part < fold
            probabilities = _fitted(self.model, context[train], action[train], count)
            for rows in _blocks(np.flatnonzero(part == fold), count):
                p = probabilities(context[rows])
                propensity[places[rows]] = p[np.arange(len(rows)), action[rows]]
                bins += _bins(p, action[rows])
        return propensity, bins


@dataclass(frozen=True)
class _Kept:
    """Selector: the rows of an (n,) mask."""

    mask: npt.NDArray[np.bool_]

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the mask at the row numbers."""
        return self.mask[rows]


class _Unknown:
    """Placeholder of the behavior policy until its propensities are estimated."""

    def probabilities(self, X: Any) -> Floats:  # noqa: ARG002 (named as users know it)
        """Raise: they are not known."""
        raise UsageError("the propensities are not known yet")


def _table(log: Log, columns: Columns, forward: bool) -> pa.Table:
    """Return the raw rows, in the columns that the log uses.

    Args:
        log: without the columns of keys, times and units.
        columns: with them.
        forward: whether rows are ordered by time, if there are times.
    """
    others = (columns.key, columns.time, columns.unit, columns.position)
    own = [x for x in others if x is not None]
    wanted = tuple(
        dict.fromkeys(
            [*log.wanted(context=True), *own, *log.columns.outcomes, *log.columns.segments]
        )
    )
    reader, tables = log.reader(), []
    for part in log.source.fragments(wanted):
        tables += [pa.Table.from_batches([record]) for record, _ in reader.records(part)]
    if not tables:
        raise DataError(f"no rows in {log.name}, expected at least one logged decision")
    # Files of one log may differ in their types of text or whole numbers.
    table = pa.concat_tables(tables, promote_options="permissive")
    if COLUMN in table.schema.names:
        raise UsageError(f"the rows have a column {COLUMN!r} already; rename it")
    if forward and columns.time is not None:
        times = time_numbers(table[columns.time].combine_chunks(), columns.time)
        table = table.take(np.argsort(times, kind="stable"))
    return table


def _examples(log: Log) -> tuple[Floats, npt.NDArray[np.int32]]:
    """Return what classifiers learn from: (n, d) context and (n,) action codes.

    Without context the matrix has no columns.
    """
    contexts, actions = [], []
    for batch in log.each_batch(context=True):
        actions.append(batch.action)
        if batch.context is not None:
            contexts.append(batch.context)
    action = np.concatenate(actions)
    if log.features is None:
        return np.zeros((len(action), 0)), action
    return np.concatenate(contexts), action


def _fitted(
    model: Any, context: Floats, action: npt.NDArray[np.int32], count: int
) -> Callable[[Floats], Floats]:
    """Return p(a | x) as a function of (m, d) contexts, (m, K), fitted on some rows.

    It comes from a classifier, which knows the actions of these rows only, or from frequencies.
    """
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    rows = len(action)
    frequency = np.bincount(action, minlength=count) / rows
    classes = np.flatnonzero(frequency)
    made = None
    if context.shape[1] and len(classes) > 1:
        if model is None:
            made = make_pipeline(StandardScaler(), LogisticRegression(max_iter=1000))
        elif hasattr(model, "predict_proba"):
            made = clone(model)
        else:
            raise UsageError(
                f"{type(model).__name__} has no predict_proba, expected a classifier "
                "that gives probabilities"
            )
        made = fitted_model(made, context, action)
        classes = np.asarray(made.classes_, np.int64)

    def probabilities(context: Floats) -> Floats:
        f = np.zeros((len(context), count))
        if made is None:
            f[:] = frequency
        else:
            f[:, classes] = distributions(
                made.predict_proba(context),
                len(context),
                len(classes),
                f"{type(made).__name__}.predict_proba",
            )
        # p(a | x) = (m f(a | x) + 1/K) / (m + 1): never 0
        return (rows * f + 1.0 / count) / (rows + 1.0)

    return probabilities


def _blocks(rows: Codes, count: int) -> Iterator[Codes]:
    for block in row_blocks(len(rows), count, size=2**22):
        yield rows[block]


def _bins(p: Floats, action: npt.NDArray[np.int32]) -> Floats:
    """Return (3, B) pairs (row, action), sums of p over them, and actions taken, by bin of p.

    Args:
        p: (m, K) estimated propensities.
        action: (m,) codes.
    """
    size = len(EDGES) - 1
    place = np.clip(np.searchsorted(EDGES, p, side="right") - 1, 0, size - 1)
    flat = place.ravel()
    pairs = np.bincount(flat, minlength=size)
    sums = np.bincount(flat, p.ravel(), minlength=size)
    taken = np.bincount(place[np.arange(len(p)), action], minlength=size)
    return np.stack([pairs, sums, taken])


def _calibration(bins: Floats) -> tuple[CalibrationBin, ...]:
    """Return the bins that have pairs as a table."""
    table = []
    for i, (n, p, k) in enumerate(bins.T):
        if n > 0:
            least, most = float(EDGES[i]), float(EDGES[i + 1])
            table.append(CalibrationBin(least, most, float(n), float(p / n), float(k / n)))
    return tuple(table)


def _name(model: Any, log: Log) -> str:
    if log.features is None:
        return "action frequencies"
    if model is None:
        return "LogisticRegression"
    return type(model).__name__
