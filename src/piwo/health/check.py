"""Health: is this log fit to say what another policy would have earned?"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.engines.state import State
from piwo.evaluation.evaluate import evaluate
from piwo.evaluation.unsupported import unsupported_masses, unsupported_sums
from piwo.health.item_age import age_rows
from piwo.health.position import position_rows
from piwo.health.record import TABLE_ROWS, Health, HealthFinding, Verdict
from piwo.health.rows import ActionRow, ContextGap, HeavyRow, SizeRow, WeightBin
from piwo.health.rules import findings_of
from piwo.intervals.matching import matched, may_lack_actions, name_of
from piwo.intervals.weight_sums import effective_size, weight_z, z_score
from piwo.logs.batch import Batch, Floats
from piwo.logs.encoding import context_kinds
from piwo.logs.features import Features
from piwo.logs.log import Log
from piwo.logs.unit_columns import unit_columns
from piwo.policies import Uniform
from piwo.reductions import (
    BETS,
    ActionState,
    ActionTable,
    HistogramState,
    Joint,
    MomentState,
    PolicySums,
    WeightHistogram,
)
from piwo.reductions.reduce import reduce
from piwo.reductions.reduction import Reduction
from piwo.reductions.repeats import Repeats
from piwo.reductions.set_sizes import SetSizes, SizeState
from piwo.scores import IW
from piwo.scores.ratio import log1p_ratio, over_propensity

__all__ = ["ActionEvidence", "ContextGaps", "EvidenceState", "GapState", "check", "check_named"]

_BETS = BETS[2:26:2]
"""8, 2, 1/2, ..., 2e-6: the best bet on one of K actions, taken c times too often, is about
(c - 1)/K."""


def check(log: Log, policy: Any = None, delta: float = 0.05) -> Health:
    """Whether a log is fit to value policies, and what is wrong with it.

    One pass; one more for a policy that reads the context, one for columns that look like ids, and
    two if the log says at which position actions were shown; those of `piwo.evaluate` for a log
    with eligible actions without the propensities of all of them.

    The verdict is "unfit" if one of these holds; the limits have these reasons:

    - the propensities contradict the actions: a finite-sample test (E 1{A = a}/mu <= 1 for every
      action, and E w <= 1 for the uniform policy) rejects at delta / 50. An honest log meets this
      at most once in 50 / delta logs; rejection at delta asks for care;
    - the effective sample of the policy is below 10 rows: even ten equal rows with the best reward
      leave an interval as wide as a third of the reward range;
    - more than half of what the policy plays is not in the log: no interval can be shorter than
      half the range;
    - no row had any choice: every propensity is 1.

    It is "fit with care" if the effective sample is below 100 rows or a tenth of the log,
    actions of the list were never logged, part of what the policy plays is missing, all rewards are
    the same, context values that learning refuses are in the columns that were named, rewards of
    rows with one value of a column like "user_id" are alike and units are not declared, or rewards
    of the same action differ by position; else "fit".

    Args:
        log: the logged decisions.
        policy: what the log is to be used for; None: the uniform policy, the hardest of the common
            ones.
        delta: probability of a false alarm about the propensities.

    Returns:
        A `Health`: verdict, findings, tables; `print` shows it.

    Raises:
        DataError: for rows that break a rule.

    >>> log = Log.from_arrays(action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000)
    >>> check(log).verdict
    'fit'
    >>> lying = Log.from_arrays(
    ...     action=["a"] * 900 + ["b"] * 100, reward=[1] * 1000, propensity=[0.5] * 1000
    ... )
    >>> check(lying).verdict
    'unfit'
    """
    name = "uniform"
    if policy is not None:
        name = name_of(policy)
    return check_named(log, name, policy, delta)


def check_named(log: Log, name: str, policy: Any = None, delta: float = 0.05) -> Health:
    """Return `check` of a policy that the text calls by a name.

    Args:
        log: see `check`; so are those that follow.
        name: of the policy.
        policy: None: the uniform policy.
        delta: see `check`.

    >>> log = Log.from_arrays(action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000)
    >>> check_named(log, "even", Uniform(log.actions)).policy
    'even'
    """
    bounds.log_inv_delta(delta)  # 0 < delta < 1
    asked, given = {}, log
    if policy is not None:
        asked[name] = policy
    log, ready = matched(log, asked)
    log.require_unique_keys()
    uniform = Uniform(log.actions)
    target = ready.get(name, uniform)
    even = PolicySums(uniform, IW(), bounded=False)
    parts: tuple[Reduction[Any], ...] = (
        ActionTable(len(log.actions)),
        ActionEvidence(len(log.actions)),
        even,
        WeightHistogram(uniform),
    )
    if policy is not None:
        parts = (*parts, PolicySums(target, IW(), bounded=False), WeightHistogram(target))
    exact = unsupported_sums(log, target)
    sizes: tuple[SetSizes, ...] = ()
    if log.columns.eligible is not None:
        sizes = (SetSizes(),)
    sums = Joint((*parts, *exact, *sizes))
    used = {x.features for x in ready.values() if x.features is not None and x.needs_context}
    # Missing values, copies, and what equal contexts show of the logger are looked for in the same
    # pass, unless the policy encodes the context its own way.
    looks, states = _looks(given), ()
    if not looks:
        table, evidence, of_uniform, spread, *rest = reduce(log, sums)
    elif used:
        table, evidence, of_uniform, spread, *rest = reduce(log, sums)
        states = reduce(_described(given), Joint(tuple(looks.values())))
    else:
        both = Joint((sums, Joint(tuple(looks.values()))))
        (table, evidence, of_uniform, spread, *rest), states = reduce(_described(log), both)
    by_size = tuple(_size_rows(log, rest.pop())) if sizes else ()
    known = {name: rest.pop().mean} if exact else {}
    state, histogram = rest or (of_uniform, spread)
    if sizes and not exact:
        # an upper bound belongs to it, which is that of an evaluation, or none, as there
        asked_of = Uniform(given.actions) if policy is None else policy
        mass = evaluate(given, asked_of, name=name, delta=delta).unsupported_mass
    else:
        never = np.flatnonzero(table.count == 0)
        mass = unsupported_masses(log, {name: target}, never, known)[name]
    even_sums = (of_uniform.moments, of_uniform.bets.weight)
    made = _measured(
        log, name, delta, table, evidence, even_sums, spread, state.moments, histogram, mass
    )
    made = _seen(made, given, dict(zip(looks, states, strict=True)))
    # What was measured says more than the note on names of columns.
    caveats = tuple(note for note in log.caveats if note.kind != "undeclared-units")
    made = replace(made, unit_columns=unit_columns(log), caveats=caveats, by_size=by_size)
    shown = log.columns.position in log.columns.context
    made = replace(made, position_in_context=shown)
    made = replace(made, by_age=tuple(age_rows(log)))
    places = position_rows(log)
    if places is None:
        made = replace(made, positions_left_out=log.columns.position)
    else:
        made = replace(made, by_position=places)
    if log.propensity_error is not None:
        made = replace(
            made,
            doubts=log.propensity_caveats,
            calibration=log.propensity_error.calibration,
            allowed_error=not log.propensity_error.exact,
        )
    findings = findings_of(made)
    return replace(made, verdict=_verdict(findings), findings=findings)


def _verdict(findings: Sequence[HealthFinding]) -> Verdict:
    severities = {finding.severity for finding in findings}
    if "unfit" in severities:
        return "unfit"
    if "care" in severities:
        return "fit with care"
    return "fit"


def _looks(log: Log) -> dict[str, Reduction[Any]]:
    """Return what is looked for in the rows besides sums, by name; nothing with `behavior=`."""
    columns, found = log.columns, dict[str, Reduction[Any]]()
    if log.behavior is not None:
        return found
    marks = 0
    if log.has_context:
        marks = 3 * len(columns.context)
        found["gaps"] = ContextGaps(marks)
    # A unique key was looked at, and rows of a unit may be equal.
    if columns.key is None and columns.unit is None:
        found["contents"] = Repeats("contents", marks)
        if log.has_context:
            found["rows"] = Repeats("rows", marks)
    if log.has_context and log.logger != "learning" and log.propensities_are_logged:
        found["propensities"] = Repeats("propensities", marks)
    return found


def _described(log: Log) -> Log:
    """Return the log with its context encoded as what is missing, and which values are equal.

    Values are not refused then, and levels of text need no pass of their own.
    """
    if not log.has_context:
        return log
    features = Features.gaps(tuple(context_kinds(log.columns.context, log.source)))
    return replace(log, declared_features=features.with_digests(), declared_actions=log.actions)


def _seen(health: Health, log: Log, states: Mapping[str, Any]) -> Health:
    """Return the record with what `_looks` found: gaps, copies, and a logger that changed.

    Args:
        health: the record.
        log: the rows.
        states: by name.
    """
    if "gaps" in states:
        health = replace(health, context_gaps=tuple(_gaps(log, states["gaps"])))
    if not states or any(gap.refused for gap in health.context_gaps):
        return health
    copied = equal = changed = None
    if "rows" in states:
        copied = states["rows"].copied
    if "contents" in states and copied is None:
        equal = states["contents"].twins
    if "propensities" in states:
        changed = states["propensities"].changed
    return replace(
        health, copies=copied, equal_rows=equal, logger=log.logger, logger_changed=changed
    )


def _gaps(log: Log, found: GapState) -> Iterator[ContextGap]:
    indicated = log.encoding.missing == "indicator"
    counts = found.count.reshape(-1, 3).astype(int).tolist()
    for name, (missing, nan, infinite) in zip(log.columns.context, counts, strict=True):
        if missing or nan or infinite:
            yield ContextGap(name, missing, nan, infinite, indicated)


def _measured(
    log: Log,
    name: str,
    delta: float,
    table: ActionState,
    evidence: EvidenceState,
    uniform: tuple[MomentState, Floats],
    spread: HistogramState,
    sums: MomentState,
    histogram: HistogramState,
    mass: float | None,
) -> Health:
    """Return the record of what was measured, without findings."""
    thinned = log.columns.weight is not None
    once = 0
    if may_lack_actions(log):
        once = int((table.count == 1).sum())
    # The propensities of a thinned log, or of a list with gaps, cannot be tested.
    count = len(log.actions)
    p_values, uniform_p, action_p, detectable = np.full(count, np.nan), None, None, None
    if not thinned and not once:
        # Bonferroni: one test an action
        p_values = np.minimum(1.0, evidence.p_values() * count)
        action_p = float(p_values.min())
        uniform_p = bounds.propensity_e_test(uniform[1], uniform[0].rows).p_value
        if log.columns.unit is None:
            detectable = _detectable(table, uniform[0], delta)
    z = None
    if not thinned:
        z = weight_z(sums.w, sums.w2, sums.rows)
    shown = _most_evident(p_values, table.count)
    unlogged, listed = np.flatnonzero(table.count == 0), list[int]()
    if log.columns.eligible is not None:
        # Those that most rows could have taken come first.
        unlogged = unlogged[np.argsort(-table.eligible[unlogged], kind="stable")]
        listed = table.eligible[unlogged].astype(int).tolist()
    heaviest = tuple(_heaviest(log, histogram))
    shares = [row.share for row in heaviest]
    return Health(
        frames=log.frames,
        verdict="fit",
        findings=(),
        policy=name,
        rows=sums.logged,
        detectable_factor=detectable,
        unit=log.columns.unit,
        units=log.columns.units_of(sums.rows),
        actions=len(log.actions),
        actions_logged=len(log.actions) - len(unlogged),
        never_logged=tuple(log.actions.labels[i] for i in unlogged[:TABLE_ROWS]),
        never_logged_eligible=tuple(listed[:TABLE_ROWS]),
        never_eligible=sum(rows == 0 for rows in listed),
        every_propensity=log.gives_every_propensity,
        mean_reward=log.value(float(table.reward.sum()) / sums.logged),
        reward_range=log.reward_range,
        cost=log.columns.cost,
        propensity_min=spread.top.rows[0][3],
        propensity_median=_median(spread, float(table.eligible.sum()) / sums.logged),
        mean_weight=sums.w / sums.total,
        mean_weight_z=z,
        max_weight=sums.max_weight,
        ess=effective_size(sums.w, sums.w2),
        unsupported_mass=mass,
        top_share={k: _total(shares[:k]) for k in (1, 2, 10)},
        propensity_p=uniform_p,
        action_p=action_p,
        thinned=thinned,
        logged_once=once,
        delta=delta,
        by_action=tuple(_action_rows(log, table, p_values, shown)),
        actions_left_out=len(log.actions) - len(shown),
        heaviest=heaviest,
        histogram=tuple(_weight_bins(histogram)),
    )


def _detectable(table: ActionState, uniform: MomentState, delta: float) -> float | None:
    """Return the smallest factor by which propensities could be too small and be noticed.

    Formula: let Y be 1{A = a}/mu, or the weight of the uniform policy, s its standard deviation
    over its mean, and all propensities too small by the factor 1 + x. The best bet on the mean of Y
    gains about x^2 / (2 (s^2 + x^2)) nats a row. The tests need log(2 K / delta) for K actions and
    log(2 / delta) for the policy, and the logarithm of the number of bets.
    """
    n, actions = uniform.logged, len(table.count)
    spreads = [(_spread(uniform.w, uniform.w2, n), math.log(2.0 * len(BETS) / delta))]
    price = math.log(2.0 * actions * len(_BETS) / delta)
    # Tests of actions expect a mean of 1, which they have if they could be taken in every row.
    always = table.eligible >= n
    for total, squares in zip(table.inverse[always], table.inverse2[always], strict=True):
        spreads.append((_spread(float(total), float(squares), n), price))
    found: list[float] = []
    for spread, nats in spreads:
        needed = 2.0 * nats / n
        if spread is not None and needed < 1.0:
            # x^2 (1 - needed) = needed s^2
            found.append(1.0 + spread * math.sqrt(needed / (1.0 - needed)))
    return min(found, default=None)


def _spread(total: float, squares: float, n: int) -> float | None:
    """Return the standard deviation over the mean, from two sums; None if it is not defined."""
    if n < 2 or not math.isfinite(squares) or total <= 0.0:
        return None
    mean = total / n
    return math.sqrt(max(0.0, squares / n - mean * mean)) / mean


def _heaviest(log: Log, histogram: HistogramState) -> Iterator[HeavyRow]:
    total = float(histogram.weight.sum())
    for w, row, code, propensity in histogram.top.rows:
        yield HeavyRow(row, log.actions.labels[code], propensity, w, _ratio(w, total))


def _weight_bins(histogram: HistogramState) -> Iterator[WeightBin]:
    total = float(histogram.weight.sum())
    for i in histogram.edges().tolist():
        # Bin 0 holds weight 0, bin i the weights from 2^(i - 1051) on.
        least = 0.0
        if i:
            least = 2.0 ** (i - 1051)
        share = _ratio(float(histogram.weight[i]), total)
        yield WeightBin(least, int(histogram.count[i]), share)


def _most_evident(p_values: Floats, count: Floats) -> npt.NDArray[np.intp]:
    """Return the codes of the table's rows: all in order, or those with the smallest p."""
    if len(count) <= TABLE_ROWS:
        return np.arange(len(count))
    return np.sort(np.lexsort((-count, p_values))[:TABLE_ROWS])


