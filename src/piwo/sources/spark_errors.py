"""Spark's errors in one line: what went wrong, without the stacks of two languages."""

from __future__ import annotations

import logging
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from piwo.errors import DataError

__all__ = ["one_line"]

_MISSING = re.compile(r"No module named '(\w+)")


@contextmanager
def one_line(name: str) -> Iterator[None]:
    """Turn Spark's errors, a stack of them, into one line."""
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    told_by_spark = logging.getLogger("SQLQueryContextLogger")  # the same error once more, as JSON
    before, told_by_spark.disabled = told_by_spark.disabled, True
    try:
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", FutureWarning
            )  # about versions of pandas, which is not used here
            yield
    except (PySparkException, Py4JError) as cause:
        text = str(cause)
        if missing := _MISSING.search(text):
            raise DataError(
                f"the executors that read {name} have no {missing[1]}; install or ship piwo there, "
                "or set PYSPARK_PYTHON to the Python that has it (docs/clusters.md)"
            ) from None
        told = re.findall(r"^\s*(\w[\w.]*(?:Error|Exception): .*)$", text, re.MULTILINE)
        line = " ".join((told[-1] if told else text).split())[:300]
        raise DataError(f"Spark could not read {name}: {line}; its own log says more") from None
    finally:
        told_by_spark.disabled = before
