"""Engines: where a reduction runs."""

from piwo.engines.checkpoint import checkpointing
from piwo.engines.engine import Mapper, reduce, reporting, using

__all__ = ["Mapper", "checkpointing", "reduce", "reporting", "using"]
