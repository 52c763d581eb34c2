"""PAC-Bayes certificates of any distribution over N policies, from sums over a log."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.certificates.request import CertificateRequest
from piwo.errors import UsageError
from piwo.evaluation.contradiction import RawBounds
from piwo.intervals.matching import check_actions_known
from piwo.learners.hyper_parameters import bet_of
from piwo.learners.learner import Learner, check_upper_end
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.oracle import check_score
from piwo.policies import Mixture, Policy
from piwo.records import jsonable
from piwo.reductions import Joint
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.improvement_sums import ImprovementSums
from piwo.reductions.reduce import reduce
from piwo.scores import Score

__all__ = [
    "PosteriorBound",
    "PosteriorSums",
    "check_linear_posterior",
    "check_posterior_score",
    "check_sizes",
    "mixture_of",
]


@dataclass(frozen=True)
class PosteriorBound:
    """The lower bound on the value of a posterior, and the score of the grid that gives it.

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
    """v(Q) >= lower, raw. None if the rows contradict their propensities: the certificate says
    how."""
    notes: tuple[str, ...] = ()
    """How uncertain the propensities are."""

    def believed(self, certificate: Certificate) -> PosteriorBound:
        """Return the bound, without its number if the certificate on the same rows has none."""
        if certificate.value_lower is not None:
            return self
        return replace(self, lower=None)


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
        parts: list[Any] = [CreditSums(made, grid)]
        bounded = math.isfinite(log.reward_range[1])
        if bounded:
            parts.append(ImprovementSums(made, tuple(bet_of(score) for score in grid)))
        credit, *gain = reduce(log, Joint(tuple(parts)))
        n = int(credit.rows)
        improvements = None
        if bounded:
            improvements = gain[0].credit / n
        return cls(log, made, grid, penalty, n, credit.credit / n, improvements)

    def bound(self, weights: Floats, kl: float) -> PosteriorBound:
        """Return the highest lower bound of the grid for one posterior.

        Of equal bounds that of the largest lambda.

        Args:
            weights: (N,) shares.
            kl: their penalty, see `piwo.bounds.pac_bayes_lower`.
        """
        found = []
        for score, values in zip(self.scores, self.values, strict=True):
            # V(Q) = sum_i Q_i V(pi_i)
            value = float(values @ weights)
            found.append((self._lower(score, value, kl), bet_of(score), value, score))
        low, _, value, score = max(found, key=lambda one: one[:2])
        log = self.log
        notes = (*log.propensity_caveats, *log.caveats)
        return PosteriorBound(score, log.value(value), kl, log.value(low), notes)

    def certificate(
        self, weights: Floats, paid: float, delta: float, facts: Mapping[str, Any]
    ) -> Certificate:
        """Return the certificate of the mixture with these weights; one more pass describes it.

        Args:
            weights: (N,) shares.
            paid: their penalty, see `piwo.bounds.pac_bayes_lower`; `facts` names it.
            delta: error probability of each bound, as recorded.
            facts: further fields of `Certificate`.
        """
        found = self.bound(weights, paid)
        used = {"score": found.score.name, "parameter": found.score.value}
        asked = CertificateRequest.of(
            self.log,
            {0: mixture_of(self.policies, weights)},
            delta=delta,
            interval="mixture",
            facts=jsonable({**used, **facts}),
            price=paid,
        )
        assert found.lower is not None
        low = (found.lower - self.log.reward_range[0]) / self.log.span
        raw = RawBounds(bounds.Interval(low, None), self._gain(weights, paid))
        return replace(asked.finish(reduce(asked.log, asked.sums), {0: raw})[0], bound="PAC-Bayes")

    def _gain(self, weights: Floats, kl: float) -> float | None:
        """Return the lower bound on the improvement, over the same grid."""
        if self.improvements is None:
            return None
        pairs = zip(self.scores, self.improvements, strict=True)
        # v(Q) - v(mu) = E[w R + 1 - R] - 1
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


def check_posterior_score(score: Score, log: Log) -> None:
    """Check that PAC-Bayes bounds would be valid.

    Raises:
        UsageError: for a score that is not linear and pessimistic, for IX without an upper end, and
            for thinned logs.
    """
    if not (score.linear and score.pessimistic):
        raise UsageError(f"{score.label} has no PAC-Bayes bound, expected LSLinear() or IX()")
    check_upper_end(score, log)
    log.require_provable(
        "no certificate is valid; read all rows of the log, or learn without a certificate"
    )


def check_linear_posterior(score: Score, log: Log) -> None:
    """Check that there is a posterior over linear policies.

    Raises:
        UsageError: as `check_posterior_score`, and for a log without context.
    """
    check_score(score)
    check_posterior_score(score, log)
    if not log.has_context:
        raise UsageError(
            "linear policies need the context, and the log was read without; read it "
            f"with {argument('context', '[...]')}"
        )


def check_sizes(learner: Learner, **least: int) -> None:
    """Check that arguments of a learner are whole numbers of at least some size.

    Raises:
        UsageError: naming the first.
    """
    for what, few in least.items():
        value = getattr(learner, what)
        if isinstance(value, bool) or not hasattr(value, "__index__") or value < few:
            raise UsageError(
                f"{argument(what)} is {value!r}, expected a whole number of at least {few}"
            )
