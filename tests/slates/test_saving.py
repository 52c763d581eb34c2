"""Slate policies act, explore with probabilities that are right, and come back from files."""

from __future__ import annotations

import json
import zipfile
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo import slates
from piwo.errors import FileError, UsageError
from piwo.slates.greedy import GreedySlate

TABLE = {
    "slate": [["a", "b"], ["b", "c"], ["c", "a"]] * 40,
    "rs": [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]] * 40,
    "p": [[0.5, 1.0], [0.5, 0.5], [0.25, 0.5]] * 40,
    "x": [0.0, 1.0, 2.0] * 40,
}


def log(**more: Any) -> slates.SlateLog:
    how: dict[str, Any] = {"rewards": "rs", "behavior": slates.Uniform(["a", "b", "c"])}
    return slates.read(TABLE, context="x", **how | more)


def learned() -> GreedySlate:
    return slates.learn(log()).policy


POLICIES: dict[str, Any] = {
    "fixed": lambda: slates.Deterministic(["c", "a"]),
    "numbers": lambda: slates.Deterministic([3, 1, 3]),
    "column": lambda: slates.Deterministic("best"),
    "factored": lambda: slates.Factored([{"a": 0.5, "b": 0.5}, {"c": 1.0}]),
    "uniform": lambda: slates.Uniform(["a", "b", "c"]),
    "columns": lambda: slates.FromColumns(above="pi", slate="whole"),
    "independent": lambda: slates.FromColumns("pi", independent=True),
    "greedy": learned,
    "epsilon": lambda: slates.EpsilonSlate(learned(), 0.3),
    "epsilon of a column": lambda: slates.EpsilonSlate(
        slates.Deterministic("best"), 0.3, ["a", "b"]
    ),
}


@pytest.mark.parametrize("name", POLICIES)
def test_files_hold_the_policy(name: str, tmp_path: Path) -> None:
    policy, path = POLICIES[name](), tmp_path / "p.piwo"
    policy.save(path, {"page": "home"})
    saved = slates.load_with_metadata(path)
    again = saved.policy
    assert (saved.metadata, saved.library) == ({"page": "home"}, piwo.__version__)
    assert type(again) is type(policy)
    assert (again.numbers, again.slate_columns) == (policy.numbers, policy.slate_columns)
    assert (again.independent, again.listed) == (policy.independent, policy.listed)
    if policy.most_slots is not None:
        assert again.act([[0.0], [2.0]], 1, n=None) == policy.act([[0.0], [2.0]], 1, n=None)
        known: dict[str, Any] = {"slots": policy.most_slots}
        if name == "numbers":
            known["actions"] = ["a", "b", "c", "1", "3"]
        one = slates.evaluate(log(**known), policy, interval="mixture")
        other = slates.evaluate(log(**known), again, interval="mixture")
        assert (one.value, one.logging_value) == (other.value, other.logging_value)
    first = path.read_bytes()
    again.save(path, {"page": "home"})
    assert path.read_bytes() == first


def test_learned_policies_say_from_which_rows(tmp_path: Path) -> None:
    policy = learned()
    policy.save(tmp_path / "p.piwo")
    again = slates.load(tmp_path / "p.piwo")
    assert again.learned == policy.learned
    assert again.learned is not None
    kept = {name: again.learned[name] for name in ("source", "rows")}
    assert kept == {"source": policy.learned_from.name, "rows": len(policy.learned_from)}
    found = slates.evaluate(log(), again, interval="mixture")
    assert "learned-elsewhere" in [note.kind for note in found.notes]
    # in this process, the rows are known
    kinds = []
    for one in (policy, slates.EpsilonSlate(policy, 0.1)):
        why = slates.evaluate(policy.learned_from, one).no_interval
        kinds.append(why and why.kind)
    assert kinds == ["in-sample", "in-sample"]


def test_files_of_the_other_kind_and_damaged_ones_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "p.piwo"
    piwo.policies.Uniform(["a", "b"]).save(path)
    with pytest.raises(FileError, match=r"single actions; read it with piwo\.load$"):
        slates.load(path)
    slates.Uniform(["a", "b"]).save(path)
    with pytest.raises(FileError, match=r"policy of slates; read it with piwo\.slates\.load$"):
        piwo.load(path)
    for change, message in (
        ({"version": 2}, "format version 2"),
        ({"policy": {"kind": "new", "parameters": {}}}, "does not know; update piwo"),
        ({"policy": {"kind": "greedy", "parameters": {}}}, "damaged"),
        ({"policy": {"kind": "fixed", "parameters": {"order": [0]}}}, "action list is missing"),
    ):
        with zipfile.ZipFile(path) as file:
            page = json.loads(file.read("policy.json"))
        other = tmp_path / "other.piwo"
        with zipfile.ZipFile(other, "w") as file:
            file.writestr("policy.json", json.dumps(page | change))
        with pytest.raises(FileError, match=message):
            slates.load(other)


