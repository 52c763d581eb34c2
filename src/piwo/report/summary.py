"""What a report says, as plain data: no page and no picture is made here."""

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

__all__ = ["Summary", "summarize"]


@dataclass(frozen=True)
class Summary:
    """The content of a report.

    >>> Summary("log.csv", (("action", "item"),), (), None).certificates
    {}
    """

    source: str
    """What the log is called."""
    columns: tuple[tuple[str, str], ...]
    """(role, name) of its columns."""
    evaluations: tuple[Evaluation, ...]
    health: Health | None
    certificates: Mapping[str, Certificate] = field(default_factory=dict)
    """Policy name -> the certificate that was saved with it."""
    version: str = __version__
    made: str = ""
    """When, in universal time."""
    assumes: str | None = None
    """What all of it takes for granted of the propensities, beyond that they are as logged."""

    @property
    def notes(self) -> list[str]:
        """What a reader must know of the values, what is true of every policy once."""
        return notes_together(self.evaluations) if self.evaluations else []


def summarize(
    log: Log,
    evaluations: Sequence[Evaluation],
    health: Health | None = None,
    certificates: Mapping[str, Certificate] | None = None,
) -> Summary:
    """Return what a report on these results says.

    Args:
        log: the log that they come from.
        evaluations: what `piwo.evaluate` or `piwo.compare` returned.
        health: what `piwo.check` returned.
        certificates: policy name -> certificate.

    Returns:
        A `Summary`, for `piwo.report.page` and `piwo.report.write`.

    Raises:
        UsageError: if there is nothing to report.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    >>> summarize(log, [piwo.evaluate(log, piwo.policies.Uniform(log.actions))]).columns
    (('action', 'action'), ('reward', 'reward'), ('propensity', 'propensity'))
    """
    if not evaluations:
        raise UsageError("no evaluations to report; give at least one")
    columns = log.columns
    roles = {
        "action": columns.action,
        **columns.numbers(),
        "propensity vector": columns.propensities,
    }
    named = [(role, name) for role, name in roles.items() if name is not None]
    named += [("context", name) for name in columns.context] + [
        ("policy", name) for name in columns.policies
    ]
    return Summary(
        source=log.source.name,
        columns=tuple(named),
        evaluations=tuple(evaluations),
        health=health,
        certificates=dict(certificates or {}),
        made=datetime.now(UTC).isoformat(timespec="seconds"),
        assumes=log.assumption,
    )
