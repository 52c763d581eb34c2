"""The options of learning: one score, one oracle, one split."""

from __future__ import annotations

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

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
    "Learned",
    "score_of",
]

T = TypeVar("T")

AUTO = "auto"
POSTERIORS = ("pac-bayes", "gibbs")
"""Choices of --oracle that are learners of their own: mixtures of linear policies."""
Learned = piwo.PIWO | piwo.PIWOGrid | piwo.Auto | piwo.PACBayesLinear | piwo.GibbsLinear


def _needs_no_arguments(kind: Any) -> bool:
    """Whether something is a class of oracles that can be made without arguments."""
    if not isinstance(kind, type) or not issubclass(kind, Oracle) or inspect.isabstract(kind):
        return False
    parameters = inspect.signature(kind).parameters.values()
    return all(one.default is not one.empty for one in parameters)


SCORES: Mapping[str, type[Score]] = {
    name: kind for name, kind in piwo.scores.SCORES.items() if kind.linear
}
"""The scores that an oracle can maximize, by name."""
ADMISSIBLE = tuple(name for name, kind in SCORES.items() if kind().admissible)
"""The scores that have a grid of gammas, by name."""
_EXPORTED = (vars(piwo.oracles)[name] for name in piwo.oracles.__all__)
ORACLES: Mapping[str, type[Oracle]] = {
    kind.name: kind for kind in _EXPORTED if _needs_no_arguments(kind)
}
"""The oracles that can be chosen by name alone."""


