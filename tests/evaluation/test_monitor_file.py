"""Monitor files: what was saved comes back to the last digit, anything else is refused in one
line."""

import json
import math
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

import piwo
from piwo.errors import FileError, PiwoWarning, UsageError
from piwo.evaluation.monitor_file import _checksum
from piwo.policies import (
    Classifier,
    Column,
    Constant,
    EpsilonGreedy,
    LinearGreedy,
    Policy,
    Tabular,
    Uniform,
)
from piwo.policies.sameness import content_digest
from piwo.simulate import adversarial_bandits

BANDITS = {bandit.name: bandit for bandit in adversarial_bandits()}
COIN = BANDITS["clicks"]
Page = dict[str, Any]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    rows = np.random.default_rng(0).choice(len(COIN.cells.chance), 300, p=COIN.cells.chance)
    piwo.Monitor(COIN.policy, horizon=1000).update(COIN.log_of(rows)).save(
        tmp_path / "monitor.json"
    )
    return tmp_path / "monitor.json"


def rewrite(path: Path, change: Callable[[Page], object], checksum: bool = True) -> None:
    """Change a file, by someone who knows how it is sealed."""
    page = json.loads(path.read_text())
    change(page)
    if checksum:
        page.pop("checksum", None)
        page["checksum"] = _checksum(page)
    path.write_text(json.dumps(page))


def refused(path: Path, match: str = "monitor") -> None:
    with pytest.raises(FileError, match=match) as wrong:
        piwo.Monitor.load(path, COIN.policy)
    assert str(wrong.value).isprintable()
    assert re.search(r"sum the logs again|update piwo|Monitor\.save", str(wrong.value))


# --- what comes back


@pytest.mark.parametrize("name", sorted(BANDITS))
@pytest.mark.parametrize("rows", [0, 1, 2, 500])
def test_what_rows_give_is_believed(name: str, rows: int, tmp_path: Path) -> None:
    bandit, rng = BANDITS[name], np.random.default_rng(rows)
    made = piwo.Monitor(bandit.policy)
    if rows:
        made = made.update(
            bandit.log_of(rng.choice(len(bandit.cells.chance), rows, p=bandit.cells.chance))
        )
    made.save(tmp_path / "m.json")
    loaded = piwo.Monitor.load(tmp_path / "m.json", bandit.policy)
    assert loaded.state.moments == made.state.moments
    assert not rows or loaded.look() == made.look()


@pytest.mark.parametrize("power", [-320, -308.2, -307, -300, -170, -150, -8, 0])
@pytest.mark.parametrize("high", [1.0, math.inf])
def test_sums_of_any_size_are_believed(power: float, high: float, tmp_path: Path) -> None:
    rng = np.random.default_rng(3)
    mu, pi = rng.uniform(0.1, 1.0, 60), rng.choice([0.0, 1e-200, 0.3, 1.0], 60)
    mu[0], pi[0] = min(1.0, 10.0**power), 1.0
    reward = rng.uniform(0, 1, 60) * (5.0 if high > 1 else 1.0)
    log = piwo.Log.from_arrays(
        action=["a"] * 60,
        reward=reward,
        propensity=mu,
        reward_range=(0, high),
        policies={"new": pi},
    )
    made = piwo.Monitor(Column("new")).update(log)
    made.save(tmp_path / "m.json")
    assert piwo.Monitor.load(tmp_path / "m.json", Column("new")).state.moments == made.state.moments


# --- what is refused


