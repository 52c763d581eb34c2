"""Reductions: how a log becomes a small mergeable state."""

from piwo.engines.packed import packed, unpacked
from piwo.engines.state import State
from piwo.reductions.action_table import ActionCount, ActionState, ActionTable
from piwo.reductions.bets import BETS, bet_sums
from piwo.reductions.control_variate import ControlVariates, VariateState
from piwo.reductions.digest import Digest, DigestState
from piwo.reductions.folds import Folds
from piwo.reductions.forward_sums import ForwardSums, RewardSums
from piwo.reductions.gram import Gram, GramState
from piwo.reductions.model_variate import ModelState, ModelVariates, Predictor
from piwo.reductions.policy_reduction import PolicyReduction
from piwo.reductions.policy_sums import BetState, MomentState, PolicyState, PolicySums
from piwo.reductions.reduce import reduce
from piwo.reductions.reduction import Joint, Reduction
from piwo.reductions.vector_sums import VectorSums
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
    "ForwardSums",
    "Gram",
    "GramState",
    "HistogramState",
    "Joint",
    "ModelState",
    "ModelVariates",
    "MomentState",
    "PolicyReduction",
    "PolicyState",
    "PolicySums",
    "Predictor",
    "Reduction",
    "RewardSums",
    "State",
    "VariateState",
    "VectorSums",
    "WeightHistogram",
    "bet_sums",
    "packed",
    "reduce",
    "unpacked",
]
