"""The table of interval methods. Documentation, the command's help and `INTERVALS` come from it."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from piwo.bounds.clopper_pearson import clopper_pearson_lower
from piwo.bounds.empirical_bernstein import empirical_bernstein_lower
from piwo.bounds.fixed_bet import score_lower
from piwo.bounds.gamma_exponential import gamma_exponential_lower
from piwo.bounds.hoeffding import hoeffding_lower
from piwo.bounds.value import value_lower
from piwo.checks import shown
from piwo.errors import UsageError
from piwo.intervals.asymptotic import bootstrap_ends, cressie_read_ends, normal_ends
from piwo.intervals.control_variate import AutoInterval, ControlVariateInterval
from piwo.intervals.deadline import DeadlineInterval
from piwo.intervals.efron_stein import EfronSteinSums, efron_stein_ends
from piwo.intervals.empirical_likelihood import WeightPairs, empirical_likelihood_ends
from piwo.intervals.method import IntervalMethod, OneFormula
from piwo.intervals.two_sided import Side, TwoSided, require_equal_weights
from piwo.messages import Note, argument

__all__ = ["INTERVALS", "interval_help", "interval_named", "interval_table"]


def _score_lower(y: Side) -> float:
    """Return the fixed-bet bound on the mean credit of the point estimate's own score."""
    assert y.bet is not None
    # (exp(lambda V - log(1/delta)/n) - 1) / lambda, V the mean credit
    return score_lower(y.credits / y.rows, y.rows, y.bet, y.log_inv_delta)


def _clopper_pearson_lower(y: Side) -> float:
    """Return c times the bound on P(Y > 0), for Y of 0 and c."""
    c = y.largest_weight
    # total / c is the number of rows with Y = c
    return c * clopper_pearson_lower(round(y.total / c), y.rows, y.log_inv_delta)


_MIXTURE = TwoSided(
    name="mixture",
    summary="mixture of bets of all sizes",
    source='docs/theory.md, "The mixture bound"',
    # sup{ v : log mean_j exp(S_j - n log(1 + lambda_j v)) >= log(1/delta) }
    lower=lambda y: value_lower(y.bet_sums, y.rows, y.log_inv_delta, horizon=y.horizon),
    anytime=True,
    certifies=True,
)
_MIXTURE_CV = ControlVariateInterval(
    name="mixture-cv",
    summary="mixture with control variates",
    source='docs/theory.md, "Control variates"',
    needs_every_action=True,
    anytime=True,
    variates=True,
    takes_model=True,
    certifies=True,
)
_DEADLINE = DeadlineInterval(
    name="deadline",
    summary="bets on blocks of rows in turn, planned for the number of rows",
    source='docs/theory.md, "Deadline bets"',
    needs_blocks=True,
    anytime=True,
    certifies=True,
)
_DEADLINE_CV = DeadlineInterval(
    name="deadline-cv",
    summary="`deadline` with control variates",
    source='docs/theory.md, "Deadline bets"',
    needs_blocks=True,
    needs_every_action=True,
    anytime=True,
    variates=True,
    takes_model=True,
    certifies=True,
)
_METHODS: tuple[IntervalMethod, ...] = (
    AutoInterval(
        name="auto",
        summary="`deadline-cv` given the probability of every action, otherwise `deadline`; "
        "`mixture-cv` and `mixture` for learning loggers and declared horizons",
        source='docs/theory.md, "Deadline bets"',
        deadline=(_DEADLINE_CV, _DEADLINE),
        mixture=(_MIXTURE_CV, _MIXTURE),
        takes_model=True,
        certifies=True,
    ),
    _DEADLINE_CV,
    _DEADLINE,
    _MIXTURE_CV,
    _MIXTURE,
    TwoSided(
        name="ix",
        summary="one bet on IX credits",
        source="arXiv 2309.15771, Lemma 1",
        needs="a gamma fixed beforehand",
        needs_upper_end=True,
        lower=_score_lower,
        estimators=("ix",),
        fixed_bet=True,
        anytime=True,
    ),
    TwoSided(
        name="ls",
        summary="one bet on LS credits",
        source="arXiv 2405.14335, Cor. 5",
        needs="a lambda fixed beforehand",
        lower=_score_lower,
        estimators=("ls", "ls-linear"),
        fixed_bet=True,
        anytime=True,
    ),
    TwoSided(
        name="score",
        summary="one bet on the credits of the estimator's own score",
        source='docs/theory.md, "Admissible scores"',
        needs="a pessimistic score as estimator, its parameter fixed beforehand",
        lower=_score_lower,
        fixed_bet=True,
        anytime=True,
    ),
    TwoSided(
        name="hoeffding",
        summary="Hoeffding's bound",
        source="Hoeffding 1963, Theorem 2",
        needs_upper_end=True,
        weight_limit="required",
        fewest_rows=2,
        # mean - b sqrt(log(1/delta) / (2 n)), b the declared weight
        lower=lambda y: hoeffding_lower(y.mean, y.rows, y.max_weight, y.log_inv_delta),
    ),
    TwoSided(
        name="empirical-bernstein",
        summary="Maurer and Pontil's empirical Bernstein bound",
        source="arXiv 0907.3740, Theorem 4",
        needs_fixed_logger=True,
        needs_upper_end=True,
        weight_limit="required",
        fewest_rows=2,
        # mean - sqrt(2 V log(2/delta) / n) - 7 b log(2/delta) / (3 (n - 1))
        lower=lambda y: empirical_bernstein_lower(
            y.mean, y.variance, y.rows, y.max_weight, y.log_inv_delta
        ),
    ),
    TwoSided(
        name="clopper-pearson",
        summary="exact interval of a binomial",
        source="Clopper and Pearson 1934",
        needs_single_rows=True,
        needs_fixed_logger=True,
        needs="rewards of 0 and 1, weights of 0 and one other number by design",
        require=require_equal_weights,
        lower=_clopper_pearson_lower,
    ),
    TwoSided(
        name="gamma-exponential",
        summary="gamma-exponential confidence sequence",
        source="arXiv 1810.08240, Prop. 9",
        # for values above 1, which need rewards without an upper end, the bound stops at 1
        lower=lambda y: gamma_exponential_lower(y.total, y.squares, y.rows, y.log_inv_delta),
        anytime=True,
    ),
    OneFormula(
        name="eslb",
        summary="Efron-Stein bound around the self-normalized estimate",
        source="arXiv 2006.10460, Theorem 1",
        needs_single_rows=True,
        needs_fixed_logger=True,
        needs_every_action=True,
        needs_row_numbers=True,
        needs_upper_end=True,
        own=EfronSteinSums,
        ends=efron_stein_ends,
        # of three events of delta/3 each, two concern an end
        upper_share=2.0 / 3.0,
        note=Note(
            "eslb assumes independent rows and contexts, and exact propensities of all actions",
            kind="assumptions",
        ),
    ),
    OneFormula(
        name="cressie-read",
        summary="empirical likelihood in quadratic form",
        source="arXiv 1906.03323",
        guarantee="asymptotic",
        needs_mean_weight_one=True,
        weight_limit="optional",
        fewest_rows=3,
        estimators=("cressie-read", "iw", "snips"),
        ends=cressie_read_ends,
    ),
    OneFormula(
        name="empirical-likelihood",
        summary="empirical likelihood of pairs (w, R)",
        source="arXiv 1906.03323, Section 4",
        needs_single_rows=True,
        needs_fixed_logger=True,
        guarantee="asymptotic",
        needs_mean_weight_one=True,
        needs_upper_end=True,
        weight_limit="optional",
        estimators=("iw", "snips", "cressie-read"),
        own=WeightPairs,
        ends=empirical_likelihood_ends,
    ),
    OneFormula(
        name="normal",
        summary="point estimate and standard error, as if normal",
        source="the central limit theorem",
        guarantee="asymptotic",
        thinned=True,
        ends=normal_ends,
    ),
    OneFormula(
        name="bootstrap",
        summary="quantiles of the estimate on resampled rows",
        source="Efron and Tibshirani 1993, chapter 13",
        guarantee="asymptotic",
        needs="a second pass",
        needs_second_pass=True,
        thinned=True,
        ends=bootstrap_ends,
    ),
)

