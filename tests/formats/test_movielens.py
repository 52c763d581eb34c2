"""Ratings as a simulated log: groups and propensities by hand, a naive twin, and a known truth."""

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, FileError, PiwoWarning, UsageError
from piwo.evaluation import evaluate
from piwo.formats import read_movielens
from piwo.learners import PIWO
from piwo.logs import Log
from piwo.oracles import JointRidge
from piwo.policies import Uniform

pytestmark = pytest.mark.filterwarnings("ignore:the ratings are no log")

RATINGS = (
    "userId,movieId,rating,timestamp",
    "2,30,2.0,150",
    "1,10,5.0,100",
    "1,020,3.0,200",
    "2,020,4.0,100",
    "2,10,4.5,300",
    "3,10,1.0,50",
)
MOVIES = (
    "movieId,title,genres,year",
    "10,Ten,Comedy|Drama,1995",
    '020,"Twenty, again",Drama,1999',
    "30,Thirty,(no genres listed),2001",
    "99,Unseen,Comedy,2002",
)


def written(path: Path, lines: Sequence[str]) -> Path:
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def rows_of(log: Log, context: bool = False) -> list[tuple[Any, ...]]:
    """(action, reward, propensity, eligible labels, their probabilities) of each decision."""
    labels = log.actions.labels
    rows: list[tuple[Any, ...]] = []
    for batch in log.each_batch(propensities=True, context=context):
        assert batch.eligible is not None
        assert batch.eligible.propensities is not None
        for i, code in enumerate(batch.action.tolist()):
            place = slice(batch.eligible.starts[i], batch.eligible.starts[i + 1])
            offered = [labels[x] for x in batch.eligible.codes[place].tolist()]
            chances = batch.eligible.propensities[place].tolist()
            rows.append((labels[code], batch.reward[i], batch.propensity[i], offered, chances))
    return rows


def test_groups_and_propensities_by_hand(tmp_path: Path) -> None:
    path = written(tmp_path / "ratings.csv", RATINGS)
    said = (
        "no probabilities were logged; this is a simulation, .* up to 2 items .* uniformly "
        r"\(seed=0\), .* 2 of 6 ratings are left out"
    )
    with pytest.warns(PiwoWarning, match=said):
        log = read_movielens(path, candidates=2)
    assert log.actions.labels == ("020", "10", "30")
    assert (log.columns.unit, log.logger, log.name) == (
        "user",
        "fixed",
        "the decisions simulated from ratings",
    )
    # user 2's third rating and user 3's only one are alone; by the times of their first ratings
    given = {("10", "020"): {"10": 1, "020": 0}, ("020", "30"): {"020": 1, "30": 0}}
    rows = rows_of(log)
    assert [tuple(row[3]) for row in rows] == [("10", "020"), ("020", "30")]
    for action, reward, propensity, offered, chances in rows:
        assert reward == given[tuple(offered)][action]
        assert propensity == 0.5
        assert chances == [0.5, 0.5]
    # 10 has three ratings, 020 two and 30 one
    popular = rows_of(read_movielens(path, candidates=2, popularity=1))
    assert [row[4] for row in popular] == [
        pytest.approx([3 / 5, 2 / 5]),
        pytest.approx([2 / 3, 1 / 3]),
    ]
    (first, *_) = rows_of(
        read_movielens(path, candidates=3, popularity=2, liked=None, reward_range=(0, 5))
    )
    assert first[4] == pytest.approx([9 / 13, 4 / 13])
    assert first[1] == {"10": 1.0, "020": 0.6}[first[0]]  # over the range of 5


