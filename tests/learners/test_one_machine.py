"""What needs all rows on one machine says so of a log in a cluster before it reads anything."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import LinearRegression

import piwo
from piwo import oracles
from piwo.logs import read
from piwo.sources.clusters import Cluster

TABLE = pa.table({"action": ["a"], "reward": [1.0], "propensity": [0.5], "x": [0.0], "event": [1]})


class Unread(Cluster):
    """A cluster whose rows nobody may touch."""

    name = "the cluster"
    schema = TABLE.schema

    def fold(self, columns, one, merge):
        raise AssertionError("read")

    def together(self, column):
        raise AssertionError("rows were read")

    def head(self, columns):
        raise AssertionError("read")


def cluster_log(**options):
    return read(Unread(), context=["x"], key="event", **options)


LEARNERS = {
    "the classifier oracle": piwo.PIWO(piwo.IX()),
    "the softmax oracle": piwo.PIWOGrid(oracle=oracles.Softmax()),
    "the direct oracle": piwo.PIWO(
        oracle=oracles.Direct(model=LinearRegression()), certificate=None
    ),
    "GibbsLinear": piwo.GibbsLinear(),
    "PACBayesLinear": piwo.PACBayesLinear(),
    "the ": piwo.Auto(),
}


@pytest.mark.parametrize("what", LEARNERS)
def test_refused_before_reading(what):
    with pytest.raises(
        piwo.UsageError,
        match=f"{what}.*needs all rows on one machine, and rows of the cluster stay",
    ):
        LEARNERS[what].fit(cluster_log())


def test_estimated_propensities_too():
    with pytest.raises(
        piwo.UsageError, match="estimate_propensities needs all rows on one machine"
    ):
        piwo.estimate_propensities(Unread(), context=["x"])


@pytest.mark.parametrize(
    "oracle", [oracles.Ridge(), oracles.Direct(), oracles.Exhaustive(np.zeros((1, 1), int))]
)
def test_sums_are_enough_for_the_others(oracle):
    assert not oracle.needs_rows()
