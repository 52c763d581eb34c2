"""Estimators: what a log says about a policy, and whether the log is fit to say it."""

from piwo.estimators.bootstrap import Bootstrap, BootstrapResult, bootstrap, bootstrap_interval
from piwo.estimators.coverage import CoverageEstimate, coverage
from piwo.estimators.direct import direct_method
from piwo.estimators.doubly_robust import doubly_robust
from piwo.estimators.evaluate import compare, evaluate
from piwo.estimators.evaluation import Evaluation
from piwo.estimators.forward_model import ForwardModel, forward_model
from piwo.estimators.health import Health, check
from piwo.estimators.monitor import Look, Monitor
from piwo.estimators.mrdr import LinearRewards, mrdr_model
from piwo.estimators.propensities import estimate_propensities
from piwo.estimators.reward_model import ModelEstimate
from piwo.estimators.select import Selection, select
from piwo.estimators.slope import Slope, SlopePoint, slope

__all__ = [
    "Bootstrap",
    "BootstrapResult",
    "CoverageEstimate",
    "Evaluation",
    "ForwardModel",
    "Health",
    "LinearRewards",
    "Look",
    "ModelEstimate",
    "Monitor",
    "Selection",
    "Slope",
    "SlopePoint",
    "bootstrap",
    "bootstrap_interval",
    "check",
    "compare",
    "coverage",
    "direct_method",
    "doubly_robust",
    "estimate_propensities",
    "evaluate",
    "forward_model",
    "mrdr_model",
    "select",
    "slope",
]
