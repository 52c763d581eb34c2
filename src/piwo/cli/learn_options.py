"""The options of `piwo learn`, and the learner that they describe."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeVar

from cyclopts import Group, Parameter

import piwo
from piwo.cli.log_options import whole
from piwo.cli.shared_options import gamma_of, named_policy
from piwo.errors import UsageError
from piwo.oracles import Oracle
from piwo.scores import Score
from piwo.scores.doubly_robust_ls import FORWARD

__all__ = [
    "AUTO",
    "DEFAULT_LEARNING",
    "ORACLES",
    "POSTERIORS",
    "SCORES",
    "LearnOptions",
    "Learner",
    "score_of",
]

T = TypeVar("T")

AUTO = "auto"
POSTERIORS = ("pac-bayes", "gibbs")
"""Choices of --oracle that have a learner of their own, of a posterior over linear policies."""
Learner = piwo.PIWO | piwo.PIWOGrid | piwo.Auto | piwo.PACBayesLinear | piwo.GibbsLinear


def _is_plain_oracle(kind: Any) -> bool:
    """Whether something is a class of oracles that can be made without arguments."""
    if not isinstance(kind, type) or not issubclass(kind, Oracle):
        return False
    parameters = inspect.signature(kind).parameters.values()
    defaults = all(one.default is not one.empty for one in parameters)
    return defaults and not inspect.isabstract(kind)


SCORES: Mapping[str, type[Score]] = {
    name: kind for name, kind in piwo.scores.SCORES.items() if kind.linear
}
"""name -> score that an oracle can maximize."""
WITH_GRID = tuple(name for name, kind in SCORES.items() if kind().admissible)
"""Names of the scores that have a grid of gammas."""
_EXPORTED = (vars(piwo.oracles)[name] for name in piwo.oracles.__all__)
ORACLES: Mapping[str, type[Oracle]] = {
    kind.name: kind for kind in _EXPORTED if _is_plain_oracle(kind)
}
"""name -> oracle that needs no arguments, so that its name is enough."""


@Parameter(name="*", group=Group("Learning", sort_key=1))
@dataclass(frozen=True)
class LearnOptions:
    """How to learn."""

    oracle: Annotated[
        str | None,
        Parameter(
            help=f"auto, {', '.join(ORACLES)}, pac-bayes, gibbs. [default: auto]",
            show=True,
        ),
    ] = None
    score: Annotated[
        str | None,
        Parameter(
            help=f"Score of a row: {', '.join(SCORES)}; not for auto and direct. "
            "With it, with --gamma, or without an upper end of the reward, the default oracle is "
            "classifier. [default: ls-linear]"
        ),
    ] = None
    gamma: Annotated[
        str | None,
        Parameter(
            help="Smoothing parameter of the score: a number; or several, separated by "
            f"commas, or grid (for {', '.join(WITH_GRID)}), to keep the one with the best "
            "certificate; or auto: sqrt(d/n). It is lam/2 for ls-linear and the clips, "
            "beta for pl; iw has none. Not for auto and direct; gibbs takes one number. "
            "[default: grid for ls-linear and ix, else auto]"
        ),
    ] = None
    reward_model: Annotated[
        str | None,
        Parameter(
            help="forward: for dr-ls, predict the reward of every action with a model fitted "
            "to earlier training rows only. [default: constants]"
        ),
    ] = None
    refit: Annotated[
        bool | None,
        Parameter(
            help="For auto: save the policy learned again from all rows, which has no "
            "certificate (--refit), or the certified policy (--no-refit). [default: "
            "--refit; with --gate, --no-refit]",
            negative="--no-refit",
        ),
    ] = None
    keep: Annotated[
        str | None,
        Parameter(
            help="For auto: logger saves the logging policy if nothing is certified better. "
            "[default: a cautious policy that is not certified; with --gate, logger]",
        ),
    ] = None
    seconds: Annotated[
        float | None,
        Parameter(
            help="For auto: limit on its time. [default: no limit]",
            show=True,
        ),
    ] = None
    incumbent: Annotated[
        str | None,
        Parameter(
            name=("--baseline", "--incumbent"),
            help="Policy to improve on. [default: logging]",
            show=True,
        ),
    ] = None
    holdout: Annotated[
        float,
        Parameter(help="Fraction held out to certify.", show=True),
    ] = 0.5
    seed: Annotated[
        int, Parameter(help="Seed of the held-out split.", show=True, converter=whole)
    ] = 0
    tail: Annotated[
        bool,
        Parameter(help="Hold out the last rows, for a logger that learned from earlier ones."),
    ] = False
    delta: Annotated[float, Parameter(help="Error probability of bounds.", show=True)] = 0.05

    def chosen_oracle(self, bounded: bool) -> str:
        """Return the name of the oracle; the default depends on the other options.

        Args:
            bounded: whether rewards have an upper end.
        """
        if self.oracle is not None:
            return self.oracle
        if bounded and self.score is None and self.gamma is None:
            return AUTO
        return "classifier"

    def learner(self, log: piwo.Log, gate: bool) -> Learner:
        """Return the learner.

        Args:
            log: the rows.
            gate: whether only a certified policy may be saved.

        Raises:
            UsageError: for an unknown score or oracle, a gamma that the score cannot have, and
                --refit with --gate.
        """
        name = self.chosen_oracle(math.isfinite(log.reward_range[1]))
        made: Learner
        if name == AUTO:
            made = self._auto(gate, log)
        else:
            self._refuse_options_of_auto(name)
            if name in POSTERIORS:
                made = self._posterior(name)
            else:
                made = self._one(_chosen(ORACLES, name, "oracle", AUTO, *POSTERIORS)())
        delta = self.delta
        # Half of this learner's delta is for a regret bound, which the command does not print.
        if name == "pac-bayes":
            delta = 2.0 * self.delta
        return made.set_params(
            delta=delta, holdout=self.holdout, random_state=self.seed, tail=self.tail
        )

    def _one(self, oracle: Oracle) -> piwo.PIWO | piwo.PIWOGrid:
        """Return the learner with one oracle."""
        if not oracle.uses_score:
            self._refuse_score(f"the {oracle.name} oracle uses no score")
            return piwo.PIWO(oracle=oracle)
        score = self.score or "ls-linear"
        # Scores with a regret theorem have a grid by default.
        by_default = self.gamma is None and SCORES.get(score, Score).regret_known
        if self.gamma != "grid" and not by_default:
            made = score_of(score, self.gamma or "auto")
            return piwo.PIWO(self._with_model(made), oracle)
        if score not in WITH_GRID:
            raise UsageError(
                f"--gamma got 'grid', but only {', '.join(WITH_GRID)} have one; give "
                f"{score} a number, or auto"
            )
        return piwo.PIWOGrid(self._with_model(SCORES[score]()), oracle)

    def _posterior(self, name: str) -> piwo.PACBayesLinear | piwo.GibbsLinear:
        """Return the learner of a posterior over linear policies."""
        score, gamma = self.score or "ls-linear", self.gamma or "auto"
        if name == "gibbs":
            if gamma == "grid":
                raise UsageError(
                    "--gamma got 'grid', but gibbs samples one posterior; give a number, or auto"
                )
            return piwo.GibbsLinear(self._with_model(score_of(score, gamma)))
        # `learner` doubles it.
        if not 0.0 < self.delta < 0.5:
            raise UsageError(
                f"--delta got {self.delta:g}, expected above 0 and below 0.5 for pac-bayes"
            )
        # Its certificate uses a grid in any case.
        if gamma == "grid":
            gamma = "auto"
        return piwo.PACBayesLinear(self._with_model(score_of(score, gamma)))

    def _auto(self, gate: bool, log: piwo.Log) -> piwo.Auto:
        """Return the learner that tries several others."""
        if gate and self.refit:
            raise UsageError(
                "--gate cannot be combined with --refit, which saves a policy without a "
                "certificate; leave one of them out"
            )
        self._refuse_score("--oracle auto tries several itself")
        incumbent = None
        if self.incumbent is not None:
            incumbent = named_policy(self.incumbent).make(log.actions)
        refit = self.refit
        if refit is None:
            # A gate asks for a certified policy, and one learned again has no certificate.
            refit = not gate
        if self.keep not in {None, "logger"}:
            raise UsageError(f"--keep got {self.keep!r}, expected logger")
        keep: Literal["logger"] | None = None
        if gate or self.keep is not None:
            keep = "logger"
        return piwo.Auto(incumbent=incumbent, refit=refit, keep=keep, seconds=self.seconds)

    def _refuse_score(self, why: str) -> None:
        """Raise if an option of the score was given.

        Args:
            why: why it has no effect.

        Raises:
            UsageError: naming the first.
        """
        options = {
            "--score": self.score,
            "--gamma": self.gamma,
            "--reward-model": self.reward_model,
        }
        for option, given in options.items():
            if given is not None:
                raise UsageError(f"{option} got {given!r}, but {why}; leave it out")

    def _refuse_options_of_auto(self, name: str) -> None:
        """Raise if an option was given that only --oracle auto has.

        Args:
            name: of the oracle.

        Raises:
            UsageError: naming the first.
        """
        options = {
            "--refit": self.refit,
            "--keep": self.keep,
            "--baseline": self.incumbent,
            "--seconds": self.seconds,
        }
        for option, given in options.items():
            if given is not None:
                raise UsageError(
                    f"{option} is for --oracle auto, not for {name}, which saves the "
                    "certified policy; leave it out"
                )

    def _with_model(self, score: Score) -> Score:
        """Return the score with the reward model of --reward-model."""
        model = self.reward_model
        if model not in {None, FORWARD}:
            raise UsageError(f"--reward-model got {model!r}, expected forward")
        if model is None:
            return score
        return score.with_model(FORWARD)


DEFAULT_LEARNING = LearnOptions()


def score_of(name: str, gamma: str) -> Score:
    """Return the score of this name at gamma, which it may call and scale otherwise: lam = 2 gamma.

    Raises:
        UsageError: for an unknown name, or a gamma for a score without one.

    >>> score_of("ls-linear", "0.1")
    LSLinear(lam=0.2)
    """
    kind, value = _chosen(SCORES, name, "score"), gamma_of(gamma)
    if kind.parameter is None:
        if value != "auto":
            raise UsageError(
                f"--gamma got {gamma!r}, but the score {name} has no gamma; leave it out"
            )
        return kind()
    # "auto" is the same for all scores; each knows how its parameter follows from gamma.
    own: Any = value
    if isinstance(value, tuple):
        own = tuple(kind().at_gamma(x).number for x in value)
    elif not isinstance(value, str):
        own = kind().at_gamma(value).number
    arguments: dict[str, Any] = {kind.parameter: own}
    return kind(**arguments)


def _chosen(known: Mapping[str, type[T]], name: str, what: str, *others: str) -> type[T]:
    """Return a class by its name.

    Args:
        known: name -> class.
        name: as it was typed.
        what: the option, without dashes.
        others: names that the option takes besides.

    Raises:
        UsageError: for an unknown name.
    """
    if name not in known:
        names = ", ".join([*others, *known])
        raise UsageError(f"--{what} got {name!r}, expected one of {names}")
    return known[name]
