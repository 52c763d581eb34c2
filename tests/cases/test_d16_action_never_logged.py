"""D16: an action that the target policy uses was never logged."""

import pytest

import piwo

ROWS = {"action": ["a", "a", "b", "b"], "reward": [1] * 4, "propensity": [0.5] * 4}
PI = [[0.2, 0.3, 0.5]] * 4


def test_the_result_says_how_much_is_unsupported() -> None:
    log = piwo.Log.from_arrays(**ROWS, actions=["a", "b", "c"])
    result = piwo.evaluate(log, PI)
    assert result.value == pytest.approx(0.5)
    assert result.unsupported_mass == pytest.approx(0.5)
    assert result.mean_weight == pytest.approx(0.5)
    note = next(x for x in result.notes if "never logged" in x)
    assert "probability 0.5" in note
    assert "would be 1" in note  # the value lies in [0.5, 1.0]
    smooth = piwo.evaluate(log, PI, estimator="ix", gamma=0.1)
    assert smooth.value == pytest.approx(0.416667, abs=1e-6)
    assert smooth.unsupported_mass == pytest.approx(0.5)


def test_the_interval_reaches_up_to_what_the_missing_action_may_earn() -> None:
    many = {name: values * 500 for name, values in ROWS.items()}
    result = piwo.evaluate(piwo.Log.from_arrays(**many, actions=["a", "b", "c"]), PI * 500)
    assert result.lower is not None
    assert 0.4 < result.lower <= 0.5
    assert result.upper == pytest.approx(1.0)


def test_three_columns_for_two_seen_actions_are_refused() -> None:
    with pytest.raises(piwo.UsageError, match="which column is which action"):
        piwo.evaluate(piwo.Log.from_arrays(**ROWS), PI)
    with pytest.raises(piwo.UsageError, match="one column per action"):
        piwo.evaluate(piwo.Log.from_arrays(**ROWS, actions=["a", "b"]), PI)


def test_a_frame_says_which_column_is_which() -> None:
    frame = {"c": [0.5] * 4, "a": [0.2] * 4, "b": [0.3] * 4}
    result = piwo.evaluate(piwo.Log.from_arrays(**ROWS), frame)
    assert result.value == pytest.approx(0.5)
    assert result.unsupported_mass == pytest.approx(0.5)


def test_an_action_missing_in_the_middle() -> None:
    rows = ROWS | {"action": [0, 0, 2, 2]}
    with pytest.raises(piwo.UsageError):
        piwo.evaluate(piwo.Log.from_arrays(**rows), PI)
    result = piwo.evaluate(piwo.Log.from_arrays(**rows, actions=[0, 1, 2]), [[0.2, 0.5, 0.3]] * 4)
    assert result.value == pytest.approx(0.5)
    assert result.unsupported_mass == pytest.approx(0.5)


def test_check_names_the_action() -> None:
    log = piwo.Log.from_arrays(
        **{name: values * 100 for name, values in ROWS.items()}, actions=["a", "b", "c"]
    )
    health = piwo.check(log)
    assert health.never_logged == ("c",)
    assert any(
        "1 of 3 actions were never logged ('c')" in finding.text for finding in health.findings
    )
