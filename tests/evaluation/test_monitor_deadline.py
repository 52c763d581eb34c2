"""Monitors with deadline bets: looks are those of evaluate on the whole log; order is required."""

import json
import math
import os
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from benchmarks.statistics import monitor as simulated
from piwo.errors import FileError, UsageError
from piwo.evaluation.monitor_file import _checksum

POLICY = piwo.policies.Constant("a", ["a", "b"])
FIELDS = ("value", "lower", "upper", "improvement_lower", "propensity_p", "logging_value")
ROWS = 1200
# of rows, with numbers for rewards: the policy's action earns more
_RNG = np.random.default_rng(3)
ACTION = _RNG.choice(["a", "b"], ROWS)
REWARD = _RNG.uniform(0, 1, ROWS) * np.where(ACTION == "a", 3.0, 1.0) - 1.0
ASSUMED = {"assumptions", "assumed-fixed", "learning", "horizon"}
"""Kinds of notes on what bounds rest on; evaluate has more kinds."""
ROLES = {"action": "action", "reward": "reward", "propensity": "propensity"}


def log_of(start, end, logger=None, top=2.0, **more):
    action = ACTION[start:end]
    return piwo.Log.from_arrays(
        action=action,
        reward=REWARD[start:end],
        propensity=np.full(len(action), 0.5),
        actions=["a", "b"],
        reward_range=(-1.0, top),
        logger=logger,
        **more,
    )


def table_of(start, end):
    action = ACTION[start:end]
    half = np.full(len(action), 0.5)
    return pa.table({"action": action, "reward": REWARD[start:end], "propensity": half})


def started(horizon=1000, **more):
    return piwo.Monitor(POLICY, horizon=horizon, interval="deadline", **more)


def agree(look, whole):
    for name in FIELDS:
        assert getattr(look, name) == pytest.approx(getattr(whole, name), rel=1e-12), name


# --- the same as evaluate


@pytest.mark.parametrize(
    ("logger", "top"), [(None, 2.0), ("fixed", 2.0), ("learning", 2.0), ("fixed", math.inf)]
)
def test_looks_are_those_of_the_whole_log(logger, top, tmp_path):
    """Before the horizon, at it and after it, resumed from a file each time."""
    monitor, before = started(), 0
    for until in (700, 1000, 1200):
        monitor = monitor.update(log_of(before, until, logger, top))
        monitor.save(tmp_path / "m.json")
        monitor = piwo.Monitor.load(tmp_path / "m.json", POLICY)
        log = log_of(0, until, logger, top)
        whole = piwo.evaluate(log, POLICY, interval="deadline", horizon=1000)
        look = monitor.look()
        if top == math.inf:
            assert (look.upper, look.improvement_lower, look.better_p) == (None, None, None)
            assert look.lower == pytest.approx(whole.lower, rel=1e-12)
        else:
            agree(look, whole)
            expected = math.exp(min(0.0, -whole.log_e_better))
            assert look.better_p == pytest.approx(expected, rel=1e-10)
        assert look.notes == tuple(note for note in whole.notes if note.kind in ASSUMED)
        assert ("horizon" in {note.kind for note in look.notes}) == (until > 1000)
        before = until
    assert "contexts and rewards do not drift" in str(look)
    assert "at all looks together (deadline, horizon 1000)" in str(look)
    assert look.to_dict()["interval"] == "deadline"


def test_files_and_conditions_keep_the_order(tmp_path):
    """Rows in several files, some of which are read at once, without those of a condition."""
    cuts = (0, 250, 600, 1000)
    for start, end in pairwise(cuts):
        table = table_of(start, end).append_column("known", pa.array([True] * (end - start)))
        unknown = table.slice(0, 40).set_column(3, "known", pa.array([False] * 40))
        pq.write_table(pa.concat_tables([unknown, table]), tmp_path / f"{start:04d}.parquet")
    given = {**ROLES, "actions": ["a", "b"], "reward_range": (-1, 2), "where": "known"}
    files = sorted(tmp_path.glob("*.parquet"))
    first = piwo.read(files[0], **given)
    rest = piwo.read(files[1:], **given)
    with ThreadPoolExecutor(2) as pool, piwo.using(pool):
        look = started().update(first).update(rest).look()
    agree(look, piwo.evaluate(log_of(0, 1000), POLICY, interval="deadline", horizon=1000))
    with pytest.raises(UsageError, match="added to this monitor before"):
        started().update(first).update(first)


