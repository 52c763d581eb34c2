"""The joint boosting oracle, against an exhaustive search and against known values."""

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, UsageError
from piwo.oracles import JointBoosting, JointDirect, JointRidge
from piwo.policies import JointTrees
from piwo.simulate import ItemBandit

BANDIT = ItemBandit(items=80, candidates=8, context=2, features=2, situations=500, wave=3.0)


def test_one_split_is_the_best_of_all() -> None:
    rng = np.random.default_rng(4)
    n, size = 300, 20
    z, x = rng.integers(0, 4, size=(size, 2)) * 1.0, rng.integers(0, 4, size=(n, 2)) * 1.0
    a = rng.integers(0, size, n)
    mu = rng.uniform(0.1, 1.0, n)
    # a threshold of a product of neither column alone
    reward = rng.random(n) < 0.2 + 0.6 * ((x[:, 1] > 1) & (z[a, 0] > 2))
    log = piwo.Log.from_arrays(
        context=x,
        action=a,
        reward=reward * 1.0,
        propensity=mu,
        items={"action": range(size), "z0": z[:, 0], "z1": z[:, 1]},
    )
    policy = JointBoosting(steps=1, leaves=2, rate=1.0, least=1).solve(log, piwo.IX(0.2))
    columns = np.column_stack([x, z[a]])
    w = 1.0 / (mu + 0.2)
    # the linear fit with all its terms: those without an item are none of the policy's
    u, v = (np.column_stack([np.ones(n), part]) for part in (standard(x, x), standard(z[a], z)))
    phi = np.einsum("ni,nj->nij", u, v).reshape(n, -1)
    gram = phi.T @ phi + np.diag([0.0] + [1.0] * 8)
    missed = reward - phi @ np.linalg.solve(gram, phi.T @ reward)
    best = (np.inf, -1, 0.0, 0.0, 0.0)
    for f in range(4):
        for cut in (0.5, 1.5, 2.5):
            left = columns[:, f] <= cut
            ends = [np.average(missed[part], weights=w[part]) for part in (left, ~left)]
            loss = float(w @ (missed - np.where(left, *ends)) ** 2)
            best = min(best, (loss, f, cut, *ends))
    root, low, high = policy.nodes
    assert root.tolist() == [best[1], best[2], 1.0, 0.0]
    assert (low[3], high[3]) == pytest.approx(best[3:], rel=1e-9)


def standard(part: np.ndarray, whole: np.ndarray) -> np.ndarray:
    return (part - whole.mean(axis=0)) / whole.std(axis=0)


def test_trees_beat_products_where_the_truth_is_no_product() -> None:
    log = BANDIT.log(20_000, random_state=1)
    score = piwo.IX(0.1)
    values = {
        oracle.name: BANDIT.value(oracle.solve(log, score))
        for oracle in (JointRidge(), JointDirect(), JointBoosting())
    }
    best, top = max(values["joint-ridge"], values["joint-direct"]), BANDIT.optimal_value
    # At least a third of what the better linear model leaves.
    assert values["joint-boosting"] > best + (top - best) / 3


def test_where_products_are_right_trees_cost_little() -> None:
    bandit = ItemBandit(items=80, candidates=8, context=2, features=2, situations=500)
    log = bandit.log(20_000, random_state=1)
    linear = bandit.value(JointDirect().solve(log, piwo.IW()))
    assert bandit.value(JointBoosting().solve(log, piwo.IX(1.0))) > linear - 0.01


def test_items_never_seen_are_chosen_as_well() -> None:
    # Half of the items are in no set of the log.
    rng = np.random.default_rng(2)
    z = rng.normal(size=200)
    n = 20_000
    x, sets = rng.normal(size=n), np.argsort(rng.random((n, 100)), axis=1)[:, :4]
    reward = (x > 0) == (np.abs(z[sets[:, 0]]) > 0.7)
    log = piwo.Log.from_arrays(
        context=x[:, None],
        action=sets[:, 0],
        reward=reward * 1.0,
        propensity=np.full(n, 0.25),
        eligible=sets.tolist(),
        items={"action": range(200), "z": z},
    )
    new = {"action": range(100, 200), "z": z[100:]}
    at = np.linspace(-2.0, 2.0, 40)[:, None]
    earned = {}
    for oracle in (JointDirect(), JointBoosting()):
        taken = oracle.solve(log, piwo.IX(0.1)).act(at, items=new).actions
        earned[oracle.name] = np.mean((at[:, 0] > 0) == (np.abs(z[taken]) > 0.7))
    assert earned["joint-boosting"] == 1.0
    assert earned["joint-direct"] < 0.8


