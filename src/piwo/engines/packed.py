"""A state as bytes, for other machines and files: arrays and a tree of plain numbers, no code."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from dataclasses import fields
from tokenize import TokenError
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.engines.state import State
from piwo.errors import FileError
from piwo.files import DAMAGE

__all__ = ["packed", "unpacked"]


_ZIP = b"PK\x03\x04"
_UNREADABLE: tuple[type[Exception], ...] = (
    *DAMAGE,
    LookupError,
    TypeError,
    ValueError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    SyntaxError,
    TokenError,
)
"""Errors that damaged files, arrays and trees raise."""


def packed(state: Any) -> bytes:
    """Return a state as bytes without loss: its arrays as npz, the rest as JSON.

    Args:
        state: a `State`, a number, a text, None, an array, or a tuple of these.

    Returns:
        The bytes for `unpacked`.

    >>> from piwo.reductions import DigestState
    >>> unpacked(packed((DigestState(2, 2**64 - 1), np.arange(2.0), float("inf"))))
    (DigestState(rows=2, total=18446744073709551615), array([0., 1.]), inf)
    """
    arrays: list[npt.NDArray[Any]] = []
    tree = json.dumps(_tree(state, arrays)).encode()
    file = io.BytesIO()
    named: dict[str, Any] = {str(i): array for i, array in enumerate(arrays)}
    np.savez(file, **named, tree=np.frombuffer(tree, np.uint8))
    return file.getvalue()


def unpacked(data: bytes) -> Any:
    """Return the state in bytes of `packed`. Nothing is executed or imported.

    Raises:
        FileError: if the bytes are damaged, or hold a state that this version does not have.

    >>> unpacked(packed((1, None, "a")))
    (1, None, 'a')
    """
    try:
        if not data.startswith(_ZIP):
            # NumPy would take the bytes for a pickle, and advise to trust them.
            raise ValueError("no zip file")
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            return _state(json.loads(arrays["tree"].tobytes()), arrays)
    except _UNREADABLE:
        raise FileError(
            "the saved sums cannot be read: they are cut short, damaged, or of "
            "another version; make them anew"
        ) from None


def _tree(value: Any, arrays: list[npt.NDArray[Any]]) -> Any:
    """Return a value for JSON; arrays are collected in a list and replaced by their index."""
    if isinstance(value, State):
        parts = {}
        for item in fields(value):  # type: ignore[arg-type]
            parts[item.name] = _tree(getattr(value, item.name), arrays)
        return {"state": _name(type(value)), "fields": parts}
    if isinstance(value, tuple):
        return [_tree(x, arrays) for x in value]
    if isinstance(value, np.ndarray):
        # NumPy would pickle an array of objects.
        assert value.dtype.kind in "biuf", value.dtype
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, np.generic):
        return value.item()
    assert value is None or isinstance(value, bool | int | float | str), type(value)
    return value


def _state(tree: Any, arrays: Any) -> Any:
    if isinstance(tree, list):
        return tuple(_state(x, arrays) for x in tree)
    if not isinstance(tree, dict):
        return tree
    if "array" in tree:
        return arrays[str(tree["array"])]
    kinds = {_name(x): x for x in _kinds(State)}
    parts: dict[str, Any] = {}
    for name, part in tree["fields"].items():
        parts[name] = _state(part, arrays)
    # Types are looked up among imported states: the bytes cannot name other code.
    return kinds[tree["state"]](**parts)


def _kinds(root: type[State]) -> Iterator[type[State]]:
    """Yield the states that are imported; every process with a reduction has imported its state."""
    for kind in root.__subclasses__():
        yield kind
        yield from _kinds(kind)


def _name(kind: type[State]) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"
