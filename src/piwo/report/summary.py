"""The content of a report as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from piwo import bounds
from piwo._version import __version__
from piwo.certificates.certificate import Certificate
from piwo.decision import Decision, Units, decide
from piwo.engines.engine import fold
from piwo.errors import UsageError
from piwo.evaluation import Evaluation
from piwo.evaluation.evaluate import Summed, compare_summing
from piwo.evaluation.notes import outside_notes
from piwo.evaluation.record import notes_together
from piwo.evaluation.request import Request
from piwo.health import Health
from piwo.health.check import check_named
from piwo.logs.log import Log
from piwo.logs.periods import Periods
from piwo.logs.reader import Reader
from piwo.logs.times import FindTimeRange
from piwo.messages import Note, argument
from piwo.records import jsonable
from piwo.reductions import Joint
from piwo.reductions.action_mix import ActionMix, MixState
from piwo.reductions.digest import Digest
from piwo.reductions.ix_path import IXPath
from piwo.reductions.over_periods import OverPeriods, PeriodState
from piwo.reductions.reduce import reduce
from piwo.report.details import GAMMAS, ActionShare, Details, PeriodRow, explorer_of

__all__ = ["Summary", "describe", "summarize"]

_FOLLOWED = 4
"""Actions whose share is shown over time."""


@dataclass(frozen=True)
class Summary:
    """The content of a report.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]).certificates
    {}
    """

    source: str
    """The name of the log."""
    columns: tuple[tuple[str, str], ...]
    """(role, name) of its columns."""
    evaluations: tuple[Evaluation, ...]
    health: Health | None
    decision: Decision
    """What all this says, in one sentence."""
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    """Policy name -> the certificate that was saved with it."""
    version: str = __version__
    made: str = ""
    """The time of the report, in UTC."""
    assumes: str | None = None
    """What all results assume about the propensities, if they are not taken as logged."""
    at_least: float | None = None
    """The least value that was asked for; None: none was."""
    details: Details = field(default_factory=Details)
    digest: str | None = None
    """Of action, reward, propensity and weight of the rows, in any order; None: not computed."""
    command: str | None = None
    """The command that made the report."""
    logger: str | None = None
    """What was declared of the logger."""
    unit: str | None = None
    """The column of units."""
    random_state: Any = 0

    @property
    def notes(self) -> Sequence[str]:
        """The notes of the values; those shared by all policies appear once."""
        return notes_together(self.evaluations)

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers of the page for JSON, besides those of the evaluations."""
        health = None
        if self.health is not None:
            health = self.health.to_dict()
        details = self.details
        path = []
        if details.explorer is not None:
            path = gamma_rows(self)
        made: dict[str, Any] = jsonable(
            {
                "decision": self.decision.to_dict(),
                "health": health,
                "mix": [asdict(one) for one in details.mix],
                "periods": [asdict(one) for one in details.periods],
                "gamma_path": path,
                "gamma_notes": gamma_notes(path),
                "digest": self.digest,
            }
        )
        return made


def gamma_rows(summary: Summary) -> list[dict[str, Any]]:
    """Return the IX estimate and its bounds at each gamma, of the policy that is decided about."""
    found = summary.details.explorer
    rows: list[dict[str, Any]] = []
    if found is None or summary.decision.policy not in found.policies:
        return rows
    sums = found.sums[found.policies.index(summary.decision.policy), 0]
    share = bounds.log_inv_delta(found.delta / (2 * found.count))
    for i, gamma in enumerate(found.gammas):
        value, loss = sums.credit[i] / sums.rows, sums.loss[i] / sums.rows
        row = {"gamma": gamma, "value": found.low + found.span * value, "lower": None}
        row["upper"] = None
        if sums.usable:
            lower = max(0.0, bounds.ix_lower(value, sums.rows, gamma, share))
            upper = min(1.0, 1.0 - bounds.ix_lower(loss, sums.rows, gamma, share))
            row["lower"] = found.low + found.span * lower
            row["upper"] = found.low + found.span * upper
        rows.append(row)
    return rows


