"""The paper's claims about its experiments, as checks; and the page that sums up a run.

Means are over folds. A rule says what would have to be seen for the sentence to be true; it is not
there to be met, and it is the same for any number of rows. Folds that share draws share their luck:
what another draw would change is as a rule more than a standard error over folds.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from experiments.averages import FloatArray, LoggerSet, average, gather, nearest, spread, within
from experiments.files import csv_text, markdown, write

__all__ = ["NEAR", "WORDS", "check_claims", "short", "summary_table", "write_summary"]

TOLERANCE = 0.03
"""Another seed or reward matrix moves a mean reward by about as much; a smaller difference decides
nothing."""
CLOSER = 0.01
"""What decides between algorithms that learn from the same draws."""
NEAR = 10.0
"""Within this factor of sqrt(d/n) is near it."""
PAST = 30.0
"""The eta past which PIWO-PL is said to fall."""

NEARBY = f"every gamma of the grid from sqrt(d/n)/{NEAR:g} to {NEAR:g} sqrt(d/n)"
SCHEMA = pa.schema(
    [
        ("claim", pa.string()),
        ("holds", pa.bool_()),
        ("evidence", pa.string()),
        ("rule", pa.string()),
    ]
)
WORDS = {True: "yes", False: "**no**", None: "not tested"}


class _LackingError(Exception):
    """The run has not what a claim is about."""


@dataclass(frozen=True)
class Run:
    """What the claims are judged on."""

    sets: Mapping[str, LoggerSet]
    gamma_star: float

    def loggers(self, name: str) -> LoggerSet:
        """Return a set of loggers, where the run has it."""
        if name not in self.sets:
            raise _LackingError(f"The run has no {name} loggers.")
        return self.sets[name]

    def folds(self, loggers: LoggerSet, algorithm: str) -> FloatArray:
        """Return the rewards of an algorithm, (E, H, F), where the run has it."""
        if algorithm not in loggers.rewards:
            raise _LackingError(f"The run has no {algorithm}.")
        return loggers.rewards[algorithm]

    def mean(self, loggers: LoggerSet, algorithm: str) -> FloatArray:
        """Return the mean rewards of an algorithm, (E, H)."""
        return average(self.folds(loggers, algorithm))

    def near(self, loggers: LoggerSet) -> NDArray[np.intp]:
        """Return where the hyper-parameters near sqrt(d/n) are."""
        places = within(loggers.h, self.gamma_star, NEAR)
        if not len(places):
            raise _LackingError(
                f"The run has no hyper-parameter within a factor {NEAR:g} of sqrt(d/n)."
            )
        return places


@dataclass(frozen=True)
class Verdict:
    """Whether a claim holds, and the numbers that decide."""

    holds: bool
    evidence: str


@dataclass(frozen=True)
class Claim:
    """One sentence, how it is decided, and what decides it."""

    sentence: str
    rule: str
    judge: Callable[[Run], Verdict]


# --- judgments
def _ix_near_its_best(run: Run) -> Verdict:
    loggers = run.loggers("good")
    mean, near = run.mean(loggers, "PIWO-IX"), run.near(loggers)
    gap = mean.max(axis=1, keepdims=True) - mean
    i, j = _largest(gap[:, near])
    return Verdict(
        bool(gap[:, near].max() <= TOLERANCE),
        f"Near sqrt(d/n) the largest gap to the best gamma is {gap[i, near[j]]:.3f}: "
        f"{mean[i, near[j]]:.3f} against {mean[i].max():.3f}, at {_at(loggers, i, near[j])}. "
        f"Over the whole grid it is {gap.max():.3f}.",
    )


def _ix_no_worse_than_the_logger(run: Run) -> Verdict:
    loggers = run.loggers("good")
    mean, near = run.mean(loggers, "PIWO-IX"), run.near(loggers)
    known = np.maximum(loggers.behavior, loggers.best_fixed)
    gap = known[:, None] - mean[:, near]
    i, j = _largest(gap)
    return Verdict(
        bool(gap.max() <= TOLERANCE),
        f"The least favorable policy has {mean[i, near[j]]:.3f}, at {_at(loggers, i, near[j])}, "
        "where the logger has "
        f"{loggers.behavior[i]:.3f} and the best fixed action {loggers.best_fixed[i]:.3f}.",
    )


def _clip_close(run: Run, everywhere: bool) -> Verdict:
    worst, evidence = [], []
    for name, loggers in run.sets.items():
        clip, ix = run.mean(loggers, "PIWO-Clip"), run.mean(loggers, "PIWO-IX")
        places = np.arange(len(loggers.h)) if everywhere else run.near(loggers)
        gap = np.abs(clip - ix)[:, places]
        i, j = _largest(gap)
        worst.append(gap.max())
        evidence.append(
            f"{name.capitalize()} loggers: the largest difference is {gap.max():.3f}, PIWO-Clip "
            f"{clip[i, places[j]]:.3f} and PIWO-IX {ix[i, places[j]]:.3f}, at "
            f"{_at(loggers, i, places[j])}; the median is {np.median(gap):.3f}."
        )
    return Verdict(bool(max(worst) <= TOLERANCE), " ".join(evidence))


def _pl_falls(run: Run) -> Verdict:
    loggers = run.loggers("good")
    star = nearest(loggers.h, run.gamma_star)
    reward = run.mean(loggers, "PIWO-PL")[:, star]
    past = _past(loggers, both=True)
    before, after = (
        int(np.argmax(np.where(past, -np.inf, reward))),
        int(np.argmax(np.where(past, reward, -np.inf))),
    )
    return Verdict(
        bool(reward[after] <= reward[before] - TOLERANCE),
        f"At beta = {loggers.h[star]:.2g}: at best {reward[before]:.3f} for eta below {PAST:g} "
        f"(eta = {short(loggers.eta[before])}); past it from {reward[past].min():.3f} to "
        f"{reward[after]:.3f} "
        f"(eta = {short(loggers.eta[after])}).",
    )


def _pl_below_ix(run: Run) -> Verdict:
    loggers = run.loggers("good")
    star = nearest(loggers.h, run.gamma_star)
    past = np.flatnonzero(_past(loggers, both=False))
    pl, ix = run.mean(loggers, "PIWO-PL")[past], run.mean(loggers, "PIWO-IX")[past, star]
    lead = ix - pl.max(axis=1)
    k = int(np.argmin(lead))
    j = int(np.argmax(pl[k]))
    return Verdict(
        bool(lead.min() >= TOLERANCE),
        f"PIWO-PL comes nearest at {_at(loggers, int(past[k]), j, 'beta')}: {pl[k, j]:.3f} against "
        f"{ix[k]:.3f} of PIWO-IX; over the loggers its best beta is behind by {lead.min():.3f} to "
        f"{lead.max():.3f}.",
    )


def _larger_is_worse(run: Run) -> Verdict:
    loggers = run.loggers("bad")
    holds, evidence = [], []
    for algorithm in ("PIWO-IX", "PIWO-Clip"):
        curve = run.mean(loggers, algorithm).mean(axis=0)
        rise, at = _largest_rise(curve[None, :])
        drop = curve[0] - curve[-1]
        holds.append(bool(drop >= TOLERANCE and rise <= TOLERANCE))
        evidence.append(
            f"{algorithm}: from {curve[0]:.3f} at the smallest gamma to {curve[-1]:.3f} at the "
            "largest; the largest rise on the way is "
            f"{rise:.3f}{f', at gamma = {loggers.h[at[1]]:.2g}' if rise > 0 else ''}."
        )
    return Verdict(all(holds), " ".join(evidence))


def _larger_never_helps(run: Run) -> Verdict:
    loggers = run.loggers("bad")
    rises, evidence = [], []
    for algorithm in ("PIWO-IX", "PIWO-Clip"):
        mean = run.mean(loggers, algorithm)
        rise, (i, j) = _largest_rise(mean)
        fall = mean[:, 0] - mean[:, -1]
        rises.append(rise)
        evidence.append(
            f"{algorithm}: the largest rise is "
            f"{rise:.3f}{f', at {_at(loggers, i, j)}' if rise > 0 else ''}; the largest gamma "
            f"loses more than {TOLERANCE:g} to the smallest with {int((fall > TOLERANCE).sum())} "
            f"of {len(fall)} loggers, {fall.max():.3f} at most (eta = "
            f"{short(loggers.eta[fall.argmax()])})."
        )
    return Verdict(max(rises) <= TOLERANCE, " ".join(evidence))


def _ls_no_worse(run: Run) -> Verdict:
    failed, cells, evidence = 0, 0, []
    for name, loggers in run.sets.items():
        near = run.near(loggers)
        paired = (run.folds(loggers, "PIWO-LS") - run.folds(loggers, "PIWO-IX"))[:, near]
        mean, error = average(paired), spread(paired) / np.sqrt(paired.shape[-1])
        failed += int(((mean < -CLOSER) & (mean < -2.0 * error)).sum())
        cells += mean.size
        i, j = _largest(-mean)
        evidence.append(
            f"{name.capitalize()} loggers: PIWO-LS less PIWO-IX is {mean.mean():+.4f} on average "
            f"and {mean[i, j]:+.4f} (standard error over folds {error[i, j]:.4f}) at worst, at "
            f"{_at(loggers, i, near[j])}."
        )
    return Verdict(failed == 0, f"{failed} of {cells} cells worse. " + " ".join(evidence))


def _past(loggers: LoggerSet, both: bool) -> NDArray[np.bool_]:
    """Return which loggers are past the eta at which PIWO-PL is said to fall."""
    past = np.asarray(loggers.eta >= PAST)
    if not past.any() or (both and past.all()):
        missing = "above" if not past.any() else "below"
        raise _LackingError(f"The run has no good logger with eta {missing} {PAST:g}.")
    return past


def _largest(table: FloatArray) -> tuple[int, int]:
    """Return row and column of the largest entry."""
    i, j = np.unravel_index(int(np.argmax(table)), table.shape)
    return int(i), int(j)


def _largest_rise(mean: FloatArray) -> tuple[float, tuple[int, int]]:
    """Return the largest advantage of a larger h over a smaller one, with row and column."""
    rise = mean - np.minimum.accumulate(mean, axis=1)
    i, j = _largest(rise)
    return float(rise[i, j]), (i, j)


def _at(loggers: LoggerSet, i: int, j: int, parameter: str = "gamma") -> str:
    return f"eta = {short(loggers.eta[i])} and {parameter} = {loggers.h[j]:.2g}"


CLAIMS = (
    Claim(
        "With every good logger, every gamma near sqrt(d/n) is about as good for PIWO-IX as its "
        "best gamma.",
        f"For every good logger and {NEARBY}: the mean reward of PIWO-IX is at least that of its "
        "best gamma of the "
        f"whole grid for this logger, less {TOLERANCE:g}.",
        _ix_near_its_best,
    ),
    Claim(
        "With every good logger, PIWO-IX near sqrt(d/n) falls behind neither the logger nor the "
        "best fixed action.",
        f"For every good logger and {NEARBY}: the mean reward of PIWO-IX is at least the larger of "
        "the two values, "
        f"less {TOLERANCE:g}.",
        _ix_no_worse_than_the_logger,
    ),
    Claim(
        "PIWO-Clip is close to PIWO-IX near sqrt(d/n).",
        f"For every logger of the sets run and {NEARBY}: mean rewards at the same gamma differ by "
        f"{TOLERANCE:g} at most.",
        lambda run: _clip_close(run, everywhere=False),
    ),
    Claim(
        "PIWO-Clip is close to PIWO-IX for every gamma.",
        "For every logger of the sets run and every gamma of the grid: mean rewards at the same "
        "gamma differ by "
        f"{TOLERANCE:g} at most.",
        lambda run: _clip_close(run, everywhere=True),
    ),
    Claim(
        f"With good loggers PIWO-PL falls once eta is past about {PAST:g}.",
        f"At the beta nearest sqrt(d/n): for every good logger with eta at least {PAST:g} the mean "
        "reward of PIWO-PL "
        f"is at least {TOLERANCE:g} below its highest one for a smaller eta.",
        _pl_falls,
    ),
    Claim(
        f"With good loggers and eta past about {PAST:g}, no beta brings PIWO-PL up to PIWO-IX.",
        f"For every good logger with eta at least {PAST:g}: the mean reward of PIWO-PL at its best "
        "beta of the grid is "
        f"at least {TOLERANCE:g} below that of PIWO-IX at the gamma nearest sqrt(d/n).",
        _pl_below_ix,
    ),
    Claim(
        "With bad loggers, on average, a larger gamma is worse.",
        "For PIWO-IX and for PIWO-Clip, mean reward averaged over the bad loggers: at the largest "
        f"gamma at least {TOLERANCE:g} below that at the smallest, and at no gamma more than "
        f"{TOLERANCE:g} above that at a "
        "smaller one.",
        _larger_is_worse,
    ),
    Claim(
        "With every single bad logger, a larger gamma is no better.",
        "For PIWO-IX and for PIWO-Clip and every bad logger: at no gamma is the mean reward more "
        f"than {TOLERANCE:g} "
        f"above that at a smaller gamma.",
        _larger_never_helps,
    ),
    Claim(
        "Beyond the paper: near sqrt(d/n), PIWO-LS is at least as good as PIWO-IX at the same "
        "gamma.",
        f"For every logger of the sets run and {NEARBY}, rewards paired by fold: PIWO-LS is not "
        "behind by both more "
        f"than {CLOSER:g} and more than two standard errors over folds.",
        _ls_no_worse,
    ),
)


# --- entry points
def check_claims(results: pa.Table, loggers: pa.Table, gamma_star: float) -> pa.Table:
    """Judge every claim on the results of a run.

    Args:
        results: columns set, eta, algorithm, h, fold, reward; one row a learned policy.
        loggers: columns set, eta, fold, behavior, best_fixed, full_information,
            log10_min_propensity.
        gamma_star: sqrt(d/n).

    Returns:
        Columns claim (a sentence), holds (null where the run lacks what it is about), evidence (the
        numbers that decide) and rule (how it was decided).
    """
    run = Run(gather(results, loggers), gamma_star)
    rows = []
    for claim in CLAIMS:
        holds: bool | None = None
        try:
            verdict = claim.judge(run)
            holds, evidence = verdict.holds, verdict.evidence
        except _LackingError as lacking:
            evidence = str(lacking)
        rows.append(
            {"claim": claim.sentence, "holds": holds, "evidence": evidence, "rule": claim.rule}
        )
    return pa.Table.from_pylist(rows, schema=SCHEMA)


def summary_table(results: pa.Table, loggers: pa.Table, gamma_star: float) -> pa.Table:
    """Return mean rewards over folds by set, eta and algorithm, and the known references."""
    rows = []
    for name, known in gather(results, loggers).items():
        star = nearest(known.h, gamma_star)
        for algorithm, folds in known.rewards.items():
            mean, sd = average(folds), spread(folds)
            for i, eta in enumerate(known.eta):
                best = int(np.argmax(mean[i]))
                rows.append(
                    {
                        "set": name,
                        "eta": float(eta),
                        "algorithm": algorithm,
                        "h_near": float(known.h[star]),
                        "reward_near": _rounded(mean[i, star]),
                        "sd_near": _rounded(sd[i, star]),
                        "h_best": float(known.h[best]),
                        "reward_best": _rounded(mean[i, best]),
                        "h_smallest": float(known.h[0]),
                        "reward_smallest": _rounded(mean[i, 0]),
                        "behavior": _rounded(known.behavior[i]),
                        "best_fixed": _rounded(known.best_fixed[i]),
                        "full_information": _rounded(known.full_information[i]),
                        "log10_min_propensity": _rounded(known.log10_min_propensity[i]),
                    }
                )
    return pa.Table.from_pylist(rows)


def write_summary(
    results: pa.Table,
    loggers: pa.Table,
    claims: pa.Table,
    gamma_star: float,
    settings: Mapping[str, object],
    folder: Path,
) -> list[Path]:
    """Write `summary.md`, a page to read, and `summary.csv`, the table of mean rewards in it.

    Args:
        results: as for `check_claims`.
        loggers: as for `check_claims`.
        claims: what `check_claims` returned.
        gamma_star: sqrt(d/n).
        settings: what the page says of the run (data, rows, seed, version, ...), name to value.
        folder: where the files go; made if it is not there.

    Returns:
        The two files.
    """
    folder.mkdir(parents=True, exist_ok=True)
    page, table = folder / "summary.md", folder / "summary.csv"
    rewards = summary_table(results, loggers, gamma_star)
    lines = ["# The paper's experiments", "", "## Settings", ""]
    lines += markdown(
        ["setting", "value"], [[name, str(value)] for name, value in settings.items()]
    )
    lines += ["", "## Claims", "", *_claims_table(claims), "", "## Mean reward", ""]
    lines.append(
        "Means over folds of the true mean reward. Of each algorithm three numbers: at the h "
        f"nearest sqrt(d/n) = {gamma_star:.3g} (h = {rewards['h_near'][0].as_py():.3g}), at its "
        f"best h, and at the smallest h = {rewards['h_smallest'][0].as_py():.3g}. The best h was "
        "picked with hindsight, on the folds that it is scored on, so its number is a little too "
        "good."
    )
    for name in dict.fromkeys(rewards["set"].to_pylist()):
        rows = [row for row in rewards.to_pylist() if row["set"] == name]
        lines += ["", f"### {name.capitalize()} loggers", "", *_rewards_table(rows)]
    write(page, "\n".join([*lines, ""]).encode())
    write(table, csv_text(rewards).encode())
    return [page, table]


def _claims_table(claims: pa.Table) -> list[str]:
    rows = [
        [row["claim"], WORDS[row["holds"]], row["evidence"], row["rule"]]
        for row in claims.to_pylist()
    ]
    return markdown(["claim", "holds", "evidence", "rule"], rows)


def _rewards_table(rows: list[dict[str, float | str]]) -> list[str]:
    algorithms = list(dict.fromkeys(str(row["algorithm"]) for row in rows))
    of_logger: dict[float, dict[str, dict[str, float | str]]] = {}
    for row in rows:
        of_logger.setdefault(float(row["eta"]), {})[str(row["algorithm"])] = row
    known = ("behavior", "best_fixed", "full_information")
    head = [
        "eta",
        "log10 of the smallest propensity",
        "logger",
        "best fixed action",
        "full information",
        *algorithms,
    ]
    body = []
    for eta, by_algorithm in of_logger.items():
        first = by_algorithm[algorithms[0]]
        body.append(
            [
                short(eta),
                f"{first['log10_min_propensity']:.1f}",
                *(f"{first[column]:.3f}" for column in known),
            ]
            + [
                " / ".join(
                    f"{row[column]:.3f}"
                    for column in ("reward_near", "reward_best", "reward_smallest")
                )
                for row in (by_algorithm[algorithm] for algorithm in algorithms)
            ]
        )
    return markdown(head, body)


def short(value: float) -> str:
    """Return three digits, but 1000 rather than 1e+03."""
    return f"{value:.3g}" if value < 100 else f"{value:.0f}"


def _rounded(value: float) -> float:
    return round(float(value), 6)
