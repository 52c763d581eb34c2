"""What the plan of a Spark DataFrame says of its rows: whether they are those of Parquet files, as these stand."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from urllib.parse import unquote, urlsplit

__all__ = ["Scan", "scan_of"]

_PROJECT = "org.apache.spark.sql.catalyst.plans.logical.Project"
_COLUMN = "org.apache.spark.sql.catalyst.expressions.AttributeReference"
_SOURCES = "org.apache.spark.sql.execution.datasources."
_LISTED = {_SOURCES + "InMemoryFileIndex", _SOURCES + "CatalogFileIndex"}
_USUAL = {
    "spark.sql.files.ignoreCorruptFiles": "false",
    "spark.sql.files.ignoreMissingFiles": "false",
    "spark.sql.parquet.datetimeRebaseModeInRead": "corrected",
    "spark.sql.parquet.fieldId.read.enabled": "false",
}
"""Settings, and the value with which Spark reads files as they stand."""
_UNUSUAL = ("ignoreCorruptFiles", "ignoreMissingFiles", "datetimeRebaseMode")
"""The same settings as options of one frame."""


@dataclass(frozen=True)
class Scan:
    """Files whose rows are those of a frame.

    Args:
        paths: of all files, in the order of their addresses.
        folders: the columns that folders name, in lower case.
    """

    paths: tuple[str, ...]
    folders: frozenset[str]


def scan_of(frame: Any) -> Scan | None:
    """Return the Parquet files that a frame is; None where it is more than files, or these have no common path.

    Args:
        frame: a `pyspark.sql.DataFrame`.
    """
    from py4j.protocol import Py4JError, Py4JNetworkError

    if not hasattr(frame.sparkSession, "sparkContext"):  # a remote session shows no plans
        return None
    try:
        relation = _relation(frame)
        if relation is None or not _as_they_stand(frame.sparkSession, relation.options()):
            return None
        files, folders = (
            sorted(relation.location().inputFiles()),
            relation.partitionSchema().fieldNames(),
        )
    except Py4JNetworkError:
        raise
    except Py4JError:  # nor do clusters that keep Python from the JVM
        return None
    places = [urlsplit(x) for x in files]
    if len(set(files)) < len(files) or not all(
        (x.scheme, x.netloc) == ("file", "") for x in places
    ):
        return None
    # Spark takes names in any case
    return Scan(tuple(unquote(x.path) for x in places), frozenset(x.casefold() for x in folders))


def _relation(frame: Any) -> Any:
    """Return the one scan of Parquet files that a frame is, of all columns or some; None where it is anything else."""
    # a plan made now: that of the frame itself may be older than its cache
    plan = frame.select("*")._jdf.queryExecution().optimizedPlan()  # noqa: SLF001 (plans have no other door)
    if _kind(plan) == _PROJECT:
        columns = plan.projectList()
        if not all(_kind(columns.apply(i)) == _COLUMN for i in range(columns.size())):
            return None
        plan = plan.child()
    # these classes themselves: those that derive from them leave rows out, or read by other rules
    if (
        _kind(plan) != _SOURCES + "LogicalRelation"
        or _kind(plan.relation()) != _SOURCES + "HadoopFsRelation"
    ):
        return None
    relation = plan.relation()
    plain = _kind(relation.fileFormat()) == _SOURCES + "parquet.ParquetFileFormat"
    return relation if plain and _kind(relation.location()) in _LISTED else None


def _as_they_stand(session: Any, options: Any) -> bool:
    """Whether Spark is to read what files hold: all of it, columns by name, days by our calendar."""
    usual = all(session.conf.get(name, value).casefold() == value for name, value in _USUAL.items())
    return usual and not any(options.contains(x) for x in _UNUSUAL)


def _kind(java: Any) -> str:
    return str(java.getClass().getName())
