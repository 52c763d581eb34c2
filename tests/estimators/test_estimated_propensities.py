"""Estimated propensities: from other folds only, marked, calibrated where the classifier is
right."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.naive_bayes import GaussianNB

import piwo
from piwo.estimators.propensities import COLUMN
from piwo.learners.split import Split
from piwo.logs.hashing import key_numbers
from piwo.policies import RowWise


def rows(n: int = 4000, seed: int = 0) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """A log without propensities, and the propensities of its actions."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    of_one = 1 / (1 + np.exp(-1.5 * x))
    action = (rng.random(n) < of_one) * 1
    reward = (rng.random(n) < 0.2 + 0.6 * (action == (x > 0))) * 1.0
    return {"x": x, "action": action, "reward": reward}, np.where(action == 1, of_one, 1 - of_one)


def estimated(log: piwo.Log) -> np.ndarray:
    return np.concatenate([batch.propensity for batch in log.each_batch()])


def test_a_logistic_logger_is_found_by_logistic_regression() -> None:
    frame, truth = rows()
    log = piwo.estimate_propensities(frame, context="x")
    assert np.abs(estimated(log) - truth).mean() < 0.02
    assert log.propensity_error is not None
    assert log.propensity_error.estimated == "LogisticRegression, 5 folds"
    assert sum(one.pairs for one in log.propensity_error.calibration) == 2 * 4000
    assert sum(
        one.pairs * one.observed for one in log.propensity_error.calibration
    ) == pytest.approx(4000)
    assert sum(
        one.pairs * one.predicted for one in log.propensity_error.calibration
    ) == pytest.approx(4000)
    assert max(abs(one.z) for one in log.propensity_error.calibration) < 4


def test_no_row_is_seen_by_the_classifier_that_judges_it() -> None:
    """A classifier that knows its rows by heart gives every action of other rows 1/3 or 2/3,
    never 1."""
    from sklearn.neighbors import KNeighborsClassifier

    frame, _ = rows(300)
    for forward in (False, True):
        log = piwo.estimate_propensities(
            frame, context="x", model=KNeighborsClassifier(1), forward=forward
        )
        p = estimated(log)
        assert (p < 0.01).mean() > 0.1  # its own row would always be its nearest


def test_forward_leaves_the_first_part_out_and_looks_only_back() -> None:
    frame, _ = rows(1000)
    log = piwo.estimate_propensities(frame, context="x", forward=True, folds=4)
    assert len(log) == 750
    later = {name: np.concatenate([column[:750], column[:250]]) for name, column in frame.items()}
    again = piwo.estimate_propensities(later, context="x", forward=True, folds=4)
    assert np.array_equal(estimated(log)[:500], estimated(again)[:500])


def test_without_context_they_are_frequencies() -> None:
    frame = {"action": ["a"] * 30 + ["b"] * 10, "reward": [1.0] * 40}
    log = piwo.estimate_propensities(frame, folds=2, random_state=3)
    p = estimated(log)
    # of the 20 rows of the other fold k are `a`: (k + 1/2) / 21
    counts = p[:30] * 21 - 0.5
    assert np.allclose(counts, counts.round(), atol=1e-9)
    assert p[:30].mean() == pytest.approx(0.75, abs=0.05)


def test_every_result_says_it() -> None:
    frame, _ = rows()
    log = piwo.estimate_propensities(frame, context="x")
    word = "the propensities were estimated"
    evaluation = piwo.evaluate(log, piwo.policies.Uniform(log.actions))
    assert word in evaluation.notes[0]
    assert evaluation.lower is not None
    assert evaluation.lower <= 0.5 <= (evaluation.upper or 0)
    health = piwo.check(log)
    assert any(word in finding.text for finding in health.findings if finding.severity == "care")
    assert "calibration of the estimated propensities" in str(health)
    assert len(health.to_dict()["calibration"]) > 3
    with pytest.warns(piwo.PiwoWarning, match=word):
        learner = piwo.PIWO().fit(log)
    assert learner.certificate_ is not None
    assert word in learner.certificate_.notes[0]
    assert (
        word
        in piwo.intervals.bootstrap(log, piwo.policies.Uniform(log.actions), replicates=9).notes[0]
    )
    q = np.full((4000, 2), 0.5)
    declared = piwo.estimate_propensities(frame, context="x", actions=[0, 1])
    assert (
        word in piwo.estimators.doubly_robust(declared, piwo.policies.Uniform([0, 1]), q).notes[0]
    )


