"""D21: float32 columns are summed in float64, in chunks as at once, one column or several."""

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.logs import read
from piwo.policies import Column
from piwo.reductions import PolicySums, reduce
from piwo.scores import IX


def test_chunks_and_the_whole_agree() -> None:
    random = np.random.default_rng(0)
    n = 300_000
    mu, pi = (random.random(n, np.float32) for _ in range(2))
    table = pa.table(
        {
            "action": ["a"] * n,
            "reward": random.random(n, np.float32),
            "propensity": mu + 0.01 * (1 - mu),
            "pi": pi,
        }
    )
    chunked = pa.concat_tables([table.slice(at, 777) for at in range(0, n, 777)])
    results = [
        reduce(read(x, policy_columns="pi"), PolicySums(Column("pi", ["a"]), IX(0.1))).moments.rho
        for x in (table, chunked)
    ]
    assert results[0] == pytest.approx(results[1], rel=1e-12)


def test_three_policies_side_by_side_are_no_worse_than_one() -> None:
    n = 10_000_000
    mu = np.full(n, 0.3, np.float32)
    naive = np.repeat(1.0 / mu[:, None], 3, axis=1).mean(axis=0)
    assert abs(naive[0] - 1 / 0.3) > 0.05  # a running float32 sum is off by percents
    columns = {name: np.ones(n, np.float32) for name in ("one", "two", "three")}
    table = pa.table(
        {
            "action": np.zeros(n, np.int8),
            "reward": np.ones(n, np.float32),
            "propensity": mu,
            **columns,
        }
    )
    log = read(table, policy_columns=list(columns))
    for found in (
        piwo.compare(log, {name: Column(name) for name in columns}).values(),
        [piwo.evaluate(log, Column("one"))],
    ):
        assert [x.value for x in found] == pytest.approx([1 / 0.3] * len(list(found)), rel=1e-6)
