"""Importance weights of slates: of the whole slate, of its beginning, and of one slot alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from piwo.logs.batch import Floats
from piwo.scores.ratio import over

__all__ = [
    "SlotWeights",
    "above_weights",
    "least_of_product",
    "least_of_ranking",
    "pseudo_inverse_of_product",
    "pseudo_inverse_of_ranking",
    "slot_weights",
    "whole_weights",
]

Rows = npt.NDArray[np.intp]


@dataclass(frozen=True)
class SlotWeights:
    """The weights of the slots of n slates, and their logarithms in case they overflow."""

    w: Floats
    """(n, S); S is 1 for weights of whole slates. inf if a weight is beyond float64."""
    logarithm: Callable[[Rows], Floats]
    """Returns the (m, S) logarithms of the weights of some rows; -inf if a weight is 0."""


def slot_weights(pi: Floats, mu: Floats) -> SlotWeights:
    """Return pi_l / mu_l for every slot.

    Args:
        pi: (n, L) the target's probabilities; 1 beyond the end of a slate.
        mu: (n, L) the logger's.

    >>> slot_weights(np.array([[0.5, 0.0]]), np.array([[0.25, 0.5]])).w.tolist()
    [[2.0, 0.0]]
    """
    return SlotWeights(_ratios(pi, mu), lambda rows: _log_ratios(pi[rows], mu[rows]))


def above_weights(pi: Floats, mu: Floats) -> SlotWeights:
    """Return w_l = prod_{j <= l} pi_j / mu_j, the weight of a slot and those above it.

    Args:
        pi: (n, L) the target's probability of each action given those above it.
        mu: (n, L) the logger's.

    >>> above_weights(np.array([[0.5, 1.0]]), np.array([[0.25, 0.5]])).w.tolist()
    [[2.0, 4.0]]
    """
    with np.errstate(over="ignore", invalid="ignore"):
        w = np.cumprod(_ratios(pi, mu), axis=1, dtype=np.float64)
    # inf * 0, which is 0: an action that the target does not show
    w[np.isnan(w)] = 0.0
    return SlotWeights(w, lambda rows: np.cumsum(_log_ratios(pi[rows], mu[rows]), axis=1))


def whole_weights(pi: Floats, mu: Floats) -> SlotWeights:
    """Return the weight of the whole slate, (n, 1), from probabilities by slot or of the slate.

    Args:
        pi: (n, L) the target's probability of each action given those above it; or (n, 1) of the
            slate.
        mu: the logger's.

    >>> whole_weights(np.array([[0.5, 1.0]]), np.array([[0.25, 0.5]])).w.tolist()
    [[4.0]]
    """
    above = above_weights(pi, mu)
    return SlotWeights(above.w[:, -1:], lambda rows: above.logarithm(rows)[:, -1:])


def pseudo_inverse_of_product(pi: Floats, mu: Floats) -> SlotWeights:
    """Return the pseudo-inverse weight for a logger that draws each slot independently, (n, 1).

        sum_l pi_l / mu_l - (L - 1)

    Args:
        pi: (n, L) the target's marginal probabilities; 1 beyond the end of a slate.
        mu: (n, L) the logger's.

    >>> pseudo_inverse_of_product(np.array([[1.0, 0.0]]), np.full((1, 2), 0.5)).w.tolist()
    [[1.0]]

    Source: Swaminathan et al. 2017 (arXiv 1605.04812), section 3: Gamma of a product.
    """
    slots = pi.shape[1]
    # beyond the end of a slate each ratio is 1, so that subtracting L - 1 of the table is right
    w = _ratios(pi, mu).sum(axis=1, keepdims=True) - (slots - 1)
    return SlotWeights(w, lambda rows: np.log(w[rows]))


def pseudo_inverse_of_ranking(
    across: Floats, lengths: npt.NDArray[np.int64], items: int
) -> SlotWeights:
    """Return the pseudo-inverse weight for a logger that ranks uniformly, (n, 1).

    The logger shows L of m items, without repeats, each ordered choice being as likely. With the
    target's marginal probabilities p_j(a) of item a in slot j, and the shown items a_1, ..., a_L,

        A = sum_l p_l(a_l),   C = sum_l sum_j p_j(a_l),
        1 + (m - 1) (A - L/m) + (C - L^2/m) (m - 1)/(m - L),   without the last term if m = L

    which is q' Gamma^+ 1_s with the eigenvalues of Gamma written out.

    Args:
        across: (n, L, L) p_j(a_l) by row, shown item l and slot j; 0 beyond the end of a slate.
        lengths: (n,) L of each slate.
        items: m.

    >>> sure = np.array([[[1.0, 0.0], [0.0, 1.0]]])
    >>> pseudo_inverse_of_ranking(sure, np.array([2]), 3).w.tolist()
    [[5.0]]

    Source: Swaminathan et al. 2017 (arXiv 1605.04812), Eq. (3) and their appendix on uniform
    rankings.
    """
    m, size = float(items), lengths.astype(np.float64)
    at = np.einsum("tll->t", across)
    anywhere = across.sum(axis=(1, 2))
    w = 1.0 + (m - 1.0) * (at - size / m)
    partial = lengths < items
    rest = (m - 1.0) * (anywhere - size * size / m)
    w += np.divide(rest, m - size, out=np.zeros(len(w)), where=partial)
    return SlotWeights(w[:, None], lambda rows: np.log(w[rows, None]))


def least_of_product(slots: int) -> float:
    """Return B: weights of `pseudo_inverse_of_product` are at least -B = -(L - 1).

    >>> least_of_product(3)
    2.0
    """
    return slots - 1.0


def least_of_ranking(slots: int, items: int) -> float:
    """Return B: weights of `pseudo_inverse_of_ranking` of up to L slots are at least -B.

    The formula at A = C = 0 is 1 - (m - 1) L/(m - L), and at A = 0 with m = L it is 2 - m.

    >>> least_of_ranking(1, 5), least_of_ranking(2, 3), least_of_ranking(3, 3)
    (0.0, 3.0, 3.0)
    """
    partial = min(slots, items - 1)
    least = 0.0
    if partial > 0:
        least = (items - 1.0) * partial / (items - partial) - 1.0
    if slots >= items:
        least = max(least, items - 2.0)
    return max(0.0, least)


def _ratios(pi: Floats, mu: Floats) -> Floats:
    return over(pi.ravel(), mu.ravel()).reshape(pi.shape)


def _log_ratios(pi: Floats, mu: Floats) -> Floats:
    with np.errstate(divide="ignore"):
        # log pi - log mu; mu > 0
        return np.log(pi) - np.log(mu)
