"""What `piwo learn` saves beside a policy is read again by all that show it."""

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library


@pytest.fixture
def rare(tmp_path: Path) -> Path:
    """Two hundred rows of which four are rewarded: a posterior stays near its prior."""
    rng = np.random.default_rng(0)
    x, item = rng.normal(size=200), rng.integers(0, 3, 200)
    click = np.arange(200) % 50 == 0
    table = pa.table({"item": item, "click": click * 1, "p": np.full(200, 1 / 3), "x": x})
    pq.write_table(table, tmp_path / "rare.parquet")
    return tmp_path / "rare.parquet"


def test_a_price_below_nothing_is_shown(piwo, rare: Path, roles, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    out, page, prices = tmp_path / "p.piwo", tmp_path / "page.html", []
    for seed in (0, 1):
        words = (
            "--context",
            "x",
            "--actions",
            "0,1,2",
            "--oracle",
            "pac-bayes",
            "--seed",
            seed,
            "--out",
            out,
        )
        made = piwo("learn", rare, *roles, *words, "--json").document["certificate"]
        prices.append(made["log_ratio"])
        assert made["kl"] >= 0
        shown = piwo("policy", "show", out)
        assert shown.code == 0, shown.err
        assert (
            f"a mean log-ratio of {made['log_ratio']:.4g} to the prior over its draws" in shown.out
        )
        assert piwo("policy", "show", out, "--json").document["certificate"] == made
    assert min(prices) < 0 < max(prices)
    done = piwo("report", rare, *roles, "--policy", out, "--out", page)
    assert done.code == 0, done.err
    assert f"a mean log-ratio of {prices[-1]:.4g} to the prior" in page.read_text("utf-8")


@pytest.mark.parametrize("oracle", ["ridge", "auto"])
def test_every_kind_is_shown(
    piwo, learnable: Path, roles, oracle, tmp_path: Path, monkeypatch
) -> None:
    pytest.importorskip("jinja2")
    few = (library.learners.Candidate("ridge", library.oracles.Ridge(), library.IX(0.1)),)
    monkeypatch.setattr("piwo.learners.auto.default_pool", lambda _: few)
    out, page = tmp_path / "p.piwo", tmp_path / "page.html"
    small = f"select * from '{learnable}' limit 600"
    done = piwo(
        "learn", small, *roles, "--context", "user x", "--oracle", oracle, "--out", out, "--json"
    )
    made = done.document["certificate"]
    assert piwo("policy", "show", out, "--json").document["certificate"] == made
    assert f"{made['bound']} bound" in piwo("policy", "show", out).out
    done = piwo("report", small, *roles, "--policy", out, "--out", page)
    assert done.code == 0, done.err
    assert made["log_digest"] in page.read_text("utf-8")


OLD_NOTE = (
    "the certificate is of the policy learned from 300 rows; the one to run was learned again "
    "from all of them, and nothing is proved of that one (refit=False keeps the certified)"
)


def test_whose_certificate_it_is(piwo, learnable: Path, roles, tmp_path: Path, monkeypatch) -> None:
    """The policy saved was learned again: its file, and all that show it, call another one
    certified."""
    pytest.importorskip("jinja2")
    few = (library.learners.Candidate("ridge", library.oracles.Ridge(), library.IX(0.1)),)
    monkeypatch.setattr("piwo.learners.auto.default_pool", lambda _: few)
    again, gated, page = tmp_path / "again.piwo", tmp_path / "gated.piwo", tmp_path / "page.html"
    words = ("learn", learnable, *roles, "--context", "user x,shop", "--json", "--out")
    made = piwo(*words, again).document["certificate"]
    other = piwo(*words, gated, "--gate").document["certificate"]
    assert made["improvement_lower"] == other["improvement_lower"] > 0
    assert (made["certified"], other["certified"], other["about"]) == (None, True, None)
    rows = made["training_rows"]
    about = (
        f"the policy learned from {rows:,} of 3,000 rows, not the one to run, which was learned "
        "again from all of them"
    )
    assert made["about"] == about

    shown = piwo("policy", "show", again)
    assert f"\n  about        {about}\n" in shown.out
    assert "the logging policy (" in shown.out
    assert "): the policy above is certified better" in shown.out
    assert "): certified better" in piwo("policy", "show", gated).out
    assert piwo("policy", "show", again, "--json").document["certificate"] == made
    piwo("report", learnable, *roles, "--policy", again, "--policy", gated, "--out", page)
    first, second = page.read_text("utf-8").split("<summary>Certificate of ")[1:]
    assert f"This certificate is about another policy: {about}" in first
    assert ": Certified better" not in first
    assert ": Certified better" in second

    # a file from before `about`
    old = {key: value for key, value in made.items() if key not in {"about", "log_ratio"}}
    policy = library.load(again)
    policy.save(again, metadata={"certificate": {**old, "certified": True, "notes": [OLD_NOTE]}})
    found = piwo("policy", "show", again, "--json").document["certificate"]
    assert found["certified"] is None
    assert found["about"].startswith(
        "the policy learned from 300 rows; the one to run was learned again"
    )
    assert "the policy above is certified better" in piwo("policy", "show", again).out


def test_a_report_claims_nothing_of_policies_made_from_its_rows(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    """The headline, the picture and the table are about the others; the page is grey, and says
    why, for these."""
    pytest.importorskip("jinja2")
    out, page = tmp_path / "p.piwo", tmp_path / "page.html"
    piwo("learn", learnable, *roles, "--context", "user x,shop", "--oracle", "ridge", "--out", out)
    words = ("report", learnable, *roles, "--policy", out, "--out", page)
    (made,) = piwo(*words, "--json").document["policies"]
    assert (made["in_sample"], made["certified"], made["guarantee"]) == (True, False, "none")
    assert {
        made[x]
        for x in ("lower", "upper", "lower_raw", "upper_raw", "improvement_lower", "log_e_better")
    } == {None}
    alone = page.read_text("utf-8")
    assert "No interval is given" in alone
    assert "with probability at least" not in alone
    assert 'class="row better"' not in alone
    assert 'class="row open"' not in alone
    assert 'class="row unproved"' in alone
    assert "Cannot be told: the policies were learned from these rows" in alone
    shared, certificate = alone.split("<summary>Certificate of ")
    assert ": Certified better" in certificate
    assert "in-sample: it was learned from part of this log" in shared
    piwo(*words, "--policy", "uniform", "--policy", "constant:apple")
    text = page.read_text("utf-8")
    assert len(re.findall(r'class="row (better|open|worse)"', text)) == 2
    assert text.count('class="row unproved"') == 1
    assert text.count("narrower intervals are possible") == 1
    assert "(propensities)" not in text


def test_a_report_compares_with_a_baseline(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    page = tmp_path / "page.html"
    words = (
        learnable,
        *roles,
        "--policy-column",
        "greedy",
        "--policy",
        "uniform",
        "--baseline",
        "uniform",
    )
    made = piwo("report", *words, "--out", page, "--json").document["policies"]
    assert made == piwo("evaluate", *words, "--json").document["policies"]
    assert "than the baseline uniform" in page.read_text("utf-8")
