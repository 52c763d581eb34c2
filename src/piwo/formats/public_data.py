"""Published logs in the files of their authors: Open Bandit data, KuaiRand, Criteo."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from piwo.checks import check_count, check_kind, shown
from piwo.errors import DataError, FileError, UsageError, warn
from piwo.logs.foreign import RowError, distributions
from piwo.logs.log import Log
from piwo.logs.read import read
from piwo.logs.source_of import paths_of
from piwo.messages import argument
from piwo.sources.addresses import name_of
from piwo.sources.csv import csv_query, header_of
from piwo.sources.gzip_files import require_undamaged
from piwo.sources.lines import BrokenLineError, Faults, lines_of, number_of
from piwo.sources.query import QuerySource, quoted, rows_of
from piwo.sources.source import BATCH_ROWS, Fragment
from piwo.sources.spool import spooled

__all__ = ["read_criteo", "read_kuairand", "read_open_bandit"]

Candidates: TypeAlias = Sequence[Mapping[int, float]]
"""The features of each candidate of an impression, the one that was shown first."""

_ITEMS = "item_context.csv"
_VIDEOS = 7583
"""Videos among which KuaiRand drew those that it showed at random, as its authors say."""
_CLICK, _NO_CLICK = 0.001, 0.999
"""What Criteo's files have as label of a click and of none."""
_KEPT = 0.1
"""The rate at which Criteo's files keep impressions without a click."""


def read_open_bandit(
    path: str | Path, *, position: int | None = None, affinities: bool = False
) -> Log:
    """Return a log of the Open Bandit data, from a file such as `obd/random/all/all.csv`.

    The columns are `item_id`, `position` (1 to 3), `click`, `propensity_score`, `user_feature_0` to
    `3` (hashed texts) and `user-item_affinity_0`, .... The actions are the items of
    `item_context.csv` next to the file, else those in the log.

    What it lacks: which three rows were one page view, so that rows are treated as independent; the
    probabilities of items that were not shown; and, in the part `bts`, exact propensities: the
    authors computed them by simulation.

    Args:
        path: of the CSV file (also .gz), or a glob.
        position: only the rows at this position; None: all, with `position` as context.
        affinities: whether the user-item affinities are context, too.

    Returns:
        A `Log` with rewards 0 and 1.

    Raises:
        FileError: for files that are missing or cannot be read.
        DataError: for files without these columns.

    Source: Saito et al. 2021, "Open Bandit Dataset and Pipeline".

    >>> head = "item_id,position,click,propensity_score,user_feature_0"
    >>> with open("all.csv", "w") as file:
    ...     print(head, "3,1,1,0.5,aa", "4,2,0,0.25,bb", sep=chr(10), file=file)
    >>> log = read_open_bandit("all.csv")
    >>> log.actions.labels, log.features.names
    (('3', '4'), ('user_feature_0=aa', 'user_feature_0=bb', 'position'))
    """
    paths = _files(path)
    if position is not None:
        check_count("position", position, 1, "the position, from 1")
    context = ["user_feature_*"]
    where = None
    if position is None:
        context.append("position")
    else:
        where = f"position = {int(position)}"
    if affinities:
        context.append("user-item_affinity_*")
    return read(
        paths,
        action="item_id",
        reward="click",
        propensity="propensity_score",
        context=context,
        actions=_items(paths[0]),
        where=where,
    )


def _items(path: str) -> list[str] | None:
    """Return the ids of `item_context.csv` next to a file; None if there is no such file."""
    place = Path(path).with_name(_ITEMS)
    if not place.exists():
        return None
    try:
        with place.open(encoding="utf-8-sig", newline="") as file:
            found = [row["item_id"] for row in csv.DictReader(file)]
    except (OSError, KeyError, UnicodeDecodeError, csv.Error) as cause:
        raise FileError(
            f"{str(place)!r} has no column 'item_id' that can be read ({cause}); copy it again, or "
            "remove it"
        ) from None
    return found


