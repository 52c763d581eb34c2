"""Control variates within eligible sets: by hand, a naive twin, fixed lists, and coverage."""

from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.policies import Constant, EpsilonGreedy, Mixture, RowWise, Tabular, Uniform
from piwo.reductions import ControlVariates, bet_sums, reduce
from piwo.reductions.bets import CAPPED_BETS, CAPS
from piwo.reductions.control_variate import BASELINES, GAIN_BASELINES
from piwo.reductions.pair_sums import PAIR_BASELINES, PairSums

MANY = 9
TAKES = {"eligible": "could", "propensities": "chances", "propensity": None}


def rows_of(n: int, seed: int) -> dict[str, list[Any]]:
    """Lists of one to six of nine actions, in any order, some of propensity 0."""
    rng = np.random.default_rng(seed)
    rows: dict[str, list[Any]] = {x: [] for x in ("action", "reward", "could", "chances")}
    for _ in range(n):
        could = rng.permutation(MANY)[: rng.integers(1, 7)]
        chance = rng.dirichlet(np.full(len(could), 0.4))
        if len(could) > 2 and rng.random() < 0.3:
            chance[0] = 0.0
            chance /= chance.sum()
        place = rng.choice(len(could), p=chance)
        rows["action"].append(int(could[place]))
        rows["reward"].append(float(rng.random() if rng.random() < 0.5 else rng.integers(2)))
        rows["could"].append(could.tolist())
        rows["chances"].append(chance.tolist())
    return rows


def read(rows: dict[str, Any], **roles: Any) -> piwo.Log:
    return piwo.read(pa.table(rows), actions=list(range(MANY)), **{**TAKES, **roles})


def restricted(pi: Any, rows: dict[str, Any]) -> list[Any]:
    """pi(a | x) / sum_b pi(b | x), b eligible, a list for each row."""
    found = []
    for table, could in zip(pi, rows["could"], strict=True):
        chances = np.array([table[a] for a in could])
        found.append(chances / chances.sum())
    return found


def naive(rows: dict[str, Any], pi: list[Any]) -> tuple[Any, Any, Any, Any]:
    """Y of every row, by loops over rows and eligible actions: value, loss, improvement, capped."""
    n, forms = len(pi), len(BASELINES)
    value, loss = np.zeros((forms, n)), np.zeros((forms, n))
    gain, capped = np.zeros(n), np.zeros((len(CAPS), n))
    for t in range(n):
        could, mu, r = rows["could"][t], rows["chances"][t], rows["reward"][t]
        at = could.index(rows["action"][t])
        w = pi[t][at] / mu[at]
        for i, (c, k) in enumerate(BASELINES):
            mass = 0.0
            for p, m in zip(pi[t], mu, strict=True):
                mass += min(c * p, k * m)
            value[i, t] = w * r - min(c * w, k) + mass + k
            loss[i, t] = w * (1 - r) - min(c * w, k) + mass + k
        apart = sum(max(m - p, 0.0) for p, m in zip(pi[t], mu, strict=True))
        gain[t] = w * r + 1 - r + max(1 - w, 0.0) - apart
        for j, cap in enumerate(CAPS):
            mass = sum(min(p, cap * m) for p, m in zip(pi[t], mu, strict=True))
            capped[j, t] = mass - min(w, cap) * r
    return value, loss, gain, capped


def test_by_hand() -> None:
    """Of nine actions 3 and 5 are eligible, mu = (.4, .6); pi = (.2, .05), restricted (.8, .2).
    Action 3, R = 1: w = 2, as for a fixed list of two actions with these numbers."""
    rows = {"action": [3], "reward": [1.0], "could": [[3, 5]], "chances": [[0.4, 0.6]]}
    pi = [0.15, 0.1, 0.1, 0.2, 0.1, 0.05, 0.1, 0.1, 0.1]
    log = read(rows)
    state = reduce(log, ControlVariates(Tabular(pi, log.actions)))
    # at the bet of size 1, log(1 + Y) was summed
    found = dict(zip(BASELINES, np.expm1(state.value[:, 5]), strict=True))
    # 2 (1 - .5) + (.8 * .5 + .2 * .5) + 1; and 2 (1 - .5) + (.8 * .5 + .2 * 1) + 1
    assert found[0.5, 1.0] == pytest.approx(2.5, rel=1e-12)
    assert found[1.0, 1.0] == pytest.approx(2.6, rel=1e-12)
    assert found[1.0, 4.0] == pytest.approx(5.0, rel=1e-12)
    assert np.expm1(state.improvement[0, 5]) == pytest.approx(1.6, rel=1e-12)


