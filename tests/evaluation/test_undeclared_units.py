"""Results on logs with a column of users that is not declared: what they assume is in a note."""

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.policies import Uniform

KIND = "undeclared-units"


def rows(**columns: object) -> pd.DataFrame:
    """200 users of 5 rows."""
    random = np.random.default_rng(0)
    action = random.integers(0, 2, 1000)
    made = {
        "action": np.array(["a", "b"])[action],
        "reward": random.integers(0, 2, 1000) * 1.0,
        "propensity": 0.5,
        "user_id": np.arange(1000) % 200,
        "user_age": random.integers(20, 70, 1000),
    }
    return pd.DataFrame({**made, **columns})


def noted(result: object) -> list[str]:
    return [str(note) for note in result.notes if getattr(note, "kind", "") == KIND]


@pytest.mark.parametrize("context", [(), "user_*", "user_id"])
def test_every_result_names_the_column(context: str) -> None:
    log = piwo.read(rows(), context=context)
    policy = Uniform(log.actions)
    expected = (
        "assumes independent rows, but column 'user_id' looks like the id of a user or session; if "
        "one has several rows, bounds that take rows for independent are invalid: read the log "
        "with unit='user_id'"
    )
    for result in (
        piwo.evaluate(log, policy),
        piwo.compare(log, {"u": policy})["u"],
        piwo.certify(log, {"u": policy})["u"],
        piwo.regret_certificate(log, policy, {"u": policy}),
        piwo.evaluate(log, policy, interval="bootstrap"),
    ):
        assert noted(result) == [expected]
    if context:
        assert noted(piwo.PIWO().fit(log).certificate_) == [expected]


def test_a_declared_unit_is_not_noted() -> None:
    log = piwo.read(rows(), unit="user_id")
    assert noted(piwo.evaluate(log, Uniform(log.actions))) == []


def test_kinds_of_things_and_columns_with_a_role_are_not_noted() -> None:
    table = rows(device=["mobile", "desktop"] * 500, event_id=np.arange(1000), session="s")
    log = piwo.read(table.drop(columns="user_id"), context="device", key="event_id")
    assert noted(piwo.evaluate(log, Uniform(log.actions))) == []
    # The id of a session is one.
    log = piwo.read(table.drop(columns="user_id").rename(columns={"session": "session_id"}))
    assert len(noted(piwo.evaluate(log, Uniform(log.actions)))) == 1
    # Ids with missing values are numbers with a decimal point in data frames.
    log = piwo.read(rows(user_id=np.where(np.arange(1000) % 7 == 0, np.nan, 3.0)))
    assert len(noted(piwo.evaluate(log, Uniform(log.actions)))) == 1


def test_a_hostile_name_is_escaped() -> None:
    table = rows().rename(columns={"user_id": "\x1b[31m\n user_id"})
    (note,) = noted(piwo.evaluate(piwo.read(table), Uniform(["a", "b"])))
    assert "\x1b" not in note
    assert "\n" not in note


def test_globs_leave_out_the_unit_the_key_and_the_time() -> None:
    table = rows(user_time=np.arange(1000), user_event=np.arange(1000))
    log = piwo.read(
        table, context="user_*", unit="user_id", time="user_time", key="user_event", logger="fixed"
    )
    assert log.columns.context == ("user_age",)
    # A feature that is named stays one.
    log = piwo.read(table, context=["user_*", "user_id"], unit="user_id")
    assert "user_id" in log.columns.context
