"""D24: a bootstrap whose numbers depend on the seed alone, not on the workers."""

import joblib
import numpy as np
import pytest

import piwo
from piwo.intervals import bootstrap, bootstrap_interval
from piwo.intervals.point import estimator_named
from piwo.scores import IW

REPEAT = 100
PI = np.tile([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], REPEAT)


def log_of() -> piwo.Log:
    return piwo.Log.from_arrays(
        action=np.tile([0, 1, 0, 0, 1, 0], REPEAT),
        reward=np.tile([1, 1, 0, 1, 0, 0], REPEAT),
        propensity=np.tile([0.2, 0.5, 0.8, 0.8, 0.5, 0.5], REPEAT),
    )


@pytest.mark.parametrize("backend", ["loky", "threading"])
def test_the_interval_is_the_same_for_every_number_of_workers(backend: str) -> None:
    alone = bootstrap(log_of(), PI, random_state=0, n_jobs=1)
    with joblib.parallel_config(backend=backend):
        for workers in (1, 2, 4):
            assert bootstrap(log_of(), PI, random_state=0, n_jobs=workers) == alone
    assert bootstrap(log_of(), PI, random_state=0) == alone


def test_a_large_log_too() -> None:
    # Above a megabyte joblib hands columns over as memory maps.
    rng = np.random.default_rng(0)
    n = 60_000
    log = piwo.Log.from_arrays(
        action=[0] * n, reward=rng.random(n), propensity=rng.uniform(0.1, 1, n)
    )
    one = bootstrap(log, np.ones(n), random_state=1, replicates=50, n_jobs=1)
    assert bootstrap(log, np.ones(n), random_state=1, replicates=50, n_jobs=2) == one


def test_replicates_are_not_copies_of_each_other() -> None:
    policy = piwo.policies.RowWise(PI)
    found = bootstrap_interval(
        log_of(), policy, IW(), estimator_named("snips"), n_jobs=2, random_state=0
    )
    assert len(found.estimates) == 400
    assert len(np.unique(found.estimates)) > 360


def test_none_differs_between_calls_and_a_seed_does_not() -> None:
    log = log_of()
    assert bootstrap(log, PI, random_state=None) != bootstrap(log, PI, random_state=None)
    assert bootstrap(log, PI, random_state=7) == bootstrap(log, PI, random_state=7)
    assert bootstrap(log, PI, random_state=7) != bootstrap(log, PI, random_state=8)


def test_a_generator_advances() -> None:
    log, rng = log_of(), np.random.default_rng(0)
    before = rng.bit_generator.state
    first = bootstrap(log, PI, random_state=rng)
    assert rng.bit_generator.state != before
    assert bootstrap(log, PI, random_state=rng) != first


def test_numpy_s_global_state_is_not_touched() -> None:
    before = np.random.get_state()[1].tolist()  # noqa: NPY002
    bootstrap(log_of(), PI, random_state=0, n_jobs=2)
    piwo.evaluate(log_of(), PI, interval="bootstrap")
    assert np.random.get_state()[1].tolist() == before  # noqa: NPY002
