"""Settings of passes over a log: another mapper, and a function for their progress."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar, runtime_checkable

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.messages import argument

__all__ = ["Mapper", "current_progress", "mapping", "reporting", "set_variable", "using"]

T = TypeVar("T")
Progress = Callable[[int, int | None], None]
"""Called with (rows done since the last call, rows in all or None)."""


@runtime_checkable
class Mapper(Protocol):
    """An object that maps a function over fragments, such as an executor or a Dask client."""

    def map(
        self,
        fn: Callable[[Any], Any],
        fragments: Iterable[Any],
        /,
    ) -> Iterable[Any]:
        """Return fn of every fragment, in order."""
        ...


_mapper: ContextVar[Mapper | None] = ContextVar("piwo_mapper", default=None)
_progress: ContextVar[Progress | None] = ContextVar("piwo_progress", default=None)


def using(mapper: Mapper) -> AbstractContextManager[None]:
    """Run every pass over a log inside the block on another mapper.

    Args:
        mapper: has `map(fn, fragments)`, such as a `concurrent.futures` executor.

    Returns:
        A context manager.

    >>> from concurrent.futures import ThreadPoolExecutor
    >>> with ThreadPoolExecutor(1) as pool, using(pool):
    ...     pass
    """
    if isinstance(mapper, type) or not callable(getattr(mapper, "map", None)):
        raise UsageError(
            f"{argument('mapper')} is {shown(mapper)}, expected something with "
            "map(fn, fragments), such as an executor"
        )
    return set_variable(_mapper, mapper)


def reporting(progress: Progress) -> AbstractContextManager[None]:
    """Report the rows done by passes inside the block to a function.

    Args:
        progress: called with (rows done since the last call, rows of the source or None), from any
            thread; with 0 rows when a pass begins.

    Returns:
        A context manager.

    >>> import piwo
    >>> log, calls = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0]), []
    >>> with reporting(lambda done, total: calls.append((done, total))):
    ...     actions = log.actions
    >>> calls
    [(0, 1), (1, 1)]
    """
    if not callable(progress):
        raise UsageError(
            f"{argument('progress')} is {shown(progress)}, expected a function of "
            "(rows done, rows in all)"
        )
    return set_variable(_progress, progress)


def current_progress() -> Progress | None:
    """Return the function that `reporting` has set; None outside. Other long work uses it too.

    >>> current_progress() is None
    True
    """
    return _progress.get()


def mapping() -> Mapper | None:
    """Return the mapper that `using` has set; None outside.

    >>> mapping() is None
    True
    """
    return _mapper.get()


@contextmanager
def set_variable(variable: ContextVar[T], value: T) -> Iterator[None]:
    """Set a context variable inside the block.

    >>> with set_variable(_progress, None):
    ...     current_progress()
    """
    token = variable.set(value)
    try:
        yield
    finally:
        variable.reset(token)
