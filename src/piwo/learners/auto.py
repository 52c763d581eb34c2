"""Auto: a pool of learners, the best of those certified better, and what runs today where none is."""

from __future__ import annotations

import functools
import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, Self

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import Certifying
from piwo.checks import check_flag
from piwo.engines.engine import reduce
from piwo.errors import NothingToLearnError, PiwoWarning, UsageError
from piwo.intervals.point import self_normalized
from piwo.learners.account import CandidateReport, LearningReport
from piwo.learners.learner import (
    Learner,
    Rows,
    check_certifiable,
    check_log,
    check_score,
    credited,
    divide,
)
from piwo.learners.pool import Candidate, candidates, usual_pool
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies import Logging, Policy
from piwo.reductions import MomentState
from piwo.scores import Score

__all__ = ["INCUMBENT", "LOGGING", "Auto", "PoolPoint"]

LOGGING = "logging"
"""The key of the logging policy among the candidates."""
INCUMBENT = "incumbent"
"""The key of what takes its place where another policy runs today."""
_STAYS = {LOGGING: "the logging policy", INCUMBENT: "the incumbent"}
_SHOWN = {
    "candidate": "candidate",
    "value": "value",
    "improvement_lower": "better by at least",
    "standing": "both ways, less error",
}


@dataclass(frozen=True)
class PoolPoint:
    """One candidate: a policy that it learned from one part of the log, certified on the other.

    >>> import piwo
    >>> from piwo.learners.pool import Candidate
    >>> one = Candidate("ridge", piwo.oracles.Ridge(), piwo.IX(0.1))
    >>> made = Certificate("held-out", 1.0, 0.9, 0.1, 0.5)
    >>> PoolPoint(one, piwo.policies.Constant("a", ["a"]), made).certificate.certified
    True
    """

    candidate: Candidate | None
    """None: the policy to fall back to."""
    policy: Policy
    certificate: Certificate
    standing: float | None = None
    """Its self-normalized estimate less one standard error, in the reward's unit, on all rows that
    were not learned from: what decides among those that are certified."""


@dataclass(frozen=True)
class _Look:
    """What one way of learning and certifying says of one candidate."""

    candidate: Candidate | None
    policy: Policy
    certificate: Certificate
    moments: MomentState
    learned: bool = True
    """False where the rows had nothing to learn from; the policy is then the one to fall back
    to."""


