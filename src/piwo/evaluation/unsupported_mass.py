"""Unsupported mass: how much of a policy goes to actions that were never logged."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy.typing as npt

from piwo.logs.log import Log
from piwo.policies import Logging, Policy
from piwo.reductions import Joint
from piwo.reductions.action_mass import ActionMass
from piwo.reductions.reduce import reduce

__all__ = ["unsupported_masses"]


def unsupported_masses(
    log: Log, policies: Mapping[str, Policy], unlogged: Sequence[int] | npt.NDArray[Any]
) -> dict[str, float | None]:
    """Return each policy's mean probability of actions never logged; None if it is not known.

    Takes a pass over the log only for policies that look at the context or at the row.

    Args:
        log: the rows.
        policies: over the log's action list.
        unlogged: codes of the actions that were never logged.
    """
    # without an explicit list, a policy known on the logged actions alone may play others that
    # are on no list
    complete = len(unlogged) == 0 and log.declared_actions is not None
    masses: dict[str, float | None] = {}
    by_row = {}
    for name, policy in policies.items():
        if policy.gives_full_distribution and len(unlogged):
            if policy.needs_context or policy.rows is not None:
                masses[name] = None
                by_row[name] = policy
            else:
                masses[name] = float(policy.probability(None, unlogged).sum())
        elif policy.gives_full_distribution or complete or isinstance(policy, Logging):
            masses[name] = 0.0
        else:
            masses[name] = None
    if by_row:
        codes = tuple(int(a) for a in unlogged)
        states = reduce(log, Joint(tuple(ActionMass(policy, codes) for policy in by_row.values())))
        for name, state in zip(by_row, states, strict=True):
            masses[name] = state.mass / state.rows
    return masses
