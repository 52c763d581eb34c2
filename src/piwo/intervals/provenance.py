"""Provenance: whether a policy was learned from rows of a log."""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from piwo.errors import FileError, PiwoError, warn
from piwo.intervals.loggers import has_logger, logger_record
from piwo.logs.features import Features
from piwo.logs.log import Log
from piwo.logs.split import HeldOut
from piwo.messages import Note
from piwo.policies import Policy
from piwo.policies.provenance import Provenance, record_in
from piwo.reductions import Joint
from piwo.reductions.reduce import reduce
from piwo.reductions.row_sample import RowSample, RowSampleState
from piwo.sources.table import has_name
from piwo.visible import rows_text

__all__ = [
    "Overlap",
    "digits_of",
    "learned_from",
    "more_than_chance",
    "overlaps",
    "read_sample",
    "sample_to_record",
]

_RARELY_ALIKE = 0.05
"""Rows that are alike at most this often are distinguished by action and context alone."""
_FEW_COLUMNS = 4
_MOSTLY_ALIKE = 0.5
"""Rows that are alike more often than this say nothing."""


@dataclass(frozen=True)
class Overlap:
    """Whether a policy was learned from rows of a log.

    >>> Overlap().certain
    False
    """

    certain: bool = False
    """It was learned from some of them, as far as is known: no interval holds."""
    how: str = ""
    """How that is known, in words."""
    certified: bool = False
    """Whether a certificate is kept with the policy."""
    note: Note | None = None
    """What its interval rests on if that is not so; None for policies that nothing is known of."""


def overlaps(log: Log, policies: Mapping[Any, Any]) -> dict[Any, Overlap]:
    """Return which policies were learned from rows of a log; without provenance there is no pass.

    Args:
        log: the rows.
        policies: key -> policy, or what `piwo.evaluate` takes in place of one.

    Raises:
        FileError: if what the file of a policy says of that is damaged.
    """
    # Policies with one encoding share the samples of the rows.
    known: dict[tuple[Features | None, bool, int | None], RowSampleState] = {}

    def sample(
        features: Features | None, with_propensity: bool, digits: int | None
    ) -> RowSampleState:
        asked = (features, with_propensity, digits)
        if asked not in known:
            # Exact and rounded contexts are asked for one after the other: one pass for both.
            rounding = digits or digits_of(features)
            exact, rounded = _sampled(log, features, with_propensity, rounding)
            known[features, with_propensity, None] = exact
            known[features, False, rounding] = rounded
        return known[asked]

    found = {}
    for key, policy in policies.items():
        each = []
        if isinstance(policy, Policy):
            each = [_overlap(log, policy.features, one, sample) for one in policy.provenances]
        found[key] = Overlap()
        for one in each:
            if one.certain:
                found[key] = one
                break
            if one.note is not None and found[key].note is None:
                found[key] = one
    return found


def learned_from(log: Log, policy: Policy) -> Policy:
    """Return a policy that knows the rows that it was learned from; they are read when it is asked.

    Args:
        log: the rows, of which the policy keeps a reference.
        policy: as it was learned, or chosen, from them.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a"], reward=[1], propensity=[1.0])
    >>> learned = learned_from(log, piwo.policies.Constant("a", log.actions))
    >>> overlaps(log, {"learned": learned})["learned"].certain
    True
    """

    def facts() -> dict[str, Any]:
        training: dict[str, Any] = {"log": log.source.name, "rows": len(log)}
        try:
            found = {"training": training, "sample": _sample_record(log, policy.features)}
            if has_logger(policy):
                found["logger"] = logger_record(log)
            return found
        except PiwoError as cause:
            warn(
                "the log that the policy was learned from cannot be read again "
                f"({cause}), so the policy file cannot be used to recognize its rows"
            )
            return {"training": training}

    return policy.with_provenance(Provenance(facts, log))


_Sample: TypeAlias = Callable[[Features | None, bool, int | None], RowSampleState]

_IF_NEW = "statements about it are valid if it was made without these rows"


def _overlap(
    log: Log, features: Features | None, provenance: Provenance, sample: _Sample
) -> Overlap:
    """Return what is known of the rows that a policy was learned from.

    Args:
        log: the rows that it may have been learned from.
        features: the encoding of the policy's context.
        provenance: of the policy.
        sample: samples the rows of the log.
    """
    if provenance.log is not None:
        shared = _shared(log, provenance.log)
        if shared is not None:
            return Overlap(certain=shared, how="both are the same log")
    # a mixture keeps the facts of each of its policies
    records = provenance.facts.get("learned") or [provenance.facts]
    each = [_overlap_by_facts(log, features, one, sample) for one in records]
    return next((one for one in each if one.certain), each[0])


