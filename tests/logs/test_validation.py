"""The door: each broken rule, in each role, is one line that names column, rule, count and first
rows."""

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.errors import DataError, PiwoError, PiwoWarning, UsageError
from piwo.logs import Actions, Batch, Features, Log, read
from piwo.logs.findings import Refused
from piwo.logs.first_pass import with_unread
from piwo.oracles import Ridge
from piwo.reductions import Digest, reduce
from piwo.scores import IX
from piwo.sources import source as sources_module

GOOD: dict[str, list[Any]] = {
    "action": ["a", "b", "a"],
    "reward": [0.0, 1.0, 0.5],
    "propensity": [0.5, 0.25, 1.0],
}


def log_of(**changes: Any) -> Log:
    options = {
        x: changes.pop(x)
        for x in list(changes)
        if x in ("reward_range", "actions", "normalize", "behavior")
    }
    return Log.from_arrays(**(GOOD | changes), **options)


def only(log: Log, **parts: bool) -> Batch:
    (batch,) = log.each_batch(**parts)
    return batch


def refusal(log: Log, **parts: bool) -> str:
    with pytest.raises(DataError) as refused:
        list(log.each_batch(**parts))
    assert "\n" not in str(refused.value)
    return str(refused.value)


BAD_PROPENSITIES = {
    "is 0, which cannot happen": [0.0, -0.0],
    "is negative": [-0.1, -1e-300],
    "is NaN": [np.nan],
    "is infinite": [np.inf, -np.inf],
    "is above 1 by more than 0.0001": [1.01, 2.0],
    "is missing": [None],
}


@pytest.mark.parametrize(
    ("rule", "value"), [(rule, x) for rule, values in BAD_PROPENSITIES.items() for x in values]
)
def test_a_bad_propensity_is_named(rule: str, value: float | None) -> None:
    column = [0.5, value, 1.0]
    message = refusal(log_of(propensity=column if value is None else np.array(column)))
    assert f"column 'propensity' {rule}" in message
    assert "in 1 row (row numbers from 0: 1)" in message


@pytest.mark.parametrize("value", [5e-324, 1e-310, 1.0, 1.00000978])
def test_an_extreme_propensity_is_a_propensity(value: float) -> None:
    if value > 1:
        with pytest.warns(PiwoWarning, match=r"above 1 by no more than 0.0001 in 1 row"):
            assert only(log_of(propensity=np.array([0.5, value, 1.0]))).propensity[1] == 1.0
    else:
        assert only(log_of(propensity=np.array([0.5, value, 1.0]))).propensity[1] == value


@pytest.mark.parametrize(
    "role", ["action", "reward", "propensity", "log_propensity", "weight", "pi", "x0"]
)
def test_a_null_in_any_role_is_named(role: str) -> None:
    log_half = float(np.log(0.5))
    log = read(
        pa.table(
            {
                "action": pa.array(["a", "b", None if role == "action" else "a"]),
                "reward": pa.array([0.0, 1.0, None if role == "reward" else 1.0]),
                "propensity": pa.array([0.5, 0.5, None if role == "propensity" else 0.5]),
                "log_propensity": pa.array(
                    [log_half, log_half, None if role == "log_propensity" else log_half]
                ),
                "weight": pa.array([1.0, 1.0, None if role == "weight" else 1.0]),
                "pi": pa.array([1.0, 1.0, None if role == "pi" else 1.0]),
                "x0": pa.array([1.0, 1.0, None if role == "x0" else 1.0]),
            }
        ),
        propensity="propensity",
        log_propensity="log_propensity",
        weight="weight",
        policy_columns="pi",
        context="x0",
    )
    message = refusal(log, context=True)
    assert f"column {role!r}" in message
    assert "missing" in message
    assert "row numbers from 0: 2" in message


def test_counts_and_row_numbers_are_those_of_the_whole_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 10)
    propensity = np.full(100, 0.5)
    propensity[[7, 33, 64, 65, 66, 67, 99]] = 0.0
    table = pa.table({"action": ["a"] * 100, "reward": [0.0] * 100, "propensity": propensity})
    for half in range(2):
        pq.write_table(table.slice(50 * half, 50), tmp_path / f"{half}.parquet", row_group_size=15)
    for source in (table, str(tmp_path / "*.parquet")):
        with pytest.raises(DataError) as refused:
            reduce(read(source), Digest())
        assert "in 7 rows (row numbers from 0: 7, 33, 64, 65, 66, ...)" in str(refused.value)