def test_the_tail_of_a_split_begins_the_plan():
    whole = log_of(0, 1000)
    tail = whole.split(holdout=0.5, tail=True)
    expected = started(500).update(log_of(500, 1000)).look()
    agree(started(500).update(tail.test).look(), expected)
    agree(piwo.evaluate(tail.test, POLICY, interval="deadline", horizon=500), expected)
    both = started().update(tail.train).update(tail.test)
    agree(both.look(), started().update(whole).look())
    with pytest.raises(UsageError, match="part of a split"):
        started().update(whole.split(holdout=0.5).test)


def test_a_horizon_may_have_fewer_rows_than_blocks_or_very_many():
    for horizon in (1, 2**62):
        look = started(horizon).update(log_of(0, 2)).update(log_of(2, 50)).look()
        whole = piwo.evaluate(log_of(0, 50), POLICY, interval="deadline", horizon=horizon)
        agree(look, whole)


def test_it_is_narrower_than_the_mixture_at_the_horizon():
    log = log_of(0, 1000)
    look = started().update(log).look()
    mixture = piwo.Monitor(POLICY, horizon=1000).update(log).look()
    assert look.lower > mixture.lower
    assert look.upper < mixture.upper
    # the default is the mixture, which does not assume that nothing drifts
    assert (mixture.interval, mixture.notes) == ("mixture", ())


def test_no_bounds_on_rows_that_contradict_their_propensities():
    log = piwo.Log.from_arrays(
        action=["a"] * 500, reward=[1] * 500, propensity=[0.1] * 500, actions=["a", "b"]
    )
    look = started(500).update(log).look()
    assert (look.lower, look.upper, look.improvement_lower) == (None, None, None)
    assert [note.kind for note in look.notes] == ["contradicted"]


# --- what is refused


@pytest.mark.parametrize("horizon", ["universal", None, True, 0, 100.0])
def test_the_horizon_is_a_number_of_rows(horizon):
    with pytest.raises(UsageError, match="horizon is") as wrong:
        started(horizon)
    assert "\n" not in str(wrong.value)


def test_mistakes_are_refused():
    with pytest.raises(UsageError, match="interval is 'normal', expected 'mixture' or 'deadline'"):
        piwo.Monitor(POLICY, horizon=100, interval="normal")
    with pytest.raises(UsageError, match="logger was None, got 'learning'"):
        started().update(log_of(0, 9)).update(log_of(9, 20, "learning"))
    with pytest.raises(UsageError, match="got time='time'; leave it out"):
        started().update(log_of(0, 9, time=np.arange(9)))


def test_rows_without_an_order_are_refused():
    rows = "select 'a' as action, 1 as reward, .5 as propensity from range(50)"
    log = piwo.read(rows, **ROLES, actions=["a", "b"], reward_range=(-1, 2))
    assert not log.source.steady
    with pytest.raises(UsageError, match="no steady order"):
        started().update(log)


def test_monitors_with_rows_do_not_merge():
    one, other = started().update(log_of(0, 9)), started().update(log_of(9, 20))
    with pytest.raises(UsageError, match="cannot be merged, as the places"):
        one.merge(other)
    assert one.merge(started()).look() == one.look()
    assert started().merge(one).look() == one.look()
    with pytest.raises(UsageError, match="interval 'deadline' and 'mixture'"):
        one.merge(piwo.Monitor(POLICY, horizon=1000))


# --- files


