"""Deciding and valuing many linear policies at once, in arithmetic per second and core.

    python benchmarks/linear_policies.py [--rows 100000]

60 policies x 26 actions x 17 features: the arithmetic is 2 x rows x 60 x 26 x 17 operations;
choosing and valuing come on top and are not counted as operations. Wanted: at least 15 GFLOP/s a
core; the aim is 40. Beside it, in the same
run: the obvious way (a matrix product and argmax a policy) and the bare single-precision matrix
product.
"""

import argparse

import numpy as np
import numpy.typing as npt
from threadpoolctl import threadpool_limits
from timing import alternate

from piwo.policies import LinearGreedy, LinearStack

POLICIES, ACTIONS, FEATURES = 60, 26, 17


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=100_000)
    n = parser.parse_args().rows
    rng = np.random.default_rng(0)
    X, action, gain = (
        rng.normal(size=(n, FEATURES)),
        rng.integers(0, ACTIONS, n).astype(np.int32),
        rng.random(n),
    )
    policies = [
        LinearGreedy(rng.normal(size=(ACTIONS, FEATURES)), rng.normal(size=ACTIONS), range(ACTIONS))
        for _ in range(POLICIES)
    ]
    stack = LinearStack(policies)
    single = X[:8192].astype(np.float32).T.copy()
    weights = rng.normal(size=(POLICIES * ACTIONS, FEATURES)).astype(np.float32)

    def fast() -> npt.NDArray[np.float64]:
        return stack.values(X, action, gain)

    def obvious() -> npt.NDArray[np.float64]:
        scores = [((X @ p.coef.T + p.intercept).argmax(axis=1) == action) @ gain for p in policies]
        return np.asarray(scores) / float(n)

    def product() -> object:
        return [weights @ single for _ in range(max(1, n // 8192))]

    with threadpool_limits(1):
        seconds = alternate({"fast": fast, "obvious": obvious, "product": product})
    assert np.allclose(fast(), obvious(), rtol=1e-12)
    work = 2.0 * n * POLICIES * ACTIONS * FEATURES / 1e9
    print(f"rows x policies x actions x features     {n:,} x {POLICIES} x {ACTIONS} x {FEATURES}")
    print(
        f"choose and value, one core               {work / seconds['fast']:.1f} GFLOP/s (at least "
        "15, aim 40)"
    )
    print(f"a product and argmax a policy, one core  {work / seconds['obvious']:.1f} GFLOP/s")
    print(
        "bare product in single precision         "
        f"{work * (n // 8192 * 8192 / n) / seconds['product']:.1f} GFLOP/s"
    )
    print(f"times faster than the obvious way        {seconds['obvious'] / seconds['fast']:.1f}")


if __name__ == "__main__":
    main()
