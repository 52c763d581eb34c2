"""What all learners share: arguments by name, what may be certified, the split, and the certificates themselves."""

from __future__ import annotations

import inspect
import math
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Self

from piwo import bounds
from piwo.certificates.certificate import Kind
from piwo.checks import check_flag, check_kind, check_seed
from piwo.errors import UsageError, warn
from piwo.estimators.forward_model import forward_model
from piwo.learners.account import LearningReport
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.oracles import Oracle
from piwo.scores import Score

__all__ = [
    "CONTRADICTED",
    "HALF_OF_DELTA",
    "Learner",
    "Rows",
    "check_certifiable",
    "check_log",
    "check_regret_known",
    "check_score",
    "check_upper_end",
    "check_used",
    "credited",
    "divide",
    "fitted",
    "gamma_grid",
]

CONTRADICTED = "the rows contradict their propensities, so no certificate can choose: {}"
"""How a choice is told that rests on nothing but caution."""
HALF_OF_DELTA = (
    "this delta is half of the learner's, for the lower bounds; the other half is for the regret"
)
"""Why a certificate has another delta than was given."""


class Learner(ABC):
    """From a log to a certified policy, in scikit-learn's manners without importing it.

    The constructor stores its arguments, `fit` leaves them alone and adds what ends in an
    underscore.
    """

    @abstractmethod
    def fit(self, log: Log) -> Self:
        """Learn a policy from a log and certify it."""

    @abstractmethod
    def _account(self) -> LearningReport:
        """Return what `describe` returns, after `fit`."""

    def describe(self) -> LearningReport:
        """Return how the policy was found: what was tried, in numbers and in words.

        Raises:
            UsageError: before `fit`.
        """
        if not hasattr(self, "policy_"):
            raise UsageError("nothing was learned yet; call fit(log) first")
        return self._account()

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002
        """Return the constructor arguments by name."""
        return {
            name: getattr(self, name)
            for name in list(inspect.signature(type(self).__init__).parameters)[1:]
        }

    def set_params(self, **parameters: Any) -> Self:
        """Set constructor arguments by name.

        Raises:
            UsageError: for a name that is none.
        """
        for name, value in parameters.items():
            if name not in self.get_params():
                known = ", ".join(self.get_params())
                raise UsageError(
                    f"{type(self).__name__} has no parameter {name!r}, expected one of {known}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        shown = {
            name: value for name, value in self.get_params().items() if name in {"score", "oracle"}
        }
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in shown.items())})"


@dataclass(frozen=True)
class Rows:
    """The rows to learn from, the rows to certify on, and what a certificate records of the split."""

    training: Log
    test: Log | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)

    def exchanged(self) -> Rows:
        """Return the two parts of a random split with their roles exchanged; not for rows in the order of time.

        >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
        >>> one = divide(log, "held-out", 0.3, 0, False)
        >>> one.exchanged().facts["training_rows"] == len(one.test)
        True
        """
        assert self.test is not None
        # what is learned knows the actions and levels of its own rows alone, whichever part they
        # are
        training = replace(
            self.training, selector=self.test.selector, propensity_error=self.test.propensity_error
        )
        test = replace(
            self.test,
            selector=self.training.selector,
            propensity_error=self.training.propensity_error,
        )
        split = {**self.facts["split"], "exchanged": True}
        count = self.facts["log_rows"] - self.facts["training_rows"]
        return Rows(training, test, {**self.facts, "training_rows": count, "split": split})


def divide(log: Log, kind: Kind | None, holdout: float, random_state: Any, tail: bool) -> Rows:
    """Return a log as a certificate of this kind needs it: in two parts, whole twice, or whole.

    >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> divide(log, "in-sample", 0.5, 0, False).facts
    {'training_rows': 18, 'log_rows': 18}
    """
    check_seed("random_state", random_state)
    check_flag("tail", tail)
    if kind is None:
        return Rows(log)
    if kind == "in-sample":
        return Rows(log, log, {"training_rows": len(log), "log_rows": len(log)})
    seed = int(random_state)
    split = log.split(holdout=holdout, seed=seed, tail=tail)
    made = {
        "holdout": holdout,
        "seed": seed,
        "tail": tail,
        "key": log.columns.key,
        "notes": list(split.notes),
    }
    counts = {"training_rows": split.train_rows, "log_rows": split.train_rows + split.test_rows}
    return Rows(split.train, split.test, {**counts, "split": made})


