"""`python -m experiments.less_data`: a table worked by hand, and the logs behind it."""

import numpy as np
import pytest

from experiments import less_data
from experiments.data import load
from experiments.less_data import Behind, measure
from experiments.protocol import Experiment, Logger, Protocol

pytestmark = pytest.mark.statistics


def test_a_row_by_hand() -> None:
    """Two logs, three gammas of which the first two are near, two folds."""
    first = [[0.4, 0.6], [0.5, 0.7], [0.7, 0.7]]
    second = [[0.6, 0.8], [0.6, 0.6], [0.7, 0.7]]
    found = Behind(4.833, 20_000, np.array([first, second]), [0, 1], 0.65).row()
    # means (.5, .6, .7) and (.7, .6, .7): near .6 and .6; behind .2 and .1; over logs sd .1414 and
    # 0 over folds every deviation is .1414 but one, which is 0; the square root of two makes them
    # .1
    assert found == [
        "4.83",
        "20,000",
        "2",
        "0.600 to 0.600",
        "0.700",
        "0.650",
        "0.150",
        "0.071",
        "0.071",
        "0.075",
    ]


def test_logs_are_drawn_anew_and_valued_like_those_of_a_run() -> None:
    of_logger = measure(2000, 2, seed=3)[1]
    assert (of_logger.eta, of_logger.rows) == (pytest.approx(4.83, abs=0.01), 2000)
    assert not np.array_equal(*of_logger.rewards)
    experiment = Experiment(load("synthetic", 2000, 3), Protocol(seed=3))
    again = experiment.rewards(Logger("good", 8), (1,))
    assert np.array_equal(of_logger.rewards[1], again[:, :20].T)
    assert of_logger.best_fixed == np.mean(experiment.best_fixed)


def test_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def made_up(rows: int, logs: int, seed: int) -> list[Behind]:
        return [Behind(eta, rows, np.full((logs, 1, 2), 0.5), [0], 0.4) for eta in (0.1, 4.83)]

    monkeypatch.setattr(less_data, "measure", made_up)
    assert less_data.main(["--most", "60000", "--logs", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" | ")[:3] for line in lines[2:]] == [
        [f"| {eta}", rows, "2"] for eta in ("0.1", "4.83") for rows in ("20,000", "60,000")
    ]
    assert less_data.main(["--logs", "0"]) == 2
    assert capsys.readouterr().err == "error: --logs is 0, expected 1 or more\n"
