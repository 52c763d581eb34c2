"""The record of a log's health: what was measured, what was found, the verdict; and it as text."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Literal

from piwo.display import Display
from piwo.health.rows import (
    ActionRow,
    AgeRow,
    ContextGap,
    HeavyRow,
    PositionRow,
    SizeRow,
    WeightBin,
)
from piwo.intervals.matching import UNNAMED
from piwo.logs.actions import Label
from piwo.logs.propensity_error import CalibrationBin
from piwo.logs.unit_columns import UnitColumn
from piwo.messages import argument, rendered
from piwo.records import Record, frames_field
from piwo.sources.row_labels import first_of, place
from piwo.visible import number, percent, rows_text, table, visible_lines

__all__ = [
    "TABLE_ROWS",
    "Health",
    "HealthFinding",
    "Severity",
    "Verdict",
    "health_text",
    "label_text",
    "policy_text",
    "position_text",
]

Verdict = Literal["fit", "fit with care", "unfit"]
Severity = Literal["unfit", "care", "note"]

_VERDICTS: Mapping[Verdict, str] = {
    "fit": "Fit for use",
    "fit with care": "Fit for use with care",
    "unfit": "Unfit for use",
}

TABLE_ROWS = 1000
"""Rows of the per-action table: those with the most evidence against them."""
_SHOWN = 10
"""Rows of a table in the text."""
_ALIKE = 3
"""Most rows of one weight that are named."""
_TWINS = 0.01
"""Fewer rows that equal an earlier one change nothing that is shown."""
_WIDEST = 32
"""Characters of a label in the text."""
_WIDTH = 100
"""Columns of a paragraph."""
_ACTIONS = (
    "rows, frequency: how often the action was taken. propensity, reward: means over the rows that "
    "took it. match (mean 1/mu): the sum of 1/propensity over those rows, divided by the number of "
    "all; 1 up to chance if the propensities are right. error: its standard error. z-score: how "
    "many errors it is from 1; far above 0, the propensities are too small."
)
_HEAVIEST = (
    "row: its number in the log, from 0. weight: the probability that the policy gives to the "
    "action taken, divided by the propensity (with units, by the rows of its unit, too). share: "
    "its part of the sum of all weights; a row with much of it decides the estimate."
)
_HISTOGRAM = (
    "weight from: rows (or units) with at least this weight and less than twice as much. share: "
    "their part of the sum of all weights."
)
_SIZES = (
    "actions from: rows with at least this many eligible actions and fewer than twice as many. "
    "mean weight: of the uniform policy, expected 1. z-score: its distance from 1 in standard "
    "errors."
)
_AGES = (
    "age from: how long ago the action was first eligible, as a share of the log. mean weight: of "
    "the uniform policy. listed: what it is expected to be. z-score: their difference in standard "
    "errors."
)
_POSITIONS = (
    "reward: mean over the rows at the position; z-score beside it: how far it is from what the "
    "same actions earn at all positions, in standard errors. mean weight: of the uniform policy, "
    "expected 1 if positions do not depend on the action; z-score beside it: its distance from 1. "
    "not "
    "taken: share of the uniform policy whose actions were never taken at the position."
)
_CALIBRATION = (
    "estimated: pairs of a row and an action with such an estimated propensity. mean estimated, "
    "taken: its mean, and how often the action was taken; z-score: their difference in standard "
    "errors."
)
_IN_WORDS = {
    "propensity-error": (
        "its propensities are estimated, or may be too small",
        "log the probability with which each action is drawn",
    ),
    "no-overlap": (
        "the policy never takes a logged action",
        "evaluate a policy that takes actions of the logger",
    ),
    "effective-sample": (
        "few of its observations carry the value of this policy",
        "evaluate policies closer to the logger, or log more exploration",
    ),
    "policy-not-in-log": (
        "part of what the policy plays is not in the log",
        "evaluate policies closer to the logger, or log those actions",
    ),
    "propensities-too-small": (
        "its propensities do not match how often actions were taken",
        "log the probability with which each action was really drawn",
    ),
    "copies": ("rows are copies of other rows", f"name a unique id ({argument('key')})"),
    "logger": ("the logger changed", f"declare how it learned ({argument('logger', 'learning')})"),
    "units": (
        "rows of one user or session depend on each other",
        f"name the column of users or sessions ({argument('unit')})",
    ),
    "eligible": (
        "propensities and lists of eligible actions disagree",
        "log both from one place",
    ),
    "item-age": (
        "propensities are wrong for actions of some ages",
        "find out what they were at the time",
    ),
    "position-bias": (
        "rewards depend on the position at which the action was shown",
        "compare rows of one position, or evaluate slates",
    ),
    "many-positions": (
        "there are too many positions to compare",
        "group them in a column of their own",
    ),
    "position-of-action": (
        "positions depend on the action, or propensities are wrong at some",
        "find out how positions were chosen",
    ),
    "one-action": (
        "it has one action, so there is nothing to compare",
        f"give the list if others could be taken ({argument('actions', '[...]')})",
    ),
    "no-exploration": (
        "the logger never explored",
        "log the decisions of a policy that draws its actions",
    ),
    "never-logged": (
        "actions that the policy takes were never logged",
        "log them, or keep new policies away from them",
    ),
    "inferred-actions": (
        "its list of actions may not be complete",
        f"give the list ({argument('actions', '[...]')})",
    ),
    "equal-rewards": ("all rewards are the same", "check the reward column"),
    "missing-context": (
        "context values are missing",
        f"fill them, or mark them ({argument('missing', 'indicator')})",
    ),
    "infinite-context": ("context values are infinite", "find out why they are there"),
}
"""What a finding that needs care means, and what to do first, by its kind. Notes have no entry."""


@dataclass(frozen=True)
class HealthFinding:
    """One thing that a user of the log should know."""

    kind: str
    """Which rule found it, such as "effective-sample"."""
    severity: Severity
    text: str
    """One line: what, how many, which rows or actions, what to do."""
    rows: tuple[int, ...] = ()
    """The rows that it names, numbered from 0."""


@dataclass(frozen=True)
class Health(Record):
    """The health of a log with respect to one policy; see `check` for the rules.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 500, reward=[1, 0] * 500, propensity=[0.5] * 1000
    ... )
    >>> piwo.check(log).verdict
    'fit'
    """

    verdict: Verdict
    findings: tuple[HealthFinding, ...]
    """Most severe first."""
    policy: str
    """The policy that the weights belong to."""
    rows: int
    actions: int
    actions_logged: int
    never_logged: tuple[Label, ...]
    """Actions of the list that no row took, at most `TABLE_ROWS` of them; if actions change from
    row to row, those first that most rows could have taken."""
    mean_reward: float
    reward_range: tuple[float, float]
    cost: bool
    propensity_min: float
    propensity_median: float
    """The true one is between half of it and twice as much."""
    mean_weight: float
    mean_weight_z: float | None
    """As in `piwo.Evaluation`: None also for a mean within 1/1000 of 1 that is many standard errors
    away, as of rounded propensities."""
    max_weight: float
    ess: float | None
    """Effective sample size (sum w)^2 / sum w^2; None if all weights are 0 or one is beyond
    float64."""
    unsupported_mass: float | None
    """As in an `Evaluation` of this policy alone."""
    top_share: Mapping[int, float | None]
    """Share of all weight that the heaviest 1, 2 and 10 rows carry."""
    propensity_p: float | None
    """p-value of "the propensities are not too small" for the uniform policy; None if it cannot
    be tested."""
    action_p: float | None
    """The smallest p of the per-action table."""
    thinned: bool
    logged_once: int
    """Actions logged once, if the action list was inferred: others may be missing from it."""
    delta: float
    by_action: tuple[ActionRow, ...]
    actions_left_out: int
    """Actions that the per-action table leaves out because it is at its limit."""
    heaviest: tuple[HeavyRow, ...]
    histogram: tuple[WeightBin, ...]
    doubts: tuple[str, ...] = ()
    """Caveats of the propensities: estimated, or allowed to be too small
    (`Log.with_propensity_error`)."""
    caveats: tuple[str, ...] = ()
    """Caveats of how the rows were read."""
    context_gaps: tuple[ContextGap, ...] = ()
    """The named context columns that have missing, NaN or infinite values."""
    allowed_error: bool = False
    """Whether weights are by the largest propensities that a declared error allows: they are then
    low on average although nothing is missing."""
    calibration: tuple[CalibrationBin, ...] = ()
    """How estimated propensities compare with what was done; empty if they were logged."""
    copies: float | None = None
    """Estimated share of the rows that are copies of another row; None if none are known."""
    equal_rows: float | None = None
    """Share of the rows that equal an earlier one in context, action, reward and propensity, if
    chance may have made them equal; None if they are copies, or were not looked for."""
    logger: str | None = None
    """What was declared of the logger: "fixed" or "learning"."""
    logger_changed: tuple[int, int] | None = None
    """How many pairs of a context and an action had several propensities, of how many that were
    sampled and had several rows, if the logger was not declared to learn; None if no more than a
    few."""
    never_logged_eligible: tuple[int, ...] = ()
    """In how many rows each of `never_logged` could have been taken, if actions change from row to
    row."""
    never_eligible: int = 0
    """Actions of the list that no row could have taken, if actions change from row to row."""
    every_propensity: bool = False
    """Whether the log has the probability of every action, or of every eligible one: the
    unsupported mass is then exact."""
    by_size: tuple[SizeRow, ...] = ()
    """By the number of eligible actions, if they change from row to row."""
    by_age: tuple[AgeRow, ...] = ()
    """By the age of the action, if they change from row to row and the log has times."""
    by_position: tuple[PositionRow, ...] = ()
    """By the position at which the action was shown, if the log says it."""
    positions_left_out: str | None = None
    """The column of positions, if they are more than 100 texts, which are not compared."""
    position_in_context: bool = False
    """Whether the position is a column of the context, too, so that policies may depend on it."""
    detectable_factor: float | None = None
    """If all logged propensities were too small by less than about this factor, the tests would not
    notice; None if they were not made."""
    unit: str | None = None
    """The column of units, of which weights and tests then are; None: of rows."""
    units: int | None = None
    unit_columns: tuple[UnitColumn, ...] = ()
    """Columns that look like ids and repeat, if units were not declared; at most three."""
    frames: str | None = frames_field()

    @property
    def count(self) -> int:
        """How many independent observations there are: units, if they were declared, or rows."""
        if self.units is None:
            return self.rows
        return self.units

    @property
    def counted(self) -> str:
        """What `count` counts: "units" or "rows"."""
        if self.units is None:
            return "rows"
        return "units"

    @property
    def fit(self) -> bool:
        """Whether the log may be used, with care or without."""
        return self.verdict != "unfit"

    @property
    def sentence(self) -> str:
        """The answer in words: is the log fit for use, and if not, why and what to do first.

        >>> import piwo
        >>> rows = {"reward": [1, 0] * 50, "propensity": [0.5] * 100}
        >>> print(piwo.check(piwo.Log.from_arrays(action=["a", "b"] * 50, **rows)).sentence)
        Fit for use: nothing speaks against the log.
        >>> print(piwo.check(piwo.Log.from_arrays(action=["a"] * 100, **rows)).sentence)
        Unfit for use: its propensities do not match how often actions were taken. First: log the
        probability with which each action was really drawn (1 more finding needs care).
        """
        serious = [one for one in self.findings if one.severity != "note"]
        start = _VERDICTS[self.verdict]
        if not serious:
            return f"{start}: nothing speaks against the log."
        first = serious[0]
        what, do = _IN_WORDS[first.kind]
        text = f"{start}: {what}. First: {rendered(do)}"
        more = len(serious) - 1
        if more == 1:
            text += " (1 more finding needs care)"
        elif more > 1:
            text += f" ({more} more findings need care)"
        return f"{text}."

    def frame_columns(self) -> dict[str, Sequence[Any]]:
        """Return the columns of `to_frame`: the per-action table."""
        columns: dict[str, Sequence[Any]] = {}
        for one in fields(ActionRow):
            columns[one.name] = [getattr(row, one.name) for row in self.by_action]
        return columns

    def display(self) -> Display:
        """Return the verdict and the findings as they are shown in a notebook."""
        rows = tuple((one.severity, rendered(one.text)) for one in self.findings)
        return Display(self.sentence, ("severity", "finding"), rows, _facts(self))

    def __str__(self) -> str:
        return health_text(self)


def label_text(label: object) -> str:
    r"""Return a label to show: quoted, control characters escaped, cut if it is long.

    >>> label_text("a\x1b[2J"), label_text(7)
    ("'a\\x1b[2J'", '7')
    """
    text = repr(label)
    if len(text) > _WIDEST:
        text = text[: _WIDEST - 4] + "...'"
    return text


def policy_text(name: str) -> str:
    """Return a policy in words, after "the" or at the start of a line.

    >>> policy_text("uniform"), policy_text("policy")
    ('uniform policy', 'policy')
    """
    if name == UNNAMED:
        return name
    return f"{name} policy"


def position_text(position: str | None) -> str:
    """Return a position to show.

    >>> position_text("1"), position_text("top"), position_text(None)
    ('1', "'top'", 'missing')
    """
    if position is None:
        return "missing"
    if position.replace(" to ", "").isdecimal():
        return position
    return label_text(position)


def health_text(health: Health, *, explain: bool = False) -> str:
    """Return the report: the answer, findings, and the first rows of each table.

    Args:
        health: what was found.
        explain: whether a paragraph under each table says what its columns are.
    """
    lines = [health.sentence, ""]
    if health.findings:
        for finding in health.findings:
            lines.append(f"{finding.severity}: {finding.text}")
        lines.append("")
    lines += _summary(health)
    tables = [(_actions(health), _ACTIONS), (_heaviest(health), _HEAVIEST)]
    tables.append((_histogram(health), _HISTOGRAM))
    if health.by_position:
        tables.insert(0, (_positions(health), _POSITIONS))
    if health.by_age:
        tables.insert(0, (_ages(health), _AGES))
    if health.by_size:
        tables.insert(0, (_sizes(health), _SIZES))
    if health.calibration:
        tables.insert(0, (_calibration(health), _CALIBRATION))
    for table_lines, words in tables:
        lines += ["", *table_lines]
        if explain:
            lines += ["", *textwrap.wrap(words, _WIDTH)]
    return visible_lines(lines)


def _facts(health: Health) -> tuple[str, ...]:
    """Return what was measured, and what the propensities and rows rest on."""
    return (*_summary(health), *map(rendered, (*health.doubts, *health.caveats)))


def _summary(health: Health) -> list[str]:
    chance, reward = "", "reward"
    # Weights that are all alike have no error to measure by.
    if health.mean_weight_z:
        chance = f" ({_from_1(health.mean_weight_z)})"
    if health.cost:
        reward = "reward (minus the cost)"
    largest = f"largest {number(health.max_weight)}"
    if health.units is not None:
        largest += ", of a single row"
    least, middle = _propensity(health.propensity_min), _propensity(health.propensity_median, 2)
    sense = f"(that many {health.counted} of equal weight would say as much)"
    rows = rows_text(health.rows, health.units, health.unit)
    if health.units is None:
        rows = f"rows {health.rows:,}"
    return [
        f"{rows}, actions {health.actions} ({health.actions_logged} logged)",
        f"mean {reward} {number(health.mean_reward)}",
        f"propensities of the actions taken: smallest {least}, middle (median) roughly {middle}",
        f"{policy_text(health.policy)}: effective sample size {_whole(health.ess)} {sense}",
        f"mean weight {number(health.mean_weight)}, expected 1{chance}, {largest}",
        *_top_shares(health),
        *_detectable(health),
        *_equal_rows(health),
    ]


def _from_1(z: float) -> str:
    """Return how far a mean weight is from 1, in words.

    >>> _from_1(-0.4261), _from_1(1234.5)
    ('0.43 standard errors below', '1,234 standard errors above')
    """
    size = f"{abs(z):.2g}" if abs(z) < 100.0 else f"{abs(z):,.0f}"
    return f"{size} standard errors {'below' if z < 0.0 else 'above'}"


def _top_shares(health: Health) -> list[str]:
    """Return how much of all weight the heaviest rows carry."""
    parts = []
    for many, share in health.top_share.items():
        if share is not None:
            parts.append(f"the heaviest {many} {percent(share)}")
    if not parts:
        return []
    first = parts[0].replace("heaviest 1 ", "heaviest row carries ", 1)
    return [f"{', '.join([first, *parts[1:]])} of all weight"]


def _whole(size: float | None) -> str:
    """Return a sample size: whole from 100 on, as decimals mean nothing there."""
    if size is None or size < 100.0:
        return number(size)
    return f"{size:,.0f}"


def _detectable(health: Health) -> list[str]:
    # Of weights that are all alike, a test would notice any factor.
    if health.detectable_factor is None or health.detectable_factor < 1.0005:
        return []
    least = percent(1.0 - 1.0 / health.detectable_factor)
    return [f"if all propensities were too small by up to about {least}, no test would notice"]


def _equal_rows(health: Health) -> list[str]:
    if health.equal_rows is None or health.equal_rows <= _TWINS:
        return []
    text = (
        f"copies of rows: {100.0 * health.equal_rows:.3g} % of the rows equal another row. Chance "
        "makes such rows, too, so it is not known whether any were copied; a column with a unique "
        f"id of each row ({argument('key')}) would show it"
    )
    return [rendered(text)]


def _propensity(value: float, digits: int = 4) -> str:
    if value == 0.0:
        return "below float64"
    return f"{value:.{digits}g}"


def _oddity(row: ActionRow) -> tuple[float, float]:
    """Return the key that sorts actions: the strongest evidence comes first."""
    # Without a test, the action comes last.
    p = 1.0
    if row.p is not None:
        p = row.p
    return p, -abs(row.z or 0.0)


def _actions(health: Health) -> list[str]:
    head = ("action", "rows", "frequency", "propensity", "reward", "match", "error", "z-score")
    rows = []
    for x in sorted(health.by_action, key=_oddity)[:_SHOWN]:
        z = "-"
        if x.z is not None:
            z = f"{x.z:.1f}"
        numbers = (x.frequency, x.mean_propensity, x.mean_reward, x.mean_inverse, x.standard_error)
        rows.append((label_text(x.action), f"{x.count:,}", *map(number, numbers), z))
    shown = "all" if len(rows) == health.actions else f"{len(rows)} of {health.actions}"
    title = (
        "by action (match: 1, up to chance, if propensities fit how often it was taken; "
        f"{shown}, the worst match first)"
    )
    return [title, *_indented(head, rows)]


def _sizes(health: Health) -> list[str]:
    head = ("actions from", "rows", "reward", "mean weight", "z-score")
    rows = []
    for x in health.by_size:
        z = "-"
        if x.z is not None:
            z = f"{x.z:.1f}"
        rows.append((str(x.least), f"{x.rows:,}", number(x.mean_reward), number(x.mean_weight), z))
    title = "by number of eligible actions (weights of the uniform policy; expected mean 1)"
    return [title, *_indented(head, rows)]


def _ages(health: Health) -> list[str]:
    head = ("age from", "rows", "reward", "mean weight", "listed", "z-score")
    rows = []
    for x in health.by_age:
        z = "-"
        if x.z is not None:
            z = f"{x.z:.1f}"
        numbers = map(number, (x.mean_reward, x.weight, x.listed))
        rows.append((f"{100 * x.least:g} %", f"{x.rows:,}", *numbers, z))
    title = "by age of the action (share of the log since it was first eligible)"
    return [title, *_indented(head, rows)]


def _positions(health: Health) -> list[str]:
    head = ("position", "rows", "reward", "z-score", "mean weight", "z-score", "not taken")
    rows = []
    for x in health.by_position:
        cells = [position_text(x.position), f"{x.rows:,}"]
        for value, z in ((x.mean_reward, x.reward_z), (x.mean_weight, x.weight_z)):
            cells += [number(value), "-" if z is None else f"{z:.1f}"]
        rows.append((*cells, number(x.untaken)))
    # The middle of a long table is left out.
    if len(rows) > 2 * _SHOWN:
        rows = [*rows[:_SHOWN], ("...",) * len(head), *rows[-_SHOWN:]]
    title = "by position of the action (weights of the uniform policy)"
    return [title, *_indented(head, rows)]


def _calibration(health: Health) -> list[str]:
    head = ("estimated", "pairs", "mean estimated", "taken", "z-score")
    rows = []
    for x in health.calibration:
        numbers = map(number, (x.pairs, x.predicted, x.observed))
        rows.append((f"{x.least:g} to {x.most:g}", *numbers, f"{x.z:.1f}"))
    title = "calibration of the estimated propensities, on rows that the fit did not see"
    return [title, *_indented(head, rows)]


def _heaviest(health: Health) -> list[str]:
    # All weights are the same up to rounding.
    if health.ess is not None and health.ess >= 0.999 * health.count:
        return ["heaviest rows: none, all weights are alike"]
    head = ("row", "action", "propensity", "weight", "share")
    shown: list[tuple[str, ...]] = []
    alike: dict[tuple[str, ...], list[str]] = {}
    last: tuple[str, ...] = ()
    for x in health.heaviest:
        row = str(x.row)
        # In a cluster, rows are numbered within their partition.
        if x.row >= first_of(0):
            row = place(x.row)
        numbers = map(number, (x.propensity, x.weight))
        last = (label_text(x.action), *numbers, percent(x.share))
        alike.setdefault(last, []).append(row)
    for cells, named in alike.items():
        row = ", ".join(named[:_ALIKE])
        if len(named) > _ALIKE:
            # The list ends after ten rows, so that more may be like its last one.
            some = "at least " if cells == last else ""
            row += f" and {some}{len(named) - _ALIKE} more"
        shown.append((row, *cells))
    title = "heaviest rows (weight: how many times the row counts"
    if health.units is not None:
        title = "heaviest rows (weight: what the row adds to the mean weight of its unit"
    title = f"{title}; share: of all weight)"
    return [title, *_indented(head, shown)]


def _histogram(health: Health) -> list[str]:
    head = ("weight from", health.counted, "share")
    rows = [(number(x.least), f"{x.rows:,}", percent(x.share)) for x in health.histogram]
    # The middle of a long table is left out.
    if len(rows) > 2 * _SHOWN:
        rows = [*rows[:_SHOWN], ("...", "...", "..."), *rows[-_SHOWN:]]
    title = "how the weight is spread (share: of all weight)"
    if health.units is not None:
        title = "how the weight is spread (of a unit: the mean over its rows; share: of all weight)"
    return [title, *_indented(head, rows)]


def _indented(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    return [f"  {line}" for line in table(head, rows)]
