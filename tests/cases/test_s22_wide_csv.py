"""S22: text files with thousands of columns are read in time and memory linear in the columns."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

COLUMNS = 3000
READ = """
import json, resource, sys, time
import piwo
start = time.process_time()
log = piwo.read(sys.argv[1], context="x*")
shape = [list(batch.context.shape) for batch in log.each_batch(context=True)]
seconds = time.process_time() - start
print(json.dumps([shape, seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024]))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wide")
    rng = np.random.default_rng(0)
    table = {"action": ["a", "b"], "reward": [0, 1], "propensity": [0.5, 0.5]}
    for i in range(COLUMNS):
        table[f"x{i}"] = rng.normal(size=2).tolist()
    pq.write_table(pa.table(table), folder / "log.parquet")
    pyarrow.csv.write_csv(pa.table(table), folder / "log.csv")
    (folder / "log.jsonl").write_text(
        "".join(json.dumps(x) + "\n" for x in pa.table(table).to_pylist())
    )
    return folder


def measured(path: Path) -> tuple[float, float]:
    """Return processor seconds and megabytes of a process that reads the log."""
    done = subprocess.run(
        [sys.executable, "-c", READ, str(path)], capture_output=True, text=True, check=True
    )
    shape, seconds, megabytes = json.loads(done.stdout)
    assert shape == [[2, COLUMNS]]
    return seconds, megabytes


@pytest.mark.skipif(sys.platform != "linux", reason="the unit of ru_maxrss is Linux's")
def test_wide_text_files_need_little_more_than_parquet(folder: Path) -> None:
    _, parquet = measured(folder / "log.parquet")
    for name in ("log.csv", "log.jsonl"):
        seconds, megabytes = measured(folder / name)
        # Of processors: about 3 s.
        assert seconds < 10
        assert megabytes < 2 * parquet
