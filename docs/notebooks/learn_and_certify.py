# %% [markdown]
# # Learn a policy, and certify it
#
# A policy is learned from one half of the log. The other half says whether it is better than what
# runs today.

# %%
import altair as alt
from sklearn.datasets import load_digits

import piwo

# figures as SVG: without a browser, without a network
alt.renderers.enable("svg")

X, y = load_digits(return_X_y=True)
bandit = piwo.simulate.ClassificationBandit(X, y)
logger = bandit.softmax_logger(3.0)
log = bandit.log(logger, rows=10_000, random_state=0)
learner = piwo.PIWOGrid().fit(log)
learner.certificate_

# %% [markdown]
# The lower bound holds with probability 95 %. The truth is known here.

# %%
certificate = learner.certificate_
assert certificate.certified
assert certificate.value_lower <= bandit.value(learner.policy_)
print(certificate)

# %% [markdown]
# How far can it be below others? Rows that learning has not seen say so: those of another day.

# %%
tomorrow = bandit.log(logger, rows=10_000, random_state=1)
others = {
    "greedy logger": piwo.policies.LinearGreedy(
        logger.coef, logger.intercept, bandit.actions, bandit.features
    ),
    "uniform": piwo.policies.Uniform(bandit.actions),
}
regret = piwo.regret_certificate(tomorrow, learner.policy_, others)
regret

# %%
piwo.plots.regret(regret, reward="right guesses")

# %% [markdown]
# The policy is a file, with its certificate; loading it runs no code.

# %%
import tempfile
from pathlib import Path

with tempfile.TemporaryDirectory() as folder:
    place = Path(folder) / "policy.piwo"
    learner.policy_.save(place)
    again = piwo.load(place)
again.act(X[:5], random_state=0).actions
