"""Options on how gains are written, which reports and monitors share."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated

from cyclopts import Group, Parameter

from piwo.decision import Units

__all__ = ["DEFAULT_GAINS", "GainOptions"]


@Parameter(name="*", group=Group("Output", sort_key=4))
@dataclass(frozen=True)
class GainOptions:
    """How gains are written."""

    unit_name: Annotated[
        str,
        Parameter(help="What the reward counts, such as clicks or euros."),
    ] = ""
    per: Annotated[
        float,
        Parameter(help="Gains are written per so many decisions, such as 100."),
    ] = 1.0
    row_name: Annotated[
        str,
        Parameter(help="What a decision is, in the plural, such as visits."),
    ] = "decisions"

    @property
    def units(self) -> Units:
        """The same as the library has it."""
        return Units(self.unit_name, self.per, self.row_name)


DEFAULT_GAINS = GainOptions()
