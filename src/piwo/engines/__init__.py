"""Engines: where a pass over a source runs. They know columns and tasks, not what a log means."""

from piwo.engines.checkpoint import checkpointing
from piwo.engines.engine import fold
from piwo.engines.settings import Mapper, reporting, using
from piwo.engines.task import Task

__all__ = ["Mapper", "Task", "checkpointing", "fold", "reporting", "using"]
