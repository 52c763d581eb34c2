"""Policy trees: by hand, against every tree there is, and where one look ahead is too few."""

from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.engines.stages import OutOfTimeError
from piwo.errors import DataError, UsageError
from piwo.oracles import PolicyTree
from piwo.scores import Score


def make_log(n=300, actions=3, columns=3, seed=0, **options):
    rng = np.random.default_rng(seed)
    mu = rng.dirichlet(np.ones(actions) * 2, n)
    action = np.array([rng.choice(actions, p=p) for p in mu])
    given = {
        "context": rng.integers(0, 4, (n, columns)),
        "action": action,
        "reward": rng.integers(0, 3, n) / 2,
        "propensities": mu,
        "actions": range(actions),
    }
    return piwo.Log.from_arrays(**{**given, **options})


@dataclass(frozen=True)
class Signed(Score):
    """A score of a user: rewards below 1/2 count against the action."""

    name: ClassVar[str] = "signed"
    label: ClassVar[str] = "Signed"

    @classmethod
    def gains_path(cls, batch, parameters):
        gains = (batch.reward - 0.8) / batch.propensity
        return np.repeat(gains[:, None], len(parameters), axis=1)


def table_of(log, score):
    found = piwo.gains(log, score)
    return found if isinstance(found, np.ndarray) else found.toarray()


def best_by_force(X, G, kept, depth, least):
    """The highest sum of gains of any tree on all thresholds; kept: rows that count for `least`."""
    best = G.sum(axis=0).max() if len(G) else 0.0
    if depth == 0:
        return best
    for f in range(X.shape[1]):
        for edge in np.unique(X[:, f])[:-1]:
            left = X[:, f] <= edge
            if min(kept[left].sum(), kept[~left].sum()) < least:
                continue
            parts = [
                best_by_force(X[some], G[some], kept[some], depth - 1, least)
                for some in (left, ~left)
            ]
            best = max(best, sum(parts))
    return best


def collected(policy, X, G):
    return G[np.arange(len(X)), policy.choose(np.asarray(X, float))].sum()


SCORES = [piwo.IX(0.1), piwo.PseudoLoss(0.3), piwo.DoublyRobustLS(0.5, q=0.4, k=2.0), Signed()]


@pytest.mark.parametrize("depth", [1, 2])
@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("least", [1, 15])
def test_no_tree_of_depth_two_collects_more(depth, score, least):
    for seed in range(3):
        log = make_log(80, seed=seed)
        batch, G = log.first_batch(context=True), table_of(log, score)
        X, kept = batch.context, (batch.reward > 0) | (score.dense_weight != 0)
        G = G * kept[:, None]
        policy = PolicyTree(depth, least=least).solve(log, score)
        best = best_by_force(X, G, kept, depth, least)
        assert collected(policy, X, G) == pytest.approx(best, rel=1e-12)


def test_a_tree_by_hand():
    # IW gains 1/mu: x <= 1 collects 2 + 4 with "a", x > 1 collects 2 + 2 with "b"
    log = piwo.Log.from_arrays(
        context=[[0.0], [1.0], [1.0], [2.0], [4.0], [4.0]],
        action=["a", "a", "b", "b", "b", "a"],
        reward=[1, 1, 1, 1, 1, 0],
        propensity=[0.5, 0.25, 0.5, 0.5, 0.5, 0.5],
    )
    policy = PolicyTree(least=1).solve(log, piwo.IW())
    assert policy.nodes.tolist() == [[0, 1.5, 1, 0], [-1, 0, 0, 1], [-1, 0, 1, 1]]
    # rewarded rows count for `least`: 3 are left and 2 right, so that no split is allowed
    alone = PolicyTree(least=3).solve(log, piwo.IW())
    # "a" and "b" both collect 6: the first of equal actions
    assert alone.act(n=1).actions.tolist() == ["a"]


def test_two_looks_see_what_one_does_not():
    bits = np.array(list(product([0, 1], repeat=2)) * 60)
    best = bits[:, 0] ^ bits[:, 1]
    action = np.repeat([0, 1], 120)
    log = piwo.Log.from_arrays(
        context=bits, action=action, reward=(action == best) * 1.0, propensity=np.full(240, 0.5)
    )
    one = PolicyTree(lookahead=1).solve(log, piwo.IX(0.1))
    two = PolicyTree().solve(log, piwo.IX(0.1))
    assert (two.choose(bits.astype(float)) == best).all()
    assert one.kind == "constant"


