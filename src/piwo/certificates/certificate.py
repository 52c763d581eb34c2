"""Certificates: lower bounds on the value of a policy, and what they rest on."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, get_args

from piwo._version import __version__
from piwo.evaluation.record import SUSPICIOUS, compared_with, rows_text
from piwo.messages import argument, rendered
from piwo.records import Rule, SavedRecord, maybe, number, one_of, text, whole
from piwo.visible import visible_lines

__all__ = ["SHARED_RULES", "SUSPICIOUS", "Certificate", "Kind"]

Kind = Literal["held-out", "in-sample"]

SHARED_RULES: Mapping[str, Rule] = {
    "kind": one_of(*get_args(Kind)),
    "delta": lambda value: number()(value) and 0.0 < value < 1.0,
    "log_class_size": number(0.0),
    "rows": whole(0),
    "propensity_p": maybe(number(0.0, 1.0)),
    "cost": lambda value: type(value) is bool,
    "log_digest": maybe(text),
    "notes": lambda value: isinstance(value, list | tuple) and all(map(text, value)),
    **dict.fromkeys(("bound", "version", "created"), text),
}
"""What the fields must be that every certificate has, whatever it certifies."""


@dataclass(frozen=True)
class Certificate(SavedRecord):
    """Lower bounds on the value of a policy, and on its improvement over a baseline.

    Stored with a policy: on a learner, in a file. It usually certifies that policy; otherwise
    `about` names the one that it certifies. The baseline is the logging policy unless `baseline`
    names another.

    Each bound is wrong with probability at most delta (each by itself). Numbers are in the reward's
    own unit.

    >>> made = Certificate(
    ...     kind="held-out", value=0.6, value_lower=0.5, improvement_lower=-0.1, logging_value=0.5
    ... )
    >>> made.certified
    False
    """

    what: ClassVar[str] = "the certificate"
    remedy: ClassVar[str] = "learn the policy again"
    kind: Kind
    """held-out: on rows that learning never saw. in-sample: on the same rows, paying for the whole
    class."""
    value: float | None
    """Importance-weighted point estimate on the rows used."""
    value_lower: float | None
    """v(policy) >= value_lower. None if the rows contradict their propensities: the notes say
    how."""
    improvement_lower: float | None
    """v(policy) - v(baseline) >= improvement_lower. None likewise, and for rewards without an upper
    end."""
    logging_value: float | None
    """Mean reward on the rows used."""
    about: str | None = None
    """Which policy it is about, in words, if that is not the one that it is stored with, such as
    one that was learned again from all rows; None: that one."""
    assumes: str | None = None
    """What it assumes of the propensities besides that they are as logged, such as that estimated
    ones are right; None: nothing."""
    baseline: str | None = None
    """What it is compared with; None: the logging policy."""
    baseline_value: float | None = None
    """Importance-weighted point estimate of what a baseline other than the logging policy is
    worth."""
    bound: str = "mixture"
    """What both bounds rest on: "mixture", the logged propensities; "mixture-cv", those of the
    actions not taken too; or "PAC-Bayes"."""
    delta: float = 0.05
    candidates: int = 1
    """How many different policies were certified on these rows, earlier ones included; the bounds
    of the call hold together. A held-out certificate pays for each; an in-sample one has paid for
    the whole class."""
    share: float | None = None
    """The share of delta that its bounds spend, if shares were fixed: of all that was certified
    together, on other rows too. None: the same for all candidates."""
    log_class_size: float = 0.0
    """log |Pi| that an in-sample certificate pays for; 0 for a held-out one."""
    kl: float | None = None
    """KL(Q || P), the divergence of the posterior from the prior: what a PAC-Bayes certificate pays
    in its place. None if it is infinite."""
    log_ratio: float | None = None
    """What is paid for a mixture of policies drawn from a posterior, in place of `kl`: the mean of
    log dQ/dP over the draws. Its expectation is `kl`; itself it may be negative."""
    rows: int = 0
    unit: str | None = None
    """The column of units: values are means over units of the mean over their rows, and bounds
    count units. None: bounds count rows."""
    units: int | None = None
    training_rows: int = 0
    ess: float | None = None
    mean_weight: float | None = None
    unsupported_mass: float | None = None
    """Mean probability that the policy gives to what the log cannot show: to actions of propensity
    0 where full propensities are logged, otherwise to actions that were never logged on the rows
    used. None if it is not known."""
    propensity_p: float | None = None
    """p-value of "the propensities are not too small" (E w <= 1) on the rows used, the smallest of
    all candidates certified together, and of the baseline, with what all of them pay; below
    `SUSPICIOUS` nothing is certified."""
    reward_range: tuple[float, float] = (0.0, 1.0)
    cost: bool = False
    horizon: int | str | None = None
    """Declared in advance, so that the bounds hold at all n together as the log grows; None: at
    this n alone."""
    series: int | None = None
    """Which call of a series on the same rows made it, from 1 on: the i-th spends delta/(i(i+1)),
    and shows no numbers unless something is certified. None: no series."""
    score: str | None = None
    """The score that the policy was learned with, and its parameter."""
    parameter: float | None = None
    oracle: str | None = None
    logger: str | None = None
    """What was declared of the logger, "fixed" or "learning"; "assumed fixed" if nothing was and
    rows were held out at random, which is valid only then."""
    split: Mapping[str, Any] | None = None
    """How the rows were held out: fraction, seed, and which actions only one side has."""
    log_rows: int = 0
    log_digest: str | None = None
    """Digest of action, reward, propensity and weight of the rows used, whatever their order."""
    version: str = __version__
    created: str = ""
    notes: tuple[str, ...] = ()

    @property
    def certified(self) -> bool | None:
        """Whether the policy that it is stored with is certified better than the baseline.

        None if it is about another policy: nothing is proved of the one that it is stored with.
        """
        if self.about is None:
            return self.improves
        return None

    @property
    def improves(self) -> bool:
        """Whether the policy that it is about is certified better than the baseline.

        That is: improvement_lower > 0, and the rows used do not contradict their own propensities.
        """
        if self.propensity_p is not None and self.propensity_p < SUSPICIOUS:
            return False
        return self.improvement_lower is not None and self.improvement_lower > 0

    @property
    def over(self) -> str:
        """What the improvement is over, in words."""
        return compared_with(self.baseline)

    @property
    def derived(self) -> Mapping[str, Any]:
        """Whether it is certified: readers of the file need not know how that is found."""
        return {"certified": self.certified}

    @classmethod
    def rules(cls, low: float) -> Mapping[str, Rule]:
        """Return what the fields must be, for rewards of at least `low`."""
        values = (
            "value",
            "improvement_lower",
            "logging_value",
            "baseline_value",
            "log_ratio",
            "parameter",
        )
        return {
            **SHARED_RULES,
            **dict.fromkeys(values, maybe(number())),
            **dict.fromkeys(("kl", "ess", "mean_weight"), maybe(number(0.0))),
            **dict.fromkeys(("training_rows", "log_rows"), whole(0)),
            **dict.fromkeys(("score", "oracle", "baseline", "about", "assumes"), maybe(text)),
            "value_lower": maybe(number(low)),
            **dict.fromkeys(("share", "unsupported_mass"), maybe(number(0.0, 1.0))),
            "candidates": whole(1),
            "series": maybe(whole(1)),
            "unit": maybe(text),
            "logger": maybe(text),
            "units": maybe(whole(0)),
            "horizon": lambda value: maybe(one_of("universal"))(value) or whole(1)(value),
            "split": maybe(lambda value: isinstance(value, Mapping)),
        }

    @classmethod
    def today(cls, record: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return a record of an earlier version as it would be written now."""
        made, kl = dict(record), record.get("kl")
        if isinstance(kl, int | float) and -math.inf < kl < 0.0 and record.get("log_ratio") is None:
            # what draws pay was once saved as `kl`; a divergence is never negative
            made.update(kl=None, log_ratio=kl)
        if "about" not in record:
            # Files have no kinds of notes, and the files of that version had no other trace of it.
            for note in record.get("notes") or ():
                _, found, rows = str(note).partition(_OF_ANOTHER)
                if found:
                    made.update(about=f"the policy learned from {rows}", certified=None)
        return made

    def __repr__(self) -> str:
        least = f"value_lower={self.value_lower!r}, improvement_lower={self.improvement_lower!r}"
        return (
            f"Certificate({self.kind!r}, {least}, certified={self.certified!r}, rows={self.rows})"
        )

    def __str__(self) -> str:
        head = f"{self.kind} certificate, {self.bound} bound, delta {self.delta:g}"
        if self.assumes is not None:
            head += f", if {self.assumes}"
        lines = [head]
        if self.about is not None:
            lines.append(f"  about        {self.about}")
        value = f"{_text(self.value)} estimated, {_at_least(self.value_lower)}"
        if self.value_lower is not None and self.value_lower <= self.reward_range[0]:
            value += " (vacuous)"
        size = f"(effective sample size {_text(self.ess)})"
        lines += [
            f"  value        {value}",
            f"  improvement  {self._improvement}: {self._verdict}",
            f"  weights      {self._weights}",
            f"  rests on     {rows_text(self.rows, self.units, self.unit)} {size}, {self.paid_for}",
        ]
        if self.logger == ASSUMED_FIXED:
            declared = rendered(f"{argument('logger')} is not declared")
            lines.append(f"  assumes      that the logger was fixed ({declared})")
        if self.split is not None and self.split.get("tail") and not self.split.get("time"):
            declared = rendered(f"{argument('time')} is not declared")
            lines.append(f"  assumes      that rows are in the order of time ({declared})")
        return visible_lines(lines + [f"  note         {note}" for note in self.notes])

    @property
    def _weights(self) -> str:
        """What the weights show of how much of the policy is in the log."""
        shown = f"mean {_text(self.mean_weight)}"
        if self.unsupported_mass is not None:
            shown += f", unsupported {_text(self.unsupported_mass)}"
        return shown

    @property
    def _improvement(self) -> str:
        """The bound on the improvement, and what it is over."""
        compared = self.logging_value
        if self.baseline is not None:
            compared = self.baseline_value
        line = f"{_at_least(self.improvement_lower)} over {self.over} ({_text(compared)})"
        if math.isinf(self.reward_range[1]):
            line += ", as rewards have no upper end"
        return line

    @property
    def _verdict(self) -> str:
        """Whether the policy that it is about is certified better, in words."""
        verdict = "not certified"
        if self.improves:
            verdict = "certified better"
            if self.assumes is not None:
                verdict += ", if so"
        if self.about is None:
            return verdict
        return f"that one is {verdict}"

    @property
    def paid_for(self) -> str:
        """What the bounds pay for, in words: candidates, or a declared class."""
        if self.kind == "held-out":
            return self._paid_for_candidates
        if self.bound == "PAC-Bayes":
            return self._paid_for_prior
        if self.log_class_size > math.log(1e6):
            return f"a class of e^{self.log_class_size:.4g} policies"
        size = round(math.exp(self.log_class_size))
        if size == 1:
            return "a class of 1 policy"
        return f"a class of {size} policies"

    @property
    def _paid_for_candidates(self) -> str:
        paid = "1 candidate"
        if self.candidates != 1:
            paid = f"{self.candidates} candidates"
        if self.series is not None:
            paid = f"call {self.series} of a series, {paid}"
        if self.share is not None:
            paid += f", a share of {self.share:.4g} of delta"
        return paid

    @property
    def _paid_for_prior(self) -> str:
        if self.log_ratio is not None:
            paid = f"a mean log-ratio of {_text(self.log_ratio)} to the prior in its draws"
            if self.kl is None:
                return paid
            return f"{paid} (the divergence is {_text(self.kl)})"
        if self.kl is None:
            return "an infinite divergence from the prior"
        return f"a divergence of {_text(self.kl)} from the prior"


ASSUMED_FIXED = "assumed fixed"
_OF_ANOTHER = "the certificate is of the policy learned from "
"""The text in files from before `about` that says what `about` says now."""


def _text(number: float | None) -> str:
    if number is None:
        return "?"
    return f"{number:.4g}"


def _at_least(bound: float | None) -> str:
    if bound is None:
        return "no bound"
    return f"at least {bound:.4g}"
