"""--at-least and --guardrail of evaluate and learn."""

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library


@pytest.fixture(scope="module")
def complained(tmp_path_factory) -> Path:
    """Action 1 is right where x > 0; it has complaints in a tenth of the cases, action 0 none."""
    rng = np.random.default_rng(0)
    n = 3000
    x = rng.normal(size=n)
    action = rng.integers(0, 2, n)
    right = action == (x > 0)
    table = {
        "x": x,
        "action": action,
        "reward": (rng.random(n) < np.where(right, 0.8, 0.2)) * 1.0,
        "propensity": np.full(n, 0.5),
        "complaints": (rng.random(n) < 0.1 * action) * 1.0,
    }
    table["again"] = table["reward"]
    path = tmp_path_factory.mktemp("terms") / "log.parquet"
    pq.write_table(pa.table(table), path)
    return path


EVALUATE = ("--policy", "constant:1", "--gate", "--logger", "fixed", "--quiet")


def test_evaluate_refuses_certified_harm_and_passes_what_is_open(piwo, complained) -> None:
    words = ["evaluate", complained, *EVALUATE]
    harm = piwo(*words, "--guardrail", "complaints<=.02")
    assert harm.code == 1
    assert "gate: complaints <= 0.02: certified harm" in harm.out
    document = piwo(*words, "--guardrail", "complaints<=.02", "--json").document
    (one,) = document["policies"]
    assert one["guardrails"][0]["answer"] == "harmful"
    assert document["gate"]["passed"] is False
    assert len(document["gate"]["refused"]["constant:1"]) == 2


def test_evaluate_says_what_is_not_certified_harmless(piwo, tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    rows = "".join(f"{'ab'[i % 2]},{i % 2},0.5,{(i % 20 == 1) * 1}\n" for i in range(800))
    log.write_text("action,reward,propensity,bad\n" + rows)
    words = ["evaluate", log, "--policy", "constant:b", "--gate", "--quiet"]
    passed = piwo(*words, "--at-least", ".8", "--guardrail", "bad<=.12")
    assert (passed.code, passed.err) == (0, "")
    assert "gate: passed, worth at least 0.8" in passed.out
    assert "gate: constant:b: bad <= 0.12: not certified harmless (between" in passed.out
    assert "; this does not refuse, as certified harm would" in passed.out
    said = piwo(*words, "--guardrail", "bad<=.12", "--json").document["gate"]
    assert said["passed"] is True
    assert [one.partition(" (")[0] for one in said["open"]] == [
        "constant:b: bad <= 0.12: not certified harmless"
    ]
    missed = piwo(*words, "--at-least", ".999")
    assert missed.code == 1
    why = "not certified to be worth at least 0.999, by the lower end of the interval"
    assert f"gate: {why}: constant:b" in missed.out
    relative = piwo(*words, "--guardrail", "bad<=logger", "--guardrail", "bad<=logger+.5")
    assert "bad <= logger + 0.5: certified within the limit (difference between" in relative.out
    assert "delta 0.05 is shared equally with the guardrails" in relative.out


def test_learn_keeps_the_old_file_if_a_guardrail_is_broken(piwo, complained, tmp_path) -> None:
    out = tmp_path / "new.piwo"
    words = [
        "learn",
        complained,
        "--context",
        "*",
        "--outcomes",
        "again",
        "--oracle",
        "ridge",
        "--gamma",
        ".1",
    ]
    words += ["--out", out, "--gate", "--quiet", "--at-least", ".5"]
    passed = piwo(*words, "--guardrail", "complaints<=.2")
    assert (passed.code, passed.err) == (0, "")
    assert "guardrail    complaints <= 0.2: certified within the limit" in passed.out
    assert "gate: passed, worth at least 0.5" in passed.out
    kept = library.policies.load_with_metadata(out).metadata["certificate"]
    # the policy did not see the complaints
    assert library.load(out).features.columns == ("x",)
    assert kept["delta"] == 0.025
    assert [one["answer"] for one in kept["guardrails"]] == ["harmless"]
    assert "complaints <= 0.2" in piwo("policy", "show", out).out
    before = out.read_bytes()
    refused = piwo(*words, "--guardrail", "complaints<=.005", "--json")
    assert refused.code == 1
    assert out.read_bytes() == before
    assert "certified harm" in refused.document["gate"]["refused"][0]
    low = piwo(*words[:-1], ".9")
    assert low.code == 1
    assert "gate: its value is not certified to be at least 0.9" in low.out


@pytest.mark.parametrize("oracle", ["auto", "ridge"])
def test_guardrails_rest_on_the_rows_and_the_penalty_of_the_certificate(
    piwo, complained, tmp_path, oracle: str
) -> None:
    """A copy of the reward as outcome has the lower bound of the value, whichever half it is on."""
    words = ["learn", complained, "--context", "x", "--out", tmp_path / "a.piwo", "--gate"]
    words += ["--oracle", oracle, "--guardrail", "again<=.999", "--json", "--quiet"]
    certificate = piwo(*words).document["certificate"]
    (one,) = certificate["guardrails"]
    assert (certificate["share"] is None) == (oracle == "ridge")
    assert one["lower"] == pytest.approx(certificate["value_lower"], abs=1e-9)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--at-least", ".5"], "--at-least got 0.5 without --gate"),
        (["--guardrail", "complaints<=.1"], "without --gate, which asks for it"),
        (["--gate", "--guardrail", "complaints"], "--guardrail got 'complaints', expected text"),
        (["--gate", "--at-least", "2"], "--at-least is 2.0, expected a value in the reward range"),
        (["--gate", "--guardrail", "nope<=.1"], "no column 'nope' for the outcome"),
        (["--gate", "--guardrail", "x<=.1"], "'x' is an outcome (--outcomes) and has another"),
        (
            ["--gate", "--oracle", "gibbs", "--guardrail", "complaints<=.1"],
            "use another --oracle than pac-bayes and gibbs",
        ),
    ],
)
def test_wrong_terms_are_one_line(piwo, complained, tmp_path, words, said: str) -> None:
    done = piwo("learn", complained, "--context", "x", "--out", tmp_path / "a.piwo", *words)
    assert (done.code, done.err.count("\n")) == (2, 1)
    assert said in done.err
    assert not (tmp_path / "a.piwo").exists()