def _overlap_by_facts(
    log: Log, features: Features | None, facts: Mapping[str, Any], sample: _Sample
) -> Overlap:
    """Return what the facts in a policy file say: by a sample of the rows, else by names."""
    training, certificate = record_in(facts, "training"), record_in(facts, "certificate")
    if not training:
        unsaid = f"{_IF_NEW}; its file does not say what it was learned from"
        return Overlap(note=Note(unsaid, kind="provenance"))
    kept = record_in(facts, "sample")
    compared = _compared(log, features, kept, sample)
    if compared is None or not compared[0]:
        # a copy of the rows in float32, or with fewer digits
        rounded = _compared(log, features, record_in(kept, "rounded"), sample)
        if rounded is not None and rounded[0]:
            compared = rounded
        elif compared is not None and rounded is None and features is not None:
            certain, said = compared
            compared = certain, f"{said}; copies with fewer digits would not be recognized"
    if compared is None:
        how = _look_alike(log, training, certificate)
        certain = how is not None
        shown = how or "whether these rows are among them is not known"
    else:
        certain, shown = compared
    if certain:
        return Overlap(certain=True, how=shown, certified=bool(certificate))
    origin = _origin(training, certificate)
    text = f"{_IF_NEW}: it was learned from {origin}; {shown}"
    return Overlap(certified=bool(certificate), note=Note(text, kind="provenance"))


def _compared(
    log: Log, features: Features | None, kept: Mapping[str, Any], sample: _Sample
) -> tuple[bool, str] | None:
    """Return whether more rows are in the sample than chance allows, and how many, in words.

    None if the sample says nothing.
    """
    if not kept:
        return None
    then, repeated, with_propensity, digits = read_sample(kept)
    if _too_alike(then, repeated) or (with_propensity and _estimated(log)):
        return None
    return more_than_chance(sample(features, with_propensity, digits), then, repeated)


def more_than_chance(
    now: RowSampleState, then: RowSampleState, repeated: float
) -> tuple[bool, str] | None:
    """Return whether more rows are in a sample than chance allows, and how many, in words.

    None if the samples say nothing.

    Args:
        now: of the rows at hand.
        then: of the rows that were learned from.
        repeated: how often a new row has the hash of one of these, by chance.

    >>> state = RowSampleState(400, np.arange(400, dtype=np.uint64), np.ones(400, np.int64))
    >>> more_than_chance(state, state, 0.0)
    (True, '400 of the 400 rows that were compared are among them')
    """
    if _too_alike(then, repeated):
        return None
    looked, found = now.within(then)
    if not looked:
        return None
    # Three standard deviations of the count by chance, and of how often rows are alike by chance,
    # an estimate from the m rows of the sample. Rows that are alike come in pairs, so that its
    # variance is up to 2 p / m (Esty 1983, "A normal limit law for a nonparametric estimator of the
    # coverage of a random sample").
    expected = looked * _chance(then, repeated)
    limit = expected + 3.0 * math.sqrt(expected * (1.0 + 2.0 * looked / max(len(then.hashes), 1)))
    count, verb = f"{found:,}", "are"
    if not found:
        count = "none"
    if found < 2:
        verb = "is"
    said = f"{count} of the {looked:,} rows that were compared {verb} among them"
    if 0 < found <= limit:
        said += ", no more than rows that are equal by chance explain"
    return found > limit, said


def _chance(then: RowSampleState, repeated: float) -> float:
    # a share that the sample has never seen may still be up to about three in its size
    return repeated + 3.0 / max(len(then.hashes), 1)


def _too_alike(then: RowSampleState, repeated: float) -> bool:
    return _chance(then, repeated) > _MOSTLY_ALIKE


def _shared(log: Log, then: Log) -> bool | None:
    """Return whether two logs of this process share rows; None if only the rows can show it."""
    if log.source is not then.source:
        return None
    one, other = log.selector, then.selector
    if one is None or other is None or one == other:
        return True
    if isinstance(one, HeldOut) and isinstance(other, HeldOut):
        # two parts of one split share no row, and two of the same part are equal
        same_split = replace(one, test=other.test) == other and log.columns.key == then.columns.key
        if same_split:
            return False
    return None


