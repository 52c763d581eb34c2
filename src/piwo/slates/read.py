"""Read logs of slates: columns of a table, or Vowpal Wabbit's files, which state what they hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from piwo.checks import check_count, check_kind, check_listed
from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.column_names import match_names
from piwo.logs.columns import Columns
from piwo.logs.options import Logger, check_logger, check_reward_range
from piwo.logs.source_of import paths_of, slates_of, source_of
from piwo.messages import argument
from piwo.slates.log import SlateLog, alpha_of
from piwo.slates.policies import Factored, FromColumns, Uniform
from piwo.slates.policy import SlatePolicy
from piwo.slates.validation import SlateColumns
from piwo.slates.vowpal_wabbit import read_dsjson, read_vw
from piwo.sources.filters import condition, mentioned
from piwo.sources.lazy import column_names, is_lazy
from piwo.sources.paths import kind_of
from piwo.sources.source import Source

__all__ = ["read"]


def read(
    source: Any,
    *,
    slate: str = "slate",
    eligible: str | None = None,
    reward: str | None = None,
    rewards: str | None = None,
    propensities: str | None = None,
    marginals: str | None = None,
    slate_propensity: str | None = None,
    independent: bool = False,
    behavior: SlatePolicy | None = None,
    position_weights: Sequence[float] | None = None,
    user_behavior: str | None = None,
    context: Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    slots: int | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    where: str | None = None,
    logger: Logger | None = None,
    unit: str | None = None,
    weight: str | None = None,
    items_label: str | None = None,
) -> SlateLog:
    """Return a log of slates: one row is one decision, with the list of the actions it showed.

    Slates may differ in length. Rows are validated whenever they are read; nothing is filled,
    clipped or dropped. What was logged of the logger decides which estimators can be used:
    `propensities` all but "independent", `marginals` that one, `slate_propensity` "standard".

    Args:
        source: Parquet or JSON files (a path, a glob, a list), a data frame, a DuckDB query (such
            as "select * from read_parquet('log/*.parquet')"), or a `Source`. Or files of Vowpal
            Wabbit with ccb or slates (.vw, .dsjson), which state the roles: see `read_dsjson` and
            `read_vw`.
        slate: list column: the labels of the shown actions, the first slot first.
        eligible: list column: the labels that could be shown in the row, in any slot, if they
            change from row to row; or a list for each slot. Policies are restricted to them.
        reward: the reward of the whole slate; or
        rewards: list column: the reward of each slot.
        propensities: list column: the logger's probability of each shown action given the context
            and the actions above it. Their product is the probability of the slate.
        marginals: list column: the logger's probability of each shown action in its slot given the
            context, whatever is above it.
        slate_propensity: the logger's probability of the whole slate.
        independent: whether the logger drew the slots independently given the context, so that
            `propensities` and `marginals` are the same.
        behavior: the logger as an object, instead of columns: `slates.Uniform(items)` for uniform
            rankings, or `slates.Factored`.
        position_weights: alpha_l >= 0 of the slots: the value of a slate is sum_l alpha_l r_l.
            None: 1 each.
        user_behavior: column of "standard", "cascade" or "independent": what the reward of a slot
            depends on in this row, for the estimator "adaptive".
        context: names or globs of context columns, for `slates.learn`.
        actions: the action list; None: the sorted distinct labels.
        slots: L, the most slots of a slate; None: a pass finds it.
        reward_range: (0, hi), the declared range of a reward, of the slate or of a slot.
        where: an SQL condition on any columns that are known before the decision.
        logger: "learning" if the logger learned from earlier rows; "fixed" if not.
        unit: column of units (users, sessions) whose rows depend on each other: statistics and
            splits are then by unit, and each unit counts the same.
        weight: column of sampling weights, for a thinned log: 1 / (rate at which rows were kept).
            Values are weighted means; nothing is proved, as the dropped rows are not counted.
        items_label: of files of Vowpal Wabbit: what in an action is its label, such as "id".

    Returns:
        A `SlateLog`.

    Raises:
        DataError: for columns that do not exist or do not hold lists.
        UsageError: for arguments that exclude each other.

    >>> log = read(
    ...     {"slate": [["a", "b"], ["b"]], "rs": [[1, 0], [1]], "ps": [[0.5, 1.0], [0.5]]},
    ...     rewards="rs",
    ...     propensities="ps",
    ... )
    >>> log.slots, log.actions.labels, len(log)
    (2, ('a', 'b'), 2)
    """
    named: dict[str, Any] = {"reward": reward, "rewards": rewards, "propensities": propensities}
    named |= {"marginals": marginals, "slate_propensity": slate_propensity, "behavior": behavior}
    named |= {"user_behavior": user_behavior, "unit": unit, "weight": weight, "where": where}
    named |= {"eligible": eligible}
    named |= {"slate": None if slate == "slate" else slate, "independent": independent or None}
    stated = _stated(source, {**named, "slots": slots}, items_label, slate)
    if stated is not None:
        paths, reader = stated
        return reader(
            paths,
            context=context,
            actions=actions,
            reward_range=reward_range,
            position_weights=position_weights,
            logger=logger,
            items_label=items_label,
        )
    context = _checked_names(context, {**named, "slate": slate})
    _check_rewards(reward, rewards)
    largest = _largest(reward_range)
    check_logger(logger)
    given = (propensities, marginals, slate_propensity)
    behavior = _logger_of(behavior, given, independent)
    if unit is not None and weight is not None:
        raise UsageError(
            f"{argument('unit')} and {argument('weight')} exclude each other: of a thinned log it "
            "is unknown which rows of a unit were dropped; name one of them"
        )
    plain = SlateColumns(slate, reward, rewards, tuple(context), user_behavior, unit, weight)
    if eligible in {*plain.used(), *behavior.numbers}:
        raise UsageError(
            f"column {eligible!r} has another role, and cannot be {argument('eligible')}; name the "
            "lists of what could be shown"
        )
    plain = replace(plain, eligible=eligible)
    made = _source(source, plain, behavior, where)
    # globs leave out what was decided or earned
    decided = {*replace(plain, context=()).used(), *behavior.numbers}
    for name in decided.intersection(context):
        raise UsageError(f"column {name!r} has another role, and cannot be context; name others")
    free = [name for name in made.schema.names if name not in decided]
    columns = replace(plain, context=match_names(context, free, "context"))
    log = SlateLog(
        source=made,
        columns=columns,
        logger=behavior,
        largest=largest,
        alpha=alpha_of(position_weights),
        declared_actions=None if actions is None else Actions(_labels(actions)),
        declared_slots=slots,
        learning=logger,
    )
    if slots is not None:
        check_count("slots", slots, 1, "the most slots of a slate")
    log.check_types()
    return log


def _stated(
    source: Any, given: Mapping[str, Any], items_label: str | None, slate: str
) -> tuple[list[str], Callable[..., SlateLog]] | None:
    """Return the files and the reader of a log of Vowpal Wabbit; None for any other.

    Raises:
        UsageError: if a role is given that every line states, and for labels in the items of
            another log.
    """
    paths = paths_of(source)
    kind = None if paths is None else kind_of(paths, "slates", slate)
    if paths is None or kind not in {"dsjson", "vw"}:
        if items_label is not None:
            raise UsageError(
                f"{argument('items_label')} names what in an action of Vowpal Wabbit's files is "
                f"its label, and the labels of this log are in {argument('slate')}; leave it out"
            )
        return None
    if any(value is not None for value in given.values()):
        takes = ("context", "actions", "items_label", "reward_range", "position_weights", "logger")
        raise UsageError(
            f"{paths[0]!r} is a {kind} log, whose lines state slates, costs and probabilities; "
            f"give at most {', '.join(map(argument, takes))}"
        )
    return paths, read_vw if kind == "vw" else read_dsjson


def _checked_names(context: Any, given: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the context as a tuple; raise for a role that is no name of a column."""
    if isinstance(context, str):
        context = (context,)
    check_listed("context", context)
    roles = ("reward", "rewards", "user_behavior", "unit", "weight", "eligible")
    named = {"slate": given["slate"]}
    named |= {f"context[{i}]": name for i, name in enumerate(context)}
    named |= {role: given[role] for role in roles if given[role] is not None}
    for role, value in named.items():
        if not isinstance(value, str):
            raise UsageError(f"{argument(role)}={value!r} is not a column name, expected text")
    return tuple(context)


