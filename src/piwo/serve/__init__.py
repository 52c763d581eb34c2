"""Acting one decision at a time, and the log of it."""

from piwo.serve.app import application, run
from piwo.serve.choice import Choice, Chosen
from piwo.serve.encoding import RowEncoder
from piwo.serve.items import Items, item_columns
from piwo.serve.log_writer import LogWriter
from piwo.serve.server import Server, features_of, served_policy

__all__ = [
    "Choice",
    "Chosen",
    "Items",
    "LogWriter",
    "RowEncoder",
    "Server",
    "application",
    "features_of",
    "item_columns",
    "run",
    "served_policy",
]
