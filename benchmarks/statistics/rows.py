"""What the rows are: how many statements were false before that was declared or checked, and now.

The logger learned, users have many rows, rows were chosen by what they earned, are there several
times, or are those that a policy was learned from; candidates are bred from printed numbers.
"Before" is what the report of the case counted, on its own logs; nothing of it is run here. "Now"
is run here: false statements of all logs, or "refused" if no log got a bound. delta = 0.05. Lines
in which the rows are declared wrongly, or not at all, show what a declaration is worth.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

import piwo
from piwo.oracles import Classifier, Ridge
from piwo.policies import Constant, Policy, Tabular

__all__ = ["REPS", "ROUNDS", "USERS", "rows"]

REPS = 200
SLOW, HEAVY = 4, 13
"""Cases that take longer have so many times fewer logs."""
GATES = {None: "passed", "fixed": "passed", "learning": ""}
"""What the report said of `piwo learn --gate`, by the declared logger."""
USERS = 800
"""Users of the logger that learns."""
ROUNDS = 150
"""Calls of a series."""

Floats = npt.NDArray[np.float64]
Outcome = bool | None
"""Whether a statement was false; None: refused."""


def rows(reps: int) -> list[Mapping[str, Any]]:
    """Return the false statements of each case."""
    some, few = max(1, reps // SLOW), max(1, reps // HEAVY)
    made: list[Mapping[str, Any]] = []
    with warnings.catch_warnings():
        # Each case is about what is refused or certified, whatever is warned of.
        warnings.simplefilter("ignore", piwo.PiwoWarning)
        for logger, before in ((None, "28/30"), ("fixed", "28/30"), ("learning", "0/15, tail")):
            declared = _declared("logger", logger)
            each = [learning_logger(seed, logger) for seed in range(few)]
            found = [_certificate_false(one) for one in each]
            made.append(_row("the logger learned", f"certificate, {declared}", before, found))
            # What the exit code of `piwo learn --gate` is about.
            passed: list[Outcome] = [bool(one.certified) for one in each]
            made.append(_row("the logger learned", f"gate, {declared}", GATES[logger], passed))
        for unit in (None, "user"):
            found = [user_interval(seed, unit) for seed in range(reps)]
            statement = f"interval, {_declared('unit', unit)}"
            made.append(_row("100 users of 50 rows", statement, _of(unit, "37.5 %"), found))
        for unit in (None, "user"):
            found = [user_improvement(seed, unit) for seed in range(reps)]
            statement = f"improvement, {_declared('unit', unit)}"
            made.append(_row("60 users of 100 rows", statement, _of(unit, "50 %"), found))
        for where, before in CONDITIONS:
            found = [condition(seed, where) for seed in range(some)]
            made.append(_row(f"where {where}", "interval", before, found))
        found = [rows_twice(seed) for seed in range(few)]
        made.append(_row("every row twice", "certificate of a tree", "12/12", found))
        found = [clicks_thrice(seed) for seed in range(reps)]
        made.append(
            _row("clicks three times", "interval, key='id'", ".586 [.508, .628] for .312", found)
        )
        for kind, before in (("the same rows", "24/40"), ("float32", ""), ("4 digits", "")):
            found = [in_sample(seed, kind) for seed in range(some)]
            made.append(_row(f"in-sample, {kind}", "improvement", before, found))
        for series, before in ((False, "14/14"), (True, "")):
            found = [bred(seed, series) for seed in range(few)]
            statement = f"improvement, series={series}"
            made.append(_row("bred candidates", statement, before, found))
    return made


def _declared(name: str, value: str | None) -> str:
    if value is None:
        return f"no {name}="
    return f"{name}={value!r}"


def _of(unit: str | None, before: str) -> str:
    """Return the reported figure, which is of rows that count as independent."""
    if unit is None:
        return before
    return ""


def _row(case: str, statement: str, before: str, found: Sequence[Outcome]) -> Mapping[str, Any]:
    stated = [x for x in found if x is not None]
    now = "refused"
    if stated:
        now = f"{sum(stated)}/{len(found)}"
    return {"case": case, "statement": statement, "before (reported)": before, "now": now}


def _refused(call: Callable[[], Outcome]) -> Outcome:
    """Return what a call says, None if piwo refuses it."""
    try:
        return call()
    except piwo.UsageError:
        return None


def _interval_misses(found: piwo.Evaluation, value: float) -> Outcome:
    if found.lower is None or found.upper is None:
        return None
    return not found.lower <= value <= found.upper


def _improvement_false(found: piwo.Evaluation | piwo.Certificate | None) -> Outcome:
    """Whether an improvement above 0 is stated, which no policy of the case has."""
    if found is None or found.improvement_lower is None:
        return None
    return found.improvement_lower > 0.0


# --- a logger that learned


def learning_logger(seed: int, logger: Any) -> piwo.Certificate:
    """Return the certificate of a learned policy on a log in which every policy is worth 1/2.

    In each of eight rounds all users come in random order. In the first four the logger draws one
    of four actions; then it takes a user's best one so far with probability 0.91.
    """
    rng = np.random.default_rng(seed)
    users = USERS
    sums, parts = np.zeros((users, 4)), []
    for turn in range(8):
        mu = np.full((users, 4), 0.25)
        if turn >= 4:
            mu[:] = 0.03
            mu[np.arange(users), sums.argmax(axis=1)] = 0.91
        action = (rng.random((users, 1)) > mu.cumsum(axis=1)).sum(axis=1).clip(max=3)
        reward = (rng.random(users) < 0.5) * 1.0
        sums[np.arange(users), action] += reward - 0.5
        order = rng.permutation(users)
        parts.append((order, action[order], reward[order], mu[order, action[order]]))
    user, taken, earned, propensity = (np.concatenate(x) for x in zip(*parts, strict=True))
    log = piwo.Log.from_arrays(
        context=np.eye(users)[user],
        action=taken,
        reward=earned,
        propensity=propensity,
        actions=range(4),
        logger=logger,
    )
    made = piwo.PIWO(oracle=Ridge()).fit(log).certificate_
    assert made is not None
    return made


def _certificate_false(made: piwo.Certificate) -> Outcome:
    """Whether a certificate states a value above 1/2, or an improvement, of which there is none."""
    assert made.value_lower is not None
    return made.value_lower > 0.5 or bool(_improvement_false(made))


# --- users with many rows


def _liking(seed: int, users: int, each: int, unit: str | None) -> piwo.Log:
    """Return rows of users of whom each likes one of two arms, either with probability 1/2."""
    rng = np.random.default_rng(seed)
    user = np.repeat(np.arange(users), each)
    liked, action = rng.integers(0, 2, users), rng.integers(0, 2, users * each)
    columns = {
        "user": user,
        "action": action,
        "reward": (action == liked[user]) * 1.0,
        "propensity": np.full(len(user), 0.5),
    }
    return piwo.read(pa.table(columns), actions=[0, 1], unit=unit)


def user_interval(seed: int, unit: str | None) -> Outcome:
    """Whether the interval of "always 1" misses its value, 1/2.

    >>> user_interval(0, "user")
    False
    """
    log = _liking(seed, 100, 50, unit)
    return _interval_misses(piwo.evaluate(log, Constant(1, log.actions)), 0.5)


def user_improvement(seed: int, unit: str | None) -> Outcome:
    """Whether one of two equal arms is certified better than the logger."""
    log = _liking(seed, 60, 100, unit)
    arms = {arm: Constant(arm, log.actions) for arm in (0, 1)}
    return any(_improvement_false(one) for one in piwo.certify(log, arms).values())


# --- rows that were chosen, or are there several times

CONDITIONS = (
    ("reward > 0", "100/100"),
    ("propensity >= .05", "13/100"),
    ("reward is not null", ".235 [.180, .320] for .10"),
)


def condition(seed: int, where: str) -> Outcome:
    """Whether the interval of "always a" misses its value, 0.3, if only some rows are read.

    The logger takes a with probability 0.5 or 0.04; rewards of the last fifth of the rows are
    missing if they are 0, as rewards that come late are.
    """
    rng = np.random.default_rng(seed)
    n = 1000
    mu = rng.choice([0.5, 0.04], n)
    takes = rng.random(n) < mu
    reward = (rng.random(n) < 0.3) * 1.0
    late = (np.arange(n) >= 4 * n // 5) & (reward == 0.0)
    if "null" not in where:
        late[:] = False
    columns = {
        "action": np.where(takes, "a", "b"),
        "reward": pa.array(reward, mask=late),
        "propensity": np.where(takes, mu, 1.0 - mu),
    }
    log = piwo.read(pa.table(columns), where=where, actions=["a", "b"])
    return _interval_misses(piwo.evaluate(log, Constant("a", log.actions)), 0.3)


def _noise(rng: np.random.Generator, n: int, width: int) -> dict[str, Any]:
    """Return rows in which every action earns 0.1 in every context."""
    return {
        "context": rng.normal(size=(n, width)),
        "action": rng.integers(0, 2, n),
        "reward": (rng.random(n) < 0.1) * 1.0,
        "propensity": np.full(n, 0.5),
    }


def rows_twice(seed: int) -> Outcome:
    """Whether a tree that memorizes rows is certified on copies of them."""
    from sklearn.tree import DecisionTreeClassifier

    rng = np.random.default_rng(seed)
    order = rng.permutation(6000)
    once = _noise(rng, 3000, 3)
    twice: dict[str, Any] = {name: np.concatenate([x, x])[order] for name, x in once.items()}
    log = piwo.Log.from_arrays(**twice)
    learner = piwo.PIWO(oracle=Classifier(DecisionTreeClassifier(random_state=0)))
    return _refused(lambda: _improvement_false(learner.fit(log).certificate_))


def clicks_thrice(seed: int) -> Outcome:
    """Whether the interval of the logger's policy misses 0.3 if a join repeats each click."""
    rng = np.random.default_rng(seed)
    reward = (rng.random(1000) < 0.3) * 1.0
    ids = np.repeat(np.arange(1000), np.where(reward > 0.0, 3, 1))
    columns = {
        "id": ids,
        "action": rng.integers(0, 2, 1000)[ids],
        "reward": reward[ids],
        "propensity": np.full(len(ids), 0.5),
    }
    log = piwo.read(pa.table(columns), key="id", actions=[0, 1])
    policy = piwo.policies.Uniform(log.actions)
    return _refused(lambda: _interval_misses(piwo.evaluate(log, policy), 0.3))


