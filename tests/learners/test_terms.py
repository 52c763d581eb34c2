"""What else is asked of a policy that Auto chooses: a least value and guardrails."""

from typing import Any

import numpy as np
import pytest

import piwo


def asked(**terms: Any) -> piwo.Auto:
    """Learned where b earns most and has complaints, and c earns less and has none.

    The pool has the two as policies of one action; a, which has no complaints, earns least.
    """
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, 3000)
    labels = ["a", "b", "c"]
    log = piwo.Log.from_arrays(
        action=np.array(labels)[action],
        reward=(rng.random(3000) < np.array([0.2, 0.8, 0.6])[action]) * 1.0,
        propensity=np.full(3000, 1 / 3),
        outcomes={"bad": (rng.random(3000) < np.array([0.0, 0.3, 0.0])[action]) * 1.0},
        actions=labels,
    )
    pool = []
    for label in "bc":
        one = piwo.oracles.Exhaustive([piwo.policies.Constant(label, labels)])
        pool.append(piwo.Candidate(label, one, piwo.IX(0.1)))
    return piwo.Auto(pool, refit=False, **terms).fit(log)


def test_a_candidate_beyond_a_guardrail_is_not_chosen_if_another_is_certified() -> None:
    assert asked().chosen_ == "b, IX gamma=0.1"
    learner = asked(guardrail="bad<=.1")
    made = learner.certificate_
    assert learner.chosen_ == "c, IX gamma=0.1"
    assert (made.refusals, made.delta, made.guardrails[0].answer) == ((), 0.025, "harmless")
    assert "but for those refused (b, IX gamma=0.1: bad <= 0.1: certified harm" in learner.rule_
    assert learner.path_["b, IX gamma=0.1"].certificate.guardrails[0].harmful
    # answers have the share of delta that their candidate has
    (twice,) = asked(guardrail="bad<=.1", exchange=False).certificate_.guardrails
    assert twice.upper < made.guardrails[0].upper


def test_a_candidate_below_the_least_value_is_not_chosen() -> None:
    assert asked(at_least=0.7).chosen_ == "b, IX gamma=0.1"
    both = asked(at_least=0.7, guardrail="bad<=.1")
    assert (both.chosen_, both.certificate_.improves) == ("logging", False)
    assert both.rule_.startswith("all that are certified better are refused (b, IX gamma=0.1: its")
    assert both.rule_.endswith("so the logging policy stays")
    # nothing unproved is returned in place of what was asked for
    none = asked(at_least=0.95)
    assert none.chosen_ == "logging"
    with pytest.raises(piwo.UsageError, match="at_least is 7, expected a value in the reward"):
        asked(at_least=7)
    with pytest.raises(piwo.UsageError, match="'worse', which is not an outcome of the log"):
        asked(guardrail="worse<=.1")