def _check_rewards(reward: str | None, rewards: str | None) -> None:
    """Raise unless there is one of the two."""
    if (reward is None) == (rewards is None):
        raise UsageError(
            f"expected one of {argument('reward')} (of the slate) and {argument('rewards')} (a "
            f"list, of each slot), got {'neither' if reward is None else 'both'}"
        )


def _logger_of(
    behavior: SlatePolicy | None,
    given: tuple[str | None, str | None, str | None],
    independent: bool,
) -> SlatePolicy:
    """Return the logger, as an object or as columns.

    Args:
        behavior: as an object.
        given: its columns of propensities, marginals and the slate's propensity.
        independent: whether it draws slots independently.
    """
    has_columns = any(name is not None for name in given)
    if (behavior is None) != has_columns:
        listed = ", ".join(map(argument, ("propensities", "marginals", "slate_propensity")))
        raise UsageError(
            f"expected the logger's probabilities as columns (one or more of {listed}) or as "
            f"{argument('behavior')}, got {'none' if behavior is None else 'both'}"
        )
    if behavior is None:
        return FromColumns(*given, independent=independent)
    check_kind("behavior", behavior, (Uniform, Factored), ", of piwo.slates")
    return behavior


def _source(source: Any, columns: SlateColumns, logger: SlatePolicy, where: str | None) -> Source:
    """Return the rows."""
    paths = paths_of(source)
    # The roles that any log has serve to find the columns that a condition or a lazy frame needs.
    earned = columns.reward or columns.rewards
    assert earned is not None
    if where is not None:
        known = {*columns.context, columns.eligible}
        decided = [x for x in (*columns.used(), *logger.numbers) if x not in known]
        for name in mentioned(condition(where), decided):
            raise UsageError(
                f"{argument('where')} mentions {name!r}, which depends on what was decided: no "
                "interval holds for rows that are chosen by it; name columns that are known before"
            )
    if paths is not None and kind_of(paths, "slates", columns.slate) != "parquet":
        labels = [x for x in (columns.slate, columns.eligible) if x is not None]
        return slates_of(paths, labels, where)
    available: Sequence[str] = ()
    if is_lazy(source):
        # it is run once, so that a target's columns must be there
        available = column_names(source)
    others = [
        x
        for x in (*columns.used(), *logger.numbers, *available)
        if x not in {columns.slate, earned}
    ]
    roles = Columns(
        action=columns.slate, reward=earned, propensity=None, context=tuple(dict.fromkeys(others))
    )
    return source_of(source, roles, where, paths)


def _largest(reward_range: Any) -> float:
    check_reward_range(reward_range)
    low, high = map(float, reward_range)
    if low != 0.0:
        raise UsageError(
            f"{argument('reward_range')} is {reward_range!r}, expected (0, hi): the value of a "
            "slate is a sum over its slots, in which rewards below 0 have no bound; shift them "
            "yourself"
        )
    return high


def _labels(actions: Any) -> Any:
    if isinstance(actions, Actions):
        return actions.labels
    return actions
