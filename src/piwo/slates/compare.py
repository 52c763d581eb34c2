"""Compare slate policies: each by every estimator that the log allows, in one pass a policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from piwo.checks import check_delta, check_flag, check_kind, check_listed
from piwo.errors import UsageError
from piwo.messages import Note, argument
from piwo.records import Record
from piwo.slates.estimators import ESTIMATORS, SlateEstimator, slate_estimator
from piwo.slates.evaluate import check_target, finished, settled_interval, sums_for
from piwo.slates.log import SlateLog
from piwo.slates.policy import SlatePolicy, UnknownMarginalsError
from piwo.slates.result import SlateEvaluation
from piwo.slates.sums import SlateState, SlateSums, reduce_slates
from piwo.visible import visible

__all__ = ["SlateComparison", "compare"]


@dataclass(frozen=True)
class SlateComparison(Record):
    """The values of slate policies by several estimators.

    >>> SlateComparison((), {}, 0.05, 0.05).evaluations
    ()
    """

    evaluations: tuple[SlateEvaluation, ...]
    """Policy by policy, in the order of `ESTIMATORS`."""
    left_out: Mapping[str, Mapping[str, str]]
    """Policy -> estimator -> why it cannot be used on this log."""
    delta: float
    """Error probability of all intervals together: those whose assumption holds."""
    delta_each: float
    """Of one interval: delta over their number, with those that rows turned out to rule out."""
    notes: tuple[Note, ...] = ()

    def __str__(self) -> str:
        lines = [str(one) for one in self.evaluations]
        for name, why in self.left_out.items():
            for estimator, text in why.items():
                lines.append(visible(f"{name}: not by {estimator}: {text}"))
        lines += [visible(f"note: {note}") for note in self.notes]
        return "\n".join(lines)


def compare(
    log: SlateLog,
    policies: Mapping[str, SlatePolicy],
    *,
    estimators: Sequence[str] | None = None,
    self_normalized: bool = False,
    interval: str = "auto",
    delta: float = 0.05,
) -> SlateComparison:
    """Return the value of each policy by each estimator, with intervals that hold together.

    Estimators differ in what they assume, and so may their values: choose one by its assumption,
    before the log is seen. To choose the one whose interval is narrowest, or whose value is
    highest, is to choose an assumption by the answer.

    Formula: see `piwo.slates.evaluate`. Each of N intervals has the error probability delta / N:
    all whose assumption holds contain their values together, with probability 1 - delta.

    Args:
        log: of `slates.read`.
        policies: name -> target.
        estimators: names; None: all that log and policy have the probabilities for, as far as the
            rows show.
        self_normalized: see `piwo.slates.evaluate`.
        interval: see there.
        delta: error probability of all intervals together.

    Returns:
        A `SlateComparison`. It takes a pass a policy.

    Raises:
        UsageError: if a named estimator cannot be used, or none can.
        DataError: for rows that break a rule.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]] * 50, "rs": [[1, 0], [0, 0]] * 50},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> found = compare(log, {"best": piwo.slates.Deterministic(["a", "b"])})
    >>> [(one.estimator, one.value) for one in found.evaluations][:2]
    [('standard', 1.0), ('independent', 1.0)]
    >>> list(found.left_out["best"])
    ['adaptive']
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    check_kind("policies", policies, Mapping, " from name to slate policy")
    check_flag("self_normalized", self_normalized)
    check_delta(delta)
    if not policies:
        raise UsageError(f"{argument('policies')} is empty, expected name -> slate policy")
    if estimators is not None:
        check_listed("estimators", estimators)
    settled = settled_interval(log, interval)
    chosen: dict[str, list[SlateEstimator]] = {}
    left_out: dict[str, dict[str, str]] = {}
    for name, policy in policies.items():
        check_target(log, policy)
        chosen[name], left_out[name] = _usable(log, policy, estimators)
    # each of N intervals, also if rows turn out to rule some out: N was fixed before they were read
    shared_by = sum(map(len, chosen.values()))
    each = delta / shared_by
    found = []
    for name, policy in policies.items():
        tasks = [sums_for(log, policy, one, settled) for one in chosen[name]]
        may_lack = left_out[name] if estimators is None else None
        for task, state in _summed(log, tasks, may_lack):
            found.append(
                finished(log, policy, task, state, settled, each, bool(self_normalized), name)
            )
    return SlateComparison(tuple(found), left_out, delta, each, _notes_on(found, shared_by, each))


def _summed(
    log: SlateLog, tasks: Sequence[SlateSums], left_out: dict[str, str] | None
) -> Sequence[tuple[SlateSums, SlateState]]:
    """Return each task with its sums.

    Args:
        log: the rows.
        tasks: of one policy, by estimator.
        left_out: where estimators are noted whose probabilities the rows leave unknown, with the
            reason; None: that is an error.
    """
    try:
        return list(zip(tasks, reduce_slates(log, tasks), strict=True))
    except UnknownMarginalsError as cause:
        rest = [task for task in tasks if "marginal" not in task.estimator.needs]
        if left_out is None or not rest:
            raise
        for task in tasks:
            if "marginal" in task.estimator.needs:
                left_out[task.estimator.name] = str(cause)
    return list(zip(rest, reduce_slates(log, rest), strict=True))


def _notes_on(found: Sequence[SlateEvaluation], shared_by: int, each: float) -> tuple[Note, ...]:
    """Return the notes on all evaluations together.

    Args:
        found: the evaluations.
        shared_by: how many intervals share delta.
        each: delta of one interval.
    """
    parts = []
    if len({one.estimator for one in found}) > 1:
        parts.append(
            "estimators differ in what they assume: choose by the assumption, not by the answer"
        )
    # what each of several intervals pays for the others concerns nobody if there is none
    if shared_by > 1 and any(one.no_interval is None for one in found):
        parts.append(f"delta is shared by {shared_by} intervals, {each:.4g} each")
    if not parts:
        return ()
    return (Note("; ".join(parts), kind="assumptions"),)


def _usable(
    log: SlateLog, policy: SlatePolicy, estimators: Sequence[str] | None
) -> tuple[list[SlateEstimator], dict[str, str]]:
    """Return the estimators to use, and why others cannot be used.

    Raises:
        UsageError: if a named one cannot be used, or none can.
    """
    if estimators is not None:
        asked = [slate_estimator(name) for name in dict.fromkeys(estimators)]
        for one in asked:
            one.check(log, policy)
        if not asked:
            raise UsageError(
                f"{argument('estimators')} is empty, expected some of {', '.join(ESTIMATORS)}"
            )
        return asked, {}
    usable, why = [], {}
    for name, one in ESTIMATORS.items():
        try:
            one.check(log, policy)
        except UsageError as cause:
            why[name] = str(cause)
        else:
            usable.append(one)
    if not usable:
        raise UsageError(f"no estimator can be used: {next(iter(why.values()))}")
    return usable, why
