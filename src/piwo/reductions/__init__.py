"""Reductions: how a log becomes a small mergeable state."""

from piwo.reductions.action_table import ActionCount, ActionState, ActionTable
from piwo.reductions.bets import BETS, bet_sums
from piwo.reductions.control_variate import ControlVariates, VariateState
from piwo.reductions.digest import Digest, DigestState
from piwo.reductions.folds import Folds
from piwo.reductions.gram import Gram, GramState
from piwo.reductions.policy_sums import BetState, MomentState, PolicyState, PolicySums
from piwo.reductions.reduction import Reduction, Together
from piwo.reductions.state import State
from piwo.reductions.weight_histogram import HistogramState, WeightHistogram

__all__ = [
    "BETS",
    "ActionCount",
    "ActionState",
    "ActionTable",
    "BetState",
    "ControlVariates",
    "Digest",
    "DigestState",
    "Folds",
    "Gram",
    "GramState",
    "HistogramState",
    "MomentState",
    "PolicyState",
    "PolicySums",
    "Reduction",
    "State",
    "Together",
    "VariateState",
    "WeightHistogram",
    "bet_sums",
]
