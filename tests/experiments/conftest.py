"""Made-up results, shaped like those of the paper."""

from collections.abc import Callable, Sequence

import numpy as np
import pyarrow as pa
import pytest

ETAS = np.logspace(-1, 3, 20)
HS = np.logspace(-10, 0, 20)
ALGORITHMS = ("PIWO-IX", "PIWO-Clip", "PIWO-PL", "PIWO-LS")

Shape = Callable[[str, str, float, float], float]
"""Set, algorithm, eta, h to the mean reward."""


def step(x: float) -> float:
    """From 0 to 1 as x goes from far below 0 to far above."""
    return float(1.0 / (1.0 + np.exp(-x)))


def like_the_paper(name: str, algorithm: str, eta: float, h: float) -> float:
    """Every claim holds: IX keeps its level unless h is tiny, PL falls, a large h hurts with bad
    loggers."""
    power = np.log10(h)
    greedy = step(6 * (np.log10(eta) - 1.25))
    if name == "bad":
        if algorithm == "PIWO-PL":
            return (
                0.69 - 0.35 * step(2 * (power + 4)) * step(5 * (np.log10(eta) - 0.3)) - 0.3 * greedy
            )
        return (
            0.69 - 0.33 * step(2 * (power + 1.3)) * step(5 * (np.log10(eta) - 0.3)) - 0.2 * greedy
        )
    if algorithm == "PIWO-PL":
        return 0.715 - greedy * (0.12 + 0.1 * step(power + 4))
    return (
        0.715 - 0.2 * greedy * step(-2 * (power + 6.5)) - 0.01 * (algorithm == "PIWO-Clip") * greedy
    )


def behavior(name: str, eta: float) -> float:
    return 0.51 + (0.2 if name == "good" else -0.2) * step(4 * (np.log10(eta) - 0.6))


def fabricated(
    shape: Shape = like_the_paper,
    sets: Sequence[str] = ("good", "bad"),
    algorithms: Sequence[str] = ALGORITHMS,
    etas: Sequence[float] = tuple(ETAS),
    hs: Sequence[float] = tuple(HS),
    folds: int = 10,
    noise: float = 0.004,
    own_noise: float = 0.002,
) -> tuple[pa.Table, pa.Table]:
    """Return the results and the loggers of a run; `noise` of a fold is shared by all,
    `own_noise` by none."""
    rng = np.random.default_rng(5)
    parts, loggers = [], []
    for name in sets:
        for eta in etas:
            shift = noise * rng.standard_normal(folds)
            for fold in range(folds):
                values = {
                    "behavior": behavior(name, eta),
                    "best_fixed": 0.55,
                    "full_information": 0.73,
                }
                moved = {key: value + shift[fold] for key, value in values.items()}
                smallest = max(-399.0, -1.4 - 0.4 * eta)
                loggers.append(
                    {
                        "set": name,
                        "eta": eta,
                        "fold": fold,
                        **moved,
                        "log10_min_propensity": smallest,
                    }
                )
            means = np.array(
                [[shape(name, algorithm, eta, h) for h in hs] for algorithm in algorithms]
            )
            reward = (
                means[:, :, None] + shift + own_noise * rng.standard_normal((*means.shape, folds))
            ).ravel()
            each = len(hs) * folds
            cells = {
                "set": [name] * len(reward),
                "eta": np.full(len(reward), eta),
                "algorithm": np.repeat(np.array(algorithms, dtype=object), each),
                "h": np.tile(np.repeat(np.array(hs, dtype=float), folds), len(algorithms)),
                "fold": np.tile(np.arange(folds), means.size),
                "reward": reward,
                "regret": 1.0 - reward,
            }
            parts.append(pa.table(cells))
    return pa.concat_tables(parts), pa.Table.from_pylist(loggers)


@pytest.fixture(scope="session")
def fabricate() -> Callable[..., tuple[pa.Table, pa.Table]]:
    """The function that makes the two tables of a run."""
    return fabricated


@pytest.fixture(scope="session")
def paper_shape() -> Shape:
    return like_the_paper
