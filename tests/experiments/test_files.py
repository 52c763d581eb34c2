"""Files are there whole or not at all, and CSV loses no digit."""

import errno
from collections.abc import Callable
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pytest

from experiments import files
from experiments.claims import check_claims, write_summary
from experiments.figures import write_figures

GAMMA_STAR = 10**-2.4


def full(file: IO[bytes]) -> None:
    """Half of it fits on the disk."""
    file.write(b"half")
    raise OSError(errno.ENOSPC, "No space left on device")


def test_an_old_file_stays_until_the_new_one_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "summary.md"
    files.write(path, b"old")
    with pytest.raises(OSError, match="No space left") as caught:
        files.replace(path, full)
    assert caught.value.filename == str(path)
    assert {x.name: x.read_bytes() for x in tmp_path.iterdir()} == {"summary.md": b"old"}
    files.write(path, b"new")
    assert {x.name: x.read_bytes() for x in tmp_path.iterdir()} == {"summary.md": b"new"}


def test_csv_holds_every_digit() -> None:
    numbers = [0.1 + 0.2, 1e-10, 5e-324, 1 / 3, 1.0]
    assert files.csv_text(pa.table({"h": numbers})) == "h\n" + "".join(f"{x!r}\n" for x in numbers)


def test_pages_and_figures_are_written_like_that_too(
    fabricate: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the disk is full, not even half of a summary or of a figure is left."""
    tables = fabricate(
        sets=["bad"], algorithms=["PIWO-IX"], etas=[1.0, 10.0], hs=[1e-3, 1e-2], folds=2
    )
    original = files.replace
    monkeypatch.setattr(files, "replace", lambda path, write_to: original(path, full))
    with pytest.raises(OSError, match="No space left"):
        write_summary(*tables, check_claims(*tables, GAMMA_STAR), GAMMA_STAR, {}, tmp_path)
    with pytest.raises(OSError, match="No space left"):
        write_figures(*tables, "x", synthetic=False, gamma_star=GAMMA_STAR, folder=tmp_path)
    assert list(tmp_path.iterdir()) == []
