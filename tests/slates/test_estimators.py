"""The estimators of slates: by hand, beside a naive twin, and on slates with a known value."""

from __future__ import annotations

import pickle
from itertools import permutations, product
from typing import Any

import numpy as np
import pytest

import piwo
from piwo import slates
from piwo.engines.packed import packed, unpacked
from tests.slates.simulator import ITEMS, LOGGER, TARGET, TARGET_COLUMNS, SlateBandit

NAMES = ("standard", "cascade", "independent")

# Two rows: the first slate has two slots, the second has one.
ROWS: dict[str, list[Any]] = {
    "shown": [["a", "b"], ["b"]],
    "rs": [[1.0, 0.5], [1.0]],
    "mu": [[0.5, 0.25], [0.5]],
    "mu_alone": [[0.5, 0.4], [0.5]],
    "pi": [[0.25, 0.5], [0.75]],
    "pi_alone": [[0.25, 0.2], [0.75]],
}


def by_hand(**options: Any) -> slates.SlateLog:
    return slates.read(
        ROWS, slate="shown", rewards="rs", propensities="mu", marginals="mu_alone", **options
    )


HAND_TARGET = slates.FromColumns(above="pi", marginal="pi_alone")


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [
        # row 1: w = (.25/.5)(.5/.25) = 1; row 2: w = 1.5
        ("standard", (1.0 * (1.0 + 0.5) + 1.5 * 1.0) / 2),
        # row 1: w_1 = .5, w_2 = 1; row 2: 1.5
        ("cascade", (0.5 * 1.0 + 1.0 * 0.5 + 1.5) / 2),
        # row 1: w_1 = .5, w_2 = .2/.4 = .5; row 2: 1.5
        ("independent", (0.5 * 1.0 + 0.5 * 0.5 + 1.5) / 2),
    ],
)
def test_values_worked_by_hand(estimator: str, expected: float) -> None:
    found = slates.evaluate(by_hand(), HAND_TARGET, estimator=estimator)
    assert found.value == pytest.approx(expected, abs=1e-12)
    assert found.logging_value == pytest.approx((1.5 + 1.0) / 2)


def test_position_weights_worked_by_hand() -> None:
    log = by_hand(position_weights=[1.0, 0.5])
    found = slates.evaluate(log, HAND_TARGET, estimator="cascade")
    assert found.value == pytest.approx((0.5 * 1.0 + 0.5 * 1.0 * 0.5 + 1.5) / 2, abs=1e-12)
    assert found.largest_value == 1.5
    # slot by slot: means of w r over the rows that have the slot
    assert [one.value for one in found.by_slot] == pytest.approx([(0.5 + 1.5) / 2, 0.5])
    assert [one.rows for one in found.by_slot] == [2, 1]


def test_self_normalized_worked_by_hand() -> None:
    found = slates.evaluate(by_hand(), HAND_TARGET, estimator="cascade", self_normalized=True)
    # slot 1: (.5 + 1.5)/(.5 + 1.5); slot 2, which half of the rows have: .5/1
    assert found.value == pytest.approx(1.0 + 0.5 * 0.5, abs=1e-12)


def test_the_reward_of_the_slate_needs_the_weight_of_the_slate_alone() -> None:
    table = {"shown": [["a"], ["b"]], "r": [3.0, 1.0], "p": [0.5, 0.25], "q": [0.25, 0.5]}
    log = slates.read(table, slate="shown", reward="r", slate_propensity="p", reward_range=(0, 4))
    found = slates.evaluate(log, slates.FromColumns(slate="q"))
    assert found.value == pytest.approx((0.5 * 3.0 + 2.0 * 1.0) / 2)
    assert [one.rows for one in found.by_slot] == []


