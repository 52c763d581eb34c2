"""Arguments of a kind that nobody meant: one line of ours, and never an error from inside."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import piwo
from piwo.errors import PiwoError
from piwo.policies import Constant

A = Constant("a", ["a", "b"])


def log() -> piwo.Log:
    return piwo.Log.from_arrays(action=["a", "b"] * 50, reward=[1, 0] * 50, propensity=[0.5] * 100)


WRONG: dict[str, tuple[Callable[[Any], object], str]] = {
    "an interval that is None": (
        lambda _: piwo.evaluate(log(), A, interval=None),
        "interval is None, which is not known",
    ),
    "an interval that is a number": (
        lambda _: piwo.evaluate(log(), A, interval=3),
        "interval is 3, which is not known",
    ),
    "an interval that is a list": (
        lambda _: piwo.certify(log(), {0: A}, interval=[]),
        r"interval is \[\], which is not known",
    ),
    "a threshold that is text": (
        lambda _: piwo.evaluate(log(), A, threshold="x"),
        "threshold is 'x'",
    ),
    "a threshold that is true": (
        lambda _: piwo.evaluate(log(), A, threshold=True),
        "threshold is True",
    ),
    "a log that is text": (lambda _: piwo.select("x", {"a": A}), "got a str for the log"),
    "comparators in a list": (
        lambda _: piwo.regret_certificate(log(), A, [A]),
        "expected name -> comparator",
    ),
    "comparators that are text": (
        lambda _: piwo.regret_certificate(log(), A, "x"),
        "against is 'x'",
    ),
    "no policy for a monitor": (
        lambda path: piwo.Monitor.load(saved(path), None),
        "got a NoneType",
    ),
    "a path with a NUL to load": (lambda _: piwo.load("a\0b"), "holds a NUL character"),
    "a path with a NUL for a monitor": (
        lambda _: piwo.Monitor.load("a\0b", A),
        "holds a NUL character",
    ),
    "a path with a NUL to save": (lambda _: A.save("a\0b"), "holds a NUL character"),
    "no policy in a mapping": (
        lambda _: piwo.evaluate(log(), {}),
        "{} is not a policy; expected one of piwo.policies",
    ),
    "a path with a NUL to save a monitor": (
        lambda _: piwo.Monitor(A).save("a\0b"),
        "holds a NUL character",
    ),
}


def saved(folder: Path) -> Path:
    piwo.Monitor(A).save(folder / "m.json")
    return folder / "m.json"


@pytest.mark.parametrize("name", sorted(WRONG))
def test_one_line_of_ours(name: str, tmp_path: Path) -> None:
    ask, message = WRONG[name]
    with pytest.raises(PiwoError, match=message) as wrong:
        ask(tmp_path)
    assert str(wrong.value).isprintable()