def _action_rows(
    log: Log, table: ActionState, p_values: Floats, shown: npt.NDArray[np.intp]
) -> Iterator[ActionRow]:
    for code in shown.tolist():
        # The rows in which the action could be taken.
        n = max(1, round(float(table.eligible[code])))
        count, inverse2 = float(table.count[code]), float(table.inverse2[code])
        mean, p = float(table.inverse[code]) / n, float(p_values[code])
        made = ActionRow(
            action=log.actions.labels[code],
            count=int(count),
            frequency=count / n,
            mean_propensity=None,
            mean_reward=None,
            mean_inverse=mean,
            standard_error=None,
            z=None,
            p=None,
        )
        if count:
            reward = log.value(float(table.reward[code]) / count)
            propensity = float(table.propensity[code]) / count
            made = replace(made, mean_propensity=propensity, mean_reward=reward)
        # Rows of a unit depend on each other, so the spread of rows says nothing.
        if n > 1 and math.isfinite(inverse2) and log.columns.unit is None:
            error = _error_of_mean(mean, inverse2, n)
            made = replace(made, standard_error=error, z=z_score(mean, error))
        if not math.isnan(p):
            made = replace(made, p=p)
        yield made


def _error_of_mean(mean: float, squares: float, n: float) -> float:
    """Return the standard error of a mean of n numbers, from the sum of their squares."""
    # sqrt((E y^2 - mean^2) / (n - 1)), which rounding may take below 0
    return math.sqrt(max(0.0, squares / n - mean * mean) / (n - 1))


