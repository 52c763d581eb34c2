"""How much of a policy no row of a log can show: the one place where that is computed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.evaluation.result import RequestResult
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.reductions import Joint, Reduction
from piwo.reductions.action_mass import ActionMass, MassState
from piwo.reductions.listed_mass import ListedMass
from piwo.reductions.reduce import reduce
from piwo.reductions.unsupported import UnsupportedMass

__all__ = [
    "looks_for_certain_rows",
    "masses_of",
    "unsupported_masses",
    "unsupported_sums",
    "with_masses",
]

_FEW = 16
"""How often the policies of a certificate may be evaluated again."""


def unsupported_sums(log: Log, policy: Policy) -> tuple[UnsupportedMass, ...]:
    """Return what to sum, beside the sums of a policy, if the log has the full propensities.

    The mean of sum_a pi(a | X) 1{mu(a | X) = 0} is then known exactly; over the eligible actions of
    each row if these change.

    Args:
        log: the rows.
        policy: over the log's action list.
    """
    if log.gives_every_propensity and policy.gives_full_distribution:
        return (UnsupportedMass(policy),)
    return ()


def looks_for_certain_rows(log: Log) -> bool:
    """Whether rows that `CertainRows` counts say more of propensities than the log has besides.

    Args:
        log: the rows.
    """
    alone = log.columns.eligible is not None and not log.gives_every_propensity
    return alone and log.propensity_error is None


def unsupported_masses(
    log: Log,
    policies: Mapping[Any, Policy],
    unlogged: Sequence[int] | npt.NDArray[Any],
    known: Mapping[Any, float | None],
    *,
    certain: bool = False,
    most: Mapping[Any, float | None] = MappingProxyType({}),
    another_pass: bool = True,
) -> dict[Any, float | None]:
    """Return each policy's mean probability of what the log cannot show; None if it is not known.

    That is exact given full propensities. Otherwise it is the probability of actions that were
    never logged, which takes a pass for policies that look at the context or at the row. If actions
    change from row to row, it counts what the policy plays besides an action of propensity 1, too,
    and is at most the upper bound from the mean weight.

    Args:
        log: the rows.
        policies: over the log's action list.
        unlogged: codes of the actions that were never logged.
        known: the means of `unsupported_sums`; None where there were none.
        certain: whether the log has rows such as `CertainRows` counts.
        most: upper bounds on each policy's mass where the logger never goes, for logs with eligible
            actions: many may never have been taken by chance.
        another_pass: whether such a pass may be taken; if not, the result is None.
    """
    masses: dict[Any, float | None] = {}
    by_row: dict[Any, Reduction[MassState]] = {}
    for name, policy in policies.items():
        masses[name] = 0.0 if policy.is_logger else known.get(name)
        if masses[name] is not None:
            continue
        found = _unsupported(log, policy, tuple(int(a) for a in unlogged), certain)
        if isinstance(found, Reduction):
            by_row[name] = found
        else:
            masses[name] = found
    if by_row and another_pass:
        states = reduce(log, Joint(tuple(by_row.values())))
        for name, state in zip(by_row, states, strict=True):
            bound = most.get(name)
            if bound is None:
                bound = 1.0
            masses[name] = min(state.mean, bound)
    return masses


def _unsupported(
    log: Log, policy: Policy, codes: tuple[int, ...], certain: bool
) -> float | Reduction[MassState] | None:
    """Return one of `unsupported_masses`, or what must be summed for it."""
    # without an explicit list, a policy known on the logged actions alone may play others that
    # are on no list; given full vectors, others that the logger could not take
    changing = log.columns.eligible is not None
    complete = not codes and (changing or log.declared_actions is not None)
    complete = complete and not log.gives_every_propensity
    if not (policy.gives_full_distribution or complete):
        return None
    if changing and (codes or certain):
        return ListedMass(policy, codes, certain)
    if not codes:
        return 0.0
    if policy.needs_context or policy.rows is not None:
        return ActionMass(policy, codes)
    return float(policy.probability(None, np.array(codes)).sum())


def masses_of(
    log: Log, policies: Mapping[Any, Policy], result: RequestResult, *, another_pass: bool = True
) -> dict[Any, float | None]:
    """Return `unsupported_masses` of the policies of a request.

    Args:
        log: the rows.
        policies: over the log's action list.
        result: what the pass over the log found.
        another_pass: see `unsupported_masses`.
    """
    known = {key: one.unsupported for key, one in result.policies.items()}
    most: dict[Any, float | None] = {}
    if log.columns.eligible is not None:
        most = {key: one.missing_mass_upper for key, one in result.policies.items()}
    return unsupported_masses(
        log,
        policies,
        result.never_logged,
        known,
        certain=result.certain_rows > 0,
        most=most,
        another_pass=another_pass,
    )


def with_masses(log: Log, policies: Mapping[Any, Policy], result: RequestResult) -> RequestResult:
    """Return the result with each policy's `unsupported_masses`, for certificates.

    That takes another pass only if it is a quick one.

    Args:
        log: the rows.
        policies: over the log's action list.
        result: what the pass over the log found.
    """
    each = len(result.never_logged)
    if log.columns.eligible is not None:
        # A policy gives the probabilities of all eligible actions at once.
        each = 1
    masses = masses_of(log, policies, result, another_pass=each * len(policies) <= _FEW)
    found = {key: replace(one, unsupported=masses[key]) for key, one in result.policies.items()}
    return replace(result, policies=found)