def test_wrong_arguments() -> None:
    frame, _ = rows(50)
    with pytest.raises(piwo.DataError, match="cut into 51 folds"):
        piwo.estimate_propensities(frame, context="x", folds=51)
    with pytest.raises(piwo.UsageError, match="no predict_proba"):
        piwo.estimate_propensities(frame, context="x", model=object())
    with pytest.raises(piwo.UsageError, match="rename it"):
        piwo.estimate_propensities({**frame, COLUMN: frame["x"]}, context=["x", COLUMN])


def test_the_order_of_folds_is_in_the_seed() -> None:
    frame, _ = rows(200)
    one, same, other = (
        estimated(piwo.estimate_propensities(frame, context="x", random_state=seed))
        for seed in (1, 1, 2)
    )
    assert np.array_equal(one, same)
    assert not np.array_equal(one, other)


# --- a log that is divided


def shop(n: int = 400) -> dict[str, Any]:
    """Rows with a text column; neither actions nor levels are declared."""
    rng = np.random.default_rng(4)
    city = np.array(["A", "B", "C"], object)[rng.integers(0, 3, n)]
    x = rng.normal(size=n)
    action = np.array(["a", "b"], object)[
        (rng.random(n) < 0.3 + 0.3 * (x > 0) + 0.2 * (city == "A")) * 1
    ]
    return {"x": x, "city": city, "action": action, "reward": (rng.random(n) < 0.5) * 1.0}


def read_and_divided(rows: dict[str, Any], forward: bool, tail: bool, factor: float = 1.0) -> Split:
    log = piwo.estimate_propensities(
        rows, context=["x", "city"], forward=forward, model=GaussianNB()
    )
    return Split.of(log.with_propensity_error(factor), "held-out", 0.4, 0, tail)


def changed(rows: dict[str, Any], where: np.ndarray) -> dict[str, Any]:
    """Rows of which some have other actions, one of them new, other contexts, one of them new,
    and other rewards."""
    found = {name: column.copy() for name, column in rows.items()}
    found["action"][where] = np.resize(np.array(["b", "b", "z"], object), where.sum())
    found["city"][where] = np.resize(np.array(["D", "A"], object), where.sum())
    found["x"][where] *= -3.0
    found["reward"][where] = 1.0
    return found


def held_out(rows: dict[str, Any], divided: Split, forward: bool) -> np.ndarray:
    """Return which of all rows are held out; forward, the first fifth is on neither side."""
    assert divided.test is not None
    assert divided.test.selector is not None
    n, left_out = len(rows["x"]), len(rows["x"]) // 5 if forward else 0
    return np.append(np.zeros(left_out, bool), divided.test.selector.keep(np.arange(n - left_out)))


def all_that_a_learner_sees(log: piwo.Log) -> tuple[Any, ...]:
    batches = list(log.each_batch(context=True))
    return (
        log.actions.labels,
        log.features,
        log.propensity_error,
        *(
            np.concatenate([getattr(x, name) for x in batches]).tolist()
            for name in ("propensity", "action", "context")
        ),
    )


WAYS = [(False, False), (True, False), (False, True), (True, True)]


@pytest.mark.parametrize(("forward", "tail"), WAYS)
@pytest.mark.filterwarnings("ignore:1 action has:piwo.PiwoWarning")
def test_what_is_learned_from_does_not_know_the_held_out_rows(forward: bool, tail: bool) -> None:
    rows = shop()
    one = read_and_divided(rows, forward, tail)
    other = read_and_divided(changed(rows, held_out(rows, one, forward)), forward, tail)
    assert all_that_a_learner_sees(one.training) == all_that_a_learner_sees(other.training)
    assert one.test is not None
    assert other.test is not None
    assert all_that_a_learner_sees(one.test) != all_that_a_learner_sees(other.test)


