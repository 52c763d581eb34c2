"""`piwo report`: a page to show to colleagues."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, TypeVar

from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer
from piwo.cli.evaluate import BaselineOption, evaluated, records
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.notices import as_options
from piwo.cli.output_path import writable
from piwo.cli.shared_options import (
    DEFAULT_ESTIMATE,
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    NO_POLICY,
    EstimateOptions,
    OutputOptions,
    PolicyOptions,
    RunOptions,
    kept_with,
)
from piwo.report import summarize, write
from piwo.visible import visible

__all__ = ["report"]

T = TypeVar("T", Certificate, piwo.Evaluation)


def report(
    log: LogPaths,
    *,
    out: Annotated[
        Path, Parameter(help="The page to write, one HTML file; an old one is replaced.")
    ],
    baseline: BaselineOption = None,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    estimate: EstimateOptions = DEFAULT_ESTIMATE,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Write a page for colleagues: values of policies, health of the log, certificates; one file."""
    writable(out, [*log, *(policies.policy or [])])
    named = policies.named()
    rows, found = evaluated(log, named, policies, columns, estimate, baseline)
    kept = {name: kept_with(one.saved, "certificate") for name, one in named.items()}
    certificates = {
        name: _as_typed(Certificate.from_dict(one)) for name, one in kept.items() if one
    }
    shown = [_as_typed(one) for one in found.values()]
    page = summarize(rows, shown, piwo.check(rows), certificates)
    write(page, out)
    return Answer(
        text=f"wrote {visible(out)}; open it in a browser",
        document={
            "log": log_facts(rows, next(iter(found.values())).rows),
            "out": str(out),
            "policies": records(found),
        },
    )


def _as_typed(one: T) -> T:
    """Return a record whose notes call arguments of Python by the options that mean the same."""
    return replace(one, notes=tuple(map(as_options, one.notes)))