def test_deeper_trees_collect_more_and_look_two_splits_ahead():
    rng = np.random.default_rng(0)
    bits = rng.integers(0, 2, (4000, 4))
    best = 4 * bits[:, 0] + 2 * bits[:, 1] + (bits[:, 2] ^ bits[:, 3])
    action = rng.integers(0, 8, 4000)
    log = piwo.Log.from_arrays(
        context=bits, action=action, reward=(action == best) * 1.0, propensity=np.full(4000, 1 / 8)
    )
    G = table_of(log, piwo.IX(0.1))
    found = [PolicyTree(depth, least=1).solve(log, piwo.IX(0.1)) for depth in (1, 2, 3, 4)]
    value = [collected(policy, bits, G) for policy in found]
    assert value == sorted(value)
    assert (found[-1].choose(bits.astype(float)) == best).all()
    # a tree of depth 4 has at most 16 leaves
    assert (found[-1].nodes[:, 0] < 0).sum() == 16


@pytest.mark.parametrize("score", [piwo.IX(0.1), piwo.PseudoLoss(0.3)], ids=lambda x: x.name)
def test_neither_the_order_of_rows_nor_threads_matter(score, monkeypatch):
    log = make_log(500, columns=5)
    batch = log.first_batch(context=True)
    full = next(log.each_batch(context=True, propensities=True))
    order = np.random.default_rng(1).permutation(500)
    again = make_log(
        context=batch.context[order],
        action=batch.action[order],
        reward=batch.reward[order],
        propensities=full.propensities[order],
    )
    made = []
    for rows, cells in product((log, again), (0, 2**62)):
        monkeypatch.setattr("piwo.oracles.policy_tree._FEW_CELLS", cells)
        made.append(PolicyTree(4, least=5).solve(rows, score))
    assert len(made[0].nodes) > 7
    for one in made[1:]:
        assert np.array_equal(one.nodes, made[0].nodes)


def test_duplicates_and_weights_count_alike():
    frame = {"context": [[0.0], [0.0], [1.0]], "action": [0, 1, 1], "reward": [1, 1, 1]}
    weighted = piwo.Log.from_arrays(**frame, propensity=[0.5] * 3, weight=[1.0, 3.0, 1.0])
    copied = {name: [x[0], x[1], x[1], x[1], x[2]] for name, x in frame.items()}
    for log in (weighted, piwo.Log.from_arrays(**copied, propensity=[0.5] * 5)):
        assert PolicyTree(least=1).solve(log, piwo.IX(0.1)).act(n=1).actions.tolist() == [1]


def test_gains_of_any_size_are_compared():
    X = np.repeat([[0.0], [1.0]], 4, axis=0)
    A = np.array([0, 0, 0, 1] * 2)
    for mu in (1e-300, 1e-9, 1e-3):
        # action 1 was rare when x = 1, common when x = 0
        p = np.where(A == 0, 0.5, np.where(X[:, 0] > 0, mu, 0.9))
        log = piwo.Log.from_arrays(context=X, action=A, reward=np.ones(8), propensity=p)
        policy = PolicyTree(least=1).solve(log, piwo.IW())
        assert policy.choose(X)[4:].tolist() == [1] * 4
        # next to 1e300 other gains are 0, in sums of floating-point numbers too
        assert policy.choose(X)[:4].tolist() == [int(mu == 1e-300)] * 4
    tiny = piwo.Log.from_arrays(
        context=X, action=A, reward=np.ones(8), log_propensity=np.full(8, -800.0)
    )
    with pytest.raises(DataError, match="gain of IW is beyond float64"):
        PolicyTree().solve(tiny, piwo.IW())


class Steep:
    """Logs of propensities, as low as -2000 for action 0 where the context is high."""

    features = None

    def __init__(self):
        self.actions = piwo.Actions([0, 1])

    def probabilities(self, X):
        return np.exp(self.log_probabilities(X))

    def log_probabilities(self, X):
        low = np.where(X[:, 0] > 0, -2000.0, np.log(0.5))
        return np.column_stack([low, np.log1p(-np.exp(low))])


