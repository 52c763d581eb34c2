"""Read Vowpal Wabbit's decisions with several slots, ccb and slates: dsjson and text."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import pyarrow as pa

from piwo.errors import UsageError, warn
from piwo.logs.actions import Actions
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding
from piwo.logs.hashing import hashed_places
from piwo.logs.options import Logger, check_logger, check_reward_range
from piwo.logs.vowpal_wabbit import check_items_label, files_and_context, warn_of_skipped
from piwo.messages import argument
from piwo.slates.log import SlateLog, alpha_of
from piwo.slates.policies import FromColumns
from piwo.slates.validation import SlateColumns
from piwo.sources.dsjson_slates import dsjson_slates
from piwo.sources.slate_events import SlateEvents
from piwo.sources.vw_slates import vw_slates

__all__ = ["read_dsjson", "read_vw"]


def read_dsjson(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    position_weights: Sequence[float] | None = None,
    logger: Logger | None = None,
    on_error: Literal["raise", "skip"] = "raise",
    items_label: str | None = None,
) -> SlateLog:
    """Return the slate log of Vowpal Wabbit dsjson files of ccb or slates, one decision a line.

    In **ccb** each slot is filled with an action that is not shown above it, and each entry of
    `_outcomes` has a cost: rewards are of slots, `_p[0]` is the probability of the shown action
    given those above it, and the log serves the estimators "standard" and "cascade". In **slates**
    each action has a `_slot_id`, slots are drawn independently, and the cost is of the whole slate:
    "standard" and "pseudo-inverse".

    Formula: reward = -cost - lo, with lo the lower end of `reward_range`: a slate log counts
    rewards from 0. Each slate weighs 1 / (1 - pdrop).

    Lines that are no labeled decisions are left out and counted by reason in one warning and in
    `log.source.skipped`: blank, not JSON, skip-learn, no decision, no label. An action is its place
    in `c._multi`, which is another thing in the next decision if the entries change; `items_label`
    says what in the entry is its label, such as an id. If the actions change, the log has eligible
    actions: in ccb those of each decision, in slates those of each slot. Slots of ccb that cannot
    show some of the actions (`_inc`) have eligible actions of their own, too. A warning says that
    places change, also if entries change and not their number, unless `actions` are given.
    Decisions with a cost in some slots only are refused. Other features of actions and of slots are
    not read.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: paths inside `c`, parts separated by "/", such as "U/x" or "FromUrl/0/weather".
        actions: K labels in the order of `c._multi`, of the longest one; None: 0, 1, ..., K - 1, as
            `_a` counts in ccb. With `items_label`: all labels, in any order; None: those found.
        reward_range: the declared (lo, hi) of minus the cost; of a lo below 0 a warning says that
            it is subtracted.
        position_weights: see `piwo.slates.read`.
        logger: see there.
        on_error: "skip" leaves out and counts lines of broken JSON instead of raising.
        items_label: path inside the entries of `c._multi`, parts separated by "/", such as "id" or
            "_tag", whose value is the label of the action: text, or whole numbers if all are.

    Returns:
        A `SlateLog`. Its source has the columns slate, rewards or reward, propensities, eligible if
        the actions change, weight if an event has a `pdrop`, and those of the context.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for a log
            without any; for an entry without a label, and two of an event with the same.
        FileError: for files that are missing or cannot be read.
        UsageError: for another number of labels than actions.

    Source: "Conditional Contextual Bandit" and "Slates" of Vowpal Wabbit's wiki.

    >>> with open("ccb.dsjson", "w") as file:
    ...     written = file.write(
    ...         '{"c":{"U":{"x":1},"_multi":[{},{},{}],"_slots":[{},{}]},"_outcomes":['
    ...         '{"_label_cost":-1,"_a":[2,0,1],"_p":[0.5,0.25,0.25]},'
    ...         '{"_label_cost":0,"_a":[0,1],"_p":[0.75,0.25]}]}'
    ...     )
    >>> log = read_dsjson("ccb.dsjson", context="U/x")
    >>> log.source.table.to_pylist()
    [{'slate': [2, 0], 'rewards': [1.0, 0.0], 'propensities': [0.5, 0.75], 'U/x': 1.0}]
    >>> with open("named.dsjson", "w") as file:
    ...     for names in ('{"id":"tea"},{"id":"pie"}', '{"id":"pie"},{"id":"soup"}'):
    ...         event = '{"c":{"_multi":[%s],"_slots":[{}]},"_outcomes":[{"_label_cost":0,'
    ...         print(event % names + '"_a":[1,0],"_p":[0.5,0.5]}]}', file=file)
    >>> log = read_dsjson("named.dsjson", items_label="id")
    >>> log.actions.labels, log.source.table["eligible"].to_pylist()
    (('pie', 'soup', 'tea'), [['tea', 'pie'], ['pie', 'soup']])
    """
    if on_error not in ("raise", "skip"):
        raise UsageError(f"{argument('on_error')} is {on_error!r}, expected 'raise' or 'skip'")
    known = _checked(actions, reward_range, logger, items_label)
    files, context = files_and_context(paths, context)
    lowest, labels = float(reward_range[0]), None if known is None else known.labels
    events = dsjson_slates(files, context, labels, lowest, on_error == "skip", items_label)
    return _log(events, context, known, reward_range, position_weights, logger)


def read_vw(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    position_weights: Sequence[float] | None = None,
    logger: Logger | None = None,
    hash_size: int = DEFAULT_ENCODING.hash_size,
    items_label: str | None = None,
) -> SlateLog:
    """Return the slate log of text files of Vowpal Wabbit with `ccb` or `slates` lines.

    A decision is several lines up to a blank one: `ccb shared | features`, a line `ccb action |
    features` for each action, then `ccb slot action:cost:probability | features` for each slot. In
    files of slates these are `slates shared cost | features`, `slates action slot | features` and
    `slates slot action:probability | features`, where actions are counted within their slot. What
    the two kinds state is said at `read_dsjson`.

    Formula: reward = -cost - lo, as there.

    Decisions without a label are left out and counted in one warning and in `log.source.skipped`.
    An action is the number of its line, or `items_label` names the feature that is its label. If
    the number of lines changes, or what they say and actions have no names, the log has eligible
    actions, as in `read_dsjson`, and so have slots of ccb with a list of their own.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: features of the shared line, as in `piwo.logs.read_vw`.
        actions: K labels, of the action lines in their order, where these are most; None: 0, 1,
            ..., K - 1. With `items_label`: all labels, in any order; None: those found.
        reward_range: see `read_dsjson`.
        position_weights: see `piwo.slates.read`.
        logger: see there.
        hash_size: a power of two.
        items_label: the feature of the action lines whose value is the label of the action, named
            as those of `context`: "a/id" for `|a id=tea` or `|a id:7`.

    Returns:
        A `SlateLog`, as `read_dsjson`.

    Raises:
        DataError: for lines that break a rule, with their numbers, and for files without decisions.
        FileError: for files that are missing or cannot be read.
        UsageError: for another number of labels than actions.

    Source: "Conditional Contextual Bandit" and "Slates" of Vowpal Wabbit's wiki.

    >>> with open("slates.vw", "w") as file:
    ...     lines = ["shared -1 | x:2", "action 0 | a", "action 0 | b", "action 1 | c"]
    ...     lines += ["slot 1:0.25,0:0.75 |", "slot 0:1 |"]
    ...     print("".join(f"slates {line}" + chr(10) for line in lines), file=file)
    >>> log = read_vw("slates.vw", context="x")
    >>> log.source.table.to_pylist()
    [{'slate': [1, 2], 'reward': 1.0, 'propensities': [0.25, 1.0], 'x': 2.0}]
    """
    known = _checked(actions, reward_range, logger, items_label)
    encoding = Encoding(hash_size=hash_size)
    files, context = files_and_context(paths, context)

    def places(column: str, features: Sequence[str]) -> tuple[Any, Any]:
        made = pa.array(features, pa.large_string())
        return hashed_places(column, made, encoding.hash_size)

    lowest, labels = float(reward_range[0]), None if known is None else known.labels
    events = vw_slates(files, context, labels, lowest, places, hash_size, items_label)
    return _log(events, context, known, reward_range, position_weights, logger)


def _checked(actions: Any, reward_range: Any, logger: Any, items_label: Any) -> Actions | None:
    """Return the actions, if they were named; raise for wrong arguments."""
    check_reward_range(reward_range)
    check_logger(logger)
    check_items_label(items_label)
    if actions is None or isinstance(actions, Actions):
        return actions
    return Actions(actions)


def _log(
    events: SlateEvents,
    context: tuple[str, ...],
    known: Actions | None,
    reward_range: tuple[float, float],
    position_weights: Sequence[float] | None,
    logger: Logger | None,
) -> SlateLog:
    """Return the log of events, and warn of what was left out and what was shifted."""
    source = events.source
    skipped = getattr(source, "skipped", {})
    warn_of_skipped(source.name, skipped, source.rows or 0, "are not labeled decisions")
    low, high = map(float, reward_range)
    if low < 0.0:
        warn(
            f"{source.name}: rewards are minus the cost plus {-low:g}, because a slate log counts "
            "them from 0: a slot, or a slate, that earns the least is 0"
        )
    numbered = known is None and events.labels is None
    if events.changing and numbered:
        warn(
            f"{source.name}: the actions of a decision change, so that an action is the number of "
            "its line or entry, from 0; what that says is not read (name the feature that is its "
            f"label: {argument('items_label')}; or, if a number is always the same action, the "
            f"actions: {argument('actions', '[...]')})"
        )
    elif events.differing and numbered:
        warn(
            f"{source.name}: {events.differing:,} of {source.rows or 0:,} decisions have other "
            "entries in c._multi than the first one, and an action is the number of its entry, "
            "from 0, whatever it says; name the feature that is its label "
            f"({argument('items_label')}), or, if a number is always the same action, the actions "
            f"({argument('actions')})"
        )
    columns = SlateColumns(
        slate="slate",
        eligible="eligible" if events.changing or events.slotted else None,
        reward=None if events.by_slot else "reward",
        rewards="rewards" if events.by_slot else None,
        context=context,
        weight="weight" if "weight" in source.schema.names else None,
    )
    return SlateLog(
        source=source,
        columns=columns,
        logger=FromColumns("propensities", independent=not events.by_slot),
        largest=high - low,
        alpha=alpha_of(position_weights),
        declared_actions=known or Actions(events.labels or range(events.count)),
        learning=logger,
    )
