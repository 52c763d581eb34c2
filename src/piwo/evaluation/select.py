"""Selection: which of N candidates should run, and which are any good?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Self

import numpy as np

from piwo import bounds
from piwo.checks import check_kind
from piwo.display import Display
from piwo.errors import UsageError
from piwo.evaluation.comparison import Comparison
from piwo.evaluation.evaluate import compare
from piwo.evaluation.record import Evaluation
from piwo.intervals import interval_named
from piwo.intervals.matching import check_named
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.records import Record, frames_field, jsonable
from piwo.visible import number, visible_lines

__all__ = ["Selection", "select"]


@dataclass(frozen=True)
class Selection(Record):
    """What N candidates measured on one log are worth, compared with each other.

    Three statements, of falling strength: `best`, and likewise `certified`, holds for every
    candidate at once with probability 1 - delta; `better` and `above` are sets of which, on average
    over logs, at most the share `rate` is wrong.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> print(select(log, {x: piwo.policies.Constant(x, log.actions) for x in log.actions}))
    best of 2: a, at least 0.7484
    better than the logging policy: certified a; at a false discovery rate of 5 % a
    note: assumes independent rows ...
    note: narrower intervals are possible: ...
    """

    best: str | None
    """The candidate with the highest lower bound on its value; None if none has a bound."""
    best_lower: float | None
    """Its lower bound, which holds although it was picked by it."""
    certified: tuple[str, ...]
    """Candidates whose lower bound on the improvement over the logging policy, or the baseline, is
    above 0, all at once."""
    better: tuple[str, ...]
    """Candidates found to be better than that, by e-BH."""
    above: tuple[str, ...] | None
    """Candidates found to be worth more than the threshold, by e-BH; None without threshold."""
    candidates: int
    delta: float
    rate: float
    """False discovery rate of `better`, and of `above`."""
    threshold: float | None
    evaluations: Mapping[str, Evaluation]
    notes: tuple[Note, ...] = ()
    """What a reader must know of every candidate, such as that the propensities were estimated."""
    frames: str | None = frames_field()

    @classmethod
    def of(
        cls,
        evaluations: Mapping[str, Evaluation],
        rate: float = 0.05,
        threshold: float | None = None,
    ) -> Self:
        """Return what the evaluations of one `compare` say together.

        Args:
            evaluations: all that were compared; to leave out those that looked bad is not allowed.
            rate: false discovery rate.
            threshold: the one that `compare` was given.

        Raises:
            UsageError: for no evaluations, or evaluations that were not made by one `compare`.

        >>> Selection.of({})
        Traceback (most recent call last):
        piwo.errors.UsageError: no evaluations to select from; give those of one piwo.compare
        """
        check_kind("evaluations", evaluations, Mapping)
        if not evaluations:
            raise UsageError("no evaluations to select from; give those of one piwo.compare")
        first = next(iter(evaluations.values()))
        # policies that were learned from these rows have no bounds, and paid for none
        fair = {name: one for name, one in evaluations.items() if not one.in_sample}
        count = max(1, len(fair))
        if any((one.simultaneous, one.rows) != (count, first.rows) for one in evaluations.values()):
            raise UsageError(
                f"these {len(evaluations)} evaluations were not made together, so "
                "their bounds do not allow for choosing among them; give all of one "
                "piwo.compare"
            )
        believed = {name: one for name, one in fair.items() if one.bounds_hold}
        lowers = {name: one.lower for name, one in believed.items() if one.lower is not None}
        best = max(lowers, key=lambda name: lowers[name], default=None)
        best_lower = None
        if best is not None:
            best_lower = lowers[best]
        certified = [name for name, one in fair.items() if one.certified_better]
        above: tuple[str, ...] | None = None
        if threshold is not None:
            above = _found({name: one.log_e_above for name, one in fair.items()}, believed, rate)
        better = _found({name: one.log_e_better for name, one in fair.items()}, believed, rate)
        shared = list(first.notes)
        for one in evaluations.values():
            shared = [note for note in shared if note in one.notes]
        return cls(
            best=best,
            best_lower=best_lower,
            certified=tuple(certified),
            better=better,
            above=above,
            candidates=len(fair),
            delta=first.delta,
            rate=rate,
            threshold=threshold,
            evaluations=dict(evaluations),
            notes=tuple(shared),
            frames=first.frames,
        )

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON, without the evaluations: they are records of their own."""
        made: dict[str, Any] = jsonable({**asdict(self), "evaluations": None})
        del made["evaluations"], made["frames"]
        return made

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: a row a candidate, and which sets it belongs to."""
        columns = Comparison(self.evaluations).frame_columns()
        names = columns["name"]
        columns["best"] = [name == self.best for name in names]
        columns["better"] = [name in self.better for name in names]
        if self.above is not None:
            columns["above"] = [name in self.above for name in names]
        return columns

    def display(self) -> Display:
        """Return the selection as it is shown in a notebook."""
        shown = Comparison(self.evaluations).display()
        return replace(shown, title="; ".join([*self.lines(), shown.title]))

    def lines(self) -> list[str]:
        """Return the selection in words, a line each statement."""
        picked = "none has a bound"
        if self.best is not None:
            picked = f"{self.best}, at least {number(self.best_lower)}"
        rate = f"at a false discovery rate of {100 * self.rate:.4g} %"
        over = next(iter(self.evaluations.values())).over
        lines = [
            f"best of {self.candidates}: {picked}",
            f"better than {over}: certified {_names(self.certified)}; {rate} {_names(self.better)}",
        ]
        if self.above is not None:
            lines.append(f"above {number(self.threshold)}, {rate}: {_names(self.above)}")
        return lines

    def __str__(self) -> str:
        unbounded = self._unbounded()
        lines = [f"no bound for {', '.join(names)}: {why}" for why, names in unbounded.items()]
        said = {why.kind for why in unbounded}
        notes = [f"note: {note}" for note in self.notes if note.kind not in said]
        return visible_lines([*self.lines(), *lines, *notes])

    def _unbounded(self) -> dict[Note, list[str]]:
        """Return which candidates have no bound, by reason."""
        named: dict[Note, list[str]] = {}
        for name, one in self.evaluations.items():
            if one.no_interval is not None:
                named.setdefault(one.no_interval, []).append(name)
        return named


def select(
    log: Log,
    policies: Mapping[str, Any],
    *,
    delta: float = 0.05,
    rate: float = 0.05,
    threshold: float | None = None,
    interval: str = "auto",
    baseline: Any = None,
    horizon: bounds.Horizon = None,
) -> Selection:
    """Choose among N candidates fixed before this log. Answers: which should run, which are good?

    Prefer it to looking at estimates: the best-looking of many is mostly lucky. One pass over the
    log.

    Formula: best = argmax of the simultaneous lower bounds of `piwo.compare`; better, above: e-BH
    on e-values against "v <= v(logging)" and "v <= threshold", at a false discovery rate that holds
    under any dependence.

    The budget: intervals are two-sided at delta / N, so a lower end has delta / (2 N), as the upper
    ends in `evaluations` are claimed with it; `certified` claims one side, at delta / N.

    Args:
        log: rows that were not used to make the candidates.
        policies: name -> candidate, every one that was tried; see `piwo.evaluate` for what a policy
            may be.
        delta: joint error probability of all bounds.
        rate: false discovery rate.
        threshold: a value that candidates have to beat, fixed in advance, in the unit of the
            reward.
        interval: a finite-sample interval method, see `piwo.evaluate`.
        baseline: the policy to be better than; see `piwo.compare`.
        horizon: see `piwo.evaluate`.

    Returns:
        A `Selection`.

    Raises:
        UsageError: for arguments out of range, an asymptotic interval, or a thinned log.

    Source: docs/theory.md, section "Selection"; e-BH: Wang and Ramdas 2022 (arXiv 2009.02824).

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> found = select(
    ...     log, {x: piwo.policies.Constant(x, log.actions) for x in log.actions}, threshold=0.5
    ... )
    >>> found.best, found.better, found.above
    ('a', ('a',), ('a',))
    """
    if interval_named(interval).guarantee == "asymptotic":
        raise UsageError(
            f"{argument('interval', interval)} is asymptotic, and nothing can be "
            "selected by it; use 'mixture'"
        )
    check_named(log, policies)
    log.require_provable("no bound holds")
    found = compare(
        log,
        policies,
        delta=delta,
        threshold=threshold,
        interval=interval,
        baseline=baseline,
        horizon=horizon,
    )
    return Selection.of(found, rate, threshold)


def _found(
    log_e: Mapping[str, float | None], believed: Mapping[str, Any], rate: float
) -> tuple[str, ...]:
    """Return the names whose hypothesis e-BH rejects; names without evidence count, too."""
    if not log_e:
        return ()
    evidence = []
    for name, log_e_value in log_e.items():
        # an e-value of 0: nothing speaks for the candidate, which e-BH counts all the same
        if log_e_value is None or name not in believed:
            evidence.append(-np.inf)
        else:
            evidence.append(log_e_value)
    kept = bounds.e_bh(evidence, rate)
    return tuple(name for name, keep in zip(log_e, kept, strict=True) if keep)


def _names(names: tuple[str, ...]) -> str:
    if names:
        return ", ".join(names)
    return "none"
