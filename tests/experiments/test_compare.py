"""`python -m experiments.compare`: two runs worked by hand, and folders that are no runs."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from experiments import compare
from experiments.averages import gather
from experiments.protocol import gamma_star
from experiments.results import LOGGERS, RESULTS

Fabricate = Callable[..., tuple[pa.Table, pa.Table]]
HS = (1e-9, 1e-2, 1.0)
SETTINGS = {"n": 200_000, "d": 16, "folds": 2, "resample": False}
"""90,000 rows are learned from, so that sqrt(d/n) is 1/75: 1e-2 is near it, 1e-9 and 1 are not."""
CHANGES = {(10.0, 1e-2): 0.1, (40.0, 1e-2): 0.02, (40.0, 1e-9): -0.2}


def plain(name: str, algorithm: str, eta: float, h: float) -> float:
    return 0.5 + 0.01 * (h == HS[0])


def changed(name: str, algorithm: str, eta: float, h: float) -> float:
    return plain(name, algorithm, eta, h) + CHANGES.get((eta, h), 0.0) * (algorithm == "PIWO-IX")


@pytest.fixture
def runs(fabricate: Fabricate, tmp_path: Path) -> tuple[Path, Path]:
    """Two finished runs of one set and two algorithms, which differ in three cells of PIWO-IX."""

    def run(name: str, shape: Any, **settings: Any) -> Path:
        grid = {
            "sets": ["good"],
            "algorithms": ["PIWO-IX", "PIWO-Clip"],
            "etas": [10.0, 40.0],
            "hs": HS,
        }
        tables = fabricate(shape, **grid, folds=2, noise=0.0, own_noise=0.0)
        return written(tmp_path / name, tables, **settings)

    return run("a", plain), run("b", changed, resample=True)


def written(path: Path, tables: tuple[pa.Table, pa.Table], **settings: Any) -> Path:
    path.mkdir()
    (path / "settings.json").write_text(json.dumps(SETTINGS | settings))
    for kind, schema, table in zip(("results", "loggers"), (RESULTS, LOGGERS), tables, strict=True):
        pq.write_table(table.select(schema.names).cast(schema), path / f"{kind}.parquet")
    return path


def test_sqrt_d_n_counts_the_rows_that_are_learned_from() -> None:
    assert gamma_star(SETTINGS["n"], SETTINGS["d"], SETTINGS["folds"]) == pytest.approx(1 / 75)
    assert gamma_star(1009, 4, 10) == pytest.approx((4 / (909 * 0.9)) ** 0.5)


def test_a_comparison_by_hand(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([str(run) for run in runs]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "The runs differ in resample (False, True)."
    near, everywhere = (lines.index(title) for title in lines if title.startswith("At every h"))
    assert (
        lines[near + 4]
        == "| good, PIWO-IX | +0.0600 | 0.0600 | +0.1000 | eta = 10, h = 0.01 | 0.0000 | 0.0000 |"
    )
    assert lines[near + 5].startswith("| good, PIWO-Clip | +0.0000 | 0.0000 | +0.0000 | ")
    # six cells: (0.1 + 0.02 - 0.2) / 6, and 0.32 / 6
    assert lines[everywhere + 4].startswith(
        "| good, PIWO-IX | -0.0133 | 0.0533 | -0.2000 | eta = 40, h = 1e-09 | "
    )
    claims = [line for line in lines if line.startswith("- ")]
    assert claims[0] == "- PIWO-Clip is close to PIWO-IX near sqrt(d/n). yes, then **no**"


def test_a_run_equals_itself(runs: tuple[Path, Path], capsys: pytest.CaptureFixture[str]) -> None:
    assert compare.main([str(runs[0])] * 2) == 0
    lines = capsys.readouterr().out.splitlines()
    assert (lines[0], lines[-1]) == ("The runs differ in nothing.", "All claims are decided alike.")


def test_deviations_are_those_over_folds(fabricate: Fabricate) -> None:
    shaken = fabricate(
        sets=["bad"],
        etas=[1.0],
        hs=[1e-2],
        algorithms=["PIWO-IX"],
        folds=3,
        noise=0.1,
        own_noise=0.0,
    )
    (apart,) = compare.differences(*[gather(*shaken)] * 2, near=None)
    rewards = shaken[0]["reward"].to_pylist()
    mean = sum(rewards) / 3
    assert apart.spread == pytest.approx([(sum((x - mean) ** 2 for x in rewards) / 2) ** 0.5] * 2)


def test_what_cannot_be_compared_is_one_line(
    runs: tuple[Path, Path],
    fabricate: Fabricate,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    bad_set = fabricate(
        sets=["bad"], algorithms=["PIWO-IX", "PIWO-Clip"], etas=[10.0, 40.0], hs=HS, folds=2
    )
    other_size = written(tmp_path / "other size", bad_set, n=100_000)
    others = written(tmp_path / "other set", bad_set)
    damaged = written(tmp_path / "damaged", bad_set)
    (damaged / "loggers.parquet").write_bytes(b"PAR1")
    (tmp_path / "begun").mkdir()
    (tmp_path / "begun" / "settings.json").write_text(json.dumps(SETTINGS))
    for second, told in (
        (tmp_path / "nothing", "has no settings.json, expected the folder of a finished run"),
        (tmp_path / "begun", "has no results.parquet, expected the folder of a finished run"),
        (damaged, "loggers.parquet' is damaged"),
        (other_size, "sqrt(d/n) is 0.0133 and 0.0189, expected the same"),
        (others, "not the same loggers"),
    ):
        assert compare.main([str(runs[0]), str(second)]) == 2
        out, err = capsys.readouterr()
        assert (out, err.count("\n")) == ("", 1)
        assert err.startswith("error: ")
        assert told in err