def test_action_costs_on_the_command_line(piwo, complained, tmp_path: Path) -> None:
    words = ["evaluate", complained, "--policy", "constant:1", "--quiet", "--action-cost"]
    free = piwo(*words[:-1], "--json").document
    found = piwo(*words, "0=0,1=.25")
    assert (found.code, found.err) == (0, "")
    assert "reward, net of action costs, in [-0.25, 1]" in found.out
    assert "net of costs: every reward is the logged one less the cost of its action" in found.out
    assert "--action-cost 0=0,1=.25" in " ".join(found.next)
    net = piwo(*words, "0=0,1=.25", "--json").document
    assert net["log"]["action_cost"] == {"0": 0.0, "1": 0.25}
    (one,), (other,) = free["policies"], net["policies"]
    weight = one["mean_weight"]
    assert other["value"] == pytest.approx(one["value"] - 0.25 * weight)
    listed = tmp_path / "costs.txt"
    listed.write_text("0=0\n1=.25\n")
    from_file = piwo(*words, f"@{listed}", "--json").document["policies"][0]
    assert from_file["value"] == other["value"]
    for text, said in (
        ("0=0", "--action-cost has no cost for 1 of the 2 actions (1)"),
        ("0=0,1", "--action-cost got '1', expected LABEL=COST"),
        ("fee", "no column 'fee' for the action cost"),
        ("x", "column 'x' has an action cost outside the declared range [0, 1] in"),
        ("0=0,1=x", "--action-cost got 'x', expected a number"),
        ("0=0,0=1,1=0", "--action-cost names '0' twice"),
        ("@nowhere", "--action-cost: 'nowhere' cannot be read"),
    ):
        wrong = piwo(*words, text)
        assert (wrong.code, wrong.err.count("\n")) == (2, 1)
        assert said in wrong.err


def test_a_column_of_costs_on_the_command_line(piwo, complained) -> None:
    words = ["evaluate", complained, "--policy", "constant:1", "--quiet", "--action-cost"]
    words += ["complaints", "--action-cost-range", "0,2"]
    found = piwo(*words)
    assert (found.code, found.err) == (0, "")
    assert "reward, net of action costs, in [-2, 1]" in found.out
    assert "--action-cost complaints --action-cost-range 0,2" in " ".join(found.next)
    document = piwo(*words, "--json").document
    assert document["log"]["action_cost"] == {"column": "complaints", "range": [0.0, 2.0]}
    table = pq.read_table(complained)
    log = library.read(table, action_cost="complaints", action_cost_range=(0, 2))
    theirs = library.evaluate(log, library.policies.Constant(1, log.actions))
    assert document["policies"][0]["lower"] == pytest.approx(theirs.lower, abs=1e-12)
    for text, said in (
        ("0", "--action-cost-range got '0', expected LO,HI"),
        ("1,0", "--action-cost-range is (1.0, 0.0), expected (lo, hi)"),
    ):
        wrong = piwo(*words[:-1], text)
        assert (wrong.code, wrong.err.count("\n")) == (2, 1)
        assert said in wrong.err


