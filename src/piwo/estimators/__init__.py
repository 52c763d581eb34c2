"""Estimators: point estimates, models of rewards and of propensities."""

from piwo.estimators.cross_fit import CrossFit, cross_fit
from piwo.estimators.direct import direct_method
from piwo.estimators.doubly_robust import doubly_robust
from piwo.estimators.forward_model import ForwardModel, forward_model
from piwo.estimators.mips import MarginalEstimate, mips
from piwo.estimators.mrdr import LinearRewards, mrdr_model
from piwo.estimators.propensities import estimate_propensities
from piwo.estimators.reward_model import ModelEstimate
from piwo.estimators.slope import Slope, SlopePoint, slope

__all__ = [
    "CrossFit",
    "ForwardModel",
    "LinearRewards",
    "MarginalEstimate",
    "ModelEstimate",
    "Slope",
    "SlopePoint",
    "cross_fit",
    "direct_method",
    "doubly_robust",
    "estimate_propensities",
    "forward_model",
    "mips",
    "mrdr_model",
    "slope",
]
