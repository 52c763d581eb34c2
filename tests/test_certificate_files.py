"""Certificates come back from files as they were, or not at all."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

import piwo
from piwo.errors import FileError

Record = dict[str, Any]


def record(**options: Any) -> Record:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 400, reward=[1, 0] * 400, propensity=[0.5] * 800, actions=["a", "b"], **options
    )
    made = piwo.certify(log, {0: piwo.policies.Constant("a", log.actions)}, facts={"split": {"seed": 1}})[0]
    assert piwo.Certificate.from_dict(json.loads(json.dumps(made.to_dict()))) == made
    return made.to_dict()


def test_what_was_written_comes_back() -> None:
    assert record()["certified"] is True
    assert record(reward_range=(0, math.inf))["reward_range"] == [0, None]
    assert piwo.Certificate.from_dict({**record(), "of a later version": 1}).certified


WRONG: dict[str, Callable[[Record], object]] = {
    "no kind": lambda r: r.pop("kind"),
    "another kind": lambda r: r.update(kind="guessed"),
    "no value": lambda r: r.pop("value"),
    "a value that is text": lambda r: r.update(value="0.5"),
    "a value that is true": lambda r: r.update(value=True),
    "a bound that is no number": lambda r: r.update(value_lower=math.nan),
    "a bound below the range": lambda r: r.update(value_lower=-5.0),
    "an infinite improvement": lambda r: r.update(improvement_lower=math.inf),
    "a delta of 0": lambda r: r.update(delta=0),
    "a delta that is text": lambda r: r.update(delta="0.05"),
    "half a row": lambda r: r.update(rows=1.5),
    "rows that are true": lambda r: r.update(rows=True),
    "no candidates": lambda r: r.update(candidates=0),
    "rows below 0": lambda r: r.update(training_rows=-1),
    "a p-value above 1": lambda r: r.update(propensity_p=2.0),
    "a range backwards": lambda r: r.update(reward_range=[1, 0]),
    "a range of one": lambda r: r.update(reward_range=[0]),
    "no range": lambda r: r.pop("reward_range"),
    "a range that is a number": lambda r: r.update(reward_range=3),
    "a cost that is a number": lambda r: r.update(cost=0),
    "notes that are one text": lambda r: r.update(notes="certified"),
    "notes that are numbers": lambda r: r.update(notes=[1]),
    "a horizon of 0": lambda r: r.update(horizon=0),
    "a horizon that is a list": lambda r: r.update(horizon=[]),
    "a split that is a text": lambda r: r.update(split="x"),
    "an oracle that is a number": lambda r: r.update(oracle=7),
    "certified, and it is not": lambda r: r.update(improvement_lower=-0.1),
    "not certified, and it is": lambda r: r.update(certified=False),
    "certified as a number": lambda r: r.update(certified=1),
}


@pytest.mark.parametrize("name", sorted(WRONG))
def test_damaged_records(name: str) -> None:
    made = record()
    WRONG[name](made)
    with pytest.raises(FileError, match="the certificate is damaged") as wrong:
        piwo.Certificate.from_dict(made)
    assert str(wrong.value).isprintable()


@pytest.mark.parametrize("found", [None, [], "x", 3])
def test_what_is_no_record(found: Any, request: pytest.FixtureRequest) -> None:
    if request.config.pluginmanager.has_plugin("pytest_runtime_types"):
        pytest.skip("the type check refuses it earlier")
    with pytest.raises(FileError, match="the certificate is damaged"):
        piwo.Certificate.from_dict(found)


def test_what_bounds_pay_for_is_said_of_their_kind() -> None:
    log = piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100, actions=["a", "b"])
    pair = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    held = piwo.certify(log, dict(enumerate(pair)))
    assert [piwo.certify(log, {0: pair[0]})[0].paid_for, held[1].paid_for] == ["1 candidate", "2 candidates"]
    inside = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair))[0]
    assert str(inside).splitlines()[3].endswith("a class of 2 policies")
    alone = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair[:1]))[0]
    assert alone.paid_for == "a class of 1 policy"
    many = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair))[0]
    assert replace(many, log_class_size=100.0).paid_for == "a class of e^100 policies"
    mixed = piwo.PACBayes(pair).fit(log).certificate_
    assert mixed.paid_for == f"a divergence of {mixed.kl:.4g} from the prior"
