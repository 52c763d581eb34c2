"""What the first whole pass over a log validates, whether its caller uses it or not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from piwo.logs.columns import Columns

__all__ = ["validated", "with_unread"]


class _Rows(Protocol):
    """A log."""

    @property
    def columns(self) -> Columns:
        """The roles."""
        ...


def with_unread(log: _Rows, wanted: Iterable[str]) -> tuple[str, ...]:
    """Return the columns that a pass reads, with those that no whole pass has validated yet.

    These are propensity vectors next to a column of propensities: whatever reads the rows first
    compares the two, so that rows which contradict each other are refused also where nothing uses
    the vectors. Later passes read what they use. With eligible actions every pass reads the lists.

    Args:
        log: whose rows are read.
        wanted: what the pass uses.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a"], reward=[1], propensity=[1], propensities=[[1, 0]], actions=["a", "b"]
    ... )
    >>> with_unread(log, ["action"])
    ('action', 'propensities')
    >>> for batch in log.each_batch():
    ...     pass
    >>> with_unread(log, ["action"])
    ('action',)
    """
    columns, names = log.columns, dict.fromkeys(wanted)
    compared = columns.propensity is not None and columns.eligible is None
    if columns.propensities is not None and compared and "_validated" not in vars(log):
        names[columns.propensities] = None
    return tuple(names)


def validated(log: _Rows) -> None:
    """Record that a whole pass has read the columns of `with_unread`."""
    # Kept in the instance like a cached property; the dataclass itself is frozen.
    vars(log)["_validated"] = True
