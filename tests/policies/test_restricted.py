"""Policies on logs whose actions change from row to row, against a naive loop over the rows."""

from pathlib import Path

import numpy as np
import pytest
from sklearn.linear_model import LinearRegression, LogisticRegression

import piwo
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.logs.eligible import Eligible
from piwo.policies import (
    Classifier,
    Constant,
    EpsilonGreedy,
    LinearGreedy,
    LinearSoftmax,
    MajorityVote,
    Mixture,
    RewardModels,
    Uniform,
    aligned,
)

ACTIONS = ["a", "b", "c", "d", "e"]
K, N, WIDTH = len(ACTIONS), 300, 2


def sets(seed: int = 0) -> tuple[np.ndarray, Eligible]:
    """Return contexts, and 1 to K eligible actions a row in random order."""
    random = np.random.default_rng(seed)
    listed = [random.permutation(K)[: random.integers(1, K + 1)] for _ in range(N)]
    starts = np.append(0, np.cumsum([len(x) for x in listed]))
    codes = np.concatenate(listed).astype(np.int32)
    return random.normal(size=(N, WIDTH)), Eligible(starts, codes)


X, SETS = sets()
RANDOM = np.random.default_rng(1)
COEF, OFFSET = RANDOM.normal(size=(K, WIDTH)), RANDOM.normal(size=K)
CODES = (X @ COEF.T).argmax(axis=1)
# Each action is some row's.
CODES[:K] = np.arange(K)
LABELS = np.array(ACTIONS)[CODES]

MODEL = LogisticRegression().fit(X, LABELS)
MODELS = [LinearRegression().fit(X, X @ coef) for coef in COEF]
GREEDY = LinearGreedy(COEF, OFFSET, ACTIONS)
SOFTMAX = LinearSoftmax(COEF, OFFSET, ACTIONS, temperature=0.7)


def best(scores: np.ndarray, row: int) -> dict[int, float]:
    """The first best of the eligible actions of a row."""
    mine = sorted(SETS.codes[SETS.starts[row] : SETS.starts[row + 1]].tolist())
    return {mine[int(np.argmax(scores[mine]))]: 1.0}


def shared(chances: np.ndarray, row: int) -> dict[int, float]:
    """Chances of a row over their sum."""
    mine = SETS.codes[SETS.starts[row] : SETS.starts[row + 1]].tolist()
    return {a: chances[a] / sum(chances[b] for b in mine) for a in mine}


def mixed(parts: list[tuple[float, dict[int, float]]]) -> dict[int, float]:
    found: dict[int, float] = {}
    for weight, part in parts:
        for a, p in part.items():
            found[a] = found.get(a, 0.0) + weight * p
    return found


def scores(row: int) -> np.ndarray:
    return COEF @ X[row] + OFFSET


def drawn(row: int) -> np.ndarray:
    z = scores(row) / 0.7
    return np.exp(z - z.max())


NAIVE = {
    "uniform": (Uniform(ACTIONS), lambda row: shared(np.ones(K), row)),
    "greedy": (GREEDY, lambda row: best(scores(row), row)),
    "softmax": (SOFTMAX, lambda row: shared(drawn(row), row)),
    "epsilon": (
        EpsilonGreedy(GREEDY, 0.3),
        lambda row: mixed([(0.7, best(scores(row), row)), (0.3, shared(np.ones(K), row))]),
    ),
    "mixture": (
        Mixture([GREEDY, SOFTMAX], [0.4, 0.6]),
        lambda row: mixed([(0.4, best(scores(row), row)), (0.6, shared(drawn(row), row))]),
    ),
    "classifier": (
        Classifier(MODEL, ACTIONS, greedy=False),
        lambda row: shared(MODEL.predict_proba(X[row : row + 1])[0], row),
    ),
    "greedy classifier": (
        Classifier(MODEL, ACTIONS),
        lambda row: best(MODEL.predict_proba(X[row : row + 1])[0], row),
    ),
    "reward models": (
        RewardModels(MODELS, np.ones(K), OFFSET, ACTIONS),
        lambda row: best(scores(row), row),
    ),
    "vote": (MajorityVote([GREEDY, GREEDY, SOFTMAX]), lambda row: best(scores(row), row)),
}