def _size_rows(log: Log, state: SizeState) -> Iterator[SizeRow]:
    for i in np.flatnonzero(state.rows).tolist():
        n = float(state.rows[i])
        mean, z = float(state.weight[i]) / n, None
        # Rows of a unit depend on each other, so the spread of rows says nothing; nor does it if
        # rows were left out.
        plain = log.columns.unit is None and log.columns.weight is None
        if n > 1 and np.isfinite(state.weight2[i]) and plain:
            error = _error_of_mean(mean, float(state.weight2[i]), n)
            z = z_score(mean, error)
        yield SizeRow(2**i, int(n), log.value(float(state.reward[i]) / n), mean, z)


def _median(spread: HistogramState, actions: float) -> float:
    """Return the median propensity within a factor of two, from the weights 1 / (K mu).

    Args:
        spread: of the weights of the uniform policy.
        actions: K, or how many actions are eligible on average.
    """
    middle = int(np.searchsorted(np.cumsum(spread.count), spread.count.sum() / 2.0))
    typical = float(spread.weight[middle] / spread.count[middle])
    # A weight of 0 or infinity is that of a propensity beyond float64.
    if not 0.0 < typical < math.inf:
        return 0.0
    return 1.0 / (actions * typical)


def _ratio(part: float, whole: float) -> float | None:
    if not 0.0 < whole < math.inf:
        return None
    return part / whole


