"""Decisions say no more than the bounds that they come from."""

import re
from dataclasses import replace

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

import piwo
from piwo.certificates import Certificate
from piwo.decision import Units, decide_by_certificate, rows_needed
from piwo.errors import UsageError
from piwo.evaluation import Guardrail, GuardrailResult
from piwo.health.record import HealthFinding
from piwo.messages import Note
from piwo.report.forest import forest_of
from piwo.visible import rounded


def log_of(n: int = 4000, gain: float = 0.1, propensity: float = 0.3) -> piwo.Log:
    rng = np.random.default_rng(0)
    b = rng.random(n) < 0.3
    reward = rng.random(n) < np.where(b, 0.3 + gain, 0.3)
    return piwo.Log.from_arrays(
        action=np.where(b, "B", "A"),
        reward=reward * 1.0,
        propensity=np.where(b, propensity, 1.0 - 0.3),
        actions=["A", "B"],
        logger="fixed",
    )


def constant(log: piwo.Log, label: str) -> dict[str, piwo.Evaluation]:
    return piwo.compare(log, {label: piwo.policies.Constant(label, log.actions)})


def test_switch_says_the_bound_and_no_more() -> None:
    found = constant(log_of(), "B")
    made = piwo.decide(found, units=Units("clicks", 100.0, "visits"))
    assert (made.verdict, made.policy) == ("switch", "B")
    assert made.sentence.startswith("Switch to B: it earns at least ")
    # the estimate, to the digit of the bound's last
    estimate = round(made.gain, 1)
    assert made.sentence.endswith(
        f"per 100 visits than today's system, by its estimate {estimate} (95 %, 4,000 visits)."
    )
    said = float(made.sentence.split("at least ")[1].split()[0])
    assert 0 < said <= 100.0 * found["B"].improvement_lower
    assert made.gain_lower == pytest.approx(100.0 * found["B"].improvement_lower)
    assert made.to_dict()["units"] == {"unit": "clicks", "per": 100.0, "decisions": "visits"}


def test_keep_says_what_would_settle_it() -> None:
    made = piwo.decide(constant(log_of(gain=0.02), "B"))
    assert made.verdict == "keep"
    assert "B is not proved better on 4,000 decisions; it may earn up to" in made.sentence
    assert made.rows_needed is not None
    assert made.rows_needed > 4000
    assert f"about {made.rows_needed:,} decisions more" in made.settles
    worse = piwo.decide(constant(log_of(gain=-0.1), "B"))
    assert worse.rows_needed is None
    assert "a better candidate" in worse.settles


def test_a_policy_learned_from_these_rows_is_named_beside_those_that_are_judged() -> None:
    rows = 4000
    b = np.arange(rows) % 2 == 0
    log = piwo.Log.from_arrays(
        action=np.where(b, "B", "A"),
        reward=np.where(b, np.arange(rows) % 5 == 0, np.arange(rows) % 3 == 0) * 1.0,
        propensity=np.full(rows, 0.5),
        context=np.arange(rows)[:, None] % 7 * 1.0,
        actions=["A", "B"],
        logger="fixed",
    )
    learned = piwo.PIWO(piwo.IX(0.1), piwo.oracles.Ridge()).fit(log).policy_
    both = {"own": learned, "B": piwo.policies.Constant("B", log.actions)}
    made = piwo.decide(piwo.compare(log, both))
    assert "B is proved worse on 4,000 decisions" in made.sentence
    assert made.sentence.endswith(" own was learned from these rows, which cannot judge it.")


def test_the_best_of_several_is_named_and_today_is_not() -> None:
    log = log_of()
    given = {x: piwo.policies.Constant(x, log.actions) for x in log.actions}
    given["logging"] = piwo.policies.Logging()
    assert piwo.decide(piwo.compare(log, given)).policy == "B"
    del given["B"]
    # what all are compared with is exactly as good as itself, and is not the candidate
    assert piwo.decide(piwo.compare(log, given)).policy == "A"


def test_an_unfit_log_decides_nothing() -> None:
    lying = log_of(propensity=0.1)
    made = piwo.decide(constant(lying, "B"), health=piwo.check(lying))
    assert made.verdict == "unfit"
    assert made.sentence.startswith("Cannot be told: unfit log, because logged propensities do")


