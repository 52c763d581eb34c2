"""The log: rows of decisions, what their columns mean, and how they are read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from numbers import Real
from typing import Any, Protocol, Unpack, runtime_checkable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.checks import check_finite
from piwo.errors import DataError, UsageError, warn
from piwo.logs.actions import Actions, label_array
from piwo.logs.batch import Batch
from piwo.logs.columns import ARRAYS, Arrays, Columns, Roles, documents_roles, refuse_unknown
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding, Missing, learn_features
from piwo.logs.features import Features
from piwo.logs.hashing import key_numbers
from piwo.logs.propensity_error import PropensityErrorBound
from piwo.logs.validation import Behavior, Finding, Refused, Schema, merge_findings, validate
from piwo.messages import argument
from piwo.sources.clusters import Cluster, count_rows, distinct_values, verdicts
from piwo.sources.source import Fragment, QuerySource, Source, cut, decoded

__all__ = ["Log", "Part", "PropensityFit", "Reader", "Selector", "Split", "warn_of"]


Numbers = npt.NDArray[np.int64]


@runtime_checkable
class Selector(Protocol):
    """Chooses rows by their number, or by that of their key, alone, never by what else is in them."""

    def keep(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Return the (n,) mask of the row numbers that stay."""
        ...


@runtime_checkable
class PropensityFit(Protocol):
    """How the propensities of a log were estimated, for whoever divides it: each side's must rest on its own rows."""

    def divided(self, train: Log, test: Log) -> tuple[Log, Log]:
        """Return both sides with their propensities estimated anew, those of `train` without a look at `test`."""
        ...


@dataclass(frozen=True)
class Part:
    """One batch as it was read: the rows that stay, harmless findings, and how many rows there were to choose from."""

    batch: Batch
    findings: tuple[Finding, ...]
    rows: int


@dataclass(frozen=True)
class Reader:
    """Reads fragments of a log anywhere: what the columns mean and which rows stay."""

    schema: Schema
    selector: Selector | None = None

    def read(self, fragment: Fragment) -> Iterator[Part]:
        """Yield the validated batches of one fragment.

        Raises:
            Refused: where rows break a rule.
        """
        for whole, all_rows, numbers in self.numbered(fragment):
            record, rows = self._chosen(whole, all_rows, numbers)
            batch, findings = validate(record, self.schema, rows)
            yield Part(batch, findings, len(all_rows))

    def kept(self, fragment: Fragment) -> Iterator[pa.RecordBatch]:
        """Yield the raw rows that stay."""
        return (record for record, _ in self.records(fragment))

    def records(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers]]:
        """Yield the raw rows that stay, with their numbers in the log."""
        return (self._chosen(*whole) for whole in self.numbered(fragment))

    def _chosen(
        self, record: pa.RecordBatch, rows: Numbers, numbers: Numbers
    ) -> tuple[pa.RecordBatch, Numbers]:
        if self.selector is None:
            return record, rows
        keep = self.selector.keep(numbers)
        return record.filter(pa.array(keep)), rows[keep]

    def numbered(self, fragment: Fragment) -> Iterator[tuple[pa.RecordBatch, Numbers, Numbers]]:
        """Yield the raw rows with their numbers in the log and those by which they are chosen: the key's, if any."""
        start, key = fragment.start, self.schema.columns.key
        for record in (x for whole in fragment.records() for x in cut(whole, self._width(whole))):
            rows = np.arange(start, start + record.num_rows)
            start += record.num_rows
            by_key = key is not None and key in record.schema.names
            yield record, rows, key_numbers(record[key], str(key)) if by_key else rows

    def _width(self, record: pa.RecordBatch) -> int:
        """Return how many numbers a row of the context, and of the behavior policy, will be."""
        features = self.schema.features
        if features is None or not set(record.schema.names).issuperset(features.columns):
            return 0
        return features.width + (self.schema.count if self.schema.behavior is not None else 0)


class ReadOptions(Roles, total=False):
    """The arguments of `piwo.read` after the first."""

    actions: Sequence[Any] | Actions | None
    reward_range: tuple[float, float]
    behavior: Behavior | None
    normalize: bool
    missing: Missing
    max_levels: int
    hash_size: int
    where: str | None