@pytest.mark.parametrize("slots", [1, 2, 3])
def test_probabilities_of_exploring_sum_to_one_and_are_those_of_evaluate(slots: int) -> None:
    policy = slates.EpsilonSlate(slates.Deterministic(["b", "c", "a"]), 0.4)
    every = [list(one) for one in permutations(["a", "b", "c"], slots)]
    whole = {"slate": every, "rs": [[1.0] * slots] * len(every)}
    rows = slates.read(whole, rewards="rs", behavior=slates.Uniform(["a", "b", "c"]), slots=3)
    # uniform rows, one of each slate: the mean weight is the sum of the target's probabilities
    found = slates.evaluate(rows, policy, interval="mixture")
    assert found.mean_weight == pytest.approx(1.0)
    assert found.value == pytest.approx(slots)
    for estimator in ("independent", "cascade"):
        assert slates.evaluate(rows, policy, estimator=estimator).mean_weight == pytest.approx(1.0)
    # what was drawn has the frequencies that were stated
    drawn = policy.act(None, 0, n=20_000, slots=slots)
    assert len(drawn) == 20_000
    chances: dict[tuple[str, ...], float] = {}
    for slate, above in zip(drawn.slates, drawn.propensities, strict=True):
        chances[tuple(slate)] = float(np.prod(above))
    assert sum(chances.values()) == pytest.approx(1.0)
    shares = [sum(s == list(slate) for s in drawn.slates) / 20_000 for slate in chances]
    assert shares == pytest.approx(list(chances.values()), abs=0.015)
    first = sum(s[0] == "b" for s in drawn.slates) / 20_000
    stated = {s[0]: m[0] for s, m in zip(drawn.slates, drawn.marginals, strict=True)}
    assert first == pytest.approx(stated["b"], abs=0.015)
    assert stated["b"] == pytest.approx(0.6 + 0.4 / 3)


@pytest.mark.parametrize("name", ["factored", "uniform", "fixed"])
def test_draws_have_the_stated_probabilities(name: str) -> None:
    drawn = POLICIES[name]().act(None, 0, n=5000, slots=2)
    counts: dict[tuple[str, ...], int] = {}
    for slate in drawn.slates:
        counts[tuple(slate)] = counts.get(tuple(slate), 0) + 1
    for slate, above in zip(drawn.slates[:200], drawn.propensities, strict=False):
        assert counts[tuple(slate)] / 5000 == pytest.approx(float(np.prod(above)), abs=0.03)


def test_what_cannot_act_or_explore_is_refused() -> None:
    with pytest.raises(UsageError, match="rows of its log alone and cannot act"):
        slates.FromColumns("pi").act(n=1)
    with pytest.raises(UsageError, match="slots is 3, and the policy fills 2"):
        slates.Deterministic(["a", "b"]).act(n=1, slots=3)
    with pytest.raises(UsageError, match="needs the context and got none"):
        learned().act(n=2)
    with pytest.raises(UsageError, match="epsilon is 2"):
        slates.EpsilonSlate(slates.Deterministic(["a"]), 2)
    with pytest.raises(UsageError, match="shows 'a', which is not among the 1 items"):
        slates.EpsilonSlate(slates.Deterministic(["a"]), 0.1, ["b"])
    with pytest.raises(UsageError, match="does not name its items"):
        slates.EpsilonSlate(slates.Deterministic("best"), 0.1)
    with pytest.raises(UsageError, match="fills 2 slots and there are 1 items"):
        slates.EpsilonSlate(slates.Deterministic(["a", "a"]), 0.1)


def test_logs_of_an_exploring_policy_are_right() -> None:
    """A log written with what `act` states gives each estimator the true value of another."""
    rng = np.random.default_rng(0)
    policy = slates.EpsilonSlate(slates.Deterministic(["b", "a"]), 0.5, ["a", "b", "c"])
    made = policy.act(None, rng, n=6000)
    quality = {"a": 0.2, "b": 0.5, "c": 0.8}
    rewards = [[float(rng.random() < quality[x]) for x in slate] for slate in made.slates]
    rows = slates.read(
        {"slate": made.slates, "r": rewards, "mu": made.propensities, "one": made.marginals},
        rewards="r",
        propensities="mu",
        marginals="one",
        logger="fixed",
    )
    target = slates.Deterministic(["c", "b"])
    for estimator in ("standard", "cascade", "independent"):
        found = slates.evaluate(rows, target, estimator=estimator)
        assert found.lower is not None
        assert found.upper is not None
        assert found.value == pytest.approx(1.3, abs=0.2)
        assert found.lower <= 1.3 <= found.upper
