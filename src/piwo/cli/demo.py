"""`piwo demo`: the whole story on handwritten digits, where every true value is known."""

from __future__ import annotations

import shlex
import shutil
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, say, table
from piwo.cli.output_path import writable
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.policies import Constant, LinearGreedy, Policy, Uniform
from piwo.simulate import ClassificationBandit

__all__ = ["activation", "demo"]

ROWS, ETA, SEED = 20_000, 3.0, 0


def demo(
    *,
    out: Annotated[
        Path,
        Parameter(
            help="File for the learned policy; the log goes beside it. Old ones are replaced."
        ),
    ] = Path("digits.piwo"),
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """The whole story on bundled data: check a log, value policies, learn one, certify it, act with it."""
    writable(out)
    story = _Story(out, out.with_name(f"{out.stem}-log.parquet"), silent=output.json)
    writable(story.log)
    bandit = _digits()
    log, greedy = _write_log(story, bandit)
    _check(story, log)
    _evaluate(story, log, bandit, greedy)
    _learn(story, log, bandit)
    _act(story, bandit)
    return Answer("\n".join(_commands(story)), story.document)


@dataclass
class _Story:
    """Where the demo writes, and what it has found so far."""

    out: Path
    log: Path
    silent: bool

    def __post_init__(self) -> None:
        self.document: dict[str, Any] = {"policy": str(self.out), "log": str(self.log)}

    def tell(self, title: str, *lines: str, **facts: Any) -> None:
        """Print one section as soon as it is known, unless the answer is to be a document."""
        self.document.update(facts)
        if not self.silent:
            say("\n".join([title, *(f"   {line}" for line in lines), ""]))


def _digits() -> ClassificationBandit:
    """Return the digits as a bandit: see an image, name a digit, earn 1 where it is the right one."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    pixels = {f"pixel_{i:02}": column for i, column in enumerate(digits.data.T)}
    return ClassificationBandit(pixels, digits.target)


def _write_log(story: _Story, bandit: ClassificationBandit) -> tuple[piwo.Log, Policy]:
    """Simulate a softmax logger and write its log; return the log as read, and the logger's greedy policy."""
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
    pq.write_table(pa.table({**roles, **pixels}), story.log)
    log = piwo.read(story.log, context="pixel_*", policy_columns="greedy")
    story.tell(
        "1. A log of decisions",
        f"A program was shown {ROWS} images, of {len(bandit)} different ones; each time it named a digit,",
        "drawn at random, earned 1 where it was right, and logged the probability of what it had drawn.",
        f"Written to {story.log}: action, reward, propensity, 64 pixels.",
        rows=ROWS,
        true_logging_value=bandit.value(logger),
    )
    return log, greedy


def _check(story: _Story, log: piwo.Log) -> None:
    health = piwo.check(log)
    story.tell(
        "2. Is the log fit for use?  (piwo check)",
        _fact("verdict", health.verdict, "and what makes it so:"),
        _fact(
            "mean weight", f"{health.mean_weight:.3f}", "expected 1: propensities and actions agree"
        ),
        _fact(
            "effective sample",
            f"{health.ess or 0:.0f}",
            f"of {health.rows} rows, for the uniform policy",
        ),
        _fact("smallest propensity", f"{health.propensity_min:.4f}", "of the decisions taken"),
        verdict=health.verdict,
    )


def _evaluate(story: _Story, log: piwo.Log, bandit: ClassificationBandit, greedy: Policy) -> None:
    policies: Mapping[str, Policy] = {
        "uniform": Uniform(log.actions),
        "constant:1": Constant(1, log.actions),
        "greedy": greedy,
    }
    found = piwo.compare(log, {**policies, "greedy": piwo.policies.Column("greedy")})
    truth = {name: bandit.value(policy) for name, policy in policies.items()}
    rows = [
        [name, *(f"{x or 0:.3f}" for x in (one.value, one.lower, one.upper)), f"{truth[name]:.3f}"]
        for name, one in found.items()
    ]
    lines = table(["policy", "value", "lower", "upper", "truth"], rows)
    story.tell(
        "3. What would other policies have earned?  (piwo evaluate)",
        *lines,
        "value is the estimate; the true value lies between lower and upper, for all three at once, with",
        "probability at least 95 %, at this number of rows. Truth is known here, because we made the log.",
        evaluations=[{**one.to_dict(), "truth": truth[name]} for name, one in found.items()],
    )


def _learn(story: _Story, log: piwo.Log, bandit: ClassificationBandit) -> None:
    learner = piwo.PIWOGrid().fit(log)
    certificate, score = learner.certificate_, learner.score_
    assert certificate is not None
    kept = {
        "certificate": certificate.to_dict(),
        "training": {"log": str(story.log), "rule": learner.rule_},
    }
    learner.policy_.save(story.out, metadata=kept)
    truth, today = bandit.value(learner.policy_), story.document["true_logging_value"]
    gain = certificate.improvement_lower or 0.0
    story.tell(
        "4. Which policy should run, and is it better?  (piwo learn)",
        f"Learned by PIWO-Grid on {certificate.training_rows} rows, certified on the other {certificate.rows}.",
        _fact(
            "lambda",
            f"{score.value:.3g}",
            f"how cautious; certified best of {len(learner.path_)} values",
        ),
        _fact(
            "certified value",
            f"{certificate.value_lower or 0:.3f}",
            "at least this, with probability 95 %",
        ),
        _fact("certified gain", f"{gain:+.3f}", "at least this over the logging policy, likewise"),
        _fact("estimate", f"{certificate.value or 0:.3f}", "on the rows that learning never saw"),
        _fact("truth", f"{truth:.3f}", f"known here; the logging policy earns {today:.3f}"),
        f"Saved to {story.out}, certificate included.",
        certificate=certificate.to_dict(),
        truth=truth,
    )


def _act(story: _Story, bandit: ClassificationBandit) -> None:
    policy = piwo.load(story.out)
    images, right = bandit.context[:3], bandit.actions.take(bandit.classes[:3])
    actions, propensities = policy.act(images, random_state=SEED)
    rows = [
        [f"image {i}", *row] for i, row in enumerate(zip(actions, propensities, right, strict=True))
    ]
    story.tell(
        "5. Act with the saved policy  (piwo policy act)",
        *table(["", "action", "propensity", "right"], rows),
        "It is always sure, so its log would teach nothing new; piwo.policies.EpsilonGreedy(policy, 0.1)",
        "explores. Log the propensity with every action.",
        decisions=[
            {"action": a, "propensity": p}
            for a, p in zip(actions.tolist(), propensities.tolist(), strict=True)
        ],
    )


def _fact(name: str, number: str, meaning: str) -> str:
    return f"{name:<20}{number:>8}   {meaning}"


def activation() -> list[str]:
    """Return the line to type first if `piwo` is in a virtual environment that is not active."""
    programs = Path(sys.executable).parent
    installed = shutil.which("piwo", path=programs)
    activate = programs / "activate"
    if installed is None or not activate.is_file():
        return []
    found = shutil.which("piwo")
    if found is not None and Path(found).samefile(installed):
        return []
    near = activate.is_relative_to(Path.cwd())
    shown = activate.relative_to(Path.cwd()) if near else activate
    return [f". {shlex.quote(str(shown))}"]


def _commands(story: _Story) -> list[str]:
    """Return the commands that do the same, on the files just written and on the user's own log."""
    log, out = shlex.quote(str(story.log)), shlex.quote(str(story.out))
    named = "--action ITEM --reward CLICK --propensity P"
    return [
        "The same by hand:",
        *(f"   {line}" for line in activation()),
        f"   piwo check {log}",
        f"   piwo evaluate {log} --policy uniform --policy constant:1 --policy-column greedy",
        f"   piwo learn {log} --context 'pixel_*' --oracle classifier --out {out} --gate",
        f"   piwo policy show {out}",
        f"   piwo policy act {out} {log} --epsilon 0.05 --seed 0",
        "",
        "On your own log (Parquet, CSV, JSON lines or SQL), with the names of its columns:",
        f"   piwo check LOG {named}",
        f"   piwo evaluate LOG {named} --policy uniform",
        f"   piwo learn LOG {named} --context 'user_*,hour' --out policy.piwo --gate",
    ]
