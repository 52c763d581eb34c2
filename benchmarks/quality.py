"""How good learned policies are: labeled data turned into logs, every policy valued exactly.

    python -m benchmarks.quality [--quick] [--seeds 5] [--first-seed 0] [--jobs 2] [--data FOLDER]
    [--out quality.jsonl]

Five data sets, two reward matrices (sharp: 1 for the right action, 0 for the others; random:
uniform on [0, 1)), seven loggers and the seeds make the cases. In each the log is drawn from 70 %
of the rows, and policies are valued on the others, from which the learners see nothing. The table
has the normalized gain

    (value - logger) / (best - logger),  best: of the full-information fits of ridge, logistic
    regression, boosted trees

and how often a learner is worse than the logger by more than .01. Cases are written to --out as
they are done, and those that are there are not computed again. --quick: two data sets, one seed.

The exit code is 1 where auto gains less than .44 on average, or harms in more than 1 % of the
cases; --quick judges nothing. Settings are to be tried on other logs, --first-seed 100, and
reported on these once.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

import piwo
from piwo.logs.batch import Floats
from piwo.simulate import ClassificationBandit

__all__ = ["Case", "main", "run", "table"]

SETS = ("penbased", "satimage", "segment", "vowel", "digits")
QUICK = ("segment", "vowel")
REWARDS = ("sharp", "random")
TEMPERATURES: Mapping[str, float] = {
    "softmax 1": 1.0,
    "softmax 5": 5.0,
    "softmax 10": 10.0,
    "softmax 30": 30.0,
    "reversed": -5.0,
}
"""Inverse temperatures: from near-uniform to near-deterministic, and one that prefers what is
bad."""
LOGGERS = (*TEMPERATURES, "uniform", "epsilon-greedy")
SEEN = 0.1
"""Fraction of the rows that a logger was made from."""
HARM = 0.01
WANTED = {"gain": 0.44, "harm": 0.01}
"""The least mean gain of auto, and the largest fraction of cases in which it may do harm."""

Learn = Callable[[piwo.Log, int], piwo.policies.Policy]


@dataclass(frozen=True)
class Case:
    """One log."""

    data: str
    rewards: str
    logger: str
    seed: int


def _piwo(score: piwo.scores.Score | None, oracle: piwo.oracles.Oracle) -> Learn:
    return lambda log, seed: (
        piwo.PIWO(score, oracle, certificate=None, random_state=seed).fit(log).policy_
    )


def _boosted(log: piwo.Log, seed: int) -> piwo.policies.Policy:
    usual = {one.label: one.oracle for one in piwo.learners.default_pool(seed)}
    return usual["direct boosted trees"].solve(log, piwo.IW())


OTHERS: Mapping[str, Learn] = {
    "ridge, gamma sqrt(d/n)": _piwo(piwo.IX(), piwo.oracles.Ridge()),
    "logistic, gamma sqrt(d/n)": _piwo(piwo.IX(), piwo.oracles.Classifier()),
    "weighted logistic": _piwo(piwo.IX(1e-6), piwo.oracles.Classifier()),
    "direct ridge": _piwo(None, piwo.oracles.Direct()),
    "direct boosted trees": _boosted,
}
"""What auto is compared with."""
AUTO, CERTIFIED = "auto", "auto, refit=False"
LEARNERS = (AUTO, CERTIFIED, *OTHERS)


def run(case: Case, folder: Path) -> dict[str, Any]:
    """Return the values of one case: logger, best, and every learner; and what auto chose."""
    with warnings.catch_warnings(
        action="ignore"
    ):  # logistic regressions that stop early are part of the comparison
        return _run(case, folder)


def _run(case: Case, folder: Path) -> dict[str, Any]:
    everything = _bandit(case, folder)
    test = np.random.default_rng(case.seed).random(len(everything)) < 0.3
    rows, fresh = everything.take(~test), everything.take(test)
    logger = _logger(case, rows)
    log = rows.log(logger, random_state=case.seed)
    logged = fresh.value(logger)
    auto = piwo.Auto(random_state=case.seed).fit(log)
    stays = auto.chosen_ == "logging"
    values = {AUTO: logged if stays else fresh.value(auto.policy_)}
    values[CERTIFIED] = logged if stays else fresh.value(auto.certified_policy_)
    values |= {name: fresh.value(learn(log, case.seed)) for name, learn in OTHERS.items()}
    return {
        **asdict(case),
        "logged": logged,
        "best": _best(rows, fresh),
        "chosen": auto.chosen_,
        "values": values,
    }


def _bandit(case: Case, folder: Path) -> ClassificationBandit:
    table = pq.read_table(folder / f"sup_{case.data}.parquet")
    *columns, label = table.column_names
    y = np.array([str(x) for x in table[label].to_pylist()])
    k = len(set(y.tolist()))
    rewards = (
        np.eye(k)
        if case.rewards == "sharp"
        else np.random.default_rng(1000 + case.seed).random((k, k))
    )
    context = np.column_stack([table[name].to_numpy() for name in columns]).astype(np.float64)
    return ClassificationBandit(context, y, rewards=rewards)


def _logger(case: Case, rows: ClassificationBandit) -> piwo.policies.Policy:
    if case.logger == "uniform":
        return piwo.policies.Uniform(rows.actions)
    eta = TEMPERATURES.get(case.logger, 1.0)
    softmax = rows.softmax_logger(eta, rows=SEEN, random_state=case.seed)
    if case.logger in TEMPERATURES:
        return softmax
    return piwo.policies.EpsilonGreedy(
        piwo.policies.LinearGreedy(softmax.coef, softmax.intercept, rows.actions), 0.2
    )


def _best(rows: ClassificationBandit, fresh: ClassificationBandit) -> float:
    """Return the value of the best fit that sees the reward of every action."""
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler().fit(rows.context)
    x, new = scaler.transform(rows.context), scaler.transform(fresh.context)
    promised: list[Floats] = [Ridge().fit(x, rows.rewards.T[rows.classes]).predict(new)]
    trees = HistGradientBoostingClassifier(
        max_iter=40, learning_rate=0.15, early_stopping=False, random_state=0
    )
    for model in (LogisticRegression(max_iter=1000), trees):
        model.fit(x, rows.classes)
        promised.append(model.predict_proba(new) @ rows.rewards.T[model.classes_])
    return max(float(fresh.rewards[one.argmax(axis=1), fresh.classes].mean()) for one in promised)


# --- the tables


def gains(done: Sequence[Mapping[str, Any]], learner: str) -> tuple[float, float]:
    """Return the mean normalized gain of a learner, and the share of cases with harm.

    >>> case = {"logged": 0.5, "best": 0.9, "values": {"one": 0.7}}
    >>> [round(x, 3) for x in gains([case], "one")]
    [0.5, 0.0]
    """
    found = [(one["values"][learner] - one["logged"], one["best"] - one["logged"]) for one in done]
    return float(np.mean([x / gap for x, gap in found])), float(
        np.mean([x < -HARM for x, _ in found])
    )


def table(done: Sequence[Mapping[str, Any]], by: str | None = None) -> str:
    """Return a Markdown table: per learner mean gain, harm, and mean gain by one property."""
    kinds = sorted({one[by] for one in done}) if by else []
    lines = [["learner", "gain", "harm", *kinds], ["---"] * (3 + len(kinds))]
    for learner in LEARNERS:
        gain, harm = gains(done, learner)
        parts = [
            gains([one for one in done if one[by] == kind], learner)[0] for kind in kinds if by
        ]
        lines.append([learner, f"{gain:.3f}", f"{100 * harm:.1f} %", *(f"{x:.2f}" for x in parts)])
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _shown(done: Sequence[Mapping[str, Any]]) -> str:
    stays = np.mean([one["chosen"] == "logging" for one in done])
    told = f"{len(done)} logs; auto keeps the logging policy in {100 * stays:.0f} % of them"
    return "\n\n".join([told, *(table(done, by) for by in ("data", "logger", "rewards"))])


def missed(done: Sequence[Mapping[str, Any]]) -> list[str]:
    """Return what auto fails to reach, a line each; empty where it reaches all.

    >>> missed([{"logged": 0.5, "best": 0.9, "values": {"auto": 0.7}}])
    []
    """
    gain, harm = gains(done, AUTO)
    found = (
        [f"auto has a mean gain of {gain:.3f}, wanted at least {WANTED['gain']}"]
        if gain < WANTED["gain"]
        else []
    )
    if harm > WANTED["harm"]:
        found.append(
            f"auto does harm in {100 * harm:.1f} % of the cases, wanted at most "
            f"{100 * WANTED['harm']:g} %"
        )
    return found


def _cases(quick: bool, seeds: int, first: int = 0) -> list[Case]:
    """Return the cases, seed by seed: what is done when it is interrupted is balanced."""
    sets = QUICK if quick else SETS
    numbers = range(first, first + (1 if quick else seeds))
    return [Case(d, r, g, s) for s in numbers for d in sets for r in REWARDS for g in LOGGERS]


def main(argv: Sequence[str] | None = None) -> int:
    """Run the cases that are not yet done, print the tables, and return the exit code."""
    shared = Path(os.environ.get("PIWO_SHARED", Path(__file__).parents[2] / "shared"))
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="two data sets, one seed")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2, help="processes; 1: this one alone")
    parser.add_argument(
        "--data", type=Path, default=shared / "data", help="folder of the sup_*.parquet files"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("quality.jsonl"), help="cases that are done, one a line"
    )
    asked = parser.parse_args(argv)
    wanted = _cases(asked.quick, asked.seeds, asked.first_seed)
    done = _read(asked.out)
    missing = [case for case in wanted if case not in done]
    with asked.out.open("a", encoding="utf-8") as file:
        for count, (case, found) in enumerate(_ran(missing, asked.data, asked.jobs), 1):
            done[case] = found
            print(json.dumps(found), file=file, flush=True)
            print(f"\r{count} of {len(missing)}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)
    cases = [done[case] for case in wanted]
    print(_shown(cases))
    failures = [] if asked.quick else missed(cases)
    for failure in failures:
        print(f"\nmissed: {failure}")
    return int(bool(failures))


def _ran(cases: Sequence[Case], folder: Path, jobs: int) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Yield the cases as they are done."""
    if jobs == 1:
        yield from ((case, run(case, folder)) for case in cases)
        return
    # one thread a case: small fits gain nothing from two
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = {pool.submit(run, case, folder): case for case in cases}
        for future in as_completed(running):
            yield running[future], future.result()


def _read(path: Path) -> dict[Case, dict[str, Any]]:
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    return {
        Case(*(one[x] for x in ("data", "rewards", "logger", "seed"))): one
        for one in map(json.loads, lines)
    }


if __name__ == "__main__":
    sys.exit(main())