def _look_alike(
    log: Log, training: Mapping[str, Any], certificate: Mapping[str, Any]
) -> str | None:
    """Return how a log looks like the one that a policy was learned from; None if it does not."""
    if not has_name(log.source):
        return None
    name = Path(str(training.get("log"))).name
    same = Path(log.source.name).name == name
    if same and len(log) in {certificate.get("log_rows"), training.get("rows")}:
        return "same name, same number of rows"
    if "where" not in training:
        return None
    condition = training["where"]
    all_or_these = condition is None or log.source.name.endswith(f" where {condition}")
    if all_or_these and (same or _reads(log, name)):
        return f"{name} is read again"
    return None


def _reads(log: Log, name: str) -> bool:
    """Whether a file of this name is among those that are read, or is named in the query."""
    source: Any = log.source
    read = [source.name, *getattr(source, "paths", ())]
    if isinstance(getattr(source, "sql", None), str):
        read.append(source.sql)
    word = re.compile(rf"(?<![\w.-]){re.escape(name)}(?![\w-])")
    return any(word.search(text) for text in read)


def _origin(training: Mapping[str, Any], certificate: Mapping[str, Any]) -> str:
    facts = [str(training.get("log"))]
    rows = certificate.get("log_rows") or training.get("rows")
    if rows:
        facts.append(rows_text(rows))
    if certificate.get("created"):
        facts.append(str(certificate["created"])[:10])
    return ", ".join(facts)


def _estimated(log: Log) -> bool:
    return log.propensity_error is not None and log.propensity_error.estimated is not None


def _sampled(
    log: Log, features: Features | None, with_propensity: bool, digits: int | None
) -> tuple[RowSampleState, RowSampleState]:
    """Return the sample of the rows, and that with rounded contexts, without propensities."""
    # the propensities as they were logged, the context as the policy was given it
    read = replace(log, propensity_error=None)
    if features is not None:
        read = read.encoded_by(features)
    labels, with_context = tuple(log.actions), features is not None
    exact = RowSample(labels, with_context, with_propensity)
    rounded = RowSample(labels, with_context, with_propensity=False, digits=digits)
    found: tuple[RowSampleState, RowSampleState] = reduce(read, Joint((exact, rounded)))
    return found


def _sample_record(log: Log, features: Features | None) -> dict[str, Any]:
    """Return what a file keeps of the rows of a log: hashes of a few, no row itself."""
    digits = digits_of(features)
    found, rounded = _sampled(log, features, with_propensity=False, digits=digits)
    needed = found.repeated > _RARELY_ALIKE and not _estimated(log)
    if needed:
        # propensities may be given differently the next time, so they count only if necessary
        found, _ = _sampled(log, features, with_propensity=True, digits=digits)
    record = {**sample_to_record(found), "propensity": needed}
    if digits is not None:
        record["rounded"] = {**sample_to_record(rounded), "propensity": False, "digits": digits}
    return record


def digits_of(features: Features | None) -> int | None:
    """Return to how many digits contexts are rounded, so that copies with fewer are recognized.

    A digit less than the copy is rounded to keeps most rows in place; few columns need more digits
    to tell rows apart.

    >>> digits_of(None) is None
    True
    """
    if features is None:
        return None
    return 3 if features.width <= _FEW_COLUMNS else 2


def sample_to_record(found: RowSampleState) -> dict[str, Any]:
    """Return a sample as JSON has it.

    >>> sample_to_record(RowSampleState())["rows"]
    0
    """
    hashes = base64.b64encode(found.hashes.astype("<u8").tobytes()).decode()
    return {"rows": found.rows, "repeated": found.repeated, "hashes": hashes}


def read_sample(kept: Mapping[str, Any]) -> tuple[RowSampleState, float, bool, int | None]:
    """Return a sample from its record, how often rows are alike, and what its hashes are of.

    The last two are whether propensities count, and how many digits of the context do.

    Raises:
        FileError: for a damaged record.

    >>> one = RowSampleState(1, np.array([7], np.uint64), np.array([1]))
    >>> read_sample({**sample_to_record(one), "propensity": False})[0].hashes.tolist()
    [7]
    """
    try:
        read = np.frombuffer(base64.b64decode(kept["hashes"], validate=True), "<u8")
        rows, repeated = int(kept["rows"]), float(kept["repeated"])
        with_propensity, digits = bool(kept["propensity"]), kept.get("digits")
        if digits is not None and not (type(digits) is int and 0 < digits < 16):
            raise ValueError("a float64 has fifteen digits")
    except (KeyError, TypeError, ValueError, binascii.Error):
        raise FileError(
            "the sample of rows in the policy file is damaged; learn the policy again"
        ) from None
    hashes = np.sort(read.astype(np.uint64))
    state = RowSampleState(rows, hashes, np.ones(len(hashes), np.int64))
    return state, repeated, with_propensity, digits
