"""Regret certificates: how far below another policy, or below the best of a class, can the one that runs be?"""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from piwo import bounds
from piwo._version import __version__
from piwo.certificates import Kind
from piwo.certifying import PolicyClass, check_declared
from piwo.checks import check_kind
from piwo.engines.engine import reduce
from piwo.errors import UsageError
from piwo.estimators.difference import Difference
from piwo.estimators.evaluation import SUSPICIOUS, jsonable
from piwo.estimators.prepare import check_actions_known, prepare
from piwo.logs.log import Log
from piwo.oracles import Oracle
from piwo.policies.archive import write_file
from piwo.reductions import Digest, PolicySums, Together
from piwo.scores import IW, LSLinear
from piwo.visible import p_value, visible_lines

__all__ = ["RegretCertificate", "regret_certificate"]

SELF = "policy"


@dataclass(frozen=True)
class RegretCertificate:
    """Upper bounds on the regret of one policy, which hold together with probability 1 - delta, in the reward's unit.

    >>> RegretCertificate("comparators", {"old": 0.02, "new": 0.3}, 0.05, "held-out").regret_upper
    0.3
    """

    scope: Literal["comparators", "class"]
    """comparators: those named; class: every policy of a finite class, whichever is best."""
    against: Mapping[str, float]
    """Name of the comparator, or of the oracle of the class -> v(comparator) - v(policy) is at most this."""
    delta: float
    kind: Kind
    log_class_size: float = 0.0
    """log |Pi| that an in-sample certificate pays for."""
    rows: int = 0
    propensity_p: float | None = None
    """p-value of "the propensities are not too small"; None in-sample, where it cannot be tested."""
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost: bool = False
    log_digest: str | None = None
    version: str = __version__
    notes: tuple[str, ...] = ()

    @property
    def regret_upper(self) -> float:
        """Return the largest of the bounds."""
        return max(self.against.values())

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON."""
        made: dict[str, Any] = jsonable(asdict(self))
        return made

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the record as JSON, complete or not at all.

        Raises:
            FileError: where the file cannot be written.
        """
        text = json.dumps(self.to_dict(), indent=2, ensure_ascii=False, allow_nan=False)
        # half characters of file names have no UTF-8; as escapes they are JSON
        write_file(Path(path), f"{text}\n".encode(errors="backslashreplace"))

    def __str__(self) -> str:
        lines = [f"{self.kind} regret certificate, delta {self.delta:g}, {self.rows} rows"]
        of_class = "every policy of the class of " if self.scope == "class" else ""
        lines += [f"  below {of_class}{name} by at most {most:.4g}" for name, most in self.against.items()]
        return visible_lines(lines + [f"  note: {note}" for note in self.notes])


def regret_certificate(
    log: Log,
    policy: Any,
    against: Mapping[str, Any] | Oracle,
    *,
    delta: float = 0.05,
    within: PolicyClass | None = None,
) -> RegretCertificate:
    """Return how far a policy can be below others. Answers: what do we lose at most by running it?

    Formula: against N comparators, each 1 - LB(E Y) at log(N/delta), Y as in `piwo.reductions.PairSums`: paired where
    both policies tell all their probabilities, else from the logged actions alone. Against a class,
    `piwo.bounds.best_value_upper` at delta/2 minus the lower bound on the policy's value at delta/2.

    Args:
        log: rows that were not used to make the policy; with `within`, any rows.
        policy: the one that runs; see `piwo.evaluate` for what a policy may be.
        against: name -> comparator, each fixed before looking; or an exact oracle, for the best of its class.
        delta: how often any bound may be wrong.
        within: the declared class that the policy was chosen from by looking at these rows; see `piwo.certify`.

    Returns:
        A `RegretCertificate`.

    Raises:
        UsageError: for an oracle that is not exact, a policy that is not of the class, thinned logs, rewards without
            an upper end.

    Source: docs/theory.md, section "Regret certificates".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000)
    >>> a, b = (piwo.policies.Constant(x, log.actions) for x in log.actions)
    >>> found = regret_certificate(log, a, {"b": b})
    >>> found.regret_upper < -0.9  # b is worse
    True
    >>> 0 <= regret_certificate(log, a, piwo.oracles.Exhaustive([a, b])).regret_upper < 0.2
    True
    """
    _check(log)
    if within is not None:
        check_declared(within, {SELF: policy})
    kind: Kind = "held-out" if within is None else "in-sample"
    log_class_size = 0.0 if within is None else within.log_class_size() or 0.0
    each = bounds.log_inv_delta(delta, log_class_size=log_class_size)
    if isinstance(against, Oracle):
        return _of_class(log, policy, against, delta, kind, log_class_size)
    if not isinstance(against, Mapping):
        raise UsageError(f"against is {against!r:.80}, expected name -> comparator, or an exact oracle")
    if not against:
        raise UsageError("no comparators; name at least one policy, or give an exact oracle")
    named = {f"against {name}": one for name, one in against.items()}
    log, ready = prepare(log, {**named, SELF: policy})
    check_actions_known(log, ready.values())
    mine = ready.pop(SELF)
    pairs = [Difference(mine, one) for one in ready.values()]
    digest, own, *states = reduce(log, Together((Digest(), PolicySums(mine, IW()), *(pair.sums for pair in pairs))))
    share = each + math.log(len(pairs))
    most = {name: -pair.lower(x, share) for name, pair, x in zip(against, pairs, states, strict=True)}
    return _made(log, "comparators", most, delta, kind, log_class_size, digest.text(log.actions), own)


