"""Estimators of the value of a slate policy: what each assumes, needs, and sums.

Each makes credits Y = sum_l alpha_l w_l r_l of the rows, whose mean is the value if its assumption
holds. They differ in the weights w_l.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.logs.batch import Floats
from piwo.logs.foreign import RowError
from piwo.messages import argument
from piwo.scores.slot_weights import (
    SlotWeights,
    above_weights,
    pseudo_inverse_of_product,
    pseudo_inverse_of_ranking,
    slot_weights,
    whole_weights,
)
from piwo.slates.log import SlateLog
from piwo.slates.policy import Probability, SlatePolicy
from piwo.slates.rows import SlateRows
from piwo.slates.validation import USER_BEHAVIORS

__all__ = [
    "ESTIMATORS",
    "SlateEstimator",
    "first_slot",
    "require_marginals",
    "slate_estimator",
]

_SUM_TOLERANCE = 1e-6
"""Allowed deviation from 1 of the sum of an item's marginal probabilities."""

Weigh = Callable[[SlateRows, SlatePolicy, SlatePolicy], SlotWeights]
"""Makes the weights of rows from the logger and the target."""


@dataclass(frozen=True)
class SlateEstimator:
    """One way to weight slates.

    >>> ESTIMATORS["cascade"].source
    'McInerney et al. 2020 (arXiv 2007.12986), reward-interaction IPS'
    """

    name: str
    assumption: str
    """Under what its mean is the value, in one sentence."""
    source: str
    weigh: Weigh
    needs: tuple[Probability, ...]
    """Which probabilities logger and target must state."""
    by_slot: bool = True
    """Whether it needs the reward of each slot."""
    whole: bool = False
    """Whether it weights the reward of the whole slate, so that there is one weight a row."""
    negative: bool = False
    """Whether weights may be negative."""
    strength: int = 0
    """How much it assumes, to list estimators from the weakest assumption on; 0: nothing of the
    rewards."""

    def check(
        self, log: SlateLog, target: SlatePolicy, by: str | None = None, instead: str = ""
    ) -> None:
        """Raise unless the log and the target have what it needs.

        Args:
            log: the rows.
            target: the policy.
            by: the function that was called, for the message; None: the estimator was named.
            instead: what works without the probabilities that are missing.

        Raises:
            UsageError: saying what is missing.
        """
        asked = argument("estimator", self.name) if by is None else by
        if self.by_slot and not log.by_slot:
            raise UsageError(
                f"{asked} needs the reward of each slot ({argument('rewards')}), and the log has "
                f"that of the slate; use 'standard' or 'pseudo-inverse'"
            )
        if self.name == "adaptive" and log.columns.user_behavior is None:
            raise UsageError(
                f"{asked} needs a column that says what the reward of a slot depends on "
                f"({argument('user_behavior')}), as declared or predicted before the slate was "
                "shown; or name one of the other estimators"
            )
        if self.negative and not log.bounded:
            raise UsageError(
                f"{asked} has weights that may be negative, with which rewards without an upper "
                f"end have no bound; declare {argument('reward_range', '(0, hi)')}, or use another "
                "estimator"
            )
        if self.negative and not (log.logger.independent or log.logger.ranks):
            raise UsageError(
                f"{asked} needs a logger that draws slots independently "
                f"({argument('independent', value=True)}) or ranks uniformly "
                f"({argument('behavior')}: uniform)"
            )
        if self.negative and log.logger.ranks and log.columns.eligible is not None:
            raise UsageError(
                f"{asked} of uniform rankings presumes one list of items, and here they change "
                f"from row to row ({argument('eligible')}); use another estimator"
            )
        for what in self.needs:
            for who, policy in (("logger", log.logger), ("target", target)):
                if not policy.states(what):
                    raise UsageError(
                        f"{asked} needs {_WORDS[what]} of the {who}; {_DO[who][what]}{instead}"
                    )


_MARGINALS = (
    f"name its column ({argument('marginals')}), or declare independent slots "
    f"({argument('independent', value=True)}) only if the logger drew each slot without regard to "
    "the others"
)
_WORDS: Mapping[str, str] = {
    "above": "the probability of each shown action given those above it",
    "marginal": "the marginal probability of each shown action in its slot",
    "slate": "the probability of the shown slate",
}
_DO: Mapping[str, Mapping[str, str]] = {
    "logger": {
        "above": f"name its column ({argument('propensities')})",
        "marginal": _MARGINALS,
        "slate": f"name its column ({argument('slate_propensity')} or {argument('propensities')})",
    },
    "target": {
        "above": f"name its column ({argument('above', '...')})",
        "marginal": f"name its column ({argument('marginal', '...')})",
        "slate": f"name its column, of slots ({argument('above', '...')}) or of whole slates",
    },
}


def first_slot(log: SlateLog) -> str:
    """Return what works without marginal probabilities: nothing is above the first slot."""
    if not log.logger.states("above"):
        return ""
    return "; without it only the first slot is known (log.position(1) in Python)"


