"""Bad input: exit code 2, one line that says what is wrong and where, nothing on
standard output.
"""

import json
import os
import typing
import zipfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library
from piwo.cli.app import make_app

HEADER = "item,click,p"
GOOD_ROW = "a,1,0.5"


def refused(done, *expected: str) -> None:
    assert done.code == 2
    assert done.out == ""
    (line,) = done.err.splitlines()
    assert line.startswith("piwo: error: ")
    assert "Traceback" not in line
    for text in expected:
        assert text in line


# what is wrong, the second row (row 1), what the line says
ROWS = [
    ("null reward", "b,,0.5", ["'click'", "is missing", "in 1 row", "1"]),
    ("null action", ",1,0.5", ["'item'", "is missing", "in 1 row"]),
    ("null propensity", "b,1,", ["'p'", "is missing", "in 1 row"]),
    ("NaN reward", "b,nan,0.5", ["'click'", "in 1 row"]),
    ("infinite propensity", "b,1,inf", ["'p'", "in 1 row"]),
    ("negative propensity", "b,1,-0.5", ["'p'", "is negative", "in 1 row"]),
    ("propensity 0", "b,1,0", ["'p'", "is 0, which cannot happen", "(row numbers from 0: 1)"]),
    ("propensity 1.01", "b,1,1.01", ["'p'", "above 1", "in 1 row"]),
    ("reward out of range", "b,2,0.5", ["'click'", "[0, 1]", "--reward-range=lo,hi"]),
    ("cost as reward", "b,-1,0.5", ["'click'", "if these are costs"]),
    ("mixed types", "b,yes,0.5", ["'click'", "holds text where numbers are expected", "'yes'"]),
]  # fmt: skip


@pytest.mark.parametrize("command", ["evaluate", "check"])
@pytest.mark.parametrize(
    ("row", "says"), [case[1:] for case in ROWS], ids=[case[0] for case in ROWS]
)
def test_a_bad_row(piwo, roles, tmp_path: Path, command, row, says) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"{HEADER}\n{GOOD_ROW}\n{row}\n{GOOD_ROW}\n", encoding="utf-8")
    policy = ["--policy", "uniform"] if command == "evaluate" else []
    refused(piwo(command, log, *roles, *policy), *says)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (None, "is missing"),
        (float("nan"), "is NaN"),
        (float("inf"), "is infinite"),
        (-1.0, "outside the declared range"),
    ],
)
def test_a_bad_number_in_parquet(piwo, roles, tmp_path: Path, value, says) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(
        pa.table({"item": ["a", "b"], "click": pa.array([1.0, value]), "p": [0.5, 0.5]}), log
    )
    refused(
        piwo("evaluate", log, *roles, "--policy", "uniform"),
        "'click'",
        says,
        "(row numbers from 0: 1)",
    )


