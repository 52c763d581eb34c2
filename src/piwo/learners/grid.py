"""PIWO-Grid: nearly as good as the best gamma, without knowing it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

from piwo import bounds
from piwo.certificates.certificate import Certificate, Kind
from piwo.certificates.request import CertificateRequest
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.intervals.provenance import learned_from
from piwo.learners.hyper_parameters import gamma_grid, with_fitted_model
from piwo.learners.learner import (
    CONTRADICTED,
    HALF_OF_DELTA,
    SplitLearner,
    check_certifiable,
    check_log,
    check_regret_known,
    check_upper_end,
)
from piwo.learners.report import LearningReport, report_of_path
from piwo.learners.split import Split
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Classifier, Oracle
from piwo.oracles.oracle import check_score
from piwo.policies import Policy
from piwo.reductions import Joint
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.reduce import reduce
from piwo.scores import LSLinear, Score

__all__ = ["GridPoint", "PIWOGrid"]


@dataclass(frozen=True)
class GridPoint:
    """One gamma of the grid: the policy learned with it, its estimated value and its lower bound.

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
    """Importance-weighted estimate on the rows of the certificate."""
    lower: float | None
    """Lower bound on the value (`BaselineRelative`: on the improvement), valid for all points
    jointly; the highest is chosen. In-sample the exact inverse of the score's mean, raw, and for
    scores of w R never above the certificate's mixture bound; held-out that of the certificate.
    None if the rows contradict their propensities."""
    certificate: Certificate


