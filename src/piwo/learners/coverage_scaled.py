"""Coverage-scaled PIWO-IX: a gamma for every policy, if the coverage of each is known."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import certify
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.intervals.provenance import learned_from
from piwo.learners.learner import Learner, check_certifiable, check_log
from piwo.learners.report import LearningReport, report_of
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Exhaustive
from piwo.policies import Policy
from piwo.reductions import Joint
from piwo.reductions.credit_sums import CreditSums
from piwo.reductions.reduce import reduce
from piwo.scores import IX

__all__ = ["CoverageScaled"]


@dataclass(eq=False, repr=False)
class CoverageScaled(Learner):
    """PIWO-IX with a gamma for every policy of a list, tuned to the policy's known coverage.

    Answers: how good can pessimistic learning be if coverage is known? For simulations and
    comparisons only: it cannot be run on real data. C_0(pi) = E sum_a pi(a|X) r(X,a)/mu(a|X)
    depends on the distribution of contexts and on the mean rewards, which are unknown; an estimate
    of it from the log would be worst when it matters most, and the guarantee would be lost. The
    maximum cannot be found by an oracle either: the penalty differs from policy to policy.
    `PIWOGrid` has the same regret up to a factor 1.06 and a log log n, without knowing the
    coverage, and works with any oracle.

    Formula: V(pi) = V_gamma(pi) - L/(2 gamma n) at gamma = sqrt(L/(2 C_0(pi) n)), L =
    log(2|Pi|/delta); the policy is the argmax. With probability 1 - delta the regret against pi* is
    at most 2 sqrt(2 C_0(pi*) L/n), for all pi* together (`piwo.bounds.regret_bound_tuned`).
    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), Appendix B, with 1/n, argmax and 2|Pi|
    corrected (docs/errata.md, E13).

    Args:
        oracle: an `Exhaustive` list of N policies.
        coverage: (N,) C_0 of each policy in the order of the list, on the scale where rewards are
            in [0, 1], or a mapping from its position; inf for a policy that the logger does not
            cover, which is then never chosen. See `piwo.simulate.Bandit.coverage` and
            `piwo.simulate.ClassificationBandit.coverage`.
        delta: error probability of the regret bound, and separately of the certificate.

    Attributes:
        policy_: the learned policy.
        certificate_: its in-sample certificate.
        score_: IX with the chosen policy's gamma.
        rule_: how that was chosen, in words.
        gammas_: (N,) gamma of each policy; 0 if it is not covered, inf if it earns nothing.
        values_: (N,) V(pi), raw, on the scale where rewards are in [0, 1]; -inf if the policy is
            not covered.

    >>> import piwo
    >>> bandit = piwo.simulate.adversarial_bandits()[0]
    >>> each = [piwo.policies.Constant(a, bandit.actions) for a in bandit.actions]
    >>> known = [bandit.coverage(policy) for policy in each]
    >>> learner = CoverageScaled(piwo.oracles.Exhaustive(each), known).fit(
    ...     bandit.log(20_000, random_state=0)
    ... )
    >>> int(learner.values_.argmax()), learner.gammas_.round(4).tolist()
    (0, [0.0003, 0.0331])
    """

    oracle: Exhaustive
    coverage: Any
    _: KW_ONLY
    delta: float = 0.05

    def fit(self, log: Log) -> Self:
        """Choose a policy by a log and the known coverage, and certify it.

        Args:
            log: the logged decisions, rewards with an upper end.

        Returns:
            The learner itself.

        Raises:
            DataError: for rows that break a rule.
            UsageError: for arguments that do not go together.
        """
        check_log(log)
        check_kind("oracle", self.oracle, Exhaustive, " of piwo.oracles")
        check_certifiable(log, self.oracle, "in-sample")
        if not math.isfinite(log.reward_range[1]):
            raise UsageError(
                f"IX needs rewards with an upper end; declare {argument('reward_range')}"
            )
        known = _known(self.coverage, len(self.oracle.policies))
        size, n = self.oracle.log_class_size(), len(log)
        # L = log(2|Pi|/delta)
        penalty = bounds.log_inv_delta(self.delta, statements=2, log_class_size=size)
        with np.errstate(divide="ignore"):
            # gamma = sqrt(L / (2 C_0 n))
            self.gammas_ = np.sqrt(penalty / n / (2.0 * known))
        candidates = self.oracle.candidates(log)
        scaled = np.flatnonzero((self.gammas_ > 0) & np.isfinite(self.gammas_))
        pairs = []
        for i in scaled:
            score = IX(float(self.gammas_[i]))
            pairs.append(CreditSums((candidates[i],), (score,)))
        # a policy that earns nothing has value 0, whatever the log; one that is not covered is
        # never chosen
        self.values_ = np.where(known == 0.0, 0.0, -np.inf)
        means = [float(one.credit[0, 0]) / one.rows for one in reduce(log, Joint(tuple(pairs)))]
        # V(pi) = V_gamma(pi) - L / (2 gamma n)
        self.values_[scaled] = np.array(means) - penalty / (2.0 * self.gammas_[scaled] * n)
        best = int(self.values_.argmax())
        gamma = float(self.gammas_[best])
        self.policy_: Policy = learned_from(log, candidates[best])
        self.score_ = IX(gamma if math.isfinite(gamma) else 1.0)
        self.rule_ = "gamma = sqrt(L/(2 C n)) of each policy, from the coverage given"
        facts = {"training_rows": n, "log_rows": n, "oracle": self.oracle.name}
        made = certify(log, {0: self.policy_}, delta=self.delta, within=self.oracle, facts=facts)
        self.certificate_: Certificate = replace(
            made[0], score=self.score_.name, parameter=self.score_.value
        )
        return self

    def _report(self) -> LearningReport:
        return report_of(self.policy_, self.certificate_, self.score_, self.rule_)


def _known(coverage: Any, policies: int) -> Floats:
    """Return the coverage of every policy, (N,)."""
    if isinstance(coverage, Mapping):
        lacking = [i for i in range(policies) if i not in coverage]
        if lacking:
            raise UsageError(
                f"{argument('coverage')} lacks policy {lacking[0]}, expected a number "
                f"for each of 0..{policies - 1}"
            )
        coverage = [coverage[i] for i in range(policies)]
    try:
        known = np.asarray(coverage, np.float64)
    except (TypeError, ValueError):
        raise UsageError(
            f"{argument('coverage')} is {coverage!r:.80}, expected {policies} numbers, "
            "one for each policy"
        ) from None
    if known.shape != (policies,) or not (known >= 0.0).all():
        least = known.min(initial=math.inf)
        raise UsageError(
            f"{argument('coverage')} has shape {known.shape} and least value "
            f"{least:g}, expected {policies} numbers of at least 0, one for each policy"
        )
    if np.isinf(known).all():
        raise UsageError(
            "the logger covers none of the policies, so there is nothing to choose; "
            "PIWOGrid does not need the coverage"
        )
    return known