def test_every_row_is_counted(piwo, roles, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(f"{HEADER}\n" + "a,2,0.5\n" * 200_000, encoding="utf-8")
    refused(
        piwo("evaluate", log, *roles, "--policy", "uniform"),
        "in 200,000 rows",
        "0, 1, 2, 3, 4, ...",
    )


def test_no_such_file(piwo) -> None:
    refused(piwo("evaluate", "nowhere.csv", "--policy", "uniform"), "no file 'nowhere.csv'")
    refused(piwo("check", "nowhere/*.parquet"), "no file 'nowhere/*.parquet'")


@pytest.mark.parametrize("name", ["log.csv", "log.parquet", "log.jsonl"])
def test_an_empty_file(piwo, name, tmp_path: Path) -> None:
    (tmp_path / name).touch()
    refused(piwo("evaluate", tmp_path / name, "--policy", "uniform"), "no rows", name)


def test_a_damaged_parquet_file(piwo, learnable: Path, tmp_path: Path, roles) -> None:
    log = tmp_path / "cut.parquet"
    log.write_bytes(learnable.read_bytes()[:5000])
    refused(
        piwo("evaluate", log, *roles, "--policy", "uniform"),
        "cut.parquet",
        "cannot be read as Parquet",
    )


def test_a_wrong_column_shows_near_names(piwo, small: Path) -> None:
    words = ["--action", "itm", "--reward", "click", "--propensity", "p", "--policy", "uniform"]
    refused(piwo("evaluate", small, *words), "no column 'itm'", "did you mean 'item'?")


def test_a_default_name_that_is_no_column_says_how_to_name_ones_own(piwo, small: Path) -> None:
    words = ["evaluate", small, "--policy", "uniform"]
    refused(piwo(*words), "no column 'action' for the action", "name yours: --action=NAME")
    refused(piwo(*words, "--action", "item"), "no column 'reward'", "name yours: --reward=NAME")
    # A name that was typed has no such advice.
    assert "name yours" not in piwo(*words, "--action", "itm").err
    with pytest.raises(library.DataError, match="name yours: action='NAME'"):
        library.read(small)


def test_an_option_of_another_command_is_named(piwo, small: Path) -> None:
    words = ["evaluate", small, "--policy", "uniform"]
    said = "piwo evaluate has no option --unit-name; it is one of piwo monitor, piwo report"
    refused(piwo(*words, "--unit-name", "clicks"), said)
    refused(piwo(*words, "--unit-name=clicks"), said)
    refused(piwo("learn", small, "--html", "x"), "piwo learn has no option --html")
    refused(piwo(*words, "--polcy", "uniform"), "Did you mean --policy?")


def test_a_policy_that_a_monitor_cannot_take_is_named(piwo, small: Path, roles) -> None:
    words = ["monitor", small, *roles, "--state", "s.piwo", "--policy", "uniform"]
    refused(piwo(*words), "policy 'uniform' plays whatever labels", "action list: --actions")


def test_names_of_white_space_are_refused(piwo, small: Path, roles) -> None:
    words = ["report", small, *roles, "--policy", "uniform", "--out", "r.html"]
    refused(piwo(*words, "--unit-name", "   "), "--unit-name is ' ', expected a word")
    refused(piwo(*words, "--row-name", ""), "--row-name is '', expected a word")


def test_a_lost_propensity_never_becomes_a_default(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text(
        "action,propensity,reward\na,0.8,1\nb,0.2,1\na,0.8,0\nb,0.2,0\n", encoding="utf-8"
    )
    words = ("evaluate", log, "--policy", "constant:b")
    refused(
        piwo(*words, "--propensity", "pscore"),
        "'pscore'",
        "the columns are 'action', 'propensity', 'reward'",
    )
    refused(piwo(*words, "--reward", "p"), "no column 'p'")
    (found,) = piwo(*words, "--json").document["policies"]
    assert found["value"] == 1.25


def test_rows_that_do_not_sum_to_one(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    vectors = [[0.15] * 6 + [0.12], [0.1] * 6 + [0.4]]
    pq.write_table(pa.table({"action": [0, 1], "reward": [1.0, 0.0], "mu": vectors}), log)
    words = ("evaluate", log, "--propensities", "mu", "--actions", "0..6", "--policy", "uniform")
    refused(piwo(*words), "'mu'", "does not sum to 1", "in 1 row", "1.02", "normalize")
    assert piwo(*words, "--normalize").code == 0


@pytest.mark.parametrize(
    "words", [["--policy", "constant:c"], ["--policy", "uniform", "--actions", "a,c"]]
)
def test_an_unknown_action(piwo, small: Path, roles, words) -> None:
    refused(piwo("evaluate", small, *roles, *words), "'c'", "2 actions")


@pytest.fixture
def policy_file(tmp_path: Path) -> Path:
    path = tmp_path / "p.piwo"
    features = library.Features.numeric(["age"])
    library.policies.LinearGreedy(np.eye(2, 1), np.zeros(2), ["a", "b"], features).save(path)
    return path


def test_a_truncated_policy_file(piwo, small: Path, roles, policy_file: Path) -> None:
    policy_file.write_bytes(policy_file.read_bytes()[:-40])
    for words in (
        ["evaluate", small, *roles, "--policy", policy_file],
        ["policy", "show", policy_file],
    ):
        refused(piwo(*words), "p.piwo", "damaged")


def test_a_policy_file_from_a_newer_version(piwo, small: Path, roles, policy_file: Path) -> None:
    with zipfile.ZipFile(policy_file) as old:
        members = {name: old.read(name) for name in old.namelist()}
    page = json.loads(members["policy.json"])
    members["policy.json"] = json.dumps({**page, "version": 99}).encode()
    with zipfile.ZipFile(policy_file, "w") as new:
        for name, data in members.items():
            new.writestr(name, data)
    refused(
        piwo("evaluate", small, *roles, "--policy", policy_file), "format version 99", "update piwo"
    )


def test_a_policy_for_other_features(piwo, small: Path, roles, policy_file: Path) -> None:
    refused(piwo("evaluate", small, *roles, "--policy", policy_file), "no column 'age'")
    refused(piwo("policy", "act", policy_file, small), "no column 'age'")


def test_a_policy_for_other_actions(piwo, small: Path, roles, tmp_path: Path) -> None:
    other = tmp_path / "other.piwo"
    library.policies.Uniform(["x", "y"]).save(other)
    words = ("evaluate", small, *roles, "--policy", other)
    refused(piwo(*words, "--actions", "a,b"), "'x', 'y'")
    refused(piwo(*words), "'x', 'y'")


def test_a_policy_that_is_no_policy(piwo, small: Path, roles) -> None:
    words = ("evaluate", small, *roles)
    refused(piwo(*words, "--policy", "unifrom"), "'unifrom'", "did you mean 'uniform'?")
    refused(piwo(*words, "--policy", small), "small.csv")
    refused(piwo(*words, "--policy-column", "nwe"), "no column 'nwe'", "'new'")
    refused(piwo(*words, "--policy", "uniform", "--policy", "uniform"), "'uniform' was named twice")
    refused(piwo(*words), "no policy was named")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["evaluate", "--polcy", "uniform"], ["--polcy", "--policy"]),
        (["evalute"], ["evalute", "evaluate"]),
        (["evaluate"], ["piwo evaluate needs LOG: files, globs"]),
        (["policy", "show"], ["piwo policy show needs FILE: a policy file; see --help"]),
        (["join", "a.csv"], ["piwo join needs OUTCOMES: a file, a glob or a query"]),
        (["monitor", "LOG"], ["piwo monitor needs --state: file with the sums"]),
        (["report", "LOG", "--out"], ["piwo report: there is no value after --out; see"]),
        (["check", "LOG", "--propensty", "p"], ["--propensty", "--propensity"]),
        (["evaluate", "LOG", "--policy", "uniform", "--delta", "x"], ["--delta", '"x"']),
        (["evaluate", "LOG", "--policy", "uniform", "--delta", "1.5"], ["delta", "1.5"]),
        (["evaluate", "LOG", "--policy", "uniform", "--gamma", "x"], ["--gamma", "'x'"]),
        (
            ["evaluate", "LOG", "--policy", "uniform", "--estimator", "ix", "--gamma", "-1"],
            ["gamma", "-1"],
        ),
        (["evaluate", "LOG", "--policy", "uniform", "--gamma", ".1,.2"], ["--gamma", "one number"]),
        (["evaluate", "LOG", "--policy", "uniform", "--estimator", "dr"], ["'dr'", "snips"]),
        (["evaluate", "LOG", "--policy", "uniform", "--interval", "t"], ["'t'", "mixture"]),
        (
            ["evaluate", "LOG", "--policy", "uniform", "--reward-range", "0"],
            ["--reward-range", "LO,HI"],
        ),
        (["evaluate", "LOG", "--policy", "uniform", "--reward-range", "1,0"], ["(1.0, 0.0)"]),
        (["evaluate", "LOG", "--policy", "uniform", "--actions", "5..3"], ["'5..3'"]),
        (["evaluate", "LOG", "--policy", "uniform", "--actions", "@none"], ["--actions", "'none'"]),
        (
            ["evaluate", "LOG", "--policy", "uniform", "--cost", "p"],
            ["--reward='click'", "--cost='p'"],
        ),
        (["learn", "LOG", "--out", "p.piwo"], ["--context"]),
        (["learn", "LOG", "--context", "zzz", "--out", "p.piwo"], ["'zzz'"]),
        (
            ["learn", "LOG", "--context", "new", "--out", "no/such/p.piwo"],
            ["--out", "no/such/p.piwo"],
        ),
        (["learn", "LOG", "--context", "new"], ["--out"]),
        (
            ["learn", "LOG", "--context", "new", "--out", "p.piwo", "--score", "dm"],
            ["'dm'", "ls-linear"],
        ),
        (
            ["learn", "LOG", "--context", "new", "--out", "p.piwo", "--oracle", "forest"],
            ["'forest'", "ridge"],
        ),
        (
            [
                "learn",
                "LOG",
                "--context",
                "new",
                "--out",
                "p.piwo",
                "--score",
                "iw",
                "--gamma",
                "1",
            ],
            ["iw"],
        ),
        (
            ["learn", "LOG", "--context", "new", "--out", "p.piwo", "--seed", "1.5"],
            ["--seed", "'1.5'"],
        ),
        (["learn", "LOG", "--context", "new", "--out", "p.piwo", "--seed", "-1"], ["--seed", "-1"]),
        (["policy", "act", "p.piwo", "LOG", "--seed", "1.5"], ["--seed", "'1.5'"]),
        (["check", "small.csv", "--reward", ""], ["--reward", "''"]),
        (["check", "small.csv", "--action", ""], ["--action", "''"]),
        (["check", "small.csv", "--cost", ""], ["--cost", "''"]),
        (["check", "a\0b.csv"], ["a\\x00b.csv"]),
        (["policy", "show", "a\0b.piwo"], ["NUL"]),
        (["policy", "act", "p.piwo", "small.csv", "--out", "a\0b.csv"], ["--out", "NUL"]),
        (["policy", "show", "nowhere.piwo"], ["nowhere.piwo", "No such file"]),
        (["policy", "atc", "p.piwo"], ["atc", "act"]),
        (["policy", "act", "p.piwo"], ["piwo policy act needs CONTEXTS: file"]),
    ],
)
def test_wrong_usage(piwo, small: Path, roles, words, says) -> None:
    if "LOG" in words:
        words = [*(str(small) if x == "LOG" else x for x in words), *(x for x in roles)]
    refused(piwo(*words), *says)


