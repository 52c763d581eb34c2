"""Engines: where a reduction runs."""

from piwo.engines.checkpoint import checkpointing
from piwo.engines.engine import reduce
from piwo.engines.settings import Mapper, reporting, using

__all__ = ["Mapper", "checkpointing", "reduce", "reporting", "using"]
