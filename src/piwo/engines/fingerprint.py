"""Whether two values are the same, also in another process: a digest of what they are made of."""

from __future__ import annotations

import dis
import hashlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cache, cached_property
from types import BuiltinFunctionType, CodeType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from piwo.errors import UsageError
from piwo.logs.log import Log

__all__ = ["fingerprint"]

_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_SETTINGS = (*_PLAIN, np.ndarray, np.generic, tuple, list, dict, set, frozenset)
"""What an attribute of a class is digested as; others, such as slots, are Python's own."""
Used = dict[str, Any]
"""What functions look up among the globals of their module, by the place where it is."""

_OF_THE_SOURCE = {"source", "estimated_by"}
"""What a log's source says of itself; how propensities were estimated, the propensities say."""


def fingerprint(value: Any) -> str:
    """Return 32 hexadecimal digits that are the same wherever, and whenever, the value is made of the same.

    Numbers count bit by bit, records and objects by class and content, functions by their code,
    what they have closed over and what they look up in their module: numbers there, other functions
    and classes, and what these look up. Libraries count by name and version, logs by what their
    source says of itself (`Source.source_id`). Caches do not count. Nothing in the result depends on
    the seed of Python's hashes, on addresses, or on the order of sets and mappings.

    Args:
        value: a log, a reduction, anything that pickle could take apart. Nothing is pickled.

    Raises:
        UsageError: for what cannot be looked into, such as an open connection.

    >>> (
    ...     fingerprint({"a": 1, "b": {2, 3}}) == fingerprint({"b": {3, 2}, "a": 1}),
    ...     fingerprint(1) == fingerprint(1.0),
    ... )
    (True, False)
    """
    used: Used = {}
    made, looked_into = [_digest(value, (), used)], set[str]()
    while waiting := used.keys() - looked_into:
        for place in waiting:
            looked_into.add(place)
            made.append(_digest((place, used[place]), (), used))
    return hashlib.sha256(b"".join([made[0], *sorted(made[1:])])).hexdigest()[:32]


def _digest(value: Any, above: tuple[int, ...], used: Used) -> bytes:
    """Return 16 bytes; `above` are the objects that the value is inside of, `used` is added to."""
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
        for part in _parts(value, inside, used):
            made.update(part if isinstance(part, bytes) else _digest(part, inside, used))
    return made.digest()[:16]


def _parts(value: Any, inside: tuple[int, ...], used: Used) -> Iterator[Any]:
    """Yield what a value is made of: values, or digests of them."""
    if isinstance(value, Mapping):
        yield b"".join(
            sorted(_digest(x, inside, used) + _digest(y, inside, used) for x, y in value.items())
        )
    elif isinstance(value, set | frozenset):
        yield b"".join(sorted(_digest(x, inside, used) for x in value))
    elif isinstance(value, tuple | list | range):
        yield from value
    elif isinstance(value, np.ufunc | ModuleType):
        yield (
            repr(value)
            if isinstance(value, np.ufunc)
            else (value.__name__, _version(value.__name__))
        )
    elif isinstance(value, BuiltinFunctionType):
        yield from (
            _name(value),
            None if isinstance(value.__self__, ModuleType) else value.__self__,
        )
    elif isinstance(value, type | FunctionType | CodeType):
        yield from _code(value, used)
    elif isinstance(value, MethodType):
        yield from (value.__self__, value.__func__)
    elif isinstance(value, Log):
        yield _source_identity(value.source)
        yield {
            x.name: getattr(value, x.name) for x in fields(value) if x.name not in _OF_THE_SOURCE
        }
    elif is_dataclass(value):
        yield from (type(value), {x.name: getattr(value, x.name) for x in fields(value)})
    elif isinstance(value, np.ndarray):
        yield from (value.shape, value.tolist())
    else:
        yield from _taken_apart(value)


def _code(value: Any, used: Used) -> Iterator[Any]:
    """Yield what a function, a class or compiled code does, and put aside what it looks up elsewhere."""
    if isinstance(value, CodeType):
        yield from (value.co_code.hex(), value.co_consts, value.co_names)
        return
    yield from (_name(value), _version(value.__module__))
    if isinstance(value, FunctionType):
        cells = [x.cell_contents for x in value.__closure__ or ()]
        yield from (value.__code__, value.__defaults__, value.__kwdefaults__, cells)
        if _version(value.__module__) is None:
            for name, found in _looked_up(value.__code__, value.__globals__):
                used[f"{value.__module__}.{name}"] = found
    elif _version(value.__module__) is None:
        yield from (
            value.__bases__,
            {name: part for name, part in map(_member, vars(value).items()) if part},
        )


def _member(item: tuple[str, Any]) -> tuple[str, list[Any]]:
    """Return what is in a member of a class: functions, however they are wrapped, and settings."""
    name, value = item
    functions = [
        getattr(value, x, None) for x in ("__func__", "func", "fget", "fset", "__wrapped__")
    ]
    found = [x for x in (value, *functions) if isinstance(x, FunctionType)]
    return name, found or (
        [value] if isinstance(value, _SETTINGS) and not name.startswith("__") else []
    )


def _looked_up(code: CodeType, known: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield name and value of the globals that some code asks for, and of what it asks of modules among them."""
    steps = list(dis.get_instructions(code))
    for i, step in enumerate(steps):
        if step.opname not in {"LOAD_GLOBAL", "LOAD_NAME"} or step.argval not in known:
            continue
        name, value = step.argval, known[step.argval]
        yield name, value
        for after in steps[i + 1 :]:
            asked = after.argval if after.opname in {"LOAD_ATTR", "LOAD_METHOD"} else ""
            if not (
                isinstance(value, ModuleType)
                and _version(value.__name__) is None
                and hasattr(value, asked or " ")
            ):
                break
            name, value = f"{name}.{asked}", getattr(value, asked)
            yield name, value
    for inner in code.co_consts:
        if isinstance(inner, CodeType):
            yield from _looked_up(inner, known)


@cache
def _version(module: str | None) -> str | None:
    """Return the version of the library that a module is part of; None for what users write themselves."""
    name = str(module).partition(".")[0]
    if name in sys.stdlib_module_names and name != "__main__":
        return f"Python {sys.version_info[0]}.{sys.version_info[1]}"
    found = sys.modules.get(name)
    if found is None or name == "__main__":
        return None
    installed = {"site-packages", "dist-packages"} & set(
        str(getattr(found, "__file__", "")).replace("\\", "/").split("/")
    )
    version = getattr(found, "__version__", "installed" if installed else None)
    return None if version is None else str(version)


def _source_identity(source: Any) -> Any:
    said = getattr(source, "source_id", None)
    return source if said is None else said()


def _taken_apart(value: Any) -> Iterator[Any]:
    """Yield what an object would be made of again."""
    yield (
        vars(value).get("__wrapped__") if hasattr(value, "__dict__") else None
    )  # what functools.cache has wrapped
    try:
        reduced = value.__reduce_ex__(4)
    except (TypeError, ValueError, NotImplementedError, AttributeError) as cause:
        raise UsageError(
            f"a checkpoint cannot tell what a {type(value).__name__} holds ({cause}); compute "
            "without a checkpoint"
        ) from None
    if isinstance(reduced, str):
        yield reduced
        return
    made, arguments, state, *items = (*reduced, None, None, None)[:5]
    if isinstance(state, dict):
        kind = type(value)
        state = {
            x: y
            for x, y in state.items()
            if not isinstance(getattr(kind, str(x), None), cached_property)
        }
    yield from (made, arguments, state, *(None if x is None else list(x) for x in items))


def _name(kind: Any) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
