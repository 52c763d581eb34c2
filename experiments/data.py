"""The labeled rows of the experiment: a file, an OpenML data set, or rows from a seed."""

from __future__ import annotations

import hashlib
import json
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from experiments.files import visible
from piwo.errors import DataError, FileError, UsageError

__all__ = ["SYNTHETIC_ROWS", "Data", "load"]

Floats = npt.NDArray[np.float64]

SYNTHETIC_ROWS = 1_000_000
FEATURES = 16
LETTERS = tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ")
BLOBS = 3
"""Gaussian blobs a class."""

FEWEST_ROWS, MOST_CLASSES = 100, 1000
LARGEST = 1e150
"""Sums of squares of larger numbers leave float64."""
ROW_BLOCK = 8192
LETTER_ID = 6
DRAW, MAKE = 1, 2
"""Beside the user's seed, so that the rows drawn and the rows made share no random numbers with the
protocol."""

WANTED = "expected a .parquet or .csv file, openml:NUMBER, letter or synthetic"


@dataclass(frozen=True, eq=False)
class Data:
    """n labeled rows.

    Attributes:
        X: (n, d) contexts, all finite.
        y: (n,) class labels: text, dictionary-encoded over the sorted labels that occur.
        name: what figures call it.
        synthetic: made from a seed, not measured.
        digest: SHA-256 of the shape, X and the labels; the type of the file that held them, the
            names of its columns and the precision they were stored in do not enter.
    """

    X: Floats
    y: pa.DictionaryArray
    name: str
    synthetic: bool
    digest: str

    @property
    def labels(self) -> tuple[str, ...]:
        """The K class labels, sorted."""
        return tuple(self.y.dictionary.to_pylist())


def load(source: str, rows: int | None, seed: int, target: str | None = None) -> Data:
    """Return the rows of a source.

    Args:
        source: `synthetic`, `letter` (the original 20,000 rows), `openml:247`, or a .parquet or
            .csv file.
        rows: draw so many without replacement where the source has more; None: all.
        seed: of that draw, and of the synthetic rows.
        target: the class column of a file or an OpenML data set; None: `class`, or what OpenML
            says.

    Raises:
        FileError: for a file or data set that cannot be had.
        DataError: for rows that cannot be used.
        UsageError: for a source of no known kind, and a target where none can be chosen.
    """
    if target is not None and source in ("synthetic", "letter"):
        raise UsageError(
            f"--target {target} goes with a file or openml:NUMBER; {source} has its own classes"
        )
    if source == "synthetic":
        return _synthetic(SYNTHETIC_ROWS if rows is None else rows, seed)
    if source == "letter":
        table, target, name = _letter()
    elif source.startswith("openml:"):
        number = source.removeprefix("openml:")
        if not (number.isascii() and number.isdecimal()):
            raise UsageError(
                f"--data {source!r} names no OpenML data set, expected a number as in openml:247"
            )
        table, target, name = _openml(int(number), target)
    else:
        table, target, name = _file(Path(source), target or "class")
    X, labels = _matrix(table, target, name), _labels(table, target, name)
    if rows is not None and rows < len(X):
        drawn = np.random.default_rng([seed, DRAW]).choice(
            len(X), rows, replace=False, shuffle=False
        )
        drawn.sort()
        X, labels = X[drawn], labels.take(pa.array(drawn))
    return _data(X, _encoded(labels, target, name), name, synthetic=False)


# --- sources