def numeric_options() -> list[tuple[str, str]]:
    """Every option that takes a number, with its command; those of text that hold numbers, too."""
    app, found = make_app(), []
    for command in ("check", "evaluate", "learn", "report"):
        found += [(command, x) for x in app[command].assemble_argument_collection()]
    found += [("policy act", x) for x in app["policy"]["act"].assemble_argument_collection()]
    return [
        (command, one.names[0])
        for command, one in found
        if {int, float} & {one.hint, *typing.get_args(one.hint)}
        or one.names[0] in {"--gamma", "--horizon", "--reward-range"}
    ]


@pytest.mark.parametrize("value", ["-1", "nan"])
@pytest.mark.parametrize(("command", "option"), numeric_options())
def test_a_number_out_of_range_names_its_option(
    piwo, roles, small: Path, tmp_path: Path, command: str, option: str, value: str
) -> None:
    policy = tmp_path / "p.piwo"
    library.policies.Uniform(["a", "b"]).save(policy)
    words: dict[str, list[object]] = {
        "check": [small, *roles, "--context", "new"],
        "evaluate": [small, *roles, "--policy", "uniform", "--estimator", "ix"],
        "learn": [small, *roles, "--context", "new", "--out", tmp_path / "new.piwo"],
        "report": [small, *roles, "--policy", "uniform", "--out", tmp_path / "page.html"],
        "policy act": [policy, small],
    }
    done = piwo(*command.split(), *words[command], "--quiet", f"{option}={value}")
    refused(done, option, value)


