"""Tables of ratings, such as MovieLens, as a simulated log: which of his items was a user shown?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import (
    check_count,
    check_finite,
    check_kind,
    check_listed,
    check_non_negative,
    check_seed,
)
from piwo.errors import DataError, UsageError, warn
from piwo.formats.given_tables import GivenTables
from piwo.logs.log import Log
from piwo.logs.read import read
from piwo.messages import argument
from piwo.sources.query import cursor_of, quoted

__all__ = ["read_movielens"]

_HISTORY = ("earlier", "earlier_mean")
_COLUMNS = ("action", "reward", "eligible", "propensities", "user", "time", *_HISTORY)
"""Those of the log."""

Floats = npt.NDArray[np.float64]
Numbers = npt.NDArray[np.int64]

_NUMBERS = (
    "TINYINT",
    "SMALLINT",
    "INTEGER",
    "BIGINT",
    "HUGEINT",
    "UTINYINT",
    "USMALLINT",
    "UINTEGER",
    "UBIGINT",
    "FLOAT",
    "DOUBLE",
    "DECIMAL",
    "BOOLEAN",
)
"""How types of numbers begin in DuckDB."""


def read_movielens(
    ratings: Any,
    *,
    items: Any = None,
    user: str = "userId",
    item: str = "movieId",
    rating: str = "rating",
    time: str = "timestamp",
    liked: float | None = 4.0,
    reward_range: tuple[float, float] = (0.0, 1.0),
    candidates: int = 10,
    popularity: float = 0.0,
    context: str | Sequence[str] = (),
    genres: str = "genres",
    seed: int = 0,
) -> Log:
    r"""Return a log that is simulated from ratings, such as `ratings.csv` of MovieLens.

    What such a table lacks: nobody drew what a user rated, so that there are no decisions and no
    probabilities; users chose what they rated, and nothing says what they would have given to other
    items. So the log is a simulation, with a declared logging policy and rewards that are real:

    1. The ratings of a user, in the order of their times, are cut into groups of `candidates`; the
       last group may be smaller. A group is one decision, its items are the eligible actions. A
       group of one leaves nothing to decide; such ratings are left out and counted.
    2. The logger shows one of them, the item a with probability

           mu(a) = c_a^popularity / sum_b c_b^popularity,

       c_a the number of ratings of a in the table and b over the group: uniform by default.
    3. The reward is what the user gave to that item: 1 if the rating is at least `liked`, else 0.

    Context is what was known before the group: `earlier`, the number n of earlier ratings of the
    user, and `earlier_mean`, their sum over n + 1 (so that it is 0 without any).

    The probabilities of all eligible actions are logged, and the logger is declared to be fixed, so
    that every estimator and certificate can be used. The value of a policy is that of choosing
    among items that a user was going to rate anyway, each user counting the same (`unit`); it does
    not say what the policy is worth where users are shown other items.

    Args:
        ratings: path (.csv, .parquet, ...), glob, list of them, query or data frame, one row a
            rating. Files of old sets without a header, such as `u.data`: read them into a data
            frame first.
        items: the table of items, likewise, such as `movies.csv`; None: no features. Its columns of
            numbers are features of the items, and each word of `genres` is one, 0 or 1; other
            text, such as titles, is left out.
        user: the column of users, the unit of the log.
        item: the column of items, in both tables.
        rating: the column of ratings.
        time: the column of their times, numbers or times.
        liked: the least rating with reward 1; None: the reward is the rating, in `reward_range`.
        reward_range: the declared (lo, hi) of the reward.
        candidates: items a decision, at least 2.
        popularity: the exponent of the logger.
        context: more columns of the ratings that were known before, such as the age of the user; of
            the first rating of a group.
        genres: the column of the items with words that are separated by "|".
        seed: of the logger's draws.

    Returns:
        A `Log` with eligible actions.

    Raises:
        FileError: for files that are missing or cannot be read.
        UsageError: for columns that do not exist, and arguments out of range.
        DataError: for missing values, items that a user rated twice, items of decisions without a
            row in `items`, and tables in which no user rated two items.

    Warns:
        PiwoWarning: that the log is a simulation, with how its propensities came about, and how
            many ratings are left out.

    Source: Harper and Konstan 2015, "The MovieLens Datasets: History and Context"; that logged
        rewards of all candidates make a simulation is the conversion of supervised data, Dudik,
        Langford and Li 2011 (arXiv 1103.4601).

    >>> import warnings
    >>> with open("ratings.csv", "w") as file:
    ...     rows = ["userId,movieId,rating,timestamp", "1,10,5.0,100", "1,20,3.0,200"]
    ...     print(*rows, "2,20,4.0,100", "2,30,2.0,150", "2,10,4.5,300", sep=chr(10), file=file)
    >>> with warnings.catch_warnings():
    ...     warnings.simplefilter("ignore")
    ...     log = read_movielens("ratings.csv", candidates=2)
    >>> len(log), log.actions.labels, log.columns.unit
    (2, ('10', '20', '30'), 'user')
    """
    roles = {"user": user, "item": item, "rating": rating, "time": time}
    context = _checked_context(context, roles, genres)
    if liked is not None:
        check_finite("liked", liked)
    check_count("candidates", candidates, 2, "the number of items of a decision")
    check_finite("popularity", popularity)
    check_non_negative("popularity", popularity)
    check_seed("seed", seed)
    with cursor_of("the ratings") as cursor:
        tables = GivenTables(cursor)
        columns = tables.view("ratings", ratings, [user, item])
        _require(columns, [*roles.values(), *context], "ratings")
        total = _checked_ratings(cursor, list(roles.values()), context)
        groups = _groups(cursor, int(candidates), context)
        features = None
        if items is not None:
            columns = tables.view("items", items, [item])
            features = _features(cursor, columns, item, genres)
    _warn_of(total, len(groups.items), candidates, popularity, seed)
    log = read(
        groups.table(popularity, liked, seed),
        propensity=None,
        propensities="propensities",
        eligible="eligible",
        context=[*_HISTORY, *context],
        unit="user",
        time="time",
        actions=sorted(pc.unique(groups.items).to_pylist()),
        items=features,
        items_label=None if features is None else item,
        reward_range=reward_range,
        logger="fixed",
    )
    name = "the decisions simulated from ratings"
    return replace(log, source=replace(log.source, name=name))  # type: ignore[type-var]


def _checked_context(context: Any, roles: dict[str, str], genres: str) -> tuple[str, ...]:
    """Return the columns of the context, after checking the names of all columns."""
    if isinstance(context, str):
        context = (context,)
    check_listed("context", context)
    named = {**roles, "genres": genres, **{f"context[{i}]": x for i, x in enumerate(context)}}
    for name, value in named.items():
        check_kind(name, value, str)
    taken = {roles["item"], roles["rating"], *_COLUMNS}
    for name in context:
        if name in taken:
            raise UsageError(
                f"column {name!r} cannot be {argument('context')}: what is rated and how is not "
                f"known before, and {', '.join(_COLUMNS)} are columns of the log; rename it"
            )
    return tuple(context)


def _warn_of(total: int, kept: int, candidates: int, popularity: float, seed: int) -> None:
    """Say that the log is a simulation, where its propensities are from, and what is left out."""
    logger = "uniformly"
    if popularity > 0.0:
        logger = f"in proportion to the number of their ratings to the power {popularity:g}"
    warn(
        "the ratings are no log: users chose what they rated, and no probabilities were logged; "
        f"this is a simulation, in which a decision offers up to {candidates} items that a user "
        f"rated one after the other, a declared logger draws one of them {logger} "
        f"({argument('seed', seed)}), and the reward is what the user gave to it; "
        f"{total - kept:,} of {total:,} ratings are left out, alone in their group"
    )


def _require(columns: dict[str, str], names: Sequence[str], what: str) -> None:
    """Raise for columns that a table does not have."""
    for name in names:
        if name not in columns:
            known = ", ".join(map(repr, columns))
            raise UsageError(f"the {what} have no column {name!r}; they have {known}")


def _checked_ratings(cursor: Any, roles: Sequence[str], context: Sequence[str]) -> int:
    """Make the table of ratings, with short names, and return how many there are.

    Raises:
        DataError: for missing values, times that are text, and items that a user rated twice.
    """
    named = list(zip(map(quoted, roles), "uirt", strict=True))
    named += [(quoted(name), f"x{i}") for i, name in enumerate(context)]
    listed = ", ".join(f"{column} as {short}" for column, short in named)
    cursor.execute(f"create temp view given as select {listed} from ratings")
    cursor.execute(
        "create temp table rated as select * replace (try_cast(r as DOUBLE) as r) from given"
    )
    kinds = cursor.execute("select typeof(t) from rated limit 1").fetchall()
    if kinds == [("VARCHAR",)]:
        raise DataError(
            f"{roles[-1]!r} is text, whose order is not that of times; expected numbers or times"
        )
    for short, name in zip("uirt", roles, strict=True):
        missing = f"{short} is null"
        if short in "rt":
            missing += f" or {short}::VARCHAR in ('nan', 'inf', '-inf', 'infinity', '-infinity')"
        ((count,),) = cursor.execute(f"select count(*) from rated where {missing}").fetchall()
        if count:
            raise DataError(
                f"{count:,} ratings have no usable {name!r}; correct or drop such rows yourself"
            )
    repeated = cursor.execute(
        "select u, i from rated group by u, i having count(*) > 1 order by u, i limit 1"
    ).fetchall()
    if repeated:
        one, other = repeated[0]
        raise DataError(
            f"user {one!r} rated item {other!r} more than once, expected one rating of an item; "
            "keep the last one, for example"
        )
    ((total,),) = cursor.execute("select count(*) from rated").fetchall()
    return int(total)


@dataclass(frozen=True)
class _Groups:
    """The ratings of the decisions, m in all, group after group."""

    starts: Numbers
    """(n + 1,) where each group begins."""
    items: pa.Array
    """(m,) labels."""
    ratings: Floats
    """(m,)"""
    counts: Floats
    """(m,) how many ratings the item of each has in the whole table."""
    columns: dict[str, Any]
    """(n,) the user, the time and the context of each group."""

    @property
    def sizes(self) -> Numbers:
        """(n,) how many items each group has."""
        return np.diff(self.starts)

    def probabilities(self, popularity: float) -> Floats:
        """Return mu of each item in its group, (m,)."""
        # mu(a) = c_a^power / sum_b c_b^power; the largest count of all keeps powers in [0, 1]
        weights = (self.counts / self.counts.max()) ** popularity
        sums = np.add.reduceat(weights, self.starts[:-1])
        chances: Floats = weights / np.repeat(sums, self.sizes)
        return chances

    def drawn(self, chances: Floats, seed: int) -> Numbers:
        """Return which entry the logger draws in each group, (n,)."""
        first, sizes = self.starts[:-1], self.sizes
        sums = np.cumsum(chances)
        below = sums - np.repeat(sums[first] - chances[first], sizes)
        draws = np.random.default_rng(seed).random(len(sizes))
        passed = np.add.reduceat(below <= np.repeat(draws, sizes), first, dtype=np.int64)
        # a sum that rounding leaves below 1
        return first + np.minimum(passed, sizes - 1)

    def table(self, popularity: float, liked: float | None, seed: int) -> pa.Table:
        """Return the rows of the log."""
        chances = self.probabilities(popularity)
        chosen = self.drawn(chances, seed)
        rewards = self.ratings[chosen]
        if liked is not None:
            rewards = (rewards >= liked).astype(np.float64)
        return pa.table(
            {
                "action": self.items.take(pa.array(chosen)),
                "reward": rewards,
                "eligible": pa.LargeListArray.from_arrays(self.starts, self.items),
                "propensities": pa.LargeListArray.from_arrays(self.starts, pa.array(chances)),
                **self.columns,
            }
        )


def _groups(cursor: Any, candidates: int, context: Sequence[str]) -> _Groups:
    """Return the groups of more than one rating, in the order of their times.

    Raises:
        DataError: if there are none.
    """
    short = [f"x{i}" for i, _ in enumerate(context)]
    listed = ", ".join(["u", "i", "r", "t", "k", "c", "h", *short])
    cursor.execute(
        f"""
        create temp view placed as
        select *, (k // {candidates}) as g from (
            select *, row_number() over (partition by u order by t, i) - 1 as k,
                   count(*) over (partition by i) as c,
                   coalesce(sum(r) over (
                       partition by u order by t, i rows between unbounded preceding and 1 preceding
                   ), 0.0) as h from rated)
        """
    )
    found = pa.RecordBatchReader.from_stream(
        cursor.sql(
            f"""
            select {listed} from (
                select *, count(*) over (partition by u, g) as size,
                       min(t) over (partition by u, g) as first from placed)
            where size > 1 order by first, u, g, k
            """
        )
    ).read_all()
    table = found.combine_chunks()
    if not table.num_rows:
        raise DataError(
            "no user rated two items, expected ratings of which a decision can offer several"
        )
    places = table["k"].to_numpy() % candidates
    starts = np.append(np.flatnonzero(places == 0), table.num_rows).astype(np.int64)
    firsts = table.take(pa.array(starts[:-1])).combine_chunks()
    earlier = firsts["k"].to_numpy().astype(np.float64)
    means = firsts["h"].to_numpy() / (earlier + 1.0)
    columns: dict[str, Any] = {"user": firsts["u"], "time": firsts["t"]}
    columns |= dict(zip(_HISTORY, (earlier, means), strict=True))
    for name, one in zip(context, short, strict=True):
        columns[name] = firsts[one]
    return _Groups(
        starts=starts,
        items=table["i"].combine_chunks(),
        ratings=table["r"].to_numpy(),
        counts=table["c"].to_numpy().astype(np.float64),
        columns=columns,
    )


def _features(cursor: Any, columns: dict[str, str], item: str, genres: str) -> pa.Table:
    """Return the labels of items and their features: numbers, and one of 0 and 1 for each genre."""
    _require(columns, [item], "items")
    kept = [item]
    for name, kind in columns.items():
        if name != item and kind.startswith(_NUMBERS):
            kept.append(name)
    if columns.get(genres) == "VARCHAR":
        kept.append(genres)
    listed = ", ".join(map(quoted, kept))
    table = pa.RecordBatchReader.from_stream(cursor.sql(f"select {listed} from items")).read_all()
    if columns.get(genres) != "VARCHAR":
        return table
    if table[genres].null_count:
        raise DataError(
            f"{table[genres].null_count:,} items have no {genres!r}; write a word for none there"
        )
    words = pc.split_pattern(table[genres].combine_chunks(), "|")
    rows, flat = pc.list_parent_indices(words).to_numpy(), words.flatten()
    table = table.drop_columns([genres])
    for word in sorted(pc.unique(flat).to_pylist()):
        has = np.zeros(len(table))
        has[rows[pc.equal(flat, word).to_numpy(zero_copy_only=False)]] = 1.0
        table = table.append_column(f"{genres}={word}", pa.array(has))
    return table