def test_a_policy_learned_from_these_rows_proves_nothing() -> None:
    rng = np.random.default_rng(1)
    log = piwo.Log.from_arrays(
        context=rng.normal(size=(400, 1)),
        action=rng.integers(0, 2, 400),
        reward=rng.random(400),
        propensity=np.full(400, 0.5),
    )
    learned = piwo.PIWO().fit(log).policy_
    made = piwo.decide(piwo.compare(log, {"learned": learned}))
    assert made.verdict == "unfit"
    assert "learned from these rows" in made.sentence


def test_certified_harm_and_a_missed_least_value_refuse() -> None:
    one = constant(log_of(), "B")["B"]
    guard = Guardrail.of("complaints<=.01")
    harm = GuardrailResult.made(guard, 0.02, 0.1, 0.025, "deadline")
    made = piwo.decide([replace(one, guardrails=(harm,))])
    assert made.verdict == "keep"
    assert "must not run: complaints <= 0.01: certified harm" in made.sentence
    made = piwo.decide([one], at_least=0.99)
    assert made.verdict == "keep"
    assert "must not run: its value is not certified to be at least 0.99" in made.sentence


def test_costs_are_to_be_low() -> None:
    one = replace(constant(log_of(), "B")["B"], cost=True)
    assert "B: it costs at least 0.0" in piwo.decide([one]).sentence
    assert "less per decision than today's system" in piwo.decide([one]).sentence


def test_caveats_are_named() -> None:
    one = constant(log_of(), "B")["B"]
    noted = replace(one, notes=(Note("copies", kind="copies"), Note("far", kind="upper-end")))
    assert piwo.decide([noted]).caveats == ("copies",)
    assumed = piwo.decide([one], assumes="the estimates are right").sentence
    assert assumed.endswith("4,000 decisions, if the estimates are right).")


def test_labels_are_made_visible() -> None:
    one = replace(constant(log_of(), "B")["B"], name="x\x1b[2J")
    assert "\x1b" not in piwo.decide([one]).sentence


def test_certificates_decide() -> None:
    made = Certificate(
        kind="held-out",
        value=0.6,
        value_lower=0.5,
        improvement_lower=0.04,
        logging_value=0.5,
        rows=900,
    )
    assert decide_by_certificate(made, "p").verdict == "switch"
    kept = replace(made, improvement_lower=-0.1)
    assert decide_by_certificate(kept, "p").verdict == "keep"
    # of another policy: nothing is proved for this one
    assert decide_by_certificate(replace(made, about="other"), "p").verdict != "switch"


def test_rows_needed_by_hand() -> None:
    # distance 0.2 must shrink to 0.1: four times the rows
    assert rows_needed(0.1, -0.1, 1000) == 3000
    assert rows_needed(0.001, -0.9, 1000) is None
    assert rows_needed(None, -0.9, 1000) is None


@pytest.mark.parametrize(
    ("value", "step", "down", "text"),
    [(0.5349, 0.3, True, "0.5"), (0.5349, 0.3, False, "0.6"), (30.0, 7.0, True, "30")],
)
def test_rounding_is_never_in_ones_favor(value: float, step: float, down: bool, text: str) -> None:
    assert rounded(value, step, down=down) == text


def test_arguments() -> None:
    with pytest.raises(UsageError, match="evaluations is empty"):
        piwo.decide([])
    with pytest.raises(UsageError, match="per"):
        Units("clicks", 0.0)
    with pytest.raises(UsageError, match="value is None; expected a finite number"):
        Units("clicks").gain(None)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="lower is None; expected a finite number"):
        Units("clicks").at_least(None, 0.5)  # type: ignore[arg-type]


def test_a_certificate_of_another_policy_says_so_and_what_it_proves() -> None:
    made = Certificate(
        "held-out", 0.6, 0.5, 0.04, 0.5, about="the policy learned from 90 of 180 rows", rows=90
    )
    found = piwo.decision.decide_by_certificate(made, "p.piwo")
    assert found.verdict == "unfit"
    assert found.sentence == (
        "Cannot be told: nothing is proved of p.piwo: the certificate is of the policy learned "
        "from 90 of 180 rows; that one earns at least 0.040 more per decision than today's system, "
        "by its estimate 0.100 (95 %, 90 decisions)."
    )