@pytest.mark.parametrize("name", NAIVE)
def test_restricted_as_a_loop_over_rows_says(name: str) -> None:
    policy, naive = NAIVE[name]
    chances = policy.within(policy.context(X), SETS)
    for row in range(N):
        pairs = slice(SETS.starts[row], SETS.starts[row + 1])
        expected = naive(row)
        assert chances[pairs].sum() == pytest.approx(1.0, rel=1e-12)
        for a, p in zip(SETS.codes[pairs].tolist(), chances[pairs].tolist(), strict=True):
            assert p == pytest.approx(expected.get(a, 0.0), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize("name", NAIVE)
def test_logged_and_full_agree_and_parts_of_a_batch_too(name: str) -> None:
    policy, _ = NAIVE[name]
    action = SETS.codes[SETS.starts[:-1]]
    batch = Batch(0, action, np.ones(N), np.ones(N), context=X, eligible=SETS)
    logged, table = policy.logged(batch), policy.full(batch)
    assert logged == pytest.approx(table[np.arange(N), action], abs=1e-12)
    assert table.sum(axis=1) == pytest.approx(np.ones(N))
    for keep in (slice(10, 40), np.arange(N) % 3 == 0, np.array([7, 3, 200])):
        assert policy.logged(batch.take(keep)) == pytest.approx(logged[keep], abs=1e-12)
    # An action that is not eligible has probability 0.
    outside = np.array([next((a for a in range(K) if table[i, a] == 0), 0) for i in range(N)])
    other = Batch(0, outside.astype(np.int32), np.ones(N), np.ones(N), context=X, eligible=SETS)
    assert policy.logged(other) == pytest.approx(table[np.arange(N), outside], abs=1e-12)
    # The same over a longer, reordered list.
    longer = Actions(["z", *reversed(ACTIONS)])
    place = Actions(ACTIONS).positions_in(longer)
    seen = Batch(
        0,
        place[action],
        np.ones(N),
        np.ones(N),
        context=X,
        eligible=Eligible(SETS.starts, place[SETS.codes]),
    )
    assert aligned(policy, longer).logged(seen) == pytest.approx(logged, abs=1e-12)


@pytest.mark.parametrize("name", NAIVE)
def test_acts_only_on_what_is_eligible_and_draws_with_its_probability(name: str) -> None:
    policy, _ = NAIVE[name]
    lists = [
        [ACTIONS[a] for a in SETS.codes[SETS.starts[i] : SETS.starts[i + 1]]] for i in range(N)
    ]
    done = policy.act(X, 0, eligible=lists)
    codes = Actions(ACTIONS).codes(done.actions)
    chances = policy.within(policy.context(X), SETS)
    assert (SETS.places(codes) >= 0).all()
    assert done.propensities == pytest.approx(chances[SETS.places(codes)])
    again = policy.act(X, 0, eligible=lists)
    assert (again.actions == done.actions).all()


def test_tables_and_choices_of_rows_are_restricted() -> None:
    table = RANDOM.dirichlet(np.ones(K), N)
    action = SETS.codes[SETS.starts[:-1]]
    batch = Batch(0, action, np.ones(N), np.ones(N), eligible=SETS)
    policy = piwo.policies.RowWise(table, ACTIONS)
    full = policy.full(batch)
    for row in range(N):
        expected = shared(table[row], row)
        for a in range(K):
            assert full[row, a] == pytest.approx(expected.get(a, 0.0), abs=1e-12)
    assert policy.logged(batch) == pytest.approx(full[np.arange(N), action])
    chosen = piwo.policies.RowChoices([ACTIONS[a] for a in action], ACTIONS)
    assert (chosen.logged(batch) == 1.0).all()
    never = piwo.policies.RowChoices(["a"] * N, ACTIONS)
    with pytest.raises(piwo.DataError, match="takes an action that is not eligible"):
        never.logged(batch)


def test_scores_that_leave_no_action_are_refused_at_every_temperature() -> None:
    for temperature in (1.0, 0.5, 1e-320):
        policy = LinearSoftmax(
            np.zeros((3, 1)), [0.0, -np.inf, -np.inf], ["a", "b", "c"], temperature=temperature
        )
        with pytest.raises(piwo.DataError, match="none of the eligible actions is available"):
            policy.act([[1.0]], eligible=["b", "c"])


def test_draws_follow_the_probabilities() -> None:
    many = 40_000
    policy = LinearSoftmax(np.zeros((3, 1)), np.log([0.2, 0.3, 0.5]), ["a", "b", "c"])
    done = policy.act(np.zeros((many, 1)), 3, eligible=["c", "a"])
    share = float((done.actions == "a").mean())
    # 2/7, within four standard errors
    assert abs(share - 2 / 7) < 4 * np.sqrt(2 / 7 * 5 / 7 / many)


def test_what_cannot_be_taken_is_one_line_with_the_row() -> None:
    with pytest.raises(piwo.DataError, match=r"row 1.*takes an action that is not eligible"):
        Constant("a", ACTIONS).act(n=2, eligible=[["a"], ["b"]])
    with pytest.raises(piwo.DataError, match=r"row 0.*no eligible action is an action of the pol"):
        Uniform(ACTIONS).act(n=1, eligible=[["x"]])
    with pytest.raises(piwo.DataError, match=r"row 0.*listed twice"):
        Uniform(ACTIONS).act(n=1, eligible=[["a", "a"]])
    with pytest.raises(piwo.UsageError, match="eligible has 1 lists, expected one for each of 2"):
        Uniform(ACTIONS).act(n=2, eligible=[["a"]])
    zero = LinearSoftmax(np.zeros((2, 1)), [0.0, -np.inf], ["a", "b"])
    with pytest.raises(piwo.DataError, match="none of the eligible actions is available"):
        zero.act([[1.0]], eligible=["b"])


def test_a_saved_policy_is_restricted_alike(tmp_path: Path) -> None:
    GREEDY.save(tmp_path / "p.piwo")
    loaded = piwo.load(tmp_path / "p.piwo")
    assert (loaded.within(X, SETS) == GREEDY.within(X, SETS)).all()


def test_a_polars_series_of_lists_is_taken() -> None:
    polars = pytest.importorskip("polars")
    policy = Uniform(["a", "b", "c"])
    lists = [["a"], ["c"]]
    for given in (polars.Series(lists), polars.DataFrame({"could": lists})["could"]):
        assert policy.act(n=2, eligible=given).actions.tolist() == ["a", "c"]
    # one list of labels is that of all rows
    assert policy.act(n=2, eligible=polars.Series(["b"])).actions.tolist() == ["b", "b"]
