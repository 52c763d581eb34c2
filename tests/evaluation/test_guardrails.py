"""Guardrails: limits on another outcome, simultaneous with the improvement."""

from collections import Counter

import numpy as np
import pytest

import piwo
from piwo.evaluation import Guardrail, GuardrailResult

N = 1200


def rows(seed: int = 0, n: int = N, complaints: tuple[float, float] = (0.02, 0.2)):
    """Actions a and b with known means of reward and complaints; a logger that prefers a."""
    rng = np.random.default_rng(seed)
    b = rng.random(n) < 0.4
    reward = (rng.random(n) < np.where(b, 0.7, 0.4)) * 1.0
    bad = (rng.random(n) < np.where(b, complaints[1], complaints[0])) * 1.0
    return {
        "action": np.where(b, "b", "a"),
        "reward": reward,
        "propensity": np.where(b, 0.4, 0.6),
        "complaints": bad,
    }


def log_of(table, **options) -> piwo.Log:
    return piwo.read(table, outcomes=["complaints"], logger="fixed", **options)


def constant(label: str = "b"):
    return piwo.policies.Constant(label, ["a", "b"])


def test_a_text_states_column_relation_limit_and_range() -> None:
    known = {
        "complaints<=.01": ("complaints", "<=", 0.01, None, (0.0, 1.0)),
        " minutes >= 3 in 0,60 ": ("minutes", ">=", 3.0, None, (0.0, 60.0)),
        "x<=logger": ("x", "<=", 0.0, "logger", (0.0, 1.0)),
        "x y<=logger + .005": ("x y", "<=", 0.005, "logger", (0.0, 1.0)),
        "x>=baseline-1e-2 in -1,1": ("x", ">=", -0.01, "baseline", (-1.0, 1.0)),
    }
    for text, parts in known.items():
        assert Guardrail.of(text) == Guardrail(*parts)


def test_only_values_out_of_range_get_advice_about_the_range() -> None:
    table = rows(n=50)
    table["complaints"][3] = 7.0
    with pytest.raises(piwo.DataError, match=r"'complaints <= 0.1 in LO,HI'"):
        piwo.evaluate(log_of(table), constant(), guardrail="complaints<=.1")
    table["complaints"][3] = np.nan
    with pytest.raises(piwo.DataError, match="column 'complaints' is NaN in 1 row") as wrong:
        piwo.evaluate(log_of(table), constant(), guardrail="complaints<=.1")
    assert "LO,HI" not in str(wrong.value)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("complaints=.01", "'complaints=.01', expected text such as 'complaints<=.01'"),
        ("<=.01", "expected text such as"),
        ("complaints<=nan", "expected text such as"),
        ("complaints<=2", r"limit 2, expected one in \[0, 1\]; give the range of the outcome"),
        ("complaints<=.1 in 1,0", "range 1,0, expected finite numbers"),
        (
            "click<=.1",
            r"on 'click', which is not an outcome of the log \(there are: 'comp",
        ),
        ("complaints<=baseline", "compares with a baseline, and there is none"),
        (["complaints<=.1", "complaints <= 0.1"], "was given twice"),
        (7, "got an int, expected text"),
    ],
)
def test_what_is_no_guardrail_is_refused_in_one_line(given, said: str) -> None:
    with pytest.raises(piwo.UsageError, match=said) as caught:
        piwo.evaluate(log_of(rows()), constant(), guardrail=given)
    assert "\n" not in str(caught.value)


def test_the_answers_by_hand() -> None:
    at_most, at_least = Guardrail.of("x<=.1"), Guardrail.of("x>=.1")
    assert [at_most.answer(*x) for x in ((0.0, 0.1), (0.05, 0.2), (0.11, 0.2), (None, None))] == [
        "harmless",
        "open",
        "harmful",
        "open",
    ]
    assert [at_least.answer(*x) for x in ((0.1, 0.3), (0.0, 0.1), (0.0, 0.09))] == [
        "harmless",
        "open",
        "harmful",
    ]


