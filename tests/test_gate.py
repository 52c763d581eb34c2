"""The gate: what Python refuses, the command refuses, for the same reasons."""

import json

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import UsageError
from piwo.policies import Constant

N = 2000


@pytest.fixture
def table():
    rng = np.random.default_rng(0)
    action = rng.choice(["A", "B"], N)
    rows = {
        "action": action,
        "reward": (rng.random(N) < np.where(action == "B", 0.7, 0.3)) * 1.0,
        "propensity": 0.5,
        "complaints": (rng.random(N) < 0.1) * 1.0,
    }
    return pd.DataFrame(rows)


def compared(table, guardrail=None, **read):
    log = piwo.read(table, **read)
    policies = {f"constant:{x}": Constant(x, log.actions) for x in "AB"}
    return log, piwo.compare(log, policies, guardrail=guardrail)


def of_command(table, tmp_path, capsys, *words):
    path = tmp_path / "log.csv"
    table.to_csv(path, index=False)
    policies = ["--policy", "constant:A", "--policy", "constant:B"]
    code = main(["evaluate", str(path), *policies, "--json", *words])
    return code, json.loads(capsys.readouterr().out)["gate"]


@pytest.mark.parametrize("interval", ["auto", "normal"])
def test_python_and_the_command_refuse_for_the_same_reasons(table, interval, tmp_path, capsys):
    log = piwo.read(table)
    policies = {f"constant:{x}": Constant(x, log.actions) for x in "AB"}
    chosen = {} if interval == "auto" else {"interval": interval}
    found = piwo.compare(log, policies, **chosen)
    made = piwo.gate(log, found, at_least=0.9)
    words = [] if interval == "auto" else ["--interval", interval]
    code, told = of_command(table, tmp_path, capsys, "--gate", "--at-least", ".9", *words)
    assert (code, told) == (1, {"passed": made.passed, **made.to_dict()})
    assert set(made.refused) == {"constant:A", "constant:B"}
    assert not any("better than" in why for why in made.refused["constant:B"])


def test_a_passed_gate(table, tmp_path, capsys):
    log, found = compared(table)
    made = piwo.gate(log, found, policies="constant:B", at_least=0.6)
    assert (made.passed, made.refused, made.policies) == (True, {}, ("constant:B",))
    assert str(made) == "passed: constant:B"
    assert made
    assert not piwo.gate(log, found)
    code, told = of_command(table, tmp_path, capsys, "--gate", "constant:B", "--at-least", ".6")
    assert (code, told) == (0, {"passed": True, **made.to_dict()})
    alone = piwo.evaluate(log, Constant("B", log.actions))
    assert piwo.gate(log, alone).passed


def test_guardrails(table):
    log, found = compared(table, "complaints<=.05", outcomes="complaints")
    (why,) = piwo.gate(log, found).refused["constant:B"]
    assert why.startswith("complaints <= 0.05: certified harm")
    log, found = compared(table, "complaints<=.1", outcomes="complaints")
    made = piwo.gate(log, found, policies=["constant:B"])
    assert made.passed
    assert [one.partition(":")[0] for one in made.open] == ["constant"]


