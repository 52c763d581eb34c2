"""The benchmark of learned policies: its plan, its logs, its tables, and a run that continues."""

import json
from dataclasses import asdict, replace
from pathlib import Path

import numpy as np
import pytest
from threadpoolctl import threadpool_limits

from benchmarks.quality import peers
from benchmarks.quality.__main__ import main
from benchmarks.quality.cases import HALVES, LOGGERS, REWARDS, Case, plan
from benchmarks.quality.learners import LEARNERS, Learner
from benchmarks.quality.run import read
from benchmarks.quality.tables import summary, tables
from benchmarks.quality.worlds import missing, world

pytestmark = pytest.mark.statistics

CASE = Case("choose", "clusters-5", "sharp", "uniform", 300, 0)
NOWHERE = Path("nowhere")


def line(value, *, learner="one", logged=0.1, skyline=0.2, **changed):
    return {
        **asdict(replace(CASE, **changed)),
        "learner": learner,
        "logged": logged,
        "skyline": skyline,
        "spread": 0.1,
        "value": value,
        "how": "",
        "seconds": 1.0,
    }


# --- the plan


@pytest.mark.parametrize("kind", ["", "comparable "])
def test_the_halves_share_neither_data_sets_nor_seeds(kind):
    halves = (f"{kind}choose", f"{kind}confirm")
    choose, confirm = (plan(half, seeds=20, full=True) for half in halves)
    for what in ("data", "seed"):
        assert not {getattr(x, what) for x in choose} & {getattr(x, what) for x in confirm}


def test_each_data_set_meets_each_logger_and_kind_of_rewards():
    cases = plan("choose")
    met = {(one.data, one.logger, one.rewards) for one in cases}
    assert len(cases) == len(met) == 8 * len(LOGGERS) * len(REWARDS)


def test_all_sizes_are_run_on_request_where_the_data_suffice():
    assert {one.size for one in plan("choose", ["vowel"], full=True)} == {300, 1000}
    sizes = {one.size for one in plan("confirm", ["network-12"], full=True)}
    assert sizes == {300, 1000, 3000, 10_000, 100_000, 1_000_000}
    assert {one.size for one in plan("choose", ["digits"], only=[1000])} == {1000}


@pytest.mark.parametrize("data", ["digits", "cancer"])
def test_data_sets_have_the_shape_that_is_declared(data):
    half = next(name for name, half in HALVES.items() if data in half.sets)
    shape = HALVES[half].sets[data]
    found = world(Case(half, data, "sharp", "uniform", 300, 0), NOWHERE)
    assert found.fresh_rewards.shape[1] == found.actions == shape.actions
    assert len(found.fresh) in {shape.rows, shape.rows + 1, 5000}


@pytest.mark.parametrize(("half", "data"), [("choose", "digits"), ("confirm", "cancer")])
def test_comparable_logs_have_each_row_to_learn_from_once(half, data):
    (case, *_) = plan(f"comparable {half}", [data])
    found = world(case, NOWHERE)
    rows = len(found.log) + len(found.fresh)
    assert len(found.log) == HALVES[case.half].sets[data].rows == int(0.7 * rows)
    assert len(np.unique(found.x, axis=0)) == len(found.log)
    assert {one.rewards for one in plan(case.half)} == {"sharp", "paper"}


def test_data_sets_that_are_not_there_are_left_out():
    assert missing("vowel", NOWHERE) == "there is no nowhere/sup_vowel.parquet"
    assert missing("digits", NOWHERE) is None


# --- the logs


@pytest.fixture(scope="module", params=REWARDS)
def made(request):
    with threadpool_limits(1):
        return world(replace(CASE, rewards=request.param, size=1000), NOWHERE)


def test_rewards_have_the_mean_of_the_uniform_logger(made):
    error = made.reward.std() / np.sqrt(1000)
    low, high = made.log.reward_range
    assert made.reward.min() >= 0
    assert made.reward.max() <= 1
    assert abs(low + (high - low) * made.reward.mean() - made.logged) < 5 * error


