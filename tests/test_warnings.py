"""A warning points to the line outside of piwo that led to it."""

import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest

import piwo
from piwo.errors import PiwoWarning, warn


def estimated() -> piwo.Log:
    rng = np.random.default_rng(0)
    x = rng.normal(size=300)
    rows = {"x": x, "action": rng.integers(0, 2, 300), "reward": (x > 0) * 1.0}
    return piwo.estimate_propensities(rows, context="x")


@pytest.mark.parametrize(
    "issued",
    [
        lambda: piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(estimated()),
        lambda: (
            piwo.read(
                {"x": [1.0, None], "action": [0, 1], "reward": [0, 1], "propensity": [0.5, 0.5]},
                context="x",
                missing="indicator",
            ).features
        ),
        lambda: piwo.evaluate(
            piwo.Log.from_arrays(action=[0, 1], reward=[0, 1], propensity=[0.5, 1.0 + 1e-12]),
            piwo.policies.Uniform([0, 1]),
        ),
    ],
)
def test_it_is_ours(issued) -> None:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        issued()
    found = [x for x in caught if x.category is PiwoWarning]
    assert found
    assert {x.filename for x in found} == {__file__}


def test_from_the_outermost_line_too(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text("from piwo.errors import warn\nwarn('half')\n")
    done = subprocess.run(
        [sys.executable, tmp_path / "mine.py"], capture_output=True, text=True, check=True
    )
    assert "mine.py:2: PiwoWarning: half" in done.stderr
    with pytest.warns(PiwoWarning, match="half") as caught:
        warn("half")
    assert caught[0].filename == __file__
