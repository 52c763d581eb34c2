"""Whether two values are the same, also in another process: a digest of what they are made of."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType
from typing import Any

import numpy as np

from piwo.errors import UsageError
from piwo.logs.log import Log

__all__ = ["identity"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes)

_OF_THE_SOURCE = {"source", "estimated_by"}
"""What a log's source says of itself; how propensities were estimated, the propensities say."""


def identity(value: Any) -> str:
    """Return 32 hexadecimal digits that are the same wherever, and whenever, the value is made of the same.

    Numbers count bit by bit, records and objects by class and content, functions by their code and what they have
    closed over, logs by what their source says of itself (`Source.identity`). Caches do not count. Nothing in the
    result depends on the seed of Python's hashes, on addresses, or on the order of sets and mappings.

    Args:
        value: a log, a reduction, anything that pickle could take apart. Nothing is pickled.

    Raises:
        UsageError: for what cannot be looked into, such as an open connection.

    >>> identity({"a": 1, "b": {2, 3}}) == identity({"b": {3, 2}, "a": 1}), identity(1) == identity(1.0)
    (True, False)
    """
    return _digest(value, ()).hex()


def _digest(value: Any, above: tuple[int, ...]) -> bytes:
    """Return 16 bytes; `above` are the objects that the value is inside of."""
    if id(value) in above:
        return hashlib.sha256(f"cycle {len(above) - above.index(id(value))}".encode()).digest()[:16]
    made = hashlib.sha256(_name(type(value)).encode())
    if isinstance(value, _PLAIN):
        made.update(repr(value).encode("utf-8", "surrogatepass"))
    elif isinstance(value, np.ndarray | np.generic) and value.dtype.kind not in "OV":
        made.update(f"{value.dtype.str} {value.shape}".encode())
        made.update(np.ascontiguousarray(value).view(np.uint8).data if value.size else b"")
    else:
        inside = (*above, id(value))
        for part in _parts(value, inside):
            made.update(part if isinstance(part, bytes) else _digest(part, inside))
    return made.digest()[:16]


def _parts(value: Any, inside: tuple[int, ...]) -> Iterator[Any]:
    """Yield what a value is made of: values, or digests of them."""
    if isinstance(value, Mapping):
        yield b"".join(sorted(_digest(x, inside) + _digest(y, inside) for x, y in value.items()))
    elif isinstance(value, set | frozenset):
        yield b"".join(sorted(_digest(x, inside) for x in value))
    elif isinstance(value, tuple | list | range):
        yield from value
    elif isinstance(value, type | BuiltinFunctionType | np.ufunc):
        yield repr(value) if isinstance(value, np.ufunc) else _name(value)
    elif isinstance(value, FunctionType):
        cells = [x.cell_contents for x in value.__closure__ or ()]
        yield from (_name(value), value.__code__, value.__defaults__, value.__kwdefaults__, cells)
    elif isinstance(value, CodeType):
        yield from (value.co_code.hex(), value.co_consts, value.co_names)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, Log):
        yield _source_identity(value.source)
        yield {x.name: getattr(value, x.name) for x in fields(value) if x.name not in _OF_THE_SOURCE}
    elif is_dataclass(value):
        yield {x.name: getattr(value, x.name) for x in fields(value)}
    elif isinstance(value, np.ndarray):
        yield from (value.shape, value.tolist())
    else:
        yield from _taken_apart(value)


def _source_identity(source: Any) -> Any:
    said = getattr(source, "identity", None)
    return source if said is None else said()


def _taken_apart(value: Any) -> Iterator[Any]:
    """Yield what an object would be made of again."""
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as cause:
        raise UsageError(
            f"a checkpoint cannot tell what a {type(value).__name__} holds ({cause}); compute without a checkpoint"
        ) from None
    if isinstance(reduced, str):
        yield reduced
        return
    made, arguments, state, *items = (*reduced, None, None, None)[:5]
    if isinstance(state, dict):
        kind = type(value)
        state = {x: y for x, y in state.items() if not isinstance(getattr(kind, str(x), None), cached_property)}
    yield from (made, arguments, state, *(None if x is None else list(x) for x in items))


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
