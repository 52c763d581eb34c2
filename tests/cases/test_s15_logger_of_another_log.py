"""S15: a saved "logging" policy stands for the logger of its own log, and for no other."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.estimators import doubly_robust
from piwo.intervals.provenance import learned_from
from piwo.policies import EpsilonGreedy, Logging, Mixture, Uniform, aligned

LABELS, RATES = ["A", "B", "C"], np.array([0.1, 0.5, 0.3])
JUNE, EXPLORE = (0.01, 0.98, 0.01), (0.4, 0.2, 0.4)


def table(p: tuple[float, ...], seed: int, n: int = 2000) -> pa.Table:
    rng = np.random.default_rng(seed)
    action = rng.choice(3, size=n, p=p)
    return pa.table(
        {
            "x": rng.normal(size=n),
            "action": np.array(LABELS)[action],
            "reward": (rng.random(n) < RATES[action]) * 1.0,
            "p": np.array(p)[action],
        }
    )


def log_of(source: object, **more: object) -> piwo.Log:
    return piwo.read(source, context="x", propensity="p", actions=LABELS, **more)  # type: ignore[arg-type]


@pytest.fixture
def june(tmp_path: Path) -> piwo.Log:
    pq.write_table(table(JUNE, 0), tmp_path / "june.parquet")
    return log_of(str(tmp_path / "june.parquet"))


@pytest.fixture
def explore(tmp_path: Path) -> piwo.Log:
    pq.write_table(table(EXPLORE, 1), tmp_path / "explore.parquet")
    return log_of(str(tmp_path / "explore.parquet"))


@pytest.fixture
def saved(june: piwo.Log, tmp_path: Path) -> piwo.policies.Policy:
    learned_from(june, Logging(june.actions)).save(tmp_path / "june.piwo")
    return piwo.load(tmp_path / "june.piwo")


def test_the_false_gate_pass(saved: piwo.policies.Policy, explore: piwo.Log) -> None:
    always = piwo.policies.Constant("C", LABELS)
    said = r"the baseline stands for the logging policy of .*june.parquet \(2,000 rows\)"
    with pytest.raises(piwo.UsageError, match=said):
        piwo.evaluate(explore, always, baseline=saved)
    # by name, the log's own
    assert piwo.evaluate(explore, always).improvement_lower is not None


def test_wherever_it_is_used(saved: piwo.policies.Policy, explore: piwo.Log) -> None:
    inside = Mixture([saved, Uniform(LABELS)], [0.5, 0.5])
    model = np.full((2000, 3), 0.5)
    uses = (
        lambda p: piwo.evaluate(explore, p),
        lambda p: piwo.compare(explore, {"june": p, "new": Uniform(LABELS)}),
        lambda p: piwo.compare(explore, {"june": p, "new": Uniform(LABELS)}, baseline="june"),
        lambda p: piwo.certify(explore, {"june": p}),
        lambda p: piwo.check(explore, p),
        lambda p: piwo.Auto(incumbent=p).fit(explore),
        lambda p: piwo.Monitor(p).update(explore),
        lambda p: doubly_robust(explore, p, model),
        lambda p: piwo.evaluate(explore, aligned(p, explore.actions)),
    )
    for policy in (saved, inside):
        for use in uses:
            with pytest.raises(piwo.UsageError, match=r"june\.parquet"):
                use(policy)


def test_on_its_own_log_it_is_the_logger(
    saved: piwo.policies.Policy, june: piwo.Log, tmp_path: Path
) -> None:
    always = piwo.policies.Constant("C", LABELS)
    expected = piwo.evaluate(june, always)
    assert piwo.evaluate(june, always, baseline=saved) == expected
    rows = table(JUNE, 0)
    order = np.random.default_rng(3).permutation(2000)
    shuffled = log_of(rows.take(order))
    assert piwo.evaluate(shuffled, saved).value == pytest.approx(expected.logging_value)
    single = rows.set_column(3, "p", rows["p"].cast(pa.float32()).cast(pa.float64()))
    assert piwo.evaluate(log_of(single), saved).value is not None
    halves = june.split(0.5, seed=0)
    assert piwo.evaluate(halves.test, always, baseline=saved).improvement_lower is not None
    other_list = piwo.read(rows, context="x", propensity="p", actions=["new", *LABELS[::-1]])
    assert piwo.evaluate(other_list, saved).value is not None


@pytest.mark.parametrize("change", ["a row less", "a row twice", "a propensity", "an action"])
def test_one_row_decides(saved: piwo.policies.Policy, change: str) -> None:
    rows = table(JUNE, 0)
    frame = rows.to_pandas()
    if change == "a row less":
        frame = frame.iloc[1:]
    elif change == "a row twice":
        frame = frame.iloc[[0, *range(2000)]]
    elif change == "a propensity":
        frame.loc[7, "p"] = 0.25
    else:
        frame.loc[7, "action"] = "A" if frame.loc[7, "action"] != "A" else "B"
    with pytest.raises(piwo.UsageError, match="stands for"):
        piwo.evaluate(log_of(frame), saved)


def test_in_memory_too(june: piwo.Log, explore: piwo.Log) -> None:
    learned = piwo.Auto([piwo.oracles.Ridge()], keep="logger").fit(june).policy_
    assert isinstance(learned, Logging)
    assert piwo.evaluate(june, learned).value is not None
    with pytest.raises(piwo.UsageError, match="stands for"):
        piwo.evaluate(explore, learned)
    # a logging policy that was made here means the logger of the log that it is used on
    for log in (june, explore):
        assert piwo.evaluate(log, Logging()).value == piwo.evaluate(log, Logging()).logging_value


def test_policies_that_hold_it(june: piwo.Log, explore: piwo.Log, tmp_path: Path) -> None:
    learned = learned_from(june, Logging(june.actions))
    EpsilonGreedy(learned, 0.1).save(tmp_path / "p.piwo")
    mixed = Mixture([piwo.load(tmp_path / "p.piwo"), Uniform(LABELS)], [0.5, 0.5])
    mixed.save(tmp_path / "mixed.piwo")
    for policy in (piwo.load(tmp_path / "p.piwo"), piwo.load(tmp_path / "mixed.piwo")):
        assert piwo.evaluate(june, policy).value is not None
        with pytest.raises(piwo.UsageError, match="stands for"):
            piwo.evaluate(explore, policy)


def test_a_file_that_does_not_say_whose_logger_it_is(june: piwo.Log, tmp_path: Path) -> None:
    path = tmp_path / "old.piwo"
    Logging(LABELS).save(path, {"training": {"log": "june.parquet", "rows": 2000}})
    old = piwo.load(path)
    with pytest.raises(piwo.UsageError, match="'logging' is the logging policy of a log that its"):
        piwo.evaluate(june, old)
    with pytest.raises(piwo.UsageError, match="leave it out to use the logging policy"):
        piwo.evaluate(june, Uniform(LABELS), baseline=old)