def test_a_reward_just_beyond_the_range_is_shown_with_all_its_digits() -> None:
    message = refusal(log_of(reward=[0.0, 1.0 + 1e-12, 1.0], propensity=[0.5, 0.5, 0.5]))
    assert "such as 1.000000000001;" in message


def test_every_broken_rule_is_named_at_once() -> None:
    message = refusal(log_of(reward=[0.0, 7.0, -1.0], propensity=[0.0, 0.5, 2.0]))
    for words in (
        "'reward' has a reward outside the declared range [0, 1] in 2 rows",
        "such as 7",
        "'propensity' is 0",
        "above 1",
    ):
        assert words in message


def test_a_refusal_crosses_processes_whole() -> None:
    log = log_of(propensity=[0.0, 0.5, 0.5])
    with pytest.raises(Refused) as refused:
        list(log.reader().read(log.fragments()[0]))
    copy = pickle.loads(pickle.dumps(refused.value))
    assert str(copy) == str(refused.value)
    assert copy.findings == refused.value.findings
    with pytest.raises(DataError) as seen:
        list(log.each_batch())
    assert type(seen.value) is DataError
    assert str(seen.value) == str(refused.value)


@pytest.mark.parametrize("values", [[1.75, 1.0, 2.0], [1.0, 1.0, 2.0]])
def test_floating_point_actions_are_refused(values: list[float]) -> None:
    with pytest.raises(DataError, match="floating-point"):
        log_of(action=values).actions  # noqa: B018


BIG = [2**63 + 5, 2**64 - 1, 2**63 + 5]


@pytest.mark.parametrize(
    "values",
    [
        np.array([1, 2, 1], kind)
        for kind in ("int8", "uint8", "int16", "int32", "uint32", "int64", "uint64")
    ]
    + [
        np.array(BIG, np.uint64),
        BIG,
        np.array([-5, 3, -5]),
        [-(2**63), 2**63 - 1, 0],
        np.array(["01", "1", "01"]),
        np.array(["x", "y", "x"], object),
        [True, False, True],
        np.array([True, False, True]),
    ],
    ids=repr,
)
def test_actions_of_every_whole_number_and_text_type_keep_their_labels(values: Any) -> None:
    log = log_of(action=values)
    codes = only(log).action
    kept = [str(x).lower() if isinstance(x, (bool, np.bool_)) else str(x) for x in values]
    assert [str(log.actions.labels[c]) for c in codes] == kept
    declared = log_of(action=values, actions=list(reversed(log.actions.labels)))
    assert [str(declared.actions.labels[c]) for c in only(declared).action] == kept


@pytest.mark.parametrize(
    "values", [[2**70, 1, 1], [1, "a", 2], [b"a", 1, None], [[1], [2], [3]], [1.5, "a", 1]]
)
def test_actions_that_are_no_labels_are_refused(values: Any) -> None:
    with pytest.raises(DataError):
        list(log_of(action=values).each_batch())


def test_unknown_labels_are_counted_with_an_example() -> None:
    message = refusal(log_of(action=["a", "z", "y"], actions=["a", "b"]))
    assert (
        "labels that are not among the 2 actions ('a', 'b') in 2 rows (row numbers from 0: 1, 2)"
        in message
    )
    assert "'z'" in message


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["0", " 1 ", "+0.5e0"]),
        pa.array([False, True, True]),
        pa.array([0, 1, 1], pa.int8()),
        pa.array([0, 1, 1], pa.uint64()),
        pa.array([0, 1, 0.5], pa.float32()),
        pa.array([0, 1, 0.5]).cast(pa.decimal128(5, 2)),
        pa.array(["0", "1", "1"]).dictionary_encode(),
        pa.array([0.0, 1.0, 0.5]).dictionary_encode(),
    ],
    ids=lambda x: str(x.type),
)
def test_rewards_of_many_types_are_numbers(column: pa.Array) -> None:
    batch = only(read(pa.table({**GOOD, "reward": column})))
    assert batch.reward.dtype == np.float64
    assert batch.reward[:2].tolist() == [0.0, 1.0]


