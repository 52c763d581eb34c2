"""The content of a report as plain data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from piwo._version import __version__
from piwo.certificates.certificate import Certificate
from piwo.errors import UsageError
from piwo.evaluation import Evaluation
from piwo.evaluation.record import notes_together
from piwo.health import Health
from piwo.logs.log import Log
from piwo.messages import argument

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True)
class Summary:
    """The content of a report.

    >>> Summary("log.csv", (("action", "item"),), (), None).certificates
    {}
    """

    source: str
    """The name of the log."""
    columns: tuple[tuple[str, str], ...]
    """(role, name) of its columns."""
    evaluations: tuple[Evaluation, ...]
    health: Health | None
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    """Policy name -> the certificate that was saved with it."""
    version: str = __version__
    made: str = ""
    """The time of the report, in UTC."""
    assumes: str | None = None
    """What all results assume about the propensities, if they are not taken as logged."""
    at_least: float | None = None
    """The least value that was asked for; None: none was."""

    @property
    def notes(self) -> Sequence[str]:
        """The notes of the values; those shared by all policies appear once."""
        if not self.evaluations:
            return []
        return notes_together(self.evaluations)


def summarize(
    log: Log,
    evaluations: Sequence[Evaluation],
    health: Health | None = None,
    certificates: Mapping[str, Certificate] | None = None,
    at_least: float | None = None,
) -> Summary:
    """Return the content of a report on these results.

    Args:
        log: the log of these results.
        evaluations: results of `piwo.evaluate` or `piwo.compare`.
        health: the result of `piwo.check`.
        certificates: policy name -> certificate.
        at_least: the least value that policies are asked for; the page says whether each is
            certified to have it.

    Returns:
        A `Summary`, for `piwo.report.page` and `piwo.report.write`.

    Raises:
        UsageError: if there are no evaluations.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]).columns
    (('action', 'action'), ('reward', 'reward'), ('propensity', 'propensity'))
    """
    if not evaluations:
        raise UsageError(f"{argument('evaluations')} is empty; pass at least one")
    columns = log.columns
    roles = {
        "action": columns.action,
        **columns.numbers(),
        "propensity vector": columns.propensities,
    }
    named = [(role, name) for role, name in roles.items() if name is not None]
    named += [("context", name) for name in columns.context]
    named += [("policy", name) for name in columns.policies]
    return Summary(
        source=log.source.name,
        columns=tuple(named),
        evaluations=tuple(evaluations),
        health=health,
        certificates=dict(certificates or {}),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        assumes=log.assumption,
        at_least=at_least,
    )
