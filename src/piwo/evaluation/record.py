"""Evaluation: the value of one policy on one log, with its interval and what both rest on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.display import Display, Ruler
from piwo.evaluation.guardrails import GuardrailResult
from piwo.evaluation.segment import Segment
from piwo.messages import Note
from piwo.records import Record, frames_field
from piwo.visible import confidence, number, rows_text, visible, visible_lines

__all__ = [
    "Evaluation",
    "cap_text",
    "compared_with",
    "display_of",
    "ends_text",
    "frame_columns_of",
    "named_notes",
    "notes_together",
]

_NAMED = 5
"""Most policies that one note names."""


@dataclass(frozen=True)
class Evaluation(Record):
    """The value of one policy on one log, with everything that the numbers rest on.

    Values, bounds and standard errors are in the reward's own unit. None: not defined, or not
    known.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> print(piwo.evaluate(log, piwo.policies.Logging()))
    logging: 0.5 (iw), 95% interval [0.3867, 0.5956] (deadline)
      note: assumes independent rows ...
      note: narrower intervals are possible: ...
    """

    name: str
    estimator: str
    """Which point estimate `value` is: iw, snips, or the name of a score, such as ix, clip, ls,
    ls-linear."""
    gamma: float | None
    """gamma of ix and clip, lam / 2 of ls and ls-linear, the gamma that other scores amount to;
    None without."""
    value: float | None
    standard_error: float | None
    lower: float | None
    """Lower end of the interval for the true value."""
    upper: float | None
    lower_raw: float | None
    """The lower end as the formula gave it, before the reward range is used."""
    upper_raw: float | None
    interval: str
    """mixture-cv, mixture, ix, ls (finite-sample), normal, bootstrap (asymptotic), and others: see
    docs/bounds.md."""
    guarantee: str
    """finite-sample: wrong with probability at most delta at this n; asymptotic; asymptotic, for
    the smoothed value (ix, clip, ls and other smoothed scores: not for the policy's own value); or
    none."""
    delta: float
    simultaneous: int
    """How many policies' intervals hold together with probability 1 - delta."""
    rows: int
    mean_weight: float
    """Mean of pi/mu; its expectation is 1 if the propensities are right and the logger takes every
    action that the policy does."""
    mean_weight_z: float | None
    """(mean weight - 1) / its standard error. None if it cannot be computed, or is 4 or more from a
    difference of at most 1/1000, as of rounded propensities."""
    ess: float | None
    """Effective sample size (sum w)^2 / sum w^2 of the weights pi/mu; in units if there are any."""
    ess_used: float | None
    """The same for the weights that the estimate used."""
    changed_rows: int
    """Rows whose weight the estimator changed."""
    max_weight: float
    unsupported_mass: float | None
    """Probability that the policy gives to actions that the log cannot show; None if it is known on
    logged actions only. If the propensities of all (eligible) actions are logged, these are the
    actions of propensity 0 in their row, and the number is exact; else the actions never logged.
    In logs with eligible actions these count in rows that list them, and so does all that the
    policy plays besides a logged action of propensity 1; the sum is at most
    `missing_mass_upper`, if there is one, as many may never have been taken by chance."""
    missing_mass_upper: float | None
    """Upper bound (at delta) on the policy's mass where the logger never goes."""
    logging_value: float | None
    """Mean logged reward."""
    improvement_lower: float | None
    """Lower bound (at delta) on value minus the logging policy's value, or the baseline's; above 0:
    certified better."""
    propensity_p: float | None
    """p-value of "propensities are not too small" (E w <= 1), the smallest of all policies
    compared, the baseline included, times their number; valid at any time, for policies that were
    fixed beforehand. None if it cannot be tested."""
    reward_range: tuple[float, float]
    cost: bool
    """Rewards are negative costs."""
    horizon: int | str | None = None
    """Declared in advance, so that the bounds hold at all n together; None: at this n alone."""
    improvement_upper: float | None = None
    """Upper bound (at delta) on the value minus that of the logging policy; below 0: certified
    worse. With a finite-sample guarantee, as the lower one, whatever the interval. None: there is
    none, as over another baseline, for rewards without an upper end, where the two bounds cross,
    by unit next to an asymptotic interval, where the rows contradict their propensities, and where
    nothing can be proved, as of a policy that was learned from these rows (`no_interval`)."""
    log_e_better: float | None = None
    """Logarithm of the evidence against "no better than that", an e-value valid at every n."""
    log_e_above: float | None = None
    """The same against "the value is at most" the threshold that was asked for; None without
    one."""
    baseline: str | None = None
    """What the improvement is over; None: the logging policy."""
    baseline_value: float | None = None
    """Importance-weighted estimate of what a baseline other than the logging policy is worth."""
    unit: str | None = None
    """The column of units: the value is a mean over units of the mean over their rows, and weights,
    standard errors and intervals are of units. None: rows count."""
    units: int | None = None
    """How many units there are; None without."""
    logger: str | None = None
    """The declared logger, "fixed" or "learning"; None: not declared."""
    copies: float | None = None
    """Estimated share of the rows that are copies of another row; None if none are known."""
    rate_cap: float | None = None
    """A cap on E[reward | context, action] that `upper` assumes, as declared; None: it assumes
    none."""
    upper_without_cap: float | None = None
    """The upper end without that assumption; None if `upper` assumes none."""
    no_interval: Note | None = None
    """Why there is no interval; None if there is one. Its `kind` is "in-sample" if the policy was
    learned from these rows. There is no other bound either, unless only the method fails on these
    rows: kinds "undefined" and "beyond-range" (an asymptotic interval without a possible value)."""
    guardrails: tuple[GuardrailResult, ...] = ()
    """Whether the policy keeps within each guardrail."""
    segments: tuple[Segment, ...] = ()
    """What holds for each value of the column that results are split by."""
    notes: tuple[Note, ...] = ()
    """What a reader must know, the most important first."""
    frames: str | None = frames_field()

    @property
    def bounds_hold(self) -> bool:
        """Whether it has finite-sample bounds that the rows do not contradict."""
        return self.guarantee == "finite-sample" and not self._contradicted

    @property
    def _contradicted(self) -> bool:
        return self.propensity_p is not None and self.propensity_p < SUSPICIOUS

    def reaches(self, at_least: float) -> bool:
        """Whether the value is certified to be at least this, by the lower end of the interval."""
        return self.bounds_hold and self.lower is not None and self.lower >= at_least

    @property
    def in_sample(self) -> bool:
        """Whether the policy was learned from these rows, so that it has no bounds."""
        return self.no_interval is not None and self.no_interval.kind == "in-sample"

    @property
    def certified_better(self) -> bool:
        """Whether the policy is certified better than the logging policy, or the baseline.

        The bound on the improvement holds at this n, whatever the interval of the value.
        """
        gain = self.improvement_lower
        return gain is not None and gain > 0 and not self._contradicted

    def refusals(self, at_least: float | None = None) -> tuple[str, ...]:
        """Why a gate refuses the policy, in words; empty if it passes.

        A gate asks for a certified improvement, for the least value if there is one, and that no
        guardrail is certified to be broken. One that is "not certified harmless" does not refuse.

        Args:
            at_least: the least value, in the reward's unit; None: none is asked for.
        """
        found = []
        if not self.certified_better:
            why = ""
            if self.no_interval is not None:
                why = f" ({self.no_interval})"
            found.append(f"not certified better than {self.over}{why}")
        if at_least is not None and not self.reaches(at_least):
            found.append(
                f"not certified to be worth at least {at_least:g}, by the lower end of the interval"
            )
        found += [str(one) for one in self.guardrails if one.harmful]
        return tuple(found)

    @property
    def over(self) -> str:
        """What the improvement is over, in words."""
        return compared_with(self.baseline, self.logger)

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: one row."""
        return {**frame_columns_of([self])}

    def display(self) -> Display:
        """Return the evaluation as it is shown in a notebook."""
        return display_of([self], f"{self.name} on {rows_text(self.rows, self.units, self.unit)}")

    def __str__(self) -> str:
        value, said = "not defined", None
        if self.value is not None:
            value = number(self.value)
        line = f"{self.name}: {value} ({self.estimator}), {self._interval}"
        # the line itself says why there is no interval
        if self.no_interval is not None:
            said = self.no_interval.kind
        notes = [f"  note: {note}" for note in self.notes if note.kind != said]
        guards = [f"  guardrail: {one}" for one in self.guardrails]
        parts = [f"  {one}" for one in self.segments]
        return visible_lines([line, *parts, *guards, *notes])

    @property
    def _interval(self) -> str:
        if self.lower is None and self.upper is None:
            return f"no interval: {self.no_interval}"
        ends = ends_text(self.lower, self.upper)
        how = self.interval
        if self.rate_cap is not None:
            how += f", {cap_text(self.rate_cap)}"
        return f"{confidence(self.delta, '%')} interval {ends} ({how})"


def display_of(evaluations: Sequence[Evaluation], title: str) -> Display:
    """Return evaluations made together as one table, a row a policy, in the order given.

    Digits are those that the narrowest interval makes meaningful; lower bounds are rounded down,
    upper bounds up.

    Args:
        evaluations: at least one.
        title: what is shown, in words; how sure the bounds are is added.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> shown = display_of([piwo.evaluate(log, piwo.policies.Constant("a", log.actions))], "a")
    >>> print(shown.text)
    a; 95 % bounds (deadline); gain over the logging policy
      policy      value  at least  at most  gain at least  effective rows
      constant:a   1.00      0.77     1.00           0.39              50  certified better
      note: ...
    """
    first = evaluations[0]
    ruler = Ruler.of([(one.lower, one.upper) for one in evaluations])
    rows = []
    for one in evaluations:
        ess = "-"
        if one.ess is not None:
            ess = f"{one.ess:,.0f}"
        numbers = (ruler.value(one.value), ruler.lower(one.lower), ruler.upper(one.upper))
        gain = ruler.lower(one.improvement_lower)
        rows.append((one.name, *numbers, gain, ess, _verdict(one)))
    counted = "rows" if first.unit is None else "units"
    header = ("policy", "value", "at least", "at most", "gain at least", f"effective {counted}", "")
    title += f"; {_sureness(evaluations)}; gain over {first.over}"
    if first.cost:
        title += "; values are minus the cost"
    if first.rate_cap is not None:
        title += f"; {cap_text(first.rate_cap)}"
    notes: Sequence[Note] = first.notes
    if len(evaluations) > 1:
        notes = notes_together(evaluations)
    return Display(title, header, tuple(rows), tuple(map(str, notes)))


def _sureness(evaluations: Sequence[Evaluation]) -> str:
    """Return at what level bounds hold, and by what methods."""
    first = evaluations[0]
    methods = dict.fromkeys(one.interval for one in evaluations if not one.in_sample)
    level = f"{confidence(first.delta)} bounds"
    if first.simultaneous > 1:
        level += " that hold together"
    if not methods:
        return level
    return f"{level} ({', '.join(methods)})"


def _verdict(one: Evaluation) -> str:
    """Return what is proved of a policy, in two words."""
    if one.in_sample:
        return "learned from these rows"
    if one.certified_better:
        return "certified better"
    if one.guarantee == "none":
        return "no interval"
    if one.guarantee != "finite-sample":
        return "approximate"
    return ""


def frame_columns_of(evaluations: Sequence[Evaluation]) -> dict[str, list[Any]]:
    """Return the columns of a frame of evaluations, one row each.

    >>> frame_columns_of([])
    {}
    """
    columns: dict[str, list[Any]] = {}
    for one in evaluations:
        row = {**Record.frame_columns(one), "certified_better": [one.certified_better]}
        for name, (value,) in row.items():
            columns.setdefault(name, []).append(value)
    return columns


def cap_text(rate_cap: float) -> str:
    """Return the assumption that a declared cap on rates is, as text.

    >>> cap_text(0.05)
    'if E[reward | context, action] <= 0.05'
    """
    return f"if E[reward | context, action] <= {rate_cap:.6g}"


def ends_text(lower: float | None, upper: float | None) -> str:
    """Return an interval as text; rewards without an upper end have none.

    >>> ends_text(0.25, 0.5), ends_text(0.25, None)
    ('[0.25, 0.5]', '[0.25, no upper end]')
    """
    first, last = "no lower end", "no upper end"
    if lower is not None:
        first = number(lower)
    if upper is not None:
        last = number(upper)
    return f"[{first}, {last}]"


def notes_together(evaluations: Sequence[Evaluation]) -> list[Note]:
    """Return the notes of evaluations made together, each once; those on all at the end.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5], actions=["a", "b"]
    ... )
    >>> found = piwo.compare(log, {x: piwo.policies.Constant(x, log.actions) for x in "ab"})
    >>> from dataclasses import replace
    >>> alone, both = Note("alone"), Note("both")
    >>> notes_together(
    ...     [replace(found["a"], notes=(alone, both)), replace(found["b"], notes=(both,))]
    ... )
    ['a: alone', 'both']
    >>> some = replace(found["a"], notes=(alone,))
    >>> notes_together([some, replace(some, name="c"), replace(some, name="d", notes=())])
    ['a, c: alone']
    """
    # notes on bounds do not concern policies that can have none
    fair = [one.notes for one in evaluations if not one.in_sample]
    return named_notes([(one.name, one.notes) for one in evaluations], fair)


def named_notes(
    each: Sequence[tuple[str, Sequence[Note]]], fair: Sequence[Sequence[Note]]
) -> list[Note]:
    """Return the notes of several policies, each once, with whose it is; those on all at the end.

    Args:
        each: name and notes of each policy.
        fair: the notes of those that shared notes are of.

    >>> alone, both = Note("alone"), Note("both")
    >>> named_notes([("a", [alone, both]), ("b", [both])], [[alone, both], [both]])
    ['a: alone', 'both']
    """
    shared: list[Note] = []
    if len(fair) > 1:
        shared = list(fair[0])
        for notes in fair:
            shared = [note for note in shared if note in notes]
    # the same note on several policies: once, with their names
    concerned: dict[tuple[str, str], list[str]] = {}
    for name, notes in each:
        for note in notes:
            if note not in shared:
                concerned.setdefault((note.template, note.kind), []).append(name)
    own = []
    for (template, kind), names in concerned.items():
        few = ", ".join(names[:_NAMED])
        if len(names) > _NAMED:
            few += f" and {len(names) - _NAMED} more"
        own.append(Note(f"{few}: {template}", kind))
    return own + shared


def compared_with(baseline: str | None, logger: str | None = None) -> str:
    """Return what an improvement is over, in words.

    Args:
        baseline: its name; None: the logging policy.
        logger: what was declared of the logger. One that learned had a policy in every row.

    >>> compared_with(None), compared_with("old.piwo")
    ('the logging policy', 'the baseline old.piwo')
    >>> compared_with(None, "learning")
    "the average of the logger's policies"
    """
    if baseline is None and logger == "learning":
        return "the average of the logger's policies"
    if baseline is None:
        return "the logging policy"
    return f"the baseline {visible(baseline)}"
