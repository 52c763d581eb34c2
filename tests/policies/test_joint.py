"""Policies over features of context and item, against materialized products of both."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import DataError, FileError, UsageError
from piwo.logs.encoding import Encoding
from piwo.logs.features import Features
from piwo.logs.items import items_of, learn_item_features
from piwo.policies import EpsilonGreedy, JointLinear, JointModel, JointSoftmax, Mixture, Policy

RANDOM = np.random.default_rng(3)
N, K, D, F = 200, 7, 3, 2
X, Z = RANDOM.normal(size=(N, D)), RANDOM.normal(size=(K, F))
CROSS, ITEM = RANDOM.normal(size=(D, F)), RANDOM.normal(size=F)
LABELS = [f"ad {a}" for a in range(K)]
NAMES = Features.numeric(["price", "age"])
MODEL = JointModel(CROSS, ITEM, Z, NAMES, "ad")
TABLE = {"ad": LABELS, "price": Z[:, 0], "age": Z[:, 1]}
NEW = {"ad": ["new", "ad 3"], "price": [2.0, -1.0], "age": [0.0, 1.0]}

# phi(x, a) = (every x_i z_j, z), as a table of rows x items x products.
PHI = np.concatenate(
    [np.einsum("ni,aj->naij", X, Z).reshape(N, K, D * F), np.broadcast_to(Z, (N, K, F))], axis=2
)
SCORES = PHI @ np.concatenate([CROSS.ravel(), ITEM])


def softmax(scores: np.ndarray, temperature: float) -> np.ndarray:
    z = np.exp((scores - scores.max(axis=-1, keepdims=True)) / temperature)
    return z / z.sum(axis=-1, keepdims=True)


def test_the_scores_by_hand() -> None:
    # x'Wz + v'z = (1, 2) [[1, 0], [0, 3]] (1, 1) + (0, 1)(1, 1) = 8; for z = (2, 0): 2
    model = JointModel([[1.0, 0.0], [0.0, 3.0]], [0.0, 1.0], [[1.0, 1.0], [2.0, 0.0]])
    assert (np.array([1.0, 2.0]) @ model.coef.T + model.intercept).tolist() == [8.0, 2.0]
    assert JointLinear(model, ["a", "b"]).act([[1.0, 2.0]]).actions.tolist() == ["a"]


def test_choices_are_those_of_materialized_products() -> None:
    greedy = JointLinear(MODEL, LABELS)
    assert (greedy.choose(X) == SCORES.argmax(axis=1)).all()
    drawn = JointSoftmax(MODEL, LABELS, 0.5)
    assert drawn.probabilities(X) == pytest.approx(softmax(SCORES, 0.5), rel=1e-9)
    lists = [[LABELS[a] for a in RANDOM.permutation(K)[: 1 + i % K]] for i in range(N)]
    chosen = greedy.act(X, eligible=lists).actions.tolist()
    for i, could in enumerate(lists):
        codes = sorted(LABELS.index(x) for x in could)
        assert chosen[i] == LABELS[codes[int(np.argmax(SCORES[i, codes]))]]
    acted = drawn.act(X, 0, eligible=lists)
    for i, could in enumerate(lists):
        p = softmax(SCORES[i, [LABELS.index(x) for x in could]], 0.5)
        assert acted.propensities[i] == pytest.approx(p[could.index(acted.actions[i])], rel=1e-9)


@pytest.mark.parametrize(
    "policy", [JointLinear(MODEL, LABELS), JointSoftmax(MODEL, LABELS, 0.5)], ids=lambda p: p.kind
)
def test_items_never_seen_are_scored_by_their_features(policy: Policy) -> None:
    new = np.column_stack([NEW["price"], NEW["age"]])
    scores = X @ CROSS @ new.T + new @ ITEM
    for table in (NEW, pd.DataFrame(NEW), pl.DataFrame(NEW)):
        acted = policy.act(X, 0, items=table)
        codes = (acted.actions == "ad 3").astype(int)
        expected = softmax(scores, 0.5)[np.arange(N), codes]
        if policy.kind == "joint-linear":
            assert (codes == scores.argmax(axis=1)).all()
            expected = np.ones(N)
        assert acted.propensities == pytest.approx(expected, rel=1e-9)
    alone = policy.act(X, items=NEW, eligible=[["ad 3", "unknown"]] * N)
    assert set(alone.actions) == {"ad 3"}
    # Exploring and mixing are over the new items, too.
    both = Mixture([EpsilonGreedy(policy, 0.5), policy], [0.5, 0.5])
    assert set(both.act(X, 0, items=NEW).actions) == {"new", "ad 3"}
    assert EpsilonGreedy(policy, 1.0).act(X, 0, items=NEW).propensities.tolist() == [0.5] * N


def test_a_log_brings_its_own_items(tmp_path: Path) -> None:
    policy = JointLinear(MODEL, LABELS)
    rows = 50
    log = piwo.Log.from_arrays(
        action=["new", "ad 3"] * (rows // 2),
        reward=RANDOM.integers(0, 2, rows),
        propensity=[0.5] * rows,
        context=X[:rows],
        items=NEW,
        items_label="ad",
    )
    new = np.column_stack([NEW["price"], NEW["age"]])
    best = (X[:rows] @ CROSS @ new.T + new @ ITEM).argmax(axis=1)
    taken = np.array([0, 1] * (rows // 2))
    reward = np.concatenate([batch.reward for batch in log.each_batch()])
    expected = np.mean((best == taken) * reward / 0.5)
    policy.save(tmp_path / "p.piwo")
    for one in (policy, piwo.load(tmp_path / "p.piwo"), EpsilonGreedy(policy, 0.0)):
        assert piwo.evaluate(log, one).value == pytest.approx(expected, rel=1e-12)
    # Without features of its items, actions that the policy lacks have probability 0.
    longer = piwo.logs.Actions([*LABELS, "other"])
    assert piwo.policies.aligned(policy, longer).probabilities(X)[:, -1].max() == 0.0


def test_items_are_the_same_from_a_frame_and_from_files(tmp_path: Path) -> None:
    frame = pd.DataFrame({"ad": ["01", "1", "x"], "price": [1.5, 2.0, 0.25], "shop": list("aab")})
    frame.to_parquet(tmp_path / "items.parquet")
    frame.to_csv(tmp_path / "items.csv", index=False)
    frame.to_json(tmp_path / "items.jsonl", orient="records", lines=True)
    expected = items_of(frame, "ad")
    names = learn_item_features(expected.items, Encoding()).names
    assert names == ("price", "shop=a", "shop=b")
    for suffix in ("parquet", "csv", "jsonl"):
        found = items_of(str(tmp_path / f"items.{suffix}"), "ad")
        assert found.labels == ("01", "1", "x")
        assert found.items.table.to_pydict() == expected.items.table.to_pydict()
    ordered = items_of(frame, "ad", piwo.logs.Actions(["x", "01"]))
    assert ordered.items.table["price"].to_pylist() == [0.25, 1.5]


BAD = {
    "lists 1 labels twice or more, such as 'a'": {"action": ["a", "a"], "p": [1.0, 2.0]},
    "column 'action' is missing in 1 rows": {"action": ["a", None], "p": [1.0, 2.0]},
    "column 'p' is missing for 1 labels, such as 'b'": {"action": ["a", "b"], "p": [1.0, None]},
    "column 'p' is infinite for 1 labels, such as 'b'": {
        "action": ["a", "b"],
        "p": [1.0, float("inf")],
    },
    "expected a row a label, with features": {"action": ["a", "b"]},
    "no column 'action'": {"label": ["a", "b"], "p": [1.0, 2.0]},
    "expected numbers, text or lists": {"action": ["a", "b"], "p": [{"q": 1}, {"q": 2}]},
}


@pytest.mark.parametrize("message", BAD)
def test_bad_items_are_one_line(message: str) -> None:
    with pytest.raises((DataError, UsageError), match=message) as caught:
        piwo.Log.from_arrays(
            action=["a", "b"], reward=[0, 1], propensity=[0.5] * 2, items=BAD[message]
        )
    assert "\n" not in str(caught.value)


def test_labels_without_an_item_are_refused() -> None:
    rows = {"action": ["a", "z"], "reward": [0, 1], "propensity": [0.5] * 2}
    items = {"action": ["a", "b"], "p": [1.0, 2.0]}
    log = piwo.read(rows, items=items)
    assert log.actions.labels == ("a", "b")
    with pytest.raises(DataError, match=r"labels without a row in items.*such as 'z'"):
        len(list(log.each_batch()))
    listed = {**rows, "action": ["a", "b"], "could": [["a", "z"], ["b"]]}
    with pytest.raises(DataError, match="'could' has labels that are missing or without a row"):
        len(list(piwo.read(listed, items=items, eligible="could").each_batch()))
    with pytest.raises(DataError, match="no row for 1 of 3 actions, such as 'c'"):
        piwo.read(rows, items=items, actions=["a", "b", "c"])
    with pytest.raises(UsageError, match="without items"):
        piwo.read(rows, items_label="ad")


def test_damaged_and_wrong_models_are_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="expected"):
        JointModel(CROSS, ITEM, Z[:, :1])
    with pytest.raises(UsageError, match="NaN or infinite"):
        JointModel(CROSS, [np.nan, 0.0], Z)
    with pytest.raises(UsageError, match="30000 items and 20000 columns of context make 600000000"):
        JointModel(np.zeros((20_000, 1)), [0.0], np.zeros((30_000, 1)))
    with pytest.raises(UsageError, match="features make 1"):
        JointModel(CROSS, ITEM, Z, Features.numeric(1))
    with pytest.raises(UsageError, match="knows no features of items"):
        piwo.policies.Uniform(LABELS).act(n=1, items=TABLE)
    with pytest.raises(UsageError, match="knows no features of items"):
        JointLinear(JointModel(CROSS, ITEM, Z), LABELS).act(X, items=TABLE)
    with pytest.raises(DataError, match="no column 'age'"):
        JointLinear(MODEL, LABELS).act(X, items={"ad": ["q"], "price": [1.0]})
    file = tmp_path / "p.piwo"
    JointSoftmax(MODEL, LABELS, 0.5).save(file)
    file.write_bytes(file.read_bytes()[:-50])
    with pytest.raises(FileError):
        piwo.load(file)


def test_any_text_is_a_label(tmp_path: Path) -> None:
    labels = ["", " a", "a,b", 'say "x"', "ü\n", "01", "1", "nan", "null", "[]"]
    table = {"ad": labels, "price": np.arange(10.0), "age": np.ones(10)}
    actions = items_of(table, "ad")
    policy = JointLinear(MODEL, LABELS).onto(actions)
    policy.save(tmp_path / "p.piwo")
    loaded = piwo.load(tmp_path / "p.piwo")
    lists = [[label] for label in labels]
    acted = loaded.act(X[:10], eligible=lists).actions.tolist()
    assert acted == labels
    # Numbers are labels, too, and equal their texts.
    numbered = policy.act(X[:2], items={"ad": [1, 2**40], "price": [1.0, 2.0], "age": [0.0, 0.0]})
    assert set(numbered.actions.tolist()) <= {1, 2**40}


def test_the_command_evaluates_with_the_items_of_the_log(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    features = Features.numeric(["x0", "x1", "x2"])
    policy = JointLinear(MODEL, LABELS, features)
    policy.save(tmp_path / "p.piwo")
    pd.DataFrame(NEW).to_parquet(tmp_path / "items.parquet")
    rows = pd.DataFrame(X, columns=["x0", "x1", "x2"])
    rows = rows.assign(ad=["new", "ad 3"] * (N // 2), reward=1.0, propensity=0.5)
    rows.to_csv(tmp_path / "log.csv", index=False)
    words = ["evaluate", str(tmp_path / "log.csv"), "--policy", str(tmp_path / "p.piwo")]
    words += ["--action", "ad", "--context", "x*", "--items", str(tmp_path / "items.parquet")]
    assert main([*words, "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)["policies"][0]["value"]
    log = piwo.read(rows, action="ad", context="x*", items=NEW)
    assert shown == pytest.approx(piwo.evaluate(log, policy).value)


def test_the_command_acts_on_new_items(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    features = Features.numeric(["x0", "x1", "x2"])
    JointLinear(MODEL, LABELS, features).save(tmp_path / "p.piwo")
    pd.DataFrame(X[:5], columns=["x0", "x1", "x2"]).to_csv(tmp_path / "x.csv", index=False)
    pd.DataFrame(NEW).to_csv(tmp_path / "items.csv", index=False)
    paths = [str(tmp_path / name) for name in ("p.piwo", "x.csv", "items.csv")]
    assert main(["policy", "act", paths[0], paths[1], "--items", paths[2]]) == 0
    new = np.column_stack([NEW["price"], NEW["age"]])
    best = (X[:5] @ CROSS @ new.T + new @ ITEM).argmax(axis=1)
    lines = [f"{['new', 'ad 3'][a]},1.0" for a in best]
    assert capsys.readouterr().out.split("\n")[:6] == ["action,propensity", *lines]
    assert main(["policy", "act", *paths[:2], "--items", paths[2], "--out", paths[2]]) == 2
    assert "is what the command reads" in capsys.readouterr().err
