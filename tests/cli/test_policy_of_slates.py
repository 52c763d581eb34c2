"""`piwo policy act` and `show` with a file of a slate policy."""

import json
from pathlib import Path

import pytest

from piwo import slates


@pytest.fixture
def file(tmp_path: Path) -> Path:
    slates.Deterministic(["b", "a"]).save(tmp_path / "fixed.piwo")
    (tmp_path / "contexts.csv").write_text("id,x,marginals\n007,1,2\n8,2,2\n")
    return tmp_path / "fixed.piwo"


def test_act_writes_what_a_log_needs(piwo, file: Path) -> None:
    words = ["policy", "act", file, "contexts.csv", "--epsilon", ".5", "--seed", "3"]
    ran = piwo(*words, "--keep", "id")
    assert (ran.code, ran.err) == (0, "")
    first, second = map(json.loads, ran.out.splitlines())
    assert (first["id"], second["id"]) == ("007", "8")
    policy = slates.EpsilonSlate(slates.Deterministic(["b", "a"]), 0.5)
    made = policy.act(None, 3, n=2)
    assert [first["slate"], second["slate"]] == made.slates
    assert [first["propensities"], second["propensities"]] == made.propensities
    assert [first["marginals"], second["marginals"]] == made.marginals
    document = piwo(*words, "--json", "--slots", "1").document
    assert [len(one["slate"]) for one in document["decisions"]] == [1, 1]
    assert piwo(*words, "--out", "log.jsonl").out == "wrote 2 decisions to log.jsonl\n"
    rows = slates.read(
        {"slate": made.slates, "r": [1.0, 0.0], "propensities": made.propensities},
        reward="r",
        propensities="propensities",
    )
    assert len(rows) == 2


def test_show(piwo, file: Path) -> None:
    ran = piwo("policy", "show", file)
    assert (ran.code, ran.err) == (0, "")
    assert "kind         slates, fixed" in ran.out
    assert f"estimate its value: piwo slates LOG --policy {file}" in ran.out
    document = piwo("policy", "show", file, "--json").document
    assert (document["actions"], document["slots"]) == (["b", "a"], 2)
    assert document["certificate"] is None


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--format", "csv"], "slates, which are lists, and CSV has none; write .jsonl"),
        (["--out", "x.csv"], "slates, which are lists, and CSV has none; write .jsonl"),
        (["--eligible", "x"], "column 'x' has type string, expected lists of the actions"),
        (["--items", "x.csv"], "does not take --items; leave it out"),
        (["--slots", "3"], "--slots is 3, and the policy fills 2"),
        (["--epsilon", "2"], "--epsilon is 2.0, expected a number from 0 to 1"),
        (["--keep", "marginals"], "--keep got 'marginals', which is the name of a column"),
    ],
)
def test_errors_are_one_line(piwo, file: Path, words: list[str], message: str) -> None:
    ran = piwo("policy", "act", file, "contexts.csv", *words)
    assert ran.code == 2
    assert message in ran.err
    assert ran.err.count("\n") == 1


def test_act_shows_eligible_actions(piwo, file: Path) -> None:
    rows = ['{"id": 1, "could": ["c", "a"]}', '{"id": 2, "could": ["a", "b", "c"]}']
    Path("rows.jsonl").write_text("\n".join(rows))
    query = "select * from read_json('rows.jsonl')"
    ran = piwo("policy", "act", file, query, "--eligible", "could", "--keep", "id")
    assert (ran.code, ran.err) == (0, "")
    shown = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["slate"] for one in shown] == [["a"], ["b", "a"]]
    explored = ("--eligible", "could", "--epsilon", ".5", "--seed", "4")
    # what is explored is what the policy names: a and b
    made = [json.loads(x) for x in piwo("policy", "act", file, query, *explored).out.splitlines()]
    policy = slates.EpsilonSlate(slates.Deterministic(["b", "a"]), 0.5)
    again = policy.act(None, 4, n=2, eligible=[["c", "a"], ["a", "b", "c"]])
    assert [one["slate"] for one in made] == again.slates
    assert [one["propensities"] for one in made] == again.propensities
    refused = piwo("policy", "act", file, query, "--eligible", "could", "--slots", "2")
    assert "row 0: the policy has 1 eligible actions for 2 slots; leave out --slots" in refused.err


