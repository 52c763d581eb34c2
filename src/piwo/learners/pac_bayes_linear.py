"""PAC-Bayes learning over all linear policies: a normal posterior, and the mixture of policies drawn from it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, Literal, Self

import numpy as np

from piwo import bounds
from piwo.errors import UsageError
from piwo.intervals.prepare import actions_logged_once, prepare, unknown_actions
from piwo.learners.account import LearningReport, account_of
from piwo.learners.learner import Learner, check_log, divide
from piwo.learners.normal_posterior import (
    MOST_COEFFICIENT,
    NormalPosterior,
    check_prior_scale,
    fit_normal,
)
from piwo.learners.posterior import (
    PosteriorBound,
    PosteriorSums,
    bet_of,
    check_linear_posterior,
    check_sizes,
    fitted_rule,
    fitted_score,
    mixture_of,
    settle_grid,
)
from piwo.logs.actions import Actions
from piwo.logs.features import Features
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles.examples import Examples, rewarded, standardized
from piwo.policies import LinearGreedy, LinearSoftmax
from piwo.reductions.bets import bet_sums
from piwo.scores import LSLinear, Score

__all__ = ["PACBayesLinear"]


class PACBayesLinear(Learner):
    """Learn a distribution over linear policies, with a certificate on the rows it was learned from.

    Answers: which linear policy, where an infinite class has no log|Pi| to pay? The posterior is
    normal; deployed is the mixture of policies drawn from it, which acts, logs exact propensities
    and saves to a file. The certificate is of that mixture, exactly. `posterior_bound_` is of the
    posterior itself, which would draw coefficients anew for each decision, and whose propensities
    nobody can log exactly.

    Formula: Q = argmax over normal Q of V(Q) - KL(Q || P)/(lambda n); v(mixture) >= (exp(lambda
    V(mixture) - (mean log dQ/dP of the draws + L)/n) - 1)/lambda, best of a grid of lambda.
    Source: docs/pac_bayes.md, Theorems 4 and 5; arXiv 2309.15771, section 5; the gains: arXiv
    2405.14335.

    Args:
        score: LSLinear() (the default) or IX(). Without a hyper-parameter the posterior is fitted
            at lambda = 2 sqrt(d/n), and certified at the best of a grid that depends on n alone.
        policy: "softmax", or "greedy": the posterior is fitted to softmax policies, and its
            policies take their most probable action.
        prior: "split": learned on one part of the log, the posterior there; the bound is on the
            other part. "zero": N(0, prior_scale^2 I) on the context as it is, and all rows; its
            columns should be of size 1 by a scale fixed beforehand. Or a linear policy made from
            other data, the mean of the prior on the context as it is, encoded as that policy has
            it. With these two no row of the log may tell how text or missing values are encoded:
            `log.encoded_by(features)` says it beforehand.
        prior_scale: standard deviation of the prior's coefficients, of the first prior for "split";
            1e-50 to 1e50.
        holdout: for "split", the fraction of the rows that the bound is on.
        draws: M, policies in the mixture. More make `posterior_bound_` tighter, which loses
            log(m/delta)/M of itself.
        steps: most steps of the optimizer.
        delta: how often what is claimed may be wrong; half of it stands in the certificate, as with
            `PACBayes`.
        random_state: seed of split, noise and draws, a whole number. The certificate is for one
            seed: the best of several on the same rows has not been paid for.
        tail: the bound is on the last rows of the log instead of random ones: for adaptive logs.

    Attributes:
        policy_: the mixture, a `piwo.policies.Mixture`.
        certificate_: its certificate, which pays `log_ratio`, the mean of log dQ/dP over the draws;
            `kl` is KL(Q || P).
        posterior_: Q, a `NormalPosterior`; `prior_` likewise.
        posterior_bound_: what Q itself is worth at least, a `PosteriorBound`.
        score_: the score at which the certificate was found; `grid_` all that were tried, and what
            each pays.
        rule_: where its hyper-parameter came from, in words.

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

    def __init__(
        self,
        score: Score | None = None,
        *,
        policy: Literal["softmax", "greedy"] = "softmax",
        prior: Any = "split",
        prior_scale: float = 1.0,
        holdout: float = 0.5,
        draws: int = 100,
        steps: int = 100,
        delta: float = 0.05,
        random_state: int = 0,
        tail: bool = False,
    ) -> None:
        self.score = score
        self.policy = policy
        self.prior = prior
        self.prior_scale = prior_scale
        self.holdout = holdout
        self.draws = draws
        self.steps = steps
        self.delta = delta
        self.random_state = random_state
        self.tail = tail

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
        score = LSLinear() if self.score is None else self.score
        self._check(log, score)
        split = isinstance(self.prior, str) and self.prior == "split"
        if not split:
            log = self._fixed_beforehand(log)
        rows = divide(
            log, "held-out" if split else "in-sample", self.holdout, self.random_state, self.tail
        )
        first, last = rows.training, rows.test
        assert last is not None
        actions, features = first.actions, first.features
        assert features is not None
        self.prior_ = self._learned(first, score) if split else self._given(actions, features)
        # the rows of the bound over the actions and the context of the prior
        blank = self.prior_.policies(self.prior_.mean[None], actions, features, greedy=True)[0]
        last, _ = prepare(last, {0: blank})
        self.posterior_ = self._fitted(last, score, self.prior_, actions)
        rng = np.random.default_rng([int(self.random_state) % 2**64, 1])
        drawn = self.posterior_.draw(self.draws, rng)
        drawn = np.concatenate([drawn, self.posterior_.mean[None]])
        policies = self.posterior_.policies(
            drawn, actions, features, greedy=self.policy == "greedy"
        )
        last, ready = prepare(last, dict(enumerate(policies)))
        scores, self.grid_ = settle_grid(score, len(last), self.delta)
        sums = PosteriorSums.of(last, tuple(ready.values()), scores, self.grid_.penalty)
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
        self.policy_ = mixture_of(policies, weights)
        self.certificate_ = sums.certificate(weights, paid, self.delta / 2.0, facts)
        self.score_ = sums.bound(weights, paid).score
        self.rule_ = (
            f"best of {len(scores)} for the certificate; posterior fitted at {fitted_rule(score)}"
        )
        self.posterior_bound_ = _posterior_bound(sums, kl).believed(self.certificate_)
        return self

    def _account(self) -> LearningReport:
        made = self.certificate_
        # the prior from some of the rows, the posterior from the others
        return account_of(self.policy_, made, self.score_, self.rule_, seen=made.log_rows)

    def _check(self, log: Log, score: Score) -> None:
        check_log(log)
        log.require_one_machine("PACBayesLinear")
        check_linear_posterior(score, log)
        if self.policy not in ("softmax", "greedy"):
            raise UsageError(
                f"{argument('policy')} is {self.policy!r}, expected 'softmax' or 'greedy'"
            )
        check_prior_scale(self.prior_scale)
        check_sizes(self, draws=1, steps=1)
        named = isinstance(self.prior, str) and self.prior in ("split", "zero")
        if not (named or isinstance(self.prior, LinearGreedy | LinearSoftmax)):
            raise UsageError(
                f"{argument('prior')} is {self.prior!r:.80}, expected 'split', 'zero', or a linear policy"
            )

    def _learned(self, log: Log, score: Score) -> NormalPosterior:
        """Return the posterior of the first part, in coordinates that its rewarded rows tell."""
        _, center, width = standardized(rewarded(log, [fitted_score(score, log)]).context)
        first = NormalPosterior.about(
            np.zeros((len(log.actions), len(center) + 1)), self.prior_scale, center, width
        )
        return self._fitted(log, score, first, log.actions)

    def _fixed_beforehand(self, log: Log) -> Log:
        """Return the log over the context of the prior, which no row of the bound may have made.

        Raises:
            UsageError: where the rows told how they are encoded, or which actions there are.
        """
        theirs = None if isinstance(self.prior, str) else self.prior.features
        if theirs is not None and theirs != log.features:
            log = log.encoded_by(theirs)
        elif theirs is None and (told := _told_by_rows(log)):
            raise UsageError(
                f"the rows of the bound told how the context is encoded ({', '.join(told[:3])}), "
                f"so no prior on it was fixed before them; use {argument('prior', 'split')}, or "
                "log.encoded_by(features) with features from elsewhere"
            )
        seen = log.declared_actions is None or log.declared_actions.seen
        if seen and (once := actions_logged_once(log)):
            raise UsageError(
                f"{unknown_actions(once, len(log.actions))}: no bound holds; give the list "
                f"({argument('actions', '[...]')})"
            )
        return log

    def _given(self, actions: Actions, features: Features) -> NormalPosterior:
        mean = np.zeros((len(actions), features.width + 1))
        if not isinstance(self.prior, str):
            temperature = self.prior.temperature if isinstance(self.prior, LinearSoftmax) else 1.0
            with np.errstate(over="ignore"):
                mean = np.hstack([self.prior.coef, self.prior.intercept[:, None]]) / temperature
            if self.prior.actions != actions or mean.shape[1] != features.width + 1:
                raise UsageError(
                    "the prior policy has other actions or context columns than the log; bring it "
                    "onto them"
                )
            if (self.prior.intercept == -np.inf).any():
                raise UsageError(
                    "the prior policy rules out actions (intercept -inf), expected finite "
                    "coefficients"
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
        trained = fitted_score(score, log)
        examples = _coded(rewarded(log, [trained]), log.actions, actions)
        return fit_normal(
            examples,
            examples.gains[0],
            prior,
            bet_of(trained),
            steps=self.steps,
            seed=int(self.random_state) % 2**64,
        )


def _told_by_rows(log: Log) -> list[str]:
    """Return the context columns of which the rows told the levels, whether to hash them, or that values are missing.

    >>> import piwo
    >>> shops = {"shop": ["a", "b"] * 9, "action": [0, 1] * 9, "r": [0.5, 1.0] * 9, "p": [0.5] * 18}
    >>> log = piwo.read(shops, action="action", reward="r", propensity="p", context=["shop"])
    >>> _told_by_rows(log), _told_by_rows(log.encoded_by(log.features))
    (['shop'], [])
    """
    if log.declared_features is not None or log.features is None:
        return []
    missing, chosen = log.encoding.missing == "indicator", log.encoding.max_levels > 0
    return [
        x.column
        for x in log.features.items
        if missing or x.kind == "levels" or (x.kind == "hashed" and chosen)
    ]


def _coded(examples: Examples, given: Actions, wanted: Actions) -> Examples:
    """Return the rows whose action the policies know, with the codes that these use."""
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
    """Return the bound for Q itself: half of each statement's error for the draws, half for the log.

    The last policy is that of the mean coefficients. Its score is known before the draws, and
    serves as their unit.
    """
    found, share = [], sums.penalty + math.log(2.0)
    for score, values in zip(sums.scores, sums.values, strict=True):
        drawn, unit = values[:-1], float(values[-1]) or 1.0
        least = unit * bounds.lower(bet_sums(drawn / unit), len(drawn), share)
        low = bounds.pac_bayes_lower(least, kl, sums.rows, bet_of(score), share)
        found.append(
            (
                low,
                PosteriorBound(
                    score,
                    sums.log.value(least),
                    kl,
                    sums.log.value(low),
                    sums.log.propensity_caveats,
                ),
            )
        )
    return max(found, key=lambda pair: pair[0])[1]
