"""PIWO: pessimistic importance-weighted offline learning, from one score and one oracle."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

from piwo.certificates.certificate import Certificate, Kind
from piwo.certificates.certify import certify
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.intervals.provenance import learned_from
from piwo.learners.hyper_parameters import settle_variants, with_fitted_model
from piwo.learners.learner import (
    CONTRADICTED,
    SplitLearner,
    check_certifiable,
    check_log,
    check_upper_end,
)
from piwo.learners.report import LearningReport, report_of_path, score_facts
from piwo.learners.split import Split
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Classifier, Oracle
from piwo.oracles.oracle import check_score, check_used
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


@dataclass(eq=False, repr=False)
class PIWO(SplitLearner):
    """Learn the policy with the highest pessimistic score, and certify it.

    Answers: which policy should run, and what is it worth at least? `score` defines the credit of a
    logged row (IX by default; IW, Clip, LSLinear, PseudoLoss), `oracle` the class of policies and
    the way to the maximum (weighted logistic regression by default; `Ridge`, `Exhaustive`,
    `Classifier(model)`). `PIWOGrid` chooses the hyper-parameter.

    Formula: policy = argmax over the oracle's class of sum_t sum_a pi(a|X_t) G[t, a], G the score's
    gains.
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Sections 3-4; LSLinear: arXiv
    2405.14335.

    Args:
        score: a score whose hyper-parameter is a number; "auto": for a finite class the theory's
            sqrt(log(2|Pi|/delta)/n), otherwise the sqrt(d/n) that the paper uses for linear
            policies (lam = 2 gamma); or several numbers: a policy is learned with each, and the one
            with the highest certified value is chosen (the highest certified improvement for
            `BaselineRelative`).
        oracle: see above.
        certificate: "held-out": learn on one part of the log, certify on the other. "in-sample":
            learn and certify on the whole log, at the price of log|Pi|; only for a finite class.
            None: no certificate.
        delta: error probability of the certificate.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, a whole number.
        tail: hold out the last rows of the log, as `SplitLearner` does.

    Attributes:
        policy_: the learned policy.
        certificate_: its certificate (None with certificate=None).
        score_: the score with the hyper-parameter that was used; None with an oracle that uses no
            score (`Direct`).
        rule_: how that hyper-parameter was chosen, in words.
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

    score: Score | None = None
    oracle: Oracle | None = None
    _: KW_ONLY
    certificate: Kind | None = "held-out"

    def fit(self, log: Log) -> Self:
        """Learn a policy from a log and certify it.

        Args:
            log: the logged decisions, with context if the oracle needs it.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, or a log that lacks what the oracle needs.
            UsageError: for arguments that do not go together.
        """
        oracle = self.oracle
        if oracle is None:
            oracle = Classifier()
        check_log(log)
        check_kind("oracle", oracle, Oracle, " of piwo.oracles")
        check_used(self.score, oracle)
        score = self.score
        if score is None:
            if oracle.uses_score:
                score = IX()
            else:
                score = IW()
        check_score(score)
        self._check(score, oracle, log)
        oracle.fit_for(log)

        rows = self._split(log, self.certificate)
        score, model = with_fitted_model(score, rows.training)
        scores, rule = settle_variants(score, oracle, rows.training, self.delta)
        policies = oracle.solve_path(rows.training, scores)
        found = self._certificates(rows, oracle, scores, policies)
        # once certified, they are known to be learned from these rows
        known = {id(one): learned_from(log, one) for one in policies}
        self.path_: dict[Any, PathPoint] = {}
        for score, policy, one in zip(scores, policies, found, strict=True):
            self.path_[score.key] = PathPoint(score, known[id(policy)], one)

        best = max(self.path_.values(), key=_certified)
        self.policy_: Policy = best.policy
        self.certificate_: Certificate | None = best.certificate
        self.score_: Score | None = None
        if oracle.uses_score:
            self.score_ = best.score
        self.rule_ = rule + model
        undecided = best.certificate is not None and best.certificate.value_lower is None
        if undecided and len(self.path_) > 1:
            settings = f"{len(self.path_)} settings of {best.score.label}"
            self.rule_ = CONTRADICTED.format(f"the most cautious of {settings}")
        return self

    def _report(self) -> LearningReport:
        return report_of_path(self.path_.values(), self.certificate_, self.score_, self.rule_)

    def _check(self, score: Score, oracle: Oracle, log: Log) -> None:
        if self.certificate not in ("held-out", "in-sample", None):
            raise UsageError(
                f"{argument('certificate')} is {self.certificate!r}, expected "
                "'held-out', 'in-sample' or None"
            )
        check_certifiable(log, oracle, self.certificate)
        # the certificates of other scores do not need the upper end
        if score.relative:
            check_upper_end(score, log)
        several = isinstance(score.asked, tuple) or len(score.variants()) > 1
        if self.certificate is None and several:
            raise UsageError(
                "a path is chosen from by certificate, and certificate is None; give "
                "one hyper-parameter"
            )

    def _certificates(
        self, rows: Split, oracle: Oracle, scores: Sequence[Score], policies: Sequence[Policy]
    ) -> list[Certificate | None]:
        if rows.test is None:
            return [None] * len(policies)
        made = certify(
            rows.test,
            dict(enumerate(policies)),
            delta=self.delta,
            within=oracle if self.certificate == "in-sample" else None,
            facts={**rows.facts, "oracle": oracle.name},
        )
        certificates: list[Certificate | None] = []
        for i, score in enumerate(scores):
            used = None
            if oracle.uses_score:
                used = score
            certificates.append(replace(made[i], **score_facts(used)))
        return certificates


def _certified(point: PathPoint) -> tuple[float, float]:
    """Return the lower bound of a point; of equal ones the more pessimistic score is chosen."""
    gamma = point.score.gamma_equivalent or 0.0
    if point.certificate is None:
        return (-math.inf, gamma)
    lower = point.certificate.value_lower
    if point.score.relative:
        lower = point.certificate.improvement_lower
    return (-math.inf if lower is None else lower, gamma)
