"""What is given in a form with two meanings is refused in one line; nothing replaces anything
silently."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.errors import DataError, PiwoError, UsageError
from piwo.logs import Actions, Features, Log, read
from piwo.logs.split import HeldOut

N = 4
GIVEN: dict[str, Any] = {
    "action": ["a", "b"] * 2,
    "reward": [0.0, 1.0] * 2,
    "propensity": [0.5] * N,
}
MATRIX = np.ma.masked_equal(np.arange(8.0).reshape(N, 2), 5.0)
HALVES = np.ma.masked_array(np.full((N, 2), 0.5), mask=np.eye(N, 2, dtype=bool))


def log_of(**given: Any) -> Log:
    return Log.from_arrays(**{**GIVEN, **given})


def refusal(kind: type[PiwoError], call: Any) -> str:
    with pytest.raises(PiwoError) as refused:
        call()
    assert type(refused.value) is kind
    assert "\n" not in str(refused.value)
    return str(refused.value)


def read_all(log: Log) -> None:
    list(log.each_batch(context=True, propensities=True))


@pytest.mark.usefixtures("wrong_types")
@pytest.mark.parametrize(
    "given",
    [
        {"policies": {"reward": [0.1] * N}},
        {"policies": {"weight": [0.1] * N}},
        {"policies": {"x0": [0.1] * N}, "context": np.ones((N, 1))},
        {"policies": {1: [0.1] * N, "1": [0.2] * N}},
        {"policies": [0.1] * N},
        {"actions": {"a", "b"}},
        {"actions": 3},
        {"action": {"a", "b", "c", "d"}},
        {"reward": dict.fromkeys("abcd", 1.0)},
        {"reward_range": ("0", "1")},
        {"reward_range": (-1.7e308, 1.7e308)},
        {"reward_range": (0, 10**400)},
    ],
)
def test_arrays_that_cannot_be_meant(given: dict[str, Any]) -> None:
    refusal(UsageError, lambda: log_of(**given))


@pytest.mark.parametrize(
    "values",
    [
        [["1", "2"]] * N,
        [[1, "2"]] * N,
        np.array([[b"1", b"2"]] * N),
        np.array([[1, "2"]] * N, object),
        np.full((N, 2), np.datetime64("NaT", "D")),
        np.full((N, 2), np.timedelta64(1, "s")),
        np.full((N, 2), 0.5 + 1j),
    ],
)
def test_what_is_no_number_is_not_read_as_one(values: Any) -> None:
    """NumPy would: text by its digits, times by their count of days, complex numbers by half of
    them."""
    assert "text, times" in refusal(DataError, lambda: log_of(context=values))
    both = {"propensity": None, "actions": ["a", "b"]}
    assert "text, times" in refusal(DataError, lambda: log_of(propensities=values, **both))
    log = log_of(context=np.ones((N, 2)))
    assert "text, times" in refusal(DataError, lambda: log.features.encode(values))
    refusal(DataError, lambda: piwo.evaluate(log_of(actions=["a", "b"]), values))


def test_normalize_needs_vectors() -> None:
    assert "leave normalize out" in refusal(UsageError, lambda: log_of(normalize=True))


def test_a_target_policy_is_no_role() -> None:
    given = {"action": ["a"], "reward": [1.0], "propensity": [0.5]}
    assert "has another role too" in refusal(
        UsageError, lambda: read(given, policy_columns="reward")
    )
    assert read(given, policy_columns="propensity").columns.policies == ("propensity",)


@pytest.mark.parametrize("most", [10**30, -1, 2.5, True])
def test_levels_are_counted_to_a_number_that_can_be(most: Any) -> None:
    assert "max_levels is" in refusal(UsageError, lambda: log_of(max_levels=most))


@pytest.mark.parametrize(
    "given",
    [
        {"context": MATRIX},
        {"propensity": None, "propensities": HALVES, "actions": ["a", "b"]},
        {"policies": {"new": np.ma.masked_equal([0.1, 0.2, 0.3, 0.4], 0.2)}},
        {"propensity": np.ma.masked_equal([0.1, 0.2, 0.3, 0.4], 0.2)},
        {"context": [[1.0], [1.0, 2.0], [1.0], [1.0]]},
        {"context": np.array([["x"], [1], [2], [3]], object)},
        {"propensity": None, "propensities": [[1.0], [0.5, 0.5]], "actions": ["a", "b"]},
        {"context": pa.table([pa.array([1.0] * N)] * 2, names=["u", "u"])},
        {"propensity": None, "log_propensity": [-1e308, -1.0, -1.0, -1.0]},
    ],
)
def test_arrays_that_hold_what_is_no_number(given: dict[str, Any]) -> None:
    refusal(DataError, lambda: read_all(log_of(**given)))


@pytest.mark.parametrize(
    "roles", [{"action": 3}, {"context": 3}, {"actions": 3}, {"context": {"a", "b"}}, {"reward": 1}]
)
def test_names_that_are_none(roles: dict[str, Any]) -> None:
    refusal(UsageError, lambda: read(pa.table(GIVEN), **roles))


def test_a_query_is_text() -> None:
    refusal(UsageError, lambda: Log.from_sql(None))  # type: ignore[arg-type]


def test_a_mapping_with_names_equal_as_text() -> None:
    refusal(UsageError, lambda: read({**GIVEN, 1: [1] * N, "1": [2] * N}))


def test_text_in_a_number_column_is_one_finding() -> None:
    message = refusal(DataError, lambda: read_all(log_of(propensity=["0.5", "x", "0.5", "0.5"])))
    assert "holds text" in message
    assert "cannot happen" not in message


def test_a_cost_is_not_told_to_be_one() -> None:
    table = pa.table({"action": ["a"], "cost": [2.0], "propensity": [0.5]})
    assert "cost=" not in refusal(DataError, lambda: read_all(read(table, cost="cost")))


def test_whole_numbers_beyond_float64_are_rounded() -> None:
    matrix = Features.numeric(["id"]).encode(pa.table({"id": pa.array([2**53 + 1], pa.int64())}))
    assert matrix[0, 0] == 2.0**53


def test_a_dictionary_that_holds_a_value_twice() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 1]), pa.array(["a", "b", "b"]))
    log = read(pa.table({**GIVEN, "action": column}))
    assert log.actions == Actions(["a", "b"])
    assert [x.action.tolist() for x in log.each_batch()] == [[0, 1, 1, 1]]
    part = log.where(HeldOut(0.5, seed=1, test=False))
    assert set(part.actions) <= {"a", "b"}


def test_a_log_is_shown_in_three_lines_without_reading_it() -> None:
    log = log_of(policies={"new": [0.1] * N})
    first, second, _ = repr(log).splitlines()
    assert first == f"Log of 'the arrays': {N} rows, actions not counted yet"
    assert second.startswith("  columns: action='action', reward='reward'")
    assert len(log.actions) > 0
    assert f"{len(log.actions)} actions" in repr(log)
    cost = read(pa.table({"action": ["a"], "c": [0.0], "propensity": [0.5]}), cost="c")
    assert "cost='c'" in repr(cost)
    assert "reward='" not in repr(cost)


def test_a_behavior_object_cannot_write_into_the_context() -> None:
    class Writes:
        def probabilities(self, X: Any) -> Any:
            X[:] = 0.0
            return np.full((len(X), 2), 0.5)

    log = log_of(propensity=None, context=np.ones((N, 2)), behavior=Writes())
    with pytest.raises(ValueError, match="read-only"):
        read_all(log)


class SumsTo06:
    actions = ("a", "b")

    def probabilities(self, context):
        return np.full((len(context), 2), 0.3)


def test_a_declared_logger_that_does_not_sum_to_1_is_what_to_mend():
    log = piwo.Log.from_arrays(
        action=["a", "b"], reward=[1, 0], context=[[0.0], [1.0]], behavior=SumsTo06()
    )
    with pytest.raises(DataError, match=r"sum of 0\.6; give a policy whose probabilities sum to 1"):
        piwo.evaluate(log, piwo.policies.Uniform(["a", "b"]))


def test_a_logger_that_states_no_propensities_is_refused_at_once() -> None:
    rows = {"action": ["a", "b"], "reward": [0.0, 1.0]}
    for call in (
        lambda: read(rows, behavior=lambda X: X),
        lambda: Log.from_arrays(**rows, behavior=lambda X: X),
    ):
        said = refusal(UsageError, call)
        assert said.startswith("behavior is function, expected an object with probabilities(X)")


def test_rows_without_propensities_are_told_how_to_get_them() -> None:
    rows = {"action": ["a", "b"], "reward": [0.0, 1.0]}
    feedback = {"n_rounds": 2, "n_actions": 2, "action": [0, 1], "reward": [0, 1], "position": None}
    for kind, call in (
        (DataError, lambda: read(rows)),
        (UsageError, lambda: piwo.from_obp(feedback)),
    ):
        assert "fit them (piwo.estimate_propensities), or give the rule" in refusal(kind, call)


def test_the_direct_method_says_that_it_needs_a_model() -> None:
    said = refusal(UsageError, lambda: piwo.estimators.direct_method(log_of(), [[0.5, 0.5]] * N))
    assert said.startswith("got no reward model; give q")
