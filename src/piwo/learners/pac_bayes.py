"""PAC-Bayes learning over a finite class: the Gibbs posterior, and certificates for any other."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.errors import UsageError
from piwo.intervals.matching import matched
from piwo.intervals.provenance import learned_from
from piwo.learners.hyper_parameters import bet_of, posterior_grid
from piwo.learners.learner import HALF_OF_DELTA, Learner, check_log, check_regret_known
from piwo.learners.posterior import (
    PosteriorBound,
    PosteriorSums,
    check_posterior_score,
    mixture_of,
)
from piwo.learners.report import LearningReport, report_of
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.oracles import Exhaustive
from piwo.oracles.oracle import check_score
from piwo.policies import Policy
from piwo.scores import LSLinear, Score

__all__ = ["PACBayes", "PosteriorPoint"]


@dataclass(frozen=True)
class PosteriorPoint:
    """The Gibbs posterior at one gamma of the grid.

    >>> PosteriorPoint(
    ...     LSLinear(0.1), np.array([1.0]), value=0.6, kl=2.0, lower=0.5
    ... ).weights.tolist()
    [1.0]
    """

    score: Score
    weights: Floats
    """(N,) shares."""
    value: float
    """Its mean score, in the reward's own unit."""
    kl: float
    """KL(Q || P)."""
    lower: float | None
    """Its lower bound at this gamma, raw, in the reward's own unit; the highest is chosen. None if
    the rows contradict their propensities."""