def naive(table: dict[str, list[Any]], estimator: str, alpha: list[float]) -> float:
    """The formulas as they are in the papers, one row after the other."""
    total = 0.0
    for row in range(len(table["shown"])):
        rewards = table["rs"][row]
        mu, pi = table["mu_above"][row], table["pi_above"][row]
        for slot, reward in enumerate(rewards):
            if estimator == "standard":
                weight = np.prod(np.divide(pi, mu))
            elif estimator == "cascade":
                weight = np.prod(np.divide(pi[: slot + 1], mu[: slot + 1]))
            else:
                weight = table["pi_alone"][row][slot] / table["mu_alone"][row][slot]
            total += alpha[slot] * reward * weight
    return float(total / len(table["shown"]))


@pytest.mark.parametrize("estimator", NAMES)
def test_a_naive_twin_agrees(estimator: str) -> None:
    bandit = SlateBandit("cascade")
    table, log = bandit.table(400, seed=3), bandit.log(400, seed=3)
    found = slates.evaluate(log, TARGET_COLUMNS, estimator=estimator)
    assert found.value == pytest.approx(naive(table, estimator, [1.0, 1.0]), abs=1e-9)
    adaptive = slates.evaluate(log, TARGET_COLUMNS, estimator="adaptive")
    assert adaptive.value == pytest.approx(naive(table, "cascade", [1.0, 1.0]), abs=1e-9)


@pytest.mark.parametrize("estimator", NAMES)
def test_open_bandit_pipeline_agrees(estimator: str) -> None:
    # it imports PyTorch, which no other test needs
    ope = pytest.importorskip("obp.ope", reason="obp cannot be imported", exc_type=ImportError)
    bandit = SlateBandit("cascade")
    table, log = bandit.table(400, seed=3), bandit.log(400, seed=3)
    given: dict[str, Any] = {
        "slate_id": np.repeat(np.arange(400), 2),
        "reward": np.concatenate(table["rs"]),
        "position": np.tile([0, 1], 400),
    }
    name, suffix = {
        "standard": ("StandardIPS", ""),
        "cascade": ("RewardInteractionIPS", "_cascade"),
        "independent": ("IndependentIPS", "_item_position"),
    }[estimator]
    for role, policy in (("pscore", "mu"), ("evaluation_policy_pscore", "pi")):
        above = np.array(table[f"{policy}_above"])
        given[role + suffix] = {
            "standard": np.repeat(above.prod(axis=1), 2),
            "cascade": above.cumprod(axis=1).ravel(),
            "independent": np.concatenate(table[f"{policy}_alone"]),
        }[estimator]
    for normalized in (False, True):
        kind = getattr(ope, f"{'SelfNormalized' * normalized}Slate{name}", None)
        if kind is None:
            # versions before 0.5 have no self-normalized ones
            continue
        theirs = kind(len_list=2)
        found = slates.evaluate(
            log, TARGET_COLUMNS, estimator=estimator, self_normalized=normalized
        )
        assert found.value == pytest.approx(theirs.estimate_policy_value(**given), abs=1e-9)


def expectation(bandit: SlateBandit, estimator: str) -> float:
    """The exact mean of an estimator: over every slate, with rewards at their means."""
    total = 0.0
    for slate in product(ITEMS, repeat=2):
        mu, pi = (np.array(bandit.probability(p, slate)) for p in (LOGGER, TARGET))
        alone = np.array(bandit.marginal(TARGET, slate)) / np.array(bandit.marginal(LOGGER, slate))
        weights = {
            "standard": np.full(2, (pi / mu).prod()),
            "cascade": (pi / mu).cumprod(),
            "independent": alone,
        }[estimator]
        chances = [bandit.chance(slate, slot) for slot in range(2)]
        total += mu.prod() * float(weights @ chances)
    return total


@pytest.mark.parametrize(
    ("behavior", "right"),
    [
        ("independent", {"standard", "cascade", "independent"}),
        ("cascade", {"standard", "cascade"}),
        ("standard", {"standard"}),
    ],
)
def test_each_is_unbiased_under_its_assumption_and_biased_otherwise(
    behavior: str, right: set[str]
) -> None:
    bandit = SlateBandit(behavior)
    for estimator in NAMES:
        bias = abs(expectation(bandit, estimator) - bandit.value)
        assert (bias < 1e-12) == (estimator in right), estimator
        if estimator not in right:
            assert bias > 0.01


