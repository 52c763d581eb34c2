"""Every result says what it assumes of the logger, of units, of conditions and of the files."""

import dataclasses
import inspect
import typing
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.evaluation.coverage import coverage
from piwo.intervals.point import ESTIMATORS
from piwo.messages import Note

HOLD = {
    "auto",
    "mixture-cv",
    "mixture",
    "deadline-cv",
    "deadline",
    "ix",
    "ls",
    "score",
    "hoeffding",
    "gamma-exponential",
}
"""Intervals that hold for a logger that learned: docs/adaptive.md says why, docs/bounds.md of
deadline bets. All others must say that they assume a fixed one."""
SPREAD = {"auto", "deadline-cv", "deadline"}
"""Those of them that bet on blocks of independent rows unless the logger is said to learn."""
NUMBERS = {
    name: ":2" for name, one in piwo.intervals.INTERVALS.items() if one.weight_limit != "none"
}
BETS = {"gamma": 0.1}
ACTIONS = [0, 1]


def log_of(logger: Any = None, n: int = 400, **roles: Any) -> piwo.Log:
    """Rewards of 0 and 1, two actions at 1/2 each, read from files that DuckDB did not compare."""
    rng = np.random.default_rng(3)
    action = rng.integers(0, 2, n)
    frame = {
        "x": rng.normal(size=n),
        "action": action,
        "reward": (rng.random(n) < 0.3 + 0.4 * action) * 1.0,
        "mu": [[0.5, 0.5]] * n,
        "user": np.arange(n) // 2,
    }
    log = piwo.read(frame, context="x", propensities="mu", actions=ACTIONS, logger=logger, **roles)
    return dataclasses.replace(log, unverified=True)


def kinds(notes: Any) -> set[str]:
    return {note.kind for note in notes if isinstance(note, Note)}


POLICY = piwo.policies.Constant(1, ACTIONS)


def interval(name: str, log: piwo.Log) -> piwo.Evaluation:
    method = piwo.intervals.INTERVALS[name]
    arguments: dict[str, Any] = {"interval": name + NUMBERS.get(name, "")}
    if method.fixed_bet:
        arguments |= {"gamma": 0.1, "estimator": "ls" if name == "score" else name}
    return piwo.evaluate(log, POLICY, **arguments)


@pytest.mark.parametrize("name", piwo.intervals.INTERVALS)
def test_an_interval_says_that_it_assumes_a_fixed_logger_unless_it_holds_for_others(
    name: str,
) -> None:
    undeclared = interval(name, log_of())
    assert undeclared.lower is not None
    assert ("assumed-fixed" in kinds(undeclared.notes)) == (name not in HOLD - SPREAD)
    assert "unverified" in kinds(undeclared.notes)
    assert "assumed-fixed" not in kinds(interval(name, log_of("fixed")).notes)
    method = piwo.intervals.INTERVALS[name]
    if method.needs_fixed_logger:
        with pytest.raises(piwo.UsageError, match="needs a fixed logger"):
            interval(name, log_of("learning"))
        return
    learned = interval(name, log_of("learning"))
    assert ("learning-approximate" in kinds(learned.notes)) == (name not in HOLD)
    assert ("learning" in kinds(learned.notes)) == (learned.improvement_lower is not None)


def test_deadline_bets_with_a_horizon_say_it_too() -> None:
    """The improvement is over one logging policy, unless a learning logger is declared."""
    for logger, assumed in ((None, True), ("learning", False)):
        found = piwo.evaluate(log_of(logger), POLICY, interval="deadline", horizon=1000)
        assert ("assumed-fixed" in kinds(found.notes)) == assumed
        assert "assumptions" in kinds(found.notes)


@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_point_estimate_with_a_normal_interval_says_it_too(name: str) -> None:
    arguments: dict[str, Any] = {"estimator": name, "interval": "normal"}
    if ESTIMATORS[name].smoothed:
        arguments |= BETS
    found = piwo.evaluate(log_of(), POLICY, **arguments)
    assert {"assumed-fixed", "unverified", "asymptotic"} <= kinds(found.notes)
    resampled = piwo.intervals.bootstrap(log_of(), POLICY, name, 0.1, replicates=9)
    assert {"assumed-fixed", "unverified"} <= kinds(resampled.notes)


# --- results of other functions

