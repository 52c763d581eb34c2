"""Columns of a slate log that are named like the id of a user or a session, and repeat."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from piwo.engines.engine import fold
from piwo.logs.person_columns import is_person
from piwo.logs.reader import Selector
from piwo.logs.unit_columns import (
    FEWEST,
    REPEATED,
    UnitColumn,
    UnitSamples,
    UnitState,
    with_rows,
)
from piwo.slates.log import SlateLog
from piwo.slates.validation import numbered
from piwo.sources.source import Fragment, type_family

__all__ = ["repeated_persons"]


def repeated_persons(log: SlateLog) -> UnitColumn | None:
    """Return a column that is named like the id of a user or a session and repeats; None: none.

    It takes a pass over such columns, and none if there is no such column or units are declared.

    Args:
        log: the rows.

    >>> import piwo
    >>> rows = {"slate": [["a"]] * 40, "r": [1] * 40, "p": [0.5] * 40, "user_id": [*range(20)] * 2}
    >>> log = piwo.slates.read(rows, reward="r", slate_propensity="p")
    >>> repeated_persons(log).column
    'user_id'
    """
    if log.columns.unit is not None:
        return None
    decided = {*log.columns.used(), *log.logger.numbers} - {*log.columns.context}
    names = []
    for field in log.source.schema:
        known = type_family(field.type) in ("text", "integer")
        if known and field.name not in decided and is_person(field.name):
            names.append(field.name)
    if not names:
        return None
    states = fold(log.source, names, _Samples(tuple(names), log.selector))
    for name, state in zip(names, states, strict=True):
        each = state.rows_each
        if len(state.keys) >= FEWEST and each > REPEATED:
            # whether rewards agree is not looked at
            return UnitColumn(name, person=True, rows_each=each, z=None, dependent=False)
    return None


@dataclass(frozen=True)
class _Samples(UnitSamples):
    """Task: the rows of a random sample of the values of each of some columns."""

    selector: Selector | None

    def of_fragment(self, fragment: Fragment) -> tuple[UnitState, ...]:
        """Return the samples of a fragment."""
        found = list(self.empty())
        for record, _, numbers in numbered(fragment.records(), fragment.start, None):
            chosen = record
            if self.selector is not None:
                chosen = record.filter(pa.array(self.selector.keep(numbers)))
            action, nothing = np.zeros(len(chosen), np.int32), np.zeros(len(chosen))
            for i, name in enumerate(self.names):
                found[i] = with_rows(found[i], chosen[name], name, action, nothing)
        return tuple(found)
