"""A vote of cautious learners: the policy for logs on which nothing is certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from piwo.certificates.certificate import NO_BOUND, Certificate
from piwo.certificates.request import CertificateRequest, declared_logger
from piwo.checks import check_seed
from piwo.errors import NothingToLearnError
from piwo.evaluation.low_weights import low_weight_notes
from piwo.intervals.point import importance_weighted
from piwo.intervals.provenance import learned_from
from piwo.intervals.weight_sums import effective_size
from piwo.learners.folds import folds_of, sample_of
from piwo.learners.learner import Learner, check_log
from piwo.learners.pool import Candidate
from piwo.learners.report import LearningReport
from piwo.learners.vote_members import (
    CREDIT,
    RIDGE,
    STEPS,
    HalfBaseline,
    LowerBounds,
    PseudoLabels,
    RewardLikelihood,
    imitation,
)
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.oracles import Classifier, Softmax
from piwo.policies import Logging, MajorityVote, Policy
from piwo.records import now
from piwo.reductions.policy_sums import MomentState
from piwo.reductions.reduce import reduce
from piwo.scores.ratio import over_propensity

__all__ = ["GuardedVote"]

_FOLDS = 3
_FOLDS_OF_FEW = 5
_FEW_ROWS = 1500
"""Up to so many rows are in five folds."""
_FEWEST_ROWS = 30
_MOST_ROWS = 50_000
"""Rows to learn from; if there are more, so many are drawn."""
_MOST_CELLS = 500_000
"""Rows times actions to learn from, unless that leaves fewer than 5,000 rows."""
_JUDGED = 10_000
"""Rows that the votes are judged on, with votes learned from these rows alone."""
_TREES = 60
_TREES_OF_MANY = 30
"""Of a forest that learns from more than 5,000 rows."""
_LEAF_CELLS = 2**22
"""Leaves times actions of the trees of a forest; it bounds the size of files."""
_WIDE = 2**24
"""Actions times squared columns, beyond which no lower bounds are learned."""

_HOPES = ((0.5, 1.0), (0.7, 2.0), (1.0, 3.5))
"""Pairs of c and of the t that it must exceed."""
_SAFE, _SIMULATED = 95, 95
"""Logs of the halves that confirm in docs/quality.md, run once with this rule, in which a vote or
an imitation was returned and did no harm, and all in which one was."""
_ADDED = 2
"""Rows that are added, on which the vote loses the highest reward."""
_REWARDS, _REWARDS_AGREED = 20.0, 10.0
"""Fewest rewards of all rows, and of those on which a vote agrees with the logger."""
_ELSEWHERE, _LEAST = 0.8, 0.25
"""If so much of the reward is where a vote would act otherwise, this t suffices,"""
_SURE = 0.2
"""and the mean propensity is not above this."""
_HIDDEN_PRICE, _HIDDEN = 2.0, 0.15
"""What t_.5 must be more, times h, and the largest h at which t_.7 and t_1 count. h is the share of
the reward where a vote would act otherwise, times the mean propensity: what the vote would earn
there is assumed, not seen."""
_SURELY_PAYS, _CONTRAST, _LEAST_SURE = 0.85, 0.1, 3.0
"""If a right action nearly always pays: the least reward where the bold vote and the logger agree,
how much less the other rows must earn, both as shares of the reward range, and the least t_1."""
_LOSS = 0.005
"""Share of the mean reward that an imitation may lose."""
_LOSS_ERRORS = 2.0
"""Standard errors that are added to an estimate of this loss."""


@dataclass(eq=False, repr=False)
class GuardedVote(Learner):
    """Learn a cautious policy that can act, from any log with context; nothing is proved for it.

    Answers: which policy should run if the log is too small, or explores too little, for a
    certificate? `Auto` returns this one then.

    Formula: two majority votes are learned. The safe one is of learners that trust rewarded rows,
    with weights R / (mu + 0.1): extra trees and `oracles.Softmax`. The bold one is of learners that
    read unrewarded rows as evidence against the logged action: extra trees with pseudo-labels, the
    softmax with gains (R - m/2)/(mu + 0.1), m the mean reward, and the likelihood P(R = 1|x, a) =
    .03 + .94 softmax(Wx)_a. Lower confidence bounds of linear rewards vote in both.

    Each vote pi is judged on folds, by votes learned from the other rows, with

        y_c = (pi(A|X)/mu(A|X) - 1) (R - c m),   t_c = mean(y_c) / se(y_c).

    Two rows are added on which the logger earned the highest reward and the vote would have acted
    otherwise: a few rare rewards prove little. y_0 estimates v(pi) - v(mu), and so does y_c where
    the logger explores, with less noise. Where it does not, y_c assumes that the actions of the
    vote earn c times the mean reward. Let e be the share of the reward on rows on which the vote
    would act otherwise, and h = e times the mean propensity: the larger it is, the more of what the
    vote would earn is assumed. The vote may run if t_.5 > 1 + 2h, or, for h <= .15, if t_.7 > 2 or
    t_1 > 3.5: the more is assumed, the more must be seen. If e >= .8 and the mean propensity is at
    most .2, the logger hardly knows what pays, and t_.5 > .25 suffices. In any case all rows must
    have at least 20 rewards, and those on which the vote agrees with the logger 10, except in this
    last case; R counts as (sum R)^2 / sum R^2 rewards. Of two votes that may run, the one with the
    higher t_.5 does.

    If none of them may, the bold vote still runs where a right action nearly always pays, which is
    what it assumes: the mean reward of rows on which it agrees with the logger is above .85 (0 and
    1 are the ends of the reward range), other rows earn less by more than .1, and t_1 > 3, with the
    same numbers of rewards. This assumes that the logger is wrong where it earns less; rewards that
    depend on the context alone look the same.

    Otherwise nothing shows that a vote improves on the logger, and the logger stays. Its imitation,
    a softmax of linear scores fitted to the propensities of the logged actions, is the policy if it
    surely loses little: v(mu) - v(pi) = E[(1 - pi/mu) R] <= E[(1 - pi/mu)_+ R], estimated on folds,
    plus two standard errors is at most .005 m.
    Source: chosen on simulated logs, docs/quality.md.

    It is not a test: t_c with c > 0 assumes something, and two votes are tried.

    At most 50,000 rows are used, 500,000/K with more than 10 actions, but not fewer than 5,000; if
    there are more, so many are drawn at random, and at most 10,000 of them judge. All rows of a
    unit are in one fold. If the logger learned, each fold is later than the rows learned from.

    Args:
        random_state: seed of the sample, of the folds and of the trees.

    Attributes:
        policy_: the learned policy.
        certificate_: estimates on rows that each fold's policies did not see, and no bounds:
            `certified` is False.
        chosen_: "bold", "safe", "imitation" or "logging".
        rule_: how it was chosen, in words.
        signs_: "bold", "safe" -> t_.5.

    >>> import numpy as np, piwo
    >>> rng = np.random.default_rng(0)
    >>> X, A = rng.normal(size=(90, 1)), rng.integers(0, 2, 90)
    >>> log = piwo.Log.from_arrays(
    ...     context=X, action=A, reward=(A == (X[:, 0] > 0)) * 1.0, propensity=np.full(90, 0.5)
    ... )
    >>> learner = GuardedVote().fit(log)
    >>> learner.policy_.act([[-2.0], [2.0]]).actions.tolist(), learner.certificate_.certified
    ([0, 1], False)
    """

    random_state: int = 0

    def fit(self, log: Log) -> Self:
        """Learn from a log.

        Args:
            log: the logged decisions, with context.

        Returns:
            The learner itself, with `policy_` and `certificate_`.

        Raises:
            NothingToLearnError: if there are fewer than 30 rows, or none of the rows of two folds
                has a reward above the lowest.
        """
        check_log(log)
        check_seed("random_state", self.random_state)
        if len(log) < _FEWEST_ROWS:
            raise NothingToLearnError(
                f"the log has {len(log):,} rows, expected at least {_FEWEST_ROWS} to learn from"
            )
        seed, actions = int(self.random_state), len(log.actions)
        most = min(_MOST_ROWS, max(5_000, _MOST_CELLS // actions))
        sample, _ = sample_of(log, most, seed)
        count = len(sample)
        judges, chosen = sample_of(log, min(most, _JUDGED), seed)
        number = _FOLDS
        if count <= _FEW_ROWS:
            number = _FOLDS_OF_FEW
        folds = folds_of(judges, chosen, number)
        votes = _votes(seed, count, actions, sample)
        for member in votes["safe"]:
            member.oracle.fit_for(log)
        learned: dict[str, list[Policy]] = {}
        found = {}
        for name, members in votes.items():
            learned[name] = [_vote(members, train) for train, _ in folds]
            found[name] = Signs.of(learned[name], [test for _, test in folds])
        self.signs_ = {name: one.t[0] for name, one in found.items()}
        may_run = [name for name, one in found.items() if one.improves]
        if not may_run and found["bold"].right_pays:
            may_run = ["bold"]
        if may_run:
            # bold if both are equal
            self.chosen_ = max(may_run, key=lambda name: self.signs_[name])
            policy = _vote(votes[self.chosen_], sample)
            self.rule_ = f"a vote of {', '.join(one.name for one in votes[self.chosen_])}"
        else:
            learned["imitation"] = [imitation(train) for train, _ in folds]
            policy = self._stay(log, sample, learned, [test for _, test in folds])
        estimates = []
        for one, (_, test) in zip(learned[self.chosen_], folds, strict=True):
            estimates.append(_estimated(one, test))
        self.policy_: Policy = learned_from(log, policy)
        self.certificate_: Certificate = _unproved(log, count, estimates, self.rule_)
        return self

    def _stay(
        self, log: Log, sample: Log, learned: dict[str, list[Policy]], tests: Sequence[Log]
    ) -> Policy:
        """Return the imitation of the logger if it loses little, otherwise the logger.

        Args:
            log: all rows.
            sample: the rows to learn from.
            learned: the imitations of the folds; those of the logger are added.
            tests: the rows of each fold.
        """
        nothing = "as no vote of learners shows signs of being better"
        if _loses_little(learned["imitation"], tests):
            self.chosen_ = "imitation"
            self.rule_ = f"an imitation of the logging policy, {nothing}"
            return imitation(sample)
        self.chosen_ = "logging"
        self.rule_ = f"the logging policy, {nothing}, and an imitation of it may lose too much"
        stays: Policy = Logging(log.actions)
        if isinstance(log.behavior, Policy):
            stays = log.behavior
        learned["logging"] = [stays] * len(tests)
        return stays

    def _report(self) -> LearningReport:
        rows = self.certificate_.training_rows
        return LearningReport((f"learned without a certificate from {rows:,} rows: {self.rule_}",))


def _votes(seed: int, rows: int, actions: int, log: Log) -> dict[str, tuple[Candidate, ...]]:
    """Return the members of both votes.

    Args:
        seed: of the trees.
        rows: to learn from.
        actions: K.
        log: the rows.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    most, leaves = max(16, _LEAF_CELLS // (_TREES * actions)), None
    # trees of at least two rows a leaf may stay below it
    if rows // 2 > most:
        leaves = most
    size = _TREES
    if rows > 5_000:
        size = _TREES_OF_MANY
    trees = ExtraTreesClassifier(size, min_samples_leaf=2, max_leaf_nodes=leaves, random_state=seed)
    fewer = ExtraTreesClassifier(
        size // 3, min_samples_leaf=2, max_leaf_nodes=leaves, random_state=seed
    )
    bold = [
        Candidate("extra trees with pseudo-labels", PseudoLabels(trees, fewer)),
        Candidate("softmax with a baseline", HalfBaseline()),
        Candidate("reward likelihood", RewardLikelihood()),
    ]
    safe = [
        Candidate("extra trees", Classifier(trees), CREDIT),
        Candidate("softmax", Softmax(ridge=RIDGE, steps=STEPS), CREDIT),
    ]
    assert log.features is not None
    if actions * log.features.width**2 > _WIDE:
        safe.append(Candidate("logistic regression", Classifier(), CREDIT))
    else:
        for vote in (bold, safe):
            vote.insert(0, Candidate("lower bounds", LowerBounds(fewer)))
    return {"bold": tuple(bold), "safe": tuple(safe)}


def _vote(members: Sequence[Candidate], rows: Log) -> Policy:
    """Return the vote of the policies that the members learn from some rows."""
    return MajorityVote([one.oracle.solve(rows, one.credit(rows)) for one in members])


@dataclass(frozen=True)
class Signs:
    """What rows that a vote was not learned from show of it; see `GuardedVote`.

    >>> import piwo
    >>> log = Log.from_arrays(
    ...     context=[[0.0]] * 4, action=[0, 1] * 2, reward=[1, 0] * 2, propensity=[0.5] * 4
    ... )
    >>> Signs.of([piwo.policies.Constant(0, log.actions)], [log])  # doctest: +ELLIPSIS
    Signs(t=(0.32..., 0.51..., 0.86...), rewards=2.0, agreed=2.0, ..., together=1.0, apart=0.0)
    """

    t: tuple[float, ...]
    """t_c for each c."""
    rewards: float
    """How many rewards all rows have."""
    agreed: float
    """Likewise, of rows on which vote and logger agree."""
    elsewhere: float
    """The share of the reward on the other rows."""
    sure: float
    """The mean propensity of the logged actions."""
    together: float
    """The mean reward of rows on which vote and logger agree, in [0, 1]."""
    apart: float
    """Likewise, of the other rows."""

    @classmethod
    def of(cls, policies: Sequence[Policy], tests: Sequence[Log]) -> Signs:
        """Return what the folds show.

        Args:
            policies: one for each fold.
            tests: the rows of each fold.
        """
        seen: list[tuple[Batch, Floats, Floats]] = []
        for policy, test in zip(policies, tests, strict=True):
            for batch in test.each_batch(context=True):
                agrees = policy.logged(batch)
                seen.append((batch, agrees, over_propensity(agrees, batch)))
        # sums of s, s R, s R^2, the same three of rows that agree, and of s mu
        sums = np.zeros(7)
        for batch, agrees, _ in seen:
            r = batch.reward
            powers = [np.ones(len(r)), r, r * r]
            terms = [*powers, *(agrees * term for term in powers), batch.propensity]
            sums += [batch.sampled(term).sum() for term in terms]
        count, total, square, alike, agreed, agreed_square, sure = sums.tolist()
        if total == 0.0:
            return cls((-math.inf,) * len(_HOPES), 0.0, 0.0, 1.0, 1.0, 0.0, 0.0)
        mean = total / count
        highest = max(float(batch.reward.max()) for batch, *_ in seen if len(batch))
        found = []
        for c, _ in _HOPES:
            terms = [np.full(_ADDED, c * mean - highest)]
            for batch, _, w in seen:
                # a weight beyond n is n
                gained = (np.minimum(w, count) - 1.0) * (batch.reward - c * mean)
                terms.append(batch.observed(gained))
            found.append(_t(np.concatenate(terms), count + _ADDED))
        return cls(
            tuple(found),
            total * total / square,
            agreed * agreed / max(agreed_square, 1e-300),
            1.0 - agreed / total,
            sure / count,
            agreed / max(alike, 1e-300),
            (total - agreed) / max(count - alike, 1e-300),
        )

    @property
    def improves(self) -> bool:
        """Whether the vote may run."""
        if self.rewards < _REWARDS:
            return False
        unlike = self.elsewhere >= _ELSEWHERE and self.sure <= _SURE
        if unlike and self.t[0] > _LEAST:
            return True
        hidden = self.elsewhere * self.sure
        seen = self.t[0] > _HOPES[0][1] + _HIDDEN_PRICE * hidden
        if hidden <= _HIDDEN:
            others = zip(self.t[1:], _HOPES[1:], strict=True)
            seen = seen or any(t > least for t, (_, least) in others)
        return seen and self.agreed >= _REWARDS_AGREED

    @property
    def right_pays(self) -> bool:
        """Whether agreeing with the vote nearly always pays, and other rows earn less."""
        return (
            self.rewards >= _REWARDS
            and self.agreed >= _REWARDS_AGREED
            and self.together > _SURELY_PAYS
            and self.together - self.apart > _CONTRAST
            and self.t[-1] > _LEAST_SURE
        )


def _t(terms: Floats, count: float) -> float:
    """Return the mean of observations over its standard error; count: the sum of their weights."""
    mean = float(terms.sum()) / count
    # the variance of the observations, times their number
    square = float(((terms - terms.mean()) ** 2).sum())
    if square <= 0.0:
        return math.copysign(math.inf, mean) if mean else 0.0
    return mean * count / math.sqrt(square)


def _loses_little(policies: Sequence[Policy], tests: Sequence[Log]) -> bool:
    """Whether policies surely lose little of what the logger earns.

    Args:
        policies: one for each fold.
        tests: the rows of each fold.
    """
    losses, total = [], 0.0
    for policy, test in zip(policies, tests, strict=True):
        for batch in test.each_batch(context=True):
            w = over_propensity(policy.logged(batch), batch)
            # (1 - w)_+ R
            losses.append(batch.observed(np.maximum(1.0 - w, 0.0) * batch.reward))
            total += float(batch.sampled(batch.reward).sum())
    loss = np.concatenate(losses)
    error = math.sqrt(float(((loss - loss.mean()) ** 2).sum()))
    return float(loss.sum()) + _LOSS_ERRORS * error <= _LOSS * total


@dataclass(frozen=True)
class _Estimate:
    """What one fold shows of a policy that was learned from the others."""

    moments: MomentState
    unsupported: float | None


def _estimated(policy: Policy, test: Log) -> _Estimate:
    """Return what rows that a policy was not learned from show of it."""
    asked = CertificateRequest.of(test, {0: policy}, provenance=False)
    sums = reduce(asked.log, asked.sums)
    return _Estimate(asked.moments(sums)[0], asked.finish(sums)[0].unsupported_mass)


def _unproved(log: Log, rows: int, estimates: Sequence[_Estimate], rule: str) -> Certificate:
    """Return a certificate without bounds, of the estimates of all folds.

    Args:
        log: the rows.
        rows: how many were learned from.
        estimates: of the folds.
        rule: how the policy was chosen, in words.
    """
    sums = MomentState()
    missing: float | None = 0.0
    for one in estimates:
        sums = sums.merge(one.moments)
        if missing is not None and one.unsupported is not None:
            missing += one.unsupported * one.moments.rows
        else:
            missing = None
    count = max(sums.rows, 1)
    found = importance_weighted(sums, log.origin)
    value = logging_value = mean_weight = None
    if found.finite and found.value is not None:
        value = log.value(found.value)
    if sums.total > 0:
        logging_value, mean_weight = log.value(sums.reward / count), sums.w / count
    if missing is not None:
        missing /= count
    error = log.propensity_error
    low = low_weight_notes(sums, missing, exact=error is None or error.exact)
    note = Note(
        f"not proved better than the logging policy; chosen by {rule}, safe in {_SAFE} of "
        f"{_SIMULATED} simulated logs, most of them with strong rewards; its value is estimated on "
        f"{len(estimates)} folds, each with a policy learned from the others",
        kind="unproved",
    )
    return Certificate(
        kind="held-out",
        value=value,
        value_lower=None,
        improvement_lower=None,
        logging_value=logging_value,
        bound=NO_BOUND,
        rows=sums.logged,
        unit=log.columns.unit,
        units=log.columns.units_of(sums.rows),
        training_rows=rows,
        log_rows=len(log),
        ess=effective_size(sums.w, sums.w2),
        mean_weight=mean_weight,
        unsupported_mass=missing,
        reward_range=log.reward_range,
        cost=log.columns.cost,
        assumes=log.assumption,
        logger=declared_logger(log),
        oracle="guarded vote",
        created=now(),
        notes=(note, *low, *log.caveats),
    )
