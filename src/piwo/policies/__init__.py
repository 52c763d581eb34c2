"""Policies: pi(a | x), how they act, and the files that hold them."""

from piwo.policies.blocks import DENSE_LIMIT
from piwo.policies.classifier import Classifier
from piwo.policies.context_free import Constant, Uniform
from piwo.policies.deterministic import Deterministic
from piwo.policies.epsilon_greedy import EpsilonGreedy
from piwo.policies.files import SavedPolicy, load, load_with_metadata
from piwo.policies.fits import check_fits
from piwo.policies.function import Function
from piwo.policies.joint import JointLinear, JointModel, JointSoftmax
from piwo.policies.joint_trees import JointTrees
from piwo.policies.linear import LinearGreedy, LinearSoftmax
from piwo.policies.linear_stack import LinearStack
from piwo.policies.logged import Column, Logging
from piwo.policies.majority_vote import MajorityVote
from piwo.policies.mixture import Mixture
from piwo.policies.onnx_export import to_onnx
from piwo.policies.policy import DeterministicPolicy, Policy, aligned
from piwo.policies.reward_models import RewardModels
from piwo.policies.row_wise import RowChoices, RowWise
from piwo.policies.sampling import Decisions
from piwo.policies.tabular import Tabular
from piwo.policies.trees import Trees

__all__ = [
    "DENSE_LIMIT",
    "Classifier",
    "Column",
    "Constant",
    "Decisions",
    "Deterministic",
    "DeterministicPolicy",
    "EpsilonGreedy",
    "Function",
    "JointLinear",
    "JointModel",
    "JointSoftmax",
    "JointTrees",
    "LinearGreedy",
    "LinearSoftmax",
    "LinearStack",
    "Logging",
    "MajorityVote",
    "Mixture",
    "Policy",
    "RewardModels",
    "RowChoices",
    "RowWise",
    "SavedPolicy",
    "Tabular",
    "Trees",
    "Uniform",
    "aligned",
    "check_fits",
    "load",
    "load_with_metadata",
    "to_onnx",
]
