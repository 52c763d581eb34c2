"""`piwo learn`: learns, certifies, saves; and what it saved acts in another process."""

import csv
import io
import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

import piwo as library

CONTEXT = ("--context", "user x,shop")
OPEN_BANDIT = ("--action", "item_id", "--reward", "click", "--propensity", "propensity_score")


def act_elsewhere(*words: object) -> list[dict[str, str]]:
    """What `piwo policy act` prints in a new process."""
    command = [sys.executable, "-m", "piwo", "policy", "act", *map(str, words)]
    done = subprocess.run(command, capture_output=True, text=True, encoding="utf-8", check=True)
    return list(csv.DictReader(io.StringIO(done.stdout)))


@pytest.mark.parametrize("oracle", ["classifier", "ridge"])
def test_learn_certify_save_and_act_in_a_new_process(
    piwo, learnable: Path, roles, oracle, tmp_path: Path
) -> None:
    out = tmp_path / "policy.piwo"
    done = piwo("learn", learnable, *roles, *CONTEXT, "--oracle", oracle, "--out", out, "--gate")
    assert (done.code, done.err) == (0, "")
    assert "certified better" in done.out
    assert done.out.splitlines()[-1] == f"next: piwo policy act {out} {learnable} --epsilon 0.05"

    saved = library.policies.load_with_metadata(out)
    certificate = library.Certificate.from_dict(saved.metadata["certificate"])
    assert certificate.certified
    assert certificate.kind == "held-out"
    assert certificate.rows + certificate.training_rows == 3000
    assert saved.metadata["training"]["oracle"] == oracle

    rows = act_elsewhere(out, learnable, "--seed", 0)
    best = pq.read_table(learnable)
    here = saved.policy.act(best, 0)
    assert [row["action"] for row in rows] == list(here.actions)
    assert [float(row["propensity"]) for row in rows] == list(here.propensities)
    x, shop = best["user x"].to_numpy(), best["shop"].to_numpy(zero_copy_only=False)
    right = np.where(x > 0, "apple", np.where(shop == "north", "bread", "01"))
    assert np.mean([row["action"] for row in rows] == right) > 0.8


