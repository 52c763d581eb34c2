"""Policies as ONNX models, which run without Python and without piwo."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from piwo._version import __version__
from piwo.checks import check_kind, check_path
from piwo.errors import UsageError
from piwo.files import write_file
from piwo.logs.actions import Actions
from piwo.policies.policy import Policy
from piwo.policies.state import State

__all__ = ["to_onnx"]

# Old enough for runtimes of 2023, new enough for sums over indices that occur twice.
_OPSET, _IR = 18, 8


class _Graph:
    """The nodes and constants of a graph, added one after the other."""

    def __init__(self) -> None:
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: npt.NDArray[Any]) -> str:
        """Add an array; return its name."""
        from onnx import numpy_helper

        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def add(self, kind: str, *inputs: str, out: str | None = None, **attributes: Any) -> str:
        """Add an operation; return the name of its result."""
        from onnx import helper

        name = out or f"n{len(self.nodes)}"
        self.nodes.append(helper.make_node(kind, list(inputs), [name], **attributes))
        return name


def to_onnx(policy: Policy, path: str | PathLike[str]) -> None:
    """Write a policy as an ONNX model (float64, opset 18).

    Inputs: `X` (n, d) float64, the encoded context: the columns of `policy.features.names`, or
    those of the matrix that a policy without features takes. Policies that draw have `u` (n,)
    float64, too, uniform numbers in [0, 1).

    Outputs: `action` (n,) labels, `code` (n,) int64, and `probabilities` (n, K) float64, of all
    actions in the order of the metadata `piwo.actions`, a JSON list of labels. How data frames are
    encoded is in the metadata, too (`piwo.features`, JSON). Unlike piwo, the model accepts NaN.

    `action` is what `policy.act` gives, of a softmax if `u` are the uniform numbers that it draws.
    Mixtures and epsilon-greedy policies take several numbers a row in piwo. Here `u` is looked up
    in the running sums of the probabilities: each action is drawn with its probability, but it is
    not the draw of `policy.act`. The same holds for a softmax over another list of actions
    (`aligned`).

    Args:
        policy: linear-greedy, linear-softmax, trees, joint-linear, joint-softmax, constant or
            uniform, and epsilon-greedy, mixtures and `aligned` of these; a joint policy acts on
            the items that it has.
        path: the file, replaced.

    Raises:
        UsageError: for another kind, and without the extra `piwo[onnx]`.
        FileError: if the file cannot be written.

    >>> from piwo.policies import Column
    >>> to_onnx(Column("target"), "policy.onnx")
    Traceback (most recent call last):
    piwo.errors.UsageError: a column policy cannot be exported, expected one of ...
    """
    check_kind("policy", policy, Policy, " of piwo.policies")
    check_path(path)
    _require_known(policy)
    try:
        from onnx import TensorProto, checker, helper
    except ImportError:
        raise UsageError("the export needs onnx; run: pip install 'piwo[onnx]'") from None
    graph = _Graph()
    made = _KINDS[policy.kind](graph, policy)
    graph.add("Identity", made.probabilities, out="probabilities")
    graph.add("Identity", made.code or _drawn(graph, made.weights), out="code")
    labels = _labels(policy.actions)
    graph.add("Gather", graph.constant(labels), "code", out="action")
    columns = policy.width or "d"
    inputs = [helper.make_tensor_value_info("X", TensorProto.DOUBLE, ["n", columns])]
    if made.code is None:
        inputs.append(helper.make_tensor_value_info("u", TensorProto.DOUBLE, ["n"]))
    label_type = TensorProto.INT64 if labels.dtype == np.int64 else TensorProto.STRING
    table = ["n", len(policy.actions)]
    outputs = [
        helper.make_tensor_value_info("action", label_type, ["n"]),
        helper.make_tensor_value_info("code", TensorProto.INT64, ["n"]),
        helper.make_tensor_value_info("probabilities", TensorProto.DOUBLE, table),
    ]
    model = helper.make_model(
        helper.make_graph(graph.nodes, "policy", inputs, outputs, graph.constants),
        producer_name="piwo",
        producer_version=__version__,
        ir_version=_IR,
        opset_imports=[helper.make_opsetid("", _OPSET)],
    )
    facts = {"piwo.kind": policy.kind, "piwo.actions": json.dumps(labels.tolist())}
    if policy.features is not None:
        facts["piwo.features"] = json.dumps(policy.features.to_spec())
    helper.set_model_props(model, facts)
    checker.check_model(model, full_check=True)
    write_file(Path(path), model.SerializeToString())


class _Made(NamedTuple):
    """What a policy became: names of results in a graph."""

    probabilities: str
    """(n, K)"""
    code: str | None
    """(n,) the action that is always taken; None: it is drawn."""
    weights: str
    """(n, K) what to draw by, of any total."""


def _require_known(policy: Policy, outer: str = "") -> None:
    """Raise unless a policy and all that it is made of can be exported."""
    if policy.kind not in _KINDS:
        inside = f" inside of a {outer} policy" if outer else ""
        raise UsageError(
            f"a {policy.kind} policy{inside} cannot be exported, expected one of "
            f"{', '.join(_KINDS)}"
        )
    if policy.kind in _MADE_OF_PARTS:
        for part in policy.parts:
            _require_known(part, policy.kind)


def _labels(actions: Actions) -> npt.NDArray[Any]:
    """Return the labels as ONNX holds them: 64-bit numbers, or text."""
    limits = np.iinfo(np.int64)
    labels = actions.labels
    if all(isinstance(x, int) and limits.min <= x <= limits.max for x in labels):
        return np.array(labels, np.int64)
    return np.array([str(x) for x in labels], object)


def _scores(graph: _Graph, state: State) -> str:
    """Add X C' + b; return its name, (n, K)."""
    coef, intercept = state.array("coef", -1, -1), state.array("intercept", -1)
    product = graph.add("MatMul", "X", graph.constant(coef.T))
    return graph.add("Add", product, graph.constant(intercept))


