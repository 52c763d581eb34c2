"""Learners: from a log to a certified policy."""

from piwo.learners.piwo import PIWO, PathPoint

__all__ = ["PIWO", "PathPoint"]
