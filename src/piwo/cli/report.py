"""`piwo report`: an HTML page about a log and policies."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

import piwo
from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer
from piwo.cli.evaluate import BaselineOption, evaluated, records
from piwo.cli.log_options import DEFAULT_COLUMNS, LogOptions, LogPaths, log_facts
from piwo.cli.shared_options import (
    DEFAULT_ESTIMATE,
    DEFAULT_OUTPUT,
    DEFAULT_RUN,
    NO_POLICY,
    EstimateOptions,
    OutputOptions,
    PolicyOptions,
    RunOptions,
)
from piwo.cli.terms import NO_TERMS, TermOptions
from piwo.policies.provenance import record_in
from piwo.report import summarize, write
from piwo.visible import visible

__all__ = ["report"]


def report(
    log: LogPaths,
    *,
    out: Annotated[Path, Parameter(help="The HTML file to write, replaced.", show=True)],
    baseline: BaselineOption = None,
    terms: TermOptions = NO_TERMS,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    estimate: EstimateOptions = DEFAULT_ESTIMATE,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Write an HTML page: values of policies, the health check of the log, and certificates."""
    named = policies.named()
    rows, found = evaluated(log, named, policies, columns, estimate, baseline, terms)
    certificates: dict[str, Certificate] = {}
    for name, one in named.items():
        # Only policy files hold certificates, and not all of them do.
        saved = record_in(one.metadata, "certificate")
        if saved:
            certificates[name] = Certificate.from_dict(saved)
    page = summarize(
        rows, list(found.values()), piwo.check(rows), certificates, at_least=terms.at_least
    )
    write(page, out)
    return Answer(
        text=f"wrote {visible(out)}; open it in a browser",
        document={
            "log": log_facts(rows, next(iter(found.values())).rows),
            "out": str(out),
            "policies": records(found),
        },
    )
