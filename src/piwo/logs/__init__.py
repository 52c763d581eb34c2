"""Logs: the record, the door that validates it, and where it is read from."""

from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.logs.columns import Columns
from piwo.logs.dsjson import DsjsonSource, read_dsjson
from piwo.logs.features import Feature, Features
from piwo.logs.log import Log
from piwo.logs.reading import read
from piwo.logs.split import Split

__all__ = [
    "Actions",
    "Batch",
    "Columns",
    "DsjsonSource",
    "Feature",
    "Features",
    "Log",
    "Split",
    "read",
    "read_dsjson",
]
