"""A number for each row of a source, by which rows that come again are recognized."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from piwo.logs.actions import is_text
from piwo.logs.hashing import key_numbers, scramble
from piwo.sources.source import Source, decoded

__all__ = ["digest_of", "row_hashes"]

Hashes = npt.NDArray[np.uint64]
_NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]{1,2})?$"
"""Texts of numbers, as CSV files have no types."""


def row_hashes(source: Source) -> Hashes:
    """Return a number for each row, of the contents of all its columns, in the order of the source.

    It is the sum over the columns of a hash of name and value, and a missing value counts 0: rows
    keep their numbers if a column is added that they have no value of, and if the type of a column
    of numbers changes. A text that is a number counts as that number, as CSV files have no types.
    Lists and objects count by their entries.

    Args:
        source: rows in files, tables or queries.

    >>> from piwo.sources.table import TableSource
    >>> short = TableSource(pa.table({"x": [1, 2], "a": ["p", "q"]}))
    >>> longer = TableSource(
    ...     pa.table({"x": [1.0, 2.0, 2.5], "a": ["p", "q", "q"], "new": [None, None, 1]})
    ... )
    >>> (row_hashes(short) == row_hashes(longer)[:2]).tolist()
    [True, True]
    """
    found: list[Hashes] = []
    for fragment in source.fragments(source.schema.names):
        for record in fragment.records():
            found.append(_of_record(record))
    if not found:
        return np.zeros(0, np.uint64)
    return np.concatenate(found)


def digest_of(hashes: Hashes) -> str:
    """Return 32 hexadecimal digits for these rows in this order.

    >>> digest_of(np.array([1, 2], np.uint64)) == digest_of(np.array([2, 1], np.uint64))
    False
    """
    return hashlib.sha256(np.ascontiguousarray(hashes, "<u8").tobytes()).hexdigest()[:32]


def _of_record(record: pa.RecordBatch) -> Hashes:
    total = np.zeros(record.num_rows, np.uint64)
    for name, column in zip(record.schema.names, record.columns, strict=True):
        salt = hashlib.sha256(name.encode("utf-8", "surrogatepass")).digest()[:8]
        total += _of_values(decoded(column), np.uint64(int.from_bytes(salt, "little")))
    return total


def _of_values(values: pa.Array, salt: np.uint64) -> Hashes:
    """Return the hash of each value of a column; 0 where it is missing."""
    kind, types = values.type, pa.types
    here = pc.is_valid(values).to_numpy(zero_copy_only=False)
    if types.is_struct(kind):
        parts = []
        for place in range(kind.num_fields):
            inside = hashlib.sha256(kind.field(place).name.encode()).digest()[:8]
            mixed = salt ^ np.uint64(int.from_bytes(inside, "little"))
            parts.append(_of_values(decoded(pc.struct_field(values, place)), mixed))
        total = np.zeros(len(values), np.uint64)
        for part in parts:
            total += part
        return np.where(here, total, np.uint64(0))
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        return _of_lists(values, salt)
    if is_text(kind):
        bits = _texts(pc.fill_null(values, ""))
    else:
        bits = _numbers(values)
    return np.where(here, scramble(scramble(bits) ^ salt), np.uint64(0))


def _texts(values: pa.Array) -> Hashes:
    """Return a number for each text; that of a number is the number's own."""
    bits = key_numbers(values, "").view(np.uint64)
    whole = pc.match_substring_regex(values, _NUMBER)
    if not pc.any(whole).as_py():
        return bits
    of_number = _numbers(pc.if_else(whole, values, "0").cast(pa.float64()))
    return np.where(whole.to_numpy(zero_copy_only=False), of_number, bits)


def _of_lists(values: pa.Array, salt: np.uint64) -> Hashes:
    """Return the hash of each list, which depends on the order of its entries."""
    owner = pc.list_parent_indices(values).to_numpy(zero_copy_only=False).astype(np.int64)
    entries = decoded(pc.list_flatten(values))
    # the place of an entry in its own list
    first = np.searchsorted(owner, owner, side="left")
    place = (np.arange(len(owner)) - first).astype(np.uint64)
    each = scramble(_of_values(entries, salt) ^ scramble(place))
    total = np.zeros(len(values), np.uint64)
    np.add.at(total, owner, each)
    return total


def _numbers(values: pa.Array) -> Hashes:
    """Return the bits of numbers as float64, of times in microseconds; other kinds as their text.

    Whole numbers in float64 are equal to the same ones of another type.
    """
    kind, types = values.type, pa.types
    if types.is_timestamp(kind):
        values = values.cast(pa.timestamp("us", kind.tz), safe=False).cast(pa.int64())
    elif types.is_date(kind):
        values = values.cast(pa.date32()).cast(pa.int32())
    try:
        plain = values.cast(pa.float64(), safe=False)
        bits = pc.fill_null(plain, 0.0).to_numpy(zero_copy_only=False)
        # + 0.0: -0.0 and 0.0 are the same number
        return np.ascontiguousarray(bits + 0.0).view(np.uint64)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = pa.array(["" if x is None else str(x) for x in values.to_pylist()], pa.string())
        return key_numbers(texts, "").view(np.uint64)
