"""Policies know which rows they were learned from: these give them no interval and no certificate,
in Python as on the command line."""

import pickle
from copy import copy
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.intervals.provenance import overlaps
from piwo.policies import Constant, EpsilonGreedy, LinearGreedy, Mixture, Policy, Uniform
from piwo.policies.files import load_with_metadata
from piwo.policies.sameness import content_digest, same_policy


def rows(seed: int, n: int = 600) -> piwo.Log:
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=(n, 1)), rng.integers(0, 2, n)
    reward = (rng.random(n) < np.where(action == (x[:, 0] > 0), 0.8, 0.2)) * 1.0
    return piwo.Log.from_arrays(context=x, action=action, reward=reward, propensity=np.full(n, 0.5))


@pytest.fixture(scope="module")
def log() -> piwo.Log:
    return rows(0)


@pytest.fixture(scope="module")
def learned(log: piwo.Log) -> Policy:
    return piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).policy_


def no_interval(result: piwo.Evaluation) -> None:
    assert result.in_sample
    assert result.no_interval is not None
    assert result.no_interval.kind == "in-sample"
    assert result.notes[0] == result.no_interval
    bounds = (result.lower, result.upper, result.lower_raw, result.upper_raw)
    assert bounds == (None,) * 4
    assert (result.improvement_lower, result.propensity_p, result.log_e_better) == (None,) * 3
    assert result.guarantee == "none"
    assert result.value is not None


@pytest.mark.parametrize("interval", ["auto", "normal", "bootstrap", "ix"])
def test_no_interval_on_the_rows_that_a_policy_was_learned_from(
    log: piwo.Log, learned: Policy, interval: str
) -> None:
    result = piwo.evaluate(log, learned, interval=interval)
    no_interval(result)
    assert "in-sample: it was learned from part of this log" in str(result)
    assert piwo.evaluate(rows(1), learned, interval=interval).lower is not None


def test_the_others_do_not_pay_for_it(log: piwo.Log, learned: Policy) -> None:
    uniform = Uniform(log.actions)
    found = piwo.compare(log, {"learned": learned, "uniform": uniform})
    no_interval(found["learned"])
    assert (found["uniform"].lower, found["uniform"].simultaneous) == (
        piwo.evaluate(log, uniform).lower,
        1,
    )
    chosen = piwo.select(log, {"learned": learned, "uniform": uniform})
    assert (chosen.best, chosen.candidates, chosen.certified) == ("uniform", 1, ())
    assert piwo.select(log, {"learned": learned}).best is None


def test_one_side_of_a_split_is_not_the_other() -> None:
    log = rows(2)
    parts = log.split(holdout=0.5, seed=0)
    policy = piwo.PIWO(oracle=piwo.oracles.Ridge(), certificate=None).fit(parts.train).policy_
    held_out = piwo.evaluate(parts.test, policy)
    assert held_out.lower is not None
    assert not any(note.kind == "provenance" for note in held_out.notes)
    assert piwo.certify(parts.test, {0: policy})[0].value_lower is not None
    for part in (log, parts.train):
        no_interval(piwo.evaluate(part, policy))


def test_it_is_known_in_files_and_inside_of_other_policies(
    log: piwo.Log, learned: Policy, tmp_path: Path
) -> None:
    learned.save(tmp_path / "p.piwo")
    loaded = piwo.load(tmp_path / "p.piwo")
    loaded.save(tmp_path / "again.piwo")
    EpsilonGreedy(learned, 0.1).save(tmp_path / "greedy.piwo")
    uniform = Uniform(log.actions)
    made = {
        "loaded": loaded,
        "saved again": piwo.load(tmp_path / "again.piwo"),
        "saved inside": piwo.load(tmp_path / "greedy.piwo"),
        "greedy": EpsilonGreedy(loaded, 0.1),
        "mixture": Mixture([uniform, learned], [0.5, 0.5]),
        "aligned": learned.onto(piwo.Actions([1, 0])),
    }
    other = rows(3)
    for name, policy in made.items():
        no_interval(piwo.evaluate(log, policy))
        elsewhere = piwo.evaluate(other, policy)
        assert elsewhere.lower is not None, name
        assert elsewhere.notes[-1].kind == "provenance", name
        assert "rows that were compared" in elsewhere.notes[-1], name


def test_a_mixture_of_two_logs_knows_both(tmp_path: Path) -> None:
    first, second = rows(4), rows(5)
    ridge = piwo.PIWO(oracle=piwo.oracles.Ridge())
    one, other = ridge.fit(first).policy_, ridge.fit(second).policy_
    assert isinstance(other, LinearGreedy)
    again = LinearGreedy(other.coef, other.intercept, other.listed, features=one.features)
    Mixture([one, again.with_provenance(other.provenances[0])], [0.5, 0.5]).save(
        tmp_path / "m.piwo"
    )
    mixture = piwo.load(tmp_path / "m.piwo")
    for log in (first, second):
        assert overlaps(log, {0: mixture})[0].certain
    assert not overlaps(rows(6), {0: mixture})[0].certain


