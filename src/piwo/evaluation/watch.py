"""Watch: policies monitored on a log that grows, with the history of all looks, in one file."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, date
from datetime import datetime as clock
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np

from piwo import bounds
from piwo.checks import check_flag, check_kind, check_path, is_number, shown
from piwo.errors import UsageError
from piwo.evaluation.gains import Units
from piwo.evaluation.monitor import Look, Monitor
from piwo.evaluation.watch_file import read_watch, write_watch
from piwo.evaluation.watch_history import Answer, WatchHistory, WatchLook, looks_of
from piwo.logs.log import Log
from piwo.logs.row_hashes import digest_of, row_hashes
from piwo.logs.split import HeldOut
from piwo.logs.unit_columns import repeated_persons
from piwo.messages import Note, argument
from piwo.policies import Policy
from piwo.records import jsonable
from piwo.reductions.digest import Digest
from piwo.reductions.reduce import reduce
from piwo.sources.spool import spooled
from piwo.sources.table import has_name
from piwo.visible import without_secrets

__all__ = ["Watch"]

_DAYS = re.compile(r"([1-9][0-9]{0,4})d")
_MOST_LOOKS = 100_000


@dataclass(frozen=True)
class Watch:
    """Policies monitored on a log that grows: one monitor each, and the history of all looks.

    Answers: is a policy certified better by now, look after look, or is it time to stop? It has the
    statistics of `piwo.Monitor`. The improvement bounds of all policies at all looks hold together
    with probability 1 - delta, and so, as a separate statement, do the intervals of their values:
    each of k policies has delta / k.

    `start` makes one. A watch never changes; `update` returns the next one, with one look more.
    `piwo monitor` is the same on the command line.

    >>> import piwo
    >>> a = piwo.policies.Constant("a", ["a", "b"])
    >>> watch = Watch.start({"a": a}, deadline="30d")
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 150, reward=[1, 0] * 150, propensity=[0.5] * 300
    ... )
    >>> watch = watch.update(log, date="2026-11-01")
    >>> watch.answer, watch.looks[-1].rows
    ('certified', 300)
    """

    monitors: tuple[Monitor, ...]
    delta: float
    deadline: int | str | None
    at_least: float | None = None
    columns: Mapping[str, Any] | None = None
    """Role -> column of the first log; None before it."""
    actions: tuple[int | str, ...] = ()
    """The labels of the first log."""
    looks: tuple[WatchLook, ...] = ()

    @classmethod
    def start(
        cls,
        policies: Mapping[str, Policy],
        *,
        delta: float = 0.05,
        deadline: int | str | None = None,
        horizon: int | Literal["universal"] | None = None,
        at_least: float | None = None,
        interval: Literal["mixture", "deadline"] = "mixture",
    ) -> Self:
        """Return a watch before its first look.

        Args:
            policies: name -> policy, fixed before the first row, with their action lists.
            delta: joint error probability of all policies and all looks.
            deadline: when to stop: "30d" (days after the first look), or a number of rows. None:
                never.
            horizon: about how many rows will come, as of `Monitor`; None: the deadline if that is a
                number of rows, else "universal".
            at_least: the least value that must be certified, too.
            interval: "mixture", or "deadline": bets planned for the horizon, which assume that
                contexts and rewards do not drift.

        Raises:
            UsageError: for no policy, and for a deadline or another argument out of range.

        >>> import piwo
        >>> a = piwo.policies.Constant("a", ["a", "b"])
        >>> Watch.start({"a": a}, deadline=1000).answer is None
        True
        """
        check_kind("policies", policies, Mapping)
        if not policies:
            raise UsageError(f"{argument('policies')} is empty; give at least one policy")
        deadline = _checked_deadline(deadline)
        if horizon is None:
            horizon = deadline if isinstance(deadline, int) else "universal"
        if at_least is not None and not is_number(at_least):
            raise UsageError(f"{argument('at_least')} is {shown(at_least)}, expected a number")
        bounds.log_inv_delta(delta)
        # a union bound over the policies: no statement of any look of any of them fails
        share = delta / len(policies)
        monitors = []
        for name, policy in policies.items():
            monitors.append(Monitor(policy, share, horizon, str(name), interval))
        return cls(tuple(monitors), delta, deadline, at_least)

    def update(
        self,
        log: Log,
        *,
        date: str | date | None = None,
        all_new: bool = False,
        independent_rows: bool = False,
    ) -> Self:
        """Return the watch with the new rows of a log added, and a look at all rows so far.

        Which rows are new is found from their contents. If the log begins with the rows of the last
        looks, in their order, it has grown, and the rows after them are new. Otherwise all are new.

        Args:
            log: a log that has grown, or the rows that came since.
            date: of this look, a date or "2026-11-29"; None: today in UTC. Not before the last.
            all_new: whether a log of the same name as an earlier one may hold other rows: a file
                that is overwritten with new rows each day.
            independent_rows: whether rows are independent although a column that is named like the
                id of a user has values that repeat.

        Raises:
            UsageError: for such a column, as a watch has no units; if no row is new, if it holds
                the rows of an earlier look elsewhere, if it has other columns than the first log,
                for an earlier file that was changed, and for what `Monitor.update` refuses.
            DataError: for rows that break a rule, and labels that are not in the action list.
        """
        check_kind("log", log, Log, "; piwo.read makes one")
        check_flag("all_new", all_new)
        check_flag("independent_rows", independent_rows)
        day = self._day_of(date)
        if log.selector is not None:
            raise UsageError(
                f"a watch finds new rows by itself, and got {log.name}; give the whole log"
            )
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "rewards have no upper end, so that no improvement can be certified; declare "
                f"{argument('reward_range')}"
            )
        columns = _roles(log)
        self._require_columns(columns)
        if self.actions and not log.actions.seen and log.actions.labels != self.actions:
            raise UsageError(
                f"{argument('actions')} are other labels than those of the first look; declare "
                "the same for every log"
            )
        if not independent_rows:
            _require_independent(log)
        new, added, digest = self._new_rows(log, all_new)
        monitors = tuple(one.update(new) for one in self.monitors)
        found = tuple(one.look() for one in monitors)
        made = replace(
            self,
            monitors=monitors,
            columns=columns,
            actions=self.actions or tuple(log.actions.labels),
        )
        rows = added
        if self.looks:
            rows += self.looks[-1].rows
        name = without_secrets(log.source.name)
        proved: tuple[str, ...] = ()
        if all(one.lower is not None for one in found):
            proved = tuple(one.name for one in found if self._certifies(one))
        look = WatchLook(day.isoformat(), name, added, rows, digest, "", found, proved)
        made = replace(made, looks=_kept((*self.looks, look)))
        answered = replace(look, answer=_answer_of(made.history))
        return replace(made, looks=(*made.looks[:-1], answered))

    @property
    def answer(self) -> Answer | None:
        """The answer of the last look; None before the first.

        "certified": the improvement over the logging policy of at least one policy is certified to
        be above 0 by all rows so far (and its value to be `at_least`). "stop": it is not, and the
        deadline has passed, or the rows contradict their own propensities. Else "not yet".
        """
        if not self.looks:
            return None
        found = self.looks[-1].answer
        assert found in ("certified", "not yet", "stop")
        return found  # type: ignore[return-value]

    @property
    def certified(self) -> tuple[str, ...]:
        """The policies that the last look certifies, by all rows so far."""
        if not self.looks:
            return ()
        return self.history.certified

    @property
    def over(self) -> bool:
        """Whether the deadline has passed at the last look."""
        return bool(self.looks) and self.history.over

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a reader of the last look must know."""
        if not self.looks:
            return ()
        return self.history.notes

    @property
    def history(self) -> WatchHistory:
        """The looks and the terms, without policies and sums: what is printed of the watch."""
        return WatchHistory(
            self.looks, self.delta, self.deadline, self.at_least, self.monitors[0].reward_range
        )

    def headline(self, units: Units | None = None) -> str:
        """Return the answer in one sentence.

        Args:
            units: how gains are written. They change only the wording: each call may have others.

        Raises:
            UsageError: before the first look.
        """
        return self.history.headline(units)

    def differences(self, other: Watch) -> list[str]:
        """Return how the settings of another watch differ from those of this one, in words.

        >>> import piwo
        >>> a = piwo.policies.Constant("a", ["a", "b"])
        >>> len(Watch.start({"a": a}).differences(Watch.start({"a": a}, delta=0.1)))
        1
        """
        found = []
        mine, theirs = self._settings(), other._settings()
        for name, was in mine.items():
            if theirs[name] != was:
                found.append(f"{argument(name)} was {_typed(was)}, got {_typed(theirs[name])}")
        return found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write sums, settings and history as JSON, complete or not at all; not the policies.

        Args:
            path: where to.
        """
        check_path(path)
        write_watch(
            Path(path),
            [one.parts() for one in self.monitors],
            {
                "delta": self.delta,
                "deadline": self.deadline,
                "at_least": self.at_least,
                "columns": jsonable(self.columns),
                "actions": list(self.actions),
                "looks": [one.to_dict() for one in self.looks],
            },
        )

    @classmethod
    def load(cls, path: str | os.PathLike[str], policies: Mapping[str, Policy]) -> Self:
        """Return the watch in a file, of the policies that it was started with.

        Args:
            path: what `save` wrote. Reading it executes no code.
            policies: name -> the same policy.

        Raises:
            FileError: for a file that is missing, damaged or newer.
            UsageError: for other policies.
        """
        check_path(path)
        parts, facts = read_watch(Path(path))
        names = [one[2]["name"] for one in parts]
        if sorted(names) != sorted(map(str, policies)):
            raise UsageError(
                f"{without_secrets(path)!r} is of the policies {', '.join(names)}, got "
                f"{', '.join(map(str, policies))}; give those that it was started with"
            )
        by_name = {str(name): policy for name, policy in policies.items()}
        monitors = tuple(Monitor.of_parts(path, by_name[one[2]["name"]], one) for one in parts)
        return cls(monitors=monitors, **{**facts, "looks": looks_of(facts["looks"])})

    @staticmethod
    def labels(path: str | os.PathLike[str]) -> tuple[int | str, ...]:
        """Return the action list of the first log of a saved watch, to read later logs with.

        Args:
            path: what `save` wrote.

        Raises:
            FileError: for a file that is missing, damaged or newer.
        """
        check_path(path)
        return tuple(read_watch(Path(path))[1]["actions"])

    def _settings(self) -> dict[str, Any]:
        first = self.monitors[0]
        return {
            "policy": [one.name for one in self.monitors],
            "delta": self.delta,
            "deadline": self.deadline,
            "horizon": first.horizon,
            "interval": first.interval,
            "at_least": self.at_least,
        }

    def _certifies(self, look: Look) -> bool:
        """Whether a look certifies its policy."""
        if look.improvement_lower is None or not look.improvement_lower > 0.0:
            return False
        return self.at_least is None or (look.lower is not None and look.lower >= self.at_least)

    def _day_of(self, given: str | date | None) -> date:
        """Return the day of a look, which is not before the last.

        Raises:
            UsageError: for what is not a date, and for an earlier one.
        """
        day = clock.now(UTC).date()
        if isinstance(given, date):
            day = given
        elif given is not None:
            try:
                day = date.fromisoformat(str(given))
            except ValueError:
                raise UsageError(
                    f"{argument('date')} is {shown(given)}, expected a day such as '2026-11-29'"
                ) from None
        if self.looks and day < date.fromisoformat(self.looks[-1].date):
            raise UsageError(
                f"{argument('date')} is {day.isoformat()}, and the last look was on "
                f"{self.looks[-1].date}; give looks in their order"
            )
        return day

    def _require_columns(self, columns: Mapping[str, Any]) -> None:
        """Raise for a log with other columns than the first.

        Raises:
            UsageError: naming the first difference.
        """
        if self.columns is None:
            return
        for role, was in self.columns.items():
            if columns.get(role) != was:
                raise UsageError(
                    f"{argument(role)} was {_typed(was)}, got {_typed(columns.get(role))}: this is "
                    "another log than that of the first look; declare the same for every log, or "
                    "start another state"
                )

    def _new_rows(self, log: Log, all_new: bool) -> tuple[Log, int, str]:
        """Return the part of a log with its new rows, their number and their digest.

        Raises:
            UsageError: if there are none, or if rows come again in another place.
        """
        if log.in_cluster:
            return self._new_of_cluster(log)
        # Row numbers choose the new rows, so every pass must have the same.
        log.require_unique_keys()
        time = log.columns.time
        if not log.source.steady:
            every = tuple(log.source.schema.names)
            log = replace(log, source=spooled(log.source, every))
        if self.monitors[0].interval != "deadline":
            time = None
        log = replace(log, columns=replace(log.columns, key=None, time=time))
        hashes = row_hashes(log.source)
        if not len(hashes):
            raise UsageError(f"{log.name} has no rows; nothing was counted")
        known = self._known_at_start(hashes)
        if known == len(hashes):
            raise self._nothing_new(log, known)
        self._require_unseen(log, hashes, known, all_new)
        fresh = log
        if known:
            # Labels and levels stay those of the whole log.
            part = HeldOut(0.0, cut=known)
            fresh = replace(log, declared_actions=log.actions, selector=part)
        rest = hashes[known:]
        return fresh, len(rest), digest_of(rest)

    def _known_at_start(self, hashes: np.ndarray[Any, np.dtype[np.uint64]]) -> int:
        """Return how many rows at the start of a log are those of the last looks, in order."""
        for first in range(len(self.looks)):
            window = self.looks[first:]
            if sum(one.added for one in window) > len(hashes):
                continue
            at = 0
            for one in window:
                if digest_of(hashes[at : at + one.added]) != one.digest:
                    break
                at += one.added
            else:
                return at
        return 0

    def _nothing_new(self, log: Log, rows: int) -> UsageError:
        last = self.looks[-1]
        return UsageError(
            f"{log.name} has no new rows: all its {rows:,} rows were counted up to the look of "
            f"{last.date}, expected rows that came since; nothing was counted"
        )

    def _require_unseen(
        self,
        log: Log,
        hashes: np.ndarray[Any, np.dtype[np.uint64]],
        known: int,
        all_new: bool,
    ) -> None:
        """Raise if rows of an earlier look come again among those that would be counted.

        Raises:
            UsageError: naming the look.
        """
        rest = hashes[known:]
        for one in self.looks:
            if one.added <= len(rest) and digest_of(rest[: one.added]) == one.digest:
                raise UsageError(
                    f"{log.name} holds the {one.added:,} rows that were counted at the look of "
                    f"{one.date}, expected rows that came since: each row counts once; nothing was "
                    "counted"
                )
        name = without_secrets(log.source.name)
        # data frames share one name
        named = has_name(log.source)
        if named and not known and not all_new and any(one.log == name for one in self.looks):
            raise UsageError(
                f"{log.name} was counted before and does not begin with the rows that it had then, "
                "expected the same rows and new ones after them; if all its rows are new, say so: "
                f"{argument('all_new', value=True)}"
            )

    def _new_of_cluster(self, log: Log) -> tuple[Log, int, str]:
        """Return a log of a cluster, whose rows have no order: all of them are new."""
        found = reduce(log, Digest())
        digest = f"any order {found.digest}"
        for one in self.looks:
            if one.digest == digest:
                raise self._nothing_new(log, found.rows)
        return log, found.rows, digest


def _kept(looks: tuple[WatchLook, ...]) -> tuple[WatchLook, ...]:
    """Return the looks to keep: the first, from which a deadline in days counts, and the last."""
    if len(looks) <= _MOST_LOOKS:
        return looks
    return (looks[0], *looks[len(looks) - _MOST_LOOKS + 1 :])


def _checked_deadline(deadline: Any) -> int | str | None:
    """Return a deadline after checking it.

    Raises:
        UsageError: for anything but None, a number of rows or a number of days.
    """
    if deadline is None or (isinstance(deadline, str) and _DAYS.fullmatch(deadline)):
        return deadline
    whole = isinstance(deadline, int) and not isinstance(deadline, bool)
    if not whole or deadline < 1:
        raise UsageError(
            f"{argument('deadline')} is {shown(deadline)}, expected days such as '30d', or a "
            "number of rows of at least 1"
        )
    return int(deadline)


def _require_independent(log: Log) -> None:
    """Raise for rows that are not independent: a watch has no units."""
    one = repeated_persons(log)
    if one is not None:
        raise UsageError(
            f"{one.repeats}: a watch needs independent rows; evaluate the whole log with "
            f"{argument('unit')} and {argument('horizon')}, or say "
            f"{argument('independent_rows', value=True)}"
        )


def _roles(log: Log) -> dict[str, Any]:
    """Return what makes a log the same log: the columns of its roles, its rewards and costs."""
    found: dict[str, Any] = {}
    for role, column in log.columns.by_role().items():
        # Policies name the context that they need.
        if role not in ("context", "segments", "outcomes", "position"):
            found[role] = list(column) if isinstance(column, tuple) else column
    found["reward_range"] = list(log.reward_range)
    found["action_cost"] = None
    if log.action_costs is not None:
        found["action_cost"] = jsonable(log.action_costs.to_dict())
    return found


def _typed(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return "none" if value is None else str(value)


def _answer_of(made: WatchHistory) -> Answer:
    """Return the answer of the last look, from its bounds and the terms."""
    if made.contradicted:
        return "stop"
    if made.certified:
        return "certified"
    if made.over:
        return "stop"
    return "not yet"
