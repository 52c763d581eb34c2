"""What rows are: whose they are, in which order, chosen how, and how often each is there.

Second round of real users' accidents: S03, S05, S09, S11, S12, S14.
"""

import warnings
from typing import Any

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.oracles import Classifier, Ridge
from piwo.policies import Constant, Uniform


def coins(n: int = 400, seed: int = 0, **columns: Any) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "action": random.choice(["a", "b"], n),
            "reward": (random.random(n) < 0.3).astype(float),
            "propensity": 0.5,
            "day": np.arange(n) % 10,
            **columns,
        }
    )


# --- conditions on what was decided or earned (S11, S03)


@pytest.mark.parametrize(
    ("where", "named"),
    [
        ("reward > 0", "'reward'"),
        ("propensity >= .05", "'propensity'"),
        ("action <> 'b'", "'action'"),
        ("day < 5 and Reward is not null", "'reward'"),
        ("\"action\" = 'a' or day = 3", "'action'"),
    ],
)
def test_conditions_on_the_decision_or_the_reward_give_no_bound(where: str, named: str) -> None:
    log = piwo.read(coins(), where=where, actions=["a", "b"])
    policy = Uniform(["a", "b"])
    for interval in ("mixture", "normal", "bootstrap"):
        found = piwo.evaluate(log, policy, interval=interval)
        assert found.value is not None
        assert (found.lower, found.upper, found.improvement_lower) == (None, None, None)
        assert found.no_interval is not None
        assert found.no_interval.kind == "condition"
        assert named in str(found.no_interval)
    for call in (
        lambda: piwo.certify(log, {0: policy}),
        lambda: piwo.regret_certificate(log, policy, {"a": Constant("a", ["a", "b"])}),
        lambda: piwo.select(log, {"one": policy}),
        lambda: piwo.Monitor(policy, horizon=100).update(log),
    ):
        with pytest.raises(piwo.UsageError, match="rows were chosen by what was decided"):
            call()


def test_conditions_on_time_or_context_have_bounds() -> None:
    log = piwo.read(coins(), where="day <= 3", actions=["a", "b"])
    assert piwo.evaluate(log, Uniform(["a", "b"])).lower is not None


def test_learning_from_rewarded_rows_alone_is_not_certified() -> None:
    log = piwo.read(coins(x=1.5), where="reward > 0", context="x")
    with pytest.raises(piwo.UsageError, match="no certificate is valid"):
        piwo.PIWO().fit(log)


def test_missing_rewards_are_not_to_be_dropped() -> None:
    rows = coins()
    rows.loc[5, "reward"] = np.nan
    with pytest.raises(piwo.DataError) as caught:
        piwo.evaluate(piwo.read(rows), Uniform(["a", "b"]))
    assert "too young to have their reward, by time" in str(caught.value)
    assert "drop" not in str(caught.value)


# --- a logger that learned (S09)


def learned(seed: int, users: int = 300) -> dict[str, Any]:
    """Fair coins whatever is done; from the fifth round on each user gets what did best."""
    random = np.random.default_rng(seed)
    sums = np.zeros((users, 4))
    rows: dict[str, list[Any]] = {"user": [], "action": [], "reward": [], "propensity": []}
    for turn in range(8):
        for user in random.permutation(users):
            mu = np.full(4, 0.25)
            if turn >= 4:
                mu = np.full(4, 0.03)
                mu[np.argmax(sums[user])] = 0.91
            action = random.choice(4, p=mu)
            reward = float(random.random() < 0.5)
            sums[user, action] += reward - 0.5
            for name, value in zip(rows, (user, action, reward, mu[action]), strict=True):
                rows[name].append(value)
    user = np.array(rows.pop("user"))
    arrays = {name: np.array(values) for name, values in rows.items()}
    return {"context": np.eye(users)[user], "actions": range(4), **arrays}


def shuffled(arrays: dict[str, Any]) -> dict[str, Any]:
    """The same rows in another order, with their times."""
    order = np.random.default_rng(1).permutation(len(arrays["action"]))
    mixed = {name: x if name == "actions" else x[order] for name, x in arrays.items()}
    return {**mixed, "time": order}


