"""Whether a slate policy was learned from rows of a log: by hashes of a few rows in its file."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from piwo.engines.engine import fold
from piwo.engines.task import Task
from piwo.intervals.provenance import (
    digits_of,
    more_than_chance,
    read_sample,
    sample_to_record,
)
from piwo.logs.features import Features
from piwo.logs.hashing import scramble
from piwo.reductions.row_sample import (
    RowSampleState,
    context_hashes,
    label_hashes,
    rounded,
    smallest,
)
from piwo.slates.log import SlateLog
from piwo.slates.policy import SlatePolicy
from piwo.slates.rows import SlateRows
from piwo.slates.validation import SlateReader
from piwo.sources.source import Fragment
from piwo.sources.table import has_name

__all__ = ["SlateOverlap", "overlap_of", "record_of"]


@dataclass(frozen=True)
class SlateOverlap:
    """Whether a slate policy was learned from rows of a log, as far as its file says.

    >>> SlateOverlap().certain
    False
    """

    certain: bool = False
    how: str = ""
    """How that is known, in words; empty: it is not known."""


def record_of(log: SlateLog, features: Features | None) -> dict[str, Any]:
    """Return what a file keeps of the rows that a policy was learned from: no row itself.

    Args:
        log: the rows.
        features: the context of the policy.

    >>> import piwo
    >>> table = {"slate": [["a"], ["b"]], "r": [1, 0], "p": [0.5, 0.5]}
    >>> log = piwo.slates.read(table, reward="r", slate_propensity="p")
    >>> record_of(log, None)["rows"], sorted(record_of(log, None)["sample"])
    (2, ['digits', 'hashes', 'propensity', 'repeated', 'rows'])
    """
    digits = digits_of(features)
    sample = _sample(log, log.reader(context=True), features, digits)
    kept = {**sample_to_record(sample), "propensity": False, "digits": digits}
    return {"source": log.name, "rows": sample.rows, "sample": kept}


def overlap_of(log: SlateLog, policy: SlatePolicy) -> SlateOverlap:
    """Return whether a policy from a file was learned from rows of a log.

    Its file has hashes of slate and context of a few rows. More of them among the rows of the log
    than chance allows show that it has these rows, under whatever name. If rows are too much alike
    for that, a file of the same name counts as the same.

    Args:
        log: the rows.
        policy: of which the log has all columns.

    Raises:
        FileError: for a damaged record.
    """
    learned = policy.learned
    if learned is None:
        return SlateOverlap()
    kept = learned.get("sample")
    said = None
    if isinstance(kept, Mapping):
        then, repeated, _, digits = read_sample(kept)
        key = (id(log.source), log.selector, policy.encoding, digits)
        if key not in log.samples:
            log.samples[key] = _sample(log, log.reader(policy), policy.encoding, digits)
        said = more_than_chance(log.samples[key], then, repeated)
    if said is not None:
        return SlateOverlap(*said)
    name = Path(str(learned["source"]).removeprefix("this part of ")).name
    if has_name(log.source) and Path(log.source.name).name == name:
        return SlateOverlap(certain=True, how=f"{name} is read again")
    return SlateOverlap()


@dataclass(frozen=True)
class _SlateSample(Task[RowSampleState]):
    """Task: the rows with the smallest hashes of slate and context."""

    reader: SlateReader
    features: Features | None
    digits: int | None

    def empty(self) -> RowSampleState:
        """Return the sample of no rows."""
        return RowSampleState()

    def of_fragment(self, fragment: Fragment) -> RowSampleState:
        """Return the sample of a fragment."""
        state = self.empty()
        for rows in self.reader.read(fragment):
            hashes = self._hashes(rows)
            ones = np.ones(len(hashes), np.int64)
            state = state.merge(smallest(len(rows), hashes, ones))
        return state

    def merge(self, one: RowSampleState, other: RowSampleState) -> RowSampleState:
        """Return the sample of both parts."""
        return one.merge(other)

    def _hashes(self, rows: SlateRows) -> Any:
        labels = label_hashes(self.reader.actions.labels)
        h = np.zeros(len(rows), np.uint64)
        for slot in range(rows.slots):
            mixed = scramble(h ^ labels[rows.action[:, slot]])
            h = np.where(rows.mask[:, slot], mixed, h)
        if self.features is not None:
            matrix, _ = self.features.encode_columns(dict(rows.context or {}), len(rows))
            h = scramble(h ^ context_hashes(rounded(matrix, self.digits)))
        return h


def _sample(
    log: SlateLog, reader: SlateReader, features: Features | None, digits: int | None
) -> RowSampleState:
    return fold(log.source_by_unit, reader.names, _SlateSample(reader, features, digits))
