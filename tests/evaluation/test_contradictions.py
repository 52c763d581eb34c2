"""Rows that contradict their propensities: no bound is given anywhere, and one line says why;
estimates stay."""

import math
from collections.abc import Callable
from copy import copy
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.learners.learner import CONTRADICTED
from piwo.policies import Constant, Uniform
from piwo.report import summarize

LIE = 0.1
"""What the log says of actions that are drawn with probability 1/2."""
WHY = "propensities are too small for how often actions were taken"


def lying(propensity: float = LIE, rows: int = 600) -> piwo.Log:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, rows)
    return piwo.Log.from_arrays(
        action=np.array(["a", "b"])[action],
        reward=(rng.random(rows) < 0.3 + 0.4 * action) * 1.0,
        propensity=np.full(rows, propensity),
        actions=["a", "b"],
        context=rng.normal(size=(rows, 2)),
    )


def both() -> dict[str, piwo.policies.Policy]:
    return {x: Constant(x, ["a", "b"]) for x in "ab"}


def explained(text: str) -> bool:
    """Whether a text gives no number for a bound, and says why in a line."""
    return WHY in text and "at least 0" not in text and "?" not in text and "[" not in text


def test_evaluations() -> None:
    for one in piwo.compare(lying(), both()).values():
        assert (one.lower, one.upper, one.improvement_lower, one.missing_mass_upper) == (None,) * 4
        assert (one.log_e_better, one.guarantee, one.bounds_hold) == (None, "none", False)
        assert one.value is not None
        assert WHY in (one.no_interval or "")
        assert str(one).startswith(
            f"{one.name}: {one.value:.4g} (iw), no interval: the logged {WHY}"
        )
        assert sum("no bound is given" in note for note in one.notes) == 1
    honest = piwo.evaluate(lying(0.5), both()["a"])
    assert honest.no_interval is None
    assert "95% interval [0." in str(honest)


@pytest.mark.parametrize("interval", ["normal", "bootstrap", "cressie-read"])
def test_asymptotic_intervals_rest_on_the_propensities_too(interval: str) -> None:
    one = piwo.evaluate(lying(), both()["a"], interval=interval)
    assert (one.lower, one.upper, one.improvement_lower, one.guarantee) == (None,) * 3 + ("none",)
    assert explained(str(one))
    assert one.notes[0].endswith("no bound is given")


