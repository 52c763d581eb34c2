"""Slates: decisions that show several actions at once, in slots with positions.

log = piwo.slates.read("feed.parquet", slate="shown", rewards="clicks", propensities="ps")
piwo.slates.check(log)           # is each slot fit to value other policies?
piwo.slates.evaluate(log, piwo.slates.FromColumns(above="new_ps"), estimator="cascade")
piwo.slates.by_position(log)     # what is a position worth?
piwo.slates.learn(log).policy    # which slate should be shown?
"""

from piwo.slates.acting import SlateDecisions
from piwo.slates.adapting import SlateAdaptation, adapt
from piwo.slates.choose import SlateChoice, choose
from piwo.slates.compare import SlateComparison, compare
from piwo.slates.decision import decide, gate
from piwo.slates.estimators import ESTIMATORS, SlateEstimator
from piwo.slates.evaluate import evaluate
from piwo.slates.exploring import EpsilonSlate
from piwo.slates.files import SavedSlatePolicy, is_slate_file, load, load_with_metadata
from piwo.slates.greedy import GreedySlate
from piwo.slates.health import SlateHealth, check
from piwo.slates.learn import LearnedSlate, learn
from piwo.slates.log import SlateLog
from piwo.slates.obp import from_obp
from piwo.slates.policies import (
    Deterministic,
    Factored,
    FromColumns,
    OneSlate,
    Uniform,
)
from piwo.slates.policy import SlatePolicy
from piwo.slates.positions import Positions, PositionValue, by_position
from piwo.slates.read import read
from piwo.slates.result import SlateEvaluation, SlotValue
from piwo.slates.tables import write_log
from piwo.slates.validation import USER_BEHAVIORS
from piwo.slates.vowpal_wabbit import read_dsjson, read_vw
from piwo.slates.writing import write_dsjson

__all__ = [
    "ESTIMATORS",
    "USER_BEHAVIORS",
    "Deterministic",
    "EpsilonSlate",
    "Factored",
    "FromColumns",
    "GreedySlate",
    "LearnedSlate",
    "OneSlate",
    "PositionValue",
    "Positions",
    "SavedSlatePolicy",
    "SlateAdaptation",
    "SlateChoice",
    "SlateComparison",
    "SlateDecisions",
    "SlateEstimator",
    "SlateEvaluation",
    "SlateHealth",
    "SlateLog",
    "SlatePolicy",
    "SlotValue",
    "Uniform",
    "adapt",
    "by_position",
    "check",
    "choose",
    "compare",
    "decide",
    "evaluate",
    "from_obp",
    "gate",
    "is_slate_file",
    "learn",
    "load",
    "load_with_metadata",
    "read",
    "read_dsjson",
    "read_vw",
    "write_dsjson",
    "write_log",
]
