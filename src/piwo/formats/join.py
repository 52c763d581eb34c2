"""Join delayed outcomes to the decisions that they belong to, with counts of what does not fit."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

import pyarrow as pa

from piwo.checks import check_finite, check_kind, check_path
from piwo.errors import DataError, UsageError
from piwo.formats.given_tables import GivenTables
from piwo.formats.spans import SPANS, span_of
from piwo.formats.tables import write_tables
from piwo.logs.options import check_reward_range
from piwo.messages import Note, argument
from piwo.records import jsonable
from piwo.sources.query import cursor_of, quoted
from piwo.sources.temporary import TemporaryFolder
from piwo.visible import visible_lines

__all__ = ["Joined", "Several", "join"]

Several: TypeAlias = Literal["first", "last", "sum", "max", "refuse"]
"""What several outcomes of one decision mean."""

_AGGREGATES = {
    "first": "first(r order by t, r)",
    "last": "last(r order by t, r)",
    "sum": "sum(r)",
    "max": "max(r)",
    "refuse": "first(r)",
}
_NO_TIME = "t is null or isnan(t) or isinf(t)"
_SHOWN = 5


@dataclass(frozen=True)
class Joined:
    """Decisions with their outcomes, and the counts of both.

    `outcomes` = `used` + `repeated` + `late` + `early` + `unmatched` + `later`, and `decisions` =
    `arrived` + `absent` + `open`.

    >>> shown, clicks = {"id": [1, 2], "time": [0, 5]}, {"id": [1], "time": [9], "reward": [0.5]}
    >>> made = join(shown, clicks, on="id", window=9)
    >>> made.arrived, made.open, made.mean_low, made.mean_high
    (1, 1, 0.25, 0.75)
    """

    rows: Any
    """An Arrow table, or the path of the file: the columns of the decisions in the order of their
    times, and, for an outcome "reward": `reward` (null if open), `reward_low`, `reward_high` (the
    reward, or the ends of its range if open), `reward_state` (arrived, absent, open), and
    `reward_closed`, whether the window was over."""
    decisions: int
    arrived: int
    """Decisions with an outcome in their window."""
    absent: int
    """Decisions without one whose window was over: they earned `absent`."""
    open: int
    """Decisions whose reward may still change: it lies anywhere in the reward range."""
    outcomes: int
    used: int
    repeated: int
    """Outcomes in the window of a decision besides the first one of it; part of the reward if
    these are added up."""
    late: int
    """Outcomes after the window of their decision."""
    early: int
    """Outcomes before their decision."""
    unmatched: int
    """Outcomes without a decision."""
    later: int
    """Outcomes after `until`, which were not looked at."""
    mean_low: float
    """The mean reward if every open decision earns the least."""
    mean_high: float
    """The mean reward if every open decision earns the most."""
    until: Any
    """The time up to which outcomes are known."""
    notes: tuple[Note, ...] = ()
    """What a reader of the rows must know."""

    def to_dict(self) -> dict[str, Any]:
        """Return the counts, the mean rewards, the time and the notes for JSON, without the rows.

        >>> made = join(
        ...     {"id": [1], "time": [0]},
        ...     {"id": [1], "time": [1], "reward": [1]},
        ...     on="id",
        ...     window=2,
        ...     until=2,
        ... )
        >>> made.to_dict()["arrived"], made.to_dict()["until"]
        (1, 2.0)
        """
        found = dict(vars(self))
        del found["rows"]
        if isinstance(self.until, datetime):
            found["until"] = self.until.isoformat()
        made: dict[str, Any] = jsonable(found)
        return made

    def __str__(self) -> str:
        line = (
            f"{self.decisions:,} decisions: {self.arrived:,} with an outcome, {self.absent:,} "
            f"without, {self.open:,} open; {self.outcomes:,} outcomes: {self.used:,} used, "
            f"{self.repeated:,} repeated, {self.late:,} late, {self.early:,} early, "
            f"{self.unmatched:,} unmatched, {self.later:,} later; mean reward from "
            f"{self.mean_low:.6g} to {self.mean_high:.6g}"
        )
        return visible_lines([line, *(f"  note: {note}" for note in self.notes)])


def join(
    decisions: Any,
    outcomes: Any,
    *,
    on: str | tuple[str, str],
    window: timedelta | float | str,
    time: str | tuple[str, str] = "time",
    outcome: str = "reward",
    several: Several = "first",
    absent: float | None = None,
    until: datetime | date | float | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    out: str | Path | None = None,
) -> Joined:
    """Return decisions joined to outcomes that came later, with counts of what does not fit.

    An outcome counts if it has the id of a decision and lies in its window, t <= s <= t + window,
    with t the time of the decision and s that of the outcome. A decision whose window is over by
    `until` without an outcome earned `absent`. Where the window is not over, the reward is open (of
    several="first", only if nothing arrived), and lies anywhere in the reward range.

    Nothing is valid for the decisions with an outcome alone: those that got it early would be
    chosen by it. Use one of two:

    - the closed ones, chosen by time: `piwo.read(joined.rows, where="reward_closed", ...)`. Give
      `until`: its default is the latest outcome, and then the outcomes say which ones are closed;
    - all of them, in the worst case: values are monotone in the rewards, so the interval from the
      lower end on `reward="reward_low"` to the upper end on `reward="reward_high"`, both at delta,
      holds with probability 1 - delta.

    Both tables are read by DuckDB, which puts what does not fit into memory on disk.

    Args:
        decisions: path, glob, list of them, query or data frame (also a LazyFrame), one row a
            decision.
        outcomes: the same, one row an outcome.
        on: the column of the id in both, or a pair of names.
        window: how long after its decision an outcome counts: for times a `timedelta`, or text such
            as "48h", "7 days" or "30 min"; for times that are numbers a number.
        time: the column of the times in both, or a pair of names.
        outcome: the column of the outcome; the new columns are named after it.
        several: what several outcomes of a decision mean: the "first" counts, the "last", their
            "sum", the "max"; or "refuse" them.
        absent: what a decision without an outcome earned; None: the lower end of the reward range.
        until: the time up to which outcomes are known; None: the latest time of an outcome.
        reward_range: the declared (lo, hi) of the reward.
        out: a file for the rows (.parquet, .csv, .jsonl), written completely or not at all; None:
            an Arrow table in memory.

    Returns:
        A `Joined`: the rows, the counts, and the worst-case bounds of the mean reward.

    Raises:
        DataError: for missing or repeated ids of decisions, missing times and outcomes, and
            rewards outside of the range.
        UsageError: for columns that do not exist or would be there twice, and for times of two
            kinds.

    >>> shown = {"id": [1, 2, 3], "time": [0, 10, 20], "action": ["a", "b", "a"]}
    >>> clicks = {"id": [1, 9, 1], "time": [4, 15, 22], "reward": [1.0, 1.0, 1.0]}
    >>> made = join(shown, clicks, on="id", window=8)
    >>> made.rows["reward_low"].to_pylist(), made.rows["reward_high"].to_pylist()
    ([1.0, 0.0, 0.0], [1.0, 0.0, 1.0])
    >>> made.unmatched, made.late, made.open, made.mean_low
    (1, 1, 1, 0.3333333333333333)
    """
    check_reward_range(reward_range)
    _check_arguments(several, absent, reward_range)
    check_kind("outcome", outcome, str)
    if out is not None:
        check_path(out)
    ids, times = _pair(on, "on"), _pair(time, "time")
    folder = TemporaryFolder()
    try:
        with cursor_of("the tables to join") as cursor:
            cursor.execute(f"set temp_directory = {quoted(str(folder.path), chr(39))}")
            work = _Join(cursor, outcome, ids, times)
            work.take("decisions", decisions, 0, ())
            work.take("outcomes", outcomes, 1, (outcome,))
            work.check_columns()
            width, end = work.window_and_until(window, until)
            work.check_decisions()
            work.match(width, end)
            lowest = reward_range[0] if absent is None else absent
            work.settle(several, width, end, float(lowest), reward_range)
            return work.finished(out, end, until is not None)
    finally:
        folder.remove()


def _check_arguments(several: str, absent: float | None, reward_range: tuple[float, float]) -> None:
    if several not in get_args(Several):
        raise UsageError(
            f"{argument('several')} is {several!r}, expected one of {', '.join(get_args(Several))}"
        )
    low, high = reward_range
    if absent is not None:
        check_finite("absent", absent)
    if absent is not None and not low <= absent <= high:
        raise UsageError(
            f"{argument('absent')} is {absent!r}, expected a reward in [{low:g}, {high:g}]"
        )


def _pair(names: str | tuple[str, str], role: str) -> tuple[str, str]:
    """Return the name of a column in the decisions and in the outcomes."""
    if isinstance(names, str):
        return names, names
    pair: Any = names
    if isinstance(pair, tuple | list) and len(pair) == 2 and all(isinstance(x, str) for x in pair):
        return pair[0], pair[1]
    raise UsageError(
        f"{argument(role)} is {names!r}, expected the name of a column, or that in the decisions "
        "and that in the outcomes"
    )


class _Join:
    """The steps of a join, on one DuckDB cursor."""

    def __init__(
        self, cursor: Any, outcome: str, ids: tuple[str, str], times: tuple[str, str]
    ) -> None:
        self.cursor = cursor
        self.outcome, self.ids, self.times = outcome, ids, times
        self.types: list[dict[str, str]] = []
        self.given = GivenTables(cursor)
        self.is_number = False
        self.new = [outcome, *(f"{outcome}_{x}" for x in ("low", "high", "state", "closed"))]

    def take(self, name: str, source: Any, place: int, needed: Sequence[str]) -> None:
        """Make a source a view of this name, and check that it has the columns."""
        self.types.append(self.given.view(name, source, [self.ids[place]]))
        for column in (self.ids[place], self.times[place], *needed):
            if column not in self.types[place]:
                known = ", ".join(map(repr, self.types[place]))
                raise UsageError(f"the {name} have no column {column!r}; they have {known}")

    def check_columns(self) -> None:
        """Raise for new columns that the decisions have, and for times of two kinds."""
        known = {x.casefold() for x in self.types[0]}
        taken = [x for x in self.new if x.casefold() in known]
        if taken:
            raise UsageError(
                f"the decisions have a column {taken[0]!r}, which the join would add; rename it"
            )
        kinds = []
        for place in (0, 1):
            kind = self.types[place][self.times[place]]
            kinds.append(not kind.startswith(("TIME", "DATE", "VARCHAR")))
        if kinds[0] != kinds[1]:
            raise UsageError(
                f"times of two kinds: {self.types[0][self.times[0]]} in the decisions and "
                f"{self.types[1][self.times[1]]} in the outcomes; cast one of them"
            )
        self.is_number = kinds[0]

    def _time(self, place: int) -> str:
        """Return the expression of a time as a number: microseconds since 1970, or itself."""
        column = quoted(self.times[place])
        if self.is_number:
            return f"cast({column} as DOUBLE)"
        return f"epoch_us(try_cast({column} as TIMESTAMPTZ))"

    def _id(self, place: int, table: str = "") -> str:
        """Return the expression of an id as text: 7 and 7.0 are the id '7'."""
        column = f"{table}{quoted(self.ids[place])}"
        text = f"cast({column} as VARCHAR)"
        if not self.types[place][self.ids[place]].startswith(("DOUBLE", "FLOAT", "DECIMAL")):
            return text
        # A column of whole numbers with a missing one is DOUBLE in pandas, and so 7 is 7.0.
        number = f"cast({column} as DOUBLE)"
        return (
            f"case when isnan({number}) then null when {number} = trunc({number}) and "
            f"abs({number}) < 9007199254740992 then cast(cast({column} as BIGINT) as VARCHAR) "
            f"else {text} end"
        )

    def window_and_until(
        self, given: timedelta | float | str, until: datetime | date | float | None
    ) -> tuple[float, float]:
        """Return the width of the window and the end of the outcomes, in the unit of the times."""
        window = span_of(given, "window") if isinstance(given, str) else given
        is_span = isinstance(window, timedelta)
        if is_span == self.is_number:
            expected = f"a span of time such as {SPANS}, as the times are dates"
            if self.is_number:
                expected = "a number, in the unit of the times"
            got = f"{window} (a span of time)" if is_span else str(given)
            raise UsageError(f"{argument('window')} is {got}, expected {expected}")
        if isinstance(window, timedelta):
            width: float = _microseconds(window)
        else:
            check_finite("window", window)
            width = float(window)
        if width < 0.0:
            raise UsageError(f"{argument('window')} is {window!r}, expected at least 0")
        if until is None:
            self._refuse(
                f"(select {self._time(1)} as t from outcomes) where {_NO_TIME}",
                f"outcomes without a time ({self.times[1]!r})",
            )
            ((end,),) = self.cursor.execute(f"select max({self._time(1)}) from outcomes").fetchall()
            if end is None:
                raise UsageError(
                    "there are no outcomes, so it is unknown up to when they would be; give "
                    f"{argument('until')}"
                )
            return width, end
        if isinstance(until, date) == self.is_number:
            raise UsageError(
                f"{argument('until')} is {until!r}, expected "
                f"{'a number' if self.is_number else 'a date or time'}, as the times are"
            )
        return width, _number_of_time(until)

    def check_decisions(self) -> None:
        """Make the table of ids and times, and raise for missing and repeated ones."""
        self.cursor.execute(
            f"create temp table ids as select {self._id(0)} as id, {self._time(0)} as t "
            "from decisions"
        )
        self._refuse("ids where id is null", f"decisions without an id ({self.ids[0]!r})")
        self._refuse(f"ids where {_NO_TIME}", f"decisions without a time ({self.times[0]!r})")
        repeated = self.cursor.execute(
            "select id, count(*) from ids group by id having count(*) > 1 order by id"
        ).fetchmany(_SHOWN)
        if repeated:
            shown = ", ".join(repr(x) for x, _ in repeated)
            raise DataError(
                f"the decisions have ids more than once (such as {shown}), expected one row a "
                "decision; remove copies, or name a column that tells them apart"
            )

    def _refuse(self, rows: str, what: str) -> None:
        ((count,),) = self.cursor.execute(f"select count(*) from {rows}").fetchall()
        if count:
            raise DataError(f"{count:,} {what}; correct or drop such rows yourself")

    def match(self, width: float, end: float) -> None:
        """Make the table of outcomes, each with what it is."""
        self.cursor.execute(
            f"""
            create temp table matched as
            select o.id, o.t, o.r,
                   case when o.t > {_literal(end)} then 'later' when d.id is null then 'unmatched'
                        when o.t < d.t then 'early' when o.t > d.t + {_literal(width)} then 'late'
                        else 'within' end as state
            from (select {self._id(1)} as id, {self._time(1)} as t,
                         try_cast({quoted(self.outcome)} as DOUBLE) as r from outcomes) o
            left join ids d on o.id = d.id
            """
        )
        self._refuse(f"matched where {_NO_TIME}", f"outcomes without a time ({self.times[1]!r})")
        self._refuse(
            "matched where r is null or isnan(r)",
            f"outcomes whose {self.outcome!r} is not a number",
        )

    def settle(
        self,
        several: str,
        width: float,
        end: float,
        absent: float,
        reward_range: tuple[float, float],
    ) -> None:
        """Make the table of the rewards of the decisions."""
        low, high = map(_literal, reward_range)
        if several == "refuse":
            self._refuse(
                "(select id from matched where state = 'within' group by id having count(*) > 1)",
                "decisions with several outcomes in their window",
            )
        # With one outcome to come, the first that arrived is final.
        final = "r is not null or closed" if several in ("first", "refuse") else "closed"
        self.cursor.execute(
            f"""
            create temp table settled as
            select id, t, closed,
                   case when not ({final}) then 'open' when r is null then 'absent'
                        else 'arrived' end as state,
                   case when {final} then coalesce(r, {_literal(absent)}) end as r
            from (select d.id, d.t, d.t + {_literal(width)} <= {_literal(end)} as closed, m.r
                  from ids d left join (select id, {_AGGREGATES[several]} as r from matched
                                        where state = 'within' group by id) m on d.id = m.id)
            """
        )
        self._refuse(
            f"settled where r < {low} or r > {high}",
            f"rewards outside of [{reward_range[0]:g}, {reward_range[1]:g}] "
            f"({argument('reward_range')})",
        )
        names = list(map(quoted, self.new))
        self.cursor.execute(
            f"""
            create temp view joined as
            select d.*, s.r as {names[0]}, coalesce(s.r, {low}) as {names[1]},
                   coalesce(s.r, {high}) as {names[2]}, s.state as {names[3]},
                   s.closed as {names[4]}
            from decisions d join settled s on {self._id(0, "d.")} = s.id order by s.t, s.id
            """
        )

    def finished(self, out: str | Path | None, end: float, declared: bool) -> Joined:
        """Return the rows and the counts.

        Args:
            out: the file; None: a table in memory.
            end: of the outcomes.
            declared: whether the user gave it.
        """
        states = dict(
            self.cursor.execute("select state, count(*) from matched group by state").fetchall()
        )
        ((with_one,),) = self.cursor.execute(
            "select count(distinct id) from matched where state = 'within'"
        ).fetchall()
        settled = dict(
            self.cursor.execute("select state, count(*) from settled group by state").fetchall()
        )
        low, high = (quoted(x) for x in self.new[1:3])
        ((mean_low, mean_high),) = self.cursor.execute(
            f"select avg({low}), avg({high}) from joined"
        ).fetchall()
        if mean_low is None:
            raise DataError("the decisions have no rows, expected at least one")
        rows: Any
        if out is None:
            rows = pa.RecordBatchReader.from_stream(self.cursor.sql("from joined")).read_all()
        else:
            rows = str(out)
            write_tables(self._tables(), rows)
        until: Any = end
        if not self.is_number:
            until = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=end)
        return Joined(
            rows=rows,
            decisions=sum(settled.values()),
            arrived=settled.get("arrived", 0),
            absent=settled.get("absent", 0),
            open=settled.get("open", 0),
            outcomes=sum(states.values()),
            used=with_one,
            repeated=states.get("within", 0) - with_one,
            late=states.get("late", 0),
            early=states.get("early", 0),
            unmatched=states.get("unmatched", 0),
            later=states.get("later", 0),
            mean_low=mean_low,
            mean_high=mean_high,
            until=until,
            notes=self._notes(settled.get("open", 0), declared),
        )

    def _notes(self, still_open: int, declared: bool) -> tuple[Note, ...]:
        """Return what a reader of the rows must know."""
        notes = []
        if still_open:
            low, high = map(repr, self.new[1:3])
            notes.append(
                Note(
                    f"{still_open:,} of the rewards may still change: read the closed rows alone "
                    f"({argument('where', self.new[4])}), or take the lower end from {low} and the "
                    f"upper end from {high}; rows with an outcome alone would be chosen by it",
                    kind="open",
                )
            )
        if not declared:
            notes.append(
                Note(
                    "the time up to which outcomes are known is that of the latest outcome, so "
                    f"outcomes say which rows are closed; declare {argument('until')}",
                    kind="until",
                )
            )
        return tuple(notes)

    def _tables(self) -> Iterator[pa.Table]:
        for record in pa.RecordBatchReader.from_stream(self.cursor.sql("from joined")):
            yield pa.Table.from_batches([record])


def _literal(number: float) -> str:
    """Return a number for SQL."""
    if math.isinf(number):
        return f"cast('{number}' as DOUBLE)"
    if isinstance(number, int):
        # microseconds, which are counted exactly
        return repr(number)
    return f"cast({float(number)!r} as DOUBLE)"


def _microseconds(span: timedelta) -> int:
    return span // timedelta(microseconds=1)


def _number_of_time(until: datetime | date | float) -> float:
    """Return a time as microseconds since 1970 in UTC; a number as it is."""
    if not isinstance(until, date):
        check_finite("until", until)
        return float(until)
    if not isinstance(until, datetime):
        until = datetime(until.year, until.month, until.day)  # noqa: DTZ001 (the zone comes next)
    if until.tzinfo is None:
        until = until.replace(tzinfo=UTC)
    return _microseconds(until - datetime.fromtimestamp(0, UTC))
