"""One policy of every kind, and the contexts that they all take."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np
import pytest

if TYPE_CHECKING:
    # piwo is imported inside the functions: plugins are set up after this file has been read.
    from piwo.logs.batch import Batch
    from piwo.policies import JointModel, LinearGreedy, Policy

LABELS = ["b", "a", "10", "2"]
COEF = [[1.0, 0.5], [-1.0, 0.25], [0.0, -2.0], [0.5, 0.5]]
INTERCEPT = [0.0, 0.25, 0.5, -0.125]
CONTEXTS = np.array([[0.0, 0.0], [1.0, 2.0], [-1.5, 0.25], [3.0, -1.0], [0.5, 0.75], [-0.25, -0.5]])
TABLE = np.array(
    [
        [0.1, 0.2, 0.3, 0.4],
        [0.25, 0.25, 0.5, 0.0],
        [1.0, 0.0, 0.0, 0.0],
        [0.7, 0.1, 0.1, 0.1],
        [0.0, 0.5, 0.0, 0.5],
        [0.4, 0.3, 0.2, 0.1],
    ]
)

NODES = [
    [0, 0.25, 1, 0],
    [1, 0.5, 3, 0],
    [-1, 0, 2, 1.0],
    [-1, 0, 0, 0.5],
    [-1, 0, 1, 0.125],
    [1, -0.25, 6, 0],
    [-1, 0, 1, 0.5],
    [-1, 0, 0, 0.25],
]

# Two trees on two columns of context and three of items.
JOINT_NODES = [
    [0, 0.25, 1, 0],
    [4, 0.1, 3, 0],
    [-1, 0, 0, 1.0],
    [-1, 0, 0, 0.5],
    [-1, 0, 0, -0.125],
    [2, -0.25, 6, 0],
    [-1, 0, 0, 0.5],
    [-1, 0, 0, 0.25],
]


def greedy() -> LinearGreedy:
    from piwo.policies import LinearGreedy

    return LinearGreedy(COEF, INTERCEPT, LABELS)


def joint() -> JointModel:
    from piwo.logs.features import Features
    from piwo.policies import JointModel

    items = Features.numeric(["price", "age", "size"])
    cross = [[1.0, 0.0, -0.5], [0.25, 2.0, 0.0]]
    return JointModel(cross, [0.5, 0.0, -1.0], np.column_stack([COEF, INTERCEPT]), items, "ad")


def classifier(greedy: bool) -> Policy:
    from sklearn.linear_model import LogisticRegression

    from piwo.policies import Classifier

    x = np.random.default_rng(0).normal(size=(300, 2))
    y = np.array(["2", "b", "a"])[np.argmax(x @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.5]], axis=1)]
    return Classifier(LogisticRegression().fit(x, y), LABELS, greedy=greedy)


def reward_models() -> Policy:
    from sklearn.ensemble import HistGradientBoostingRegressor
    from sklearn.linear_model import LinearRegression

    from piwo.policies import RewardModels

    x = np.random.default_rng(0).normal(size=(300, 2))
    boosted = HistGradientBoostingRegressor(max_iter=5, random_state=0).fit(x, x[:, 0])
    models = [LinearRegression().fit(x, x @ [1.0, 2.0]), boosted, None, None]
    return RewardModels(models, [0.5, 1.0, 0.0, 0.0], [0.0, 0.125, 0.25, -np.inf], LABELS)


def rule() -> Policy:
    from piwo.policies import Deterministic

    return Deterministic(lambda x: np.where(x[:, 0] > 0, "a", "2"), LABELS)


def function() -> Policy:
    from piwo.policies import Function

    def thirds(x: np.ndarray) -> np.ndarray:
        up = np.where(x[:, 0] > 0, 0.5, 0.25)
        return np.column_stack([up, 0.5 - up / 2, 0.5 - up / 2, np.zeros(len(x))])

    return Function(thirds, LABELS)


def makers() -> dict[str, Callable[[], Policy]]:
    """One line a kind: laws, acting and files are tested for all of them."""
    from piwo import policies as p
    from piwo.logs.actions import Actions

    parts = [greedy(), p.Uniform(LABELS), p.Constant("a", sorted(LABELS))]
    return {
        "uniform": lambda: p.Uniform(LABELS),
        "constant": lambda: p.Constant("10", LABELS),
        "tabular-one": lambda: p.Tabular(TABLE[0], LABELS),
        "tabular-contexts": lambda: p.Tabular(TABLE, LABELS, contexts=CONTEXTS),
        "linear-greedy": greedy,
        "linear-softmax": lambda: p.LinearSoftmax(COEF, INTERCEPT, LABELS, temperature=0.75),
        "joint-linear": lambda: p.JointLinear(joint(), LABELS),
        "joint-softmax": lambda: p.JointSoftmax(joint(), LABELS, temperature=0.75),
        "joint-trees": lambda: p.JointTrees(joint(), JOINT_NODES, [0, 5], LABELS),
        "rule": rule,
        "function": function,
        "epsilon-greedy": lambda: p.EpsilonGreedy(greedy(), 0.25),
        "epsilon-rule": lambda: p.EpsilonGreedy(rule(), 0.5),
        "mixture": lambda: p.Mixture(parts, [0.5, 0.25, 0.25]),
        "majority-vote": lambda: p.MajorityVote([greedy(), parts[1], parts[0]]),
        "classifier": lambda: classifier(greedy=True),
        "classifier-soft": lambda: classifier(greedy=False),
        "reward-models": reward_models,
        "trees": lambda: p.Trees(NODES, [0, 5], [0.0, 0.25, 0.0, -np.inf], LABELS, width=2),
        "aligned": lambda: p.aligned(greedy(), Actions(["new", *sorted(LABELS)])),
    }


NAMES = (
    "uniform",
    "constant",
    "tabular-one",
    "tabular-contexts",
    "linear-greedy",
    "linear-softmax",
    "joint-linear",
    "joint-softmax",
    "joint-trees",
    "rule",
    "function",
    "epsilon-greedy",
    "epsilon-rule",
    "mixture",
    "majority-vote",
    "classifier",
    "classifier-soft",
    "reward-models",
    "trees",
    "aligned",
)


@pytest.fixture(params=NAMES)
def policy(request: pytest.FixtureRequest) -> Policy:
    """One policy of every kind that acts."""
    return makers()[request.param]()


@pytest.fixture
def examples() -> dict[str, Policy]:
    """All of them by name."""
    made = {name: make() for name, make in makers().items()}
    assert tuple(made) == NAMES
    return made


@pytest.fixture
def contexts() -> np.ndarray:
    return CONTEXTS.copy()


@pytest.fixture
def batch() -> Batch:
    """Six rows of a log, of which they are rows 100 to 105; actions are codes into LABELS."""
    from piwo.logs.batch import Batch

    return Batch(
        start=100,
        context=CONTEXTS.copy(),
        action=np.array([0, 1, 2, 3, 1, 0], np.int32),
        reward=np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0]),
        propensity=np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05]),
        policies={"new": np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])},
    )
