"""The contexts that a saved policy is to act on: any file or query, matched by column name."""

from __future__ import annotations

import pyarrow as pa

from piwo.errors import DataError, FileError
from piwo.logs.columns import Columns, match_names
from piwo.logs.features import Features
from piwo.logs.read import source_of
from piwo.sources.csv import csv_source
from piwo.sources.paths import files_of, kind_of
from piwo.sources.source import QuerySource, Source, file_list

__all__ = ["read_contexts"]


def read_contexts(text: str, features: Features | None) -> pa.Table:
    """Return the columns that a policy needs, from a file, a glob or a query; other columns are not read.

    Args:
        text: what was typed.
        features: what the policy needs; None: only the number of rows.

    Raises:
        FileError: where there is no such file.
        DataError: where columns are missing (near names are shown), or there are no rows.
    """
    source = _source(text, features)
    available = source.schema.names
    wanted = (
        available[:1]
        if features is None
        else list(match_names(features.columns, available, "policy's context"))
    )
    records = [record for part in source.fragments(wanted) for record in part.records()]
    if sum(record.num_rows for record in records) == 0:
        raise DataError(f"no rows in {source.name}, expected at least one context")
    return pa.Table.from_batches(records)


def _source(text: str, features: Features | None) -> Source:
    try:
        paths = files_of(text)
    except FileError:
        return source_of(text, Columns())  # a query, or the same error
    kind = kind_of(paths)
    if kind == "csv":
        # columns of levels and hashed ones stay text, as "01" is not 1
        items = features.items if features is not None else ()
        texts = [x.column for x in items if x.kind in {"levels", "hashed"}]
        return csv_source(paths, texts=texts, numbers=[x.column for x in items])
    if kind == "json":
        return QuerySource(
            f"select * from read_json({file_list(paths)}, format='newline_delimited')", name=text
        )
    return source_of(paths, Columns())
