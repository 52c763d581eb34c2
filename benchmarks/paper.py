"""One logger of the paper's experiment, in seconds a policy, beside the obvious loop.

    python benchmarks/paper.py [--data FILE]       FILE as for experiments.paper; else synthetic
    data

800 policies (4 scores x 20 hyper-parameters x 10 folds) are learned on 810,000 rows each and valued
on 90,000, drawing the log included. Beside it, in the same run and measured on three policies:
dense gains, scikit-learn's Ridge, argmax. Wanted: at least 400 times faster.
"""

import argparse
import sys
import time
from pathlib import Path

import numpy as np
from sklearn.linear_model import Ridge

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from experiments.data import load
from experiments.protocol import PARAMETERS, Experiment, Logger, Protocol


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", default="synthetic")
    experiment = Experiment(load(parser.parse_args().data, None, 0), Protocol())
    logger = Logger("good", 12)
    fast = []
    for _ in range(3):  # the first one compiles
        start = time.perf_counter()
        experiment.run(logger)
        fast.append(time.perf_counter() - start)
    policies = len(experiment.scores) * len(experiment.tests)
    log = experiment.log(experiment.bandit, experiment.policy(logger), [0, 1, 12])
    batches = list(log.each_batch())
    names = ("action", "reward", "propensity")
    action, reward, mu = (
        np.concatenate([getattr(batch, name) for batch in batches]) for name in names
    )
    slow = []
    for fold in range(3):
        train, test = np.flatnonzero(experiment.fold != fold), experiment.tests[fold]
        start = time.perf_counter()
        gains = np.zeros((len(train), len(log.actions)))
        gains[np.arange(len(train)), action[train]] = reward[train] / (mu[train] + PARAMETERS[13])
        model = Ridge().fit(experiment.bandit.context[train], gains)
        chosen = model.predict(test.context).argmax(axis=1)
        assert test.rewards[chosen, test.classes].mean() > 0
        slow.append(time.perf_counter() - start)
    one, other = min(fast[1:]) / policies, float(np.median(slow))
    print(f"policies of one logger          {policies:,}, {min(fast[1:]):.2f} s")
    print(f"seconds a policy                {one:.5f}")
    print(f"the obvious loop, a policy      {other:.3f}")
    print(f"times faster                    {other / one:.0f} (at least 400)")


if __name__ == "__main__":
    main()
