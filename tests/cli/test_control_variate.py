"""`piwo evaluate` on clicks: full propensity vectors make the interval three times narrower, and
it says so."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest


@pytest.fixture(scope="module")
def clicks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """3000 rows; the policy's action has propensity .1 and is clicked once in a hundred times, as
    is the other."""
    reward = np.zeros(3000)
    reward[[0, 1, 2, *range(300, 327)]] = 1
    mu = pa.FixedSizeListArray.from_arrays(pa.array(np.tile([0.1, 0.9], 3000)), 2)
    path = tmp_path_factory.mktemp("clicks") / "clicks.parquet"
    action = np.repeat(["a", "b"], [300, 2700])
    columns = {
        "action": action,
        "reward": reward,
        "propensity": np.where(action == "a", 0.1, 0.9),
        "mu": mu,
    }
    # in any order: bets on blocks are left out in sorted files
    order = np.random.default_rng(2).permutation(3000)
    pq.write_table(pa.table(columns).take(order), path)
    return path


def test_the_width_falls_to_a_third(piwo: Any, clicks: Path) -> None:
    words = ["evaluate", clicks, "--actions", "a,b", "--policy", "constant:a", "--json"]
    plain, varied = (piwo(*words, *more).document for more in ([], ["--propensities", "mu"]))
    (before,), (after,) = plain["policies"], varied["policies"]
    assert (before["interval"], after["interval"]) == ("deadline", "deadline-cv")
    widths = [one["upper"] - one["lower"] for one in (before, after)]
    assert widths[1] < widths[0] / 3
    assert any("--propensities" in note for note in before["notes"])
    assert not any("--propensities" in note for note in after["notes"])


def test_what_all_policies_share_is_noted_once(piwo: Any, clicks: Path) -> None:
    ran = piwo(
        "evaluate",
        clicks,
        "--actions",
        "a,b",
        "--policy",
        "constant:a",
        "--policy",
        "constant:b",
        "--policy",
        "uniform",
    )
    assert ran.code == 0
    assert ran.out.count("narrower intervals") == 1
    assert "note: narrower intervals are possible" in ran.out
    assert "deadline intervals, simultaneous: all 3 hold" in ran.out


def test_a_reward_model_by_name(piwo: Any, clicks: Path) -> None:
    words = [
        "evaluate",
        clicks,
        "--actions",
        "a,b",
        "--policy",
        "constant:a",
        "--propensities",
        "mu",
        "--json",
    ]
    (alone,), (helped,) = (
        piwo(*words, *more).document["policies"] for more in ([], ["--reward-model", "forward"])
    )
    assert helped["interval"] == alone["interval"] == "deadline-cv"
    assert helped["value"] == alone["value"]
    assert helped["upper"] != alone["upper"]
    wrong = piwo(*words, "--reward-model", "crystal ball")
    assert wrong.code != 0
    assert "--reward-model got 'crystal ball', expected forward" in wrong.err
    unused = piwo(*words[:6], "--reward-model", "forward")
    assert unused.code != 0
    assert (
        "--reward-model serves control variates: the log has the propensity of the logged action "
        "only" in unused.err
    )
    assert "(--propensities), or leave --reward-model out" in unused.err
    assert (
        "takes no reward model" in piwo(*words, "--reward-model", "forward", "--interval", "ix").err
    )
