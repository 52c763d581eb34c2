"""Checks of arguments, with one-line errors that name the argument."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping, Sized
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.errors import DataError, UsageError
from piwo.messages import argument

__all__ = [
    "a_kind",
    "check_at_least",
    "check_count",
    "check_delta",
    "check_finite",
    "check_flag",
    "check_kind",
    "check_listed",
    "check_non_negative",
    "check_path",
    "check_positive",
    "check_seed",
    "check_sequences",
    "each_once",
    "is_number",
    "is_seed",
    "is_whole",
    "numbers",
    "real_array",
    "shown",
]

_MOST = 2**63
"""No log has more rows."""


def a_kind(value: object) -> str:
    """Return the type of a value with its article, for messages.

    >>> a_kind(1), a_kind("x")
    ('an int', 'a str')
    """
    name = type(value).__name__
    if name[0] in "aeioAEIO":
        return f"an {name}"
    return f"a {name}"


def each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object from its pairs, for `json.loads(..., object_pairs_hook=each_once)`.

    Raises:
        DataError: for a name that the object has twice, of which the last value would win.

    >>> each_once([("a", 1), ("b", 2)])
    {'a': 1, 'b': 2}
    """
    made: dict[str, Any] = {}
    for name, value in pairs:
        if name in made:
            raise DataError(f"a JSON object has {shown(name)} twice; give each value its own name")
        made[name] = value
    return made


def shown(value: object) -> str:
    """Return a value as an error shows it: one line of at most 80 characters.

    >>> shown([1, 2]), shown("x" * 100)[-3:]
    ('[1, 2]', '...')
    >>> import numpy as np
    >>> shown(np.array([0.05]))
    'ndarray: array([0.05])'
    """
    # NumPy's repr of a number is np.float64(0.1), which a reader knows as 0.1
    of_numpy = is_number(value) and type(value).__module__ == "numpy"
    text = " ".join((str(value) if of_numpy else repr(value)).split())
    if getattr(value, "ndim", 0) > 0:
        # A series of one number looks like a number.
        text = f"{type(value).__name__}: {text}"
    if len(text) <= 80:
        return text
    return text[:77] + "..."


def _wrong(name: str, value: object, expected: str) -> UsageError:
    """Return the error for an argument: what was received, what was expected, what to do."""
    return UsageError(f"{argument(name)} is {shown(value)}; expected {expected}")


def check_delta(delta: Any) -> None:
    """Require 0 < delta < 1.

    >>> check_delta(0.05)
    """
    if not (is_number(delta) and 0.0 < delta < 1.0):
        expected = "a number between 0 and 1, such as 0.05: pass the probability of error"
        raise _wrong("delta", delta, expected)


def check_count(name: str, value: Any, least: int, what: str = "the count of rows") -> None:
    """Require a whole number of at least `least` and at most 2^63.

    >>> check_count("n", 10, 1)
    """
    if not (is_number(value) and least <= value <= _MOST and value == math.floor(value)):
        most = ""
        if is_number(value) and value > _MOST:
            most = " and at most 2^63"
        raise _wrong(name, value, f"a whole number of at least {least}{most}: pass {what}")


def check_finite(name: str, value: Any) -> None:
    """Require a finite number.

    >>> check_finite("mean", 0.5)
    """
    if not (is_number(value) and _is_finite(value)):
        raise _wrong(name, value, "a finite number: check the rows that it was computed from")


def check_positive(name: str, value: Any) -> None:
    """Require a finite number above 0.

    >>> check_positive("gamma", 0.1)
    """
    if not (is_number(value) and _is_finite(value) and value > 0.0):
        raise _wrong(name, value, "a finite number above 0: pass a positive one")


def check_non_negative(name: str, value: Any) -> None:
    """Require a number of at least 0; infinity is allowed.

    >>> check_non_negative("kl", 0.0)
    """
    if not (is_number(value) and value >= 0.0):
        raise _wrong(name, value, "a number of at least 0: check how it was computed")


def check_at_least(name: str, value: Any, least: float) -> None:
    """Require a number of at least `least`; infinity is allowed.

    >>> check_at_least("largest", 2.0, 1.0)
    """
    if not (is_number(value) and value >= least):
        raise _wrong(name, value, f"a number of at least {least:g}: pass a larger one")


def check_seed(name: str, value: Any) -> None:
    """Require a whole number that can seed a generator.

    >>> check_seed("random_state", 0)
    """
    if not is_seed(value):
        raise _wrong(name, value, "a whole number of at least 0: the seed")


