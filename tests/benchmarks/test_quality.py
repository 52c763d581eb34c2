"""The benchmark of learned policies: its tables and exit code from cases that are known, and one
case that is run."""

import json

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from threadpoolctl import threadpool_limits

from benchmarks import quality

pytestmark = pytest.mark.statistics


def written(path, gains, logged=0.5, best=0.9):
    """A file of all cases of one seed: auto gains what is given, in turn; all others reach half
    of what is possible."""
    lines = []
    for number, case in enumerate(quality._cases(quick=False, seeds=1)):
        value = logged + gains[number % len(gains)] * (best - logged)
        values = dict.fromkeys(quality.LEARNERS, (logged + best) / 2) | {quality.AUTO: value}
        chosen = "logging" if value == logged else "ridge"
        lines.append(
            {**vars(case), "logged": logged, "best": best, "chosen": chosen, "values": values}
        )
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return ["--seeds", "1", "--out", str(path)]


@pytest.mark.parametrize(
    ("gains", "code", "says"),
    [
        ([0.5], 0, None),
        ([0.44], 0, None),
        ([0.4, 0.46], 1, "auto has a mean gain of 0.430, wanted at least 0.44"),
        # .02 below the logger is harm, .004 is not
        ([0.9] * 34 + [-0.05], 1, "auto does harm in 2.9 % of the cases, wanted at most 1 %"),
        ([0.9] * 34 + [-0.01], 0, None),
    ],
)
def test_the_exit_code_says_whether_auto_is_good_enough(gains, code, says, tmp_path, capsys):
    assert quality.main(written(tmp_path / "done.jsonl", gains)) == code
    out = capsys.readouterr().out
    assert [line for line in out.splitlines() if line.startswith("missed: ")] == (
        [f"missed: {says}"] if says else []
    )


def test_the_tables_by_hand(tmp_path, capsys):
    """Seventy cases, by turns of seven loggers: those of the first gain nothing, the others .7."""
    quality.main(written(tmp_path / "done.jsonl", [0.0] + [0.7] * 6))
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "70 logs; auto keeps the logging policy in 14 % of them"
    by_logger = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    kinds = [
        "epsilon-greedy",
        "reversed",
        "softmax 1",
        "softmax 10",
        "softmax 30",
        "softmax 5",
        "uniform",
    ]
    heads = [line for line in lines if line.startswith("| learner")]
    assert heads[1] == f"| learner | gain | harm | {' | '.join(kinds)} |"
    rows = [line for line in lines if line.startswith("| auto |")]
    assert rows == [
        "| auto | 0.600 | 0.0 % | 0.60 | 0.60 | 0.60 | 0.60 | 0.60 |",
        "| auto | 0.600 | 0.0 % | 0.70 | 0.70 | 0.00 | 0.70 | 0.70 | 0.70 | 0.70 |",
        "| auto | 0.600 | 0.0 % | 0.60 | 0.60 |",
    ]
    assert by_logger["weighted logistic"] == "| weighted logistic | 0.500 | 0.0 % | 0.50 | 0.50 |"


def test_quick_judges_nothing(tmp_path, capsys):
    assert quality.main(["--quick", *written(tmp_path / "done.jsonl", [0.0])]) == 0
    assert "28 logs" in capsys.readouterr().out


def test_a_case_is_run_and_kept(tmp_path, monkeypatch, capsys):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(160, 2)), rng.integers(0, 3, 160)
    x[np.arange(160), y % 2] += 3.0 * (y < 2)
    pq.write_table(
        pa.table({"a": x[:, 0], "b": x[:, 1], "label": y}), tmp_path / "sup_tiny.parquet"
    )
    monkeypatch.setattr(quality, "SETS", ("tiny",))
    monkeypatch.setattr(quality, "REWARDS", ("sharp",))
    monkeypatch.setattr(quality, "LOGGERS", ("uniform",))
    words = [
        "--seeds",
        "1",
        "--jobs",
        "1",
        "--data",
        str(tmp_path),
        "--out",
        str(tmp_path / "done.jsonl"),
    ]
    with threadpool_limits(1, "openmp"):
        quality.main(words)
    (line,) = (tmp_path / "done.jsonl").read_text("utf-8").splitlines()
    found = json.loads(line)
    assert found["values"].keys() == set(quality.LEARNERS)
    # three classes, a uniform logger; the best sees what no learner sees
    assert abs(found["logged"] - 1 / 3) < 0.05
    assert found["logged"] < found["values"]["logistic, gamma sqrt(d/n)"] < found["best"] + 0.1
    first = capsys.readouterr().out
    quality.main(words)  # from the file
    assert capsys.readouterr().out == first
    assert len((tmp_path / "done.jsonl").read_text("utf-8").splitlines()) == 1
