"""Choose among assumptions of slate estimators on one part of the rows; estimate on the other."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.messages import Note, argument
from piwo.records import Record
from piwo.slates.compare import compare
from piwo.slates.estimators import ESTIMATORS
from piwo.slates.evaluate import evaluate
from piwo.slates.log import SlateLog
from piwo.slates.policy import SlatePolicy
from piwo.slates.result import SlateEvaluation

__all__ = ["SlateChoice", "choose"]

_TRIED = ("standard", "cascade", "independent")


@dataclass(frozen=True)
class SlateChoice(Record):
    """The assumption that was chosen, and the value under it on other rows. `choose` makes it.

    >>> list(SlateChoice.__dataclass_fields__)
    ['evaluation', 'tried']
    """

    evaluation: SlateEvaluation
    """On the held-out rows, by the chosen estimator."""
    tried: tuple[SlateEvaluation, ...]
    """On the rows that the choice was made from, from the weakest assumption on."""

    def __str__(self) -> str:
        return str(self.evaluation)


def choose(
    log: SlateLog,
    policy: SlatePolicy,
    *,
    estimators: Sequence[str] = _TRIED,
    holdout: float = 0.5,
    interval: str = "auto",
    delta: float = 0.05,
    random_state: int = 0,
    name: str | None = None,
) -> SlateChoice:
    """Return the value by the strongest assumption that one part of the rows does not contradict.

    SLOPE's rule: estimators are listed from the weakest assumption to the strongest, which have
    wide and narrow intervals. The last one is taken whose interval, and those of all before it,
    have a point in common. The value and its interval are then of the other rows, so that the
    choice does not bias them. Chosen and estimated on the same rows, there would be no bound.

    That a part of the rows does not contradict an assumption does not prove it: the interval holds
    if the chosen assumption does. The choice is one for all rows; `slates.adapt` chooses by
    context.

    Formula: the largest i for which the intersection of I_1, ..., I_i is not empty.

    Args:
        log: of `slates.read`, a whole log.
        policy: the target.
        estimators: names, from the weakest assumption to the strongest.
        holdout: fraction of the rows to estimate on.
        interval: see `piwo.slates.evaluate`.
        delta: error probability, of the intervals to choose by together, and of the result.
        random_state: seed of the split.
        name: what to call the policy in the result.

    Returns:
        A `SlateChoice`.

    Raises:
        UsageError: for an estimator that cannot be used on the log.

    >>> import piwo
    >>> log = piwo.slates.read(
    ...     {"slate": [["a", "b"], ["b", "a"]] * 200, "rs": [[1, 0], [0, 0]] * 200},
    ...     rewards="rs",
    ...     behavior=piwo.slates.Uniform(["a", "b"]),
    ... )
    >>> choose(log, piwo.slates.Deterministic(["a", "b"])).evaluation.estimator
    'independent'

    Source: Su, Srinath, Krishnamurthy 2020 (arXiv 2002.07729), the rule.
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    if not log.bounded:
        raise UsageError(
            "rewards have no upper end, so intervals have none, and no assumption can be "
            f"contradicted; declare {argument('reward_range', '(lo, hi)')}, or choose one yourself"
        )
    if estimators == _TRIED:
        by = argument("slates.choose")
        for i, usual in enumerate(_TRIED):
            # nobody named the estimator for which the probabilities do not suffice
            instead = ""
            if i > 1:
                instead = f"; or try fewer: {argument('estimators', str(list(_TRIED[:i])))}"
            ESTIMATORS[usual].check(log, policy, by, instead)
    parts = log.split(holdout, random_state)
    name = name or type(policy).__name__
    tried = compare(
        parts.train, {name: policy}, estimators=estimators, interval=interval, delta=delta
    ).evaluations
    low, high, chosen = -math.inf, math.inf, tried[0]
    for one in tried:
        # An estimator without an interval cannot be compared with those before it.
        if one.lower is None or one.upper is None:
            continue
        low, high = max(low, one.lower), min(high, one.upper)
        if low > high:
            break
        chosen = one
    found = evaluate(
        parts.test, policy, estimator=chosen.estimator, interval=interval, delta=delta, name=name
    )
    note = Note(
        f"{chosen.estimator!r} was chosen among {', '.join(one.estimator for one in tried)} on "
        f"{chosen.rows:,} other rows, which do not contradict its assumption; that does not prove "
        "it",
        kind="chosen",
    )
    return SlateChoice(replace(found, notes=(*found.notes, note)), tried)
