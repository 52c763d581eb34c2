"""Names from outside are hostile text: whatever piwo prints of them is printable, and no name
begins a line."""

import importlib
import json
import pkgutil
import warnings
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import piwo
from piwo.cli.answer import Answer, document
from piwo.errors import DataError, FileError, PiwoError, PiwoWarning, UsageError
from piwo.estimators.reward_model import ModelEstimate
from piwo.evaluation.guardrails import Guardrail, GuardrailResult
from piwo.formats.rows import Written
from piwo.health.record import HealthFinding
from piwo.logs.actions import Actions
from piwo.logs.features import Features
from piwo.logs.findings import Finding
from piwo.policies import Constant, Trees, Uniform
from piwo.visible import visible, visible_lines

HOSTILE = "a\x1b[2J\r\nnote: certified\x9b31m\u2028\u202e\u2066\x00\ud800"
LABEL = HOSTILE[:-1]
"""A label is UTF-8, which has no half characters; names of policies and files may hold any."""


def log_of(name: str, **options: Any) -> piwo.Log:
    return piwo.Log.from_arrays(
        action=[name, "b"] * 40, reward=[1, 0] * 40, propensity=[0.5] * 80, **options
    )


def health_of(name: str) -> piwo.Health:
    lying = piwo.Log.from_arrays(
        action=[name.replace("\ud800", "")] * 90 + ["b"], reward=[1] * 91, propensity=[0.05] * 91
    )
    return replace(piwo.check(lying), policy=name, doubts=(name,))


def certificate_of(name: str) -> piwo.Certificate:
    log = log_of("a")
    made = piwo.certify(log, {name: Constant("a", log.actions)}, facts={"oracle": name})[name]
    return replace(made, bound=name, notes=(name, name))


def model_estimate_of(name: str) -> ModelEstimate:
    log = log_of("a", actions=["a", "b"])
    return piwo.estimators.doubly_robust(
        log, Uniform(log.actions), np.full((80, 2), 0.5), name=name
    )


SLATES = piwo.slates.read(
    {"s": [["a"], ["b"]], "rs": [[1.0], [0.0]]},
    slate="s",
    rewards="rs",
    behavior=piwo.slates.Uniform(["a", "b"]),
)


def many_slates() -> piwo.slates.SlateLog:
    return piwo.slates.read(
        {"s": [["a", "b"], ["b", "a"]] * 40, "rs": [[1.0, 0.0], [0.0, 1.0]] * 40},
        slate="s",
        rewards="rs",
        behavior=piwo.slates.Uniform(["a", "b"]),
    )


PRINTED: dict[str, Callable[[str], object]] = {
    "Evaluation": lambda name: piwo.evaluate(log_of("a"), Constant("a", ["a", "b"]), name=name),
    "Selection": lambda name: piwo.select(
        log_of("a"), {x: Constant("a", ["a", "b"]) for x in (name, "other")}
    ),
    "CoverageEstimate": lambda name: replace(
        piwo.evaluation.coverage(log_of("a"), Uniform(["a", "b"]), gamma=0.1), name=name
    ),
    "ModelEstimate": model_estimate_of,
    "MarginalEstimate": lambda name: piwo.estimators.mips(
        log_of("a"), Uniform(["a", "b"]), {"a": 1, "b": 2}, name=name
    ),
    "SlateEvaluation": lambda name: piwo.slates.evaluate(
        # Arrow holds no lone surrogates
        replace(SLATES, declared_actions=Actions(["a", "b", name.replace("\ud800", "")])),
        piwo.slates.Deterministic([name.replace("\ud800", "")]),
        name=name,
    ),
    "Comparison": lambda name: piwo.compare(log_of("a"), {name: Constant("a", ["a", "b"])}),
    "GammaPath": lambda name: piwo.evaluate(
        log_of("a"), Constant("a", ["a", "b"]), gamma=[0.1, 0.2], estimator="ix", name=name
    ),
    "Decision": lambda name: piwo.decide(
        piwo.compare(log_of("a"), {name: Constant("a", ["a", "b"])}),
        units=piwo.Units(name[:4], decisions=name[:4]),
    ),
    "Gate": lambda name: piwo.gate(
        log_of("a"), piwo.compare(log_of("a"), {name: Constant("a", ["a", "b"])})
    ),
    "SlateComparison": lambda name: piwo.slates.compare(
        SLATES, {name: piwo.slates.Deterministic(["a"])}
    ),
    "SlateChoice": lambda name: replace(
        choice := piwo.slates.choose(many_slates(), piwo.slates.Deterministic(["a", "b"])),
        evaluation=replace(choice.evaluation, name=name),
    ),
    "SlateAdaptation": lambda name: piwo.slates.SlateAdaptation(
        piwo.slates.evaluate(SLATES, piwo.slates.Deterministic(["a"]), name=name), ((name,),)
    ),
    "SlateHealth": lambda name: piwo.slates.SlateHealth(
        (replace(health_of("a"), findings=(HealthFinding("twins", "note", name),)),), 0.05
    ),
    "Positions": lambda name: piwo.slates.by_position(
        SLATES, piwo.slates.Deterministic(["a"]), name=name
    ),
    "Health": health_of,
    "Certificate": certificate_of,
    "RegretCertificate": lambda name: piwo.RegretCertificate(
        "comparators", {name: 0.1}, 0.05, "held-out", notes=(name,)
    ),
    "Look": lambda name: replace(
        piwo.Monitor(Constant("a", ["a", "b"]), name=name).update(log_of("a")).look(), notes=(name,)
    ),
    "Guardrail": lambda name: Guardrail(name, "<=", 0.1),
    "GuardrailResult": lambda name: GuardrailResult.made(
        Guardrail(name, "<=", 0.1), 0.0, 0.05, 0.05, "deadline"
    ),
    "Segment": lambda name: piwo.evaluate(
        piwo.Log.from_arrays(
            action=["a"], reward=[1], propensity=[1.0], segments={"day": [name[:-1]]}
        ),
        Constant("a", ["a"]),
        by="day",
    ).segments[0],
    "Written": lambda name: Written(name, 1, (name,)),
    "Policy": lambda name: Trees(
        [[0, 0.5, 1, 0], [-1, 0, 0, 1.0], [-1, 0, 1, 1.0]],
        [0],
        [0.0, 0.0],
        [name, "b"],
        width=1,
        features=Features.numeric([name]),
    ),
    "PiwoError": PiwoError,
    "UsageError": UsageError,
    "DataError": DataError,
    "FileError": FileError,
    "PiwoWarning": PiwoWarning,
    "Finding": lambda name: DataError(str(Finding(name, f"holds {name}", "look", 1, (0,)))),
}
"""What piwo prints -> how to make one that holds a name."""


