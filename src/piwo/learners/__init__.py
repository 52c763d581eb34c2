"""Learners: from a log to a certified policy."""

from piwo.learners.coverage_scaled import CoverageScaled
from piwo.learners.grid import GridPoint, PIWOGrid
from piwo.learners.learner import Learner
from piwo.learners.piwo import PIWO, PathPoint

__all__ = ["PIWO", "CoverageScaled", "GridPoint", "Learner", "PIWOGrid", "PathPoint"]
