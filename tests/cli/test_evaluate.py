"""`piwo evaluate`: the numbers, the JSON document, and what is said about several policies."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library
from piwo import __version__
from tests.cli.conftest import Command

KEYS = {
    "name",
    "estimator",
    "gamma",
    "value",
    "lower",
    "upper",
    "delta",
    "mean_weight",
    "ess",
    "max_weight",
    "unsupported_mass",
    "rows",
}
OPEN_BANDIT = ("--action", "item_id", "--reward", "click", "--propensity", "propensity_score")

# log, K, estimator, gamma, value: what an independent program found on the Open Bandit sample
TABLE = [
    ("obd_bts_all", 80, "iw", None, 0.0023596395),
    ("obd_bts_all", 80, "snips", None, 0.0023337139),
    ("obd_bts_all", 80, "ix", 0.01, 0.0010903587),
    ("obd_bts_all", 80, "ls-linear", 0.01, 0.0011990550),
    ("obd_bts_women", 46, "iw", None, 0.0074375775),
    ("obd_bts_women", 46, "snips", None, 0.0023730461),
    ("obd_bts_women", 46, "ix", 0.01, 0.0018385183),
    ("obd_bts_women", 46, "ls-linear", 0.01, 0.0021932531),
]


@pytest.mark.parametrize(("log", "k", "estimator", "gamma", "value"), TABLE)
def test_the_open_bandit_table(piwo, shared_data: Path, log, k, estimator, gamma, value) -> None:
    words = [
        "evaluate",
        shared_data / f"{log}.parquet",
        *OPEN_BANDIT,
        "--policy",
        "uniform",
        "--json",
    ]
    words += ["--actions", f"0..{k - 1}", "--estimator", estimator]
    words += [] if gamma is None else ["--gamma", gamma]
    (found,) = piwo(*words).document["policies"]
    assert found["value"] == pytest.approx(value, abs=6e-11)
    assert found["gamma"] == gamma
    assert found["estimator"] == estimator


@pytest.mark.parametrize(
    ("log", "policy", "ends", "ess", "mean_weight", "truth"),
    [
        ("obd_bts_all", "uniform", (0.00082, 0.1092), 340.4, 1.01111, 0.0038),
        ("obd_bts_women", "uniform", (0.00257, 0.0730), 2.1, 3.13419, 0.0046),
        ("obd_random_all", "uniform", (0.0024575, 0.0053761), 10000, 1.0, 0.0038),
    ],
)
def test_the_open_bandit_intervals_contain_the_truth(
    piwo, shared_data: Path, log, policy, ends, ess, mean_weight, truth
) -> None:
    path = shared_data / f"{log}.parquet"
    (found,) = piwo("evaluate", path, *OPEN_BANDIT, "--policy", policy, "--json").document[
        "policies"
    ]
    # to one unit of the last digit: the expected ends were rounded outwards
    low_unit, high_unit = (1e-7, 1e-7) if log == "obd_random_all" else (1e-5, 1e-4)
    assert found["lower"] == pytest.approx(ends[0], abs=low_unit)
    assert found["upper"] == pytest.approx(ends[1], abs=high_unit)
    assert found["lower"] < truth < found["upper"]
    assert found["ess"] == pytest.approx(ess, abs=0.05)
    assert found["mean_weight"] == pytest.approx(mean_weight, abs=6e-6)


def test_a_small_log_by_hand(piwo, small: Path, roles) -> None:
    done = piwo(
        "evaluate", small, *roles, "--policy", "constant:a", "--policy", "uniform", "--json"
    )
    assert (done.code, done.err) == (0, "")
    page = done.document
    assert page["piwo"] == __version__
    assert page["log"]["rows"] == 4
    assert page["log"]["columns"]["action"] == "item"
    always, even = page["policies"]
    assert set(always) >= KEYS
    # w R = 1/.5 in one row of four; the other a-row pays nothing
    assert always["value"] == 0.5
    assert even["value"] == 0.25
    assert always["mean_weight"] == 1.0
    assert always["max_weight"] == 2.0
    assert always["ess"] == 2.0
    assert (always["gamma"], always["delta"], always["rows"]) == (None, 0.05, 4)
    assert 0 <= always["lower"] <= always["value"] <= always["upper"] <= 1


@pytest.mark.parametrize(
    ("estimator", "value"),
    # gamma = .1: 1/(4 * .6); clipping changes nothing at .5; lam = .2: log(1 + .2/.5)/.2/4
    [("ix", 1 / 2.4), ("clip", 0.5), ("ls", 0.4205903), ("ls-linear", 0.4205903), ("snips", 0.5)],
)
def test_every_estimator_has_a_name(piwo, small: Path, roles, estimator, value) -> None:
    words = ["--policy", "constant:a", "--estimator", estimator, "--gamma", ".1", "--json"]
    (found,) = piwo("evaluate", small, *roles, *words).document["policies"]
    assert found["value"] == pytest.approx(value, abs=1e-7)
    assert found["gamma"] == (None if estimator == "snips" else 0.1)


@pytest.mark.parametrize("name", ["ix", "ls"])
def test_an_interval_brings_its_estimator(piwo, small: Path, roles, name) -> None:
    words = ("evaluate", small, *roles, "--policy", "uniform", "--interval", name, "--json")
    (found,) = piwo(*words).document["policies"]
    assert (found["estimator"], found["interval"]) == (name, name)
    assert piwo(*words, "--estimator", "iw").code == 2


def test_a_gamma_that_nothing_uses_is_said(piwo, small: Path, roles) -> None:
    words = ("evaluate", small, *roles, "--policy", "uniform", "--gamma", ".1", "--json")
    done = piwo(*words)
    assert done.err == "piwo: warning: --gamma is not used: the estimator iw has none\n"
    assert "--gamma is not used: the estimator iw has none" in done.document["notes"]
    assert piwo(*words, "--estimator", "ix").err == ""


def test_several_policies_hold_together(piwo, small: Path, roles) -> None:
    words = ("evaluate", small, *roles, "--policy", "uniform")
    (alone,) = piwo(*words, "--json").document["policies"]
    both = piwo(*words, "--policy-column", "new", "--json").document["policies"]
    assert [x["name"] for x in both] == ["uniform", "new"]
    assert [x["simultaneous"] for x in both] == [2, 2]
    assert both[0]["upper"] - both[0]["lower"] >= alone["upper"] - alone["lower"]
    assert both[1]["value"] == 0.5
    told = piwo(*words, "--policy-column", "new")
    assert "simultaneous: all 2 hold with probability at least 95 %" in told.out


def test_the_text_ends_with_what_to_do_next(piwo, small: Path, learnable: Path, roles) -> None:
    done = piwo("evaluate", learnable, *roles, "--policy", "logging")
    assert done.next[:8] == ["learn", str(learnable), *roles]
    # Four rows are too few to learn from.
    done = piwo("evaluate", small, *roles, "--policy", "logging")
    assert done.next == ["check", str(small), *roles]
    assert done.why == "when there are more rows: 4 say too little about any policy"


def test_the_next_line_can_be_typed(piwo, learnable: Path, roles, monkeypatch) -> None:
    words = ("evaluate", learnable, *roles, "--context", "shop,user x", "--policy", "uniform")
    done = piwo(*piwo(*words).next)
    assert (done.code, done.err) == (0, "")
    # Nothing is proved on so few rows: the policy is shown, rather than run.
    shown = piwo(*done.next)
    assert shown.code == 0
    assert shown.out.startswith("policy.piwo: ")


def test_the_next_line_is_one_line(piwo, small: Path, roles, tmp_path: Path) -> None:
    odd = tmp_path / "a\x1b[31m\nb.csv"
    odd.write_bytes(small.read_bytes())
    for words in (
        ["check", odd, *roles, "--policy", "logging"],
        ["evaluate", odd, *roles, "--policy", "uniform"],
    ):
        done = piwo(*words)
        assert "\x1b" not in done.out
        *_, following, why = done.out.splitlines()
        assert following.startswith("next: piwo check ")
        assert why.startswith("why:  ")


def test_costs_are_negative_rewards(piwo, small: Path) -> None:
    words = ["--action", "item", "--cost", "click", "--propensity", "p", "--reward-range", "-1,0"]
    (found,) = piwo("evaluate", small, *words, "--policy", "constant:a", "--json").document[
        "policies"
    ]
    assert found["cost"] is True
    assert found["reward_range"] == [-1.0, 0.0]
    assert found["lower"] >= -1.0
    assert found["upper"] <= 0.0


def test_a_reward_without_an_upper_end(piwo, small: Path, roles) -> None:
    words = ["--reward-range", "0,inf", "--policy", "uniform", "--json"]
    page = piwo("evaluate", small, *roles, *words).document
    assert page["log"]["reward_range"] == [0.0, None]
    assert page["policies"][0]["upper"] is None


@pytest.mark.parametrize("form", ["a,b,c", "@labels.txt"])
def test_the_action_list(piwo, small: Path, roles, form, tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\nc\n", encoding="utf-8")
    words = ["--policy", "uniform", "--actions", form, "--json"]
    (found,) = piwo("evaluate", small, *roles, *words).document["policies"]
    assert found["unsupported_mass"] == pytest.approx(1 / 3)


def test_several_files_are_one_log(piwo, small: Path, roles, tmp_path: Path) -> None:
    other = tmp_path / "small2.csv"
    other.write_bytes(small.read_bytes())
    words = (*roles, "--policy", "uniform", "--json")
    assert piwo("evaluate", small, other, *words).document["log"]["rows"] == 8
    assert piwo("evaluate", tmp_path / "small*.csv", *words).document["log"]["rows"] == 8
    for named in ([small, other], [tmp_path / "small*.csv"]):
        told = piwo("evaluate", *named, *roles, "--policy", "uniform").out
        assert told.splitlines()[2].startswith(f"{small} and 1 more: 8 rows")
    query = f"select * from '{small}' where item = 'a'"
    assert piwo("evaluate", query, *words, "--actions", "a,b").document["log"]["rows"] == 2


def test_warnings_are_single_lines_and_notes(piwo, tmp_path: Path) -> None:
    log = tmp_path / "hair.csv"
    log.write_text("action,reward,propensity\na,1,1.00000978\na,0,1\n", encoding="utf-8")
    words = ("evaluate", log, "--policy", "logging", "--json")
    done = piwo(*words)
    assert done.code == 0
    (line,) = done.err.splitlines()
    assert line.startswith(
        "piwo: warning: column 'propensity' is above 1 by no more than 0.0001 in 1 row"
    )
    quiet = piwo(*words, "--quiet")
    assert quiet.err == ""
    assert any("is above 1" in note for note in quiet.document["notes"])


def test_numbers_keep_every_digit(piwo, learnable: Path, roles) -> None:
    import piwo as library

    (found,) = piwo("evaluate", learnable, *roles, "--policy", "uniform", "--json").document[
        "policies"
    ]
    log = library.read(str(learnable), action="item", reward="click", propensity="p")
    assert found["lower"] == library.evaluate(log, library.policies.Uniform(log.actions)).lower


def test_many_policies_are_selected_from(piwo, learnable: Path, roles) -> None:
    words = [
        "evaluate",
        learnable,
        *roles,
        "--policy",
        "uniform",
        "--policy",
        "constant:01",
        "--policy-column",
        "greedy",
    ]
    told = piwo(*words).out
    assert "best of 3: greedy, at least 0." in told
    assert "certified greedy; at a false discovery rate of 5 % greedy" in told
    found = piwo(*words, "--json").document["selection"]
    assert (found["best"], found["better"], found["candidates"]) == ("greedy", ["greedy"], 3)
    one = piwo(*words[:8], "--policy", "uniform", "--json")
    assert one.document["selection"] is None
    assert "best of" not in piwo(*words, "--interval", "normal").out


def test_horizon(piwo, learnable: Path, roles) -> None:
    words = ["evaluate", learnable, *roles, "--policy", "uniform"]
    told = piwo(*words, "--horizon", "universal").out
    assert "at all looks together (horizon universal)" in told
    once, often = (
        piwo(*words, *more, "--json").document["policies"][0]
        for more in ((), ("--horizon", "100000"))
    )
    assert often["lower"] < once["lower"]
    assert (once["horizon"], often["horizon"]) == (None, 100_000)
    for wrong in ("0", "hour", "-3", "1.5"):
        ran = piwo(*words, f"--horizon={wrong}")
        assert ran.code == 2
        assert f"--horizon got '{wrong}'" in ran.err


def test_deadline_bets_with_a_horizon_are_those_of_a_monitor(piwo, tmp_path: Path, roles) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{'ab'[i % 2]},{(i % 3 == 0) * 1},0.5\n" for i in range(450))
    log.write_text("item,click,p\n" + rows)
    words = ["evaluate", log, *roles, "--policy", "constant:a", "--actions", "a,b"]
    words += ["--interval", "deadline", "--horizon", "400"]
    printed = piwo(*words).out
    assert "at all looks together (horizon 400)" in printed
    assert "contexts and rewards do not drift" in printed
    assert "50 rows are beyond the horizon of 400" in printed
    (found,) = piwo(*words, "--json").document["policies"]
    read = library.read(log, action="item", reward="click", propensity="p", actions=["a", "b"])
    policy = library.policies.Constant("a", ["a", "b"])
    look = library.Monitor(policy, horizon=400, interval="deadline").update(read).look()
    for name in ("value", "lower", "upper", "improvement_lower"):
        assert found[name] == pytest.approx(getattr(look, name), rel=1e-12), name
    assert {str(note) for note in look.notes if note.kind != "assumed-fixed"} <= set(found["notes"])


def test_the_gate_asks_whether_every_policy_is_certified_better(
    piwo, tmp_path: Path, roles
) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{'ab'[i % 2]},{(i % 2 == 0) * 1},0.5\n" for i in range(400))
    log.write_text("item,click,p\n" + rows)
    words = ["evaluate", log, *roles, "--gate", "--policy", "constant:a"]
    passed = piwo(*words)
    assert (passed.code, "gate: passed" in passed.out) == (0, True)
    refused = piwo(*words, "--policy", "constant:b")
    assert (refused.code, refused.err) == (1, "")
    assert "gate: not certified better than the logging policy: constant:b" in refused.out
    assert [
        one["certified"]
        for one in piwo(*words, "--policy", "constant:b", "--json").document["policies"]
    ] == [
        True,
        False,
    ]
    assert piwo(*words[:-3], "--policy", "constant:b").code == 0
    normal = piwo(*words, "--interval", "normal")
    assert normal.code == 0
    assert "finite-sample bound, whatever the interval (normal)" in normal.out
    assert "whatever the interval" not in passed.out


def test_the_gate_believes_no_log_that_contradicts_its_propensities(
    piwo, tmp_path: Path, roles
) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{'ab'[i % 2]},{(i % 2 == 0) * 1},0.1\n" for i in range(400))
    log.write_text("item,click,p\n" + rows)
    assert piwo("evaluate", log, *roles, "--gate", "--policy", "constant:a").code == 1


def test_the_gate_with_an_incumbent(piwo, tmp_path: Path, roles) -> None:
    """a earns 1, b 1/2, c 0: b is better than the logger and than c, and not than a."""
    log = tmp_path / "log.csv"
    rows = "".join(f"{'abcb'[i % 4]},{'1100'[i % 4]},{(0.25, 0.5)[i % 2]}\n" for i in range(800))
    log.write_text("item,click,p\n" + rows)
    old = tmp_path / "old.piwo"
    library.policies.Constant("a", ["a", "b", "c"]).save(old)
    words = ["evaluate", log, *roles, "--gate", "--policy", "constant:b", "--baseline"]
    passed = piwo(*words, "constant:c")
    assert (passed.code, passed.err) == (0, "")
    assert "the baseline constant:c: 0 a row" in passed.out
    refused = piwo(*words, old)
    assert refused.code == 1
    assert f"gate: not certified better than the baseline {old}: constant:b" in refused.out
    (found,) = piwo(*words, old, "--json").document["policies"]
    assert (found["baseline"], found["certified"]) == (str(old), False)
    assert found["improvement_lower"] < -0.4
    # named twice, it is one of those compared, and not asked to beat itself
    twice = piwo(*words, "constant:c", "--policy", "constant:c")
    assert (twice.code, "gate: passed (the baseline constant:c itself is exempt)" in twice.out) == (
        0,
        True,
    )
    found = piwo(*words, "constant:c", "--policy", "constant:c", "--json").document["policies"]
    assert found[1]["improvement_lower"] == 0.0  # it is known to be as good as itself
    missing = piwo(*words, "nowhere.piwo")
    assert missing.code == 2
    assert "no policy and no file 'nowhere.piwo'" in missing.err


def test_a_baseline_learned_from_the_same_rows_certifies_nothing(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    old = tmp_path / "old.piwo"
    done = piwo(
        "learn", learnable, *roles, "--context", "user x,shop", "--oracle", "ridge", "--out", old
    )
    assert done.code == 0, done.err
    told = piwo("evaluate", learnable, *roles, "--gate", "--policy", "uniform", "--baseline", old)
    assert told.code == 1
    assert "in-sample: the baseline was learned from part of this log" in told.out
    words = (
        "evaluate",
        learnable,
        *roles,
        "--policy-column",
        "greedy",
        "--baseline",
        old,
        "--json",
    )
    (found,) = piwo(*words).document["policies"]
    # the policy was made without these rows: its own interval holds
    assert (found["in_sample"], found["improvement_lower"], found["certified"]) == (
        False,
        None,
        False,
    )
    assert 0 < found["lower"] < found["upper"]


def test_what_the_first_lines_say(piwo, small: Path, roles, tmp_path: Path) -> None:
    """Which rows of several files, and a reward that is called so, once."""
    for name in ("one.csv", "two.csv"):
        text = small.read_text("utf-8").replace("click", "reward")
        (tmp_path / name).write_text(text, encoding="utf-8")
    words = (
        "--action",
        "item",
        "--propensity",
        "p",
        "--policy",
        "uniform",
        "--where",
        "reward < 2",
    )
    first, second = piwo("evaluate", tmp_path / "*o*.csv", *words).out.splitlines()[2:4]
    assert first.endswith("one.csv and 1 more where reward < 2: 8 rows, 2 actions")
    assert second.startswith("reward in [0, 1]; logged: ")


def test_explain_says_what_the_columns_are(piwo, small: Path, roles) -> None:
    words = ("evaluate", small, *roles, "--policy", "uniform")
    plain, explained = piwo(*words).out, piwo(*words, "--explain").out
    assert "ESS: effective sample size" not in plain
    assert "ESS: effective sample size" in explained
    assert len(set(plain.splitlines()) - set(explained.splitlines())) == 0


def test_the_next_line_names_the_columns_that_may_be_context(piwo, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    table = {"action": rng.choice(["a", "b"], 400), "reward": rng.integers(0, 2, 400)}
    more = {"the hour": rng.integers(0, 24, 400), "x_0": rng.random(400), "x_1": rng.random(400)}
    log = tmp_path / "log.parquet"
    # ids and times are known before the decision, too, and tell nothing of a new one
    more |= {"order_id": np.arange(400), "ts": np.arange(400)}
    pq.write_table(pa.table({**table, "propensity": np.full(400, 0.5), **more}), log)
    done = piwo("evaluate", log, "--policy", "uniform")
    assert "known before the decision" in done.why
    assert "--context 'the hour,x_*'" in done.out
    assert piwo(*done.next, "--oracle", "ridge").code == 0
    pq.write_table(pa.table({**table, "propensity": np.full(400, 0.5)}), log)
    done = piwo("evaluate", log, "--policy", "uniform")
    assert done.why.startswith("to learn, log context")
    assert piwo(*done.next).code == 0


def test_a_label_in_each_action_line_says_which_action_it_is(piwo: Command, tmp_path: Path) -> None:
    (tmp_path / "adf.vw").write_text(
        "0:-1:0.25 |a id=cake\n|a id=tea\n\n|a id=tea\n0:-1:0.5 |a id=cake\n\n"
    )
    words = ("--items-label", "a/id", "--policy", "constant:cake", "--json")
    ran = piwo("evaluate", "adf.vw", *words)
    # by hand: 1 / .25 and 1 / .5, over two decisions
    assert ran.document["policies"][0]["value"] == 3.0
    refused = piwo("evaluate", "adf.vw", "--items-label", "a/name", "--policy", "constant:cake")
    assert (refused.code, refused.err.count("\n")) == (2, 1)
    assert "an action line without 'a/name' (--items-label), which names actions" in refused.err
