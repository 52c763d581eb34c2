"""Oracles over joint features, against materialized products of context and item."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from sklearn.linear_model import Ridge

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, UsageError
from piwo.logs.log import Log
from piwo.oracles import ConditionalLogit, JointDirect, JointRidge
from piwo.oracles.conditional_logit import FactoredObjective, LogitObjective
from piwo.policies import JointLinear

RANDOM = np.random.default_rng(5)
N, K, D, F = 400, 9, 2, 3
X, Z = RANDOM.normal(size=(N, D)) + 1.0, RANDOM.normal(size=(K, F)) * [1.0, 3.0, 0.2]
TRUTH = RANDOM.normal(size=(D, F))
SETS = [RANDOM.permutation(K)[: RANDOM.integers(2, 6)] for _ in range(N)]
ACTION = np.array([could[0] for could in SETS])
PROPENSITY = np.array([1.0 / len(could) for could in SETS])
CHANCE = 1.0 / (1.0 + np.exp(-np.einsum("ni,ij,nj->n", X, TRUTH, Z[ACTION])))
REWARD = (RANDOM.random(N) < CHANCE) * 1.0
ITEMS = pd.DataFrame({"action": range(K), **{f"z{j}": Z[:, j] for j in range(F)}})


def log(eligible: bool = True, **options: object) -> Log:
    lists = None
    if eligible:
        lists = [could.tolist() for could in SETS]
    return Log.from_arrays(
        context=X,
        action=ACTION,
        reward=REWARD,
        propensity=PROPENSITY,
        eligible=lists,
        items=ITEMS,
        **options,
    )


def pairs(eligible: bool) -> tuple[np.ndarray, np.ndarray]:
    """Row and item of every pair."""
    sets = SETS
    if not eligible:
        sets = [np.arange(K)] * N
    rows = np.concatenate([np.full(len(could), i) for i, could in enumerate(sets)])
    return rows, np.concatenate(sets)


def products(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """All products of (1, x) and (1, z) but the constant."""
    u, v = (np.column_stack([np.ones(len(x)), part]) for part in (x, z))
    return np.einsum("ni,nj->nij", u, v).reshape(len(x), -1)[:, 1:]


def weights_of(model: Ridge, x_scale: np.ndarray, z_scale: np.ndarray) -> np.ndarray:
    """The (d, f) products of a regression, in unscaled columns."""
    full = np.append(0.0, model.coef_).reshape(D + 1, F + 1)
    return full[1:, 1:] / np.outer(x_scale, z_scale)


@pytest.mark.parametrize("eligible", [True, False])
@pytest.mark.parametrize("standardize", [True, False])
def test_ridge_is_that_of_materialized_products(eligible: bool, standardize: bool) -> None:
    score = piwo.IX(0.1)
    policy = JointRidge(2.0, standardize=standardize).solve(log(eligible), score)
    rows, items = pairs(eligible)
    x, z = X[rows], Z[items]
    x_scale, z_scale = np.ones(D), np.ones(F)
    if standardize:
        x_scale, z_scale = x.std(axis=0), Z.std(axis=0)
    phi = products((x - x.mean(axis=0)) / x_scale, (z - Z.mean(axis=0)) / z_scale)
    gains = np.where(items == ACTION[rows], (REWARD / (PROPENSITY + 0.1))[rows], 0.0)
    twin = Ridge(2.0).fit(phi, gains)
    cross = weights_of(twin, x_scale, z_scale)
    assert policy.model.cross == pytest.approx(cross, rel=1e-8, abs=1e-10)
    # s(x, a) differs from the prediction by a function of x alone.
    full = np.append(twin.intercept_, twin.coef_).reshape(D + 1, F + 1)
    u = np.column_stack([np.ones(N), (X - x.mean(axis=0)) / x_scale])
    v = np.column_stack([np.ones(K), (Z - Z.mean(axis=0)) / z_scale])
    gap = u @ full @ v.T - (X @ policy.model.coef.T + policy.model.intercept)
    assert gap == pytest.approx(np.repeat(gap[:, :1], K, axis=1), abs=1e-9)


def test_products_of_items_in_a_table_or_not(monkeypatch: pytest.MonkeyPatch) -> None:
    by_table = JointRidge().solve(log(), piwo.IX(0.1)).model
    monkeypatch.setattr("piwo.reductions.joint_gram._TABLE_BYTES", 0)
    by_pair = JointRidge().solve(log(), piwo.IX(0.1)).model
    assert by_pair.cross == pytest.approx(by_table.cross, rel=1e-10)
    assert by_pair.item == pytest.approx(by_table.item, rel=1e-10)


def test_direct_is_a_regression_of_rewards_on_logged_pairs() -> None:
    policy = JointDirect(0.5).solve(log(), piwo.IW())
    x_scale, z_scale = X.std(axis=0), Z.std(axis=0)
    phi = products((X - X.mean(axis=0)) / x_scale, (Z[ACTION] - Z.mean(axis=0)) / z_scale)
    cross = weights_of(Ridge(0.5).fit(phi, REWARD), x_scale, z_scale)
    assert policy.model.cross == pytest.approx(cross, rel=1e-8)
    without = JointDirect(0.5).solve(log(eligible=False), piwo.IW())
    assert without.model.cross == pytest.approx(policy.model.cross, rel=1e-10)


def test_chosen_crosses() -> None:
    policy = JointRidge(crosses=[("x0", "z1")]).solve(log(), piwo.IX(0.1))
    used = np.zeros((D, F), bool)
    used[0, 1] = True
    assert (policy.model.cross[~used] == 0.0).all()
    assert policy.model.cross[used].all()
    assert policy.model.item.all()
    with pytest.raises(UsageError, match=r"\('x9', 'z1'\), expected pairs of a column of the con"):
        JointRidge(crosses=[("x9", "z1")]).solve(log(), piwo.IX(0.1))
    with pytest.raises(UsageError, match="expected pairs"):
        JointRidge(crosses="x0")  # type: ignore[arg-type]


@pytest.mark.parametrize("eligible", [True, False])
def test_logit_is_that_of_materialized_products(eligible: bool) -> None:
    some = log(eligible)
    policy = ConditionalLogit(0.7, steps=500).solve(some, piwo.IX(0.1))
    won = np.flatnonzero(REWARD)
    gains = 1.0 / (PROPENSITY[won] + 0.1)
    gains /= gains.mean()
    x = (X[won] - X[won].mean(axis=0)) / X[won].std(axis=0)
    u = np.column_stack([np.ones(len(won)), x])
    z = (Z - Z.mean(axis=0)) / Z.std(axis=0)

    def loss(parameters: np.ndarray) -> float:
        scores = u @ parameters.reshape(D + 1, F) @ z.T
        total = 0.35 * parameters @ parameters
        for t, row in enumerate(won):
            mine = SETS[row] if eligible else np.arange(K)
            total -= gains[t] * (scores[t, ACTION[row]] - np.log(np.exp(scores[t, mine]).sum()))
        return total

    found = minimize(loss, np.zeros((D + 1) * F), method="L-BFGS-B").x.reshape(D + 1, F)
    cross = found[1:] / np.outer(X[won].std(axis=0), Z.std(axis=0))
    assert policy.model.cross == pytest.approx(cross, rel=1e-2, abs=1e-3)


def test_weights_of_low_rank() -> None:
    batch = next(log().each_batch(context=True))
    assert batch.context is not None
    wide = np.column_stack([np.ones(N), batch.context])
    full = LogitObjective(wide, batch.action, REWARD + 0.1, batch.eligible, Z, 0.3)
    climb = FactoredObjective(full, 1)
    at = climb.start + RANDOM.normal(size=climb.start.shape)
    _, slope = climb(at)
    for i in range(len(at)):
        step = np.zeros(len(at))
        step[i] = 1e-6
        numeric = (climb(at + step)[0] - climb(at - step)[0]) / 2e-6
        assert slope[i] == pytest.approx(numeric, rel=1e-5, abs=1e-5)
    policy = ConditionalLogit(rank=1).solve(log(), piwo.IX(0.1))
    assert np.linalg.matrix_rank(policy.model.cross, tol=1e-8) == 1
    # Without a penalty, all ranks together are all weights.
    free = ConditionalLogit(0.0, steps=500, rank=2).solve(log(), piwo.IX(0.1))
    every = ConditionalLogit(0.0, steps=500).solve(log(), piwo.IX(0.1))
    assert free.model.cross == pytest.approx(every.model.cross, rel=0.02, abs=0.02)


def test_the_gradient_of_the_logit() -> None:
    batch = next(log().each_batch(context=True))
    assert batch.context is not None
    for eligible in (batch.eligible, None):
        climb = LogitObjective(batch.context, batch.action, REWARD + 0.1, eligible, Z, 0.3)
        at = RANDOM.normal(size=D * F)
        _, slope = climb(at)
        for i in range(D * F):
            step = np.zeros(D * F)
            step[i] = 1e-6
            numeric = (climb(at + step)[0] - climb(at - step)[0]) / 2e-6
            assert slope[i] == pytest.approx(numeric, rel=1e-5, abs=1e-5)


@pytest.mark.parametrize("oracle", [JointRidge(), JointDirect(), ConditionalLogit()])
def test_learners_certify_and_save_and_act_on_new_items(oracle: object, tmp_path: Path) -> None:
    score = piwo.IX(0.1)
    if isinstance(oracle, JointDirect):
        score = None
    learner = piwo.PIWO(score, oracle).fit(log())  # type: ignore[arg-type]
    assert learner.certificate_ is not None
    assert isinstance(learner.policy_, JointLinear)
    learner.policy_.save(tmp_path / "p.piwo")
    loaded = piwo.load(tmp_path / "p.piwo")
    new = {"action": [100, 101], "z0": [1.0, -1.0], "z1": [0.0, 2.0], "z2": [0.5, 0.0]}
    acts = [one.act(X, items=new).actions.tolist() for one in (learner.policy_, loaded)]
    assert acts[0] == acts[1]
    assert set(acts[0]) == {100, 101}
    assert loaded.act(X).actions.tolist() == learner.policy_.act(X).actions.tolist()


def test_a_grid_learns_from_eligible_sets() -> None:
    grid = piwo.PIWOGrid(oracle=JointRidge()).fit(log())
    assert grid.certificate_ is not None


def test_threads_and_fragments_change_no_digit_that_matters(tmp_path: Path) -> None:
    frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(
        action=[f"ad {a}" for a in ACTION],
        reward=REWARD,
        propensity=PROPENSITY,
        could=[[f"ad {a}" for a in could] for could in SETS],
    )
    items = ITEMS.assign(action=[f"ad {a}" for a in range(K)])
    parts = []
    for i in range(4):
        parts.append(str(tmp_path / f"{i}.parquet"))
        frame[100 * i : 100 * i + 100].to_parquet(parts[-1])
    frame.to_json(tmp_path / "log.jsonl", orient="records", lines=True)
    roles = {"context": ["x0", "x1"], "eligible": "could", "items": items}
    for oracle in (JointRidge(), JointDirect(), ConditionalLogit()):
        expected = oracle.solve(piwo.read(frame, **roles), piwo.IX(0.1)).model
        for source in (parts, str(tmp_path / "log.jsonl")):
            for threads in (1, 3):
                with ThreadPoolExecutor(threads) as pool, piwo.using(pool):
                    found = oracle.solve(piwo.read(source, **roles), piwo.IX(0.1)).model
                assert found.cross == pytest.approx(expected.cross, rel=1e-6, abs=1e-9)
                assert found.table == pytest.approx(expected.table)


def test_what_is_missing_is_one_line() -> None:
    plain = Log.from_arrays(context=X, action=ACTION, reward=REWARD, propensity=PROPENSITY)
    for oracle in (JointRidge(), JointDirect(), ConditionalLogit()):
        with pytest.raises(DataError, match="needs features of the actions"):
            oracle.solve(plain, piwo.IX(0.1))
    with pytest.raises(UsageError, match="joint-ridge or the conditional-logit oracle"):
        piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge()).fit(log())
    wide = Log.from_arrays(
        context=np.zeros((4, 100)),
        action=[0, 1, 0, 1],
        reward=[0, 1, 0, 1],
        propensity=[0.5] * 4,
        items={"action": [0, 1], **{f"z{i}": [0.0, 1.0] for i in range(50)}},
    )
    with pytest.raises(UsageError, match="makes 5151 products of 100 columns"):
        JointRidge().solve(wide, piwo.IX(0.1))
    with pytest.raises(UsageError, match="takes credits of the logged one"):
        JointRidge().solve(log(), piwo.PseudoLoss(0.1))


def test_the_command_learns_from_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    frame = pd.DataFrame(X, columns=["x0", "x1"]).assign(
        action=ACTION, reward=REWARD, propensity=PROPENSITY, could=[x.tolist() for x in SETS]
    )
    frame.to_parquet(tmp_path / "log.parquet")
    ITEMS.to_csv(tmp_path / "items.csv", index=False)
    words = [str(tmp_path / "log.parquet"), "--context", "x*", "--eligible", "could"]
    words += ["--items", str(tmp_path / "items.csv"), "--out", str(tmp_path / "p.piwo")]
    for oracle in ("joint-ridge", "conditional-logit"):
        assert main(["learn", *words, "--oracle", oracle, "--gamma", "0.1"]) == 0
        assert oracle in capsys.readouterr().out
    assert isinstance(piwo.load(tmp_path / "p.piwo"), JointLinear)
    assert main(["learn", *words]) == 0
    assert "joint ridge, IX gamma=0.01" in capsys.readouterr().out