def read_kuairand(
    path: str | Path | Sequence[str | Path],
    *,
    reward: str = "is_click",
    reward_range: tuple[float, float] = (0.0, 1.0),
    candidates: int = _VIDEOS,
    users: str | Path | None = None,
    context: str | Sequence[str] = ("tab", "hourmin"),
) -> Log:
    """Return the randomly shown rows of KuaiRand, from `log_random_4_22_to_5_08_pure.csv` or `_1k`.

    In rows with `is_rand` = 1 the video was drawn uniformly from a fixed list, so that its
    propensity is 1/`candidates`; other rows are left out and counted. Rows of one user depend on
    each other: `user_id` is the unit.

    What it lacks: the list that videos were drawn from, and videos of it that a user could not get
    (the propensities are those that the authors state); the place on the page. With thousands of
    actions, weights are large: values of a fixed policy need millions of rows.

    Args:
        path: path, glob, or a list of them.
        reward: a column of feedback: is_click, is_like, is_follow, is_comment, is_forward,
            long_view, play_time_ms, ....
        reward_range: the declared (lo, hi) of it.
        candidates: how many videos were drawn from.
        users: the file of user features, `user_features_pure.csv`, whose columns become those of
            the rows, by `user_id`.
        context: context columns, by names or globs.

    Returns:
        A `Log`; labels of actions are the texts of `video_id`.

    Raises:
        FileError: for files that are missing or cannot be read.
        DataError: for files without these columns, without random rows, or with more videos than
            `candidates`; and for users that are several times in `users`.

    Source: Gao et al. 2022, "KuaiRand: An Unbiased Sequential Recommendation Dataset with Randomly
        Exposed Videos".

    >>> with open("log_random.csv", "w") as file:
    ...     rows = ["user_id,video_id,hourmin,is_click,is_rand,tab", "0,7,900,1,1,4"]
    ...     print(*rows, "1,8,1000,0,1,4", sep=chr(10), file=file)
    >>> log = read_kuairand("log_random.csv", candidates=2)
    >>> log.actions.labels, next(log.each_batch()).propensity[0].item()
    (('7', '8'), 0.5)
    """
    check_count("candidates", candidates, 1, "the count of videos")
    rows, files = _typed_csv(path, ("user_id", "video_id"), ("is_rand", reward))
    name = name_of(files)
    ((count, random, videos),) = rows_of(
        "select count(*), count(*) filter (where is_rand = 1), "
        f"count(distinct video_id) filter (where is_rand = 1) from ({rows})",
        name,
    )
    if not random:
        raise DataError(
            f"no row of {name!r} was shown at random (is_rand = 1); read log_random_*.csv"
        )
    if videos > candidates:
        raise DataError(
            f"{name!r} has {videos} videos that were shown at random, more than the {candidates} "
            f"that they were drawn from; give their number ({argument('candidates')})"
        )
    if random < count:
        warn(
            f"{name}: {count - random:,} of {count:,} rows were not shown at random and are left "
            "out"
        )
    sql = f"select *, {1.0 / candidates!r} as propensity from ({rows}) where is_rand = 1"
    if users is not None:
        features, more = _typed_csv(users, ("user_id",))
        # The join would repeat the rows of such a user.
        repeated = rows_of(
            f"select user_id from ({features}) group by user_id having count(*) > 1 "
            "order by user_id limit 1",
            name_of(more),
        )
        if repeated:
            raise DataError(
                f"{name_of(more)!r} has user {repeated[0][0]!r} more than once, expected one row "
                "a user; remove the copies"
            )
        known = {x.casefold() for x in header_of(files[0]).names}
        added = [x for x in header_of(more[0]).names if x.casefold() not in known]
        listed = ", ".join(f"u.{quoted(x)}" for x in added)
        sql = f"select r.*, {listed} from ({sql}) r left join ({features}) u using (user_id)"
        files = [*files, *more]
    return read(
        QuerySource(sql, name, files=files),
        action="video_id",
        reward=reward,
        propensity="propensity",
        unit="user_id",
        context=context,
        reward_range=reward_range,
    )


