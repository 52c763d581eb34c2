# %% [markdown]
# # A monitor that is looked at every day
#
# An interval that is looked at every day is wrong far more often than it says, if it was made for
# one look. A `piwo.Monitor` may be looked at as often as one likes: its bounds hold at all looks
# together.

# %%
import tempfile
from pathlib import Path

import altair as alt
import numpy as np

import piwo

# figures as SVG: without a browser, without a network
alt.renderers.enable("svg")

banners = piwo.simulate.Bandit(
    "three banners",
    log_mu=tuple(np.log([0.5, 0.3, 0.2])),
    pi=(0.0, 1.0, 0.0),
    chance=(0.04, 0.09, 0.03),
)
monitor = piwo.Monitor(banners.policy, horizon=9_000)

# %% [markdown]
# Each day adds its rows. Between two days the monitor is a small file.

# %%
looks = []
with tempfile.TemporaryDirectory() as folder:
    state = Path(folder) / "monitor.piwo"
    monitor.save(state)
    for day in range(30):
        monitor = piwo.Monitor.load(state, banners.policy)
        monitor = monitor.update(banners.log(300, random_state=day))
        monitor.save(state)
        looks.append(monitor.look())
looks[-1]

# %%
piwo.plots.monitor(looks, reward="clicks")

# %% [markdown]
# The first day on which the policy was certified better than what runs. The truth is known here.

# %%
first = next(look for look in looks if look.improvement_lower > 0)
assert all(look.lower <= banners.value <= look.upper for look in looks)
f"after {first.rows} rows; true values: {banners.value:.3f} against {banners.logging_value:.3f}"
