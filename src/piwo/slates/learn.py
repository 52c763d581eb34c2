"""Learn a slate policy: the best item of each position that is not shown yet, certified."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike

import numpy as np

from piwo.checks import check_kind
from piwo.errors import DataError, UsageError
from piwo.learners import PIWO
from piwo.messages import argument
from piwo.oracles import Oracle, Ridge
from piwo.oracles.eligible_ridge import EligibleRidge
from piwo.policies import LinearGreedy
from piwo.scores import Score
from piwo.slates.estimators import require_marginals
from piwo.slates.evaluate import evaluate
from piwo.slates.greedy import GreedySlate
from piwo.slates.log import SlateLog
from piwo.slates.provenance import record_of
from piwo.slates.result import SlateEvaluation

__all__ = ["LearnedSlate", "learn"]


@dataclass(frozen=True)
class LearnedSlate:
    """A learned slate policy, and what it is worth on rows that it was not learned from.

    `save` writes both to one file; `policy.save` the policy alone.

    >>> import piwo
    >>> [x.name for x in __import__("dataclasses").fields(piwo.slates.LearnedSlate)]
    ['policy', 'evaluation']
    """

    policy: GreedySlate
    evaluation: SlateEvaluation

    def save(self, path: str | PathLike[str]) -> None:
        """Write the policy, and what was proved of it, to one file.

        `slates.load` reads the policy, `slates.load_with_metadata(path).metadata["evaluation"]` is
        `evaluation.to_dict()`, and `piwo policy show` prints both.

        Args:
            path: the file, replaced.

        Raises:
            FileError: if the file cannot be written.
        """
        self.policy.save(path, {"evaluation": self.evaluation.to_dict()})


def learn(
    log: SlateLog,
    *,
    score: Score | None = None,
    alpha: float = 1.0,
    holdout: float = 0.5,
    delta: float = 0.05,
    random_state: int = 0,
) -> LearnedSlate:
    """Learn which slate to show in each context, and evaluate it on held-out rows.

    For each position PIWO with a ridge oracle learns linear scores of the items, from the rows and
    the marginal propensities of that position (`SlateLog.position`). The policy fills slots from
    the first to the last with the item of the highest score that is not shown yet. This is for a
    reward that is a sum over slots, each of which depends on its position and its own action alone,
    which the evaluation assumes, too.

    Formula: a_l = argmax over items that are not among a_1, ..., a_{l-1} of <c_{l,a}, x> + b_{l,a},
    with c_l and b_l of the ridge regression of the score's gains in position l. If rows have
    eligible actions, items are those of the row, and the regression of an item is over the rows in
    which it is eligible (others would pull its scores to 0); an item that never was has score 0.

    Args:
        log: of `slates.read`, with rewards of slots, marginal propensities, and context.
        score: of `piwo.PIWO`; None: IX.
        alpha: the ridge penalty.
        holdout: fraction of the rows to evaluate on.
        delta: error probability of the evaluation's interval.
        random_state: seed of the split.

    Returns:
        A `LearnedSlate`: the `GreedySlate`, and its `SlateEvaluation` ("independent").

    Raises:
        DataError: for rows that break a rule, and for a slot that no row to learn from fills.
        UsageError: if the log lacks rewards of slots or marginal propensities, or has fewer actions
            than slots.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {
    ...         "slate": [["a", "b"], ["b", "a"]] * 300,
    ...         "rs": [[1, 0], [0, 0]] * 300,
    ...         "hour": [1.0, 1.0, 2.0] * 200,
    ...     },
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ...     context="hour",
    ... )
    >>> learned = learn(log)
    >>> learned.policy.act([[1.0]]).slates, learned.evaluation.improvement_lower > 0
    ([['a', 'b']], True)

    Source: Gabbianelli, Neu, Papini 2024 (arXiv 2309.15771), by position.
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    if not log.columns.context:
        raise UsageError(
            f"the scores of items are linear in the context, and {log.name} was read without; name "
            f"its columns ({argument('context', '[...]')})"
        )
    if len(log.actions) < log.slots:
        raise UsageError(
            f"there are {len(log.actions)} actions and {log.slots} slots, expected at least as "
            f"many actions: no item is shown twice; declare {argument('actions', '[...]')}"
        )
    require_marginals(log, argument("slates.learn"))
    parts = log.split(holdout, random_state)
    oracle: Oracle = Ridge(alpha)
    if log.columns.eligible is not None:
        oracle = EligibleRidge(alpha)
    features, coef, intercept = None, [], []
    for position in range(1, log.slots + 1):
        rows = parts.train.position(position)
        if len(rows) == 0:
            raise DataError(
                f"none of the {parts.train_rows:,} rows to learn from fills slot {position}, so "
                "that nothing can be learned of it; leave out slates of so many slots, or give "
                f"another {argument('holdout')} or {argument('random_state')}"
            )
        if features is not None:
            # one encoding of the context for all positions
            rows = replace(rows, declared_features=features)
        features = rows.features
        learner = PIWO(score, oracle, certificate=None, delta=delta).fit(rows)
        policy = learner.policy_
        assert isinstance(policy, LinearGreedy)
        coef.append(policy.coef)
        intercept.append(policy.intercept)
    learned = GreedySlate(
        log.actions,
        features,
        np.stack(coef),
        np.stack(intercept),
        learned_from=parts.train,
        record=record_of(parts.train, features),
    )
    found = evaluate(
        parts.test, learned, estimator="independent", delta=delta, name="learned slates"
    )
    return LearnedSlate(learned, found)
