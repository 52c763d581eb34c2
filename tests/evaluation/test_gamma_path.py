"""A path over gamma: the numbers of single evaluations, at the level that it names."""

import numpy as np
import pytest

import piwo

N = 400


@pytest.fixture(scope="module")
def log():
    generator = np.random.default_rng(3)
    action = generator.choice(3, N, p=[0.5, 0.3, 0.2])
    propensity = np.array([0.5, 0.3, 0.2])[action]
    reward = generator.random(N) * (action + 1) / 3
    return piwo.Log.from_arrays(action=action, reward=reward, propensity=propensity)


@pytest.fixture(scope="module")
def policy(log):
    return piwo.policies.Constant(2, log.actions)


def test_bounds_of_certifying_methods_are_the_same_at_every_gamma_and_at_delta(log, policy):
    path = piwo.evaluate(log, policy, gamma=[0.1, 0.01, 0.1])
    assert path.gammas == (0.01, 0.1)
    assert path.simultaneous == 1
    for gamma, one in zip(path.gammas, path.evaluations, strict=True):
        assert one == piwo.evaluate(log, policy, estimator="ix", gamma=gamma)
    assert path.evaluations[0].lower == path.evaluations[1].lower
    assert "the same at every gamma" in str(path)


@pytest.mark.parametrize("interval", ["ix", "ls"])
def test_bounds_that_depend_on_gamma_hold_together(log, policy, interval):
    gammas = [0.02, 0.1, 0.5]
    path = piwo.evaluate(log, policy, gamma=gammas, interval=interval, delta=0.06)
    assert (path.delta, path.simultaneous) == (0.06, 3)
    for gamma, one in zip(gammas, path.evaluations, strict=True):
        alone = piwo.evaluate(log, policy, gamma=gamma, interval=interval, delta=0.06 / 3)
        assert one == alone
        wider = piwo.evaluate(log, policy, gamma=gamma, interval=interval, delta=0.06)
        assert one.lower_raw < wider.lower_raw
    assert "95" not in str(path).splitlines()[0]
    assert "94 % bounds at all 3 gamma together" in str(path)


def test_a_path_is_a_frame_with_a_row_each(log, policy):
    path = piwo.evaluate(log, policy, gamma=(0.1, 0.2), name="new")
    frame = path.to_frame()
    assert frame["gamma"].to_pylist() == [0.1, 0.2]
    assert frame["value"].to_pylist() == [one.value for one in path.evaluations]
    assert path.name == "new"


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"gamma": []}, "a list of numbers"),
        ({"gamma": ["auto"]}, "a list of numbers"),
        ({"gamma": [0.1, -1.0]}, "above 0"),
        ({"gamma": [0.1], "estimator": "iw"}, "which has none"),
        ({"gamma": [0.1], "guardrail": "x<=1"}, "with a list of gamma"),
        ({"gamma": [0.1], "by": "x"}, "with a list of gamma"),
    ],
)
def test_what_a_path_cannot_have_is_one_line(log, policy, options, says):
    with pytest.raises(piwo.UsageError, match=says) as caught:
        piwo.evaluate(log, policy, **options)
    assert "\n" not in str(caught.value)