@dataclass(eq=False, repr=False)
class PIWOGrid(SplitLearner):
    """Learn with a grid of gammas, and keep the policy with the highest lower bound.

    Answers: which policy should run, if its coverage by the log is unknown? One gamma suits one
    coverage. PIWO-Grid is as good as with the best gamma, at the price of a log log n, and with
    linear LS gains it adapts to the variance too. Nothing has to be tuned.

    With a class of known size (`Exhaustive`) it learns from all rows and certifies on all rows, at
    the price of log|Pi|. With other oracles it learns the grid on one part of the log and certifies
    its policies on the other, at the price of the logarithm of their number.

    Formula: over the grid, policy_gamma = argmax sum_t sum_a pi(a|X_t) G_gamma[t, a]; the choice is
    argmax_gamma (exp(2 gamma V_gamma(policy_gamma) - L/n) - 1)/(2 gamma), L = log(2 |Pi| m /
    delta); of equal ones the larger gamma. On held-out rows the mixture bound of `piwo.certify`
    is used instead.
    Source: docs/grid.md, with proof; gains: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), arXiv
    2405.14335.

    Args:
        score: LSLinear() (the default), IX(), or another admissible score (`Score.admissible`:
            IXReward, the linear GlobalClip, LogClip and Freezing, DoublyRobustLS,
            BaselineRelative), without a hyper-parameter, which the grid sets. The regret bounds
            hold for the first two.
        oracle: weighted logistic regression by default. `Ridge` learns the whole grid in one pass.
        certificate: "in-sample", "held-out", or "auto": in-sample if the size of the class is
            known.
        delta: error probability of the certificate. In-sample, half of it is for lower bounds, and
            recorded in the certificate; the other half is for the regret.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, a whole number.
        tail: hold out the last rows of the log, as `SplitLearner` does.

    Attributes:
        policy_: the learned policy.
        certificate_: its certificate, in-sample by the mixture bound, held-out as `piwo.certify`
            makes it.
        score_: the score with the hyper-parameter that was chosen.
        rule_: how that was chosen, in words.
        grid_: the grid and the penalty of each of its statements, a `piwo.bounds.GammaGrid`.
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

    score: Score | None = None
    oracle: Oracle | None = None
    _: KW_ONLY
    certificate: Literal["auto", "held-out", "in-sample"] = "auto"

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
        score = self.score
        if score is None:
            score = LSLinear()
        oracle = self.oracle
        if oracle is None:
            oracle = Classifier()
        check_log(log)
        check_score(score)
        check_kind("oracle", oracle, Oracle, " of piwo.oracles")
        _check_grid(score, oracle, log)
        kind = self._kind(oracle)
        check_certifiable(log, oracle, kind)
        oracle.fit_for(log)

        rows = self._split(log, kind)
        score, model = with_fitted_model(score, rows.training)
        settings = len(score.variants())
        # if the size of the class is unknown, the grid is as wide as any class could use
        size = (oracle.log_class_size() or 0.0) + math.log(settings)
        self.grid_ = gamma_grid(score, rows.facts["training_rows"], size, self.delta)
        # too few rows for the theorem: the most pessimistic gains alone
        gammas = self.grid_.gammas or (self.grid_.largest,)
        scores: list[Score] = []
        for gamma in gammas:
            scores += score.at_gamma(gamma).variants()
        policies = oracle.solve_path(rows.training, scores)
        points = self._points(rows, kind, oracle, scores, policies)
        # once certified, they are known to be learned from these rows
        known = {id(one): learned_from(log, one) for one in policies}
        points = [replace(point, policy=known[id(point.policy)]) for point in points]
        self.path_: dict[Any, GridPoint] = {}
        for point in points:
            key = point.gamma
            if settings > 1:
                key = point.score.key
            self.path_[key] = point

        best = max(points, key=_lower_bound)
        self.policy_: Policy = best.policy
        self.certificate_: Certificate = best.certificate
        self.score_: Score = best.score
        many = f"{len(points)} settings of {score.label}"
        if settings == 1:
            many = f"{len(points)} values of {score.parameter}"
        self.rule_ = f"the highest lower bound among {many}{model}"
        if best.lower is None:
            self.rule_ = CONTRADICTED.format(f"the most cautious of {many}")
        return self

    def regret_bound(self, coverage: float | Callable[[float], float]) -> float:
        """Return how far the learned policy can be below one of the class with this coverage.

        Valid for all policies of the class, jointly with the certificate, with probability 1 -
        delta; only in-sample, and for oracles that find the maximum over their class.

        Args:
            coverage: see `piwo.bounds.regret_bound_grid`; on the scale where rewards are in [0, 1].

        Returns:
            The bound, in the reward's own unit.

        Raises:
            UsageError: before `fit`, for other oracles, and if the rows were split.

        Source: docs/grid.md, Theorem 1 (b).
        """
        if not hasattr(self, "grid_"):
            raise UsageError("nothing was learned yet; call fit(log) first")
        made = self.certificate_
        if made.kind != "in-sample" or self.oracle is None or not self.oracle.exact:
            raise UsageError(
                f"the {made.oracle} oracle with a {made.kind} certificate has no "
                "regret bound; that takes an exact oracle such as Exhaustive, and "
                f"{argument('certificate', 'in-sample')}"
            )
        check_regret_known(self.score_, made.reward_range)
        low, high = made.reward_range
        return (high - low) * bounds.regret_bound_grid(self.grid_, coverage)

    def _report(self) -> LearningReport:
        return report_of_path(self.path_.values(), self.certificate_, self.score_, self.rule_)

    def _kind(self, oracle: Oracle) -> Kind:
        if self.certificate == "auto":
            if oracle.log_class_size() is None:
                return "held-out"
            return "in-sample"
        if self.certificate not in ("held-out", "in-sample"):
            raise UsageError(
                f"{argument('certificate')} is {self.certificate!r}, expected 'auto', "
                "'held-out' or 'in-sample'"
            )
        return self.certificate

    def _points(
        self,
        rows: Split,
        kind: Kind,
        oracle: Oracle,
        scores: Sequence[Score],
        policies: Sequence[Policy],
    ) -> list[GridPoint]:
        """Return the points of the path, from one pass over the rows to certify on."""
        test = rows.certified_on
        inside = kind == "in-sample"
        # the theorems rest on the event of the mixture bounds; dense scores have an event of their
        # own
        plain = inside and scores[0].pessimistic
        asked = CertificateRequest.of(
            test,
            dict(enumerate(policies)),
            delta=self.delta / 2.0 if inside else self.delta,
            within=oracle if inside else None,
            interval="mixture" if plain else "auto",
            facts={**rows.facts, "oracle": oracle.name},
        )
        pairs = []
        if inside:
            for i, score in enumerate(scores):
                ready = asked.request.policies[asked.same_as[i]]
                pairs.append(CreditSums((ready,), (score,)))
        sums, credited = reduce(asked.log, Joint((asked.sums, Joint(tuple(pairs)))))
        means: list[float | None] = [None] * len(scores)
        if inside:
            means = [float(one.credit[0, 0]) / one.rows for one in credited]
        found = asked.finish(sums)
        points = []
        for i, (score, policy, mean) in enumerate(zip(scores, policies, means, strict=True)):
            points.append(self._point(test, score, policy, mean, found[i]))
        return points

    def _point(
        self, log: Log, score: Score, policy: Policy, mean: float | None, made: Certificate
    ) -> GridPoint:
        """Return one point; `mean`, that of the score, is known in-sample only."""
        gamma, grid = score.gamma_equivalent, self.grid_
        assert gamma is not None
        notes = list(made.notes)
        # half of delta is for the regret, which has a bound in-sample only
        if mean is not None:
            notes.append(HALF_OF_DELTA)
        if not grid.gammas:
            notes.append(
                f"{grid.rows:,} rows are too few for the grid: L = {grid.penalty:.3g}, "
                "so the bounds of PIWO-Grid are vacuous; learned with gamma = "
                f"{gamma:g} alone"
            )
        made = replace(made, score=score.name, parameter=score.value, notes=tuple(notes))
        if mean is None or made.value_lower is None:
            if score.relative:
                lower = made.improvement_lower
            else:
                lower = made.value_lower
            return GridPoint(gamma, score, policy, made.value, lower, made)
        # the least possible value on the unit scale: 0, or -1 for an improvement
        low = 0.0
        if score.relative:
            low = -1.0
        if grid.gammas:
            # (exp(lam V - L/n) - 1)/lam - shift, lam = 2 gamma
            low = bounds.score_lower(mean, grid.rows, 2.0 * gamma, grid.penalty) - score.shift
        if score.relative:
            lower = log.span * low
        else:
            lower = log.value(low)
        return GridPoint(gamma, score, policy, made.value, lower, made)


def _lower_bound(point: GridPoint) -> tuple[float, float]:
    """Return what decides between points: the lower bound, of equal ones the larger gamma."""
    return (-math.inf if point.lower is None else point.lower, point.gamma)


def _check_grid(score: Score, oracle: Oracle, log: Log) -> None:
    if not oracle.uses_score:
        raise UsageError(
            f"the {oracle.name} oracle uses no score, so there is no grid for it; use PIWO"
        )
    if not score.admissible:
        raise UsageError(
            f"there is no grid for {score.label}, whose mean bounds nothing; expected "
            "LSLinear(), IX() or another admissible score"
        )
    if score.asked != "auto":
        raise UsageError(
            f"{score.parameter} of {score.label} is {score.asked!r}, but the grid sets "
            "it: leave it out, or use PIWO"
        )
    check_upper_end(score, log)