def test_any_digit_that_was_changed_is_seen(path: Path) -> None:
    whole = path.read_text()
    places = [x.start() for x in re.finditer(r"[0-9](?=[0-9.,\n])", whole)]
    for at in places[:: max(1, len(places) // 150)]:
        digit = "7" if whole[at] != "7" else "3"
        changed = whole[:at] + digit + whole[at + 1 :]
        if json.loads(changed) == json.loads(whole):
            continue  # a digit beyond the precision of float64
        path.write_text(changed)
        refused(path)


def test_cut_short_and_noise(path: Path) -> None:
    whole = path.read_bytes()
    cuts = [whole[:at] for at in range(1, len(whole), 999)]
    for content in (b"", b"{}", b"[]", b"null", b"\xff\xfe\x00", b"[" * 100_000, *cuts):
        path.write_bytes(content)
        refused(path, "not a monitor")
    with pytest.raises(FileError, match="cannot be read"):
        piwo.Monitor.load(path.with_name("missing"), COIN.policy)


WRONG: dict[str, Callable[[Page], object]] = {
    "another format": lambda p: p.update(format="x"),
    "an older version": lambda p: p.update(version=2),
    "a newer version": lambda p: p.update(version=5),
    "a version that is a number": lambda p: p.update(version=3.0),
    "no error bounds of propensities": lambda p: p.pop("doubted"),
    "error bounds that are not records": lambda p: p.update(doubted=[7]),
    "no library's field": lambda p: p.pop("delta"),
    "delta that is not a number": lambda p: p.update(delta=math.nan),
    "a range of one": lambda p: p.update(reward_range=[0]),
    "no sums": lambda p: p.update(moments=None),
    "a sum of another name": lambda p: p["moments"].update(rowz=1),
    "no bets": lambda p: p.update(bets=None),
    "bets of another grid": lambda p: p["bets"].update(value=[1.0]),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_files_of_another_form(name: str, path: Path) -> None:
    rewrite(path, WRONG[name])
    refused(path)


@pytest.mark.parametrize("name", ["delta", "cost", "moments", "bets", "doubted", "checksum"])
def test_what_the_checksum_covers(name: str, path: Path) -> None:
    rewrite(path, lambda page: page.pop(name), checksum=False)
    refused(path, "changed after it was written")


def test_a_file_of_the_first_release_still_loads(path: Path) -> None:
    written = json.loads(path.read_text())
    assert list(written) == [
        "format", "version", "library", "name", "policy", "policy_digest", "delta", "horizon",
        "reward_range", "cost", "moments", "bets", "doubted", "fed", "checksum",
    ]  # fmt: skip
    one = {"estimated": "softmax", "factor": 2.0, "sensitivity": 1.0, "rows": 10}
    rewrite(path, lambda page: page.update(doubted=[one]))
    rewrite(path, lambda page: page.pop("fed"))
    (note, _) = piwo.Monitor.load(path, COIN.policy).look().notes
    assert note.startswith("of 10 of the 300 rows: the propensities were estimated (softmax)")


def test_a_change_without_the_seal(path: Path) -> None:
    rewrite(path, lambda page: page.update(delta=0.5), checksum=False)
    refused(path, "changed after it was written")


# --- another policy


def policies() -> dict[str, Callable[[], Policy]]:
    rng = np.random.default_rng(0)
    X, y = rng.normal(size=(60, 2)), np.array(["a", "b"] * 30)
    coef = rng.normal(size=(2, 2))
    model = LogisticRegression().fit(X, y)
    other = LogisticRegression(C=0.01).fit(X, y)
    listed = ["a", "b"]
    return {
        "a": lambda: Constant("a", listed),
        "b": lambda: Constant("b", listed),
        "a of three": lambda: Constant("a", [*listed, "c"]),
        "uniform": lambda: Uniform(listed),
        "table": lambda: Tabular([0.25, 0.75], listed),
        "another table": lambda: Tabular([0.75, 0.25], listed),
        "linear": lambda: LinearGreedy(coef, [0.0, 0.0], listed),
        "another linear": lambda: LinearGreedy(np.nextafter(coef, 9.0), [0.0, 0.0], listed),
        "classifier": lambda: Classifier(model, listed),
        "another classifier": lambda: Classifier(other, listed),
        "half": lambda: EpsilonGreedy(Constant("a", listed), 0.5),
        "half of b": lambda: EpsilonGreedy(Constant("b", listed), 0.5),
        "a tenth": lambda: EpsilonGreedy(Constant("a", listed), 0.1),
    }


def test_a_digest_tells_policies_apart_and_survives_files(tmp_path: Path) -> None:
    made = policies()
    digests = {name: content_digest(make()) for name, make in made.items()}
    assert None not in digests.values()
    assert len(set(digests.values())) == len(digests)
    for name, make in made.items():
        make().save(tmp_path / "p.piwo")
        assert content_digest(piwo.load(tmp_path / "p.piwo")) == digests[name], name


def test_a_monitor_is_of_the_policy_it_was_made_for(tmp_path: Path) -> None:
    made, path = policies(), tmp_path / "m.json"
    log = piwo.Log.from_arrays(action=["b", "a"] * 9, reward=[1, 0] * 9, propensity=[0.5] * 18)
    for name in ("a", "table", "half"):
        piwo.Monitor(made[name]()).update(log).save(path)
        assert piwo.Monitor.load(path, made[name]().onto(log.actions)).look().rows == 18
        for other in made.keys() - {name}:
            with pytest.raises(UsageError, match="of another policy") as wrong:
                piwo.Monitor.load(path, made[other]())
            assert str(wrong.value).isprintable()


def test_monitors_of_a_model_read_twice_are_of_one_policy(tmp_path: Path) -> None:
    policies()["classifier"]().save(tmp_path / "p.piwo")
    one, other = (piwo.Monitor(piwo.load(tmp_path / "p.piwo")) for _ in range(2))
    assert one.merge(other) == one
    with pytest.raises(UsageError, match="different policies"):
        one.merge(piwo.Monitor(policies()["another classifier"]()))


def test_a_policy_that_no_file_holds_is_believed_with_a_warning(tmp_path: Path) -> None:
    rule = piwo.policies.Deterministic(lambda X: ["a"] * len(X), ["a", "b"])
    piwo.Monitor(rule).save(tmp_path / "m.json")
    with pytest.warns(PiwoWarning, match="cannot be seen"):
        piwo.Monitor.load(tmp_path / "m.json", rule)
    with pytest.raises(UsageError, match="of another policy"):
        piwo.Monitor.load(tmp_path / "m.json", Constant("a", ["a", "b"]))


@pytest.mark.parametrize("before", ["{", '"moments": {'])
def test_a_name_that_an_object_has_twice(before: str, path: Path) -> None:
    text = path.read_text("utf-8")
    first = json.loads(text)
    name = next(iter(first if before == "{" else first["moments"]))
    assert text.count(before)
    path.write_text(text.replace(before, f'{before}"{name}": 7, ', 1), "utf-8")
    refused(path, f"'{name}' twice")
