"""D11: no hidden clipping; where the user asks for it, the result says what it did."""

import pytest

import piwo

LOG = {"action": [0, 0, 0, 0], "reward": [1, 0, 1, 0], "propensity": [0.01, 0.5, 0.5, 0.5]}
PI = [1.0] * 4


def test_by_default_nothing_is_clipped() -> None:
    result = piwo.evaluate(piwo.Log.from_arrays(**LOG), PI)
    assert (result.value, result.changed_rows, result.max_weight) == (25.5, 0, 100.0)
    assert result.ess == pytest.approx(1.122, abs=5e-4)
    assert result.ess_used == result.ess


def test_clipping_is_named_with_its_threshold_and_count() -> None:
    result = piwo.evaluate(
        piwo.Log.from_arrays(**LOG), PI, estimator="clip", gamma=0.05, interval="normal"
    )
    assert (result.value, result.estimator, result.gamma, result.changed_rows) == (
        5.5,
        "clip",
        0.05,
        1,
    )
    assert result.ess_used == pytest.approx(1.641, abs=5e-4)
    assert result.ess == pytest.approx(1.122, abs=5e-4)
    assert any("clipping at propensity 0.05 changed 1 row" in note for note in result.notes)
    # the error and the interval belong to the clipped rows, as the value does
    assert result.standard_error == pytest.approx(4.856267, abs=1e-6)
    assert result.lower_raw == pytest.approx(5.5 - 1.959964 * 4.856267, abs=1e-5)


def test_implicit_exploration_is_not_clipping() -> None:
    result = piwo.evaluate(piwo.Log.from_arrays(**LOG), PI, estimator="ix", gamma=0.05)
    assert result.value == pytest.approx(4.621212, abs=1e-6)
    assert (result.estimator, result.gamma) == ("ix", 0.05)
