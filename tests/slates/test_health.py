"""The check of slate logs: each slot is checked as a log of its own."""

import json

import numpy as np
import pytest

import piwo
from piwo.cli.main import main
from piwo.errors import UsageError

ITEMS = ["a", "b", "c"]


def drawn(second, n=2000, seed=0):
    """Two slots, drawn independently: the first evenly, the second with these probabilities."""
    rng = np.random.default_rng(seed)
    return {
        "slate": np.array(ITEMS)[
            np.stack([rng.choice(3, n), rng.choice(3, n, p=second)], axis=1)
        ].tolist(),
        "clicks": rng.integers(0, 2, (n, 2)).tolist(),
        "ps": [[1 / 3, 1 / 3]] * n,
    }


def log_of(rows, **options):
    return piwo.slates.read(
        rows, rewards="clicks", propensities="ps", independent=True, actions=ITEMS, **options
    )


def test_a_slot_is_checked_as_the_log_of_its_position():
    log = log_of(drawn([1 / 3] * 3))
    health = piwo.slates.check(log)
    assert health.fit
    assert health.verdict == "fit"
    for position, slot in enumerate(health.slots, 1):
        alone = piwo.check(log.position(position), delta=0.025)
        assert (slot.mean_weight, slot.ess, slot.findings) == (
            alone.mean_weight,
            alone.ess,
            alone.findings,
        )


def test_the_slot_with_wrong_propensities_is_named():
    health = piwo.slates.check(log_of(drawn([0.6, 0.2, 0.2])))
    assert health.verdict == "unfit"
    assert [one.fit for one in health.slots] == [True, False]
    assert health.sentence.startswith("Unfit for use, slot 2: its propensities do not match")
    assert "unfit: slot 2: " in str(health)


def test_an_action_that_a_slot_never_shows_is_found_there():
    """One reward a slate serves every slot; 30 slates by hand."""
    rows = {"slate": [["a", "b"], ["b", "a"], ["c", "b"]] * 10, "reward": [3.0, 0.0, 0.0] * 10}
    log = piwo.slates.read(
        rows, reward="reward", reward_range=(0, 4), behavior=piwo.slates.Uniform(ITEMS)
    )
    first, second = piwo.slates.check(log).slots
    assert (first.mean_reward, second.mean_reward) == (1.0, 1.0)
    assert first.never_logged == ()
    assert second.never_logged == ("c",)
    assert second.propensity_min == pytest.approx(1 / 3)


def test_declared_slots_that_no_slate_has_are_left_out():
    assert len(piwo.slates.check(log_of(drawn([1 / 3] * 3, 100), slots=4)).slots) == 2


def test_a_log_without_marginals_is_refused():
    rows = {"slate": [["a", "b"]] * 9, "reward": [1.0] * 9, "p": [0.2] * 9}
    log = piwo.slates.read(rows, reward="reward", slate_propensity="p")
    with pytest.raises(UsageError, match="needs the marginal probability of each shown action"):
        piwo.slates.check(log)


def test_the_check_of_logs_names_that_of_slates():
    with pytest.raises(UsageError, match=r"piwo\.slates\.check"):
        piwo.check(log_of(drawn([1 / 3] * 3, 100)))


@pytest.mark.parametrize(("second", "code"), [([1 / 3] * 3, 0), ([0.6, 0.2, 0.2], 1)])
def test_the_command_gives_the_same_answer(second, code, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = drawn(second)
    lines = [json.dumps({name: rows[name][i] for name in rows}) for i in range(2000)]
    (tmp_path / "feed.jsonl").write_text("\n".join(lines), encoding="utf-8")
    options = ["--rewards", "clicks", "--propensities", "ps", "--independent", "--actions", "a,b,c"]
    words = ["slates", "feed.jsonl", *options, "--check"]
    assert main(words) == code
    printed = capsys.readouterr().out
    assert printed.startswith(str(piwo.slates.check(log_of(rows))))
    assert main([*words, "--json"]) == code
    assert json.loads(capsys.readouterr().out)["verdict"] == ("unfit" if code else "fit")
    assert main([*words, "--policy", "uniform"]) == 2
    assert "--check is about the log alone" in capsys.readouterr().err
