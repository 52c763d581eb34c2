"""Options for what else is asked of a policy: a least value, guardrails, results by segment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from piwo.errors import UsageError
from piwo.evaluation import Guardrail
from piwo.visible import visible

__all__ = ["NO_TERMS", "TermOptions"]

_OPEN = "this does not refuse, as certified harm would"
"""What the gate says of a guardrail that is certified neither way."""


@Parameter(name="*", group=Group("Terms", sort_key=2))
@dataclass(frozen=True)
class TermOptions:
    """What else is asked of a policy, fixed before the log is seen."""

    at_least: Annotated[
        float | None,
        Parameter(
            help="The least value that must be certified, in the reward's unit; of evaluate and "
            "learn with --gate alone.",
            allow_leading_hyphen=True,
        ),
    ] = None
    guardrail: Annotated[
        list[str] | None,
        Parameter(
            help="Limit on the mean of another column under the policy: 'complaints<=.01', "
            "'complaints<=logger+.005', 'minutes>=3 in 0,60' (range 0,1 if none is given). "
            "--gate refuses certified harm. delta is shared equally by the improvement and each "
            "guardrail; repeatable."
        ),
    ] = None

    by: Annotated[
        str | None,
        Parameter(
            help="Column known before the decision, such as a country: value, improvement and "
            "actions for each of its values, at most 100; their bounds hold together.",
        ),
    ] = None

    @property
    def segments(self) -> list[str]:
        """The columns that results are split by: none or one.

        >>> TermOptions(by="country").segments
        ['country']
        """
        if self.by is None:
            return []
        return [self.by]

    @property
    def columns(self) -> list[str]:
        """The columns of the guardrails.

        >>> TermOptions(guardrail=["complaints<=.01"]).columns
        ['complaints']
        """
        found = [Guardrail.of(one).column for one in self.guardrail or ()]
        return list(dict.fromkeys(found))

    def require_gate(self, gate: bool) -> None:
        """Raise for a least value without a gate, which alone uses it.

        Raises:
            UsageError: saying what to add.
        """
        if self.at_least is not None and not gate:
            raise UsageError(
                f"--at-least got {self.at_least:g} without --gate, which asks for it; add --gate"
            )

    def gate_lines(
        self, refusals: Sequence[str], unproved: Sequence[str], exempt: str = ""
    ) -> list[str]:
        """Return the result of the gate: one line, or one for each reason.

        Args:
            refusals: why it refuses, in words; empty: it passes.
            unproved: the guardrails that are not certified either way, in words.
            exempt: what it did not judge, in words.

        >>> terms = TermOptions(at_least=0.5)
        >>> terms.gate_lines([], ["x <= 0.1: not certified harmless"])  # doctest: +ELLIPSIS
        ['gate: passed, worth at least 0.5', 'gate: x <= 0.1: not certified harmless; ...']
        """
        if refusals:
            return [visible(f"gate: {one}") for one in refusals]
        passed = "gate: passed"
        if self.at_least is not None:
            passed += f", worth at least {self.at_least:g}"
        lines = [visible(f"{passed}{exempt}")]
        for one in unproved:
            lines.append(visible(f"gate: {one}; {_OPEN}"))
        return lines


NO_TERMS = TermOptions()
