"""Each benchmark runs, at its smallest size: a script that nothing runs breaks unseen."""

import os
import runpy
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.filterwarnings("ignore"),
    pytest.mark.skipif(os.name == "nt", reason="they measure memory as Unix does"),
]

FOLDER = Path(__file__).resolve().parents[2] / "benchmarks"
SMALLEST = {
    "big_log": ["big", "--rows", "2000", "--days", "2"],
    "eligible": ["sets", "--memory", "500"],
    "evaluate": ["--rows", "2000"],
    "items": ["--rows", "300", "--items", "10", "--candidates", "3"],
    "kill_writers": ["--kills", "2", "--seconds", "0.3"],
    "lcb_mean": ["--rows", "2000"],
    "linear_policies": ["--rows", "500"],
    "report": ["--rows", "500", "--policies", "2", "--repeats", "1"],
    "ridge_path": ["--rows", "2000", "--fits", "1"],
    "serve": ["--requests", "20", "--clients", "2", "--workers", "1"],
}
"""Script -> words for a run that takes a second or two."""
TOO_SLOW = {
    "clusters": "it starts Spark and Dask",
    "learn": "every candidate learns, twice, in a process of its own",
    "paper": "800 policies are learned on 810,000 rows each",
    "peers": "it needs other libraries in an environment of their own",
    "scale": "each figure has a process of its own, 23 s of processor time together",
}
"""Scripts of which only the help is asked, and why."""
NO_WORDS = {
    "import_time": "it starts forty processes, and takes no words",
    "other_bounds": "it is imported by benchmarks.statistics",
    "timing": "it is imported by the others",
}


def run(name: str, words: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """Run a script as `python benchmarks/NAME.py WORDS` does, in this process."""
    monkeypatch.syspath_prepend(str(FOLDER))
    monkeypatch.setattr(sys, "argv", [name, *words])
    try:
        runpy.run_path(str(FOLDER / f"{name}.py"), run_name="__main__")
    finally:
        for helper in ("timing", "other_bounds"):
            sys.modules.pop(helper, None)


def test_every_script_is_listed() -> None:
    found = {path.stem for path in FOLDER.glob("*.py")}
    assert found == {*SMALLEST, *TOO_SLOW, *NO_WORDS}


@pytest.mark.parametrize("name", SMALLEST)
def test_it_runs_at_its_smallest_size(name, monkeypatch, tmp_path, capfd) -> None:
    monkeypatch.chdir(tmp_path)
    run(name, SMALLEST[name], monkeypatch)
    printed = capfd.readouterr().out
    assert printed
    if name == "kill_writers":
        assert printed.count(" 0 lost") == 2
        assert "2 kills, 0 rows read twice" in printed


@pytest.mark.parametrize("name", TOO_SLOW)
def test_its_help_is_printed(name, monkeypatch, capfd) -> None:
    with pytest.raises(SystemExit, match="0"):
        run(name, ["--help"], monkeypatch)
    assert "usage" in capfd.readouterr().out
