"""Formats of other tools, both ways."""

from piwo.formats.join import Joined, join
from piwo.formats.rows import Written
from piwo.formats.tables import write_log
from piwo.formats.vowpal_wabbit import write_dsjson, write_vw

__all__ = ["Joined", "Written", "join", "write_dsjson", "write_log", "write_vw"]
