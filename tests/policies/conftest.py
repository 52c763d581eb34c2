"""One policy of every kind, and the contexts that they all take."""

from collections.abc import Callable

import numpy as np
import pytest

from piwo.logs.batch import Batch
from piwo.policies import (
    Classifier,
    Constant,
    Deterministic,
    EpsilonGreedy,
    LinearGreedy,
    LinearSoftmax,
    Mixture,
    Policy,
    Tabular,
    Uniform,
    aligned,
)

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


def classifier(greedy: bool) -> Policy:
    from sklearn.linear_model import LogisticRegression

    x = np.random.default_rng(0).normal(size=(300, 2))
    y = np.array(["2", "b", "a"])[np.argmax(x @ [[1.0, 0.0, -1.0], [0.0, 1.0, 0.5]], axis=1)]
    return Classifier(LogisticRegression().fit(x, y), LABELS, greedy=greedy)


def greedy() -> LinearGreedy:
    return LinearGreedy(COEF, INTERCEPT, LABELS)


# One line a kind: laws, acting and (where `SAVED` has it) files are tested for all of them.
EXAMPLES: dict[str, Callable[[], Policy]] = {
    "uniform": lambda: Uniform(LABELS),
    "constant": lambda: Constant("10", LABELS),
    "tabular-one": lambda: Tabular(TABLE[0], LABELS),
    "tabular-contexts": lambda: Tabular(TABLE, LABELS, contexts=CONTEXTS),
    "linear-greedy": greedy,
    "linear-softmax": lambda: LinearSoftmax(COEF, INTERCEPT, LABELS, temperature=0.75),
    "rule": lambda: Deterministic(lambda x: np.where(x[:, 0] > 0, "a", "2"), LABELS),
    "epsilon-greedy": lambda: EpsilonGreedy(greedy(), 0.25),
    "epsilon-rule": lambda: EpsilonGreedy(EXAMPLES["rule"](), 0.5),
    "mixture": lambda: Mixture([greedy(), Uniform(LABELS), Constant("a", sorted(LABELS))], [0.5, 0.25, 0.25]),
    "classifier": lambda: classifier(greedy=True),
    "classifier-soft": lambda: classifier(greedy=False),
    "aligned": lambda: aligned(greedy(), aligned_actions()),
}


def aligned_actions():
    from piwo.logs.actions import Actions

    return Actions(["new", *sorted(LABELS)])


@pytest.fixture(params=sorted(EXAMPLES))
def policy(request: pytest.FixtureRequest) -> Policy:
    """One policy of every kind that acts."""
    return EXAMPLES[request.param]()


@pytest.fixture
def contexts() -> np.ndarray:
    return CONTEXTS.copy()


@pytest.fixture
def batch() -> Batch:
    """Six rows of a log, of which they are rows 100 to 105; actions are codes into LABELS."""
    return Batch(
        start=100,
        context=CONTEXTS.copy(),
        action=np.array([0, 1, 2, 3, 1, 0], np.int32),
        reward=np.array([1.0, 0.4, 0.8, 0.0, 0.5, 1.0]),
        propensity=np.array([0.5, 0.1, 0.02, 0.8, 0.3, 0.05]),
        policies={"new": np.array([1.0, 0.0, 0.5, 0.25, 1.0, 1.0])},
    )


@pytest.fixture
def examples() -> dict[str, Policy]:
    return {name: make() for name, make in EXAMPLES.items()}
