"""An exported policy, run by onnxruntime, acts as the policy does."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest

from piwo.errors import UsageError
from piwo.logs.features import Features
from piwo.policies import (
    Constant,
    JointLinear,
    JointModel,
    JointSoftmax,
    LinearGreedy,
    LinearSoftmax,
    Policy,
    Trees,
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


def session(path: Path) -> Any:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    return onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])


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
    with pytest.raises(UsageError, match="a constant policy cannot be exported"):
        to_onnx(Constant("a", ["a"]), tmp_path / "p.onnx")