INTERVALS: Mapping[str, IntervalMethod] = MappingProxyType({one.name: one for one in _METHODS})
"""Every interval method by name, those valid at every n first. A new one is a row above."""


def interval_named(name: Any) -> IntervalMethod:
    """Return the interval method of that name, which may end in a declared number: "hoeffding:20".

    Args:
        name: the method's, possibly with a colon and the largest weight that can occur.

    Raises:
        UsageError: for other names, listing those that exist, and for numbers out of range.

    >>> interval_named("hoeffding:20").max_weight
    20.0
    """
    if not isinstance(name, str) or name.partition(":")[0] not in INTERVALS:
        known = ", ".join(INTERVALS)
        raise UsageError(
            f"{argument('interval')} is {shown(name)}, which is not known; expected one of {known}"
        )
    plain, colon, number = name.partition(":")
    method = INTERVALS[plain]
    if colon:
        return method.declared(number)
    return method


def interval_help() -> str:
    """Return the names of the methods by guarantee, for the command's help.

    >>> interval_help().split(":")[0]
    'auto'
    """
    valid, asymptotic = [], []
    for one in INTERVALS.values():
        if one.guarantee == "asymptotic":
            asymptotic.append(one.name)
        elif one.name != "auto":
            valid.append(one.name)
    summary = INTERVALS["auto"].summary.replace("`", "")
    return (
        f"auto: {summary}. Valid at every n: {', '.join(valid)}. "
        f"Asymptotic, for comparison only: {', '.join(asymptotic)}."
    )


def interval_table() -> str:
    """Return the table of the methods in Markdown, as `docs/bounds.md` shows it.

    >>> print(interval_table().splitlines()[0])
    | name | method | guarantee | needs | source |
    """
    lines = ["| name | method | guarantee | needs | source |", "|---|---|---|---|---|"]
    for one in INTERVALS.values():
        cells = (f"`{one.name}`", one.summary, one.guarantee, _needs(one), one.source)
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def _needs(method: IntervalMethod) -> str:
    """Return what a method needs beyond a log and a policy, in words."""
    needs = []
    if method.needs:
        needs.append(method.needs)
    if method.guarantee == "asymptotic":
        needs.append("overlap")
    needs += _needs_of_log(method)
    if method.weight_limit == "required":
        needs.append(f"the largest weight that can occur (`{method.name}:20`)")
    if method.weight_limit == "optional":
        needs.append(f"narrower with the largest weight (`{method.name}:20`)")
    return "; ".join(needs) or "nothing"


def _needs_of_log(method: IntervalMethod) -> list[str]:
    """Return what a method needs of the rows, in words."""
    needs = []
    if method.needs_mean_weight_one:
        needs.append("exact propensities")
    if method.needs_blocks:
        needs.append("independent rows, or the order of the decisions")
    if method.needs_fixed_logger:
        needs.append("a logger that did not learn from the rows")
    if method.needs_single_rows:
        needs.append("rows, not units")
    if method.needs_every_action:
        needs.append("the probability of every action, of logger and policy")
    if method.needs_upper_end:
        needs.append("rewards in a range")
    return needs
