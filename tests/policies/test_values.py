"""Single policies by hand: what each says of one row, and what it refuses."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from piwo.errors import DataError, PiwoWarning, UsageError
from piwo.logs.actions import Actions
from piwo.logs.batch import Batch
from piwo.logs.features import Feature, Features
from piwo.policies import (
    Column,
    Constant,
    Deterministic,
    EpsilonGreedy,
    LinearGreedy,
    Logging,
    Mixture,
    RowWise,
    Tabular,
    Uniform,
    aligned,
    check_fits,
)
from piwo.sources.frames import same_index


def rows(n: int, start: int = 0, **columns: object) -> Batch:
    base = {"action": np.zeros(n, np.int32), "reward": np.ones(n), "propensity": np.full(n, 0.5)}
    return Batch(start=start, **(base | columns))  # type: ignore[arg-type]


# --- of the log alone


def test_logging_is_the_logged_propensity(batch: Batch) -> None:
    assert Logging().logged(batch).tolist() == [0.5, 0.1, 0.02, 0.8, 0.3, 0.05]
    np.testing.assert_allclose(
        Logging().log_logged(batch), np.log([0.5, 0.1, 0.02, 0.8, 0.3, 0.05])
    )
    tiny = rows(1, propensity=np.zeros(1), log_propensity=np.array([-800.0]))
    assert Logging().log_logged(tiny).tolist() == [-800.0]


def test_logging_has_no_distribution_without_full_vectors(batch: Batch) -> None:
    with pytest.raises(UsageError, match="propensities=") as wrong:
        Logging().full(batch)
    assert "\n" not in str(wrong.value)
    full = np.array([[0.25, 0.75]])
    assert Logging().full(rows(1, propensities=full)).tolist() == [[0.25, 0.75]]
    for ask in (
        lambda p: p.probabilities(n=1),
        lambda p: p.probability(None, [0]),
        lambda p: p.act(n=1),
    ):
        with pytest.raises(UsageError, match="known only on the rows of its log"):
            ask(Logging(["a", "b"]))
    with pytest.raises(UsageError, match="without its action list"):
        Logging().probabilities(n=1)


def test_a_column_of_the_log(batch: Batch) -> None:
    assert Column("new").logged(batch).tolist() == [1.0, 0.0, 0.5, 0.25, 1.0, 1.0]
    with pytest.raises(UsageError, match=r"'old' \(it has \['new'\]\)"):
        Column("old").logged(batch)
    with pytest.raises(UsageError, match="logged actions only"):
        Column("new").full(batch)


def test_policies_of_the_log_are_over_its_actions_already(batch: Batch) -> None:
    log = Actions(["x", "y", "z", "w"])
    for policy in (Logging(), Column("new"), RowWise(np.arange(106) / 106)):
        np.testing.assert_array_equal(aligned(policy, log).logged(batch), policy.logged(batch))


# --- row by row


def test_rows_are_found_by_their_numbers_in_the_log() -> None:
    policy = RowWise([0.0, 0.1, 0.2, 0.3, 0.4])
    assert policy.logged(rows(2, start=3)).tolist() == [0.3, 0.4]
    assert policy.logged(rows(5).take(np.array([4, 0]))).tolist() == [0.4, 0.0]
    table = RowWise([[1.0, 0.0], [0.25, 0.75]], ["a", "b"])
    assert table.logged(rows(1, start=1, action=np.array([1], np.int32))).tolist() == [0.75]
    assert table.full(rows(1, start=1)).tolist() == [[0.25, 0.75]]


def test_another_number_of_rows_is_an_error() -> None:
    with pytest.raises(UsageError, match=r"has 3 rows, the log has at least 5"):
        RowWise([0.5] * 3).logged(rows(2, start=3))
    with pytest.raises(UsageError, match=r"has 3 rows, the log has 2"):
        check_fits(RowWise([0.5] * 3), None, Actions(["a"]), rows=2)
    check_fits(RowWise([0.5] * 3), None, Actions(["a"]), rows=3)


def test_row_wise_cannot_act() -> None:
    with pytest.raises(UsageError, match="cannot act"):
        RowWise([[0.5, 0.5]], ["a", "b"]).act(n=1)
    with pytest.raises(UsageError, match="1 rows, got 2"):
        RowWise([[0.5, 0.5]], ["a", "b"]).probabilities(n=2)
    with pytest.raises(UsageError, match="give full vectors"):
        RowWise([0.5], ["a", "b"]).probabilities(n=1)


def test_d17_columns_are_matched_by_name() -> None:
    import pandas as pd
    import polars as pl

    log = Actions(["10", "2", "9"])
    one = rows(1, action=np.array([0], np.int32))
    for frame in (pd.DataFrame, pl.DataFrame, dict):
        values = frame({"2": [0.7], "9": [0.2], "10": [0.1]})
        for policy in (RowWise(values), RowWise(values, log), RowWise(values, ["2", "9", "10"])):
            pi = aligned(policy, log).logged(one)
            assert pi.tolist() == [0.1]
            # w = pi / mu = 0.1 / 0.5
            assert pi[0] * one.reward[0] == pytest.approx(0.2 * one.propensity[0])
    assert aligned(RowWise(pd.DataFrame([[0.7, 0.3]], columns=[2, 9])), log).full(one).tolist() == [
        [0, 0.7, 0.3]
    ]


def test_d17_missing_extra_and_unnamed_columns() -> None:
    with pytest.raises(DataError, match=r"missing \['c'\], extra \['x'\]"):
        RowWise({"a": [0.5], "x": [0.5]}, ["a", "c"])
    with pytest.raises(UsageError, match="pass actions="):
        RowWise([[0.5, 0.5]])
    with pytest.raises(UsageError, match=r"\(1, 3\), expected \(rows, 2\)"):
        RowWise([[0.2, 0.3, 0.5]], ["a", "b"])


@given(st.permutations(["2", "9", "10", "01", "1"]), st.permutations(["2", "9", "10", "01", "1"]))
def test_d17_the_order_of_columns_and_actions_means_nothing(
    columns: list[str], listed: list[str]
) -> None:
    values = {
        "2": [0.1, 0.3],
        "9": [0.2, 0.3],
        "10": [0.3, 0.1],
        "01": [0.25, 0.3],
        "1": [0.15, 0.0],
    }
    log = Actions(["1", "01", "2", "9", "10"])
    batch = rows(2, action=np.array([1, 4], np.int32))
    policy = aligned(RowWise({x: values[x] for x in columns}, listed), log)
    assert policy.logged(batch).tolist() == [0.25, 0.1]


def test_d16_a_policy_wider_than_the_action_list() -> None:
    policy = RowWise([[0.2, 0.3, 0.5]], ["a", "b", "c"])
    with pytest.raises(UsageError, match=r"lacks 1 of the policy's: 'c'; pass actions="):
        aligned(policy, Actions(["a", "b"]))
    with pytest.raises(UsageError, match="lacks 1 of the policy's: 'b'"):
        aligned(policy, Actions(["a", "c", "z"]))
    assert aligned(policy, Actions(["c", "b", "a"])).full(rows(1)).tolist() == [[0.5, 0.3, 0.2]]


def test_d20_an_index_can_be_compared() -> None:
    import pandas as pd

    policy = RowWise(pd.Series([1, 0, 0.5], index=[5, 3, 9]))
    reward = pd.Series([1, 0, 1], index=[7, 3, 5])
    with pytest.raises(DataError, match="different indexes"):
        same_index({"policy": policy, "reward": reward})
    same_index({"policy": policy, "reward": pd.Series([1, 0, 1], index=[5, 3, 9])})
    assert RowWise([0.5]).index is None
    assert RowWise(pd.Series([1, 0, 0.5], index=[5, 3, 9])).logged(rows(3)).tolist() == [1, 0, 0.5]


def test_d03_probabilities_a_hair_above_one() -> None:
    with pytest.warns(PiwoWarning, match="1 probabilities are above 1"):
        assert RowWise([0.5, 1.00000978]).logged(rows(2)).tolist() == [0.5, 1.0]
    for wrong in (1.01, -0.1, np.nan, np.inf):
        with pytest.raises(DataError, match="row 1: the probability is"):
            RowWise([0.5, wrong])
    wide = np.full((1, 100_000), 1 / 100_000, np.float32)
    assert RowWise(wide, range(100_000)).full(rows(1)).sum() == pytest.approx(1.0, rel=1e-12)
    with pytest.raises(DataError, match=r"row 0: the probabilities sum to 1\.02"):
        RowWise([[0.15] * 6 + [0.12]], range(7))
    with pytest.raises(DataError, match="sum to 0,"):
        RowWise(np.zeros((1, 100_000)), range(100_000))
    with pytest.raises(DataError, match="row 1: a probability is negative"):
        RowWise([[0.5, 0.5], [1.5, -0.5]], ["a", "b"])


# --- simple ones


def test_d04_labels_are_never_used_as_positions() -> None:
    policy = Tabular([0.7, 0.2, 0.1], [1, 2, 3])
    pi = policy.probability(None, policy.actions.codes([1, 2, 3]))
    assert pi.tolist() == [0.7, 0.2, 0.1]
    # V = mean(pi / mu * R) with mu = .5, .25, .25 and R = 1, 0, 2, as multiples of 1 / mu.
    assert (pi * [2, 4, 4] * [1, 0, 2]).mean() == pytest.approx(0.733333, abs=1e-6)
    with pytest.raises(UsageError, match="outside"):
        policy.probability(None, policy.actions.codes([0, 1, 2]))
    assert Constant(3, [1, 2, 3]).choose(n=1).tolist() == [2]
    with pytest.raises(UsageError, match="not one of"):
        Constant(0, [1, 2, 3])


def test_epsilon_greedy_by_hand() -> None:
    policy = EpsilonGreedy(LinearGreedy([[1.0], [-1.0]], [0, 0], ["a", "b"]), 0.2)
    np.testing.assert_allclose(policy.probabilities([[1.0], [-1.0]]), [[0.9, 0.1], [0.1, 0.9]])
    for wrong in (-0.1, 1.1, np.nan):
        with pytest.raises(UsageError, match="epsilon"):
            EpsilonGreedy(Uniform(["a"]), wrong)
    with pytest.raises(UsageError, match="action list"):
        EpsilonGreedy(Logging(), 0.1)


def test_epsilon_greedy_around_what_the_log_knows(batch: Batch) -> None:
    labels = ["b", "a", "10", "2"]
    policy = aligned(EpsilonGreedy(Column("new", labels), 0.5), Actions(sorted(labels)))
    np.testing.assert_allclose(
        policy.logged(batch), 0.125 + 0.5 * np.array([1, 0, 0.5, 0.25, 1, 1])
    )
    full = rows(1, propensities=np.array([[0.1, 0.2, 0.3, 0.4]]))
    served = aligned(EpsilonGreedy(Logging(labels), 0.5), Actions(sorted(labels)))
    np.testing.assert_allclose(served.full(full), [[0.175, 0.225, 0.275, 0.325]])
    longer = aligned(EpsilonGreedy(Logging(labels), 0.5), Actions([*labels, "z"]))
    with pytest.raises(UsageError, match="propensity vectors 5"):
        longer.full(rows(1, propensities=np.full((1, 5), 0.2)))


def test_a_mixture_with_the_logging_policy(batch: Batch) -> None:
    roll_out = Mixture([Logging(), Constant("b", ["b", "a", "10", "2"])], [0.9, 0.1])
    taken = np.array([1, 0, 0, 0, 0, 1.0])
    np.testing.assert_allclose(roll_out.logged(batch), 0.9 * batch.propensity + 0.1 * taken)
    # The same log, its list longer and in another order: the logged part keeps what it knows.
    longer = Actions(["z", "10", "2", "a", "b"])
    moved = Batch(100, np.array([4, 3, 0, 2, 3, 4], np.int32), batch.reward, batch.propensity)
    np.testing.assert_allclose(
        aligned(roll_out, longer).logged(moved), 0.9 * batch.propensity + 0.1 * taken
    )


def test_what_cannot_be_mixed() -> None:
    greedy = LinearGreedy([[1.0], [-1.0]], [0, 0], ["a", "b"])
    named = LinearGreedy([[1.0], [-1.0]], [0, 0], ["a", "b"], Features.numeric(["x"]))
    with pytest.raises(UsageError, match="different features"):
        Mixture([greedy, named], [0.5, 0.5])
    with pytest.raises(UsageError, match="different actions"):
        Mixture([Uniform(["a", "b"]), Uniform(["a", "c"])], [0.5, 0.5])
    with pytest.raises(UsageError, match="empty"):
        Mixture([], [])
    with pytest.raises(UsageError, match="one per policy"):
        Mixture([greedy], [0.5, 0.5])
    for wrong in ([0.5, 0.6], [1.5, -0.5], [np.nan, 1.0]):
        with pytest.raises(UsageError, match="shares"):
            Mixture([greedy, greedy], wrong)


@given(st.integers(0, 2**31), st.integers(1, 4), st.integers(1, 60))
def test_tables_are_looked_up_like_a_dictionary(seed: int, width: int, rows: int) -> None:
    rng = np.random.default_rng(seed)
    known = np.unique(rng.integers(-2, 3, (12, width)).astype(float), axis=0)
    rng.shuffle(known)
    table = rng.dirichlet(np.ones(3), len(known))
    x = rng.integers(-2, 3, (rows, width)).astype(float)
    policy, naive = (
        Tabular(table, range(3), known),
        {tuple(c): p for c, p in zip(known, table, strict=True)},
    )
    missing = [i for i, row in enumerate(x) if tuple(row) not in naive]
    if missing:
        with pytest.raises(DataError, match=rf"row {missing[0]}: .*\({len(missing)} such rows\)"):
            policy.probabilities(x)
        x = np.delete(x, missing, axis=0)
    np.testing.assert_allclose(
        policy.probabilities(x), np.reshape([naive[tuple(r)] for r in x], (-1, 3))
    )


def test_tables_for_text_contexts() -> None:
    features = Features((Feature("color", "levels", ("blue", "red")),))
    policy = Tabular(
        {"b": [0.0, 0.5], "a": [1.0, 0.5]}, ["a", "b"], {"color": ["red", "blue"]}, features
    )
    assert policy.probabilities({"color": ["blue", "red"]}).tolist() == [[0.5, 0.5], [1.0, 0.0]]


def test_what_cannot_be_a_table() -> None:
    with pytest.raises(UsageError, match="no contexts"):
        Tabular([[1.0], [1.0]], ["a"])
    with pytest.raises(UsageError, match="2 distributions and 1 contexts"):
        Tabular([[1.0], [1.0]], ["a"], [[1.0]])
    with pytest.raises(UsageError, match="contexts 0 and 2 are the same"):
        Tabular([[1.0]] * 3, ["a"], [[1.0, 0.0], [2.0, 0.0], [1.0, -0.0]])
    with pytest.raises(DataError, match="shape"):
        Tabular([[1.0]], ["a"], [1.0])


def test_rules_return_labels() -> None:
    rule = Deterministic(lambda x: (x[:, 0].astype(int) % 3) + 1, [1, 2, 3])
    assert rule.choose([[0.0], [1.0], [2.0]]).tolist() == [0, 1, 2]
    with pytest.raises(
        UsageError, match=r"returned 0 for row 1, expected one of the actions \(1, 2, 3\)"
    ):
        Deterministic(lambda x: np.array([1, 0]), [1, 2, 3]).choose(np.zeros((2, 1)))
    with pytest.raises(UsageError, match="3 labels for 2 contexts"):
        Deterministic(lambda x: [1, 2, 3], [1, 2, 3]).choose(np.zeros((2, 1)))


# --- fit for a log


def test_a_policy_for_another_context_is_told_near_names() -> None:
    policy = LinearGreedy([[1.0]], [0.0], ["a"], Features.numeric(["user_age"]))
    with pytest.raises(DataError, match="did you mean 'user_ages'"):
        check_fits(policy, Features.numeric(["user_ages", "hour"]), Actions(["a"]))
    with pytest.raises(DataError, match=r"user_age.* without one"):
        check_fits(policy, None, Actions(["a"]))
    check_fits(policy, Features.numeric(["hour", "user_age"]), Actions(["a"]))
    with pytest.raises(DataError, match="1 columns, the log has 2"):
        check_fits(LinearGreedy([[1.0]], [0.0], ["a"]), Features.numeric(2), Actions(["a"]))
    with pytest.raises(UsageError, match="lacks 1 of the policy's: 'a'"):
        check_fits(policy, Features.numeric(["user_age"]), Actions(["b"]))
    check_fits(EpsilonGreedy(policy, 0.1), Features.numeric(["user_age"]), Actions(["b", "a"]))
    check_fits(Logging(), None, Actions(["b"]))
