# %% [markdown]
# # What would another policy earn?
#
# A program guesses handwritten digits, with some randomness, and earns 1 when it is right. What
# would the same program earn without the randomness? The log is simulated, so that the answer can
# be compared with the truth.

# %%
import altair as alt
from sklearn.datasets import load_digits

import piwo

# figures as SVG: without a browser, without a network
alt.renderers.enable("svg")

X, y = load_digits(return_X_y=True)
bandit = piwo.simulate.ClassificationBandit(X, y)
logger = bandit.softmax_logger(3.0)
log = bandit.log(logger, rows=20_000, random_state=0)
greedy = piwo.policies.LinearGreedy(logger.coef, logger.intercept, bandit.actions, bandit.features)

# %%
result = piwo.evaluate(log, greedy, name="greedy")
result

# %% [markdown]
# The interval holds with probability 95 %, whatever the weights. The notes say what it assumes.

# %%
truth = bandit.value(greedy)
assert result.lower <= truth <= result.upper
f"{result.lower:.3f} <= {truth:.3f} <= {result.upper:.3f}"

# %%
piwo.plots.forest(result, reward="right guesses")

# %% [markdown]
# Does the estimate depend on how much weights are smoothed? A path is for looking. With
# `interval="ix"` the bounds depend on γ, and each is at δ/m, so that they hold at all m values
# together.

# %%
path = piwo.evaluate(log, greedy, gamma=[0.001, 0.01, 0.1, 0.5], interval="ix", name="greedy")
path

# %%
piwo.plots.gamma_path(path, reward="right guesses")

# %% [markdown]
# The weights themselves, an array in the order of the rows.

# %%
w = piwo.weights(log, greedy)
assert len(w) == len(log)
w.mean(), w.max()
