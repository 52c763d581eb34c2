"""Every claim can hold, can fail, and can be left open; the page says what was found."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyarrow import csv

from experiments.claims import CLAIMS, check_claims, summary_table, write_summary
from piwo.errors import UsageError

STAR = np.sqrt(16 / 810_000)
GRID = np.logspace(-10, 0, 20)
NEAREST = GRID[np.argmin(np.abs(np.log(GRID / STAR)))]
ETA = np.logspace(-1, 3, 20)[12]  # 33.6

IX_BEST, IX_LOGGER, CLIP_NEAR, CLIP_ALL, PL_FALLS, PL_BELOW, LARGER_MEAN, LARGER_EACH, LS = range(9)


def holds(tables, star=STAR):
    return check_claims(*tables, star)["holds"].to_pylist()


def changed(paper_shape, change):
    """A shape like the paper's, moved by what `change` returns (None: not at all)."""

    def shape(name, algorithm, eta, h):
        return paper_shape(name, algorithm, eta, h) + (change(name, algorithm, eta, h) or 0.0)

    return shape


def test_every_claim_holds_on_results_like_the_papers(fabricate):
    table = check_claims(*fabricate(), STAR)
    assert table.column_names == ["claim", "holds", "evidence", "rule"]
    assert table["holds"].to_pylist() == [True] * len(CLAIMS)
    assert all(
        text.endswith(".")
        for name in ("claim", "evidence", "rule")
        for text in table[name].to_pylist()
    )


def at(algorithm, where):
    """A change of one algorithm, good loggers, where `where(eta, h)`."""
    return lambda name, found, eta, h: name == "good" and found == algorithm and where(eta, h)


NEAR = lambda h: STAR / 10 <= h <= STAR * 10  # noqa: E731
HERE = lambda eta, h: np.isclose(eta, ETA) and np.isclose(h, NEAREST)  # noqa: E731


# What goes wrong, and the claims that must fail; all others must still hold.
BROKEN = {
    "one gamma near sqrt(d/n) is bad with one logger": (
        lambda *cell: -0.05 * at("PIWO-IX", HERE)(*cell),
        {IX_BEST, IX_LOGGER, CLIP_NEAR, CLIP_ALL},
    ),
    "a far gamma is better than all near ones": (
        lambda *cell: (
            0.05 * (cell[1] != "PIWO-PL" and cell[0] == "good" and cell[2] < 1 and cell[3] <= 1e-9)
        ),
        {IX_BEST},
    ),
    "no gamma comes up to the logger": (
        lambda name, algorithm, eta, h: -0.05 * (name == "good" and eta > 100),
        {IX_LOGGER},
    ),
    "no gamma comes up to the best fixed action": (
        lambda name, algorithm, eta, h: -0.2 * (name == "good" and eta < 1),
        {IX_LOGGER},
    ),
    "Clip differs near sqrt(d/n)": (
        lambda *cell: -0.05 * at("PIWO-Clip", HERE)(*cell),
        {CLIP_NEAR, CLIP_ALL},
    ),
    "Clip differs far from it": (
        lambda *cell: 0.05 * at("PIWO-Clip", lambda eta, h: eta < 0.2 and h < 2e-10)(*cell),
        {CLIP_ALL},
    ),
    "PL does not fall at one logger past 30": (
        lambda *cell: 0.23 * at("PIWO-PL", lambda eta, h: np.isclose(eta, 1000))(*cell),
        {PL_FALLS, PL_BELOW},
    ),
    "one beta saves PL": (
        lambda *cell: (
            0.12 * at("PIWO-PL", lambda eta, h: np.isclose(eta, 1000) and h < 2e-10)(*cell)
        ),
        {PL_BELOW},
    ),
    "PL was never better": (
        lambda *cell: -0.3 * at("PIWO-PL", lambda eta, h: eta < 30)(*cell),
        {PL_FALLS},
    ),
    "one bad logger gains by a larger gamma": (
        lambda name, algorithm, eta, h: (
            0.2 * (name == "bad" and np.isclose(eta, 1000) and h > 1e-7 and h < 1e-3)
        ),
        {LARGER_EACH},
    ),
    "all bad loggers gain by a larger gamma": (
        lambda name, algorithm, eta, h: 0.05 * (name == "bad" and h > 1e-7),
        {LARGER_MEAN, LARGER_EACH},
    ),
    "LS is behind near sqrt(d/n), with one logger": (
        lambda *cell: -0.02 * at("PIWO-LS", HERE)(*cell),
        {LS},
    ),
    "LS is behind far from it": (
        lambda *cell: -0.2 * at("PIWO-LS", lambda eta, h: not NEAR(h))(*cell),
        set(),
    ),
    "LS is behind by less than matters": (lambda *cell: -0.007 * at("PIWO-LS", HERE)(*cell), set()),
}