def test_raw_ends_that_no_rewards_have_by_chance() -> None:
    rows = 10
    log = piwo.Log.from_arrays(
        action=["a", "b"] * (rows // 2),
        reward=[1] * rows,
        propensity=[0.33] * rows,
        actions=["a", "b"],
    )
    one = piwo.evaluate(log, Uniform(["a", "b"]), delta=0.9)
    assert one.propensity_p > 1e-3
    assert (one.lower, one.upper) == (None, None)
    assert "contradicts its own propensities or its reward range (raw ends [1." in (
        one.no_interval or ""
    )
    made = piwo.certify(log, {0: Uniform(["a", "b"])}, delta=0.9)[0]
    assert (made.value_lower, made.improvement_lower, made.certified) == (None, None, False)
    assert any("contradicts its own propensities" in note for note in made.notes)
    look = piwo.Monitor(Uniform(["a", "b"]), delta=0.9, horizon=rows).update(log).look()
    assert (look.lower, look.upper, look.improvement_lower, look.better_p) == (None,) * 4
    assert "contradicts its own propensities" in look.notes[0]


def test_selection() -> None:
    found = piwo.select(lying(), both())
    assert (found.best, found.certified, found.better) == (None, (), ())
    assert (
        str(found)
        .splitlines()[-1]
        .startswith("no bound for a, b: the logged propensities are too small")
    )
    assert "no bound for" not in str(piwo.select(lying(0.5), both()))


def test_looks() -> None:
    look = piwo.Monitor(both()["a"]).update(lying()).look()
    assert (look.lower, look.upper, look.improvement_lower, look.better_p) == (None,) * 4
    assert look.value is not None
    assert explained(str(look))
    assert "note" not in str(piwo.Monitor(both()["a"]).update(lying(0.5)).look())


Learn = Callable[[piwo.Log], Any]
LEARNERS: dict[str, Learn] = {
    "PIWO": lambda log: piwo.PIWO(piwo.IX((0.1, 1.0)), piwo.oracles.Ridge()).fit(log),
    "PIWOGrid": lambda log: piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(log),
    "PIWOGrid in-sample": lambda log: piwo.PIWOGrid(
        oracle=piwo.oracles.Exhaustive(list(both().values()))
    ).fit(log),
    "Auto": lambda log: piwo.Auto([piwo.oracles.Ridge()]).fit(log),
    "PACBayes": lambda log: piwo.PACBayes(list(both().values())).fit(log),
}


@pytest.mark.parametrize("name", sorted(LEARNERS))
def test_learners(name: str) -> None:
    learner = LEARNERS[name](lying())
    made = learner.certificate_
    assert (made.value_lower, made.improvement_lower, made.certified) == (None, None, False)
    assert made.value is not None
    assert explained(str(made)), str(made)
    assert str(made).count("no bound") == 3
    if name != "PACBayes":
        assert {point.certificate.value_lower for point in learner.path_.values()} == {None}
    if name in {"PIWO", "PIWOGrid", "PIWOGrid in-sample"}:
        assert learner.rule_.startswith(CONTRADICTED.format("the most cautious of"))
        assert learner.score_.gamma_equivalent == max(
            point.score.gamma_equivalent for point in learner.path_.values()
        )
    assert LEARNERS[name](lying(0.5)).certificate_.value_lower is not None


def test_what_one_candidate_says_counts_for_all() -> None:
    action, n = ["a"] * 300 + ["b"] * 300, 600
    log = piwo.Log.from_arrays(
        action=action, reward=[1] * n, propensity=[0.5] * 300 + [0.05] * 300, actions=["a", "b"]
    )
    made = piwo.certify(log, both())
    assert [one.value_lower for one in made.values()] == [None, None]


def lying_of_b(propensity: float, rows: int = 2000, seed: int = 1) -> piwo.Log:
    """Every reward 1/2, so no policy is better than another; b is taken in .6 of the rows, and
    logged with less."""
    action = np.random.default_rng(seed).choice(3, rows, p=[0.2, 0.6, 0.2])
    return piwo.Log.from_arrays(
        action=np.array(["a", "b", "c"])[action], reward=np.full(rows, 0.5),
        propensity=np.array([0.2, propensity, 0.2])[action], actions=["a", "b", "c"],
    )  # fmt: skip


def three() -> dict[str, piwo.policies.Policy]:
    return {x: Constant(x, ["a", "b", "c"]) for x in "abc"}


@pytest.mark.parametrize("propensity", [0.3, 0.05])
def test_what_a_baseline_says_against_the_rows_counts(propensity: float) -> None:
    log, (a, b, c) = lying_of_b(propensity), three().values()
    one = piwo.evaluate(log, a, baseline=b)
    assert (one.lower, one.upper, one.improvement_lower, one.log_e_better) == (None,) * 4
    assert (one.baseline, one.bounds_hold) == ("constant:b", False)
    assert one.baseline_value == pytest.approx(0.5 * 0.6 / propensity, rel=0.1)
    assert WHY in (one.no_interval or "")
    assert "by the weights of the baseline constant" in one.notes[0]
    assert str(one).count(WHY) == 1
    made = piwo.certify(log, {"a": a}, baseline=b)["a"]
    assert (made.value_lower, made.improvement_lower, made.certified) == (None, None, False)
    assert made.propensity_p == one.propensity_p
    assert explained(str(made)), str(made)
    within = piwo.oracles.Exhaustive([a, c])
    assert not piwo.certify(log, {"a": a}, baseline=b, within=within)["a"].certified
    chosen = piwo.select(log, {"a": a, "c": c}, baseline=b)
    assert (chosen.best, chosen.certified, chosen.better) == (None, (), ())
    assert str(chosen).count(WHY) == str(chosen).count("no bound for a, c: the logged") == 1
    # where the propensities are right, the same calls have bounds
    honest = lying_of_b(0.6)
    assert piwo.evaluate(honest, a, baseline=b).lower is not None
    assert piwo.certify(honest, {"a": a}, baseline=b)["a"].value_lower is not None


@pytest.mark.parametrize("propensity", [0.6, 0.45, 0.3])
def test_how_often_a_policy_is_called_better_than_its_equal(propensity: float) -> None:
    """In at most delta of the logs, whatever is said of the baseline's propensities; honest logs
    have bounds."""
    delta, logs, (a, b, _) = 0.1, 25, three().values()
    found = [
        piwo.evaluate(
            lying_of_b(propensity, 800, seed), a, baseline=b, delta=delta
        ).improvement_lower
        for seed in range(logs)
    ]
    assert sum(gain is not None and gain > 0 for gain in found) <= logs * delta
    assert sum(gain is None for gain in found) == (0 if propensity == 0.6 else logs)


def test_the_baseline_is_one_more_policy_that_is_tested() -> None:
    log, named = lying_of_b(0.5, rows=500), three()
    with_b = {"a": named["a"], "b": named["b"]}
    beside = piwo.evaluate(log, named["a"], baseline=named["b"], interval="mixture").propensity_p
    assert beside is not None
    assert 1e-3 < beside < 1
    # two are tested, one way or the other
    for baseline in ("b", named["b"], Constant("b", ["a", "b", "c"])):
        for found in (
            piwo.compare(log, with_b, baseline=baseline, interval="mixture"),
            piwo.certify(log, with_b, baseline=baseline, interval="mixture"),
        ):
            assert found["a"].propensity_p == pytest.approx(beside)
    shares = {"a": 0.5, "b": 0.5}
    assert piwo.certify(log, with_b, baseline="b", shares=shares, interval="mixture")[
        "a"
    ].propensity_p == pytest.approx(beside)
    alone = piwo.certify(
        log, {"a": named["a"]}, baseline=named["b"], shares={"a": 1.0}, interval="mixture"
    )["a"]
    assert alone.propensity_p == pytest.approx(beside)
    # three of them: half as much again
    c = {"a": named["a"], "c": named["c"]}
    assert piwo.certify(log, c, baseline=named["b"], interval="mixture")[
        "a"
    ].propensity_p == pytest.approx(1.5 * beside)
    assert piwo.compare(log, c, baseline=named["b"], interval="mixture")[
        "a"
    ].propensity_p == pytest.approx(1.5 * beside)
    assert piwo.certify(log, c, baseline=named["b"], earlier=2, interval="mixture")[
        "a"
    ].propensity_p == pytest.approx(2.5 * beside)


def test_no_policy_is_better_by_more_than_rewards_can_be() -> None:
    """Ten rows: the test of the propensities is silent, and the improvement would be above 1."""
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 5, reward=[1, 0] * 5, propensity=[0.4, 0.3] * 5, actions=["a", "b"]
    )
    a, b = both().values()
    options = {"delta": 0.9, "interval": "mixture"}
    one = piwo.evaluate(log, a, baseline=b, **options)
    made = piwo.certify(log, {0: a}, baseline=b, **options)[0]
    regret = piwo.regret_certificate(log, a, {"b": b}, **options)
    assert min(x.propensity_p or 0.0 for x in (one, made, regret)) > 1e-3
    assert (one.improvement_lower, made.improvement_lower, regret.regret_upper) == (
        None,
        None,
        None,
    )
    for told in (one.no_interval, made.notes[0], regret.notes[0]):
        assert "its reward range (an improvement of at least 1." in (told or "")


