"""Oracles: from gains to the policy that collects most of them; gains as a table for others."""

from piwo.oracles.boosting import Boosting, DirectBoosting
from piwo.oracles.classifier import Classifier
from piwo.oracles.conditional_logit import ConditionalLogit
from piwo.oracles.direct import Direct
from piwo.oracles.exhaustive import Exhaustive
from piwo.oracles.gain_table import GainBlock, gain_blocks, gains
from piwo.oracles.joint_boosting import JointBoosting
from piwo.oracles.joint_ridge import JointDirect, JointRidge
from piwo.oracles.oracle import Oracle
from piwo.oracles.policy_tree import PolicyTree
from piwo.oracles.ridge import Ridge
from piwo.oracles.softmax import Softmax

__all__ = [
    "Boosting",
    "Classifier",
    "ConditionalLogit",
    "Direct",
    "DirectBoosting",
    "Exhaustive",
    "GainBlock",
    "JointBoosting",
    "JointDirect",
    "JointRidge",
    "Oracle",
    "PolicyTree",
    "Ridge",
    "Softmax",
    "gain_blocks",
    "gains",
]
