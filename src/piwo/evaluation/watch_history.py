"""The looks of a watch and what was fixed before the first: all that is printed of it."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from pathlib import Path
from typing import Any, Literal, Self

from piwo.checks import check_kind, check_path
from piwo.errors import UsageError
from piwo.evaluation.gains import Units
from piwo.evaluation.monitor import Look
from piwo.evaluation.record import named_notes
from piwo.evaluation.watch_file import read_watch
from piwo.messages import Note
from piwo.records import Record
from piwo.visible import confidence, number

__all__ = ["Answer", "WatchHistory", "WatchLook"]

Answer = Literal["certified", "not yet", "stop"]
_STOP = "Stop, keep today's system"


@dataclass(frozen=True)
class WatchLook(Record):
    """One look of a watch: which rows came, and what was known of each policy.

    >>> WatchLook("2026-11-29", "log.csv", 10, 10, "ab", "not yet").added
    10
    """

    date: str
    """Year-month-day."""
    log: str
    """The name of the log that was added."""
    added: int
    """Rows that came."""
    rows: int
    """All rows so far."""
    digest: str
    """Of the rows that came, in their order."""
    answer: str
    """"certified", "not yet" or "stop"."""
    policies: tuple[Look, ...] = ()
    """What was known of each policy."""
    certified: tuple[str, ...] = ()
    """The policies that this look certified."""


@dataclass(frozen=True)
class WatchHistory:
    """The looks of a watch, and its terms: what was fixed before the first look.

    Answers: what did the last look say, and what does that assume? It needs neither the policies
    nor the rows. `Watch.history` is that of a watch, `load` reads it from a file.

    >>> import piwo
    >>> a = piwo.policies.Constant("a", ["a", "b"])
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> made = piwo.Watch.start({"a": a}, deadline=10).update(log, date="2026-11-29").history
    >>> made.answer, made.rest
    ('not yet', 'the deadline is in 8 rows')
    """

    looks: tuple[WatchLook, ...]
    delta: float
    """Joint error probability of all policies and all looks."""
    deadline: int | str | None = None
    """When to stop: days after the first look such as "30d", or a number of rows; None: never."""
    at_least: float | None = None
    """The least value that must be certified, too."""
    reward_range: tuple[float, float] | None = None
    """Of the rewards; None: not known."""

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Return the history in a file, without the policies.

        Args:
            path: what `Watch.save` wrote. Reading it executes no code.

        Raises:
            FileError: for a file that is missing, damaged or newer.
        """
        check_path(path)
        parts, facts = read_watch(Path(path))
        return cls(
            looks_of(facts["looks"]),
            facts["delta"],
            facts["deadline"],
            facts["at_least"],
            parts[0][2]["reward_range"],
        )

    @property
    def last(self) -> WatchLook:
        """The last look.

        Raises:
            UsageError: before the first.
        """
        if not self.looks:
            raise UsageError("the watch has seen no rows; update it with a log first")
        return self.looks[-1]

    @property
    def answer(self) -> str:
        """The answer of the last look: "certified", "not yet" or "stop"."""
        return self.last.answer

    @property
    def certified(self) -> tuple[str, ...]:
        """The policies that the last look certifies, by all rows so far."""
        return self.last.certified

    @property
    def best(self) -> str | None:
        """The certified policy whose improvement has the highest lower bound; None: there is none.

        All bounds hold together, so that the best may be picked.
        """
        proved = [one for one in self.last.policies if one.name in self.certified]
        if not proved:
            return None
        return max(proved, key=lambda one: one.improvement_lower or 0.0).name

    @property
    def cost(self) -> bool:
        """Whether rewards are negative costs, which all policies of a log share."""
        return any(one.cost for one in self.last.policies)

    @property
    def contradicted(self) -> bool:
        """Whether the rows of the last look contradict their propensities, so that none has bounds.

        All policies share the propensities.
        """
        return any(one.lower is None for one in self.last.policies)

    @property
    def end(self) -> date | None:
        """The day of a deadline in days, counted from the first look; None: there is none."""
        if not isinstance(self.deadline, str):
            return None
        days = int(self.deadline.removesuffix("d"))
        return date.fromisoformat(self.looks[0].date) + timedelta(days=days)

    @property
    def over(self) -> bool:
        """Whether the deadline has passed at the last look."""
        if isinstance(self.deadline, int):
            return self.last.rows >= self.deadline
        return self.end is not None and date.fromisoformat(self.last.date) >= self.end

    @property
    def rest(self) -> str:
        """What is left until the deadline, in words; empty without one."""
        if self.over:
            return "the deadline has passed"
        if isinstance(self.deadline, int):
            return f"the deadline is in {self.deadline - self.last.rows:,} rows"
        if self.end is None:
            return ""
        return f"the deadline is {self.end.isoformat()}"

    @property
    def notes(self) -> tuple[Note, ...]:
        """What a reader of the last look must know."""
        each = [(one.name, one.notes) for one in self.last.policies]
        notes = named_notes(each, [given for _, given in each])
        was = self._was_certified()
        if was is not None and not self.certified:
            notes.append(was)
        return tuple(notes)

    @property
    def assumptions(self) -> str:
        """What the bounds assume, in words; what bets on blocks assume besides is in the notes."""
        span = "in the declared range"
        if self.reward_range is not None:
            low, high = self.reward_range
            span = f"in [{low:g}, {high:g}]"
        text = (
            f"that the logged propensities are right, that rewards are {span}, that the policies "
            "were fixed before the first look, and that rows are decisions of their own, not "
            "several of one user"
        )
        if any(one.interval == "deadline" for one in self.last.policies):
            return text
        return (
            f"{text}; the logger may have learned from earlier rows, and contexts and rewards may "
            "drift: values and improvements are then averages over the rows so far"
        )

    def terms(self, units: Units | None = None) -> tuple[tuple[str, str], ...]:
        """Return what the bounds promise, when the watch ends and what is assumed: name -> words.

        Args:
            units: what rows are called; the numbers stay in the reward's unit a row.
        """
        shown = units or Units()
        first = self.last.policies[0]
        level = f"{confidence(self.delta)}"
        promise = (
            f"all lower bounds on improvements, at all looks together, hold with probability at "
            f"least {level}; so do all intervals of values; both at once, with probability at "
            f"least {confidence(min(1.0, 2.0 * self.delta))}"
        )
        count = len(self.last.policies)
        if count > 1:
            promise += f" (delta {self.delta:g}, {first.delta:g} for each of {count} policies)"
        bets = f"{first.interval}, planned for any number of {shown.decisions}"
        if isinstance(first.horizon, int):
            bets = f"{first.interval}, planned for {first.horizon:,} {shown.decisions}"
        asked = "an improvement above 0"
        if self.at_least is not None:
            asked += f", and a value of at least {number(self.at_least)}, in the reward's unit"
        return (
            ("asked", asked),
            ("deadline", self._deadline_words(shown)),
            ("holds", promise),
            ("bets", bets),
            ("assumes", self.assumptions),
        )

    def headline(self, units: Units | None = None) -> str:
        """Return the answer in one sentence.

        Args:
            units: how gains are written. They change only the wording: each call may have others.

        Raises:
            UsageError: before the first look.
        """
        check_kind("units", units, (Units, type(None)))
        shown, last = units or Units(), self.last
        count = f"{last.rows:,} {shown.decisions}"
        level = f"{confidence(self.delta)}, at all looks together, {count}"
        if self.certified:
            return f"{self._switch(shown)} ({level})."
        if self.contradicted:
            return f"{_STOP}: the rows contradict their own propensities ({count})."
        best = max(last.policies, key=lambda one: one.improvement_lower or -math.inf)
        state = f"no policy is certified better than the logging policy ({level})"
        if len(last.policies) == 1:
            state = f"{best.name} is not certified better than the logging policy ({level})"
        if self.over:
            return f"{_STOP}: the deadline has passed, and {state}."
        rest = f"; {self.rest}" if self.rest else ""
        return f"Not yet, keep today's system: {state}{rest}."

    def _switch(self, units: Units) -> str:
        """Return which policy to switch to, what it gains, and which others are certified, too."""
        best = next(one for one in self.last.policies if one.name == self.best)
        lower = best.improvement_lower or 0.0
        more = units.more(lower, best.gain, "today's system", cost=self.cost)
        text = f"Switch to {best.name}: it {more}"
        others = [name for name in self.certified if name != best.name]
        if others:
            text += f"; certified better, too: {', '.join(others)}"
        return text

    def _deadline_words(self, units: Units) -> str:
        """Return when the watch ends, in words."""
        if isinstance(self.deadline, int):
            rest = f"{self.deadline - self.last.rows:,} are left"
            if self.over:
                rest = "it has passed"
            return f"{self.deadline:,} {units.decisions}; {rest}"
        if self.end is None:
            return "none"
        days = str(self.deadline).removesuffix("d")
        words = f"{self.end.isoformat()}, {days} days after the first look"
        if self.over:
            return f"{words}; it has passed"
        return words

    def _was_certified(self) -> Note | None:
        """Return the note on an earlier look that certified a policy; None if none did."""
        for look in self.looks:
            for one in look.policies:
                if one.name in look.certified:
                    return Note(
                        f"{one.name} was certified on {look.date} (by {look.rows:,} rows), and is "
                        "not by all rows so far: contexts or rewards may have changed since",
                        kind="was-certified",
                    )
        return None


def looks_of(pages: Sequence[dict[str, Any]]) -> tuple[WatchLook, ...]:
    """Return looks as `WatchLook.to_dict` has them.

    >>> looks_of([])
    ()
    """
    looks = []
    for page in pages:
        policies = []
        for one in page["policies"]:
            notes = tuple(Note(text, "look") for text in one["notes"])
            policies.append(Look(**{**one, "notes": notes}))
        certified = tuple(map(str, page["certified"]))
        looks.append(WatchLook(**{**page, "policies": tuple(policies), "certified": certified}))
    return tuple(looks)
