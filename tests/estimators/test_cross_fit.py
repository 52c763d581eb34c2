"""Cross-fitting: no row is predicted by a model that saw it, and bounds refuse what breaks them."""

import numpy as np
import pyarrow as pa
import pytest
from sklearn.linear_model import Ridge

import piwo
from piwo.errors import DataError, UsageError

N, K = 90, 3


def columns(seed=0):
    rng = np.random.default_rng(seed)
    return {
        "x": rng.normal(size=N),
        "a": rng.integers(0, K, N),
        "r": rng.random(N) * 4 - 1,
        "p": [[1 / K] * K] * N,
        "user": rng.integers(0, 12, N),
        "id": np.arange(N) + 1000,
        "time": np.sort(rng.integers(0, 30, N)),
    }


def read(frame, **options):
    return piwo.read(
        pa.table(frame),
        action="a",
        reward="r",
        propensities="p",
        context=["x"],
        actions=range(K),
        reward_range=(-1, 3),
        **options,
    )


def twin(frame, fold, forward=False):
    """One row at a time."""
    x, found = frame["x"][:, None], np.empty((N, K))
    for t in range(N):
        others = fold < fold[t] if forward else fold != fold[t]
        for a in range(K):
            mine = others & (frame["a"] == a)
            if mine.sum() >= 5:
                found[t, a] = Ridge().fit(x[mine], frame["r"][mine]).predict(x[t : t + 1])[0]
            elif mine.any():
                found[t, a] = frame["r"][mine].mean()
            else:
                found[t, a] = frame["r"][others].mean() if others.any() else 1.0
    return found


@pytest.mark.parametrize(
    ("by", "declared"), [("row", {}), ("key", {"key": "id"}), ("unit", {"unit": "user"})]
)
def test_rows_are_predicted_from_other_folds(by, declared):
    frame = columns()
    found = piwo.cross_fit(read(frame, **declared), Ridge(), 4, by=by)
    assert sorted(set(found.fold.tolist())) == [0, 1, 2, 3]
    assert not found.forward
    assert found.table == pytest.approx(twin(frame, found.fold))
    if by == "unit":
        for user in range(12):
            assert len(set(found.fold[frame["user"] == user].tolist())) <= 1


@pytest.mark.parametrize("declared", [{}, {"time": "time"}])
def test_time_is_predicted_from_earlier_folds_alone(declared):
    frame = columns()
    found = piwo.cross_fit(read(frame, logger="learning", **declared), Ridge(), 4)
    assert (np.diff(found.fold) >= 0).all()
    assert found.forward
    assert found.table == pytest.approx(twin(frame, found.fold, forward=True))
    # nothing is known before the first fold: the middle of the reward range
    assert (found.table[found.fold == 0] == 1.0).all()
    if declared:
        for time in range(30):
            assert len(set(found.fold[frame["time"] == time].tolist())) <= 1


def test_doubly_robust_takes_it_as_the_same_table():
    log = read(columns(), logger="fixed")
    q = piwo.cross_fit(log, Ridge())
    policy = piwo.policies.Constant(1, log.actions)
    for estimate in (piwo.estimators.doubly_robust, piwo.estimators.direct_method):
        assert estimate(log, policy, q).value == pytest.approx(estimate(log, policy, q.table).value)


def test_bounds_take_it_only_forward():
    log = read(columns(), logger="fixed")
    policy = piwo.policies.Constant(1, log.actions)
    with pytest.raises(UsageError, match="folds that predict each other"):
        piwo.evaluate(log, policy, q=piwo.cross_fit(log, Ridge()))
    ahead = piwo.cross_fit(log, Ridge(), by="time")
    made = piwo.evaluate(log, policy, q=ahead)
    assert made.lower == piwo.evaluate(log, policy, q=ahead.table).lower
    frame = columns()
    frame["time"] = frame["time"][::-1].copy()
    late = piwo.cross_fit(read(frame, time="time", logger="fixed"), Ridge(), by="time")
    assert not late.forward
    assert (np.diff(late.fold) <= 0).all()


def test_a_part_of_a_log_has_its_own_predictions():
    log = read(columns(), logger="fixed")
    part = log.split(0.5).test
    q = piwo.cross_fit(part, Ridge())
    kept = ~np.isnan(q.table).any(axis=1)
    assert kept.sum() == len(part)
    assert ((q.fold >= 0) == kept).all()
    policy = piwo.policies.Constant(1, log.actions)
    assert np.isfinite(piwo.estimators.doubly_robust(part, policy, q).value)
    with pytest.raises(DataError, match="finite numbers"):
        piwo.estimators.doubly_robust(log, policy, q)


def test_what_cannot_be_fitted_is_refused():
    log = read(columns())
    with pytest.raises(UsageError, match="needs a column that the log does not declare"):
        piwo.cross_fit(log, Ridge(), by="key")
    with pytest.raises(UsageError, match="treats rows as independent"):
        piwo.cross_fit(read(columns(), unit="user"), Ridge(), by="row")
    with pytest.raises(UsageError, match="expected a scikit-learn regressor"):
        piwo.cross_fit(log, len)
    bare = piwo.Log.from_arrays(action=[0, 1], reward=[0, 1], propensity=[0.5, 0.5])
    with pytest.raises(DataError, match="needs the context"):
        piwo.cross_fit(bare, Ridge())
    other = piwo.Log.from_arrays(
        context=[[0.0]] * 2, action=[0, 1], reward=[0, 1], propensity=[0.5, 0.5]
    )
    with pytest.raises(UsageError, match="cross-fitted on a log with 3 actions"):
        piwo.estimators.direct_method(
            other, piwo.policies.Uniform(other.actions), piwo.cross_fit(log, Ridge())
        )