def test_the_skyline_is_above_the_logger(made):
    assert made.logged + 0.3 * made.spread < made.skyline <= made.fresh_rewards.max()


def test_costs_differ_between_actions_and_may_make_rewards_negative():
    found = world(replace(CASE, rewards="costs"), NOWHERE)
    assert found.log.reward_range == (-0.3, 1.0)
    assert len(np.unique(found.fresh_rewards.max(axis=0).round(6))) == 5


def test_noise_differs_between_actions():
    found = world(replace(CASE, rewards="noise"), NOWHERE)
    coins = np.isin(found.reward, (0.0, 1.0))
    assert np.array_equal(coins, found.action % 2 == 0)


def test_values_of_codes_and_of_probabilities_agree(made):
    played = np.arange(len(made.fresh)) % 5
    assert made.value(played) == pytest.approx(made.value(np.eye(5)[played]), abs=1e-12)


@pytest.mark.parametrize("logger", LOGGERS)
def test_loggers_log_their_propensities(logger):
    found = world(replace(CASE, logger=logger, size=3000), NOWHERE)
    assert found.propensity.min() > 0
    # E 1/p is the number of actions where all are possible, and below it where not in float64
    assert (1 / found.propensity).mean() < 5 * 1.6


# --- learners


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in LEARNERS if "Auto" not in name])
def test_learners_find_what_an_even_log_shows(name):
    learner = LEARNERS[name]
    refused = learner.refuses(3000, 5)
    if refused is not None:
        pytest.skip(refused)
    with threadpool_limits(1):
        found = world(replace(CASE, size=3000), NOWHERE)
        value = found.value(learner.plays(found))
    assert value > found.logged + 0.2 * found.spread


def test_learners_refuse_what_is_too_large_or_not_installed():
    one = Learner(peers.poem, rows=100, cells=1000)
    assert one.refuses(101, 2) == "more than 100 rows"
    assert one.refuses(100, 11) == "more than 1000 rows x actions"
    assert one.refuses(100, 10) is None
    assert Learner(peers.poem, "no_such_library").refuses(1, 1) == (
        "no_such_library is not installed"
    )


def test_the_tree_of_depth_two_finds_an_exclusive_or():
    """No single threshold helps; two do."""
    found = world(CASE, NOWHERE)
    rng = np.random.default_rng(0)
    x, action = rng.normal(size=(2000, 2)), rng.integers(0, 2, 2000)
    right = (x[:, 0] > 0) ^ (x[:, 1] > 0)
    change = {"x": x, "fresh": x, "action": action, "propensity": np.full(2000, 0.5)}
    found = replace(found, **change, reward=(action == right) * 1.0, actions=2)
    assert (peers.policy_tree(found) == right).mean() > 0.85


# --- the tables


def test_gain_is_a_mean_of_cells_each_a_mean_over_seeds_and_floored():
    # seeds 0 and 1 are one cell: (1 - 5)/2, floored at -1; the other cell has .5
    lines = [line(0.2), line(-0.4, seed=1), line(0.15, logger="greedy .1")]
    assert summary(lines).gain == pytest.approx((-1 + 0.5) / 2)


def test_harm_is_measured_in_spreads():
    # spread .1: .0011 below is harm, .0009 is not; .011 below loses a tenth
    found = summary([line(x) for x in (0.0989, 0.0991, 0.089, 0.15)])
    assert (found.harm, found.loss) == (0.5, 0.25)


def test_where_nothing_can_be_gained_harm_counts_and_gain_does_not():
    found = summary([line(0.15), line(0.09, skyline=0.1015, logger="greedy .1")])
    assert (found.gain, found.harm, found.logs) == (pytest.approx(0.5), 0.5, 2)


