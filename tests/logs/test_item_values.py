"""Features of items are checked when they are read, and errors name column and label."""

from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main

ROWS = {
    "action": ["a", "b"] * 4,
    "reward": [1, 0] * 4,
    "propensity": [0.5] * 8,
    "could": [["a", "b"]] * 8,
    "x": [0.0, 1.0] * 4,
}
WRONG = [
    ([1.0, float("nan")], "column 'z' is missing for 1 labels, such as 'b'"),
    ([1.0, float("inf")], "column 'z' is infinite for 1 labels, such as 'b'"),
    ([[1.0, 2.0], [float("inf"), 1.0]], "column 'z' is infinite for 1 labels, such as 'b'"),
    ([[1.0, 2.0], [None, 1.0]], "column 'z' is missing for 1 labels, such as 'b'"),
    ([[1.0, 2.0], [1.0]], "column 'z' is no list of length 2 for 1 labels, such as 'b'"),
    ([[], []], "column 'z' is no list of length 1 for 2 labels, such as 'a'"),
]


@pytest.mark.parametrize(("values", "says"), WRONG)
def test_a_table_is_refused_when_the_log_is_read(values: list[Any], says: str) -> None:
    with pytest.raises(piwo.DataError, match=f"^items: {says}; fill or drop such items first$"):
        piwo.read(ROWS, eligible="could", items={"action": ["a", "b"], "z": values})


def test_lists_of_text_are_no_features() -> None:
    items = {"action": ["a", "b"], "z": [["u"], ["v"]]}
    with pytest.raises(piwo.UsageError, match=r"column 'z' has type .*, expected numbers, text or"):
        piwo.read(ROWS, eligible="could", items=items)
    inside = {**ROWS, "offers": [[{"z": ["u"]}, {"z": ["v"]}]] * 8}
    with pytest.raises(piwo.DataError, match=r"'z' has type .*, expected numbers, text or lists"):
        piwo.check(piwo.read(inside, context="x", eligible="could", items="offers"))


@pytest.mark.parametrize(
    ("values", "says"),
    [
        ([1.0, None], "is missing 'z' of items in 1 row .*: 7.; such as of 'b'"),
        ([1.0, float("inf")], "has an infinite 'z' of items in 1 row .*: 7.; such as of 'b'"),
        ([[1.0], [float("inf")]], "has an infinite 'z' of items in 1 row .*: 7.; such as of 'b'"),
        ([[1.0], [1.0, 2.0]], "has no list of length 1 as 'z' of items in 1 row .*: 7.; such as"),
    ],
)
def test_features_inside_a_log_are_checked_by_check(values: list[Any], says: str) -> None:
    fine = [[1.0], [2.0]] if isinstance(values[0], list) else [1.0, 2.0]
    rows = [[{"z": fine[0]}, {"z": fine[1]}]] * 7 + [[{"z": values[0]}, {"z": values[1]}]]
    log = piwo.read({**ROWS, "offers": rows}, context="x", eligible="could", items="offers")
    with pytest.raises(piwo.DataError, match=f"column 'offers' {says}"):
        piwo.check(log)


def test_features_inside_a_log_without_context_are_checked_too() -> None:
    rows = [[{"z": 1.0}, {"z": 2.0}]] * 7 + [[{"z": 1.0}, {"z": float("nan")}]]
    log = piwo.read({**ROWS, "offers": rows}, eligible="could", items="offers")
    with pytest.raises(piwo.DataError, match="column 'offers' is missing 'z' of items in 1 row"):
        piwo.check(log)
    log = piwo.read({**ROWS, "offers": rows[:1] * 8}, eligible="could", items="offers")
    assert piwo.check(log).rows == 8


