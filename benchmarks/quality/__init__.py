"""How good learned policies are, and whether they harm: labeled data as logs, exact values.

    python -m benchmarks.quality run [--confirm] [--full] [--seeds 1] [--sizes N ...] [--every 1]
        [--comparable] [--sets NAME ...] [--learners NAME ...] [--jobs 2] [--data FOLDER]
        [--out quality.jsonl]
    python -m benchmarks.quality table [--confirm] [--comparable] [--learners NAME ...]
        [--out quality.jsonl]

A log: a data set (half of its rows, drawn with replacement), mean rewards of each class and
action, a logging policy, a number of rows n, a seed. Policies are valued exactly on rows of the
other half, from which no learner and no logger sees anything.

Two halves. Settings are chosen on one and confirmed, once, on the other (--confirm), which shares
neither data sets nor seeds with it. The seeds that confirm now are new, but earlier guards of the
vote were corrected after earlier seeds of cancer, letter and bng-letter:

- choose: digits (K = 10), penbased (10), satimage (6), segment (7), vowel (11), clusters-5,
  network-50, clusters-200; seeds 0, 1, ...
- confirm: cancer (K = 2), letter (26), bng-letter (26), network-12, clusters-8, clusters-26;
  seeds 5000, 5001, ...

The seeds from 1000 to 4000 on, some with other synthetic data, confirmed earlier versions. They
showed which votes harmed, so they are not used again.

--comparable: logs as in an earlier benchmark, of sharp and paper rewards alone. Every row to learn
from is in the log once; these are seven tenths of a data set, and at most 10,000. It has its own
two halves, each declared before `Auto()` was run on it. The data sets of the second were composed
after a harder half had given .576 (docs/quality.md):

- choose: digits (1257 rows), penbased (7694), satimage (4504), segment (1617), clusters-5 (2000);
  seeds 0, 1, ...
- confirm: cancer (398), blobs-2 and blobs-3 (400 each), blobs-4 (800), blobs-6 (2000), blobs-12
  (3000), blobs-20 (10,000); seeds 6000, 6001, ...; 7000 repeated it

In the earlier benchmark `Auto(keep="logger")` had a gain of .48 and `PIWO(IX(), Softmax())` .60.
The synthetic sets were chosen such that these two have nearly that:
.48 and .55 on the half that confirms. On the other half it is the first alone; vowel, with 693 rows
and 11 actions, is left out (.05). Seed 5000, with letter and other synthetic sets on which `PIWO`
has .46, confirmed first.

The first five of the first list are those on which the pool of `piwo.Auto` was settled earlier.
digits and cancer come with scikit-learn; blobs-K, clusters-K and network-K are synthetic, with K
actions; the others are read from --data and left out if they are not there.

Rewards (of the right action, of others): sharp .95, .05; paper 1, uniform on [0, 1); weak .2, .1;
rare .06, .02; noise .7, .3, as coins for half of the actions and with little noise for the others;
costs: .8, .1, less a cost of the action between 0 and .3. All but the last two are coins.

Loggers: softmax(eta s) of a ridge regression s of the mean rewards, which are divided by their
spread, on a tenth of the rows: eta .5, 5, 50, 500, and -5 (reversed); uniform; greedy with .1
exploration.

The table has, over all logs and by size, logger, rewards and data set:

- gain: (value - logger)/(skyline - logger), the mean over seeds floored at -1 and averaged, with
  the standard error of this average. The skyline is the best of ridge, logistic regression and
  extra trees that see the reward of every action. Logs whose logger is within .02 of the spread of
  the skyline have no gain.
- harm: share of the logs with a value more than .01 of the spread below the logger's. The spread
  is the difference between the largest and the smallest mean reward.
- loses .1: the same with a tenth of the spread.
- by how: for `Auto`, where it chose a certified policy, a vote of learners, or an imitation of the
  logging policy.

By default each data set meets each logger and each kind of rewards once a seed, and the sizes take
turns: 300, 1000, 3000, 10,000, where the data set has a quarter as many rows to learn from. --full:
all sizes, and 100,000 and 1,000,000 where the data set has half as many.

Results are written to --out as they are made, one line for each log and learner, and what is there
is not computed again, so a run that was stopped continues. Remove the lines of a learner that has
changed. Learners whose library is missing, or to whom a log is too large, are left out with the
reason.
"""
