"""The picture: positions worked by hand, and ends that are not there."""

from dataclasses import replace

import numpy as np
import pytest

import piwo
from piwo.report.interval_plot import LEFT, WIDTH, _ticks, interval_plot


@pytest.fixture
def one() -> piwo.Evaluation:
    log = piwo.Log.from_arrays(action=["a", "b"] * 4, reward=[1, 0] * 4, propensity=[0.5] * 8)
    return piwo.evaluate(log, piwo.policies.Uniform(log.actions))


def test_positions(one: piwo.Evaluation) -> None:
    plot = interval_plot(
        [
            replace(one, lower=0.25, value=0.5, upper=0.75, logging_value=0.0),
            replace(one, lower=0.0, upper=1.0),
        ]
    )
    assert [x for _, x in plot.ticks] == ["0", "0.25", "0.5", "0.75", "1"]
    first, second = plot.lines
    assert (first.low, first.value, first.high) == (
        LEFT + WIDTH / 4,
        LEFT + WIDTH / 2,
        LEFT + WIDTH * 3 / 4,
    )
    assert (second.low, second.high) == (LEFT, LEFT + WIDTH)
    assert first.y < second.y < plot.height
    assert plot.logging == LEFT


def test_ends_that_are_not_there(one: piwo.Evaluation) -> None:
    (line,) = interval_plot([replace(one, upper=None)]).lines
    assert line.open_high
    assert line.high == LEFT + WIDTH
    (line,) = interval_plot(
        [replace(one, lower=None, upper=None, value=None, logging_value=None)]
    ).lines
    assert line.open_low
    assert line.value is None


def test_negative_and_tiny_and_equal(one: piwo.Evaluation) -> None:
    plot = interval_plot([replace(one, lower=-0.9, upper=-0.2, value=-0.5, logging_value=-0.4)])
    assert plot.ticks[0][1] == "-1"
    assert (
        interval_plot([replace(one, lower=0.3, upper=0.3, value=0.3, logging_value=0.3)])
        .lines[0]
        .low
        > LEFT
    )
    plot = interval_plot([replace(one, lower=1e-9, upper=3e-9, value=2e-9, logging_value=2e-9)])
    assert len(plot.ticks) >= 3


@pytest.mark.parametrize(
    ("low", "high"),
    [(0, 1), (-3, 17), (0.00082, 0.1411), (1e-300, 1e-299), (99.9, 100.1), (-1e9, 1e12)],
)
def test_ticks_are_few_and_enclose(low: float, high: float) -> None:
    ticks = _ticks(low, high)
    assert ticks[0] <= low
    assert ticks[-1] >= high * (1 - 1e-9)
    assert 3 <= len(ticks) <= 7
    steps = np.diff(ticks)
    assert np.allclose(steps, steps[0], rtol=1e-6)


def test_the_words_say_what_is_drawn(one: piwo.Evaluation) -> None:
    words = interval_plot([replace(one, name="new\x1b", value=0.5, lower=0.25, upper=None)]).words
    assert words.startswith("new\\x1b: 0.5, between 0.25 and -.")
