"""Missing or doubtful propensities: the same options on every command that reads a log, told in
every result."""

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library

ESTIMATED = ("--context", "x", "--estimate-propensities", "folds")


@pytest.fixture(scope="module")
def visits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A logger whose propensities follow a logistic regression on x and were not kept; `right` is
    the best policy."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    action = (rng.random(2000) < 1.0 / (1.0 + np.exp(-x))) * 1
    right = action == (x > 0)
    reward = (rng.random(2000) < 0.3 + 0.5 * right) * 1
    path = tmp_path_factory.mktemp("logs") / "visits.parquet"
    pq.write_table(
        pa.table({"x": x, "action": action, "reward": reward, "right": right * 1.0}), path
    )
    return path


def commands(log: Path, out: Path) -> dict[str, tuple[object, ...]]:
    return {
        "check": ("check", log),
        "evaluate": ("evaluate", log, "--policy", "uniform"),
        "select": ("evaluate", log, "--policy", "uniform", "--policy", "constant:1"),
        "learn": ("learn", log, "--oracle", "ridge", "--out", out),
        "report": ("report", log, "--policy", "uniform", "--out", out),
    }


@pytest.mark.parametrize("name", ["check", "evaluate", "select", "learn", "report"])
def test_estimated_propensities_are_told_in_every_result(
    piwo, visits: Path, tmp_path: Path, name: str
) -> None:
    out = tmp_path / "out"
    words = commands(visits, out)[name]
    done = piwo(*words, *ESTIMATED)
    assert done.code == 0
    said = out.read_text("utf-8") if name == "report" else done.out
    assert "the propensities were estimated (LogisticRegression, 5 folds" in said
    page = piwo(*words, *ESTIMATED, "--json").document
    assert page["log"]["propensities"] == {
        "estimated": "LogisticRegression, 5 folds",
        "factor": 1.0,
        "sensitivity": 1.0,
    }
    assert "the propensities were estimated" in json.dumps(page)
    if name == "select":
        assert "the propensities were estimated" in page["selection"]["notes"][0]


def test_what_is_estimated_is_what_the_library_estimates(piwo, visits: Path) -> None:
    log = library.estimate_propensities(
        str(visits), context="x", policy_columns="right", forward=True
    )
    twin = library.evaluate(log, library.policies.Column("right"))
    words = (
        "--policy-column",
        "right",
        "--context",
        "x",
        "--estimate-propensities",
        "forward",
        "--json",
    )
    (found,) = piwo("evaluate", visits, *words).document["policies"]
    assert (found["value"], found["lower"], found["rows"]) == (twin.value, twin.lower, 1600)
    # what the logger did is known here: the policy earns .8 on all rows
    assert abs(found["value"] - 0.8) < 0.05


@pytest.mark.parametrize("option", [("--propensity-factor", 1.2), ("--sensitivity", 1.5)])
def test_doubt_is_the_same_option_everywhere(
    piwo, visits: Path, tmp_path: Path, option: tuple[object, ...]
) -> None:
    words = {
        name: piwo(*x, *ESTIMATED, "--json").document
        for name, x in commands(visits, tmp_path / "p").items()
    }
    with_propensity_error = {
        name: piwo(*x, *ESTIMATED, *option, "--json").document
        for name, x in commands(visits, tmp_path / "p").items()
    }
    field = str(option[0]).removeprefix("--propensity-").removeprefix("--")
    assert {page["log"]["propensities"][field] for page in with_propensity_error.values()} == {
        option[1]
    }
    assert (
        with_propensity_error["evaluate"]["policies"][0]["lower"]
        < words["evaluate"]["policies"][0]["lower"]
    )
    assert (
        with_propensity_error["learn"]["certificate"]["value_lower"]
        < words["learn"]["certificate"]["value_lower"]
    )
    assert "are allowed to be larger" in " ".join(
        with_propensity_error["learn"]["certificate"]["notes"]
    )
    assert with_propensity_error["check"]["mean_weight"] < words["check"]["mean_weight"]