def _highest(graph: _Graph, scores: str, actions: int) -> _Made:
    """Add the action with the highest score, the first of equal ones, and 1 for it."""
    code = graph.add("ArgMax", scores, axis=1, keepdims=0)
    chosen = graph.add("Unsqueeze", code, graph.constant(np.array([1])))
    same = graph.add("Equal", chosen, graph.constant(np.arange(actions)[None]))
    certain = graph.add("Cast", same, to=_DOUBLE)
    return _Made(certain, code, certain)


def _drawn(graph: _Graph, weights: str) -> str:
    """Add the code that `u` has in the running sums of the weights, as `draw_columns` finds it."""
    last = graph.constant(np.array([1], np.int64))
    running = graph.add("CumSum", weights, graph.constant(np.array(1, np.int64)))
    # The whole sum is the last running one: to the bit, so that a code is always found.
    ends = [graph.constant(np.array([x], np.int64)) for x in (-1, 2**31)]
    whole = graph.add("Slice", running, ends[0], ends[1], last)
    point = graph.add("Mul", graph.add("Unsqueeze", "u", last), whole)
    passed = graph.add("Cast", graph.add("LessOrEqual", running, point), to=_INT64)
    return graph.add("ReduceSum", passed, last, keepdims=0)


def _rows(graph: _Graph) -> str:
    """Add the number of rows, (1,)."""
    first = graph.constant(np.array([0], np.int64))
    return graph.add("Slice", graph.add("Shape", "X"), first, graph.constant(np.array([1])))


def _repeated(graph: _Graph, row: npt.NDArray[Any]) -> str:
    """Add a table in which every row is this one, (n, K)."""
    shape = graph.add("Concat", _rows(graph), graph.constant(np.array([len(row)])), axis=0)
    return graph.add("Expand", graph.constant(row[None]), shape)


def _constant(graph: _Graph, policy: Any) -> _Made:
    certain = policy.probabilities(n=1)[0]
    return _highest(graph, _repeated(graph, certain), len(certain))


def _uniform(graph: _Graph, policy: Any) -> _Made:
    even = _repeated(graph, policy.probabilities(n=1)[0])
    return _Made(even, None, even)


def _linear(graph: _Graph, policy: Any) -> _Made:
    return _highest(graph, _scores(graph, policy.state()), len(policy.actions))


def _softmax(graph: _Graph, policy: Any) -> _Made:
    state = policy.state()
    scores = _scores(graph, state)
    last = graph.constant(np.array([1], np.int64))
    # z = (s - max s) / temperature; drawn by exp(z), as `LinearSoftmax` does.
    z = graph.add("Sub", scores, graph.add("ReduceMax", scores, last, keepdims=1))
    z = graph.add("Div", z, graph.constant(np.array(float(state.parameters["temperature"]))))
    weights = graph.add("Exp", z)
    total = graph.add("ReduceSum", weights, last, keepdims=1)
    return _Made(graph.add("Div", weights, total), None, weights)


