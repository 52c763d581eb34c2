"""The learners: piwo's, and peers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy.typing as npt

import piwo
from benchmarks.quality import peers
from benchmarks.quality.six_members import six_members
from benchmarks.quality.worlds import World

__all__ = ["DEFAULT", "LEARNERS", "Choice", "Learner"]

DEFAULT = "Auto()"
"""What `piwo learn` runs."""


class Choice(NamedTuple):
    """What a learner plays that has several ways to choose, and which way it was."""

    played: npt.NDArray[Any] | None
    """None: the logging policy."""
    how: str


Plays = Callable[[World], npt.NDArray[Any] | Choice]
"""Codes (m,) or probabilities (m, K) on the fresh rows."""


@dataclass(frozen=True)
class Learner:
    """A way to learn, with what it needs and the largest log that it is asked to learn from."""

    plays: Plays
    library: str | None = None
    rows: int = 1_000_000
    """At most so many rows: beyond, it takes minutes."""
    cells: int = 1_000_000_000
    """At most so many rows x actions."""
    actions: int = 1000

    def refuses(self, rows: int, actions: int) -> str | None:
        """Return why it is not run on a log of this size, or None."""
        if self.library is not None and not peers.installed(self.library):
            return f"{self.library} is not installed"
        if rows > self.rows:
            return f"more than {self.rows} rows"
        if rows * actions > self.cells:
            return f"more than {self.cells} rows x actions"
        if actions > self.actions:
            return f"more than {self.actions} actions"
        return None


def _policy(policy: piwo.policies.Policy, world: World) -> npt.NDArray[Any]:
    if isinstance(policy, piwo.policies.DeterministicPolicy):
        return policy.decide(policy.context(world.fresh), len(world.fresh))
    return policy.distribution(policy.context(world.fresh), len(world.fresh))


def _auto(keep: Literal["logger"] | None = None) -> Plays:
    def plays(world: World) -> Choice:
        learner = piwo.Auto(keep=keep, random_state=world.seed).fit(world.log)
        policy = learner.policy_
        if isinstance(policy, piwo.policies.Logging):
            return Choice(None, "logging")
        how = "certified"
        if learner.chosen_ == "guarded vote":
            # a vote is deterministic, an imitation of the logger is drawn from
            how = "imitation"
            if isinstance(policy, piwo.policies.DeterministicPolicy):
                how = "vote"
        return Choice(_policy(policy, world), how)

    return plays


def _piwo(
    score: piwo.scores.Score | None, oracle: piwo.oracles.Oracle | None, **given: Any
) -> Plays:
    def plays(world: World) -> npt.NDArray[Any]:
        learner = piwo.PIWO(score, oracle, random_state=world.seed, **given)
        return _policy(learner.fit(world.log).policy_, world)

    return plays


def _grid(world: World) -> npt.NDArray[Any]:
    return _policy(piwo.PIWOGrid(random_state=world.seed).fit(world.log).policy_, world)


LEARNERS: dict[str, Learner] = {
    DEFAULT: Learner(_auto()),
    'Auto(keep="logger")': Learner(_auto("logger")),
    "PIWO(IX(), Softmax())": Learner(_piwo(piwo.IX(), piwo.oracles.Softmax())),
    "softmax, gamma sqrt(d/n)": Learner(_piwo(piwo.IX(), piwo.oracles.Softmax(), certificate=None)),
    "PIWO()": Learner(_piwo(None, None)),
    "PIWOGrid()": Learner(_grid),
    "logistic, gamma sqrt(d/n)": Learner(_piwo(None, None, certificate=None)),
    "direct ridge": Learner(_piwo(None, piwo.oracles.Direct(), certificate=None)),
    "guarded vote of six": Learner(six_members, rows=10_000, actions=50),
    "depth-2 tree on IX gains": Learner(peers.policy_tree, rows=100_000),
    "IPW learner of OBP": Learner(peers.ipw_learner, rows=100_000),
    "POEM": Learner(peers.poem, rows=100_000),
    "VW dm": Learner(peers.vw("dm"), "vowpalwabbit", cells=2_000_000),
    "VW dr": Learner(peers.vw("dr"), "vowpalwabbit", cells=2_000_000),
    "VW mtr": Learner(peers.vw_mtr, "vowpalwabbit", rows=10_000, cells=200_000),
    "contextualbandits offset tree": Learner(
        peers.offset_tree, "contextualbandits", rows=100_000, actions=100
    ),
    "contextualbandits DR": Learner(
        peers.doubly_robust, "contextualbandits", rows=100_000, cells=200_000
    ),
}
