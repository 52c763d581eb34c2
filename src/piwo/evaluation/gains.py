"""How gains are written: in which unit, in how many decisions, with how many digits."""

from __future__ import annotations

from dataclasses import dataclass

from piwo.checks import check_finite, check_kind, check_positive
from piwo.errors import UsageError
from piwo.messages import argument
from piwo.visible import number, rounded

__all__ = ["Units", "gain_words"]


@dataclass(frozen=True)
class Units:
    """How gains are written: so many of a unit, in so many decisions.

    Raises:
        UsageError: for names of white space, no name of decisions, and `per` not above 0.

    >>> Units("clicks", 100.0, "visits").gain(0.00512)
    '0.512 clicks'
    """

    unit: str = ""
    """What the reward counts, such as "clicks"; empty: no name."""
    per: float = 1.0
    """Gains are in so many decisions."""
    decisions: str = "decisions"
    """What a row is, in the plural, such as "visits"."""

    def __post_init__(self) -> None:
        check_kind("unit_name", self.unit, str)
        check_kind("row_name", self.decisions, str)
        if self.unit and not self.unit.strip():
            raise UsageError(
                f"{argument('unit_name')} is {self.unit!r}, expected a word, such as 'clicks'; "
                "leave it out for none"
            )
        if not self.decisions.strip():
            raise UsageError(
                f"{argument('row_name')} is {self.decisions!r}, expected a word in the plural, "
                "such as 'visits'"
            )
        check_positive("per", self.per)

    @property
    def each(self) -> str:
        """In how many decisions, such as "per 100 visits"."""
        if self.per == 1.0:
            return f"per {_singular(self.decisions)}"
        return f"per {self.per:,.10g} {self.decisions}"

    @property
    def axis(self) -> str:
        """The unit of gains, such as "clicks per 100 visits"."""
        return f"{self.unit or 'reward'} {self.each}"

    def values(self, *, cost: bool) -> str:
        """Return what values are in: the same, or minus the cost.

        Args:
            cost: whether rewards are negative costs.

        >>> Units("euros", 100.0, "visits").values(cost=True), Units().values(cost=False)
        ('minus the cost in euros per 100 visits', 'reward per decision')
        >>> Units().values(cost=True)
        'minus the cost per decision'
        """
        if not cost:
            return self.axis
        unit = ""
        if self.unit:
            unit = f" in {self.unit}"
        return f"minus the cost{unit} {self.each}"

    def legend(self, *, cost: bool) -> str:
        """Return what the values and improvements of a table are in.

        Args:
            cost: whether rewards are negative costs.

        >>> Units("clicks", 100.0, "visits").legend(cost=False)
        'values and improvements are in clicks per 100 visits'
        >>> Units("euros", 100.0, "visits").legend(cost=True)
        'values are minus the cost in euros per 100 visits, improvements how much lower it is'
        """
        if cost:
            return f"values are {self.values(cost=cost)}, improvements how much lower it is"
        return f"values and improvements are in {self.axis}"

    def gain(self, value: float, text: str | None = None) -> str:
        """Return a number of the reward's unit, or a text for it, with the unit's name.

        Args:
            value: in the reward's unit.
            text: what is written instead of the number; None: the number itself.

        Raises:
            UsageError: for what is not a finite number.
        """
        check_finite("value", value)
        if text is None:
            text = number(value * self.per)
        return f"{text} {self.unit}".rstrip()

    def at_least(self, lower: float, estimate: float | None) -> str:
        """Return a lower bound with the unit's name, rounded down to digits that mean something.

        The last digit is a tenth of the distance to the estimate.

        Args:
            lower: the bound, in the reward's unit.
            estimate: what it is a bound of, estimated; None: unknown.

        Raises:
            UsageError: for what is not a finite number.

        >>> Units("clicks", 100.0).at_least(0.01234, 0.05), Units().at_least(0.01234, None)
        ('1.2 clicks', '0.01')
        """
        check_finite("lower", lower)
        if estimate is not None:
            check_finite("estimate", estimate)
        center = lower if estimate is None else estimate
        step = abs(center - lower) / 10.0
        return self.gain(lower, rounded(lower * self.per, step * self.per, down=True))

    def more(self, lower: float, estimate: float | None, over: str, *, cost: bool) -> str:
        """Return what a policy is proved to gain, and what it gains by its estimate, in words.

        Args:
            lower: bound on the gain, in the reward's unit.
            estimate: of the gain; None: unknown, and not said.
            over: what it is compared with, in words.
            cost: whether rewards are negative costs.

        Raises:
            UsageError: for what is not a finite number.

        >>> print(Units("clicks", 100.0, "visits").more(0.01234, 0.05, "today", cost=False))
        earns at least 1.2 clicks more per 100 visits than today, by its estimate 5.0
        >>> print(Units().more(0.01234, None, "today", cost=True))
        costs at least 0.01 less per decision than today
        """
        does, how = ("costs", "less") if cost else ("earns", "more")
        text = f"{does} at least {self.at_least(lower, estimate)} {how} {self.each} than {over}"
        if estimate is None:
            return text
        if estimate == lower:
            return f"{text}, by its estimate {number(estimate * self.per)}"
        step = abs(estimate - lower) / 10.0
        return f"{text}, by its estimate {rounded(estimate * self.per, step * self.per, down=None)}"


def gain_words(lower: float | None, upper: float | None) -> str:
    """Return what the bounds on a gain prove, in the words of the command and the report.

    Args:
        lower: of the gain; None: there is none.
        upper: likewise.

    >>> gain_words(0.1, 0.2), gain_words(-0.1, 0.2), gain_words(-0.2, -0.1), gain_words(-0.2, 0.0)
    ('proved better', 'not proved better', 'proved worse', 'proved no better')
    """
    if lower is not None and lower > 0.0:
        return "proved better"
    if upper is not None and upper < 0.0:
        return "proved worse"
    if upper is not None and upper <= 0.0:
        return "proved no better"
    return "not proved better"


def _singular(plural: str) -> str:
    """Return what one of several is called.

    >>> _singular("visits"), _singular("people")
    ('visit', 'people')
    """
    return plural.removesuffix("s")
