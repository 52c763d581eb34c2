"""The strongest assumption that is not contradicted, and a value on other rows."""

from __future__ import annotations

import pytest

from piwo import slates
from tests.slates.simulator import TARGET_COLUMNS, SlateBandit


@pytest.mark.parametrize(("behavior", "most"), [("independent", "independent"), ("standard", "no")])
def test_what_is_contradicted_is_not_chosen(behavior: str, most: str) -> None:
    bandit = SlateBandit(behavior)
    log = bandit.log(12_000, 0)
    found = slates.choose(log, TARGET_COLUMNS, random_state=1)
    assert [one.estimator for one in found.tried] == ["standard", "cascade", "independent"]
    one = found.evaluation
    assert (one.estimator == most) == (behavior == "independent")
    assert one.lower is not None
    assert one.upper is not None
    assert one.lower <= bandit.value <= one.upper
    assert one.notes[-1].kind == "chosen"
    # the value is of the other rows alone
    parts = log.split(0.5, 1)
    alone = slates.evaluate(parts.test, TARGET_COLUMNS, estimator=one.estimator)
    assert (one.value, one.lower, one.rows) == (alone.value, alone.lower, parts.test_rows)
    assert found.tried[0].rows == parts.train_rows
    assert str(found) == str(one)
