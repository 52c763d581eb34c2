"""`piwo policy show` prints a policy file; `piwo policy act` acts on contexts."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer
from piwo.cli.log_options import whole
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.errors import DataError, FileError, UsageError
from piwo.files import write_file
from piwo.logs.columns import Columns, match_names
from piwo.logs.features import Features
from piwo.logs.source_of import contexts_of, source_of
from piwo.policies import Policy, SavedPolicy
from piwo.policies.provenance import record_in
from piwo.sources.paths import files_of
from piwo.sources.source import Source
from piwo.visible import visible

__all__ = ["act", "read_contexts", "show"]

PolicyFile = Annotated[str, Parameter(help="A policy file.")]


def show(file: PolicyFile, *, output: OutputOptions = DEFAULT_OUTPUT) -> Answer:  # noqa: ARG001 (read by main)
    """Show a policy file: its kind, actions, context, certificate and training."""
    saved = piwo.policies.load_with_metadata(file)
    facts = _facts(saved)
    kept = record_in(saved.metadata, "certificate")
    training = record_in(saved.metadata, "training")
    certificate = None
    if kept:
        certificate = Certificate.from_dict(kept)
    lines = [f"{visible(file)}: {visible(saved.policy)}"]
    lines += [f"  {name:<12} {_shown(value)}" for name, value in facts.items() if value is not None]
    if training:
        lines.append("training")
        plain = {k: v for k, v in training.items() if not isinstance(v, dict)}
        lines += [f"  {visible(key):<12} {_shown(value)}" for key, value in plain.items()]
    if certificate is not None:
        lines += str(certificate).splitlines()
    else:
        lines.append("no certificate; estimate its value: piwo evaluate LOG --policy FILE")
    record = None
    if certificate is not None:
        record = certificate.to_dict()
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
    """Raise for policies that cannot act on contexts from a file."""
    if not policy.gives_full_distribution:
        raise UsageError(
            f"the {policy.kind} policy in {file} is known only on the rows of its log "
            "and cannot act; learn one: piwo learn"
        )
    if policy.needs_context and policy.features is None:
        raise UsageError(
            f"the {policy.kind} policy in {file} does not know its columns by name and "
            "cannot act on a file; learn one: piwo learn, or act from Python on a "
            "matrix"
        )


def _shown(value: Any) -> str:
    if isinstance(value, list):
        few = ", ".join(visible(x) for x in value[:8])
        if len(value) > 8:
            few += ", ..."
        return f"{len(value)}: {few}"
    if isinstance(value, float):
        value = f"{value:.4g}"
    return visible(value)


def act(
    file: PolicyFile,
    contexts: Annotated[
        str, Parameter(help="File, glob or query with the policy's context columns.")
    ],
    *,
    epsilon: Annotated[
        float,
        Parameter(
            help="Explore: take a uniform action in this fraction of rows, (1 - E) pi + E/K. The "
            "propensities are those of the mixture."
        ),
    ] = 0.0,
    seed: Annotated[
        int | None,
        Parameter(help="Seed of the draws. [default: random]", converter=whole),
    ] = None,
    out: Annotated[
        Path | None, Parameter(help="Write to this file, not to standard output.")
    ] = None,
    format: Annotated[  # noqa: A002 (its name on the command line)
        Literal["csv", "jsonl"] | None,
        Parameter(help="csv or jsonl. [default: by the suffix of --out, else csv]"),
    ] = None,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """Act on contexts: one action per row and its probability. Log both, to learn from later."""
    if output.json and format is not None and out is None:
        raise UsageError(
            f"--format got {format!r}, but --json prints the decisions in its document; leave one "
            "of them out, or write the decisions to a file (--out)"
        )
    policy = piwo.load(file)
    _check_acts(file, policy)
    if epsilon:
        policy = piwo.policies.EpsilonGreedy(policy, epsilon)
    table = read_contexts(contexts, policy.features if policy.needs_context else None)
    rows = table.num_rows
    X = None
    if policy.needs_context:
        X = table
    chosen = policy.act(X, seed, n=rows)
    labels, propensities = chosen.actions.tolist(), chosen.propensities
    json_lines = format == "jsonl"
    if format is None and out is not None:
        json_lines = out.suffix.lower() in {".jsonl", ".ndjson", ".json"}
    if json_lines:
        text = _jsonl(labels, propensities)
    else:
        text = _csv(labels, propensities)
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
    lines = []
    for action, propensity in zip(labels, propensities.tolist(), strict=True):
        record = {"action": action, "propensity": propensity}
        lines.append(json.dumps(record, ensure_ascii=False) + "\n")
    return "".join(lines)


def read_contexts(text: str, features: Features | None) -> pa.Table:
    """Read the context columns of a policy from a file, a glob or a query.

    Args:
        text: the argument of the command.
        features: the features of the policy; None: only the number of rows is needed.

    Raises:
        FileError: if there is no such file.
        DataError: if columns are missing (similar names are shown), or there are no rows.
    """
    source = _source(text, features)
    available = source.schema.names
    wanted = available[:1]
    if features is not None:
        wanted = list(match_names(features.columns, available, "policy's context"))
    records: list[pa.RecordBatch] = []
    for fragment in source.fragments(wanted):
        records += fragment.records()
    if sum(record.num_rows for record in records) == 0:
        raise DataError(f"no rows in {source.name}, expected at least one context")
    return pa.Table.from_batches(records)


def _source(text: str, features: Features | None) -> Source:
    try:
        paths = files_of(text)
    except FileError:
        return source_of(text, Columns())  # a query, or the same error
    return contexts_of(paths, features.types if features is not None else {})