def test_what_is_suggested_next_estimates_again(piwo, visits: Path) -> None:
    words = (*ESTIMATED, "--propensity-factor", "1.2")
    said = piwo("check", visits, *words).out.splitlines()[-1]
    assert said == f"next: piwo evaluate {visits} {' '.join(words)} --policy uniform"


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--estimate-propensities", "yes"),
            "--estimate-propensities got 'yes', expected folds or forward",
        ),
        (
            ("--estimate-propensities", "folds", "--propensity", "right"),
            "excludes --propensity",
        ),
        (("--estimate-propensities", "folds", "--weight", "right"), "excludes --weight"),
        (
            ("--estimate-propensities", "folds", "--propensity-factor", 0.5),
            "--propensity-factor is 0.5",
        ),
        (("--estimate-propensities", "folds", "--sensitivity", "nan"), "--sensitivity is nan"),
    ],
)
def test_options_that_do_not_go_together(piwo, visits: Path, words, says) -> None:
    done = piwo("evaluate", visits, "--policy", "uniform", *words)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    assert says in line


@pytest.mark.parametrize("command", ["evaluate", "learn"])
def test_no_gate_passes_on_estimates_that_nobody_vouches_for(
    piwo, visits: Path, tmp_path: Path, command: str
) -> None:
    out = tmp_path / "p"
    words = {
        "evaluate": ("evaluate", visits, "--policy-column", "right", "--gate"),
        "learn": ("learn", visits, "--oracle", "ridge", "--out", out, "--gate"),
    }[command]
    refused = piwo(*words, *ESTIMATED)
    assert (refused.code, refused.out, len(refused.err.splitlines())) == (2, "", 1)
    assert "--gate got estimated propensities" in refused.err
    assert "--propensity-factor or --sensitivity" in refused.err
    assert not out.exists()
    for declared in (
        ("--propensity-factor", 1),
        ("--sensitivity", 1),
        ("--propensity-factor", 1.05),
    ):
        assert piwo(*words, *ESTIMATED, *declared).code == 0


def test_what_rests_on_estimates_says_so_where_it_claims(
    piwo, visits: Path, tmp_path: Path
) -> None:
    pytest.importorskip("jinja2")
    out, page = tmp_path / "p", tmp_path / "page.html"
    told = piwo(*commands(visits, out)["learn"], *ESTIMATED).out
    assert "delta 0.05, if the estimated propensities are right (largest calibration error" in told
    assert ": certified better under this assumption\n" in told
    kept = library.policies.load_with_metadata(out).metadata["certificate"]
    assert kept["assumes"].startswith("the estimated propensities are right")
    assert "--propensity-factor allows for their error" in told
    # The command names its own option.
    said = str(library.Certificate.from_dict(kept)).replace("(logger is", "(--logger is")
    assert said in piwo("policy", "show", out).out
    piwo("report", visits, *ESTIMATED, "--policy", "uniform", "--policy", out, "--out", page)
    text = page.read_text("utf-8")
    assert "%, if the estimated propensities are right (" in text
    assert (
        "Certified better than the logging policy, if the estimated propensities are right ("
        in text
    )
    assert "propensity_factor" not in text.split("<h2>Health")[0]
    logged = piwo("evaluate", visits, *ESTIMATED, "--policy", "uniform", "--propensity-factor", 1.5)
    assert "95 %, if the true propensities are at most 1.5 times the estimated ones\n" in logged.out


def test_folds_are_by_unit_and_the_declared_logger_is_kept(piwo, visits: Path) -> None:
    table = pq.read_table(visits)
    path = visits.parent / "users.parquet"
    pq.write_table(table.append_column("user", pa.array(np.arange(2000) % 100)), path)
    words = ("evaluate", path, "--policy", "uniform", *ESTIMATED, "--unit", "user", "--json")
    page = piwo(*words).document
    assert page["log"]["propensities"]["estimated"] == "LogisticRegression, 5 folds by 'user'"
    found = page["policies"][0]
    assert (found["unit"], found["units"]) == ("user", 100)
    assert found["lower"] is not None
    # nothing is proved for units and a learning logger together
    learned = piwo(*words, "--logger", "learning").document["policies"][0]
    assert learned["lower"] is None
    forward = ("--context", "x", "--estimate-propensities", "forward", "--unit", "user")
    done = piwo("check", path, *forward)
    assert done.code == 2
    assert "--estimate-propensities forward excludes --unit" in done.err