@pytest.mark.parametrize("kind", sorted(PRINTED))
def test_a_name_is_text_and_nothing_else(kind: str) -> None:
    make = PRINTED[kind]
    lines = str(make(HOSTILE)).split("\n")
    assert [line for line in lines if not line.isprintable()] == []
    assert len(lines) == len(str(make("name")).split("\n"))
    assert "x1b[2J" in "".join(lines)


def test_every_class_with_words_of_its_own_is_tried() -> None:
    found = set()
    for module in pkgutil.walk_packages(piwo.__path__, "piwo."):
        if not module.name.endswith("__main__"):
            classes = vars(importlib.import_module(module.name)).values()
            found |= {
                x.__name__
                for x in classes
                if isinstance(x, type) and x.__module__.startswith("piwo") and "__str__" in vars(x)
            }
    # A join shows numbers alone, and so does a pass over the rows.
    assert found - {"Joined", "Rows"} - set(PRINTED) == set()


def test_representations_are_printable() -> None:
    log = log_of(LABEL)
    found = piwo.compare(log, {HOSTILE: Constant(LABEL, log.actions)})
    look = piwo.Monitor(Constant(LABEL, log.actions), name=HOSTILE).update(log).look()
    for lines in (repr(log), repr(found)):
        assert [line for line in lines.split("\n") if not line.isprintable()] == []
        assert "\nnote" not in lines
    for one in (
        log.actions.preview(),
        look,
        piwo.policies.Column(HOSTILE),
        certificate_of(HOSTILE),
    ):
        assert repr(one).isprintable(), repr(one)


def test_warnings_are_one_printable_line() -> None:
    with pytest.warns(PiwoWarning) as heard:
        warnings.warn(HOSTILE, PiwoWarning, stacklevel=1)
    assert str(heard[0].message).isprintable()


def test_json_is_escaped_and_still_says_what_was_there() -> None:
    text = document(Answer("", {"name": HOSTILE, "Łódź": 1}), [])
    assert all(line.isprintable() for line in text.split("\n"))
    assert json.loads(text)["name"] == HOSTILE
    assert "Łódź" in text


def test_certificates_are_saved_whatever_names_hold(tmp_path: Any) -> None:
    made = certificate_of(HOSTILE)
    made.save(tmp_path / "certificate.json")
    assert json.loads((tmp_path / "certificate.json").read_text("utf-8"))["oracle"] == HOSTILE
    for one in (made, PRINTED["RegretCertificate"](HOSTILE)):
        with pytest.raises(FileError, match="cannot be written"):
            one.save(tmp_path / "no folder" / "x.json")  # type: ignore[attr-defined]


def test_visible_twice_is_visible_once() -> None:
    assert visible(visible(HOSTILE)) == visible(HOSTILE)
    assert visible_lines([HOSTILE, "b"]).count("\n") == 1
