"""`piwo policy show` and `piwo policy act`."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import piwo as library
from piwo.logs import Feature, Features


@pytest.fixture
def greedy(tmp_path: Path) -> Path:
    """Plays 01 for a > b, "é" otherwise, and anything a tenth of the time in shop 7."""
    path = tmp_path / "greedy.piwo"
    features = Features((Feature("a"), Feature("b"), Feature("shop", "levels", ("07", "7"))))
    coef = np.array([[3.0, -2.0, 0.0, 0.0], [0.0, 0.0, 0.0, 0.0]])
    library.policies.LinearGreedy(coef, np.zeros(2), ["01", "é"], features).save(path)
    return path


def decisions(text: str) -> list[tuple[str, float]]:
    return [(row["action"], float(row["propensity"])) for row in csv.DictReader(io.StringIO(text))]


@pytest.mark.parametrize("columns", ["a,b,shop", "shop,b,a", "b,extra,shop,a"])
def test_columns_are_matched_by_name(piwo, greedy: Path, tmp_path: Path, columns) -> None:
    rows = [
        {"a": "1", "b": "0", "shop": "07", "extra": "x"},
        {"a": "0", "b": "1", "shop": "7", "extra": "y"},
    ]
    lines = [columns, *(",".join(row[name] for name in columns.split(",")) for row in rows)]
    (tmp_path / "contexts.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    done = piwo("policy", "act", greedy, tmp_path / "contexts.csv")
    assert (done.code, done.err) == (0, "")
    assert decisions(done.out) == [("01", 1.0), ("é", 1.0)]


def test_a_missing_column_is_named(piwo, greedy: Path, tmp_path: Path) -> None:
    (tmp_path / "contexts.csv").write_text("a,bb,shop\n1,0,7\n", encoding="utf-8")
    done = piwo("policy", "act", greedy, tmp_path / "contexts.csv")
    assert (done.code, done.out) == (2, "")
    assert "no column 'b' for the policy's context; did you mean 'bb'?" in done.err


def test_levels_keep_their_zeros(piwo, tmp_path: Path) -> None:
    features = Features((Feature("shop", "levels", ("07", "7")),))
    library.policies.LinearGreedy(np.eye(2), np.zeros(2), ["first", "second"], features).save(
        tmp_path / "p.piwo"
    )
    (tmp_path / "contexts.csv").write_text("shop\n07\n7\n", encoding="utf-8")
    done = piwo("policy", "act", tmp_path / "p.piwo", tmp_path / "contexts.csv")
    assert decisions(done.out) == [("first", 1.0), ("second", 1.0)]


@pytest.mark.parametrize("source", ["contexts.jsonl", "contexts.parquet", "query"])
def test_contexts_from_anywhere(piwo, greedy: Path, tmp_path: Path, source) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rows = {"a": [1.0, 0.0], "b": [0.0, 1.0], "shop": ["07", "7"]}
    pq.write_table(pa.table(rows), tmp_path / "contexts.parquet")
    lines = [json.dumps({k: v[i] for k, v in rows.items()}) for i in range(2)]
    (tmp_path / "contexts.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    words = "select * from 'contexts.parquet'" if source == "query" else tmp_path / source
    assert decisions(piwo("policy", "act", greedy, words).out) == [("01", 1.0), ("é", 1.0)]


@pytest.fixture
def uniform(tmp_path: Path) -> Path:
    path = tmp_path / "uniform.piwo"
    library.policies.Uniform([10, 20, 30]).save(path)
    (tmp_path / "contexts.csv").write_text("x\n" + "1\n" * 50, encoding="utf-8")
    return path


def test_a_policy_without_context_acts_once_a_row(piwo, uniform: Path) -> None:
    found = decisions(piwo("policy", "act", uniform, "contexts.csv", "--seed", 1).out)
    assert len(found) == 50
    assert {label for label, _ in found} == {"10", "20", "30"}
    assert {p for _, p in found} == {1 / 3}


def test_a_seed_repeats_the_draws(piwo, uniform: Path) -> None:
    words = ("policy", "act", uniform, "contexts.csv")
    assert piwo(*words, "--seed", 1).out == piwo(*words, "--seed", 1).out
    assert piwo(*words, "--seed", 1).out != piwo(*words, "--seed", 2).out
    assert piwo(*words).out != piwo(*words).out


def test_json_is_one_document_and_jsonl_many(piwo, uniform: Path, tmp_path: Path) -> None:
    words = ("policy", "act", uniform, "contexts.csv", "--seed", 1)
    page = piwo(*words, "--json").document
    assert page["rows"] == len(page["decisions"]) == 50
    assert page["decisions"][0]["action"] in (10, 20, 30)
    lines = [json.loads(line) for line in piwo(*words, "--format", "jsonl").out.splitlines()]
    assert lines == page["decisions"]
    written = piwo(*words, "--out", tmp_path / "acts.jsonl", "--json")
    assert written.document["out"] == str(tmp_path / "acts.jsonl")
    assert [
        json.loads(x) for x in (tmp_path / "acts.jsonl").read_text("utf-8").splitlines()
    ] == lines
    piwo(*words, "--out", tmp_path / "acts.csv")
    assert len(decisions((tmp_path / "acts.csv").read_text("utf-8"))) == 50


def test_a_format_and_json_exclude_each_other_without_a_file(
    piwo, uniform: Path, tmp_path: Path
) -> None:
    (tmp_path / "x.csv").write_text("x\n1\n2\n", encoding="utf-8")
    words = ("policy", "act", uniform, tmp_path / "x.csv", "--format", "csv", "--json")
    done = piwo(*words)
    assert (done.code, done.out) == (2, "")
    assert "--format got 'csv', but --json prints the decisions" in done.err
    done = piwo(*words, "--out", tmp_path / "out.txt")
    assert done.code == 0
    assert (tmp_path / "out.txt").read_text().startswith("action,propensity")


def test_a_wrong_whole_number_names_its_option_once(piwo, uniform: Path) -> None:
    done = piwo("policy", "act", uniform, "x.csv", "--seed", "1.5")
    assert done.code == 2
    assert done.err.count("--seed") == 1
    assert "got '1.5', expected a whole number of at least 0" in done.err


def test_no_contexts_is_an_error(piwo, uniform: Path, tmp_path: Path) -> None:
    (tmp_path / "none.csv").write_text("x\n", encoding="utf-8")
    done = piwo("policy", "act", uniform, "none.csv")
    assert (done.code, done.out) == (2, "")
    assert "no rows" in done.err


def test_show(piwo, greedy: Path, uniform: Path) -> None:
    page = piwo("policy", "show", greedy, "--json").document
    assert page["kind"] == "linear-greedy"
    assert page["actions"] == ["01", "é"]
    assert page["context"] == ["a", "b", "shop"]
    assert page["certificate"] is None
    assert page["rules"] is None
    assert "no certificate" in piwo("policy", "show", uniform).out


@pytest.mark.parametrize(
    "metadata", [{"certificate": 7}, {"training": "x"}, {"certificate": {"kind": 1}}]
)
def test_a_damaged_record_is_one_line(piwo, tmp_path: Path, metadata) -> None:
    library.policies.Uniform(["a"]).save(tmp_path / "p.piwo", metadata)
    done = piwo("policy", "show", tmp_path / "p.piwo")
    assert (done.code, done.out) == (2, "")
    assert "damaged" in done.err


def test_show_lists_the_rules_of_a_tree(piwo, tmp_path: Path) -> None:
    nodes = [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]]
    tree = library.policies.Trees(nodes, [0], [0.0, 0.0], ["b\x1b[2J", "c"], width=1)
    tree.save(tmp_path / "p.piwo")
    done = piwo("policy", "show", tmp_path / "p.piwo")
    assert "\nrules\n  x[0] <= 0.5 -> 'b\\x1b[2J'\n  x[0] > 0.5 -> 'c'\n" in done.out
    page = piwo("policy", "show", tmp_path / "p.piwo", "--json").document
    assert page["rules"][1] == "x[0] > 0.5 -> 'c'"


def test_show_does_not_obey_labels(piwo, tmp_path: Path) -> None:
    library.policies.Uniform(["[red]a[/red]", "b\x1b[2J"]).save(tmp_path / "p.piwo")
    out = piwo("policy", "show", tmp_path / "p.piwo").out
    assert "[red]a[/red]" in out
    assert "b\\x1b[2J" in out
    assert "\x1b" not in out


def unable() -> dict[str, library.policies.Policy]:
    policies, listed = library.policies, ["a", "b"]
    return {
        "logging": policies.Logging(),
        "column": policies.Column("new"),
        "epsilon-greedy": policies.EpsilonGreedy(policies.Logging(listed), 0.1),
        "mixture": policies.Mixture(
            [policies.Logging(listed), policies.Uniform(listed)], [0.5, 0.5]
        ),
        "linear-greedy": policies.LinearGreedy([[1.0], [0.0]], [0.0, 0.0], listed),
    }


@pytest.mark.parametrize(
    "kind", ["logging", "column", "epsilon-greedy", "mixture", "linear-greedy"]
)
def test_a_policy_that_cannot_act_on_a_file_says_so_in_words_of_the_command_line(
    piwo, tmp_path: Path, kind
) -> None:
    unable()[kind].save(tmp_path / "p.piwo")
    (tmp_path / "log.csv").write_text("x\n1\n")
    done = piwo("policy", "act", tmp_path / "p.piwo", tmp_path / "log.csv")
    assert (done.code, done.out) == (2, "")
    assert f"the {kind} policy in {tmp_path / 'p.piwo'}" in done.err
    assert "learn one: piwo learn" in done.err
    assert not any(word in done.err for word in ("=", "batch", "actions"))


def test_exploring(piwo, greedy: Path, tmp_path: Path) -> None:
    """Every action is tried, with the probability that is written beside it: 1 - .2 + .2/2, or
    .2/2."""
    path = tmp_path / "contexts.csv"
    path.write_text("a,b,shop\n" + "1,0,07\n" * 400, encoding="utf-8")
    found = decisions(piwo("policy", "act", greedy, path, "--epsilon", 0.2, "--seed", 0).out)
    assert {(label, round(p, 12)) for label, p in found} == {("01", 0.9), ("é", 0.1)}
    assert abs(np.mean([label == "01" for label, _ in found]) - 0.9) < 4 * np.sqrt(0.09 / 400)
    assert (
        piwo("policy", "act", greedy, path, "--epsilon", 0, "--json").document["decisions"][0][
            "propensity"
        ]
        == 1.0
    )
    wrong = piwo("policy", "act", greedy, path, "--epsilon", 1.5)
    assert (wrong.code, wrong.err) == (
        2,
        "piwo: error: --epsilon is 1.5, expected 0 to 1\n",
    )


@pytest.mark.parametrize("name", ["shown.parquet", "shown.tsv", "shown.csv.gz"])
def test_decisions_are_not_written_under_a_name_of_another_format(
    piwo, uniform: Path, name: str
) -> None:
    done = piwo("policy", "act", uniform, "contexts.csv", "--out", name)
    assert (done.code, done.out) == (2, "")
    assert "written as CSV or lines of JSON" in done.err
    assert not Path(name).exists()
    assert (
        piwo("policy", "act", uniform, "contexts.csv", "--out", name, "--format", "csv").code == 0
    )