def test_errors_speak_of_options(piwo, small: Path) -> None:
    words = ("check", small, "--action", "item", "--propensity", "p")
    costs = piwo(*words, "--cost", "click")
    refused(costs, "the negative cost", "--reward-range=lo,hi")
    assert "cost=" not in costs.err
    small.write_text("item,click,p\na,-1,0.5\n", encoding="utf-8")
    refused(piwo(*words, "--reward", "click"), "say so (--cost)")


@pytest.fixture
def writers(small: Path, roles, tmp_path: Path) -> list[list[object]]:
    """Every command that writes, without its --out."""
    policy = tmp_path / "p.piwo"
    library.policies.Uniform(["a", "b"]).save(policy)
    return [
        ["learn", small, *roles, "--context", "new"],
        ["policy", "act", policy, small],
        ["report", small, *roles, "--policy", policy],
    ]


def test_nothing_that_is_read_is_written(piwo, writers, small: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.csv"
    link.symlink_to(small)
    before = small.read_bytes()
    for words in writers:
        for out in (small, link, "./small.csv"):
            refused(piwo(*words, "--out", out), "--out", "what the command reads")
    for words in writers[1:]:
        refused(piwo(*words, "--out", tmp_path / "p.piwo"), "--out", "what the command reads")
    assert small.read_bytes() == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_only_ordinary_files_are_written(piwo, writers, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for words in writers:
        for out in (tmp_path, tmp_path / "pipe", os.devnull, tmp_path / "no" / "file"):
            refused(piwo(*words, "--out", out), "--out", "ordinary file")


def test_one_line_whatever_the_data_holds(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.parquet"
    pq.write_table(
        pa.table(
            {"action": ["a\nb\x1b[31m\u202e", "c"], "reward": [1.0, 0.0], "propensity": [0.5, 0.5]}
        ),
        log,
    )
    done = piwo("evaluate", log, "--policy", "uniform", "--actions", "c,d")
    refused(done, "\\n", "\\x1b[31m", "\\u202e")


def test_debug_shows_where(piwo) -> None:
    done = piwo("check", "nowhere.csv", "--debug")
    assert done.code == 2
    assert done.err.startswith("Traceback")
    assert done.err.splitlines()[-1].startswith("piwo: error: no file")


def test_a_fault_of_our_own_is_one_line_too(piwo, small: Path, roles, monkeypatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("oh")

    monkeypatch.setattr(library, "compare", broken)
    done = piwo("evaluate", small, *roles, "--policy", "uniform")
    refused(done, "unexpected ZeroDivisionError: oh", "--debug")
