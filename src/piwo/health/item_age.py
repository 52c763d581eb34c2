"""Rows by the age of their actions: two more passes over logs with eligible actions and times."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from piwo.engines.engine import fold
from piwo.health.rows import AgeRow
from piwo.intervals.weight_sums import z_score
from piwo.logs.log import Log
from piwo.logs.reader import Reader
from piwo.logs.times import SampleTimes
from piwo.reductions.item_ages import AGES, FirstSeen, ItemAges
from piwo.reductions.reduce import reduce

__all__ = ["age_rows"]


def age_rows(log: Log) -> Iterator[AgeRow]:
    """Yield a row for each bin of ages that eligible actions have.

    Nothing without eligible actions or times, and for units, whose rows depend on each other, or a
    thinned log.

    Args:
        log: the rows.
    """
    columns = log.columns
    changing = columns.eligible is not None and columns.time is not None
    if not changing or columns.unit is not None or columns.weight is not None:
        return
    assert columns.time is not None
    reader = Reader(log.unlabeled, log.selector)
    sample = fold(log.source, [columns.time], SampleTimes(reader)).times
    first = -reduce(log, FirstSeen(len(log.actions))).latest
    state = reduce(log, ItemAges(first, np.sort(sample)))
    n = float(state.rows.sum())
    for i in np.flatnonzero(state.listed).tolist():
        rows = float(state.rows[i])
        reward = log.value(float(state.reward[i]) / rows) if rows else None
        weight, listed = float(state.weight[i]) / n, float(state.listed[i]) / n
        # of the sum of independent differences with expectation 0
        error = float(np.sqrt(state.squares[i])) / n
        z = z_score(weight, error, listed)
        yield AgeRow(AGES[i], int(rows), reward, weight, listed, z)
