"""Logs: rows of decisions, their validation, and how they are read."""

from piwo.logs.action_costs import ActionCosts
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.logs.columns import Columns
from piwo.logs.features import Feature, Features
from piwo.logs.log import Log
from piwo.logs.propensity_error import (
    CalibrationBin,
    ErrorBoundRows,
    PropensityErrorBound,
)
from piwo.logs.read import read
from piwo.logs.split import Split
from piwo.logs.vowpal_wabbit import read_dsjson, read_vw

__all__ = [
    "ActionCosts",
    "Actions",
    "Batch",
    "CalibrationBin",
    "Columns",
    "ErrorBoundRows",
    "Feature",
    "Features",
    "Log",
    "PropensityErrorBound",
    "Split",
    "read",
    "read_dsjson",
    "read_vw",
]
