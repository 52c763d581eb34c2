"""PAC-Bayes learning over all linear policies: a normal posterior, and a mixture drawn from it."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Literal, Self

import numpy as np

from piwo import bounds
from piwo.certificates.certificate import Certificate
from piwo.errors import UsageError
from piwo.intervals.matching import actions_logged_once, matched, may_lack_actions, unknown_actions
from piwo.intervals.provenance import learned_from
from piwo.learners.hyper_parameters import (
    bet_of,
    posterior_grid,
    posterior_rule,
    posterior_score,
)
from piwo.learners.learner import SplitLearner, check_log
from piwo.learners.normal_posterior import (
    MOST_COEFFICIENT,
    NormalPosterior,
    check_prior_scale,
    fit_normal,
)
from piwo.learners.posterior import (
    PosteriorBound,
    PosteriorSums,
    check_linear_posterior,
    check_sizes,
    mixture_of,
)
from piwo.learners.report import LearningReport, report_of
from piwo.logs.actions import Actions
from piwo.logs.features import Features
from piwo.logs.log import Log
from piwo.logs.options import check_fixed_actions
from piwo.messages import argument
from piwo.oracles.examples import Examples, rewarded, standardized
from piwo.policies import LinearGreedy, LinearSoftmax, Policy
from piwo.reductions.bets import bet_sums
from piwo.scores import LSLinear, Score

__all__ = ["PACBayesLinear"]


@dataclass(eq=False, repr=False)
class PACBayesLinear(SplitLearner):
    """Learn a distribution over linear policies, with a certificate on its training rows.

    Answers: which linear policy should run, with a bound for an infinite class, which has no
    log|Pi|? The posterior is normal; deployed is a mixture of policies drawn from it, which acts,
    logs exact propensities and saves to a file. The certificate is for exactly that mixture.
    `posterior_bound_` is for the posterior itself, which would draw new coefficients for each
    decision, so that its propensities could not be logged exactly.

    Formula: Q = argmax over normal Q of V(Q) - KL(Q || P)/(lambda n); v(mixture) >= (exp(lambda
    V(mixture) - (mean log dQ/dP of the draws + L)/n) - 1)/lambda, best of a grid of lambda.
    Source: docs/pac_bayes.md, Theorems 4 and 5; arXiv 2309.15771, section 5; the gains: arXiv
    2405.14335.

    Args:
        score: LSLinear() (the default) or IX(). Without a hyper-parameter the posterior is fitted
            at lambda = 2 sqrt(d/n), and certified at the best of a grid that depends on n alone.
        policy: "softmax", or "greedy": the posterior is fitted to softmax policies, and its
            policies take their most probable action.
        prior: "split": the prior is the posterior of one part of the log; the bound is on the other
            part. "zero": N(0, prior_scale^2 I) on the raw context, and the bound is on all rows;
            context columns should be of size 1 by a scale fixed beforehand. Or a linear policy made
            from other data, the mean of the prior on the raw context, encoded as for that policy.
            With the last two, the encoding of text and missing values must not depend on rows of
            the log: `log.encoded_by(features)` fixes it beforehand.
        prior_scale: standard deviation of the prior's coefficients, of the first prior for "split";
            1e-50 to 1e50.
        draws: M, the number of policies in the mixture. More make `posterior_bound_` tighter, which
            loses a fraction log(m/delta)/M.
        steps: most steps of the optimizer.
        delta: error probability of the certificate. Half of it is recorded in the certificate, as
            with `PACBayes`. For "split", the bound is on the rows held out.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, of the noise and of the draws, a whole number. The
            certificate is for one seed; the best of several seeds on the same rows is not
            certified.
        tail: hold out the last rows of the log, as `SplitLearner` does.

    Attributes:
        policy_: the mixture, a `piwo.policies.Mixture`.
        certificate_: its certificate, whose penalty is `log_ratio`, the mean of log dQ/dP over the
            draws; `kl` is KL(Q || P).
        posterior_: Q, a `NormalPosterior`; `prior_` likewise.
        posterior_bound_: the lower bound for Q itself, a `PosteriorBound`.
        score_: the score that gives the certificate; `grid_` holds all that were tried, with their
            penalty.
        rule_: how its hyper-parameter was chosen, in words.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(2000, 1)), rng.integers(0, 2, 2000)
    >>> R = (A == (X[:, 0] > 0)) * 1.0
    >>> log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=np.full(2000, 0.5))
    >>> learner = PACBayesLinear(draws=10).fit(log)
    >>> (
    ...     learner.policy_.probabilities([[-2.0], [2.0]]).round(1).tolist(),
    ...     learner.certificate_.certified,
    ... )
    ([[1.0, 0.0], [0.0, 1.0]], True)
    """

    score: Score | None = None
    _: KW_ONLY
    policy: Literal["softmax", "greedy"] = "softmax"
    prior: Any = "split"
    prior_scale: float = 1.0
    draws: int = 100
    steps: int = 100

    def fit(self, log: Log) -> Self:
        """Learn a posterior from a log, draw from it, and certify the mixture.

        Args:
            log: the logged decisions, with context.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            DataError: for rows that break a rule, and a log without any reward.
            UsageError: for arguments that do not go together.
        """
        score = self.score
        if score is None:
            score = LSLinear()
        self._check(log, score)
        split = isinstance(self.prior, str) and self.prior == "split"
        if not split:
            log = self._fixed_beforehand(log)
        rows = self._split(log, "held-out" if split else "in-sample")
        first, last = rows.training, rows.certified_on
        actions, features = first.actions, first.features
        assert features is not None

        # P, and Q from the rows of the bound, over the actions and the context of P
        if split:
            self.prior_ = self._learned(first, score)
        else:
            self.prior_ = self._given(actions, features)
        blank = self.prior_.policies(self.prior_.mean[None], actions, features, greedy=True)[0]
        last, _ = matched(last, {0: blank})
        self.posterior_ = self._fitted(last, score, self.prior_, actions)

        # M draws for the mixture, and the mean of Q for `posterior_bound_`
        rng = np.random.default_rng([int(self.random_state) % 2**64, 1])
        drawn = self.posterior_.draw(self.draws, rng)
        drawn = np.concatenate([drawn, self.posterior_.mean[None]])
        policies = self.posterior_.policies(
            drawn, actions, features, greedy=self.policy == "greedy"
        )
        last, ready = matched(last, dict(enumerate(policies)))
        scores, self.grid_ = posterior_grid(score, len(last), self.delta)
        sums = PosteriorSums.of(last, tuple(ready.values()), scores, self.grid_.penalty)

        # the mixture pays the mean of log dQ/dP over the draws, Q itself pays KL(Q || P)
        weights = np.append(np.full(self.draws, 1.0 / self.draws), 0.0)
        paid = float(self.posterior_.log_ratio(self.prior_, drawn[:-1]).mean())
        kl = self.posterior_.kl(self.prior_)
        facts = {
            **rows.facts,
            "log_rows": len(log),
            "oracle": f"normal posterior, {self.policy}",
            "kl": kl,
            "log_ratio": paid,
        }
        self.policy_: Policy = learned_from(log, mixture_of(policies, weights))
        self.certificate_: Certificate = sums.certificate(weights, paid, self.delta / 2.0, facts)
        self.score_ = sums.bound(weights, paid).score
        self.rule_ = (
            f"best of {len(scores)} for the certificate; posterior fitted at "
            f"{posterior_rule(score)}"
        )
        self.posterior_bound_ = _posterior_bound(sums, kl).believed(self.certificate_)
        return self

    def _report(self) -> LearningReport:
        made = self.certificate_
        # the prior is from some of the rows, the posterior from the others
        return report_of(self.policy_, made, self.score_, self.rule_, seen=made.log_rows)

    def _check(self, log: Log, score: Score) -> None:
        check_log(log)
        log.require_one_machine("PACBayesLinear")
        check_fixed_actions(log.columns, "PACBayesLinear")
        check_linear_posterior(score, log)
        if self.policy not in ("softmax", "greedy"):
            raise UsageError(
                f"{argument('policy')} is {self.policy!r}, expected 'softmax' or 'greedy'"
            )
        check_prior_scale(self.prior_scale)
        check_sizes(self, draws=1, steps=1)
        named = isinstance(self.prior, str) and self.prior in ("split", "zero")
        if not named and not isinstance(self.prior, LinearGreedy | LinearSoftmax):
            raise UsageError(
                f"{argument('prior')} is {self.prior!r:.80}, expected 'split', 'zero', "
                "or a linear policy"
            )

    def _learned(self, log: Log, score: Score) -> NormalPosterior:
        """Return the posterior of the first part, in coordinates from its rewarded rows."""
        _, center, width = standardized(rewarded(log, [posterior_score(score, log)]).context)
        zero = np.zeros((len(log.actions), len(center) + 1))
        first = NormalPosterior.about(zero, self.prior_scale, center, width)
        return self._fitted(log, score, first, log.actions)

    def _fixed_beforehand(self, log: Log) -> Log:
        """Return the log over the context of the prior, which must not depend on the rows.

        Raises:
            UsageError: if the encoding, or the list of actions, was derived from the rows.
        """
        if isinstance(self.prior, str):
            theirs = None
        else:
            theirs = self.prior.features
        derived = []
        if theirs is None:
            derived = _encoded_from_rows(log)
        if derived:
            raise UsageError(
                f"the encoding of {', '.join(derived[:3])} was derived from the rows "
                "of the bound, so no prior on the context was fixed before them; use "
                f"{argument('prior', 'split')}, or log.encoded_by(features) with "
                "features from elsewhere"
            )
        if theirs is not None and theirs != log.features:
            log = log.encoded_by(theirs)
        once = 0
        if may_lack_actions(log):
            once = actions_logged_once(log)
        if once:
            raise UsageError(
                f"{unknown_actions(once, len(log.actions))}: no bound holds; give the "
                f"list ({argument('actions', '[...]')})"
            )
        return log

    def _given(self, actions: Actions, features: Features) -> NormalPosterior:
        """Return N(0, s^2 I), or N(m, s^2 I) with m the coefficients of a policy."""
        if isinstance(self.prior, str):
            zero = np.zeros((len(actions), features.width + 1))
            return NormalPosterior.about(zero, self.prior_scale)
        temperature = 1.0
        if isinstance(self.prior, LinearSoftmax):
            temperature = self.prior.temperature
        with np.errstate(over="ignore"):
            mean = np.hstack([self.prior.coef, self.prior.intercept[:, None]]) / temperature
        if self.prior.actions != actions or mean.shape[1] != features.width + 1:
            raise UsageError(
                "the prior policy has other actions or context columns than the log, "
                "expected the same; make it for those of the log"
            )
        if (self.prior.intercept == -np.inf).any():
            raise UsageError(
                "the prior policy rules out actions (intercept -inf), expected finite coefficients"
            )
        if not (np.abs(mean) <= MOST_COEFFICIENT).all():
            raise UsageError(
                f"the prior policy has a coefficient of {np.abs(mean).max():.4g} at "
                f"temperature 1, expected at most {MOST_COEFFICIENT:g}; scale it"
            )
        return NormalPosterior.about(mean, self.prior_scale)

    def _fitted(
        self, log: Log, score: Score, prior: NormalPosterior, actions: Actions
    ) -> NormalPosterior:
        trained = posterior_score(score, log)
        examples = _coded(rewarded(log, [trained]), log.actions, actions)
        return fit_normal(
            examples,
            examples.gains[0],
            prior,
            bet_of(trained),
            steps=self.steps,
            seed=int(self.random_state) % 2**64,
        )


def _encoded_from_rows(log: Log) -> list[str]:
    """Return the context columns whose encoding was derived from the rows.

    The rows may have determined the levels, whether to hash them, or that values are missing.

    >>> import piwo
    >>> shops = {"shop": ["a", "b"] * 9, "action": [0, 1] * 9, "r": [0.5, 1.0] * 9, "p": [0.5] * 18}
    >>> log = piwo.read(shops, action="action", reward="r", propensity="p", context=["shop"])
    >>> _encoded_from_rows(log), _encoded_from_rows(log.encoded_by(log.features))
    (['shop'], [])
    """
    if log.declared_features is not None or log.features is None:
        return []
    if log.encoding.missing == "indicator":
        return [item.column for item in log.features.items]
    # with max_levels = 0 all text is hashed, whatever the rows
    if log.encoding.max_levels > 0:
        derived = {"levels", "hashed"}
    else:
        derived = {"levels"}
    return [item.column for item in log.features.items if item.kind in derived]


def _coded(examples: Examples, given: Actions, wanted: Actions) -> Examples:
    """Return the rows with actions of the policies, in the codes of the policies."""
    if given == wanted:
        return examples
    places = {label: code for code, label in enumerate(wanted)}
    code = np.array([places.get(label, -1) for label in given], np.int32)[examples.action]
    known = code >= 0
    return replace(
        examples,
        context=examples.context[known],
        action=code[known],
        gains=examples.gains[:, known],
    )


def _posterior_bound(sums: PosteriorSums, kl: float) -> PosteriorBound:
    """Return the bound for Q itself.

    Half of the error probability of each statement is for the draws, half for the log. The last
    policy is that of the mean coefficients: its score is known before the draws, and serves as
    their unit.
    """
    # log(2 m / delta)
    share = sums.penalty + math.log(2.0)
    best = None
    for score, values in zip(sums.scores, sums.values, strict=True):
        drawn, unit = values[:-1], float(values[-1]) or 1.0
        # V(Q) from the V of M independent draws
        value = unit * bounds.lower(bet_sums(drawn / unit), len(drawn), share)
        # v(Q) from V(Q)
        low = bounds.pac_bayes_lower(value, kl, sums.rows, bet_of(score), share)
        if best is None or low > best[0]:
            best = low, value, score
    assert best is not None
    low, value, score = best
    log = sums.log
    notes = (*log.propensity_caveats, *log.caveats)
    return PosteriorBound(score, log.value(value), kl, log.value(low), notes)
