"""`piwo demo`: all commands on handwritten digits, for which every true value is known."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any, TypeAlias

import pyarrow as pa
from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, on_stdout
from piwo.cli.output_path import check_outputs
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.policies import Constant, LinearGreedy, Policy, Uniform
from piwo.simulate import ClassificationBandit
from piwo.visible import table, visible

__all__ = ["activation", "demo"]

ROWS, ETA, SEED = 20_000, 3.0, 0
_Show: TypeAlias = Callable[..., None]
"""Prints a section from its title and lines, and adds its facts to the JSON document."""


def demo(
    *,
    out: Annotated[
        Path,
        Parameter(
            help="File for the learned policy; the log is written next to it. "
            "Old files are replaced."
        ),
    ] = Path("digits.piwo"),
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """Run all steps on bundled data: check, evaluate, learn, certify, act."""
    path = out.with_name(f"{out.stem}-log.parquet")
    check_outputs({"--out": out, "the log": path})
    bandit = _digits()
    document: dict[str, Any] = {"policy": str(out), "log": str(path)}

    def show(title: str, *lines: str, **facts: Any) -> None:
        """Print one section as soon as its results are known, unless less was asked for."""
        document.update(facts)
        if not (output.json or output.quiet):
            indented = [f"   {line}" for line in lines]
            on_stdout("\n".join([title, *indented, ""]))

    log, greedy = _write_log(show, path, bandit)
    _check(show, log)
    _evaluate(show, log, bandit, greedy)
    _learn(show, log, bandit, out, path)
    _act(show, bandit, out)
    if output.quiet:
        return Answer(f"wrote {visible(path)} and {visible(out)}", document)
    return Answer("\n".join(_commands(out, path)), document)


def _digits() -> ClassificationBandit:
    """Return the digits as a bandit: the context is an image, the reward 1 for its digit."""
    # Loading scikit-learn takes a while, and the other commands do not need its data.
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = {f"pixel_{i:02}": column for i, column in enumerate(digits.data.T)}
    return ClassificationBandit(pixels, digits.target)


def _write_log(
    show: _Show, path: Path, bandit: ClassificationBandit
) -> tuple[piwo.Log, LinearGreedy]:
    """Simulate a softmax logger and write its log; return the log as read, and a greedy policy.

    The greedy policy always plays the logger's most probable action.
    """
    import pyarrow.parquet as pq

    logger = bandit.softmax_logger(ETA)
    greedy = LinearGreedy(logger.coef, logger.intercept, bandit.actions, bandit.features)
    (batch,) = bandit.log(logger, rows=ROWS, random_state=SEED).each_batch(context=True)
    assert batch.context is not None
    roles = {
        "action": bandit.actions.take(batch.action),
        "reward": batch.reward,
        "propensity": batch.propensity,
        "greedy": greedy.logged(batch),
    }
    pixels = dict(zip(bandit.features.names, batch.context.T, strict=True))
    pq.write_table(pa.table({**roles, **pixels}), path)
    log = piwo.read(path, context="pixel_*", policy_columns="greedy")
    show(
        "1. A log of decisions",
        f"A program was shown {ROWS} images, drawn from {len(bandit)}. For each, it drew a digit",
        "at random, earned 1 if it was right, and logged the probability of its draw.",
        f"Written to {path}: action, reward, propensity, 64 pixels.",
        rows=ROWS,
        true_logging_value=bandit.value(logger),
    )
    return log, greedy


def _check(show: _Show, log: piwo.Log) -> None:
    health = piwo.check(log)
    mean, ess, least = health.mean_weight, health.ess or 0, health.propensity_min
    of_rows = f"of {health.rows:,} rows, for the uniform policy"
    show(
        "2. Is the log fit for use?  (piwo check)",
        _fact("verdict", health.verdict, "for these reasons:"),
        _fact("mean weight", f"{mean:.3f}", "expected 1: propensities and actions agree"),
        _fact("effective sample", f"{ess:.0f}", of_rows),
        _fact("smallest propensity", f"{least:.4f}", "of the actions taken"),
        verdict=health.verdict,
    )


def _evaluate(
    show: _Show, log: piwo.Log, bandit: ClassificationBandit, greedy: LinearGreedy
) -> None:
    policies: Mapping[str, Policy] = {
        "uniform": Uniform(log.actions),
        "constant:1": Constant(1, log.actions),
        "greedy": greedy,
    }
    # The log has a column with the probabilities of the greedy policy, as logs of users may have.
    found = piwo.compare(log, {**policies, "greedy": piwo.policies.Column("greedy")})
    rows, evaluations = [], []
    for name, one in found.items():
        truth = bandit.value(policies[name])
        numbers = (one.value or 0, one.lower or 0, one.upper or 0, truth)
        rows.append([name, *(f"{x:.3f}" for x in numbers)])
        evaluations.append({**one.to_dict(), "truth": truth})
    show(
        "3. What would other policies have earned?  (piwo evaluate)",
        *table(["policy", "value", "lower", "upper", "truth"], rows),
        "value is the estimate. With probability at least 95 %, all three true values lie",
        "between lower and upper. The truth is known here, as the log is simulated.",
        evaluations=evaluations,
    )


def _learn(show: _Show, log: piwo.Log, bandit: ClassificationBandit, out: Path, path: Path) -> None:
    learner = piwo.PIWOGrid().fit(log)
    certificate, score = learner.certificate_, learner.score_
    assert certificate is not None
    metadata = {
        "certificate": certificate.to_dict(),
        "training": {"log": str(path), "rule": learner.rule_},
    }
    learner.policy_.save(out, metadata=metadata)
    truth = bandit.value(learner.policy_)
    logger_truth = bandit.value(bandit.softmax_logger(ETA))
    least, gain = certificate.value_lower or 0.0, certificate.improvement_lower or 0.0
    estimate, trained = certificate.value or 0.0, certificate.training_rows
    chosen = f"how far it lowers large weights; certified best of {len(learner.path_)} values"
    known = f"known here; the logging policy earns {logger_truth:.3f}"
    show(
        "4. Which policy should run, and is it better?  (piwo learn)",
        f"Learned by PIWO-Grid on {trained:,} rows, certified on the other {certificate.rows:,}.",
        _fact("smoothing lam", f"{score.value:.3g}", chosen),
        _fact("certified value", f"{least:.3f}", "at least this, with probability 95 %"),
        _fact("certified gain", f"{gain:+.3f}", "at least, over the logging policy; likewise"),
        _fact("estimate", f"{estimate:.3f}", "on rows that were not used to learn"),
        _fact("truth", f"{truth:.3f}", known),
        f"Saved to {out}, with its certificate.",
        certificate=certificate.to_dict(),
        truth=truth,
    )


def _act(show: _Show, bandit: ClassificationBandit, out: Path) -> None:
    policy = piwo.load(out)
    images, right = bandit.context[:3], bandit.actions.take(bandit.classes[:3])
    made = policy.act(images, random_state=SEED)
    rows: list[list[Any]] = []
    decisions: list[dict[str, Any]] = []
    for action, propensity, best in zip(*made, right, strict=True):
        rows.append([f"image {len(rows)}", action, propensity, best])
        decisions.append({"action": action.item(), "propensity": propensity.item()})
    show(
        "5. Act with the saved policy  (piwo policy act)",
        *table(["", "action", "propensity", "right"], rows),
        "The policy is deterministic, so its log would say nothing about other actions.",
        "To explore: piwo.policies.EpsilonGreedy(policy, 0.1). Log every propensity.",
        decisions=decisions,
    )


def _fact(name: str, number: str, meaning: str) -> str:
    return f"{name:<20}{number:>8}   {meaning}"


def activation() -> list[str]:
    """Return the line to type first, if `piwo` is in a virtual environment that is not active."""
    programs = Path(sys.executable).parent
    installed = shutil.which("piwo", path=programs)
    activate = programs / "activate"
    if installed is None or not activate.is_file():
        return []
    # The shell already finds this `piwo`.
    found = shutil.which("piwo")
    if found is not None and Path(found).samefile(installed):
        return []
    if activate.is_relative_to(Path.cwd()):
        activate = activate.relative_to(Path.cwd())
    return [f". {shlex.quote(str(activate))}"]


def _commands(out: Path, path: Path) -> list[str]:
    """Return the commands for the same steps, on the files of the demo and on a user's log."""
    log, policy = shlex.quote(str(path)), shlex.quote(str(out))
    columns = "--action ITEM --reward CLICK --propensity P"
    policies = "--policy uniform --policy constant:1 --policy-column greedy"
    own = [
        *activation(),
        f"piwo check {log}",
        f"piwo evaluate {log} {policies}",
        f"piwo learn {log} --context 'pixel_*' --oracle classifier --out {policy} --gate",
        f"piwo policy show {policy}",
        f"piwo policy act {policy} {log} --epsilon 0.05 --seed 0",
    ]
    users = [
        f"piwo check LOG {columns}",
        f"piwo evaluate LOG {columns} --policy uniform",
        f"piwo learn LOG {columns} --context 'x_*' --out policy.piwo --gate",
    ]
    return [
        "The same by hand; without --oracle classifier, learn tries several ways and is slower:",
        *(f"   {line}" for line in own),
        "",
        "On your own log (Parquet, CSV, JSON or SQL), with the names of its columns:",
        *(f"   {line}" for line in users),
    ]