def test_items_have_numbers_and_genres(tmp_path: Path) -> None:
    path = written(tmp_path / "ratings.csv", RATINGS)
    movies = written(tmp_path / "movies.csv", MOVIES)
    log = read_movielens(path, items=movies, candidates=3)
    assert log.actions.labels == ("020", "10", "30")
    assert log.actions.items is not None
    assert log.actions.items.table.to_pydict() == {
        "year": [1999, 1995, 2001],
        "genres=(no genres listed)": [0.0, 0.0, 1.0],
        "genres=Comedy": [0.0, 1.0, 0.0],
        "genres=Drama": [1.0, 1.0, 0.0],
    }
    with pytest.raises(DataError, match="has no row for 1 of 3 actions, such as '30'"):
        read_movielens(path, items=written(tmp_path / "few.csv", MOVIES[:3]), candidates=3)
    empty = written(tmp_path / "none.csv", [*MOVIES[:3], "30,Thirty,,2001"])
    with pytest.raises(DataError, match="1 items have no 'genres'; write a word"):
        read_movielens(path, items=empty, candidates=3)


def made(users: int, seed: int) -> dict[str, list[Any]]:
    """Ratings of users who watch popular movies more, and like those with small numbers."""
    rng = np.random.default_rng(seed)
    chances = 1.0 / np.arange(1, 31)
    table: dict[str, list[Any]] = {"userId": [], "movieId": [], "rating": [], "timestamp": []}
    for user in range(users):
        movies = rng.choice(30, int(rng.integers(5, 14)), replace=False, p=chances / chances.sum())
        table["userId"] += [user] * len(movies)
        table["movieId"] += movies.tolist()
        table["rating"] += np.clip(5.0 - movies / 10 + rng.normal(size=len(movies)), 1, 5).tolist()
        table["timestamp"] += rng.permutation(1000)[: len(movies)].tolist()
    return table


def naive(
    table: dict[str, list[Any]], candidates: int
) -> list[tuple[int, list[tuple[int, float]]]]:
    """The groups of every user, one after the other: (user, [(movie, rating), ...])."""
    rows = sorted(
        zip(*(table[x] for x in ("userId", "timestamp", "movieId", "rating")), strict=True)
    )
    found = []
    for user in sorted(set(table["userId"])):
        own = [(movie, rating) for one, _, movie, rating in rows if one == user]
        for start in range(0, len(own), candidates):
            group = own[start : start + candidates]
            if len(group) > 1:
                found.append((user, group))
    return found


@pytest.mark.parametrize("popularity", [0.0, 0.5])
def test_a_naive_twin_agrees(popularity: float) -> None:
    table = made(60, seed=1)
    log = read_movielens(table, candidates=4, popularity=popularity)
    counts = Counter(table["movieId"])
    expected = {}
    for _, group in naive(table, 4):
        weights = [counts[movie] ** popularity for movie, _ in group]
        expected[str(group)] = (group, [x / sum(weights) for x in weights])
    groups = {
        str([movie for movie, _ in group]): one for one in expected.values() for group in [one[0]]
    }
    rows = rows_of(log)
    assert len(rows) == len(naive(table, 4))
    for action, reward, propensity, offered, chances in rows:
        group, twin = groups[str(offered)]
        assert chances == pytest.approx(twin, abs=1e-12)
        assert propensity == pytest.approx(twin[offered.index(action)], abs=1e-12)
        assert reward == float(dict(group)[action] >= 4.0)


def test_the_value_is_that_of_all_ratings() -> None:
    table = made(3000, seed=2)
    log = read_movielens(table, candidates=5, popularity=1.0, seed=3)
    # every rating of a group is known: the mean over users of their mean over groups
    by_user: dict[int, list[float]] = {}
    for user, group in naive(table, 5):
        liked = [rating >= 4.0 for _, rating in group]
        by_user.setdefault(user, []).append(float(np.mean(liked)))
    truth = float(np.mean([np.mean(x) for x in by_user.values()]))
    found = evaluate(log, Uniform(log.actions))
    assert found.lower is not None
    assert found.upper is not None
    assert found.lower < truth < found.upper
    assert found.upper - found.lower < 0.12
    values = []
    for seed in range(20):
        again = read_movielens(table, candidates=5, popularity=1.0, seed=seed)
        values.append(evaluate(again, Uniform(again.actions)).value)
    error = np.std(values, ddof=1) / np.sqrt(len(values))
    assert np.mean(values) == pytest.approx(truth, abs=4 * error)
    assert error < 0.004


