"""Monitor: intervals for one policy as the log grows, valid at all looks together."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from piwo import bounds
from piwo.bounds import deadline
from piwo.checks import a_kind, check_kind, check_path, shown
from piwo.display import Display, Ruler
from piwo.engines.fingerprint import fingerprint
from piwo.errors import UsageError, warn
from piwo.evaluation.contradiction import RawBounds, contradiction, weight_p
from piwo.evaluation.low_weights import low_weight_notes
from piwo.evaluation.monitor_file import read_monitor, write_monitor
from piwo.evaluation.notes import as_notes, learning_note, loss_notes, outside_notes, refusal
from piwo.evaluation.record import ends_text
from piwo.evaluation.result import improvement_in_units
from piwo.intervals.deadline import IN_TIME, beyond_horizon, plain_bets, planned_rows
from piwo.intervals.matching import matched, may_lack_actions, name_of
from piwo.intervals.partition import first_number, planned_blocks, planned_counts
from piwo.intervals.point import importance_weighted
from piwo.intervals.provenance import overlaps
from piwo.logs.log import Log
from piwo.logs.propensity_error import ErrorBoundRows
from piwo.logs.provable import assumed_of_logger
from piwo.logs.split import HeldOut
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.policies.sameness import content_digest, same_policy
from piwo.records import Record
from piwo.reductions import PolicyState, PolicySums
from piwo.reductions.blocks import Partition
from piwo.reductions.reduce import reduce
from piwo.scores import IW
from piwo.sources.table import TableSource
from piwo.visible import confidence, number, visible_lines

__all__ = ["Look", "Monitor"]

_FEW_ROWS = 100
"""Tables of so few rows may be alike by chance."""
_MOST_DIGESTS = 1000
"""Digests that a monitor keeps of what was added."""


@dataclass(frozen=True)
class Look(Record):
    """What a monitor says at one look. Numbers are in the reward's own unit.

    With probability 1 - delta no interval of any look misses the value; the same for
    `improvement_lower`, by itself. With deadline bets this assumes that contexts and rewards do not
    drift, as a note says. If the rows contradict their own propensities there are no bounds (None).

    >>> Look("new", 0.5, 0.4, 0.6, 0.1, 0.01, 1.0, 0.4, 1000, 0.05, "universal").upper
    0.6
    """

    name: str
    value: float | None
    """Importance-weighted point estimate."""
    lower: float | None
    upper: float | None
    """None for rewards without an upper end."""
    improvement_lower: float | None
    """Lower bound on value minus the logging policy's; above 0: certified better. None without an
    upper end."""
    better_p: float | None
    """p-value of "no better than the logging policy", valid however often one looked."""
    propensity_p: float
    """p-value of "the propensities are not too small", valid however often one looked."""
    logging_value: float | None
    rows: int
    delta: float
    horizon: int | str
    notes: tuple[Note, ...] = ()
    """What the interval assumes; what is known of the propensities less surely than that they are
    right; why bounds are not given, if they are not."""
    interval: str = "mixture"
    """The bets that the bounds are made of, "mixture" or "deadline"."""
    cost: bool = False
    """Rewards, and so values, are negative costs."""

    @property
    def gain(self) -> float | None:
        """The estimated gain over the logging policy; None: not defined."""
        if self.value is None or self.logging_value is None:
            return None
        return self.value - self.logging_value

    def scaled(self, per: float) -> Look:
        """Return the look with its values and gains in so many decisions.

        >>> Look("new", 0.5, 0.4, 0.6, 0.1, 0.01, 1.0, 0.4, 1000, 0.05, "universal").scaled(
        ...     100
        ... ).value
        50.0
        """
        made: dict[str, Any] = {}
        for name in ("value", "lower", "upper", "improvement_lower", "logging_value"):
            number = getattr(self, name)
            made[name] = None if number is None else per * number
        return replace(self, **made)

    def display(self) -> Display:
        """Return the look as it is shown in a notebook."""
        ruler = Ruler.of([(self.lower, self.upper)])
        numbers = (ruler.value(self.value), ruler.lower(self.lower), ruler.upper(self.upper))
        rows = ((self.name, *numbers, ruler.lower(self.improvement_lower)),)
        level = f"{confidence(self.delta)} bounds that hold at all looks together"
        title = f"{self.rows:,} rows, horizon {self.horizon}; {level} ({self.interval})"
        header = ("policy", "value", "at least", "at most", "gain at least")
        return Display(title, header, rows, tuple(map(str, self.notes)))

    def __str__(self) -> str:
        value = "not defined"
        if self.value is not None:
            value = number(self.value)
        ends = "no interval"
        if self.lower is not None:
            ends = f"{confidence(self.delta, '%')} interval {ends_text(self.lower, self.upper)}"
        if self.improvement_lower is not None:
            ends += f", improvement at least {number(self.improvement_lower)}"
        if self.lower is not None:
            ends += ", at all looks together"
        bets = f"({self.interval}, horizon {self.horizon})"
        line = f"{self.name}: {value} from {self.rows:,} rows, {ends} {bets}"
        return visible_lines([line, *(f"  note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class Monitor:
    """The sums of one policy over all rows so far, with intervals that hold at all looks together.

    Answers: what is the policy worth by now, asked every hour? The horizon is fixed when the
    monitor is made and cannot be changed: choosing the bets anew at each look lets errors add up.
    Prefer `piwo.evaluate` for one look at one log.

    A monitor never changes; `update` returns the next one. Monitors of different rows merge, in any
    order. What is saved is some two hundred numbers, whatever the number of rows.

    With `interval="deadline"` bets are on consecutive decisions, planned for the horizon: bounds
    are narrower near the horizon, wider long before it, and hardly change after it. All of them
    hold together, if logs are added in the order of the decisions, and contexts and rewards do not
    drift. The mixture assumes neither, so it is the default. Such monitors do not merge; what is
    saved is some 5,000 numbers.

    Args:
        policy: fixed before the first row, with its action list.
        delta: joint error probability of all looks.
        horizon: about how many rows will come; the bounds hold beyond it, too. "universal": no
            idea.
        name: what to call the policy; monitors merge if it is the same.
        interval: "mixture", or "deadline" if the horizon is a number of rows.
        reward_range: set by the first log.
        cost: set by the first log.
        logger: set by the first log, for `interval="deadline"`: what it declares of its logger. If
            that learns, the improvement is by the mixture.
        state: the sums so far.
        propensity_errors: how many of the rows came with which error bound of their propensities,
            see `ErrorBoundRows`.
        fed: digests of what was added, to recognize what is added again; at most 1,000.

    Raises:
        UsageError: for a horizon that is not declared, one that is not a number of rows if
            `interval="deadline"`, and arguments out of range.

    Source: docs/adaptive.md; docs/theory.md, section "The mixture bound".

    >>> import piwo
    >>> monitor = Monitor(piwo.policies.Constant("a", ["a", "b"]), delta=0.05, horizon=10_000)
    >>> for hour in range(3):
    ...     log = piwo.Log.from_arrays(
    ...         action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ...     )
    ...     monitor = monitor.update(log)
    >>> look = monitor.look()
    >>> look.rows, look.value, look.lower > 0.7, look.improvement_lower > 0
    (300, 1.0, True, True)
    """

    policy: Policy
    delta: float = 0.05
    horizon: int | Literal["universal"] = "universal"
    name: str = ""
    interval: Literal["mixture", "deadline"] = "mixture"
    reward_range: tuple[float, float] | None = None
    cost: bool = False
    logger: str | None = None
    state: PolicyState = PolicyState()  # noqa: RUF009 (frozen)
    propensity_errors: ErrorBoundRows = ErrorBoundRows()  # noqa: RUF009 (frozen)
    fed: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not isinstance(self.policy, Policy):
            raise UsageError(
                f"got {a_kind(self.policy)}, expected a policy that was fixed before the rows"
            )
        bounds.log_inv_delta(self.delta)
        counted = (
            isinstance(self.horizon, int)
            and not isinstance(self.horizon, bool)
            and 1 <= self.horizon <= 2**63
        )
        if self.horizon != "universal" and not counted:
            raise UsageError(
                f"{argument('horizon')} is {self.horizon!r}, expected a number of rows from 1 to "
                "2^63 or 'universal': a monitor is looked at again and again, and its bets "
                "must be fixed before the first look"
            )
        if self.interval not in ("mixture", "deadline"):
            raise UsageError(
                f"{argument('interval')} is {shown(self.interval)}, expected 'mixture' or "
                "'deadline': a monitor has no other bets"
            )
        if self.interval == "deadline" and not counted:
            raise UsageError(
                f"{argument('horizon')} is {self.horizon!r}, expected a number of rows: bets of "
                f"{argument('interval', 'deadline')} are planned for it; give one, or use "
                f"{argument('interval', 'mixture')}"
            )
        if not self.name:
            object.__setattr__(self, "name", name_of(self.policy))

    def update(self, log: Log) -> Self:
        """Return the monitor with the rows of a log added. Each row may be added once.

        Files that were added before, unchanged since, are refused; large tables that equal one that
        was added before give a warning, as others could be alike. Nothing else shows it.

        With `interval="deadline"` the rows of the log follow those that were added before, in the
        order of the log.

        Args:
            log: rows that came since.

        Raises:
            UsageError: for thinned logs, another reward range, a policy that plays whatever labels
                were seen, one that was learned from these rows, and files that were added before;
                if `interval="deadline"`, also for rows whose order is not that of the log (a
                cluster, a column of times, a part of a split other than by `tail=True`), and for
                another `logger=` than that of the first log.
            DataError: for rows that break a rule.
        """
        check_kind("log", log, Log, "; piwo.read makes one")
        log.require_provable("no bound holds")
        log.require_unique_keys()
        fed = _digests(log)
        _check_new(self.fed, fed, f"the rows of {log.name}")
        log.columns.require_single_rows(
            "a monitor", "evaluate the whole log by unit each time, with a horizon in units"
        )
        for caveat in (*log.propensity_caveats, *log.caveats):
            warn(caveat)
        self._check_scale(log.reward_range, log.columns.cost)
        ready, made = matched(log, {self.name: self.policy})
        policy = made[self.name]
        if policy.depends_on_observed_actions and may_lack_actions(log):
            raise UsageError(
                f"policy {self.name!r} plays whatever labels the log holds, expected one that "
                "is fixed before the first row; give its action list: "
                f"{argument('actions', '[...]')}"
            )
        overlap = overlaps(log, {self.name: self.policy})[self.name]
        if overlap.certain:
            raise UsageError(
                f"policy {self.name!r} was learned from part of this log ({overlap.how}), so that "
                "no bound holds on it; monitor it on rows that came later"
            )
        if overlap.note is not None:
            warn(overlap.note)
        partition = None
        if self.interval == "deadline":
            partition = self._next_blocks(log)
        bounded = math.isfinite(log.reward_range[1])
        added = reduce(ready, PolicySums(policy, IW(), bounded, log.origin, partition))
        errors = ErrorBoundRows.of(log.propensity_error, added.moments.rows)
        state, logger = self._merged(added), self.logger
        if self.interval == "deadline":
            assert isinstance(self.horizon, int)
            logger = log.logger
            # Each row is in its place of the plan: bets on a block know of earlier rows alone.
            placed = planned_counts(self.horizon, state.moments.rows)
            assert np.array_equal(state.blocks.rows, placed)
        return replace(
            self,
            reward_range=log.reward_range,
            cost=log.columns.cost,
            logger=logger,
            state=state,
            propensity_errors=self.propensity_errors.merge(errors),
            fed=_kept(self.fed + fed),
        )

    def merge(self, other: Monitor) -> Self:
        """Return the monitor of both parts' rows, which must be different rows.

        Look at the merged monitor alone, and merge all parts: each part that is looked at by itself
            spends a delta.

        Raises:
            UsageError: for monitors of another policy, delta, horizon, interval or reward range,
                for the monitor itself, for one that has rows of the same files, and for two with
                rows if `interval="deadline"`: their places in the plan are not known.
        """
        check_kind("other", other, Monitor)
        for what in ("name", "delta", "horizon", "interval"):
            mine, theirs = getattr(self, what), getattr(other, what)
            if mine != theirs:
                raise UsageError(
                    f"monitors with {what} {mine!r} and {theirs!r} cannot be merged; "
                    "make both alike"
                )
        if not _same(self.policy, other.policy):
            raise UsageError(
                "these monitors are of different policies and cannot be merged; merge "
                "those of one policy"
            )
        if other.reward_range is None:
            return self
        if other is self:
            raise UsageError(
                "got the monitor itself, expected one of other rows: each row would count twice"
            )
        if self.interval == "deadline" and self.reward_range is not None:
            raise UsageError(
                f"monitors with {argument('interval', 'deadline')} cannot be merged, as the places "
                "of their rows in the order of the decisions are not known; update one monitor "
                f"with all logs, or use {argument('interval', 'mixture')}"
            )
        _check_new(self.fed, other.fed, "rows of the other monitor")
        self._check_scale(other.reward_range, other.cost)
        return replace(
            self,
            reward_range=other.reward_range,
            cost=other.cost,
            logger=other.logger,
            state=self._merged(other.state),
            propensity_errors=self.propensity_errors.merge(other.propensity_errors),
            fed=_kept(self.fed + other.fed),
        )

    def look(self) -> Look:
        """Return what is known by now. Look as often as you like, and stop when you like.

        That holds before the horizon and after it.

        Raises:
            UsageError: before the first row.
        """
        if self.reward_range is None:
            raise UsageError("the monitor has seen no rows; update it with a log first")
        moments, n = self.state.moments, self.state.moments.rows
        low, high = self.reward_range
        bounded = math.isfinite(high)
        span, most = 1.0, math.inf
        if bounded:
            span, most = high - low, 1.0
        if self.interval == "deadline":
            raw = self._deadline_interval(bounded)
            gain, log_e_better = self._deadline_gain(bounded)
        else:
            raw = self._mixture_interval(bounded)
            gain, log_e_better = self._mixture_gain(bounded)
        too_small = weight_p(self.state, 0.0, planned_rows(self.horizon))
        why_not = contradiction(
            {self.name: too_small}, {self.name: RawBounds(raw, gain)}, self.reward_range
        )
        notes = as_notes(self.propensity_errors.notes(n), "propensity-error")
        if why_not is not None:
            notes = (*notes, refusal(why_not))
        elif self.interval == "deadline":
            notes = (*self._assumptions(gain), *notes)

        def scaled(unit: float | None) -> float | None:
            if unit is None or not math.isfinite(unit):
                return None
            return low + span * unit

        found = Look(
            name=self.name,
            value=scaled(importance_weighted(moments, low / span).value),
            lower=None,
            upper=None,
            improvement_lower=None,
            better_p=None,
            propensity_p=too_small,
            logging_value=scaled(moments.reward / n),
            rows=n,
            delta=self.delta,
            horizon=self.horizon,
            notes=notes,
            interval=self.interval,
            cost=self.cost,
        )
        if why_not is not None:
            return found
        shown = raw.reported(0.0, most)
        found = replace(found, lower=scaled(shown.lower), upper=scaled(shown.upper))
        outside = outside_notes(found.value, found.lower, found.upper)
        ends = (found.value, found.lower, found.upper)
        loss = loss_notes(ends, found.logging_value, self.reward_range, (gain, None))
        low_weights = low_weight_notes(moments, exact=not self.propensity_errors.each)
        found = replace(found, notes=(*low_weights, *found.notes, *outside, *loss))
        if gain is None:
            return found
        # an e-value gives the p-value: its inverse, at most 1
        return replace(
            found,
            improvement_lower=improvement_in_units(gain, span),
            better_p=math.exp(min(0.0, -log_e_better)),
        )

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the sums as JSON, complete or not at all; save the policy with `policy.save`.

        Args:
            path: where to.
        """
        check_path(path)
        write_monitor(Path(path), *self.parts())

    def parts(self) -> tuple[str, str | None, dict[str, Any]]:
        """Return what files hold: the kind and the digest of the policy, and the other fields.

        >>> import piwo
        >>> Monitor(piwo.policies.Uniform(["a", "b"])).parts()[0]
        'uniform'
        """
        facts = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "policy"}
        return self.policy.kind, content_digest(self.policy), facts

    @classmethod
    def load(cls, path: str | os.PathLike[str], policy: Policy) -> Self:
        """Return the monitor in a file, of the policy that it was made for.

        Args:
            path: what `save` wrote. Reading it executes no code.
            policy: the same policy: the file knows what it held, and a fitted model is that of one
                version of scikit-learn.

        Raises:
            FileError: for a file that is missing, damaged or newer.
            UsageError: for another policy.

        Warns:
            PiwoWarning: for a policy that no file could hold, which is compared by its kind alone.
        """
        check_path(path)
        if not isinstance(policy, Policy):
            raise UsageError(
                f"got {a_kind(policy)}, expected the policy that the monitor was made for"
            )
        return cls.of_parts(path, policy, read_monitor(Path(path)))

    @classmethod
    def of_parts(
        cls,
        path: str | os.PathLike[str],
        policy: Policy,
        parts: tuple[str, str | None, dict[str, Any]],
    ) -> Self:
        """Return the monitor of what `parts` returned, if it is of this policy.

        Args:
            path: the file that it is from, for messages.
            policy: the policy.
            parts: the kind and the digest of the policy that it was made for, and the fields.

        Raises:
            UsageError: for another policy.
        """
        kind, digest, facts = parts
        given = content_digest(policy)
        if digest != given or (given is None and kind != policy.kind):
            raise UsageError(
                f"the monitor {str(path)!r} is of another policy ({kind}) than the one "
                f"given ({policy.kind}); give the one that it was made for"
            )
        if given is None:
            warn(
                f"whether the monitor {str(path)!r} is of this {policy.kind} policy "
                "cannot be seen; be sure that it is"
            )
        return cls(policy, **facts)

    def _mixture_interval(self, bounded: bool) -> bounds.Interval:
        """Return the interval of the value by the mixture."""
        bets, n, losses = self.state.bets, self.state.moments.rows, None
        if bounded:
            losses = bets.loss
        each = bounds.log_inv_delta(self.delta)
        return bounds.value_interval(bets.value, losses, n, each, horizon=self.horizon)

    def _mixture_gain(self, bounded: bool) -> tuple[float | None, float]:
        """Return the bound on the improvement and its log e-value by the mixture."""
        if not bounded:
            return None, 0.0
        gains, n = self.state.bets.improvement, self.state.moments.rows
        each = bounds.log_inv_delta(self.delta)
        gain = bounds.improvement_lower(gains, n, each, horizon=self.horizon)
        return gain, bounds.log_e_value(gains, n, 1.0)

    def _deadline_interval(self, bounded: bool) -> bounds.Interval:
        """Return the interval of `piwo.intervals.deadline.DeadlineInterval`, from the same sums."""
        each = bounds.log_inv_delta(self.delta)
        if not bounded:
            return bounds.Interval(self._deadline_lower("value", each), None)
        # delta / 2 for each side
        half = each + math.log(2.0)
        upper = 1.0 - self._deadline_lower("loss", half)
        return bounds.Interval(self._deadline_lower("value", half), upper)

    def _deadline_gain(self, bounded: bool) -> tuple[float | None, float]:
        """Return the bound on the improvement and its log e-value by deadline bets.

        They are not fair against an average over the policies of a logger that learned, so that the
        mixture bounds the improvement over one.
        """
        if not bounded or self.logger == "learning":
            return self._mixture_gain(bounded)
        each, planned = bounds.log_inv_delta(self.delta), planned_rows(self.horizon)
        blocks, mixture = plain_bets(self.state, "improvement", each, self.horizon)
        # the e-value against E[w R + 1 - R] <= 1
        log_e = deadline.deadline_log_e_value(blocks, mixture, 1.0, [each], planned=planned)
        return self._deadline_lower("improvement", each) - 1.0, log_e

    def _deadline_lower(
        self, what: Literal["value", "loss", "improvement"], log_inv_delta: float
    ) -> float:
        """Return the lower bound on one mean by deadline bets."""
        blocks, mixture = plain_bets(self.state, what, log_inv_delta, self.horizon)
        planned = planned_rows(self.horizon)
        return deadline.deadline_lower(blocks, mixture, log_inv_delta, planned=planned)

    def _assumptions(self, gain: float | None) -> tuple[Note, ...]:
        """Return what bounds by deadline bets assume, in the words of `piwo.evaluate`."""
        notes: tuple[Note, ...] = (IN_TIME,)
        if self.logger != "learning":
            notes = (*assumed_of_logger(self.logger), *notes)
        elif gain is not None:
            notes = (learning_note(), *notes)
        return (*notes, *beyond_horizon(self.state.moments.rows, self.horizon))

    def _next_blocks(self, log: Log) -> Partition:
        """Return the blocks of the rows of a log, which follow those added before.

        Raises:
            UsageError: if the order of the decisions is not that of the log, and if its logger was
                declared otherwise than before.
        """
        bets, columns, chosen = argument("interval", "deadline"), log.columns, log.selector
        instead = f"use {argument('interval', 'mixture')}"
        if log.in_cluster or not log.source.steady:
            raise UsageError(
                f"{bets} needs rows in the order of the decisions, and those of {log.name} have no "
                f"steady order; read them from files, or {instead}"
            )
        if columns.time is not None:
            raise UsageError(
                f"{bets} of a monitor takes rows in the order in which they are added, got "
                f"{argument('time', columns.time)}; leave it out if that is the order of the "
                f"decisions, or {instead}"
            )
        if chosen is not None and not (isinstance(chosen, HeldOut) and chosen.cut is not None):
            raise UsageError(
                f"{bets} takes all rows in the order of the decisions, and {log.name} is a part of "
                f"a split; split by {argument('tail', value=True)}, give the whole log, or "
                f"{instead}"
            )
        if self.reward_range is not None and log.logger != self.logger:
            raise UsageError(
                f"{argument('logger')} was {self.logger!r}, got {log.logger!r}; declare the same "
                "for every log"
            )
        assert isinstance(self.horizon, int)
        return planned_blocks(self.horizon, self.state.moments.rows - first_number(log))

    def _merged(self, added: PolicyState) -> PolicyState:
        """Return the sums with others added; sums of no rows have no blocks yet."""
        if self.reward_range is None:
            return added
        return self.state.merge(added)

    def _check_scale(self, reward_range: tuple[float, float], cost: bool) -> None:
        if self.reward_range is not None and (self.reward_range, self.cost) != (reward_range, cost):
            raise UsageError(
                f"the reward range was {self.reward_range}, got {reward_range}; "
                "declare the same for every log"
            )


