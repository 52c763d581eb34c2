"""Action lists: labels in, labels out, nothing lost between."""

import numpy as np

from piwo.logs import Actions


def test_labels_come_back_with_every_digit_and_no_padding():
    wide = Actions([2**63 + 1, -5])
    assert wide.take(np.array([0, 1])).tolist() == [2**63 + 1, -5]
    long = Actions(["x" * 10_000, "b"])
    assert long.take(np.zeros(1000, np.int64)).nbytes <= 8000
    assert Actions(["a", "bc"]).take(np.array([1])).tolist() == ["bc"]