@pytest.mark.parametrize("behavior", NAMES)
def test_what_the_library_sums_is_near_that_mean(behavior: str) -> None:
    bandit = SlateBandit(behavior)
    log = bandit.log(20_000, seed=1)
    for estimator in (*NAMES, "adaptive"):
        found = slates.evaluate(log, TARGET_COLUMNS, estimator=estimator)
        assert found.standard_error is not None
        expected = bandit.value
        if estimator != "adaptive":
            expected = expectation(bandit, estimator)
        assert found.value == pytest.approx(expected, abs=4 * found.standard_error)
        snips = slates.evaluate(log, TARGET_COLUMNS, estimator=estimator, self_normalized=True)
        assert snips.standard_error is not None
        assert snips.value == pytest.approx(expected, abs=5 * snips.standard_error)
        assert (snips.lower, snips.upper) == (found.lower, found.upper)
        if behavior == estimator or estimator == "adaptive":
            assert found.lower is not None
            assert found.upper is not None
            assert found.lower < bandit.value < found.upper


# --- the pseudo-inverse


def gamma_weight(
    slates_: list[tuple[int, ...]], mu: np.ndarray, q: np.ndarray, shown: tuple[int, ...]
) -> float:
    """q' Gamma^+ 1_s by the definition: Gamma summed over slates, inverted by SVD."""
    slots, items = q.shape
    ones = np.zeros((len(slates_), slots, items))
    for i, slate in enumerate(slates_):
        ones[i, np.arange(slots), slate] = 1.0
    flat = ones.reshape(len(slates_), -1)
    gamma = (flat * mu[:, None]).T @ flat
    of_shown = np.zeros((slots, items))
    of_shown[np.arange(slots), shown] = 1.0
    return float(q.ravel() @ np.linalg.pinv(gamma, rcond=1e-10) @ of_shown.ravel())


def one_row(shown: list[str], behavior: slates.SlatePolicy, items: str) -> slates.SlateLog:
    return slates.read(
        {"shown": [shown], "r": [1.0]},
        slate="shown",
        reward="r",
        behavior=behavior,
        actions=list(items),
    )


