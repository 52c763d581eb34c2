"""Scores: how much credit a policy gets for a logged row. The only place where a propensity divides anything."""

from piwo.scores.clip import Clip
from piwo.scores.iw import IW
from piwo.scores.ix import IX
from piwo.scores.ls import LS, LSLinear
from piwo.scores.pseudo_loss import PseudoLoss
from piwo.scores.score import Score

__all__ = ["IW", "IX", "LS", "Clip", "LSLinear", "PseudoLoss", "Score"]