@pytest.mark.parametrize("context", [None, "x"])
def test_every_command_says_the_same_of_features_inside_a_log(
    context: str | None, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = [[{"z": 1.0}, {"z": 2.0}]] * 7 + [[{"z": 1.0}, {"z": None}]]
    file = str(tmp_path / "log.parquet")
    pq.write_table(pa.table({**ROWS, "offers": rows, "pi": [0.5] * 8}), file)
    log = piwo.read(file, context=context or (), eligible="could", items="offers")
    uniform = piwo.policies.Uniform(log.actions)
    for ask in (
        lambda: piwo.check(log),
        lambda: piwo.evaluate(log, uniform),
        lambda: piwo.compare(log, {"a": uniform}),
        lambda: piwo.certify(log, {"a": uniform}),
    ):
        with pytest.raises(piwo.DataError, match="column 'offers' is missing 'z' of items in 1"):
            ask()
    options = ["--eligible", "could", "--items", "offers"]
    if context is not None:
        options += ["--context", context]
    for words in (
        ["check", file],
        ["evaluate", file, "--policy", "uniform"],
        ["evaluate", file, "--policy-column", "pi"],
        ["learn", file, "--out", str(tmp_path / "p.piwo")],
    ):
        if words[0] == "learn" and context is None:
            # It says that it needs context, before it reads any row.
            continue
        assert main([*words, *options]) == 2
        said = capsys.readouterr().err.splitlines()[-1]
        assert "column 'offers' is missing 'z' of items in 1 row (row numbers from 0: 7)" in said


def test_features_whose_squares_leave_float64_are_refused() -> None:
    says = r"beyond 1e\+150, so that squares leave float64"
    table = {"action": ["a", "b"], "z": [1.0, -1e308]}
    with pytest.raises(piwo.DataError, match=f"{says} for 1 labels, such as 'b'; divide the"):
        piwo.read(ROWS, eligible="could", items=table)
    inside = {**ROWS, "offers": [[{"z": [1.0]}, {"z": [-1e308]}]] * 8}
    log = piwo.read(inside, eligible="could", items="offers")
    with pytest.raises(piwo.DataError, match=f"has a 'z' of items {says} in 8 rows"):
        piwo.check(log)


def test_marks_and_text_among_numbers_are_refused_at_the_door(tmp_path: Path) -> None:
    table = {"action": ["a", "b"], "z": ["1", "NA"]}
    says = "items: column 'z' holds numbers and 'NA'; fill or drop such items first, or turn"
    with pytest.raises(piwo.DataError, match=says):
        piwo.read(ROWS, eligible="could", items=table)
    path = tmp_path / "items.csv"
    more = "".join(f"a{i},{i}\n" for i in range(200))
    path.write_text(f"action,z\na,1\nb,2\n{more}")
    assert len(piwo.read(ROWS, eligible="could", items=str(path)).actions) == 202
    path.write_text(f"action,z\na,1\nb,low\n{more}")
    says = "items: column 'z' holds numbers in all but 1 of 202 rows, which hold text such as 'low'"
    with pytest.raises(piwo.DataError, match=says):
        piwo.read(ROWS, eligible="could", items=str(path))


def test_odd_frames_are_refused_in_one_line() -> None:
    with pytest.raises(piwo.UsageError, match=r"got one column alone \(Series\)"):
        piwo.read(ROWS, eligible="could", items=pd.Series([1, 2]))
    polars = pytest.importorskip("polars")
    wide = polars.DataFrame({"action": ["a", "b"], "z": polars.Series([1, 2], dtype=polars.Int128)})
    with pytest.raises(piwo.DataError, match=r"128 bits \(Int128\); cast it first, to Int64"):
        piwo.read(ROWS, eligible="could", items=wide)


def test_the_command_says_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pd.DataFrame(ROWS).to_parquet(tmp_path / "log.parquet")
    pd.DataFrame({"action": ["a", "b"], "z": WRONG[4][0]}).to_parquet(tmp_path / "items.parquet")
    words = ["check", str(tmp_path / "log.parquet"), "--eligible", "could", "--items"]
    assert main([*words, str(tmp_path / "items.parquet")]) == 2
    assert f"--items: {WRONG[4][1]}; fill or drop" in capsys.readouterr().err
    # A label without a row, and a label twice, name the label.
    pd.DataFrame({"action": ["a"], "z": [1.0]}).to_parquet(tmp_path / "items.parquet")
    assert main([*words, str(tmp_path / "items.parquet")]) == 2
    assert "without a row in items, which has 1 actions ('a')" in capsys.readouterr().err
    pd.DataFrame({"action": ["a", "b", "b"], "z": 1.0}).to_parquet(tmp_path / "items.parquet")
    assert main([*words, str(tmp_path / "items.parquet")]) == 2
    assert "--items lists 1 labels twice or more, such as 'b'" in capsys.readouterr().err
