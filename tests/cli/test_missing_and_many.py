"""Missing and many context values on the command line: learned, kept in the policy file, acted
on."""

import csv
import io
import json
from pathlib import Path

import numpy as np
import pytest

import piwo as library


@pytest.fixture
def visits(tmp_path: Path) -> Path:
    """Action 1 is right where the age is missing; the shop has many levels, two of which matter
    not."""
    rng = np.random.default_rng(0)
    lines = ["action,reward,propensity,age,shop"]
    for row in range(2000):
        absent, action = rng.random() < 0.3, rng.integers(0, 2)
        age = "" if absent else f"{rng.random():.3f}"
        lines.append(f"{action},{int(action == absent)},0.5,{age},s{row % 300}")
    (tmp_path / "visits.csv").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return tmp_path / "visits.csv"


def test_learn_and_act(piwo, visits: Path, tmp_path: Path) -> None:
    learn = (
        "learn",
        visits,
        "--context",
        "age,shop",
        "--oracle",
        "ridge",
        "--score",
        "ix",
        "--gamma",
        "0.05",
    )
    refused = piwo(*learn, "--out", tmp_path / "p.piwo")
    assert refused.code == 2
    assert "column 'age' has missing context values" in refused.err
    assert "--missing=indicator" in refused.err
    choices = ("--missing", "indicator", "--max-levels", "100", "--hash-size", "8")
    done = piwo(*learn, "--out", tmp_path / "p.piwo", *choices)
    assert done.code == 0, done.err
    assert done.err.count("context values are missing: 'age' in ") == 1
    assert "more than 100 levels: 'shop'; each is hashed into 8 columns" in done.err
    assert "(--max-levels and --hash-size change that)" in done.err
    contexts = tmp_path / "contexts.csv"
    contexts.write_text("shop,age\nnew,0.5\n07,\n", encoding="utf-8")
    acted = piwo("policy", "act", tmp_path / "p.piwo", contexts)
    assert (acted.code, acted.err) == (0, "")
    assert [row["action"] for row in csv.DictReader(io.StringIO(acted.out))] == ["0", "1"]
    contexts.write_text("shop,age\n,0.5\n", encoding="utf-8")
    assert (
        "context column 'shop' is missing at row 0"
        in piwo("policy", "act", tmp_path / "p.piwo", contexts).err
    )
    valued = piwo("evaluate", visits, "--policy", tmp_path / "p.piwo", "--json")
    assert valued.code == 0, valued.err
    assert json.loads(valued.out)["policies"][0]["value"] > 0.9


@pytest.mark.parametrize(
    ("option", "value", "words"),
    [
        ("--missing", "zero", "--missing"),
        ("--max-levels", "1.5", "--max-levels: got '1.5', expected a whole number"),
        ("--hash-size", "100", "--hash-size is 100, expected a power of two"),
    ],
)
def test_wrong_choices_end_in_one_line(
    piwo, visits: Path, option: str, value: str, words: str
) -> None:
    done = piwo("check", visits, "--context", "age", option, value)
    assert done.code == 2
    assert words in done.err
    assert done.err.count("\n") == 1


def test_missing_values_are_told_once(piwo, visits: Path, tmp_path: Path, monkeypatch) -> None:
    """Both parts of the rows lack some, too."""
    few = (library.learners.Candidate("ridge", library.oracles.Ridge(), library.IX(0.1)),)
    monkeypatch.setattr("piwo.learners.auto.default_pool", lambda _: few)
    done = piwo(
        "learn", visits, "--context", "age", "--missing", "indicator", "--out", tmp_path / "p.piwo"
    )
    assert done.code == 0, done.err
    assert done.err.count("context values are missing") == 1
