"""PIWO: pessimistic importance-weighted offline learning, from one score and one oracle."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from piwo import bounds
from piwo.certificates.certificate import Certificate, Kind
from piwo.certificates.certify import certify
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.learners.account import LearningReport, account_of_path
from piwo.learners.learner import (
    CONTRADICTED,
    Learner,
    check_certifiable,
    check_log,
    check_score,
    check_upper_end,
    check_used,
    credited,
    divide,
    fitted,
)
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Classifier, Oracle
from piwo.policies import Policy
from piwo.scores import IW, IX, Score

__all__ = ["PIWO", "PathPoint"]


@dataclass(frozen=True)
class PathPoint:
    """One hyper-parameter of a path: the policy learned with it, and that policy's certificate.

    >>> import piwo
    >>> PathPoint(IX(0.1), piwo.policies.Constant("a", ["a", "b"]), None).score.gamma
    0.1
    """

    score: Score
    policy: Policy
    certificate: Certificate | None


class PIWO(Learner):
    """Learn the policy that collects most of a pessimistic score, and certify it.

    Answers: which policy should run, and what is it worth at least? `score` says how a logged row
    is credited (IX by default; IW, Clip, LSLinear, PseudoLoss), `oracle` over which policies and
    how the maximum is sought (weighted logistic regression by default; `Ridge`, `Exhaustive`,
    `Classifier(model)`). `PIWOGrid` chooses the hyper-parameter.

    Formula: policy = argmax over the oracle's class of sum_t sum_a pi(a|X_t) G[t, a], G the score's
    gains.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Sections 3-4; LSLinear: arXiv
    2405.14335.

    Args:
        score: a score whose hyper-parameter is a number; "auto": for a finite class the theory's
            sqrt(log(2|Pi|/delta)/n), otherwise the sqrt(d/n) that the paper uses for linear
            policies (lam = 2 gamma); or several numbers: all are learned, and the one with the
            highest certified value is taken (the highest certified improvement for
            `BaselineRelative`).
        oracle: see above.
        delta: how often the certificate may be wrong.
        certificate: "held-out": learn on one part of the log, certify on the other. "in-sample":
            learn and certify on the whole log, paying log|Pi|; only for a finite class, where it is
            known. None: no certificate.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, a whole number.
        tail: hold out the last rows of the log instead of random ones: for adaptive logs, whose
            logger learned from earlier rows.

    Attributes:
        policy_: the learned policy.
        certificate_: its certificate (None with certificate=None).
        score_: the score with the hyper-parameter that was used; None with an oracle that uses no
            score (`Direct`).
        rule_: where that hyper-parameter came from, in words.
        path_: hyper-parameter -> `PathPoint`; for `DoublyRobustLS` (lam, q, k).

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(400, 0.5)
    ... )
    >>> learner = PIWO().fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], True)
    """

    def __init__(
        self,
        score: Score | None = None,
        oracle: Oracle | None = None,
        *,
        delta: float = 0.05,
        certificate: Kind | None = "held-out",
        holdout: float = 0.5,
        random_state: int = 0,
        tail: bool = False,
    ) -> None:
        self.score = score
        self.oracle = oracle
        self.delta = delta
        self.certificate = certificate
        self.holdout = holdout
        self.random_state = random_state
        self.tail = tail

    def fit(self, log: Log) -> Self:
        """Learn a policy from a log and certify it.

        Args:
            log: the logged decisions, with context where the oracle needs it.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, or a log that lacks what the oracle needs.
            UsageError: for arguments that do not go together.
        """
        oracle = Classifier() if self.oracle is None else self.oracle
        check_log(log)
        check_kind("oracle", oracle, Oracle, " of piwo.oracles")
        check_used(self.score, oracle)
        usual = IX() if oracle.uses_score else IW()
        asked = usual if self.score is None else self.score
        check_score(asked)
        self._check(asked, oracle, log)
        oracle.fit_for(log)
        rows = divide(log, self.certificate, self.holdout, self.random_state, self.tail)
        asked, how = fitted(asked, rows.training)
        scores, rule = settled(asked, oracle, rows.training, self.delta)
        self.rule_ = rule + how
        policies = oracle.solve_path(rows.training, scores)
        found = self._certificates(rows.test, oracle, scores, policies, rows.facts)
        points = zip(scores, policies, found, strict=True)
        self.path_ = {score.key: PathPoint(score, policy, one) for score, policy, one in points}
        best = max(self.path_.values(), key=_promise)
        self.policy_, self.certificate_ = best.policy, best.certificate
        self.score_ = best.score if oracle.uses_score else None
        if (
            len(self.path_) > 1
            and best.certificate is not None
            and best.certificate.value_lower is None
        ):
            self.rule_ = CONTRADICTED.format(
                f"the most cautious of {len(self.path_)} settings of {best.score.label}"
            )
        return self

    def _account(self) -> LearningReport:
        return account_of_path(self.path_.values(), self.certificate_, self.score_, self.rule_)

    def _check(self, score: Score, oracle: Oracle, log: Log) -> None:
        if self.certificate not in ("held-out", "in-sample", None):
            raise UsageError(
                f"{argument('certificate')} is {self.certificate!r}, expected 'held-out', 'in-sample' or None"
            )
        check_certifiable(log, oracle, self.certificate)
        if score.relative:  # other scores are certified without them
            check_upper_end(score, log)
        if self.certificate is None and (
            isinstance(score.asked, tuple) or len(score.variants()) > 1
        ):
            raise UsageError(
                "a path is chosen from by certificate, and certificate is None; give one "
                "hyper-parameter"
            )

    def _certificates(
        self,
        test: Log | None,
        oracle: Oracle,
        scores: Sequence[Score],
        policies: Sequence[Policy],
        facts: Mapping[str, Any],
    ) -> list[Certificate | None]:
        if test is None or self.certificate is None:
            return [None] * len(policies)
        made = certify(
            test,
            dict(enumerate(policies)),
            delta=self.delta,
            within=oracle if self.certificate == "in-sample" else None,
            facts={**facts, "oracle": oracle.name},
        )
        return [
            replace(made[i], **credited(score if oracle.uses_score else None))
            for i, score in enumerate(scores)
        ]


def _promise(point: PathPoint) -> tuple[float, float]:
    """Return what is certified; of equal promises the more pessimistic score wins."""
    made = point.certificate
    least = (
        None
        if made is None
        else made.improvement_lower
        if point.score.relative
        else made.value_lower
    )
    return (-math.inf if least is None else least, point.score.gamma_equivalent or 0.0)


def settled(score: Score, oracle: Oracle, log: Log, delta: float) -> tuple[list[Score], str]:
    """Return what `settle` does, with each score in all of its variants."""
    scores, rule = settle(score, oracle, log, delta)
    each = [one for some in scores for one in some.variants()]
    many = len(each) // len(scores)
    return (
        each,
        rule
        if many == 1
        else f"{rule}; chosen by certificate among {many} settings of {score.label}",
    )


def settle(score: Score, oracle: Oracle, log: Log, delta: float) -> tuple[list[Score], str]:
    """Return the scores with numbers for hyper-parameters, and where those came from, in words.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> both = piwo.oracles.Exhaustive(
    ...     [piwo.policies.Constant(x, log.actions) for x in log.actions]
    ... )
    >>> settle(IX(), both, log, 0.05)[1]
    'gamma = sqrt(log(2|Pi|/delta)/n), the theory for a finite class'
    """
    if not oracle.uses_score:
        return [score], f"the {oracle.name} oracle uses no score"
    asked, name = score.asked, score.parameter
    if asked is None:
        return [score], "the score has no hyper-parameter"
    if isinstance(asked, tuple):
        scores = [score.at(value) for value in asked]
        return scores, f"chosen by certificate among {len(asked)} values of {name}"
    if asked != "auto":
        return [score], f"{name} as given"
    size = oracle.log_class_size()
    if size is not None:
        # the theory's choice for a finite class
        gamma, rule = bounds.gamma_auto(len(log), size, delta), "sqrt(log(2|Pi|/delta)/n)"
        source = "the theory for a finite class"
        if not score.admissible:
            source = "the same as for IX, by analogy: there is no theory for this score"
    else:
        assert log.features is not None
        gamma, rule = bounds.gamma_linear(len(log), log.features.width), "sqrt(d/n)"
        source = "what the paper uses with IX and linear policies"
    own = score.gamma_scale.words.format(rule)
    return [score.at_gamma(gamma)], f"{name} = {own}, {source}"
