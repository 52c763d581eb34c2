"""Context columns of mostly numbers and some text become categories, and a warning says so."""

from __future__ import annotations

import json
import warnings
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.cli.main import main
from piwo.logs.encoding import _Facts, _Look
from piwo.logs.items import item_features

N = 40
# Row 7 is the first with text; 36 numbers, 4 texts.
PRICES = ["low" if i % 10 == 7 else str(i % 5) for i in range(N)]
COLUMNS = {
    "price": PRICES,
    "action": ["a", "b"] * (N // 2),
    "reward": [1, 0, 0, 1] * (N // 4),
    "propensity": [0.5] * N,
}
SAYS = (
    "context column 'price' holds numbers in 36 rows and text in 4, first 'low' in row 7 (from "
    "0), so that each of its values is a category of its own; for numbers, correct or drop the "
    "rows with text; for categories, write them with a letter in front, such as 'n12'"
)


def written(kind: str, folder: Path, prices: list[str] = PRICES) -> Any:
    """The same log as a file of each kind, or as a frame."""
    frame = pd.DataFrame({**COLUMNS, "price": prices})
    if kind == "frame":
        return frame.astype({"price": object})
    if kind == "categories":
        return frame.astype({"price": "category"})
    path = folder / f"log.{kind}"
    if kind == "csv":
        frame.to_csv(path, index=False)
    elif kind == "parquet":
        pq.write_table(pa.Table.from_pandas(frame), path, row_group_size=16)
    else:
        rows = frame.to_dict("records")
        for row in rows:
            # numbers are numbers, in JSON
            if str(row["price"]).isdigit():
                row["price"] = int(row["price"])
        path.write_text("\n".join(map(json.dumps, rows)))
    return str(path)


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet", "frame", "categories"])
def test_every_kind_of_source_says_the_same(kind: str, tmp_path: Path) -> None:
    log = piwo.read(written(kind, tmp_path), context="price")
    with pytest.warns(piwo.PiwoWarning) as caught:
        assert log.features is not None
    assert [str(one.message) for one in caught] == [SAYS]
    assert log.features.width == 6


@pytest.mark.parametrize("kind", ["csv", "jsonl", "parquet"])
def test_the_command_says_it_too(
    kind: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = written(kind, tmp_path)
    words = ["learn", file, "--context", "price", "--oracle", "ridge"]
    assert main([*words, "--out", str(tmp_path / "p.piwo")]) == 0
    said = capsys.readouterr()
    assert " ".join((said.out + said.err).split()).count(SAYS[:90]) == 1


@pytest.mark.parametrize(
    "prices",
    [
        ["low", "high"] * 20,
        ["1", "2"] * 20,
        # as many as numbers: a column of names
        ["1", "b"] * 20,
        ["a1", "a2", "a3", "1"] * 10,
    ],
)
def test_nothing_is_said_of_numbers_or_names(prices: list[str], tmp_path: Path) -> None:
    for kind in ("csv", "parquet"):
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert piwo.read(written(kind, tmp_path, prices), context="price").features is not None


def test_columns_with_more_levels_than_are_listed_are_counted_whole(tmp_path: Path) -> None:
    prices = [str(i) if i % 10 else f"no{i}" for i in range(2000)]
    path = tmp_path / "log.parquet"
    columns = {name: values * 50 for name, values in COLUMNS.items() if name != "price"}
    pq.write_table(pa.table({**columns, "price": prices}), path, row_group_size=300)
    log = piwo.read(str(path), context="price", max_levels=16)
    with pytest.warns(piwo.PiwoWarning) as caught:
        assert log.features is not None
    said = [str(one.message) for one in caught]
    assert said[1].startswith("context column 'price' holds numbers in 1,800 rows and text in 200,")
    assert "first 'no0' in row 0" in said[1]


def test_features_of_items_are_no_exception() -> None:
    labels = [f"i{i}" for i in range(N)]
    rows = {**COLUMNS, "could": [["a", "b"]] * N}
    del rows["price"]
    items = {"action": ["a", "b", *labels], "z": ["1", "2", *PRICES]}
    log = piwo.read(rows, items=items)
    with pytest.warns(
        piwo.PiwoWarning, match=r"^items: column 'z' holds numbers in 38 rows and te"
    ):
        item_features(log)
    rows["offers"] = [[{"z": "1"}, {"z": price}] for price in PRICES]
    log = piwo.read(rows, eligible="could", items="offers")
    says = r"^column 'offers': feature 'z' holds numbers in 76 rows and text in 4, such as 'low', s"
    with pytest.warns(piwo.PiwoWarning, match=says):
        item_features(log)


def test_facts_are_the_same_after_they_were_bytes() -> None:
    task = _Look.__new__(_Look)
    facts = {"x": _Facts(counts=(3, 1), first=(7, "low"), numbers=True, words=True)}
    again = task.from_bytes(task.to_bytes(facts))
    assert (again["x"].counts, again["x"].first) == ((3, 1), (7, "low"))
    assert again["x"].mostly_numbers