def _epsilon_greedy(graph: _Graph, policy: Any) -> _Made:
    epsilon = float(policy.state().parameters["epsilon"])
    (part,) = policy.parts
    inner = _KINDS[part.kind](graph, part).probabilities
    # epsilon / K + (1 - epsilon) pi
    follows = graph.add("Mul", graph.constant(np.array(1.0 - epsilon)), inner)
    explores = graph.constant(np.array(epsilon / len(policy.actions)))
    mixed = graph.add("Add", explores, follows)
    return _Made(mixed, None, mixed)


def _aligned(graph: _Graph, policy: Any) -> _Made:
    (part,) = policy.parts
    inner = _KINDS[part.kind](graph, part)
    place = policy.place
    # Row i has its 1 at the place of the part's action i: products with it move columns.
    moves = np.zeros((len(place), len(policy.actions)))
    moves[np.arange(len(place)), place] = 1.0
    moved = graph.constant(moves)
    code = inner.code
    if code is not None:
        code = graph.add("Gather", graph.constant(place.astype(np.int64)), code)
    probabilities = graph.add("MatMul", inner.probabilities, moved)
    return _Made(probabilities, code, graph.add("MatMul", inner.weights, moved))


def _mixture(graph: _Graph, policy: Any) -> _Made:
    weights = policy.state().array("weights", len(policy.parts))
    # sum_i w_i pi_i
    each = []
    for weight, part in zip(weights, policy.parts, strict=True):
        inner = _KINDS[part.kind](graph, part).probabilities
        each.append(graph.add("Mul", graph.constant(np.array(float(weight))), inner))
    mixed = graph.add("Sum", *each)
    return _Made(mixed, None, mixed)


def _joint_linear(graph: _Graph, policy: Any) -> _Made:
    return _linear(graph, policy.by_item)


def _joint_softmax(graph: _Graph, policy: Any) -> _Made:
    return _softmax(graph, policy.by_item)


def _trees(graph: _Graph, policy: Any) -> _Made:
    state = policy.state()
    nodes, roots = state.array("nodes", -1, 4), state.array("roots", -1).astype(np.int64)
    leaf = nodes[:, 0] < 0
    # A leaf leads to itself, whatever is compared.
    column = np.where(leaf, 0, nodes[:, 0]).astype(np.int64)
    threshold = np.where(leaf, np.inf, nodes[:, 1])
    child = np.where(leaf, np.arange(len(nodes)), nodes[:, 2]).astype(np.int64)
    tables = [graph.constant(x) for x in (column, threshold, child)]
    # One column a tree: the node at which a row is.
    place = _repeated(graph, roots)
    for _ in range(_depth(nodes, roots)):
        value = graph.add("GatherElements", "X", graph.add("Gather", tables[0], place), axis=1)
        below = graph.add("LessOrEqual", value, graph.add("Gather", tables[1], place))
        right = graph.add("Cast", graph.add("Not", below), to=_INT64)
        place = graph.add("Add", graph.add("Gather", tables[2], place), right)
    action = graph.add("Gather", graph.constant(nodes[:, 2].astype(np.int64)), place)
    value = graph.add("Gather", graph.constant(nodes[:, 3]), place)
    offset = _repeated(graph, state.array("offset", -1))
    # Values are added tree by tree, as piwo does, so that equal sums are equal.
    scores = graph.add("ScatterElements", offset, action, value, axis=1, reduction="add")
    return _highest(graph, scores, len(policy.actions))


def _depth(nodes: npt.NDArray[np.float64], roots: npt.NDArray[np.int64]) -> int:
    """Return the largest number of conditions between a root and a leaf."""
    deepest = np.zeros(len(nodes), np.int64)
    for i in range(len(nodes) - 1, -1, -1):
        if nodes[i, 0] >= 0:
            child = int(nodes[i, 2])
            deepest[i] = 1 + max(deepest[child], deepest[child + 1])
    return int(deepest[roots].max(initial=0))


_INT64, _DOUBLE = 7, 11
"""ONNX's numbers of these types."""
_KINDS: Mapping[str, Callable[[_Graph, Any], _Made]] = {
    "linear-greedy": _linear,
    "linear-softmax": _softmax,
    "trees": _trees,
    "joint-linear": _joint_linear,
    "joint-softmax": _joint_softmax,
    "constant": _constant,
    "uniform": _uniform,
    "aligned": _aligned,
    "epsilon-greedy": _epsilon_greedy,
    "mixture": _mixture,
}
"""Kind of a policy -> what adds it to a graph."""
_MADE_OF_PARTS = frozenset({"aligned", "epsilon-greedy", "mixture"})
"""Kinds whose parts are exported with them."""
