"""Policies over features of items decide among items never seen before; the log keeps them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.errors import DataError, UsageError
from piwo.logs import Features
from piwo.logs.features import Feature
from piwo.policies import EpsilonGreedy, JointLinear, JointModel, JointSoftmax, Mixture, Uniform
from piwo.serve import LogWriter, Server
from tests.serve.test_app import client

ITEMS = Features((Feature("heat"), Feature("kind", "levels", ("drink", "food"))))
MODEL = JointModel(
    [[1.0, 0.0, 0.5], [0.0, 0.3, -0.2]],
    [0.1, 0.0, 0.2],
    [[1.0, 1.0, 0.0], [-1.0, 1.0, 0.0]],
    ITEMS,
)
CONTEXT = Features.numeric(["x", "y"])
LINEAR = JointLinear(MODEL, ["tea", "cola"], CONTEXT)
SOFT = JointSoftmax(MODEL, ["tea", "cola"], 0.5, CONTEXT)
POLICIES = {
    "linear": LINEAR,
    "softmax": SOFT,
    "epsilon": EpsilonGreedy(LINEAR, 0.2),
    "mixture": Mixture([LINEAR, SOFT], [0.5, 0.5]),
}
OFFERS = [
    {"soup": {"heat": 2.0, "kind": "food"}, "ice": {"heat": -3, "kind": "food"}},
    {"tea": {"heat": 1.0, "kind": "drink"}, "ice": {"heat": -3.0, "kind": "food"}},
    {"ice": {"heat": -3.0, "kind": "food"}},
]


@pytest.mark.parametrize("name", POLICIES)
def test_a_decision_among_items_is_that_of_act_to_the_bit(name: str) -> None:
    policy = POLICIES[name]
    one, other = np.random.default_rng(3), np.random.default_rng(3)
    server = Server(policy, uncertified=True, random_state=one, full=True)
    contexts = np.random.default_rng(0).normal(size=(30, 2))
    for i, row in enumerate(contexts):
        offer = OFFERS[i % 3]
        labels = list(offer)
        if i % 2:
            chosen = server.choose(row.tolist(), labels, [offer[x] for x in labels])
        else:
            chosen = server.choose(dict(zip("xy", row.tolist(), strict=True)), items=offer)
        expected = policy.act(
            row[None], other, eligible=[labels], items=[[offer[x] for x in labels]]
        )
        assert chosen.choice.action == expected.actions[0]
        assert chosen.choice.propensity == expected.propensities[0]
        assert chosen.row["eligible"] == tuple(labels)
        assert sum(chosen.row["propensities"]) == pytest.approx(1.0, abs=1e-12)


def test_the_log_is_read_with_its_items_and_learned_from(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    # nothing is known yet: all scores are 0, so that offers are drawn uniformly
    blank = JointSoftmax(
        JointModel(np.zeros((2, 3)), np.zeros(3), MODEL.table, ITEMS),
        ["tea", "cola"],
        features=CONTEXT,
    )
    with Server(blank, tmp_path / "log", uncertified=True, full=True, random_state=2) as server:
        server.log.sync = False
        for i in range(1200):
            x = float(rng.normal())
            names = [f"dish {(i + k) % 40}" for k in range(3)]
            offer = {
                label: {"heat": float(rng.normal()), "kind": str(rng.choice(["drink", "food"]))}
                for label in names
            }
            choice = server.decide({"x": x, "y": 0.0}, items=offer)
            server.reward(choice.decision_id, float(x * offer[choice.action]["heat"] > 0))
    log = piwo.read(tmp_path / "log")
    assert log.columns.item_features == "items"
    assert log.columns.eligible == "eligible"
    assert set(log.actions.labels) == {"tea", "cola", *(f"dish {k}" for k in range(40))}
    policy = piwo.oracles.JointRidge().solve(log, piwo.IX(0.01))
    assert policy.item_features is not None
    found = piwo.evaluate(log, LINEAR)
    # LINEAR likes warm dishes where x is positive, as the rewards do
    assert found.value > 0.7
    with Server(policy, uncertified=True) as later:
        cold = {"frozen": {"heat": -2.0, "kind": "food"}, "hot": {"heat": 2.0, "kind": "food"}}
        assert later.decide({"x": -2.0, "y": 0.0}, items=cold).action == "frozen"
        assert later.decide({"x": 2.0, "y": 0.0}, items=cold).action == "hot"
    # learned from this log, it has other labels, and is logged into the same folder
    again = Server(blank, tmp_path / "log", uncertified=True)
    again.reload(policy)
    again.decide({"x": 1.0, "y": 0.0}, items=cold)
    again.close()


@pytest.mark.parametrize(
    ("eligible", "items", "message"),
    [
        (["tea", "ice"], None, "'ice', which is no action of the policy"),
        (None, {"ice": {"heat": 1.0}}, "'kind' of 'ice' is None, expected text"),
        (None, {"ice": {"heat": "hot", "kind": "food"}}, "'heat' of 'ice' is 'hot', expected a fi"),
        (None, {"ice": {"heat": float("inf"), "kind": "food"}}, "expected a finite number"),
        (None, {"ice": {"heat": 1e200, "kind": "food"}}, "beyond 1e\\+150"),
        (None, {"ice": {"heat": 1.0, "kind": "food", "zz": 1}}, "has 'zz', expected heat, kind"),
        (None, {"ice": 3}, "expected its features, such as"),
        (None, {}, "has no label"),
        (None, "ice", "expected label -> features, or a list"),
        (None, [{"heat": 1.0, "kind": "food"}], "a list without labels"),
        (["ice"], [], "the features of 0 items, expected those of 1"),
        (["ice", "soup"], {"ice": {"heat": 1.0, "kind": "food"}}, "no features of 'soup'"),
        (["ice", "ice"], {"ice": {"heat": 1.0, "kind": "food"}}, "listed twice"),
        ([True], {"ice": {"heat": 1.0, "kind": "food"}}, "has True, expected text"),
    ],
)
def test_items_that_cannot_be_used_are_refused(eligible: Any, items: Any, message: str) -> None:
    server = Server(LINEAR, uncertified=True)
    with pytest.raises(DataError, match=message):
        server.decide({"x": 1.0, "y": 0.0}, eligible, items)


def test_items_need_a_policy_and_a_log_with_features(tmp_path: Path) -> None:
    plain = Server(Uniform(["a", "b"]), uncertified=True)
    with pytest.raises(UsageError, match="uniform policy knows no features of items"):
        plain.decide(items={"a": {"heat": 1.0}})
    with LogWriter(tmp_path / "plain", LINEAR.actions, CONTEXT) as log:
        server = Server(LINEAR, log, uncertified=True)
        with pytest.raises(UsageError, match="made without features of items"):
            server.decide({"x": 1.0, "y": 0.0}, items=OFFERS[0])
    with pytest.raises(UsageError, match="expected 'number', 'text' or"):
        LogWriter(tmp_path / "bad", LINEAR.actions, CONTEXT, items={"heat": "float"})
    with pytest.raises(UsageError, match=r"items is .*, expected a Mapping, name -> 'number'"):
        LogWriter(tmp_path / "bad", LINEAR.actions, CONTEXT, items=["heat"])  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="two features of one name"):
        LogWriter(tmp_path / "bad", LINEAR.actions, CONTEXT, items={"a": "text", "A": "text"})
    with (
        LogWriter(tmp_path / "other", LINEAR.actions, CONTEXT, items={"price": "number"}) as log,
        pytest.raises(UsageError, match="'heat' \\(number\\) of items, which the log in"),
    ):
        Server(LINEAR, log, uncertified=True)


def test_labels_that_a_log_cannot_hold_are_refused(tmp_path: Path) -> None:
    """A log has whole numbers of 64 bits; one more would leave the whole folder unreadable."""
    model = JointModel(np.zeros((1, 1)), np.zeros(1), [[1.0]], Features.numeric(["price"]))
    policy = JointSoftmax(model, [1], features=Features.numeric(["hour"]))
    with Server(policy, tmp_path / "log", uncertified=True) as server:
        for label in (2**63, -(2**63) - 1):
            with pytest.raises(DataError, match="expected a whole number of 64 bits"):
                server.decide({"hour": 1.0}, items={label: {"price": 1.0}})
        chosen = server.decide({"hour": 1.0}, items={2**63 - 1: {"price": 1.0}})
        server.reward(chosen.decision_id, 1.0)
    assert len(piwo.read(tmp_path / "log")) == 1


def test_vectors_that_the_policy_does_not_read_are_not_logged(tmp_path: Path) -> None:
    """Nothing says how long they are, and lists of several lengths cannot be read."""
    model = JointModel(np.zeros((1, 1)), np.zeros(1), [[1.0]], Features.numeric(["price"]))
    policy = JointSoftmax(model, ["a"], features=Features.numeric(["hour"]))
    log = LogWriter(
        tmp_path / "log",
        policy.actions,
        policy.features,
        items={"price": "number", "v": "vector"},
    )
    with log, pytest.raises(UsageError, match="'v' of items is a vector that the policy does not"):
        Server(policy, log, uncertified=True)


def test_a_level_that_was_never_seen_is_said() -> None:
    server = Server(LINEAR, uncertified=True)
    with pytest.warns(piwo.PiwoWarning, match="1 context values were never seen"):
        server.decide({"x": 1.0, "y": 0.0}, items={"ice": {"heat": 1.0, "kind": "cold"}})


def test_decisions_without_items_are_counted(tmp_path: Path) -> None:
    with Server(SOFT, tmp_path / "log", uncertified=True) as server:
        for i in range(6):
            if i % 3:
                choice = server.decide({"x": 1.0, "y": 0.0}, items=OFFERS[0])
            else:
                choice = server.decide({"x": 1.0, "y": 0.0})
            server.reward(choice.decision_id, 1.0)
    with pytest.warns(piwo.PiwoWarning, match="2 of 6 decisions have no features of items"):
        log = piwo.read(tmp_path / "log")
    assert log.columns.item_features is None


def test_whole_labels_and_json(tmp_path: Path) -> None:
    policy = JointSoftmax(MODEL, [7, 3], features=CONTEXT)
    server = Server(policy, tmp_path / "log", uncertified=True)
    offer = {"7": {"heat": 1.0, "kind": "drink"}, "12": {"heat": 2.0, "kind": "food"}}
    with client(server) as web:
        for _ in range(4):
            found = web.post("/decide", json={"context": {"x": 1, "y": 0}, "items": offer})
            assert found.json()["action"] in (7, 12)
            web.post("/reward", json={"decision_id": found.json()["decision_id"], "reward": 1})
        listed = {"context": {"x": 1, "y": 0}, "eligible": [12], "items": [offer["12"]]}
        found = web.post("/decide", json=listed)
        assert found.json()["action"] == 12
        web.post("/reward", json={"decision_id": found.json()["decision_id"], "reward": 1})
        odd = web.post("/decide", json={"context": {"x": 1, "y": 0}, "eligible": [12]})
        assert odd.status_code == 422
        assert "has 12, which is no action of the policy (7, 3)" in odd.json()["error"]
    assert piwo.read(tmp_path / "log").actions.labels == (7, 3, 12)
