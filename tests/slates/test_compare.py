"""Several policies and estimators together: the numbers of evaluate, at a share of delta."""

from __future__ import annotations

import pytest

from piwo import slates
from piwo.errors import UsageError
from tests.slates.simulator import TARGET_COLUMNS, SlateBandit


def test_the_numbers_are_those_of_evaluate() -> None:
    log = SlateBandit("cascade").log(300, 0)
    policies = {"new": TARGET_COLUMNS, "one": slates.Deterministic(["c", "b"])}
    found = slates.compare(log, policies, delta=0.08)
    assert [(one.name, one.estimator) for one in found.evaluations] == [
        (name, estimator)
        for name in policies
        for estimator in ("standard", "independent", "cascade", "adaptive")
    ]
    assert (found.delta, found.delta_each) == (0.08, 0.01)
    for one in found.evaluations:
        alone = slates.evaluate(
            log, policies[one.name], estimator=one.estimator, delta=0.01, name=one.name
        )
        assert one == alone
    why = found.left_out["new"]
    assert list(why) == ["pseudo-inverse"]
    assert why["pseudo-inverse"].startswith("estimator='pseudo-inverse' needs a logger that")
    assert "new: not by pseudo-inverse: estimator=" in str(found)
    assert "delta is shared by 8 intervals, 0.01 each" in found.notes[0]
    assert found.to_dict()["left_out"]["one"] == dict(found.left_out["one"])


def test_named_estimators_must_be_usable() -> None:
    log = SlateBandit("cascade").log(50, 0)
    found = slates.compare(log, {"new": TARGET_COLUMNS}, estimators=["cascade"], interval="normal")
    assert [one.estimator for one in found.evaluations] == ["cascade"]
    assert (found.left_out["new"], found.notes, found.delta_each) == ({}, (), 0.05)
    with pytest.raises(UsageError, match="needs a logger that draws slots independently"):
        slates.compare(log, {"new": TARGET_COLUMNS}, estimators=["pseudo-inverse"])
    with pytest.raises(UsageError, match="policies is empty"):
        slates.compare(log, {})
    with pytest.raises(UsageError, match="estimators is empty"):
        slates.compare(log, {"new": TARGET_COLUMNS}, estimators=[])
    with pytest.raises(UsageError, match="estimator is 'best', expected one of"):
        slates.compare(log, {"new": TARGET_COLUMNS}, estimators=["best"])
    whole = slates.FromColumns(slate="pi_above")
    alone = slates.read(
        SlateBandit("cascade").table(9, 0), slate="shown", rewards="rs", marginals="mu_alone"
    )
    with pytest.raises(UsageError, match="no estimator can be used: estimator='standard' needs"):
        slates.compare(alone, {"new": whole})
