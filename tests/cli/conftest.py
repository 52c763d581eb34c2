"""The command line in this process, and logs that it can run on everywhere."""

import json
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from piwo.cli.main import main


@dataclass(frozen=True)
class Ran:
    """What one run of the command left behind."""

    code: int
    out: str
    err: str

    @property
    def document(self) -> dict[str, Any]:
        """Standard output as JSON, which has no NaN and nothing beside it."""
        found: dict[str, Any] = json.loads(self.out, parse_constant=refuse)
        return found

    @property
    def next(self) -> list[str]:
        """The words of the command that the answer proposes, after `piwo`."""
        (line,) = [x for x in self.out.splitlines() if x.startswith("next: ")]
        program, *words = shlex.split(line.removeprefix("next: "))
        assert program == "piwo"
        return words

    @property
    def why(self) -> str:
        """The reason of that command, the last line; empty if there is none."""
        line = self.out.splitlines()[-1]
        return line.removeprefix("why:  ") if line.startswith("why:  ") else ""


def refuse(token: str) -> NoReturn:
    raise ValueError(f"{token} is not JSON")


Command = Callable[..., Ran]


@pytest.fixture
def piwo(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Command:
    """Run a command in an empty folder, so that no settings file is found."""
    monkeypatch.chdir(tmp_path)

    def run(*words: object) -> Ran:
        capsys.readouterr()
        code = main([str(x) for x in words])
        left = capsys.readouterr()
        return Ran(code, left.out, left.err)

    return run


@pytest.fixture(scope="session")
def learnable(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A uniform logger over three actions; the right one depends on two context columns, one of
    them text."""
    rng = np.random.default_rng(0)
    n = 3000
    x, shop = rng.normal(size=n), rng.choice(["north", "south"], n)
    action = rng.integers(0, 3, n)
    best = np.where(x > 0, 0, np.where(shop == "north", 1, 2))
    click = (rng.random(n) < np.where(action == best, 0.8, 0.2)).astype(float)
    table = pa.table(
        {
            "user x": x,
            "shop": shop,
            "item": np.array(["apple", "bread", "01"])[action],
            "click": click,
            "p": np.full(n, 1 / 3),
            "greedy": (action == best).astype(float),
        }
    )
    path = tmp_path_factory.mktemp("logs") / "learnable.parquet"
    pq.write_table(table, path)
    return path


ROLES = ("--action", "item", "--reward", "click", "--propensity", "p")


@pytest.fixture
def roles() -> tuple[str, ...]:
    """The column options of the logs here."""
    return ROLES


@pytest.fixture
def small(tmp_path: Path) -> Path:
    """Four rows that can be worked by hand: uniform over a and b, a pays 1 half the time."""
    path = tmp_path / "small.csv"
    path.write_text(
        "item,click,p,new\na,1,0.5,1\nb,0,0.5,0\na,0,0.5,1\nb,0,0.5,0\n", encoding="utf-8"
    )
    return path
