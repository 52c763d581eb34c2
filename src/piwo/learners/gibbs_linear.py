"""The Gibbs posterior over linear policies, sampled; its draws are certified on other rows."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Self

import numpy as np

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import certify
from piwo.errors import UsageError, warn
from piwo.intervals.provenance import learned_from
from piwo.learners.hyper_parameters import bet_of, posterior_rule, posterior_score
from piwo.learners.learner import SplitLearner, check_log
from piwo.learners.normal_posterior import NormalPosterior, check_prior_scale
from piwo.learners.nuts import draw_chains
from piwo.learners.posterior import check_linear_posterior, check_sizes, mixture_of
from piwo.learners.report import LearningReport, report_of
from piwo.logs.batch import Floats
from piwo.logs.log import Log
from piwo.logs.options import check_fixed_actions
from piwo.messages import argument
from piwo.oracles.examples import Examples, rewarded, standardized
from piwo.oracles.softmax import SoftmaxObjective
from piwo.policies import Policy
from piwo.records import jsonable
from piwo.scores import LSLinear, Score

__all__ = ["GibbsDensity", "GibbsLinear"]


@dataclass(eq=False, repr=False)
class GibbsLinear(SplitLearner):
    """Sample from the Gibbs posterior over linear policies; certify the draws on other rows.

    Answers: what does the best posterior look like? `PACBayesLinear` searches among normal ones
    only. Deployed is the mixture of policies drawn from it. Draws of a sampler are nearly, not
    exactly, from the posterior, so no bound rests on them: the certificate is for that mixture, on
    rows that the sampler never saw, and is valid whatever the draws are. `chains_` reports the
    quality of the draws. Needs the extra `piwo[sampler]`.

    Formula: dQ/dP proportional to exp(lambda n V(pi)), P = N(0, prior_scale^2 I) on standardized
    columns.
    Source: docs/pac_bayes.md, Theorem 2 and "Sampling"; arXiv 2309.15771, section 5; the sampler:
    arXiv 1111.4246.

    Args:
        score: LSLinear() (the default) or IX(); without a hyper-parameter lambda = 2 sqrt(d/n).
        prior_scale: standard deviation of the prior's coefficients; 1e-50 to 1e50.
        draws: M, the number of policies in the mixture, evenly spaced over the chains.
        chains: independent chains, from different starts; at least 2, so that they can be compared.
        warmup: steps of each chain that only tune the sampler.
        samples: further steps of each chain.
        delta: error probability of the certificate.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split and of the chains, a whole number.
        tail: hold out the last rows of the log, as `SplitLearner` does.

    Attributes:
        policy_: the mixture, a `piwo.policies.Mixture`.
        certificate_: its certificate, held-out.
        chains_: all draws, in units of the prior, with R-hat, effective sample size and
            divergences, a `Chains`.
        coefficients_: (M, K, d + 1) of the mixture, on standardized columns.
        prior_: P, a `NormalPosterior`.
        score_: the score with its hyper-parameter.
        rule_: how that was chosen, in words.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(400, 1)), rng.integers(0, 2, 400)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(400, 0.5)
    ... )
    >>> learner = GibbsLinear(draws=20, warmup=200, samples=200).fit(log)
    >>> (
    ...     learner.policy_.act([[-5.0], [5.0]], random_state=0).actions.tolist(),
    ...     learner.certificate_.certified,
    ... )
    ([0, 1], True)
    """

    score: Score | None = None
    _: KW_ONLY
    prior_scale: float = 1.0
    draws: int = 100
    chains: int = 4
    warmup: int = 500
    samples: int = 500

    def fit(self, log: Log) -> Self:
        """Sample from the posterior of one part of a log, and certify the draws on the other.

        Args:
            log: the logged decisions, with context.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, and a log without any reward.
            UsageError: for arguments that do not go together, and if the extra is not installed.
        """
        score = self.score
        if score is None:
            score = LSLinear()
        self._check(log, score)
        rows = self._split(log, "held-out")
        first, last = rows.training, rows.certified_on
        self.score_, self.rule_ = posterior_score(score, first), posterior_rule(score)
        density = self._density(first, self.score_)
        self.prior_ = density.prior
        self.chains_ = draw_chains(
            density,
            size=self.prior_.mean.size,
            chains=self.chains,
            warmup=self.warmup,
            draws=self.samples,
            seed=int(self.random_state) % 2**64,
            rows=len(density.gains.action),
        )
        for caveat in self.chains_.caveats(self.draws):
            warn(
                f"{caveat}; the certificate is valid all the same; for better draws "
                "raise warmup or samples"
            )
        every = self.chains_.draws.reshape(-1, self.prior_.mean.size)
        chosen = every[np.linspace(0, len(every) - 1, self.draws).round().astype(int)]
        self.coefficients_ = density.coefficients(chosen)
        policies = self.prior_.policies(
            self.coefficients_, first.actions, first.features, greedy=False
        )
        policy = mixture_of(policies, np.full(self.draws, 1.0 / self.draws))
        facts = {
            **rows.facts,
            "log_rows": len(log),
            "oracle": "Gibbs posterior, softmax",
            "score": self.score_.name,
            "parameter": self.score_.value,
        }
        made = certify(last, {0: policy}, delta=self.delta, facts=facts)
        self.certificate_: Certificate = made[0]
        self.policy_: Policy = learned_from(log, policy)
        return self

    def _report(self) -> LearningReport:
        made = self.chains_
        worth = f"worth {made.ess:.4g} independent draws, {made.divergences} diverged"
        quality = {"rhat": made.rhat, "ess": made.ess, "divergences": made.divergences}
        return report_of(
            self.policy_,
            self.certificate_,
            self.score_,
            self.rule_,
            more=[f"  {len(made.draws)} chains: R-hat {made.rhat:.4g}, {worth}"],
            facts={"chains": jsonable(quality)},
        )

    def _density(self, log: Log, score: Score) -> GibbsDensity:
        """Return the density from a log, in coordinates from its rewarded rows."""
        examples = rewarded(log, [score])
        _, center, width = standardized(examples.context)
        shape = len(log.actions), len(center) + 1
        prior = NormalPosterior.about(np.zeros(shape), self.prior_scale, center, width)
        return GibbsDensity.of(examples, prior, bet_of(score))

    def _check(self, log: Log, score: Score) -> None:
        check_log(log)
        log.require_one_machine("GibbsLinear")
        check_fixed_actions(log.columns, "GibbsLinear")
        check_linear_posterior(score, log)
        if isinstance(score.asked, tuple):
            raise UsageError(
                f"{score!r} has several hyper-parameters, expected one: each has a "
                "posterior of its own"
            )
        check_prior_scale(self.prior_scale)
        check_sizes(self, draws=1, chains=2, warmup=10, samples=10)
        if self.chains > min(self.warmup, self.samples):
            raise UsageError(
                f"{argument('chains')} is {self.chains}, expected at most warmup and samples"
            )
        if self.draws > self.chains * self.samples:
            raise UsageError(
                f"{argument('draws')} is {self.draws}, but {self.chains} chains of "
                f"{self.samples} samples make only {self.chains * self.samples}; raise "
                "samples"
            )


@dataclass(frozen=True)
class GibbsDensity:
    """Log density of u up to a constant, lambda n V(pi_theta) - |u|^2/2, and its gradient.

    theta = m + s u with N(m, s^2) the prior: without information in the log, u is standard normal.
    V sums over the rewarded rows, block by block; equal rows are merged, and their gains added.

    >>> gains = SoftmaxObjective(
    ...     np.zeros((1, 1)), np.zeros(1, int), np.ones(1), 1, penalty=0.0, ridge=0.0
    ... )
    >>> density = GibbsDensity(gains, 3.0, NormalPosterior.about(np.zeros((2, 2)), 1.0))
    >>> round(density(np.array([0.0, 0.0, 0.0, 1.0]))[0], 4)  # 3/(1 + e) - 1/2
    0.3068
    """

    gains: SoftmaxObjective
    temperature: float
    """lambda n."""
    prior: NormalPosterior

    @classmethod
    def of(cls, examples: Examples, prior: NormalPosterior, bet: float) -> Self:
        """Return the density from the rewarded rows, at lambda."""
        few = _merged(examples)
        context = prior.inputs(few.context)[:, :-1]
        gains = SoftmaxObjective(
            context, few.action.astype(np.intp), few.gains[0], few.rows, penalty=0.0, ridge=0.0
        )
        return cls(gains, bet * few.rows, prior)

    def coefficients(self, units: Floats) -> Floats:
        """Return theta, (..., K, d + 1), of u, (..., D)."""
        shape = self.prior.mean.shape
        return self.prior.mean + self.prior.scale * units.reshape(*units.shape[:-1], *shape)

    def __call__(self, units: Floats) -> tuple[float, Floats]:
        """Return the density at u, (D,), and its gradient."""
        # far out everything overflows; the sampler treats that as density 0
        with np.errstate(all="ignore"):
            loss, slope = self.gains(self.coefficients(units).ravel())
            value = -self.temperature * loss - 0.5 * float(units @ units)
            return value, -self.temperature * self.prior.scale.ravel() * slope - units


def _merged(examples: Examples) -> Examples:
    """Return the rows sorted, those with equal context and action merged into one."""
    gains = examples.gains[0]
    order = np.lexsort((gains, examples.action, *examples.context.T))
    context, action = examples.context[order], examples.action[order]
    new = np.append(True, (action[1:] != action[:-1]) | (context[1:] != context[:-1]).any(axis=1))
    first = np.flatnonzero(new)
    return replace(
        examples,
        context=context[first],
        action=action[first],
        gains=np.add.reduceat(gains[order], first)[None],
    )
