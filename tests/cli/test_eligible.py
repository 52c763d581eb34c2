"""Logs with eligible actions on the command line; printed commands run as they are printed."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo import policies
from piwo.simulate import ItemBandit
from tests.cli.conftest import Command

BANDIT = ItemBandit(items=30, candidates=4, context=2, features=2, situations=200)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a log of a bandit and its items."""
    folder = tmp_path_factory.mktemp("items")
    source = BANDIT.log(1500, random_state=0).source
    records = []
    for fragment in source.fragments(source.schema.names):
        records += fragment.records()
    pq.write_table(pa.Table.from_batches(records), folder / "log.parquet")
    assert BANDIT.actions.items is not None
    items = BANDIT.actions.items.table.append_column("action", pa.array(range(30)))
    pq.write_table(items, folder / "items.parquet")
    return folder


def test_each_command_proposes_one_that_runs(piwo: Command, files: Path) -> None:
    log, items = files / "log.parquet", files / "items.parquet"
    options = ["--eligible", "eligible", "--items", items, "--context", "x*"]
    ran = piwo("check", log, *options)
    assert ran.code == 0
    ran = piwo(*ran.next)
    assert ran.code == 0
    ran = piwo(*ran.next)
    assert ran.code == 0
    assert "joint direct" in ran.out
    # Nothing is proved on so few rows: the policy is shown, rather than run.
    words = ran.next
    assert words[:2] == ["policy", "show"]
    assert piwo(*words).code == 0
    # `act` chooses from the lists of the log.
    how = ["--eligible", "eligible", "--out", "chosen.csv", "--seed", 0]
    assert piwo("policy", "act", words[2], log, *how).code == 0
    rows = Path("chosen.csv").read_text().splitlines()[1:]
    could = pq.read_table(log)["eligible"].to_pylist()
    assert all(int(row.split(",")[0]) in some for row, some in zip(rows, could, strict=True))


def test_features_inside_the_log_are_proposed(piwo: Command, files: Path, tmp_path: Path) -> None:
    table = pq.read_table(files / "log.parquet")
    offers = [[{"price": float(label)} for label in row] for row in table["eligible"].to_pylist()]
    pq.write_table(table.append_column("offers", pa.array(offers)), tmp_path / "inside.parquet")
    ran = piwo(
        "evaluate", tmp_path / "inside.parquet", "--eligible", "eligible", "--policy", "uniform"
    )
    words = " ".join(ran.next)
    assert "--items offers" in words
    assert "offers" not in words.split("--context")[1]
    assert piwo(*ran.next).code == 0


def test_without_items_the_next_step_is_to_give_them(piwo: Command, files: Path) -> None:
    ran = piwo("evaluate", files / "log.parquet", "--eligible", "eligible", "--policy", "uniform")
    assert ran.next == ["learn", "--help"]
    assert ran.why.startswith("to learn from changing actions, give their features: --items FILE")
    assert piwo(*ran.next).code == 0
    words = ["learn", files / "log.parquet", "--eligible", "eligible", "--out", "p.piwo"]
    ran = piwo(*words, "--context", "x*")
    assert ran.code == 2
    assert "with features of the actions (--items)" in ran.err


def test_a_terminal_gets_the_first_decisions_and_a_pipe_all(
    piwo: Command, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, out = files / "log.parquet", files / "even.piwo"
    policies.Uniform(BANDIT.actions).save(out)
    words = ["policy", "act", out, log, "--eligible", "eligible", "--seed", 0]
    every = piwo(*words).out.splitlines()
    assert len(every) == 1501
    monkeypatch.setattr("piwo.cli.policy.sys.stdout.isatty", lambda: True)
    some = piwo(*words).out.splitlines()
    assert some[:21] == every[:21]
    assert some[21:] == ["... and 1,480 more decisions; write all to a file with --out"]
    # A document, and a file, are complete.
    assert len(piwo(*words, "--json").document["decisions"]) == 1500
    assert "wrote 1,500 decisions" in piwo(*words, "--out", "all.csv").out
    assert len(Path("all.csv").read_text().splitlines()) == 1501
