"""Slates: decisions that show several actions at once, in slots with positions.

log = piwo.slates.read("feed.parquet", slate="shown", rewards="clicks", propensities="ps")
piwo.slates.evaluate(log, piwo.slates.FromColumns(above="new_ps"), estimator="cascade")
piwo.slates.by_position(log)     # what is a position worth?
piwo.slates.learn(log).policy    # which slate should be shown?
"""

from piwo.slates.estimators import ESTIMATORS, SlateEstimator
from piwo.slates.evaluate import evaluate
from piwo.slates.learn import LearnedSlate, learn
from piwo.slates.log import SlateLog, read
from piwo.slates.policies import (
    Deterministic,
    Factored,
    FromColumns,
    GreedySlate,
    SlatePolicy,
    Uniform,
)
from piwo.slates.positions import Positions, PositionValue, by_position
from piwo.slates.result import SlateEvaluation, SlotValue
from piwo.slates.validation import USER_BEHAVIORS

__all__ = [
    "ESTIMATORS",
    "USER_BEHAVIORS",
    "Deterministic",
    "Factored",
    "FromColumns",
    "GreedySlate",
    "LearnedSlate",
    "PositionValue",
    "Positions",
    "SlateEstimator",
    "SlateEvaluation",
    "SlateLog",
    "SlatePolicy",
    "SlotValue",
    "Uniform",
    "by_position",
    "evaluate",
    "learn",
    "read",
]
