"""How much of a policy no row of a log can show: the one place where that is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy.typing as npt

from piwo.evaluation.result import RequestResult
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.reductions import Joint
from piwo.reductions.action_mass import ActionMass
from piwo.reductions.reduce import reduce
from piwo.reductions.unsupported import UnsupportedMass

__all__ = ["unsupported_masses", "unsupported_sums", "with_masses"]

_FEW = 16
"""How often the policies of a certificate may be evaluated again."""


def unsupported_sums(log: Log, policy: Policy) -> tuple[UnsupportedMass, ...]:
    """Return what to sum, beside the sums of a policy, if the log has the full propensities.

    The mean of sum_a pi(a | X) 1{mu(a | X) = 0} is then known exactly.

    Args:
        log: the rows.
        policy: over the log's action list.
    """
    if log.gives_full_distribution and policy.gives_full_distribution:
        return (UnsupportedMass(policy),)
    return ()


def unsupported_masses(
    log: Log,
    policies: Mapping[Any, Policy],
    unlogged: Sequence[int] | npt.NDArray[Any],
    known: Mapping[Any, float | None],
    *,
    another_pass: bool = True,
) -> dict[Any, float | None]:
    """Return each policy's mean probability of what the log cannot show; None if it is not known.

    That is exact given full propensities. Otherwise it is the probability of actions that were
    never logged, which takes a pass for policies that look at the context or at the row.

    Args:
        log: the rows.
        policies: over the log's action list.
        unlogged: codes of the actions that were never logged.
        known: the means of `unsupported_sums`; None where there were none.
        another_pass: whether such a pass may be taken; if not, the result is None.
    """
    # without an explicit list, a policy known on the logged actions alone may play others that
    # are on no list; given full vectors, others that the logger could not take
    complete = len(unlogged) == 0 and log.declared_actions is not None
    complete = complete and not log.gives_full_distribution
    masses: dict[Any, float | None] = {}
    by_row = {}
    for name, policy in policies.items():
        if policy.is_logger:
            masses[name] = 0.0
        elif known.get(name) is not None:
            masses[name] = known[name]
        elif policy.gives_full_distribution and len(unlogged):
            masses[name] = None
            changing = log.columns.eligible is not None
            if changing or policy.needs_context or policy.rows is not None:
                by_row[name] = policy
            else:
                masses[name] = float(policy.probability(None, unlogged).sum())
        elif policy.gives_full_distribution or complete:
            masses[name] = 0.0
        else:
            masses[name] = None
    if by_row and another_pass:
        codes = tuple(int(a) for a in unlogged)
        states = reduce(log, Joint(tuple(ActionMass(policy, codes) for policy in by_row.values())))
        for name, state in zip(by_row, states, strict=True):
            masses[name] = state.mean
    return masses


def with_masses(log: Log, policies: Mapping[Any, Policy], result: RequestResult) -> RequestResult:
    """Return the result with each policy's `unsupported_masses`, for certificates.

    That takes another pass only if it is a quick one.

    Args:
        log: the rows.
        policies: over the log's action list.
        result: what the pass over the log found.
    """
    quick = len(result.never_logged) * len(policies) <= _FEW
    known = {key: one.unsupported for key, one in result.policies.items()}
    masses = unsupported_masses(log, policies, result.never_logged, known, another_pass=quick)
    found = {key: replace(one, unsupported=masses[key]) for key, one in result.policies.items()}
    return replace(result, policies=found)
