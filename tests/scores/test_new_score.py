"""A score that nobody here knows of works wherever scores do, by what it says of itself."""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import piwo
from piwo import UsageError, bounds
from piwo.cli import learn_options
from piwo.cli.main import main
from piwo.intervals.point import ESTIMATORS, smoothed
from piwo.logs import Batch
from piwo.logs.batch import Floats
from piwo.oracles import Exhaustive
from piwo.policies import Constant
from piwo.policies.sameness import same_policy
from piwo.scores import SCORES
from piwo.scores.bet_score import BetScore
from piwo.scores.ratio import over_propensity


@dataclass(frozen=True)
class Saturating(BetScore):
    """rho = pi y / (1 + lam y), y = R / mu: pessimistic, because z / (1 + z) <= log(1 + z)."""

    name: ClassVar[str] = "saturating"
    label: ClassVar[str] = "Saturating"

    @classmethod
    def gains_path(cls, batch: Batch, parameters: Floats) -> Floats:
        """Return y / (1 + lam y), (n, S)."""
        y = over_propensity(batch.reward, batch)[:, None]
        return y / (1.0 + parameters * y)


@pytest.fixture(autouse=True)
def exported(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a line in `piwo.scores` does for a score: the three tables by name are made from its
    exports."""
    monkeypatch.setitem(SCORES, Saturating.name, Saturating)  # type: ignore[misc]
    monkeypatch.setitem(ESTIMATORS, Saturating.name, smoothed(Saturating))
    monkeypatch.setitem(learn_options.SCORES, Saturating.name, Saturating)  # type: ignore[misc]
    monkeypatch.setattr(learn_options, "WITH_GRID", (*learn_options.WITH_GRID, Saturating.name))


@pytest.fixture
def log() -> piwo.Log:
    """400 rows over a, which pays 1, and b, which pays 0, each taken half the time."""
    return piwo.Log.from_arrays(
        action=["a", "b"] * 200, reward=[1, 0] * 200, propensity=[0.5] * 400
    )


def both(log: piwo.Log) -> Exhaustive:
    return Exhaustive([Constant(x, log.actions) for x in log.actions])


def test_the_tables_by_name_are_made_from_the_exports(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    exported = {
        x.name: x for x in vars(piwo.scores).values() if isinstance(x, type) and hasattr(x, "name")
    }
    assert exported == SCORES
    dense = {"pl", "dr-ls", "baseline"}
    assert set(ESTIMATORS) == {*SCORES, "snips", "cressie-read"} - dense
    assert set(learn_options.SCORES) == {name for name, kind in SCORES.items() if kind.linear}


def test_it_evaluates(log: piwo.Log) -> None:
    found = piwo.evaluate(
        log, Constant("a", log.actions), estimator="saturating", gamma=0.25, interval="score"
    )
    # w = 2 in half of the rows: 1/2 * 2 / (1 + .5 * 2)
    assert found.value == pytest.approx(0.5, abs=1e-12)
    half = math.log(2 / 0.05)
    assert found.lower_raw == pytest.approx(bounds.score_lower(0.5, 400, 0.5, half), abs=1e-12)
    assert found.guarantee == "finite-sample"
    with pytest.raises(UsageError, match="needs the estimate of 'ls'"):
        piwo.evaluate(log, Constant("a", log.actions), estimator="saturating", interval="ls")


def test_it_learns_and_its_policy_is_certified(log: piwo.Log) -> None:
    learner = piwo.PIWO(Saturating(0.2), both(log), certificate="in-sample").fit(log)
    assert learner.policy_.act(n=1).actions[0] == "a"
    made = piwo.certify(log, {"it": learner.policy_}, within=both(log))["it"]
    assert learner.certificate_.score == "saturating"
    assert learner.certificate_.value_lower == pytest.approx(made.value_lower)
    chosen = piwo.PIWO(Saturating([0.2, 2.0]), both(log), certificate="in-sample").fit(log)
    assert chosen.score_.name == "saturating"


def test_a_grid_of_it_bounds_the_value_and_promises_no_regret(log: piwo.Log) -> None:
    oracle = both(log)
    learner = piwo.PIWOGrid(Saturating(), oracle).fit(log)
    assert learner.grid_ == bounds.gamma_grid_ls(400, math.log(2), 0.05)
    assert same_policy(learner.policy_, oracle.policies[0])
    for gamma, point in learner.path_.items():
        lam = 2 * gamma
        mean = 0.5 * 2 / (1 + lam * 2)
        low = (math.exp(lam * mean - learner.grid_.penalty / 400) - 1) / lam
        assert point.lower == pytest.approx(max(0.0, low), rel=1e-9)
    with pytest.raises(UsageError, match="no theorem bounds the regret with Saturating"):
        learner.regret_bound(1.0)


def test_posteriors_take_it(log: piwo.Log) -> None:
    learner = piwo.PACBayes(both(log).policies, score=Saturating()).fit(log)
    assert learner.grid_ == bounds.gamma_grid_ls(400, 0.0, 0.05)
    assert learner.posterior_[0] > 0.9
    with pytest.raises(UsageError, match="no theorem bounds the regret with Saturating"):
        learner.regret_bound(1.0, 0.7)


def test_a_score_that_needs_an_upper_end_says_so(log: piwo.Log) -> None:
    @dataclass(frozen=True)
    class Bounded(Saturating):
        needs_upper_end: ClassVar[bool] = True

    endless = piwo.Log.from_arrays(
        action=["a", "b"] * 20,
        reward=[1, 0] * 20,
        propensity=[0.5] * 40,
        reward_range=(0, math.inf),
    )
    with pytest.raises(UsageError, match="Saturating needs rewards with an upper end"):
        piwo.PIWOGrid(Bounded(), both(endless)).fit(endless)
    with pytest.raises(UsageError, match="Saturating needs rewards with an upper end"):
        piwo.PACBayes(both(endless).policies, score=Bounded()).fit(endless)
    assert not piwo.intervals.INTERVALS["score"].goes_with(smoothed(Bounded))


def test_the_command_line_knows_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rng = np.random.default_rng(0)
    lines = ["x,item,click,p"]
    for x, item in zip(rng.normal(size=300).round(3), rng.choice(["a", "b"], 300), strict=True):
        lines.append(f"{x},{item},{int((x > 0) == (item == 'a'))},0.5")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(lines), encoding="utf-8")
    roles = ["--action", "item", "--reward", "click", "--propensity", "p", "--context", "x"]
    run(
        capsys,
        "evaluate",
        path,
        *roles,
        "--policy",
        "uniform",
        "--estimator",
        "saturating",
        "--interval",
        "score",
    )
    words = (
        "learn",
        path,
        *roles,
        "--oracle",
        "ridge",
        "--score",
        "saturating",
        "--out",
        tmp_path / "policy.piwo",
    )
    for gamma in ("0.1", "grid"):
        assert '"saturating"' in run(capsys, *words, "--gamma", gamma)


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    capsys.readouterr()
    assert main([str(x) for x in (*words, "--json")]) == 0
    left = capsys.readouterr().out
    json.loads(left)
    return left