def gamma_notes(rows: Sequence[Mapping[str, Any]]) -> tuple[Note, ...]:
    """Return the note on estimates outside their bounds, as evaluations have it.

    Args:
        rows: of `gamma_rows`.

    >>> gamma_notes(  # doctest: +ELLIPSIS
    ...     [{"gamma": 0.5, "value": 0.5, "lower": 0.7, "upper": 0.9}]
    ... )
    ('the ix estimate at gamma = 0.5 lies outside the interval; believe the interval, not ...',)
    """
    found: list[Note] = []
    for row in rows:
        ends = (row["value"], row["lower"], row["upper"])
        found += outside_notes(*ends, "ix", gamma=row["gamma"])
    if len(found) < 2:
        return tuple(found)
    others = f"; so at {len(found) - 1} other values of gamma"
    return (Note(f"{found[0].template}{others}", found[0].kind),)


def summarize(
    log: Log,
    evaluations: Sequence[Evaluation],
    health: Health | None = None,
    certificates: Mapping[str, Certificate] | None = None,
    at_least: float | None = None,
    *,
    units: Units | None = None,
    details: Details | None = None,
    digest: str | None = None,
    command: str | None = None,
    random_state: Any = 0,
) -> Summary:
    """Return the content of a report on results that are there already.

    `describe` evaluates, too, and shows more: actions, time, and the explorer.

    Args:
        log: the log of these results.
        evaluations: results of `piwo.evaluate` or `piwo.compare`.
        health: the result of `piwo.check`.
        certificates: policy name -> certificate.
        at_least: the least value that policies are asked for; the page says whether each is
            certified to have it.
        units: how gains are written, such as `Units("clicks", 100, "visits")`.
        details: what else is shown.
        digest: of the rows.
        command: that made the report.
        random_state: the seed of what was drawn.

    Returns:
        A `Summary`, for `piwo.report.page` and `piwo.report.write`.

    Raises:
        UsageError: if there are no evaluations.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]).columns
    (('action', 'action'), ('reward', 'reward'), ('propensity', 'propensity'))
    """
    if not evaluations:
        raise UsageError(f"{argument('evaluations')} is empty; pass at least one")
    columns = log.columns
    roles = {
        "action": columns.action,
        **columns.numbers(),
        "propensity vector": columns.propensities,
    }
    named = [(role, name) for role, name in roles.items() if name is not None]
    named += [("context", name) for name in columns.context]
    named += [("policy", name) for name in columns.policies]
    decision = decide(
        evaluations, health=health, units=units, at_least=at_least, assumes=log.assumption
    )
    return Summary(
        source=log.source.name,
        columns=tuple(named),
        evaluations=tuple(evaluations),
        health=health,
        decision=decision,
        certificates=dict(certificates or {}),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        assumes=log.assumption,
        at_least=at_least,
        details=details or Details(),
        digest=digest,
        command=command,
        logger=log.logger,
        unit=log.columns.unit,
        random_state=random_state,
    )