def fitted(score: Score, log: Log) -> tuple[Score, str]:
    """Return a score with the reward model that it asks for, fitted to the rows to learn from, and that in words.

    Each row's predictions rest on earlier rows alone, so that the score's own lower bound holds on
    these rows, too.

    >>> from piwo.scores import DoublyRobustLS
    >>> log = Log.from_arrays(action=["a", "b"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    >>> fitted(DoublyRobustLS(0.1, q="forward"), log)[0].q.coef.shape
    (1, 2, 1)
    """
    if not score.wants_model:
        return score, ""
    return score.with_model(
        forward_model(log)
    ), "; q fitted forward, each row's on earlier rows to learn from"


def check_used(score: Score | None, oracle: Oracle) -> None:
    """Raise where a score is given to an oracle that uses none.

    Raises:
        UsageError: naming both.

    >>> from piwo.oracles import Direct
    >>> check_used(None, Direct())
    """
    if score is not None and not oracle.uses_score:
        raise UsageError(f"the {oracle.name} oracle uses no score, got {score!r:.80}; leave it out")


def credited(score: Score | None) -> dict[str, Any]:
    """Return what a certificate records of the score that a policy was learned with; of no score nothing.

    >>> from piwo.scores import IX
    >>> credited(IX(0.1)), credited(None)
    ({'score': 'ix', 'parameter': 0.1}, {'score': None, 'parameter': None})
    """
    if score is None:
        return {"score": None, "parameter": None}
    return {"score": score.name, "parameter": score.value}


def check_log(log: Any) -> None:
    """Raise where a log is none; warn where its propensities are known only roughly.

    Raises:
        UsageError: naming what was given.
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    for doubt in log.propensity_caveats:
        warn(doubt)


def check_score(score: Any) -> None:
    """Raise where no oracle can maximize a score.

    Raises:
        UsageError: for a score that is not linear in the policy.
    """
    check_kind("score", score, Score, " of piwo.scores")
    if not score.linear:
        raise UsageError(
            f"{score.label} is not linear in the policy, so no oracle can maximize it; use LSLinear"
        )


def check_upper_end(score: Score, log: Log) -> None:
    """Raise where the bounds of a score need rewards with an upper end, and these have none.

    Raises:
        UsageError: saying what to do.
    """
    if score.needs_upper_end and not math.isfinite(log.reward_range[1]):
        raise UsageError(
            f"{score.label} needs rewards with an upper end; declare reward_range, or use "
            "LSLinear()"
        )


def check_regret_known(score: Score) -> None:
    """Raise where no theorem bounds the regret of what is learned with a score.

    Raises:
        UsageError: naming the scores for which one does.
    """
    if not score.regret_known:
        raise UsageError(
            f"no theorem bounds the regret with {score.label}; learn with LSLinear() or IX()"
        )


def gamma_grid(score: Score, n: int, log_class_size: float, delta: float) -> bounds.GammaGrid:
    """Return the grid of gammas that theory has for a score, see `piwo.bounds.gamma_grid_ls`.

    >>> from piwo.scores import IX, LSLinear
    >>> [gamma_grid(score, 10_000, 0.0, 0.05).largest for score in (IX(), LSLinear())]
    [1.0, 16.0]
    """
    made = bounds.gamma_grid_ix if score.small_bets else bounds.gamma_grid_ls
    return made(n, log_class_size, delta)


def check_certifiable(log: Log, oracle: Oracle, kind: Kind | None) -> None:
    """Raise where a certificate of this kind would not hold.

    Raises:
        UsageError: for an in-sample certificate of a class of unknown size, and for thinned logs.
    """
    if kind == "in-sample" and oracle.log_class_size() is None:
        raise UsageError(
            f"the {oracle.name} oracle searches a class of unknown size, so no in-sample "
            f"certificate holds; use {argument('certificate', 'held-out')}"
        )
    if kind is not None and log.columns.weight is not None:
        raise UsageError(
            "the log was thinned (sampling weights), so no certificate holds; use "
            "PIWO(certificate=None)"
        )
