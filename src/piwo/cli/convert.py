"""`piwo convert`: the columns of a log in another format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import piwo
from piwo.cli.answer import Answer, next_lines
from piwo.cli.convert_slates import NO_SLATES, ConvertedSlates, convert_slates
from piwo.cli.label_lists import can_be_listed, is_range, list_of
from piwo.cli.log_options import (
    DEFAULT_COLUMNS,
    LogOptions,
    comma_list,
    log_facts,
)
from piwo.cli.shared_options import DEFAULT_OUTPUT, OutputOptions
from piwo.errors import UsageError
from piwo.logs.columns import ROLES
from piwo.sources.paths import kind_of_name

__all__ = ["convert"]


def convert(
    log: Annotated[str, Parameter(help="A file, a glob or a query, as for check.", show=True)],
    out: Annotated[
        Path,
        Parameter(
            help="The file to write, replaced: .parquet, .csv, .tsv, .jsonl, .dsjson, .vw, all but "
            "Parquet also with .gz behind it.",
            show=True,
        ),
    ],
    *,
    policy_column: Annotated[
        list[str] | None, Parameter(help="Column of pi(action | context) to keep; repeatable.")
    ] = None,
    columns: LogOptions = DEFAULT_COLUMNS,
    slates: ConvertedSlates = NO_SLATES,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
) -> Answer:
    """Write a log in another format: its columns that have a role, each row validated."""
    options = slates.options(log, columns)
    if options is not None:
        if policy_column:
            raise UsageError("--policy-column is no option of a log of slates; leave it out")
        return convert_slates(log, out, options)
    rows = columns.read([log], comma_list(policy_column))
    made = piwo.formats.write_log(rows, out)
    skipped: Mapping[str, int] = getattr(rows.source, "skipped", {})
    text = str(made)
    if skipped:
        reasons = ", ".join(f"{reason} {count}" for reason, count in skipped.items())
        text += f"\nlines that are not decisions: {reasons}"
    return Answer(
        "\n".join([f"{text}\n", *next_lines(["piwo", "check", str(out), *_options(rows, made)])]),
        {
            "log": log_facts(rows, made.rows),
            "out": str(out),
            "rows": made.rows,
            "skipped": dict(skipped),
            "left_out": list(made.left_out),
            "items_label": made.items_label,
        },
    )


def _options(rows: piwo.Log, made: piwo.formats.Written) -> list[str]:
    """Return the options with which the new file is read as the log was."""
    words: list[str] = []
    low, high = rows.reward_range
    if (low, high) != (0.0, 1.0):
        words.append(f"--reward-range={low:g},{high:g}")
    roles: Mapping[str, Any] = rows.columns.by_role()
    labels = rows.actions.labels
    listed = rows.declared_actions is not None
    items = [x for x in (rows.columns.item_features,) if x is not None]
    if kind_of_name(made.path) in {"dsjson", "vw"}:
        # The lines state what the other roles are, and count actions from 1.
        roles = {"context": rows.columns.context}
        listed = labels != tuple(range(1, len(labels) + 1))
        if rows.columns.eligible is not None and made.items_label is not None:
            words += ["--items-label", made.items_label]
            # Labels are text in the lines, and in the order of texts if they are not listed.
            listed = is_range(labels)
        items = _features(rows)
    if listed and can_be_listed(labels):
        words += ["--actions", list_of(labels)]
    for role, value in roles.items():
        option = "--" + role.replace("_", "-")
        if role == "policy_columns" or value in (None, (), ROLES[role].default):
            continue
        if value == role == "reward":
            continue
        # The default column is read if no other propensities are named.
        if value == role == "propensity" and rows.columns.propensities is None:
            continue
        text = value if isinstance(value, str) else ",".join(value)
        words += [option, text]
    if items:
        words += ["--items", ",".join(items)]
    return words


def _features(rows: piwo.Log) -> list[str]:
    """Return the names of the features of eligible actions, which are in the lines of a file."""
    inline = rows.columns.item_features
    if inline is not None:
        return [x.name for x in rows.source.schema.field(inline).type.value_type]
    if rows.columns.eligible is None or rows.actions.items is None:
        return []
    return list(rows.actions.items.table.column_names)