def test_learners_that_choose_in_several_ways_have_a_table_by_way():
    lines = [line(0.15) | {"how": "vote"}, line(0.092, size=1000) | {"how": "imitation"}]
    shown = tables([*lines, line(0.2, learner="two")], ["one", "two"])
    assert "| one | 0.210 ± 0.290 | 50.0 % | 0.0 % | 50 % | 1.0 | 2 |" in shown
    assert "| gain, harm % by how | vote | imitation |" in shown
    assert "| one | 0.50, 0 | -0.08, 100 |" in shown.split("by how")[1]
    assert "two" not in shown.split("by how")[1].split("\n\n")[0]


def test_failures_are_counted_apart():
    broken = line(0.1)
    del broken["value"]
    found = summary([broken, line(0.2)])
    assert (found.logs, found.failed, found.gain) == (1, 1, pytest.approx(1.0))


def test_the_tables_by_hand():
    lines = [
        line(0.15),
        line(0.092, size=1000, rewards="weak"),
        line(0.2, learner="two"),
    ]
    parts = tables(lines, ["two", "one", "three"]).split("\n\n")
    assert parts[0].splitlines()[2:] == [
        "| two | 1.000 ± nan | 0.0 % | 0.0 % | 0 % | 1.0 | 1 |",
        "| one | 0.210 ± 0.290 | 50.0 % | 0.0 % | 0 % | 1.0 | 2 |",
    ]
    assert parts[1].splitlines() == [
        "| gain, harm % by size | 300 | 1000 |",
        "| --- | --- | --- |",
        "| two | 1.00, 0 |  |",
        "| one | 0.50, 0 | -0.08, 100 |",
    ]


# --- the command


def test_a_run_that_was_killed_continues(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr("benchmarks.quality.cases.LOGGERS", ("uniform",))
    out = tmp_path / "done.jsonl"
    words = ["run", "--sets", "clusters-5", "--jobs", "1", "--out", str(out)]
    words += ["--learners", "direct ridge", "logistic, gamma sqrt(d/n)"]
    with threadpool_limits(1):
        assert main(words) == 0
    first = capsys.readouterr()
    assert "6 of 6 logs, about 0 min left" in first.err
    lines = out.read_text("utf-8").splitlines()
    assert len(read(out)) == 12
    # the last line is cut in the middle: that log is run again, for that learner
    out.write_text("\n".join(lines)[:-30], encoding="utf-8")
    with threadpool_limits(1):
        assert main(words) == 0
    second = capsys.readouterr()
    assert "1 of 1 logs" in second.err
    assert len(read(out)) == 12
    shown = [text.splitlines()[2:] for text in (first.out, second.out)]
    values = [[row.split("|")[1:5] for row in one] for one in shown]
    assert values[0] == values[1]


def test_the_table_has_one_half(tmp_path, capsys):
    out = tmp_path / "done.jsonl"
    both = [line(0.15, learner="POEM"), line(0.2, learner="POEM", half="confirm")]
    out.write_text("\n".join(map(json.dumps, both)), encoding="utf-8")
    assert main(["table", "--out", str(out)]) == 0
    assert "| POEM | 0.500 ± nan |" in capsys.readouterr().out
    assert main(["table", "--confirm", "--out", str(out)]) == 0
    assert "| POEM | 1.000 ± nan |" in capsys.readouterr().out


def test_a_learner_that_fails_is_kept_as_a_failure(tmp_path, monkeypatch, capsys):
    def fails(_):
        raise ValueError("no")

    monkeypatch.setitem(LEARNERS, "POEM", Learner(fails))
    monkeypatch.setattr("benchmarks.quality.cases.LOGGERS", ("uniform",))
    monkeypatch.setattr("benchmarks.quality.cases.REWARDS", ("sharp",))
    out = tmp_path / "done.jsonl"
    words = ["--sets", "clusters-5", "--jobs", "1", "--out", str(out), "--learners", "POEM"]
    assert main(["run", *words]) == 0
    assert "0 (1 failed)" in capsys.readouterr().out
    (found,) = read(out)
    assert found["error"] == "ValueError: no"
