"""Commands on a folder that `piwo serve` writes, and its options."""

import json

import numpy as np
import pytest

import piwo
from piwo.logs import Features
from piwo.policies import LinearGreedy, Uniform
from piwo.serve import LogWriter, Server


def write(folder, also, unit=None, rows=600) -> None:
    """Write a folder of tea or ice, where ice is for the warm days."""
    rng = np.random.default_rng(0)
    start = Uniform(["tea", "ice"])
    log = LogWriter(folder, start.actions, Features(()), also=also, unit=unit, sync=False)
    with Server(start, log, uncertified=True, random_state=1) as server:
        for i in range(rows):
            cold = float(rng.random() > 0.5)
            context = {"cold": cold} if also else {}
            if unit is not None:
                context[unit] = f"u{i // 2}"
            choice = server.decide(context)
            server.reward(choice.decision_id, float((choice.action == "tea") == (cold == 1.0)))


@pytest.mark.parametrize("unit", [None, "user"])
def test_the_next_commands_keep_the_context_of_the_folder(piwo, tmp_path, monkeypatch, unit):
    monkeypatch.chdir(tmp_path)
    write("logs", {"cold": "number"}, unit)
    evaluated = piwo("evaluate", "logs", "--policy", "uniform").next
    assert evaluated == ["learn", "logs", "--out", "policy.piwo"]
    learned = piwo(*evaluated, "--oracle", "tree")
    assert learned.code == 0, learned.err
    shown = json.loads(piwo("policy", "show", "policy.piwo", "--json").out)
    assert shown["context"] == ["cold"]
    serve = ["serve", "policy.piwo", "--log", "logs-next", "--epsilon", "0.05"]
    assert learned.next == serve


def test_a_folder_without_context_has_nothing_to_learn_from(piwo, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("logs", None, rows=100)
    done = piwo("evaluate", "logs", "--policy", "uniform")
    assert "--context" not in done.out
    assert done.why.startswith("to learn, log context: columns known before the decision")


def test_globs_of_context_take_what_the_folder_logs_as_context(tmp_path):
    write(tmp_path / "logs", {"cold": "number", "hour": "number"}, "user", rows=10)
    for asked, context in (("*", ("cold", "hour")), (["h*"], ("hour",)), ("cold", ("cold",))):
        assert piwo.read(tmp_path / "logs", context=asked).columns.context == context


def test_options_of_serve_are_those_of_the_log(piwo, tmp_path, monkeypatch):
    policy = LinearGreedy([[1.0], [-1.0]], [0.0, 0.0], ["a", "b"], Features.numeric(["x"]))
    policy.save(tmp_path / "p.piwo")
    monkeypatch.setattr("piwo.serve.run", lambda server, **_: server.close())
    words = ["serve", str(tmp_path / "p.piwo"), "--log", str(tmp_path / "log"), "--uncertified"]
    done = piwo(*words, "--several", "sum", "--absent", "0.5", "--window", "60")
    assert done.code == 0, done.err
    written = json.loads((tmp_path / "log" / "piwo-log.json").read_text("utf-8"))
    assert (written["several"], written["absent"], written["window"]) == ("sum", 0.5, 60.0)
    other = piwo(*words, "--several", "max")
    assert other.code == 2
    assert "--several=max, but the log in" in other.err
