"""What a user asks for costs as few passes over the log as it can: on a large log a pass is what
costs."""

from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.engines import using
from piwo.oracles import Exhaustive, Ridge


class Counting:
    """A mapper that counts the passes it was asked for."""

    def __init__(self) -> None:
        self.passes = 0

    def map(self, fn: Callable[[Any], Any], fragments: Iterable[Any], /) -> Iterable[Any]:
        self.passes += 1
        return map(fn, fragments)


@pytest.fixture(scope="module")
def log() -> piwo.Log:
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=4000), rng.integers(0, 3, 4000)
    reward = (rng.random(4000) < 0.3 + 0.3 * (a == (x > 0))) * 1.0
    return piwo.Log.from_arrays(
        context=x[:, None],
        action=a,
        reward=reward,
        propensity=np.full(4000, 1 / 3),
        actions=range(3),
    )


def constants(log: piwo.Log) -> list[piwo.policies.Policy]:
    return [piwo.policies.Constant(x, log.actions) for x in log.actions]


@pytest.mark.parametrize(
    ("ask", "passes"),
    [
        pytest.param(piwo.check, 1, id="check: sums"),
        pytest.param(
            lambda log: piwo.evaluate(log, piwo.policies.Uniform(log.actions)), 1, id="evaluate"
        ),
        pytest.param(
            lambda log: piwo.compare(log, {str(i): x for i, x in enumerate(constants(log))}),
            1,
            id="many policies",
        ),
        pytest.param(
            lambda log: Ridge().solve_path(log, [piwo.IX(g) for g in (0.01, 0.1, 1.0)]),
            1,
            id="ridge path",
        ),
        pytest.param(
            lambda log: piwo.PIWOGrid(oracle=Ridge()).fit(log),
            4,
            id="grid held-out: look at the rows, split, learn all, certify all",
        ),
        pytest.param(
            lambda log: piwo.PIWOGrid(oracle=Exhaustive(constants(log))).fit(log),
            2,
            id="grid in-sample: learn all, exact inverses and mixture bounds together",
        ),
    ],
)
def test_passes(log: piwo.Log, ask: Callable[[piwo.Log], object], passes: int) -> None:
    mapper = Counting()
    with using(mapper):
        ask(log)
    assert mapper.passes == passes


def test_what_is_declared_is_not_looked_for() -> None:
    rows = {"x0": np.arange(400.0), "event": range(400), "action": [0, 1] * 200}
    keyed = piwo.read(
        {**rows, "reward": [0, 1] * 200, "propensity": [0.5] * 400},
        context="x0",
        key="event",
        actions=[0, 1],
        logger="fixed",
    )
    mapper = Counting()
    with using(mapper):
        piwo.PIWOGrid(oracle=Ridge()).fit(keyed)
    # split, learn all, certify all
    assert mapper.passes == 3


def raw(**more: object) -> piwo.Log:
    rows = {
        "action": ["a", "b", "c"] * 40,
        "reward": [0, 1, 0] * 40,
        "propensity": [1 / 3] * 120,
        "city": ["north", "south"] * 60,
        "row": range(120),
    }
    return piwo.read(rows, context="city", **more)


@pytest.mark.parametrize(
    ("ask", "passes"),
    [
        pytest.param(lambda log: log.actions, 1, id="actions"),
        pytest.param(lambda log: log.features, 1, id="features"),
        pytest.param(lambda log: (log.actions, log.actions, log.features), 2, id="each once"),
        pytest.param(lambda log: log.split(0.5), 2, id="split: actions, tally"),
        pytest.param(lambda log: len(log.split(0.5).test), 3, id="rows of a part"),
        pytest.param(piwo.check, 2, id="check: actions, sums"),
    ],
)
def test_what_is_found_out_of_a_log_runs_on_the_mapper_too(
    ask: Callable[[piwo.Log], object], passes: int
) -> None:
    mapper = Counting()
    with using(mapper):
        ask(raw())
    assert mapper.passes == passes


def test_a_refusal_is_counted_on_the_mapper_too() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"], reward=[0, 3], propensity=[0.5, 0.5], actions=["a", "b"]
    )
    mapper = Counting()
    with using(mapper), pytest.raises(piwo.DataError, match="outside the declared range"):
        piwo.check(log)
    assert mapper.passes == 2


def test_processes_find_out_the_same() -> None:
    def found(log: piwo.Log) -> object:
        parts = log.split(0.5)
        return log.actions, log.features, parts.train_rows, parts.notes, parts.train.features

    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool, using(pool):
        there = found(raw(key="row"))
    assert there == found(raw(key="row"))