def describe(
    log: Log,
    policies: Mapping[str, Any],
    *,
    certificates: Mapping[str, Certificate] | None = None,
    at_least: float | None = None,
    units: Units | None = None,
    command: str | None = None,
    baseline_name: str | None = None,
    estimator: str | None = None,
    categories: Any = None,
    gamma: float | str = "auto",
    interval: str = "auto",
    q: Any = None,
    baseline: Any = None,
    guardrail: Any = None,
    by: str | None = None,
    delta: float = 0.05,
    rate_cap: float | None = None,
    horizon: bounds.Horizon = None,
    random_state: Any = 0,
) -> Summary:
    """Evaluate policies and return the content of a report on them.

    One pass for all policies; one that checks the log for the policy that the decision names; one
    for its actions, and for what changed over time if the log has a column of times.

    Args:
        log: the logged decisions.
        policies: name -> policy, as for `piwo.compare`.
        certificates: policy name -> certificate.
        at_least: see `summarize`.
        units: see `summarize`.
        command: see `summarize`.
        baseline_name: what the page calls the baseline; None: its own name.
        estimator: see `piwo.evaluate`; so are those that follow.
        categories: see `piwo.evaluate`.
        gamma: see `piwo.evaluate`.
        interval: see `piwo.evaluate`.
        q: see `piwo.evaluate`.
        baseline: see `piwo.compare`.
        guardrail: see `piwo.evaluate`.
        by: see `piwo.evaluate`.
        delta: see `piwo.compare`.
        rate_cap: see `piwo.evaluate`.
        horizon: see `piwo.evaluate`.
        random_state: seed of the bootstrap.

    Returns:
        A `Summary`, for `piwo.report.page` and `piwo.report.write`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> made = describe(log, {"a": piwo.policies.Constant("a", log.actions)})
    >>> made.decision.verdict, made.details.mix[0]
    ('switch', ActionShare(action='a', today=0.5, then=1.0))
    """
    made = compare_summing(
        log,
        policies,
        more=_also,
        estimator=estimator,
        categories=categories,
        gamma=gamma,
        interval=interval,
        q=q,
        baseline=baseline,
        guardrail=guardrail,
        by=by,
        delta=delta,
        rate_cap=rate_cap,
        horizon=horizon,
        random_state=random_state,
    )
    evaluations = list(made.evaluations.values())
    if baseline_name is not None:
        evaluations = [_renamed(one, baseline_name) for one in evaluations]
    assumes = log.assumption
    best = decide(evaluations, units=units, at_least=at_least, assumes=assumes).policy
    details, digest = _details(made, best)
    return summarize(
        log,
        evaluations,
        check_named(log, best, policies[best]),
        certificates,
        at_least,
        units=units,
        details=details,
        digest=digest,
        command=command,
        random_state=random_state,
    )


def _renamed(one: Evaluation, baseline: str) -> Evaluation:
    if one.baseline is None:
        return one
    return replace(one, baseline=baseline)


def _also(request: Request) -> IXPath:
    """Return what the explorer needs besides the sums of a comparison."""
    gammas = GAMMAS
    if not request.bounded:
        gammas = GAMMAS[:1]
    return IXPath(tuple(request.policies.values()), gammas)


def _details(made: Summed, best: str) -> tuple[Details, str]:
    """Return what is shown of the policy that the decision names, and the digest of the rows."""
    log, policy = made.request.log, made.request.policies[best]
    count = len(log.actions)
    periods = _periods(log)
    parts: tuple[Any, ...] = (ActionMix(policy, count), Digest())
    if periods is not None:
        log = replace(log, segments=periods)
        parts = (*parts, OverPeriods(policy, count, periods.count))
    mix, digest, *rest = reduce(log, Joint(parts))
    details = Details(mix=_shares(log, mix), explorer=explorer_of(made))
    if periods is not None:
        rows = _period_rows(log, periods, rest[0])
        details = replace(details, periods=rows, period=periods.each)
    return details, digest.text(made.request.log.actions)


def _periods(log: Log) -> Periods | None:
    column = log.columns.time
    if column is None:
        return None
    chosen = [column]
    if log.selector is not None and log.columns.numbering is not None:
        chosen.append(log.columns.numbering)
    task = FindTimeRange(Reader(log.unlabeled, log.selector), column)
    found = fold(log.source, list(dict.fromkeys(chosen)), task)
    return Periods.within(column, -found.minus_first, found.last, dates=found.dates)


def _shares(log: Log, mix: MixState) -> tuple[ActionShare, ...]:
    """Return the shares of all actions, the largest changes first."""
    today, then = mix.shares
    found = []
    for label, before, after in zip(log.actions.labels, today, then, strict=True):
        found.append(ActionShare(str(label), float(before), float(after)))
    return tuple(sorted(found, key=lambda one: -round(abs(one.then - one.today), 9)))


def _period_rows(log: Log, periods: Periods, state: PeriodState) -> tuple[PeriodRow, ...]:
    most = (-state.taken.sum(axis=0)).argsort(kind="stable")[:_FOLLOWED]
    made = []
    for i, label in enumerate(periods.labels):
        rows = int(state.rows[i])
        if not rows:
            made.append(PeriodRow(label, 0, None, None, {}))
            continue
        shares = {str(log.actions.labels[a]): float(state.taken[i, a]) / rows for a in most}
        reward, weight = float(log.value(state.reward[i] / rows)), float(state.weight[i]) / rows
        made.append(PeriodRow(label, rows, reward, weight, shares))
    return tuple(made)