def test_dense_gains_beyond_float64_are_compared():
    X = np.repeat([[0.0], [1.0]], 40, axis=0)
    log = piwo.Log.from_arrays(
        context=X,
        action=[1] * 80,
        reward=np.ones(80),
        propensity=[0.5] * 40 + [1.0] * 40,
        actions=[0, 1],
        behavior=Steep(),
    )
    assert PolicyTree().solve(log, piwo.PseudoLoss(0.1)).choose(X).tolist() == [1] * 80


def test_one_action_and_constant_columns():
    one = make_log(actions=1)
    assert PolicyTree().solve(one, piwo.IX(0.1)).act(n=1).actions.tolist() == [0]
    flat = make_log(context=np.ones((300, 2)))
    best = table_of(flat, piwo.IX(0.1)).sum(axis=0).argmax()
    assert PolicyTree().solve(flat, piwo.IX(0.1)).act(n=1).actions.tolist() == [best]


def test_without_any_reward_there_is_nothing_to_learn_from():
    log = make_log(reward=np.zeros(300))
    with pytest.raises(DataError, match="nothing to learn from"):
        PolicyTree().solve(log, piwo.IX(0.1))
    # gains that credit other actions do not need rewards
    assert PolicyTree().solve(log, piwo.PseudoLoss(0.3)).choose(np.zeros((1, 3))).shape == (1,)


def learned_from(frame):
    log = piwo.read(
        frame,
        action="a",
        reward="r",
        propensity="p",
        context=["device", "hour"],
        missing="indicator",
    )
    return PolicyTree().solve(log, piwo.IX(0.1))


def test_it_is_saved_with_text_and_missing_values(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    device, hour = rng.choice(["tv", "phone", "web"], n), rng.integers(0, 24, n).astype(float)
    hour[rng.random(n) < 0.2] = np.nan
    action = rng.choice(["x", "y"], n)
    best = np.where((device == "tv") | np.isnan(hour), "x", "y")
    frame = pa.table(
        {
            "device": device,
            "hour": pa.array(hour, from_pandas=True),
            "a": action,
            "r": (action == best) * 1.0,
            "p": np.full(n, 0.5),
        }
    )
    with pytest.warns(piwo.PiwoWarning, match="'hour' in"):
        policy = learned_from(frame)
    assert policy.act(frame).actions.tolist() == best.tolist()
    policy.save(tmp_path / "p.piwo")
    assert np.array_equal(piwo.load(tmp_path / "p.piwo").nodes, policy.nodes)


def test_a_path_shares_policies_of_proportional_gains():
    log = make_log(propensities=np.full((300, 3), 1 / 3))
    one, two, dense = PolicyTree().solve_path(
        log, [piwo.IX(0.1), piwo.IX(1.0), piwo.PseudoLoss(0.1)]
    )
    assert one is two
    assert dense is not one
    alone = PolicyTree().solve(log, piwo.PseudoLoss(0.1))
    assert np.array_equal(alone.nodes, dense.nodes)


def test_it_learns_with_a_certificate():
    log = make_log(600, propensities=np.full((600, 3), 1 / 3))
    learner = piwo.PIWO(piwo.IX(0.1), PolicyTree()).fit(log)
    assert learner.certificate_.value_lower is not None
    assert PolicyTree().log_class_size() is None
    with pytest.raises(UsageError, match="in-sample"):
        piwo.PIWO(piwo.IX(0.1), PolicyTree(), certificate="in-sample").fit(log)


def test_it_stops_between_nodes_when_time_is_up(monkeypatch):
    left = [3]

    def count(limit=None):
        left[0] -= 1
        if left[0] < 0:
            raise OutOfTimeError

    monkeypatch.setattr("piwo.oracles.policy_tree.check_time", count)
    with pytest.raises(OutOfTimeError):
        PolicyTree(6, least=1).solve(make_log(), piwo.IX(0.1))


@pytest.mark.parametrize(
    "given", [{"depth": 0}, {"depth": 13}, {"lookahead": 3}, {"bins": 1}, {"bins": 257}]
)
def test_numbers_out_of_range_are_refused(given):
    with pytest.raises(UsageError, match=f"{next(iter(given))}"):
        PolicyTree(**given)


def test_large_tables_are_refused_before_they_are_read(monkeypatch):
    monkeypatch.setattr("piwo.policies.blocks.DENSE_LIMIT", 1000)
    with pytest.raises(UsageError, match=r"300 rows x 3 actions .* ridge oracle"):
        PolicyTree().solve(make_log(), piwo.PseudoLoss(0.1))