def test_every_kind_of_table_gives_the_same_log(tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    table = made(20, seed=4)
    expected = rows_of(read_movielens(table))
    pq.write_table(pa.table(table), tmp_path / "ratings.parquet")
    frame = polars.DataFrame(table)
    for source in (tmp_path / "ratings.parquet", frame, frame.lazy(), frame.reverse()):
        assert rows_of(read_movielens(source)) == expected
    assert rows_of(read_movielens(table, seed=1)) != expected
    renamed = {name[0]: values for name, values in table.items()}
    log = read_movielens(renamed, user="u", item="m", rating="r", time="t")
    assert rows_of(log) == expected


def test_context_is_what_was_known_before() -> None:
    table = made(20, seed=4)
    table["age"] = [20.0 + user for user in table["userId"]]
    log = read_movielens(table, context="age", candidates=3)
    assert log.features is not None
    assert log.features.names == ("earlier", "earlier_mean", "age")
    found = []
    for batch in log.each_batch(context=True):
        assert batch.context is not None
        found += batch.context.tolist()
    expected = []
    before: dict[int, list[float]] = {}
    for user, group in naive(table, 3):
        seen = before.setdefault(user, [])
        expected.append([len(seen), sum(seen) / (len(seen) + 1), 20.0 + user])
        seen += [rating for _, rating in group]
    assert np.array(sorted(found)) == pytest.approx(np.array(sorted(expected)))


def test_it_can_be_learned_from() -> None:
    table = made(2000, seed=5)
    items = {"movieId": list(range(30)), "rank": list(range(30))}
    log = read_movielens(table, items=items, candidates=5)
    learner = PIWO(oracle=JointRidge()).fit(log)
    assert learner.certificate_ is not None
    # movies with small numbers are liked more: the policy shows those
    assert learner.certificate_.improvement_lower is not None
    assert learner.certificate_.improvement_lower > 0


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"user": "user"}, "the ratings have no column 'user'; they have 'userId', 'movieId'"),
        ({"context": ["age"]}, "the ratings have no column 'age'"),
        ({"context": "rating"}, "column 'rating' cannot be context: what is rated"),
        ({"candidates": 1}, "candidates is 1; expected a whole number of at least 2"),
        ({"popularity": -1}, "popularity"),
        ({"liked": float("nan")}, "liked"),
        ({"seed": -1}, "seed"),
        ({"items": {"movieId": ["10"]}}, "0 columns next to 'movieId'"),
        ({"items": {"movie": ["10"]}}, "the items have no column 'movieId'; they have 'movie'"),
    ],
)
def test_what_is_refused_of_arguments(more: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "ratings.csv", RATINGS)
    with pytest.raises(UsageError, match=message):
        read_movielens(path, **more)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("1,10,5.0,900", "user '1' rated item '10' more than once, expected one rating"),
        ("4,10,good,900", "1 ratings have no usable 'rating'; correct or drop such rows"),
        ("4,10,nan,900", "1 ratings have no usable 'rating'"),
        ("4,10,inf,900", "1 ratings have no usable 'rating'"),
        ("4,10,3.5,", "1 ratings have no usable 'timestamp'"),
        ("4,10,3.5,noon", "'timestamp' is text, whose order is not that of times"),
        (",10,3.5,100", "1 ratings have no usable 'userId'"),
    ],
)
def test_what_is_refused_of_ratings(line: str, message: str, tmp_path: Path) -> None:
    path = written(tmp_path / "ratings.csv", [*RATINGS, line])
    with pytest.raises(DataError, match=message):
        read_movielens(path)


def test_tables_without_a_choice_and_without_a_file(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="no user rated two items"):
        read_movielens(written(tmp_path / "ratings.csv", [RATINGS[0], RATINGS[-1]]))
    with pytest.raises(FileError):
        read_movielens(tmp_path / "absent.csv")
    with pytest.raises(
        UsageError, match=r"the ratings are .*, expected a path, a glob, a query or"
    ):
        read_movielens(7)
