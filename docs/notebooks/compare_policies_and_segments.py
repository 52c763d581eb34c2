# %% [markdown]
# # Compare many policies, and segments
#
# Of many candidates the best-looking one is mostly lucky. `piwo.compare` gives intervals that
# hold for all of them together, so that the best may be picked.

# %%
import altair as alt
import numpy as np
import pandas as pd

import piwo

# figures as SVG: without a browser, without a network
alt.renderers.enable("svg")

generator = np.random.default_rng(0)
n = 30_000
device = generator.choice(["phone", "desktop"], n, p=[0.7, 0.3])
share = np.array([0.5, 0.3, 0.2])
shown = generator.choice(3, n, p=share)
chance = np.array([[0.05, 0.09, 0.06], [0.08, 0.05, 0.06]])[(device == "desktop") * 1, shown]
visits = pd.DataFrame(
    {
        "banner": np.array(["A", "B", "C"])[shown],
        "click": generator.random(n) < chance,
        "p": share[shown],
        "device": device,
    }
)
log = piwo.read(
    visits, action="banner", reward="click", propensity="p", segments=["device"], logger="fixed"
)
log

# %%
policies = {f"always {x}": piwo.policies.Constant(x, log.actions) for x in log.actions}
policies["uniform"] = piwo.policies.Uniform(log.actions)
found = piwo.compare(log, policies)
found

# %% [markdown]
# The log was a pandas frame, and so is the table.

# %%
found.to_frame()[["name", "value", "lower", "upper", "improvement_lower", "certified_better"]]

# %%
piwo.plots.forest(found, reward="clicks")

# %% [markdown]
# Which of them should run, and which are any good at all?

# %%
chosen = piwo.select(log, policies)
assert chosen.best == "always B"
chosen

# %% [markdown]
# Is that so for everyone? By segment the bounds hold together, too.

# %%
by_device = piwo.evaluate(log, policies["always B"], by="device", name="always B")
for segment in by_device.segments:
    print(segment)

# %%
piwo.plots.action_mix(by_device)
