"""Formats of other tools, both ways."""

from piwo.formats.coba import from_coba
from piwo.formats.join import Joined, join
from piwo.formats.movielens import read_movielens
from piwo.formats.obp import from_obp, to_obp
from piwo.formats.public_data import read_criteo, read_kuairand, read_open_bandit
from piwo.formats.rows import Written
from piwo.formats.tables import write_log
from piwo.formats.vowpal_wabbit import write_dsjson, write_vw

__all__ = [
    "Joined",
    "Written",
    "from_coba",
    "from_obp",
    "join",
    "read_criteo",
    "read_kuairand",
    "read_movielens",
    "read_open_bandit",
    "to_obp",
    "write_dsjson",
    "write_log",
    "write_vw",
]
