"""Candidates as people log them: objects with a label inside, and lists written as text."""

import json
from pathlib import Path

import pytest

import piwo

ROWS = [
    {"action": "a", "reward": 1, "propensity": 0.5, "cands": [["a", 1.5], ["b", 2.0]]},
    {"action": "b", "reward": 0, "propensity": 0.5, "cands": [["c", 1.0], ["b", 2.0]]},
]
OFFERS = "[{'price': x.price} for x in cands] as offers"


def test_labels_inside_of_objects_are_taken_out_by_the_query_that_the_error_names(
    tmp_path: Path,
) -> None:
    lines = []
    for row in ROWS:
        cands = [{"id": label, "price": price} for label, price in row["cands"]]
        lines.append(json.dumps({**row, "cands": cands}))
    path = tmp_path / "log.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(piwo.DataError, match=r"\[x.LABEL for x in COLUMN\] as could from 'FILE'"):
        piwo.read(str(path), eligible="cands")
    query = f"select *, [x.id for x in cands] as could, {OFFERS} from '{path}'"
    log = piwo.read(query, eligible="could", items="offers")
    assert log.actions.labels == ("a", "b", "c")
    # (1/2)/.5 of the first row, which earned 1, over two rows
    assert piwo.evaluate(log, piwo.policies.Uniform(log.actions)).value == 0.5


def test_lists_that_are_text_are_read_by_the_query_that_the_error_names(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    lines = ["action,reward,propensity,could"]
    for row in ROWS:
        could = json.dumps([label for label, _ in row["cands"]]).replace('"', '""')
        lines.append(f'{row["action"]},{row["reward"]},0.5,"{could}"')
    path.write_text("\n".join(lines))
    log = piwo.read(str(path), eligible="could")
    with pytest.raises(piwo.DataError, match=r"expected lists .*; lists that are written as") as no:
        piwo.check(log)
    query = str(no.value).partition("query: ")[2].replace("COLUMN", "could")
    log = piwo.read(query.replace("FILE", str(path)), eligible="could")
    assert piwo.evaluate(log, piwo.policies.Uniform(log.actions)).value == 0.5
