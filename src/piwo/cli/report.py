"""`piwo report`: an HTML page about a log and policies."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from piwo.certificates.certificate import Certificate
from piwo.cli.answer import Answer, command_line
from piwo.cli.evaluate import BaselineOption, asked, records
from piwo.cli.gain_options import DEFAULT_GAINS, GainOptions
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
from piwo.report import describe, write
from piwo.visible import visible, without_secrets

__all__ = ["report"]


def report(
    log: LogPaths,
    *,
    out: Annotated[Path, Parameter(help="The HTML file to write, replaced.", show=True)],
    baseline: BaselineOption = None,
    shown: GainOptions = DEFAULT_GAINS,
    terms: TermOptions = NO_TERMS,
    policies: PolicyOptions = NO_POLICY,
    columns: LogOptions = DEFAULT_COLUMNS,
    estimate: EstimateOptions = DEFAULT_ESTIMATE,
    output: OutputOptions = DEFAULT_OUTPUT,  # noqa: ARG001 (read by main)
    run: RunOptions = DEFAULT_RUN,  # noqa: ARG001 (read by main)
) -> Answer:
    """Write an HTML page: what to do and why, the health of the log, and certificates."""
    units = shown.units
    named = policies.named()
    given = asked(log, named, policies, columns, estimate, baseline, terms)
    certificates: dict[str, Certificate] = {}
    for name, one in named.items():
        # Only policy files hold certificates, and not all of them do.
        saved = record_in(one.metadata, "certificate")
        if saved:
            certificates[name] = Certificate.from_dict(saved)
    words = ["piwo", "report", *columns.words(log, "report")]
    for name in policies.policy or ():
        words += ["--policy", without_secrets(name)]
    for name in policies.columns:
        words += ["--policy-column", name]
    if baseline is not None:
        words += ["--baseline", without_secrets(baseline)]
    for options in (shown, terms, estimate):
        words += _typed(options)
    words += ["--out", str(out)]
    made = describe(
        given.log,
        given.policies,
        certificates=certificates,
        at_least=terms.at_least,
        units=units,
        command=command_line(words),
        baseline_name=baseline,
        estimator=estimate.estimator,
        categories=given.categories,
        gamma=given.gamma,
        interval=estimate.interval,
        q=given.q,
        baseline=given.baseline,
        guardrail=terms.guardrail,
        by=terms.by,
        delta=estimate.delta,
        rate_cap=estimate.rate_cap,
        horizon=given.horizon,
    )
    write(made, out)
    found = {one.name: one for one in made.evaluations}
    return Answer(
        text=f"{made.decision}\nwrote {visible(out)}; open it in a browser",
        document={
            "log": log_facts(given.log, made.evaluations[0].rows),
            "out": str(out),
            "policies": records(found),
            **made.to_dict(),
        },
    )


def _typed(options: GainOptions | TermOptions | EstimateOptions) -> list[str]:
    """Return the options that differ from what they are if left out, as they are typed."""
    words: list[str] = []
    for one in fields(options):
        value = getattr(options, one.name)
        if value == one.default:
            continue
        several = value if isinstance(value, list) else [value]
        for each in several:
            words.append(f"--{one.name.replace('_', '-')}={each}")
    return words
