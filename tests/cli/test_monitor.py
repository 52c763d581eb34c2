"""`piwo monitor`: a look a day at a log that grows, in one state file."""

import json
import math
import os
import signal
import subprocess
import sys
from datetime import date, timedelta
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import piwo as library
from piwo.errors import FileError
from piwo.files import locked
from piwo.policies import Constant

from .conftest import Command

DAY = 400
OPTIONS = ("--state", "m.piwo", "--policy", "constant:B")


def rows(days: int, seed: int = 0) -> pd.DataFrame:
    """B earns .11 and A .05; the logger takes both equally."""
    random = np.random.default_rng(seed)
    action = random.integers(0, 2, days * DAY)
    earned = random.random(len(action)) < np.where(action == 1, 0.11, 0.05)
    return pd.DataFrame(
        {
            "action": np.array(["A", "B"])[action],
            "reward": earned * 1.0,
            "propensity": 0.5,
            "ts": np.arange(len(action)),
        }
    )


def day(table: pd.DataFrame, number: int) -> pd.DataFrame:
    return table.iloc[number * DAY : (number + 1) * DAY]


def test_a_state_without_policies_says_which_it_was_started_with(piwo: Command) -> None:
    table = rows(2)
    day(table, 0).to_csv("a.csv", index=False)
    day(table, 1).to_csv("b.csv", index=False)
    first = piwo("monitor", "a.csv", "--state", "m.piwo")
    assert "no policy was named; give --policy" in first.err
    piwo("monitor", "a.csv", *OPTIONS)
    ran = piwo("monitor", "b.csv", "--state", "m.piwo")
    assert ran.code == 2
    assert "no policy was named, and m.piwo was started with constant:B; name" in ran.err
    assert len(library.evaluation.WatchHistory.load("m.piwo").looks) == 1


def test_a_file_a_day_and_a_log_that_grows_give_the_same_looks(
    piwo: Command, tmp_path: Path
) -> None:
    table = rows(4)
    for number in range(4):
        when = f"2026-11-{number + 1:02}"
        day(table, number).to_csv(f"day{number}.csv", index=False)
        table.iloc[: (number + 1) * DAY].to_csv("all.csv", index=False)
        each = piwo("monitor", f"day{number}.csv", *OPTIONS, "--date", when, "--json")
        grown = piwo(
            "monitor", "all.csv", "--state", "g.piwo", *OPTIONS[2:], "--date", when, "--json"
        )
        for ran in (each, grown):
            assert ran.code == (ran.document["answer"] != "certified")
        last, same = each.document["looks"][-1], grown.document["looks"][-1]
        assert last["rows"] == same["rows"] == (number + 1) * DAY
        assert last["added"] == same["added"] == DAY
        assert last["digest"] == same["digest"]
        assert last["policies"] == same["policies"]
    # The same as the library, and as one monitor of all rows.
    watch = library.Watch.start({"constant:B": Constant("B", ["A", "B"])})
    watch = watch.update(library.read(table), date="2026-11-04")
    (found,) = watch.looks[-1].policies
    assert found.lower == pytest.approx(last["policies"][0]["lower"], rel=1e-12)
    alone = library.Monitor(Constant("B", ["A", "B"])).update(library.read(table)).look()
    assert alone.improvement_lower == pytest.approx(found.improvement_lower, rel=1e-12)


def test_certified_not_yet_and_stop(piwo: Command) -> None:
    table = rows(8)
    answers = []
    for number in range(8):
        day(table, number).to_parquet(f"{number}.parquet")
        ran = piwo("monitor", f"{number}.parquet", *OPTIONS, "--deadline", 10 * DAY)
        answers.append((ran.code, ran.out.partition(":")[0]))
    assert answers[0] == (1, "Not yet, keep today's system")
    assert answers[-1] == (0, "Switch to constant")
    assert "constant:B: it earns at least 0.0" in ran.out
    # A worse policy: not yet until the deadline, then stop.
    words = ("--state", "a.piwo", "--policy", "constant:A", "--deadline", "2d", "--date")
    first = piwo("monitor", "0.parquet", *words, "2026-11-01")
    second = piwo("monitor", "1.parquet", *words, "2026-11-02")
    third = piwo("monitor", "2.parquet", *words, "2026-11-03")
    assert (first.code, second.code, third.code) == (1, 1, 1)
    assert first.out.startswith("Not yet, keep today's system: constant:A is not certified")
    assert "the deadline is 2026-11-03" in second.out
    assert third.out.startswith("Stop, keep today's system: the deadline has passed")
    assert "keep today's system" in third.out