def test_one_rule_for_all_policies_of_a_call() -> None:
    log = lying_of_b(0.3)
    some = {x: three()[x] for x in "ab"}
    for one in piwo.compare(log, some).values():
        assert (one.lower, one.upper, one.improvement_lower, one.bounds_hold) == (
            None,
            None,
            None,
            False,
        )
        assert one.value is not None
        assert sum("no bound is given" in note for note in one.notes) == 1
        assert "by the weights of b" in (one.no_interval or "")
    assert {one.value_lower for one in piwo.certify(log, some).values()} == {None}
    assert piwo.select(log, some).best is None
    assert piwo.evaluate(log, some["a"]).lower is not None  # by itself a says nothing against them


def test_coverage() -> None:
    log = lying_of_b(0.3)
    found = piwo.evaluation.coverage(log, three()["b"], gamma=0.1)
    assert (found.coverage_lower, found.coverage_upper, found.reward_free_upper) == (None,) * 3
    assert found.coverage is not None
    assert ", no bounds; reward-free" in str(found)
    assert f"  note: the logged {WHY} (p = " in str(found)
    assert "in [" in str(piwo.evaluation.coverage(log, three()["a"], gamma=0.1))
    # few rows: the test of the weights is silent, and what is left of the mass would be below its
    # least
    few = piwo.Log.from_arrays(
        action=["a"] * 12, reward=[0] * 12, propensity=[0.6] * 12, actions=["a", "b"]
    )
    found = piwo.evaluation.coverage(few, both()["a"], gamma=0.1, delta=0.9)
    assert (found.coverage_lower, found.coverage_upper, found.reward_free_upper) == (None,) * 3
    assert "its reward range (a coverage of at least 0 and at most" in found.notes[0]


