"""Certificates come back from files as they were, or not at all."""

import json
import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.errors import FileError

Record = dict[str, Any]


def back(made: piwo.Certificate) -> piwo.Certificate:
    """What a file gives back."""
    return piwo.Certificate.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))


def record(**options: Any) -> Record:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 400,
        reward=[1, 0] * 400,
        propensity=[0.5] * 800,
        actions=["a", "b"],
        **options,
    )
    made = piwo.certify(
        log, {0: piwo.policies.Constant("a", log.actions)}, facts={"split": {"seed": 1}}
    )[0]
    assert back(made) == made
    return made.to_dict()


def test_what_was_written_comes_back() -> None:
    assert record()["certified"] is True
    assert record(reward_range=(0, math.inf))["reward_range"] == [0, None]
    assert piwo.Certificate.from_dict({**record(), "of a later version": 1}).certified


CONTEXT = np.random.default_rng(0).normal(size=(200, 2))
PAIR = [piwo.policies.Constant(x, ["a", "b"]) for x in "ab"]
BOTH = piwo.oracles.Exhaustive(PAIR)
KINDS: dict[str, Callable[[piwo.Log], piwo.Certificate]] = {
    "held-out": lambda log: piwo.PIWO(oracle=piwo.oracles.Ridge()).fit(log).certificate_,
    "in-sample": lambda log: piwo.PIWO(oracle=BOTH, certificate="in-sample").fit(log).certificate_,
    "grid, held-out": lambda log: piwo.PIWOGrid(oracle=piwo.oracles.Ridge()).fit(log).certificate_,
    "grid, in-sample": lambda log: piwo.PIWOGrid(oracle=BOTH).fit(log).certificate_,
    "auto": lambda log: piwo.Auto([piwo.oracles.Ridge()]).fit(log).certificate_,
    "auto, certified": lambda log: (
        piwo.Auto([piwo.oracles.Ridge()], refit=False).fit(log).certificate_
    ),
    "auto, incumbent": lambda log: (
        piwo.Auto([piwo.oracles.Ridge()], incumbent=PAIR[1]).fit(log).certificate_
    ),
    "known coverage": lambda log: (
        piwo.learners.CoverageScaled(BOTH, [2.0, 2.0]).fit(log).certificate_
    ),
    "posterior": lambda log: piwo.PACBayes(PAIR).fit(log).certificate_,
    "posterior, infinite": lambda log: (
        piwo.PACBayes(PAIR, [1.0, 0.0]).fit(log).certificate([0.5, 0.5])
    ),
    "draws": lambda log: piwo.PACBayesLinear(draws=5).fit(log).certificate_,
    "draws, greedy": lambda log: (
        piwo.PACBayesLinear(policy="greedy", prior="zero", draws=1).fit(log).certificate_
    ),
    "horizon": lambda log: piwo.certify(log, {0: PAIR[0]}, horizon="universal")[0],
    "shares": lambda log: piwo.certify(log, dict(enumerate(PAIR)), shares={0: 0.2, 1: 0.8})[0],
    "baseline": lambda log: piwo.certify(log, {"new": PAIR[0]}, baseline=PAIR[1])["new"],
}


@pytest.mark.parametrize("name", sorted(KINDS))
@pytest.mark.parametrize("reward", [[1, 0], [0, 1]])
def test_every_kind_comes_back(name: str, reward: list[int]) -> None:
    log = piwo.Log.from_arrays(
        context=CONTEXT,
        action=["a", "b"] * 100,
        reward=reward * 100,
        propensity=[0.5] * 200,
        actions=["a", "b"],
    )
    made = KINDS[name](log)
    assert back(made) == made
    assert str(back(made)) == str(made)


def test_draws_may_pay_less_than_nothing() -> None:
    """Few rewards leave the posterior near its prior; what one draw pays is below 0 as often as
    not."""
    signs = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        reward = (rng.random(200) < 0.1) * 1.0
        log = piwo.Log.from_arrays(
            context=CONTEXT,
            action=rng.integers(0, 3, 200),
            reward=reward,
            propensity=[1 / 3] * 200,
            actions=range(3),
        )
        made = piwo.PACBayesLinear(draws=1, random_state=seed).fit(log).certificate_
        assert back(made) == made
        assert made.kl is not None
        assert made.kl >= 0
        assert made.log_ratio is not None
        signs.append(made.log_ratio < 0)
    assert 0 < sum(signs) < 8


def test_older_records_called_it_a_divergence() -> None:
    made = piwo.Certificate.from_dict({**record(), "bound": "PAC-Bayes", "kl": -0.25})
    assert (made.kl, made.log_ratio) == (None, -0.25)
    assert made.certified


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
    "a log-ratio that is text": lambda r: r.update(log_ratio="0"),
    "a divergence below 0 beside a log-ratio": lambda r: r.update(kl=-1.0, log_ratio=0.5),
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
    "certified, and it is of another": lambda r: r.update(about="the policy of yesterday"),
    "certified as nothing": lambda r: r.update(certified=None),
    "about as a number": lambda r: r.update(about=1, certified=None),
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
def test_what_is_no_record(found: Any) -> None:
    with pytest.raises(FileError, match="the certificate is damaged"):
        piwo.Certificate.from_dict(found)


