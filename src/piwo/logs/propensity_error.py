"""How far the true propensities of a log may exceed the logged or estimated ones."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from piwo.errors import UsageError
from piwo.logs.batch import Batch, Floats
from piwo.messages import Note, argument

__all__ = ["CalibrationBin", "ErrorBoundRows", "PropensityErrorBound"]


@dataclass(frozen=True)
class CalibrationBin:
    """Pairs of a row and an action with an estimated propensity in a range, and the actions taken.

    >>> round(CalibrationBin(0.0, 0.5, 100.0, 0.25, 0.31).z, 2)
    1.39
    """

    least: float
    most: float
    pairs: float
    """The number of pairs of a row and an action."""
    predicted: float
    """Their mean estimated propensity."""
    observed: float
    """The share of pairs in which the action was taken."""

    @property
    def z(self) -> float:
        """(observed - predicted) / its standard error, as if the pairs were independent."""
        # The variance of a mean of Bernoulli variables, p (1 - p) / n.
        spread = max(self.predicted * (1.0 - self.predicted), 1e-12) / max(self.pairs, 1.0)
        return float((self.observed - self.predicted) / np.sqrt(spread))


@dataclass(frozen=True)
class PropensityErrorBound:
    """How far the true propensities may exceed the logged ones.

    Weights use the largest possible propensity. Then pi/mu is at most its true value, and so is
    every lower bound on a mean of pi R / mu. Bounds on the value, on losses and on w R + 1 - R
    hold. Results that need the probability of every action do not hold, so the vectors are removed.

    Formula: mu <= min(1, factor p) for a logged p; or, with a hidden cause that changes the odds of
    an action by at most `sensitivity` = Gamma, 1/mu >= 1 + (1/p - 1)/Gamma, that is mu <= Gamma p /
    (1 + (Gamma - 1) p).
    Source: docs/theory.md, section "Propensities known only roughly".

    Args:
        factor: the true propensity is at most this times the logged one; at least 1.
        sensitivity: Gamma, at least 1; 1 is no hidden cause.
        estimated: the model of the propensities, in words; None: they were logged.
        calibration: how estimated propensities compare with the actions taken, on rows that the
            fit did not see.

    Raises:
        UsageError: for a factor or a sensitivity below 1.

    >>> PropensityErrorBound(factor=1.25).upper(np.array([0.4, 0.9])).tolist()
    [0.5, 1.0]
    >>> PropensityErrorBound(sensitivity=2.0).upper(np.array([0.5])).round(4).tolist()
    [0.6667]
    """

    factor: float = 1.0
    sensitivity: float = 1.0
    estimated: str | None = None
    calibration: tuple[CalibrationBin, ...] = ()

    def __post_init__(self) -> None:
        given = {"propensity_factor": self.factor, "sensitivity": self.sensitivity}
        for name, value in given.items():
            number: Any = value
            if (
                isinstance(number, bool)
                or not isinstance(number, int | float | np.number)
                or not 1.0 <= number < np.inf
            ):
                raise UsageError(
                    f"{argument(name)} is {value!r}, expected a finite number of at "
                    "least 1: by how much the true propensities may exceed the "
                    "logged ones"
                )

    @property
    def exact(self) -> bool:
        """Whether the propensities are used as given."""
        return self.factor == 1.0 and self.sensitivity == 1.0

    def upper(self, p: Floats) -> Floats:
        """Return the largest possible true propensities, (n,)."""
        # mu <= min(1, factor p), then mu <= Gamma p / (1 + (Gamma - 1) p)
        scaled = np.minimum(1.0, self.factor * p)
        gamma = self.sensitivity
        return np.asarray(gamma * scaled / (1.0 + (gamma - 1.0) * scaled))

    def upper_log(self, log_p: Floats) -> Floats:
        """Return the logarithms of the largest possible propensities, (n,), from logarithms."""
        # log mu <= log Gamma + log p - log(1 + (Gamma - 1) p)
        scaled = np.minimum(0.0, np.log(self.factor) + log_p)
        gamma = self.sensitivity
        return np.asarray(np.log(gamma) + scaled - np.log1p((gamma - 1.0) * np.exp(scaled)))

    def applied(self, batch: Batch) -> Batch:
        """Return the rows with the largest possible propensities, and without vectors."""
        if self.exact:
            return batch
        log_p = batch.log_propensity
        if log_p is not None:
            log_p = self.upper_log(log_p)
        upper = self.upper(batch.propensity)
        return replace(
            batch,
            propensity=upper,
            log_propensity=log_p,
            propensities=None,
            log_propensities=None,
        )

    @property
    def assumption(self) -> str | None:
        """What results assume beyond correctly logged propensities; None: nothing.

        >>> PropensityErrorBound(estimated="LogisticRegression, 5 folds").assumption
        'the estimated propensities are right'
        >>> PropensityErrorBound(factor=1.25).assumption
        'the true propensities are at most 1.25 times the logged ones'
        """
        kind = "logged"
        if self.estimated is not None:
            kind = "estimated"
        elif self.exact:
            return None
        if self.exact:
            return f"the estimated propensities are right{self._worst(' (', ')')}"
        ways = []
        if self.factor > 1:
            ways.append(f"the true propensities are at most {self.factor:g} times the {kind} ones")
        if self.sensitivity > 1:
            ways.append(
                f"hidden causes change the odds of an action at most {self.sensitivity:g}-fold"
            )
        return " and ".join(ways)

    def _worst(self, before: str, after: str = "") -> str:
        """Return the largest calibration error in words; an empty text without calibration."""
        if not self.calibration:
            return ""
        worst = max(abs(one.z) for one in self.calibration)
        return f"{before}largest calibration error {worst:.1f} standard errors{after}"

    @property
    def notes(self) -> tuple[Note, ...]:
        """Caveats, to be shown with every result."""
        found = []
        if self.estimated is not None:
            how = self.estimated + self._worst("; ")
            text = (
                f"the propensities were estimated ({how}): bounds hold only as far as "
                "the estimates do, and too small ones make every value too high; "
                f"{argument('propensity_factor')} allows for their error"
            )
            found.append(Note(text, kind="estimated-propensities"))
        if not self.exact:
            far = []
            if self.factor > 1:
                far.append(f"up to {self.factor:g} times the logged ones")
            if self.sensitivity > 1:
                far.append(f"odds changed by up to {self.sensitivity:g} by a hidden cause")
            text = (
                "true propensities are allowed to be larger than the logged ones "
                f"({' and '.join(far)}): intervals and improvements hold if so; the "
                "estimate is low, as if every propensity were the largest"
            )
            found.append(Note(text, kind="allowed-error"))
        return tuple(found)

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON form."""
        table = [{**vars(one), "z": one.z} for one in self.calibration]
        return {**vars(self), "calibration": table}


