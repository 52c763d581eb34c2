"""A logging policy that was saved, or learned, stands for the logger of its own log, and no other.

On another log it would silently mean that log's logger, which may be a better or a worse policy.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from piwo.errors import PiwoError, UsageError
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.policies.provenance import Provenance, record_in
from piwo.reductions.digest import LoggerDigest
from piwo.reductions.reduce import reduce
from piwo.visible import rows_text

__all__ = ["BASELINE", "check_loggers", "has_logger", "logger_record"]


BASELINE = "the baseline"
"""What errors call a baseline that has no name among the policies."""


def has_logger(policy: Policy) -> bool:
    """Whether a policy is the logging policy, or holds it.

    >>> from piwo.policies import Logging, Mixture, Uniform
    >>> has_logger(Mixture([Logging(["a"]), Uniform(["a"])], [0.5, 0.5]))
    True
    """
    return policy.is_logger or any(has_logger(part) for part in policy.parts)


def logger_record(log: Log) -> dict[str, Any]:
    """Return what a policy file keeps to recognize the log whose logger it stands for; a pass.

    >>> log = Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> logger_record(log)["rows"]
    2
    """
    # the log as it was read, whichever rows were selected, with the propensities as logged
    whole = replace(log, selector=None, propensity_error=None)
    found = reduce(whole, LoggerDigest(tuple(whole.actions)))
    return {"log": log.source.name, "rows": found.rows, "digest": found.digest}


def check_loggers(log: Log, policies: Mapping[Any, Any]) -> None:
    """Raise if a policy stands for the logger of another log. Only such policies take a pass.

    A `Logging` made in this process means the logger of whatever log it is used on.

    Args:
        log: the rows.
        policies: name -> policy, or what `piwo.evaluate` takes in place of one.

    Raises:
        UsageError: for the logger of another log, or of one that its file does not name.
    """
    here: dict[str, Any] = {}
    for name, policy in policies.items():
        if not isinstance(policy, Policy) or not has_logger(policy):
            continue
        for origin in _origins(policy):
            if origin.log is not None and origin.log.source is log.source:
                continue
            for there in _records(origin):
                if there and not here:
                    here = logger_record(log)
                if not there or there.get("digest") != here["digest"]:
                    raise UsageError(_refusal(name, log, there))


def _origins(policy: Policy, outer: tuple[Provenance, ...] = ()) -> Iterator[Provenance]:
    """Yield the provenances of the loggers in a policy: their own, and those of what holds them."""
    known = (*outer, *policy.provenance)
    if policy.is_logger:
        yield from known
    for part in policy.parts:
        yield from _origins(part, known)


def _records(origin: Provenance) -> list[Mapping[str, Any]]:
    """Return the records of the logs that loggers belong to; an empty one if there is none."""
    try:
        if origin.log is not None:
            return [logger_record(origin.log)]
        # a mixture keeps the facts of each of its policies
        each = origin.facts.get("learned") or [origin.facts]
        found = [record_in(facts, "logger") for facts in each]
    except PiwoError:
        # the log is gone, or the record is damaged: the logs cannot be shown to be the same
        found = []
    return [record for record in found if record] or [{}]


def _refusal(name: Any, log: Log, there: Mapping[str, Any]) -> str:
    who = f"policy {str(name)!r}"
    if name == BASELINE:
        who = name
    instead = "leave it out to use the logging policy of this log, or name a policy that can act"
    if not there:
        return (
            f"{who} is the logging policy of a log that its file does not describe, "
            f"so that it cannot be used on {log.source.name}; {instead}"
        )
    return (
        f"{who} stands for the logging policy of {there.get('log')} "
        f"({rows_text(there.get('rows'))}), and these are the rows of {log.source.name}; {instead}"
    )