def test_no_certificate_either(log: piwo.Log, learned: Policy) -> None:
    uniform = Uniform(log.actions)
    with pytest.raises(piwo.UsageError, match="policy 'new' was learned from part of this log"):
        piwo.certify(log, {"new": learned})
    with pytest.raises(piwo.UsageError, match=r"the baseline .* was learned from part of this log"):
        piwo.certify(log, {"new": uniform}, baseline=learned)
    with pytest.raises(piwo.UsageError, match="policy 'policy' was learned from part"):
        piwo.regret_certificate(log, learned, {"uniform": uniform})
    with pytest.raises(piwo.UsageError, match="policy 'learned' was learned from part"):
        piwo.regret_certificate(log, uniform, {"learned": learned})
    made = piwo.certify(rows(7), {"new": learned})["new"]
    assert made.value_lower is not None
    assert made.notes[-1].kind == "provenance"


def test_a_declared_class_may_be_chosen_from(log: piwo.Log) -> None:
    both = piwo.oracles.Exhaustive([Constant(x, log.actions) for x in log.actions])
    policy = piwo.PIWOGrid(oracle=both).fit(log).policy_
    no_interval(piwo.evaluate(log, policy))
    assert piwo.certify(log, {0: policy}, within=both)[0].kind == "in-sample"
    assert piwo.regret_certificate(log, policy, both, within=both).regret_upper is not None
    # what was declared is as it was
    assert piwo.evaluate(log, both.policies[0]).lower is not None


def test_nothing_is_better_than_a_baseline_that_was_learned_here(
    log: piwo.Log, learned: Policy
) -> None:
    result = piwo.evaluate(log, Uniform(log.actions), baseline=learned)
    assert (result.improvement_lower, result.log_e_better) == (None, None)
    assert result.lower is not None
    assert result.notes[0].kind == "in-sample-baseline"


def test_it_is_not_part_of_the_policy(learned: Policy) -> None:
    plain = copy(learned)
    assert plain.provenances == ()
    assert content_digest(plain) == content_digest(learned)
    assert same_policy(plain, learned)
    again = pickle.loads(pickle.dumps(learned))
    assert again.provenances == ()
    assert len(pickle.dumps(learned)) == len(pickle.dumps(plain))


def test_a_policy_that_no_file_holds_stays_the_same(log: piwo.Log) -> None:
    rule = piwo.policies.Deterministic(lambda X: [1] * len(X), log.actions)
    one = piwo.oracles.Exhaustive([rule])
    policy = piwo.PIWOGrid(oracle=one).fit(log).policy_
    assert same_policy(policy, rule)
    assert piwo.certify(log, {0: policy}, within=one)[0].kind == "in-sample"


def test_a_log_that_is_gone_is_said(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=200)
    columns = {"x": x, "action": rng.integers(0, 2, 200), "reward": (x > 0) * 1.0}
    pq.write_table(pa.table({**columns, "propensity": np.full(200, 0.5)}), tmp_path / "log.parquet")
    log = piwo.read(tmp_path / "log.parquet", context=["x"])
    policy = piwo.PIWO(oracle=piwo.oracles.Ridge(), certificate=None).fit(log).policy_
    (tmp_path / "log.parquet").unlink()
    with pytest.warns(piwo.PiwoWarning, match="cannot be read again"):
        policy.save(tmp_path / "p.piwo")
    assert load_with_metadata(tmp_path / "p.piwo").metadata["training"]["rows"] == 200


def test_no_monitor_on_the_rows_that_a_policy_was_learned_from(
    log: piwo.Log, learned: Policy
) -> None:
    with pytest.raises(piwo.UsageError, match=r"learned from part of this log .*came later"):
        piwo.Monitor(learned, horizon="universal").update(log)
    other = copy(learned)  # a copy does not know its rows
    assert piwo.Monitor(other, horizon="universal").update(log).look().lower is not None


def test_rows_that_are_alike_are_known_by_the_name_of_their_file(tmp_path: Path) -> None:
    """Python's file and the policy in memory say the same where hashes cannot tell rows apart."""
    path = tmp_path / "same.parquet"
    rows = {"action": ["a", "b"] * 300, "reward": [1, 0] * 300, "propensity": [0.5] * 600}
    pq.write_table(pa.table({**rows, "x": [0.0, 1.0] * 300}), path)
    log = piwo.read(path, context="x")
    policy = piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).policy_
    policy.save(tmp_path / "p.piwo")
    saved = piwo.load(tmp_path / "p.piwo")
    assert piwo.evaluate(log, policy).lower is piwo.evaluate(log, saved).lower is None


def test_alike_rows_of_vowpal_wabbit_are_known_by_the_name_of_their_file(tmp_path: Path) -> None:
    """Frames with the same rows have no name, however they were made."""
    path = tmp_path / "same.vw"
    path.write_text("1:-1:0.5 | x:0\n2:0:0.5 | x:1\n" * 300)
    log = piwo.read(path, context="x")
    piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).policy_.save(tmp_path / "p.piwo")
    saved = piwo.load(tmp_path / "p.piwo")
    again = piwo.evaluate(piwo.read(path, context="x"), saved)
    assert again.lower is None
    assert "same name, same number of rows" in str(again.notes[0])
    frame = pa.table(
        {"a": [1, 2] * 300, "r": [1, 0] * 300, "p": [0.5] * 600, "x": [0.0, 1.0] * 300}
    )
    roles = {"action": "a", "reward": "r", "propensity": "p", "context": "x"}
    from_memory = piwo.read(frame, **roles)
    piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(from_memory).policy_.save(tmp_path / "q.piwo")
    assert (
        piwo.evaluate(piwo.read(frame, **roles), piwo.load(tmp_path / "q.piwo")).lower is not None
    )
