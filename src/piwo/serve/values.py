"""Values of a decision as its log has them: numbers, text and lists of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from piwo.errors import DataError
from piwo.serve.encoding import number_of, text_of

__all__ = ["KINDS", "VALUES", "plain_value"]

KINDS: Mapping[str, str] = {
    "number": "number",
    "levels": "text",
    "hashed": "text",
    "vector": "vector",
}
"""Kind of a feature -> kind of its column in the log."""
VALUES: Mapping[str, str] = {
    "number": "a finite number",
    "text": "text",
    "vector": "a list of finite numbers",
}
"""Kind of a column in the log -> what it holds, in words."""


def plain_value(name: str, kind: str, value: Any) -> Any:
    """Return a value as JSON has it; None for a missing one.

    >>> plain_value("hour", "number", True), plain_value("shop", "text", 7)
    (1.0, '7')

    Raises:
        DataError: for a value of another kind.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return None
    if kind == "text":
        return text_of(name, value)
    if kind == "number":
        return number_of(name, value)
    try:
        return [None if x is None or math.isnan(x) else _finite(x) for x in value]
    except (TypeError, ValueError, OverflowError):
        raise DataError(
            f"context column {name!r} is not a list of finite numbers; give it as one"
        ) from None


def _finite(value: Any) -> float:
    if isinstance(value, str | bytes) or not math.isfinite(value):
        raise ValueError
    return float(value)
