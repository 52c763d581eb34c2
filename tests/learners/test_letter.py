"""The paper's picture on real classes: implicit exploration is robust, pseudo-losses fall with a
greedy logger."""

import math

import numpy as np
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.simulate import ClassificationBandit

ETA = 33.6
"""Inverse temperature of the logger, the paper's 14th of 20."""
GRID = np.logspace(-10, 0, 20)


def learn(X, y, seed):
    """Return the true values of PIWO-IX over gammas, at sqrt(d/n), and of PIWO-PL over betas, on
    held-out rows."""
    rng = np.random.default_rng(seed)
    labels = sorted(set(y.tolist()))
    bandit = ClassificationBandit(
        X, y, rewards=ClassificationBandit.paper_rewards(len(labels), rng), actions=labels
    )
    order = rng.permutation(len(y))
    first, train, test = np.split(order, [len(y) // 10, len(y) * 8 // 10])
    logger = bandit.take(first).softmax_logger(ETA, rows=1.0)
    log = bandit.take(train).log(logger, random_state=rng, full_propensities=True)
    test = bandit.take(test)
    tuned = math.sqrt(X.shape[1] / len(train))
    scores = [*(piwo.IX(g) for g in GRID), piwo.IX(tuned), *(piwo.PseudoLoss(b) for b in GRID)]
    values = [test.value(policy) for policy in piwo.oracles.Ridge().solve_path(log, scores)]
    return np.array(values[:20]), values[20], np.array(values[21:])


def test_letter_with_a_nearly_greedy_logger(shared_data):
    table = pq.read_table(shared_data / "letter.parquet")
    X = np.column_stack([table[i].to_numpy() for i in range(16)]).astype(float)
    y = np.asarray(table[16].to_pylist())
    ix, tuned, pl = learn(X, y, seed=0)
    assert tuned >= ix.max() - 0.02
    assert pl.max() <= tuned - 0.08
    assert tuned == pytest.approx(0.763, abs=0.04)
    assert pl.max() == pytest.approx(0.628, abs=0.05)


def test_the_same_on_data_that_every_machine_has():
    from sklearn.datasets import load_digits

    X, y = load_digits(return_X_y=True)
    ix, tuned, _ = learn(X / 16.0, y, seed=0)
    assert tuned >= ix.max() - 0.03
