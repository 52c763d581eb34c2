"""`--gate P`, and what a gate says of rows of users that are not declared."""

import numpy as np
import pandas as pd
import pytest

import piwo as library
from piwo.policies import Constant


@pytest.fixture
def log(tmp_path, monkeypatch):
    """B earns .6 and A .2; 400 users with 5 rows each."""
    random = np.random.default_rng(0)
    action = random.integers(0, 2, 2000)
    table = pd.DataFrame(
        {
            "action": np.array(["A", "B"])[action],
            "reward": (random.random(2000) < np.where(action == 1, 0.6, 0.2)) * 1.0,
            "propensity": 0.5,
        }
    )
    table.to_csv(tmp_path / "log.csv", index=False)
    table.assign(user_id=np.arange(2000) % 400).to_csv(tmp_path / "users.csv", index=False)
    return table


TWO = ("--policy", "constant:B", "--policy", "constant:A")


def test_a_gate_that_names_its_candidate_leaves_out_reference_policies(piwo, log) -> None:
    every = piwo("evaluate", "log.csv", *TWO, "--gate")
    assert every.code == 1
    assert "gate: asks of constant:B, constant:A" in every.out
    one = piwo("evaluate", "log.csv", *TWO, "--gate", "constant:B")
    assert one.code == 0
    assert "gate: asks of constant:B\ngate: passed" in one.out
    other = piwo("evaluate", "log.csv", *TWO, "--gate=constant:A", "--json")
    assert other.code == 1
    assert other.document["gate"]["policies"] == ["constant:A"]
    value = piwo("evaluate", "log.csv", *TWO, "--gate", "constant:B", "--at-least", ".9")
    assert value.code == 1
    wrong = piwo("evaluate", "log.csv", *TWO, "--gate", "--gate-policy", "constant:C")
    assert wrong.code == 2
    assert "expected one of the policies: constant:B, constant:A" in wrong.err


def test_a_gate_refuses_rows_of_users_that_are_not_declared(piwo, log) -> None:
    words = ("evaluate", "users.csv", "--policy", "constant:B", "--gate")
    refused = piwo(*words)
    assert refused.code == 1
    line = "gate: column 'user_id' has about 5 rows a value, which depend on each other: declare "
    assert line + "--unit=user_id, or say --independent-rows" in refused.out
    assert refused.out.startswith("Cannot be told: column 'user_id' has about 5 rows a value")
    assert piwo(*words, "--unit", "user_id").code == 0
    assert piwo(*words, "--independent-rows").code == 0
    # One row a user is no reason.
    log.assign(user_id=np.arange(2000)).to_csv("each.csv", index=False)
    assert piwo("evaluate", "each.csv", "--policy", "constant:B", "--gate").code == 0


def test_a_monitor_needs_independent_rows(piwo, log) -> None:
    words = ("monitor", "users.csv", "--policy", "constant:B", "--state", "m.piwo")
    refused = piwo(*words)
    assert refused.code == 2
    assert "--independent-rows" in refused.err
    assert piwo(*words, "--independent-rows").code == 0


def test_evaluate_begins_with_the_answer(piwo, log) -> None:
    ran = piwo("evaluate", "log.csv", *TWO)
    rows = library.read("log.csv")
    policies = {f"constant:{x}": Constant(x, ["A", "B"]) for x in "BA"}
    expected = library.decide(library.compare(rows, policies)).sentence
    assert ran.out.splitlines()[0] == expected
    assert expected.startswith("Switch to constant:B: it earns at least")
