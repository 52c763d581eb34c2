"""piwo: evaluate, learn and certify policies from logged decisions.

log = piwo.read("logs/*.parquet", action="item", reward="click", propensity="p", context=["x_*"])
piwo.check(log)                                             # is the log fit for use?
piwo.evaluate(log, piwo.policies.Uniform(log.actions))      # what would another policy have earned?
learner = piwo.PIWOGrid().fit(log)                          # which policy should run?
learner.certificate_                                        # and is it better than today's?
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from piwo import (
    bounds,
    estimators,
    evaluation,
    formats,
    intervals,
    logs,
    oracles,
    policies,
    scores,
)
from piwo._version import __version__
from piwo.certificates import Certificate, RegretCertificate, certify, regret_certificate
from piwo.decision import Decision, Units, decide
from piwo.engines import checkpointing, reporting, using
from piwo.errors import DataError, FileError, PiwoError, PiwoWarning, UsageError
from piwo.estimators import cross_fit, estimate_propensities
from piwo.evaluation import (
    Evaluation,
    Monitor,
    Selection,
    Watch,
    compare,
    evaluate,
    select,
    weights,
)
from piwo.formats import from_obp, join, to_obp
from piwo.gates import Gate, gate
from piwo.health import Health, check
from piwo.logs import Actions, Features, Log, read
from piwo.oracles import gains
from piwo.policies import load
from piwo.scores import IW, IX, LS, BaselineRelative, Clip, DoublyRobustLS, LSLinear, PseudoLoss

if TYPE_CHECKING:
    from piwo import learners, mlflow, plots, report, serve, simulate, sklearn, slates
    from piwo.learners import (
        PIWO,
        Auto,
        Candidate,
        GibbsLinear,
        PACBayes,
        PACBayesLinear,
        PIWOGrid,
    )

__all__ = [
    "IW",
    "IX",
    "LS",
    "PIWO",
    "Actions",
    "Auto",
    "BaselineRelative",
    "Candidate",
    "Certificate",
    "Clip",
    "DataError",
    "Decision",
    "DoublyRobustLS",
    "Evaluation",
    "Features",
    "FileError",
    "Gate",
    "GibbsLinear",
    "Health",
    "LSLinear",
    "Log",
    "Monitor",
    "PACBayes",
    "PACBayesLinear",
    "PIWOGrid",
    "PiwoError",
    "PiwoWarning",
    "PseudoLoss",
    "RegretCertificate",
    "Selection",
    "Units",
    "UsageError",
    "Watch",
    "__version__",
    "bounds",
    "certify",
    "check",
    "checkpointing",
    "compare",
    "cross_fit",
    "decide",
    "estimate_propensities",
    "estimators",
    "evaluate",
    "evaluation",
    "formats",
    "from_obp",
    "gains",
    "gate",
    "intervals",
    "join",
    "learners",
    "load",
    "logs",
    "mlflow",
    "oracles",
    "plots",
    "policies",
    "read",
    "regret_certificate",
    "report",
    "reporting",
    "scores",
    "select",
    "serve",
    "simulate",
    "sklearn",
    "slates",
    "to_obp",
    "using",
    "weights",
]


_LEARNERS = frozenset(
    {"PIWO", "Auto", "Candidate", "GibbsLinear", "PACBayes", "PACBayesLinear", "PIWOGrid"}
)
_MODULES = frozenset(
    {"learners", "mlflow", "plots", "report", "serve", "simulate", "sklearn", "slates"}
)


def __getattr__(name: str) -> Any:
    """Return what is imported when it is first used: learners, `piwo.report` and the like."""
    if name in _MODULES:
        return import_module(f"piwo.{name}")
    if name in _LEARNERS:
        return getattr(import_module("piwo.learners"), name)
    raise AttributeError(f"module 'piwo' has no attribute {name!r}")


def __dir__() -> list[str]:
    """Return the public names, imported or not."""
    return sorted({*globals(), *__all__})