def _of_class(
    log: Log, policy: Any, oracle: Oracle, delta: float, kind: Kind, log_class_size: float
) -> RegretCertificate:
    size = oracle.log_class_size()
    if not oracle.exact or size is None:
        raise UsageError(
            f"a bound for a whole class needs an exact oracle, and {oracle.name} finds some policy with a small loss, "
            "not the smallest; use oracles.Exhaustive, or name comparators"
        )
    log, ready = prepare(log, {SELF: policy})
    check_actions_known(log, ready.values())
    digest, own = reduce(log, Together((Digest(), PolicySums(ready[SELF], IW()))))
    n, half = own.moments.rows, bounds.log_inv_delta(delta, statements=2)
    grid = bounds.gamma_grid_ls(n, size, delta)
    bets = grid.bets or (2.0 * bounds.gamma_auto(n, size, delta),)
    least = oracle.least_losses(log, [LSLinear(bet) for bet in bets])
    best = bounds.best_value_upper([float(x) / n for x in least], bets, n, half + size)
    mine = bounds.value_lower(own.bets.value, n, half + log_class_size)
    most = {oracle.name: min(1.0, best) - mine}
    return _made(log, "class", most, delta, kind, log_class_size, digest.text(log.actions), own)


def _made(
    log: Log,
    scope: Literal["comparators", "class"],
    most: Mapping[str, float],
    delta: float,
    kind: Kind,
    log_class_size: float,
    digest: str,
    own: Any,
) -> RegretCertificate:
    n = own.moments.rows
    evidence = bounds.propensity_e_test(own.bets.weight, n).p_value if kind == "held-out" else None
    notes = list(log.doubts)
    if evidence is not None and evidence < SUSPICIOUS:
        notes.append(
            f"the logged propensities are too small for how often actions were taken ({p_value(evidence)}): "
            "no bound can be believed, and none is given"
        )
        most = dict.fromkeys(most, 1.0)
    if min(most.values()) >= 1.0:
        notes.append("the bound is vacuous: it says no more than the reward range does")
    return RegretCertificate(
        scope=scope,
        against={name: log.span * min(1.0, x) for name, x in most.items()},
        delta=delta,
        kind=kind,
        log_class_size=log_class_size,
        rows=n,
        propensity_p=evidence,
        reward_range=log.reward_range,
        cost=log.columns.cost,
        log_digest=digest,
        notes=tuple(notes),
    )


def _check(log: Log) -> None:
    check_kind("log", log, Log, "; piwo.read makes one")
    if log.columns.weight is not None:
        raise UsageError(
            "the log was thinned (sampling weights) and the dropped rows are not counted: no certificate holds"
        )
    if not math.isfinite(log.reward_range[1]):
        raise UsageError(
            "a regret certificate needs rewards with an upper end: what another policy earns has no bound else"
        )