@pytest.mark.parametrize("what", BROKEN)
def test_a_claim_fails_where_it_should(fabricate, paper_shape, what):
    change, failing = BROKEN[what]
    found = holds(fabricate(changed(paper_shape, change)))
    assert {i for i, held in enumerate(found) if held is False} == failing


def test_gamma_that_does_not_matter_with_bad_loggers_is_not_worse(fabricate):
    found = holds(fabricate(lambda name, algorithm, eta, h: 0.6))
    assert (found[LARGER_MEAN], found[LARGER_EACH]) == (False, True)


def test_ls_behind_within_its_noise_is_not_behind(fabricate, paper_shape):
    shape = changed(paper_shape, lambda name, algorithm, eta, h: -0.012 * (algorithm == "PIWO-LS"))
    assert holds(fabricate(shape))[LS] is False
    assert holds(fabricate(shape, etas=[ETA], own_noise=0.05))[LS] is True


@pytest.mark.parametrize(
    ("lacking", "left_open", "because"),
    [
        ({"sets": ["good"]}, {LARGER_MEAN, LARGER_EACH}, "no bad loggers"),
        ({"sets": ["bad"]}, {IX_BEST, IX_LOGGER, PL_FALLS, PL_BELOW}, "no good loggers"),
        ({"etas": [0.1, 5.0]}, {PL_FALLS, PL_BELOW}, "no good logger with eta above 30"),
        ({"etas": [40.0, 100.0]}, {PL_FALLS}, "no good logger with eta below 30"),
        ({"algorithms": ["PIWO-IX", "PIWO-Clip", "PIWO-PL"]}, {LS}, "no PIWO-LS"),
        ({"algorithms": ["PIWO-IX", "PIWO-LS"]}, {2, 3, 4, 5, 6, 7}, "no PIWO-"),
        (
            {"hs": [1e-10, 1e-9, 1.0]},
            {IX_BEST, IX_LOGGER, CLIP_NEAR, LS},
            "no hyper-parameter within a factor 10",
        ),
    ],
)
def test_a_claim_is_left_open_where_the_run_lacks_what_it_is_about(
    fabricate, lacking, left_open, because
):
    table = check_claims(*fabricate(**lacking), STAR).to_pylist()
    assert {i for i, row in enumerate(table) if row["holds"] is None} == left_open
    assert all(because in table[i]["evidence"] for i in left_open)


def test_evidence_by_hand(fabricate):
    """Two loggers, three gammas, one fold: every number can be looked up."""
    rewards = {10.0: {1e-9: 0.7, 1e-2: 0.5, 1.0: 0.4}, 40.0: {1e-9: 0.3, 1e-2: 0.6, 1.0: 0.2}}
    tables = fabricate(
        lambda name, algorithm, eta, h: (
            rewards[eta][h] - 0.1 * (algorithm == "PIWO-Clip") - 0.2 * (h > 0.5)
        ),
        etas=rewards,
        hs=[1e-9, 1e-2, 1.0],
        folds=1,
        noise=0.0,
        own_noise=0.0,
    )
    said = check_claims(*tables, 0.01)["evidence"].to_pylist()
    assert said[IX_BEST] == (
        "Near sqrt(d/n) the largest gap to the best gamma is 0.200: 0.500 against 0.700, at eta = "
        "10 and gamma = 0.01. Over the whole grid it is 0.600."
    )
    assert (
        "0.500, at eta = 10 and gamma = 0.01, where the logger has 0.676 and the best fixed "
        "action 0.550" in (said[IX_LOGGER])
    )
    assert (
        "the largest difference is 0.100, PIWO-Clip 0.400 and PIWO-IX 0.500, at eta = 10"
        in said[CLIP_NEAR]
    )
    assert (
        "at best 0.500 for eta below 30 (eta = 10); past it from 0.600 to 0.600 (eta = 40)"
        in said[PL_FALLS]
    )
    assert "at eta = 40 and beta = 0.01: 0.600 against 0.600" in said[PL_BELOW]
    assert (
        "PIWO-IX: from 0.500 at the smallest gamma to 0.100 at the largest; the largest rise"
        in said[LARGER_MEAN]
    )
    assert "PIWO-IX: the largest rise is 0.300, at eta = 40 and gamma = 0.01" in said[LARGER_EACH]
    assert said[LS].startswith(
        "0 of 4 cells worse. Good loggers: PIWO-LS less PIWO-IX is +0.0000 on average"
    )


