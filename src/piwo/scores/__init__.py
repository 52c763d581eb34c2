"""Scores: the credit of a policy for a logged row. Only this folder divides by propensities."""

from collections.abc import Mapping

from piwo.scores.baseline_relative import BaselineRelative
from piwo.scores.clip import Clip
from piwo.scores.doubly_robust_ls import DoublyRobustLS, RewardGuess
from piwo.scores.exponential_smoothing import ExponentialSmoothing
from piwo.scores.freezing import Freezing, FreezingLinear
from piwo.scores.global_clip import GlobalClip, GlobalClipLinear
from piwo.scores.harmonic import Harmonic
from piwo.scores.iw import IW
from piwo.scores.ix import IX
from piwo.scores.ix_reward import IXReward
from piwo.scores.log_clip import LogClip, LogClipLinear
from piwo.scores.ls import LS, LSLinear
from piwo.scores.pseudo_loss import PseudoLoss
from piwo.scores.score import Score
from piwo.scores.shrinkage import Shrinkage
from piwo.scores.switch import Switch

__all__ = [
    "IW",
    "IX",
    "LS",
    "SCORES",
    "BaselineRelative",
    "Clip",
    "DoublyRobustLS",
    "ExponentialSmoothing",
    "Freezing",
    "FreezingLinear",
    "GlobalClip",
    "GlobalClipLinear",
    "Harmonic",
    "IXReward",
    "LSLinear",
    "LogClip",
    "LogClipLinear",
    "PseudoLoss",
    "RewardGuess",
    "Score",
    "Shrinkage",
    "Switch",
]

_EXPORTED = tuple(globals()[name] for name in __all__ if name != "SCORES")

SCORES: Mapping[str, type[Score]] = {
    kind.name: kind
    for kind in _EXPORTED
    if isinstance(kind, type) and issubclass(kind, Score) and kind is not Score
}
"""Every score by name, made from the exports; estimators and the command use this table."""
