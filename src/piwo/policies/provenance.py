"""Provenance: records of the rows that a policy was learned from."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from piwo.errors import FileError
from piwo.logs.log import Log

__all__ = ["Provenance", "record_in"]


@dataclass(eq=False)
class Provenance:
    """Facts about the rows that a policy was learned from, which are not part of the policy.

    Args:
        describe: returns the facts, which may take a pass over the rows; it is called on first
            use.
        log: the rows, if they were learned from in this process; None: only the facts are known.

    >>> Provenance(lambda: {"training": {"log": "old.csv"}}).kept("training")
    {'log': 'old.csv'}
    """

    describe: Callable[[], Mapping[str, Any]]
    log: Log | None = None

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The facts in a file: "training", "sample", "logger" and "certificate"."""
        return self.describe()

    def kept(self, what: str) -> Mapping[str, Any]:
        """Return one of the facts; empty if it is missing.

        Raises:
            FileError: if it is not a record.
        """
        return record_in(self.facts, what)

    @property
    def of_rows(self) -> dict[str, Any]:
        """The facts that a file needs to recognize the rows."""
        return {
            x: self.facts[x] for x in ("training", "sample", "logger", "learned") if x in self.facts
        }


def record_in(metadata: Mapping[str, Any], what: str) -> Mapping[str, Any]:
    """Return a record in the metadata of a policy file; empty if it is missing.

    Raises:
        FileError: if it is not a record.

    >>> record_in({"training": {"rows": 7}}, "training"), record_in({}, "certificate")
    ({'rows': 7}, {})
    """
    found = metadata.get(what)
    if found is None:
        return {}
    if not isinstance(found, Mapping):
        raise FileError(f"the {what} in the policy file is damaged; learn the policy again")
    return found
