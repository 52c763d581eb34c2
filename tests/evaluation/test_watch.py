"""A watch certifies no policy on rows that contradict their propensities."""

import numpy as np

import piwo


def test_rows_that_contradict_one_policy_certify_none() -> None:
    rng = np.random.default_rng(0)
    b = rng.random(4000) < 0.3
    log = piwo.Log.from_arrays(
        action=np.where(b, "b", "a"),
        reward=np.where(b, 0.1, 0.9),
        propensity=np.where(b, 0.1, 0.7),
        actions=["a", "b"],
        logger="fixed",
    )
    watch = piwo.Watch.start(
        {x: piwo.policies.Constant(x, log.actions) for x in "ab"}, deadline=10**6
    )
    found = watch.update(log)
    assert (found.answer, found.certified) == ("stop", ())
    alone = piwo.Watch.start(
        {"a": piwo.policies.Constant("a", log.actions)}, deadline=10**6
    ).update(log)
    assert alone.certified == ("a",)  # its own weights do not show it