MODEL = np.full((400, 2), 0.5)
APPROXIMATE: Mapping[Callable[..., Any], Callable[[piwo.Log], Any]] = {
    piwo.estimators.direct_method: lambda log: piwo.estimators.direct_method(log, POLICY, MODEL),
    piwo.estimators.doubly_robust: lambda log: piwo.estimators.doubly_robust(log, POLICY, MODEL),
    piwo.estimators.slope: lambda log: piwo.estimators.slope(log, POLICY),
    piwo.estimators.mips: lambda log: piwo.estimators.mips(
        log, POLICY, dict.fromkeys(log.actions, "one")
    ),
    piwo.intervals.bootstrap: lambda log: piwo.intervals.bootstrap(log, POLICY, replicates=9),
}
"""Functions whose results are approximations for independent rows."""
BY_DEADLINE = {piwo.evaluate, piwo.compare, piwo.select}
"""Those that bet on blocks of independent rows unless the logger is said to learn."""
PROVED: Mapping[Callable[..., Any], Callable[[piwo.Log], Any]] = {
    piwo.evaluate: lambda log: piwo.evaluate(log, POLICY),
    piwo.compare: lambda log: piwo.compare(log, {"a": POLICY})["a"],
    piwo.select: lambda log: piwo.select(log, {"a": POLICY, "b": piwo.policies.Uniform(ACTIONS)}),
    coverage: lambda log: coverage(log, POLICY, 0.1),
    piwo.certify: lambda log: piwo.certify(log, {0: POLICY})[0],
    piwo.regret_certificate: lambda log: piwo.regret_certificate(
        log, POLICY, {"uniform": piwo.policies.Uniform(ACTIONS)}
    ),
}
"""Functions whose results hold at every n."""
MODULES = (piwo, piwo.estimators, piwo.intervals, piwo.evaluation, piwo.certificates)


def functions_with_notes() -> set[Callable[..., Any]]:
    """All public functions of a log whose result, or each of them, has notes."""
    found: set[Callable[..., Any]] = set()
    for module in MODULES:
        for name in module.__all__:
            one = getattr(module, name)
            if not inspect.isfunction(one) or "log" not in inspect.signature(one).parameters:
                continue
            made = typing.get_type_hints(one)["return"]
            kinds = [made, *typing.get_args(made)]
            # A mapping of its own kind says in its base what it holds.
            for base in getattr(made, "__orig_bases__", ()):
                kinds += typing.get_args(base)
            for kind in kinds:
                if "notes" in getattr(kind, "__dataclass_fields__", ()):
                    found.add(one)
    return found


def test_every_function_whose_results_have_notes_is_in_one_of_the_lists() -> None:
    assert functions_with_notes() == {*APPROXIMATE, *PROVED}


@pytest.mark.parametrize("function", [*APPROXIMATE, *PROVED], ids=lambda one: one.__name__)
def test_every_result_carries_the_caveats_of_the_rows(function: Callable[..., Any]) -> None:
    call = {**APPROXIMATE, **PROVED}[function]
    for logger, expected in ((None, "assumed-fixed"), ("learning", "learning-approximate")):
        found = kinds(call(log_of(logger)).notes)
        assert "unverified" in found
        assumed = function in APPROXIMATE or (logger is None and function in BY_DEADLINE)
        assert (expected in found) == assumed
    assert "by-unit" in kinds(call(log_of(unit="user")).notes)


@pytest.mark.parametrize("function", APPROXIMATE, ids=lambda one: one.__name__)
def test_no_approximate_interval_for_rows_that_were_chosen(function: Callable[..., Any]) -> None:
    log = log_of(where="reward > -1")
    found = APPROXIMATE[function](log)
    assert "condition" in kinds(found.notes)
    assert getattr(found, "lower", None) is None
    assert found.guarantee == "none"


def test_check_says_that_files_were_not_compared() -> None:
    assert "unverified" in {finding.kind for finding in piwo.check(log_of()).findings}


# --- a logger that learned, and what regret certificates say of the rows

AVERAGE = "over the average of the logger's policies"


def test_certificates_over_a_logger_that_learned_say_what_they_are_over() -> None:
    log = log_of("learning")
    made = piwo.certify(log, {0: POLICY})[0]
    assert made.logger == "learning"
    assert made.over == "the average of the logger's policies"
    assert f"{AVERAGE} (" in str(made).splitlines()[2]
    assert any(AVERAGE in note for note in made.to_dict()["notes"])
    again = piwo.Certificate.from_dict(made.to_dict())
    assert again.over == made.over
    # over another policy the logger does not matter
    other = piwo.certify(log, {0: POLICY}, baseline=piwo.policies.Uniform(ACTIONS))[0]
    assert "learning" not in kinds(other.notes)
    assert AVERAGE not in str(other)


def test_a_logger_that_was_seen_to_learn_is_one_that_learned() -> None:
    rng = np.random.default_rng(0)
    user = np.tile(np.arange(200), 6)
    early = np.arange(1200) < 600
    liked = user % 2
    p = np.where(early, 0.5, 0.9)
    action = np.where(rng.random(1200) < p, liked, 1 - liked)
    frame = {
        "user": user.astype(str),
        "action": action,
        "reward": (rng.random(1200) < 0.5) * 1.0,
        "propensity": np.where(action == liked, p, 1 - p),
    }
    log = piwo.read(frame, context="user", actions=ACTIONS)
    with pytest.warns(piwo.PiwoWarning, match="seems to have learned"):
        made = piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).certificate_
    assert made is not None
    assert made.logger == "learning"
    assert AVERAGE in str(made)


