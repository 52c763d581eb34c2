"""The table of gains: by hand, against a naive twin, and as what oracles maximize."""

import numpy as np
import pyarrow as pa
import pytest

import piwo
from piwo.errors import DataError, UsageError
from piwo.oracles import gain_blocks

LABELS = ["a", "b", "c"]


def make_log(n=200, **options):
    rng = np.random.default_rng(3)
    mu = rng.dirichlet(np.ones(3) * 2, n)
    action = np.array([rng.choice(3, p=p) for p in mu])
    return piwo.Log.from_arrays(
        context=rng.normal(size=(n, 2)),
        action=np.array(LABELS)[action],
        reward=rng.random(n),
        propensities=mu,
        actions=LABELS,
        **options,
    )


def naive(log, score):
    """One entry at a time; what oracles sum."""
    table = np.zeros((len(log), len(log.actions)))
    for batch in log.each_batch(context=True, propensities=True):
        logged = score.gains(batch)
        for i, t in enumerate(batch.row_numbers):
            weight = 1.0 if batch.weight is None else batch.weight[i]
            table[t, batch.action[i]] += weight * logged[i]
            if score.dense_weight:
                dense = score.dense_gains(batch).table
                for a in range(table.shape[1]):
                    table[t, a] += weight * score.dense_weight * dense[i, a]
    return table


def test_sparse_gains_by_hand():
    log = piwo.Log.from_arrays(
        action=["b", "a", "b"], reward=[1, 0, 0.5], propensity=[0.4, 0.5, 0.15], actions=LABELS
    )
    table = piwo.gains(log, piwo.IX(0.1))
    assert table.format == "csr"
    # R / (mu + gamma), one entry a row also where it is 0
    assert table.data == pytest.approx([2.0, 0.0, 2.0])
    assert table.indices.tolist() == [1, 0, 1]
    assert table.indptr.tolist() == [0, 1, 2, 3]


def test_doubly_robust_gains_by_hand():
    log = piwo.Log.from_arrays(
        action=["a"], reward=[1], propensities=[[0.5, 0.5]], actions=["a", "b"]
    )
    table = piwo.gains(log, piwo.DoublyRobustLS(1.0, q=0.5, k=4.0))
    # Y(a) = (R - b)/mu + b + k, b = q
    assert table == pytest.approx(np.log([[1 + 0.5 / 0.5 + 4.5, 1 + 4.5]]))


def test_costs_are_gains_above_the_highest_cost():
    frame = pa.table({"action": ["a", "b"], "cost": [4.0, 1.0], "p": [0.5, 0.5]})
    log = piwo.read(frame, action="action", cost="cost", propensity="p", reward_range=(-4, 0))
    assert piwo.gains(log, piwo.IW()).toarray() == pytest.approx(np.array([[0, 0], [0, 1.5]]))


SCORES = [
    piwo.IX(0.1),
    piwo.IW(),
    piwo.LSLinear(0.3),
    piwo.PseudoLoss(0.05),
    piwo.BaselineRelative(0.2),
    piwo.DoublyRobustLS(0.3, q=0.4, k=2.0),
]


@pytest.mark.parametrize("score", SCORES, ids=lambda score: score.name)
@pytest.mark.parametrize("weighted", [False, True])
def test_gains_are_those_of_the_naive_twin(score, weighted):
    options = {}
    if weighted:
        options["weight"] = np.linspace(1, 3, 200)
    log = make_log(**options)
    table = piwo.gains(log, score)
    if not isinstance(table, np.ndarray):
        table = table.toarray()
    assert table == pytest.approx(naive(log, score), rel=1e-12)


@pytest.mark.parametrize("score", [piwo.IX(0.1), piwo.PseudoLoss(0.05)], ids=lambda x: x.name)
def test_rows_stay_in_the_order_of_the_log_if_it_has_units(score):
    n = 60
    rng = np.random.default_rng(0)
    frame = pa.table(
        {
            "a": rng.integers(0, 3, n),
            "r": rng.random(n),
            "p": [[0.2, 0.3, 0.5]] * n,
            "user": rng.integers(0, 9, n),
        }
    )
    log = piwo.read(frame, action="a", reward="r", propensities="p", actions=range(3), unit="user")
    table = piwo.gains(log, score)
    if not isinstance(table, np.ndarray):
        assert (table.indices == frame["a"].to_numpy()).all()
        table = table.toarray()
    assert table == pytest.approx(naive(log, score), rel=1e-12)


def test_the_mean_of_gains_is_the_estimate_of_the_score():
    log = make_log(weight=np.linspace(1, 3, 200))
    policy = piwo.policies.Constant("b", LABELS)
    table = piwo.gains(log, piwo.IX(0.1))
    weight = np.linspace(1, 3, 200)
    expected = piwo.evaluate(log, policy, estimator="ix", gamma=0.1).value
    assert table[:, [1]].sum() / weight.sum() == pytest.approx(expected)


@pytest.mark.parametrize("score", [piwo.IX(0.1), piwo.PseudoLoss(0.05)], ids=lambda x: x.name)
def test_blocks_are_the_table_with_its_context(score, monkeypatch):
    log = make_log()
    monkeypatch.setattr("piwo.oracles.gain_table._BLOCK_BYTES", 500)
    blocks = list(gain_blocks(log, score))
    assert len(blocks) > 1
    tables = [x.table if isinstance(x.table, np.ndarray) else x.table.toarray() for x in blocks]
    assert np.concatenate(tables) == pytest.approx(naive(log, score))
    assert np.concatenate([x.rows for x in blocks]).tolist() == list(range(200))
    context = next(log.each_batch(context=True)).context
    assert (np.concatenate([x.context for x in blocks]) == context).all()


def test_a_part_of_a_log_gives_its_own_rows():
    log = make_log()
    part = log.split(0.5).test
    rows = np.concatenate([x.rows for x in gain_blocks(part, piwo.IX(0.1))])
    whole = piwo.gains(log, piwo.IX(0.1)).toarray()
    assert (piwo.gains(part, piwo.IX(0.1)).toarray() == whole[rows]).all()


def test_what_has_no_table_is_refused(monkeypatch):
    log = make_log()
    with pytest.raises(UsageError, match="LS is not linear"):
        piwo.gains(log, piwo.LS(0.1))
    with pytest.raises(UsageError, match="gamma of IX is 'auto'"):
        piwo.gains(log, piwo.IX())
    with pytest.raises(UsageError, match="gamma of IX is 'auto'"):
        gain_blocks(log, piwo.IX())
    tiny = piwo.Log.from_arrays(action=["a"], reward=[1], log_propensity=[-800.0], actions=LABELS)
    with pytest.raises(DataError, match="beyond float64 in row 0"):
        piwo.gains(tiny, piwo.IW())
    monkeypatch.setattr("piwo.policies.blocks.DENSE_LIMIT", 4000)
    with pytest.raises(UsageError, match=r"200 rows x 3 actions .*gain_blocks"):
        piwo.gains(log, piwo.PseudoLoss(0.05))
    assert piwo.gains(log, piwo.IX(0.1)).shape == (200, 3)
