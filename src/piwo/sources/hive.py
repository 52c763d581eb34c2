"""Hive partitions: columns in the names of folders, as in logs/day=2026-01-01/part.parquet."""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from piwo.sources.names import plain_name

__all__ = ["Partition", "hive_options", "partitions_of"]

_NONE = "__HIVE_DEFAULT_PARTITION__"
_FOLDER = re.compile(r"([^=/\\]+)=([^/\\]*)")


@dataclass(frozen=True)
class Partition:
    """One partition column: its type, and its value in each file."""

    name: str
    type: pa.DataType
    values: tuple[Any, ...]

    @property
    def sql(self) -> str:
        """The type as DuckDB calls it."""
        return {"int64": "BIGINT", "date32[day]": "DATE"}.get(str(self.type), "VARCHAR")


def partitions_of(paths: Sequence[str]) -> tuple[Partition, ...]:
    """Return the partition columns that all the paths have.

    A column holds whole numbers or days if every value is written as one (7, not 07; 2026-01-31),
    else text.

    >>> [
    ...     (x.name, str(x.type), x.values)
    ...     for x in partitions_of(["a=1/d=x%2Fy/f.parquet", "a=2/d=z/f.parquet"])
    ... ]
    [('a', 'int64', (1, 2)), ('d', 'string', ('x/y', 'z'))]
    """
    found = [_keys(path) for path in paths]
    if not found:
        return ()
    partitions = []
    for name in found[0]:
        texts = [keys[name] for keys in found if name in keys]
        # A folder column that some files lack is not a column of the log.
        if len(texts) == len(found):
            partitions.append(_partition(name, texts))
    return tuple(partitions)


def hive_options(partitions: Sequence[Partition]) -> str:
    """Return options with which DuckDB's readers of files give the same columns.

    >>> hive_options(partitions_of(["a=1/f.csv"])), hive_options(())
    ("hive_partitioning=true, hive_types={'a': BIGINT}", 'hive_partitioning=false')
    """
    if not partitions:
        return "hive_partitioning=false"
    types = []
    for part in partitions:
        name = part.name.replace("'", "''")
        types.append(f"'{name}': {part.sql}")
    return f"hive_partitioning=true, hive_types={{{', '.join(types)}}}"


def _keys(path: str) -> dict[str, str]:
    keys = {}
    for folder in PurePath(plain_name(path)).parts[:-1]:
        hit = _FOLDER.fullmatch(folder)
        if hit:
            keys[unquote(hit[1])] = unquote(hit[2])
    return keys


def _partition(name: str, texts: Sequence[str]) -> Partition:
    given = [None if x == _NONE else x for x in texts]
    readers: list[tuple[pa.DataType, Callable[[str], Any]]] = [
        (pa.int64(), _whole),
        (pa.date32(), _day),
    ]
    for kind, read in readers:
        try:
            values = tuple(None if x is None else read(x) for x in given)
        except ValueError:
            continue
        if any(x is not None for x in values):
            return Partition(name, kind, values)
    return Partition(name, pa.string(), tuple(given))


def _whole(text: str) -> int:
    number = int(text)
    if str(number) != text or not -(2**63) <= number < 2**63:
        raise ValueError(text)
    return number


def _day(text: str) -> dt.date:
    if not re.fullmatch(r"\d{4}-\d{2}-\d{2}", text):
        raise ValueError(text)
    return dt.date.fromisoformat(text)
