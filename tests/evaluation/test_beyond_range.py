"""Asymptotic intervals without a possible value, and those of rows that contradict themselves."""

import itertools

import numpy as np
import pytest

import piwo
from piwo.policies import Constant, Uniform

ASYMPTOTIC = ("normal", "bootstrap", "cressie-read", "empirical-likelihood")


def honest() -> piwo.Log:
    """Thirty rows with their true propensities, of which eight took an action of propensity .1."""
    rng = np.random.default_rng(106)
    action = rng.choice(["a", "b"], 30, p=[0.1, 0.9])
    return piwo.Log.from_arrays(
        action=action,
        reward=np.ones(30),
        propensity=np.where(action == "a", 0.1, 0.9),
        actions=["a", "b"],
        segments={"half": ["x", "y"] * 15},
    )


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_an_interval_above_all_rewards_is_not_given(interval: str) -> None:
    log = honest()
    assert (np.asarray(log.source.table["action"]) == "a").sum() == 8
    one = piwo.evaluate(log, Constant("a", log.actions), interval=interval)
    assert (one.lower, one.upper, one.guarantee) == (None, None, "none")
    assert one.lower_raw is not None
    assert 1.0 < one.lower_raw < one.upper_raw
    assert one.value == pytest.approx(8 / 3)
    assert one.no_interval is not None
    assert one.no_interval.kind == "beyond-range"
    assert one.no_interval in one.notes
    said = f"the {interval} interval [1."
    assert str(one.no_interval).startswith(said)
    assert "lies above the highest possible value, 1: too few rows" in str(one)
    assert str(one).count(said) == 1
    assert "contradict" not in str(one)
    # bounds with a guarantee of their own, which hold whatever the interval, stay
    assert one.improvement_lower == piwo.evaluate(log, Constant("a", log.actions)).improvement_lower
    assert one.improvement_upper is not None
    assert "no interval" in one.display().text


def test_the_normal_interval_by_hand() -> None:
    # weights of 10 in 8 of 30 rows: mean 8/3, variance of the mean (80/30)(10 - 80/30)/29
    one = piwo.evaluate(honest(), Constant("a", ["a", "b"]), interval="normal")
    margin = 1.959963985 * np.sqrt(8 / 3 * (10 - 8 / 3) / 29)
    assert one.lower_raw == pytest.approx(8 / 3 - margin, abs=1e-6)
    assert one.upper_raw == pytest.approx(8 / 3 + margin, abs=1e-6)


def test_segments_and_other_units_say_it_too() -> None:
    log = honest()
    for part in piwo.evaluate(
        log, Constant("a", log.actions), interval="normal", by="half"
    ).segments:
        assert (part.lower is None) == any(note.kind == "beyond-range" for note in part.notes)
        assert part.lower is None or part.lower <= part.upper
    costs = piwo.Log.from_arrays(
        action=["a", "b"] * 10, reward=[9.0] * 20, propensity=[0.4] * 20, reward_range=(-1.0, 9.0)
    )
    one = piwo.evaluate(costs, Uniform(costs.actions), interval="normal")
    assert one.lower is None
    assert "[11.25, 11.25] lies above the highest possible value, 9" in str(one.no_interval)


@pytest.mark.parametrize("interval", ["normal", "bootstrap"])
def test_one_weight_that_is_far_too_large(interval: str) -> None:
    for rows, propensity in ((2, 1e-6), (3, 1e-300)):
        log = piwo.Log.from_arrays(
            action=["a", "b", "a"][:rows], reward=[1.0] * rows, propensity=[propensity] * rows
        )
        one = piwo.evaluate(log, Uniform(log.actions), interval=interval)
        assert (one.lower, one.upper, one.guarantee) == (None, None, "none")
        assert one.no_interval is not None


def test_ends_that_cross_by_rounding_change_places() -> None:
    log = piwo.Log.from_arrays(action=["a", "b", "a"], reward=[1e-12] * 3, propensity=[0.5] * 3)
    one = piwo.evaluate(log, Uniform(log.actions), interval="cressie-read")
    assert one.lower_raw > one.upper_raw
    assert (one.lower, one.upper) == (one.upper_raw, one.lower_raw)
    assert one.lower <= one.value <= one.upper
    assert "outside" not in {note.kind for note in one.notes}


@pytest.mark.parametrize("interval", [*ASYMPTOTIC, "auto", "mixture"])
def test_rows_that_contradict_their_propensities_have_no_interval(interval: str) -> None:
    """Two actions in turn, logged with .45 where the truth is .5."""

    def log(propensity: float) -> piwo.Log:
        return piwo.Log.from_arrays(
            action=["a", "b"] * 1000, reward=np.ones(2000), propensity=[propensity] * 2000
        )

    wrong = piwo.evaluate(log(0.45), Uniform(["a", "b"]), interval=interval)
    assert (wrong.lower, wrong.upper, wrong.guarantee) == (None, None, "none")
    assert (wrong.improvement_lower, wrong.improvement_upper) == (None, None)
    assert wrong.lower_raw is not None
    assert wrong.propensity_p < 1e-80
    assert wrong.no_interval is not None
    assert wrong.no_interval.kind == "contradicted"
    assert wrong.notes[0].endswith("and no bound is given")
    assert "asymptotic" not in {note.kind for note in wrong.notes}
    # the other policy of the same call
    both = {"u": Uniform(["a", "b"]), "a": Constant("a", ["a", "b"])}
    for one in piwo.compare(log(0.45), both, interval=interval).values():
        assert (one.lower, one.upper) == (None, None)
    right = piwo.evaluate(log(0.5), Uniform(["a", "b"]), interval=interval)
    assert right.lower is not None
    assert right.lower <= right.upper


def test_no_interval_has_ends_that_cross() -> None:
    """Ten rows, of which some took an action of propensity .1: ends are in order, or not given."""
    kinds = set()
    for taken, reward in itertools.product(range(1, 10), (1.0, 1e-12)):
        action = ["a"] * taken + ["b"] * (10 - taken)
        log = piwo.Log.from_arrays(
            action=action,
            reward=[reward] * 10,
            propensity=[0.1] * taken + [0.9] * (10 - taken),
            actions=["a", "b"],
        )
        for interval in ("normal", "cressie-read", "empirical-likelihood"):
            one = piwo.evaluate(log, Constant("a", log.actions), interval=interval)
            if one.lower is None:
                kinds.add(one.no_interval.kind)
            else:
                assert 0.0 <= one.lower <= one.upper <= 1.0
    assert kinds == {"beyond-range", "contradicted"}