@dataclass(frozen=True)
class ErrorBoundRows:
    """Rows of several logs by the error bound of their propensities, for sums over the logs.

    >>> both = ErrorBoundRows.of(PropensityErrorBound(factor=1.25), 100).merge(
    ...     ErrorBoundRows.of(None, 50)
    ... )
    >>> both.notes(150)[0][:60]
    'of 100 of the 150 rows: true propensities are allowed to be '
    """

    each: Mapping[PropensityErrorBound, int] = field(default_factory=dict)
    """Error bound, without its calibration table -> rows; sorted."""

    @classmethod
    def of(
        cls,
        propensity_error: PropensityErrorBound | None,
        rows: int,
    ) -> ErrorBoundRows:
        """Return the rows of one log."""
        if propensity_error is None or propensity_error.assumption is None or not rows:
            return cls()
        return cls({replace(propensity_error, calibration=()): rows})

    def merge(self, other: ErrorBoundRows) -> ErrorBoundRows:
        """Return the rows of both, which must be different rows."""
        both = dict(self.each)
        for one, rows in other.each.items():
            both[one] = both.get(one, 0) + rows
        # Sorted, so that files and notes do not depend on which log was first.
        rows_of = sorted(
            both.items(),
            key=lambda item: (item[0].estimated or "", item[0].factor, item[0].sensitivity),
        )
        return ErrorBoundRows(dict(rows_of))

    def notes(self, total: int) -> tuple[Note, ...]:
        """Return caveats of the sums, with the number of rows if it is not all of them."""
        found: list[Note] = []
        for one, rows in self.each.items():
            for note in one.notes:
                if rows != total:
                    text = f"of {rows:,} of the {total:,} rows: {note.template}"
                    note = Note(text, kind=note.kind)  # noqa: PLW2901
                found.append(note)
        return tuple(found)
