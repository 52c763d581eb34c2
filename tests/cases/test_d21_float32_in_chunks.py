"""D21: float32 columns are summed in float64, in chunks as at once (test_d21.py has the large table)."""

import numpy as np
import pyarrow as pa
import pytest

from piwo.engines import reduce
from piwo.logs import read
from piwo.policies import Column
from piwo.reductions import PolicySums
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
