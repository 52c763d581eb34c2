"""PAC-Bayes over linear policies: violation rates of the certificate and of the posterior bound.

Noise: two actions, twenty columns, rewards by a coin; every policy is worth 1/2, whatever was
learned. Rare: eight contexts, and the action of value .9 has propensity .04, the others are worth
.3. The values of mixtures are exact, that of a posterior is from 4000 draws. Each statement is at
delta/2 = .1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from piwo.learners import PACBayesLinear
from piwo.logs import Log

__all__ = ["CASES", "REPS", "Case", "failures", "rows"]

REPS = 60
DELTA = 0.2
CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """Actions by a logger that does not look, rewards by the action alone.

    >>> CASES[0].value(np.array([[0.25, 0.75]]))
    0.5
    """

    name: str
    n: int
    width: int
    """Columns of noise: normal, or the corners of a cube where there are three."""
    mu: tuple[float, ...]
    chance: tuple[float, ...]

    def contexts(self, rng: np.random.Generator) -> Floats:
        """Return the contexts of a log."""
        if self.width == CORNERS.shape[1]:
            return np.asarray(CORNERS[rng.integers(0, len(CORNERS), self.n)])
        return rng.normal(size=(self.n, self.width))

    def log(self, rng: np.random.Generator) -> Log:
        """Return a log."""
        X, A = self.contexts(rng), rng.choice(len(self.mu), self.n, p=self.mu)
        R = (rng.random(self.n) < np.asarray(self.chance)[A]).astype(float)
        mu = np.asarray(self.mu)[A]
        return Log.from_arrays(
            context=X, action=A, reward=R, propensity=mu, actions=range(len(self.mu))
        )

    def value(self, table: Floats) -> float:
        """Return the value of a policy with these probabilities if all contexts are alike."""
        return float((table @ np.asarray(self.chance)).mean())


CASES = (
    Case("noise", 100, 20, (0.5, 0.5), (0.5, 0.5)),
    Case("rare", 400, 3, (0.04, 0.48, 0.48), (0.9, 0.3, 0.3)),
)


def failures(case: Case, prior: str, seed: int) -> tuple[float, ...]:
    """Return the certificate of one log, and whether each of its three bounds is too high.

    >>> failures(CASES[0], "split", 0)[1:]
    (0.0, 0.0, 0.0)
    """
    log = case.log(np.random.default_rng(seed))
    learner = PACBayesLinear(prior=prior, draws=20, steps=30, delta=DELTA, random_state=seed).fit(
        log
    )
    made, at = (
        learner.certificate_,
        CORNERS if case.width == CORNERS.shape[1] else np.zeros((1, case.width)),
    )
    value, logged = (
        case.value(learner.policy_.probabilities(at)),
        case.value(np.asarray(case.mu)[None]),
    )
    # rows that contradict their propensities get no bounds
    low, better = (
        made.value_lower or 0.0,
        -1.0 if made.improvement_lower is None else made.improvement_lower,
    )
    posterior = learner.posterior_bound_.lower or 0.0
    many = learner.posterior_.draw(4000, np.random.default_rng(seed))
    scores = np.einsum("nj,mkj->mnk", learner.posterior_.inputs(at), many)
    table = np.exp(scores - scores.max(axis=2, keepdims=True))
    own = case.value((table / table.sum(axis=2, keepdims=True)).mean(axis=0))
    wrong = low > value, better > value - logged, posterior > own
    return low, *(float(x) for x in wrong)


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return mean certificates and how often each statement fails, by bandit and prior."""
    made: list[Mapping[str, Any]] = []
    for case in CASES:
        for prior in ("split", "zero"):
            each = np.array([failures(case, prior, seed) for seed in range(reps)]).mean(axis=0)
            names = (
                "mean certificate",
                "certificate above",
                "improvement above",
                "posterior's bound above",
            )
            found = dict(zip(names, each.tolist(), strict=True))
            made.append({"bandit": case.name, "prior": prior, **found})
    return made
