"""Learners: from a log to a certified policy."""

from piwo.learners.auto import Auto, PoolPoint
from piwo.learners.coverage_scaled import CoverageScaled
from piwo.learners.gibbs_linear import GibbsLinear
from piwo.learners.grid import GridPoint, PIWOGrid
from piwo.learners.guarded_vote import GuardedVote
from piwo.learners.learner import Learner, SplitLearner
from piwo.learners.normal_posterior import NormalPosterior
from piwo.learners.nuts import Chains
from piwo.learners.pac_bayes import PACBayes, PosteriorPoint
from piwo.learners.pac_bayes_linear import PACBayesLinear
from piwo.learners.piwo import PIWO, PathPoint
from piwo.learners.pool import Candidate, default_pool
from piwo.learners.posterior import PosteriorBound
from piwo.learners.report import CandidateReport, LearningReport
from piwo.learners.terms import segments_of_learned

__all__ = [
    "PIWO",
    "Auto",
    "Candidate",
    "CandidateReport",
    "Chains",
    "CoverageScaled",
    "GibbsLinear",
    "GridPoint",
    "GuardedVote",
    "Learner",
    "LearningReport",
    "NormalPosterior",
    "PACBayes",
    "PACBayesLinear",
    "PIWOGrid",
    "PathPoint",
    "PoolPoint",
    "PosteriorBound",
    "PosteriorPoint",
    "SplitLearner",
    "default_pool",
    "segments_of_learned",
]
