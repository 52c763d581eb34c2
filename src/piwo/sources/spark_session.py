"""Spark's sessions: tables by name, jobs that Ctrl-C cancels."""

from __future__ import annotations

import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piwo.errors import UsageError
from piwo.sources.spark_errors import one_line

__all__ = ["canceled_by_interrupts", "table_of"]

_ERRORS_ALONE = """\
rootLogger.level = error
rootLogger.appenderRef.console.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = %d{yy/MM/dd HH:mm:ss} %p %c{1}: %m%n%ex
"""
"""What Log4j is told; Spark reads it once, as it starts."""


def table_of(text: str) -> Any:
    """Return the DataFrame that "spark:TABLE" or "spark:select ..." means, in the session that there is.

    Raises:
        UsageError: where Spark is not installed.
        DataError: where there is no such table.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            f"{text!r} needs Spark, which is not installed; pip install 'piwo[spark]'"
        ) from None
    asked = text.partition(":")[2].strip()
    with one_line(text):
        # its bar on standard error is the progress that users see
        watched = str(sys.stderr.isatty()).lower()
        builder = SparkSession.builder.appName("piwo").config(
            "spark.ui.showConsoleProgress", watched
        )
        if (
            "PYSPARK_GATEWAY_PORT" not in os.environ
        ):  # not from spark-submit: the workers are processes of this machine
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.getActiveSession()
        if session is None:
            with _errors_alone():
                session = builder.getOrCreate()
        return session.sql(asked) if " " in asked else session.table(asked)


@contextmanager
def _errors_alone() -> Iterator[None]:
    """Have a Spark that starts here log its errors and no warnings, unless somebody has settings for it."""
    import pyspark

    settings = {"SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT"} & set(os.environ)
    if settings or Path(pyspark.__file__).with_name("conf").exists():
        yield
        return
    with TemporaryDirectory(prefix="piwo-spark-") as folder:
        Path(folder, "log4j2.properties").write_text(_ERRORS_ALONE, encoding="utf-8")
        os.environ["SPARK_CONF_DIR"] = folder
        try:
            yield
        finally:
            del os.environ["SPARK_CONF_DIR"]


@contextmanager
def canceled_by_interrupts(session: Any) -> Iterator[None]:
    """Cancel the jobs of the block where the user presses Ctrl-C, and no others."""
    tag = f"piwo-{uuid.uuid4().hex}"
    if hasattr(session, "sparkContext"):
        context = (
            session.sparkContext
        )  # its tags are known in every thread, and the interrupt costs this one its own
        add, cancel, remove = context.addJobTag, context.cancelJobsWithTag, context.removeJobTag
    else:  # a remote session
        add, cancel, remove = session.addTag, session.interruptTag, session.removeTag
    add(tag)
    try:
        yield
    except (KeyboardInterrupt, Exception) as cause:
        if not _interrupted(cause):
            raise
        _for_certain(cancel, tag)
        raise KeyboardInterrupt from None
    finally:
        _for_certain(remove, tag)


def _interrupted(cause: BaseException | None) -> bool:
    """Whether Ctrl-C is behind an error: Spark's own cleaning up fails on the connection that it broke."""
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _for_certain(call: Callable[[str], object], tag: str) -> None:
    """Call Spark, once more where an interrupt had broken the connection."""
    from py4j.protocol import Py4JError

    try:
        call(tag)
    except Py4JError:
        call(tag)