def _files(path: Any) -> list[str]:
    """Return the files of a path, a glob, or a list of them.

    Raises:
        UsageError: for anything else.
    """
    paths = paths_of(path)
    if not paths:
        raise UsageError(f"{argument('path')} is {shown(path)}, expected the path of a file")
    return paths


def _typed_csv(path: Any, ids: Sequence[str], needed: Sequence[str] = ()) -> tuple[str, list[str]]:
    """Return the query for CSV files whose ids are text, and the files; `needed` must be there."""
    paths = _files(path)
    require_undamaged(paths)
    names = header_of(paths[0]).names
    missing = [x for x in (*ids, *needed) if x not in names]
    if missing:
        raise DataError(f"{paths[0]!r} has no column {missing[0]!r}; it has {', '.join(names)}")
    return csv_query(paths, ids, names).sql, paths


def read_criteo(
    path: str | Path | Sequence[str | Path],
    *,
    policies: Mapping[str, Callable[[Candidates], Sequence[float]]] | None = None,
) -> Log:
    """Return a log of Criteo's counterfactual data (the ad placement challenge of 2017).

    An impression is several lines with one id. The first is the product that was shown,
    `id |l label |p inverse propensity |f 0:300 1:600 ...`, with label .001 for a click and .999 for
    none; the others are candidates, `id |f ...`. Of impressions without a click a tenth is in the
    files: they have the sampling weight 10, clicks 1, so that the value of a policy is
    sum(s w R) / sum(s), as the challenge scores it.

    What it lacks: a list of actions. Candidates change from impression to impression, so that only
    policies in columns can be evaluated (`piwo.policies.Column`), with `piwo.evaluate` and
    `compare`; nothing can be learned, and the only label of the actions is "shown". No interval is
    given and nothing is certified, as the impressions that were dropped are not counted. Nothing
    says which impressions belong to one user.

    Args:
        path: path, glob, or a list of them; a name may end in .gz.
        policies: name -> a function from the features of the candidates (the one shown is the
            first) to their probabilities. "uniform" is always there.

    Returns:
        A `Log` with rewards 0 and 1, and a policy column for each policy.

    Raises:
        FileError: for files that are missing or cannot be read.
        DataError: for lines that are not of this format, and for probabilities that do not sum to
            1, with their numbers.
        UsageError: for a policy whose probabilities are not one a candidate.

    Source: Lefortier et al. 2016, "Large-scale Validation of Counterfactual Learning Methods: A
        Test-Bed"; the starter kit of the challenge.

    >>> with open("criteo.txt", "w") as file:
    ...     print("1 |l 0.001 |p 4.0 |f 0:3", "1 |f 0:5", sep=chr(10), file=file)
    ...     print("2 |l 0.999 |p 2.0 |f 0:1", "2 |f 0:2", sep=chr(10), file=file)
    >>> log = read_criteo("criteo.txt")
    >>> batch = next(log.each_batch())
    >>> batch.reward.tolist(), batch.weight.tolist(), batch.policies["uniform"].tolist()
    ([1.0, 0.0], [1.0, 10.0], [0.5, 0.5])
    """
    paths = _files(path)
    if policies is not None:
        check_kind("policies", policies, Mapping)
    functions = {"uniform": _uniform, **(policies or {})}
    impressions = _Impressions(tuple(paths), functions)
    source = spooled(impressions, impressions.columns, skipped=impressions.counts)
    if impressions.counts:
        unlabeled = impressions.counts["no label"]
        warn(f"{impressions.name}: {unlabeled} impressions have no label and are left out")
    return read(
        source,
        reward="click",
        weight="weight",
        policy_columns=list(functions),
        actions=["shown"],
    )


def _uniform(candidates: Candidates) -> list[float]:
    return [1.0 / len(candidates)] * len(candidates)


