"""Certificates: lower bounds on the value of a policy, with the facts that they depend on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from piwo._version import __version__
from piwo.bounds.propensity_test import SUSPICIOUS
from piwo.display import Display, Ruler
from piwo.evaluation.guardrails import GuardrailResult
from piwo.evaluation.record import compared_with
from piwo.evaluation.segment import Segment
from piwo.messages import argument, rendered
from piwo.records import (
    Rule,
    SavedRecord,
    frames_field,
    is_time,
    maybe,
    number,
    one_of,
    text,
    whole,
)
from piwo.visible import confidence, rows_text, visible_lines
from piwo.visible import number as shown

__all__ = ["NO_BOUND", "SHARED_RULES", "SUSPICIOUS", "Certificate", "Kind"]

Kind = Literal["held-out", "in-sample"]

NO_BOUND = "none"
"""The `bound` of a record of estimates alone, kept with a policy for which nothing is proved."""

ASSUMED_FIXED = "assumed fixed"
SHARED_RULES: Mapping[str, Rule] = {
    "kind": one_of(*get_args(Kind)),
    "delta": lambda value: number()(value) and 0.0 < value < 1.0,
    "log_class_size": number(0.0),
    "rows": whole(0),
    "propensity_p": maybe(number(0.0, 1.0)),
    "cost": lambda value: type(value) is bool,
    "log_digest": maybe(text),
    "unit": maybe(text),
    "units": maybe(whole(0)),
    "logger": maybe(one_of("fixed", "learning", ASSUMED_FIXED)),
    "notes": lambda value: isinstance(value, list | tuple) and all(map(text, value)),
    **dict.fromkeys(("bound", "version"), text),
    "created": is_time,
}
"""The rules of the fields that all certificates have, those of regret too."""


@dataclass(frozen=True)
class Certificate(SavedRecord):
    """Lower bounds on the value of a policy, and on its improvement over a baseline.

    A certificate is stored with a policy: on a learner, or in a file. It usually certifies that
    policy; otherwise `about` names the one that it certifies. The baseline is the logging policy
    unless `baseline` names another.

    Each bound by itself is wrong with probability at most delta. Values are in the reward's unit.

    >>> made = Certificate(
    ...     kind="held-out", value=0.6, value_lower=0.5, improvement_lower=-0.1, logging_value=0.5
    ... )
    >>> made.certified
    False
    """

    what: ClassVar[str] = "the certificate"
    remedy: ClassVar[str] = "learn the policy again"
    kind: Kind
    """held-out: from rows that learning did not use. in-sample: from the same rows, by bounds that
    hold for all policies of a class."""
    value: float | None
    """Importance-weighted point estimate on the rows used."""
    value_lower: float | None
    """v(policy) >= value_lower. None if the rows contradict their propensities; then a note says
    how."""
    improvement_lower: float | None
    """v(policy) - v(baseline) >= improvement_lower. None for the same reason, and for rewards
    without an upper end."""
    logging_value: float | None
    """Mean reward on the rows used."""
    about: str | None = None
    """The policy that it certifies, in words. None: the one that it is stored with; that may be
    another, such as one that was learned again from all rows."""
    assumes: str | None = None
    """Its assumption on the propensities if that is not just that they are as logged: for example,
    that estimated ones are right. None: no other."""
    baseline: str | None = None
    """Name of the policy that it is compared with; None: the logging policy."""
    baseline_value: float | None = None
    """Importance-weighted point estimate of the value of a baseline other than the logging
    policy."""
    bound: str = "mixture"
    """The method of both bounds: "deadline" or "mixture", from the propensities of the logged
    actions; "deadline-cv" or "mixture-cv", from those of all actions; or "PAC-Bayes".
    "none": there are estimates alone, of what each of several folds taught on the other rows."""
    delta: float = 0.05
    candidates: int = 1
    """Number of different policies certified on these rows, with those of earlier calls; the bounds
    of a call hold jointly. A held-out certificate has a union penalty for each; an in-sample one
    for the whole class."""
    share: float | None = None
    """The share of delta of its bounds, if shares were fixed. The shares of all candidates, also of
    those on other rows, add up to at most 1. None: all candidates have the same."""
    log_class_size: float = 0.0
    """log |Pi|, the penalty of an in-sample certificate; 0 for a held-out one."""
    kl: float | None = None
    """KL(Q || P), the divergence of the posterior from the prior: the penalty of a PAC-Bayes
    certificate. None if it is infinite."""
    log_ratio: float | None = None
    """The penalty for a mixture of policies drawn from a posterior, instead of `kl`: the mean of
    log dQ/dP over the draws. Its expectation is `kl`, but it may be negative."""
    rows: int = 0
    unit: str | None = None
    """The column of units: a value is the mean over units of the mean of their rows, and n counts
    units. None: n counts rows."""
    units: int | None = None
    training_rows: int = 0
    ess: float | None = None
    mean_weight: float | None = None
    unsupported_mass: float | None = None
    """Mean probability of actions that the log has no information on: those of propensity 0 if full
    propensities are logged, otherwise those never logged on the rows used. None if unknown."""
    propensity_p: float | None = None
    """p-value of "the propensities are not too small" (E w <= 1) on the rows used: the smallest of
    all candidates certified together and of the baseline, with the union penalty. Below
    `SUSPICIOUS`, nothing is certified."""
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost: bool = False
    horizon: int | str | None = None
    """Declared in advance, so that the bounds hold jointly at all n as the log grows; None: at this
    n only."""
    series: int | None = None
    """Number of the call in a series on the same rows, from 1: call i spends delta/(i(i+1)), and
    shows no numbers unless something is certified. None: no series."""
    score: str | None = None
    """The score that the policy was learned with, and its parameter."""
    parameter: float | None = None
    oracle: str | None = None
    logger: str | None = None
    """The declared logger, "fixed" or "learning". "assumed fixed": nothing was declared, and rows
    were held out at random, or blocks of them are bet on, which is valid only for a fixed one."""
    split: Mapping[str, Any] | None = None
    """How rows were held out: fraction, seed, and the actions that only one side has."""
    log_rows: int = 0
    log_digest: str | None = None
    """Digest of action, reward, propensity and weight of the rows used, in any order."""
    at_least: float | None = None
    """The least value that was asked for beforehand: see `reaches`. None: none was."""
    guardrails: tuple[GuardrailResult, ...] = ()
    """Whether the policy that it certifies keeps within each guardrail."""
    segments: tuple[Segment, ...] = ()
    """What holds for each value of the column that results are split by, of the policy that it
    certifies."""
    version: str = __version__
    created: str = ""
    notes: tuple[str, ...] = ()
    frames: str | None = frames_field()

    @property
    def certified(self) -> bool | None:
        """Whether the policy that it is stored with is certified better than the baseline.

        None if it certifies another policy: then nothing is proved for the stored one.
        """
        if self.about is None:
            return self.improves
        return None

    @property
    def improves(self) -> bool:
        """Whether the policy that it certifies is better than the baseline.

        That is: improvement_lower > 0, and the rows used do not contradict their propensities.
        """
        if self.propensity_p is not None and self.propensity_p < SUSPICIOUS:
            return False
        return self.improvement_lower is not None and self.improvement_lower > 0

    @property
    def reaches(self) -> bool | None:
        """Whether the value is certified to be at least `at_least`; None if nothing was asked."""
        if self.at_least is None:
            return None
        if self.propensity_p is not None and self.propensity_p < SUSPICIOUS:
            return False
        return self.value_lower is not None and self.value_lower >= self.at_least

    @property
    def refusals(self) -> tuple[str, ...]:
        """Why a gate refuses the policy that it is stored with, in words; empty if it passes.

        A gate asks for a certified improvement, for the least value if one was asked for, and that
        no guardrail is certified to be broken. A guardrail that is "not certified harmless" does
        not refuse.
        """
        found = []
        if not self.certified:
            found.append(f"not certified better than {self.over}")
        if self.reaches is False:
            found.append(f"its value is not certified to be at least {self.at_least:g}")
        for one in self.guardrails:
            if one.harmful:
                found.append(str(one))
        return tuple(found)

    @property
    def over(self) -> str:
        """The baseline, in words."""
        return compared_with(self.baseline, self.logger)

    @property
    def derived(self) -> Mapping[str, Any]:
        """`certified`, which readers of the file then need not compute."""
        return {"certified": self.certified}

    @classmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:
        """Return the rule of each field, for rewards of at least `low`."""
        values = (
            "value",
            "improvement_lower",
            "logging_value",
            "baseline_value",
            "log_ratio",
            "parameter",
            "at_least",
        )
        words = ("score", "oracle", "baseline", "about", "assumes")
        return {
            **SHARED_RULES,
            **dict.fromkeys(values, maybe(number())),
            **dict.fromkeys(("kl", "ess", "mean_weight"), maybe(number(0.0))),
            **dict.fromkeys(("training_rows", "log_rows"), whole(0)),
            **dict.fromkeys(words, maybe(text)),
            "value_lower": maybe(number(low)),
            **dict.fromkeys(("share", "unsupported_mass"), maybe(number(0.0, 1.0))),
            "candidates": whole(1),
            "series": maybe(whole(1)),
            "horizon": lambda value: maybe(one_of("universal"))(value) or whole(1)(value),
            "split": maybe(lambda value: isinstance(value, Mapping)),
        }

    @classmethod
    def today(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record of an earlier version as it would be written now."""
        made, kl = dict(record), record.get("kl")
        kept = record.get("guardrails", ())
        made["guardrails"] = tuple(GuardrailResult.of_record(one) for one in kept)
        made["segments"] = tuple(Segment.of_record(one) for one in record.get("segments", ()))
        negative = isinstance(kl, int | float) and -math.inf < kl < 0.0
        if negative and record.get("log_ratio") is None:
            # `log_ratio` was once saved as `kl`, and a divergence is never negative.
            made.update(kl=None, log_ratio=kl)
        if "about" not in record:
            # Earlier versions said it in a note, and files do not hold the kinds of notes.
            for note in record.get("notes") or ():
                _, found, rows = str(note).partition(_OLD_ABOUT)
                if found:
                    made.update(about=f"the policy learned from {rows}", certified=None)
        return made

    def __repr__(self) -> str:
        facts = [
            f"value_lower={self.value_lower!r}",
            f"improvement_lower={self.improvement_lower!r}",
            f"certified={self.certified!r}",
            f"rows={self.rows}",
        ]
        return f"Certificate({self.kind!r}, {', '.join(facts)})"

    def display(self) -> Display:
        """Return the certificate as it is shown in a notebook."""
        value, compared = self.value, self.logging_value
        if self.baseline is not None:
            compared = self.baseline_value
        gain = None
        if value is not None and compared is not None:
            gain = value - compared
        # From the estimate to its lower bound is about the half width of an interval.
        ruler = Ruler.of([(self.value_lower, value)])
        rows = [
            ("value", ruler.value(value), ruler.lower(self.value_lower)),
            (f"gain over {self.over}", ruler.value(gain), ruler.lower(self.improvement_lower)),
        ]
        rows += [(str(one.column), "", str(one)) for one in self.guardrails]
        rest = rows_text(self.rows, self.units, self.unit)
        level = f"each with probability at least {confidence(self.delta)}"
        title = f"{self._verdict}; {self.kind}, {self.bound} bound, {rest}; {level}"
        return Display(
            title, ("", "estimate", "at least"), tuple(rows), tuple(map(str, self.notes))
        )

    def __str__(self) -> str:
        head = f"{self.kind} certificate, {self.bound} bound, delta {self.delta:g}"
        if self.bound == NO_BOUND:
            head = "no certificate: estimates on held-out folds"
        if self.assumes is not None:
            head += f", if {self.assumes}"
        lines = [head]
        if self.about is not None:
            lines.append(f"  about        {self.about}")
        value = f"{_shown(self.value)} estimated, {_at_least(self.value_lower)}"
        if self.value_lower is not None and self.value_lower <= self.reward_range[0]:
            value += " (vacuous)"
        if self.cost:
            value += ", minus the cost"
        rows = rows_text(self.rows, self.units, self.unit)
        size = f"(effective sample size {_shown(self.ess)})"
        lines += [
            f"  value        {value}",
            f"  improvement  {self._improvement}: {self._verdict}",
            f"  weights      {self._weights}",
            f"  rests on     {rows} {size}, {self.paid_for}",
        ]
        lines += self._terms
        # What was not declared is assumed, and readers should see that.
        if self.logger == ASSUMED_FIXED:
            lines.append(f"  assumes      {assumed_fixed(self.unit)}")
        elif self.logger == "fixed" and self.unit is None:
            lines.append("  assumes      that rows are independent")
        if self.split is not None and self.split.get("tail") and not self.split.get("time"):
            declared = rendered(f"{argument('time')} is not declared")
            lines.append(f"  assumes      that rows are in the order of time ({declared})")
        return visible_lines(lines + [f"  note         {note}" for note in self.notes])

    @property
    def _terms(self) -> list[str]:
        """The lines on the least value, the guardrails and the segments."""
        lines = []
        if self.at_least is not None:
            reached = "reached" if self.reaches else "not reached"
            lines.append(f"  required     value at least {self.at_least:g}: {reached}")
        for one in self.guardrails:
            lines.append(f"  guardrail    {one}")
        for segment in self.segments:
            lines.append(f"  segment      {segment}")
        return lines

    @property
    def _weights(self) -> str:
        """The mean weight, and the part of the policy that is not in the log."""
        shown = f"mean {_shown(self.mean_weight)}"
        if self.unsupported_mass is not None:
            shown += f", unsupported {_shown(self.unsupported_mass)}"
        return shown

    @property
    def _improvement(self) -> str:
        """The bound on the improvement, and the baseline."""
        compared = self.logging_value
        if self.baseline is not None:
            compared = self.baseline_value
        line = f"{_at_least(self.improvement_lower)} over {self.over} ({_shown(compared)})"
        if math.isinf(self.reward_range[1]):
            line += ", as rewards have no upper end"
        return line

    @property
    def _verdict(self) -> str:
        """Whether the policy that it certifies is better, in words."""
        verdict = "not certified"
        if self.improves:
            verdict = "certified better"
            # The first line states the assumption.
            if self.assumes is not None:
                verdict += " under this assumption"
        if self.about is None:
            return verdict
        # The line `about` names it.
        return f"the policy above is {verdict}"

    @property
    def paid_for(self) -> str:
        """What the union penalty of the bounds is for, in words: candidates, or a class."""
        if self.kind == "held-out":
            return self._paid_for_candidates
        if self.bound == "PAC-Bayes":
            return self._paid_for_prior
        # The class may be too large for a float64 number of policies.
        if self.log_class_size > math.log(1e6):
            return f"a class of e^{self.log_class_size:.4g} policies"
        size = round(math.exp(self.log_class_size))
        if size == 1:
            return "a class of 1 policy"
        return f"a class of {size} policies"

    @property
    def _paid_for_candidates(self) -> str:
        # Readers should see how often the rows were used.
        paid = "1 candidate"
        if self.candidates != 1:
            paid = f"{self.candidates} candidates"
        if self.series is not None:
            paid = f"call {self.series} of a series, {paid}"
        if self.share is not None:
            paid += f", this one with {self.share:.4g} of the error probability"
        return paid

    @property
    def _paid_for_prior(self) -> str:
        if self.log_ratio is not None:
            paid = f"a mean log-ratio of {_shown(self.log_ratio)} to the prior over its draws"
            if self.kl is None:
                return paid
            return f"{paid} (the divergence is {_shown(self.kl)})"
        if self.kl is None:
            return "an infinite divergence from the prior"
        return f"a divergence of {_shown(self.kl)} from the prior"


def assumed_fixed(unit: str | None = None) -> str:
    """Return what certificates assume of a logger that was not declared.

    Args:
        unit: the column of units; None: results are of rows.

    >>> assumed_fixed()
    'that rows are independent and the logger was fixed (logger is not declared)'
    """
    counted = "rows" if unit is None else "units"
    declared = rendered(f"{argument('logger')} is not declared")
    return f"that {counted} are independent and the logger was fixed ({declared})"


_OLD_ABOUT = "the certificate is of the policy learned from "
"""The text of the note that earlier versions wrote instead of the field `about`."""


def _shown(value: float | None) -> str:
    if value is None:
        return "?"
    return shown(value)


def _at_least(bound: float | None) -> str:
    if bound is None:
        return "no bound"
    return f"at least {shown(bound)}"
