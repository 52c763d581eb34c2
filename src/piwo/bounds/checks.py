"""Checks of the numbers that bounds are made of."""

import math
from numbers import Real

from piwo.errors import UsageError

__all__ = ["check_at_least", "check_count", "check_delta", "check_finite", "check_non_negative", "check_positive"]


def check_delta(delta: float) -> None:
    """Demand 0 < delta < 1."""
    if not (_is_real(delta) and 0.0 < delta < 1.0):
        raise UsageError(
            f"delta is {delta!r}; expected a number between 0 and 1, such as 0.05: pass the chance of error"
        )


def check_count(name: str, value: int, least: int) -> None:
    """Demand a count of at least `least`."""
    if not (_is_real(value) and value >= least and value == math.floor(value)):
        raise UsageError(f"{name} is {value!r}; expected a whole number of at least {least}: pass the count of rows")


def check_finite(name: str, value: float) -> None:
    """Demand a finite number."""
    if not (_is_real(value) and math.isfinite(value)):
        raise UsageError(f"{name} is {value!r}; expected a finite number: check the rows that it was computed from")


def check_positive(name: str, value: float) -> None:
    """Demand a finite number above 0."""
    if not (_is_real(value) and math.isfinite(value) and value > 0.0):
        raise UsageError(f"{name} is {value!r}; expected a finite number above 0: pass a positive one")


def check_non_negative(name: str, value: float) -> None:
    """Demand a number of at least 0; infinity is allowed."""
    if not (_is_real(value) and value >= 0.0):
        raise UsageError(f"{name} is {value!r}; expected a number of at least 0: check how it was computed")


def check_at_least(name: str, value: float, least: float) -> None:
    """Demand a number of at least `least`; infinity is allowed."""
    if not (_is_real(value) and value >= least):
        raise UsageError(f"{name} is {value!r}; expected a number of at least {least:g}: pass a larger one")


def _is_real(value: object) -> bool:
    return isinstance(value, Real)