@pytest.mark.parametrize(
    ("column", "words"),
    [
        (
            pa.array(["0", "one", "x"]),
            (
                "holds text where numbers are expected in 2 rows (row numbers from 0: 1, 2); "
                "such as 'one'"
            ),
        ),
        (pa.array(["0", "nan", "1"]), "is NaN in 1 row (row numbers from 0: 1)"),
        (pa.array(["0", "NaN", "x"]), "such as 'x'"),
        (pa.array(["0", "-Infinity", "1"]), "is infinite in 1 row (row numbers from 0: 1)"),
        (pa.array(["0", "1_0", "1"]), "such as '1_0'"),
        (pa.array(["0", "", "1"]), "such as ''"),
        (pa.array([None, None, None]), "is missing in 3 rows"),
        (pa.array([1, 2, 3], pa.timestamp("s")), "has type timestamp[s], expected numbers"),
        (pa.array([[1], [2], [3]]), "expected numbers"),
    ],
)
def test_rewards_that_are_no_numbers(column: pa.Array, words: str) -> None:
    assert words in refusal(read(pa.table({**GOOD, "reward": column})))


@pytest.mark.parametrize("given", [(1, 0), (0, 0), (-np.inf, 1), (np.nan, 1), (0, np.nan)])
def test_a_wrong_reward_range_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"expected \(lo, hi\) with finite lo < hi"):
        log_of(reward_range=given)


@pytest.mark.parametrize("given", ["01x", (0, 1, 2), 5, None, ("a", "b")])
def test_a_reward_range_of_another_type_is_refused(given: Any) -> None:
    with pytest.raises(UsageError, match=r"expected \(lo, hi\) with finite lo < hi"):
        log_of(reward_range=given)


def test_rewards_are_mapped_to_the_unit_scale() -> None:
    assert only(log_of(reward=[-1.0, 3.0, 1.0], reward_range=(-1, 3))).reward.tolist() == [
        0.0,
        1.0,
        0.5,
    ]
    log = log_of(reward=[-1.0, 3.0, 1.0], reward_range=(-1, np.inf))
    assert only(log).reward.tolist() == [0.0, 4.0, 2.0]
    assert log.value(2.0) == 1.0


# --- propensities


def test_log_propensities_may_underflow() -> None:
    batch = only(log_of(propensity=None, log_propensity=[-1000.0, -0.5, 0.0]))
    assert batch.propensity.tolist() == [0.0, np.exp(-0.5), 1.0]
    assert batch.log_propensity is not None
    assert batch.log_propensity[0] == -1000.0
    both = only(
        log_of(
            propensity=[0.0, float(np.exp(np.float32(-0.5))), 1.0],
            log_propensity=[-1000.0, -0.5, 0.0],
        )
    )
    assert both.propensity[0] == 0.0


@pytest.mark.parametrize(
    ("propensity", "log_propensity"),
    [
        (0.5, np.log(0.25)),
        (0.5, -1000.0),
        (0.0, np.log(0.5)),
        (1e-10, np.log(2e-10)),
        (1e-300, np.log(0.5)),
    ],
)
def test_a_propensity_and_a_logarithm_that_disagree_are_refused(
    propensity: float, log_propensity: float
) -> None:
    message = refusal(
        log_of(propensity=[0.5, propensity, 1.0], log_propensity=[np.log(0.5), log_propensity, 0.0])
    )
    assert (
        "column 'propensity' disagrees with the log-propensity in column 'log_propensity' in 1 row"
        in message
    )


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (0.1, "above 0 by more"),
        (np.inf, "is infinite"),
        (-np.inf, "is infinite"),
        (np.nan, "is NaN"),
    ],
)
def test_a_bad_log_propensity_is_named(value: float, words: str) -> None:
    assert words in refusal(log_of(propensity=None, log_propensity=np.array([-1.0, value, 0.0])))


VECTOR = [[0.5, 0.5], [0.75, 0.25], [1.0, 0.0]]


def vectors(kind: str, rows: list[Any]) -> pa.Array:
    kinds = {
        "list": pa.list_(pa.float64()),
        "large": pa.large_list(pa.float32()),
        "fixed": pa.list_(pa.float64(), 2),
    }
    return pa.array(rows, kinds[kind])


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
def test_propensity_vectors(kind: str) -> None:
    table = pa.table(
        {"action": GOOD["action"], "reward": GOOD["reward"], "mu": vectors(kind, VECTOR)}
    )
    # a slice: what is read must start at the slice, not at the buffer
    batch = only(read(table.slice(1), propensities="mu", actions=["a", "b"]))
    assert batch.propensities is not None
    assert batch.propensities.tolist() == VECTOR[1:]
    assert batch.propensity.tolist() == [0.25, 1.0]