def _synthetic(n: int, seed: int) -> Data:
    """Return rows like letters: each of 26 classes is a few blobs, and ridge is mediocre.

    Only sums, products and square roots of uniform numbers, which every machine rounds alike; the
    sum of four uniform numbers stands in for a normal one.
    """
    rng = np.random.default_rng([seed, MAKE])
    K, d = len(LETTERS), FEATURES
    centers = (rng.random((K, 1, d)) - 0.5) + (2 * rng.random((K, BLOBS, d)) - 1)
    centers, scales = centers.reshape(-1, d), rng.random((K * BLOBS, d)) + 0.5
    blobs = rng.integers(0, K * BLOBS, n)
    X = np.empty((n, d))
    for start in range(0, n, ROW_BLOCK):
        here = blobs[start : start + ROW_BLOCK]
        uniform = rng.random((4, len(here), d), dtype=np.float32)
        noise = (uniform.sum(axis=0, dtype=np.float64) - 2) * np.sqrt(3)  # mean 0, variance 1
        X[start : start + ROW_BLOCK] = centers[here] + scales[here] * noise
    labels = pa.DictionaryArray.from_arrays(
        pa.array((blobs // BLOBS).astype(np.int32)), pa.array(LETTERS)
    )
    return _data(
        X,
        _encoded(labels.cast(pa.string()), "class", "synthetic data"),
        "synthetic data",
        synthetic=True,
    )


def _letter() -> tuple[pa.Table, str, str]:
    """Return the original 20,000 rows: from the shared folder if present, else from OpenML."""
    given = os.environ.get("PIWO_SHARED", "")
    shared = Path(given) if given else Path(__file__).resolve().parents[2] / "shared"
    path = shared / "data" / "letter.parquet"
    return (_parquet(path), "class", "letter") if path.is_file() else _openml(LETTER_ID, None)


def _file(path: Path, target: str) -> tuple[pa.Table, str, str]:
    kind = path.suffix.lower()
    if kind not in (".parquet", ".csv"):
        raise UsageError(f"--data {str(path)!r} is of no known kind, {WANTED}")
    if not path.is_file():
        raise FileError(f"no file {str(path)!r}, {WANTED}")
    # the paper's data, by the name that it usually has as a file
    name = (
        "BNG(letter)"
        if path.stem.lower().startswith(("bng_letter", "bng(letter"))
        else visible(path.stem)
    )
    return _parquet(path) if kind == ".parquet" else _csv(path, target), target, name


def _parquet(path: Path) -> pa.Table:
    try:
        with pq.ParquetFile(path) as file:
            return file.read()
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(
            f"cannot read {str(path)!r} as Parquet: {_short(error)}; make the file again"
        ) from error


def _csv(path: Path, target: str) -> pa.Table:
    # labels stay the text that they are: "01" is not "1", and "NA" is a label
    convert = pa.csv.ConvertOptions(column_types={target: pa.string()}, strings_can_be_null=False)
    try:
        return pa.csv.read_csv(path, convert_options=convert)
    except (pa.ArrowException, OSError, ValueError) as error:
        raise FileError(
            f"cannot read {str(path)!r} as CSV: {_short(error)}; expected UTF-8 text whose first "
            "line names the columns"
        ) from error


def _openml(number: int, target: str | None) -> tuple[pa.Table, str, str]:
    from sklearn.datasets import fetch_openml

    instead = "download it elsewhere as .parquet or .csv and pass --data FILE"
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of retries; what comes of them is said below
            column = "default-target" if target is None else target
            found = fetch_openml(data_id=number, target_column=column, as_frame=True, parser="auto")
    except ImportError as error:
        raise FileError(
            f"reading openml:{number} needs pandas; pip install pandas, or {instead}"
        ) from error
    except (OSError, HTTPException, ValueError, KeyError) as error:
        # the message of a closed network holds a whole stack of its own
        raise FileError(
            f"cannot fetch openml:{number} ({_short(error, 120)}); {instead}"
        ) from error
    targets = list(found.target_names)
    if len(targets) != 1:
        raise DataError(
            f"openml:{number} has {len(targets)} target columns, expected one; name it with "
            "--target"
        )
    table = pa.Table.from_pandas(found.frame, preserve_index=False)
    return table, str(targets[0]), visible(str(found.details["name"]))


# --- validation, once


def _matrix(table: pa.Table, target: str, name: str) -> Floats:
    """Return all columns but the class as an (n, d) matrix of finite numbers."""
    names = table.column_names
    if len(set(names)) < len(names):
        twice = next(x for x in names if names.count(x) > 1)
        raise DataError(
            f"{name} has several columns {twice!r}, expected different names; rename one"
        )
    if target not in names:
        listed = ", ".join(names[:8]) + (", ..." if len(names) > 8 else "")
        raise DataError(
            f"{name} has no column {target!r} ({listed}); name the class column with --target"
        )
    if table.num_rows < FEWEST_ROWS:
        raise DataError(
            f"{name} has {table.num_rows} rows, expected at least {FEWEST_ROWS}; give more"
        )
    columns = [_numbers(table[x], x, name) for x in names if x != target]
    if not columns:
        raise DataError(
            f"{name} has no column beside the class {target!r}, expected numeric features; add some"
        )
    X = np.empty((table.num_rows, len(columns)))
    for start in range(
        0, len(X), ROW_BLOCK
    ):  # a block of rows stays in the cache while its columns fill it
        for j, column in enumerate(columns):
            X[start : start + ROW_BLOCK, j] = column[start : start + ROW_BLOCK]
    return X


def _numbers(column: pa.ChunkedArray, label: str, name: str) -> npt.NDArray[Any]:
    kind = column.type
    if column.null_count:
        first = pc.index(column.is_null(), value=True).as_py()
        message = f"{_count(column.null_count)} missing, first in row {first}"
        raise DataError(f"{name}, column {label!r}: {message}; fill or drop them")
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)):
        example = _example(column)
        raise DataError(
            f"{name}, column {label!r} holds {kind} ({example}), expected numbers; drop or encode "
            "it"
        )
    if kind.bit_width > 32 or pa.types.is_decimal(kind):
        try:
            column = column.cast(pa.float64())
        except pa.ArrowInvalid as error:
            raise DataError(
                f"{name}, column {label!r} does not fit float64: {_short(error)}; scale it"
            ) from error
    values: npt.NDArray[Any] = column.to_numpy()
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        message = f"{_count(len(bad))} NaN or infinite, first in row {bad[0]}"
        raise DataError(f"{name}, column {label!r}: {message}; fill or drop them")
    most = max(abs(float(values.min())), abs(float(values.max())))
    if most > LARGEST:
        raise DataError(
            f"{name}, column {label!r} holds {most:.3g}, expected at most {LARGEST:g} in size; "
            "scale it"
        )
    return values