class Auto(Learner):
    """Learn with a pool of learners; keep the best of those certified to improve on the logging policy.

    Answers: which policy should run, where nobody knows which learner suits the log? No single one
    does: methods that ignore the propensities are the best on even and on bad loggers and do harm
    elsewhere, weighted ones the reverse. The pool has both kinds, linear and boosted; what a
    candidate is worth is proved on rows that it never saw. Where nothing is certified better, the
    answer is the logging policy; or the incumbent, where another policy runs today: then the
    improvement is that over it, and nothing is chosen that is not certified better than it. So it
    is where no row has a reward above the lowest, from which nothing can be learned.

    Formula: every candidate is learned from each part of the log and certified on the other, by the
    paired improvement bound LB_i = LB(E Y_i) - 1, Y_i = w_i R + 1 - R, at log(1/(s_i delta)); the
    shares s_i sum to 1 over both ways. Among the candidates with LB_i > 0 either way the choice is
    argmax_i V_i - SE_i, the self-normalized estimate V_i = sum w_i R / sum w_i and its standard
    error over all rows, each weighted by the policy that did not see it.
    Source: docs/quality.md; bound: docs/theory.md, section "Improvement over the logging policy".

    What is proved: with probability 1 - delta the policy chosen, `certified_policy_`, is at least
    as much better than the logging policy as its certificate says, by whichever rule it was chosen:
    all bounds hold together. Learning it again from all rows (`refit=True`) mostly gains, but of
    that policy nothing is proved: no row is left that it did not see. With `refit=False` the policy
    returned is the certified one.

    Args:
        pool: what to learn with, in place of the usual pool: scikit-learn classifiers, oracles, or
            `Candidate`s.
        extra: likewise, beside it. Every candidate makes the bounds of all a little wider.
        delta: how often the certificates may be wrong, all together.
        incumbent: the policy to improve on and to fall back to, made without this log; None: the
            logging policy.
        refit: return the chosen candidate's policy learned from all rows, instead of the certified
            one.
        holdout: fraction of the rows that is held out.
        exchange: learn from the held-out part too, and certify that on the other: half of delta is
            spent each way.
        random_state: seed of the split and of the boosted trees, a whole number.
        tail: hold out the last rows of the log instead of random ones: for adaptive logs, whose
            logger learned from earlier rows. Nothing is exchanged then: what is certified must come
            after what was learned from.

    Attributes:
        policy_: the policy to run.
        certified_policy_: the policy that `certificate_` is about, learned from one part of the
            log.
        certificate_: its certificate; where `policy_` is another one, `about` says so, and
            `certified` is None.
        refitted_: whether `policy_` was learned from all rows, and is not the certified one.
        chosen_: its key in `path_`; "logging" for the logging policy (`log.behavior` where that is
            a policy), "incumbent" for the incumbent.
        score_: the score that it was learned with; None for those, and for candidates that use
            none.
        rule_: how it was chosen, in words.
        path_: name -> `PoolPoint`.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(400, 0.5)
    ... )
    >>> learner = Auto([piwo.oracles.Ridge()], refit=False).fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], True)
    >>> again = Auto([piwo.oracles.Ridge()]).fit(log).certificate_
    >>> again.certified, again.improves
    (None, True)
    """

    def __init__(
        self,
        pool: Sequence[Any] | None = None,
        extra: Sequence[Any] = (),
        *,
        incumbent: Policy | None = None,
        delta: float = 0.05,
        refit: bool = True,
        holdout: float = 0.5,
        exchange: bool = True,
        random_state: int = 0,
        tail: bool = False,
    ) -> None:
        self.pool = pool
        self.extra = extra
        self.incumbent = incumbent
        self.delta = delta
        self.refit = refit
        self.holdout = holdout
        self.exchange = exchange
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
            UsageError: for rewards without an upper end, which nothing bounds the logging policy's
                value with, and for arguments that do not go together.
        """
        check_log(log)
        check_flag("refit", self.refit)
        check_flag("exchange", self.exchange)
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                "the rewards have no upper end, so no improvement can be certified; declare "
                "reward_range, or use PIWOGrid"
            )
        for one in self._given():
            one.oracle.fit_for(log)
        fallback, today = _incumbent(log, self.incumbent)
        pool = self._pool(fallback)
        for one in pool:
            if one.score is not None:
                check_score(one.score)
            check_certifiable(log, one.oracle, "held-out")
        rows = divide(log, "held-out", self.holdout, self.random_state, self.tail)
        ways = [rows] if self.tail or not self.exchange else [rows, rows.exchanged()]
        looks = [self._look(log, way, pool, fallback, today, 1.0 / len(ways)) for way in ways]
        # rows that contradict their propensities one way are not believed the other way
        refused = [
            look
            for look in looks
            if any(x.certificate.improvement_lower is None for x in look.values())
        ]
        self.path_ = {
            name: _better(log, [look[name] for look in refused or looks]) for name in looks[0]
        }
        self.chosen_ = _best(self.path_, fallback)
        best = self.path_[self.chosen_]
        if best.candidate is None:
            self.rule_ = _why_none(looks, fallback, best.certificate)
        else:
            self.rule_ = f"the highest estimate, less its standard error, of those certified better among {_tried(looks)}"
        self._settle(log, best)
        return self

    def _account(self) -> LearningReport:
        made, point = self.certificate_, self.path_[self.chosen_]
        return LearningReport(
            lines=(
                f"learned from {made.training_rows} rows, certified on {made.rows} others",
                f"  {self.chosen_}: {self.rule_}",
            ),
            tried=tuple(
                CandidateReport(
                    name, one.policy, {"candidate": name, **_numbers(one)}, name == self.chosen_
                )
                for name, one in self.path_.items()
            ),
            columns=_SHOWN,
            facts={"chosen": self.chosen_, "refitted": self.refitted_},
            stays=None if point.candidate is not None else _STAYS[self.chosen_],
        )

    def _look(
        self,
        log: Log,
        rows: Rows,
        pool: Sequence[Candidate],
        fallback: str,
        today: Policy,
        spent: float,
    ) -> dict[str, _Look]:
        """Learn every candidate one way, and certify it the other."""
        with _short_of_optimum():
            found = dict(_learned(pool, _encoded_for(today, rows.training)))
        policies = {name: today if policy is None else policy for name, policy in found.items()} | {
            fallback: today
        }
        each: dict[str, Candidate | None] = {one.label: one for one in pool} | {fallback: None}
        weights = {name: 1.0 if one is None else one.weight for name, one in each.items()}
        total = sum(weights.values())
        assert rows.test is not None
        asked = Certifying.of(
            rows.test,
            policies,
            delta=self.delta,
            baseline=fallback,
            shares={name: spent * weight / total for name, weight in weights.items()},
            facts={**rows.facts, "log_rows": len(log)},
        )
        sums = reduce(asked.log, asked.sums)
        made, moments = asked.finish(sums), asked.moments(sums)
        return {
            name: _Look(
                one,
                policies[name],
                _about(made[name], one, fallback),
                moments[name],
                found.get(name, today) is not None,
            )
            for name, one in each.items()
        }

    def _given(self) -> tuple[Candidate, ...]:
        usual = (
            usual_pool(self.random_state) if self.pool is None else candidates(self.pool, "pool")
        )
        return (*usual, *candidates(self.extra, "extra"))

    def _pool(self, fallback: str) -> tuple[Candidate, ...]:
        pool = self._given()
        if not pool:
            raise UsageError("the pool is empty; give at least one classifier, oracle or candidate")
        labels = [fallback, *(one.label for one in pool)]
        twice = next((x for x in labels if labels.count(x) > 1), None)
        if twice is not None:
            raise UsageError(
                f"two candidates are called {twice!r}; name them apart: Candidate(name, oracle, "
                "score)"
            )
        return pool

    def _settle(self, log: Log, best: PoolPoint) -> None:
        """Set what is returned."""
        one, certificate = best.candidate, best.certificate
        self.certified_policy_: Policy = best.policy
        self.policy_ = best.policy
        self.score_: Score | None = None if one is None else one.score
        self.refitted_ = self.refit and one is not None
        if self.refitted_ and one is not None:
            with _short_of_optimum():
                self.policy_ = one.oracle.solve(log, one.credit(log))
            seen = f"{certificate.training_rows} of {certificate.log_rows} rows"
            about = f"the policy learned from {seen}, not the one to run, which was learned again from all of them"
            certificate = replace(certificate, about=about, notes=(*certificate.notes, _unproved()))
        self.certificate_ = certificate


def _learned(pool: Sequence[Candidate], log: Log) -> Iterator[tuple[str, Policy | None]]:
    """Yield name and policy of each candidate, or None for want of rewards; neighbors with one oracle are one path."""
    for _, run in groupby(pool, key=lambda one: id(one.oracle)):
        some = list(run)
        policies: Sequence[Policy | None]
        try:
            policies = some[0].oracle.solve_path(log, [one.credit(log) for one in some])
        except NothingToLearnError:
            policies = [None] * len(some)
        yield from zip((one.label for one in some), policies, strict=True)


def _incumbent(log: Log, given: Policy | None) -> tuple[str, Policy]:
    """Return what to fall back to, and its key: what was given, or the policy that wrote the log.

    Raises:
        UsageError: for an incumbent that is no policy.
    """
    if given is not None and not isinstance(given, Policy):
        raise UsageError(
            f"{argument('incumbent')} is {given!r:.80}, expected a policy, such as piwo.load(path)"
        )
    if given is None or given is log.behavior or isinstance(given, Logging):
        # one that can act, where the log knows it
        return LOGGING, log.behavior if isinstance(log.behavior, Policy) else Logging(log.actions)
    return INCUMBENT, given


def _encoded_for(today: Policy, log: Log) -> Log:
    """Return the log with its context encoded as the incumbent does: one encoding serves all that are compared.

    Raises:
        UsageError: where they do not have the same context columns.
    """
    theirs, ours = today.features, log.features
    if today is log.behavior or theirs is None or ours is None or theirs == ours:
        return log
    if set(theirs.columns) != set(ours.columns):
        raise UsageError(
            f"the incumbent was made from the context columns {', '.join(theirs.columns)}, and the "
            f"log was read with {', '.join(ours.columns)}; read it with those of the incumbent"
        )
    return log.encoded_by(theirs)


def _numbers(point: PoolPoint) -> dict[str, float | None]:
    made = point.certificate
    return {
        "value": made.value,
        "value_lower": made.value_lower,
        "improvement_lower": made.improvement_lower,
        "standing": point.standing,
    }


def _about(made: Certificate, one: Candidate | None, fallback: str) -> Certificate:
    """Return the certificate with what its policy was learned with."""
    if one is None:
        return replace(made, oracle=fallback)
    return replace(made, oracle=one.oracle.name, **credited(one.score))


def _tried(looks: Sequence[Mapping[str, _Look]]) -> str:
    """Return how many policies were learned and certified, in words; what is fallen back to does not count."""
    counts = [next(iter(look.values())).certificate.candidates - 1 for look in looks]
    both = (
        ""
        if len(counts) == 1
        else f" ({counts[0]} from one part of the rows, {counts[1]} from the other)"
    )
    return f"{sum(counts)} different polic{'y' if sum(counts) == 1 else 'ies'}{both}"


def _why_none(looks: Sequence[Mapping[str, _Look]], fallback: str, made: Certificate) -> str:
    """Return why nothing was chosen, in words: the same for every pool."""
    stays = f"{_STAYS[fallback]} stays"
    if made.improvement_lower is None:
        return f"the rows contradict their propensities, nothing is certified, and {stays}"
    rewards = [look[fallback].moments.reward for look in looks]
    if not any(rewards):
        which = "no row" if len(looks) == 2 else "no row that was held out"
        return f"{which} has a reward above the lowest, so nothing can be certified better, and {stays}"
    reason = f"none of {_tried(looks)} is certified better, so {stays}"
    # what is held out one way is learned from the other way
    unlearned = (len(looks) == 2 and not all(rewards)) or not all(
        x.learned for look in looks for x in look.values()
    )
    told = "; no row of one part has a reward above the lowest, so it has nothing to learn from"
    return reason + told if unlearned else reason


def _better(log: Log, looks: Sequence[_Look]) -> PoolPoint:
    """Return one candidate: of the policies that it learned the one that is certified better, and how it stands."""
    best = max(
        looks,
        key=lambda one: -math.inf if (gain := one.certificate.improvement_lower) is None else gain,
    )
    found = self_normalized(functools.reduce(MomentState.merge, (one.moments for one in looks)))
    standing = None
    if found.value is not None and found.standard_error is not None:
        standing = log.value(found.value - found.standard_error)
    return PoolPoint(best.candidate, best.policy, best.certificate, standing)


def _best(path: Mapping[str, PoolPoint], fallback: str) -> str:
    """Return the key of what stands highest of what is certified; of equal ones the first; else the fallback."""
    standings = {
        key: -math.inf if point.standing is None else point.standing
        for key, point in path.items()
        if point.certificate.certified
    }
    return max(standings, key=lambda key: standings[key], default=fallback)


@contextmanager
def _short_of_optimum() -> Iterator[None]:
    """Keep quiet of fits that stopped early: a candidate is judged by its certificate, not by how it came about."""
    with warnings.catch_warnings():
        warnings.filterwarnings(
            "ignore", message="the logistic regression stopped", category=PiwoWarning
        )
        yield


def _unproved() -> Note:
    """Return the note for a policy that was refitted on all rows."""
    keeps = f"{argument('refit', False)} keeps the certified one"
    return Note(f"nothing is proved of the policy to run ({keeps})", kind="refitted")
