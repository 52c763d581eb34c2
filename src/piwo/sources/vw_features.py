"""Features of Vowpal Wabbit's text format as columns of the context."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias
from urllib.parse import unquote

import pyarrow as pa

from piwo.errors import DataError
from piwo.messages import argument
from piwo.sources.lines import BrokenLineError, number_of

__all__ = ["FeatureColumns", "Places"]

Places: TypeAlias = Callable[[str, Sequence[str]], tuple[Sequence[int], Sequence[float]]]
"""Returns the place and the sign of each feature of a hashed namespace, from its column's name."""

_MOST_KNOWN = 2**16
"""Features of hashed namespaces whose places are kept."""


class FeatureColumns:
    """The columns of the context: features by name, or whole namespaces, hashed."""

    def __init__(self, columns: tuple[str, ...], places: Places, hash_size: int) -> None:
        self.columns = columns
        self._places, self._hash_size = places, hash_size
        self._wanted: dict[str, dict[str, int]] = {}
        self._whole: dict[str, int] = {}
        for i, column in enumerate(columns):
            namespace, slash, feature = column.rpartition("/")
            if slash and not column.endswith("/*"):
                # A feature may have a slash in its name, a namespace has none.
                namespace, _, feature = column.partition("/")
            if feature == "*":
                self._whole[namespace] = i
            else:
                self._wanted.setdefault(namespace, {})[feature] = i
        self._kinds: list[str | None] = [None] * len(columns)
        for i in self._whole.values():
            self._kinds[i] = "vector"
        self._values: list[list[Any]] = [[] for _ in columns]
        self._row: list[Any] = []
        self._hashed: dict[tuple[int, str], tuple[int, float]] = {}

    @property
    def width(self) -> int:
        """How many numbers a row takes."""
        return len(self.columns) + self._hash_size * len(self._whole)

    @property
    def typed(self) -> bool:
        """Whether it is known of each column if it holds numbers or text."""
        return None not in self._kinds

    def require_found(self) -> None:
        """Raise for a column that no decision has."""
        for column, kind in zip(self.columns, self._kinds, strict=True):
            if kind is None:
                raise DataError(
                    f"no event has a feature {column!r} ({argument('context')}); name features as "
                    "namespace/feature, or feature if its namespace has no name, or namespace/*"
                )

    def add(self, texts: Sequence[str]) -> None:
        """Append the features of a decision.

        Args:
            texts: what comes after the first `|` of its line; none if there is no such line.

        Raises:
            BrokenLineError: for a feature that cannot be read.
        """
        if not self.columns:
            return
        for values, value in zip(self._values, self.row_of(texts), strict=True):
            values.append(value)

    def row_of(self, texts: Sequence[str]) -> list[Any]:
        """Return the values of a decision, or of an action line; None: it has none.

        Args:
            texts: as `add` takes them.

        Raises:
            BrokenLineError: for a feature that cannot be read.
        """
        self._row = [None] * len(self.columns)
        for text in texts:
            for section in text.split("|"):
                namespace, scale, features = _section(section)
                if namespace in self._wanted:
                    self._parse_features(self._wanted[namespace], features, scale)
                if namespace in self._whole:
                    self._parse_whole(self._whole[namespace], features, scale)
        return self._row

    def _parse_features(
        self, wanted: Mapping[str, int], features: Sequence[str], scale: float
    ) -> None:
        for word in features:
            name, colon, number = word.partition(":")
            place = wanted.get(_plain(name))
            if place is not None:
                value = scale * _number(number, word) if colon else scale
                # Vowpal Wabbit adds up the values of a feature that is there twice.
                self._keep(place, "number", (self._row[place] or 0.0) + value)
                continue
            name, equals, text = name.partition("=")
            place = wanted.get(_plain(name))
            if place is None or not equals:
                continue
            if self._row[place] is not None:
                raise BrokenLineError(f"has two values of {self.columns[place]!r}")
            self._keep(place, "text", _plain(text))

    def _keep(self, place: int, kind: str, value: Any) -> None:
        if self._kinds[place] is None:
            self._kinds[place] = kind
        if self._kinds[place] != kind:
            raise BrokenLineError(
                f"has a {kind} in {self.columns[place]!r}, and others have a {self._kinds[place]}"
            )
        self._row[place] = value

    def _parse_whole(self, place: int, features: Sequence[str], scale: float) -> None:
        sums = self._row[place] or [0.0] * self._hash_size
        for word in features:
            name, colon, number = word.partition(":")
            value = scale * _number(number, word) if colon else scale
            key = (place, name)
            if key not in self._hashed:
                if len(self._hashed) >= _MOST_KNOWN:
                    self._hashed.clear()
                spots, signs = self._places(self.columns[place], [name])
                self._hashed[key] = int(spots[0]), float(signs[0])
            spot, sign = self._hashed[key]
            sums[spot] += sign * value
        self._row[place] = sums

    def taken(self) -> list[pa.Array]:
        """Return the columns of all decisions since the last call."""
        arrays = []
        for kind, values in zip(self._kinds, self._values, strict=True):
            if kind == "text":
                arrays.append(pa.array(values, pa.string()))
            elif kind == "vector":
                empty = [0.0] * self._hash_size
                lists = [empty if x is None else x for x in values]
                arrays.append(pa.array(lists, pa.list_(pa.float64(), self._hash_size)))
            else:
                # A feature that is not there is 0.
                numbers = [0.0 if x is None else x for x in values]
                arrays.append(pa.array(numbers, pa.float64()))
        self._values = [[] for _ in self.columns]
        return arrays


def _section(text: str) -> tuple[str, float, list[str]]:
    """Return the name, the factor and the features of a namespace, from what follows its `|`."""
    words = text.split()
    if not words or text[:1].isspace():
        return "", 1.0, words
    name, colon, factor = words[0].partition(":")
    scale = 1.0
    if colon:
        scale = _number(factor, words[0])
    return _plain(name), scale, words[1:]


def _plain(name: str) -> str:
    """Return a name with %20, %3A, %7C, ... as the characters that a name cannot hold."""
    if "%" in name:
        return unquote(name)
    return name


def _number(text: str, word: str) -> float:
    try:
        found = number_of(text)
    except ValueError:
        raise BrokenLineError(
            f"has the feature {word[:40]!r}, expected a number after the :"
        ) from None
    if math.isinf(found):
        raise BrokenLineError(f"has the feature {word[:40]!r}, an infinite number,")
    return found
