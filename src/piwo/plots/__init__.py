"""Figures: each is a function from a result to an Altair chart, with the numbers of the result.

They need the extra `plots` (`pip install 'piwo[plots]'`); `save` writes SVG and PNG without a
browser or a network.
"""

from piwo.plots.action_mix import action_mix
from piwo.plots.calibration import calibration
from piwo.plots.figure import figure
from piwo.plots.files import png, save, svg
from piwo.plots.forest import forest
from piwo.plots.histogram import weights
from piwo.plots.paper import paper
from piwo.plots.paths import coverage, gamma_path, monitor
from piwo.plots.regret import regret

__all__ = [
    "action_mix",
    "calibration",
    "coverage",
    "figure",
    "forest",
    "gamma_path",
    "monitor",
    "paper",
    "png",
    "regret",
    "save",
    "svg",
    "weights",
]