def test_what_bounds_pay_for_is_said_of_their_kind() -> None:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100, actions=["a", "b"]
    )
    pair = [piwo.policies.Constant(x, log.actions) for x in log.actions]
    held = piwo.certify(log, dict(enumerate(pair)))
    assert [piwo.certify(log, {0: pair[0]})[0].paid_for, held[1].paid_for] == [
        "1 candidate",
        "2 candidates",
    ]
    inside = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair))[0]
    assert str(inside).splitlines()[4].endswith("a class of 2 policies")
    alone = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair[:1]))[0]
    assert alone.paid_for == "a class of 1 policy"
    many = piwo.certify(log, {0: pair[0]}, within=piwo.oracles.Exhaustive(pair))[0]
    assert replace(many, log_class_size=100.0).paid_for == "a class of e^100 policies"
    mixed, one = piwo.PACBayes(pair).fit(log), piwo.PACBayes(pair, prior=[1.0, 0.0]).fit(log)
    assert one.certificate([0.0, 1.0]).paid_for == "an infinite divergence from the prior"
    drawn = replace(mixed.certificate_, kl=0.25, log_ratio=-0.5)
    assert (
        drawn.paid_for
        == "a mean log-ratio of -0.5 to the prior over its draws (the divergence is 0.25)"
    )
    mixed = mixed.certificate_
    assert mixed.paid_for == f"a divergence of {mixed.kl:.4g} from the prior"


def regret_record() -> Record:
    log = piwo.Log.from_arrays(
        action=["a", "b"] * 400,
        reward=[1, 0] * 400,
        propensity=[0.5] * 800,
        actions=["a", "b"],
        reward_range=(-1, 1),
    )
    a, b = (piwo.policies.Constant(x, log.actions) for x in "ab")
    made = piwo.regret_certificate(log, a, {"b": b, "logging": piwo.policies.Logging()})
    assert (
        piwo.RegretCertificate.from_dict(json.loads(json.dumps(made.to_dict(), allow_nan=False)))
        == made
    )
    assert made.created.endswith("+00:00")
    return made.to_dict()


WRONG_REGRETS: dict[str, Callable[[Record], object]] = {
    "no scope": lambda r: r.pop("scope"),
    "another scope": lambda r: r.update(scope="everyone"),
    "another kind": lambda r: r.update(kind="guessed"),
    "against nobody": lambda r: r.update(against={}),
    "against a list": lambda r: r.update(against=["b"]),
    "a bound that is text": lambda r: r["against"].update(b="0.1"),
    "a bound that is true": lambda r: r["against"].update(b=True),
    "a delta of 1": lambda r: r.update(delta=1.0),
    "rows below 0": lambda r: r.update(rows=-1),
    "a p-value above 1": lambda r: r.update(propensity_p=2.0),
    "a range backwards": lambda r: r.update(reward_range=[1, 0]),
    "no range": lambda r: r.pop("reward_range"),
    "a cost that is a number": lambda r: r.update(cost=0),
    "notes that are one text": lambda r: r.update(notes="fine"),
    "a size below 0": lambda r: r.update(log_class_size=-1.0),
    "a date that is a number": lambda r: r.update(created=7),
}


@pytest.mark.parametrize("name", sorted(WRONG_REGRETS))
def test_damaged_records_of_regrets(name: str) -> None:
    made = regret_record()
    WRONG_REGRETS[name](made)
    with pytest.raises(
        FileError, match=r"the regret certificate is damaged.*certify the policy again"
    ) as wrong:
        piwo.RegretCertificate.from_dict(made)
    assert str(wrong.value).isprintable()


def test_regrets_of_rows_that_contradict_themselves_come_back_without_bounds() -> None:
    made = {**regret_record(), "against": {"b": None}}
    assert piwo.RegretCertificate.from_dict(made).regret_upper is None


def test_saved_certificates_are_loaded(tmp_path: Path) -> None:
    one, two = (
        piwo.Certificate.from_dict(record()),
        piwo.RegretCertificate.from_dict(regret_record()),
    )
    path = tmp_path / "made.json"
    for made in (one, two):
        made.save(path)
        assert type(made).load(path) == made
    with pytest.raises(FileError, match="the certificate is damaged"):
        piwo.Certificate.load(path)
    with pytest.raises(FileError, match="cannot be read: No such file"):
        piwo.Certificate.load(tmp_path / "none.json")
    path.write_bytes(b"\xff{")
    with pytest.raises(FileError, match="is not JSON"):
        piwo.Certificate.load(path)


def test_a_changed_file_is_seen_and_an_old_one_is_read(tmp_path: Path) -> None:
    path = tmp_path / "made.json"
    one = piwo.Certificate.from_dict(record())
    two = piwo.RegretCertificate.from_dict(regret_record())
    for made in (one, two):
        made.save(path)
        page = json.loads(path.read_bytes())
        for name in ("delta", "rows"):
            changed = {**page, name: 2 * page[name]}
            path.write_text(json.dumps(changed), "utf-8")
            with pytest.raises(FileError, match="was changed after it was written"):
                type(made).load(path)
        # Files of before had no checksum.
        page.pop("checksum")
        path.write_text(json.dumps(page), "utf-8")
        assert type(made).load(path) == made
        assert "checksum" not in made.to_dict()
        # Damage to the checksum itself does not make a file an old one.
        damaged = {
            "another name": {**page, "chebksum": "43452ab8c612371e9e8694990c2f723b"},
            "a date that runs into the checksum": {**page, "created": "2026-1173ab8c612371e9e8"},
            "a logger that does": {**page, "logger": "assumed fc5bc1beb5c"},
        }
        expected = r"was changed after|created is '2026-1173ab|logger is 'assumed fc5bc1"
        for changed in damaged.values():
            path.write_text(json.dumps(changed), "utf-8")
            with pytest.raises(FileError, match=expected):
                type(made).load(path)
        path.write_text('{"delta": 0.5, ' + json.dumps(page)[1:], "utf-8")
        with pytest.raises(FileError, match=r"'delta' twice"):
            type(made).load(path)
