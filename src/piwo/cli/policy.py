"""`piwo policy show` prints a policy file; `piwo policy act` acts on contexts."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

import pyarrow as pa
from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer, command_line
from piwo.cli.log_options import whole
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.cli.slate_answers import slate_proof
from piwo.errors import DataError, FileError, UsageError
from piwo.files import write_file
from piwo.logs.actions import label_array
from piwo.logs.column_names import match_names, require_columns
from piwo.logs.columns import Columns
from piwo.logs.eligible import LISTS, is_list, ragged
from piwo.logs.features import Features
from piwo.logs.inline import is_objects
from piwo.logs.source_of import contexts_of, source_of
from piwo.messages import argument
from piwo.policies import Policy, SavedPolicy
from piwo.policies.provenance import record_in
from piwo.sources.paths import files_of
from piwo.sources.query import ColumnType
from piwo.sources.source import Source
from piwo.visible import number, visible

__all__ = ["act", "read_contexts", "show"]

_SHOWN = 20
"""Decisions that are printed on a terminal; files and pipes get all."""

PolicyFile = Annotated[str, Parameter(help="A policy file.")]
_Epsilon = Annotated[
    float,
    Parameter(
        help="Explore: take a uniformly random action in this fraction E of the rows, "
        "(1 - E) pi + E/K. The propensities are those of this mixture."
    ),
]
_Eligible = Annotated[
    str | None,
    Parameter(
        help="Column with lists of the actions that may be chosen in each row; of slates also with "
        "a list for each slot. Nothing else is chosen, also not by exploring. [default: every "
        "action of the policy]"
    ),
]
_Items = Annotated[
    str | None,
    Parameter(
        help="File or query with the items to choose from and their features, for a policy "
        "over joint features; or the column of CONTEXTS with the features of each eligible "
        "action. [default: those that it was learned with]"
    ),
]
_Slots = Annotated[
    int | None,
    Parameter(
        help="Slots to fill, for a policy of slates. [default: all that it fills]",
        converter=whole,
    ),
]


def show(file: PolicyFile, *, output: OutputOptions = DEFAULT_OUTPUT) -> Answer:  # noqa: ARG001 (read by main)
    """Show a policy file: its kind, actions, context, rules, certificate and training."""
    if piwo.slates.is_slate_file(file):
        return _show_slates(file)
    saved = piwo.policies.load_with_metadata(file)
    facts = _facts(saved)
    training = record_in(saved.metadata, "training")
    certificate_record = record_in(saved.metadata, "certificate")
    rules = saved.policy.rules()
    lines = [f"{visible(file)}: {visible(repr(saved.policy))}", *_fact_lines(facts)]
    if rules:
        lines += ["rules", *(f"  {line}" for line in rules)]
    if training:
        lines += ["training", *_fact_lines(training)]
    record = None
    if certificate_record:
        # Through the class, which checks the record, and reads those of earlier versions.
        certificate = Certificate.from_dict(certificate_record)
        record = certificate.to_dict()
        lines += str(certificate).splitlines()
    else:
        lines.append("no certificate; estimate its value: piwo evaluate LOG --policy FILE")
    return Answer(
        "\n".join(lines),
        {
            "policy": file,
            **facts,
            "rules": list(rules) or None,
            "certificate": record,
            "training": training or None,
        },
    )


def _show_slates(file: str) -> Answer:
    """Return what a file of a slate policy says."""
    saved = piwo.slates.load_with_metadata(file)
    policy = saved.policy
    actions = context = None
    if policy.listed is not None:
        actions = list(policy.listed.labels)
    if policy.encoding is not None:
        context = list(policy.encoding.columns)
    facts = {
        "kind": f"slates, {policy.kind}",
        "actions": actions,
        "slots": policy.most_slots,
        "context": context,
        "columns": [*policy.numbers, *policy.slate_columns] or None,
        "library": saved.library,
    }
    training = policy.learned
    lines = [f"{visible(file)}: {type(policy).__name__}", *_fact_lines(facts)]
    if training is not None:
        lines += ["training", *_fact_lines(training)]
    record = record_in(saved.metadata, "evaluation")
    if record:
        lines += slate_proof(file, record)
    else:
        others = "on rows that it was not learned from: " if training is not None else ""
        words = command_line(["piwo", "slates", "LOG", "--policy", file])
        lines.append(f"no certificate; estimate its value: {others}{words}")
    document = {
        "rules": None,
        "certificate": None,
        "training": training,
        "evaluation": dict(record) or None,
    }
    return Answer("\n".join(lines), {"policy": file, **facts, **document})


def _facts(saved: SavedPolicy) -> dict[str, Any]:
    """Return what a file says of its policy, as JSON has it."""
    policy = saved.policy
    actions = context = None
    if policy.listed is not None:
        actions = list(policy.listed.labels)
    if policy.features is not None:
        context = list(policy.features.columns)
    return {
        "kind": policy.kind,
        "actions": actions,
        "context": context,
        "library": saved.library,
    }


def _fact_lines(facts: Mapping[str, Any]) -> list[str]:
    """Return a line for each fact that is not a record of its own."""
    lines = []
    for name, value in facts.items():
        if value is not None and not isinstance(value, dict):
            lines.append(f"  {visible(name):<12} {_shortened(value)}")
    return lines


def _shortened(value: Any) -> str:
    if isinstance(value, list):
        few = ", ".join(map(visible, value[:8]))
        if len(value) > 8:
            few += ", ..."
        return f"{len(value)}: {few}"
    if isinstance(value, float):
        value = number(value)
    return visible(value)


def _check_can_act(file: str, policy: Policy) -> None:
    """Raise for a policy that cannot act on contexts from a file."""
    if not policy.gives_full_distribution:
        raise UsageError(
            f"the {policy.kind} policy in {file} is known only on the rows of its log "
            "and cannot act; learn one: piwo learn"
        )
    if policy.needs_context and policy.features is None:
        raise UsageError(
            f"the {policy.kind} policy in {file} was made without names of columns and "
            "cannot act on a file; learn one: piwo learn, or act on a matrix from Python"
        )


def act(
    file: PolicyFile,
    contexts: Annotated[
        str, Parameter(help="File, glob or query with the policy's context columns.")
    ],
    *,
    epsilon: _Epsilon = 0.0,
    eligible: _Eligible = None,
    items: _Items = None,
    slots: _Slots = None,
    keep: Annotated[
        list[str] | None,
        Parameter(help="Columns to write before the decisions, such as an id (repeated)."),
    ] = None,
    seed: Annotated[
        int | None,
        Parameter(help="Seed of the draws. [default: random]", converter=whole),
    ] = None,
    out: Annotated[
        Path | None,
        Parameter(
            help="File for the decisions. [default: standard output; on a terminal the first "
            f"{_SHOWN}]"
        ),
    ] = None,
    format: Annotated[  # noqa: A002 (its name on the command line)
        Literal["csv", "jsonl"] | None,
        Parameter(help="csv or jsonl. [default: by the suffix of --out, else csv]"),
    ] = None,
    output: OutputOptions = DEFAULT_OUTPUT,
) -> Answer:
    """Choose an action for each context, with its probability. Log both, to learn from later."""
    if output.json and format is not None and out is None:
        raise UsageError(
            f"--format got {format!r}, but --json prints the decisions in its document; "
            "leave one of them out, or write the decisions to a file (--out)"
        )
    _check_ending(out, format)
    if piwo.slates.is_slate_file(file):
        if items is not None:
            lost = argument("items")
            raise UsageError(
                f"{file} holds a policy of slates, which does not take {lost}; leave it out"
            )
        decided = _slates(file, contexts, epsilon, eligible, slots, keep or (), seed, out, format)
        return _written(decided, file, "jsonl", out, in_document=output.json)
    if slots is not None:
        raise UsageError(
            f"{file} holds a policy of single actions, which fills no {argument('slots')}; leave "
            "it out"
        )
    policy = piwo.load(file)
    _check_can_act(file, policy)
    if epsilon:
        policy = piwo.policies.EpsilonGreedy(policy, epsilon)
    features = None
    if policy.needs_context:
        features = policy.features
    table = read_contexts(contexts, features, eligible, keep or (), items=items)
    rows = table.num_rows
    X = None
    if policy.needs_context:
        X = table
    could = _listed(table, eligible)
    offered: Any = table[items] if items in table.column_names else items
    chosen = policy.act(X, seed, n=rows, eligible=could, items=offered)
    kept = match_names(keep or (), table.column_names, "columns to keep")
    decided = {name: table[name].to_pylist() for name in kept}
    decided |= {
        "action": chosen.actions.tolist(),
        "propensity": chosen.propensities.tolist(),
    }
    return _written(decided, file, format, out, in_document=output.json)


def _check_ending(out: Path | None, format: Literal["csv", "jsonl"] | None) -> None:  # noqa: A002
    """Raise for a file whose name promises what is not written, unless the format was typed."""
    ending = "" if out is None else out.suffix.lower()
    if format is None and ending in _OTHER_ENDINGS:
        raise UsageError(
            f"--out got {visible(out)}, and decisions are written as CSV or lines of JSON; give a "
            "name that ends in .csv or .jsonl, or say which (--format)"
        )


def _listed(table: pa.Table, eligible: str | None, of_slots: bool = False) -> pa.Array | None:
    """Return the lists of eligible actions in a column; None without one.

    Args:
        table: the contexts.
        eligible: the name of the column.
        of_slots: whether each row may have a list for each slot.
    """
    if eligible is None:
        return None
    could = table[eligible].combine_chunks()
    # The policy does not know the name of the column, which errors need.
    entries = ragged(could, eligible, LISTS)[1]
    if of_slots and is_list(entries.type):
        entries = ragged(entries, eligible, LISTS)[1]
    label_array(entries, eligible)
    return could


def _slates(
    file: str,
    contexts: str,
    epsilon: float,
    eligible: str | None,
    slots: int | None,
    keep: Sequence[str],
    seed: int | None,
    out: Path | None,
    format: Literal["csv", "jsonl"] | None,  # noqa: A002
) -> dict[str, list[Any]]:
    """Return the slates of a policy, with their probabilities, as columns."""
    ending = "" if out is None else out.suffix.lower()
    if format == "csv" or ending in {".csv", ".tsv"}:
        raise UsageError(
            f"{file} holds a policy of slates, which are lists, and CSV has none; write .jsonl"
        )
    policy = piwo.slates.load(file)
    if epsilon and isinstance(policy, piwo.slates.OneSlate):
        policy = piwo.slates.EpsilonSlate(policy, epsilon)
    elif epsilon:
        raise UsageError(
            f"the {policy.kind} policy in {file} is drawn at random already; leave "
            f"{argument('epsilon')} out"
        )
    table = read_contexts(contexts, policy.encoding, eligible, keep, decided=_SLATE_COLUMNS)
    X = None if policy.encoding is None else table
    could = _listed(table, eligible, of_slots=True)
    chosen = policy.act(X, seed, n=table.num_rows, slots=slots, eligible=could)
    kept = match_names(keep, table.column_names, "columns to keep")
    decided: dict[str, list[Any]] = {name: table[name].to_pylist() for name in kept}
    made: dict[str, list[Any]] = {"slate": chosen.slates, "propensities": chosen.propensities}
    if chosen.marginals is not None:
        made["marginals"] = chosen.marginals
    return decided | made


_OTHER_ENDINGS = (".parquet", ".pq", ".tsv", ".gz", ".zst", ".zip", ".vw", ".dsjson", ".piwo")
_SLATE_COLUMNS = ("slate", "propensities", "marginals")


def _written(
    decided: Mapping[str, list[Any]],
    file: str,
    format: Literal["csv", "jsonl"] | None,  # noqa: A002
    out: Path | None,
    in_document: bool,
) -> Answer:
    """Return the answer with the decisions, or write them to a file.

    Args:
        decided: the columns.
        file: of the policy.
        format: as it was typed.
        out: the file to write; None: they are printed.
        in_document: whether the document holds them.
    """
    rows = len(list(decided.values())[-1])
    left = 0
    if out is None and not in_document and sys.stdout.isatty():
        left = max(0, rows - _SHOWN)
        decided = {name: column[:_SHOWN] for name, column in decided.items()}
    json_lines = format == "jsonl"
    if format is None and out is not None:
        json_lines = out.suffix.lower() in {".jsonl", ".ndjson", ".json"}
    if json_lines:
        text = _jsonl(decided)
    else:
        text = _csv(decided)
    document: dict[str, Any] = {"policy": file, "rows": rows}
    if out is not None:
        write_file(out, text.encode())
        document["out"] = str(out)
        return Answer(f"wrote {rows:,} decisions to {visible(out)}", document)
    if in_document:
        document["decisions"] = _records(decided)
    if left:
        text += f"... and {left:,} more decisions; write all to a file with --out\n"
    # `print` ends the last line.
    return Answer(text.removesuffix("\n"), document)


def _csv(decided: Mapping[str, list[Any]]) -> str:
    page = io.StringIO()
    writer = csv.writer(page, lineterminator="\n")
    writer.writerow(decided)
    writer.writerows(zip(*decided.values(), strict=True))
    return page.getvalue()


def _jsonl(decided: Mapping[str, list[Any]]) -> str:
    lines = []
    for record in _records(decided):
        # Times and other kept values are written as text.
        lines.append(json.dumps(record, ensure_ascii=False, default=str) + "\n")
    return "".join(lines)


def _records(decided: Mapping[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(decided, row, strict=True)) for row in zip(*decided.values(), strict=True)]


def read_contexts(
    text: str,
    features: Features | None,
    eligible: str | None = None,
    keep: Sequence[str] = (),
    decided: Sequence[str] = ("action", "propensity"),
    items: str | None = None,
) -> pa.Table:
    """Read the context columns of a policy from a file, a glob or a query.

    Args:
        text: the argument of the command.
        features: the features of the policy; None: only the number of rows is needed.
        eligible: the column with lists of the actions that may be chosen.
        keep: columns to read besides.
        decided: names of the columns of the decisions.
        items: a column of features of the eligible actions, which is read, too; anything else,
            such as the name of a file, is not.

    Raises:
        FileError: if there is no such file.
        DataError: if columns are missing (similar names are shown), or there are no rows.
    """
    source = _source(text, features, eligible)
    available = source.schema.names
    kept = match_names(keep, available, "columns to keep")
    for name in decided:
        if name in (*keep, *kept):
            raise UsageError(
                f"--keep got {name!r}, which is the name of a column of the decisions; rename it"
            )
    # Any column shows the number of rows.
    wanted = available[:1]
    if features is not None:
        wanted = list(features.columns)
        require_columns(wanted, available, "policy's context")
    wanted += kept
    if eligible is not None:
        require_columns([eligible], available, "eligible actions")
        wanted.append(eligible)
    if items in available and is_objects(source.schema.field(items).type):
        wanted.append(items)
    wanted = list(dict.fromkeys(wanted))
    records: list[pa.RecordBatch] = []
    for fragment in source.fragments(wanted):
        records += fragment.records()
    if sum(record.num_rows for record in records) == 0:
        raise DataError(f"no rows in {source.name}, expected at least one context")
    return pa.Table.from_batches(records)


def _source(text: str, features: Features | None, eligible: str | None) -> Source:
    types: Mapping[str, ColumnType] = {}
    if features is not None:
        types = features.types
    try:
        paths = files_of(text)
    except FileError:
        # A query; for other text, this raises the same error.
        return source_of(text, Columns())
    return contexts_of(paths, types, eligible)
