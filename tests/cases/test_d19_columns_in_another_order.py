"""D19: context columns come in another order when the policy acts; position must not decide."""

import numpy as np
import pandas as pd
import polars as pl
import pytest

import piwo


@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame], ids=["pandas", "polars"])
@pytest.mark.parametrize(
    "oracle", [piwo.oracles.Ridge(), piwo.oracles.Classifier()], ids=lambda o: o.name
)
def test_frames_are_matched_by_name(frame, oracle):
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 2000))
    best = (3 * a - 2 * b > 0).astype(int)
    taken = rng.integers(0, 2, 2000)
    log = piwo.Log.from_arrays(
        context=frame({"a": a, "b": b}),
        action=taken,
        reward=(taken == best) * 1.0,
        propensity=[0.5] * 2000,
    )
    policy = piwo.PIWO(oracle=oracle).fit(log).policy_
    turned = policy.act(frame({"b": [0.0, 1.0], "a": [1.0, 0.0]})).actions.tolist()
    assert turned == [1, 0]  # by position: [0, 1]
    with pytest.raises(piwo.DataError, match="no column 'b'"):
        policy.act(frame({"a": [1.0], "c": [0.0]}))
