"""Damaged files never crash, hang or confuse the command: the first inputs of `make fuzz`."""

import sys
from pathlib import Path

import pytest

from tests.fuzz.fuzzer import KINDS, Input, fault, fuzz, good_files, input_of, judged, ran

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits of a process")

SECONDS, INPUTS = 5, 40
"""Go on for so long, and on a busy machine for so many inputs."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    good_files(folder)
    return folder


@pytest.mark.usefixtures("wrong_types")
def test_damaged_files_are_refused_or_read() -> None:
    counted, findings = fuzz(20_000, seconds=SECONDS, least=INPUTS)
    print(f"{sum(counted.values())} inputs")
    assert not findings, "\n".join(findings)
    assert sum(counted.values()) >= INPUTS
    assert {name.split()[1] for name in counted} <= {"0", "1", "2"}


def test_good_files_are_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    monkeypatch.setattr("piwo.engines.checkpoint.Checkpoint.remove", lambda self: None)
    done = set()
    for number in range(30 * len(KINDS)):
        one = input_of(folder, 0, number)
        words = tuple(x.removeprefix("bad-") for x in one.words)
        path = KINDS[one.kind][0]
        if (one.kind, words) not in done:
            code, out, err = ran(one.kind, words, path)
            assert (code in {0, 1}, err) == (True, ""), (words, err)
            assert out
        done.add((one.kind, words))
    assert {kind for kind, _ in done} == set(KINDS)


def test_inputs_are_the_same_everywhere(folder: Path) -> None:
    assert all(input_of(folder, 3, i).data == input_of(folder, 3, i).data for i in range(30))
    assert input_of(folder, 3, 0).data != input_of(folder, 4, 0).data


@pytest.mark.parametrize(
    ("code", "out", "err"),
    [
        (2, "", "piwo: error: unexpected X: y; this is a bug in piwo, --debug shows where\n"),
        (2, "", "Traceback (most recent call last):\n"),
        (1, "x", "piwo: error: no\n"),
        (0, "x", "numpy: odd\n"),
        (2, "x", "piwo: error: no\n"),
        (2, "", ""),
        (130, "", ""),
        (2, "", "piwo: error: a\npiwo: error: b\n"),
    ],
)
def test_what_is_wrong_is_found(code: int, out: str, err: str) -> None:
    assert fault(code, out, err) is not None


def test_right_answers_are_not_findings(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert fault(0, "x", "piwo: warning: a\n") is None
    assert fault(2, "", "piwo: warning: a\npiwo: error: b\n") is None
    monkeypatch.chdir(folder)
    name = KINDS["certificate"][0]
    changed = Input("certificate", b"", (), exact=True, origin=name)
    _, wrong = judged(changed, {(name,): "another"}, name)
    assert wrong is not None
    assert "checksums" in wrong