def test_evaluations_made_one_by_one_are_not_decided_together() -> None:
    log = log_of()
    ones = [piwo.evaluate(log, piwo.policies.Constant(x, log.actions)) for x in "AB"]
    with pytest.raises(UsageError, match="2 with bounds that hold for 1 at a time"):
        piwo.decide(ones)
    other = piwo.evaluate(log, piwo.policies.Constant("B", log.actions), delta=0.5)
    with pytest.raises(UsageError, match="differ in delta"):
        piwo.decide([ones[0], other])


def test_what_makes_the_log_unfit_for_the_policy_is_a_caveat() -> None:
    log = log_of()
    policy = piwo.policies.Constant("B", log.actions)
    health = replace(
        piwo.check(log, policy),
        policy="B",
        findings=(HealthFinding("effective-sample", "unfit", "few rows decide"),),
    )
    made = piwo.decide(constant(log, "B"), health=health)
    assert made.verdict == "switch"
    assert "the log is unfit for B: few rows decide" in made.caveats


def test_a_policy_that_is_proved_worse_is_said_to_be_worse() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000, logger="fixed"
    )
    worse = piwo.evaluate(log, piwo.policies.Constant("b", log.actions))
    assert worse.improvement_upper is not None
    assert worse.improvement_upper < 0.0
    text = piwo.decide(worse).sentence
    assert "constant:b is proved worse on 1,000 decisions: it earns at least" in text
    assert "up to 0" not in text
    # Digits are cut towards less: at least so much, at most so much.
    least, most = re.findall(r"at (?:least|most) ([.\d]+) less", text)
    assert float(least) <= -worse.improvement_upper
    assert worse.improvement_lower is not None
    assert float(most) >= -worse.improvement_lower
    (row,) = forest_of([worse], Units(), "constant:b").rows
    assert (row.kind, row.note) == ("worse", "proved worse")
    both = piwo.compare(log, {"b": piwo.policies.Constant("b", log.actions)})
    assert piwo.decide(both).sentence.count("proved worse") == 1


def test_costs_of_a_worse_policy_are_more() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500,
        reward=[0, -1] * 500,
        propensity=[0.5] * 1000,
        reward_range=(-1, 0),
        logger="fixed",
    )
    made = replace(piwo.evaluate(log, piwo.policies.Constant("b", log.actions)), cost=True)
    text = piwo.decide(made, units=Units("euros", 100)).sentence
    said = r"it costs at least [.\d]+ euros more, and at most [.\d]+ euros more, per 100 decisions"
    assert re.search(said, text)


def test_of_units_the_sentence_counts_units() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500,
        reward=[1, 0] * 500,
        propensity=[0.5] * 1000,
        unit=[i // 5 for i in range(1000)],
    )
    found = piwo.evaluate(log, piwo.policies.Constant("a", log.actions))
    assert piwo.decide(found).sentence.endswith("(95 %, 200 units of 'unit').")


def test_a_level_that_rounds_to_100_percent_is_a_difference() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    )
    policy = piwo.policies.Constant("a", log.actions)
    for delta, level in ((1e-300, "1 - 1e-300"), (1e-7, "1 - 1e-07"), (1e-5, "99.999")):
        found = piwo.evaluate(log, policy, delta=delta)
        assert level in str(found)
        assert level in found.display().text
        assert "100%" not in str(found).replace(" ", "")
        certificate = piwo.certify(log, {"a": policy}, delta=delta)["a"]
        assert level in certificate.display().text
    for wrong, words in (
        (np.array([0.05]), "ndarray: array([0.05])"),
        (pd.Series([0.05]), "Series: "),
    ):
        with pytest.raises(UsageError, match=re.escape(f"delta is {words}")):
            piwo.evaluate(log, policy, delta=wrong)


def test_values_of_costs_are_said_to_be_minus_the_cost() -> None:
    table = pa.table(
        {"action": ["a", "b"] * 500, "c": [0.0, 1.0] * 500, "propensity": [0.5] * 1000}
    )
    log = piwo.read(table, cost="c", reward_range=(-1, 0))
    policy = piwo.policies.Constant("a", log.actions)
    found = piwo.evaluate(log, policy)
    assert "it costs at least" in piwo.decide(found).sentence
    assert "values are minus the cost" in found.display().text
    assert ", minus the cost\n" in str(piwo.certify(log, {"a": policy})["a"])
