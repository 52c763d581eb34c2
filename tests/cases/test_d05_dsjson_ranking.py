"""D05: in dsjson, a is a ranking and p[j] belongs to a[j]; the shared object is no action."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from piwo.errors import DataError
from piwo.logs import read
from piwo.policies import Constant, Uniform

EVENT: dict[str, Any] = {
    "_label_cost": -1,
    "_label_probability": 0.6,
    "_label_Action": 3,
    "_labelIndex": 2,
    "a": [3, 1, 2],
    "p": [0.6, 0.3, 0.1],
    "c": {"U": {"x": 1}, "_multi": [{"f": 1}, {"f": 2}, {"f": 3}]},
}


def written(folder: Path, **changes: Any) -> Path:
    path = folder / "log.dsjson"
    path.write_text(json.dumps(EVENT | changes) + "\n", "utf-8")
    return path


def test_the_probabilities_are_put_back_in_the_order_of_the_actions(
    tmp_path: Path, value: Any
) -> None:
    log = read(written(tmp_path))
    batch = next(log.each_batch(propensities=True))
    assert len(log.actions) == 3
    assert batch.action.tolist() == [2]
    assert batch.propensities is not None
    assert batch.propensities.tolist() == [[0.3, 0.1, 0.6]]
    assert batch.reward.tolist() == [1.0]
    third = Constant(3, log.actions)
    assert value(log, third) == pytest.approx(1.666667, abs=1e-6)
    assert value(log, third, 0.05) == pytest.approx(1.538462, abs=1e-6)
    naive = EVENT["p"][EVENT["_labelIndex"]]
    assert (1 / naive, 1 / (naive + 0.05)) == pytest.approx((10, 6.666667))
    # the shared object is not one more action: uniform is 1/3 each
    assert value(log, Uniform(log.actions)) == pytest.approx(1 / 3 / 0.6)
    assert np.allclose(Uniform(log.actions).probability(None, batch.action), 1 / 3)


@pytest.mark.parametrize(
    "changes", [{"_label_probability": 0.1}, {"_label_Action": 1, "_labelIndex": 0}]
)
def test_a_label_that_disagrees_with_the_ranking_is_refused(
    changes: dict[str, Any], tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=r"that is not the first of .*line 1"):
        read(written(tmp_path, **changes))