@pytest.mark.parametrize("units", [False, True])
def test_bounds_are_those_of_logs_whose_reward_is_the_outcome(units: bool) -> None:
    """The naive twin: two more logs, with C and 1 - C as rewards, certified at the share."""
    table = rows()
    options = {}
    if units:
        table["user"] = np.arange(N) // 4
        options["unit"] = "user"
    log = log_of(table, **options)
    guards = ["complaints<=.15", "complaints<=logger+.05"]
    made = piwo.certify(log, {0: constant()}, delta=0.06, guardrail=guards)[0]
    assert made.delta == pytest.approx(0.02)
    bad = table["complaints"]
    twins = [
        piwo.certify(
            piwo.read({**table, "reward": c}, logger="fixed", **options),
            {0: constant()},
            delta=0.02,
        )[0]
        for c in (bad, 1.0 - bad)
    ]
    absolute, relative = made.guardrails
    assert absolute.lower == pytest.approx(twins[0].value_lower, abs=1e-12)
    assert absolute.upper == pytest.approx(1.0 - twins[1].value_lower, abs=1e-12)
    assert relative.lower == pytest.approx(twins[0].improvement_lower, abs=1e-12)
    assert relative.upper == pytest.approx(-twins[1].improvement_lower, abs=1e-12)
    alone = piwo.certify(log, {0: constant()}, delta=0.02)[0]
    assert made.improvement_lower == alone.improvement_lower
    found = piwo.evaluate(log, constant(), delta=0.06, guardrail=guards)
    assert found.guardrails == made.guardrails
    assert found.delta == pytest.approx(0.02)
    assert [note.kind for note in found.notes].count("shared-delta") == 1


def test_a_range_scales_the_outcome() -> None:
    table = rows()
    minutes = {**table, "complaints": 60.0 * table["complaints"]}
    one = piwo.evaluate(log_of(table), constant(), guardrail="complaints<=.15").guardrails[0]
    sixty = piwo.evaluate(log_of(minutes), constant(), guardrail="complaints<=9 in 0,60")
    assert sixty.guardrails[0].lower == pytest.approx(60.0 * one.lower)
    assert sixty.guardrails[0].upper == pytest.approx(60.0 * one.upper)
    with pytest.raises(piwo.DataError, match="outside the declared range"):
        piwo.evaluate(log_of(minutes), constant(), guardrail="complaints<=.15")


def test_the_three_answers_and_what_the_gate_makes_of_them() -> None:
    log = log_of(rows())
    said = {}
    for limit in (0.1, 0.2, 0.4):
        made = piwo.certify(log, {0: constant()}, guardrail=f"complaints<={limit}")[0]
        said[limit] = (made.guardrails[0].answer, len(made.refusals), made.certified)
    assert said == {0.1: ("harmful", 1, True), 0.2: ("open", 0, True), 0.4: ("harmless", 0, True)}
    assert "complaints <= 0.4: certified within the limit" in str(made)


def test_a_least_value_is_part_of_the_certificate() -> None:
    log = log_of(rows())
    made = piwo.certify(log, {0: constant()}, at_least=0.6)[0]
    assert (made.reaches, made.refusals) == (True, ())
    high = piwo.certify(log, {0: constant()}, at_least=0.69)[0]
    assert high.value_lower == made.value_lower < 0.69
    assert high.refusals == ("its value is not certified to be at least 0.69",)
    assert "required     value at least 0.69: not reached" in str(high)
    with pytest.raises(piwo.UsageError, match="at_least is 7, expected a value in the reward"):
        piwo.certify(log, {0: constant()}, at_least=7)


def test_a_policy_without_bounds_is_not_certified_harmless() -> None:
    table = rows()
    table["propensity"] = table["propensity"] / 4
    one = piwo.evaluate(log_of(table), constant(), guardrail="complaints<=.9")
    assert one.guardrails[0].answer == "open"
    assert one.guardrails[0].lower is None


def test_a_certificate_with_guardrails_is_read_back_and_damage_is_seen() -> None:
    guards = ["complaints<=.1", "complaints<=logger"]
    made = piwo.certify(log_of(rows()), {0: constant()}, at_least=0.5, guardrail=guards)[0]
    record = made.to_dict()
    assert piwo.Certificate.from_dict(record) == made
    old = {key: value for key, value in record.items() if key not in ("guardrails", "at_least")}
    assert piwo.Certificate.from_dict(old).guardrails == ()
    for damage in ({"lower": 0.0}, {"answer": "harmless"}, {"relation": "<"}, {"lower": "x"}):
        broken = {**record, "guardrails": [{**record["guardrails"][0], **damage}]}
        with pytest.raises(piwo.FileError, match="the certificate is damaged"):
            piwo.Certificate.from_dict(broken)


