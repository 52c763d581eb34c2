"""Whether dsjson events list the same entries in `c._multi`: is a number always one action?"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

__all__ = ["ENTRIES", "Entries"]

ENTRIES = {
    "text": "case when e is not null then _multi end",
    "entries": "case when e is not null then hash(_multi) end",
}
"""What is taken of an event to compare its entries, in DuckDB's SQL: their text and its digest."""

_COMPARED = 1000
"""After so many texts with other entries, no more texts are parsed: that they differ is known."""


class Entries:
    """Counts the events with other entries than the first one.

    The order of the keys of an object is no difference. Texts are compared by their digests; only
    new ones that are as long as the first are parsed, until enough of them differ.

    >>> entries = Entries()
    >>> entries.compare(pa.table({"entries": [5, 7], "text": ['[{"a":1}]', '[{"a":2}]']}))
    >>> entries.differing
    1
    """

    def __init__(self) -> None:
        self.differing = 0
        """How many events have other entries than the first one."""
        self._first = ""
        """The entries of the first event, with sorted keys."""
        self._same: set[int] = set()
        """Digests of texts that hold the entries of the first event."""
        self._length = 0
        """The length of the text of these."""
        self._others = 0
        """How many texts were compared and hold other entries."""

    def compare(self, events: pa.Table) -> None:
        """Count those of some events.

        Args:
            events: with the columns of `ENTRIES`.
        """
        if not len(events):
            return
        digests: npt.NDArray[Any] = events["entries"].to_numpy()
        texts = events["text"]
        if not self._same:
            self._first = _sorted_keys(texts[0].as_py())
            self._same.add(int(digests[0]))
            self._length = pc.binary_length(texts[0]).as_py()
        seen, at = np.unique(digests, return_index=True)
        alike = pc.binary_length(texts).to_numpy()[at] == self._length
        new = alike & ~np.isin(seen, np.array(list(self._same), seen.dtype))
        for digest, i in zip(seen[new].tolist(), at[new].tolist(), strict=True):
            if self._others == _COMPARED:
                break
            if _sorted_keys(texts[i].as_py()) == self._first:
                self._same.add(digest)
            else:
                self._others += 1
        same = np.isin(digests, np.array(list(self._same), seen.dtype))
        self.differing += int((~same).sum())


def _sorted_keys(text: str) -> str:
    """Return JSON with the keys of its objects in order."""
    return json.dumps(json.loads(text), sort_keys=True)
