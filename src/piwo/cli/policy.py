"""`piwo policy show` and `piwo policy act`: what a policy file holds, and what it does."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer
from piwo.cli.contexts import read_contexts
from piwo.cli.log_options import whole
from piwo.cli.output_path import writable
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions, kept_with
from piwo.errors import UsageError
from piwo.files import write_file
from piwo.policies import Policy, SavedPolicy
from piwo.visible import visible

__all__ = ["act", "show"]

PolicyFile = Annotated[str, Parameter(help="A policy file.")]


def show(file: PolicyFile, *, output: OutputOptions = DEFAULT_OUTPUT) -> Answer:  # noqa: ARG001 (read by main)
    """What a policy file holds: the kind of policy, its actions and context, its certificate and training."""
    saved = piwo.policies.load_with_metadata(file)
    facts = _facts(saved)
    kept, training = kept_with(saved, "certificate"), kept_with(saved, "training")
    certificate = Certificate.from_dict(kept) if kept else None
    lines = [f"{visible(file)}: {visible(saved.policy)}"]
    lines += [f"  {name:<12} {_shown(value)}" for name, value in facts.items() if value is not None]
    if training:
        lines += [
            "training",
            *(
                f"  {visible(k):<12} {_shown(v)}"
                for k, v in training.items()
                if not isinstance(v, dict)
            ),
        ]
    if certificate is not None:
        lines += str(certificate).splitlines()
    else:
        lines.append(
            "no certificate; piwo evaluate LOG --policy FILE says what the policy is worth"
        )
    record = None if certificate is None else certificate.to_dict()
    return Answer(
        "\n".join(lines),
        {"policy": file, **facts, "certificate": record, "training": training or None},
    )


def _facts(saved: SavedPolicy) -> dict[str, Any]:
    policy = saved.policy
    return {
        "kind": policy.kind,
        "actions": None if policy.listed is None else list(policy.listed.labels),
        "context": None if policy.features is None else list(policy.features.columns),
        "library": saved.library,
    }


def _check_acts(file: str, policy: Policy) -> None:
    """Raise for policies that say nothing about contexts that come from a file."""
    if not policy.gives_full_distribution:
        raise UsageError(
            f"the {policy.kind} policy in {file} says only what was logged and cannot act; learn "
            "one: piwo learn"
        )
    if policy.needs_context and policy.features is None:
        raise UsageError(
            f"the {policy.kind} policy in {file} does not know its columns by name and cannot act "
            "on a file; learn one: piwo learn, or act from Python on a matrix"
        )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        few = ", ".join(visible(x) for x in value[:8]) + (", ..." if len(value) > 8 else "")
        return f"{len(value)}: {few}"
    return visible(f"{value:.4g}" if isinstance(value, float) else value)


def act(
    file: PolicyFile,
    contexts: Annotated[
        str, Parameter(help="File, glob or query with the policy's context columns.")
    ],
    *,
    epsilon: Annotated[
        float,
        Parameter(
            help="Share of rows that get a uniform action, so that every action is tried and its log can be learned "
            "from: (1 - E) pi + E/K; the propensities are those."
        ),
    ] = 0.0,
    seed: Annotated[
        int | None,
        Parameter(
            help="Makes the draws repeatable. [default: another draw each time]", converter=whole
        ),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="Write there instead of to standard output.")
    ] = None,
    format: Annotated[  # noqa: A002 (its name on the command line)
        Literal["csv", "jsonl"] | None,
        Parameter(help="csv or jsonl. [default: by the ending of --out, else csv]"),
    ] = None,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """Act on contexts: one action a row, and the probability of drawing it. Log both, to learn from later."""
    if out is not None:
        writable(out, [file, contexts])
    policy = piwo.load(file)
    _check_acts(file, policy)
    if epsilon:
        policy = piwo.policies.EpsilonGreedy(policy, epsilon)
    table = read_contexts(contexts, policy.features if policy.needs_context else None)
    rows = table.num_rows
    chosen = policy.act(table, seed) if policy.needs_context else policy.act(None, seed, n=rows)
    labels, propensities = chosen.actions.tolist(), chosen.propensities
    ending = (
        "jsonl"
        if out is not None and out.suffix.lower() in {".jsonl", ".ndjson", ".json"}
        else "csv"
    )
    text = (
        _jsonl(labels, propensities)
        if (format or ending) == "jsonl"
        else _csv(labels, propensities)
    )
    document: dict[str, Any] = {"policy": file, "rows": rows}
    if out is not None:
        write_file(out, text.encode())
        return Answer(f"wrote {rows} decisions to {visible(out)}", {**document, "out": str(out)})
    if output.json:
        pairs = zip(labels, propensities.tolist(), strict=True)
        document["decisions"] = [{"action": a, "propensity": p} for a, p in pairs]
    return Answer(text.removesuffix("\n"), document)


def _csv(labels: list[Any], propensities: npt.NDArray[np.float64]) -> str:
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(["action", "propensity"])
    writer.writerows(zip(labels, propensities.tolist(), strict=True))
    return page.getvalue()


def _jsonl(labels: list[Any], propensities: npt.NDArray[np.float64]) -> str:
    pairs = zip(labels, propensities.tolist(), strict=True)
    return "".join(
        f"{json.dumps({'action': a, 'propensity': p}, ensure_ascii=False)}\n" for a, p in pairs
    )