@pytest.mark.parametrize("forward", [False, True])
@pytest.mark.filterwarnings("ignore:1 action has:piwo.PiwoWarning")
def test_nor_does_it_where_the_sides_are_exchanged(forward: bool) -> None:
    rows = shop()
    one = read_and_divided(rows, forward, tail=False)
    left_out = np.arange(len(rows["x"])) < (len(rows["x"]) // 5 if forward else 0)
    other = read_and_divided(
        changed(rows, ~held_out(rows, one, forward) & ~left_out), forward, tail=False
    )
    assert all_that_a_learner_sees(one.exchanged().training) == all_that_a_learner_sees(
        other.exchanged().training
    )


RIDGE = piwo.oracles.Ridge()
LEARNED: dict[str, Callable[[piwo.Log], np.ndarray]] = {
    "PIWO": lambda log: piwo.PIWO(oracle=RIDGE).fit(log).policy_.coef,
    "PIWOGrid": lambda log: np.stack(
        [x.policy.coef for x in piwo.PIWOGrid(oracle=RIDGE).fit(log).path_.values()]
    ),
    "Auto": lambda log: (
        next(iter(piwo.Auto([RIDGE], exchange=False).fit(log).path_.values())).policy.coef
    ),
    "PACBayesLinear": lambda log: piwo.PACBayesLinear(draws=2, steps=3).fit(log).prior_.mean,
}


@pytest.mark.parametrize("name", LEARNED)
@pytest.mark.filterwarnings("ignore::piwo.PiwoWarning")
def test_no_policy_follows_what_was_done_in_held_out_rows(name: str) -> None:
    rows = shop()
    log = piwo.estimate_propensities(rows, context=["x", "city"], model=GaussianNB())
    selector = log.split().test.selector
    assert selector is not None
    again = {x: y.copy() for x, y in rows.items()}
    held = selector.keep(np.arange(len(log)))
    again["action"][held] = again["action"][held][::-1]
    other = piwo.estimate_propensities(again, context=["x", "city"], model=GaussianNB())
    assert estimated(log).tolist() != estimated(other).tolist()
    assert LEARNED[name](log).tolist() == LEARNED[name](other).tolist()


def test_each_side_is_estimated_as_a_log_of_its_own() -> None:
    rows = shop()
    divided = read_and_divided(rows, forward=False, tail=False, factor=1.2)
    held = held_out(rows, divided, forward=False)
    for side, keep in ((divided.training, ~held), (divided.test, held)):
        alone = piwo.estimate_propensities(
            {x: y[keep] for x, y in rows.items()}, context=["x", "city"], model=GaussianNB()
        ).with_propensity_error(1.2)
        assert side is not None
        assert side.propensity_error == alone.propensity_error
        assert estimated(side).tolist() == estimated(alone).tolist()
    assert divided.exchanged().training.propensity_error == divided.test.propensity_error  # type: ignore[union-attr]


def test_the_last_rows_are_estimated_from_all_before() -> None:
    rows = shop()
    log = piwo.estimate_propensities(rows, context="x", forward=True)
    parts = log.split(0.3, tail=True)
    assert estimated(parts.test).tolist() == estimated(log)[-len(parts.test) :].tolist()


def test_a_side_with_fewer_rows_than_folds_is_refused() -> None:
    rows = {"action": [0, 1] * 4, "reward": [1.0] * 8}
    with pytest.raises(piwo.DataError, match="4 rows are to be cut into 5 folds"):
        piwo.estimate_propensities(rows).split(tail=True)


class Partners(ClassifierMixin, BaseEstimator):
    """Even odds, but for contexts that it has seen: there what was done has a thousandth more."""

    def fit(self, X: np.ndarray, y: np.ndarray) -> "Partners":
        self.classes_ = np.array([0, 1])
        self.seen_ = dict(zip(X[:, 0].tolist(), y.tolist(), strict=True))
        return self

    def predict_proba(self, X: np.ndarray) -> np.ndarray:
        tilt = np.array(
            [{None: 0.0, 0: -1e-3, 1: 1e-3}[self.seen_.get(x)] for x in X[:, 0].tolist()]
        )
        return np.stack([0.5 - tilt, 0.5 + tilt], axis=1)


@pytest.mark.statistics
@pytest.mark.parametrize("forward", [False, True])
def test_certificates_of_who_listens_to_propensities_hold(forward: bool) -> None:
    """Users come twice; half of them reward anything, so that every policy is worth .5.

    True propensities are 1/2, and no estimate is below 1/2.02 or so: with the factor allowed for,
    certificates must hold. Where a training row's propensity tells what its user did the other
    time, a policy that repeats it for the rewarding ones, and avoids it for others, is certified
    near 1 by rows whose mean weight is 1.
    """
    n, wrong, factor, delta = 400, 0, 1.02, 0.2
    for seed in range(20):
        rng = np.random.default_rng(seed)
        user, action = rng.permutation(np.repeat(np.arange(n // 2), 2)), rng.integers(0, 2, n)
        rows = {"user": user, "action": action, "reward": (user % 2) * 1.0}
        log = piwo.estimate_propensities(
            rows, context="user", model=Partners(), forward=forward, actions=[0, 1], folds=40
        )
        first = n - len(log)
        parts, pi = log.with_propensity_error(factor).split(seed=seed), np.full((n, 2), 0.5)
        for batch in parts.train.each_batch(context=True):
            assert batch.context is not None
            who, tilt = batch.context[:, 0].astype(int), batch.propensity / factor - 0.5
            again = np.where(
                np.abs(tilt) < 1e-4, -1, np.where(tilt > 0, batch.action, 1 - batch.action)
            )
            for one, what in zip(who[again >= 0], again[again >= 0], strict=True):
                pi[user == one] = np.eye(2)[what if one % 2 else 1 - what]
        policy = RowWise(pi[first:], log.actions)
        made = piwo.certify(parts.test, {0: policy}, delta=delta)[0]
        assert made.value_lower is not None
        wrong += made.value_lower > 0.5
    assert wrong / 20 <= delta


# --- units, keys and times


def visits(users: int = 60, each: int = 12, seed: int = 5) -> dict[str, np.ndarray]:
    """Users with as many rows each, in random order; what is done depends on x."""
    rng = np.random.default_rng(seed)
    n = users * each
    user = rng.permutation(np.repeat(np.arange(users), each))
    x = rng.normal(size=users)[user] + rng.normal(size=n)
    action = (rng.random(n) < 1 / (1 + np.exp(-x))) * 1
    reward = (rng.random(n) < 0.3 + 0.4 * (action == user % 2)) * 1.0
    return {"x": x, "user": user, "event": np.arange(n), "action": action, "reward": reward}


def in_files(rows: dict[str, np.ndarray], folder: Path, count: int = 3) -> str:
    """The rows in several files; rows of a user are in all of them."""
    table = pa.table(rows)
    size = -(-len(table) // count)
    for i in range(count):
        pq.write_table(table.slice(i * size, size), folder / f"{i}.parquet")
    return str(folder / "*.parquet")


def twin(rows: dict[str, np.ndarray], column: str, folds: int, seed: int) -> np.ndarray:
    """The propensities of the actions taken, row by row: each fold's from a fit on all others."""
    numbers = key_numbers(pa.array(rows[column]), column)
    distinct = sorted(set(numbers.tolist()))
    cut = [i * folds // len(distinct) for i in range(len(distinct))]
    fold_of = dict(zip(distinct, np.random.default_rng(seed).permutation(cut), strict=True))
    fold = np.array([fold_of[number] for number in numbers.tolist()])
    found = np.zeros(len(fold))
    for one in range(folds):
        others, own = np.flatnonzero(fold != one), np.flatnonzero(fold == one)
        model = GaussianNB().fit(rows["x"][others, None], rows["action"][others])
        p = model.predict_proba(rows["x"][own, None])[np.arange(len(own)), rows["action"][own]]
        found[own] = (len(others) * p + 0.5) / (len(others) + 1)
    return found


@pytest.mark.parametrize("role", ["unit", "key"])
def test_folds_by_unit_or_key_are_those_of_a_naive_twin(tmp_path: Path, role: str) -> None:
    frame = visits()
    column = {"unit": "user", "key": "event"}[role]
    expected = twin(frame, column, 4, 2)
    arguments: dict[str, Any] = {"context": "x", "model": GaussianNB(), role: column}
    files = in_files(frame, tmp_path)
    log = piwo.estimate_propensities(files, folds=4, random_state=2, **arguments)
    found = np.zeros(len(log))
    for batch in log.each_batch():
        found[batch.row_numbers] = batch.propensity
    assert np.allclose(found, expected, rtol=0, atol=1e-12)
    w = (frame["action"] == 1) / expected
    made = piwo.evaluate(log, piwo.policies.Constant(1, log.actions))
    if role == "key":
        assert made.value == pytest.approx((w * frame["reward"]).mean(), abs=1e-12)
        return
    users = frame["user"]
    by_user = np.bincount(users, w * frame["reward"]) / np.bincount(users)
    weights = np.bincount(users, w) / np.bincount(users)
    assert made.value == pytest.approx(by_user.mean(), abs=1e-12)
    assert made.ess == pytest.approx(weights.sum() ** 2 / (weights**2).sum(), abs=1e-9)
    assert (made.unit, made.units, made.rows) == ("user", 60, 720)
    assert "LogisticRegression" not in made.notes[0]
    assert "4 folds by 'user'" in made.notes[0]


def test_no_row_of_a_user_is_in_the_fit_that_judges_the_user() -> None:
    """Each user has one action. A classifier that knows the users' rows would be sure of it."""
    from sklearn.neighbors import KNeighborsClassifier

    frame = visits()
    frame["x"] = frame["user"] * 1.0
    frame["action"] = np.random.default_rng(1).integers(0, 2, 60)[frame["user"]]
    arguments: dict[str, Any] = {"context": "x", "model": KNeighborsClassifier(1)}
    seen = estimated(piwo.estimate_propensities(frame, **arguments))
    by_unit = estimated(piwo.estimate_propensities(frame, unit="user", **arguments))
    assert seen.min() > 0.9
    assert 0.2 < (by_unit > 0.5).mean() < 0.8


@pytest.mark.parametrize("role", ["unit", "key"])
def test_folds_by_unit_or_key_do_not_depend_on_the_order_of_rows(role: str) -> None:
    frame = visits()
    column = {"unit": "user", "key": "event"}[role]
    order = np.random.default_rng(0).permutation(720)
    moved = {name: values[order] for name, values in frame.items()}
    arguments: dict[str, Any] = {"context": "x", "model": GaussianNB(), role: column}
    policy = piwo.policies.Constant(1, [0, 1])
    one, other = (
        piwo.evaluate(piwo.estimate_propensities(rows, actions=[0, 1], **arguments), policy)
        for rows in (frame, moved)
    )
    assert one.value == pytest.approx(other.value, abs=1e-12)
    assert one.lower == pytest.approx(other.lower, abs=1e-12)


@pytest.mark.parametrize("role", ["unit", "key"])
def test_both_sides_of_a_split_are_estimated_from_their_own_rows(role: str) -> None:
    """Other rows on the held-out side change nothing on the side to learn from."""
    frame = visits()
    column = {"unit": "user", "key": "event"}[role]
    arguments: dict[str, Any] = {"context": "x", "model": GaussianNB(), role: column}
    parts = piwo.estimate_propensities(frame, **arguments).split(0.4)
    held = np.concatenate([batch.row_numbers for batch in parts.test.each_batch()])
    users = set(frame["user"][held].tolist())
    kept = np.concatenate([batch.row_numbers for batch in parts.train.each_batch()])
    if role == "unit":
        assert users.isdisjoint(frame["user"][kept].tolist())
    assert sorted([*held, *kept]) == list(range(720))
    frame["action"][held[::2]] = 1
    again = piwo.estimate_propensities(frame, **arguments).split(0.4)
    assert np.array_equal(estimated(parts.train), estimated(again.train))
    assert not np.array_equal(estimated(parts.test), estimated(again.test))


def test_a_learner_by_unit_certifies_by_unit() -> None:
    log = piwo.estimate_propensities(visits(200, 6), context="x", unit="user")
    with pytest.warns(piwo.PiwoWarning, match="estimated"):
        made = piwo.PIWO().fit(log).certificate_
    assert made is not None
    assert made.unit == "user"
    assert made.units is not None
    assert made.units < 200


def test_parts_forward_are_in_the_order_of_time() -> None:
    frame = visits()
    order = np.random.default_rng(0).permutation(720)
    moved = {name: values[order] for name, values in frame.items()}
    arguments: dict[str, Any] = {"context": "x", "forward": True, "time": "event"}
    one = piwo.estimate_propensities(frame, **arguments)
    other = piwo.estimate_propensities(moved, logger="learning", **arguments)
    assert np.array_equal(estimated(one), estimated(other))
    assert other.logger == "learning"
    parts = other.split(0.5)
    late = np.concatenate([batch.row_numbers for batch in parts.test.each_batch()])
    assert late.min() == 576 - len(late)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"unit": "user", "folds": 61}, "60 units are to be cut into 61 folds"),
        ({"key": "user", "folds": 61}, "60 keys are to be cut into 61 folds"),
        ({"unit": "user", "forward": True}, "leave forward out"),
        ({"unit": "nothing"}, "no column 'nothing' for the unit"),
    ],
)
def test_what_units_exclude(given: dict[str, Any], says: str) -> None:
    with pytest.raises(piwo.PiwoError, match=says):
        piwo.estimate_propensities(visits(), context="x", **given)
