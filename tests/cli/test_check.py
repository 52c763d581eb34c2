"""`piwo check`: a verdict, as text, as JSON, and as an exit code."""

from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

OPEN_BANDIT = ("--action", "item_id", "--reward", "click", "--propensity", "propensity_score")


def test_a_fit_log(piwo, learnable: Path, roles) -> None:
    done = piwo("check", learnable, *roles)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("Fit for use: ")
    assert (
        done.out.splitlines()[-1]
        == f"next: piwo evaluate {learnable} {' '.join(roles)} --policy uniform"
    )
    page = piwo("check", learnable, *roles, "--json").document
    assert page["verdict"] == "fit"
    assert page["rows"] == page["log"]["rows"] == 3000


def test_an_unfit_log_is_a_no(piwo, tmp_path: Path) -> None:
    # the log says 1/2 each, but took one action nine times in ten
    log = tmp_path / "log.parquet"
    action = np.repeat(["a", "b"], [900, 100])
    pq.write_table(
        pa.table({"action": action, "reward": np.ones(1000), "propensity": np.full(1000, 0.5)}), log
    )
    done = piwo("check", log)
    assert (done.code, done.err) == (1, "")
    assert done.out.startswith("Unfit for use: its propensities do not match")
    assert done.next == ["check", str(log), "--explain"]
    assert done.why.startswith("once the log is repaired")
    assert piwo(*done.next).code == 1
    page = piwo("check", log, "--json")
    assert page.code == 1
    assert page.document["verdict"] == "unfit"
    assert page.document["findings"]


def test_what_the_log_is_for(piwo, small: Path, roles) -> None:
    page = piwo("check", small, *roles, "--policy", "constant:a", "--json").document
    assert page["policy"] == "constant:a"
    assert page["max_weight"] == 2.0


def test_a_policy_that_the_log_has_too_little_of(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("action,reward,propensity\n" + "a,1,0.99\n" * 198 + "b,1,0.01\n" * 2, "utf-8")
    done = piwo("check", log)
    assert done.code == 1
    assert "an effective sample of" in done.out
    assert done.next == ["evaluate", str(log), "--policy", "logging"]
    assert "evaluate policies closer to the logger" in done.why
    assert piwo(*done.next).code == 0


def test_two_rows_are_too_few_for_any_policy(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("action,reward,propensity\na,1,0.5\nb,0,0.5\n", "utf-8")
    for words in (("check", log), ("evaluate", log, "--policy", "uniform")):
        done = piwo(*words)
        assert done.next == ["check", str(log)]
        assert done.why == "when there are more rows: 2 say too little about any policy"


def test_rows_chosen_by_what_was_earned_are_not_used_further(piwo, learnable: Path, roles) -> None:
    without = "read the log without --where, which chooses rows by 'click'"
    condition = ("--where", "click >= 0")
    done = piwo("check", learnable, *roles, *condition)
    assert (done.code, done.why) == (0, without)
    assert done.next == ["check", str(learnable), *roles]
    done = piwo("evaluate", learnable, *roles, *condition, "--policy", "uniform")
    assert (done.code, done.why) == (0, without)
    learn = piwo("learn", learnable, *roles, *condition, "--context", "user x", "--out", "p.piwo")
    assert learn.code == 2
    assert "the condition mentions 'click'" in learn.err


def test_the_open_bandit_log_that_rests_on_two_rows(piwo, shared_data: Path) -> None:
    path = shared_data / "obd_bts_women.parquet"
    done = piwo("check", path, *OPEN_BANDIT)
    assert done.code == 1
    assert "an effective sample of two rows" in done.out
    page = piwo("check", path, *OPEN_BANDIT, "--json").document
    assert 2.0 < page["ess"] < 2.1
    heavy = pq.read_table(path).column("propensity_score").to_numpy()
    assert page["heaviest"][0]["row"] == int(np.argmin(heavy))


def test_the_context_that_is_named_is_looked_at_and_the_next_command_keeps_what_was_typed(
    piwo, tmp_path: Path
) -> None:
    path = tmp_path / "log.csv"
    lines = [f"{i % 2},{i // 2 % 2},.5,{'' if i % 4 == 0 else 30},{i % 7}" for i in range(400)]
    path.write_text("\n".join(["arm,won,p,user_age,user_hour", *lines]))
    roles = (
        "--action",
        "arm",
        "--reward",
        "won",
        "--propensity",
        "p",
        "--actions",
        "0,1",
        "--where",
        "user_hour < 6",
    )
    plain = piwo("check", path, *roles)
    assert (plain.code, "missing" in plain.out) == (0, False)
    done = piwo("check", path, *roles, "--context", "user_*", "--policy", "constant:1")
    assert done.code == 0
    assert "Fit for use with care: context values are missing" in done.out
    assert (
        "context values are missing, of 343 rows: 'user_age' in 86; learning refuses such rows"
        in done.out
    )
    assert "read the log with --missing=indicator" in done.out
    step = done.next
    assert step[:2] == ["evaluate", str(path)]
    for words in (
        *zip(roles[::2], roles[1::2], strict=True),
        ("--context", "user_*"),
        ("--missing", "indicator"),
    ):
        assert step[step.index(words[0]) + 1] == words[1]
    assert step[-2:] == ["--policy", "constant:1"]
    assert piwo(*step).code == 0
    learned = piwo(
        "learn",
        path,
        *roles,
        "--context",
        "user_*",
        "--oracle",
        "ridge",
        "--out",
        tmp_path / "p.piwo",
    )
    assert "column 'user_age' has" in learned.err


def test_options_are_named_where_rows_contradict_what_was_declared(piwo, tmp_path) -> None:
    random = np.random.default_rng(0)
    mu = np.where(np.arange(2000) < 1000, 0.5, 0.8)
    action = (random.random(2000) >= mu).astype(int)
    frame = pd.DataFrame({"x": random.integers(0, 99, 2000), "action": action})
    frame["reward"] = random.integers(0, 2, 2000)
    frame["propensity"] = np.where(action == 0, mu, 1.0 - mu)
    frame.to_csv(tmp_path / "log.csv", index=False)
    done = piwo("check", tmp_path / "log.csv", "--context", "x", "--logger", "fixed")
    assert "care: declared fixed, but equal contexts got different propensities" in done.out
    assert "read the log with --logger=learning and --time" in done.out
    assert "columns that --context does not name" in done.out
    done = piwo("check", tmp_path / "log.csv", "--context", "x")
    assert "note: looks like a learning logger" in done.out
    assert "a column with a unique id of each row (--key) would show it" in done.out
