"""Whether a policy was learned from rows of a log: what its file says of that, and what the rows show."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

import piwo
from piwo.cli.output_path import files_named
from piwo.cli.shared_options import Named, kept_with
from piwo.errors import FileError
from piwo.logs.features import Features
from piwo.policies import Policy
from piwo.reductions.reduce import reduce
from piwo.reductions.row_sample import RowSample, RowSampleState

__all__ = ["IN_SAMPLE", "Acquaintance", "Rows", "sample_of"]

IN_SAMPLE = "in-sample: "
"""How the note begins that says it."""
_OWN = 0.05
"""Rows that are alike at most this often are told apart by action and context alone."""
_TELLING = 0.5
"""Rows that are alike more often than this tell nothing."""


def sample_of(log: piwo.Log, policy: Policy) -> dict[str, Any]:
    """Return what is kept beside a policy of the rows that it was learned from: hashes of a few, no row itself."""
    found = _sampled(log, policy.features, with_propensity=False)
    needed = found.repeated > _OWN and not _estimated(log)
    if needed:  # a propensity may be read otherwise the next time, a context is what it is
        found = _sampled(log, policy.features, with_propensity=True)
    return {
        "rows": found.rows,
        "repeated": found.repeated,
        "propensity": needed,
        "hashes": base64.b64encode(found.hashes.astype("<u8").tobytes()).decode(),
    }


_IF_NEW = "statements about it are valid if it was made without these rows"


@dataclass(frozen=True)
class Acquaintance:
    """What is known of a policy and these rows.

    >>> Acquaintance().certain
    False
    """

    certain: bool = False
    """It was learned from some of them, as far as can be told: no interval holds."""
    how: str = ""
    """How that is known, in words."""
    rests_on: str | None = None
    """What its interval rests on where that is not so; None for policies that are no file."""


class Rows:
    """The rows of a log, to be held against what policies were learned from."""

    def __init__(self, log: piwo.Log, paths: Sequence[str], where: str | None) -> None:
        self.log, self.paths, self.where = log, list(paths), where
        self._samples: dict[tuple[Features | None, bool], RowSampleState] = {}

    def know(self, policy: Named) -> Acquaintance:
        """Whether a policy was learned from these rows, as far as its file and they tell.

        Raises:
            FileError: where what its file says of that is damaged.
        """
        if policy.saved is None:
            return Acquaintance()
        training = kept_with(policy.saved, "training")
        if not training:
            unsaid = "its file does not say what it was learned from"
            return Acquaintance(rests_on=f"{_IF_NEW}; {unsaid}")
        compared = self._compared(policy.saved.policy, kept_with(policy.saved, "sample"))
        if compared is not None and compared[0]:
            return Acquaintance(certain=True, how=compared[1])
        if compared is None and (how := self._alike(policy)) is not None:
            return Acquaintance(certain=True, how=how)
        shown = (
            "whether these rows are among them is not known" if compared is None else compared[1]
        )
        return Acquaintance(
            rests_on=f"{_IF_NEW}: it was learned from "
            f"{_origin(training, kept_with(policy.saved, 'certificate'))}; {shown}"
        )

    def _compared(self, policy: Policy, kept: Mapping[str, Any]) -> tuple[bool, str] | None:
        """Whether more of the rows are among those of the sample than chance allows, and how many, in words.

        None where the sample tells nothing.
        """
        if not kept:
            return None
        then, repeated, with_propensity = _read(kept)
        # a share that the sample has never seen may still be up to about three in its size
        chance = repeated + 3.0 / max(len(then.hashes), 1)
        if chance > _TELLING or (with_propensity and _estimated(self.log)):
            return None
        looked, found = self._sample(policy.features, with_propensity).within(then)
        if not looked:
            return None
        expected = looked * chance
        number = "none" if not found else f"{found}"
        said = f"{number} of the {looked} rows that were compared {'is' if found < 2 else 'are'} among them"
        return found > expected + 3.0 * math.sqrt(expected), said

    def _sample(self, features: Features | None, with_propensity: bool) -> RowSampleState:
        key = (features, with_propensity)
        if key not in self._samples:
            self._samples[key] = _sampled(self.log, features, with_propensity)
        return self._samples[key]

    def _alike(self, policy: Named) -> str | None:
        """Return in which way the log looks like the one that a policy was learned from; None where it does not."""
        training, certificate = (
            kept_with(policy.saved, "training"),
            kept_with(policy.saved, "certificate"),
        )
        name = Path(str(training.get("log"))).name
        same = Path(self.log.source.name).name == name
        if same and certificate.get("log_rows") == len(self.log):
            return "same name, same number of rows"
        all_or_these = "where" in training and training["where"] in {None, self.where}
        return f"{name} is read again" if all_or_these and (same or self._reads(name)) else None

    def _reads(self, name: str) -> bool:
        """Whether a file of this name is among those that are read, or stands in the query."""
        files = files_named(self.paths)
        word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
        return any(Path(x).name == name for x in files) or any(
            word.search(x) for x in self.paths if x not in files
        )


def _origin(training: Mapping[str, Any], certificate: Mapping[str, Any]) -> str:
    facts = [str(training.get("log"))]
    facts += [f"{certificate['log_rows']} rows"] if certificate.get("log_rows") else []
    facts += [str(certificate["created"])[:10]] if certificate.get("created") else []
    return ", ".join(facts)


def _estimated(log: piwo.Log) -> bool:
    return log.propensity_error is not None and log.propensity_error.estimated is not None


def _sampled(log: piwo.Log, features: Features | None, with_propensity: bool) -> RowSampleState:
    plain = replace(log, propensity_error=None)  # the propensities as they were logged
    read = plain if features is None else plain.encoded_by(features)
    return reduce(read, RowSample(tuple(log.actions), features is not None, with_propensity))


def _read(kept: Mapping[str, Any]) -> tuple[RowSampleState, float, bool]:
    try:
        hashes = np.frombuffer(base64.b64decode(kept["hashes"], validate=True), "<u8").astype(
            np.uint64
        )
        rows, repeated, with_propensity = (
            int(kept["rows"]),
            float(kept["repeated"]),
            bool(kept["propensity"]),
        )
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise FileError(
            "the sample of rows in the policy file is damaged; learn the policy again"
        ) from None
    return (
        RowSampleState(rows, np.sort(hashes), np.ones(len(hashes), np.int64)),
        repeated,
        with_propensity,
    )
