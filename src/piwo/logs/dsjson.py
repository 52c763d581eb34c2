"""The log of Vowpal Wabbit dsjson files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

from piwo.errors import UsageError, warn
from piwo.logs.actions import Actions
from piwo.logs.columns import Columns
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.sources.dsjson import dsjson_source
from piwo.sources.paths import files_of

__all__ = ["read_dsjson"]


def read_dsjson(
    paths: str | Path | Sequence[str | Path],
    *,
    context: str | Sequence[str] = (),
    actions: Sequence[Any] | Actions | None = None,
    reward_range: tuple[float, float] = (0.0, 1.0),
    on_error: Literal["raise", "skip"] = "raise",
) -> Log:
    """Return the log of Vowpal Wabbit dsjson files (one decision a line).

    `a` is a ranking with the chosen action first, and p[j] is the probability of action a[j]; both
    are checked against `_label_Action`, `_labelIndex` and `_label_probability`. The reward is minus
    `_label_cost`. A `pdrop` becomes the sampling weight 1 / (1 - pdrop), in numerator and
    denominator of every mean.

    Lines that are not events are left out and counted by reason in one warning and in
    `log.source.skipped`: blank, not JSON, skip-learn (deferred and never shown), no decision (an
    outcome by itself). The files are read once, in pieces; about 8 (K + 5) bytes an event stay in
    memory. Every event must have the same K actions in `c._multi`; a log whose number of actions
    varies is refused.

    Args:
        paths: path, glob, or a list of them; a name may end in .gz.
        context: paths inside `c`, parts separated by "/", such as "U/x" or "FromUrl/0/weather"; a
            path whose values are all numbers is a number, any other is text.
        actions: K labels in the order of `c._multi`; None: 1, 2, ..., K, as `_label_Action` counts.
        reward_range: the declared (lo, hi) of the reward, minus the cost.
        on_error: "skip" leaves out and counts lines of broken JSON instead of raising.

    Returns:
        A `Log` with full propensity vectors, and row numbers that count events.

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
    listed = [paths] if isinstance(paths, str | Path) else list(paths)
    files: list[str] = []
    for item in listed:
        files += files_of(str(item))
    context = (context,) if isinstance(context, str) else tuple(context)
    known = None if actions is None else Actions(actions)
    labels = None if known is None else known.labels
    source = dsjson_source(files, context, labels, skip_broken=on_error == "skip")
    if source.skipped:
        left_out = ", ".join(f"{reason} {count}" for reason, count in source.skipped.items())
        skipped = sum(source.skipped.values())
        warn(
            f"{source.name}: {skipped} of {skipped + source.rows} lines are not events ({left_out})"
        )
    columns = Columns(
        reward="cost",
        cost=True,
        propensities="propensities",
        weight="weight" if "weight" in source.schema.names else None,
        context=context,
    )
    if known is None:
        known = Actions(range(1, source.schema.field("propensities").type.list_size + 1))
    return Log.of(source, columns, known, reward_range=reward_range)
