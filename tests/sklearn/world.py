"""Logged decisions for the tests of piwo.sklearn: arrays, as scikit-learn has them."""

from typing import Any

import numpy as np

LABELS = np.array(["a", "b", "c"])


def rows(n: int = 600, seed: int = 0) -> dict[str, Any]:
    """X, y and metadata; action b is best for positive x0, c for others; the logger prefers a."""
    rng = np.random.default_rng(seed)
    X = rng.normal(5.0, 2.0, size=(n, 3))
    chances = np.tile([0.5, 0.25, 0.25], (n, 1))
    code = (rng.random(n)[:, None] > chances.cumsum(axis=1)).sum(axis=1)
    best = np.where(X[:, 0] > 5.0, 1, 2)
    reward = (rng.random(n) < np.where(code == best, 0.9, 0.2)).astype(float)
    return {
        "X": X,
        "y": LABELS[code],
        "reward": reward,
        "propensity": chances[np.arange(n), code],
        "propensities": chances,
        "unit": rng.integers(0, n // 4, n),
    }


def metadata(made: dict[str, Any], some: Any = slice(None)) -> dict[str, Any]:
    """Reward and propensity of some rows."""
    return {"reward": made["reward"][some], "propensity": made["propensity"][some]}
