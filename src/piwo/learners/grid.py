"""PIWO-Grid: as good as the best gamma, which nobody has to know."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self

from piwo import bounds
from piwo.certificates.certificate import Certificate, Kind
from piwo.certificates.certify import Certifying
from piwo.checks import check_kind
from piwo.engines.engine import reduce
from piwo.errors import UsageError
from piwo.learners.account import LearningReport, account_of_path
from piwo.learners.learner import (
    CONTRADICTED,
    HALF_OF_DELTA,
    Learner,
    Rows,
    check_certifiable,
    check_log,
    check_regret_known,
    check_score,
    check_upper_end,
    divide,
    fitted,
    gamma_grid,
)
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Classifier, Oracle
from piwo.policies import Policy
from piwo.reductions import Joint
from piwo.reductions.credit_sums import CreditSums
from piwo.scores import LSLinear, Score

__all__ = ["GridPoint", "PIWOGrid"]


@dataclass(frozen=True)
class GridPoint:
    """One gamma of the grid: the policy learned with it, what it seems worth, and what it is worth at least.

    Values are in the reward's own unit.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = piwo.oracles.Exhaustive(
    ...     [piwo.policies.Constant(x, log.actions) for x in log.actions]
    ... )
    >>> point = PIWOGrid(oracle=both).fit(log).path_[1.0]
    >>> point.score, round(point.lower, 2)
    (LSLinear(lam=2.0), 0.6)
    """

    gamma: float
    """gamma of IX; lam = 2 gamma of linear LS."""
    score: Score
    policy: Policy
    value: float | None
    """Importance-weighted estimate on the rows certified on."""
    lower: float | None
    """Lower bound on the value (`BaselineRelative`: on the improvement), for all points together;
    the choice has the highest. In-sample the exact inverse of the score's mean, raw, and for scores
    of w R never above the certificate's mixture bound; held-out that of the certificate. None where
    the rows contradict their propensities."""
    certificate: Certificate


class PIWOGrid(Learner):
    """Learn with a whole grid of gammas, and keep the policy that is certified best.

    Answers: which policy should run, where nobody knows how well the log covers it? One gamma fits
    one coverage; PIWO-Grid is as good as if it had been told the best one, for the price of a log
    log n, and adapts with linear LS gains to the variance too. Nothing is tuned.

    With a class of known size (`Exhaustive`) all rows are learned from and certified on, at
    log|Pi|. With other oracles the grid is learned on one part of the log and its policies are
    certified on the other, at the logarithm of their number.

    Formula: over the grid, policy_gamma = argmax sum_t sum_a pi(a|X_t) G_gamma[t, a]; the choice is
    argmax_gamma (exp(2 gamma V_gamma(policy_gamma) - L/n) - 1)/(2 gamma), L = log(2 |Pi| m /
    delta); of equal ones the larger gamma. On held-out rows the mixture bound of `piwo.certify`
    takes the place of that formula.
    Source: docs/grid.md, with proof; gains: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), arXiv
    2405.14335.

    Args:
        score: LSLinear() (the default), IX(), or another admissible score (`Score.admissible`:
            IXReward, the linear GlobalClip, LogClip and Freezing, DoublyRobustLS,
            BaselineRelative), without a hyper-parameter: that is what the grid is for. The regret
            bounds are for the first two.
        oracle: weighted logistic regression by default. `Ridge` learns the whole grid in one pass.
        delta: how often what is claimed may be wrong. In-sample half of it is for lower bounds, and
            stands in the certificate, and half for the regret.
        certificate: "in-sample", "held-out", or "auto": in-sample where the size of the class is
            known.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, a whole number.
        tail: hold out the last rows of the log instead of random ones: for adaptive logs, whose
            logger learned from earlier rows.

    Attributes:
        policy_: the learned policy.
        certificate_: its certificate, in-sample by the mixture bound, held-out as `piwo.certify`
            makes it.
        score_: the score with the hyper-parameter that was chosen.
        rule_: how that was chosen, in words.
        grid_: the grid and what each of its statements pays, a `piwo.bounds.GammaGrid`.
        path_: gamma -> `GridPoint`, the largest gamma first; for `DoublyRobustLS` with several q or
            k (lam, q, k).

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(900, 1)), rng.integers(0, 2, 900)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(900, 0.5)
    ... )
    >>> learner = PIWOGrid(oracle=piwo.oracles.Ridge()).fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], True)
    """

    def __init__(
        self,
        score: Score | None = None,
        oracle: Oracle | None = None,
        *,
        delta: float = 0.05,
        certificate: Literal["auto", "held-out", "in-sample"] = "auto",
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
        score = LSLinear() if self.score is None else self.score
        oracle = Classifier() if self.oracle is None else self.oracle
        check_log(log)
        check_score(score)
        check_kind("oracle", oracle, Oracle, " of piwo.oracles")
        _check_grid(score, oracle, log)
        kind = self._kind(oracle)
        check_certifiable(log, oracle, kind)
        oracle.fit_for(log)
        rows = divide(log, kind, self.holdout, self.random_state, self.tail)
        score, how = fitted(score, rows.training)
        settings = len(score.variants())
        # without the size of the class the grid is as wide as any class could use
        size = (oracle.log_class_size() or 0.0) + math.log(settings)
        self.grid_ = gamma_grid(score, rows.facts["training_rows"], size, self.delta)
        # too few rows for the theorem: the most pessimistic gains alone
        gammas = self.grid_.gammas or (self.grid_.largest,)
        scores = [one for gamma in gammas for one in score.at_gamma(gamma).variants()]
        policies = oracle.solve_path(rows.training, scores)
        facts = {**rows.facts, "oracle": oracle.name}
        points = self._points(rows, kind, oracle, scores, policies, facts)
        self.path_ = {point.score.key if settings > 1 else point.gamma: point for point in points}
        best = max(
            points,
            key=lambda point: (-math.inf if point.lower is None else point.lower, point.gamma),
        )
        self.policy_, self.certificate_, self.score_ = best.policy, best.certificate, best.score
        many = f"values of {score.parameter}" if settings == 1 else f"settings of {score.label}"
        self.rule_ = f"the highest lower bound among {len(points)} {many}{how}"
        if best.lower is None:
            self.rule_ = CONTRADICTED.format(f"the most cautious of {len(points)} {many}")
        return self

    def regret_bound(self, coverage: float | Callable[[float], float]) -> float:
        """Return how far below a policy of the class the learned one can be, if that policy is covered so well.

        Holds for all policies of the class, jointly with the certificate, with probability 1 -
        delta; only in-sample, and for oracles that find the maximum over their class.

        Args:
            coverage: see `piwo.bounds.regret_bound_grid`; on the scale where rewards are in [0, 1].

        Returns:
            The bound, in the reward's own unit.

        Raises:
            UsageError: before `fit`, for other oracles, and where the rows were split.

        Source: docs/grid.md, Theorem 1 (b).
        """
        if not hasattr(self, "grid_"):
            raise UsageError("nothing was learned yet; call fit(log) first")
        made = self.certificate_
        if made.kind != "in-sample" or self.oracle is None or not self.oracle.exact:
            raise UsageError(
                f"the {made.oracle} oracle with a {made.kind} certificate promises no regret; "
                f"that takes an exact oracle such as Exhaustive, and {argument('certificate', 'in-sample')}"
            )
        check_regret_known(self.score_)
        low, high = made.reward_range
        if not math.isfinite(high):
            raise UsageError(
                "the rewards have no upper end, so coverage bounds no regret; declare reward_range"
            )
        return (high - low) * bounds.regret_bound_grid(self.grid_, coverage)

    def _account(self) -> LearningReport:
        return account_of_path(self.path_.values(), self.certificate_, self.score_, self.rule_)

    def _kind(self, oracle: Oracle) -> Kind:
        if self.certificate == "auto":
            return "held-out" if oracle.log_class_size() is None else "in-sample"
        if self.certificate not in ("held-out", "in-sample"):
            raise UsageError(
                f"{argument('certificate')} is {self.certificate!r}, expected 'auto', 'held-out' or 'in-sample'"
            )
        return self.certificate

    def _points(
        self,
        rows: Rows,
        kind: Kind,
        oracle: Oracle,
        scores: Sequence[Score],
        policies: Sequence[Policy],
        facts: Mapping[str, Any],
    ) -> list[GridPoint]:
        """Return the points of the path; one pass over the rows to certify on for all of them."""
        assert rows.test is not None
        inside = kind == "in-sample"
        # the event that the theorems rest on is that of the mixture bounds; dense scores have one
        # of their own
        plain = inside and scores[0].pessimistic
        asked = Certifying.of(
            rows.test,
            dict(enumerate(policies)),
            delta=self.delta / 2.0 if inside else self.delta,
            within=oracle if inside else None,
            interval="mixture" if plain else "auto",
            facts=facts,
        )
        ready = [asked.policies[asked.same_as[i]] for i in range(len(policies))]
        pairs = tuple(
            CreditSums((one,), (score,)) for one, score in zip(ready, scores, strict=True) if inside
        )
        sums, credit = reduce(asked.log, Joint((asked.sums, Joint(pairs))))
        means = (
            [float(one.credit[0, 0]) / one.rows for one in credit]
            if inside
            else [None] * len(scores)
        )
        found = asked.finish(sums)
        triples = zip(scores, policies, means, strict=True)
        return [
            self._point(rows.test, score, policy, mean, found[i])
            for i, (score, policy, mean) in enumerate(triples)
        ]

    def _point(
        self, log: Log, score: Score, policy: Policy, mean: float | None, made: Certificate
    ) -> GridPoint:
        gamma, grid = score.gamma_equivalent, self.grid_
        assert gamma is not None
        # only in-sample the path has a mean of its own, and the regret a bound
        notes = made.notes if mean is None else (*made.notes, HALF_OF_DELTA)
        if not grid.gammas:
            few = f"{grid.rows} rows are too few for the grid: L = {grid.penalty:.3g}"
            notes = (
                *notes,
                f"{few}, so the bounds of PIWO-Grid are vacuous; learned with gamma = {gamma:g} alone",
            )
        made = replace(made, score=score.name, parameter=score.value, notes=notes)
        if mean is None or made.value_lower is None:
            least = made.improvement_lower if score.relative else made.value_lower
            return GridPoint(gamma, score, policy, made.value, least, made)
        low = -1.0 if score.relative else 0.0
        if grid.gammas:
            low = bounds.score_lower(mean, grid.rows, 2.0 * gamma, grid.penalty) - score.shift
        return GridPoint(
            gamma,
            score,
            policy,
            made.value,
            log.span * low if score.relative else log.value(low),
            made,
        )


def _check_grid(score: Score, oracle: Oracle, log: Log) -> None:
    if not oracle.uses_score:
        raise UsageError(
            f"the {oracle.name} oracle uses no score, so there is no grid for it; use PIWO"
        )
    if not score.admissible:
        raise UsageError(
            f"there is no grid for {score.label}, whose mean bounds nothing; expected LSLinear(), "
            "IX() or another admissible score"
        )
    if score.asked != "auto":
        raise UsageError(
            f"{score.parameter} of {score.label} is {score.asked!r}, but the grid sets it: leave "
            "it out, or use PIWO"
        )
    check_upper_end(score, log)