@pytest.mark.parametrize("kind", ["list", "large", "fixed"])
@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (
            [None, *VECTOR[1:]],
            "does not hold exactly 2 numbers, one for each action in 1 row (row numbers from 0: 0)",
        ),
        ([[0.5, None], *VECTOR[1:]], "has missing or infinite probabilities in 1 row"),
        (
            [[0.5, 0.6], *VECTOR[1:]],
            "such as a sum of 1.1; correct the log, or pass normalize=True",
        ),
        ([[1.5, -0.5], *VECTOR[1:]], "has negative probabilities"),
        ([[0.0, 1.0], *VECTOR[1:]], "gives probability 0 to an action that was taken"),
    ],
)
def test_bad_propensity_vectors_are_named(kind: str, rows: list[Any], words: str) -> None:
    table = pa.table(
        {"action": GOOD["action"], "reward": GOOD["reward"], "mu": vectors(kind, rows)}
    )
    message = refusal(read(table, propensities="mu", actions=["a", "b"]))
    assert message.startswith("column 'mu' ")
    assert words in message


def test_vectors_of_another_length_or_type() -> None:
    short = pa.table({"action": ["a"], "reward": [0.0], "mu": [[1.0]]})
    assert "does not hold exactly 2 numbers" in refusal(
        read(short, propensities="mu", actions=["a", "b"])
    )
    text = pa.table({"action": ["a"], "reward": [0.0], "mu": ["0.5 0.5"]})
    assert "expected lists of 2 numbers" in refusal(
        read(text, propensities="mu", actions=["a", "b"])
    )


@pytest.mark.parametrize("scale", [1.0, 1e-3])
def test_a_vector_that_disagrees_with_the_propensity_is_refused(scale: float) -> None:
    p = np.array([0.5, 0.2, 0.8]) * scale
    right = np.column_stack([p, 1 - p])
    log = log_of(action=["a"] * 3, propensity=p, propensities=right, actions=["a", "b"])
    assert only(log, propensities=True).propensity.tolist() == p.tolist()
    swapped = log_of(
        action=["a"] * 3, propensity=p[[1, 0, 2]], propensities=right, actions=["a", "b"]
    )
    assert "disagrees with the propensity of the logged action in 2 rows" in refusal(
        swapped, propensities=True
    )


@pytest.mark.parametrize("rows", [[[0.5, 0.5], [0.75, 0.25]], [[0.75, 0.75], [0.75, 0.75]]])
def test_the_first_pass_compares_vectors_that_nothing_else_reads(rows: list[list[float]]) -> None:
    given: dict[str, Any] = {"action": ["a", "b"], "propensity": [0.75, 0.5], "reward": [0.0, 1.0]}

    def made(vectors: list[list[float]]) -> Log:
        context = [[0.0], [1.0]]
        return Log.from_arrays(**given, context=context, propensities=vectors, actions=["a", "b"])

    # the rows of a sum, of a table and of an oracle
    uses: list[Any] = [lambda log: reduce(log, Digest()), lambda log: list(log.each_batch())]
    for use in [*uses, lambda log: Ridge().solve(log, IX(0.1))]:
        with pytest.raises(DataError, match="disagrees with the propensity of the logged action"):
            use(made(rows))
    log = made([[0.75, 0.25], [0.5, 0.5]])
    # half of a pass has compared nothing
    next(log.each_batch())
    assert with_unread(log, ["action"]) == ("action", "propensities")
    reduce(log, Digest())
    assert with_unread(log, ["action"]) == ("action",)
    assert only(log).propensities is None


def test_normalize_is_something_the_user_asks_for() -> None:
    table = pa.table({"action": ["a"], "reward": [0.0], "mu": [[0.15] * 6 + [0.12]]})
    actions = list("abcdefg")
    assert "sum of 1.02" in refusal(read(table, propensities="mu", actions=actions))
    with pytest.warns(PiwoWarning, match="as asked"):
        batch = only(read(table, propensities="mu", actions=actions, normalize=True))
    assert batch.propensity[0] == pytest.approx(0.15 / 1.02)
    zero = pa.table({"action": ["a"], "reward": [0.0], "mu": [[0.0] * 7]})
    assert "sums to 0" in refusal(read(zero, propensities="mu", actions=actions, normalize=True))


# --- context


