"""Weights as an array: in the order of the rows, whatever the source."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo

N = 3000


def rows():
    generator = np.random.default_rng(0)
    return {
        "action": generator.integers(0, 3, N),
        "reward": generator.random(N),
        "propensity": generator.uniform(0.1, 0.9, N),
        "unit": generator.integers(0, 50, N),
    }


@pytest.mark.parametrize("unit", [None, "unit"])
def test_weights_are_in_the_order_of_the_rows(tmp_path, unit):
    made = rows()
    expected = np.where(made["action"] == 1, 1.0 / made["propensity"], 0.0)
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(made), path, row_group_size=700)
    for source in (pa.table(made), path):
        log = piwo.read(source, unit=unit)
        found = piwo.weights(log, piwo.policies.Constant(1, log.actions))
        assert found.dtype == np.float64
        np.testing.assert_allclose(found, expected, rtol=1e-15)
    health = piwo.check(piwo.read(pa.table(made)), piwo.policies.Constant(1, log.actions))
    assert found.max() == health.max_weight


def test_weights_of_a_part_and_of_a_policy_that_is_an_array():
    made = rows()
    del made["unit"]
    log = piwo.Log.from_arrays(**made)
    policy = piwo.policies.Uniform(log.actions)
    parts = log.split(0.4)
    assert len(piwo.weights(parts.test, policy)) == parts.test_rows
    given = np.full(N, 0.25)
    np.testing.assert_allclose(piwo.weights(log, given), 0.25 / made["propensity"])


def test_rows_without_an_order_are_refused_in_one_line():
    log = piwo.Log.from_sql("select 'a' as action, 1 as reward, 0.5 as propensity")
    with pytest.raises(piwo.UsageError, match="another order at each pass") as caught:
        piwo.weights(log, piwo.policies.Uniform(log.actions))
    assert "\n" not in str(caught.value)
