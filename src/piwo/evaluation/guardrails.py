"""Guardrails: limits on other outcomes of a policy, such as complaints, and whether they hold."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal, Self

from piwo.bounds import log_inv_delta
from piwo.checks import a_kind
from piwo.errors import UsageError
from piwo.logs.log import Log
from piwo.messages import Note, argument
from piwo.records import Record, jsonable, maybe, number, text
from piwo.visible import number as shown
from piwo.visible import visible

__all__ = [
    "Guardrail",
    "GuardrailResult",
    "guardrails_of",
    "share_of_delta",
    "shared_note",
]

Answer = Literal["harmless", "harmful", "open"]

_NUMBER = r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?"
_TEXT = re.compile(
    rf"\s*(?P<column>.+?)\s*(?P<relation><=|>=)\s*"
    rf"(?:(?P<over>logger|baseline)\s*(?P<step>[-+]\s*(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?)?"
    rf"|(?P<limit>{_NUMBER}))"
    rf"(?:\s+in\s+(?P<low>{_NUMBER})\s*,\s*(?P<high>{_NUMBER}))?\s*"
)
_WORDS: Mapping[Answer, str] = {
    "harmless": "certified within the limit",
    "harmful": "certified harm",
    "open": "not certified harmless",
}


@dataclass(frozen=True)
class Guardrail:
    """A limit on the mean of another outcome of the decisions, fixed before the log is seen.

    Formula: E[w C] <= limit for an outcome C in a declared range; relative to a policy that
    runs, E[w C] - E[C of that policy] <= limit.

    Args:
        column: one of the log's `outcomes`.
        relation: "<=" or ">=".
        limit: on the mean outcome under the policy, or on the difference to `over`.
        over: "logger": the limit is on the difference from the logging policy; "baseline": from
            the baseline of the request; None: on the mean itself.
        outcome_range: (lo, hi) of the outcome; rows outside it are refused.

    Raises:
        UsageError: for a relation, limit or range that is none.

    >>> Guardrail.of("complaints<=.01")
    Guardrail(column='complaints', relation='<=', limit=0.01, over=None, outcome_range=(0.0, 1.0))
    >>> str(Guardrail.of("minutes >= logger - 0.5 in 0,60"))
    'minutes >= logger - 0.5'
    """

    column: str
    relation: Literal["<=", ">="]
    limit: float
    over: Literal["logger", "baseline"] | None = None
    outcome_range: tuple[float, float] = (0.0, 1.0)

    def __post_init__(self) -> None:
        low, high = self.outcome_range
        if self.relation not in ("<=", ">="):
            raise UsageError(f"a guardrail has relation {self.relation!r}, expected '<=' or '>='")
        if not (math.isfinite(low) and math.isfinite(high) and low < high):
            raise UsageError(
                f"the guardrail on {self.column!r} has range {low:g},{high:g}, expected finite "
                "numbers LO,HI with LO below HI"
            )
        least, most = low, high
        if self.over is not None:
            least, most = low - high, high - low
        if not least <= self.limit <= most:
            raise UsageError(
                f"the guardrail on {self.column!r} has limit {self.limit:g}, expected one in "
                f"[{least:g}, {most:g}]; give the range of the outcome, as in "
                f"'{self.column} {self.relation} {self.limit:g} in LO,HI'"
            )

    @classmethod
    def of(cls, text: Any) -> Self:
        """Return the guardrail that a text states, such as "complaints<=.01 in 0,5".

        Raises:
            UsageError: for another text.
        """
        if isinstance(text, cls):
            return text
        found = None
        if isinstance(text, str):
            found = _TEXT.fullmatch(text)
        if found is None:
            received = repr(text)
            if not isinstance(text, str):
                received = a_kind(text)
            raise UsageError(
                f"{argument('guardrail')} got {received:.80}, expected text such as "
                "'complaints<=.01', 'complaints<=logger+.005' or 'minutes>=3 in 0,60'"
            )
        limit = found["limit"] or (found["step"] or "0").replace(" ", "")
        low, high = found["low"] or 0.0, found["high"] or 1.0
        over: Any = found["over"]
        relation: Any = found["relation"]
        return cls(found["column"], relation, float(limit), over, (float(low), float(high)))

    def __str__(self) -> str:
        # all digits: what is shown is what was tested
        limit = f"{self.limit!r}"
        if self.over is not None:
            sign = "-" if self.limit < 0 else "+"
            limit = f"{self.over} {sign} {abs(self.limit)!r}" if self.limit else self.over
        return f"{visible(self.column)} {self.relation} {limit}"

    def view(self, log: Log) -> Log:
        """Return the same rows with the outcome as their reward.

        Raises:
            UsageError: for a column that is not declared as an outcome of the log.
        """
        known = log.columns.outcomes
        if self.column not in known:
            named = ", ".join(map(repr, known)) or "none"
            raise UsageError(
                f"{argument('guardrail')} is on {self.column!r}, which is not an outcome of the "
                f"log (there are: {named}); declare its column ({argument('outcomes', '[...]')})"
            )
        columns = replace(
            log.columns, reward=self.column, cost=False, action_cost=None, outcomes=()
        )
        # Costs are those of the reward.
        return replace(log, columns=columns, reward_range=self.outcome_range, action_costs=None)

    def answer(self, lower: float | None, upper: float | None) -> Answer:
        """Return what bounds on the mean, or the difference, say about the limit.

        >>> guard = Guardrail.of("complaints<=.01")
        >>> guard.answer(0.0, 0.008), guard.answer(0.02, 0.1), guard.answer(0.0, 0.1)
        ('harmless', 'harmful', 'open')
        """
        if lower is None or upper is None:
            return "open"
        if self.relation == ">=":
            lower, upper = -upper, -lower
            limit = -self.limit
        else:
            limit = self.limit
        if lower > limit:
            return "harmful"
        if upper <= limit:
            return "harmless"
        return "open"


@dataclass(frozen=True)
class GuardrailResult(Record):
    """Whether a policy keeps within a guardrail, with the bounds that this rests on.

    Each bound by itself is wrong with probability at most `delta`. The answer, too: of "harmless"
    and "harmful", the true mean can make only one wrong.

    >>> made = GuardrailResult.made(Guardrail.of("complaints<=.01"), 0.02, 0.1, 0.025, "deadline")
    >>> made.answer, str(made)
    ('harmful', 'complaints <= 0.01: certified harm (between 0.02 and 0.1)')
    """

    column: str
    relation: str
    limit: float
    over: str | None
    outcome_range: tuple[float, float]
    lower: float | None
    """The mean outcome under the policy is at least this; with `over`, its difference is. None: no
    bound can be given."""
    upper: float | None
    """It is at most this."""
    delta: float
    """Error probability of the answer, for all policies of the request together."""
    bound: str
    """The method of the bounds."""
    answer: Answer
    """harmless: certified within the limit. harmful: certified beyond it. open: neither."""

    @classmethod
    def made(
        cls,
        guard: Guardrail,
        lower: float | None,
        upper: float | None,
        delta: float,
        bound: str,
    ) -> Self:
        """Return the result of bounds, with its answer."""
        return cls(
            column=guard.column,
            relation=guard.relation,
            limit=guard.limit,
            over=guard.over,
            outcome_range=guard.outcome_range,
            lower=lower,
            upper=upper,
            delta=delta,
            bound=bound,
            answer=guard.answer(lower, upper),
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        """Return the object of a record that `to_dict` made.

        Raises:
            ValueError: for a damaged record.
        """
        made = cls(**{x.name: record[x.name] for x in fields(cls)})
        low, high = made.outcome_range
        made = replace(made, outcome_range=(float(low), float(high)))
        is_number = number()
        if not (is_number(made.limit) and number(0.0, 1.0)(made.delta)):
            raise ValueError("the limit or the delta of a guardrail is none")
        if not all(map(text, (made.column, made.bound))):
            raise ValueError("the column or the bound of a guardrail is not text")
        if made.over not in (None, "logger", "baseline"):
            raise ValueError(f"a guardrail is over {made.over!r:.80}")
        if not all(map(maybe(is_number), (made.lower, made.upper))):
            raise ValueError("a guardrail has bounds that are not numbers")
        if made.answer != made.guardrail.answer(made.lower, made.upper):
            raise ValueError("the answer of a guardrail does not follow from its bounds")
        return made

    @property
    def guardrail(self) -> Guardrail:
        """The declared limit."""
        relation: Any = self.relation
        over: Any = self.over
        return Guardrail(self.column, relation, self.limit, over, self.outcome_range)

    @property
    def harmful(self) -> bool:
        """Whether it is certified that the policy is beyond the limit."""
        return self.answer == "harmful"

    def to_dict(self) -> dict[str, Any]:
        """Return the record for JSON."""
        made: dict[str, Any] = jsonable({x.name: getattr(self, x.name) for x in fields(self)})
        return made

    @property
    def words(self) -> str:
        """The answer in words."""
        return _WORDS[self.answer]

    @property
    def ends(self) -> str:
        """The bounds in words."""
        if self.lower is None or self.upper is None:
            return "no bound"
        between = f"between {shown(self.lower)} and {shown(self.upper)}"
        if self.over is not None:
            return f"difference {between}"
        return between

    def __str__(self) -> str:
        return f"{self.guardrail}: {self.words} ({self.ends})"


def guardrails_of(given: Any, log: Log, baseline: bool) -> tuple[Guardrail, ...]:
    """Return the guardrails that an argument states, checked against a log.

    Args:
        given: a text, a `Guardrail`, several of them, or None.
        log: the rows.
        baseline: whether there is a baseline other than the logging policy.

    Raises:
        UsageError: for text that is no guardrail, a column that is no outcome, or one given twice.
    """
    if given is None:
        return ()
    if isinstance(given, str | Guardrail) or not isinstance(given, Sequence):
        given = (given,)
    guards = tuple(Guardrail.of(one) for one in given)
    for place, one in enumerate(guards):
        one.view(log)
        if one.over == "baseline" and not baseline:
            raise UsageError(
                f"the guardrail {str(one)!r} compares with a baseline, and there is none; name it "
                f"({argument('baseline')}), or compare with the logger"
            )
        if one in guards[:place]:
            raise UsageError(f"the guardrail {str(one)!r} was given twice; give each once")
    return guards


def share_of_delta(delta: float, guards: Sequence[Guardrail]) -> float:
    """Return the part of delta for the value and the improvement, and for each guardrail.

    >>> share_of_delta(0.05, [Guardrail.of("complaints<=.01")])
    0.025
    """
    if not guards:
        return delta
    # Raises for a delta that is none.
    log_inv_delta(delta)
    return delta / (1 + len(guards))


def shared_note(delta: float, guards: Sequence[Guardrail]) -> Note:
    """Return the note that delta is shared.

    >>> shared_note(0.05, [Guardrail.of("complaints<=.01")]).kind
    'shared-delta'
    """
    each = share_of_delta(delta, guards)
    named = ", ".join(repr(str(one)) for one in guards)
    return Note(
        f"delta {delta:g} is shared equally with the guardrails ({named}): "
        f"the value, the improvement, and each guardrail's answer are each wrong with probability "
        f"at most {each:.6g}",
        kind="shared-delta",
    )