def test_guardrails_and_costs_with_estimated_propensities(piwo, complained) -> None:
    words = ["evaluate", complained, "--context", "x", "--policy", "constant:1", "--quiet"]
    words += ["--estimate-propensities", "folds", "--action-cost", "0=0,1=.25"]
    done = piwo(*words, "--guardrail", "complaints<=.3")
    assert (done.code, done.err) == (0, "")
    assert "net of action costs" in done.out
    assert "complaints <= 0.3: certified within the limit" in done.out


@pytest.fixture(scope="module")
def abroad(complained, tmp_path_factory) -> Path:
    """The same with a column of countries, of which one is missing and one is hostile."""
    table = pq.read_table(complained)
    names = np.random.default_rng(1).choice(["DE", "x\x1b[31m"], table.num_rows, p=[0.7, 0.3])
    path = tmp_path_factory.mktemp("segments") / "log.parquet"
    column = pa.array([None, *names[1:].tolist()])
    pq.write_table(table.append_column("country", column), path)
    return path


def test_results_by_segment_on_the_command_line(piwo, abroad) -> None:
    words = ["evaluate", abroad, "--policy", "constant:1", "--quiet", "--by", "country"]
    words += ["--interval", "mixture"]
    found = piwo(*words)
    assert (found.code, found.err) == (0, "")
    assert "actions today -> then" in found.out
    assert "x\\x1b[31m  constant:1" in found.out
    assert "(missing)" in found.out
    assert "by 'country': 3 segments, each at delta 0.01667" in found.out
    assert "note: constant:1, country is missing: the effective sample size is" in found.out
    (document,) = piwo(*words, "--json").document["policies"]
    log = library.read(pq.read_table(abroad), segments="country")
    policy = library.policies.Constant(1, log.actions)
    theirs = library.evaluate(log, policy, by="country", interval="mixture")
    assert document["segments"] == [one.to_dict() for one in theirs.segments]
    assert [one["label"] for one in document["segments"]] == ["DE", "x\x1b[31m", None]
    for column, said in (
        ("reward", "results cannot be split by 'reward', which depends on what was decided"),
        ("contry", "no column 'contry' for the segments; did you mean 'country'"),
        ("x", "column 'x' holds numbers that are not whole"),
    ):
        wrong = piwo("evaluate", abroad, "--policy", "uniform", "--by", column)
        assert (wrong.code, wrong.err.count("\n")) == (2, 1)
        assert said in wrong.err


def test_a_learned_policy_by_segment_on_the_command_line(piwo, abroad, tmp_path) -> None:
    out = tmp_path / "a.piwo"
    words = ["learn", abroad, "--context", "x", "--out", out, "--quiet", "--by", "country"]
    words += ["--oracle", "ridge", "--gamma", ".1"]
    done = piwo(*words)
    assert (done.code, done.err) == (0, "")
    assert "  segment      country 'DE' (" in done.out
    kept = piwo("policy", "show", out, "--json").document["certificate"]
    made = library.Certificate.from_dict(kept)
    assert sum(one.rows for one in made.segments) == made.rows
    log = library.read(pq.read_table(abroad), context="x", segments="country")
    policy = library.load(out)
    theirs = library.learners.segments_of_learned("country", log, policy, made)
    assert made.segments == theirs
    for more, said in (
        (["--oracle", "gibbs"], "--by got 'country', which takes a policy certified on held-out"),
        (["--by", "x"], "column 'x' holds numbers that are not whole"),
    ):
        wrong = piwo(*words[:6], "--by", "country", *more)
        if "--by" in more:
            wrong = piwo(*words[:6], *more)
        assert (wrong.code, wrong.err.count("\n")) == (2, 1)
        assert said in wrong.err


def test_a_report_has_what_was_asked(piwo, abroad, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    words = ["report", abroad, "--policy", "constant:1", "--out", out, "--quiet"]
    words += ["--guardrail", "complaints<=.02", "--at-least", ".3", "--by", "country"]
    done = piwo(*words, "--json")
    assert (done.code, done.err) == (0, "")
    text = out.read_text()
    assert "value at least 0.3" in text
    assert "<strong>certified harm</strong>" in text
    typed = (
        "--policy constant:1 --at-least=0.3 &#39;--guardrail=complaints&lt;=.02&#39; --by=country"
    )
    assert typed in text
    assert "The bounds of all 3 segments hold together" in text
    assert done.document["decision"]["verdict"] == "keep"
    assert done.document["decision"]["policy"] == "constant:1"
    (document,) = done.document["policies"]
    assert document["guardrails"][0]["answer"] == "harmful"
    assert len(document["segments"]) == 3
