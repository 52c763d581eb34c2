"""An exported policy, run by onnxruntime, acts as the policy does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from piwo.errors import UsageError
from piwo.logs.actions import Actions
from piwo.logs.features import Features
from piwo.policies import (
    Column,
    Constant,
    EpsilonGreedy,
    JointLinear,
    JointModel,
    JointSoftmax,
    LinearGreedy,
    LinearSoftmax,
    Mixture,
    Policy,
    Trees,
    Uniform,
    aligned,
    to_onnx,
)

ROWS, WIDTH, LABELS = 10_000, 6, ["a", "b", "c", "grün", "e"]


def grown(rng: np.random.Generator, trees: int, depth: int) -> Trees:
    """Full trees with whole thresholds and values of eighths, so that many sums are equal."""
    nodes: list[list[float]] = []
    roots: list[int] = []
    for _ in range(trees):
        roots.append(len(nodes))
        level = [len(nodes)]
        nodes.append([])
        for d in range(depth + 1):
            following: list[int] = []
            for i in level:
                if d == depth or (d > 0 and rng.random() < 0.2):
                    nodes[i] = [-1, 0, rng.integers(4), rng.integers(-8, 9) / 8]
                    continue
                nodes[i] = [rng.integers(WIDTH), rng.integers(-2, 3), len(nodes), 0]
                following += [len(nodes), len(nodes) + 1]
                nodes += [[], []]
            level = following
    offset = [0.0, 0.1, 0.0, 0.0, -np.inf]
    return Trees(nodes, roots, offset, LABELS, WIDTH, Features.numeric(WIDTH))


def made() -> dict[str, Policy]:
    rng = np.random.default_rng(0)
    coef, intercept = rng.normal(size=(5, WIDTH)), np.array([0.0, 0.5, -0.5, 0.0, -np.inf])
    model = JointModel(rng.normal(size=(WIDTH, 3)), rng.normal(size=3), rng.normal(size=(5, 3)))
    return {
        "linear": LinearGreedy(coef, intercept, LABELS),
        "numbers": LinearGreedy(coef, intercept, [7, 5, -3, 2**62, 0]),
        "softmax": LinearSoftmax(coef, intercept, LABELS, temperature=0.7),
        "joint-linear": JointLinear(model, LABELS),
        "joint-softmax": JointSoftmax(model, LABELS, temperature=2.0),
        "trees": grown(rng, 30, 4),
        "deep-trees": grown(rng, 3, 7),
    }


def drawing() -> dict[str, Policy]:
    """Policies whose draws take several numbers a row in piwo, and one in the model."""
    simple = made()
    features = Features.numeric(WIDTH)
    linear = LinearGreedy(simple["linear"].state().arrays["coef"], np.zeros(5), LABELS, features)
    return {
        "epsilon of a linear": EpsilonGreedy(simple["linear"], 0.2),
        "epsilon of a softmax": EpsilonGreedy(simple["softmax"], 0.05),
        "epsilon of trees": EpsilonGreedy(simple["trees"], 0.3),
        "epsilon of items": EpsilonGreedy(simple["joint-softmax"], 0.1),
        "numbers": EpsilonGreedy(simple["numbers"], 0.5),
        "no exploration": EpsilonGreedy(simple["linear"], 0.0),
        "roll-out": Mixture([linear, simple["trees"], Constant("c", LABELS)], [0.6, 0.3, 0.1]),
        "other order": Mixture([simple["softmax"], Uniform(LABELS[::-1])], [0.9, 0.1]),
        "nested": EpsilonGreedy(Mixture([simple["softmax"], simple["linear"]], [0.5, 0.5]), 0.1),
        "more actions": aligned(simple["softmax"], Actions(["z", *LABELS[::-1], "y"])),
        "uniform": Uniform(LABELS),
    }


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("name", list(drawing()))
def test_the_same_probabilities_and_one_number_a_row(tmp_path: Path, name: str) -> None:
    policy = drawing()[name]
    to_onnx(policy, tmp_path / "policy.onnx")
    X = np.random.default_rng(1).normal(scale=2.0, size=(ROWS, WIDTH))
    X[: ROWS // 2] = np.round(X[: ROWS // 2])
    u = np.random.default_rng(2).random(ROWS)
    u[0] = 0.0
    u[1] = np.nextafter(1.0, 0.0)
    ran = session(tmp_path / "policy.onnx")
    action, code, probabilities = ran.run(["action", "code", "probabilities"], {"X": X, "u": u})
    expected = policy.probabilities(X, n=ROWS)
    np.testing.assert_allclose(probabilities, expected, rtol=0, atol=1e-12)
    # The naive twin: the first action whose running sum is above the number.
    running = np.cumsum(probabilities, axis=1)
    twin = [int(np.argmax(row > x * row[-1])) for row, x in zip(running, u, strict=True)]
    assert np.mean(code == twin) > 0.9999  # rounding, where a number is at an end
    np.testing.assert_array_equal(policy.actions.take(code), action)
    assert (probabilities[np.arange(ROWS), code] > 0).all()
    # Each action as often as its probability says, within five standard errors.
    share = np.bincount(code, minlength=len(policy.actions)) / ROWS
    error = np.sqrt((expected * (1 - expected)).sum(axis=0)) / ROWS
    assert (np.abs(share - expected.mean(axis=0)) <= 5 * error + 1e-12).all()


def test_the_order_of_the_probabilities_is_in_the_metadata(tmp_path: Path) -> None:
    for name, labels in {"linear": LABELS, "numbers": [7, 5, -3, 2**62, 0]}.items():
        to_onnx(EpsilonGreedy(made()[name], 0.1), tmp_path / "p.onnx")
        facts = session(tmp_path / "p.onnx").get_modelmeta().custom_metadata_map
        assert json.loads(facts["piwo.actions"]) == labels


def test_a_policy_over_more_actions_acts_as_it_does(tmp_path: Path) -> None:
    policy = aligned(made()["trees"], Actions(["z", *LABELS[::-1]]))
    to_onnx(policy, tmp_path / "p.onnx")
    X = np.random.default_rng(1).normal(scale=2.0, size=(ROWS, WIDTH))
    action, table = session(tmp_path / "p.onnx").run(["action", "probabilities"], {"X": X})
    np.testing.assert_array_equal(action, policy.act(X).actions)
    np.testing.assert_array_equal(table, policy.probabilities(X))


def test_a_constant_needs_no_columns(tmp_path: Path) -> None:
    to_onnx(Constant("c", LABELS), tmp_path / "p.onnx")
    action, table = session(tmp_path / "p.onnx").run(
        ["action", "probabilities"], {"X": np.zeros((3, 0))}
    )
    assert action.tolist() == ["c"] * 3
    assert table.tolist() == [[0, 0, 1, 0, 0]] * 3


@pytest.mark.parametrize("name", list(made()))
def test_the_same_actions_in_ten_thousand_rows(tmp_path: Path, name: str) -> None:
    policy = made()[name]
    path = tmp_path / "policy.onnx"
    to_onnx(policy, path)
    X = np.random.default_rng(1).normal(scale=2.0, size=(ROWS, WIDTH))
    # Values at the thresholds of trees, and equal scores.
    X[: ROWS // 2] = np.round(X[: ROWS // 2])
    ran = session(path)
    inputs = {"X": X}
    if "u" in [x.name for x in ran.get_inputs()]:
        inputs["u"] = np.random.default_rng(2).random(ROWS)
    action, code, probabilities = ran.run(["action", "code", "probabilities"], inputs)
    expected = policy.act(X, random_state=2).actions
    np.testing.assert_array_equal(action, expected)
    np.testing.assert_array_equal(policy.actions.take(code), expected)
    np.testing.assert_allclose(probabilities, policy.probabilities(X), rtol=1e-12, atol=1e-15)
    assert len(set(expected.tolist())) > 2


def test_the_encoding_is_in_the_metadata(tmp_path: Path) -> None:
    policy = grown(np.random.default_rng(0), 1, 2)
    to_onnx(policy, tmp_path / "p.onnx")
    facts = session(tmp_path / "p.onnx").get_modelmeta().custom_metadata_map
    assert facts["piwo.kind"] == "trees"
    assert Features.from_spec(json.loads(facts["piwo.features"])) == policy.features


def test_a_kind_without_a_graph_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="a column policy cannot be exported"):
        to_onnx(Column("p"), tmp_path / "p.onnx")
    inner = Mixture([Column("p"), Column("q")], [0.5, 0.5])
    with pytest.raises(UsageError, match="a column policy inside of a mixture policy cannot"):
        to_onnx(inner, tmp_path / "p.onnx")
