"""Candidates judged on a sample of a huge log, so that a limited time goes to the better half."""

from __future__ import annotations

import math
from collections.abc import Sequence

from piwo.certificates.request import CertificateRequest
from piwo.intervals.point import self_normalized
from piwo.learners.folds import folds_of, sample_of
from piwo.learners.pool import Candidate, in_paths
from piwo.learners.schedule import solved
from piwo.logs.log import Log
from piwo.policies import Policy
from piwo.reductions.reduce import reduce

__all__ = ["HUGE", "better_half"]

HUGE = 500_000
"""Rows from which candidates are judged first, if the time is limited."""
_SAMPLE = 60_000
"""Rows that they are judged with: one half to learn from, the other to judge on."""


def better_half(pool: Sequence[Candidate], log: Log, seed: int) -> tuple[Candidate, ...]:
    """Return the better half of the candidates, in their order.

    Each is learned from one half of a sample and valued on the other, by the self-normalized
    estimate less its standard error, as `Auto` chooses in the end. Neighbors with one oracle are
    kept or left out together.

    Certificates stay valid although the sample has rows that will certify: a policy still depends
    on its training rows alone, each candidate's share of delta was fixed before, and bounds hold
    jointly for all candidates, whether they are looked at or not.

    Args:
        pool: all candidates.
        log: all rows, on one machine.
        seed: of the sample.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0], [1.0]] * 200,
    ...     action=["a", "b"] * 200,
    ...     reward=[1, 1] * 200,
    ...     propensity=[0.5] * 400,
    ... )
    >>> pool = [Candidate("plain", piwo.oracles.Ridge(), piwo.IX(x)) for x in (0.1, 1.0)]
    >>> len(better_half(pool, log, 0))
    1
    """
    sample, chosen = sample_of(log, _SAMPLE, seed)
    train, test = folds_of(sample, chosen, 2)[0]
    judged: list[tuple[float, int, list[Candidate]]] = []
    for place, path in enumerate(in_paths(pool)):
        policies = solved(path, train)
        found = [_standing(policy, test) for policy in policies.values()]
        judged.append((-max(found), place, path))
    judged.sort(key=lambda one: one[:2])
    better = sorted(judged[: math.ceil(len(judged) / 2)], key=lambda one: one[1])
    # The first candidate is learned in any case, so the order of the pool stays: quick ones first.
    kept: list[Candidate] = []
    for _, _, path in better:
        kept += path
    return tuple(kept)


def _standing(policy: Policy | None, test: Log) -> float:
    """Return the estimate less its standard error, on rows that it was not learned from."""
    if policy is None:
        return -math.inf
    asked = CertificateRequest.of(test, {0: policy}, provenance=False)
    found = self_normalized(asked.moments(reduce(asked.log, asked.sums))[0])
    if found.value is None or found.standard_error is None:
        return -math.inf
    return found.value - found.standard_error
