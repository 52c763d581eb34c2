"""Widths of the intervals without and with control variates, against a table of known widths."""

import numpy as np
import pytest

from benchmarks.statistics.intervals import CASES, Case, intervals

pytestmark = pytest.mark.statistics


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.bandit.name)
def test_widths_within_five_percent(case: Case) -> None:
    """150 logs of 3000 rows at delta = .05; both methods on the same logs, misses at most delta/2
    a side + 3 errors."""
    found = intervals(case.bandit, reps=150)
    most = 0.025 + 3 * np.sqrt(0.025 * 0.975 / 150)
    for name, expected in (("mixture", case.mixture), ("mixture-cv", case.control_variate)):
        low, high = found[name].T
        assert (high - low).mean() == pytest.approx(expected, rel=0.05)
        assert (low > case.bandit.value).mean() <= most
        assert (high < case.bandit.value).mean() <= most


def test_the_intervals_are_those_of_evaluate() -> None:
    """The shortcut by counts and `piwo.evaluate` on the rows themselves give the same ends."""
    import piwo

    bandit = CASES[3].bandit
    cells = np.repeat(np.arange(len(bandit.cells.chance)), bandit.counts(3000, 1, 0)[0])
    log = piwo.Log.from_arrays(
        action=bandit.cells.action[cells],
        reward=bandit.cells.reward[cells],
        propensities=np.tile(bandit.mu, (3000, 1)),
        actions=bandit.actions,
    )
    found = intervals(bandit, reps=1)
    for name in found:
        result = piwo.evaluate(log, bandit.policy, interval=name)
        lower, upper = found[name][0]
        assert result.lower == pytest.approx(lower, rel=1e-9)
        # upper ends of `mixture-cv` also bet on truncated weights, which takes .05 of their delta
        assert result.upper <= upper * (1.01 if name == "mixture-cv" else 1 + 1e-9)