@pytest.mark.parametrize("exchange", [True, False])
def test_an_incumbent_that_contradicts_the_rows(exchange: bool) -> None:
    rng = np.random.default_rng(2)
    action = rng.choice(3, 3000, p=[0.2, 0.6, 0.2])

    def learned(propensity: float) -> piwo.Auto:
        log = piwo.Log.from_arrays(
            action=action,
            reward=(rng.random(3000) < 0.5) * 1.0,
            propensity=np.array([0.2, propensity, 0.2])[action],
            actions=[0, 1, 2],
            context=rng.normal(size=(3000, 1)),
        )
        return piwo.Auto(
            [piwo.oracles.Ridge()], incumbent=Constant(1, [0, 1, 2]), exchange=exchange
        ).fit(log)

    learner = learned(0.3)
    assert learner.chosen_ == "incumbent"
    assert {one.certificate.improvement_lower for one in learner.path_.values()} == {None}
    assert "contradict their propensities" in learner.rule_
    assert None not in {one.certificate.improvement_lower for one in learned(0.6).path_.values()}


def test_rewards_without_an_upper_end_say_so() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 200, reward=[5, 0] * 200, propensity=[0.5] * 400, actions=["a", "b"],
        reward_range=(0, math.inf),
    )  # fmt: skip
    made = piwo.certify(log, {0: both()["a"]})[0]
    assert (
        "improvement  no bound over the logging policy (2.5), as rewards have no upper end: not"
        in str(made)
    )
    assert "no upper end]" in str(piwo.evaluate(log, both()["a"]))


def test_reports_draw_no_line_where_there_is_no_interval() -> None:
    pytest.importorskip("jinja2")
    log = lying()
    made = piwo.certify(log, both())
    page = piwo.report.page(summarize(log, list(piwo.compare(log, both()).values()), None, made))
    assert 'class="range"' not in page
    assert "No interval is given, for the reasons in the notes." in page
    assert page.count("no bound") >= 4
    assert "a: " in page
    assert page.count("no proof: see the notes") == 2
    assert 'class="range"' in piwo.report.page(
        summarize(log, [piwo.evaluate(lying(0.5), both()["a"])])
    )


@pytest.fixture
def file(tmp_path: Any) -> Any:
    log, path = lying(), tmp_path / "log.csv"
    rng = np.random.default_rng(0)
    action = rng.integers(0, 2, len(log))
    lines = [
        f"{'ab'[a]},{int(rng.random() < 0.3 + 0.4 * a)},{LIE},{rng.normal():.4f}" for a in action
    ]
    path.write_text("\n".join(["action,reward,propensity,x", *lines]) + "\n")
    return path


def test_the_command_line(file: Any, capsys: pytest.CaptureFixture[str]) -> None:
    from piwo.cli.main import main

    out = str(file.with_name("p.piwo"))
    assert main(["learn", str(file), "--context", "x", "--oracle", "ridge", "--out", out]) == 0
    learned = capsys.readouterr().out
    assert WHY in learned
    assert "at least 0" not in learned
    assert "at least 1" not in learned
    assert main(["evaluate", str(file), "--policy", "constant:a", "--policy", "uniform"]) == 0
    told = capsys.readouterr().out
    assert "no interval" in told
    assert "best of" not in told
    assert "no bound is given" in told


def test_the_gate_believes_no_baseline_that_contradicts_the_rows(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    from piwo.cli.main import main

    path = tmp_path / "log.csv"
    for said, code in (("0.3", 1), ("0.6", 0)):
        rows = [("a", "0.6", "0.2"), ("c", "0.6", "0.2"), *[("b", "0.5", said)] * 3] * 400
        path.write_text("\n".join(["action,reward,propensity", *map(",".join, rows)]) + "\n")
        words = [
            "evaluate",
            str(path),
            "--policy",
            "constant:a",
            "--baseline",
            "constant:b",
            "--gate",
        ]
        assert main(words) == code, said
        told = capsys.readouterr().out
        assert ("gate: passed" in told) == (code == 0)
        assert (WHY in told) == (code == 1)


def test_a_policy_that_was_learned_from_the_rows_is_named_as_a_cause() -> None:
    """Right propensities, and a tree that knows every row by heart: half of the actions have all
    of the weight."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(0)
    x, action = rng.normal(size=(500, 2)), rng.integers(0, 2, 500)
    log = piwo.Log.from_arrays(context=x, action=action, reward=[1.0] * 500, propensity=[0.5] * 500)
    tree = piwo.PIWO(
        oracle=piwo.oracles.Classifier(DecisionTreeClassifier(random_state=0)), certificate=None
    )
    policy = tree.fit(log).policy_
    with pytest.raises(piwo.UsageError, match="policy 0 was learned from part of this log"):
        piwo.certify(log, {0: policy})
    made = piwo.certify(log, {0: copy(policy)})[0]  # a copy does not know its rows
    assert (made.value_lower, made.certified) == (None, False)
    assert any("or a policy was learned from these very rows" in note for note in made.notes)