def changing_log(**roles: Any) -> piwo.Log:
    """Five contexts; the propensities follow the number of the row, as those of a learning system
    follow what it has seen."""
    rng = np.random.default_rng(0)
    p = np.linspace(0.2, 0.8, 2000)
    action = (rng.random(2000) < p).astype(int)
    frame = {
        "x": rng.integers(0, 5, 2000) * 1.0,
        "action": action,
        "reward": (rng.random(2000) < 0.5) * 1.0,
        "propensity": np.where(action == 1, p, 1 - p),
        "user": np.arange(2000) % 100,
    }
    return piwo.read(frame, context="x", actions=ACTIONS, **roles)


@pytest.mark.parametrize("function", [piwo.evaluate, piwo.certify, piwo.regret_certificate])
def test_an_undeclared_logger_counts_as_learning_if_its_rows_show_that(function: Any) -> None:
    policy = piwo.policies.Function(lambda x: np.column_stack([x > 2, x <= 2]) * 1.0, ACTIONS)
    given: tuple[Any, ...] = (policy,)
    if function is piwo.certify:
        given = ({0: policy},)
    elif function is piwo.regret_certificate:
        given = (policy, {"one": POLICY})

    def asked(log: piwo.Log) -> tuple[str, str | None, set[str]]:
        found = function(log, *given)
        if function is piwo.certify:
            found = found[0]
        method = getattr(found, "bound", None) or found.interval
        return method, found.logger, kinds(found.notes)

    log = changing_log()
    method, logger, notes = asked(log)
    assert (method, logger) == ("mixture", "learning")
    assert "logger" in notes
    assert "assumed-fixed" not in notes
    # what is declared is not overruled, and the note says that the rows contradict it
    method, logger, notes = asked(changing_log(logger="fixed"))
    assert (method, logger) == ("deadline", "fixed")
    assert "logger" in notes
    method, logger, notes = asked(changing_log(logger="learning", time=None))
    assert (method, logger) == ("mixture", "learning")
    assert "logger" not in notes
    # actions of a random part reveal the rewards of the others
    part = log.split().test
    if function is piwo.evaluate:
        found = piwo.evaluate(part, policy)
        assert found.lower is None
        assert found.no_interval is not None
        assert found.no_interval.kind == "learning-at-random"
    else:
        with pytest.raises(piwo.UsageError, match=r"random part of a log .*tail=True"):
            function(part, *given)
    # nor is anything known of units whose rows depend on each other, too
    if function is piwo.evaluate:
        by_user = piwo.evaluate(changing_log(unit="user"), policy)
        assert by_user.no_interval is not None
        assert by_user.no_interval.kind == "learning-units"


def test_a_regret_certificate_says_what_others_say_of_the_rows() -> None:
    rng = np.random.default_rng(1)
    n = 600
    frame = {
        "x": rng.integers(0, 40, n) * 1.0,
        "action": rng.integers(0, 2, n),
        "reward": (rng.random(n) < 0.5) * 1.0,
        "propensity": np.full(n, 0.5),
    }
    frame["other"] = np.where(rng.random(n) < 0.5, 0.4, 0.5)
    twice = {name: np.concatenate([x, x]) for name, x in frame.items()}
    twice["x"] = np.tile(rng.normal(size=n), 2)
    policy = piwo.policies.Function(lambda x: np.column_stack([x > 0, x <= 0]) * 1.0, ACTIONS)
    declared: dict[str, Any] = {"logger": "fixed", "propensity": "other"}
    cases: list[tuple[Any, dict[str, Any], str]] = [
        (twice, {}, "copies"),
        (frame, declared, "logger"),
    ]
    for rows, roles, kind in cases:
        log = piwo.read(rows, context="x", actions=ACTIONS, **roles)
        value = piwo.certify(log, {0: policy})[0]
        regret = piwo.regret_certificate(log, policy, {"one": POLICY})
        assert kind in kinds(value.notes)
        assert kind in kinds(regret.notes)


def test_a_regret_certificate_states_the_logger() -> None:
    learned = piwo.regret_certificate(
        log_of("learning"), POLICY, {"it": piwo.policies.Logging(ACTIONS)}
    )
    assert AVERAGE in str(learned)
    assert learned.to_dict()["logger"] == "learning"
    again = piwo.RegretCertificate.from_dict(learned.to_dict())
    assert (again.logger, again.notes) == (learned.logger, learned.notes)
    # against a policy that is not the logger, nothing is over the logger
    other = piwo.regret_certificate(
        log_of("learning"), POLICY, {"it": piwo.policies.Uniform(ACTIONS)}
    )
    assert AVERAGE not in str(other)
    part = log_of().split(0.5).test
    assumed = piwo.regret_certificate(part, POLICY, {"it": piwo.policies.Uniform(ACTIONS)})
    assert assumed.logger == "assumed fixed"
    assert "assumes that rows are independent and the logger was fixed" in str(assumed)
    declared = piwo.regret_certificate(
        log_of("fixed").split(0.5).test, POLICY, {"it": piwo.policies.Uniform(ACTIONS)}
    )
    assert declared.logger == "fixed"
    assert "assumes that rows are independent\n" in str(declared)
