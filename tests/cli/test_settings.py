"""Settings: piwo.toml, pyproject.toml, PIWO_ variables, and what wins."""

from pathlib import Path

import pytest

ROLES = 'action = "item"\nreward = "click"\npropensity = "p"\n'


def test_piwo_toml(piwo, small: Path, tmp_path: Path) -> None:
    (tmp_path / "piwo.toml").write_text(
        ROLES + '[evaluate]\ndelta = 0.1\npolicy = ["uniform", "constant:a"]\n', "utf-8"
    )
    found = piwo("evaluate", small, "--json").document["policies"]
    assert [(x["name"], x["delta"]) for x in found] == [("uniform", 0.1), ("constant:a", 0.1)]
    # a key for all commands may be unknown to this one, a table is for its command alone
    assert piwo("check", small).code in (0, 1)
    assert (
        piwo("evaluate", small, "--delta", ".2", "--json").document["policies"][0]["delta"] == 0.2
    )


def test_pyproject_in_a_folder_above(piwo, small: Path, tmp_path: Path, monkeypatch) -> None:
    lines = [
        '[project]\nname = "x"\n[tool.piwo]\n',
        ROLES,
        "reward_range = [0, 2]\nlog = ",
        f"{str(small)!r}\n",
    ]
    (tmp_path / "pyproject.toml").write_text("".join(lines), "utf-8")
    (tmp_path / "deep" / "er").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "deep" / "er")
    page = piwo("evaluate", "--policy", "uniform", "--json").document
    assert page["log"]["reward_range"] == [0.0, 2.0]


def test_subcommands_have_tables_too(piwo, tmp_path: Path) -> None:
    import piwo as library

    library.policies.Uniform(["a", "b"]).save(tmp_path / "p.piwo")
    (tmp_path / "c.csv").write_text("x\n" + "1\n" * 30, "utf-8")
    (tmp_path / "piwo.toml").write_text("[policy.act]\nseed = 3\n", "utf-8")
    assert (
        piwo("policy", "act", "p.piwo", "c.csv").out
        == piwo("policy", "act", "p.piwo", "c.csv", "--seed", 3).out
    )


def test_variables_win_over_files_and_words_over_variables(
    piwo, small: Path, tmp_path: Path, monkeypatch
) -> None:
    (tmp_path / "piwo.toml").write_text(ROLES + "delta = 0.1\n", "utf-8")
    monkeypatch.setenv("PIWO_DELTA", "0.2")
    monkeypatch.setenv("PIWO_LOG", f"select * from '{small}'")
    monkeypatch.setenv("PIWO_UNRELATED", "x")
    (found,) = piwo("evaluate", "--policy", "uniform", "--json").document["policies"]
    assert found["delta"] == 0.2
    (found,) = piwo("evaluate", "--policy", "uniform", "--delta", ".3", "--json").document[
        "policies"
    ]
    assert found["delta"] == 0.3


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("propensty = 'p'\n", ["'propensty'", "did you mean 'propensity'?"]),
        ("[evalute]\ndelta = 1\n", ["'evalute'", "evaluate"]),
        ("[check]\ndelta = 1\n", ["'delta'"]),
        ("action = \n", ["cannot be read as TOML"]),
    ],
)
def test_a_wrong_file(piwo, small: Path, tmp_path: Path, text, says) -> None:
    (tmp_path / "piwo.toml").write_text(text, "utf-8")
    done = piwo("check", small)
    assert (done.code, done.out) == (2, "")
    (line,) = done.err.splitlines()
    for part in ["piwo.toml", *says]:
        assert part in line


def test_help_needs_no_settings(piwo, tmp_path: Path) -> None:
    (tmp_path / "piwo.toml").write_text("nonsense = 1\n", "utf-8")
    assert piwo("--help").code == 0
    assert piwo("--version").code == 0


def test_the_next_line_leaves_out_what_the_file_says(piwo, tmp_path: Path) -> None:
    small, file = tmp_path / "log.csv", tmp_path / "piwo.toml"
    small.write_text("item,click,p,new\n" + "a,1,0.5,0.1\nb,0,0.5,0.2\n" * 100, "utf-8")
    file.write_text(ROLES + f'log = "{small}"\nreward_range = [0, 2]\ncontext = "new"\n', "utf-8")
    last = piwo("check").out.splitlines()[-1]
    assert last == "next: piwo evaluate --policy uniform"
    last = piwo("check", small, "--reward-range", "0,1").out.splitlines()[-1]
    assert last == "next: piwo evaluate --reward-range 0,1 --policy uniform"
    last = piwo("evaluate", "--policy", "uniform").out.splitlines()[-1]
    assert last == "next: piwo learn --out policy.piwo"
    # what only one command's table says is typed for another
    file.write_text(f'log = "{small}"\n[check]\n{ROLES}[evaluate]\npolicy = "logging"\n', "utf-8")
    last = piwo("check").out.splitlines()[-1]
    assert last == "next: piwo evaluate --action item --reward click --propensity p"
