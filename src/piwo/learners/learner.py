"""What all learners share: arguments by name, a report, and the checks that `fit` makes."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from typing import Any, Self

from piwo.certificates.certificate import Kind
from piwo.checks import check_kind
from piwo.errors import UsageError, warn
from piwo.learners.report import LearningReport
from piwo.learners.split import Split
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Oracle
from piwo.scores import Score

__all__ = [
    "CONTRADICTED",
    "HALF_OF_DELTA",
    "Learner",
    "SplitLearner",
    "check_certifiable",
    "check_log",
    "check_regret_known",
    "check_upper_end",
]

CONTRADICTED = "the rows contradict their propensities, so no certificate can choose: {}"
"""The rule of a learner that could not choose by certificate."""
HALF_OF_DELTA = (
    "this delta is half of the learner's, for the lower bounds; the other half is for the regret"
)
"""Why a certificate has another delta than was given."""


@dataclass(eq=False, repr=False)
class Learner(ABC):
    """From a log to a certified policy.

    The constructor stores its arguments, `fit` leaves them unchanged and adds attributes that end
    in an underscore. Learners are dataclasses: the fields are the constructor's arguments.
    """

    @abstractmethod
    def fit(self, log: Log) -> Self:
        """Learn a policy from a log and certify it."""

    @abstractmethod
    def _report(self) -> LearningReport:
        """Return the result of `describe`, after `fit`."""

    def describe(self) -> LearningReport:
        """Return how the policy was found: the candidates in numbers, the rule in words.

        Raises:
            UsageError: before `fit`.
        """
        if not hasattr(self, "policy_"):
            raise UsageError("nothing was learned yet; call fit(log) first")
        return self._report()

    # get_params and set_params are those of scikit-learn, so that its `clone` works; its
    # BaseEstimator would bring them, but `import piwo` does not import scikit-learn, which is slow
    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor arguments by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments by name.

        Raises:
            UsageError: for an unknown name.
        """
        known = self.get_params()
        for name, value in parameters.items():
            if name not in known:
                raise UsageError(
                    f"{type(self).__name__} has no parameter {name!r}, expected one of "
                    f"{', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        known = self.get_params()
        shown = [f"{name}={known[name]!r}" for name in ("score", "oracle") if name in known]
        return f"{type(self).__name__}({', '.join(shown)})"


@dataclass(eq=False, repr=False, kw_only=True)
class SplitLearner(Learner):
    """A learner that can learn from one part of a log and certify on the other.

    Args:
        delta: error probability of the certificate.
        holdout: fraction of the rows that is held out.
        random_state: seed of the split, a whole number.
        tail: hold out the last rows of the log instead of random ones: for adaptive logs, whose
            logger learned from earlier rows.
    """

    delta: float = 0.05
    holdout: float = 0.5
    random_state: int = 0
    tail: bool = False

    def _split(self, log: Log, kind: Kind | None) -> Split:
        """Return the rows to learn from and those to certify on, for a certificate of this kind."""
        return Split.of(log, kind, self.holdout, self.random_state, self.tail)


def check_log(log: Any) -> None:
    """Check that a log is one; warn if its propensities are uncertain.

    Raises:
        UsageError: naming what was given.
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    for caveat in log.propensity_caveats:
        warn(caveat)


def check_certifiable(log: Log, oracle: Oracle, kind: Kind | None) -> None:
    """Check that a certificate of this kind would be valid.

    Raises:
        UsageError: for an in-sample certificate of a class of unknown size, and for thinned logs.
    """
    if kind == "in-sample" and oracle.log_class_size() is None:
        raise UsageError(
            f"the {oracle.name} oracle searches a class of unknown size, so no "
            f"in-sample certificate is valid; use {argument('certificate', 'held-out')}"
        )
    if kind is not None:
        log.require_provable(
            "no certificate is valid; read all rows of the log, or learn without a certificate"
        )


def check_upper_end(score: Score, log: Log) -> None:
    """Check that rewards have an upper end if the bounds of a score need one.

    Raises:
        UsageError: saying what to do.
    """
    if score.needs_upper_end and not math.isfinite(log.reward_range[1]):
        raise UsageError(
            f"{score.label} needs rewards with an upper end; declare "
            f"{argument('reward_range')}, or use LSLinear()"
        )


def check_regret_known(score: Score, reward_range: tuple[float, float]) -> None:
    """Check that a theorem bounds the regret of what is learned with a score on these rewards.

    Raises:
        UsageError: for other scores, and for rewards without an upper end.
    """
    if not score.regret_known:
        raise UsageError(
            f"no theorem bounds the regret with {score.label}; learn with LSLinear() or IX()"
        )
    if not math.isfinite(reward_range[1]):
        raise UsageError(
            "the rewards have no upper end, so coverage bounds no regret; declare "
            f"{argument('reward_range')}"
        )
