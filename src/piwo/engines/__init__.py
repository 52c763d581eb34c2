"""Engines: they run a pass over a source. They handle columns and tasks, not the roles of a log."""

from piwo.engines.checkpoint import checkpointing
from piwo.engines.engine import fold
from piwo.engines.settings import Mapper, reporting, using
from piwo.engines.stages import Stage, stages
from piwo.engines.task import Task

__all__ = ["Mapper", "Stage", "Task", "checkpointing", "fold", "reporting", "stages", "using"]