def _same(one: Policy, other: Policy) -> bool:
    """Whether two policies are the same, including models that were read twice from one file."""
    if same_policy(one, other):
        return True
    digest = None
    if one.kind == other.kind:
        digest = content_digest(one)
    return digest is not None and digest == content_digest(other)


def _digests(log: Log) -> tuple[str, ...]:
    """Return a digest of a log by which it is recognized when it is added again; none, or one.

    It begins with "file" if it depends on the names, sizes and times of files, which no other rows
    have, and with "rows" if it depends on the rows of a table alone.
    """
    source = log.source
    if getattr(source, "files", ()) or getattr(source, "paths", ()):
        kind = "file"
    elif isinstance(source, TableSource) and source.rows > _FEW_ROWS:
        kind = "rows"
    else:
        # Other queries and clusters may hold other rows by now; few rows are often alike.
        return ()
    return (f"{kind} {fingerprint((source.source_id(), log.selector))}",)


def _kept(digests: tuple[str, ...]) -> tuple[str, ...]:
    """Return the smallest digests, so that monitors merge in any order."""
    return tuple(sorted(set(digests))[:_MOST_DIGESTS])


def _check_new(known: tuple[str, ...], added: tuple[str, ...], what: str) -> None:
    """Raise, or warn, if something is added that was added before."""
    again = set(known).intersection(added)
    if any(digest.startswith("file") for digest in again):
        raise UsageError(
            f"{what} were added to this monitor before, expected rows that came since: each row "
            "counts once"
        )
    if again:
        warn(
            f"{what} equal rows that were added to this monitor before; if they are the same, they "
            "count twice and intervals are too narrow"
        )
