"""How a learner came to its policy: what it tried, in numbers for records and in words for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, runtime_checkable

from piwo.certificates.certificate import Certificate
from piwo.policies import Policy
from piwo.scores import Score

__all__ = ["CandidateReport", "LearningReport", "account_of", "account_of_path"]


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
    """What is known of it, by name; numbers in the reward's unit."""
    chosen: bool = False


@dataclass(frozen=True)
class LearningReport:
    """What `Learner.describe` tells.

    >>> LearningReport(("learned from 500 rows: oracle direct",)).tried
    ()
    """

    lines: tuple[str, ...]
    """How the policy was found, in words."""
    tried: tuple[CandidateReport, ...] = ()
    columns: Mapping[str, str] = field(default_factory=lambda: _columns(None))
    """Which of `CandidateReport.facts` to show, and what to call them."""
    facts: Mapping[str, Any] = field(default_factory=dict)
    """What to keep beside the policy: plain numbers, texts, lists and mappings."""
    stays: str | None = None
    """What stays where nothing better was found: "the logging policy" or "the incumbent"; None
    where something was."""


@runtime_checkable
class _Point(Protocol):
    """A point of a path."""

    @property
    def score(self) -> Score: ...
    @property
    def policy(self) -> Policy: ...
    @property
    def certificate(self) -> Certificate | None: ...


def account_of(
    policy: Policy,
    made: Certificate | None,
    score: Score | None,
    rule: str,
    *,
    seen: int | None = None,
    more: Iterable[str] = (),
    facts: Mapping[str, Any] | None = None,
) -> LearningReport:
    """Return the account of one policy that was learned with one score.

    Args:
        policy: the policy.
        made: its certificate.
        score: what it was learned with.
        rule: where the hyper-parameter came from.
        seen: rows that it was learned from; None: those that the certificate names.
        more: further lines.
        facts: what to keep beside it.

    >>> import piwo
    >>> made = Certificate("held-out", 0.6, 0.5, 0.1, 0.5, oracle="ridge", training_rows=90)
    >>> account_of(piwo.policies.Constant("a", ["a"]), made, piwo.IX(0.1), "gamma as given").lines
    ('learned from 90 rows: score ix, oracle ridge', '  gamma = 0.1; gamma as given')
    """
    credited = "" if score is None else f"score {score.name}"
    if made is None:
        lines = [f"learned without a certificate: {credited or rule}"]
    else:
        with_what = ", ".join(filter(None, (credited, f"oracle {made.oracle}")))
        lines = [f"learned from {made.training_rows if seen is None else seen} rows: {with_what}"]
    if score is not None and score.value is not None:
        lines.append(f"  {score.parameter} = {score.value:.4g}; {rule}")
    only = () if made is None else (_tried(policy, made, score, chosen=True),)
    return LearningReport((*lines, *more), only, facts=facts or {})


def account_of_path(
    points: Iterable[_Point], made: Certificate | None, score: Score | None, rule: str
) -> LearningReport:
    """Return the account of a path, of which the point with the certificate was chosen.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100
    ... )
    >>> both = piwo.oracles.Exhaustive(
    ...     [piwo.policies.Constant(x, log.actions) for x in log.actions]
    ... )
    >>> learner = piwo.PIWO(piwo.IX((0.1, 0.2)), both, certificate="in-sample").fit(log)
    >>> [
    ...     one.name
    ...     for one in account_of_path(learner.path_.values(), learner.certificate_, None, "").tried
    ... ]
    ['gamma 0.1', 'gamma 0.2']
    """
    listed = tuple(points)
    found = [(x, x.certificate) for x in listed if x.certificate is not None]
    tried = tuple(_tried(x.policy, one, x.score, chosen=one is made) for x, one in found)
    columns = _columns(listed[0].score.parameter)
    return replace(account_of(listed[0].policy, made, score, rule), tried=tried, columns=columns)


def _columns(parameter: str | None) -> Mapping[str, str]:
    return {"parameter": parameter or "parameter", "value": "value", "value_lower": "at least"}


def _tried(
    policy: Policy, made: Certificate, score: Score | None, *, chosen: bool
) -> CandidateReport:
    gamma, own = (None, None) if score is None else (score.gamma_equivalent, score.value)
    name = (
        "the policy"
        if score is None
        else score.label
        if own is None
        else f"{score.parameter} {own:.6g}"
    )
    facts = {"gamma": gamma, "parameter": own, "value": made.value, "value_lower": made.value_lower}
    return CandidateReport(name, policy, facts, chosen)
