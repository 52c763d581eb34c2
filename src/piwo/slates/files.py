"""Reads files of slate policies, and lists every kind that a file can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from typing import Any

from piwo.policies.files import Format, format_of, read_saved
from piwo.policies.saving import FORMAT
from piwo.policies.state import State
from piwo.slates.exploring import EpsilonSlate
from piwo.slates.greedy import GreedySlate
from piwo.slates.policies import (
    Deterministic,
    Factored,
    FromColumns,
    Uniform,
)
from piwo.slates.policy import SLATE_FORMAT, SLATE_VERSION, SlatePolicy

__all__ = ["SavedSlatePolicy", "is_slate_file", "load", "load_with_metadata"]

KINDS: Mapping[str, Callable[[State], SlatePolicy]] = {
    Deterministic.kind: Deterministic.from_state,
    EpsilonSlate.kind: EpsilonSlate.from_state,
    Factored.kind: Factored.from_state,
    FromColumns.kind: FromColumns.from_state,
    GreedySlate.kind: GreedySlate.from_state,
    Uniform.kind: Uniform.from_state,
}
"""Every kind that a file can hold. A file names one of these; it cannot import anything by name."""

_SLATES = Format(
    SLATE_FORMAT,
    SLATE_VERSION,
    KINDS,
    {FORMAT: "it holds a policy of single actions; read it with piwo.load"},
)


@dataclass(frozen=True)
class SavedSlatePolicy:
    """What a file of a slate policy holds.

    >>> SavedSlatePolicy(Uniform(["a", "b"])).metadata
    {}
    """

    policy: SlatePolicy
    metadata: Mapping[str, Any] = field(default_factory=dict)
    library: str = ""
    """Version of piwo that wrote it."""


def load(path: str | PathLike[str]) -> SlatePolicy:
    """Read a slate policy that `SlatePolicy.save` wrote. The file holds no code.

    Args:
        path: the file.

    Returns:
        The policy, which shows the same slates with the same probabilities as when it was saved.

    Raises:
        FileError: if it is missing, damaged, written by a newer version, or of another kind.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Deterministic(["b", "a"]).save(folder + "/p.piwo")
    ...     load(folder + "/p.piwo").act(n=1).slates
    [['b', 'a']]
    """
    return load_with_metadata(path).policy


def load_with_metadata(path: str | PathLike[str]) -> SavedSlatePolicy:
    """Read a slate policy and what was stored with it. Errors are those of `load`.

    Args:
        path: the file.

    Returns:
        A `SavedSlatePolicy`.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Uniform(["b", "a"]).save(folder + "/p.piwo", {"page": "home"})
    ...     load_with_metadata(folder + "/p.piwo").metadata
    {'page': 'home'}
    """
    return SavedSlatePolicy(*read_saved(path, _SLATES))


def is_slate_file(path: str | PathLike[str]) -> bool:
    """Whether a file says that it holds a slate policy.

    Raises:
        FileError: if it cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Uniform(["b", "a"]).save(folder + "/p.piwo")
    ...     is_slate_file(folder + "/p.piwo")
    True
    """
    return format_of(path) == SLATE_FORMAT
