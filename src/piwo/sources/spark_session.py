"""Spark's sessions: tables by name, jobs that Ctrl-C cancels, errors in one line."""

from __future__ import annotations

import logging
import os
import re
import sys
import uuid
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from piwo.errors import DataError, UsageError
from piwo.sources.addresses import shown

__all__ = ["canceled_by_interrupts", "spark_errors", "table_of"]

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
"""Settings of Log4j; Spark reads them once, when it starts."""
_MISSING = re.compile(r"No module named '(\w+)")


def table_of(text: str) -> Any:
    """Return the DataFrame that "spark:TABLE" or "spark:select ..." means, in the current session.

    Raises:
        UsageError: if Spark is not installed.
        DataError: if there is no such table.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UsageError(
            f"{text!r} needs Spark, which is not installed; pip install 'piwo[spark]'"
        ) from None
    asked = text.partition(":")[2].strip()
    with spark_errors(text):
        # Spark's bar on standard error is the progress that users see.
        on_terminal = str(sys.stderr.isatty()).lower()
        builder = SparkSession.builder.appName("piwo").config(
            "spark.ui.showConsoleProgress", on_terminal
        )
        if "PYSPARK_GATEWAY_PORT" not in os.environ:
            # Not started by spark-submit: the workers are processes of this machine.
            os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
        session = SparkSession.getActiveSession()
        if session is None:
            with _only_errors_logged():
                session = builder.getOrCreate()
        return session.sql(asked) if " " in asked else session.table(asked)


@contextmanager
def _only_errors_logged() -> Iterator[None]:
    """Have a Spark that starts here log errors and no warnings, unless the user configured it."""
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
    """Cancel the jobs of the block, and no others, when the user presses Ctrl-C."""
    tag = f"piwo-{uuid.uuid4().hex}"
    if hasattr(session, "sparkContext"):
        # Every thread may use the context's tags; the interrupt breaks this thread's connection.
        context = session.sparkContext
        add, cancel, remove = context.addJobTag, context.cancelJobsWithTag, context.removeJobTag
    else:  # a remote session
        add, cancel, remove = session.addTag, session.interruptTag, session.removeTag
    add(tag)
    try:
        yield
    except (KeyboardInterrupt, Exception) as cause:
        if not _interrupted(cause):
            raise
        _called_twice_if_needed(cancel, tag)
        raise KeyboardInterrupt from None
    finally:
        _called_twice_if_needed(remove, tag)


def _interrupted(cause: BaseException | None) -> bool:
    """Whether Ctrl-C caused an error: it breaks the connection that Spark's cleanup needs."""
    while cause is not None and not isinstance(cause, KeyboardInterrupt):
        cause = cause.__context__
    return cause is not None


def _called_twice_if_needed(call: Callable[[str], object], tag: str) -> None:
    """Call Spark, and call it again if an interrupt had broken the connection."""
    from py4j.protocol import Py4JError

    try:
        call(tag)
    except Py4JError:
        call(tag)


@contextmanager
def spark_errors(name: str) -> Iterator[None]:
    """Turn Spark's errors, the stacks of two languages, into one line each.

    Args:
        name: of what is read.

    Raises:
        DataError: saying what went wrong.
    """
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    logger = logging.getLogger("SQLQueryContextLogger")  # it repeats the error as JSON
    before, logger.disabled = logger.disabled, True
    try:
        with warnings.catch_warnings():
            # About versions of pandas, which is not used here.
            warnings.simplefilter("ignore", FutureWarning)
            yield
    except (PySparkException, Py4JError) as cause:
        text = str(cause)
        missing = _MISSING.search(text)
        if missing:
            raise DataError(
                f"the executors that read {name} have no {missing[1]}; install or ship "
                "piwo there, or set PYSPARK_PYTHON to the Python that has it "
                "(docs/clusters.md)"
            ) from None
        # The last one is the cause of the others.
        errors = re.findall(r"^\s*(\w[\w.]*(?:Error|Exception): .*)$", text, re.MULTILINE)
        reason = shown(errors[-1] if errors else text)
        raise DataError(f"Spark could not read {name}: {reason}; its own log says more") from None
    finally:
        logger.disabled = before
