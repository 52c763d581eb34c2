"""Read the logs of Vowpal Wabbit: dsjson, and its text format."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, get_args

import pyarrow as pa

from piwo.checks import check_listed, shown
from piwo.errors import UsageError, warn
from piwo.logs.actions import Actions
from piwo.logs.columns import Columns
from piwo.logs.encoding import DEFAULT_ENCODING, Encoding
from piwo.logs.hashing import hashed_places
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.dsjson import EVENT_ID, dsjson_source
from piwo.sources.paths import files_of
from piwo.sources.vw import VwKind, vw_source

__all__ = [
    "check_items_label",
    "features_named",
    "files_and_context",
    "read_dsjson",
    "read_vw",
    "warn_of_skipped",
]


def read_dsjson(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    on_error: Literal["raise", "skip"] = "raise",
    items: str | Sequence[str] = (),
    items_label: str | None = None,
) -> Log:
    """Return the log of Vowpal Wabbit dsjson files (one decision a line).

    `a` is a ranking with the chosen action first, and p[j] is the probability of action a[j]; both
    are checked against `_label_Action`, `_labelIndex` and `_label_probability`. `a` counts actions
    from 1 or, if it has a 0, from 0, and all events of a file alike. `_labelIndex` counts from 0,
    and `_label_Action` from 1 or as `a` does. The reward is minus
    `_label_cost`. A `pdrop` becomes the sampling weight 1 / (1 - pdrop), in numerator and
    denominator of every mean.

    Lines that are not events are left out and counted by reason in one warning and in
    `log.source.skipped`: blank, not JSON, skip-learn (deferred and never shown), no decision (an
    outcome by itself). The files are read once, in pieces; rows of more than 256 MB go to temporary
    files.

    If every event has as many entries in `c._multi`, these are the K actions; a warning says so if
    the entries differ from event to event, unless `actions` are given. If their number changes, the
    log has eligible actions: those of each event, and an action is the number of its entry. A
    warning says so. A number says little of what the entry offers: `items_label` says what in the
    entry is the label of the action, and `items` names features of it, for models of context and
    item. With labels, actions are a fixed list if every event has the same ones, in any order.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: paths inside `c`, parts separated by "/", such as "U/x" or "FromUrl/0/weather"; a
            path whose values are all numbers is a number, any other is text.
        actions: K labels in the order of `c._multi`; None: 1, 2, ..., K, as `_label_Action` counts.
            With `items_label`: all labels, in any order; None: those found.
        reward_range: the declared (lo, hi) of the reward, minus the cost.
        on_error: "skip" leaves out and counts lines of broken JSON instead of raising.
        items: paths inside the entries of `c._multi`, parts separated by "/"; they become features
            of the eligible actions inside the log, see `items` of `piwo.read`.
        items_label: path inside the entries of `c._multi`, parts separated by "/", such as "id" or
            "_tag", whose value is the label of the action: text, or whole numbers if all are.

    Returns:
        A `Log` with full propensity vectors, and row numbers that count events. If every event has
        an `EventId`, that is the key: results refuse events that are there several times.

    Raises:
        DataError: for broken or contradictory events, with their line numbers, and for a log
            without any.
        FileError: for files that are missing or cannot be read.

    Source: the dsjson format of Vowpal Wabbit's wiki; the ranked order is that of its
        reinforcement-learning client.

    >>> with open("log.dsjson", "w") as file:
    ...     written = file.write(
    ...         '{"_label_cost":-1,"_label_probability":0.6,"_label_Action":2,"_labelIndex":1,'
    ...         '"a":[2,1],"p":[0.6,0.4],"c":{"U":{"x":1},"_multi":[{"f":1},{"f":2}]}}'
    ...     )
    >>> log = read_dsjson("log.dsjson", context="U/x")
    >>> next(log.each_batch(propensities=True)).propensities.tolist()
    [[0.4, 0.6]]
    """
    if on_error not in ("raise", "skip"):
        raise UsageError(f"{argument('on_error')} is {on_error!r}, expected 'raise' or 'skip'")
    files, context = files_and_context(paths, context)
    known, labels = None, None
    if actions is not None:
        known = actions if isinstance(actions, Actions) else Actions(actions)
        labels = known.labels
    items = _items_once(files, items)
    check_items_label(items_label)
    _require_free(context)
    events = dsjson_source(files, context, labels, on_error == "skip", items, items_label)
    source = events.source
    skipped: Mapping[str, int] = getattr(source, "skipped", {})
    warn_of_skipped(source.name, skipped, source.rows or 0, "lines are not events")
    columns = Columns(reward="cost", cost=True, propensities="propensities", context=context)
    if "weight" in source.schema.names:
        columns = replace(columns, weight="weight")
    if EVENT_ID in source.schema.names and EVENT_ID not in context:
        columns = replace(columns, key=EVENT_ID)
    if known is None:
        # `_label_Action` counts from 1.
        known = Actions(events.labels or range(1, events.count + 1))
    numbered = actions is None and items_label is None
    if events.differing and not events.changing and numbered:
        warn(
            f"{source.name}: {events.differing:,} of {source.rows or 0:,} events have other "
            "entries in c._multi than the first one, and an action is the number of its entry, "
            f"whatever it says; {argument('items_label')} says what in an entry is its label, "
            f"{argument('items')} names features, {argument('actions')} gives labels if a number "
            "means the same in every event"
        )
    if events.changing:
        columns = replace(columns, eligible="eligible")
        if items:
            columns = replace(columns, item_features="items")
            known = known.with_inline_items("action")
        elif items_label is None:
            warn(
                f"{source.name}: the number of actions changes, so that an action is the number "
                "of its entry in c._multi; what the entry says is not read "
                f"({argument('items_label')} says what is its label, {argument('items')} names "
                "features)"
            )
    return Log.of(source, columns, known, reward_range=reward_range)


def read_vw(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    kind: VwKind | None = None,
    hash_size: int = DEFAULT_ENCODING.hash_size,
    items: str | Sequence[str] = (),
    items_label: str | None = None,
) -> Log:
    """Return the log of text files of Vowpal Wabbit, of `--cb` or `--cb_adf`.

    In files for `--cb` a line is a decision, `action:cost:probability | features`, and actions are
    counted from 1. In files for `--cb_adf` a decision is several lines up to a blank one: a line
    `shared | features`, if there is a context, then one line an action, of which the one taken
    starts with `0:cost:probability`. The reward is minus the cost.

    Decisions without a label and blank lines are left out, and counted by reason in one warning and
    in `log.source.skipped`. The files are read once, in pieces; rows of more than 256 MB go to a
    temporary file.

    Actions are a fixed list if every decision has the same. If the number of action lines, what
    they say, or the actions that a line lists change from decision to decision, the log has
    eligible actions: those of each decision, and an action is the number of its line, or the number
    that is listed. A warning says so. A number says little of what the line offers: `items` names
    features of it, for models of context and item. Continuous actions are refused, and ccb and
    slates are read by `piwo.slates.read_vw`.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: columns, each one of three: "namespace/feature"; "feature", of the namespace
            without a name; "namespace/*" (or "*"), all features of a namespace, hashed into a list
            of `hash_size` numbers. Where lines have `feature=text`, the column is text, and
            missing where the feature is. Else it is the number after the colon (times that of the
            namespace), 1 without one, and 0 where the feature is not there. %20, %3A, %7C and such
            are the characters that names cannot hold.
        actions: K labels, of actions 1, ..., K or of the lines of each decision; None: the numbers
            1, ..., K, with K the largest number in a label (at most 1,000,000), or the number of
            lines. With `items_label`: all labels, in any order; None: those found.
        reward_range: the declared (lo, hi) of the reward, minus the cost.
        kind: "cb", "cb_adf"; None: guessed from the first 1,000 lines.
        hash_size: a power of two.
        items: features of the action lines (`--cb_adf`), named as those of `context`; they become
            features of the eligible actions inside the log, see `items` of `piwo.read`.
        items_label: the feature of the action lines (`--cb_adf`) whose value is the label of the
            action, named as those of `context`: "a/id" for `|a id=tea` or `|a id:7`.

    Returns:
        A `Log` with the propensity of the action taken; row numbers count labeled decisions, and
        errors about rows name their lines.

    Raises:
        DataError: for lines that break a rule, with their numbers, and for files without decisions.
        FileError: for files that are missing or cannot be read.
        UsageError: for another number of labels than actions, and for items in a file for `--cb`.

    Source: "Contextual Bandit algorithms" and "Input format" of Vowpal Wabbit's wiki.

    >>> with open("log.vw", "w") as file:
    ...     print("1:-1:0.5 |user age:30 city=Rome", file=file)
    ...     print("2:0:0.25 |user age:40", file=file)
    >>> log = read_vw("log.vw", context="user/age")
    >>> batch = next(log.each_batch(context=True))
    >>> batch.reward.tolist(), batch.propensity.tolist(), batch.context.tolist()
    ([1.0, 0.0], [0.5, 0.25], [[30.0], [40.0]])
    """
    if kind is not None and kind not in get_args(VwKind):
        raise UsageError(f"{argument('kind')} is {kind!r}, expected 'cb' or 'cb_adf'")
    encoding = Encoding(hash_size=hash_size)
    files, context = files_and_context(paths, context)
    known, labels = None, None
    if actions is not None:
        known = actions if isinstance(actions, Actions) else Actions(actions)
        labels = known.labels

    def places(column: str, features: Sequence[str]) -> tuple[Any, Any]:
        return hashed_places(column, pa.array(features, pa.large_string()), hash_size)

    items = _items_once(files, items)
    check_items_label(items_label)
    _require_free(context)
    events = vw_source(files, context, labels, kind, places, hash_size, items, items_label)
    source = events.source
    skipped: Mapping[str, int] = getattr(source, "skipped", {})
    warn_of_skipped(source.name, skipped, source.rows or 0, "are not labeled decisions")
    columns = Columns(reward="cost", cost=True, context=context)
    if known is None:
        known = Actions(events.labels or range(1, events.count + 1))
    if events.changing:
        columns = replace(columns, eligible="eligible")
        if items:
            columns = replace(columns, item_features="items")
            known = known.with_inline_items("action")
        elif events.by_line and items_label is None:
            warn(
                f"{source.name}: the actions of a decision change, so that an action is the number "
                f"of its line; what the lines say is not read ({argument('items_label')} names the "
                f"feature that is its label, {argument('items')} features)"
            )
    return Log.of(source, columns, known, reward_range=reward_range, encoding=encoding)


def features_named(items: Any) -> tuple[str, ...]:
    """Return the features of action lines that an argument names; none if it is a table or a file.

    >>> features_named("ad/price,ad/topic"), features_named(["i/x"]), features_named("items.csv")
    (('ad/price', 'ad/topic'), ('i/x',), ())
    """
    if isinstance(items, str) and "." not in items and not Path(items).exists():
        return tuple(word.strip() for word in items.split(","))
    if isinstance(items, list | tuple) and all(isinstance(word, str) for word in items):
        return tuple(items)
    return ()


def check_items_label(items_label: Any) -> None:
    """Raise for what does not name the label of an action of Vowpal Wabbit's files.

    Args:
        items_label: the feature or path; None: actions are numbers.

    >>> check_items_label("a/id")
    """
    if items_label is not None and (not isinstance(items_label, str) or not items_label.strip("/")):
        raise UsageError(
            f"{argument('items_label')} is {shown(items_label)}, expected one name, as text, of "
            "what in an action is its label, such as 'id'"
        )


def _items_once(files: Sequence[str], items: str | Sequence[str]) -> tuple[str, ...]:
    _, named = files_and_context(list(files), items)
    for name in named:
        if named.count(name) > 1:
            raise UsageError(f"{argument('items')} names {name!r} twice; name each once")
    return named


def _require_free(context: Sequence[str]) -> None:
    if {"eligible", "items"} & set(context):
        raise UsageError(
            f"{argument('context')} names 'eligible' or 'items', which are columns of their own; "
            "name others"
        )


def files_and_context(
    paths: str | Path | Sequence[str | Path], context: str | Sequence[str]
) -> tuple[list[str], tuple[str, ...]]:
    """Return the files that paths and globs mean, and the context as a tuple.

    Args:
        paths: path, glob, or a list of them.
        context: names of columns, or one of them.

    >>> files_and_context([], "U/x")
    Traceback (most recent call last):
    piwo.errors.UsageError: paths is empty, expected at least one file
    """
    if isinstance(paths, str | Path):
        paths = [paths]
    check_listed("paths", paths)
    if not paths:
        raise UsageError(f"{argument('paths')} is empty, expected at least one file")
    files: list[str] = []
    for item in paths:
        files += files_of(str(item))
    if isinstance(context, str):
        context = (context,)
    check_listed("context", context)
    return files, tuple(map(str, context))


def warn_of_skipped(name: str, skipped: Mapping[str, int], rows: int, what: str) -> None:
    """Warn of what was left out, by reason.

    Args:
        name: of the log.
        skipped: reason -> how many.
        rows: how many there are besides.
        what: was left out, in words: "lines are not events".

    >>> warn_of_skipped("log.vw", {}, 2, "are not labeled decisions")
    """
    if not skipped:
        return
    reasons = [f"{reason} {count:,}" for reason, count in skipped.items()]
    count = sum(skipped.values())
    warn(f"{name}: {count:,} of {count + rows:,} {what} ({', '.join(reasons)})")
