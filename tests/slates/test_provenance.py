"""A slate policy from a file is known again by the rows that it was learned from."""

from __future__ import annotations

import base64
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo import slates
from piwo.errors import FileError
from piwo.slates.provenance import overlap_of

ITEMS = ["a", "b", "c"]


def world(rows: int, seed: int) -> dict[str, Any]:
    random = np.random.default_rng(seed)
    shown = np.array([random.permutation(3)[:2] for _ in range(rows)])
    x = random.normal(size=rows)
    liked = np.where(x > 0, 0, 1)
    rewards = random.random((rows, 2)) < np.where(shown == liked[:, None], 0.7, 0.2)
    return {
        "slate": [[ITEMS[i] for i in row] for row in shown],
        "rs": rewards.astype(float).tolist(),
        "x": x,
    }


def read(source: Any, **more: Any) -> slates.SlateLog:
    how: dict[str, Any] = {"rewards": "rs", "behavior": slates.Uniform(ITEMS), "context": "x"}
    return slates.read(source, **how | more)


def learned(table: Any, path: Path) -> slates.SlatePolicy:
    slates.learn(read(table)).policy.save(path)
    return slates.load(path)


def kinds(found: slates.SlateEvaluation) -> set[str]:
    return {note.kind for note in found.notes}


def test_rows_are_known_again_under_any_name(tmp_path: Path) -> None:
    table = world(1200, 0)
    policy = learned(table, tmp_path / "p.piwo")
    order = np.random.default_rng(1).permutation(1200)
    shuffled = {name: [values[i] for i in order] for name, values in table.items()}
    pq.write_table(pa.table(shuffled), tmp_path / "copy.parquet")
    rounded = {**table, "x": np.float32(table["x"])}
    for source in (table, str(tmp_path / "copy.parquet"), rounded):
        log = read(source)
        for estimator in ("standard", "independent"):
            found = slates.evaluate(log, policy, estimator=estimator)
            assert (found.lower, found.upper, found.guarantee) == (None, None, "none")
            assert found.no_interval is not None
            assert found.no_interval.kind == "in-sample"
            assert "rows that were compared are among them" in str(found.no_interval)
        assert slates.by_position(log, policy).no_interval is not None
    explored = slates.EpsilonSlate(policy, 0.1)  # type: ignore[arg-type]
    assert slates.evaluate(read(table), explored).guarantee == "none"


def test_other_rows_have_an_interval_and_a_note(tmp_path: Path) -> None:
    table = world(1200, 0)
    policy = learned(table, tmp_path / "p.piwo")
    fresh = slates.evaluate(read(world(1200, 5)), policy, estimator="independent")
    assert fresh.lower is not None
    assert "learned-elsewhere" in kinds(fresh)
    assert any("rows that were compared" in str(note) for note in fresh.notes)
    # the rows that were held out, by the same split
    held_out = read(table).split(0.5, 0).test
    found = slates.evaluate(held_out, policy, estimator="independent")
    assert found.lower is not None


def test_rows_that_are_alike_are_known_by_the_name_of_their_file(tmp_path: Path) -> None:
    table = {
        "slate": [["a", "b"], ["b", "c"], ["c", "a"]] * 40,
        "rs": [[1.0, 0.0], [0.0, 0.0], [0.0, 1.0]] * 40,
        "x": [0.0, 1.0, 2.0] * 40,
    }
    path = tmp_path / "log.parquet"
    pq.write_table(pa.table(table), path)
    policy = learned(str(path), tmp_path / "p.piwo")
    assert overlap_of(read(table), policy).how == ""
    assert overlap_of(read(str(path)), policy).how == "log.parquet is read again"
    found = slates.evaluate(read(str(path)), policy)
    assert found.no_interval is not None
    assert found.no_interval.kind == "in-sample"


def test_alike_rows_of_vowpal_wabbit_are_known_by_the_name_of_their_file(tmp_path: Path) -> None:
    table = {"slate": [[0, 1], [1, 0]] * 60, "rs": [[1.0, 0.0], [0.0, 0.0]] * 60, "x": [1, 0] * 60}
    path, uniform = tmp_path / "log.parquet", slates.Uniform([0, 1])
    pq.write_table(pa.table(table), path)
    log = read(str(path), behavior=uniform)
    slates.learn(log).policy.save(tmp_path / "p.piwo")
    policy = slates.load(tmp_path / "p.piwo")
    one = (
        "ccb shared | x:1\nccb action | a\nccb action | b\nccb slot 0:-1:0.5 |\nccb slot 1:0:1 |\n"
    )
    two = "ccb shared | x:0\nccb action | a\nccb action | b\nccb slot 1:0:0.5 |\nccb slot 0:0:1 |\n"
    path.write_text(f"{one}\n{two}\n" * 60)
    log = slates.read_vw(path, context="x")
    assert overlap_of(log, policy).how == "log.parquet is read again"
    assert overlap_of(read(table, behavior=uniform), policy).how == ""


def test_files_without_a_sample_and_damaged_ones(tmp_path: Path) -> None:
    table = world(300, 0)
    policy = learned(table, tmp_path / "p.piwo")
    assert isinstance(policy, slates.GreedySlate)
    assert policy.record is not None
    old = replace(policy, record={"source": "old.csv", "rows": 7})
    found = slates.evaluate(read(table), old, estimator="independent")
    assert found.lower is not None
    assert "learned-elsewhere" in kinds(found)
    sample = dict(policy.record["sample"])
    assert len(base64.b64decode(sample["hashes"])) <= 8 * 2048
    broken = replace(policy, record={**policy.record, "sample": {**sample, "hashes": "?"}})
    with pytest.raises(FileError, match="the sample of rows in the policy file is damaged"):
        slates.evaluate(read(table), broken)


@pytest.mark.statistics
def test_fresh_rows_are_rarely_taken_for_old_ones(tmp_path: Path) -> None:
    # contexts of ten values: rows repeat, and chance must be counted
    taken = 0
    for seed in range(100):
        table, other = world(600, seed), world(600, 1000 + seed)
        for one in (table, other):
            one["x"] = np.round(one["x"] * 40) / 40
        policy = learned(table, tmp_path / "p.piwo")
        taken += overlap_of(read(other), policy).certain
    assert taken <= 3
