"""What the rows are: declared or checked, statements are false in at most delta of the logs."""

import math

import pytest

from benchmarks.statistics import rows as part

pytestmark = pytest.mark.statistics

DELTA, LOGS = 0.05, 26
REFUSED = {
    ("where reward > 0", "interval"),
    ("where propensity >= .05", "interval"),
    ("where reward is not null", "interval"),
    ("every row twice", "certificate of a tree"),
    ("clicks three times", "interval, key='id'"),
    ("in-sample, the same rows", "improvement"),
    ("in-sample, float32", "improvement"),
    ("in-sample, 4 digits", "improvement"),
}
HONEST = {
    ("the logger learned", "certificate, no logger="),
    ("the logger learned", "certificate, logger='learning'"),
    ("the logger learned", "gate, no logger="),
    ("the logger learned", "gate, logger='learning'"),
    ("100 users of 50 rows", "interval, unit='user'"),
    ("60 users of 100 rows", "improvement, unit='user'"),
    ("bred candidates", "improvement, series=True"),
}
UNDECLARED = {
    ("100 users of 50 rows", "interval, no unit="),
    ("60 users of 100 rows", "improvement, no unit="),
}
"""Nothing can be known of these rows: as false as reported."""


def test_statements_are_refused_or_false_at_most_as_often_as_delta(monkeypatch):
    monkeypatch.setattr(part, "USERS", 200)
    monkeypatch.setattr(part, "ROUNDS", 40)
    now = {(row["case"], row["statement"]): row["now"] for row in part.rows(LOGS)}
    assert {key for key, text in now.items() if text == "refused"} == REFUSED
    for key in HONEST | UNDECLARED:
        false, logs = map(int, now[key].split("/"))
        allowed = DELTA * logs + 3 * math.sqrt(DELTA * (1 - DELTA) * logs)
        assert (false > 0.2 * logs) if key in UNDECLARED else (false <= allowed), key
    others = now.keys() - REFUSED - HONEST - UNDECLARED
    assert others == {
        ("the logger learned", "certificate, logger='fixed'"),
        ("the logger learned", "gate, logger='fixed'"),
        ("bred candidates", "improvement, series=False"),
    }
