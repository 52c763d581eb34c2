"""One decision at a time is what `policy.act` decides, and the log says what was decided."""

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.certificates import Certificate
from piwo.errors import DataError, FileError, PiwoError, PiwoWarning, UsageError
from piwo.logs.features import Feature, Features
from piwo.policies import (
    Constant,
    EpsilonGreedy,
    Function,
    LinearGreedy,
    LinearSoftmax,
    Logging,
    Uniform,
)
from piwo.serve import Server
from tests.policies.conftest import NAMES, makers

ANY_WIDTH = {"rule", "function", "epsilon-rule"}
CONTEXTS = np.array([[0.0, 0.0], [1.0, 2.0], [-1.5, 0.25], [3.0, -1.0], [0.5, 0.75], [-0.25, -0.5]])
MIXED = Features(
    (
        Feature("age", missing=True),
        Feature("shop", "levels", ("7", "north", "true"), missing=True),
        Feature("query", "hashed", size=8),
        Feature("place", "vector", size=2, missing=True),
        Feature("new"),
    )
)
ROWS: list[dict[str, Any]] = [
    {"age": 7, "shop": "north", "query": "a", "place": [1.0, 2.0], "new": 1.0},
    {"age": None, "shop": None, "query": "", "place": [1, 2], "new": 0},
    {"age": float("nan"), "shop": 7, "query": "grüße", "place": None, "new": 1},
    {"age": np.float32(0.1), "shop": True, "query": "b", "place": [0.5, None], "new": 0.25},
]


def softmax(features: Features | None = None) -> LinearSoftmax:
    width = 3 if features is None else features.width
    coef = np.random.default_rng(0).normal(size=(3, width))
    return LinearSoftmax(coef, np.zeros(3), ["a", "b", "c"], features=features)


@pytest.mark.parametrize("name", [x for x in NAMES if x not in ANY_WIDTH])
def test_a_decision_is_that_of_act_to_the_bit(name: str) -> None:
    policy = makers()[name]()
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    server = Server(policy, uncertified=True, random_state=one, full=True)
    for row in CONTEXTS:
        X = None if policy.width == 0 else row[None]
        n = 1 if policy.width == 0 else None
        context = [] if policy.width == 0 else row.tolist()
        chosen = server.choose(context)
        expected = policy.act(X, other, n=n)
        assert chosen.choice.action == expected.actions[0]
        assert chosen.choice.propensity == expected.propensities[0]
        np.testing.assert_array_equal(chosen.row["propensities"], policy.probabilities(X, n=n)[0])
        try:
            some = [x for x in ("a", "2") if x in policy.actions]
            expected = policy.act(X, other, n=n, eligible=[some])
        except PiwoError:
            with pytest.raises(DataError, match=r"eligible|listed"):
                server.decide(context, some)
            continue
        choice = server.decide(context, some)
        assert choice.action == expected.actions[0]
        assert choice.propensity == expected.propensities[0]


@pytest.mark.parametrize("name", sorted(ANY_WIDTH))
def test_a_policy_of_any_width_needs_features(name: str) -> None:
    with pytest.raises(UsageError, match="any number of context columns"):
        Server(makers()[name](), uncertified=True)


def test_a_function_with_features_is_served() -> None:
    def always(x: np.ndarray) -> np.ndarray:
        return np.tile([0.25, 0.75], (len(x), 1))

    policy = Function(always, ["a", "b"], Features.numeric(["x"]))
    choice = Server(policy, uncertified=True, random_state=0).decide({"x": 1})
    assert choice.propensity == {"a": 0.25, "b": 0.75}[choice.action]


def test_each_kind_of_column_is_encoded_as_in_a_table() -> None:
    policy = softmax(MIXED)
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    server = Server(policy, uncertified=True, random_state=one)
    texts = {"shop": ["north", None, "7", "true"], "query": [x["query"] for x in ROWS]}
    table = {name: [row[name] for row in ROWS] for name in ROWS[0]}
    table["new"] = [float(x) for x in table["new"]]
    encoded = MIXED.encode({**table, **texts})
    for i, row in enumerate(ROWS):
        matrix, unseen = server._serving.encoder.row(row)
        expected = encoded[i : i + 1]
        np.testing.assert_array_equal(matrix, expected)
        assert unseen == 0
        choice, made = server.decide(row), policy.act(expected, other)
        assert (choice.action, choice.propensity) == (made.actions[0], made.propensities[0])


