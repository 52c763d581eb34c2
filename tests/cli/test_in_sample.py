"""A policy is known again by its rows, under whatever name they are read; what is not known is
not claimed."""

import copy
import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

import piwo as library
from piwo.policies.files import load_with_metadata

CONTEXT = ("--context", "user x,shop")


@pytest.fixture(scope="module")
def learned(learnable: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A policy learned from all rows of the log, as `piwo learn` saves it."""
    from piwo.cli.main import main

    out = tmp_path_factory.mktemp("policies") / "p.piwo"
    words = [
        "learn",
        learnable,
        "--action",
        "item",
        "--reward",
        "click",
        "--propensity",
        "p",
        *CONTEXT,
    ]
    assert main([str(x) for x in (*words, "--oracle", "ridge", "--quiet", "--out", out)]) == 0
    return out


def ways(log: Path, folder: Path) -> dict[str, tuple[object, ...]]:
    """The rows of a log, or some of them, read otherwise."""
    rows = pq.read_table(log)
    shutil.copy(log, folder / "copy.parquet")
    (folder / "parts").mkdir()
    for i in range(3):
        pq.write_table(rows.slice(1000 * i, 1000), folder / "parts" / f"{i}.parquet")
    pyarrow.csv.write_csv(rows, folder / "rows.csv")
    other = rows.set_column(rows.column_names.index("p"), "p", pa.array(np.full(3000, 0.4)))
    pq.write_table(
        other.take(np.random.default_rng(0).permutation(3000)), folder / "shuffled.parquet"
    )
    return {
        "itself": (log,),
        "most of it": (log, "--where", '"user x" < 1.5'),
        "a tenth": (log, "--where", '"user x" < -1.3'),
        "query": (f"select * from '{log}'",),
        "copy": (folder / "copy.parquet",),
        "parts": (folder / "parts" / "*.parquet",),
        "csv": (folder / "rows.csv",),
        "shuffled, with other propensities": (folder / "shuffled.parquet",),
    }


def test_the_rows_are_known_however_they_are_read(
    piwo, learnable: Path, roles, learned: Path, tmp_path: Path
) -> None:
    for name, log in ways(learnable, tmp_path).items():
        done = piwo("evaluate", *log, *roles, "--gate", "--policy", learned, "--json")
        (found,) = done.document["policies"]
        assert (done.code, found["in_sample"], found["lower"], found["improvement_lower"]) == (
            1,
            True,
            None,
            None,
        ), name
        assert "rows that were compared are among them" in found["notes"][0], name
    told = piwo(
        "learn",
        ways_of_old(learnable),
        *roles,
        *CONTEXT,
        "--incumbent",
        learned,
        "--out",
        tmp_path / "n.piwo",
    )
    assert "was learned from part of this log (" in told.err


def ways_of_old(log: Path) -> str:
    return f"select * from '{log}' limit 400"


def test_other_rows_are_told_apart_and_the_rest_is_said(
    piwo, learnable: Path, roles, tmp_path: Path
) -> None:
    out = tmp_path / "p.piwo"
    words = (learnable, *roles)
    piwo("learn", *words, *CONTEXT, "--oracle", "ridge", "--where", "shop = 'north'", "--out", out)
    assert "north" not in (load_with_metadata(out).metadata["sample"]["hashes"])
    done = piwo("evaluate", *words, "--where", "shop = 'south'", "--policy", out)
    assert "interval: contains the true value with probability" in done.out
    assert (
        "statements about it are valid if it was made without these rows: it was learned from "
        "learnable.parquet" in (done.out.replace(f"{learnable.parent}/", ""))
    )
    assert "; none of the 1,5" in done.out
    assert "rows that were compared is among them" in done.out
    # some of both
    mixed = piwo("evaluate", *words, "--where", '"user x" > 0', "--policy", out, "--json").document[
        "policies"
    ][0]
    assert mixed["in_sample"] is True


@pytest.fixture
def alike(tmp_path: Path) -> Path:
    """Rows of which many are the same in all that a policy sees: they tell nothing."""
    rng = np.random.default_rng(0)
    x, item = rng.integers(0, 2, 800), rng.integers(0, 2, 800)
    click = (rng.random(800) < np.where(item == x, 0.9, 0.1)) * 1
    day = np.arange(800) // 100
    table = pa.table({"x": x, "item": item, "click": click, "p": np.full(800, 0.5), "day": day})
    pq.write_table(table, tmp_path / "alike.parquet")
    pq.write_table(table, tmp_path / "other.parquet")
    return tmp_path / "alike.parquet"


def test_rows_that_are_alike_go_by_name(piwo, alike: Path, roles, tmp_path: Path) -> None:
    def evaluated(policy: Path, *words: object) -> dict[str, object]:
        found: dict[str, object] = piwo(
            "evaluate", *words, *roles, "--policy", policy, "--json"
        ).document["policies"][0]
        return found

    whole, part = tmp_path / "whole.piwo", tmp_path / "part.piwo"
    learn = ("learn", alike, *roles, "--context", "x", "--oracle", "ridge", "--out")
    piwo(*learn, whole)
    piwo(*learn, part, "--where", "day < 4")
    for words in ((alike,), (alike, "--where", "day >= 1"), (f"select * from '{alike}'",)):
        assert evaluated(whole, *words)["in_sample"] is True, words
    assert evaluated(part, alike, "--where", "day < 4")["in_sample"] is True
    unknown = (
        evaluated(part, alike, "--where", "day >= 4"),
        evaluated(whole, tmp_path / "other.parquet"),
    )
    for found in unknown:
        assert found["in_sample"] is False
        assert "whether these rows are among them is not known" in found["notes"][-1]  # type: ignore[index]


@pytest.mark.parametrize("ending", ["vw", "adf.vw", "dsjson"])
def test_alike_rows_of_vowpal_wabbit_go_by_name(piwo, ending: str, tmp_path: Path) -> None:
    """Files of it are read into memory, and are named all the same."""
    log, other, policy = (tmp_path / f"{x}.{ending}" for x in ("tue", "wed", "policy"))
    roles = ("--context", "U/x" if ending == "dsjson" else "x")
    log.write_text("".join(vw_events(ending, 0)))
    other.write_text("".join(vw_events(ending, 1)))
    piwo("learn", log, *roles, "--oracle", "ridge", "--out", policy)
    (found,) = piwo("evaluate", log, *roles, "--policy", policy, "--json").document["policies"]
    assert found["in_sample"] is True
    assert found["lower"] is None
    assert "same name, same number of rows" in found["notes"][0]
    (found,) = piwo("evaluate", other, *roles, "--policy", policy, "--json").document["policies"]
    assert found["in_sample"] is False
    assert "whether these rows are among them is not known" in found["notes"][-1]


def vw_events(ending: str, seed: int) -> list[str]:
    """Return 400 decisions of two actions, as text, whose contexts are one of two numbers."""
    rng = np.random.default_rng(seed)
    events = []
    for x, a in rng.integers(0, 2, (400, 2)).tolist():
        cost = -int(rng.random() < (0.9 if a == x else 0.1))
        if ending == "vw":
            events.append(f"{a + 1}:{cost}:0.5 | x:{x}\n")
        elif ending == "adf.vw":
            lines = ["| one", "| two"]
            lines[a] = f"0:{cost}:0.5 {lines[a]}"
            events.append("\n".join([f"shared | x:{x}", *lines, "", ""]))
        else:
            context = {"U": {"x": x}, "_multi": [{}, {}]}
            event = {"_label_cost": cost, "_label_probability": 0.5, "_label_Action": a + 1}
            event |= {"_labelIndex": a, "a": [a + 1, 2 - a], "p": [0.5, 0.5], "c": context}
            events.append(json.dumps(event) + "\n")
    return events


def test_files_of_earlier_versions_and_damaged_ones(
    piwo, learnable: Path, roles, learned: Path, tmp_path: Path
) -> None:
    saved, old = load_with_metadata(learned), tmp_path / "old.piwo"
    kept = {key: value for key, value in saved.metadata.items() if key != "sample"}
    policy = copy.copy(saved.policy)  # copies do not know where they come from
    policy.save(old, kept)
    (found,) = piwo("evaluate", learnable, *roles, "--policy", old, "--json").document["policies"]
    assert "same name, same number of rows" in found["notes"][0]
    good = saved.metadata["sample"]
    wrong = ({**good, "hashes": "AAA"}, {**good, "digits": "x"}, {**good, "digits": 400})
    for sample in (7, {}, {"hashes": "?"}, *wrong):
        policy.save(old, {**kept, "sample": sample})
        done = piwo("evaluate", learnable, *roles, "--policy", old)
        assert done.code == (0 if sample == {} else 2), sample
        assert sample == {} or "damaged" in done.err
    policy.save(old)
    assert (
        "its file does not say what it was learned from"
        in piwo("evaluate", learnable, *roles, "--policy", old).out
    )
    assert library.load(old).kind == saved.policy.kind
