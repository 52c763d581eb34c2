"""Every learner tells how it came to its policy, in one form."""

import json
from collections.abc import Callable

import numpy as np
import pytest

import piwo
from piwo.learners import Learner
from piwo.policies.sameness import same_policy

PAIR = [piwo.policies.Constant(x, [0, 1]) for x in (0, 1)]
BOTH = piwo.oracles.Exhaustive(PAIR)
RIDGE = piwo.oracles.Ridge()
LEARNERS: dict[str, tuple[Callable[[], Learner], int, str]] = {
    "PIWO": (lambda: piwo.PIWO(piwo.IX((0.1, 0.2)), RIDGE), 2, "score ix, oracle ridge"),
    "PIWO, no score": (lambda: piwo.PIWO(oracle=piwo.oracles.Direct()), 1, "oracle direct"),
    "PIWO, no certificate": (
        lambda: piwo.PIWO(piwo.IX(0.1), RIDGE, certificate=None),
        0,
        "score ix",
    ),
    "PIWOGrid": (lambda: piwo.PIWOGrid(oracle=BOTH), 10, "score ls-linear, oracle exhaustive"),
    "Auto": (lambda: piwo.Auto([RIDGE]), 4, "certified on"),
    "PACBayes": (lambda: piwo.PACBayes(PAIR), 1, "score ls-linear, oracle Gibbs"),
    "PACBayesLinear": (
        lambda: piwo.PACBayesLinear(draws=5),
        1,
        "score ls-linear, oracle normal posterior, softmax",
    ),
    "CoverageScaled": (
        lambda: piwo.learners.CoverageScaled(BOTH, [2.0, 2.0]),
        1,
        "score ix, oracle exhaustive",
    ),
}


def make_log(reward: int = 0) -> piwo.Log:
    rng = np.random.default_rng(0)
    A = (rng.random(400) < 0.6).astype(int)
    mu = np.where(A == 0, 0.4, 0.6)
    return piwo.Log.from_arrays(
        context=rng.normal(size=(400, 2)),
        action=A,
        reward=1.0 * (reward == A),
        propensity=mu,
        actions=[0, 1],
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_what_a_learner_tells(name: str) -> None:
    make, least, with_what = LEARNERS[name]
    learner = make()
    with pytest.raises(piwo.UsageError, match="nothing was learned yet"):
        learner.describe()
    told = learner.fit(make_log()).describe()
    assert told.lines[0].startswith("learned ")
    assert with_what in told.lines[0]
    assert len(told.tried) >= least
    assert sum(one.chosen for one in told.tried) == (name != "PIWO, no certificate")
    for one in told.tried:
        assert set(told.columns) <= set(one.facts)
    json.dumps([told.facts, *(dict(one.facts) for one in told.tried)], allow_nan=False)
    assert told.stays is None


def test_the_choice_is_the_policy() -> None:
    for learner in (
        piwo.PIWO(piwo.IX((0.1, 0.2)), RIDGE),
        piwo.PIWOGrid(oracle=RIDGE),
        piwo.Auto([RIDGE], refit=False),
    ):
        (chosen,) = [one for one in learner.fit(make_log()).describe().tried if one.chosen]
        assert same_policy(chosen.policy, learner.policy_)
        assert chosen.facts["value_lower"] == learner.certificate_.value_lower


def test_what_stays_is_told() -> None:
    log = make_log()
    assert piwo.Auto([RIDGE], incumbent=PAIR[0]).fit(log).describe().stays == "the incumbent"
    nothing = piwo.Log.from_arrays(
        context=[[0.0]] * 60,
        action=[0, 1] * 30,
        reward=[0] * 60,
        propensity=[0.5] * 60,
        reward_range=(0, 1),
    )
    told = piwo.Auto([RIDGE]).fit(nothing).describe()
    assert told.stays == "the logging policy"
    assert told.facts == {"chosen": "logging", "refitted": False}