def test_a_learning_logger_is_certified_on_the_last_rows() -> None:
    arrays = learned(0)
    with pytest.warns(piwo.PiwoWarning, match="seems to have learned from earlier rows"):
        undeclared = piwo.PIWO(oracle=Ridge()).fit(piwo.Log.from_arrays(**arrays))
    declared = piwo.Log.from_arrays(**arrays, logger="learning")
    by_time = piwo.Log.from_arrays(**shuffled(arrays), logger="learning")
    first = undeclared.certificate_
    assert first.split["tail"]
    for log in (declared, by_time):
        made = piwo.PIWO(oracle=Ridge()).fit(log).certificate_
        assert (made.logger, made.split["tail"]) == ("learning", True)
        # The same rows are held out, in whatever order they came.
        assert made.rows == pytest.approx(first.rows, rel=0.02)
        assert not made.certified
        assert made.value_lower < 0.5
    parts = by_time.split(0.25)
    assert by_time.columns.time == "time"
    times = [
        shuffled(arrays)["time"][np.concatenate([b.row_numbers for b in side.each_batch()])]
        for side in (parts.train, parts.test)
    ]
    assert times[0].max() < times[1].min()


def test_a_random_split_says_that_it_assumes_a_fixed_logger() -> None:
    rows = coins(x=np.random.default_rng(3).normal(size=400))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        made = piwo.PIWO(oracle=Ridge()).fit(piwo.read(rows, context="x")).certificate_
        fixed = piwo.PIWO(oracle=Ridge()).fit(piwo.read(rows, context="x", logger="fixed"))
    assert (made.logger, fixed.certificate_.logger) == ("assumed fixed", "fixed")
    assert "assumes      that rows are independent and the logger was fixed" in str(made)
    assert "assumes      that rows are independent\n" in str(fixed.certificate_)


def test_declarations_are_checked() -> None:
    with pytest.raises(piwo.UsageError, match="logger is 'adaptive', expected 'fixed' or 'learn"):
        piwo.read(coins(), logger="adaptive")
    with pytest.raises(piwo.DataError, match="no column 'ts' for the time"):
        piwo.read(coins(), time="ts")
    with pytest.raises(piwo.DataError, match="time column 'day' holds text that is not a time"):
        piwo.read(coins(day="monday"), time="day", logger="learning").split(0.5)
    log = piwo.read(coins(user=range(400)), unit="user", logger="learning")
    with pytest.raises(piwo.UsageError, match="the rows of a unit would be on both sides"):
        log.split(0.5)
    found = piwo.evaluate(log, Uniform(["a", "b"]))
    assert found.no_interval is not None
    assert found.no_interval.kind == "learning-units"
    learning = piwo.read(coins(), logger="learning")
    with pytest.raises(piwo.UsageError, match="needs a fixed logger"):
        piwo.evaluate(learning, Uniform(["a", "b"]), interval="empirical-bernstein:4")


@pytest.mark.parametrize("kind", ["datetime64[us]", "float", "date", "int"])
def test_times_of_every_type_order_rows(kind: str) -> None:
    order = np.random.default_rng(0).permutation(400)
    times: Any = {
        "datetime64[us]": pd.Timestamp("2026-01-01") + pd.to_timedelta(order, unit="h"),
        "date": (pd.Timestamp("1969-12-01") + pd.to_timedelta(order, unit="D")).date,
        "float": order - 200.5,
        "int": order,
    }[kind]
    parts = piwo.read(coins(time=times), time="time").split(0.5, tail=True)
    held = np.concatenate([batch.row_numbers for batch in parts.test.each_batch()])
    assert set(order[held]) == set(range(200, 400))


# --- rows that are there several times (S05, S14)


def test_keys_that_repeat_are_refused() -> None:
    clicked = coins(1000, id=range(1000))
    rows = pd.concat([clicked, *[clicked[clicked.reward > 0]] * 2])
    log = piwo.read(rows, key="id", actions=["a", "b"])
    for call in (
        lambda: piwo.evaluate(log, Uniform(["a", "b"])),
        lambda: piwo.check(log),
        lambda: piwo.certify(log, {0: Uniform(["a", "b"])}),
    ):
        with pytest.raises(piwo.UsageError, match=r"key column 'id' has about 1\.\d+ rows a value"):
            call()
    once = piwo.read(clicked, key="id", actions=["a", "b"])
    assert piwo.evaluate(once, Uniform(["a", "b"])).lower is not None