def test_an_unseen_level_is_counted_and_its_columns_are_0() -> None:
    server = Server(softmax(MIXED), uncertified=True)
    row = {**ROWS[0], "shop": "elsewhere"}
    assert server.choose(row).unseen == 1
    assert server._serving.encoder.row(row)[0][0, 2:6].tolist() == [0.0] * 4


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"age": "7"}, "'age' is .* expected a number"),
        ({"age": float("inf")}, "expected a finite number"),
        ({"age": 10**400}, "expected a finite number"),
        ({"zz": 1}, "the column 'zz', expected age, shop, query, place, new; leave it out, or"),
        ({7: 1, "y": 2}, "the column 7, expected age"),
        ({"new": None}, "'new' is missing"),
        ({"query": None}, "'query' is missing"),
        ({"query": {}}, "'query' is .* expected text"),
        ({"place": [1.0]}, "not a list of 2 numbers"),
        ({"place": ["a", "b"]}, "not a list of 2 numbers"),
        ({"place": [1, 10**400]}, "not a list of 2 numbers"),
        ({"shop": 10**5000}, "'shop' is .* expected text"),
        ({"place": [1.0, float("inf")]}, "missing or infinite entries"),
    ],
)
def test_a_value_that_cannot_be_used_is_named(change: dict[str, Any], message: str) -> None:
    server = Server(softmax(MIXED), uncertified=True)
    with pytest.raises(DataError, match=message):
        server.decide({**ROWS[0], **change})


def test_a_context_without_a_column_or_of_another_shape_is_refused() -> None:
    server = Server(softmax(MIXED), uncertified=True)
    with pytest.raises(DataError, match="'age' is missing, expected a value for each of age, shop"):
        server.decide({})
    with pytest.raises(DataError, match="expected a mapping"):
        server.decide([1.0, 2.0])
    with pytest.raises(DataError, match=r"is None, expected a mapping .* value: age, shop"):
        server.decide(None)  # type: ignore[arg-type]
    plain = Server(softmax(), uncertified=True)
    for wrong in ("abc", b"abc", np.array(1.0), 3.0):
        with pytest.raises(DataError, match="expected a mapping from column to value: x0, x1, x2"):
            plain.decide(wrong)  # type: ignore[arg-type]
    with pytest.raises(DataError, match=r"value, such as \{\}, as the policy looks at no column"):
        Server(Uniform(["a"]), uncertified=True).decide(None)  # type: ignore[arg-type]
    with pytest.raises(DataError, match="the column 'x', expected no columns; leave it out"):
        Server(Uniform(["a"]), uncertified=True).decide({"x": 1})
    assert plain.decide([1.0, True, np.False_]).action in "abc"
    with pytest.raises(DataError, match="2 numbers, expected 3"):
        plain.decide([1.0, 2.0])
    assert plain.decide({"x0": 1, "x1": 2, "x2": 3}).action in "abc"


