"""A Dask DataFrame as a source: its workers reduce the partitions and merge the states."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import pyarrow as pa

from piwo.errors import DataError, PiwoError
from piwo.sources.addresses import shown
from piwo.sources.clusters import Cluster, Merge, One, Partition
from piwo.sources.frames import to_table
from piwo.sources.source import Fragment, type_family

__all__ = ["DaskSource"]

_AT_ONCE = 16
"""States that one task merges."""
_RETRIES = 3


@dataclass(frozen=True, eq=False)
class DaskSource(Cluster):
    """A `dask.dataframe.DataFrame`, computed by the current client or on this machine."""

    frame: Any
    name: str = "the Dask DataFrame"

    @cached_property
    def schema(self) -> pa.Schema:
        """Column names and Arrow types, as the first rows have them."""
        with _dask_errors(self.name):
            return self._first().schema

    def head(self, columns: Sequence[str]) -> Fragment:
        """Return a few rows of the first partition that has any."""
        with _dask_errors(self.name):
            return Partition(0, tuple(columns), self._first().select(list(columns)).to_batches())

    def together(self, column: str) -> DaskSource:
        """Return the same rows, shuffled so that equal values of a column are neighbors."""
        # Dask's peer-to-peer shuffle does not know lists, such as propensity vectors.
        lists = any(type_family(field.type) == "list" for field in self.schema)
        with _dask_errors(self.name):
            shuffled = self.frame.shuffle(on=column, shuffle_method="tasks" if lists else None)
            return DaskSource(shuffled.map_partitions(_sorted, column), self.name)

    def fold(self, columns: Sequence[str], one: One, merge: Merge) -> bytes:
        """Return the merged states of all partitions."""
        import dask

        names = list(columns)
        parts = self.frame[names].to_delayed()
        # Each function travels once, not once for every partition.
        mapped = dask.delayed(_Held(one), pure=False, traverse=False)
        merged = dask.delayed(_Held(merge), pure=False, traverse=False)
        with _dask_errors(self.name), dask.annotate(retries=_RETRIES):
            level = []
            for number, part in enumerate(parts):
                level.append(dask.delayed(_mapped)(mapped, part, number, names))
            while len(level) > 1:
                above = []
                for at in range(0, len(level), _AT_ONCE):
                    group = level[at : at + _AT_ONCE]
                    above.append(dask.delayed(_merged)(merged, group))
                level = above
            (found,) = dask.compute(*level)
        return merge([found])

    def _first(self) -> pa.Table:
        with warnings.catch_warnings():
            # Fewer rows than asked for are enough here.
            warnings.simplefilter("ignore", UserWarning)
            for partition in self.frame.partitions:
                found = to_table(partition.head(1000))
                if found.num_rows:
                    return found
            return to_table(self.frame.partitions[0].head(0))


@contextmanager
def _dask_errors(name: str) -> Iterator[None]:
    """Turn what Dask, or the code that makes a partition, raises into one line."""
    try:
        yield
    except (PiwoError, MemoryError):
        raise
    except Exception as cause:
        raise DataError(
            f"Dask could not read {name}: {type(cause).__name__}: {shown(cause)}; "
            "compute its partitions to see which"
        ) from cause


@dataclass(frozen=True)
class _Held:
    """A function as a value: Dask would call a bare one."""

    function: Any


def _mapped(held: _Held, part: Any, number: int, names: list[str]) -> bytes:
    found: bytes = held.function(Partition(number, names, to_table(part).to_batches()))
    return found


def _merged(held: _Held, parts: list[bytes]) -> bytes:
    found: bytes = held.function(parts)
    return found


def _sorted(part: Any, column: str) -> Any:
    return part.sort_values(column)
