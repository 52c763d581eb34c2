"""What holds for a learned policy besides its certificate: guardrails, and results by segment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import certificates_of, guardrail_results
from piwo.certificates.request import CertificateRequest
from piwo.checks import check_kind
from piwo.errors import UsageError
from piwo.evaluation.guardrails import Guardrail, GuardrailResult
from piwo.evaluation.segment import Segment
from piwo.logs.log import Log
from piwo.messages import argument
from piwo.policies import Policy

__all__ = ["guardrails_of_learned", "segments_of_learned"]


def guardrails_of_learned(
    guards: Sequence[Guardrail],
    log: Log,
    policy: Policy,
    certificate: Certificate,
    baseline: Any = None,
) -> tuple[GuardrailResult, ...]:
    """Return the results of guardrails for a policy that a learner has chosen and certified.

    The policy was chosen among candidates by their certificates, so each answer has the penalty of
    its certificate: its share of delta, or a union over the candidates.

    Args:
        guards: the limits.
        log: all rows, in the same order at every pass.
        policy: the certified one.
        certificate: of the policy, held-out; its delta is that of each guardrail, too.
        baseline: the policy to improve on; None: the logging policy.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 200,
    ...     reward=[1, 0] * 200,
    ...     propensity=[0.5] * 400,
    ...     outcomes={"complaints": [0, 0] * 200},
    ... )
    >>> both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    >>> learner = piwo.PIWO(oracle=piwo.oracles.Exhaustive(both)).fit(log)
    >>> guard = Guardrail.of("complaints<=.2")
    >>> found = guardrails_of_learned([guard], log, learner.policy_, learner.certificate_)
    >>> [one.answer for one in found]
    ['harmless']
    """
    _require_held_out(certificate, "a guardrail")
    shares, earlier = _paid(certificate)
    found = guardrail_results(
        guards,
        _certified_on(log, certificate),
        {0: policy},
        delta=certificate.delta,
        baseline=baseline,
        shares=shares,
        earlier=earlier,
        # The learner did not use these rows.
        provenance=False,
    )
    return found[0]


def _require_held_out(certificate: Certificate, what: str) -> None:
    """Raise for a policy that was chosen by the rows of its certificate: a posterior, or a class.

    Args:
        certificate: of the policy.
        what: is asked of it, in words.
    """
    if certificate.kind != "held-out" or certificate.split is None:
        raise UsageError(
            f"{what} takes a policy that is certified on held-out rows, and this one is not; learn "
            "with a held-out certificate"
        )


def segments_of_learned(
    by: str,
    log: Log,
    policy: Policy,
    certificate: Certificate,
    baseline: Any = None,
) -> tuple[Segment, ...]:
    """Return what a learned policy is worth by segment, on the rows that it was certified on.

    Each segment pays, like the certificate, for the candidates that the policy was chosen among.

    Args:
        by: the column.
        log: all rows, in the same order at every pass.
        policy: the certified one.
        certificate: of the policy, held-out; its delta is that of all segments together.
        baseline: the policy to improve on; None: the logging policy.

    Raises:
        DataError: for a column that does not exist.
        UsageError: for other rows than those of the certificate, for a certificate that is not
            held-out, and as `piwo.evaluate` with `by`.

    >>> import piwo
    >>> log = piwo.Log.from_arrays(
    ...     action=["a", "b"] * 200,
    ...     reward=[1, 0] * 200,
    ...     propensity=[0.5] * 400,
    ...     segments={"country": ["DE"] * 200 + ["FR"] * 200},
    ... )
    >>> both = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    >>> learner = piwo.PIWO(oracle=piwo.oracles.Exhaustive(both)).fit(log)
    >>> found = segments_of_learned("country", log, learner.policy_, learner.certificate_)
    >>> sorted(one.label for one in found)
    ['DE', 'FR']
    """
    check_kind("log", log, Log, "; piwo.read makes one")
    check_kind("certificate", certificate, Certificate)
    _require_held_out(certificate, f"{argument('by')}={by!r}")
    shares, earlier = _paid(certificate)
    request = CertificateRequest.of(
        _certified_on(log, certificate),
        {0: policy},
        delta=certificate.delta,
        baseline=baseline,
        shares=shares,
        earlier=earlier,
        provenance=False,
    )
    made = certificates_of(request, by)[0]
    if made.log_digest != certificate.log_digest:
        raise UsageError(
            "these are not the rows that the policy was certified on; give the log that it was "
            "learned from, whose rows come in the same order every time"
        )
    return made.segments


def _certified_on(log: Log, certificate: Certificate) -> Log:
    """Return the rows that a certificate rests on."""
    split = certificate.split
    assert split is not None, "the certificate is not on held-out rows"
    if certificate.logger == "learning":
        log = replace(log, logger="learning")
    parts = log.split(split["holdout"], split["seed"], tail=split["tail"])
    if split.get("exchanged"):
        # Learned from the part that is usually held out, and certified on the other.
        return replace(parts.train, declared_actions=log.actions)
    return parts.test


def _paid(certificate: Certificate) -> tuple[Mapping[Any, float] | None, int]:
    """Return what a certificate paid: its share of delta, or the number of other candidates."""
    if certificate.share is not None:
        return {0: certificate.share}, 0
    return None, certificate.candidates - 1