def test_outcomes_are_left_out_of_contexts_and_conditions_on_them_prove_nothing() -> None:
    table = rows()
    log = log_of({**table, "hour": np.arange(N) % 24}, context="*")
    assert log.columns.context == ("hour",)
    with pytest.raises(piwo.UsageError, match=r"'complaints' is an outcome \(outcomes\) and has"):
        log_of(table, context="complaints")
    chosen = piwo.evaluate(log_of(table, where="complaints = 0"), constant(), guardrail=[])
    assert chosen.lower is None


def test_a_series_has_no_guardrails() -> None:
    with pytest.raises(piwo.UsageError, match="a series shows numbers only"):
        piwo.certify(log_of(rows()), {0: constant()}, series=True, guardrail="complaints<=.1")


def test_candidates_pay_for_each_other_in_guardrails_too() -> None:
    log, guard = log_of(rows()), "complaints<=.2"
    alone = piwo.certify(log, {"b": constant()}, guardrail=guard)["b"].guardrails[0]
    both = piwo.certify(log, {x: constant(x) for x in "ab"}, guardrail=guard)["b"].guardrails[0]
    later = piwo.certify(log, {"b": constant()}, guardrail=guard, earlier=1)["b"].guardrails[0]
    assert alone.lower > both.lower == later.lower
    assert alone.upper < both.upper == later.upper
    same = piwo.certify(log, {"b": constant(), "c": constant()}, guardrail=guard)
    assert same["b"].guardrails == same["c"].guardrails == (alone,)


def test_arrays_take_outcomes() -> None:
    table = rows()
    bad = table.pop("complaints")
    log = piwo.Log.from_arrays(**table, outcomes={"complaints": bad}, logger="fixed")
    result = piwo.evaluate(log, constant(), guardrail="complaints<=.15").guardrails[0]
    assert (
        result
        == piwo.evaluate(log_of(rows()), constant(), guardrail="complaints<=.15").guardrails[0]
    )
    assert isinstance(result, GuardrailResult)
    with pytest.raises(piwo.UsageError, match="outcome 'reward' has the name of a role"):
        piwo.Log.from_arrays(**table, outcomes={"reward": bad})


@pytest.mark.statistics
def test_improvement_and_guardrail_are_wrong_together_with_probability_delta_at_most() -> None:
    """Both hypotheses at their boundary: no improvement, and complaints exactly at the limit."""
    wrong, delta, runs = Counter(), 0.3, 60
    for seed in range(runs):
        rng = np.random.default_rng(seed)
        n = 200
        b = rng.random(n) < 0.5
        table = {
            "action": np.where(b, "b", "a"),
            "reward": (rng.random(n) < 0.5) * 1.0,
            "propensity": np.full(n, 0.5),
            "complaints": (rng.random(n) < 0.3) * 1.0,
        }
        guards = ["complaints<=.3", "complaints<=logger"]
        made = piwo.certify(log_of(table), {0: constant()}, delta=delta, guardrail=guards)[0]
        absolute, relative = made.guardrails
        found = {
            "improvement": made.improves,
            "value": made.value_lower > 0.5,
            "absolute": absolute.lower > 0.3 or absolute.upper < 0.3,
            "relative": relative.lower > 0.0 or relative.upper < 0.0,
        }
        wrong.update(name for name, one in found.items() if one)
        wrong["joint"] += made.improves or absolute.harmful or relative.harmful
    # three statements at delta / 3 each; three standard errors of the simulation are tolerated
    for names, level in (
        (("joint",), delta),
        (("improvement", "value"), delta / 3),
        (("absolute", "relative"), 2 * delta / 3),
    ):
        most = runs * level + 3.0 * (runs * level * (1.0 - level)) ** 0.5
        assert max(wrong[name] for name in names) <= most
