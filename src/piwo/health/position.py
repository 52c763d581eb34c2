"""Rows by the position where their action was shown: two more passes over logs that say it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from piwo.evaluation.segments import MOST_SEGMENTS, segment_counts, segments_from
from piwo.health.rows import PositionRow
from piwo.intervals.weight_sums import z_score
from piwo.logs.log import Log
from piwo.logs.periods import Splitting
from piwo.logs.position_ranges import PositionRanges
from piwo.reductions.action_rewards import ActionRewards, ActionRewardsState
from piwo.reductions.by_segment import BySegment
from piwo.reductions.reduce import reduce

__all__ = ["position_rows"]


def position_rows(log: Log) -> tuple[PositionRow, ...] | None:
    """Return a row for each position, in their order; none without positions or if thinned.

    More than 100 whole numbers are compared in ranges: 0, 1, 2 to 3, 4 to 7, and so on. Of more
    texts the result is None.

    Whether rewards depend on the position is tested within each action, as better actions may be
    shown higher. Let n_a rows have action a, with rewards of sample variance s_a^2, and n_pa of
    them position p. If rewards do not depend on the position, any n_pa of the n_a rewards are as
    probable as any others, so that

        D_p = sum_a (sum of the rewards at p of action a - n_pa times their mean over n_a)

    has expectation 0 and variance sum_a n_pa (n_a - n_pa) s_a^2 / n_a. A reason for differences may
    be the context as well.

    Args:
        log: the rows.

    Raises:
        DataError: for positions that are not whole numbers or text.

    Source: Mantel, Haenszel 1959 (the test for rewards of 0 and 1).
    """
    column = log.columns.position
    if column is None or log.columns.weight is not None:
        return ()
    counts = segment_counts(log, column)
    segments: Splitting = segments_from(column, counts)
    if len(counts) > MOST_SEGMENTS:
        if not all(label is None or label.isdecimal() for label in counts):
            return None
        segments = PositionRanges(column)
    each = tuple(ActionRewards(len(log.actions)) for _ in segments.labels)
    states = reduce(replace(log, segments=segments), BySegment(each))
    total = states[0]
    for state in states[1:]:
        total = total.merge(state)
    # Most ranges have no rows.
    some = [i for i in _in_order(segments.labels) if states[i].rows]
    return tuple(_row(log, segments.labels[i], states[i], total) for i in some)


def _in_order(labels: Sequence[str | None]) -> list[int]:
    """Return the places of the labels in order: whole numbers by size, then text, then missing."""

    def key(i: int) -> tuple[bool, bool, int, str]:
        label = labels[i]
        text = label or ""
        try:
            return label is None, False, int(text.partition(" to ")[0]), text
        except ValueError:
            return label is None, True, 0, text

    return sorted(range(len(labels)), key=key)


def _row(
    log: Log, label: str | None, state: ActionRewardsState, total: ActionRewardsState
) -> PositionRow:
    n = state.rows
    mean, z, reward_z = state.weight / n, None, None
    # Rows of a unit depend on each other, so the spread of rows says nothing.
    plain = log.columns.unit is None
    if plain and n > 1 and np.isfinite(state.weight2):
        error = float(np.sqrt(max(0.0, state.weight2 / n - mean * mean) / (n - 1)))
        z = z_score(mean, error)
    if plain:
        reward_z = _reward_z(state, total)
    reward = log.value(float(state.reward.sum()) / n)
    return PositionRow(label, int(n), reward, reward_z, mean, z, state.untaken)


def _reward_z(here: ActionRewardsState, total: ActionRewardsState) -> float | None:
    """Return D_p over its standard deviation; see `position_rows`."""
    # One row of an action cannot be compared with others.
    some = (total.count > 1) & (here.count > 0) & (here.count < total.count)
    count, n, share = here.count[some], total.count[some], here.count[some] / total.count[some]
    reward, squares = total.reward[some], total.reward2[some]
    spread = np.maximum(0.0, squares - reward * reward / n)
    # rounding leaves a rest where all rewards of an action are equal
    spread[spread <= 1e-12 * squares] = 0.0
    # n_pa (n_a - n_pa) / n_a times s_a^2
    variance = float((share * (n - count) * spread / (n - 1.0)).sum())
    difference = float((here.reward[some] - share * reward).sum())
    if not np.isfinite(variance) or variance <= 0.0:
        return None
    return difference / float(np.sqrt(variance))
