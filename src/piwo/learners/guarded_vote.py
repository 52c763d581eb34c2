"""A vote of cautious learners: the policy for logs on which nothing is certified."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from piwo.certificates.certificate import NO_BOUND, Certificate
from piwo.certificates.certify import CertificateRequest, declared_logger
from piwo.checks import check_seed
from piwo.errors import NothingToLearnError
from piwo.evaluation.provenance import learned_from
from piwo.intervals.point import importance_weighted
from piwo.intervals.weight_sums import effective_size
from piwo.learners.folds import folds_of, sample_of
from piwo.learners.learner import Learner, check_log
from piwo.learners.pool import Candidate
from piwo.learners.report import LearningReport
from piwo.learners.vote_members import HalfBaseline, PseudoLabels, RewardLikelihood, imitation
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import Note
from piwo.oracles import Classifier, Softmax
from piwo.policies import MajorityVote, Policy
from piwo.records import now
from piwo.reductions.policy_sums import MomentState
from piwo.reductions.reduce import reduce
from piwo.scores import IX

__all__ = ["GuardedVote"]

_FOLDS = 3
_FEWEST_ROWS = 30
_MOST_ROWS = 100_000
"""Rows to learn from; if there are more, so many are drawn."""
_MOST_CELLS = 4_000_000
"""Rows times actions to learn from, unless that leaves fewer than 10,000 rows."""
_TREES = 60
_LEAF_CELLS = 2**22
"""Leaves times actions of the trees of a forest; it bounds the size of files."""
_SIGN = 2.0
"""Standard errors by which rewards must be higher where a vote agrees with the logger."""
_CREDIT = IX(0.1)


@dataclass(eq=False, repr=False)
class GuardedVote(Learner):
    """Learn a cautious policy that can act, from any log with context; nothing is proved for it.

    Answers: which policy should run if the log is too small, or explores too little, for a
    certificate? `Auto` returns this one then.

    Formula: two majority votes are learned. The safe one is of learners that read rewarded rows
    alone, with weights R / (mu + 0.1): extra trees, `oracles.Softmax` and logistic regression. The
    bold one is of learners that also read unrewarded rows as evidence against the logged action:
    extra trees with pseudo-labels, the softmax with gains (R - m/2)/(mu + 0.1), m the mean reward,
    and the likelihood P(R = 1|x, a) = .03 + .94 softmax(Wx)_a. Each is judged on three folds, by
    votes learned from the other two: with r1 the mean reward of rows on which it agrees with the
    logger, and r0 that of all others, t = (r1 - r0) / se(r1 - r0). The vote with the larger t is
    the policy if t > 2. Otherwise nothing shows that its changes are improvements, and the policy
    imitates the logger: a softmax of linear scores is fitted to the propensities of the logged
    actions, and actions are drawn from it.
    Source: chosen on simulated logs, docs/quality.md.

    t uses no weights, so it is defined for loggers that hardly explore, too. It is not a test: if
    rewards depend on the context alone, t may be large although no action is better than another.

    At most 100,000 rows are used, and fewer for more than 40 actions; if there are more, so many
    are drawn at random. All rows of a unit are in one fold.

    Args:
        random_state: seed of the sample, of the folds and of the trees.

    Attributes:
        policy_: the learned policy.
        certificate_: estimates on rows that each fold's policies did not see, and no bounds:
            `certified` is False.
        chosen_: "bold", "safe" or "imitation".
        rule_: how it was chosen, in words.
        signs_: "bold", "safe" -> t.

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
                f"the log has {len(log)} rows, expected at least {_FEWEST_ROWS} to learn from"
            )
        actions = len(log.actions)
        most = min(_MOST_ROWS, max(10_000, _MOST_CELLS // actions))
        sample, chosen = sample_of(log, most, int(self.random_state))
        votes = _votes(int(self.random_state), len(sample), actions)
        for member in votes["safe"]:
            member.oracle.fit_for(log)
        folds = folds_of(sample, chosen, _FOLDS)
        learned: dict[str, list[Policy]] = {}
        self.signs_ = {}
        for name, members in votes.items():
            learned[name] = [_vote(members, train) for train, _ in folds]
            self.signs_[name] = _sign(learned[name], [test for _, test in folds])
        # bold if both are equal
        self.chosen_ = max(self.signs_, key=lambda name: self.signs_[name])
        if self.signs_[self.chosen_] > _SIGN:
            policy = _vote(votes[self.chosen_], sample)
            words = ", ".join(one.name for one in votes[self.chosen_])
            self.rule_ = f"a vote of {words}"
        else:
            self.chosen_ = "imitation"
            learned["imitation"] = [imitation(train) for train, _ in folds]
            policy = imitation(sample)
            self.rule_ = (
                "an imitation of the logging policy, as no vote of learners shows signs of being "
                "better"
            )
        estimates = []
        for one, (_, test) in zip(learned[self.chosen_], folds, strict=True):
            estimates.append(_estimated(one, test))
        self.policy_: Policy = learned_from(log, policy)
        self.certificate_ = _unproved(log, len(sample), estimates, self.rule_)
        return self

    def _report(self) -> LearningReport:
        rows = self.certificate_.training_rows
        return LearningReport((f"learned without a certificate from {rows} rows: {self.rule_}",))


def _votes(seed: int, rows: int, actions: int) -> dict[str, tuple[Candidate, ...]]:
    """Return the members of both votes.

    Args:
        seed: of the trees.
        rows: to learn from.
        actions: K.
    """
    from sklearn.ensemble import ExtraTreesClassifier

    most, leaves = max(16, _LEAF_CELLS // (_TREES * actions)), None
    # trees of at least two rows a leaf may stay below it
    if rows // 2 > most:
        leaves = most
    trees = ExtraTreesClassifier(
        _TREES, min_samples_leaf=2, max_leaf_nodes=leaves, random_state=seed
    )
    return {
        "bold": (
            Candidate("extra trees with pseudo-labels", PseudoLabels(trees)),
            Candidate("softmax with a baseline", HalfBaseline()),
            Candidate("reward likelihood", RewardLikelihood()),
        ),
        "safe": (
            Candidate("extra trees", Classifier(trees), _CREDIT),
            Candidate("softmax", Softmax(ridge=2e-3, steps=60), _CREDIT),
            Candidate("logistic regression", Classifier(), _CREDIT),
        ),
    }


def _vote(members: Sequence[Candidate], rows: Log) -> Policy:
    """Return the vote of the policies that the members learn from some rows."""
    return MajorityVote([one.oracle.solve(rows, one.credit(rows)) for one in members])


def _sign(policies: Sequence[Policy], tests: Sequence[Log]) -> float:
    """Return t: how much more rows earn on which policies agree with the logger.

    Args:
        policies: one for each fold.
        tests: the rows of each fold.
    """
    seen: list[tuple[Batch, Floats]] = []
    for policy, test in zip(policies, tests, strict=True):
        for batch in test.each_batch(context=True):
            seen.append((batch, policy.logged(batch)))
    # (sum of weights, weighted sum of rewards): where they agree, and elsewhere
    sums = np.zeros((2, 2))
    for batch, agrees in seen:
        for i, some in enumerate((agrees, 1.0 - agrees)):
            sums[i] += batch.sampled(some).sum(), batch.sampled(some * batch.reward).sum()
    if not (sums[:, 0] > 0).all():
        return -math.inf
    # r1, r0
    agreed, changed = sums[:, 1] / sums[:, 0]
    # the delta method: r1 - r0 is about the sum over rows, or units, of these terms
    square = 0.0
    for batch, agrees in seen:
        term = agrees * (batch.reward - agreed) / sums[0, 0]
        term -= (1.0 - agrees) * (batch.reward - changed) / sums[1, 0]
        square += float((batch.observed(term) ** 2).sum())
    if square <= 0.0:
        return math.copysign(math.inf, agreed - changed)
    return float(agreed - changed) / math.sqrt(square)


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
    note = Note(
        f"not proved better than the logging policy; chosen by {rule}, and its value is estimated "
        f"on {len(estimates)} folds, each with a policy learned from the others",
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
        notes=(note, *log.caveats),
    )
