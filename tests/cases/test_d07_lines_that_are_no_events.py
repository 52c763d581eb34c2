"""D07: blank lines, checkpoints and events that were never shown are left out, and counted."""

import json
from pathlib import Path
from typing import Any

import pytest

from piwo.errors import DataError, PiwoWarning
from piwo.logs import read, read_dsjson
from piwo.policies import Logging


def event(cost: float, **more: Any) -> str:
    return json.dumps(
        {
            "_label_cost": cost,
            "_label_probability": 0.5,
            "_label_Action": 1,
            "_labelIndex": 0,
            "a": [1, 2],
            "p": [0.5, 0.5],
            "c": {"_multi": [{}, {}]},
        }
        | more
    )


LINES = [event(-1), event(0), "", "[meta] checkpoint", event(0, _skipLearn=True), event(-1)]


def written(folder: Path, lines: list[str]) -> Path:
    path = folder / "log.dsjson"
    path.write_text("\n".join(lines) + "\n", "utf-8")
    return path


def test_what_is_no_event_is_counted_by_reason(tmp_path: Path, value: Any) -> None:
    with pytest.warns(
        PiwoWarning, match=r"3 of 6 lines are not events \(blank 1, not JSON 1, skip-learn 1\)"
    ):
        log = read(written(tmp_path, LINES))
    assert len(log) == 3
    assert value(log, Logging(log.actions)) == pytest.approx(2 / 3)  # not 1/3 and not 1/2
    assert log.source.skipped == {"blank": 1, "not JSON": 1, "skip-learn": 1}  # type: ignore[attr-defined]


def test_a_truncated_line_is_refused_or_counted(tmp_path: Path) -> None:
    path = written(tmp_path, [*LINES, event(-1)[:40]])
    with pytest.raises(DataError, match=r"broken JSON in 1 line .*line 7.*on_error='skip'"):
        read_dsjson(path)
    with pytest.warns(PiwoWarning, match="broken JSON 1"):
        assert len(read_dsjson(path, on_error="skip")) == 3


@pytest.mark.parametrize("lines", [["", "[meta]"], [event(0, _skipLearn=True)], ["{"]])
def test_no_usable_event_is_an_error(lines: list[str], tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no rows in .*no line is an event"):
        read_dsjson(written(tmp_path, lines), on_error="skip")
