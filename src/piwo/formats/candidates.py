"""What could be taken in each row of a log, as Vowpal Wabbit has it: a text for each action."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import UsageError
from piwo.logs.batch import Batch
from piwo.logs.inline import pairs_of
from piwo.logs.log import Log
from piwo.messages import argument

__all__ = ["Candidates", "TextsOf"]

TextsOf: TypeAlias = Callable[[Sequence[str], Mapping[str, pa.Array]], list[str]]
"""Returns the texts of some actions from their labels, and from the features of each by name."""


class Candidates:
    """The actions that could be taken in each row, each as a text that holds its label.

    Args:
        log: whose rows are written.
        texts_of: makes the texts.
        names: of columns of features that would be the label under another name; one with the same
            values is left out, another one is refused.
    """

    def __init__(self, log: Log, texts_of: TextsOf, names: Sequence[str]) -> None:
        self._log, self._texts_of, self._names = log, texts_of, names
        self._inline = log.columns.item_features
        self._texts: list[str] = []
        if self._inline is None:
            features: dict[str, pa.Array] = {}
            items = log.actions.items
            if items is not None:
                table = items.table.combine_chunks()
                features = {x: _whole(table[x]) for x in table.column_names}
            self._texts = self._of_labels([str(x) for x in log.actions.labels], features)

    @property
    def columns(self) -> list[str]:
        """The columns of a log that are read for the features."""
        return [] if self._inline is None else [self._inline]

    @property
    def fixed(self) -> list[str] | None:
        """The texts of all actions, if each can be taken in every row."""
        return self._texts if self._log.columns.eligible is None else None

    def of(self, record: pa.RecordBatch, batch: Batch) -> Iterator[tuple[list[str], int]]:
        """Yield for each row the texts, and the place of the action that was taken.

        Args:
            record: the raw rows.
            batch: the same rows, validated.
        """
        eligible = batch.eligible
        if eligible is None:
            for code in batch.action.tolist():
                yield self._texts, code
            return
        starts = eligible.starts.tolist()
        codes = eligible.codes.tolist()
        texts = [self._texts[code] for code in codes] if self._inline is None else []
        if self._inline is not None:
            pairs = pairs_of(record[self._inline], self._inline)[1]
            labels = self._log.actions.labels
            features = dict(zip(pairs.schema.names, pairs.columns, strict=True))
            texts = self._of_labels([str(labels[code]) for code in codes], features)
        places = (eligible.places(batch.action) - eligible.starts[:-1]).tolist()
        for start, end, place in zip(starts[:-1], starts[1:], places, strict=True):
            yield texts[start:end], place

    def _of_labels(self, labels: Sequence[str], features: dict[str, pa.Array]) -> list[str]:
        """Return the texts of some actions; what holds the label is no feature of its own."""
        for name in self._names:
            if name not in features:
                continue
            same = pc.equal(features.pop(name).cast(pa.string()), pa.array(labels, pa.string()))
            if not pc.all(same, skip_nulls=False).as_py():
                raise UsageError(
                    f"{argument('items')}: column {name!r} is where the file has the labels of the "
                    "actions, and it holds others; give it another name"
                )
        return self._texts_of(labels, features)


def _whole(values: pa.ChunkedArray | pa.Array) -> pa.Array:
    return values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
