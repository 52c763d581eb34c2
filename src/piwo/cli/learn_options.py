"""The options that say how a policy is learned: one score, one oracle, one split."""

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
    "ORACLES",
    "POSTERIORS",
    "SCORES",
    "USUAL_LEARNING",
    "LearnOptions",
    "Learned",
    "score_of",
]

T = TypeVar("T")

AUTO = "auto"
POSTERIORS = ("pac-bayes", "gibbs")
"""Ways to a mixture of linear policies, which come with their learner in place of an oracle."""
Learned = piwo.PIWO | piwo.PIWOGrid | piwo.Auto | piwo.PACBayesLinear | piwo.GibbsLinear


def _needs_nothing(kind: Any) -> bool:
    oracle = isinstance(kind, type) and issubclass(kind, Oracle) and not inspect.isabstract(kind)
    return oracle and all(
        x.default is not x.empty for x in inspect.signature(kind).parameters.values()
    )


SCORES: Mapping[str, type[Score]] = {
    name: kind for name, kind in piwo.scores.SCORES.items() if kind.linear
}
"""The scores that an oracle can maximize, by name."""
ADMISSIBLE = tuple(name for name, kind in SCORES.items() if kind().admissible)
"""Those that a grid of gammas may be learned with, by name."""
ORACLES: Mapping[str, type[Oracle]] = {
    x.name: x
    for x in (vars(piwo.oracles)[name] for name in piwo.oracles.__all__)
    if _needs_nothing(x)
}
"""The oracles that need no further description, by name."""


@Parameter(name="*", group=Group("Learning", sort_key=1))
@dataclass(frozen=True)
class LearnOptions:
    """How to learn."""

    oracle: Annotated[
        str | None,
        Parameter(
            help=f"How to search: auto (a pool of learners, of which the certified best is kept), "
            f"{', '.join(ORACLES)}, or a posterior over linear policies: pac-bayes or gibbs "
            "(needs piwo[sampler]). [default: auto; classifier with --score or --gamma, or for "
            "unbounded rewards]",
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
            f"grid (for {', '.join(ADMISSIBLE)}), of which the best certificate is kept; or "
            "auto: sqrt(d/n). It is lam/2 for ls-linear and the clips, beta for pl; iw has "
            "none. Not for auto and direct; gibbs takes one number. [default: grid for "
            "ls-linear and ix, else auto]"
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
            "certificate, or the certified policy itself. [default: refit; with --gate the "
            "certified one]"
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

    def sought(self, bounded: bool) -> str:
        """Return how a policy is sought, for rewards with an upper end or without."""
        if self.oracle is not None:
            return self.oracle
        return AUTO if bounded and self.score is None and self.gamma is None else "classifier"

    def learner(self, log: piwo.Log, gate: bool) -> Learned:
        """Return the learner.

        Args:
            log: the rows.
            gate: what is saved is to be certified.

        Raises:
            UsageError: for an unknown score or oracle, a gamma that the score cannot have, and a
                refit that is to pass the gate.
        """
        name = self.sought(math.isfinite(log.reward_range[1]))
        if name == AUTO:
            if gate and self.refit:
                raise UsageError(
                    "--gate lets a certified policy pass, and --refit saves one of which nothing "
                    "is proved; leave one of them out"
                )
            return self._auto(not gate if self.refit is None else self.refit, log)
        for option, given in (("--refit", self.refit), ("--baseline", self.incumbent)):
            if given is not None:
                raise UsageError(
                    f"{option} is for --oracle auto, not for {name}, which saves the certified "
                    "policy; leave it out"
                )
        if name in POSTERIORS:
            return self._posterior(name)
        oracle, score = (
            _chosen(ORACLES, name, "oracle", AUTO, *POSTERIORS)(),
            self.score or "ls-linear",
        )
        if not oracle.uses_score:
            return self._without_score(oracle)
        if self.gamma == "grid" or (self.gamma is None and SCORES.get(score, Score).regret_known):
            if score not in ADMISSIBLE:
                known = ", ".join(ADMISSIBLE)
                raise UsageError(
                    f"--gamma got 'grid', but only {known} have one; give {score} a number, or auto"
                )
            return piwo.PIWOGrid(
                self._modelled(SCORES[score]()),
                oracle,
                delta=self.delta,
                holdout=self.holdout,
                random_state=self.seed,
                tail=self.tail,
            )
        return piwo.PIWO(
            self._modelled(score_of(score, self.gamma or "auto")),
            oracle,
            delta=self.delta,
            holdout=self.holdout,
            random_state=self.seed,
            tail=self.tail,
        )

    def _without_score(self, oracle: Oracle) -> piwo.PIWO:
        for option, given in (
            ("--score", self.score),
            ("--gamma", self.gamma),
            ("--reward-model", self.reward_model),
        ):
            if given is not None:
                raise UsageError(
                    f"{option} got {given!r}, but the {oracle.name} oracle uses no score; leave it "
                    "out"
                )
        return piwo.PIWO(
            oracle=oracle,
            delta=self.delta,
            holdout=self.holdout,
            random_state=self.seed,
            tail=self.tail,
        )

    def _modelled(self, score: Score) -> Score:
        """Return the score with the reward model that was asked for."""
        if self.reward_model not in {None, FORWARD}:
            raise UsageError(f"--reward-model got {self.reward_model!r}, expected forward")
        return score if self.reward_model is None else score.with_model(FORWARD)

    def _posterior(self, name: str) -> piwo.PACBayesLinear | piwo.GibbsLinear:
        score = self.score or "ls-linear"
        if name == "gibbs":
            if self.gamma == "grid":
                raise UsageError(
                    "--gamma got 'grid', but gibbs samples one posterior; give a number, or auto"
                )
            return piwo.GibbsLinear(
                self._modelled(score_of(score, self.gamma or "auto")),
                delta=self.delta,
                holdout=self.holdout,
                random_state=self.seed,
                tail=self.tail,
            )
        if not 0.0 < self.delta < 0.5:
            raise UsageError(
                f"--delta got {self.delta:g}, expected a number above 0 and below 0.5 for pac-bayes"
            )
        return piwo.PACBayesLinear(
            self._modelled(
                score_of(score, "auto" if self.gamma in {None, "grid"} else str(self.gamma))
            ),
            # half of it stands in the certificate
            delta=2.0 * self.delta,
            holdout=self.holdout,
            random_state=self.seed,
            tail=self.tail,
        )

    def _auto(self, refit: bool, log: piwo.Log) -> piwo.Auto:
        for option, given in (
            ("--score", self.score),
            ("--gamma", self.gamma),
            ("--reward-model", self.reward_model),
        ):
            if given is not None:
                raise UsageError(
                    f"{option} got {given!r}, but --oracle auto tries several itself; leave it out"
                )
        today = None if self.incumbent is None else named_policy(self.incumbent)
        return piwo.Auto(
            incumbent=None if today is None else today.make(log.actions),
            delta=self.delta,
            refit=refit,
            holdout=self.holdout,
            random_state=self.seed,
            tail=self.tail,
        )


USUAL_LEARNING = LearnOptions()


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
