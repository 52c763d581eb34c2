"""How many threads piwo uses: all cores that it may use, or what PIWO_THREADS says."""

import os
import re
import sys
from threading import current_thread, get_ident

import numpy as np
import pytest

import piwo
from piwo.engines.cores import cores
from piwo.errors import UsageError
from piwo.policies.blocks import spread

ROWS = 300_000


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="Linux binds processes to cores")
def test_a_process_bound_to_one_core_has_one_thread(monkeypatch):
    monkeypatch.delenv("PIWO_THREADS", raising=False)
    allowed = os.sched_getaffinity(0)
    assert cores() == len(allowed)
    os.sched_setaffinity(0, {min(allowed)})
    try:
        assert cores() == 1
    finally:
        os.sched_setaffinity(0, allowed)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows keeps no empty variables")
def test_an_empty_variable_says_nothing(monkeypatch):
    monkeypatch.delenv("PIWO_THREADS", raising=False)
    without = cores()
    monkeypatch.setenv("PIWO_THREADS", "")
    assert cores() == without


def test_the_variable_is_obeyed(monkeypatch):
    monkeypatch.setenv("PIWO_THREADS", "3")
    assert cores() == 3


@pytest.mark.parametrize("said", ["0", "-1", "two", "1.5", "٢", " 2", "1e3"])
def test_a_bad_variable_is_refused(said, monkeypatch):
    monkeypatch.setenv("PIWO_THREADS", said)
    told = re.escape(f"PIWO_THREADS is {said!r}, expected the number of threads, at least 1; unset")
    with pytest.raises(UsageError, match=f"^{told}"):
        cores()


def test_one_thread_is_the_caller(monkeypatch):
    monkeypatch.setenv("PIWO_THREADS", "1")
    assert set(spread(100, 10, lambda rows: get_ident())) == {get_ident()}
    monkeypatch.setenv("PIWO_THREADS", "2")
    assert current_thread().name not in spread(100, 10, lambda rows: current_thread().name)


def test_the_numbers_are_the_same_on_one_thread(monkeypatch):
    rng = np.random.default_rng(0)
    action = rng.integers(3, size=ROWS)
    reward = (rng.random(ROWS) < 0.2 + 0.1 * action) * 1.0
    log = piwo.Log.from_arrays(action=action, reward=reward, propensity=np.full(ROWS, 1 / 3))
    policy = piwo.policies.Constant(2, log.actions)
    monkeypatch.setenv("PIWO_THREADS", "4")
    many = piwo.evaluate(log, policy)
    seen = []
    monkeypatch.setenv("PIWO_THREADS", "1")
    with piwo.reporting(lambda done, total: seen.append(done)):
        one = piwo.evaluate(log, policy)
    assert one == many
    assert sum(seen) >= ROWS