def test_beside_a_naive_twin() -> None:
    rows, rng = rows_of(600, 1), np.random.default_rng(2)
    tables, log = rng.dirichlet(np.full(MANY, 0.5), 600), read(rows)
    state = reduce(log, ControlVariates(RowWise(tables, log.actions)))
    value, loss, gain, capped = naive(rows, restricted(tables, rows))
    reward = np.array(rows["reward"])
    near = {"rtol": 1e-11, "atol": 1e-11}
    for i in range(len(BASELINES)):
        np.testing.assert_allclose(state.value[i], bet_sums(np.maximum(value[i], 0)), **near)
        np.testing.assert_allclose(state.loss[i], bet_sums(np.maximum(loss[i], 0)), **near)
    for at, i in enumerate(GAIN_BASELINES, start=1):
        expected = bet_sums(np.maximum(value[i] + 1 - reward, 0))
        np.testing.assert_allclose(state.improvement[at], expected, **near)
    np.testing.assert_allclose(state.improvement[0], bet_sums(np.maximum(gain, 0)), **near)
    expected = np.log1p(CAPPED_BETS[:, None] * capped).sum(axis=1)
    np.testing.assert_allclose(state.truncated, expected, **near)


def test_pairs_of_policies_beside_a_naive_twin() -> None:
    rows, rng = rows_of(400, 3), np.random.default_rng(4)
    one, two = rng.dirichlet(np.full(MANY, 0.5), (2, 400))
    log = read(rows)
    policies = RowWise(one, log.actions), RowWise(two, log.actions)
    state = reduce(log, PairSums(*policies, full=True, variates=True))
    y, raised = np.zeros(400), np.zeros((len(PAIR_BASELINES), 400))
    both = zip(restricted(one, rows), restricted(two, rows), strict=True)
    for t, (p, q) in enumerate(both):
        could, mu, r = rows["could"][t], rows["chances"][t], rows["reward"][t]
        at, d = could.index(rows["action"][t]), p - q
        earned = abs(d[at]) / mu[at] * (r if d[at] > 0 else 1 - r)
        rest = 1 - np.maximum(-d, 0).sum()
        y[t] = earned + rest
        for i, (c, k) in enumerate(PAIR_BASELINES):
            mass = 0.0
            for x, m in zip(d, mu, strict=True):
                mass += min((c if x > 0 else 1 - c) * abs(x), k * m)
            own = c if d[at] > 0 else 1 - c
            raised[i, t] = y[t] + mass + k - min(own * abs(d[at]) / mu[at], k)
    np.testing.assert_allclose(state.bets, bet_sums(np.maximum(y, 0)), rtol=1e-11, atol=1e-11)
    for i in range(len(PAIR_BASELINES)):
        expected = bet_sums(np.maximum(raised[i], 0))
        np.testing.assert_allclose(state.raised[i], expected, rtol=1e-11, atol=1e-11)


def test_all_actions_eligible_is_a_fixed_list() -> None:
    rng, n = np.random.default_rng(5), 2000
    mu = rng.dirichlet(np.ones(4), n)
    action = np.array([rng.choice(4, p=row) for row in mu])
    reward = rng.random(n)
    fixed = piwo.Log.from_arrays(action=action, reward=reward, propensities=mu, actions=range(4))
    rows = {"action": action, "reward": reward, "chances": mu.tolist()}
    # in another order in each row
    order = np.array([rng.permutation(4) for _ in range(n)])
    rows["could"] = order.tolist()
    rows["chances"] = np.take_along_axis(mu, order, axis=1).tolist()
    listed = piwo.read(pa.table(rows), actions=list(range(4)), **TAKES)
    for interval in ("auto", "mixture-cv", "deadline-cv"):
        policies = {
            "uniform": Uniform(range(4)),
            "two": Constant(2, range(4)),
            "mixed": Mixture([Constant(1, range(4)), Uniform(range(4))], [0.5, 0.5]),
        }
        expected = piwo.compare(fixed, policies, interval=interval)
        found = piwo.compare(listed, policies, interval=interval)
        for name, one in expected.items():
            assert found[name].interval == one.interval
            for field in ("value", "lower", "upper", "improvement_lower"):
                assert getattr(found[name], field) == pytest.approx(getattr(one, field), rel=1e-9)


