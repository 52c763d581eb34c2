"""D06: an event that was kept with chance 1 - pdrop weighs 1/(1 - pdrop), in numerator and
denominator."""

import json
from pathlib import Path
from typing import Any

import pytest

from piwo.errors import DataError
from piwo.logs import read
from piwo.policies import Logging
from piwo.reductions import PolicySums, reduce
from piwo.scores import IW


def written(folder: Path, *pdrops: float) -> Path:
    path = folder / "log.dsjson"
    events = [
        {
            "_label_cost": -float(i),
            "_label_probability": 0.5,
            "_label_Action": 1,
            "_labelIndex": 0,
            "a": [1, 2],
            "p": [0.5, 0.5],
            "c": {"_multi": [{}, {}]},
            "pdrop": pdrop,
        }
        for i, pdrop in enumerate(pdrops)
    ]
    path.write_text("\n".join(map(json.dumps, events)), "utf-8")
    return path


def test_dropped_events_are_made_up_for(tmp_path: Path, value: Any) -> None:
    log = read(written(tmp_path, 0.0, 0.9))
    assert value(log, Logging(log.actions)) == pytest.approx(10 / 11)
    moments = reduce(log, PolicySums(Logging(log.actions), IW())).moments
    assert moments.rho / moments.rows == pytest.approx(5.0)  # weighting the numerator alone
    batch = next(log.each_batch())
    assert batch.reward.mean() == 0.5  # ignoring pdrop
    assert batch.weight is not None
    assert batch.weight.tolist() == pytest.approx([1.0, 10.0])
    assert batch.propensity.tolist() == [0.5, 0.5]  # the sampling weight is not folded into mu


@pytest.mark.parametrize("pdrop", [1.0, 1.5, -0.1])
def test_an_event_that_is_always_dropped_cannot_be_there(pdrop: float, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"pdrop outside .*line 2"):
        read(written(tmp_path, 0.0, pdrop))
