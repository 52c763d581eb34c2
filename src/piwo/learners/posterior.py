"""What a log says of any distribution over N policies: the sums behind every PAC-Bayes certificate."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import Certifying
from piwo.engines.engine import reduce
from piwo.errors import UsageError
from piwo.evaluation.contradiction import Claim
from piwo.intervals.prepare import check_actions_known
from piwo.learners.learner import Learner, check_score, check_upper_end, gamma_grid
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Mixture, Policy
from piwo.records import jsonable
from piwo.reductions import Joint
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.improvement_sums import ImprovementSums
from piwo.scores import Score

__all__ = [
    "PosteriorBound",
    "PosteriorSums",
    "bet_of",
    "check_linear_posterior",
    "check_posterior_score",
    "check_sizes",
    "fitted_rule",
    "fitted_score",
    "mixture_of",
    "settle_grid",
]


@dataclass(frozen=True)
class PosteriorBound:
    """What a posterior is worth at least, and at which score of the grid that was found.

    Values are in the reward's own unit.

    >>> from piwo.scores import LSLinear
    >>> PosteriorBound(LSLinear(0.1), value=0.6, kl=2.0, lower=0.5).score.gamma_equivalent
    0.05
    """

    score: Score
    value: float
    """The mean of that score under the posterior."""
    kl: float
    """KL(Q || P)."""
    lower: float | None
    """v(Q) >= lower, raw. None where the rows contradict their propensities: the certificate says
    how."""
    notes: tuple[str, ...] = ()
    """What is known of the propensities less surely than that they are right."""

    def believed(self, certificate: Certificate) -> PosteriorBound:
        """Return the bound, without its number where the certificate on the same rows gives none."""
        return self if certificate.value_lower is not None else replace(self, lower=None)


@dataclass(frozen=True)
class PosteriorSums:
    """Mean scores of N policies at every lambda of a grid, from one pass over the log.

    >>> from piwo.scores import LSLinear
    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    >>> sums = PosteriorSums.of(log, both, (LSLinear(0.5),), penalty=3.0)
    >>> round(sums.bound(np.array([1.0, 0.0]), kl=0.7).lower, 3), sums.values.shape
    (0.726, (1, 2))
    """

    log: Log
    policies: tuple[Policy, ...]
    scores: tuple[Score, ...]
    penalty: float
    """log(1/delta) of each statement: one a score of the grid."""
    rows: int
    values: Floats
    """(S, N) mean scores on the unit scale."""
    improvements: Floats | None
    """(S, N) mean scores of w R + 1 - R; None for rewards without an upper end."""

    @classmethod
    def of(
        cls, log: Log, policies: Sequence[Policy], scores: Sequence[Score], penalty: float
    ) -> PosteriorSums:
        """Return the sums of one pass.

        Args:
            log: the rows.
            policies: N policies over the log's action list.
            scores: the grid: admissible linear scores, fixed without looking at the rewards.
            penalty: log(1/delta) of each statement.
        """
        made, grid = tuple(policies), tuple(scores)
        check_actions_known(log, made)
        bounded = math.isfinite(log.reward_range[1])
        better = ImprovementSums(made, tuple(bet_of(score) for score in grid))
        credit, *gain = reduce(
            log, Joint((CreditSums(made, grid), *((better,) if bounded else ())))
        )
        n = int(credit.rows)
        return cls(
            log, made, grid, penalty, n, credit.credit / n, gain[0].credit / n if bounded else None
        )

    def bound(self, weights: Floats, kl: float) -> PosteriorBound:
        """Return the highest lower bound of the grid for one posterior; of equal ones that of the largest lambda.

        Args:
            weights: (N,) shares.
            kl: what they pay, see `piwo.bounds.pac_bayes_lower`.
        """
        each = [float(value @ weights) for value in self.values]
        lows = [
            self._lower(score, value, kl) for score, value in zip(self.scores, each, strict=True)
        ]
        best = max(range(len(lows)), key=lambda s: (lows[s], bet_of(self.scores[s])))
        value, low = self.log.value(each[best]), self.log.value(lows[best])
        return PosteriorBound(self.scores[best], value, kl, low, self.log.propensity_caveats)

    def certificate(
        self, weights: Floats, paid: float, delta: float, facts: Mapping[str, Any]
    ) -> Certificate:
        """Return the certificate of the mixture of the policies by weight; one more pass describes the mixture.

        Args:
            weights: (N,) shares.
            paid: what they pay, see `piwo.bounds.pac_bayes_lower`; `facts` says what that is.
            delta: how often each bound may be wrong, as recorded.
            facts: further fields of `Certificate`.
        """
        found = self.bound(weights, paid)
        used = {"score": found.score.name, "parameter": found.score.value}
        asked = Certifying.of(
            self.log,
            {0: mixture_of(self.policies, weights)},
            delta=delta,
            interval="mixture",
            facts=jsonable({**used, **facts}),
            price=paid,
        )
        assert found.lower is not None
        low = (found.lower - self.log.reward_range[0]) / self.log.span
        claim = Claim(bounds.Interval(low, None), self._gain(weights, paid))
        return replace(
            asked.finish(reduce(asked.log, asked.sums), {0: claim})[0], bound="PAC-Bayes"
        )

    def _gain(self, weights: Floats, kl: float) -> float | None:
        """Return the lower bound on the improvement; its grid is the same."""
        if self.improvements is None:
            return None
        pairs = zip(self.scores, self.improvements, strict=True)
        return max(self._lower(score, float(value @ weights), kl) for score, value in pairs) - 1.0

    def _lower(self, score: Score, value: float, kl: float) -> float:
        return bounds.pac_bayes_lower(value, kl, self.rows, bet_of(score), self.penalty)


def mixture_of(policies: Sequence[Policy], weights: Floats) -> Mixture:
    """Return the mixture of the policies whose weight is not 0.

    >>> from piwo.policies import Constant
    >>> mixture_of([Constant(x, ["a", "b"]) for x in "ab"], np.array([0.0, 1.0])).weights.tolist()
    [1.0]
    """
    used = np.flatnonzero(weights > 0)
    return Mixture([policies[int(i)] for i in used], weights[used])


def fitted_score(score: Score, log: Log) -> Score:
    """Return the score that a posterior over linear policies is fitted with: of several hyper-parameters the first.

    >>> from piwo.scores import LSLinear
    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     context=[[0.0]] * 100, action=[0] * 100, reward=[1] * 100, propensity=[1.0] * 100
    ... )
    >>> fitted_score(LSLinear(), log)
    LSLinear(lam=0.2)
    """
    if score.asked == "auto":
        assert log.features is not None
        return score.at_gamma(bounds.gamma_linear(len(log), log.features.width))
    return score.at(score.asked[0]) if isinstance(score.asked, tuple) else score


def fitted_rule(score: Score) -> str:
    """Return where the hyper-parameter of `fitted_score` comes from, in words.

    >>> from piwo.scores import LSLinear
    >>> fitted_rule(LSLinear())
    'lam = 2 sqrt(d/n)'
    """
    if score.asked == "auto":
        return f"{score.parameter} = {score.gamma_scale.words.format('sqrt(d/n)')}"
    return f"{score.parameter} as given"


def settle_grid(score: Score, n: int, delta: float) -> tuple[tuple[Score, ...], bounds.GammaGrid]:
    """Return the scores of the grid and what each statement pays; the grid depends on n alone.

    >>> from piwo.scores import LSLinear
    >>> (
    ...     settle_grid(LSLinear(0.1), 1000, 0.05)[1].gammas,
    ...     len(settle_grid(LSLinear(), 1000, 0.05)[0]),
    ... )
    ((0.05,), 12)
    """
    grid = gamma_grid(score, n, 0.0, delta)
    if score.asked == "auto":
        # too few rows for the theorem: the most pessimistic score alone
        return tuple(score.at_gamma(gamma) for gamma in grid.gammas or (grid.largest,)), grid
    asked = score.asked if isinstance(score.asked, tuple) else (score.number,)
    scores = tuple(score.at(value) for value in sorted(asked, reverse=True))
    gammas = tuple(bet_of(one) / 2.0 for one in scores)
    penalty = bounds.log_inv_delta(delta, statements=2 * len(scores))
    return scores, replace(grid, gammas=gammas, penalty=penalty, largest=gammas[0])


def check_posterior_score(score: Score, log: Log) -> None:
    """Raise where PAC-Bayes bounds would not hold.

    Raises:
        UsageError: for a score that is not linear and admissible, IX without an upper end, and for
            thinned logs.
    """
    if not (score.linear and score.pessimistic):
        raise UsageError(f"{score.label} has no PAC-Bayes bound, expected LSLinear() or IX()")
    check_upper_end(score, log)
    if log.columns.weight is not None:
        raise UsageError(
            "the log was thinned (sampling weights), so no certificate holds; use "
            "PIWO(certificate=None)"
        )


def check_linear_posterior(score: Score, log: Log) -> None:
    """Raise where there is no posterior over linear policies.

    Raises:
        UsageError: for what `check_posterior_score` refuses, and for a log without context.
    """
    check_score(score)
    check_posterior_score(score, log)
    if not log.has_context:
        raise UsageError(
            "linear policies need the context, and the log was read without; read it with "
            f"{argument('context', '[...]')}"
        )


def check_sizes(learner: Learner, **least: int) -> None:
    """Raise where arguments of a learner are no whole numbers of at least so much.

    Raises:
        UsageError: naming the first.
    """
    for what, few in least.items():
        value = getattr(learner, what)
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < few:
            raise UsageError(f"{what} is {value!r}, expected a whole number of at least {few}")


def bet_of(score: Score) -> float:
    """Return the bet size of a score that has PAC-Bayes bounds.

    >>> from piwo.scores import IX
    >>> bet_of(IX(0.1))
    0.2
    """
    bet = score.bet
    assert bet is not None  # an admissible score has one
    return bet