def test_act_takes_lists_of_slots(piwo, file: Path) -> None:
    could = [[["c", "a"], ["b"]], [["a", "b"], ["a", "b", "c"]]]
    rows = [json.dumps({"id": i, "could": one}) for i, one in enumerate(could)]
    Path("rows.jsonl").write_text("\n".join(rows))
    ran = piwo("policy", "act", file, "rows.jsonl", "--eligible", "could", "--keep", "id")
    assert (ran.code, ran.err) == (0, "")
    shown = [json.loads(line) for line in ran.out.splitlines()]
    assert [one["slate"] for one in shown] == [["a", "b"], ["b", "a"]]
    explored = ("--eligible", "could", "--epsilon", ".5", "--seed", "4")
    ran = piwo("policy", "act", file, "rows.jsonl", *explored)
    made = [json.loads(x) for x in ran.out.splitlines()]
    policy = slates.EpsilonSlate(slates.Deterministic(["b", "a"]), 0.5)
    again = policy.act(None, 4, n=2, eligible=could)
    assert [one["slate"] for one in made] == again.slates
    assert [one["propensities"] for one in made] == again.propensities
    assert [one["marginals"] for one in made] == again.marginals
    # lists that differ and share labels: no marginals, and the reason
    could[1][1] = ["b", "a", "c"]
    slates.Uniform(["a", "b", "c"]).save("uniform.piwo")
    ran = piwo("policy", "act", "uniform.piwo", "rows.jsonl", "--eligible", "could")
    assert ran.code == 0
    assert "no simple form; log the propensities" in ran.err
    assert ran.err.count("\n") == 1
    assert set(json.loads(ran.out.splitlines()[0])) == {"slate", "propensities"}
    refused = piwo("policy", "act", file, "rows.jsonl", "--eligible", "could", "--slots", "3")
    assert "--slots is 3, and the policy fills 2" in refused.err


def test_show_prints_what_was_proved_of_a_learned_policy(piwo, tmp_path: Path) -> None:
    rows = {"slate": [["a", "b"], ["b", "a"]] * 300, "rs": [[1, 0], [0, 0]] * 300, "x": [1.0] * 600}
    uniform = slates.Uniform(["a", "b"])
    log = slates.read(rows, rewards="rs", behavior=uniform, context="x")
    learned = slates.learn(log)
    learned.save(tmp_path / "page.piwo")
    one = learned.evaluation
    kept = slates.load_with_metadata(tmp_path / "page.piwo").metadata["evaluation"]
    assert kept == one.to_dict()
    ran = piwo("policy", "show", "page.piwo")
    assert ran.code == 0
    assert "no certificate" not in ran.out
    assert "held-out evaluation, estimator independent, delta 0.05" in ran.out
    assert f"at least {one.improvement_lower:.4g} over the logging policy" in ran.out
    assert f"{one.rows} rows that were not used to learn" in ran.out
    assert f"assumes      {one.assumption}" in ran.out
    assert piwo("policy", "show", "page.piwo", "--json").document["evaluation"] == kept
    # the policy alone has none
    learned.policy.save(tmp_path / "alone.piwo")
    assert "no certificate" in piwo("policy", "show", "alone.piwo").out
    learned.policy.save(tmp_path / "bad.piwo", {"evaluation": {**kept, "value": "high"}})
    ran = piwo("policy", "show", "bad.piwo")
    assert (ran.code, ran.err.count("\n")) == (2, 1)
    assert "the record of the policy's evaluation is damaged" in ran.err
