"""Lists of actions, as text and as files: S04."""

from pathlib import Path

import pandas as pd
import pytest

ROWS = pd.DataFrame({"action": ["a", "b"] * 9, "reward": [1, 0] * 9, "propensity": [0.5] * 18})


@pytest.mark.parametrize("text", ["a\nb\n\n", "a\n\nb\n", "\na\nb", "a\n  \nb\n"])
def test_a_blank_line_is_not_an_action(piwo, tmp_path: Path, text: str) -> None:
    ROWS.to_csv(tmp_path / "log.csv", index=False)
    (tmp_path / "actions.txt").write_text(text)
    words = ("evaluate", tmp_path / "log.csv", "--policy", "uniform")
    done = piwo(*words, "--actions", f"@{tmp_path / 'actions.txt'}")
    assert (done.code, done.out) == (2, "")
    assert "1 blank lines (line " in done.err
    (tmp_path / "actions.txt").write_text("a\nb\n")
    assert piwo(*words, "--actions", f"@{tmp_path / 'actions.txt'}").code == 0
    for wrong in ("a,b,", ",a,b", "a,,b"):
        done = piwo(*words, "--actions", wrong)
        assert (done.code, done.out) == (2, "")
        assert "has an empty label" in done.err
