"""What is written is what was logged: rewards to the last digit, ids with their zeros."""

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import piwo


@pytest.mark.parametrize("reward_range", [(0.0, 1.0), (-1.0, 3.0), (0.0, np.inf)])
def test_net_rewards_are_written_to_the_last_digit(
    tmp_path: Path, reward_range: tuple[float, float]
) -> None:
    """R - c in float64, not rounded: -1 + 4 x that of the unit scale would differ."""
    rewards = np.random.default_rng(0).random(200)
    costs = {"a": 0.1, "b": 0.7}
    actions = ["a", "b"] * 100
    log = piwo.Log.from_arrays(
        action=actions, reward=rewards, propensity=[0.5] * 200, reward_range=reward_range
    ).with_action_cost(costs)
    piwo.formats.write_vw(log, tmp_path / "log.vw", kind="cb")
    written = [
        -float(line.split(":")[1]) for line in (tmp_path / "log.vw").read_text().splitlines()
    ]
    assert written == [r - costs[a] for r, a in zip(rewards, actions, strict=True)]
    again = piwo.read(str(tmp_path / "log.vw"), reward_range=log.reward_range)
    one, other = next(log.each_batch()), next(again.each_batch())
    assert one.reward.tolist() == other.reward.tolist()
    assert piwo.to_obp(log)["reward"].tolist() == written


def test_ids_keep_their_zeros(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(
        "id,time,action,reward,propensity,zip,user\n"
        "007,0,01,1,.5,00501,0012\n008,1,02,0,.5,00502,0013\n010,2,01,1,.5,00501,0012\n"
    )
    log = piwo.read(str(tmp_path / "a.csv"), key="id", context="zip", unit="user")
    assert log.features is not None
    assert log.features.names == ("zip=00501", "zip=00502")
    for name in ("b.csv", "b.jsonl", "b.parquet"):
        piwo.formats.write_log(log, tmp_path / name)
    kept = {"action": ["01", "02", "01"], "id": ["007", "008", "010"]}
    kept |= {"user": ["0012", "0013", "0012"], "zip": ["00501", "00502", "00501"]}
    found = pq.read_table(tmp_path / "b.parquet").to_pydict()
    assert {name: found[name] for name in kept} == kept
    assert '"01",1,0.5,"007","0012","00501"' in (tmp_path / "b.csv").read_text()
    assert '"id": "007", "user": "0012", "zip": "00501"' in (tmp_path / "b.jsonl").read_text()
    outcomes = {"id": ["007"], "time": [1], "gain": [1.0]}
    joined = piwo.join(
        str(tmp_path / "a.csv"), outcomes, on="id", window=5, outcome="gain", until=9
    )
    rows = joined.rows.to_pydict()
    assert {name: rows[name] for name in kept} == kept
    assert joined.arrived == 1
