"""How often each job has a cluster read its rows, as docs/clusters.md says."""

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.sources.clusters import Cluster, Partition

pytestmark = pytest.mark.clusters

N = 3000
RNG = np.random.default_rng(0)
TABLE = pa.table(
    {
        "action": RNG.choice(["a", "b", "c"], N),
        "reward": RNG.integers(0, 2, N) * 1.0,
        "propensity": [1 / 3] * N,
        "x": RNG.normal(size=N),
        "shop": RNG.choice(["north", "south"], N),
        "event": range(N),
    }
)


class Counting(Cluster):
    """Three partitions in this process, and how often they were read."""

    name = "the cluster"
    schema = TABLE.schema

    def __init__(self):
        self.passes = 0

    def fold(self, columns, one, merge):
        self.passes += 1
        rows = TABLE.select(list(columns))
        return merge(
            [
                one(Partition(i, tuple(columns), rows.slice(i * 1000, 1000).to_batches()))
                for i in range(3)
            ]
        )

    def together(self, column):
        raise AssertionError("no units are declared")

    def head(self, columns):
        return Partition(0, tuple(columns), TABLE.select(list(columns)).slice(0, 100).to_batches())


JOBS = {
    "check": piwo.check,
    "evaluate": lambda log: piwo.evaluate(log, piwo.policies.Uniform(log.actions)),
    "ridge": piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge()).fit,
    "grid": piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit,
}


@pytest.mark.parametrize(
    ("job", "context", "actions", "passes"),
    [
        ("check", "x", None, 3), ("check", "shop", None, 3), ("check", "x", "abc", 2),
        ("evaluate", "x", None, 3), ("evaluate", "shop", None, 3), ("evaluate", "x", "abc", 2),
        ("ridge", "x", None, 5), ("ridge", "shop", None, 6), ("ridge", "x", "abc", 3),
        ("grid", "x", None, 5), ("grid", "shop", None, 6), ("grid", "x", "abc", 3),
    ],
)  # fmt: skip
def test_as_few_passes_as_the_page_says(job, context, actions, passes):
    source = Counting()
    known = None if actions is None else list(actions)
    log = piwo.read(source, context=[context], key="event", actions=known, logger="fixed")
    JOBS[job](log)
    assert source.passes == passes


def test_an_undeclared_logger_is_looked_for():
    source = Counting()
    log = piwo.read(source, context=["x"], key="event", actions=["a", "b", "c"])
    JOBS["ridge"](log)
    assert source.passes == 4