@dataclass(frozen=True, repr=False)
class Log:
    """Logged decisions: context, action, reward, and the probability with which the action was taken.

    Made by `piwo.read`, `Log.from_arrays`, `Log.from_frame` or `Log.from_sql`. A log is a
    description: rows are read, validated and folded batch by batch each time something is asked of
    it, and are never all in memory (unless they were to begin with).

    Attributes:
        actions: the action list. Given explicitly, or the distinct labels of the action column,
            sorted.
        features: how context columns become a matrix; None without context.
        reward_range: the declared (lo, hi). Inside piwo rewards are (R - lo) / (hi - lo).

    >>> log = Log.from_arrays(
    ...     action=["a", "b"], reward=[0, 5], propensity=[0.5, 0.5], reward_range=(0, 5)
    ... )
    >>> log.actions.labels, [batch.reward.tolist() for batch in log.each_batch()]
    (('a', 'b'), [[0.0, 1.0]])
    """

    source: Source
    columns: Columns
    reward_range: tuple[float, float] = (0.0, 1.0)
    declared_actions: Actions | None = None
    declared_features: Features | None = None
    normalize: bool = False
    behavior: Behavior | None = None
    selector: Selector | None = None
    propensity_error: PropensityErrorBound | None = None
    encoding: Encoding = DEFAULT_ENCODING
    estimated_by: PropensityFit | None = None

    def __post_init__(self) -> None:
        try:
            good = all(isinstance(x, Real) for x in self.reward_range)
            low, high = (float(x) for x in self.reward_range)
            good = good and bool(np.isfinite(low) and low < high)
        except (TypeError, ValueError, OverflowError):
            good = False
        if not good:
            raise UsageError(
                f"{argument('reward_range')} is {self.reward_range!r}, expected (lo, hi) with finite lo < hi; hi "
                "may be inf"
            )
        if np.isfinite(high) and not np.isfinite(high - low):
            raise UsageError(
                f"{argument('reward_range')} is {self.reward_range!r}, whose width is beyond float64; rescale "
                "the reward"
            )
        if self.columns.policies and len(set(self.columns.policies)) != len(self.columns.policies):
            raise UsageError("a policy column is named twice; name each once")

    def __repr__(self) -> str:
        """Return the source and the roles in one line, without rows.

        >>> Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
        Log('the arrays', action='action', reward='reward', propensity='propensity', reward_range=(0.0, 1.0))
        """
        roles = {**self.columns.by_role(), "reward_range": tuple(self.reward_range)}
        shown = [f"{role}={value!r}" for role, value in roles.items() if value not in (None, ())]
        return f"Log({', '.join([repr(self.name), *shown])})"

    # --- making one

    @classmethod
    def of(cls, source: Source, columns: Columns, actions: Any = None, **options: Any) -> Log:
        """Return a log over a source; see `piwo.read` for the options."""
        columns = columns.resolve(source.schema.names)
        if not columns.states_propensities and options.get("behavior") is None:
            raise UsageError(
                "a log needs a propensity column, a log-propensity column, propensity vectors, or "
                f"{argument('behavior')}"
            )
        if options.get("normalize") and columns.propensities is None:
            raise UsageError(
                f"{argument('normalize', True)} divides each row of propensities by its sum, and there are none; "
                f"name their column ({argument('propensities')}), or leave normalize out"
            )
        if actions is not None and not isinstance(actions, Actions):
            actions = Actions(actions)
        return cls(source, columns, declared_actions=actions, **options)

    @classmethod
    def from_frame(cls, frame: Any, **options: Unpack[ReadOptions]) -> Log:
        """Return a log over any data frame; the arguments are those of `piwo.read`.

        >>> log = Log.from_frame(
        ...     {"item": ["a", "b"], "click": [0, 1], "p": [0.5, 0.5]},
        ...     action="item",
        ...     reward="click",
        ...     propensity="p",
        ... )
        >>> len(log)
        2
        """
        from piwo.logs.read import read

        return read(frame, **options)

    @classmethod
    def from_sql(cls, sql: str, *, connection: Any = None, **options: Unpack[ReadOptions]) -> Log:
        """Return a log over the answer to a DuckDB query, which is run again at each pass.

        Args:
            sql: any DuckDB query.
            connection: a DuckDB connection that knows the tables; None: a new one, which can read
                files.
            **options: the arguments of `piwo.read`.

        >>> log = Log.from_sql("select 'a' as action, 1 as reward, 0.5 as propensity")
        >>> log.actions.labels
        ('a',)
        """
        from piwo.logs.read import read

        if not isinstance(sql, str):
            raise UsageError(
                f"got a {type(sql).__name__}, expected the text of a query (select ...)"
            )
        return read(QuerySource(sql, connection=connection), **options)

    @classmethod
    @documents_roles(ARRAYS)
    def from_arrays(
        cls,
        *,
        action: Any,
        reward: Any,
        context: Any = None,
        policies: Mapping[str, Any] | None = None,
        actions: Any = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        behavior: Behavior | None = None,
        normalize: bool = False,
        missing: Missing = "refuse",
        max_levels: int = DEFAULT_ENCODING.max_levels,
        hash_size: int = DEFAULT_ENCODING.hash_size,
        **arrays: Unpack[Arrays],
    ) -> Log:
        """Return a log over arrays, one entry a row.

        Args:
            action: (n,) labels, text or whole numbers.
            reward: (n,) rewards.
            context: (n, d) array, or a data frame.
            policies: name -> (n,) pi(A_t | X_t) of target policies.
            actions: the action list; None: the sorted distinct labels.
            reward_range: the declared (lo, hi).
            behavior: a policy object whose `probabilities(X)` are mu(. | X).
            normalize: divide each row of `propensities` by its sum.
            missing: "refuse" rows without a context value, or "indicator"; see `piwo.read`.
            max_levels: most distinct values of a text column that is not hashed.
            hash_size: columns that a hashed text fills.
            **arrays: optional columns, by role:

        Raises:
            DataError: for columns of different lengths, pandas Series with different indexes, or
                bad values.
            UsageError: for arguments that do not exist (near names are shown).

        >>> log = Log.from_arrays(action=[0, 1], reward=[0.2, 1.0], propensity=[0.5, 0.5])
        >>> len(log), log.actions.labels
        (2, (0, 1))
        """
        from piwo.logs.read import log_of_arrays

        refuse_unknown(cls.from_arrays, arrays, ARRAYS)
        options = {
            "reward_range": reward_range,
            "behavior": behavior,
            "normalize": normalize,
            "encoding": Encoding(max_levels, hash_size, missing),
        }
        given = {"action": action, "reward": reward, **arrays}
        return log_of_arrays(given, context, policies or {}, actions, options)

    # --- what it is

    @cached_property
    def actions(self) -> Actions:
        """The action list: the declared one, or the sorted distinct labels of the log."""
        if self.declared_actions is not None:
            return self.declared_actions
        kind = self.source.schema.field(self.columns.action).type
        label_array(pa.array([], kind), self.columns.action)  # refuses types that are no labels
        seen = pc.drop_null(label_array(self._distinct(self.columns.action), self.columns.action))
        if len(seen) == 0:
            self._raise_empty_or_missing()
        return Actions(sorted(seen.to_pylist()), seen=True)

    def _raise_empty_or_missing(self) -> None:
        if len(self._distinct(self.columns.action)) == 0:
            raise DataError(f"no rows in {self.name}, expected at least one logged decision")
        raise DataError(
            f"column {self.columns.action!r} is missing in every row; the action taken must be "
            "logged"
        )

    @property
    def has_context(self) -> bool:
        """Whether there is a context; how it is encoded stays unknown."""
        return self.declared_features is not None or bool(self.columns.context)

    @cached_property
    def features(self) -> Features | None:
        """How the context is encoded; levels, and which columns have missing values, are learned in one pass."""
        if self.declared_features is not None or not self.has_context:
            return self.declared_features
        reader = Reader(self.unlabeled, self.selector)
        return learn_features(self.columns.context, self.source, reader.records, self.encoding)

    def _distinct(self, column: str) -> pa.Array:
        """Return the distinct values of a column in the rows of this log."""
        if self.selector is None:
            return self.source.distinct(column)
        reader = Reader(self.unlabeled, self.selector)
        if isinstance(self.source, Cluster):
            return distinct_values(self.source, [column, *self._choosing], reader.kept)
        parts = (
            x
            for fragment in self.source.fragments([column, *self._choosing])
            for x, _ in reader.records(fragment)
        )
        found = [decoded(pc.unique(record[column])) for record in parts]
        return (
            pc.unique(pa.chunked_array(found))
            if found
            else self.source.distinct(column).slice(0, 0)
        )

    @property
    def schema(self) -> Schema:
        """What the door needs to know."""
        return replace(self.unlabeled, actions=self.actions, features=self.features)

    @property
    def name(self) -> str:
        """How to call it in messages."""
        return self.source.name if self.selector is None else f"this part of {self.source.name}"

    @property
    def unlabeled(self) -> Schema:
        """What is known without reading: no action list, no context levels."""
        return Schema(
            self.columns,
            None,
            None,
            self.reward_range,
            self.normalize,
            self.behavior,
            self.propensity_error,
        )

    @property
    def origin(self) -> float:
        """Lo / (hi - lo): where 0 of the unit scale lies, in units of the span."""
        return self.reward_range[0] / self.span

    @property
    def span(self) -> float:
        """Hi - lo of the reward range, 1 where hi is infinite."""
        return self.unlabeled.span

    def __len__(self) -> int:
        """Return the number of rows; a pass over the log where the source cannot tell."""
        return self._rows

    @cached_property
    def _rows(self) -> int:
        if self.selector is None and self.source.rows is not None:
            return self.source.rows
        if isinstance(self.source, Cluster):
            return count_rows(
                self.source,
                [self.columns.action, *self._choosing],
                Reader(self.unlabeled, self.selector).kept,
            )
        return sum(len(batch) for batch in self.each_batch())

    # --- scale

    def value(self, unit: float) -> float:
        """Return a value on the reward's own scale: lo + (hi - lo) * unit."""
        check_finite("unit", unit)
        return self.reward_range[0] + self.span * unit

    # --- other views of the same rows

    def with_propensity_error(
        self, propensity_factor: float = 1.0, sensitivity: float = 1.0
    ) -> Log:
        """Return the same rows with propensities that may be too small: every statement allows for it, or is refused.

        Args:
            propensity_factor: the true propensity is at most this times the logged one; at least 1.
            sensitivity: Gamma: a hidden cause may have changed the odds of an action by this
                factor; at least 1.

        Returns:
            A log whose weights are made from the largest propensities allowed. Bounds on values and
            improvements made from the logged propensities stay valid; what needs full propensity
            vectors is refused.

        Raises:
            UsageError: for numbers below 1.

        >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.4])
        >>> [batch.propensity.tolist() for batch in log.with_propensity_error(1.25).each_batch()]
        [[0.625, 0.5]]
        """
        if PropensityErrorBound(propensity_factor, sensitivity).exact:
            return self
        known = PropensityErrorBound() if self.propensity_error is None else self.propensity_error
        factor, gamma = known.factor * propensity_factor, known.sensitivity * sensitivity
        return replace(self, propensity_error=replace(known, factor=factor, sensitivity=gamma))

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the probability of every action is known, and known exactly."""
        given = self.columns.propensities is not None or self.behavior is not None
        return given and (self.propensity_error is None or self.propensity_error.exact)

    @property
    def propensity_caveats(self) -> tuple[str, ...]:
        """Caveats about the propensities, to be shown with every result."""
        return () if self.propensity_error is None else self.propensity_error.notes

    @property
    def assumption(self) -> str | None:
        """What results on it take for granted of its propensities, beyond that they are as logged; or None."""
        return None if self.propensity_error is None else self.propensity_error.assumption

    def where(self, selector: Selector) -> Log:
        """Return the rows that a selector keeps; row numbers stay those of the whole log.

        What is not declared, the action list and the levels of text columns, is found out from
        these rows alone. Estimated propensities stay as they are; `split` estimates them anew on
        each side.
        """
        if self.selector is not None:
            raise UsageError("this log is already part of a split; split the whole log instead")
        return replace(self, selector=selector)

    def split(
        self, holdout: float = 0.5, seed: int = 0, min_rows: int = 1, tail: bool = False
    ) -> Split:
        """Return the log in two parts, one to learn from and one to certify with.

        Which rows are held out depends on seed and row number alone, or on seed and key where the
        log has one (`piwo.read(key=)`): not on batches, threads, files, or anything else in the
        rows. It must not depend on the actions either: what is learned would then tell which
        actions to expect among the held-out rows, and certificates would fail (docs/theory.md,
        section "A held-out split must not look at the actions"). For the same reason estimated
        propensities (`piwo.estimate_propensities`) are estimated anew on each side. Actions that
        were logged too rarely to be on both sides are named in `notes` and in a warning.

        Args:
            holdout: fraction of the rows to hold out, above 0 and below 1.
            seed: chooses the rows; choose it before seeing any result.
            min_rows: least number of rows on each side.
            tail: hold out the last rows instead, as adaptive logging needs: what is certified comes
                after what was learned from. Goes by row numbers, also where there is a key.

        Returns:
            A `Split` with `train` and `test`. Row numbers stay those of the whole log. The answer
            to a query is read into memory first, because a query may give its rows in another order
            at each pass.

        Raises:
            DataError: where a side has fewer than `min_rows` rows.
            UsageError: for a fraction that is none, a log that is already part of a split, a log in
                a cluster without a key, and a key of which values are in many rows.

        >>> log = Log.from_arrays(
        ...     action=["a", "b"] * 50, reward=[0, 1] * 50, propensity=[0.5] * 100
        ... )
        >>> parts = log.split(0.3)
        >>> len(parts.train) + len(parts.test)
        100
        """
        from piwo.logs.split import split

        return split(self, holdout, seed, min_rows, tail)

    def encoded_by(self, features: Features) -> Log:
        """Return the same rows with the context encoded as a policy's features ask.

        Raises:
            DataError: where the log lacks a column that the features need.
        """
        columns = replace(self.columns, context=features.columns)
        columns = columns.resolve(self.source.schema.names)
        return replace(
            self, columns=columns, declared_features=features, declared_actions=self.actions
        )

    # --- reading

    @property
    def _choosing(self) -> list[str]:
        """The column by which rows are chosen, where they are chosen by one."""
        return [] if self.selector is None or self.columns.key is None else [self.columns.key]

    def require_order(
        self, what: str, instead: str = "put what belongs to a row into a column of the log"
    ) -> None:
        """Raise where rows have no numbers that every pass over the log gives them.

        Args:
            what: goes by row numbers.
            instead: what to do.

        Raises:
            UsageError: for logs in clusters.
        """
        if isinstance(self.source, Cluster):
            raise UsageError(
                f"{what} goes by row numbers, and rows of {self.name} come in no fixed order; "
                f"{instead}, or read the rows from files"
            )

    def require_one_machine(self, what: str) -> None:
        """Raise where rows do not leave the machines that they lie on; asked before anything is read.

        Args:
            what: needs all rows at once.

        Raises:
            UsageError: for logs in clusters.
        """
        if isinstance(self.source, Cluster):
            raise UsageError(
                f"{what} needs all rows on one machine, and rows of {self.name} stay in the "
                "cluster; use what works on sums (evaluate, check, certify, the Ridge and "
                "Exhaustive oracles), or read a sample that fits"
            )

    def fragments(self, context: bool = False, propensities: bool = False) -> list[Fragment]:
        """Return the parts of the log; context and full propensity vectors are read only when asked for."""
        return self.source.fragments(self.wanted(context, propensities))

    def wanted(self, context: bool = False, propensities: bool = False) -> tuple[str, ...]:
        """Return the columns to read; context and full propensity vectors only when asked for."""
        columns = self.columns
        wanted = [columns.action, *columns.numbers().values(), *columns.policies]
        if (context or self.behavior is not None) and self.features is not None:
            wanted += self.features.columns
        if columns.propensities is not None and (propensities or columns.propensity is None):
            wanted.append(columns.propensities)
        wanted += self._choosing
        return tuple(dict.fromkeys(wanted))

    def reader(self, labels: bool = True, context: bool = True) -> Reader:
        """Return what a worker needs to read fragments: not the rows. What is not asked for is not found out.

        Args:
            labels: whether action codes are asked for; if not, an action list that is not declared
                stays unknown.
            context: whether the context is asked for; if not, the levels of its text columns stay
                unknown.
        """
        vectors = self.behavior is not None or self.columns.propensities is not None
        known = labels or vectors or self.declared_actions is not None
        features = self.features if context or self.behavior is not None else None
        schema = replace(self.unlabeled, actions=self.actions if known else None, features=features)
        return Reader(schema, self.selector)

    def counted(self, refused: Refused) -> DataError:
        """Return the error for a refusal, with the counts over the whole log: 3 rows then means 3 rows."""
        if self.selector is not None:  # whoever mends the log mends all of it
            return replace(self, selector=None).counted(refused)
        found: list[Finding] = []
        reader = self.reader()
        if isinstance(self.source, Cluster):
            columns = self.wanted(context=True, propensities=True)
            return DataError(
                str(
                    Refused(
                        verdicts(self.source, columns, reader.schema, reader.records)
                        or refused.findings
                    )
                )
            )
        for fragment in self.fragments(context=True, propensities=True):
            for record, rows in reader.records(fragment):
                try:
                    validate(record, reader.schema, rows)
                except Refused as more:
                    found += more.findings
        return DataError(str(Refused(merge_findings(found) or refused.findings)))

    def passed(self, rows: int) -> None:
        """Take note of how many rows a whole pass had.

        Args:
            rows: of this log, without those that a selector leaves out.

        Raises:
            DataError: where an earlier pass had another number of rows: what several passes say
                together, such as a policy and its certificate, would be about different rows.
        """
        before = vars(self).setdefault("_rows_passed", rows)
        if before != rows:
            raise DataError(
                f"{self.name} had {before} rows at one pass and {rows} at another, expected the "
                "same rows every time; write the rows to a file once, or read when nothing writes "
                "there"
            )

    def each_batch(self, context: bool = False, propensities: bool = False) -> Iterator[Batch]:
        """Yield the validated batches in order, in this thread; harmless findings become one warning."""
        return self._batches(self.fragments(context, propensities), self.reader(context=context))

    def first_batch(self, context: bool = False) -> Batch | None:
        """Return a few validated rows, the first ones where there is an order; None of a log without rows."""
        if not isinstance(self.source, Cluster):
            return next(self.each_batch(context), None)
        reader = replace(self.reader(context=context), selector=None)
        return next(self._batches([self.source.head(self.wanted(context))], reader), None)

    def _batches(self, fragments: Sequence[Fragment], reader: Reader) -> Iterator[Batch]:
        notes: list[Finding] = []
        for fragment in fragments:
            try:
                for part in reader.read(fragment):
                    notes += part.findings
                    if len(part.batch):
                        yield part.batch
            except Refused as refused:
                raise self.counted(refused) from None
        warn_of(notes)


@dataclass(frozen=True)
class Split:
    """Two parts of one log. `notes` says what its user must know, such as actions that only one part has.

    >>> log = Log.from_arrays(action=["a", "b"] * 50, reward=[0, 1] * 50, propensity=[0.5] * 100)
    >>> parts = log.split(holdout=0.3, seed=1)
    >>> parts.train_rows + parts.test_rows
    100
    """

    train: Log
    test: Log
    train_rows: int
    test_rows: int
    notes: tuple[str, ...] = ()


def warn_of(findings: Sequence[Finding]) -> None:
    """Issue one warning a rule for harmless findings, with its count."""
    for finding in merge_findings(findings):
        warn(str(finding), kind=f"{finding.column}: {finding.rule}")
