"""Rows by position: by hand, beside a naive twin, all permutations, and logs with a known truth."""

from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo

BY_HAND = {
    "action": ["a", "a", "b", "a", "a", "b", "b"],
    "reward": [1, 1, 1, 0, 0, 0, 1],
    "propensity": [0.5, 0.5, 0.25, 0.5, 0.5, 0.25, 0.25],
    "position": [1, 1, 1, 2, 2, 2, 2],
}


def kinds(health: Any) -> list[str]:
    return [one.kind for one in health.findings]


def made(n: int, seed: int, bias: float = 1.0, depends: bool = False) -> dict[str, Any]:
    """Three positions, each worth `bias` of the one before; chosen by the action if `depends`."""
    rng = np.random.default_rng(seed)
    mu = np.array([0.5, 0.3, 0.2])
    action = rng.choice(3, n, p=mu)
    position = rng.integers(1, 4, n)
    if depends:
        position = np.where(rng.random(n) < 0.5, 3 - action, position)
    earns = np.array([0.1, 0.3, 0.6])[action] * bias ** (position - 1.0)
    reward = (rng.random(n) < earns) * 1
    return {"action": action, "reward": reward, "propensity": mu[action], "position": position}


def test_by_hand() -> None:
    """Of "a": 4 rows, mean 1/2, s^2 = 1/3, so D = 2 - 1 and the variance is 2 2/4 1/3; of "b": 3
    rows, mean 2/3, s^2 = 1/3, so D = 1 - 2/3 and the variance is 1 2/3 1/3. D = 4/3, variance
    5/9. Weights of the uniform policy over three actions: 2/3 and 4/3."""
    health = piwo.check(piwo.Log.from_arrays(**BY_HAND, actions=["a", "b", "c"]))
    first, second = health.by_position
    assert (first.position, first.rows, second.position, second.rows) == ("1", 3, "2", 4)
    assert (first.mean_reward, second.mean_reward) == (1.0, 0.25)
    assert first.reward_z == pytest.approx(4 / np.sqrt(5), rel=1e-12)
    assert second.reward_z == pytest.approx(-4 / np.sqrt(5), rel=1e-12)
    assert (first.mean_weight, second.mean_weight) == pytest.approx((8 / 9, 1.0), rel=1e-12)
    # the weights 2/3, 2/3, 4/3 have the standard error 2/9
    assert (first.weight_z, second.weight_z) == pytest.approx((-0.5, 0.0), abs=1e-12)
    assert (first.untaken, second.untaken) == pytest.approx((1 / 3, 1 / 3), rel=1e-12)
    assert health.to_dict()["by_position"][1]["position"] == "2"
    assert "by position of the action" in str(health)


def test_the_variance_is_that_of_all_permutations_within_an_action() -> None:
    rng = np.random.default_rng(3)
    reward, at = rng.random(6), np.array([1, 1, 2, 2, 2, 3])
    rows = {"action": ["a"] * 6, "propensity": [1.0] * 6, "position": at}
    differences = [
        sum(x for x, p in zip(order, at, strict=True) if p == 2) - 3 * reward.mean()
        for order in permutations(reward)
    ]
    found = piwo.check(piwo.Log.from_arrays(reward=reward, **rows)).by_position[1]
    assert np.mean(differences) == pytest.approx(0.0, abs=1e-12)
    expected = (reward[at == 2].sum() - 3 * reward.mean()) / np.std(differences)
    assert found.reward_z == pytest.approx(expected, rel=1e-10)


def test_beside_a_naive_twin_with_eligible_actions_and_missing_positions() -> None:
    rng = np.random.default_rng(4)
    rows: dict[str, list[Any]] = {x: [] for x in ("action", "reward", "propensity", "could", "at")}
    for _ in range(400):
        could = rng.permutation(12)[: rng.integers(2, 6)]
        chance = rng.dirichlet(np.ones(len(could)))
        place = rng.choice(len(could), p=chance)
        rows["action"].append(f"x{could[place]}")
        rows["reward"].append(float(rng.random()))
        rows["propensity"].append(float(chance[place]))
        rows["could"].append([f"x{i}" for i in could])
        rows["at"].append([None, "10", "2", "top"][rng.integers(4)])
    log = piwo.read(pa.table(rows), eligible="could", position="at")
    found = piwo.check(log).by_position
    assert [x.position for x in found] == ["2", "10", "top", None]
    every = list(zip(*rows.values(), strict=True))
    for row in found:
        here = [x for x in every if x[4] == row.position]
        taken, far, variance, weights, listed = {x[0] for x in here}, 0.0, 0.0, [], 0.0
        for _, _, p, could, _ in here:
            weights.append(1 / len(could) / p)
            listed += sum(1 / len(could) for a in could if a not in taken)
        for a in {x[0] for x in every}:
            own = [x[1] for x in every if x[0] == a]
            some = [x[1] for x in here if x[0] == a]
            if len(own) > 1:
                far += sum(some) - len(some) * np.mean(own)
                share = len(some) * (len(own) - len(some)) / len(own)
                variance += share * np.var(own, ddof=1)
        assert row.rows == len(here)
        assert row.mean_reward == pytest.approx(np.mean([x[1] for x in here]), rel=1e-12)
        assert row.mean_weight == pytest.approx(np.mean(weights), rel=1e-12)
        assert row.untaken == pytest.approx(listed / len(here), rel=1e-12)
        assert row.reward_z == pytest.approx(far / np.sqrt(variance), rel=1e-9)


