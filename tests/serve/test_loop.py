"""The loop: decide, log, learn, gate, deploy. It is the program of docs/serving.md."""

import contextlib
import io
import re
from pathlib import Path
from typing import Any

import pytest

PAGE = Path(__file__).resolve().parents[2] / "docs" / "serving.md"


def test_the_loop_of_the_page_earns_what_it_promised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text("utf-8"), re.DOTALL | re.MULTILINE
    )
    names: dict[str, Any] = {"__name__": "__main__"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile("".join(blocks), PAGE.name, "exec"), names)
    assert printed.getvalue().startswith("fit\n")
    assert names["before"] < 0.45
    assert names["certificate"].certified
    # A tenth of the decisions explores, and ids are random, so rows are split in another way in
    # each run.
    assert names["after"] > names["certificate"].value_lower - 0.1
    assert names["after"] > names["before"] + 0.1