@pytest.mark.parametrize(
    ("eligible", "message"),
    [
        (["z"], "has 'z', which is no action of the policy"),
        # a label that could not be chosen is not left out in silence
        (["a", "z"], "has 'z', which is no action of the policy"),
        ([], "has no label"),
        (["a", "a"], "listed twice"),
        ("a", "a list of labels"),
    ],
)
def test_eligible_actions_are_checked(eligible: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        Server(Uniform(["a", "b"]), uncertified=True).decide(eligible=eligible)


def test_a_policy_of_slates_is_refused_with_what_to_do(tmp_path: Path) -> None:
    policy: Any = piwo.slates.Uniform(["a", "b"])
    policy.save(tmp_path / "slates.piwo")
    for given in (policy, tmp_path / "slates.piwo"):
        with pytest.raises(
            UsageError, match=r"policy of slates.*read them with piwo\.slates\.read"
        ):
            Server(given, uncertified=True)


def test_only_a_certified_policy_is_served_without_the_flag(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no certificate that passes"):
        Server(Uniform(["a", "b"]))
    Uniform(["a", "b"]).save(tmp_path / "p.piwo")
    with pytest.raises(UsageError, match="uncertified=True"):
        Server(tmp_path / "p.piwo")
    assert Server(tmp_path / "p.piwo", uncertified=True).decide().propensity == 0.5
    with pytest.raises(UsageError, match="cannot act"):
        Server(Logging(["a", "b"]), uncertified=True)


def test_only_the_certificate_of_the_file_itself_counts(tmp_path: Path) -> None:
    certificate = Certificate(
        kind="held-out", value=0.6, value_lower=0.5, improvement_lower=0.1, logging_value=0.5
    )
    path = tmp_path / "p.piwo"
    Uniform(["a", "b"]).save(path, {"certificate": certificate.to_dict()})
    assert Server(path).decide().propensity == 0.5
    part = piwo.load(path)
    mixed = EpsilonGreedy(part, 0.5)
    assert mixed.provenances
    mixed.save(tmp_path / "mixed.piwo")
    for policy in (part, mixed, tmp_path / "mixed.piwo"):
        with pytest.raises(UsageError, match="no certificate that passes"):
            Server(policy)


def test_exploration_is_in_the_propensity() -> None:
    server = Server(Constant("a", ["a", "b"]), epsilon=0.5, uncertified=True, random_state=0)
    assert server.caution == (
        "a fraction 0.5 of the decisions explores; a certificate of the policy is not about this "
        "mixture"
    )
    assert Server(Constant("a", ["a", "b"]), uncertified=True).caution is None
    found = {server.decide()[:2] for _ in range(50)}
    assert found == {("a", 0.75), ("b", 0.25)}


def test_reload_keeps_the_old_policy_if_the_new_one_cannot_be_used(tmp_path: Path) -> None:
    server = Server(Constant("a", ["a", "b"]), tmp_path / "log", uncertified=True)
    server.reload(Constant("b", ["a", "b"]))
    assert server.decide().action == "b"
    with pytest.raises(UsageError, match="log to a new folder"):
        server.reload(Constant("c", ["a", "c"]))
    with pytest.raises(UsageError, match="context column 'x0'"):
        server.reload(LinearGreedy([[1.0], [2.0]], [0.0, 0.0], ["a", "b"]))
    with pytest.raises(FileError):
        server.reload(tmp_path / "none.piwo")
    assert server.decide().action == "b"
    server.close()


def test_what_was_decided_is_what_is_read(tmp_path: Path) -> None:
    policy = softmax(MIXED)
    decided = []
    with Server(policy, tmp_path / "log", epsilon=0.5, full=True, uncertified=True) as server:
        for i in range(40):
            eligible = ["c", "a"] if i % 3 == 0 else None
            choice = server.decide(ROWS[i % 4], eligible)
            decided.append(choice)
            server.reward(choice.decision_id, i % 2)
        before = piwo.read(tmp_path / "log", missing="indicator")
    after = piwo.read(str(tmp_path / "log"), missing="indicator")
    for log in (before, after):
        with pytest.warns(PiwoWarning, match="'age' in 20 rows"):
            assert log.features is not None
        (batch,) = log.each_batch(context=True, propensities=True)
        assert log.actions.take(batch.action).tolist() == [x.action for x in decided]
        assert batch.propensity.tolist() == [x.propensity for x in decided]
        assert batch.reward.tolist() == [i % 2 for i in range(40)]
        assert batch.eligible is not None
        assert batch.eligible.sizes.tolist() == [2 if i % 3 == 0 else 3 for i in range(40)]
    assert before.columns.key == "decision_id"


def test_a_log_of_several_policies_is_that_of_a_learning_logger(tmp_path: Path) -> None:
    folder = tmp_path / "log"
    with Server(Uniform(["a", "b"]), folder, uncertified=True) as server:
        server.reward(server.decide().decision_id, 1.0)
        first = server.policy_name
        assert piwo.read(folder).logger is None
        server.reload(Constant("b", ["a", "b"]))
        server.reward(server.decide().decision_id, 1.0)
    with pytest.warns(PiwoWarning, match="2 policies wrote this log"):
        assert piwo.read(folder).logger == "learning"
    assert piwo.read(folder, logger="fixed").logger == "fixed"
    assert piwo.read(folder, where=f"policy = '{first}'").logger is None


def test_threads_share_a_server(tmp_path: Path) -> None:
    server = Server(Uniform(["a", "b"]), tmp_path / "log", uncertified=True)
    made: list[str] = []

    def work() -> None:
        for _ in range(20):
            choice = server.decide()
            made.append(choice.decision_id)
            server.reward(choice.decision_id, 1.0)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    server.close()
    assert piwo.read(tmp_path / "log").source.rows == len(set(made)) == 80


def test_a_closed_server_decides_and_logs_nothing(tmp_path: Path) -> None:
    with Server(Uniform(["a", "b"]), tmp_path / "log", uncertified=True) as server:
        choice = server.decide()
        server.reward(choice.decision_id, 1.0)
    with pytest.raises(UsageError, match="this server was closed, and nothing was logged"):
        server.decide()
    with pytest.raises(UsageError, match="this server was closed"):
        server.reward(choice.decision_id, 1.0)
    server.close()
    assert not list((tmp_path / "log").glob("*.jsonl"))
    without = Server(Uniform(["a", "b"]), uncertified=True)
    without.close()
    with pytest.raises(UsageError, match="this server was closed"):
        without.decide()


def test_rewards_are_checked(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="no log"):
        Server(Uniform(["a"]), uncertified=True).reward("0" * 32, 1.0)
    with Server(Uniform(["a"]), tmp_path / "log", uncertified=True) as server:
        choice = server.decide()
        # One in upper case would be logged and never joined.
        for wrong in ("", "<b>", "x" * 31, "A" * 32, "g" * 32, "\u0661" * 32, "0" * 32 + "\n"):
            with pytest.raises(UsageError, match="expected the 32 hexadecimal digits"):
                server.reward(wrong, 1.0)
        for value in (2.0, -0.5, float("nan"), "1"):
            with pytest.raises(UsageError):
                server.reward(choice.decision_id, value)  # type: ignore[arg-type]
