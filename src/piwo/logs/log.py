"""The log: rows of decisions, the meaning of their columns, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal, Unpack

import numpy as np

from piwo.checks import a_kind, check_finite
from piwo.engines.engine import fold
from piwo.errors import DataError, UsageError, warn
from piwo.logs.action_costs import ActionCosts
from piwo.logs.actions import Actions, by_dictionary
from piwo.logs.batch import Batch
from piwo.logs.column_names import refuse_unknown
from piwo.logs.columns import ARRAYS, Arrays, Columns
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding, Missing, learn_features
from piwo.logs.features import Features
from piwo.logs.findings import Finding, Refused, in_lines
from piwo.logs.first_pass import validated, with_unread
from piwo.logs.log_text import log_text
from piwo.logs.options import Logger, ReadOptions, check_logger, check_reward_range, check_roles
from piwo.logs.periods import Splitting
from piwo.logs.propensity_error import PropensityErrorBound
from piwo.logs.provable import approximate, caveats_of_rows, unprovable
from piwo.logs.reader import (
    CountRows,
    FindRefused,
    Reader,
    Selector,
    learn_actions,
    warn_of,
)
from piwo.logs.role_docs import documents_roles
from piwo.logs.split import (
    CountSides,
    HeldOut,
    SampleKeys,
    Split,
    at_random,
    check_split,
    require_unique,
)
from piwo.logs.times import start_of_tail
from piwo.logs.units import by_unit
from piwo.logs.validation import Behavior, Schema
from piwo.messages import Note, argument
from piwo.sources.clusters import Cluster
from piwo.sources.query import QuerySource
from piwo.sources.source import Fragment, Source
from piwo.sources.spool import spooled

__all__ = ["Log"]


@dataclass(frozen=True, repr=False)
class Log:
    """Logged decisions: context, action, reward, and the probability of the action.

    Made by `piwo.read`, `Log.from_arrays`, `Log.from_frame` or `Log.from_sql`. A log is a
    description: each computation reads and validates the rows again, batch by batch. They are never
    all in memory, unless the source is in memory.

    Attributes:
        actions: the action list: the declared one, or the sorted distinct labels of the action
            column.
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
    grouped: dict[tuple[int, bool], Source] = field(default_factory=dict, compare=False)
    """id of a source, and whether the unit is context -> its rows by unit; see `source_by_unit`."""
    chosen_by: tuple[str, ...] = ()
    """The decision's own columns that the condition of `piwo.read` mentions: rows were chosen by
    what was done or earned."""
    logger: Logger | None = None
    """Whether the system that wrote the log was fixed, or learned from earlier rows of it; None:
    not declared."""
    logger_changed: tuple[int, int] | None = None
    """Why a logger of which nothing was declared counts as learning: how many (context, action) had
    several propensities, of how many. None: it does not."""
    unverified: bool = False
    """Whether DuckDB read files for a query of the user's, and compared no checksums."""
    action_costs: ActionCosts | None = None
    """Subtracted from the rewards; `reward_range` is that of net rewards."""
    segments: Splitting | None = None
    """By which results are split; None: they are not."""
    reestimated: Callable[[Log, Log], tuple[Log, Log]] | None = None
    """Returns the sides of a split, learned from and held out, each with propensities estimated
    from its own rows; None if the propensities were logged."""
    frames: str | None = field(default=None, compare=False)
    """The library of the data frame that it was read from, "pandas" or "polars", as which results
    are given; None: it was none."""

    def __post_init__(self) -> None:
        check_reward_range(self.reward_range)
        check_logger(self.logger)
        policies = self.columns.policies
        if len(set(policies)) != len(policies):
            raise UsageError(
                f"{argument('policy_columns')} names a column twice; name each column once"
            )

    def __repr__(self) -> str:
        """Return the source, the roles and the reward range, a line each; reads no rows.

        >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
        >>> log
        Log of 'the arrays': 2 rows, actions not counted yet
          columns: action='action', reward='reward', propensity='propensity'
          rewards in [0, 1], logger not declared
        """
        # What a pass found is kept under the name of its property; no pass is made here.
        rows = vars(self).get("_rows")
        if rows is None and self.selector is None:
            rows = self.source.rows
        actions = vars(self).get("actions", self.declared_actions)
        return log_text(self.name, rows, actions, self.columns, self.reward_range, self.logger)

    # --- making one

    @classmethod
    def of(
        cls,
        source: Source,
        columns: Columns,
        actions: Any = None,
        **options: Any,
    ) -> Log:
        """Return a log over a source; see `piwo.read` for the options."""
        columns = columns.resolve(source.schema.names)
        check_roles(columns, options)
        if actions is not None and not isinstance(actions, Actions):
            actions = Actions(actions)
        unverified = getattr(source, "unverified", False)
        return cls(source, columns, declared_actions=actions, unverified=unverified, **options)

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
    def from_sql(
        cls,
        sql: str,
        *,
        connection: Any = None,
        **options: Unpack[ReadOptions],
    ) -> Log:
        """Return a log over the result of a DuckDB query, which is run again at each pass.

        Args:
            sql: any DuckDB query.
            connection: a DuckDB connection with the tables; None: a new one, which can read files.
            **options: the arguments of `piwo.read`.

        >>> log = Log.from_sql("select 'a' as action, 1 as reward, 0.5 as propensity")
        >>> log.actions.labels
        ('a',)
        """
        from piwo.logs.read import read

        if not isinstance(sql, str):
            raise UsageError(f"got {a_kind(sql)}, expected the text of a query (select ...)")
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
        outcomes: Mapping[str, Any] | None = None,
        segments: Mapping[str, Any] | None = None,
        actions: Any = None,
        items: Any = None,
        items_label: str | None = None,
        reward_range: tuple[float, float] = (0.0, 1.0),
        behavior: Behavior | None = None,
        normalize: bool = False,
        missing: Missing = "refuse",
        max_levels: int = DEFAULT_ENCODING.max_levels,
        hash_size: int = DEFAULT_ENCODING.hash_size,
        logger: Logger | None = None,
        **arrays: Unpack[Arrays],
    ) -> Log:
        """Return a log over arrays, one entry a row.

        Args:
            action: (n,) labels, text or whole numbers.
            reward: (n,) rewards.
            context: (n, d) array, or a data frame.
            policies: name -> (n,) pi(A_t | X_t) of target policies.
            outcomes: name -> (n,) other outcomes, for guardrails.
            segments: name -> (n,) values that results can be split by.
            actions: the action list; None: the sorted distinct labels.
            items: features of the actions; see `piwo.read`.
            items_label: their column of labels; None: "action".
            reward_range: the declared (lo, hi).
            behavior: a policy object whose `probabilities(X)` are mu(. | X).
            normalize: divide each row of `propensities` by its sum.
            missing: "refuse" rows without a context value, or "indicator"; see `piwo.read`.
            max_levels: most distinct values of a text column that is not hashed.
            hash_size: columns that a hashed text fills.
            logger: whether the behavior policy was fixed or learning; see `piwo.read`.
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
            "logger": logger,
        }
        given = {"action": action, "reward": reward, **arrays}
        named = (policies or {}, outcomes or {}, segments or {})
        return log_of_arrays(given, context, *named, actions, (items, items_label), options)

    # --- what it is

    @cached_property
    def actions(self) -> Actions:
        """The action list: the declared one, or the sorted distinct labels of the log.

        Those of objects {label: propensity} count, too.
        """
        if self.declared_actions is not None:
            return self.declared_actions
        reader, also = self._unlabeled_reader, self._choosing
        return learn_actions(self.columns, self.source, reader, also, self.name)

    @property
    def has_context(self) -> bool:
        """Whether there is a context; this does not look at the rows."""
        return self.declared_features is not None or bool(self.columns.context)

    @cached_property
    def features(self) -> Features | None:
        """How the context is encoded; one pass finds its levels and missing values."""
        if self.declared_features is not None or not self.has_context:
            return self.declared_features
        reader, also = self._unlabeled_reader, self._choosing
        names, encoding = self.columns.context, self.encoding
        return learn_features(names, self.source, reader, encoding, also)

    @property
    def schema(self) -> Schema:
        """What validation needs: roles, action list, encoding, reward range."""
        return replace(self.unlabeled, actions=self.actions, features=self.features)

    @property
    def name(self) -> str:
        """The name of the log in messages."""
        if self.selector is None:
            return self.source.name
        return f"this part of {self.source.name}"

    @property
    def unlabeled(self) -> Schema:
        """The schema before any pass: no action list, no context levels."""
        return Schema(
            self.columns,
            actions=None,
            reward_range=self.reward_range,
            normalize=self.normalize,
            behavior=self.behavior,
            propensity_error=self.propensity_error,
            costs=self.action_costs,
            segments=self.segments,
        )

    @property
    def origin(self) -> float:
        """The quotient lo / (hi - lo): where 0 of the unit scale is, in units of the span."""
        return self.reward_range[0] / self.span

    @property
    def span(self) -> float:
        """The width hi - lo of the reward range, 1 if hi is infinite."""
        return self.unlabeled.span

    def __len__(self) -> int:
        """Return the number of rows; takes a pass if the source does not know it."""
        return self._rows

    @cached_property
    def _rows(self) -> int:
        if self.selector is None and self.source.rows is not None:
            return self.source.rows
        columns = [self.columns.action, *self._choosing]
        return fold(self.source, columns, CountRows(self._unlabeled_reader))

    # --- scale

    def value(self, unit: float) -> float:
        """Return a value on the reward's own scale: lo + (hi - lo) * unit."""
        check_finite("unit", unit)
        return self.reward_range[0] + self.span * unit

    # --- other views of the same rows

    def with_propensity_error(
        self, propensity_factor: float = 1.0, sensitivity: float = 1.0
    ) -> Log:
        """Return the same rows, with bounds that allow for propensities that are too small.

        Args:
            propensity_factor: the true propensity is at most this times the logged one; at least 1.
            sensitivity: Gamma, the largest factor by which a hidden cause changed the odds of an
                action; at least 1.

        Returns:
            A log whose weights are computed from the largest possible propensities. Bounds on
            values and improvements hold for all propensities within these limits; methods that
            need full propensity vectors raise an error.

        Raises:
            UsageError: for numbers below 1.

        >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.4])
        >>> [batch.propensity.tolist() for batch in log.with_propensity_error(1.25).each_batch()]
        [[0.625, 0.5]]
        """
        if PropensityErrorBound(propensity_factor, sensitivity).exact:
            return self
        # Factors of several calls multiply.
        known = self.propensity_error or PropensityErrorBound()
        error = replace(
            known,
            factor=known.factor * propensity_factor,
            sensitivity=known.sensitivity * sensitivity,
        )
        return replace(self, propensity_error=error)

    def with_action_cost(
        self, costs: Mapping[Any, float] | str, cost_range: tuple[float, float] | None = None
    ) -> Log:
        """Return the same rows with net rewards: the reward less the cost of its action.

        Every statistic, score and learner then sees net rewards; values, bounds and improvements
        are net of costs. Formula and proof: `piwo.logs.ActionCosts`.

        Args:
            costs: label -> cost, in the reward's unit, for every action of the log; or the name of
                a column with what the action of each row cost.
            cost_range: the declared (lo, hi) of such a column; None: (0, 1). Rows outside it are
                refused.

        Returns:
            A log whose `reward_range` is [lo - max c, hi - min c].

        Raises:
            DataError: for a column that does not exist.
            UsageError: for actions without a cost, for costs that are not finite, and for a column
                that has another role.

        >>> log = Log.from_arrays(action=["a", "b"], reward=[0, 1], propensity=[0.5, 0.5])
        >>> net = log.with_action_cost({"a": 0.0, "b": 0.25})
        >>> net.reward_range, (net.span * next(net.each_batch()).reward - 0.25).tolist()
        ((-0.25, 1.0), [0.0, 0.75])
        """
        if self.action_costs is not None:
            raise UsageError(
                f"the log is net of action costs already; give {argument('action_cost')} once"
            )
        known = ActionCosts.of(costs, self.reward_range, cost_range)
        if known.column is None and self.declared_actions is not None:
            known.of_actions(self.declared_actions)
        columns = self.columns
        if known.column is not None:
            names = self.source.schema.names
            columns = replace(columns, action_cost=known.column).resolve(names)
        return replace(self, columns=columns, action_costs=known, reward_range=known.net_range)

    @property
    def gives_full_distribution(self) -> bool:
        """Whether the probability of every action is known exactly."""
        # Those of eligible actions are kept by pair, and are no full vectors.
        return self.gives_every_propensity and self.columns.eligible is None

    @property
    def gives_every_propensity(self) -> bool:
        """Whether the probability of every action is known exactly, or of every eligible one."""
        given = self.columns.propensities is not None or self.behavior is not None
        return given and (self.propensity_error is None or self.propensity_error.exact)

    @property
    def propensities_are_logged(self) -> bool:
        """Whether the propensities are those of the logger, and neither estimated nor computed."""
        estimated = self.propensity_error is not None and self.propensity_error.estimated
        return self.behavior is None and not estimated

    @property
    def propensity_caveats(self) -> tuple[str, ...]:
        """Caveats about the propensities, to be shown with every result."""
        if self.propensity_error is None:
            return ()
        return self.propensity_error.notes

    @cached_property
    def caveats(self) -> tuple[Note, ...]:
        """Caveats about how the rows were read, to be shown with every result."""
        return caveats_of_rows(self.action_costs, self.unverified, self.columns, self.source.schema)

    @property
    def approximate_caveats(self) -> tuple[Note, ...]:
        """Caveats to be shown with every result that is an approximation for independent rows.

        Those of the propensities are not among them, as a reward model may not use propensities.
        """
        return (*approximate(self.columns, self.logger, self.chosen_by), *self.caveats)

    @property
    def assumption(self) -> str | None:
        """What results assume about the propensities besides correct logging; None: nothing."""
        if self.propensity_error is None:
            return None
        return self.propensity_error.assumption

    @property
    def unprovable(self) -> Note | None:
        """Why nothing can be proved from these rows, whichever policy; None if it can."""
        random = at_random(self.selector)
        return unprovable(self.columns, self.logger, self.chosen_by, at_random=random)

    def require_unique_keys(self) -> None:
        """Raise if many rows share a key, of a log that has one; looked at once.

        Raises:
            UsageError: with the share of rows that repeat a key.
        """
        # A split has looked at the keys of its parts.
        known = self.selector is not None or "_keys_are_unique" in vars(self)
        if self.columns.key is None or known:
            return
        sample = fold(self.source, [self.columns.key], SampleKeys(self._unlabeled_reader))
        require_unique(self.columns.key, sample.rows)
        vars(self)["_keys_are_unique"] = True

    def require_provable(self, what: str) -> None:
        """Raise if nothing can be proved from these rows.

        Args:
            what: what cannot be given, in words.

        Raises:
            UsageError: with the reason.
        """
        why = self.unprovable
        if why is not None:
            raise UsageError(f"{why.template}; {what}")

    def where(self, selector: Selector) -> Log:
        """Return the rows of a selector; row numbers stay those of the whole log.

        An action list and levels of text columns that are not declared are learned from these rows
        alone. Estimated propensities stay as they are; `split` estimates them anew on each side.
        """
        if self.selector is not None:
            raise UsageError("this log is already part of a split; split the whole log instead")
        return replace(self, selector=selector)

    def split(
        self, holdout: float = 0.5, seed: int = 0, min_rows: int = 1, tail: bool = False
    ) -> Split[Log]:
        """Return the log in two parts, one to learn from and one to certify with.

        Which rows are held out depends on seed and row number alone, or on seed and key if the log
        has one (`piwo.read(key=)`): not on batches, threads, files, or other contents of the rows.
        It must not depend on the actions: the rows to learn from would then reveal which actions
        are among the held-out rows, and certificates would be invalid (docs/theory.md, section "A
        held-out split must not look at the actions"). For the same reason estimated propensities
        (`piwo.estimate_propensities`) are estimated anew on each side. Actions that were logged too
        rarely to be on both sides are listed in `notes` and in a warning.

        Args:
            holdout: fraction of the rows to hold out, above 0 and below 1.
            seed: chooses the rows; choose it before seeing any result.
            min_rows: least number of rows on each side.
            tail: hold out the last rows instead, as adaptive logging needs: the certified rows come
                after the rows to learn from, in the order of the column of times, or else of the
                rows, even if there is a key. True for a log with `logger="learning"`.

        Returns:
            A `Split` with `train` and `test`. Row numbers stay those of the whole log. The result
            of a query is stored first, because a query may give its rows in another order at each
            pass.

        Raises:
            DataError: if a side has fewer than `min_rows` rows.
            UsageError: for a fraction outside (0, 1), a log that is already part of a split, a log
                in a cluster without a key, and a key whose values are in many rows.

        >>> log = Log.from_arrays(
        ...     action=["a", "b"] * 50, reward=[0, 1] * 50, propensity=[0.5] * 100
        ... )
        >>> parts = log.split(0.3)
        >>> len(parts.train) + len(parts.test)
        100
        """
        check_split(holdout, seed, min_rows, tail)
        tail = tail or self.logger == "learning"
        if self.selector is not None:
            raise UsageError("this log is already part of a split; split the whole log instead")
        log = self.in_fixed_order(tail)
        cut = None
        if tail and log.columns.time is not None:
            cut = start_of_tail(log.source, log.unlabeled, holdout)
        elif tail:
            cut = len(log) - int(np.floor(holdout * len(log)))
        held_out = HeldOut(float(holdout), seed, cut)
        columns = [log.columns.action]
        if log.columns.numbering is not None:
            columns.append(log.columns.numbering)
        reader = Reader(replace(log.unlabeled, actions=log.actions))
        tally = fold(log.source, columns, CountSides(reader, held_out))
        train_rows, test_rows = tally.require_sides(log.columns.key, min_rows)
        notes = tally.one_sided(log.actions)
        for note in notes:
            warn(note)
        # Learning may depend on the rows to learn from alone: the action list and levels
        # of `train` come from these rows, the action list of `test` from the whole log.
        train = log.where(replace(held_out, test=False))
        test = replace(log.where(held_out), declared_actions=log.actions)
        if log.reestimated is not None:
            # Propensities estimated from all rows depend on the held-out actions.
            train, test = log.reestimated(train, test)
        return Split(train, test, train_rows, test_rows, notes)

    def in_fixed_order(self, tail: bool = False) -> Log:
        """Return the same rows with row numbers, or keys, that are the same at every pass.

        Args:
            tail: whether they must also be in the order of time.
        """
        columns = self.columns.splitting(tail)
        log = replace(self, columns=columns)
        if columns.numbering is None and tail:
            self.require_order(
                "the last part of a log", f"name the column of times ({argument('time')})"
            )
        elif columns.numbering is None:
            self.require_order(
                "a held-out split",
                f"name a column with another value in every row ({argument('key')})",
            )
        if log.source.steady or log.in_cluster:
            return log
        return replace(log, source=spooled(log.source, log.columns.used()))

    def encoded_by(self, features: Features) -> Log:
        """Return the same rows with the context encoded by a policy's features.

        Raises:
            DataError: if the log lacks a column that the features need.
        """
        typed = self.typed_by(features)
        columns = replace(self.columns, context=features.columns)
        columns = columns.resolve(typed.source.schema.names)
        return replace(
            typed, columns=columns, declared_features=features, declared_actions=self.actions
        )

    def typed_by(self, features: Features) -> Log:
        """Return the same rows, columns of text files read as numbers or text as a policy has them.

        Raises:
            DataError: for a column that holds text where the policy has numbers.
        """
        if not isinstance(self.source, QuerySource):
            return self
        source = self.source.with_types(features.types)
        if source is self.source:
            return self
        return replace(self, source=source)

    # --- reading

    @property
    def _choosing(self) -> list[str]:
        """The column of times, units or keys, if rows are selected by these."""
        if self.selector is None or self.columns.numbering is None:
            return []
        return [self.columns.numbering]

    @property
    def _unlabeled_reader(self) -> Reader:
        """A reader of raw rows, without an action list and context levels."""
        return Reader(self.unlabeled, self.selector)

    @property
    def in_cluster(self) -> bool:
        """Whether the rows are in a cluster: they do not leave it, and have no fixed order."""
        return isinstance(self.source, Cluster)

    def require_order(
        self,
        what: str,
        instead: str = "put what belongs to a row into a column of the log",
    ) -> None:
        """Raise unless rows have the same numbers at every pass over the log.

        Args:
            what: the caller in words, which uses row numbers.
            instead: the advice.

        Raises:
            UsageError: for logs in clusters.
        """
        if self.in_cluster:
            raise UsageError(
                f"{what} uses row numbers, and rows of {self.name} come in no fixed "
                f"order; {instead}, or read the rows from files"
            )

    def require_one_machine(self, what: str) -> None:
        """Raise if the rows stay in a cluster; called before anything is read.

        Args:
            what: the caller in words, which needs all rows at once.

        Raises:
            UsageError: for logs in clusters.
        """
        if self.in_cluster:
            raise UsageError(
                f"{what} needs all rows on one machine, and rows of {self.name} stay "
                "in the cluster; use what works on sums (evaluate, check, certify, "
                "the Ridge and Exhaustive oracles), or read a sample that fits"
            )

    @property
    def source_by_unit(self) -> Source:
        """The source for passes that validate rows: units are whole, if the log declares them.

        Text labels of Parquet files are read as dictionaries.
        """
        unit = self.columns.unit
        source = by_dictionary(self.source, self.columns.action, self.columns.eligible)
        if unit is None:
            return source
        split = self.segments is not None and self.segments.column == unit
        key = (id(self.source), split or unit in self.columns.context)
        if key not in self.grouped:
            self.grouped[key] = by_unit(source, unit, kept=key[1])
        return self.grouped[key]

    def fragments(self, context: bool = False, propensities: bool = False) -> list[Fragment]:
        """Return the parts of the log; context and propensity vectors only if asked for."""
        return self.source_by_unit.fragments(self.wanted(context, propensities))

    def wanted(
        self,
        context: bool = False,
        propensities: bool = False,
        placing: Literal["hash", "time"] | None = None,
    ) -> tuple[str, ...]:
        """Return the columns to read; all but actions, rewards and such only when asked for.

        Args:
            context: whether the context is needed.
            propensities: whether full propensity vectors are needed.
            placing: by what rows are put into blocks, which takes the column of keys or of times.
        """
        names: tuple[str, ...] | None = None
        if context or self.behavior is not None:
            names = () if self.features is None else self.features.columns
        chosen = list(self._choosing)
        if self.segments is not None:
            chosen.append(self.segments.column)
        return self.columns.wanted(names, propensities, chosen, placing)

    def reader(self, labels: bool = True, context: bool = True) -> Reader:
        """Return what a worker needs to read fragments; only what is asked for takes a pass.

        Args:
            labels: whether action codes are needed; if not, an action list that is not declared
                stays unknown.
            context: whether the context is needed; if not, the levels of its text columns stay
                unknown.
        """
        schema = self.unlabeled
        # Propensity vectors are in the order of the action list.
        vectors = self.behavior is not None or self.columns.propensities is not None
        costs = self.action_costs
        listed = self.declared_actions is not None or (costs is not None and costs.column is None)
        if labels or vectors or listed:
            schema = replace(schema, actions=self.actions)
        # A behavior policy computes propensities from the context.
        if context or self.behavior is not None:
            schema = replace(schema, features=self.features)
        if self.behavior is not None and hasattr(self.behavior, "onto"):
            # a policy has a list of its own, perhaps in another order
            schema = replace(schema, behavior=self.behavior.onto(self.actions))
        return Reader(schema, self.selector, by_unit=self.columns.unit is not None)

    def counted(self, refused: Refused) -> DataError:
        """Return the error for a refusal, with counts over the whole log."""
        if self.selector is not None:
            # The user has to correct the whole log, not only this part.
            return replace(self, selector=None).counted(refused)
        columns = self.wanted(context=True, propensities=True)
        found = fold(self.source, columns, FindRefused(replace(self.reader(), by_unit=False)))
        every = Refused(in_lines(found or refused.findings, self.source))
        wrong = DataError(str(every))
        wrong.kinds = every.kinds
        return wrong

    def passed(self, rows: int) -> None:
        """Record the number of rows of a whole pass, and compare it with earlier passes.

        Args:
            rows: the number of selected rows.

        Raises:
            DataError: if an earlier pass had another number of rows: results of several passes,
                such as a policy and its certificate, would be about different rows.
        """
        # Kept in the instance like a cached property; the dataclass itself is frozen.
        before = vars(self).setdefault("_rows_passed", rows)
        if before != rows:
            raise DataError(
                f"{self.name} had {before:,} rows at one pass and {rows:,} at another, "
                "expected the same rows every time; write the rows to a file once, "
                "or read when nothing writes there"
            )

    def each_batch(
        self,
        context: bool = False,
        propensities: bool = False,
        placing: Literal["hash", "time"] | None = None,
    ) -> Iterator[Batch]:
        """Yield the validated batches in order, in this thread; warn of harmless findings."""
        names = with_unread(self, self.wanted(context, propensities, placing))
        yield from self._batches(self.source_by_unit.fragments(names), self.reader(context=context))
        validated(self)

    def first_batch(self, context: bool = False) -> Batch | None:
        """Return a few validated rows, the first ones if rows are ordered; None without rows."""
        if not isinstance(self.source, Cluster):
            return next(self.each_batch(context), None)
        # A selection could leave none of these few rows.
        head = self.source.head(self.wanted(context))
        reader = replace(self.reader(context=context), selector=None)
        return next(self._batches([head], reader), None)

    def _batches(
        self,
        fragments: Sequence[Fragment],
        reader: Reader,
    ) -> Iterator[Batch]:
        notes: list[Finding] = []
        for fragment in fragments:
            try:
                for batch, findings in reader.read(fragment):
                    notes += findings
                    if len(batch):
                        yield batch
            except Refused as refused:
                raise self.counted(refused) from None
        warn_of(notes)