def twice(n: int = 3000) -> dict[str, Any]:
    random = np.random.default_rng(0)
    rows = {
        "context": random.normal(size=(n, 3)),
        "action": random.integers(0, 2, n),
        "reward": (random.random(n) < 0.1).astype(float),
        "propensity": np.full(n, 0.5),
    }
    order = random.permutation(2 * n)
    return {name: np.concatenate([values, values])[order] for name, values in rows.items()}


def test_rows_that_were_delivered_twice_are_counted_and_not_learned_from() -> None:
    from sklearn.tree import DecisionTreeClassifier

    log = piwo.Log.from_arrays(**twice())
    health = piwo.check(log)
    assert health.copies == pytest.approx(0.5)
    assert "copies" in {finding.kind for finding in health.findings}
    with pytest.raises(piwo.UsageError, match=r"about 50 % of the rows are copies"):
        piwo.PIWO(oracle=Classifier(DecisionTreeClassifier())).fit(log)
    other = piwo.Log.from_arrays(
        **{name: x[:900] for name, x in twice(900).items()}, logger="fixed"
    )
    policy = piwo.PIWO(oracle=Ridge(), certificate=None).fit(other).policy_
    found = piwo.evaluate(log, policy)
    assert found.copies == pytest.approx(0.5)
    assert "copies" in {note.kind for note in found.notes}


def test_rows_of_a_logger_that_seldom_explores_are_not_copies() -> None:
    for seed in range(5):
        random = np.random.default_rng(seed)
        explored = random.random(1000) < 0.02
        rows = {
            "x": random.integers(0, 4000, 1000) / 4000,
            "action": explored.astype(int),
            "reward": (random.random(1000) < 0.01).astype(float),
            "propensity": np.where(explored, 0.02, 0.98),
        }
        log = piwo.read(pd.DataFrame(rows), context="x", logger="fixed")
        assert piwo.PIWO(oracle=Ridge()).fit(log).certificate_ is not None


def test_text_times_and_large_numbers_order_rows() -> None:
    stamps = pd.date_range("2026-01-01", periods=400, freq="h").strftime("%Y-%m-%d %H:%M:%S")
    large = np.arange(400, dtype=np.uint64) + np.uint64(2**63 - 200)
    for times in (stamps, large):
        parts = piwo.read(coins(ts=times), time="ts", logger="learning").split(0.5)
        held = np.concatenate([batch.row_numbers for batch in parts.test.each_batch()])
        assert set(held) == set(range(200, 400))


@pytest.mark.parametrize("contexts", [5, 400, 4000, 10**6])
def test_contexts_that_repeat_are_not_copies(contexts: int) -> None:
    random = np.random.default_rng(2)
    n = 3000
    log = piwo.Log.from_arrays(
        context=random.integers(0, contexts, (n, 1)),
        action=random.integers(0, 2, n),
        reward=(random.random(n) < 0.1).astype(float),
        propensity=np.full(n, 0.5),
    )
    assert piwo.check(log).copies is None


def peaked(n: int, seed: int, contexts: int, times: int = 1) -> piwo.Log:
    """Rows of a logger that explores in one row of fifty, each delivered several times."""
    random = np.random.default_rng(seed)
    explored = random.random(n) < 0.02
    rows = {
        "context": random.integers(0, contexts, (n, 1)) / contexts,
        "action": explored.astype(int),
        "reward": (random.random(n) < 0.01).astype(float),
        "propensity": np.where(explored, 0.02, 0.98),
    }
    order = random.permutation(n * times)
    return piwo.Log.from_arrays(
        **{name: np.concatenate([x] * times)[order] for name, x in rows.items()}
    )


def test_copies_are_seen_where_the_logger_seldom_explores() -> None:
    for seed in range(20):
        assert piwo.check(peaked(2000, seed, 10**9, times=2)).copies == pytest.approx(0.5)
        # Contexts that come again by chance, with enough of them to tell, and with few.
        for n, contexts in ((4000, 1000), (1000, 4000)):
            health = piwo.check(peaked(n, seed, contexts))
            assert health.copies is None
            assert "so it is not known whether any were copied" in str(health)


