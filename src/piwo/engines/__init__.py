"""Engines: where a reduction runs."""

from piwo.engines.engine import Mapper, reduce, reporting, using

__all__ = ["Mapper", "reduce", "reporting", "using"]
