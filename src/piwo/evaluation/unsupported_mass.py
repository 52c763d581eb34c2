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
    """Return each policy's mean probability of actions never logged; None where it cannot be told.

    Takes a pass over the log only for policies that look at the context or at the row.

    Args:
        log: the rows.
        policies: over the log's action list.
        unlogged: codes of the actions that were never logged.
    """
    # without an explicit list, a policy known on the logged actions alone may play others that
    # nobody listed
    known = 0.0 if len(unlogged) == 0 and log.declared_actions is not None else None
    masses = {
        name: 0.0 if isinstance(policy, Logging) else known for name, policy in policies.items()
    }
    current_progress = {
        name: policy for name, policy in policies.items() if policy.gives_full_distribution
    }
    masses.update(dict.fromkeys(current_progress, 0.0))
    if len(unlogged) == 0:
        return masses
    fixed = {
        name: p for name, p in current_progress.items() if not p.needs_context and p.rows is None
    }
    masses.update(
        {name: float(policy.probability(None, unlogged).sum()) for name, policy in fixed.items()}
    )
    asked = {name: policy for name, policy in current_progress.items() if name not in fixed}
    if asked:
        codes = tuple(int(a) for a in unlogged)
        states = reduce(log, Joint(tuple(ActionMass(policy, codes) for policy in asked.values())))
        masses.update(
            {name: state.mass / state.rows for name, state in zip(asked, states, strict=True)}
        )
    return masses
