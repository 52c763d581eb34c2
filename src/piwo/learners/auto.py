"""Auto: a pool of learners, the one that is certified best, and the logging policy where none is."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Self

from piwo.certificates import SUSPICIOUS, Certificate, certify
from piwo.errors import PiwoWarning, UsageError
from piwo.learners.learner import Learner, check_certifiable, check_log, check_score, divide
from piwo.learners.pool import Candidate, candidates, usual_pool
from piwo.logs.log import Log
from piwo.policies import Logging, Policy
from piwo.scores import Score

__all__ = ["LOGGING", "Auto", "PoolPoint"]

LOGGING = "logging"
"""The key of the logging policy among the candidates."""


@dataclass(frozen=True)
class PoolPoint:
    """One candidate: the policy that it learned from one part of the log, certified on the other.

    >>> import piwo
    >>> from piwo.learners.pool import Candidate
    >>> one = Candidate("ridge", piwo.oracles.Ridge(), piwo.IX(0.1))
    >>> made = Certificate("held-out", 1.0, 0.9, 0.1, 0.5)
    >>> PoolPoint(one, piwo.policies.Constant("a", ["a"]), made).certificate.certified
    True
    """

    candidate: Candidate | None
    """None: the logging policy."""
    policy: Policy
    certificate: Certificate


class Auto(Learner):
    """Learn with a pool of learners; keep the policy that is certified to improve most on the logging policy.

    Answers: which policy should run, where nobody knows which learner suits the log? No single one does: methods that
    ignore the propensities are the best on even and on bad loggers and do harm elsewhere, weighted ones the reverse.
    The pool has both kinds, linear and boosted; what a candidate is worth is proved on rows that it never saw. Where
    nothing is certified better, the answer is the logging policy.

    Formula: the candidates are learned from one part of the log; the choice is argmax_i LB_i, over those with LB_i > 0,
    of the paired improvement bound LB_i = LB(E Y_i) - 1, Y_i = w_i R + 1 - R, on the other part at
    log((N + 1)/delta), for N different policies and the logging policy.
    Source: docs/quality.md; bound: docs/theory.md, section "Improvement over the logging policy".

    What is proved: with probability 1 - delta the policy chosen, `certified_policy_`, is at least as much better than
    the logging policy as its certificate says. Learning it again from all rows (`refit=True`) mostly gains, but of that
    policy nothing is proved: no row is left that it did not see. With `refit=False` the policy returned is the
    certified one.

    Args:
        pool: what to learn with, in place of the usual pool: scikit-learn classifiers, oracles, or `Candidate`s.
        extra: likewise, beside it. Every candidate makes the bounds of all a little wider: ln((N + 1)/delta).
        delta: how often the certificates may be wrong, all together.
        refit: return the chosen candidate's policy learned from all rows, instead of the certified one.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split and of the boosted trees, a whole number.
        tail: hold out the last rows of the log instead of random ones: for adaptive logs, whose logger learned
            from earlier rows.

    Attributes:
        policy_: the policy to run.
        certified_policy_: the policy that `certificate_` is about, learned from one part of the log.
        certificate_: its certificate.
        refitted_: whether `policy_` was learned from all rows, and is not the certified one.
        chosen_: its key in `path_`; "logging" for the logging policy (`log.behavior` where that is a policy).
        score_: the score that it was learned with; None for the logging policy.
        rule_: how it was chosen, in words.
        path_: name -> `PoolPoint`.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(400, 0.5))
    >>> learner = Auto([piwo.oracles.Ridge()]).fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], True)
    """

    def __init__(
        self,
        pool: Sequence[Any] | None = None,
        extra: Sequence[Any] = (),
        *,
        delta: float = 0.05,
        refit: bool = True,
        holdout: float = 0.5,
        random_state: int = 0,
        tail: bool = False,
    ) -> None:
        self.pool = pool
        self.extra = extra
        self.delta = delta
        self.refit = refit
        self.holdout = holdout
        self.random_state = random_state
        self.tail = tail

    def fit(self, log: Log) -> Self:
        """Learn with every candidate, and choose.

        Args:
            log: the logged decisions, with context.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, or a log that lacks what an oracle needs.
            UsageError: for rewards without an upper end, which nothing bounds the logging policy's value with, and for
                arguments that do not go together.
        """
        check_log(log)
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "the rewards have no upper end, so no improvement can be certified; declare reward_range, "
                "or use PIWOGrid"
            )
        rows = divide(log, "held-out", self.holdout, self.random_state, self.tail)
        pool = self._pool()
        for one in pool:
            check_score(one.score)
            check_certifiable(log, one.oracle, "held-out")
            one.oracle.fit_for(log)
        with _short_of_optimum():
            policies = dict(_learned(pool, rows.training))
        policies[LOGGING] = _incumbent(log)
        assert rows.test is not None
        made = certify(rows.test, policies, delta=self.delta, facts={**rows.facts, "log_rows": len(log)})
        each: dict[str, Candidate | None] = {one.label: one for one in pool} | {LOGGING: None}
        self.path_ = {name: PoolPoint(one, policies[name], _about(made[name], one)) for name, one in each.items()}
        self.chosen_ = _best(self.path_)
        self._settle(log, self.path_[self.chosen_])
        return self

    def _pool(self) -> tuple[Candidate, ...]:
        usual = usual_pool(self.random_state) if self.pool is None else candidates(self.pool, "pool")
        pool = (*usual, *candidates(self.extra, "extra"))
        if not pool:
            raise UsageError("the pool is empty; give at least one classifier, oracle or candidate")
        labels = [LOGGING, *(one.label for one in pool)]
        twice = next((x for x in labels if labels.count(x) > 1), None)
        if twice is not None:
            raise UsageError(f"two candidates are called {twice!r}; name them apart: Candidate(name, oracle, score)")
        return pool

    def _settle(self, log: Log, best: PoolPoint) -> None:
        """Set what is returned."""
        one, certificate = best.candidate, best.certificate
        count = certificate.candidates - 1
        self.certified_policy_: Policy = best.policy
        self.policy_ = best.policy
        self.score_: Score | None = None if one is None else one.score
        self.refitted_ = self.refit and one is not None
        if one is None:
            self.rule_ = f"none of {count} different policies is certified better, so the logging policy stays"
            if (certificate.propensity_p or 0.0) < SUSPICIOUS:
                self.rule_ = (
                    "the rows contradict their propensities, nothing is certified, and the logging policy stays"
                )
        else:
            self.rule_ = f"the highest certified improvement among {count} different policies"
        if self.refitted_ and one is not None:
            with _short_of_optimum():
                self.policy_ = one.oracle.solve(log, one.score)
            note = (
                f"the certificate is of the policy learned from {certificate.training_rows} rows; the one to run was "
                "learned again from all of them, and nothing is proved of that one (refit=False keeps the certified)"
            )
            certificate = replace(certificate, notes=(*certificate.notes, note))
        self.certificate_ = certificate


def _learned(pool: Sequence[Candidate], log: Log) -> Iterator[tuple[str, Policy]]:
    """Yield name and policy of each candidate; neighbours with the same oracle are one path."""
    for _, run in groupby(pool, key=lambda one: id(one.oracle)):
        some = list(run)
        policies = some[0].oracle.solve_path(log, [one.score for one in some])
        yield from zip((one.label for one in some), policies, strict=True)


def _incumbent(log: Log) -> Policy:
    """Return the policy that wrote the log: one that can act, where the log knows it."""
    return log.behavior if isinstance(log.behavior, Policy) else Logging(log.actions)


def _about(made: Certificate, one: Candidate | None) -> Certificate:
    """Return the certificate with what its policy was learned with."""
    if one is None:
        return replace(made, oracle=LOGGING)
    return replace(made, oracle=one.oracle.name, score=one.score.name, parameter=one.score.value)


def _best(path: Mapping[str, PoolPoint]) -> str:
    """Return the key of the highest certified improvement; of equal ones the first; logging where there is none."""
    gains = {key: point.certificate.improvement_lower for key, point in path.items() if point.certificate.certified}
    return max(gains, key=lambda key: gains[key] or 0.0, default=LOGGING)


@contextmanager
def _short_of_optimum() -> Iterator[None]:
    """Keep quiet of fits that stopped early: a candidate is judged by its certificate, not by how it came about."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="the logistic regression stopped", category=PiwoWarning)
        yield