def test_several_policies_share_delta(piwo: Command) -> None:
    rows(1).to_csv("d.csv", index=False)
    ran = piwo("monitor", "d.csv", *OPTIONS, "--policy", "constant:A", "--json")
    assert [one["delta"] for one in ran.document["looks"][0]["policies"]] == [0.025, 0.025]
    half = library.Monitor(Constant("B", ["A", "B"]), delta=0.025)
    look = half.update(library.read("d.csv")).look()
    assert ran.document["looks"][0]["policies"][0]["lower"] == pytest.approx(look.lower)


def refused(ran, text: str) -> None:
    assert ran.code == 2
    assert text in ran.err
    assert ran.err.count("\n") == 1


def test_the_same_rows_twice_are_refused_and_nothing_is_counted(piwo: Command) -> None:
    table = rows(3)
    for number in range(3):
        day(table, number).to_csv(f"{number}.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS)
    before = Path("m.piwo").read_bytes()
    refused(piwo("monitor", "0.csv", *OPTIONS), "no new rows")
    # Another name and another kind of file.
    day(table, 0).to_parquet("copy.parquet")
    refused(piwo("monitor", "copy.parquet", *OPTIONS), "no new rows")
    assert Path("m.piwo").read_bytes() == before
    piwo("monitor", "1.csv", *OPTIONS)
    refused(piwo("monitor", "0.csv", *OPTIONS), "rows that were counted at the look of")
    refused(piwo("monitor", "1.csv", *OPTIONS), "no new rows")
    # The last days again, and new rows after them: a window that slides.
    piwo("monitor", "select * from read_csv(['1.csv', '2.csv'])", *OPTIONS)
    assert json.loads(Path("m.piwo").read_text())["looks"][-1]["rows"] == 3 * DAY


def test_a_file_that_was_rewritten_is_refused_unless_it_is_declared_new(piwo: Command) -> None:
    rows(1).to_csv("today.csv", index=False)
    piwo("monitor", "today.csv", *OPTIONS)
    rows(1, seed=1).to_csv("today.csv", index=False)
    refused(piwo("monitor", "today.csv", *OPTIONS), "--all-new")
    assert piwo("monitor", "today.csv", *OPTIONS, "--all-new").code in (0, 1)


def test_other_settings_logs_and_policies_are_refused_in_one_line(piwo: Command) -> None:
    table = rows(2)
    day(table, 0).to_csv("0.csv", index=False)
    day(table, 1).rename(columns={"reward": "click"}).to_csv("1.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS, "--deadline", "30d", "--date", "2026-11-02")
    again = (*OPTIONS, "--deadline", "30d")
    refused(piwo("monitor", "1.csv", *again, "--reward", "click"), "--reward was reward, got click")
    day(table, 1).to_csv("1.csv", index=False)
    refused(piwo("monitor", "1.csv", *OPTIONS, "--deadline", "20d"), "--deadline was 30d, got 20d")
    refused(piwo("monitor", "1.csv", *again, "--delta", "0.1"), "--delta was 0.05, got 0.1")
    refused(piwo("monitor", "1.csv", *again, "--reward-range", "0,2"), "--reward-range was")
    refused(piwo("monitor", "1.csv", *again, "--date", "2026-11-01"), "the last look was on")
    words = ("--state", "m.piwo", "--policy", "constant:A", "--deadline", "30d")
    refused(piwo("monitor", "1.csv", *words), "is of the policies constant:B, got constant:A")
    refused(piwo("monitor", "1.csv", *OPTIONS, "--deadline", "soon"), "expected days such as '30d'")
    # A policy file of the same name with other contents.
    Constant("B", ["A", "B"]).save("p.piwo")
    piwo("monitor", "0.csv", "--state", "p.state", "--policy", "p.piwo")
    Constant("A", ["A", "B"]).save("p.piwo")
    refused(piwo("monitor", "1.csv", "--state", "p.state", "--policy", "p.piwo"), "another policy")


def test_a_damaged_state_and_other_files_are_refused(piwo: Command) -> None:
    rows(1).to_csv("0.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS)
    good = Path("m.piwo").read_text()
    Path("m.piwo").write_text(good.replace('"delta": 0.05', '"delta": 0.5'))
    refused(piwo("monitor", "0.csv", *OPTIONS), "it was changed after it was written")
    Path("m.piwo").write_text(good[: len(good) // 2])
    refused(piwo("monitor", "0.csv", *OPTIONS), "is not the state of a monitored log")
    refused(piwo("monitor", "0.csv", "--state", "0.csv", *OPTIONS[2:]), "the command reads")


def test_two_processes_at_once_are_refused(piwo: Command, tmp_path: Path) -> None:
    rows(1).to_csv("0.csv", index=False)
    with locked(tmp_path / "m.piwo"):
        refused(piwo("monitor", "0.csv", *OPTIONS), "is in use by another process")
    assert piwo("monitor", "0.csv", *OPTIONS).code == 1
    assert [x.name for x in tmp_path.iterdir() if x.name.endswith(".lock")] == []


def test_a_process_killed_as_it_writes_loses_nothing(piwo: Command, tmp_path: Path) -> None:
    table = rows(2)
    day(table, 0).to_csv("0.csv", index=False)
    day(table, 1).to_csv("1.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS)
    before = Path("m.piwo").read_bytes()
    # The process dies when all is written, before the new file takes the place of the old one.
    script = (
        "import os, signal, pathlib\n"
        "pathlib.Path.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from piwo.cli.main import main\n"
        f"main(['monitor', '1.csv', *{OPTIONS!r}])\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], env=os.environ, check=False)
    assert ran.returncode == -signal.SIGKILL
    assert Path("m.piwo").read_bytes() == before
    # The lock of the dead process is free.
    assert piwo("monitor", "1.csv", *OPTIONS, "--json").document["looks"][-1]["rows"] == 2 * DAY


def test_the_page_holds_the_looks_and_hostile_names_are_inert(piwo: Command) -> None:
    table = rows(3).replace({"action": {"B": "<script>alert(1)</script>"}})
    state = ("--state", "m.piwo", "--policy", "constant:<script>alert(1)</script>")
    for number in range(3):
        day(table, number).to_csv(f"{number}.csv", index=False)
        when = (date(2026, 11, 1) + timedelta(number)).isoformat()
        ran = piwo("monitor", f"{number}.csv", *state, "--html", "m.html", "--date", when)
    page = Path("m.html").read_text()
    assert "<script" not in page
    assert "http" not in page.replace('http-equiv="Content', "")
    assert page.count("<circle") == 3
    assert "2026-11-03" in page
    assert "wrote m.html" in ran.out
    # Without LOG: the last look again, nothing is counted.
    shown = piwo("monitor", "--state", "m.piwo", "--html", "again.html", "--json")
    assert shown.document["looks"] == json.loads(Path("m.piwo").read_text())["looks"]
    assert shown.code == 1


def test_labels_of_the_first_look_hold_later(piwo: Command) -> None:
    table = rows(2)
    day(table, 0).to_csv("0.csv", index=False)
    later = day(table, 1)
    later[later.action == "A"].to_csv("1.csv", index=False)
    # A policy over whatever labels were seen is not fixed beforehand.
    words = ("--state", "u.piwo", "--policy", "uniform")
    refused(piwo("monitor", "0.csv", *words), "--actions")
    assert piwo("monitor", "0.csv", *words, "--actions", "A,B").code == 1
    piwo("monitor", "0.csv", *OPTIONS)
    ran = piwo("monitor", "1.csv", *OPTIONS, "--json")
    assert ran.document["log"]["actions"] == 2
    later.replace({"action": {"A": "C"}}).to_csv("2.csv", index=False)
    refused(piwo("monitor", "2.csv", *OPTIONS), "'C'")


def test_a_missing_state_without_a_log_is_an_error(piwo: Command) -> None:
    refused(piwo("monitor", "--state", "none.piwo"), "none.piwo")
    with pytest.raises(FileError):
        library.evaluation.WatchHistory.load("none.piwo")


def test_tables_in_memory_have_no_names(tmp_path: Path) -> None:
    table = rows(2)
    watch = library.Watch.start({"B": Constant("B", ["A", "B"])}, deadline=10_000)
    for number in range(2):
        watch = watch.update(library.read(day(table, number)))
    assert [look.added for look in watch.looks] == [DAY, DAY]
    with pytest.raises(library.UsageError, match="no new rows"):
        watch.update(library.read(day(table, 1)))
    watch.save(tmp_path / "w")
    again = library.Watch.load(tmp_path / "w", {"B": Constant("B", ["A", "B"])})
    assert again.headline() == watch.headline()


def test_units_are_words_of_one_call_in_answer_table_page_and_python(
    piwo: Command, tmp_path: Path
) -> None:
    table = rows(8)
    table.to_csv("d.csv", index=False)
    words = ("--unit-name", "clicks", "--per", 100, "--row-name", "visits")
    refused(piwo("monitor", "d.csv", *OPTIONS, "--per", 0), "--per is 0")
    assert not Path("m.piwo").exists()
    ran = piwo("monitor", "d.csv", *OPTIONS, *words, "--html", "page.html")
    (look,) = library.evaluation.WatchHistory.load("m.piwo").looks
    (found,) = look.policies
    # the digits of the report's sentence: the last is a tenth of the distance to the estimate
    shown = library.Units("clicks", 100, "visits")
    least = shown.at_least(found.improvement_lower, found.gain)
    assert least == f"{math.floor(1000 * found.improvement_lower) / 10:.1f} clicks"
    said = (
        f"Switch to constant:B: it earns at least {least} more per 100 visits than today's system"
    )
    said += f", by its estimate {100 * found.gain:.1f}"
    assert ran.out.startswith(f"{said} (95 %, at all looks together, 3,200 visits).")
    assert f"{100 * found.value:.4g}" in ran.out
    assert "(values and improvements are in clicks per 100 visits)" in ran.out
    page = Path("page.html").read_text()
    assert f"constant:B: it earns at least {least} more per 100 visits" in page
    assert f"now: {100 * found.value:.4g} clicks per 100 visits" in page
    assert f'data-label="improvement, at least">{100 * found.improvement_lower:.4g}</td>' in page
    # The state is the same without them, and so are the numbers of --json.
    plain = piwo("monitor", "--state", "m.piwo", "--json").document
    named = piwo("monitor", "--state", "m.piwo", *words, "--json").document
    assert plain["looks"] == named["looks"]
    assert named["units"] == {"unit": "clicks", "per": 100.0, "decisions": "visits"}
    assert named["headline"].startswith(said)
    watch = library.Watch.load("m.piwo", {"constant:B": Constant("B", ["A", "B"])})
    assert watch.headline(shown).startswith(said)
    with pytest.raises(library.UsageError, match="units"):
        watch.headline("clicks")  # type: ignore[arg-type]


def test_a_monitor_of_costs_says_that_they_are_less(piwo: Command) -> None:
    table = rows(8)
    table["reward"] = 1 - table["reward"]
    table.rename(columns={"reward": "price"}).to_csv("d.csv", index=False)
    words = ("--cost", "price", "--reward-range", "-1,0")
    ran = piwo("monitor", "d.csv", *OPTIONS, *words)
    assert ran.out.startswith("Switch to constant:B: it costs at least 0.0")
    assert "less per decision than today's system" in ran.out
    said = "values are minus the cost{} per {}, improvements how much lower it is"
    assert f"({said.format('', 'decision')})" in ran.out
    units = ("--unit-name", "euros", "--per", 100, "--row-name", "visits")
    again = piwo("monitor", "--state", "m.piwo", *units, "--html", "page.html")
    assert f"({said.format(' in euros', '100 visits')})" in again.out
    page = Path("page.html").read_text()
    assert f"V{said.format(' in euros', '100 visits')[1:]}." in page
    assert page.count("(minus the cost in euros per 100 visits)") == 3
    assert " earned" not in page
    (look,) = library.evaluation.WatchHistory.load("m.piwo").looks
    assert look.policies[0].cost
    assert f"1 look on {look.date}, 3,200 visits" in page


def test_without_a_log_the_last_look_is_shown_as_it_was(piwo: Command) -> None:
    table = rows(3)
    words = (*OPTIONS, "--policy", "constant:A", "--deadline", "30d", "--at-least", "0.01")
    shown = ("--unit-name", "clicks", "--per", 100, "--row-name", "visits")
    for number in range(3):
        day(table, number).to_csv(f"{number}.csv", index=False)
        when = ("--date", f"2026-11-0{number + 1}")
        ran = piwo("monitor", f"{number}.csv", *words, *when, *shown, "--html", "a.html")
    again = piwo("monitor", "--state", "m.piwo", *shown, "--html", "b.html")
    assert again.code == ran.code
    assert (
        again.out.replace("b.html", "a.html").split("\nnext: ")[0] == ran.out.split("\nnext: ")[0]
    )
    assert Path("a.html").read_text() == Path("b.html").read_text()
    for text in (
        "constant:B",
        "improvement, at least",
        "deadline  2026-12-01, 30 days after the first look",
        "delta 0.05, 0.025 for each of 2 policies",
        "a value of at least 0.01, in the reward's unit",
        "assumes   that the logged propensities are right",
        "bets      mixture, planned for any number of visits",
    ):
        assert text in again.out
    full = piwo("monitor", "--state", "m.piwo", "--json").document
    assert set(full["terms"]) == {"asked", "deadline", "holds", "bets", "assumes"}
    assert full["deadline"] == "30d"
    history = library.evaluation.WatchHistory.load("m.piwo")
    assert history.headline() == full["headline"]
    assert history.rest == "the deadline is 2026-12-01"


def test_the_page_says_what_it_promises_and_assumes(piwo: Command) -> None:
    rows(1).to_csv("0.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS, "--deadline", 500, "--html", "m.html")
    page = Path("m.html").read_text()
    (summary,) = [line for line in page.splitlines() if "What this promises" in line]
    assert summary.startswith("<details><summary>What this promises and assumes; the deadline is ")
    assert "that the logged propensities are right, that rewards are in [0, 1]" in summary
    assert "at all looks together, hold with probability at least 95 %" in summary
    for key in ("estimate", "policy", "certified", "deadline", "bets"):
        assert page.count(f'id="term-{key}"') == page.count(f'aria-describedby="term-{key}"') == 1
    assert "<details><summary>Terms</summary>" in page


def test_the_next_line_of_a_stop_can_be_run(piwo: Command) -> None:
    table = rows(1).rename(columns={"action": "the item", "reward": "click", "propensity": "p"})
    table.to_csv("my log.csv", index=False)
    columns = ("--action", "the item", "--reward", "click", "--propensity", "p")
    words = ("--state", "m.piwo", "--policy", "constant:A", "--deadline", DAY)
    ran = piwo("monitor", "my log.csv", *columns, *words)
    assert ran.why == "keep today's system; evaluate says more of these rows"
    assert piwo(*ran.next).code == 0
    # The rows contradict their propensities: the check says why.
    table["p"] = 0.1
    table.to_csv("bad.csv", index=False)
    ran = piwo("monitor", "bad.csv", *columns, *words[2:], "--state", "b.piwo")
    assert ran.out.startswith("Stop, keep today's system: the rows contradict")
    assert piwo(*ran.next).out.startswith("Unfit")


def test_the_next_line_takes_the_next_look(piwo: Command) -> None:
    table = rows(40)
    table[:100].to_csv("log.csv", index=False)
    words = ("monitor", "log.csv", *OPTIONS, "--deadline", "300d", "--unit-name", "clicks")
    ran = piwo(*words, "--date", "2026-11-01", "--all-new")
    assert ran.next == [*words, "--all-new"]
    assert ran.why == "when new rows have come, with the file that holds them"
    table[100:].to_csv("log.csv", index=False)
    # by the same command, one day later
    ran = piwo(*ran.next, "--date", "2026-11-02")
    assert ran.code == 0
    assert ran.next == [*words, "--all-new"]
    assert ran.why.startswith("run constant:B, keep exploring a little, and log the propensities")
    ran = piwo("monitor", "--state", "m.piwo")
    assert ran.next == ["monitor", "--state", "m.piwo"]
    assert piwo(*ran.next).code == 0


def test_a_certified_policy_file_is_run_next(piwo: Command) -> None:
    rows(40).to_csv("log.csv", index=False)
    Constant("B", ["A", "B"]).save("new.piwo")
    ran = piwo("monitor", "log.csv", "--state", "m.piwo", "--policy", "new.piwo")
    assert ran.next == ["policy", "act", "new.piwo", "log.csv", "--epsilon", "0.05"]
    assert piwo(*ran.next).code == 0


def test_notes_name_the_policy_that_they_are_about(piwo: Command) -> None:
    table = rows(1)
    table["propensity"] = np.where(table.action == "A", 0.5, 0.9)
    table.to_csv("0.csv", index=False)
    ran = piwo("monitor", "0.csv", *OPTIONS, "--policy", "constant:A")
    assert "note: constant:B: the mean weight is 0." in ran.out
    assert "constant:A: the mean weight" not in ran.out


def test_without_a_log_options_that_the_state_contradicts_are_refused(piwo: Command) -> None:
    rows(1).to_csv("0.csv", index=False)
    piwo("monitor", "0.csv", *OPTIONS, "--deadline", "30d")
    shown = ("monitor", "--state", "m.piwo")
    refused(piwo(*shown, "--deadline", "20d"), "--deadline was 30d, got 20d")
    refused(piwo(*shown, "--at-least", "0.1"), "--at-least was none, got 0.1")
    refused(piwo(*shown, "--delta", "0.1"), "--delta was 0.05, got 0.1")
    refused(piwo(*shown, "--date", "2026-11-02"), "--date is of a look")
    refused(piwo(*shown, "--all-new"), "--all-new is of a look")
    refused(piwo(*shown, "--policy", "constant:A"), "is of the policies constant:B, got constant:A")
    # what agrees may stand there, as in the command of a look
    assert piwo(*shown, "--policy", "constant:B", "--deadline", "30d").code in (0, 1)