@dataclass
class _Impressions:
    """The impressions of Criteo's files, read once, by `spooled`; also their only fragment."""

    files: tuple[str, ...]
    policies: Mapping[str, Callable[[Candidates], Sequence[float]]]
    counts: Counter[str] = field(default_factory=Counter)
    start: int = 0

    @property
    def name(self) -> str:
        """The name in messages."""
        return name_of(self.files)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns."""
        return ("action", "click", "propensity", "weight", *self.policies)

    def fragments(self, columns: Sequence[str]) -> list[Fragment]:  # noqa: ARG002 (all of them)
        """Return the only fragment."""
        return [self]

    def records(self) -> Iterator[pa.RecordBatch]:
        """Yield the impressions, and raise at the end if lines broke rules."""
        faults = Faults("criteo: an impression")
        rows: list[tuple[float, ...]] = []
        for file in self.files:
            for number, block in _blocks(file):
                try:
                    row = self._row(block)
                except BrokenLineError as broken:
                    faults.add(str(broken), file, [number])
                    continue
                except RowError as wrong:
                    raise DataError(f"{file!r}, line {number}: {wrong.problem}") from None
                if row is None:
                    self.counts["no label"] += 1
                else:
                    rows.append(row)
                if len(rows) == BATCH_ROWS:
                    yield self._record(rows)
                    rows = []
        faults.refuse()
        if rows:
            yield self._record(rows)

    def _row(self, block: list[str]) -> tuple[float, ...] | None:
        """Return the numbers of an impression; None if it has no label."""
        parts = [_parts(line) for line in block]
        first = parts[0]
        if any("l" in x for x in parts[1:]):
            raise BrokenLineError("has a label on a line that is not its first")
        if "l" not in first:
            return None
        label = _number_in(first, "l")
        if label not in (_CLICK, _NO_CLICK):
            raise BrokenLineError(f"has the label {label:g}, expected .001 or .999")
        inverse = _number_in(first, "p")
        if not inverse >= 1.0:
            raise BrokenLineError(
                f"has the inverse propensity {inverse:g}, expected a number of at least 1"
            )
        candidates = [_features(x) for x in parts]
        clicked = label == _CLICK
        weight = 1.0 if clicked else 1.0 / _KEPT
        row = [float(clicked), 1.0 / inverse, weight]
        for name, policy in self.policies.items():
            chances = np.asarray(policy(candidates), np.float64)
            if chances.shape != (len(candidates),):
                raise UsageError(
                    f"policy {name!r} returned probabilities of shape {chances.shape}, expected "
                    f"({len(candidates)},), one a candidate"
                )
            checked = distributions(chances[None, :], 1, len(candidates), f"policy {name!r}")
            row.append(float(checked[0, 0]))
        return tuple(row)

    def _record(self, rows: list[tuple[float, ...]]) -> pa.RecordBatch:
        arrays = [pa.array(["shown"] * len(rows))]
        arrays += [pa.array(values, pa.float64()) for values in zip(*rows, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, names=list(self.columns))


def _blocks(path: str) -> Iterator[tuple[int, list[str]]]:
    """Yield the lines of each impression, with the number of the first."""
    block: list[str] = []
    start, current = 1, ""
    for first, lines in lines_of(path):
        for number, line in enumerate(lines, first):
            if not line.strip():
                continue
            name = line.partition("|")[0].strip()
            if block and name != current:
                yield start, block
                block = []
            if not block:
                start, current = number, name
            block.append(line)
    if block:
        yield start, block


def _parts(line: str) -> dict[str, str]:
    """Return letter -> text of the parts of a line, `|l ...`, `|p ...`, `|f ...`."""
    found: dict[str, str] = {}
    for part in line.split("|")[1:]:
        letter, _, text = part.strip().partition(" ")
        found[letter] = text
    if "f" not in found:
        raise BrokenLineError("has a line without features (|f ...)")
    return found


def _number_in(parts: Mapping[str, str], letter: str) -> float:
    try:
        return number_of(parts[letter])
    except (KeyError, ValueError):
        raise BrokenLineError(f"has no number after |{letter}") from None


def _features(parts: Mapping[str, str]) -> dict[int, float]:
    found: dict[int, float] = {}
    for word in parts["f"].split():
        name, _, value = word.partition(":")
        try:
            number_of(name)  # raises for 1_0, which int accepts
            found[int(name)] = number_of(value)
        except ValueError:
            raise BrokenLineError(f"has the feature {word[:40]!r}, expected number:value") from None
    return found