def require_marginals(log: SlateLog, by: str) -> None:
    """Raise unless the marginal probabilities of the logger are known.

    Args:
        log: the rows.
        by: the function that was called, for the message.

    Raises:
        UsageError: saying what to give.
    """
    if not log.logger.states("marginal"):
        raise UsageError(
            f"{by} needs {_WORDS['marginal']} of the logger; {_MARGINALS}{first_slot(log)}"
        )


def _standard(rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    """Return the weight of the whole slate; by slot, if that is known, which cannot underflow."""
    if logger.states("above") and target.states("above"):
        return whole_weights(target.above(rows), logger.above(rows))
    return whole_weights(target.slate(rows)[:, None], logger.slate(rows)[:, None])


def _independent(rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    return slot_weights(target.marginal(rows), logger.marginal(rows))


def _cascade(rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    return above_weights(target.above(rows), logger.above(rows))


def _adaptive(rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    """Return the weights of each row's own behavior."""
    three = [weigh(rows, logger, target) for weigh in (_standard, _cascade, _independent)]
    assert rows.user_behavior is not None
    behavior = rows.user_behavior
    places = np.arange(len(rows))
    wide = np.stack([np.broadcast_to(one.w, (len(rows), rows.slots)) for one in three])

    def logarithm(chosen: Any) -> Floats:
        shape = (len(chosen), rows.slots)
        logs = np.stack([np.broadcast_to(one.logarithm(chosen), shape) for one in three])
        found: Floats = logs[behavior[chosen], np.arange(len(chosen))]
        return found

    assert USER_BEHAVIORS == ("standard", "cascade", "independent")
    return SlotWeights(wide[behavior, places], logarithm)


def _pseudo_inverse(rows: SlateRows, logger: SlatePolicy, target: SlatePolicy) -> SlotWeights:
    if logger.ranks:
        across = target.across(rows)
        _require_all_shown(across, rows, logger.ranks)
        return pseudo_inverse_of_ranking(across, rows.lengths, logger.ranks)
    return pseudo_inverse_of_product(target.marginal(rows), logger.marginal(rows))


def _require_all_shown(across: Floats, rows: SlateRows, items: int) -> None:
    """Raise unless the target shows each item once, on average, in slates of all items.

    The logger then shows every item in some slot, so that q is in the range of Gamma only if the
    marginal probabilities of each item sum to 1 over the slots, as they do for all its slates.
    """
    total = across.sum(axis=2)
    wrong = (np.abs(total - 1.0) > _SUM_TOLERANCE) & (rows.lengths == items)[:, None] & rows.mask
    if not wrong.any():
        return
    place, slot = np.argwhere(wrong)[0]
    raise RowError(
        f"shows all {items} items, and the target shows the one of slot {slot + 1} "
        f"{total[place, slot]:.4g} times on average, expected 1: the logger shows every item once, "
        "so that it cannot show the slates of the target; use another estimator or target",
        int(rows.rows[place]),
    )


_ALL = (
    SlateEstimator(
        name="standard",
        assumption="nothing is assumed of the rewards: each may depend on the whole slate",
        source="importance weighting of slates, McInerney et al. 2020 (arXiv 2007.12986)",
        weigh=_standard,
        needs=("slate",),
        by_slot=False,
        whole=True,
    ),
    SlateEstimator(
        name="independent",
        strength=4,
        assumption="the reward of a slot depends on its position and its own action alone",
        source="Li et al. 2018 (arXiv 1804.10488), item-position model",
        weigh=_independent,
        needs=("marginal",),
    ),
    SlateEstimator(
        name="cascade",
        strength=1,
        assumption="the reward of a slot depends on its own action and those above it, not below",
        source="McInerney et al. 2020 (arXiv 2007.12986), reward-interaction IPS",
        weigh=_cascade,
        needs=("above",),
    ),
    SlateEstimator(
        name="adaptive",
        strength=2,
        assumption="the column of user behaviors says rightly, row by row, what the reward of a "
        "slot depends on, and does not depend on the slate that was shown",
        source="Kiyohara et al. 2023 (arXiv 2306.15098), with known behaviors",
        weigh=_adaptive,
        needs=("slate", "above", "marginal"),
    ),
    SlateEstimator(
        name="pseudo-inverse",
        strength=3,
        assumption="the reward of the slate is a sum of unknown parts, each of one slot and its "
        "action, and the logger can show every slate that the target shows",
        source="Swaminathan et al. 2017 (arXiv 1605.04812)",
        weigh=_pseudo_inverse,
        needs=("marginal",),
        by_slot=False,
        whole=True,
        negative=True,
    ),
)

ESTIMATORS: Mapping[str, SlateEstimator] = MappingProxyType({one.name: one for one in _ALL})
"""Every estimator by name."""


def slate_estimator(name: Any) -> SlateEstimator:
    """Return the estimator of that name.

    Raises:
        UsageError: listing the names.

    >>> slate_estimator("pseudo-inverse").negative
    True
    """
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise UsageError(
            f"{argument('estimator')} is {shown(name)}, expected one of {', '.join(ESTIMATORS)}"
        )
    return ESTIMATORS[name]
