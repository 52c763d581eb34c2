"""The real command, from nothing to figures."""

import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

pytestmark = pytest.mark.statistics

ROOT = Path(__file__).resolve().parents[2]


def test_a_quick_run_on_synthetic_data(tmp_path):
    words = [
        sys.executable,
        "-m",
        "experiments.paper",
        "--quick",
        "--data",
        "synthetic",
        "--out",
        str(tmp_path / "out"),
    ]
    ran = subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, env=dict(os.environ), timeout=600
    )
    assert ran.returncode == 0, ran.stderr
    results = pq.read_table(tmp_path / "out" / "results.parquet").to_pandas()
    assert len(results) == 2 * 20 * 4 * 20 * 10
    assert results.reward.between(0.2, 1.0).all()
    assert (results.groupby(["set", "eta", "algorithm"]).size() == 200).all()
    for name in (
        "results.csv",
        "loggers.csv",
        "summary.md",
        "figure-1.svg",
        "figure-2.png",
        "figure-3.svg",
    ):
        assert (tmp_path / "out" / name).stat().st_size > 1000, name
    assert "synthetic" in (tmp_path / "out" / "figure-1.svg").read_text(encoding="utf-8")
