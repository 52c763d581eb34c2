"""Whether two values are the same, also in another process: a digest of what they hold."""

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
    """Return 32 hexadecimal digits that depend on what a value holds, and on nothing else.

    Numbers count bit by bit, records and objects by their class and contents. Functions and
    classes of a library count by name and version, those of the user by name and source text;
    functions also by their defaults and what they have closed over. Caches do not count. Nothing
    depends on the seed of Python's hashes, on addresses, or on the order of sets and mappings.

    Args:
        value: a task, or anything else that pickle could take apart. Nothing is pickled.

    Raises:
        UsageError: for what cannot be looked into: an open connection, or a function without
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
    """Yield what a value is made of."""
    if isinstance(value, tuple | list | range):
        yield from value
    elif isinstance(value, _NAMED):
        yield _source(value)
        if isinstance(value, BuiltinFunctionType) and not isinstance(value.__self__, ModuleType):
            yield value.__self__
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
    """Yield what an object would be made of again."""
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as cause:
        raise UsageError(
            f"a checkpoint cannot describe what a {type(value).__name__} holds "
            f"({cause}); compute without a checkpoint"
        ) from None
    yield getattr(value, "__wrapped__", None)  # what functools.cache has wrapped
    if isinstance(reduced, str):
        yield reduced
        return
    made, arguments, state, *items = (*reduced, None, None, None)[:5]
    if isinstance(state, dict):
        cached = {x for x, y in vars(type(value)).items() if isinstance(y, cached_property)}
        state = {x: y for x, y in state.items() if x not in cached}
    yield from (made, arguments, state)
    for part in items:
        if part is not None:
            yield list(part)


@cache
def _source(value: Any) -> str:
    """Return the name of a function, class or module, and its source text or library version."""
    module = value.__name__ if isinstance(value, ModuleType) else getattr(value, "__module__", "")
    name = module if isinstance(value, ModuleType) else _name(value)
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
