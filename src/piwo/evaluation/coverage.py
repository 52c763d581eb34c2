"""Coverage: how often the logger tried what a policy plays, estimated from a log."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from piwo import bounds
from piwo.checks import check_kind, is_number, shown
from piwo.display import Display, Ruler
from piwo.engines.state import State
from piwo.errors import UsageError
from piwo.evaluation.contradiction import contradiction, impossible, weight_p
from piwo.evaluation.notes import as_notes, refusal, unit_note
from piwo.intervals.matching import check_actions_known, matched, name_of
from piwo.logs.batch import Batch, Floats
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.policies.blocks import row_blocks
from piwo.records import Record, frames_field
from piwo.reductions import BETS, Joint, PolicyReduction, PolicySums, bet_sums
from piwo.reductions.blocks import bet_sums_of
from piwo.reductions.reduce import reduce
from piwo.scores import IW, IX
from piwo.scores.ratio import log_ratio, over, over_propensity
from piwo.visible import confidence, visible_lines

__all__ = ["CoverageEstimate", "coverage"]


@dataclass(frozen=True)
class CoverageEstimate(Record):
    """The coverage of one policy in one log, for rewards in [0, 1]; each bound at 1 - delta.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> print(coverage(log, piwo.policies.Constant("a", log.actions), gamma=0.1))
    constant:a: coverage 1.6667 at gamma 0.1, in [1.494, 2.531]; reward-free 1.6667, at most 2.531
      note: the propensities of all actions, and a policy that gives a probability to each, ...
    """

    name: str
    gamma: float
    coverage: float | None
    """Estimate of C_gamma; what was never logged counts as 0."""
    coverage_lower: float | None
    """None, as the upper bounds, if the rows contradict their propensities: the notes say
    how."""
    coverage_upper: float | None
    """What was never logged counts as 1. None for rewards without an upper end."""
    reward_free: float
    """Estimate of E sum_a pi(a|X)/(mu(a|X) + gamma)."""
    reward_free_upper: float | None
    delta: float
    rows: int
    full: bool
    """Whether the propensities of all actions were used, which narrows the upper bounds."""
    notes: tuple[Note, ...] = ()
    frames: str | None = frames_field()

    def display(self) -> Display:
        """Return the estimate as it is shown in a notebook."""
        least, most = self.coverage_lower, self.coverage_upper
        ruler = Ruler.of([(least, most)])
        free = (ruler.value(self.reward_free), "-", ruler.upper(self.reward_free_upper))
        rows = (
            ("coverage", ruler.value(self.coverage), ruler.lower(least), ruler.upper(most)),
            ("reward-free coverage", *free),
        )
        level = f"{confidence(self.delta)} bounds, each by itself"
        title = f"{self.name} at gamma {self.gamma:.4g}, {self.rows:,} rows; {level}"
        notes = tuple(map(str, self.notes))
        return Display(title, ("", "estimate", "at least", "at most"), rows, notes)

    def __str__(self) -> str:
        value, most = "?", "?"
        if self.coverage is not None:
            value = f"{self.coverage:.5g}"
        if self.coverage_upper is not None:
            most = f"{self.coverage_upper:.4g}"
        line = f"{self.name}: coverage {value} at gamma {self.gamma:.4g}"
        if self.coverage_lower is None or self.reward_free_upper is None:
            line += f", no bounds; reward-free {self.reward_free:.5g}"
        else:
            line += f", in [{self.coverage_lower:.4g}, {most}]; reward-free {self.reward_free:.5g}"
            line += f", at most {self.reward_free_upper:.4g}"
        return visible_lines([line, *(f"  note: {note}" for note in self.notes)])


@dataclass(frozen=True)
class CoverageState(State):
    """Rows, sums and bet sums, (48,) each, of quantities whose means hold gamma times a coverage.

    >>> CoverageState().rows
    0
    """

    rows: int = 0
    free: float = 0.0
    """Y = pi/(mu + gamma), or 1 - gamma sum_a pi(a|X)/(mu(a|X) + gamma)."""
    shown: float = 0.0
    free_bets: Floats = field(default_factory=lambda: np.zeros(len(BETS)))
    hidden_bets: Floats = field(default_factory=lambda: np.zeros(len(BETS)))
    """Y = free + gamma pi (1 - R)/(mu (mu + gamma))."""
    shown_bets: Floats = field(default_factory=lambda: np.zeros(len(BETS)))
    """Y = gamma pi R/(mu (mu + gamma))."""


@dataclass(frozen=True)
class CoverageSums(PolicyReduction[CoverageState]):
    """Reduction: what `coverage` rests on.

    Args:
        policy: over the log's action list.
        gamma: above 0.
        full: use the propensities of all actions.
        bounded: rewards have an upper end.
    """

    gamma: float
    full: bool
    bounded: bool = True

    @property
    def propensities(self) -> bool:
        """Whether the full propensity vectors are needed."""
        return self.full

    @property
    def labels(self) -> bool:
        """Whether the policy asks which action was taken."""
        return self.full or super().labels

    def empty(self) -> CoverageState:
        """Return the state of no rows."""
        return CoverageState()

    def update(self, state: CoverageState, batch: Batch) -> CoverageState:
        """Return the sums with a batch added."""
        score, pi = IX(self.gamma), self.policy.logged(batch)
        none = np.zeros(len(batch))
        if self.full:
            free = self._all_actions(batch)
        else:
            # coverage without rewards is that of rewards of 1
            free = score.rho(batch.with_reward(np.ones(len(batch))), pi)
        shown = self.gamma * score.rho(batch, pi)
        earned = over_propensity(shown, batch)
        lost = none
        if self.bounded:
            lost = self.gamma * score.rho(batch.losses(), pi)
        return state.merge(
            CoverageState(
                batch.count,
                float(batch.by_unit(free).sum()),
                float(batch.by_unit(earned).sum()),
                bet_sums(batch.by_unit(free)),
                _bets(free, lost, batch),
                _bets(none, shown, batch),
            )
        )

    def _all_actions(self, batch: Batch) -> Floats:
        """Return 1 - gamma sum_a pi(a|X)/(mu(a|X) + gamma), (n,), without a large table."""
        found = np.empty(len(batch))
        for block in row_blocks(len(batch), len(self.policy.actions)):
            some = batch.take(block)
            assert some.propensities is not None
            pi = self.policy.full(some)
            smoothed = over(pi.ravel(), (some.propensities + self.gamma).ravel()).reshape(pi.shape)
            found[block] = np.maximum(0.0, 1.0 - self.gamma * smoothed.sum(axis=1))
        return found


def _bets(rest: Floats, numerator: Floats, batch: Batch) -> Floats:
    """Return the bet sums of rest + numerator/mu; by logarithms if that is beyond float64."""
    y = rest + over_propensity(numerator, batch)
    # next to a number beyond float64 the rest is nothing
    return bet_sums_of(batch, y, lambda lost: log_ratio(numerator, batch, lost)).bets


def coverage(
    log: Log, policy: Any, gamma: float, *, delta: float = 0.05, horizon: bounds.Horizon = None
) -> CoverageEstimate:
    """Return the coverage of a policy in a log. Answers: how hard is it to compete with?

    For planning (`piwo.bounds.rows_for_regret`). To decide, certify values and improvements: they
    are measured, and need no coverage. The logged propensities suffice; those of all actions
    (`propensities=` or `behavior=`) narrow the upper bounds. It needs rewards in a range that was
    declared, since what was never logged counts as the highest one.

    Formula: C_gamma = E sum_a pi(a|X) r(X,a)/(mu(a|X) + gamma); the bounds are
    `piwo.bounds.coverage_upper` and `coverage_lower`.

    Args:
        log: the logged decisions.
        policy: fixed before; see `piwo.evaluate` for what it may be.
        gamma: above 0, fixed before looking.
        delta: error probability of each bound.
        horizon: see `piwo.evaluate`.

    Returns:
        A `CoverageEstimate`, without bounds if the rows contradict their propensities.

    Raises:
        UsageError: for arguments out of range, and thinned logs.

    Source: docs/theory.md, section "Coverage".

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> found = coverage(log, piwo.policies.Constant("a", log.actions), gamma=0.1)
    >>> round(found.coverage, 4), found.coverage_lower < 1 / 0.6 < found.coverage_upper
    (1.6667, True)
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    if not (is_number(gamma) and 0.0 < gamma < math.inf):
        raise UsageError(
            f"{argument('gamma')} is {shown(gamma)}, expected a finite number above 0: "
            "no log bounds the coverage at 0"
        )
    log.require_provable("no bound holds")
    name = name_of(policy)
    each, bounded = bounds.log_inv_delta(delta), math.isfinite(log.reward_range[1])
    log, ready = matched(log, {name: policy})
    made = ready[name]
    check_actions_known(log, (made,))
    full = log.gives_full_distribution and made.gives_full_distribution
    sums, own = reduce(
        log,
        Joint((CoverageSums(made, gamma, full, bounded), PolicySums(made, IW(), bounded=False))),
    )
    n = sums.rows
    low = bounds.coverage_lower(sums.shown_bets, n, gamma, each, horizon=horizon)
    free = bounds.coverage_upper(sums.free_bets, n, gamma, each, horizon=horizon)
    hidden, most = None, free
    if bounded:
        # actions that were never logged count as having the highest reward
        hidden = bounds.coverage_upper(sums.hidden_bets, n, gamma, each, horizon=horizon)
        most = min(free, hidden)
    why_not = contradiction({name: weight_p(own, 0.0)}, {}, log.reward_range)
    # no coverage is 0 by a bound that holds; pi/(mu + gamma) is at least pi/(1 + gamma)
    if why_not is None and (most < low or most <= 0.0 or free * (1.0 + gamma) < 1.0):
        why_not = impossible(
            f"a coverage of at least {low:.4g} and at most {most:.4g}, reward-free {free:.4g}"
        )
    notes = []
    if why_not is not None:
        notes.append(refusal(why_not))
    notes += as_notes(log.propensity_caveats, "propensity-error")
    if log.columns.unit is not None:
        notes.append(unit_note(log.columns.unit))
    if not full:
        notes.append(
            Note(
                "the propensities of all actions, and a policy that gives a probability to "
                "each, would narrow the upper bounds",
                kind="narrower",
            )
        )
    found = CoverageEstimate(
        name=name,
        gamma=gamma,
        coverage=None,
        coverage_lower=None,
        coverage_upper=None,
        reward_free=(1.0 - sums.free / n) / gamma,
        reward_free_upper=None,
        delta=delta,
        rows=n,
        full=full,
        notes=(*notes, *log.caveats),
        frames=log.frames,
    )
    if math.isfinite(sums.shown):
        found = replace(found, coverage=sums.shown / n / gamma)
    if why_not is not None:
        return found
    return replace(found, coverage_lower=low, coverage_upper=hidden, reward_free_upper=free)
