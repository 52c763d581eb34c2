# %% [markdown]
# # Is the log fit for use?
#
# Before any number is believed: are the propensities right, is anything missing, do a few rows
# decide everything? The log is simulated: three articles, one of them shown rarely, clicks as
# rewards.

# %%
import altair as alt
import numpy as np

import piwo

# figures as SVG: without a browser, without a network
alt.renderers.enable("svg")

generator = np.random.default_rng(0)
n = 20_000
share = np.array([0.6, 0.35, 0.05])
shown = generator.choice(3, n, p=share)
clicked = generator.random(n) < np.array([0.05, 0.08, 0.12])[shown]
names = np.array(["news", "sport", "films"])
log = piwo.Log.from_arrays(
    action=names[shown], reward=clicked, propensity=share[shown], logger="fixed"
)
log

# %% [markdown]
# `piwo.check` reads the log once. The verdict comes first, then what was found, and what to do.

# %%
health = piwo.check(log)
health

# %% [markdown]
# The table by action, as a frame of the library that the log came from (here an Arrow table), and
# as a figure: the mean of 1{A = a}/μ is 1 if an action comes as often as the log says.

# %%
health.to_frame("pandas")[["action", "count", "mean_propensity", "mean_inverse", "z"]]

# %%
piwo.plots.calibration(health)

# %% [markdown]
# Weights belong to a policy. One that always shows films rests on a twentieth of the rows.

# %%
films = piwo.policies.Constant("films", log.actions)
rests_on = piwo.check(log, films)
assert rests_on.ess < 0.1 * len(log)
piwo.plots.weights(rests_on)

# %% [markdown]
# A mistake that is easily made: the propensities are those of another version of the program.
# `check` finds it.

# %%
wrong = piwo.Log.from_arrays(
    action=names[shown],
    reward=clicked,
    propensity=np.array([0.7, 0.28, 0.02])[shown],
    logger="fixed",
)
broken = piwo.check(wrong)
assert not broken.fit
piwo.plots.calibration(broken)
