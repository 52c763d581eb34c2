"""Guardrails of a learned policy, on the rows that its certificate rests on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from piwo.certificates.certificate import Certificate
from piwo.certificates.certify import guardrail_results
from piwo.evaluation.guardrails import Guardrail, GuardrailResult
from piwo.logs.log import Log
from piwo.policies import Policy

__all__ = ["guardrails_of_learned"]


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
    split = certificate.split
    assert split is not None, "the certificate is not on held-out rows"
    if certificate.logger == "learning":
        log = replace(log, logger="learning")
    parts = log.split(split["holdout"], split["seed"], tail=split["tail"])
    test = parts.test
    if split.get("exchanged"):
        # Learned from the part that is usually held out, and certified on the other.
        test = replace(parts.train, declared_actions=log.actions)
    shares, earlier = None, certificate.candidates - 1
    if certificate.share is not None:
        shares, earlier = {0: certificate.share}, 0
    found = guardrail_results(
        guards,
        test,
        {0: policy},
        delta=certificate.delta,
        baseline=baseline,
        shares=shares,
        earlier=earlier,
        # The learner did not use these rows.
        provenance=False,
    )
    return found[0]