def test_summary_table(fabricate):
    results, loggers = fabricate()
    table = summary_table(results, loggers, STAR)
    assert table.num_rows == 2 * 20 * 4
    row = table.to_pylist()[12 + 20 * 2]
    assert (row["set"], row["algorithm"], row["eta"]) == (
        "good",
        "PIWO-PL",
        pytest.approx(33.6, abs=0.03),
    )
    assert row["h_near"] == NEAREST
    own = results.filter(
        (pc.field("set") == "good")
        & (pc.field("eta") == ETA)
        & (pc.field("algorithm") == "PIWO-PL")
    )
    means = own.group_by("h").aggregate([("reward", "mean"), ("reward", "count")]).to_pylist()
    assert {mean["reward_count"] for mean in means} == {10}
    by_h = {mean["h"]: mean["reward_mean"] for mean in means}
    assert row["reward_near"] == pytest.approx(by_h[NEAREST], abs=1e-6)
    assert row["reward_best"] == pytest.approx(max(by_h.values()), abs=1e-6)
    assert by_h[row["h_best"]] == max(by_h.values())
    assert row["reward_smallest"] == pytest.approx(by_h[min(by_h)], abs=1e-6)
    behavior = loggers.filter((pc.field("set") == "good") & (pc.field("eta") == ETA))["behavior"]
    assert row["behavior"] == pytest.approx(pc.mean(behavior).as_py(), abs=1e-6)


def test_summary_page(fabricate, tmp_path):
    results, loggers = fabricate()
    claims = check_claims(results, loggers, STAR)
    undecided = pa.array([False, None, *claims["holds"].to_pylist()[2:]])
    claims = claims.set_column(1, "holds", undecided)
    settings = {"data": "a|b\nc", "seed": 3}
    paths = write_summary(results, loggers, claims, STAR, settings, tmp_path / "new")
    assert [path.name for path in paths] == ["summary.md", "summary.csv"]
    page = paths[0].read_text(encoding="utf-8")
    assert "| data | a\\|b c |" in page
    assert "| seed | 3 |" in page
    assert all(f"| {row['claim']} | " in page and row["rule"] in page for row in claims.to_pylist())
    assert page.count("| **no** |") == 1
    assert page.count("| not tested |") == 1
    assert "### Good loggers" in page
    assert "### Bad loggers" in page
    assert "| 1e+03 |" not in page
    assert len([line for line in page.splitlines() if line.startswith("| 33.6 | -14.8 |")]) == 2
    assert "| 1000 | -399.0 |" in page
    read = csv.read_csv(paths[1])
    assert read.num_rows == summary_table(results, loggers, STAR).num_rows
    assert read.column_names[:5] == ["set", "eta", "algorithm", "h_near", "reward_near"]

    rows = np.random.default_rng(0).permutation(results.num_rows)
    again = write_summary(results.take(rows), loggers, claims, STAR, settings, tmp_path / "again")
    assert [path.read_bytes() for path in paths] == [path.read_bytes() for path in again]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (
            lambda r, lo: (r.slice(1), lo),
            "the good set, PIWO-IX: 3999 rows, expected one for each of 20 eta x 20 h",
        ),
        (
            lambda r, lo: (pa.concat_tables([r, r.slice(0, 1)]), lo),
            "the good set, PIWO-IX: 4001 rows",
        ),
        (lambda r, lo: (r, lo.slice(1)), "the loggers of the good set: 199 rows"),
        (
            lambda r, lo: (r, lo.set_column(1, "eta", pc.multiply(lo["eta"], 1.01))),
            "the loggers of the good set",
        ),
        (lambda r, lo: (r.slice(0, 0), lo), "sets none, expected good or bad"),
        (
            lambda r, lo: (r.set_column(0, "set", pa.array(["odd"] * r.num_rows)), lo),
            "expected good or bad",
        ),
        (
            lambda r, lo: (r.set_column(2, "algorithm", pa.array(["IX"] * r.num_rows)), lo),
            "algorithm IX, expected",
        ),
    ],
)
def test_half_a_run_is_refused(fabricate, spoil, message):
    with pytest.raises(UsageError, match=message):
        check_claims(*spoil(*fabricate()), STAR)