# --- rows that a policy was made from


def in_sample(seed: int, kind: str) -> Outcome:
    """Whether a tree improves on the logger, on the rows that it was learned from."""
    from sklearn.tree import DecisionTreeClassifier

    once = _noise(np.random.default_rng(seed), 600, 5)
    tree = DecisionTreeClassifier(max_depth=6, random_state=0)
    learner = piwo.PIWO(oracle=Classifier(tree), certificate=None)
    policy = learner.fit(piwo.Log.from_arrays(**once)).policy_
    context = {
        "the same rows": once["context"],
        "float32": once["context"].astype(np.float32),
        "4 digits": once["context"].round(4),
    }[kind]
    log = piwo.Log.from_arrays(**{**once, "context": context})
    return _improvement_false(piwo.evaluate(log, policy))


def bred(seed: int, series: bool) -> Outcome:
    """Whether a policy is certified that keeps each change after which the printed value rose.

    Every policy earns 0.1, in each of 200 contexts.
    """
    rng = np.random.default_rng(seed)
    contexts, n = 200, 2000
    # Each context is a number from 0 to 199, in binary.
    known = (np.arange(contexts)[:, None] >> np.arange(8) & 1) * 1.0
    noise = _noise(rng, n, 1)
    noise["context"] = known[rng.integers(0, contexts, n)]
    log = piwo.Log.from_arrays(**noise)
    kept, best = np.tile([1.0, 0.0], (contexts, 1)), -1.0
    options: dict[str, Any] = {}
    if series:
        options["series"] = True
    for _ in range(ROUNDS):
        changed = kept.copy()
        place = rng.integers(contexts)
        changed[place] = changed[place, ::-1]
        policy: Policy = Tabular(changed, log.actions, known)
        made = piwo.certify(log, {0: policy}, **options)[0]
        if made.certified:
            return True
        options = {"earlier": made}
        if made.value is not None and made.value > best:
            kept, best = changed, made.value
    return False
