"""How a learner found its policy: the candidates in numbers, the rule in words."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from piwo.certificates.certificate import Certificate
from piwo.policies import Policy
from piwo.scores import Score
from piwo.visible import number, rows_text

__all__ = [
    "CandidateReport",
    "LearningReport",
    "pool_lines",
    "report_of",
    "report_of_path",
    "score_facts",
]


@dataclass(frozen=True)
class CandidateReport:
    """One policy that was tried.

    >>> from piwo.policies import Constant
    >>> CandidateReport(
    ...     "gamma 0.1", Constant("a", ["a", "b"]), {"gamma": 0.1, "value": 0.5, "value_lower": 0.4}
    ... ).chosen
    False
    """

    name: str
    policy: Policy
    facts: Mapping[str, float | str | None]
    """Its figures by name, in the reward's unit."""
    chosen: bool = False


@dataclass(frozen=True)
class LearningReport:
    """The result of `Learner.describe`.

    >>> LearningReport(("learned from 500 rows: oracle direct",)).tried
    ()
    """

    lines: tuple[str, ...]
    """How the policy was found, in words."""
    tried: tuple[CandidateReport, ...] = ()
    columns: Mapping[str, str] = field(default_factory=lambda: _columns(None))
    """Which of `CandidateReport.facts` to show, and what to call them."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What to keep with the policy: plain numbers, texts, lists and mappings."""
    stays: str | None = None
    """What to keep running if nothing better was found: "the logging policy" or "the incumbent";
    None if something was."""
    in_sample: bool = False
    """Whether improvements are over a policy that was learned from these rows, so none counts."""


@runtime_checkable
class _Point(Protocol):
    """A point of a path."""

    @property
    def score(self) -> Score: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def certificate(self) -> Certificate | None: ...


def report_of(
    policy: Policy,
    made: Certificate | None,
    score: Score | None,
    rule: str,
    *,
    seen: int | None = None,
    more: Iterable[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> LearningReport:
    """Return the report on one policy that was learned with one score.

    Args:
        policy: the policy.
        made: its certificate.
        score: what it was learned with.
        rule: how the hyper-parameter was chosen.
        seen: rows that it was learned from; None: the number in the certificate.
        more: further lines.
        facts: what to keep with the policy.

    >>> import piwo
    >>> made = Certificate("held-out", 0.6, 0.5, 0.1, 0.5, oracle="ridge", training_rows=90)
    >>> report_of(piwo.policies.Constant("a", ["a"]), made, piwo.IX(0.1), "gamma as given").lines
    ... # doctest: +ELLIPSIS
    ('learned from 90 rows: score ix, oracle ridge', '  smoothing gamma = 0.1, so that no row ...')
    """
    used = ""
    if score is not None:
        used = f"score {score.name}"
    tried: tuple[CandidateReport, ...] = ()
    if made is None:
        lines = [f"learned without a certificate: {used or rule}"]
    else:
        rows = seen
        if seen is None:
            rows = made.training_rows
        if used:
            with_what = f"{used}, oracle {made.oracle}"
        else:
            with_what = f"oracle {made.oracle}"
        lines = [f"learned from {rows:,} rows: {with_what}"]
        tried = (_candidate(policy, made, score, chosen=True),)
    if score is not None and score.value is not None:
        shown = f"{score.parameter} = {number(score.value)}"
        if score.parameter != "gamma" and score.gamma_equivalent is not None:
            # Estimates and the command have one name for the smoothing of all scores.
            shown += f" (gamma {number(score.gamma_equivalent)})"
        lines.append(f"  smoothing {shown}, so that no row counts too much; {rule}")
    return LearningReport((*lines, *more), tried, facts=facts or {})


def report_of_path(
    points: Iterable[_Point], made: Certificate | None, score: Score | None, rule: str
) -> LearningReport:
    """Return the report on a path, of which the point with the certificate was chosen.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = piwo.oracles.Exhaustive(
    ...     [piwo.policies.Constant(x, log.actions) for x in log.actions]
    ... )
    >>> learner = piwo.PIWO(piwo.IX((0.1, 0.2)), both, certificate="in-sample").fit(log)
    >>> report = report_of_path(learner.path_.values(), learner.certificate_, None, "")
    >>> [one.name for one in report.tried]
    ['gamma 0.1', 'gamma 0.2']
    """
    listed = tuple(points)
    tried = []
    for point in listed:
        if point.certificate is not None:
            chosen = point.certificate is made
            tried.append(_candidate(point.policy, point.certificate, point.score, chosen=chosen))
    columns = _columns(listed[0].score.parameter)
    report = report_of(listed[0].policy, made, score, rule)
    return replace(report, tried=tuple(tried), columns=columns)


def pool_lines(made: Certificate, rule: str, ways: int, *, both: bool) -> tuple[str, ...]:
    """Return how the best of several candidates was found: which rows, which counts, in words.

    Args:
        made: the certificate.
        rule: the line that says how it was chosen.
        ways: the candidates of the table, without today's policy.
        both: whether each was learned from both parts of the rows.

    >>> made = Certificate("held-out", 0.6, 0.5, 0.1, 0.5, rows=10, training_rows=90, candidates=7)
    >>> lines = pool_lines(made, "  ridge: the best", 6, both=True)
    >>> lines[0]
    'learned from 90 rows, certified on 10 others'
    >>> print(lines[2])  # doctest: +ELLIPSIS
      the table has today's policy and 6 candidates, each learned on one part of the rows and ...
    """
    others = f"{made.rows:,} others"
    if made.units is not None:
        others = f"others: {rows_text(made.rows, made.units, made.unit)}"
    plural = "" if ways == 1 else "s"
    learned, estimates = "", "rows that were held out"
    if both:
        learned = ", each learned on one part of the rows and judged on the other, both ways round"
        estimates = "both parts, each judging what was learned on the other"
    counts = (
        f"  the table has today's policy and {ways} candidate{plural}{learned}; the certificate "
        f"holds whichever of {made.candidates} policies is chosen (equal ones count once)"
    )
    rests = (
        f"  estimates in the table are from {estimates}; the certificate is from the rows of its "
        'line "rests on"; evaluated again on this log, the policy gets no bound, because it was '
        "learned from these rows"
    )
    return (
        f"learned from {made.training_rows:,} rows, certified on {others}",
        rule,
        counts,
        rests,
    )


def score_facts(score: Score | None) -> dict[str, Any]:
    """Return what a certificate records of the score that a policy was learned with.

    >>> from piwo.scores import IX
    >>> score_facts(IX(0.1)), score_facts(None)
    ({'score': 'ix', 'parameter': 0.1}, {'score': None, 'parameter': None})
    """
    if score is None:
        return {"score": None, "parameter": None}
    return {"score": score.name, "parameter": score.value}


def _columns(parameter: str | None) -> Mapping[str, str]:
    smoothing = "smoothing" if parameter is None else f"smoothing {parameter}"
    return {"parameter": smoothing, "value": "value", "value_lower": "at least"}


def _candidate(
    policy: Policy, made: Certificate, score: Score | None, *, chosen: bool
) -> CandidateReport:
    name, gamma, own = "the policy", None, None
    if score is not None:
        gamma, own = score.gamma_equivalent, score.value
        if own is None:
            name = score.label
        else:
            name = f"{score.parameter} {own:.6g}"
    facts = {"gamma": gamma, "parameter": own, "value": made.value, "value_lower": made.value_lower}
    return CandidateReport(name, policy, facts, chosen)
