"""A column of numbers: finite float64, or findings."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from piwo.errors import DataError
from piwo.logs.actions import is_text
from piwo.logs.batch import Floats
from piwo.logs.features import is_number
from piwo.logs.findings import Findings
from piwo.sources.source import decoded
from piwo.visible import type_text

__all__ = ["numbers_of"]

_NUMBER = r"(?i)^[-+]?((\d+\.?\d*|\.\d+)(e[-+]?\d+)?|nan|inf|infinity)$"


def numbers_of(
    values: pa.Array,
    name: str,
    findings: Findings,
    if_missing: str = "drop such rows yourself first; nothing is filled in",
) -> Floats | None:
    """Return finite float64 numbers, or None after noting what is wrong with them.

    Args:
        values: numbers, booleans, or text that holds numbers.
        name: of the column.
        findings: what is wrong is noted there.
        if_missing: the advice for missing values.

    >>> numbers_of(pa.array(["0.5", "+1"]), "reward", Findings(np.arange(2))).tolist()
    [0.5, 1.0]
    """
    values, wrong = decoded(values), False
    kind = values.type
    if pa.types.is_boolean(kind):
        values = values.cast(pa.int8())
    elif is_text(kind):
        values, wrong = _number_of_text(values.cast(pa.string()), name, findings)
    elif not (is_number(kind) or pa.types.is_null(kind)):
        raise DataError(f"column {name!r} has {type_text(kind)}, expected numbers; cast it first")
    real = values.cast(pa.float64(), safe=False)
    numbers = np.asarray(real.to_numpy(zero_copy_only=False), np.float64)
    # Minimum and maximum are NaN or infinite if any number is, and need no mask.
    if len(numbers) == 0 or (np.isfinite(numbers.min()) and np.isfinite(numbers.max())):
        if wrong:
            return None
        return numbers
    missing = pc.is_null(values).to_numpy(zero_copy_only=False)
    bad = findings.note(name, "is missing", if_missing, missing)
    nan = np.isnan(numbers) & ~missing
    advice = "find out why; nothing is dropped or filled in"
    bad |= findings.note(name, "is NaN", advice, nan)
    advice = "find out why; nothing is clipped"
    bad |= findings.note(name, "is infinite", advice, np.isinf(numbers))
    if bad or wrong:
        return None
    return numbers


def _number_of_text(
    values: pa.Array,
    name: str,
    findings: Findings,
) -> tuple[pa.Array, bool]:
    """Return numbers that are written as text, and whether there are other texts (noted)."""
    trimmed = pc.utf8_trim_whitespace(values)
    truth = pc.index_in(pc.utf8_lower(trimmed), value_set=pa.array(["false", "true"]))
    trimmed = pc.coalesce(truth.cast(pa.string()), trimmed)
    # What is NaN or infinite is refused as such, not as text.
    number = pc.match_substring_regex(trimmed, _NUMBER)
    wrong = pc.invert(pc.fill_null(number, fill_value=True))
    wrong = wrong.to_numpy(zero_copy_only=False)
    if wrong.any():
        text = values[int(np.flatnonzero(wrong)[0])].as_py()
        advice = f"such as {text!r}; correct or drop such rows yourself"
        findings.note(name, "holds text where numbers are expected", advice, wrong)
        trimmed = pc.if_else(pa.array(wrong), pa.scalar("0"), trimmed)
    return pc.utf8_ltrim(trimmed, characters="+").cast(pa.float64()), bool(wrong.any())
