"""A path of 41 scores with the ridge oracle, against scikit-learn's Ridge on dense gains.

    python benchmarks/ridge_path.py [--rows 1000000] [--fits 2]

The dense way is timed on a few of the 41 scores and multiplied up. Wanted: at least 200 times
faster.
"""

import argparse
import time

import numpy as np
import numpy.typing as npt
from sklearn.linear_model import Ridge
from timing import alternate, peak_memory

import piwo

SCORES = [piwo.IX(gamma) for gamma in np.logspace(-10, 0, 20)] + [
    piwo.Clip(gamma) for gamma in np.logspace(-10, 0, 21)
]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--fits", type=int, default=2)
    asked = parser.parse_args()
    n, d, k = asked.rows, 16, 26
    rng = np.random.default_rng(0)
    X, A = rng.normal(size=(n, d)), rng.integers(0, k, n)
    R = (rng.random(n) < 0.5).astype(float)
    p = rng.uniform(0.001, 0.2, n)
    log = piwo.Log.from_arrays(context=X, action=A, reward=R, propensity=p, actions=range(k))

    def dense(score: piwo.IX | piwo.Clip) -> npt.NDArray[np.float64]:
        floor = p + score.gamma if isinstance(score, piwo.IX) else np.maximum(p, score.gamma)
        gains = np.zeros((n, k))
        gains[np.arange(n), A] = R / floor
        return np.asarray(Ridge().fit(X, gains).coef_)

    oracle = piwo.oracles.Ridge()
    seconds = alternate({"piwo": lambda: oracle.solve_path(log, SCORES)}, repeats=11)["piwo"]
    start = time.perf_counter()
    coefs = [dense(score) for score in SCORES[:: len(SCORES) // asked.fits][: asked.fits]]
    one = (time.perf_counter() - start) / asked.fits
    path = oracle.solve_path(log, SCORES[:: len(SCORES) // asked.fits][: asked.fits])
    apart = max(
        np.abs(a - b.coef).max() / np.abs(a).max() for a, b in zip(coefs, path, strict=True)
    )
    print(f"rows x features x actions x scores      {n:,} x {d} x {k} x {len(SCORES)}")
    print(f"one pass for the whole path             {seconds:.3f} s")
    print(
        f"scikit-learn's Ridge on dense gains     {one:.3f} s a score, {one * len(SCORES):.1f} s "
        "for all"
    )
    print(f"times faster (at least 200)             {one * len(SCORES) / seconds:.0f}")
    print(f"largest relative difference             {apart:.1e}")
    print(f"peak memory, the dense way included     {peak_memory():.0f} MB")


if __name__ == "__main__":
    main()
