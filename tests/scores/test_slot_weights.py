"""Weights of slates: by hand, averages under the logger, and the least of the pseudo-inverse."""

from __future__ import annotations

from itertools import permutations

import numpy as np
import pytest

from piwo.scores.slot_weights import (
    above_weights,
    least_of_product,
    least_of_ranking,
    pseudo_inverse_of_product,
    pseudo_inverse_of_ranking,
    slot_weights,
    whole_weights,
)

PI = np.array([[0.2, 0.0, 1.0], [0.5, 0.5, 0.5]])
MU = np.array([[0.4, 0.5, 0.5], [0.25, 0.5, 1.0]])


def test_weights_worked_by_hand() -> None:
    assert slot_weights(PI, MU).w.tolist() == [[0.5, 0.0, 2.0], [2.0, 1.0, 0.5]]
    assert above_weights(PI, MU).w.tolist() == [[0.5, 0.0, 0.0], [2.0, 2.0, 1.0]]
    assert whole_weights(PI, MU).w.tolist() == [[0.0], [1.0]]
    assert pseudo_inverse_of_product(PI, MU).w.tolist() == [[0.5], [1.5]]


def test_logarithms_are_those_of_the_weights() -> None:
    rows = np.array([1])
    for make in (slot_weights, above_weights, whole_weights):
        made = make(PI, MU)
        assert np.exp(made.logarithm(rows)) == pytest.approx(made.w[rows])


def test_products_beyond_float64_keep_their_logarithm_and_their_zeros() -> None:
    pi, mu = np.array([[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]), np.full((2, 3), 1e-200)
    made = above_weights(pi, mu)
    assert made.w.tolist() == [[1e200, np.inf, 0.0], [1e200, np.inf, np.inf]]
    assert made.logarithm(np.array([1]))[0, 2] == pytest.approx(600 * np.log(10))


@pytest.mark.parametrize(("slots", "items"), [(1, 4), (2, 3), (2, 4), (2, 6), (3, 3), (4, 5)])
def test_weights_of_rankings_average_one_and_are_not_below_their_least(
    slots: int, items: int
) -> None:
    every = np.array(list(permutations(range(items), slots)))
    least = []
    for best in every[:: max(1, len(every) // 6)]:
        across = (every[:, :, None] == best[None, None, :]).astype(float)
        lengths = np.full(len(every), slots)
        w = pseudo_inverse_of_ranking(across, lengths, items).w
        assert w.mean() == pytest.approx(1.0)
        least.append(w.min())
    assert min(least) >= -least_of_ranking(slots, items) - 1e-9
    # reached if the target's items need not be shown at all
    if 2 * slots <= items:
        assert min(least) == pytest.approx(-least_of_ranking(slots, items))


def test_weights_of_products_reach_their_least() -> None:
    pi = np.zeros((1, 4))
    assert pseudo_inverse_of_product(pi, np.full((1, 4), 0.5)).w[0, 0] == -least_of_product(4)