@dataclass(eq=False, repr=False)
class PACBayes(Learner):
    """Learn a distribution over a list of policies, and certify it, or any other, without log|Pi|.

    Answers: which mixture of these policies should run, if some were more plausible than others
    beforehand? The result is a mixture that acts and logs exact propensities. Its bound pays the
    divergence from the prior instead of log|Pi|: little if many policies are good, or if the prior
    was right.

    Formula: Q(pi) proportional to P(pi) exp(2 gamma n V_gamma(pi)), the maximum of V_gamma(Q) -
    KL(Q || P)/(2 gamma n); of a grid of gammas the one with the highest lower bound.
    Source: docs/pac_bayes.md, with proofs; Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771),
    section 5.

    Args:
        policies: N policies, or an (N, n) array of labels, see `piwo.oracles.Exhaustive`.
        prior: (N,) shares, fixed before the rewards of the log were seen; None: all alike.
        score: LSLinear() (the default) or IX(). Without a hyper-parameter a grid that depends on n
            alone; a number, or several, fixed before the log was seen.
        delta: joint error probability. Half of it is for the lower bounds, and recorded in the
            certificate; the other half is for the regret.

    Attributes:
        policy_: the mixture by the posterior, a `piwo.policies.Mixture`.
        posterior_: (N,) its shares; those that underflow are left out of the mixture.
        certificate_: its certificate; `kl` is its penalty.
        score_: the score with the hyper-parameter that was chosen.
        grid_: the grid and the penalty of each of its statements, a `piwo.bounds.GammaGrid`.
        path_: gamma -> `PosteriorPoint`, the largest gamma first.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 90, reward=[1, 0] * 90, propensity=[0.5] * 180
    ... )
    >>> both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    >>> learner = PACBayes(both, prior=[0.1, 0.9]).fit(log)
    >>> learner.policy_.probabilities(n=1).round(3).tolist(), learner.certificate_.certified
    ([[1.0, 0.0]], True)
    >>> round(learner.certificate([0.5, 0.5]).value_lower, 2)  # of any posterior, at the same delta
    0.29
    """

    policies: Any
    prior: Any = None
    _: KW_ONLY
    score: Score | None = None
    delta: float = 0.05

    def __repr__(self) -> str:
        count = "?"
        if isinstance(self.policies, Sized):
            count = str(len(self.policies))
        return f"PACBayes({count} policies, score={self.score!r})"

    def fit(self, log: Log) -> Self:
        """Learn a posterior from a log and certify it; one pass for all policies and gammas.

        Args:
            log: the logged decisions.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, or policies that do not fit the log.
            UsageError: for arguments that do not go together.
        """
        score = self.score
        if score is None:
            score = LSLinear()
        check_log(log)
        check_score(score)
        check_posterior_score(score, log)
        log, candidates = _ready(self.policies, log)
        self.prior_ = _prior(self.prior, len(candidates))
        scores, self.grid_ = posterior_grid(score, len(log), self.delta)
        self._sums = PosteriorSums.of(log, candidates, scores, self.grid_.penalty)
        self.path_ = self._path(log, scores)
        best = max(self.path_.items(), key=lambda item: (item[1].lower, item[0]))[1]
        self.posterior_, self.score_ = best.weights, best.score
        self.policy_: Policy = learned_from(log, mixture_of(candidates, self.posterior_))
        self.certificate_: Certificate = self.certificate(self.posterior_)
        if self.certificate_.value_lower is None:
            self.path_ = {gamma: replace(point, lower=None) for gamma, point in self.path_.items()}
        return self

    def _report(self) -> LearningReport:
        rule = f"the highest lower bound among {len(self.path_)} values of {self.score_.parameter}"
        return report_of(self.policy_, self.certificate_, self.score_, rule)

    def certificate(self, posterior: Any) -> Certificate:
        """Return the certificate of any posterior over the policies, chosen in any way.

        The certificates of all posteriors are valid jointly.

        Args:
            posterior: (N,) shares.

        Raises:
            UsageError: before `fit`, and for invalid shares.
        """
        self._check_fitted()
        weights, kl = self._divergence(posterior)
        rows = self._sums.rows
        facts = {"training_rows": rows, "log_rows": rows, "oracle": "Gibbs", "kl": kl}
        made = self._sums.certificate(weights, kl, self.delta / 2.0, facts)
        return replace(made, notes=(*made.notes, HALF_OF_DELTA))

    def bound(self, posterior: Any) -> PosteriorBound:
        """Return score, divergence and lower bound of any posterior, without another pass.

        Args:
            posterior: (N,) shares.

        Raises:
            UsageError: before `fit`, and for invalid shares.
        """
        self._check_fitted()
        return self._sums.bound(*self._divergence(posterior)).believed(self.certificate_)

    def regret_bound(self, coverage: float | Callable[[float], float], kl: float) -> float:
        """Return how far the learned posterior can be below another one, Q*.

        Valid for all Q*, jointly with the certificates, with probability 1 - delta.

        Args:
            coverage: of Q*, see `piwo.bounds.regret_bound_pac_bayes_grid`; where rewards are in [0,
                1].
            kl: KL(Q* || P); log N for one of N policies under a uniform prior.

        Returns:
            The bound, in the reward's own unit.

        Raises:
            UsageError: before `fit`, for other scores than LSLinear and IX, and for rewards without
                an upper end.

        Source: docs/pac_bayes.md, Theorem 3.
        """
        self._check_fitted()
        log = self._sums.log
        check_regret_known(self.score_, log.reward_range)
        return log.span * bounds.regret_bound_pac_bayes_grid(self.grid_, coverage, kl)

    def _path(self, log: Log, scores: Sequence[Score]) -> dict[float, PosteriorPoint]:
        """Return the Gibbs posterior of each score."""
        path, n = {}, self._sums.rows
        for score, values in zip(scores, self._sums.values, strict=True):
            bet = bet_of(score)
            # Q(pi) proportional to P(pi) exp(lambda n V(pi))
            gibbs = bounds.gibbs_posterior(values, self.prior_, n, bet)
            low = bounds.pac_bayes_lower(gibbs.value, gibbs.kl, n, bet, self.grid_.penalty)
            # gamma = lambda / 2
            path[bet / 2.0] = PosteriorPoint(
                score, gibbs.weights, log.value(gibbs.value), gibbs.kl, log.value(low)
            )
        return path

    def _divergence(self, posterior: Any) -> tuple[Floats, float]:
        kl = bounds.kl_divergence(posterior, self.prior_)
        weights = np.asarray(posterior, np.float64)
        return weights / weights.sum(), kl

    def _check_fitted(self) -> None:
        if not hasattr(self, "_sums"):
            raise UsageError("nothing was learned yet; call fit(log) first")


def _ready(policies: Any, log: Log) -> tuple[Log, tuple[Policy, ...]]:
    """Return log and policies over one action list, the log with the context that they need."""
    listed = Exhaustive(policies)
    if isinstance(listed.policies, np.ndarray):
        given = listed.candidates(log)
    else:
        given = listed.policies
    log, ready = matched(log, dict(enumerate(given)))
    return log, tuple(ready.values())


def _prior(prior: Any, size: int) -> Floats:
    if prior is None:
        return np.full(size, 1.0 / size)
    # fails unless the shares are a distribution
    bounds.kl_divergence(prior, prior)
    shares = np.asarray(prior, np.float64)
    if shares.shape != (size,):
        raise UsageError(
            f"prior has {len(shares)} shares for {size} policies, expected one for each policy"
        )
    return np.asarray(shares / shares.sum())