def test_rewards_that_fall_with_the_position_are_found() -> None:
    health = piwo.check(piwo.Log.from_arrays(**made(4000, 0, bias=0.6)))
    assert kinds(health) == ["position-bias"]
    finding = health.findings[0]
    assert finding.severity == "care"
    assert "a reward is that of action and position together" in finding.text
    assert "rewards depend on the position" in health.sentence


def test_better_actions_shown_higher_are_no_position_bias() -> None:
    """Mean rewards differ by position, but not those of the same action; the weights say why."""
    health = piwo.check(piwo.Log.from_arrays(**made(4000, 1, depends=True)))
    rewards = [x.mean_reward for x in health.by_position]
    assert rewards[0] > rewards[2] + 0.15
    assert "position-bias" not in kinds(health)
    finding = next(x for x in health.findings if x.kind == "position-of-action")
    assert "at position 1" in finding.text
    assert finding.severity == "care"


def test_nothing_is_found_where_nothing_is() -> None:
    """Means of 200 logs: z has variance 1, for rewards and for weights."""
    logs = [piwo.Log.from_arrays(**made(300, seed)) for seed in range(200)]
    checked = [piwo.check(log) for log in logs]
    assert not [x for one in checked for x in kinds(one) if x.startswith("position")]
    for name in ("reward_z", "weight_z"):
        z = np.array([[getattr(x, name) for x in one.by_position] for one in checked])
        assert abs(z.mean()) < 0.2
        assert np.std(z) == pytest.approx(1.0, abs=0.15)


def test_a_position_that_is_context_is_no_surprise() -> None:
    table = pa.table(made(4000, 0, bias=0.6) | {"hour": np.arange(4000) % 24})
    free = piwo.read(table, position="position", context="*")
    assert free.columns.context == ("hour",)
    assert "position-bias" in kinds(piwo.check(free))
    known = piwo.read(table, position="position", context=["hour", "position"])
    assert known.columns.context == ("hour", "position")
    health = piwo.check(known)
    assert health.position_in_context
    assert "position-bias" not in kinds(health)
    assert health.by_position[0].reward_z > 4


def test_rows_of_units_have_no_errors_and_thinned_logs_no_table() -> None:
    rows = made(600, 2, bias=0.5)
    health = piwo.check(piwo.Log.from_arrays(**rows, unit=np.arange(600) // 2))
    assert [(x.reward_z, x.weight_z) for x in health.by_position] == [(None, None)] * 3
    assert [x.rows for x in health.by_position] == np.bincount(rows["position"])[1:].tolist()
    assert "position-bias" not in kinds(health)
    thinned = piwo.Log.from_arrays(**rows, weight=np.full(600, 2.0))
    assert piwo.check(thinned).by_position == ()


def test_without_the_role_there_is_no_table() -> None:
    rows = made(50, 3)
    del rows["position"]
    assert piwo.check(piwo.Log.from_arrays(**rows)).by_position == ()


def test_the_command_says_the_same(tmp_path: Path, capsys: Any) -> None:
    from piwo.cli.main import main

    path = str(tmp_path / "log.parquet")
    rows = made(2000, 0, bias=0.5)
    rows["slot"] = rows.pop("position")
    pq.write_table(pa.table(rows), path)
    main(["check", path, "--position", "slot", "--explain"])
    printed = capsys.readouterr().out
    health = piwo.check(piwo.read(path, position="slot"))
    assert "by position of the action" in printed
    first = next(line.split() for line in printed.splitlines() if line.startswith("  1  "))
    assert first[1] == str(health.by_position[0].rows)
    assert "(--where)" in printed
    assert "not taken: share of the uniform policy" in " ".join(printed.split())


@pytest.mark.parametrize(
    ("values", "roles", "match"),
    [
        ([1.5] * 4, {}, "holds numbers that are not whole"),
        ([[1]] * 4, {}, "expected text or whole numbers"),
        ([1, 2, 1, 2], {"unit": "slot"}, "position column 'slot' has another role too"),
        ([1, 2, 1, 2], {"action": "slot"}, "position column 'slot' has another role too"),
        ([1, 2, 1, 2], {"position": "slto"}, "did you mean 'slot'"),
    ],
)
def test_positions_that_are_wrong(values: list[Any], roles: dict[str, str], match: str) -> None:
    table = pa.table(
        {"action": ["a"] * 4, "reward": [1] * 4, "propensity": [1.0] * 4, "slot": values}
    )
    with pytest.raises((piwo.DataError, piwo.UsageError), match=match):
        piwo.check(piwo.read(table, **{"position": "slot", **roles}))


def test_more_than_a_hundred_positions_are_compared_in_ranges() -> None:
    places = np.concatenate([[0], np.arange(1, 300)])
    rows = made(300, 5) | {"position": places}
    found = piwo.check(piwo.Log.from_arrays(**rows)).by_position
    assert [row.position for row in found][:4] == ["0", "1", "2 to 3", "4 to 7"]
    assert [row.rows for row in found] == [1, 1, 2, 4, 8, 16, 32, 64, 128, 300 - 256]
    # The same numbers as those of a column that holds the ranges.
    names = np.array(["0", "1", *(f"{2**i} to {2 ** (i + 1) - 1}" for i in range(1, 9))])
    by_hand = names[np.frexp(places)[1]]
    one = piwo.check(piwo.Log.from_arrays(**rows | {"position": by_hand})).by_position
    assert one == found


def test_more_than_a_hundred_texts_are_left_out_and_said() -> None:
    rows = made(300, 5) | {"position": [f"place {i}" for i in range(300)]}
    health = piwo.check(piwo.Log.from_arrays(**rows))
    assert health.by_position == ()
    (finding,) = [one for one in health.findings if one.kind == "many-positions"]
    assert "column 'position' has more than 100 positions that are text" in finding.text
    assert finding.severity == "note"
