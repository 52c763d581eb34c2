"""Validation: raw columns become batches, or an error that lists the broken rules.

Nothing is clipped, filled, dropped or normalized here, with two stated exceptions: a probability
above 1 by at most `TOLERANCE` is taken as 1 and counted, and full propensity vectors are divided by
their sum if the user asks for it (`normalize=True`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.action_costs import ActionCosts
from piwo.logs.actions import Actions, is_text, label_array
from piwo.logs.batch import Batch, Floats
from piwo.logs.columns import Columns
from piwo.logs.eligible import Eligible, note_rescaled, propensities_of
from piwo.logs.features import (
    MISSING_ADVICE,
    Feature,
    Features,
    list_matrix,
    missing_rows,
)
from piwo.logs.findings import Finding, Findings, Refused
from piwo.logs.inline import eligible_in
from piwo.logs.known_logger import computed_pairs, computed_vectors
from piwo.logs.labeled import is_labeled, matrix_of_labels
from piwo.logs.numbers import numbers_of
from piwo.logs.periods import Splitting
from piwo.logs.propensity_error import PropensityErrorBound
from piwo.messages import argument
from piwo.visible import exact

__all__ = [
    "TOLERANCE",
    "Behavior",
    "Schema",
    "rewards",
    "sampling_weight",
    "validate",
]

TOLERANCE = 1e-4
"""Largest excess of a probability over 1, and of the sum of a vector from 1: the rounding of
writers of float32."""

_LEAST_LOG = -1e6
"""Smaller logarithms are sentinels such as -1e30, not probabilities."""
_AWAIT = (
    "leave out rows that are too young to have their reward, by time and not by whether they have "
    "one: those that got it early would be chosen by it; nothing is filled in"
)
_DROP = "drop such rows yourself first, or give the action a label"
_IN_UNIT = "probabilities lie in [0, 1]"


@runtime_checkable
class Behavior(Protocol):
    """The behavior policy as an object, which gives the propensity vector of every context."""

    def probabilities(self, X: Any) -> Floats:
        """Return (n, K) probabilities mu(a | X), columns in the order of the action list."""
        ...


@dataclass(frozen=True)
class Schema:
    """The meaning of the columns of a log: roles, actions, context encoding, reward range."""

    columns: Columns
    actions: Actions | None
    """None: batches are made without action codes."""
    features: Features | None = None
    reward_range: tuple[float, float] = (0.0, 1.0)
    normalize: bool = False
    behavior: Behavior | None = None
    propensity_error: PropensityErrorBound | None = None
    costs: ActionCosts | None = None
    """Subtracted from rewards; `reward_range` is that of net rewards."""
    segments: Splitting | None = None
    """The segments that batches say the rows are in; None: they need not."""

    @property
    def count(self) -> int:
        """The number K of actions, which must be known to read propensity vectors."""
        assert self.actions is not None
        return len(self.actions)

    @property
    def span(self) -> float:
        """The width hi - lo, or 1 if hi is infinite."""
        low, high = self.reward_range
        if np.isfinite(high):
            return high - low
        return 1.0


def validate(
    record: pa.RecordBatch, schema: Schema, rows: npt.NDArray[np.int64]
) -> tuple[Batch, tuple[Finding, ...]]:
    """Return a validated batch and its harmless findings, which become warnings with counts.

    Args:
        record: the columns of the schema; context and propensity vectors may be absent if unused.
        schema: the meaning of the columns.
        rows: (n,) row numbers in the log.

    Raises:
        Refused: with every broken rule of this batch.
    """
    findings = Findings(rows)
    columns = schema.columns
    present = set(record.schema.names)
    action = _action(record[columns.action], schema, findings)
    reward = _reward(record, schema, findings, action)
    context = None
    if schema.features is not None and present.issuperset(schema.features.columns):
        context = _context(record, schema, findings)
    policies: dict[str, Floats] = {}
    for name in columns.policies:
        policies[name] = _probability(record[name], name, findings, zero_allowed=True)
    optional: dict[str, Any] = {}
    for role, name, check in columns.checked_alone():
        optional[role] = _CHECKS[check](record[name], name, findings)
    eligible = eligible_in(record, columns, schema.actions, action, findings)
    # Propensities come last: a behavior policy needs a valid context.
    vectors, log_vectors = None, None
    column = columns.propensities
    if column is not None and column in present and columns.eligible is None:
        vectors = _vectors(record[column], column, schema, findings)
    elif schema.behavior is not None and columns.eligible is None and not findings.fatal:
        vectors, log_vectors = computed_vectors(schema.behavior, context, rows, schema.count)
        vectors = _checked_vectors(vectors, "behavior", schema, findings)
    of_action = None
    if eligible is not None:
        eligible, of_action = _with_lists(record, schema, findings, action, eligible, context, rows)
    elif vectors is not None and len(action) and action.min() >= 0:
        of_action = vectors[np.arange(len(action)), action]
    propensity, log_propensity = _propensity(record, schema, findings, of_action)
    if findings.fatal:
        raise Refused(findings.fatal)
    batch = Batch(
        start=int(rows[0]) if len(rows) else 0,
        action=action,
        reward=reward,
        propensity=propensity,
        log_propensity=log_propensity,
        propensities=vectors,
        eligible=eligible,
        log_propensities=log_vectors,
        context=context,
        policies=policies,
        rows=rows,
        **optional,
    )
    if schema.propensity_error is not None:
        batch = schema.propensity_error.applied(batch)
    return batch, tuple(findings.noted)


def rewards(
    record: pa.RecordBatch, schema: Schema, rows: npt.NDArray[np.int64], own_unit: bool = False
) -> Floats:
    """Return the rewards of raw rows, net of costs, on the unit scale, (n,).

    Args:
        record: the rows.
        schema: the meaning of the columns.
        rows: (n,) row numbers in the log.
        own_unit: return them in their own unit, to the last digit.

    Raises:
        Refused: if one of them breaks a rule.
    """
    findings = Findings(rows)
    action = np.empty(0, np.int32)
    if schema.costs is not None:
        action = _action(record[schema.columns.action], schema, findings)
    found = (_net if own_unit else _reward)(record, schema, findings, action)
    if findings.fatal:
        raise Refused(findings.fatal)
    return found


def _with_lists(
    record: pa.RecordBatch,
    schema: Schema,
    findings: Findings,
    action: npt.NDArray[np.int32],
    eligible: Eligible,
    context: Floats | None,
    rows: npt.NDArray[np.int64],
) -> tuple[Eligible, Floats | None]:
    """Return the eligible actions with their propensities, and those of the logged actions, (n,).

    The latter are None if no lists were read, and no behavior policy computes them.
    """
    name, propensities = schema.columns.propensities, None
    if name is not None and name in record.schema.names:
        propensities = propensities_of(
            record[name], name, eligible, findings, TOLERANCE, schema.normalize
        )
    elif schema.behavior is not None and not findings.fatal:
        propensities = computed_pairs(schema.behavior, context, rows, schema.count, eligible)
    if propensities is None:
        return eligible, None
    every = replace(eligible, propensities=propensities)
    return every, propensities[eligible.places(action)]


def _action(
    values: pa.Array,
    schema: Schema,
    findings: Findings,
) -> npt.NDArray[np.int32]:
    name = schema.columns.action
    if schema.actions is None:
        missing = pc.is_null(label_array(values, name)).to_numpy(zero_copy_only=False)
        findings.note(name, "is missing", _DROP, missing)
        return np.empty(0, np.int32)
    codes = schema.actions.codes(values, name)
    unknown = codes < 0
    if unknown.any():
        missing = pc.is_null(values).to_numpy(zero_copy_only=False)
        findings.note(name, "is missing", _DROP, missing)
        unknown &= ~missing
        if unknown.any():
            label = values[int(np.flatnonzero(unknown)[0])].as_py()
            listed = f"{len(schema.actions)} actions ({schema.actions.preview()})"
            rule = f"holds labels that are not among the {listed}"
            advice = (
                f"such as {label!r}; add them to {argument('actions', '[...]')} or "
                "correct the column"
            )
            if schema.actions.items is not None and not schema.actions.items.inline:
                rule = f"holds labels without a row in items, which has {listed}"
                advice = f"such as {label!r}; add a row for each ({argument('items')})"
            findings.note(name, rule, advice, unknown)
    return codes


def _reward(
    record: pa.RecordBatch, schema: Schema, findings: Findings, action: npt.NDArray[np.int32]
) -> Floats:
    """Return the rewards on the unit scale, (n,)."""
    reward, (low, high) = _net(record, schema, findings, action), schema.reward_range
    if (low, high) == (0.0, 1.0) or findings.fatal:
        return reward
    # The unit scale: (R - lo) / (hi - lo), or R - lo for an infinite hi.
    return (reward - low) / schema.span


def _net(
    record: pa.RecordBatch, schema: Schema, findings: Findings, action: npt.NDArray[np.int32]
) -> Floats:
    """Return the rewards in their own unit, net of costs, (n,); zeros if they are not numbers."""
    name, (low, high) = schema.columns.reward, schema.reward_range
    values = record[name]
    if schema.costs is not None:
        # Rewards are logged before costs.
        low, high = schema.costs.gross_range
    reward = numbers_of(values, name, findings, _AWAIT)
    if reward is None or len(reward) == 0:
        return np.zeros(len(values))
    if schema.columns.cost:
        reward = -reward
    if reward.min() < low or reward.max() > high:
        what = "reward"
        if schema.columns.cost:
            what = "reward (the negative cost)"
        outside = (reward < low) | (reward > high)
        example = exact(reward[int(np.argmax(outside))])
        advice = f"such as {example}; declare {argument('reward_range', '(lo, hi)')}"
        if reward.min() < 0 <= low and not schema.columns.cost:
            advice += f"; if these are costs, say so ({argument('cost')})"
        rule = f"has a {what} outside the declared range [{exact(low)}, {exact(high)}]"
        findings.note(name, rule, advice, outside, kind="range")
    if schema.costs is not None:
        # R - c(A), or R - C
        reward = reward - _costs(record, schema, findings, action)
        low, high = schema.reward_range
        # A difference may be beyond the range by its rounding.
        reward = np.clip(reward, low, high)
    return reward


def _costs(
    record: pa.RecordBatch, schema: Schema, findings: Findings, action: npt.NDArray[np.int32]
) -> Floats:
    """Return what the action of each row cost, (n,)."""
    costs = schema.costs
    assert costs is not None
    if costs.column is None:
        assert schema.actions is not None
        # An unknown action has been noted.
        return costs.of_actions(schema.actions)[action]
    found = numbers_of(record[costs.column], costs.column, findings)
    if found is None or len(found) == 0:
        return np.zeros(record.num_rows)
    low, high = costs.costs
    if found.min() < low or found.max() > high:
        outside = (found < low) | (found > high)
        example = found[int(np.argmax(outside))]
        rule = f"has an action cost outside the declared range [{low:g}, {high:g}]"
        advice = f"such as {example:g}; declare {argument('action_cost_range', '(lo, hi)')}"
        findings.note(costs.column, rule, advice, outside)
    return found


def _probability(values: pa.Array, name: str, findings: Findings, zero_allowed: bool) -> Floats:
    p = numbers_of(values, name, findings)
    if p is None or len(p) == 0:
        return np.zeros(len(values))
    low, high = p.min(), p.max()
    if low < 0 or (low == 0 and not zero_allowed):
        findings.note(name, "is negative", _IN_UNIT, p < 0)
        if not zero_allowed:
            rule = "is 0, which cannot happen for an action that was taken,"
            advice = f"correct the log (see {argument('log_propensity')} if it underflowed)"
            findings.note(name, rule, advice, p == 0)
    if high > 1:
        rule = f"is above 1 by more than {TOLERANCE:g}"
        findings.note(name, rule, _IN_UNIT, p > 1 + TOLERANCE)
        rule = f"is above 1 by no more than {TOLERANCE:g}"
        slightly = (p > 1) & (p <= 1 + TOLERANCE)
        findings.note(name, rule, "taken as 1", slightly, fatal=False)
        p = np.minimum(p, 1.0)
    return p


def _finite(values: pa.Array, name: str, findings: Findings) -> Floats:
    numbers = numbers_of(values, name, findings)
    if numbers is None:
        return np.zeros(len(values))
    return numbers


def sampling_weight(values: pa.Array, name: str, findings: Findings) -> Floats:
    """Return a column of sampling weights, (n,), after noting those that are not positive.

    >>> sampling_weight(pa.array([1.0, 2.0]), "s", Findings(np.arange(2))).tolist()
    [1.0, 2.0]
    """
    weight = numbers_of(values, name, findings)
    if weight is None or len(weight) == 0:
        return np.ones(len(values))
    advice = "a sampling weight is 1 / (rate at which rows were kept), above 0"
    findings.note(name, "is not positive", advice, weight <= 0)
    return weight


_CHECKS = {"finite": _finite, "sampling weight": sampling_weight}
"""`Role.check` -> the function that validates such a column."""


def _context(record: pa.RecordBatch, schema: Schema, findings: Findings) -> Floats:
    assert schema.features is not None
    features = schema.features
    columns = {x: record[x] for x in features.columns}
    matrix, unseen = features.encode_columns(columns, record.num_rows)
    # As for numbers: minimum and maximum find NaN and infinities without a mask.
    whole = not matrix.size
    if not whole:
        whole = bool(np.isfinite(matrix.min()) and np.isfinite(matrix.max()))
    if whole and not unseen:
        return matrix
    # Something is wrong: find out in which columns and rows.
    at = 0
    for item in features.items:
        block = matrix[:, at : at + item.width]
        at += item.width
        _note_context(item, record[item.column], block, findings)
        if item.kind == "levels":
            # All columns of the value are 0 for such a row.
            rule = "has context values unseen in training"
            advice = 'they are treated as "other"'
            findings.note(item.column, rule, advice, ~block.any(axis=1), fatal=False)
    return matrix


def _note_context(
    item: Feature,
    values: pa.Array,
    block: Floats,
    findings: Findings,
) -> None:
    """Note the rows of a context column that cannot be used, each row under one rule."""
    bad = ~np.isfinite(block).all(axis=1)
    if not bad.any():
        return
    nulls, nans = missing_rows(values)
    nulls, nans = nulls & bad, nans & bad
    infinite = np.isinf(block).any(axis=1) & ~nulls & ~nans
    findings.note(item.column, "has missing context values", MISSING_ADVICE, nulls)
    findings.note(item.column, "has context values that are NaN", MISSING_ADVICE, nans)
    advice = "find out why; nothing is clipped"
    findings.note(item.column, "has infinite context values", advice, infinite)
    rule = f"does not hold lists of {item.size} numbers"
    other = bad & ~(nulls | nans | infinite)
    findings.note(item.column, rule, "correct or drop such rows yourself first", other)


def _vectors(
    values: pa.Array,
    name: str,
    schema: Schema,
    findings: Findings,
) -> Floats | None:
    size = schema.count
    if is_labeled(values.type):
        assert schema.actions is not None
        labeled = matrix_of_labels(values, name, schema.actions, findings)
        return None if labeled is None else _checked_vectors(labeled, name, schema, findings)
    if is_text(values.type):
        raise DataError(
            f"column {name!r} holds text, or lists and objects, expected lists of {size} numbers "
            "in the order of the action list, or objects {label: number}"
        )
    matrix, wrong = list_matrix(values, name, size)
    rule = f"does not hold exactly {size} numbers, one for each action"
    if findings.note(name, rule, "correct the log", wrong):
        return None
    return _checked_vectors(matrix, name, schema, findings)


def _checked_vectors(
    matrix: Floats, name: str, schema: Schema, findings: Findings
) -> Floats | None:
    if matrix.ndim != 2 or matrix.shape[1] != schema.count:
        raise DataError(
            f"{name!r} has shape {matrix.shape}, expected one probability for each of "
            f"{schema.count} actions"
        )
    # A product, which is faster than sums of short rows.
    with np.errstate(invalid="ignore", over="ignore"):
        sums = matrix @ np.ones(schema.count)
    negative: npt.NDArray[np.bool_] = np.zeros(len(matrix), np.bool_)
    # The minimum of all is NaN if a number is.
    if not matrix.min(initial=0.0) >= 0.0:
        negative = np.asarray((matrix < 0).any(axis=1))
    rule = "has missing or infinite probabilities"
    wrong = findings.note(name, rule, "correct the log", ~np.isfinite(sums))
    wrong |= findings.note(name, "has negative probabilities", _IN_UNIT, negative)
    if wrong:
        return None
    rule = f"does not sum to 1 within {TOLERANCE:g}"
    if schema.normalize:
        note_rescaled(findings, name, TOLERANCE, np.abs(sums - 1.0) > TOLERANCE)
        advice = "a propensity vector needs at least one positive entry"
        findings.note(name, "sums to 0", advice, sums <= 0)
        return matrix / np.where(sums > 0, sums, 1.0)[:, None]
    off = np.abs(sums - 1.0)
    if not len(sums):
        return matrix
    example = float(sums[int(np.argmax(off))])
    do = f"correct the log, or pass {argument('normalize', value=True)} to divide by the sum"
    if schema.behavior is not None:
        do = "give a policy whose probabilities sum to 1 in every row"
    advice = f"such as a sum of {example:.6g}; {do}"
    findings.note(name, rule, advice, off > TOLERANCE)
    return matrix


def _propensity(
    record: pa.RecordBatch,
    schema: Schema,
    findings: Findings,
    of_action: Floats | None,
) -> tuple[Floats, Floats | None]:
    """Return mu(A_t | X_t) from the columns that hold it, and its logarithm if it was logged.

    Args:
        record: the rows.
        schema: the meaning of the columns.
        findings: collects the rows that break a rule.
        of_action: (n,) what full vectors say of the logged actions.
    """
    columns, log_p, p = schema.columns, None, None
    if columns.log_propensity is not None:
        name = columns.log_propensity
        log_p = _log_probability(record[name], name, findings)
        p = np.exp(log_p)
    if columns.propensity is not None:
        linear = _probability(
            record[columns.propensity], columns.propensity, findings, zero_allowed=log_p is not None
        )
        if log_p is not None and p is not None:
            rule = f"disagrees with the log-propensity in column {columns.log_propensity!r}"
            wrong = _disagrees_in_logs(linear, log_p)
            findings.note(columns.propensity, rule, "one of the two is wrong", wrong)
        p = linear
    if of_action is not None:
        name = columns.propensities or "behavior"
        rule = "gives probability 0 to an action that was taken, which cannot happen,"
        if log_p is None:
            findings.note(name, rule, "correct the log", of_action <= 0)
        if p is not None:
            rule = "disagrees with the propensity of the logged action"
            # The rounding of float32, but at most 1 % of a small probability.
            allowed = np.minimum(TOLERANCE, 0.01 * np.maximum(of_action, p))
            wrong = (of_action > 0) & (np.abs(of_action - p) > allowed)
            advice = "check the order of the action list"
            if columns.eligible is not None:
                advice = "check the order of the eligible actions"
            findings.note(name, rule, advice, wrong)
        else:
            p = of_action
    if p is None:
        # Another rule is broken, or nothing asked for propensities.
        p = np.ones(record.num_rows)
    return p, log_p


def _disagrees_in_logs(p: Floats, log_p: Floats) -> npt.NDArray[np.bool_]:
    """Return the mask of p that is not exp(log_p) to float32 accuracy; 0 must be an underflow."""
    with np.errstate(divide="ignore"):
        off = np.abs(np.log(p) - log_p) > TOLERANCE * np.maximum(1.0, np.abs(log_p))
    # Below 1e-37, float32 numbers are subnormal: p has few correct digits or none.
    return np.where(p < 1e-37, log_p > -80.0, off)


def _log_probability(values: pa.Array, name: str, findings: Findings) -> Floats:
    log_p = numbers_of(values, name, findings)
    if log_p is None or len(log_p) == 0:
        return np.zeros(len(values))
    if log_p.max() > 0:
        rule, advice = (
            f"is above 0 by more than {TOLERANCE:g}",
            "logarithms of probabilities are at most 0",
        )
        findings.note(name, rule, advice, log_p > TOLERANCE)
        rule = f"is above 0 by no more than {TOLERANCE:g}"
        slightly = (log_p > 0) & (log_p <= TOLERANCE)
        findings.note(name, rule, "taken as 0", slightly, fatal=False)
        log_p = np.minimum(log_p, 0.0)
    if log_p.min() < _LEAST_LOG:
        rule = f"is below {_LEAST_LOG:g}, which no logarithm of a logged probability is,"
        advice = "find out what it means; nothing is clipped"
        findings.note(name, rule, advice, log_p < _LEAST_LOG)
    return log_p
