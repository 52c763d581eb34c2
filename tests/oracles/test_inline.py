"""Features of eligible actions inside the log, which may differ from row to row."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, UsageError
from piwo.logs import Features
from piwo.oracles import ConditionalLogit, JointDirect, JointRidge
from piwo.policies import EpsilonGreedy, JointLinear, JointModel, JointSoftmax

RANDOM = np.random.default_rng(3)
N, K = 300, 8
X = RANDOM.normal(size=(N, 2)) + 0.5
SETS = [RANDOM.permutation(K)[: RANDOM.integers(2, 5)].tolist() for _ in range(N)]
LABELS = [[f"ad{a}" for a in could] for could in SETS]
# A price of the moment: one label has many.
PRICES = [RANDOM.normal(size=(len(could), 2)) * [1.0, 3.0] for could in SETS]
OBJECTS = [[{"price": p, "age": a} for p, a in row.tolist()] for row in PRICES]
REWARD = np.array(
    [
        float(RANDOM.random() < 1 / (1 + np.exp(-x[0] * z[0, 0])))
        for x, z in zip(X, PRICES, strict=True)
    ]
)
COLUMNS = {
    "x0": X[:, 0],
    "x1": X[:, 1],
    "action": [row[0] for row in LABELS],
    "reward": REWARD,
    "propensity": [1.0 / len(row) for row in LABELS],
    "could": LABELS,
    "ads": OBJECTS,
}
ROWS = np.concatenate([np.full(len(row), i) for i, row in enumerate(SETS)])
Z = np.concatenate(PRICES)
FIRST = np.append(0, np.cumsum([len(row) for row in SETS]))


def log(**changed: object) -> piwo.Log:
    columns = {**COLUMNS, **changed}
    return piwo.read(columns, eligible="could", items="ads", context="x*")


def products(x: np.ndarray, z: np.ndarray) -> np.ndarray:
    """All products of (1, x) and (1, z)."""
    u, v = (np.column_stack([np.ones(len(x)), part]) for part in (x, z))
    return np.einsum("ni,nj->nij", u, v).reshape(len(x), -1)


def solved(phi: np.ndarray, target: np.ndarray) -> np.ndarray:
    """Unpenalized weights of the products that hold a column of items, (d + 1, f)."""
    return np.linalg.lstsq(phi, target, rcond=None)[0].reshape(3, 3)[:, 1:]


def test_ridge_and_direct_are_those_of_materialized_pairs() -> None:
    gains = np.zeros(len(ROWS))
    logged = FIRST[:-1]
    gains[logged] = REWARD / (np.array(COLUMNS["propensity"]) + 0.1)
    for oracle, weights in (
        (JointRidge(alpha=0.0), solved(products(X[ROWS], Z), gains)),
        (JointDirect(alpha=0.0), solved(products(X, Z[logged]), REWARD)),
    ):
        model = oracle.solve(log(), piwo.IX(0.1)).model
        assert model.item == pytest.approx(weights[0])
        assert model.cross == pytest.approx(weights[1:])


def test_the_logit_has_no_gradient_at_its_weights() -> None:
    policy = ConditionalLogit(alpha=0.0, steps=500).solve(log(), piwo.IX(0.1))
    model = policy.model
    scores = np.einsum("mi,ij,mj->m", X[ROWS], model.cross, Z) + Z @ model.item
    gains = REWARD / (np.array(COLUMNS["propensity"]) + 0.1)
    gradient = np.zeros((3, 2))
    for i in range(N):
        own = slice(FIRST[i], FIRST[i + 1])
        chance = np.exp(scores[own] - scores[own].max())
        slope = Z[FIRST[i]] - chance @ Z[own] / chance.sum()
        gradient += gains[i] * np.outer(np.append(1.0, X[i]), slope)
    assert gradient / gains.sum() == pytest.approx(np.zeros((3, 2)), abs=1e-3)


def test_equal_to_a_table_if_features_do_not_change() -> None:
    table = np.random.default_rng(1).normal(size=(K, 2))
    objects = [[dict(zip(("price", "age"), table[a], strict=True)) for a in row] for row in SETS]
    items = {"action": [f"ad{a}" for a in range(K)], "price": table[:, 0], "age": table[:, 1]}
    inside = log(ads=objects)
    columns = {name: values for name, values in COLUMNS.items() if name != "ads"}
    outside = piwo.read(columns, eligible="could", items=items, context="x*")
    for oracle in (JointRidge(alpha=0.0), JointDirect(alpha=0.0)):
        one, other = (oracle.solve(each, piwo.IX(0.1)) for each in (inside, outside))
        assert one.model.cross == pytest.approx(other.model.cross)
        # Without features at hand, a label has its mean ones.
        assert one.model.table == pytest.approx(other.model.table)
        values = [piwo.evaluate(each, p).value for each in (inside, outside) for p in (one, other)]
        assert values == pytest.approx([values[0]] * 4)


@pytest.mark.parametrize("kind", ["linear", "softmax", "epsilon"])
def test_policies_score_the_features_of_each_row(kind: str) -> None:
    cross, item = np.array([[1.0, -0.5], [0.2, 0.1]]), np.array([0.3, 0.4])
    model = JointModel(cross, item, np.zeros((1, 2)), Features.numeric(["price", "age"]))
    features = Features.numeric(["x0", "x1"])
    greedy = JointLinear(model, ["ad0"], features)
    policy = {
        "linear": greedy,
        "softmax": JointSoftmax(model, ["ad0"], 0.7, features),
        "epsilon": EpsilonGreedy(greedy, 0.2),
    }[kind]
    weights = []
    for i in range(N):
        own = np.array(PRICES[i])
        scores = X[i] @ cross @ own.T + own @ item
        best = np.zeros(len(own))
        best[np.argmax(scores)] = 1.0
        soft = np.exp((scores - scores.max()) / 0.7)
        chances = {
            "linear": best,
            "softmax": soft / soft.sum(),
            "epsilon": 0.8 * best + 0.2 / len(own),
        }[kind]
        weights.append(chances[0] * len(own))
    found = piwo.evaluate(log(), policy)
    assert found.value == pytest.approx(np.mean(np.array(weights) * REWARD))
    assert found.mean_weight == pytest.approx(np.mean(weights))


def test_acting_by_hand_also_on_labels_never_seen(tmp_path: Path) -> None:
    model = JointModel([[1.0]], [0.0], [[0.0]], Features.numeric(["heat"]))
    JointLinear(model, ["soup"], Features.numeric(["cold"])).save(tmp_path / "p.piwo")
    policy = piwo.load(tmp_path / "p.piwo")
    could, items = (
        [["ice", "tea"], ["ice", "tea"]],
        [
            [{"heat": -2.0}, {"heat": 1.0}],
            [{"heat": 5.0}, {"heat": 1.0}],
        ],
    )
    found = policy.act({"cold": [1.0, 1.0]}, eligible=could, items=items)
    assert found.actions.tolist() == ["tea", "ice"]
    found = policy.act({"cold": [-1.0, -1.0]}, eligible=could, items=pa.array(items))
    assert found.actions.tolist() == ["ice", "tea"]
    with pytest.raises(UsageError, match=r"give the lists of their labels, too \(eligible\)"):
        policy.act({"cold": [1.0, 1.0]}, items=items)
    with pytest.raises(DataError, match="not as many objects as there are eligible actions"):
        policy.act({"cold": [1.0, 1.0]}, eligible=could, items=[items[0], items[1][:1]])
    with pytest.raises(DataError, match=r"items: .*heat"):
        policy.act({"cold": [1.0]}, eligible=could[:1], items=[[{"hot": 1.0}, {"hot": 2.0}]])


def test_bad_features_name_row_and_label() -> None:
    at = "in 1 row .row numbers from 0: 5.; such as of"

    def refused(row: int, objects: object, message: str) -> None:
        wrong = [*OBJECTS[:row], objects, *OBJECTS[row + 1 :]]
        with pytest.raises(DataError, match=message):
            list(log(ads=wrong).each_batch(context=True))
        # what uses no features says the same
        made = log(ads=wrong)
        with pytest.raises(DataError, match=message):
            piwo.evaluate(made, piwo.policies.Uniform(made.actions))

    first = OBJECTS[5][0]
    rest = OBJECTS[5][2:]
    label = LABELS[5][1]
    refused(5, OBJECTS[5][:1], "has not as many objects .* in 1 row .row numbers from 0: 5.; give")
    bad = [first, {"price": None, "age": 1.0}, *rest]
    refused(
        5,
        bad,
        f"is missing 'price' of items {at} '{label}'",
    )
    bad = [first, {"price": 1.0, "age": np.inf}, *rest]
    refused(5, bad, f"an infinite 'age' of items {at} '{label}'")
    bad = [first, None, *rest]
    refused(5, bad, f"is missing 'age' of items {at} '{label}'")
    refused(5, [first, {"price": np.nan, "age": 1.0}, *rest], f"is missing 'price' .* '{label}'")
    refused(5, None, "has not as many objects .* in 1 row .row numbers from 0: 5.; give")
    with pytest.raises(UsageError, match="name the column of their labels, too"):
        piwo.read(COLUMNS, items="ads", context="x*")
    nested = [[{**one, "more": {"deep": 1}} for one in row] for row in OBJECTS]
    with pytest.raises(DataError, match=r"'more' has .*expected numbers, text or lists"):
        list(log(ads=nested).each_batch(context=True))


def test_arrays_take_lists_of_objects_and_splits_keep_them() -> None:
    same = piwo.Log.from_arrays(
        context=pd.DataFrame({"x0": X[:, 0], "x1": X[:, 1]}),
        action=COLUMNS["action"],
        reward=REWARD,
        propensity=COLUMNS["propensity"],
        eligible=LABELS,
        items=OBJECTS,
    )
    one, other = (JointRidge().solve(each, piwo.IX(0.1)).model for each in (same, log()))
    assert one.cross == pytest.approx(other.cross)
    learner = piwo.Auto().fit(same)
    assert "joint direct" in learner.path_
    assert learner.certificate_.rows + learner.certificate_.training_rows == N


def test_the_command(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    shops = [[{**one, "shop": "xyz"[i % 3]} for i, one in enumerate(row)] for row in OBJECTS]
    pq.write_table(pa.table({**COLUMNS, "ads": shops}), tmp_path / "log.parquet")
    file, policy = str(tmp_path / "log.parquet"), str(tmp_path / "p.piwo")
    options = ["--eligible", "could", "--items", "ads", "--context", "x*"]
    assert main(["check", file, *options]) in (0, 1)
    assert main(["learn", file, *options, "--oracle", "joint-direct", "--out", policy]) == 0
    capsys.readouterr()
    assert main(["evaluate", file, *options, "--policy", "uniform"]) == 0
    assert "--items ads" in capsys.readouterr().out
    chosen = tmp_path / "chosen.csv"
    words = ["policy", "act", policy, file, "--eligible", "could", "--items", "ads"]
    assert main([*words, "--out", str(chosen)]) == 0
    actions = pd.read_csv(chosen)["action"]
    assert all(action in row for action, row in zip(actions, LABELS, strict=True))
    # The same log in JSON lines, as a conversion writes it.
    assert main(["convert", file, str(tmp_path / "log.jsonl"), *options]) == 0
    again = piwo.read(tmp_path / "log.jsonl", eligible="could", items="ads", context="x*")
    whole = piwo.read(file, eligible="could", items="ads", context="x*")
    learned = piwo.load(policy)
    assert piwo.evaluate(again, learned).value == pytest.approx(piwo.evaluate(whole, learned).value)