@pytest.mark.parametrize(("slots", "items"), [(1, 3), (2, 3), (2, 5), (3, 3), (3, 4), (4, 4)])
def test_the_pseudo_inverse_of_uniform_rankings_is_that_of_the_definition(
    slots: int, items: int
) -> None:
    labels = "abcde"[:items]
    every = list(permutations(range(items), slots))
    mu = np.full(len(every), 1.0 / len(every))
    best = every[-1]
    q = np.zeros((slots, items))
    q[np.arange(slots), best] = 1.0
    target = slates.Deterministic([labels[i] for i in best])
    found = []
    for shown in every[:: max(1, len(every) // 12)]:
        log = one_row([labels[i] for i in shown], slates.Uniform(list(labels)), labels)
        value = slates.evaluate(log, target, estimator="pseudo-inverse").value
        assert value is not None
        assert value == pytest.approx(gamma_weight(every, mu, q, shown), abs=1e-9)
        found.append(value)
    shift = slates.evaluate(log, target, estimator="pseudo-inverse").shift
    assert min(found) >= -shift - 1e-9


def test_the_pseudo_inverse_of_independent_slots_is_that_of_the_definition() -> None:
    mus = [{"a": 0.2, "b": 0.8}, {"a": 0.5, "b": 0.5}, {"a": 0.7, "b": 0.3}]
    pis = [{"a": 0.6, "b": 0.4}, {"a": 0.0, "b": 1.0}, {"a": 0.5, "b": 0.5}]
    every = list(product(range(2), repeat=3))
    mu = np.array([np.prod([mus[s]["ab"[i]] for s, i in enumerate(x)]) for x in every])
    q = np.array([[one["a"], one["b"]] for one in pis])
    for shown in every:
        log = one_row(["ab"[i] for i in shown], slates.Factored(mus), "ab")
        found = slates.evaluate(log, slates.Factored(pis), estimator="pseudo-inverse")
        assert found.value == pytest.approx(gamma_weight(every, mu, q, shown), abs=1e-9)
        assert found.shift == 2.0


def additive(rows: int, seed: int, extra: float = 0.0) -> tuple[slates.SlateLog, float]:
    """Uniform rankings of two of four items; the slate's reward is additive, unless `extra`."""
    rng = np.random.default_rng(seed)
    every = list(permutations("abcd", 2))
    shown = rng.integers(0, len(every), rows)
    part = {"a": 0.1, "b": 0.2, "c": 0.3, "d": 0.4}

    def mean(slate: tuple[str, ...]) -> float:
        return part[slate[0]] + 0.5 * part[slate[1]] + extra * (slate == ("d", "c"))

    rewards = rng.random(rows) < np.array([mean(every[i]) for i in shown])
    log = slates.read(
        {"shown": [list(every[i]) for i in shown], "r": rewards * 1.0},
        slate="shown",
        reward="r",
        behavior=slates.Uniform(list("abcd")),
    )
    return log, mean(("d", "c"))


def test_the_pseudo_inverse_is_right_for_additive_rewards_and_narrower() -> None:
    log, truth = additive(20_000, seed=2)
    target = slates.Deterministic(["d", "c"])
    one = slates.evaluate(log, target, estimator="pseudo-inverse")
    whole = slates.evaluate(log, target)
    assert one.standard_error is not None
    assert whole.standard_error is not None
    assert one.value == pytest.approx(truth, abs=4 * one.standard_error)
    assert one.standard_error < whole.standard_error
    assert one.lower is not None
    assert one.upper is not None
    assert one.lower < truth < one.upper
    assert one.ess is None
    assert any(note.kind == "shifted" for note in one.notes)


def test_the_pseudo_inverse_is_biased_for_other_rewards() -> None:
    log, truth = additive(20_000, seed=2, extra=0.4)
    found = slates.evaluate(log, slates.Deterministic(["d", "c"]), estimator="pseudo-inverse")
    assert found.value is not None
    assert found.standard_error is not None
    assert abs(found.value - truth) > 6 * found.standard_error


# --- bounds


def test_the_bounds_are_those_of_the_library_on_the_same_numbers() -> None:
    bandit = SlateBandit("cascade")
    table, log = bandit.table(300, seed=5), bandit.log(300, seed=5)
    ratios = np.array(table["pi_above"]) / np.array(table["mu_above"])
    weights, rewards = ratios.cumprod(axis=1), np.array(table["rs"])
    found = slates.evaluate(log, TARGET_COLUMNS, estimator="cascade", interval="mixture")
    credits_ = (weights * rewards).sum(axis=1) / 2
    losses = (weights * (1 - rewards)).sum(axis=1) / 2
    assert found.lower_raw == pytest.approx(2 * piwo.bounds.lcb_mean(credits_, 0.025), rel=1e-9)
    high = 2 * (1 - piwo.bounds.lcb_mean(losses, 0.025))
    assert found.upper_raw == pytest.approx(high, rel=1e-9)
    gains = credits_ + 1 - rewards.sum(axis=1) / 2
    better = 2 * (piwo.bounds.lcb_mean(gains, 0.05) - 1)
    assert found.improvement_lower == pytest.approx(better, rel=1e-9)


def test_one_slot_is_what_evaluate_says() -> None:
    rng = np.random.default_rng(0)
    action = rng.integers(0, 3, 500)
    reward, labels = rng.random(500), [str(a) for a in action]
    plain = piwo.Log.from_arrays(
        action=labels, reward=reward, propensity=[1 / 3] * 500, actions=["0", "1", "2"]
    )
    log = slates.read(
        {"s": [[a] for a in labels], "rs": [[r] for r in reward]},
        slate="s",
        rewards="rs",
        behavior=slates.Uniform(["0", "1", "2"]),
    )
    policy = piwo.policies.Tabular([0.2, 0.3, 0.5], ["0", "1", "2"])
    target = slates.Factored([{"0": 0.2, "1": 0.3, "2": 0.5}])
    for interval in ("mixture", "deadline"):
        ours = piwo.evaluate(plain, policy, interval=interval)
        for estimator in (*NAMES, "pseudo-inverse"):
            found = slates.evaluate(log, target, estimator=estimator, interval=interval)
            assert found.value == pytest.approx(ours.value)
            assert found.standard_error == pytest.approx(ours.standard_error)
            assert found.lower == pytest.approx(ours.lower, rel=1e-6)
            assert found.upper == pytest.approx(ours.upper, rel=1e-6)


def test_slots_that_a_slate_lacks_count_as_lost() -> None:
    # every slate of one slot earns 1 of at most 2
    table = {"s": [["a"], ["a"], ["a", "b"]] * 400, "rs": [[1.0], [1.0], [1.0, 1.0]] * 400}
    logger = slates.Factored([{"a": 1.0}, {"b": 1.0}])
    log = slates.read(table, slate="s", rewards="rs", behavior=logger)
    for estimator in NAMES:
        found = slates.evaluate(log, logger, estimator=estimator, interval="mixture")
        assert found.value == pytest.approx(4 / 3)
        assert found.lower is not None
        assert found.upper is not None
        assert found.lower < 4 / 3 < found.upper < 1.5
        assert found.mean_weight == pytest.approx(1.0)


def test_weights_beyond_float64_have_bounds() -> None:
    table = {"s": [["a"] * 3, ["b"] * 3] * 50, "rs": [[1.0] * 3, [0.0] * 3] * 50}
    table["mu"] = [[1e-150] * 3, [1.0] * 3] * 50
    table["pi"] = [[1.0] * 3, [0.0] * 3] * 50
    log = slates.read(table, slate="s", rewards="rs", propensities="mu")
    found = slates.evaluate(log, slates.FromColumns(above="pi"), estimator="cascade")
    # propensities that are wrong are found out
    assert found.propensity_p == 0.0
    assert found.no_interval is not None
    assert found.no_interval.kind == "contradicted"
    assert found.max_weight == np.inf


def test_results_do_not_depend_on_how_rows_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    log = SlateBandit("cascade").log(3000, seed=8)
    whole = slates.evaluate(log, TARGET_COLUMNS, estimator="cascade")
    monkeypatch.setattr("piwo.sources.table.fragment_rows", lambda: 701)
    parts = slates.evaluate(log, TARGET_COLUMNS, estimator="cascade")
    assert parts.value == pytest.approx(whole.value, rel=1e-12)
    assert parts.lower == pytest.approx(whole.lower, rel=1e-9)


class Elsewhere:
    """A mapper that pickles all that it is given, and packs what comes back, as a cluster does."""

    def map(self, fn: Any, fragments: Any, /) -> Any:
        fn = pickle.loads(pickle.dumps(fn))
        for fragment in pickle.loads(pickle.dumps(fragments)):
            state, rows = fn(fragment)
            yield unpacked(packed(state)), rows


def test_other_processes_give_the_same() -> None:
    log = SlateBandit("cascade").log(500, seed=8)
    alone = slates.evaluate(log, TARGET_COLUMNS, estimator="adaptive")
    with piwo.using(Elsewhere()):
        found = slates.evaluate(SlateBandit("cascade").log(500, seed=8), TARGET_COLUMNS)
        assert found.rows == 500
        found = slates.evaluate(log, TARGET_COLUMNS, estimator="adaptive")
    assert found.value == pytest.approx(alone.value, rel=1e-12)
    assert found.lower == pytest.approx(alone.lower, rel=1e-9)


def test_one_slate_may_be_fixed_or_a_column() -> None:
    log = slates.read(
        {"s": [["a", "b"], ["b", "a"]], "rs": [[1.0, 1.0], [0.0, 0.0]], "best": [["a", "b"]] * 2},
        slate="s",
        rewards="rs",
        behavior=slates.Uniform(["a", "b"]),
    )
    fixed = slates.evaluate(log, slates.Deterministic(["a", "b"]))
    column = slates.evaluate(log, slates.Deterministic("best"))
    assert fixed.value == column.value == pytest.approx(2.0)


def test_slates_of_different_lengths_are_noted() -> None:
    for estimator in NAMES:
        found = slates.evaluate(by_hand(), HAND_TARGET, estimator=estimator)
        assert [note.kind for note in found.notes][:2] == ["assumptions", "lengths"]
    table = {"s": [["a"], ["b", "a"]], "r": [1.0, 0.0]}
    log = slates.read(table, slate="s", reward="r", behavior=slates.Uniform(["a", "b", "c"]))
    for estimator in ("standard", "pseudo-inverse"):
        found = slates.evaluate(log, slates.Deterministic(["a", "b"]), estimator=estimator)
        assert "lengths" in [note.kind for note in found.notes]
    log = SlateBandit("cascade").log(50, seed=1)
    found = slates.evaluate(log, TARGET_COLUMNS)
    assert "lengths" not in [note.kind for note in found.notes]


def test_the_self_normalized_standard_error_counts_the_random_lengths() -> None:
    rng = np.random.default_rng(4)
    longer = rng.random(60) < 0.5
    shown = [["a", "ab"[rng.integers(2)]] if both else ["a"] for both in longer]
    table = {"s": shown, "rs": [[1.0] * len(one) for one in shown]}
    logger = slates.Factored([{"a": 1.0}, {"a": 0.5, "b": 0.5}])
    log = slates.read(table, slate="s", rewards="rs", behavior=logger)
    target = slates.Factored([{"a": 1.0}, {"a": 0.9, "b": 0.1}])
    found = slates.evaluate(log, target, estimator="independent", self_normalized=True)
    # V_l = 1 in each slot: the share of the rows with the second slot varies alone
    share = longer.mean()
    assert found.value == pytest.approx(1.0 + share)
    assert found.standard_error == pytest.approx(np.sqrt(share * (1.0 - share) / 60))


def test_ends_that_cross_are_no_interval() -> None:
    """Five equal slates that the logger says it shows in three of eight rows."""
    table = {"slate": [["a", "b"]] * 5, "rewards": [[1.0, 0.0]] * 5, "ps": [[0.5, 0.75]] * 5}
    log = piwo.slates.read(
        table, slate="slate", rewards="rewards", propensities="ps", actions=["a", "b", "c"]
    )
    made = piwo.slates.evaluate(log, piwo.slates.Deterministic(["a", "b"]), estimator="standard")
    assert (made.lower, made.upper, made.improvement_lower) == (None, None, None)
    assert (made.guarantee, made.no_interval.kind) == ("none", "contradicted")
    assert made.value == pytest.approx(8 / 3)


def test_a_normal_interval_above_all_values_is_not_given() -> None:
    """Forty random rankings of two of four, with rewards of 1."""
    rng = np.random.default_rng(49)
    slate = [list(rng.permutation(list("abcd"))[:2]) for _ in range(40)]
    log = slates.read(
        {"slate": slate, "rs": [[1.0, 1.0]] * 40},
        rewards="rs",
        behavior=slates.Uniform(list("abcd")),
    )
    target = slates.Deterministic(["a", "b"])
    found = slates.evaluate(log, target, estimator="independent", interval="normal")
    assert (found.lower, found.upper, found.guarantee) == (None, None, "none")
    assert (found.value, found.largest_value) == (3.0, 2.0)
    assert 2.0 < found.lower_raw < found.upper_raw
    assert found.no_interval is not None
    assert found.no_interval.kind == "beyond-range"
    assert found.no_interval in found.notes
    assert str(found).count("lies above the highest possible value, 2: too few rows") == 1
    assert "asymptotic" not in {note.kind for note in found.notes}
    # as of each position alone
    each = slates.by_position(log, target, interval="normal")
    assert [one.lower is None for one in each.positions] == [False, True]
    assert each.positions[1].upper is None
    assert "position 2: the normal interval [1.086, 2.514] lies above" in each.notes[-1]
    assert "2: 1.8 no interval" in str(each)
    proved = slates.evaluate(log, target, estimator="independent")
    assert proved.lower is not None
    assert proved.lower <= proved.upper <= 2.0
