"""Interval methods by name: how the sums of one pass become an interval, and what that promises."""

from __future__ import annotations

from typing import Any

from piwo.checks import shown
from piwo.errors import UsageError
from piwo.intervals.asymptotic import BootstrapInterval, CressieReadInterval, NormalInterval
from piwo.intervals.bootstrap import Bootstrap, BootstrapResult, bootstrap, bootstrap_interval
from piwo.intervals.clopper_pearson import ClopperPearsonInterval
from piwo.intervals.control_variate import AutoInterval, ControlVariateInterval
from piwo.intervals.declared_weight import EmpiricalBernsteinInterval, HoeffdingInterval
from piwo.intervals.efron_stein import EfronSteinInterval
from piwo.intervals.empirical_likelihood import EmpiricalLikelihoodInterval
from piwo.intervals.gamma_exponential import GammaExponentialInterval
from piwo.intervals.method import Evidence, IntervalMethod
from piwo.intervals.score import IXInterval, LSInterval, ScoreInterval
from piwo.intervals.two_sided import MixtureInterval

__all__ = [
    "INTERVALS",
    "Bootstrap",
    "BootstrapResult",
    "Evidence",
    "IntervalMethod",
    "bootstrap",
    "bootstrap_interval",
    "interval_named",
]

INTERVALS: dict[str, IntervalMethod] = {
    made.name: made
    for made in (
        AutoInterval(),
        ControlVariateInterval(),
        MixtureInterval(),
        IXInterval(),
        LSInterval(),
        ScoreInterval(),
        HoeffdingInterval(),
        EmpiricalBernsteinInterval(),
        ClopperPearsonInterval(),
        GammaExponentialInterval(),
        EfronSteinInterval(),
        CressieReadInterval(),
        EmpiricalLikelihoodInterval(),
        NormalInterval(),
        BootstrapInterval(),
    )
}
"""Every interval method by name. A new one is its own file and its place in this list."""


def interval_named(name: Any) -> IntervalMethod:
    """Return the interval method of that name, with what is declared behind a colon: "hoeffding:20".

    Raises:
        UsageError: listing the names.

    >>> interval_named("mixture").guarantee
    'finite-sample'
    """
    plain, colon, given = name.partition(":") if isinstance(name, str) else ("", "", "")
    if plain not in INTERVALS:
        raise UsageError(
            f"interval {shown(name)} is not known, expected one of {', '.join(INTERVALS)}"
        )
    return INTERVALS[plain].declared(given) if colon else INTERVALS[plain]