def _total(shares: list[float | None]) -> float | None:
    known = [x for x in shares if x is not None]
    if len(known) < len(shares):
        return None
    return math.fsum(known)


@dataclass(frozen=True)
class EvidenceState(State):
    """Rows, and by action and bet the sum of log(1 + lam 1{A = a}/mu), (K, 12)."""

    rows: int
    sums: Floats

    def p_values(self) -> Floats:
        """Return a p-value of "E 1{A = a}/mu <= 1" for each action, true if propensities are.

        One over the average wealth of twelve bets, valid at every n and at any time; not corrected
        for the number of actions.

        >>> import numpy as np
        >>> EvidenceState(0, np.zeros((2, 12))).p_values().tolist()
        [1.0, 1.0]
        """
        # log wealth = sum_t log((1 + lam 1{A_t = a}/mu_t) / (1 + lam)), by action and bet
        wealth = self.sums - self.rows * np.log1p(_BETS)
        peak = wealth.max(axis=1)
        log_e = peak + np.log(np.exp(wealth - peak[:, None]).mean(axis=1))
        p: Floats = np.exp(-np.maximum(log_e, 0.0))
        return p


@dataclass(frozen=True)
class ActionEvidence(Reduction[EvidenceState]):
    """Reduction: for each action, bets that its mean of 1{A = a}/mu is above 1.

    The mean over all actions can be right while single ones are far off, as in a log that states
    1/K for a logger that prefers one action.

    Args:
        actions: K.

    Source: docs/theory.md, section "Are the propensities right?".
    """

    actions: int

    def empty(self) -> EvidenceState:
        """Return the state of no rows."""
        return EvidenceState(0, np.zeros((self.actions, len(_BETS))))

    def update(self, state: EvidenceState, batch: Batch) -> EvidenceState:
        """Return the sums with a batch added."""
        if batch.unit_starts is not None:
            return state.merge(self._units(batch))
        ones, sums = np.ones(len(batch)), np.empty((self.actions, len(_BETS)))
        for j, bet in enumerate(_BETS):
            sums[:, j] = np.bincount(
                batch.action,
                log1p_ratio(np.array([bet]), ones, batch)[:, 0],
                minlength=self.actions,
            )
        return state.merge(EvidenceState(len(batch), sums))

    def _units(self, batch: Batch) -> EvidenceState:
        """Return the sums over units, of the means of 1{A = a}/mu over their rows."""
        assert batch.unit_starts is not None
        sizes = np.diff(np.append(batch.unit_starts, len(batch)))
        # Pairs of a unit and an action that it was given.
        unit = np.repeat(np.arange(len(sizes)), sizes)
        pairs, place = np.unique(unit * self.actions + batch.action, return_inverse=True)
        inverse = over_propensity(batch.sampled(np.ones(len(batch))), batch)
        means, action = np.bincount(place, inverse), pairs % self.actions
        sums = np.empty((self.actions, len(_BETS)))
        for j, bet in enumerate(_BETS):
            sums[:, j] = np.bincount(action, np.log1p(bet * means), minlength=self.actions)
        return EvidenceState(batch.count, sums)


@dataclass(frozen=True)
class GapState(State):
    """(3 d,) counts of rows: missing, NaN and infinite, for each of d context columns."""

    count: Floats = field(default_factory=lambda: np.zeros(0))


@dataclass(frozen=True)
class ContextGaps(Reduction[GapState]):
    """Reduction: sum_t X_t, for a context encoded as `piwo.logs.features.Features.gaps` says.

    Args:
        width: 3 d, the first columns of the encoded context.
    """

    width: int

    @property
    def context(self) -> bool:
        """The context is needed."""
        return True

    @property
    def labels(self) -> bool:
        """Action codes are not needed."""
        return False

    def empty(self) -> GapState:
        """Return the state of no rows."""
        return GapState(np.zeros(self.width))

    def update(self, state: GapState, batch: Batch) -> GapState:
        """Return the counts with a batch added."""
        assert batch.context is not None
        return state.merge(GapState(batch.context[:, : self.width].sum(axis=0)))