def test_features_inside_the_log_are_those_of_a_table() -> None:
    log = BANDIT.log(3000, random_state=1)
    table = [{"z0": a, "z1": b} for a, b in BANDIT.table.tolist()]
    batches = list(log.each_batch(context=True))
    lists = [
        one.tolist()
        for part in batches
        for one in np.split(part.eligible.codes, part.eligible.starts[1:-1])
    ]
    inside = piwo.Log.from_arrays(
        context=np.concatenate([part.context for part in batches]),
        action=np.concatenate([part.action for part in batches]),
        reward=np.concatenate([part.reward for part in batches]),
        propensity=np.concatenate([part.propensity for part in batches]),
        eligible=lists,
        items=[[table[a] for a in one] for one in lists],
        actions=range(len(table)),
    )
    oracle = JointBoosting(alpha=0.0, steps=5)
    one, other = (oracle.solve(each, piwo.IX(0.1)) for each in (log, inside))
    assert other.nodes == pytest.approx(one.nodes, rel=1e-6, abs=1e-9)
    assert isinstance(piwo.PIWO(piwo.IX(0.1), oracle).fit(inside).policy_, JointTrees)


def test_many_rows_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    log = BANDIT.log(20_000, random_state=1)
    whole = JointBoosting(steps=3).solve(log, piwo.IX(0.1))
    monkeypatch.setattr("piwo.oracles.joint_boosting._MOST_CELLS", 4 * 8000)
    monkeypatch.setattr("piwo.oracles.joint_boosting._LEAST_ROWS", 10)
    sizes = []
    grown = JointBoosting._grown

    def watched(self, table, misses, weight):
        sizes.append(len(misses))
        return grown(self, table, misses, weight)

    monkeypatch.setattr(JointBoosting, "_grown", watched)
    some = JointBoosting(steps=3).solve(log, piwo.IX(0.1))
    again = JointBoosting(steps=3).solve(log, piwo.IX(0.1))
    other = JointBoosting(steps=3, random_state=1).solve(log, piwo.IX(0.1))
    # a binomial number: 8000 of 20,000, within 5 standard deviations
    assert abs(sizes[0] - 8000) < 5 * np.sqrt(8000 * 0.6)
    assert some.nodes.tolist() == again.nodes.tolist() != whole.nodes.tolist()
    assert some.nodes.tolist() != other.nodes.tolist()


def test_what_is_missing_is_one_line() -> None:
    plain = piwo.Log.from_arrays(
        context=[[0.0]] * 2, action=[0, 1], reward=[0, 1], propensity=[0.5] * 2
    )
    with pytest.raises(DataError, match="joint-boosting oracle needs features of the actions"):
        JointBoosting().solve(plain, piwo.IX(0.1))
    with pytest.raises(UsageError, match="leaves is 17, expected at most 16"):
        JointBoosting(leaves=17)
    with pytest.raises(UsageError, match="credits every action of a row"):
        JointBoosting().solve(BANDIT.log(50, random_state=0), piwo.PseudoLoss(0.1))


def test_the_command_learns_and_acts(tmp_path, capsys: pytest.CaptureFixture[str]) -> None:
    log = BANDIT.log(2000, random_state=1)
    (batch,) = log.each_batch(context=True)
    lists = np.split(batch.eligible.codes, batch.eligible.starts[1:-1])
    frame = pd.DataFrame(batch.context, columns=["x0", "x1"]).assign(
        action=batch.action,
        reward=batch.reward,
        propensity=batch.propensity,
        could=[one.tolist() for one in lists],
    )
    frame.to_parquet(tmp_path / "log.parquet")
    items = pd.DataFrame(BANDIT.table, columns=["z0", "z1"])
    items.assign(action=range(80)).to_csv(tmp_path / "items.csv", index=False)
    path, out = str(tmp_path / "log.parquet"), str(tmp_path / "p.piwo")
    words = ["--items", str(tmp_path / "items.csv"), "--eligible", "could"]
    learn = ["learn", path, "--context", "x*", *words, "--out", out]
    assert main([*learn, "--oracle", "joint-boosting", "--gamma", "0.1"]) == 0
    assert "joint-boosting" in capsys.readouterr().out
    assert main(["policy", "act", out, path, *words]) == 0
    shown = capsys.readouterr().out.splitlines()
    chosen = piwo.load(out).act(
        batch.context, eligible=[one.tolist() for one in lists], items=str(tmp_path / "items.csv")
    )
    assert shown[1].split(",")[-2] == str(chosen.actions[0])