def test_users_that_repeat_are_declared(table):
    users = table.assign(user_id=np.arange(N) // 5)
    log, found = compared(users)
    made = piwo.gate(log, found, policies="constant:B")
    told = (
        "column 'user_id' has about 5 rows a value, which depend on each other: declare "
        "unit='user_id', or say independent_rows=True"
    )
    assert made.refused == {"constant:B": (told,)}
    assert made.dependent == told
    assert piwo.gate(log, found, policies="constant:B", independent_rows=True).passed
    log, found = compared(users, unit="user_id")
    assert piwo.gate(log, found, policies="constant:B").passed
    log, found = compared(table.assign(user_id=np.arange(N)))
    assert piwo.gate(log, found, policies="constant:B").passed


def test_a_baseline_is_not_asked_to_beat_itself(table):
    log = piwo.read(table)
    policies = {x: Constant(x, log.actions) for x in "AB"}
    found = piwo.compare(log, policies, baseline="A")
    assert piwo.gate(log, found).policies == ("B",)


def test_what_was_not_made_together_or_from_this_log_is_refused(table):
    log = piwo.read(table)
    policies = {x: Constant(x, log.actions) for x in "AB"}
    apart = {name: piwo.evaluate(log, one) for name, one in policies.items()}
    with pytest.raises(UsageError, match=r"evaluate them together with piwo.compare"):
        piwo.gate(log, apart)
    with pytest.raises(UsageError, match=r"has another number of rows \(10\) than the log of the"):
        piwo.gate(piwo.read(table[:10]), apart["B"])
    users = table.assign(user_id=np.arange(N) // 5)
    with pytest.raises(UsageError, match=r"has another unit \(user_id\) than the log of the"):
        piwo.gate(piwo.read(users, unit="user_id"), apart["B"])
    alone = piwo.compare(log, {"A": policies["A"]}, baseline="A")
    with pytest.raises(UsageError, match=r"has the baseline alone"):
        piwo.gate(log, alone)


def test_a_watch_has_no_users(table):
    log = piwo.read(table.assign(user_id=np.arange(N) // 5))
    watch = piwo.Watch.start({"b": Constant("B", log.actions)}, deadline="30d")
    told = "a watch needs independent rows; evaluate the whole log with unit and horizon, or say"
    with pytest.raises(UsageError, match=told):
        watch.update(log, date="2026-11-01")
    with pytest.warns(piwo.PiwoWarning, match="looks like the id of a user"):
        made = watch.update(log, date="2026-11-01", independent_rows=True)
    assert made.certified == ("b",)


def test_a_watch_names_the_whole_column(table):
    log = piwo.read(table.assign(**{"user:id": np.arange(N) // 5}))
    watch = piwo.Watch.start({"b": Constant("B", log.actions)}, deadline="30d")
    told = "column 'user:id' has about 5 rows a value, which depend on each other: a watch needs"
    with pytest.raises(UsageError, match=told):
        watch.update(log, date="2026-11-01")


def test_wrong_arguments(table):
    log, found = compared(table)
    with pytest.raises(UsageError, match=r"policies has 'C', expected one of constant:A, const"):
        piwo.gate(log, found, policies="C")
    with pytest.raises(UsageError, match=r"policies has \[\], expected one of constant:A, const"):
        piwo.gate(log, found, policies=[[]])
    with pytest.raises(UsageError, match=r"policies is empty, expected names of the evaluations"):
        piwo.gate(log, found, policies=[])
    with pytest.raises(UsageError, match=r"at_least is 2.0, expected a value in the reward range"):
        piwo.gate(log, found, at_least=2.0)
    for wrong in (None, {}, {"a": 1}, [found["constant:A"]], log):
        with pytest.raises(UsageError, match=r"evaluations is .*, expected what piwo.evaluate or"):
            piwo.gate(log, wrong)
    with pytest.raises(UsageError, match="at_least is 'x'; expected a finite number"):
        piwo.gate(log, found, at_least="x")


@pytest.mark.parametrize(
    ("read", "reason"),
    [
        ({"weight": "w"}, "the log was thinned"),
        ({"unit": "user_id", "logger": "learning"}, "rows of a unit depend on each other"),
        ({"propensity": "wrong"}, "the logged propensities are too small"),
    ],
)
def test_a_decision_says_why_nothing_is_proved_beside_an_asymptotic_interval(table, read, reason):
    table = table.assign(
        user_id=np.arange(N) // 2, w=1.0, wrong=np.where(table.action == "B", 0.3, 0.7)
    )
    log = piwo.read(table, **read)
    made = piwo.evaluate(log, Constant("B", log.actions), interval="normal")
    # the last is no ground for any interval
    assert (made.lower is None) == ("wrong" in read.values())
    assert piwo.decide(made).sentence.startswith(f"Cannot be told: unfit log, because {reason}")