def test_a_write_that_is_killed_loses_nothing(tmp_path, monkeypatch):
    path, made = tmp_path / "m.json", started().update(log_of(0, 50))
    made.save(path)
    more = made.update(log_of(50, 90))

    def killed(_):
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "fsync", killed)
    with pytest.raises(KeyboardInterrupt):
        more.save(path)
    assert piwo.Monitor.load(path, POLICY).look() == made.look()
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_before_the_first_row(tmp_path):
    started().save(tmp_path / "m.json")
    loaded = piwo.Monitor.load(tmp_path / "m.json", POLICY)
    assert (loaded.interval, loaded.state.moments.rows) == ("deadline", 0)
    assert loaded.update(log_of(0, 9)).look().rows == 9


def test_weights_beyond_float64_come_back(tmp_path):
    log = piwo.Log.from_arrays(
        action=["a", "b"], reward=[0, 1], propensity=[5e-324, 1.0], actions=["a", "b"]
    )
    made = started(2).update(log)
    made.save(tmp_path / "m.json")
    assert np.isinf(made.state.blocks.weight).any()
    assert piwo.Monitor.load(tmp_path / "m.json", POLICY).look() == made.look()
    assert "Infinity" not in (tmp_path / "m.json").read_text()


WRONG = {
    "a newer version": lambda p: p.update(version=5),
    "blocks under the old version": lambda p: p.update(version=3) or p.pop("moments"),
    "another interval": lambda p: p.update(interval="normal"),
    "another logger": lambda p: p.update(logger="robot"),
    "no logger": lambda p: p.pop("logger"),
    "no blocks": lambda p: p.pop("blocks"),
    "a block too few": lambda p: p["blocks"]["value"].pop(),
    "blocks of another plan": lambda p: p.update(horizon=30),
    "no number of rows": lambda p: p.update(horizon="universal"),
}


def test_files_of_another_form(tmp_path):
    path = tmp_path / "m.json"
    started(100).update(log_of(0, 50)).save(path)
    text = path.read_text()
    assert json.loads(text)["version"] == 4
    assert piwo.Monitor.load(path, POLICY).state.moments.rows == 50
    for change in WRONG.values():
        page = json.loads(text)
        change(page)
        page.pop("checksum")
        path.write_text(json.dumps({**page, "checksum": _checksum(page)}))
        with pytest.raises(FileError, match="monitor"):
            piwo.Monitor.load(path, POLICY)


# --- levels


@pytest.mark.statistics
@pytest.mark.parametrize("case", simulated.CASES[:4], ids=lambda case: case.name)
def test_no_look_is_wrong_more_often_than_delta(case):
    """Looks in the middle of blocks, before the horizon, at it and after it, the worst counted."""
    delta, logs = 0.2, 150
    found = simulated.wrong(case, logs, tuple(range(110, 2501, 170)), delta)
    assert found["deadline"] <= delta + 3 * math.sqrt(delta * (1 - delta) / logs)


@pytest.mark.statistics
def test_rewards_that_drift_are_why_the_mixture_is_the_default():
    found = simulated.wrong(simulated.CASES[-1], 40, (1500, 2000), 0.05)
    assert found["deadline"] > 0.9
    assert found["mixture"] <= 0.05


def test_the_simulation_is_that_of_a_monitor():
    w, r = simulated.CASES[3].draw(np.random.default_rng(0), 1, 2200)
    monitor = piwo.Monitor(
        piwo.policies.Column("new"), horizon=simulated.HORIZON, interval="deadline"
    )
    before = 0
    for n in (700, 2200):
        part = slice(before, n)
        log = piwo.Log.from_arrays(
            action=["a"] * (n - before),
            reward=r[0, part],
            propensity=np.full(n - before, 0.5),
            policies={"new": w[0, part] * 0.5},
        )
        monitor, before = monitor.update(log), n
        earned, lost = simulated.sums_at(w * r, n), simulated.sums_at(w * (1 - r), n)
        low, high = simulated.interval(earned, lost, 0, 0.05)["deadline"]
        look = monitor.look()
        assert (look.lower, look.upper) == pytest.approx((low, high), rel=1e-9)
