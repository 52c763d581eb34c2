"""S01: a text column is text in every file, whatever today's values look like."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import piwo
from piwo.cli.main import main
from piwo.cli.policy import read_contexts
from piwo.errors import DataError
from piwo.policies import LinearGreedy

# Some words are numbers, and that is said; see tests/logs/test_mostly_numbers.py.
pytestmark = pytest.mark.filterwarnings("ignore:context column 'country' holds numbers")

N = 400
COLUMNS = ["country", "size", "flag"]
KINDS = ["csv", "jsonl", "parquet"]
WORDS = [
    ["NO", "SE", "DK"],
    ["1.10", "1.9", "2.0-rc"],
    ["1.10", "1.1", "2.0-rc"],
    ["01234", "1234", "K1A"],
    ["y", "n", "maybe"],
    ["no", "yes", "perhaps"],
    ["on", "off", "auto"],
    ["t", "f", "u"],
    ["true", "false", "unknown"],
    ["1e3", "007", "X"],
    ["2026-01-01", "2026-01-02", "soon"],
    ["2026-01-01T00:00:00Z", "2026-01-01T00:00:00+01:00", "later"],
    ["9007199254740993", "9007199254740992", "x"],
    ["nan", "inf", "many"],
]


def frame(words: list[str], seed: int) -> pd.DataFrame:
    """A log in which A is right for the first word and wrong for all others."""
    rng = np.random.default_rng(seed)
    country = rng.choice(words, N)
    action = rng.choice(["A", "B"], N)
    right = (country == words[0]) == (action == "A")
    return pd.DataFrame(
        {
            "country": country,
            "size": rng.integers(1, 9, N),
            "flag": rng.integers(0, 2, N) == 1,
            "action": action,
            "reward": (rng.random(N) < np.where(right, 0.9, 0.1)) * 1.0,
            "propensity": 0.5,
        }
    )


def written(table: pd.DataFrame, path: Path) -> str:
    if path.suffix == ".csv":
        table.to_csv(path, index=False)
    elif path.suffix == ".jsonl":
        table.to_json(path, orient="records", lines=True)
    else:
        table.to_parquet(path, index=False)
    return str(path)


def made(words: list[str], folder: Path) -> str:
    """Save the policy that plays A for the first word and B else; from what was read as CSV."""
    path = written(frame(words, 0), folder / "training.csv")
    features = piwo.read(path, context=COLUMNS).features
    assert features is not None
    assert features.names[:3] == tuple(f"country={x}" for x in sorted(words))
    coef = np.zeros((2, features.width))
    coef[0, sorted(words).index(words[0])] = 1.0
    coef[1, [i for i, x in enumerate(sorted(words)) if x != words[0]]] = 1.0
    LinearGreedy(coef, np.zeros(2), ["A", "B"], features).save(folder / "p.piwo")
    return str(folder / "p.piwo")


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("words", WORDS, ids=lambda x: x[0])
def test_values_do_not_depend_on_the_format(words: list[str], count: int, tmp_path: Path) -> None:
    policy = piwo.load(made(words, tmp_path))
    today = frame(words, 1)
    today = today[today["country"].isin(words[:count])]
    played = np.where(today["country"] == words[0], "A", "B")
    expected = np.mean(2.0 * (today["action"] == played) * today["reward"])
    assert expected > 0.8
    found = []
    for kind in KINDS:
        path = written(today, tmp_path / f"today.{kind}")
        log = piwo.read(path, context=COLUMNS, actions=["A", "B"])
        found.append(piwo.evaluate(log, policy))
        assert policy.act(read_contexts(path, policy.features), 0).actions.tolist() == list(played)
    assert found[0].value == pytest.approx(expected, abs=1e-12)
    for one in found[1:]:
        assert (one.value, one.lower, one.upper) == (
            found[0].value,
            found[0].lower,
            found[0].upper,
        )


@pytest.mark.parametrize(("words", "kind"), [(WORDS[0], "csv"), (WORDS[1], "jsonl")], ids=str)
def test_a_baseline_is_read_as_it_was_written(
    words: list[str], kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    policy = made(words, tmp_path)
    today = pd.concat([frame(words[:1], seed) for seed in range(5)])
    path = written(today, tmp_path / f"today.{kind}")
    asked = ["evaluate", path, "--policy", "uniform", "--baseline", policy, "--gate"]
    assert main(asked) == 1
    assert main(["evaluate", path, "--policy", policy, "--gate"]) == 0
    out = str(tmp_path / "new.piwo")
    asked = ["learn", path, "--context", ",".join(COLUMNS), "--baseline", policy, "--gate"]
    # The baseline plays the best action already.
    assert main([*asked, "--out", out]) == 1
    capsys.readouterr()


@pytest.mark.parametrize("kind", ["csv", "jsonl"])
def test_numbers_of_a_policy_stay_numbers(kind: str, tmp_path: Path) -> None:
    policy = piwo.load(made(WORDS[0], tmp_path))
    today = frame(WORDS[0], 1)
    values = []
    for size, flag in (
        (today["size"].astype(str).str.zfill(3), today["flag"].map({True: "TRUE", False: "0"})),
        (today["size"], today["flag"]),
    ):
        path = written(today.assign(size=size, flag=flag), tmp_path / f"today.{kind}")
        log = piwo.read(path, context=COLUMNS).encoded_by(policy.features)
        values.append(np.vstack([x.context for x in log.each_batch(context=True)]))
    assert (values[0] == values[1]).all()
    path = written(today.assign(size="big"), tmp_path / f"today.{kind}")
    words = r"'size' holds text in 400 of 400 rows, such as 'big', expected numbers as when the"
    with pytest.raises(DataError, match=words):
        piwo.evaluate(piwo.read(path, context=COLUMNS), policy)
    with pytest.raises(DataError, match=words):
        read_contexts(path, policy.features)


def test_a_column_of_numbers_and_few_words_is_text_if_the_policy_says_so(tmp_path: Path) -> None:
    policy = piwo.load(made(WORDS[1], tmp_path))
    today = frame(WORDS[1][:2], 1).assign(country="1.10")
    today.loc[0, "country"] = "2.0-rc"
    path = written(today, tmp_path / "today.csv")
    log = piwo.read(path, context=COLUMNS)
    assert piwo.evaluate(log, policy).value > 0
    with pytest.raises(DataError, match="in all but 1 of 400 rows"):
        piwo.PIWO().fit(log)


FIRST: list[tuple[list[str], str]] = [
    (["NO", "NO"], "levels"),
    (["y", "n"], "levels"),
    (["t", "f"], "levels"),
    (["on", "off"], "levels"),
    (["true", "FALSE"], "number"),
    (["true", "1"], "levels"),
    (["01234", "1234"], "levels"),
    (["00", "0"], "levels"),
    (["0", "0.5"], "number"),
    (["-1e3", "+.5"], "number"),
    (["1_000", "5"], "levels"),
    (["0x10", "5"], "levels"),
    (["1.", "nan"], "number"),
    (["9007199254740993", "18446744073709551615"], "number"),
]


@pytest.mark.parametrize(("values", "kind"), FIRST, ids=str)
@pytest.mark.parametrize("repeats", [1, 40_000])
def test_types_at_first_reading(values: list[str], kind: str, repeats: int, tmp_path: Path) -> None:
    # The second value is in the last row alone: no part of the file decides for the rest.
    lines = [f"a,1,0.5,{values[0]}\n"] * repeats + [f"b,0,0.5,{values[1]}\n"]
    path = tmp_path / "log.csv"
    path.write_text("action,reward,propensity,x\n" + "".join(lines))
    log = piwo.read(path, context="x")
    assert log.features is not None
    assert log.features.items[0].kind == kind


@pytest.mark.parametrize(
    ("where", "kept"),
    [
        ("id = 9007199254740993", 1),
        ("id > 9007199254740992", 2),
        ("id = 18446744073709551615", 1),
        ("country = 'NO'", 2),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_conditions_see_whole_numbers_and_text_as_they_are(
    where: str, kept: int, kind: str, tmp_path: Path
) -> None:
    table = pd.DataFrame(
        {
            "action": ["a", "b", "a"],
            "reward": 1.0,
            "propensity": 0.5,
            "id": np.array([9007199254740992, 9007199254740993, 2**64 - 1], np.uint64),
            "country": ["NO", "NO", "no"],
        }
    )
    path = written(table, tmp_path / f"log.{kind}")
    assert len(piwo.read(path, where=where)) == kept
    assert len(piwo.read(path, where=where, context=["id", "country"])) == kept


def test_a_policy_may_need_columns_that_the_log_was_read_without(tmp_path: Path) -> None:
    policy = piwo.load(made(WORDS[1], tmp_path))
    values = set()
    for kind in KINDS:
        path = written(frame(WORDS[1][:2], 1), tmp_path / f"today.{kind}")
        values.add(piwo.evaluate(piwo.read(path, actions=["A", "B"]), policy).value)
    assert len(values) == 1


def test_a_condition_sees_the_types_of_the_policy(tmp_path: Path) -> None:
    policy = piwo.load(made(WORDS[1], tmp_path))
    today = frame(WORDS[1][:2], 1)
    kept = int((today["country"] == "1.10").sum())
    rows = set()
    for kind in KINDS:
        path = written(today, tmp_path / f"today.{kind}")
        log = piwo.read(path, context=COLUMNS, where="country < '1.2'", actions=["A", "B"])
        rows.add(piwo.evaluate(log, policy).rows)
    assert rows == {kept}


@pytest.mark.parametrize("kind", [*KINDS, "frame"])
def test_rewards_and_propensities_that_are_text_are_numbers_in_every_format(
    kind: str, tmp_path: Path
) -> None:
    table = pd.DataFrame(
        {
            "action": ["A", "B", "A", "B"] * 20,
            "reward": ["01", "0", " 1 ", "true"] * 20,
            "propensity": "0.5",
            "weight": ["1", "2.0", "1e0", "2"] * 20,
        }
    )
    source = table if kind == "frame" else written(table, tmp_path / f"log.{kind}")
    log = piwo.read(source, weight="weight")
    reward = np.concatenate([batch.reward for batch in log.each_batch()])
    assert sorted(reward) == [0.0] * 20 + [1.0] * 60
    table.loc[7, "reward"] = "yes"
    source = table if kind == "frame" else written(table, tmp_path / f"bad.{kind}")
    words = r"'reward' holds text where numbers are expected in 1 row \(.*: 7\); such as 'yes'"
    with pytest.raises(DataError, match=words):
        piwo.check(piwo.read(source, weight="weight"))
