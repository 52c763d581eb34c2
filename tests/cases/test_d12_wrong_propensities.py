"""D12: a log that states one over the number of actions although its policy was not uniform."""

import pytest

import piwo


def lying() -> piwo.Log:
    return piwo.Log.from_arrays(
        action=[1] * 900 + [2] * 100, reward=[1] * 1000, propensity=[0.5] * 1000
    )


def test_evaluate_warns() -> None:
    log = lying()
    result = piwo.evaluate(log, piwo.policies.Constant(1, log.actions))
    assert result.value == pytest.approx(1.8)
    assert result.mean_weight == pytest.approx(1.8)
    assert result.mean_weight_z == pytest.approx(42.16, abs=0.01)
    assert result.propensity_p is not None
    assert result.propensity_p < 1e-100
    assert "logged propensities do not match action frequencies" in result.notes[0]
    assert "z = 42" in result.notes[0]
    smooth = piwo.evaluate(log, piwo.policies.Constant(1, log.actions), estimator="ix", gamma=0.05)
    assert smooth.value == pytest.approx(1.636364, abs=1e-6)


def test_check_finds_the_action_although_the_mean_weight_is_right() -> None:
    health = piwo.check(lying())
    assert health.mean_weight == 1.0
    assert health.verdict == "unfit"
    text = health.findings[0].text
    assert "logged propensities do not match action frequencies" in text
    assert "action 1 was taken in 900 of 1,000 rows (0.9) at a mean propensity of 0.5" in text
    assert "z = 42" in text
    row = health.by_action[0]
    assert (row.action, row.frequency, row.mean_propensity) == (1, 0.9, 0.5)
    assert row.mean_inverse == pytest.approx(1.8)
    assert row.standard_error == pytest.approx(0.019, abs=1e-4)


def test_the_same_log_with_the_right_propensities_is_fit() -> None:
    log = piwo.Log.from_arrays(
        action=[1] * 900 + [2] * 100, reward=[1, 0] * 500, propensity=[0.9] * 900 + [0.1] * 100
    )
    assert piwo.check(log).verdict == "fit"
    result = piwo.evaluate(log, piwo.policies.Constant(1, log.actions))
    assert not any("do not match" in note for note in result.notes)