def check_flag(name: str, value: Any) -> None:
    """Require True or False, Python's or NumPy's.

    >>> check_flag("tail", False)
    """
    if not (isinstance(value, bool) or type(value).__name__ == "bool"):
        raise _wrong(name, value, "True or False")


def check_kind(name: str, value: Any, kind: type | tuple[type, ...], hint: str = "") -> None:
    """Require an instance of a class, or of one of several.

    Args:
        name: the argument's name.
        value: what was passed.
        kind: the class or classes.
        hint: the end of the message, such as where to find one.

    >>> check_kind("name", "one", str)
    """
    if not isinstance(value, kind):
        if isinstance(kind, tuple):
            known = kind
        else:
            known = (kind,)
        kinds = " or ".join(x.__name__.replace("NoneType", "None") for x in known)
        article = "a"
        if kinds[0] in "AEIO":
            article = "an"
        raise UsageError(f"{argument(name)} is {shown(value)}, expected {article} {kinds}{hint}")


def check_listed(name: str, values: Any) -> None:
    """Require a list, a tuple or another sized collection; not text, not a mapping.

    >>> check_listed("gammas", [0.1, 0.2])
    """
    if isinstance(values, str | Mapping) or not (
        isinstance(values, Iterable) and isinstance(values, Sized)
    ):
        raise _wrong(name, values, "a list")


def check_path(value: Any) -> None:
    """Require the path of a file.

    >>> check_path("policy.piwo")
    """
    if not isinstance(value, str | os.PathLike):
        raise _wrong("path", value, "a text or a Path: where the file is")


def check_sequences(what: str, **given: Any) -> None:
    """Require sequences of finite numbers, of one length, not empty.

    >>> check_sequences("bet size", bets=[0.1], scores=[0.5])
    """
    lengths = [
        len(x) if isinstance(x, Sized) and not isinstance(x, str) else 0 for x in given.values()
    ]
    if not lengths[0] or len(set(lengths)) > 1:
        received = ", ".join(f"{name} {shown(x)}" for name, x in given.items())
        raise UsageError(
            f"{received}; expected equally many numbers, at least one: pass one of each for every "
            f"{what}"
        )
    for name, values in given.items():
        for value in values:
            check_finite(name, value)


def numbers(name: str, values: Any, hint: str = "an array of numbers") -> npt.NDArray[np.float64]:
    """Return numbers as an array of float64.

    Raises:
        UsageError: for what cannot be read as numbers.

    >>> numbers("y", [1, 2]).tolist()
    [1.0, 2.0]
    """
    try:
        return real_array(values)
    except (TypeError, ValueError, OverflowError):
        raise UsageError(
            f"{argument(name)} is {shown(values)}, which cannot be read as numbers; expected {hint}"
        ) from None


def real_array(values: Any) -> npt.NDArray[np.float64]:
    """Return real numbers as an array of float64, None as NaN.

    NumPy alone would read text and times as numbers.

    Raises:
        TypeError: for text, bytes, times and complex numbers.
        ValueError: for rows of different lengths.

    >>> real_array([[1, None]]).tolist()
    [[1.0, nan]]
    """
    found = np.asarray(values)
    mixed = found.dtype.kind == "O" and any(
        isinstance(x, str | bytes | complex) for x in found.ravel()
    )
    if mixed or found.dtype.kind not in "biufO":
        raise TypeError(f"values of type {found.dtype}")
    return found.astype(np.float64, copy=False)


def is_number(value: object) -> bool:
    """Whether a value is a real number; True and False are not.

    >>> is_number(0.5), is_number(True), is_number("0.5")
    (True, False, False)
    """
    return isinstance(value, Real) and not isinstance(value, bool)


def _is_finite(value: Any) -> bool:
    """Whether a number is finite as a float: 10**400 is not."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False


def is_seed(value: object) -> bool:
    """Whether a value is a whole number of at least 0.

    >>> is_seed(0), is_seed(-1)
    (True, False)
    """
    return is_whole(value) and value >= 0  # type: ignore[operator]


def is_whole(value: object) -> bool:
    """Whether a value is a whole number, of a type of whole numbers; True and False are not.

    >>> is_whole(3), is_whole(3.0), is_whole(True)
    (True, False, False)
    """
    return isinstance(value, Integral) and not isinstance(value, bool)
