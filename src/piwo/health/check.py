"""Health: is this log fit to say what another policy would have earned?"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo import bounds
from piwo.evaluation.unsupported_mass import unsupported_masses
from piwo.health.action_evidence import ActionEvidence, EvidenceState
from piwo.health.context_gaps import ContextGaps, GapState
from piwo.health.record import (
    TABLE_ROWS,
    ActionRow,
    ContextGap,
    Health,
    HealthFinding,
    HeavyRow,
    Verdict,
    WeightBin,
)
from piwo.health.rules import findings_of
from piwo.intervals.prepare import name_of, prepare
from piwo.intervals.weight_sums import effective_size, weight_z
from piwo.logs.batch import Floats
from piwo.logs.encoding import context_kinds
from piwo.logs.features import Features
from piwo.logs.log import Log
from piwo.policies import Uniform
from piwo.reductions import (
    ActionState,
    ActionTable,
    HistogramState,
    Joint,
    MomentState,
    PolicySums,
    WeightHistogram,
)
from piwo.reductions.reduce import reduce
from piwo.scores import IW

__all__ = ["Health", "HealthFinding", "check"]


def check(log: Log, policy: Any = None, delta: float = 0.05) -> Health:
    """Whether a log is fit to value policies, and what is wrong with it. One pass.

    The verdict is "unfit" where one of these holds, with the reasons for the limits:

    - the propensities contradict the actions: a finite-sample test (E 1{A = a}/mu <= 1 for every
      action, and E w <= 1 for the uniform policy) rejects at delta / 50. An honest log meets this
      at most once in 50 / delta logs; at delta it is a reason for care;
    - the effective sample of the policy is below 10 rows: even ten equal rows with the best reward
      leave an interval as wide as a third of the reward range;
    - more than half of what the policy plays is not in the log: no interval can be shorter than
      half the range;
    - no row had any choice: every propensity is 1.

    It is "fit with care" where the effective sample is below 100 rows or a tenth of the log,
    actions of the list were never logged, part of what the policy plays is missing, all rewards are
    the same, or context values that learning refuses are in the columns that were named; else
    "fit".

    Args:
        log: the logged decisions.
        policy: what the log is to be used for; None: the uniform policy, the hardest of the common
            ones.
        delta: chance of a false alarm for the remark about propensities.

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
    bounds.log_inv_delta(delta)  # 0 < delta < 1
    name = "uniform" if policy is None else name_of(policy)
    given = log
    log, ready = prepare(log, {} if policy is None else {name: policy})
    uniform = Uniform(log.actions)
    target = ready.get(name, uniform)
    even = PolicySums(uniform, IW(), bounded=False)
    parts = (
        ActionTable(len(log.actions)),
        ActionEvidence(len(log.actions)),
        even,
        WeightHistogram(uniform),
    )
    extra = (
        () if policy is None else (PolicySums(target, IW(), bounded=False), WeightHistogram(target))
    )
    sums, looks = Joint((*parts, *extra)), given.has_context and given.behavior is None
    used = {x.features for x in ready.values() if x.features is not None and x.needs_context}
    gaps = GapState()
    if looks and not used:
        looked, look = _looking(log)
        (table, evidence, of_uniform, spread, *rest), gaps = reduce(looked, Joint((sums, look)))
    else:
        table, evidence, of_uniform, spread, *rest = reduce(log, sums)
        # what a policy acts on was refused there; columns that it knows nothing of take a pass of
        # their own
        if looks and not set(given.columns.context) <= {
            name for one in used for name in one.columns
        }:
            gaps = reduce(*_looking(given))
    state, histogram = rest or (of_uniform, spread)
    mass = unsupported_masses(log, {name: target}, np.flatnonzero(table.count == 0))[name]
    even_sums = (of_uniform.moments, of_uniform.bets.weight)
    made = _measured(
        log, name, delta, table, evidence, even_sums, spread, state.moments, histogram, mass
    )
    if gaps.count.size:
        made = replace(made, context_gaps=tuple(_gaps(given, gaps)))
    if log.propensity_error is not None:
        made = replace(
            made, doubts=log.propensity_caveats, calibration=log.propensity_error.calibration
        )
    findings = findings_of(made)
    verdict: Verdict = "fit"
    if any(finding.severity == "care" for finding in findings):
        verdict = "fit with care"
    if any(finding.severity == "unfit" for finding in findings):
        verdict = "unfit"
    return replace(made, verdict=verdict, findings=findings)


