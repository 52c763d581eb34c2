"""Health of a slate log: is each slot fit to value other policies?"""

from __future__ import annotations

from dataclasses import dataclass

from piwo.checks import check_delta, check_kind
from piwo.health.check import check as check_log
from piwo.health.record import Health, Verdict
from piwo.messages import argument
from piwo.records import Record
from piwo.slates.estimators import require_marginals
from piwo.slates.log import SlateLog
from piwo.slates.positions import log_of_position
from piwo.visible import number, table, visible_lines

__all__ = ["SlateHealth", "check"]

_WORST: tuple[Verdict, ...] = ("unfit", "fit with care", "fit")


@dataclass(frozen=True)
class SlateHealth(Record):
    """The health of each slot of a slate log; see `check`.

    >>> SlateHealth((), 0.05).verdict
    'fit'
    """

    slots: tuple[Health, ...]
    """Of the first slot, the second, and so on, for the uniform policy."""
    delta: float
    """Probability of a false alarm about the propensities of all slots together."""

    @property
    def verdict(self) -> Verdict:
        """The worst of the slots' verdicts."""
        found = {one.verdict for one in self.slots}
        return next((one for one in _WORST if one in found), "fit")

    @property
    def fit(self) -> bool:
        """Whether every slot may be used, with care or without."""
        return self.verdict != "unfit"

    @property
    def sentence(self) -> str:
        """The answer in words: that of the first of the slots with the worst verdict."""
        for place, one in enumerate(self.slots, 1):
            if one.verdict == self.verdict:
                if one.verdict == "fit":
                    return one.sentence
                start, _, rest = one.sentence.partition(": ")
                return f"{start}, slot {place}: {rest}"
        return ""

    def __str__(self) -> str:
        lines = [self.sentence, ""]
        said: dict[str, list[int]] = {}
        for place, one in enumerate(self.slots, 1):
            for finding in one.findings:
                said.setdefault(f"{finding.severity}: {finding.text}", []).append(place)
        for text, places in said.items():
            severity, _, rest = text.partition(": ")
            lines.append(f"{severity}: {_places(places, len(self.slots))}{rest}")
        if said:
            lines.append("")
        head = ("slot", "rows", "actions", "reward", "least propensity", "mean weight", "ESS")
        rows = []
        for place, one in enumerate(self.slots, 1):
            numbers = (one.mean_reward, one.propensity_min, one.mean_weight, one.ess)
            taken = f"{one.actions_logged:,} of {one.actions:,}"
            rows.append((str(place), f"{one.rows:,}", taken, *map(number, numbers)))
        lines.append("by slot (weights of the uniform policy; expected mean 1)")
        lines += [f"  {line}" for line in table(head, rows)]
        return visible_lines(lines)


def _places(places: list[int], slots: int) -> str:
    """Return which slots something was found in, if not in all of several.

    >>> _places([2], 3), _places([1, 3], 3), _places([1, 2], 2)
    ('slot 2: ', 'slots 1, 3: ', '')
    """
    if len(places) == slots:
        return ""
    word = "slot" if len(places) == 1 else "slots"
    return f"{word} {', '.join(map(str, places))}: "


def check(log: SlateLog, delta: float = 0.05) -> SlateHealth:
    """Whether each slot of a slate log is fit to value policies, and what is wrong with it.

    Every slot is checked as a log of its own (`SlateLog.position`), with its action, its reward
    (that of the slate, if slots have none) and its marginal propensity, by the rules of
    `piwo.check`: mean 1/mu of each action and the mean weight of the uniform policy against 1,
    effective sample size, actions never shown there, propensities that follow rewards.

    Args:
        log: of `slates.read`, with marginal propensities.
        delta: probability of a false alarm about the propensities; each of L slots has delta / L.

    Returns:
        A `SlateHealth`; `slots[0]` is the `piwo.health.Health` of the first slot.

    Raises:
        UsageError: for logs without marginal propensities, and in a cluster.

    >>> import piwo
    >>> rows = {"slate": [["a", "b"], ["b", "a"]] * 500, "reward": [1, 0] * 500}
    >>> log = piwo.slates.read(rows, reward="reward", behavior=piwo.slates.Uniform(["a", "b"]))
    >>> print(check(log))
    Fit for use: nothing speaks against the log.
    <BLANKLINE>
    by slot (weights of the uniform policy; expected mean 1)
      slot   rows  actions  reward  least propensity  mean weight   ESS
         1  1,000   2 of 2     0.5               0.5            1  1000
         2  1,000   2 of 2     0.5               0.5            1  1000
    """
    check_kind("log", log, SlateLog, "; piwo.slates.read makes one")
    check_delta(delta)
    require_marginals(log, argument("slates.check"))
    slots = log.slots
    # slots may be declared that no slate of this log has
    while slots > 1 and not len(log_of_position(log, slots)):
        slots -= 1
    found = []
    for position in range(1, slots + 1):
        found.append(check_log(log_of_position(log, position), delta=delta / slots))
    return SlateHealth(tuple(found), delta)