@Parameter(name="*", group=Group("Learning", sort_key=1))
@dataclass(frozen=True)
class LearnOptions:
    """How to learn."""

    oracle: Annotated[
        str | None,
        Parameter(
            help=f"How to search: auto (a pool of learners, of which the certified best is kept), "
            f"{', '.join(ORACLES)}, or a posterior over linear policies: pac-bayes or gibbs "
            "(needs piwo[sampler]). [default: auto; classifier with --score or --gamma, or "
            "for unbounded rewards]",
            show=True,
        ),
    ] = None
    score: Annotated[
        str | None,
        Parameter(
            help=f"How a row is scored: {', '.join(SCORES)}; not for auto and direct. [default: "
            "ls-linear]"
        ),
    ] = None
    gamma: Annotated[
        str | None,
        Parameter(
            help="Smoothing parameter of the score: a number; several, separated by commas, or "
            f"grid (for {', '.join(ADMISSIBLE)}), of which the best certificate is "
            "kept; or auto: sqrt(d/n). It is lam/2 for ls-linear and the clips, beta "
            "for pl; iw has none. Not for auto and direct; gibbs takes one number. "
            "[default: grid for ls-linear and ix, else auto]"
        ),
    ] = None
    reward_model: Annotated[
        str | None,
        Parameter(
            help="forward: for dr-ls, predict the reward of every action by a model fitted to "
            "earlier training rows only. [default: constants]"
        ),
    ] = None
    refit: Annotated[
        bool | None,
        Parameter(
            help="For auto: save the policy learned again from all rows, which has no "
            "certificate, or the certified policy itself. [default: refit; with "
            "--gate the certified one]"
        ),
    ] = None
    incumbent: Annotated[
        str | None,
        Parameter(
            name=("--baseline", "--incumbent"),
            help="For auto: policy to improve on: a policy file made without this log, uniform or "
            "constant:LABEL. [default: the logging policy]",
            show=True,
        ),
    ] = None
    holdout: Annotated[
        float,
        Parameter(help="Fraction of the rows held out for the certificate.", show=True),
    ] = 0.5
    seed: Annotated[
        int, Parameter(help="Seed of the held-out split.", show=True, converter=whole)
    ] = 0
    tail: Annotated[
        bool,
        Parameter(help="Hold out the last rows, for an adaptive logging policy.", negative=""),
    ] = False
    delta: Annotated[float, Parameter(help="Error probability of the certificate.", show=True)] = (
        0.05
    )

    def chosen_oracle(self, bounded: bool) -> str:
        """Return the oracle, by default one that depends on the other options.

        Args:
            bounded: whether rewards have an upper end.
        """
        if self.oracle is not None:
            return self.oracle
        if bounded and self.score is None and self.gamma is None:
            return AUTO
        return "classifier"

    def learner(self, log: piwo.Log, gate: bool) -> Learned:
        """Return the learner.

        Args:
            log: the rows.
            gate: whether only a certified policy may be saved.

        Raises:
            UsageError: for an unknown score or oracle, a gamma that the score cannot have, and a
                refit with a gate.
        """
        name = self.chosen_oracle(math.isfinite(log.reward_range[1]))
        made: Learned
        if name == AUTO:
            made = self._auto(gate, log)
        else:
            self._refuse_options_of_auto(name)
            if name in POSTERIORS:
                made = self._posterior(name)
            else:
                made = self._one(_chosen(ORACLES, name, "oracle", AUTO, *POSTERIORS)())
        # a normal posterior records half of its delta in the certificate
        if name == "pac-bayes":
            delta = 2.0 * self.delta
        else:
            delta = self.delta
        return made.set_params(
            delta=delta, holdout=self.holdout, random_state=self.seed, tail=self.tail
        )

    def _one(self, oracle: Oracle) -> piwo.PIWO | piwo.PIWOGrid:
        """Return the learner with one oracle."""
        if not oracle.uses_score:
            self._refuse_score(f"the {oracle.name} oracle uses no score")
            return piwo.PIWO(oracle=oracle)
        score = self.score or "ls-linear"
        by_default = self.gamma is None and SCORES.get(score, Score).regret_known
        if self.gamma != "grid" and not by_default:
            return piwo.PIWO(self._modelled(score_of(score, self.gamma or "auto")), oracle)
        if score not in ADMISSIBLE:
            raise UsageError(
                f"--gamma got 'grid', but only {', '.join(ADMISSIBLE)} have one; give "
                f"{score} a number, or auto"
            )
        return piwo.PIWOGrid(self._modelled(SCORES[score]()), oracle)

    def _posterior(self, name: str) -> piwo.PACBayesLinear | piwo.GibbsLinear:
        """Return the learner of a mixture of linear policies."""
        score, gamma = self.score or "ls-linear", self.gamma or "auto"
        if name == "gibbs":
            if gamma == "grid":
                raise UsageError(
                    "--gamma got 'grid', but gibbs samples one posterior; give a number, or auto"
                )
            return piwo.GibbsLinear(self._modelled(score_of(score, gamma)))
        if not 0.0 < self.delta < 0.5:
            raise UsageError(
                f"--delta got {self.delta:g}, expected a number above 0 and below 0.5 for pac-bayes"
            )
        # its certificate uses a grid in any case
        if gamma == "grid":
            gamma = "auto"
        return piwo.PACBayesLinear(self._modelled(score_of(score, gamma)))

    def _auto(self, gate: bool, log: piwo.Log) -> piwo.Auto:
        """Return the learner with a pool."""
        if gate and self.refit:
            raise UsageError(
                "--gate cannot be combined with --refit, which saves a policy for "
                "which nothing is proved; leave one of them out"
            )
        self._refuse_score("--oracle auto tries several itself")
        incumbent = None
        if self.incumbent is not None:
            incumbent = named_policy(self.incumbent).make(log.actions)
        if self.refit is None:
            refit = not gate
        else:
            refit = self.refit
        return piwo.Auto(incumbent=incumbent, refit=refit)

    def _refuse_score(self, why: str) -> None:
        """Raise if an option of the score was given.

        Raises:
            UsageError: naming the first.
        """
        for option, given in (
            ("--score", self.score),
            ("--gamma", self.gamma),
            ("--reward-model", self.reward_model),
        ):
            if given is not None:
                raise UsageError(f"{option} got {given!r}, but {why}; leave it out")

    def _refuse_options_of_auto(self, name: str) -> None:
        """Raise if an option was given that only --oracle auto has.

        Raises:
            UsageError: naming the first.
        """
        for option, given in (("--refit", self.refit), ("--baseline", self.incumbent)):
            if given is not None:
                raise UsageError(
                    f"{option} is for --oracle auto, not for {name}, which saves the "
                    "certified policy; leave it out"
                )

    def _modelled(self, score: Score) -> Score:
        """Return the score with the reward model that was asked for."""
        if self.reward_model not in {None, FORWARD}:
            raise UsageError(f"--reward-model got {self.reward_model!r}, expected forward")
        if self.reward_model is None:
            return score
        return score.with_model(FORWARD)


DEFAULT_LEARNING = LearnOptions()


def score_of(name: str, gamma: str) -> Score:
    """Return the score that was named, with its hyper-parameter in its own terms: lam = 2 gamma.

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
    own: Any = value
    if isinstance(value, tuple):
        own = tuple(kind().at_gamma(x).number for x in value)
    elif not isinstance(value, str):
        own = kind().at_gamma(value).number
    arguments: dict[str, Any] = {kind.parameter: own}
    return kind(**arguments)


def _chosen(known: Mapping[str, type[T]], name: str, what: str, *others: str) -> type[T]:
    if name not in known:
        raise UsageError(f"--{what} got {name!r}, expected one of {', '.join([*others, *known])}")
    return known[name]