def test_every_kind_of_policy_gives_the_pairs_of_its_full_vectors() -> None:
    rows, rng = rows_of(200, 6), np.random.default_rng(7)
    log = read(rows | {"x": rng.normal(size=200).tolist()}, context="x")
    table = RowWise(rng.dirichlet(np.ones(MANY), 200), log.actions)
    scores = piwo.policies.LinearGreedy(
        rng.normal(size=(MANY, 1)), rng.random(MANY), log.actions, features=log.features
    )
    chosen = piwo.policies.RowChoices(rows["action"], log.actions)
    kinds = [
        table,
        chosen,
        scores,
        Uniform(log.actions),
        piwo.policies.Logging(log.actions),
        EpsilonGreedy(table, 0.2),
        Mixture([table, Uniform(log.actions)], [0.3, 0.7]),
    ]
    for batch in log.each_batch(context=True):
        for policy in kinds:
            pairs, full = policy.pairs(batch), policy.full(batch)
            listed = batch.eligible
            assert pairs == pytest.approx(full[listed.rows, listed.codes], abs=1e-15)
            assert full.sum(axis=1) == pytest.approx(1.0)
            at = listed.places(batch.action)
            assert pairs[at] == pytest.approx(policy.logged(batch), abs=1e-12)
    short = piwo.policies.policy.aligned(Uniform([0, 1]), log.actions)
    few = read(
        {x: values[:1] for x, values in rows.items()}
        | {"could": [[1, 5]]}
        | {"action": [5], "chances": [[0.5, 0.5]]}
    )
    for batch in few.each_batch():
        assert short.pairs(batch).tolist() == [1.0, 0.0]


def test_the_default_takes_them_if_the_log_has_the_lists() -> None:
    rows = rows_of(1500, 8)
    policy = Uniform(range(MANY))
    listed = piwo.evaluate(read(rows), policy)
    assert listed.interval == "deadline-cv"
    at = [could.index(a) for could, a in zip(rows["could"], rows["action"], strict=True)]
    rows["p"] = [chances[i] for chances, i in zip(rows["chances"], at, strict=True)]
    plain = piwo.evaluate(read(rows, propensities=None, propensity="p"), policy)
    assert plain.interval == "deadline"
    assert not [x for x in plain.notes if x.kind == "control-variate"]
    assert plain.value == pytest.approx(listed.value, rel=1e-12)
    assert listed.upper - listed.lower < plain.upper - plain.lower
    with pytest.raises(piwo.UsageError, match="the propensity of the logged action only"):
        piwo.evaluate(read(rows, propensities=None, propensity="p"), policy, interval="mixture-cv")


HURTS = np.array([0.95, 0.9, 0.05, 0.5])
"""What four actions earn. The logger takes the best one that there is with probability .9 at
least, the policy the worst; weights reach 60."""
SETS = ([0, 1, 2], [1, 2], [0, 3], [2, 3], [1])


def hurtful(n: int, rng: np.random.Generator) -> dict[str, list[Any]]:
    chances = {0: [0.96, 0.02, 0.02], 1: [0.98, 0.02], 2: [0.9, 0.1], 3: [0.05, 0.95], 4: [1.0]}
    rows: dict[str, list[Any]] = {x: [] for x in ("action", "reward", "could", "chances")}
    for kind in rng.choice(5, n, p=[0.4, 0.2, 0.2, 0.1, 0.1]).tolist():
        action = SETS[kind][rng.choice(len(SETS[kind]), p=chances[kind])]
        rows["action"].append(action)
        rows["reward"].append(float(rng.random() < HURTS[action]))
        rows["could"].append(SETS[kind])
        rows["chances"].append(chances[kind])
    return rows


@pytest.mark.parametrize("interval", ["mixture-cv", "deadline-cv"])
def test_bounds_are_wrong_no_more_often_than_they_say(interval: str) -> None:
    """At delta = .2, 150 logs of 400 rows: each side at most .1 and three standard errors."""
    rng, pi = np.random.default_rng(9), np.array([0.05, 0.15, 0.6, 0.2])
    value = logging = 0.0
    chances = ([0.96, 0.02, 0.02], [0.98, 0.02], [0.9, 0.1], [0.05, 0.95], [1.0])
    for share, could, mu in zip([0.4, 0.2, 0.2, 0.1, 0.1], SETS, chances, strict=True):
        own = pi[could] / pi[could].sum()
        value += share * own @ HURTS[could]
        logging += share * np.array(mu) @ HURTS[could]
    missed = np.zeros(3)
    for _ in range(150):
        log = piwo.read(pa.table(hurtful(400, rng)), actions=[0, 1, 2, 3], **TAKES)
        found = piwo.evaluate(log, Tabular(pi, log.actions), delta=0.2, interval=interval)
        missed += [
            found.lower > value,
            found.upper < value,
            found.improvement_lower > value - logging,
        ]
    most = 0.1 + 3 * np.sqrt(0.1 * 0.9 / 150)
    assert (missed / 150 <= most).all()