def _count(values: int) -> str:
    return "1 value is" if values == 1 else f"{values} values are"


def _example(column: pa.ChunkedArray) -> str:
    """Return a value that is not a number, and its row: often one word among numbers."""
    for row, value in enumerate(column.to_pylist()):
        try:
            float(value)
        except (TypeError, ValueError):
            return f"row {row}: {_short(repr(value), 40)}"
    return f"row 0: {_short(repr(column[0].as_py()), 40)}"


def _labels(table: pa.Table, target: str, name: str) -> pa.Array:
    """Return the class column as text."""
    column = table[target]
    kind = column.type.value_type if pa.types.is_dictionary(column.type) else column.type
    text = (
        pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind)
    )
    if not (text or pa.types.is_integer(kind) or pa.types.is_boolean(kind)):
        raise DataError(
            f"{name}, class column {target!r} holds {kind}, expected text or whole numbers; use "
            "--target"
        )
    labels = column.cast(kind).cast(pa.string()).combine_chunks()
    missing = pc.fill_null(pc.equal(labels, ""), fill_value=True)
    first = pc.index(missing, value=True).as_py()
    if first >= 0:
        raise DataError(
            f"{name}, class column {target!r}: row {first} has no label; drop such rows"
        )
    return labels


def _encoded(labels: pa.Array, target: str, name: str) -> pa.DictionaryArray:
    """Return the labels as codes into the sorted ones that occur."""
    distinct = sorted(labels.unique().to_pylist())
    if not 2 <= len(distinct) <= MOST_CLASSES:
        raise DataError(
            f"{name}, class column {target!r} has {len(distinct)} different "
            f"label{'s' if distinct[1:] else ''}, expected 2 to {MOST_CLASSES}; name the class "
            "column with --target"
        )
    values = pa.array(distinct, pa.string())
    return pa.DictionaryArray.from_arrays(pc.index_in(labels, value_set=values), values)


def _data(X: Floats, y: pa.DictionaryArray, name: str, *, synthetic: bool) -> Data:
    X.flags.writeable = False
    labels: Sequence[str] = y.dictionary.to_pylist()
    digest = hashlib.sha256(json.dumps([*X.shape, labels]).encode())
    digest.update(np.ascontiguousarray(X, "<f8").data)
    digest.update(np.ascontiguousarray(y.indices.to_numpy(), "<i4").data)
    return Data(X, y, name, synthetic, digest.hexdigest())


def _short(text: object, most: int = 160) -> str:
    """Return the beginning of a library's message, on one line."""
    line = " ".join(str(text).split()).rstrip(".")
    return line if len(line) <= most else line[: most - 3] + "..."
