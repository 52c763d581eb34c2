"""A digest of the contents of a value, the same in every process."""

from __future__ import annotations

import hashlib
import inspect
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from piwo.errors import UsageError

__all__ = ["fingerprint"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_NAMED = (type, BuiltinFunctionType, np.ufunc, ModuleType)


def fingerprint(value: Any) -> str:
    """Return 32 hexadecimal digits that depend on the contents of a value alone.

    Numbers are compared bit by bit, records and objects by their class and contents. Functions
    and classes of a library are compared by name and version, those of the user by name and source
    text; functions also by their defaults and closures. Caches are ignored. The digest does not
    depend on the seed of Python's hashes, on addresses, or on the order of sets and mappings.

    Args:
        value: a task, or any other object that pickle could handle. Nothing is pickled.

    Raises:
        UsageError: for contents that are not accessible: an open connection, or a function without
            source text.

    >>> fingerprint({"a": 1, "b": {2, 3}}) == fingerprint({"b": {3, 2}, "a": 1})
    True
    >>> fingerprint(1) == fingerprint(1.0)
    False
    """
    try:
        return _digest(value).hex()
    except RecursionError:
        raise UsageError(
            f"a checkpoint cannot describe a {type(value).__name__} that contains "
            "itself; compute without a checkpoint"
        ) from None


def _digest(value: Any) -> bytes:
    """Return 16 bytes."""
    made = hashlib.sha256(_name(type(value)).encode())
    if isinstance(value, _PLAIN):
        made.update(repr(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OV":
        made.update(f"{value.dtype.str} {value.shape}".encode())
        made.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, Mapping):
        made.update(b"".join(sorted(_digest(x) + _digest(y) for x, y in value.items())))
    elif isinstance(value, set | frozenset):
        made.update(b"".join(sorted(map(_digest, value))))
    else:
        for part in _parts(value):
            made.update(_digest(part))
    return made.digest()[:16]


def _parts(value: Any) -> Iterator[Any]:
    """Yield the parts of a value."""
    if isinstance(value, tuple | list | range):
        yield from value
    elif isinstance(value, _NAMED):
        yield _source(value)
        owner = getattr(value, "__self__", None)
        # A bound method of a built-in type depends on its object, too.
        if isinstance(value, BuiltinFunctionType) and not isinstance(owner, ModuleType):
            yield owner
    elif isinstance(value, FunctionType):
        yield _source(value)
        yield from (value.__defaults__, value.__kwdefaults__)
        yield from (x.cell_contents for x in value.__closure__ or ())
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, np.ndarray):
        yield from (value.shape, value.tolist())
    elif is_dataclass(value):
        yield type(value)
        yield {x.name: getattr(value, x.name) for x in fields(value)}
    else:
        yield from _taken_apart(value)


def _taken_apart(value: Any) -> Iterator[Any]:
    """Yield the parts from which pickle would make an object again."""
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as cause:
        raise UsageError(
            f"a checkpoint cannot describe what a {type(value).__name__} holds "
            f"({cause}); compute without a checkpoint"
        ) from None
    # The function inside functools.cache.
    yield getattr(value, "__wrapped__", None)
    if isinstance(reduced, str):
        yield reduced
        return
    made, arguments, state, *items = (*reduced, None, None, None)[:5]
    if isinstance(state, dict):
        # Whether a cached property was computed already must not matter.
        state = dict(state)
        for name, kind in vars(type(value)).items():
            if isinstance(kind, cached_property):
                state.pop(name, None)
    yield from (made, arguments, state)
    for part in items:
        if part is not None:
            yield list(part)


@cache
def _source(value: Any) -> str:
    """Return the name of a function, class or module, and its source text or library version."""
    if isinstance(value, ModuleType):
        module = name = value.__name__
    else:
        module, name = getattr(value, "__module__", ""), _name(value)
    library = str(module or "builtins").partition(".")[0]
    version = getattr(sys.modules.get(library), "__version__", None)
    if library in sys.stdlib_module_names and library != "__main__":
        version = sys.version_info[:2]
    if version is not None or isinstance(value, ModuleType):
        return f"{name} {version}"
    try:
        return f"{name}\n{inspect.getsource(value)}"
    except (OSError, TypeError):
        raise UsageError(
            f"a checkpoint cannot describe what {name} does, whose source text is not "
            "available; define it in a file, or compute without a checkpoint"
        ) from None


def _name(kind: Any) -> str:
    qualified = getattr(kind, "__qualname__", getattr(kind, "__name__", repr(kind)))
    return f"{getattr(kind, '__module__', None)}.{qualified}"
