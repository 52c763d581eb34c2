"""Predicted rewards of eligible actions: by hand, a naive twin, fixed lists, every form, errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.linear_model import LinearRegression

import piwo
from piwo.cli.main import main
from piwo.estimators import direct_method, doubly_robust
from piwo.estimators.reward_model import reward_model
from piwo.intervals.matching import matched
from piwo.policies import Constant, Uniform
from piwo.reductions.bets import BETS
from piwo.reductions.model_variate import CUTS, ModelVariates

K, N = 6, 1200
RANDOM = np.random.default_rng(3)
COULD = [RANDOM.permutation(K)[: RANDOM.integers(1, 5)].tolist() for _ in range(N)]
CHANCES = [RANDOM.dirichlet(np.ones(len(could))).tolist() for could in COULD]
AT = [int(RANDOM.choice(len(chance), p=chance)) for chance in CHANCES]
ACTION = [could[at] for could, at in zip(COULD, AT, strict=True)]
X = RANDOM.normal(size=(N, 2))
TABLE = RANDOM.random((N, K))
REWARD = (RANDOM.random(N) < TABLE[np.arange(N), ACTION]) * 1.0
LISTS = [TABLE[t, could].tolist() for t, could in enumerate(COULD)]
COLUMNS: dict[str, Any] = {
    "x0": X[:, 0],
    "x1": X[:, 1],
    "action": ACTION,
    "reward": REWARD,
    "could": COULD,
    "mu": CHANCES,
    "guess": LISTS,
    "user": np.arange(N) // 3,
    "alone": [chance[at] for chance, at in zip(CHANCES, AT, strict=True)],
}
ROLES: dict[str, Any] = {
    "eligible": "could",
    "propensities": "mu",
    "propensity": None,
    "context": "x*",
    "predictions": "guess",
    "actions": range(K),
}


def log(**changed: Any) -> piwo.Log:
    columns = {**COLUMNS, **{name: changed.pop(name) for name in [*changed] if name in COLUMNS}}
    return piwo.read(pa.table(columns), **{**ROLES, **changed})


FALLING = np.tile(1.0 / np.arange(1, K + 1) / (1.0 / np.arange(1, K + 1)).sum(), (N, 1))
"""A policy that prefers low numbers, as a table."""
PI = [FALLING[0, could] / FALLING[0, could].sum() for could in COULD]
W = np.array([pi[at] / chance[at] for pi, at, chance in zip(PI, AT, CHANCES, strict=True)])


def naive(weights: Any = W, q: Any = LISTS) -> tuple[float, float, float]:
    """The direct method, DR and SNDR, by loops over rows and eligible actions."""
    direct, residual = 0.0, 0.0
    for t in range(N):
        direct += sum(p * guess for p, guess in zip(PI[t], q[t], strict=True))
        residual += weights[t] * (REWARD[t] - q[t][AT[t]])
    plain = (direct + residual) / N
    return direct / N, plain, direct / N + residual / float(np.sum(weights))


def test_two_rows_by_hand() -> None:
    made = piwo.Log.from_arrays(
        action=["a", "b"],
        reward=[1.0, 0.0],
        propensity=[0.5, 1.0],
        eligible=[["b", "a"], ["b"]],
        predictions=[[0.25, 0.75], [0.5]],
    )
    uniform = Uniform(["a", "b"])
    # The means of the lists are .5 and .5; the residuals, of weight 1 each, .25 and -.5.
    assert direct_method(made, uniform, "predictions").value == pytest.approx(0.5, abs=1e-15)
    found = doubly_robust(made, uniform, "predictions")
    assert found.value == pytest.approx(0.5 - 0.125, abs=1e-15)
    # self-normalized: the weights are 1 and 1
    found = doubly_robust(made, uniform, "predictions", self_normalized=True)
    assert found.value == pytest.approx(0.375, abs=1e-15)
    constant = doubly_robust(made, Constant("b", ["a", "b"]), [[0.25, 0.75], [0.5]])
    # b is not taken in the first row
    assert constant.value == pytest.approx((0.25 + 0.5) / 2 - 0.25, abs=1e-15)


FORMS: dict[str, Any] = {
    "column": "predictions",
    "lists": LISTS,
    "arrays": [np.array(one) for one in LISTS],
    "objects": np.array([np.array(one) for one in LISTS], dtype=object),
    "pandas": pd.Series(LISTS),
    "polars": pl.Series(LISTS),
    "arrow": pa.array(LISTS),
    "chunks": pa.chunked_array([pa.array(LISTS[:500]), pa.array(LISTS[500:])]),
    "float32": pa.array(LISTS, pa.large_list(pa.float32())),
    "table": TABLE,
    "frame": pd.DataFrame(TABLE, columns=range(K))[[3, 1, 0, 2, 5, 4]],
}


@pytest.mark.parametrize("form", FORMS)
def test_every_form_gives_the_numbers_of_a_loop(form: str) -> None:
    q, made = FORMS[form], log()
    close = {"rel": 1e-7} if form == "float32" else {"rel": 1e-12}
    direct, plain, normalized = naive()
    assert direct_method(made, FALLING, q).value == pytest.approx(direct, **close)
    assert doubly_robust(made, FALLING, q).value == pytest.approx(plain, **close)
    found = doubly_robust(made, FALLING, q, self_normalized=True)
    assert found.value == pytest.approx(normalized, **close)
    known = piwo.evaluate(made, FALLING, q="predictions")
    found = piwo.evaluate(made, FALLING, q=q)
    assert (found.lower, found.upper) == pytest.approx((known.lower, known.upper), **close)
    assert found.interval == "deadline-cv"


def test_bets_are_those_of_a_loop() -> None:
    made = log()
    model = reward_model("predictions", made, N, made.features)
    ready = matched(made, {"falling": FALLING})[1]["falling"]
    state = piwo.reductions.reduce(made, ModelVariates(ready, model))
    for i, k in enumerate(CUTS):
        value, loss, gain = [], [], []
        for t in range(N):
            q, w, r = LISTS[t], W[t], REWARD[t]
            mass = sum(min(p * a, k * m) for p, a, m in zip(PI[t], q, CHANCES[t], strict=True))
            lost = sum(min(p - p * a, k * m) for p, a, m in zip(PI[t], q, CHANCES[t], strict=True))
            value.append(w * r + mass + k - min(w * q[AT[t]], k))
            loss.append(w * (1 - r) + lost + k - min(w * (1 - q[AT[t]]), k))
            gain.append(value[-1] + 1 - r)
        for sums, wanted in ((state.value, value), (state.loss, loss), (state.improvement, gain)):
            bets = np.log1p(np.outer(BETS, wanted)).sum(axis=1)
            assert np.allclose(sums[i], bets, rtol=1e-10)


def test_all_actions_eligible_changes_no_number() -> None:
    rng = np.random.default_rng(1)
    mu = rng.dirichlet(np.ones(K), N)
    action = [int(rng.choice(K, p=one)) for one in mu]
    given = {"action": action, "reward": REWARD, "propensities": mu, "context": X}
    fixed = piwo.Log.from_arrays(actions=range(K), **given)
    every = [list(range(K))] * N
    given["propensities"] = mu.tolist()
    listed = piwo.Log.from_arrays(
        actions=range(K), eligible=every, predictions=TABLE.tolist(), **given
    )
    model = LinearRegression().fit(X, TABLE)
    for q, same in (
        (TABLE, "predictions"),
        ("forward", "forward"),
        (model, lambda x, a: model.predict(x)[np.arange(len(x)), a]),
    ):
        one = piwo.evaluate(fixed, FALLING, q=q)
        two = piwo.evaluate(listed, FALLING, q=same)
        assert (two.lower, two.upper) == pytest.approx((one.lower, one.upper), rel=1e-9)
    folds = piwo.cross_fit(listed, LinearRegression(), by="time")
    same_folds = piwo.cross_fit(fixed, LinearRegression(), by="time")
    one, two = piwo.evaluate(fixed, FALLING, q=same_folds), piwo.evaluate(listed, FALLING, q=folds)
    assert (two.lower, two.upper) == pytest.approx((one.lower, one.upper), rel=1e-9)


def test_good_predictions_narrow_the_interval() -> None:
    known = np.array([0.9, 0.1, 0.8, 0.2, 0.9, 0.1])
    # the reward is what the action earns, in most rows
    reward = (known[ACTION] > 0.5) * 1.0
    guess = [(known[could] > 0.5).astype(float).tolist() for could in COULD]
    made = log(reward=reward, guess=guess)
    plain = piwo.evaluate(made, FALLING)
    helped = piwo.evaluate(made, FALLING, q="predictions")
    truth = float(np.mean([(known[c] > 0.5) @ pi for c, pi in zip(COULD, PI, strict=True)]))
    assert helped.lower <= truth <= helped.upper
    assert helped.upper - helped.lower < 0.9 * (plain.upper - plain.lower)


def test_units_and_parts_of_a_log_keep_the_order_of_rows() -> None:
    # rows of a user are not neighbors
    users = np.random.default_rng(7).permutation(N) // 3
    made = log(user=users, unit="user")
    for q in ("predictions", LISTS, TABLE):
        found = doubly_robust(made, FALLING, q)
        assert found.value == pytest.approx(naive()[1], rel=1e-12)
        assert found.rows == N // 3
        assert piwo.evaluate(made, FALLING, q=q).upper < 1.0
    part = log().split(0.3, seed=1).test
    rows = np.concatenate([batch.row_numbers for batch in part.each_batch()])
    direct = np.mean([PI[t] @ np.array(LISTS[t]) for t in rows])
    for q in ("predictions", LISTS):
        assert direct_method(part, FALLING, q).value == pytest.approx(direct, rel=1e-12)


def test_rewards_in_another_unit_and_costs() -> None:
    tens = [[10.0 * x for x in one] for one in LISTS]
    made = log(reward=10 * REWARD, guess=tens, reward_range=(0, 10))
    found = doubly_robust(made, FALLING, "predictions")
    assert found.value == pytest.approx(10 * naive()[1], rel=1e-12)
    half = piwo.evaluate(made, FALLING, q="predictions").lower
    assert half == pytest.approx(10 * piwo.evaluate(log(), FALLING, q="predictions").lower)


@pytest.mark.parametrize("kind", ["parquet", "jsonl"])
def test_the_command_streams_the_column(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / f"log.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(COLUMNS), path, row_group_size=100)
    else:
        path.write_text("\n".join(map(json.dumps, pa.table(COLUMNS).to_pylist())))
    words = ["evaluate", str(path), "--eligible", "could", "--propensities", "mu"]
    words += ["--policy", "uniform", "--predictions", "guess", "--json", "--context", "x*"]
    uniform = Uniform(range(K)) if kind == "parquet" else Uniform(map(str, range(K)))
    roles = {**ROLES, "actions": None}
    made = piwo.read(str(path), **roles)
    for how in ("predictions", "forward"):
        assert main([*words, "--reward-model", how]) == 0
        (found,) = json.loads(capsys.readouterr().out)["policies"]
        same = piwo.evaluate(made, uniform, q=how)
        assert (found["lower"], found["upper"]) == (same.lower, same.upper)
    known = piwo.evaluate(log(), Uniform(range(K)), q="predictions")
    same = piwo.evaluate(made, uniform, q="predictions")
    assert (same.lower, same.upper) == pytest.approx((known.lower, known.upper), rel=1e-9)
    assert main([*words, "--reward-model", "column"]) == 2
    assert "expected forward, or predictions" in capsys.readouterr().err


def wrong(row: int, entry: Any) -> list[Any]:
    return [*LISTS[:row], entry, *LISTS[row + 1 :]]


BAD = [
    (wrong(7, [*LISTS[7], 0.5]), "has not as many predicted rewards .* in 1 row .*0: 7.; give one"),
    (wrong(7, None), "has not as many predicted rewards .* in 1 row .*0: 7.; give one"),
    (
        wrong(7, [None] * len(LISTS[7])),
        "has missing or infinite predicted rewards .*0: 7.; predict",
    ),
    (wrong(7, [np.inf] * len(LISTS[7])), "has missing or infinite predicted rewards .*0: 7.; pred"),
]


@pytest.mark.parametrize(("lists", "says"), BAD)
def test_bad_predictions_name_the_row(
    lists: Any, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # the column is validated by whatever reads the rows
    made = log(guess=pa.array(lists))
    for ask in (piwo.check, lambda made: piwo.evaluate(made, FALLING)):
        with pytest.raises(piwo.DataError, match=f"column 'guess' {says}"):
            ask(made)
    with pytest.raises(piwo.DataError, match=f"column 'q' {says}"):
        doubly_robust(log(), FALLING, lists)
    path = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({**COLUMNS, "guess": pa.array(lists)}), path)
    words = ["check", path, "--eligible", "could", "--propensities", "mu", "--predictions", "guess"]
    assert main(words) == 2
    assert "column 'guess' has " in capsys.readouterr().err


def test_what_is_no_prediction_is_refused_in_one_line() -> None:
    made = log()
    for q, says in (
        (LISTS[:-1], "q has 1,199 lists, the log has 1,200 rows; give one for each row"),
        ([["x"]] * N, "q cannot be read as lists of the predicted rewards of the eligible act"),
        (pa.array([["x"]] * N), "column 'q' has lists of type string, expected lists of the pred"),
        ("guess", r"q is str, expected lists of the predicted rewards .*, an \(n, 6\) array"),
        (lambda x, a: [0.5], r"the reward model gave the shape \(1,\), .* for each of \d+ pairs"),
        (lambda x, a: np.where(a == 3, np.nan, 0.5), "gave nan for '3', expected a finite"),
        (np.ones((N, 3)), "column 'q' has not as many predicted rewards as there are eligible"),
    ):
        with pytest.raises(piwo.errors.PiwoError, match=says) as caught:
            doubly_robust(made, FALLING, q)
        assert "\n" not in str(caught.value)
    first = next(t for t, could in enumerate(COULD) if 3 in could)
    with pytest.raises(piwo.errors.PiwoError, match=f"row numbers from 0: {first}, "):
        doubly_robust(made, FALLING, lambda x, a: np.where(a == 3, np.nan, 0.5))
    with pytest.raises(piwo.UsageError, match="q='predictions' needs a column with lists of the"):
        doubly_robust(log(predictions=None), FALLING, "predictions")
    says = r"names no such actions; name their column \(eligible\), or leave predictions out"
    with pytest.raises(piwo.UsageError, match=says):
        log(eligible=None)
    single = log(propensities=None, propensity="alone")
    with pytest.raises(piwo.UsageError, match="the propensity of the logged action only"):
        piwo.evaluate(single, FALLING, q="predictions")


def test_functions_of_pairs_see_their_contexts_and_labels() -> None:
    seen: list[tuple[Any, Any]] = []

    def q(x: Any, labels: Any) -> Any:
        seen.append((x, labels))
        return 0.5 + 0.1 * labels / K

    found = doubly_robust(log(), FALLING, q)
    guess = [(0.5 + 0.1 * np.array(could) / K).tolist() for could in COULD]
    assert found.value == pytest.approx(naive(q=guess)[1], rel=1e-12)
    rows = np.repeat(np.arange(N), [len(one) for one in COULD])
    assert np.array_equal(np.concatenate([x for x, _ in seen]), X[rows])
    assert np.concatenate([a for _, a in seen]).tolist() == [a for could in COULD for a in could]
    without = log(context=())
    assert doubly_robust(without, FALLING, q).value == pytest.approx(found.value, rel=1e-12)
    assert seen[-1][0].shape[1] == 0