def _looking(log: Log) -> tuple[Log, ContextGaps]:
    """Return the log with its context read for what is missing in it, and what counts that."""
    features = Features.gaps(tuple(context_kinds(log.columns.context, log.source)))
    return replace(log, declared_features=features, declared_actions=log.actions), ContextGaps(
        features.width
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
    once = int((table.count == 1).sum()) if log.actions.seen else 0
    untestable = thinned or once > 0
    count = len(log.actions)
    p_values = (
        np.full(count, np.nan) if untestable else np.minimum(1.0, evidence.p_values() * count)
    )
    shown = _most_evident(p_values, table.count)
    unlogged = np.flatnonzero(table.count == 0)
    weight = float(histogram.weight.sum())
    shares = [_ratio(row[0], weight) for row in histogram.top.rows]
    return Health(
        verdict="fit",
        findings=(),
        policy=name,
        rows=sums.rows,
        actions=len(log.actions),
        actions_logged=len(log.actions) - len(unlogged),
        never_logged=tuple(log.actions.labels[i] for i in unlogged[:TABLE_ROWS]),
        mean_reward=log.value(float(table.reward.sum()) / sums.rows),
        reward_range=log.reward_range,
        cost=log.columns.cost,
        propensity_min=spread.top.rows[0][3],
        propensity_median=_median(spread, len(log.actions)),
        mean_weight=sums.w / sums.total,
        mean_weight_z=None if thinned else weight_z(sums.w, sums.w2, sums.rows),
        max_weight=sums.max_weight,
        ess=effective_size(sums.w, sums.w2),
        unsupported_mass=mass,
        top_share={k: _total(shares[:k]) for k in (1, 2, 10)},
        propensity_p=None
        if untestable
        else bounds.propensity_e_test(uniform[1], uniform[0].rows).p_value,
        action_p=None if untestable else float(p_values.min()),
        thinned=thinned,
        logged_once=once,
        delta=delta,
        by_action=tuple(_action_rows(log, table, p_values, shown, sums.rows)),
        actions_left_out=len(log.actions) - len(shown),
        heaviest=tuple(
            HeavyRow(row, log.actions.labels[code], propensity, w, share)
            for (w, row, code, propensity), share in zip(histogram.top.rows, shares, strict=True)
        ),
        histogram=tuple(
            WeightBin(
                2.0 ** (int(i) - 1051) if i else 0.0,
                int(histogram.count[i]),
                _ratio(float(histogram.weight[i]), weight),
            )
            for i in histogram.edges()
        ),
    )


def _most_evident(p_values: Floats, count: Floats) -> npt.NDArray[np.intp]:
    """Return the codes of the table's rows, all in the list's order, or those with the smallest p."""
    if len(count) <= TABLE_ROWS:
        return np.arange(len(count))
    return np.sort(np.lexsort((-count, p_values))[:TABLE_ROWS])


def _action_rows(
    log: Log, table: ActionState, p_values: Floats, shown: npt.NDArray[np.intp], n: int
) -> Iterator[ActionRow]:
    for code in shown.tolist():
        count, inverse, inverse2 = (
            float(x[code]) for x in (table.count, table.inverse, table.inverse2)
        )
        mean, p = inverse / n, float(p_values[code])
        error = (
            math.sqrt(max(0.0, inverse2 / n - mean * mean) / (n - 1))
            if n > 1 and math.isfinite(inverse2)
            else None
        )
        yield ActionRow(
            action=log.actions.labels[code],
            count=int(count),
            frequency=count / n,
            mean_propensity=float(table.propensity[code]) / count if count else None,
            mean_reward=log.value(float(table.reward[code]) / count) if count else None,
            mean_inverse=mean,
            standard_error=error,
            z=(mean - 1.0) / error if error else None,
            p=None if math.isnan(p) else p,
        )


def _median(spread: HistogramState, actions: int) -> float:
    """Return the median propensity to within a factor of two, from the uniform weights 1 / (K mu)."""
    middle = int(np.searchsorted(np.cumsum(spread.count), spread.count.sum() / 2.0))
    typical = float(spread.weight[middle] / spread.count[middle])
    return 1.0 / (actions * typical) if 0.0 < typical < math.inf else 0.0


def _ratio(part: float, whole: float) -> float | None:
    return part / whole if 0.0 < whole < math.inf else None


def _total(shares: list[float | None]) -> float | None:
    known = [x for x in shares if x is not None]
    return math.fsum(known) if len(known) == len(shares) else None
