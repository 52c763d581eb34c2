"""Evaluation: what policies would have earned, with intervals, from one request."""

from piwo.evaluation.comparison import Comparison
from piwo.evaluation.coverage import CoverageEstimate, coverage
from piwo.evaluation.evaluate import compare, evaluate
from piwo.evaluation.gamma_path import GammaPath
from piwo.evaluation.guardrails import Guardrail, GuardrailResult
from piwo.evaluation.monitor import Look, Monitor
from piwo.evaluation.record import Evaluation
from piwo.evaluation.segment import Segment
from piwo.evaluation.select import Selection, select
from piwo.evaluation.watch import Watch
from piwo.evaluation.watch_history import WatchHistory, WatchLook
from piwo.evaluation.weights import weights

__all__ = [
    "Comparison",
    "CoverageEstimate",
    "Evaluation",
    "GammaPath",
    "Guardrail",
    "GuardrailResult",
    "Look",
    "Monitor",
    "Segment",
    "Selection",
    "Watch",
    "WatchHistory",
    "WatchLook",
    "compare",
    "coverage",
    "evaluate",
    "select",
    "weights",
]