def test_a_value_on_the_log_of_learning_is_called_in_sample(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    out = tmp_path / "p.piwo"
    piwo("learn", learnable, *roles, *CONTEXT, "--oracle", "ridge", "--out", out)
    words = (*roles, "--policy", out, "--policy", "uniform")
    learned, uniform = piwo("evaluate", learnable, *words, "--json").document["policies"]
    assert learned["notes"][0].startswith("in-sample: ")
    assert not any("in-sample" in note for note in uniform["notes"])
    assert (learned["in_sample"], uniform["in_sample"]) == (True, False)
    told = piwo("evaluate", learnable, *words).out
    assert "in-sample: it was learned from part of this log" in told
    assert "\ndeadline interval of uniform: contains the true value with probability" in told
    alone = piwo("evaluate", learnable, *roles, "--policy", out)
    assert "with probability" not in alone.out
    assert "\nno interval\n" in alone.out


def test_what_is_printed_is_also_json(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    words = (
        "learn",
        learnable,
        *roles,
        *CONTEXT,
        "--oracle",
        "ridge",
        "--out",
        tmp_path / "p.piwo",
        "--json",
    )
    page = piwo(*words).document
    kept = library.policies.load_with_metadata(tmp_path / "p.piwo").metadata
    assert page["certificate"] == kept["certificate"]
    assert page["training"] == kept["training"]
    assert page["training"]["columns"]["context"] == ["user x", "shop"]
    assert page["certificate"]["certified"] is True


@pytest.mark.parametrize(
    ("score", "gamma", "parameter"),
    [
        ("iw", "auto", None),
        ("ix", ".02", 0.02),
        ("clip", ".02", 0.02),
        ("ls-linear", ".02", 0.04),
        ("ix", ".01,.1", None),
    ],
)
def test_every_score(piwo, learnable: Path, roles, score, gamma, parameter, tmp_path: Path) -> None:
    words = ["--score", score, "--gamma", gamma, "--out", tmp_path / "p.piwo", "--json"]
    page = piwo("learn", learnable, *roles, *CONTEXT, *words).document
    assert page["training"]["score"] == score
    if "," in gamma:
        assert page["training"]["parameter"] in (0.01, 0.1)
        assert (
            page["certificate"]["candidates"] == 1
        )  # uniform logger, rewards of 0 and 1: gamma changes nothing
        assert [one["gamma"] for one in page["path"]] == [0.01, 0.1]
    else:
        assert page["training"]["parameter"] == parameter


def skewed(learnable: Path, tmp_path: Path) -> Path:
    """The learnable log with other propensities: rows of one action weigh more."""
    table = pq.read_table(learnable)
    p = np.where(np.array(table["item"]) == "apple", 0.3, 0.35)
    pq.write_table(
        table.set_column(table.column_names.index("p"), "p", pa.array(p)),
        tmp_path / "skewed.parquet",
    )
    return tmp_path / "skewed.parquet"


@pytest.mark.parametrize(
    ("words", "score"), [((), "ls-linear"), (("--score", "ix", "--gamma", "grid"), "ix")]
)
@pytest.mark.parametrize("oracle", ["classifier", "ridge"])
def test_the_grid_is_the_default(
    piwo, learnable: Path, roles, words, score, oracle, tmp_path: Path
) -> None:
    log, out = skewed(learnable, tmp_path), tmp_path / "p.piwo"
    asked = ("learn", log, *roles, *CONTEXT, "--oracle", oracle, *words, "--out", out)
    told, page = piwo(*asked).out.splitlines(), piwo(*asked, "--json").document
    rows = library.read(
        log, action="item", reward="click", propensity="p", context=["user x", "shop"]
    )
    kinds = {"ridge": library.oracles.Ridge, "classifier": library.oracles.Classifier}
    scores = {"ls-linear": library.LSLinear, "ix": library.IX}
    twin = library.PIWOGrid(scores[score](), kinds[oracle]()).fit(rows)

    # one line a gamma, in the terms of the score, the choice marked
    name = scores[score].parameter
    header = next(i for i, line in enumerate(told) if line.split()[1:3] == [name, "value"])
    lines = [line.split() for line in told[header + 1 : header + 1 + len(twin.path_)]]
    own = [point.score.value for point in twin.path_.values()]
    assert [float(line[0]) for line in lines] == pytest.approx(own, rel=1e-3)
    assert [one["parameter"] for one in page["path"]] == own
    assert [float(line[2]) for line in lines] == pytest.approx(
        [x.lower for x in twin.path_.values()], abs=1e-4
    )
    marked = [gamma for gamma, line in zip(twin.path_, lines, strict=True) if line[-1] == "chosen"]
    assert marked == [twin.score_.gamma_equivalent]

    assert page["training"]["score"] == score
    assert page["training"]["parameter"] == twin.score_.value
    assert [one["gamma"] for one in page["path"]] == list(twin.path_)
    assert [one["value_lower"] for one in page["path"]] == [x.lower for x in twin.path_.values()]
    assert [one["gamma"] for one in page["path"] if one["chosen"]] == marked
    # what was saved is the choice, with its certificate
    saved = library.policies.load_with_metadata(out)
    assert (saved.policy.coef == twin.policy_.coef).all()
    kept = library.Certificate.from_dict(saved.metadata["certificate"])
    assert kept.value_lower == max(one["value_lower"] for one in page["path"])
    acted = piwo("policy", "act", out, log, "--seed", 0, "--json").document["decisions"]
    assert [row["action"] for row in acted] == list(twin.policy_.act(pq.read_table(log), 0).actions)


def test_scores_without_a_grid(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    words = ("learn", learnable, *roles, *CONTEXT, "--score", "clip", "--out", tmp_path / "p.piwo")
    assert "sqrt(d/n)" in piwo(*words).out  # the default is auto then
    done = piwo(*words, "--gamma", "grid")
    assert done.code == 2
    assert done.err == (
        "piwo: error: --gamma got 'grid', but only ix, baseline, dr-ls, freezing-linear, "
        "global-clip-linear, ix-reward, ls-linear, log-clip-linear have one; give clip a number, "
        "or auto\n"
    )


def test_the_pseudo_loss_reads_full_vectors(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    table = pq.read_table(learnable)
    log = tmp_path / "full.parquet"
    pq.write_table(table.append_column("mu", pa.array([[1 / 3] * 3] * table.num_rows)), log)
    words = [
        "--propensities",
        "mu",
        "--actions",
        "01,apple,bread",
        "--score",
        "pl",
        "--oracle",
        "ridge",
        "--gamma",
        ".001",
    ]
    done = piwo("learn", log, *roles, *CONTEXT, *words, "--out", tmp_path / "p.piwo", "--json")
    assert done.code == 0, done.err
    assert done.document["training"]["parameter"] == 0.001


def test_the_gate_says_no_to_noise(piwo, tmp_path: Path, roles) -> None:
    rng = np.random.default_rng(1)
    n = 400
    table = {
        "item": rng.integers(0, 3, n),
        "click": rng.integers(0, 2, n),
        "p": np.full(n, 1 / 3),
        "x": rng.normal(size=n),
    }
    pq.write_table(pa.table(table), tmp_path / "noise.parquet")
    words = (
        "learn",
        tmp_path / "noise.parquet",
        *roles,
        "--context",
        "x",
        "--oracle",
        "ridge",
        "--out",
        tmp_path / "p.piwo",
    )
    out = tmp_path / "p.piwo"
    gated = piwo(*words, "--gate")
    assert (gated.code, gated.err) == (1, "")
    assert gated.out.splitlines()[-1] == f"the gate did not pass: {out} was not written"
    assert not out.exists()
    library.policies.Uniform(["a"]).save(out)
    before = out.read_bytes()
    gated = piwo(*words, "--gate")
    assert (gated.code, gated.err) == (1, "")
    assert gated.out.splitlines()[-1] == f"the gate did not pass: kept the old {out}"
    assert out.read_bytes() == before
    assert piwo(*words, "--gate", "--json").document["saved"] is False
    assert piwo(*words).code == 0
    assert out.read_bytes() != before


def test_an_old_file_is_replaced_whole_or_not_at_all(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    out = tmp_path / "p.piwo"
    library.policies.Uniform(["a"]).save(out)
    before = out.read_bytes()
    assert piwo("learn", learnable, *roles, "--context", "nowhere", "--out", out).code == 2
    assert out.read_bytes() == before
    assert piwo("learn", learnable, *roles, *CONTEXT, "--oracle", "ridge", "--out", out).code == 0
    assert out.read_bytes() != before
    assert list(tmp_path.iterdir()) == [out]


@pytest.mark.parametrize("oracle", ["ridge", "classifier"])
def test_the_open_bandit_log(piwo, shared_data: Path, oracle, tmp_path: Path) -> None:
    log, out = shared_data / "obd_bts_all.parquet", tmp_path / "policy.piwo"
    words = ["--context", "user_feature_*,user-item_affinity_*", "--oracle", oracle, "--out", out]
    done = piwo("learn", log, *OPEN_BANDIT, *words, "--gate")
    # 42 clicks in 10,000 rows prove next to nothing, and the certificate says so
    assert done.code == 1
    assert "bounds from so few rewards are weak" in done.out
    assert not out.exists()
    assert piwo("learn", log, *OPEN_BANDIT, *words).code == 0
    certificate = library.policies.load_with_metadata(out).metadata["certificate"]
    assert certificate["value_lower"] < 0.01
    assert certificate["improvement_lower"] <= 0
    assert not certificate["certified"]
    rows = act_elsewhere(out, log, "--seed", 0)
    assert len(rows) == 10_000
    assert {int(row["action"]) for row in rows} <= set(range(80))
    shown = piwo("policy", "show", out, "--json").document
    assert len(shown["context"]) == 84
    assert json.dumps(shown["certificate"]) == json.dumps(certificate)
    assert (
        piwo("evaluate", log, *OPEN_BANDIT, "--policy", out, "--json").document["policies"][0][
            "rows"
        ]
        == 10_000
    )


def test_auto_is_the_default(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    out = tmp_path / "p.piwo"
    small = f"select * from '{learnable}' limit 1200"
    with threadpool_limits(1, "openmp"):  # trees so small only wait for each other's threads
        done = piwo("learn", small, *roles, *CONTEXT, "--out", out, "--gate", "--json")
        again = piwo("learn", small, *roles, *CONTEXT, "--out", tmp_path / "q.piwo", "--refit")
    assert (done.code, again.code) == (0, 0)
    page = done.document
    assert (page["training"]["oracle"], page["training"]["refitted"]) == ("auto", False)
    chosen = [one["candidate"] for one in page["path"] if one["chosen"]]
    assert chosen == [page["training"]["chosen"]]
    certified = [one for one in page["path"] if one["improvement_lower"] > 0]
    assert chosen == [max(certified, key=lambda one: one["standing"])["candidate"]]
    assert (
        f"  {chosen[0]}: the highest estimate, less its standard error, of those certified better"
        in again.out
    )
    assert (
        "nothing is proved for the policy to run (--no-refit keeps the certified one)" in again.out
    )
    assert library.load(out) is not None


def test_the_option_that_keeps_the_certified_policy(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    small = f"select * from '{learnable}' limit 1200"
    out = tmp_path / "p.piwo"
    with threadpool_limits(1, "openmp"):
        done = piwo("learn", small, *roles, *CONTEXT, "--out", out, "--no-refit", "--json")
    assert (done.code, done.err) == (0, "")
    assert done.document["training"]["refitted"] is False


def test_an_oracle_that_uses_no_score_is_recorded_without_one(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    out = tmp_path / "p.piwo"
    words = ("learn", learnable, *roles, *CONTEXT, "--oracle", "direct", "--out", out)
    assert piwo(*words).out.splitlines()[2].endswith(" rows: oracle direct")
    page = piwo(*words, "--json").document
    assert [
        page[part][name] for part in ("certificate", "training") for name in ("score", "parameter")
    ] == [None] * 4
    assert page["training"]["rule"] == "the direct oracle uses no score"
    assert [(one["gamma"], one["chosen"]) for one in page["path"]] == [(None, True)]
    assert page["certificate"]["candidates"] == 1
    for option, given in (("--score", "ix"), ("--gamma", "0.1"), ("--reward-model", "forward")):
        refused = piwo(*words, option, given)
        assert refused.code == 2
        assert (
            f"{option} got '{given}', but the direct oracle uses no score; leave it out"
            in refused.err
        )


@pytest.mark.parametrize("oracle", ["ridge", "classifier"])
def test_an_uncertified_policy_is_handed_over_as_such(
    piwo, tmp_path: Path, roles, oracle: str
) -> None:
    rng = np.random.default_rng(1)
    table = {
        "item": rng.integers(0, 3, 200),
        "click": rng.integers(0, 2, 200),
        "p": np.full(200, 1 / 3),
        "x": rng.normal(size=200),
    }
    pq.write_table(pa.table(table), tmp_path / "noise.parquet")
    out = tmp_path / "p.piwo"
    words = ["learn", tmp_path / "noise.parquet", *roles, "--context", "x", "--out", out]
    done = piwo(*words, "--oracle", oracle)
    assert done.code == 0, done.err
    assert f"saved to {out}: not certified better than the logging policy" in done.out
    assert "  weights      mean " in done.out
    assert ", unsupported 0" in done.out
    page = piwo(*words, "--oracle", oracle, "--json").document
    assert page["certificate"]["certified"] is False
    assert page["certificate"]["unsupported_mass"] == 0.0


def test_auto_says_when_the_logging_policy_stays(piwo, tmp_path: Path, roles) -> None:
    rng = np.random.default_rng(1)
    table = {
        "item": rng.integers(0, 3, 200), "click": rng.integers(0, 2, 200), "p": np.full(200, 1 / 3),
        "x": rng.normal(size=200),
    }  # fmt: skip
    pq.write_table(pa.table(table), tmp_path / "noise.parquet")
    out = tmp_path / "p.piwo"
    words = ["learn", tmp_path / "noise.parquet", *roles, "--context", "x", "--out", out]
    with threadpool_limits(1, "openmp"):
        done = piwo(*words, "--keep", "logger")
    assert done.code == 0, done.err
    assert f"no policy was certified better; keep the current one ({out} records this" in done.out
    assert isinstance(library.load(out), library.policies.Logging)
    with threadpool_limits(1, "openmp"):
        done = piwo(*words, "--json")
    made = done.document["certificate"]
    assert (done.code, made["certified"], made["improvement_lower"]) == (0, False, None)
    assert made["notes"][0].startswith("not proved better than the logging policy; chosen by ")
    assert done.document["training"]["chosen"] == "guarded vote"
    assert len(library.load(out).act(np.zeros((5, 1)), 0).actions) == 5
    told = piwo(*words, "--keep", "me")
    assert (told.code, "--keep got 'me', expected logger" in told.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (
            ("--oracle", "auto", "--score", "ix"),
            "--score got 'ix', but --oracle auto tries several itself",
        ),
        (
            ("--oracle", "auto", "--gamma", "grid"),
            "--gamma got 'grid', but --oracle auto tries several itself",
        ),
        (("--oracle", "ridge", "--refit"), "--refit is for --oracle auto, not for ridge"),
        (
            ("--refit", "--gate"),
            "--gate cannot be combined with --refit, which saves a policy without a certificate",
        ),
    ],
)
def test_what_auto_leaves_no_room_for(
    piwo, learnable: Path, roles, words, says, tmp_path: Path
) -> None:
    done = piwo("learn", learnable, *roles, *CONTEXT, *words, "--out", tmp_path / "p.piwo")
    assert done.code == 2
    assert says in done.err


def test_learning_against_an_incumbent(
    piwo, learnable: Path, roles, tmp_path: Path, monkeypatch
) -> None:
    """What was learned already cannot be beaten; one action for all can."""
    few = (library.learners.Candidate("ridge", library.oracles.Ridge(), library.IX(0.1)),)
    monkeypatch.setattr("piwo.learners.auto.default_pool", lambda _: few)
    out, old, early, other = (
        tmp_path / x for x in ("p.piwo", "old.piwo", "early.parquet", "later.parquet")
    )
    pq.write_table(pq.read_table(learnable).slice(0, 1500), early)
    pq.write_table(pq.read_table(learnable).slice(1500), other)
    assert piwo("learn", early, *roles, *CONTEXT, "--oracle", "ridge", "--out", old).code == 0
    words = ["learn", other, *roles, *CONTEXT, "--out", out, "--baseline"]
    stays = piwo(*words, old)
    assert (stays.code, stays.err) == (0, "")
    assert (
        "incumbent: none of 2 different policies (1 from one part of the rows, 1 from the other) "
        "is certified" in stays.out
    )
    assert "no policy was certified better: saved the incumbent to" in stays.out
    assert piwo(*words, old, "--gate").code == 1
    better = piwo(*words, "constant:bread", "--gate")
    assert (better.code, better.err) == (0, "")
    assert "over the baseline incumbent" in better.out
    refused = piwo("learn", early, *words[2:], old, "--gate")
    assert (refused.code, "no gain over it is certified" in refused.err) == (1, True)
    told = piwo(*words, old, "--oracle", "ridge")
    assert told.code == 2
    assert "--baseline is for --oracle auto, not for ridge" in told.err


def test_rewards_predicted_by_a_model_that_is_fitted_first(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    table = pq.read_table(learnable)
    log, out = tmp_path / "full.parquet", tmp_path / "p.piwo"
    pq.write_table(table.append_column("mu", pa.array([[1 / 3] * 3] * table.num_rows)), log)
    words = [
        "learn",
        log,
        *roles,
        *CONTEXT,
        "--propensities",
        "mu",
        "--actions",
        "apple,bread,01",
        "--out",
        out,
    ]
    words += ["--oracle", "ridge", "--score"]
    done = piwo(*words, "dr-ls", "--reward-model", "forward", "--gate", "--json")
    assert (done.code, done.err) == (0, "")
    assert (
        "q fitted forward, for each row on earlier training rows"
        in done.document["training"]["rule"]
    )
    assert done.document["certificate"]["bound"] == "deadline-cv"
    grid = piwo(*words, "dr-ls", "--reward-model", "forward", "--gamma", "grid", "--json").document
    assert len(grid["path"]) > 5
    for more, said in (
        (["ix", "--reward-model", "forward"], "IX takes no reward model"),
        (
            ["dr-ls", "--reward-model", "backward"],
            "--reward-model got 'backward', expected forward",
        ),
    ):
        told = piwo(*words, *more)
        assert told.code == 2
        assert said in told.err


@pytest.mark.parametrize("oracle", ["pac-bayes", "gibbs"])
def test_a_mixture_drawn_from_a_posterior(
    piwo, learnable: Path, roles, oracle, tmp_path: Path
) -> None:
    if oracle == "gibbs":
        pytest.importorskip("nutpie", reason="sampling needs the extra piwo[sampler]")
    out = tmp_path / "policy.piwo"
    words = (*roles, *CONTEXT, "--oracle", oracle, "--out", out, "--seed", 3)
    done = piwo("learn", learnable, *words, "--gate", "--json")
    assert done.code == 0
    made, training = done.document["certificate"], done.document["training"]
    assert (made["certified"], made["delta"], training["oracle"]) == (True, 0.05, oracle)
    (tried,) = done.document["path"]
    assert (tried["chosen"], tried["value_lower"]) == (True, made["value_lower"])
    if oracle == "gibbs":
        assert (made["kind"], training["chains"]["divergences"]) == ("held-out", 0)
        assert training["chains"]["rhat"] < 1.05
    else:
        log = library.read(
            learnable, action="item", reward="click", propensity="p", context=["user x", "shop"]
        )
        twin = library.PACBayesLinear(delta=0.1, random_state=3).fit(log)
        assert (made["kind"], made["bound"]) == ("in-sample", "PAC-Bayes")
        assert made["value_lower"] == twin.certificate_.value_lower
    acted = library.load(out).act(pq.read_table(learnable), 0).propensities
    rows = act_elsewhere(out, learnable, "--seed", 0)
    assert [float(row["propensity"]) for row in rows] == pytest.approx(list(acted), rel=1e-12)
    text = piwo("policy", "show", out).out
    assert "mixture" in text


def test_what_is_said_of_a_posterior(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    done = piwo(
        "learn", learnable, *roles, *CONTEXT, "--oracle", "pac-bayes", "--out", tmp_path / "p.piwo"
    )
    first, second, third, *_ = done.out.splitlines()[2:]
    assert first == "learned from 3,000 rows: score ls-linear, oracle normal posterior, softmax"
    assert "for the certificate; posterior fitted at lam = 2 sqrt(d/n)" in second
    assert third == "in-sample certificate, PAC-Bayes bound, delta 0.05"


def test_what_posteriors_do_not_take(piwo, learnable: Path, roles, tmp_path: Path) -> None:
    words = (*roles, *CONTEXT, "--out", tmp_path / "p.piwo")
    for options, message in (
        (("--oracle", "gibbs", "--gamma", "grid"), "gibbs samples one posterior"),
        (("--oracle", "gibbs", "--gamma", "0.1,0.2"), "several hyper-parameters"),
        (("--oracle", "pac-bayes", "--delta", "0.5"), "below 0.5"),
        (("--oracle", "pac-bayes", "--delta", "nan"), "below 0.5"),
        (("--oracle", "pac-bayes", "--delta", "-1"), "below 0.5"),
        (("--oracle", "pac-bayes", "--score", "clip"), "has no PAC-Bayes bound"),
        (("--oracle", "pac-bayes", "--score", "dr-ls"), "has no PAC-Bayes bound"),
        (("--oracle", "gibbs", "--refit"), "--refit is for --oracle auto, not for gibbs"),
        (("--oracle", "pacbayes"), "expected one of auto, pac-bayes, gibbs"),
    ):
        done = piwo("learn", learnable, *words, *options)
        assert done.code == 2, options
        assert message in done.err
        assert done.err.count("\n") == 1


def test_candidates_that_are_one_policy_say_so(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    words = [
        "learn",
        learnable,
        *roles,
        *CONTEXT,
        "--oracle",
        "ridge",
        "--out",
        tmp_path / "p.piwo",
    ]
    page, shown = piwo(*words, "--json").document, piwo(*words).out
    same = [one["same_as"] for one in page["path"]]
    assert same[0] is None
    again = sum(x is not None for x in same)
    assert page["certificate"]["candidates"] == len(same) - again
    assert again > 0
    assert shown.count("  the same policy as lam ") == again
    assert shown.count("<- chosen") == 1


def test_the_table_of_a_path_is_in_the_terms_of_the_score(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    words = [
        "learn",
        learnable,
        *roles,
        *CONTEXT,
        "--oracle",
        "ridge",
        "--out",
        tmp_path / "p.piwo",
    ]
    told, page = piwo(*words).out, piwo(*words, "--json").document
    (chosen,) = (one for one in page["path"] if one["chosen"])
    assert chosen["parameter"] == 2 * chosen["gamma"] == page["training"]["parameter"]
    both = f"lam = {chosen['parameter']:.4g} (gamma {chosen['gamma']:.4g})"
    assert f"\n  smoothing {both}, so that no row counts too much; " in told
    assert "\n  smoothing lam  " in told
    (row,) = (line for line in told.splitlines() if "<- chosen" in line)
    assert row.split()[0] == f"{chosen['parameter']:.4g}"


@pytest.mark.parametrize("oracle", ["ridge", "auto"])
def test_a_policy_that_is_not_certified_is_shown_rather_than_run(
    piwo, tmp_path: Path, oracle: str
) -> None:
    log, out = tmp_path / "log.csv", tmp_path / "p.piwo"
    rng = np.random.default_rng(0)
    table = {"x": rng.normal(size=300), "a": rng.integers(0, 2, 300), "r": rng.integers(0, 2, 300)}
    rows = [f"{x:.3f},{a},{r},0.5" for x, a, r in zip(*table.values(), strict=True)]
    log.write_text("\n".join(["x,action,reward,propensity", *rows]), encoding="utf-8")
    done = piwo("learn", log, "--oracle", oracle, "--context", "x", "--out", out)
    assert done.out.startswith("Keep today's system: ")
    assert done.out.splitlines()[-1] == f"next: piwo policy show {out}"


def test_no_command_is_proposed_that_does_not_read_lines_of_vowpal_wabbit(
    piwo, tmp_path: Path
) -> None:
    log, out = tmp_path / "log.vw", tmp_path / "p.piwo"
    rng = np.random.default_rng(0)
    lines = []
    for _ in range(400):
        age, action = int(rng.integers(2)), int(rng.integers(1, 3))
        lines.append(f"{action}:{-int(age + 1 == action)}:0.5 |user age:{age}\n")
    log.write_text("".join(lines), encoding="utf-8")
    typed = ["--oracle", "ridge", "--context", "user/age", "--logger", "fixed"]
    done = piwo("learn", log, *typed, "--out", out)
    assert done.code == 0
    assert done.out.splitlines()[-1] == f"next: piwo policy show {out}"
    refused = piwo("policy", "act", out, log)
    assert refused.code == 2
    assert "expected a table; write it as one first: piwo convert" in refused.err


def test_learn_says_on_which_rows_its_numbers_rest(piwo, learnable, roles, tmp_path: Path) -> None:
    ran = piwo("learn", learnable, *roles, *CONTEXT, "--out", tmp_path / "p.piwo")
    (line,) = [x for x in ran.out.splitlines() if x.startswith("  estimates in the table are from")]
    assert "both parts, each judging what was learned on the other" in line


def test_the_next_line_of_features_by_row_names_their_column(piwo, tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    with (tmp_path / "log.jsonl").open("w", encoding="utf-8") as lines:
        for _ in range(2000):
            hunger, prices, k = float(rng.choice([-1, 1])), rng.normal(size=2), rng.integers(2)
            row = {
                "hunger": hunger,
                "could": ["soup", "tea"],
                "offers": [{"price": x} for x in prices.tolist()],
                "action": ["soup", "tea"][k],
                "propensity": 0.5,
                "reward": int(hunger * prices[k] < 0),
            }
            lines.write(json.dumps(row) + "\n")
    words = ["log.jsonl", "--eligible", "could", "--items", "offers"]
    out = tmp_path / "p.piwo"
    learning = ["--context", "hunger", "--oracle", "joint-ridge", "--out", out, "--gate"]
    done = piwo("learn", *words, *learning)
    assert done.code == 0
    following = done.out.splitlines()[-1].removeprefix("next: piwo ").split()
    assert following == ["policy", "act", str(out), *words, "--epsilon", "0.05"]
    assert piwo(*following).code == 0
    message = "features of items that change by row"
    for without in (
        ["policy", "act", out, "log.jsonl", "--eligible", "could"],
        ["evaluate", *words[:3], "--context", "hunger", "--policy", out],
    ):
        done = piwo(*without)
        assert done.code == 2
        assert message in done.err
        assert "(--items, next to --eligible)" in done.err