def test_check_says_that_copies_are_not_seen_where_chance_makes_equal_rows() -> None:
    rows = coins(2000)
    log = piwo.read(rows, actions=["a", "b"])
    health = piwo.check(log)
    assert health.copies is None
    assert health.equal_rows == pytest.approx(1.0, abs=0.01)
    assert health.verdict == "fit"
    line = f"copies of rows: {100 * health.equal_rows:.3g} % of the rows equal another row. Chance"
    assert line in str(health)
    assert "a column with a unique id of each row (key) would show it" in str(health)
    # A key settles it; amounts that are all different leave nothing to say.
    amounts = rows.assign(reward=np.random.default_rng(0).random(2000), id=range(2000))
    for other in (
        piwo.read(rows.assign(id=range(2000)), key="id"),
        piwo.read(amounts),
        piwo.read(rows.assign(x=np.random.default_rng(0).normal(size=2000)), context="x"),
    ):
        assert "copies of rows" not in str(piwo.check(other))


# --- what was declared of the logger, and what the rows show


def changing(n: int = 3000, changes: bool = True) -> dict[str, Any]:
    random = np.random.default_rng(0)
    context = random.integers(0, 200, (n, 2)).astype(float)
    context[:, 0] = context[:, 1] // 2
    mu = np.where(np.arange(n) < n // 2, 0.5, 0.8)
    if not changes:
        mu = np.where(context[:, 1] % 2 == 0, 0.5, 0.8)
    action = (random.random(n) >= mu).astype(int)
    return {
        "context": context,
        "action": action,
        "reward": random.random(n),
        "propensity": np.where(action == 0, mu, 1.0 - mu),
    }


def test_a_logger_that_is_declared_fixed_and_changed_is_noted() -> None:
    log = piwo.Log.from_arrays(**changing(), logger="fixed")
    (finding,) = [x for x in piwo.check(log).findings if x.kind == "logger"]
    assert finding.severity == "care"
    start = "declared fixed, but equal contexts got different propensities for the same action"
    assert finding.text.startswith(start)
    assert "logger='learning' and time" in finding.text
    learner = piwo.PIWO(oracle=Ridge()).fit(log)
    policy = Constant(0, [0, 1])
    other = piwo.PIWO(oracle=Ridge(), certificate=None)
    other.fit(piwo.Log.from_arrays(**{name: x[:500] for name, x in twice(500).items()}))
    assert any(note.startswith(start) for note in learner.certificate_.notes)
    fresh = {**changing(), "context": np.random.default_rng(1).normal(size=(3000, 3)).round(0)}
    apart = piwo.Log.from_arrays(**fresh, logger="fixed")
    found = piwo.evaluate(apart, other.policy_)
    assert "logger" in {note.kind for note in found.notes}
    made = piwo.certify(apart, {0: other.policy_, 1: policy})[0]
    assert any(note.startswith(start) for note in made.notes)


def test_a_logger_that_depends_on_columns_that_a_policy_does_not_read_is_not_noted() -> None:
    rows = changing(changes=False)
    frame = pd.DataFrame({**rows, "context": 0, "x": rows["context"][:, 0]})
    frame["y"] = rows["context"][:, 1]
    log = piwo.read(frame, context=["x", "y"], logger="fixed")
    other = piwo.read(frame[:400].assign(x=range(400)), context="x")
    policy = piwo.PIWO(oracle=Ridge(), certificate=None).fit(other).policy_
    assert "logger" not in {note.kind for note in piwo.evaluate(log, policy).notes}
    assert "logger" not in {finding.kind for finding in piwo.check(log).findings}
    # If y is not named, propensities seem to change, and the finding says that it may be so.
    (finding,) = [
        x for x in piwo.check(piwo.read(frame, context="x")).findings if x.kind == "logger"
    ]
    assert "if propensities depend on columns that context does not name" in finding.text


def test_check_reports_what_looks_like_a_learning_logger() -> None:
    (finding,) = [
        x for x in piwo.check(piwo.Log.from_arrays(**changing())).findings if x.kind == "logger"
    ]
    assert finding.severity == "note"
    assert finding.text.startswith("looks like a learning logger: ")
    assert "or declare logger='fixed'" in finding.text
    declared = piwo.Log.from_arrays(**changing(), logger="learning")
    assert "logger" not in {x.kind for x in piwo.check(declared).findings}


def test_propensities_that_were_estimated_do_not_change_the_logger() -> None:
    rows = changing(changes=False)
    frame = pd.DataFrame({"action": rows["action"], "reward": rows["reward"]})
    frame["x"] = rows["context"][:, 1] % 20
    log = piwo.estimate_propensities(frame, context="x", model=None)
    assert "logger" not in {x.kind for x in piwo.check(log).findings}
    with pytest.warns(piwo.PiwoWarning, match="the propensities were estimated") as caught:
        made = piwo.PIWO(oracle=Ridge()).fit(log).certificate_
    assert not any("seems to have learned" in str(one.message) for one in caught)
    assert not made.split["tail"]


# --- rows that a policy was learned from (S12)


@pytest.mark.parametrize("width", [2, 5, 30])
@pytest.mark.parametrize("kind", ["same", "float32", "4 digits", "3 digits", "new"])
def test_rows_are_recognized_with_fewer_digits(width: int, kind: str, tmp_path: Any) -> None:
    random = np.random.default_rng(width)
    n = 600
    context = random.normal(size=(n, width))
    rest = {
        "action": random.integers(0, 2, n),
        "reward": (random.random(n) < 0.1).astype(float),
        "propensity": np.full(n, 0.5),
    }
    log = piwo.Log.from_arrays(context=context, **rest)
    learner = piwo.PIWO(oracle=Ridge(), certificate=None).fit(log)
    learner.policy_.save(tmp_path / "p.piwo")
    again = {
        "same": context,
        "float32": context.astype(np.float32),
        "4 digits": context.round(4),
        "3 digits": np.array([[float(f"{x:.3g}") for x in row] for row in context]),
        "new": random.normal(size=(n, width)),
    }[kind]
    read_again = piwo.Log.from_arrays(context=again, **rest)
    for policy in (learner.policy_, piwo.load(tmp_path / "p.piwo")):
        found = piwo.evaluate(read_again, policy)
        assert found.in_sample == (kind != "new")
        assert (found.lower is None) == (kind != "new")


def test_an_in_sample_baseline_is_refused_for_a_declared_class() -> None:
    log = piwo.Log.from_arrays(**{name: x[:500] for name, x in twice(500).items()}, actions=[0, 1])
    policy = piwo.PIWO(oracle=Ridge(), certificate=None).fit(log).policy_
    members = [Constant(x, [0, 1]) for x in (0, 1)]
    with pytest.raises(piwo.UsageError, match="the baseline was learned from part of this log"):
        piwo.certify(log, {0: members[0]}, within=piwo.oracles.Exhaustive(members), baseline=policy)


# --- what the test of the propensities can see


def test_check_states_the_smallest_error_that_it_notices() -> None:
    n = 10_000

    def log(seed: int, error: float) -> piwo.Log:
        random = np.random.default_rng(seed)
        mu = random.choice([0.2, 0.5, 0.8], n)
        action = (random.random(n) < mu).astype(int)
        taken = np.where(action == 1, mu, 1.0 - mu)
        return piwo.Log.from_arrays(action=action, reward=action, propensity=taken / error)

    factor = piwo.check(log(0, 1.0)).detectable_factor
    assert factor is not None
    # Of the uniform policy s^2 = 3/8, and log(2 * 48 / .05) = 7.56 nats: s sqrt(.00151 / .99849).
    assert factor == pytest.approx(1.0238, abs=1e-3)
    assert "too small by up to about 2.3 %, no test would notice" in str(piwo.check(log(0, 1.0)))
    noticed = []
    for error in (1.0 + 1.5 * (factor - 1.0), 1.0 + 0.5 * (factor - 1.0)):
        verdicts = [piwo.check(log(seed, error)).propensity_p < 0.025 for seed in range(20)]
        noticed.append(np.mean(verdicts))
    assert noticed[0] > 0.8
    assert noticed[1] < 0.2


def test_no_error_of_a_uniform_logger_goes_unnoticed() -> None:
    log = piwo.Log.from_arrays(action=[0, 1] * 500, reward=[0, 1] * 500, propensity=[0.5] * 1000)
    assert piwo.check(log).detectable_factor == 1.0