def test_context_of_many_types() -> None:
    table = pa.table(
        {
            **GOOD,
            "age": pa.array([1, 2, 3], pa.int8()),
            "city": pa.array(["x", "y", "x"]).dictionary_encode(),
            "group": pa.array([7, 8, 7]).dictionary_encode(),
            "old": [True, False, True],
            "price": pa.array([1.0, 2.0, 3.0]).cast(pa.decimal128(9, 2)),
            "v": pa.array([[1, 2], [3, 4], [5, 6]], pa.list_(pa.int32(), 2)),
        }
    )
    log = read(table, context=["age", "city", "group", "old", "price", "v"])
    assert log.features is not None
    assert log.features.names == (
        "age",
        "city=x",
        "city=y",
        "group=7",
        "group=8",
        "old",
        "price",
        "v[0]",
        "v[1]",
    )
    context = only(log, context=True).context
    assert context is not None
    assert context[1].tolist() == [2, 0, 1, 0, 1, 0, 2, 3, 4]


def test_a_timestamp_is_no_context() -> None:
    table = pa.table({**GOOD, "when": pa.array([1, 2, 3], pa.timestamp("s"))})
    with pytest.raises(UsageError, match="context column 'when' has type timestamp"):
        read(table, context="when").features  # noqa: B018


def test_lists_of_differing_length_and_null_lists_in_the_context() -> None:
    ragged = read(pa.table({**GOOD, "v": [None, [1.0, 2.0], [1.0]]}), context="v")
    message = refusal(ragged, context=True)
    assert "column 'v' has missing context values in 1 row (row numbers from 0: 0)" in message
    assert "column 'v' does not hold lists of 2 numbers in 1 row (row numbers from 0: 2)" in message
    none = read(pa.table({**GOOD, "v": pa.array([None] * 3, pa.list_(pa.float64()))}), context="v")
    with pytest.raises(DataError, match="no lists at all"):
        none.features  # noqa: B018


def test_levels_that_a_policy_never_saw_are_counted() -> None:
    features = read(pa.table({**GOOD, "c": ["x", "y", "x"]}), context="c").features
    assert isinstance(features, Features)
    other = read(pa.table({**GOOD, "c": ["x", "z", "x"]}), context="c").encoded_by(features)
    with pytest.warns(
        PiwoWarning,
        match="'c' has context values unseen in training in 1 row",
    ):
        assert only(other, context=True).context.tolist() == [[1, 0], [0, 0], [1, 0]]  # type: ignore[union-attr]


# --- roles


@pytest.mark.parametrize(
    "call",
    [
        lambda: read(GOOD, reward="reward", cost="reward"),
        lambda: read(GOOD, action="reward"),
        lambda: read(GOOD, reward_range=(1, 0)),
        lambda: read(x for x in []),
        lambda: read(5),
        lambda: read([1, 2]),
        lambda: read([]),
        lambda: Log.from_arrays(action=(x for x in "ab"), reward=[0, 1], propensity=[1, 1]),
        lambda: Log.from_arrays(action=["a"], reward=[0]),
        lambda: Log.from_arrays(action=["a"], reward=[0, 1], propensity=[1]),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensity=[1], context=[1.0]),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensity=[1], actions=[]),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensity=[1], actions=["a", "a"]),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensity=[1], actions=["a", 1]),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensity=[1], actions="a"),
        lambda: Log.from_arrays(action=["a"], reward=[0], propensities=[[1.0]]),
        lambda: read(
            pa.table(
                [["a"], ["b"], [1.0], [1.0]], names=["action", "action", "reward", "propensity"]
            )
        ),
    ],
)
def test_wrong_arguments_end_in_one_line(call: Any) -> None:
    with pytest.raises(PiwoError) as refused:
        call()
    assert "\n" not in str(refused.value)


def test_missing_columns_are_refused_with_near_names() -> None:
    with pytest.raises(
        DataError, match="no column 'propensty' for the propensity; did you mean 'propensity'"
    ):
        read(GOOD, propensity="propensty")


def test_no_rows() -> None:
    empty = pa.table(
        {
            "action": pa.array([], pa.string()),
            "reward": pa.array([], pa.float64()),
            "propensity": pa.array([], pa.float64()),
        }
    )
    with pytest.raises(DataError, match="no rows"):
        reduce(read(empty), Digest())
    with pytest.raises(DataError, match="no rows"):
        reduce(read(empty, actions=["a"]), Digest())
    assert Actions(["a"]).codes(empty["action"]).tolist() == []
