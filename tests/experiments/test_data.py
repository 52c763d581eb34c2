"""Where the rows of an experiment come from: each source, the digest, and one line for everything
that is wrong."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from experiments import data as module
from experiments.data import Data, load
from piwo.errors import DataError, FileError, PiwoError, UsageError
from piwo.policies import LinearGreedy
from piwo.simulate import ClassificationBandit

ROWS = 300


@pytest.fixture
def table() -> pa.Table:
    """Numbers that float32 holds exactly, and labels that look like numbers and like nothing."""
    rng = np.random.default_rng(0)
    labels = rng.choice(["01", "1", "NA", "ä"], ROWS)
    return pa.table(
        {
            "a": rng.normal(size=ROWS).astype(np.float32),
            "class": labels,
            "b": rng.integers(-5, 5, ROWS),
        }
    )


def written(table: pa.Table, path: Path) -> str:
    if path.suffix == ".csv":
        pyarrow.csv.write_csv(table, path)
    else:
        pq.write_table(table, path)
    return str(path)


# --- synthetic


def test_synthetic_rows_are_the_same_on_every_machine() -> None:
    """Worked once; sums, products and square roots of uniform numbers leave no room for another
    answer."""
    made = load("synthetic", 1000, 0)
    assert (made.X.shape, made.labels, made.synthetic) == (
        (1000, 16),
        tuple("ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        True,
    )
    assert made.digest == "0090d547c7d4a6bbd59290431794262f4da86ddaafcf0dfbbd6aeeffb18003d8"


def test_another_seed_gives_other_rows() -> None:
    assert len({load("synthetic", 1000, seed).digest for seed in (0, 1, 2)}) == 3


def test_blocks_leave_no_seam() -> None:
    made = load("synthetic", 2 * module.ROW_BLOCK + 1, 0).X
    assert np.isfinite(made).all()
    assert len(np.unique(made[:, 0])) == len(made)


@pytest.mark.parametrize("seed", [0, 1])
def test_synthetic_rows_behave_like_letters(seed: int) -> None:
    """Linear ridge is mediocre: some .7 under the paper's rewards, above the best fixed action,
    far from 1."""
    made = load("synthetic", 20_000, seed)
    bandit = ClassificationBandit(
        made.X, made.y, rewards=ClassificationBandit.paper_rewards(26, seed)
    )
    logger = bandit.softmax_logger(1.0)
    greedy = bandit.value(
        LinearGreedy(logger.coef, logger.intercept, bandit.actions, bandit.features)
    )
    assert 0.66 < greedy < 0.78
    assert bandit.rewards[:, bandit.classes].mean(axis=1).max() < greedy


# --- files


def test_the_digest_is_of_the_values_not_of_the_file(table: pa.Table, tmp_path: Path) -> None:
    wide = table.set_column(0, "a", table["a"].cast(pa.float64()))
    encoded = table.set_column(1, "class", table["class"].dictionary_encode())
    renamed = table.rename_columns(["x", "class", "y"])
    paths = [
        written(table, tmp_path / "narrow.parquet"),
        written(wide, tmp_path / "wide.parquet"),
        written(encoded, tmp_path / "encoded.parquet"),
        written(renamed, tmp_path / "renamed.parquet"),
        written(wide, tmp_path / "wide.csv"),
    ]
    found = [load(path, None, 0) for path in paths]
    assert len({one.digest for one in found}) == 1
    for one in found:
        np.testing.assert_array_equal(
            one.X, np.column_stack([table["a"].to_numpy(), table["b"].to_numpy()])
        )
        assert one.y.to_pylist() == table["class"].to_pylist()
        assert one.labels == ("01", "1", "NA", "ä")


@pytest.mark.parametrize("change", ["value", "label", "order", "shape"])
def test_the_digest_tells_other_rows_apart(change: str, table: pa.Table, tmp_path: Path) -> None:
    a, y, b = (table[name].to_numpy(zero_copy_only=False).copy() for name in table.column_names)
    if change == "value":
        a[7] += 1
    elif change == "label":
        y[7] = "1" if y[7] == "01" else "01"
    elif change == "order":
        a, y, b = (column[::-1].copy() for column in (a, y, b))
    columns = {"a": a, "class": y, "b": b} if change != "shape" else {"a": a, "class": y}
    other = load(written(pa.table(columns), tmp_path / "b.parquet"), None, 0)
    assert other.digest != load(written(table, tmp_path / "a.parquet"), None, 0).digest


def test_whole_numbers_as_labels_are_the_same_in_both_formats(tmp_path: Path) -> None:
    table = pa.table({"x": np.arange(ROWS) / 8, "digit": np.arange(ROWS) % 10})
    csv, parquet = (
        load(written(table, tmp_path / f"a.{kind}"), None, 0, "digit")
        for kind in ("csv", "parquet")
    )
    assert csv.digest == parquet.digest
    assert csv.labels == tuple("0123456789")


def test_labels_of_a_csv_file_are_the_text_that_they_are(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,class\n" + "1,01\n2,1\n" * ROWS)
    assert load(str(tmp_path / "a.csv"), None, 0).labels == ("01", "1")


def test_a_draw_is_without_replacement_and_by_seed(table: pa.Table, tmp_path: Path) -> None:
    path = written(table.append_column("row", pa.array(np.arange(ROWS))), tmp_path / "a.parquet")
    drawn = load(path, 120, 0)
    rows = drawn.X[:, 2].astype(int)
    assert len(rows) == len(drawn.y) == 120
    assert (np.diff(rows) > 0).all()
    assert drawn.y.to_pylist() == [table["class"][int(row)].as_py() for row in rows]
    assert drawn.digest == load(path, 120, 0).digest != load(path, 120, 1).digest
    assert (
        load(path, ROWS, 0).digest == load(path, 10 * ROWS, 1).digest == load(path, None, 2).digest
    )


def test_the_name_on_figures(table: pa.Table, tmp_path: Path) -> None:
    names = {
        load(written(table, tmp_path / file), None, 0).name
        for file in ("bng_letter_1m.parquet", "mine.csv")
    }
    assert names == {"BNG(letter)", "mine"}


def test_letter_from_the_shared_folder(shared_data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIWO_SHARED", str(shared_data.parent))
    letter = load("letter", 20_000, 0)
    assert (letter.name, letter.X.shape, len(letter.labels)) == ("letter", (20_000, 16), 26)
    assert letter.synthetic is False


# --- OpenML


def fetcher(monkeypatch: pytest.MonkeyPatch, answer: Any) -> list[dict[str, Any]]:
    """Put an answer, or an error, in the place of the network."""
    asked: list[dict[str, Any]] = []

    def fetch(**options: Any) -> Any:
        asked.append(options)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    monkeypatch.setattr("sklearn.datasets.fetch_openml", fetch)
    return asked


def test_openml(table: pa.Table, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = table.to_pandas()
    frame["class"] = frame["class"].astype("category")
    answer = SimpleNamespace(frame=frame, target_names=["class"], details={"name": "BNG(letter)"})
    asked = fetcher(monkeypatch, answer)
    found = load("openml:247", None, 0)
    assert found.name == "BNG(letter)"
    assert found.digest == load(written(table, tmp_path / "a.parquet"), None, 0).digest
    assert [(x["data_id"], x["target_column"]) for x in asked] == [(247, "default-target")]


@pytest.mark.parametrize(
    "error",
    [
        OSError("<urlopen error [Errno -3] Temporary failure in name resolution>\nand more"),
        ValueError("md5 checksum of local file\ndoes not match"),
        ImportError("pandas"),
    ],
)
def test_a_closed_network_says_how_to_give_a_file(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetcher(monkeypatch, error)
    with pytest.raises(FileError, match="--data FILE") as caught:
        load("openml:247", None, 0)
    assert "\n" not in str(caught.value)


def test_letter_is_fetched_where_no_file_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PIWO_SHARED", str(tmp_path))
    asked = fetcher(monkeypatch, OSError("closed"))
    with pytest.raises(FileError, match="openml:6"):
        load("letter", None, 0)
    assert [x["data_id"] for x in asked] == [6]


# --- bad input

LINE = "1.5,2,a\n"
BAD_CSV = {
    "nothing": ("", FileError, "cannot read"),
    "names only": ("x,y,class\n", DataError, "0 rows"),
    "few rows": ("x,y,class\n" + LINE * 9, DataError, "9 rows"),
    "no class": ("x,y,label\n" + LINE * ROWS, DataError, "no column 'class' (x, y, label)"),
    "a word": ("x,y,class\n" + LINE * ROWS + "oops,2,b\n", DataError, f"row {ROWS}: 'oops'"),
    "a gap": (
        "x,y,class\n" + LINE * ROWS + ",2,b\n",
        DataError,
        f"1 value is missing, first in row {ROWS}",
    ),
    "infinite": ("x,y,class\n" + LINE * ROWS + "inf,2,b\n", DataError, f"first in row {ROWS}"),
    "ragged": ("x,y,class\n" + LINE * ROWS + "1,2\n", FileError, "as CSV"),
    "twice": ("x,x,class\n" + LINE * ROWS, DataError, "several columns 'x'"),
    "no label": ("x,y,class\n" + LINE * ROWS + "1,2,\n", DataError, f"row {ROWS} has no label"),
    "one label": ("x,y,class\n" + LINE * ROWS, DataError, "1 different label,"),
    "only labels": ("class\n" + "a\n" * ROWS, DataError, "no column beside"),
    "not text": ("x,y,class\n" + LINE * ROWS + "1,2,\udcff\n", PiwoError, ""),
    "dates": ("x,y,class\n" + "2024-01-01,2,a\n" * ROWS, DataError, "holds date32"),
}


def one_line(caught: pytest.ExceptionInfo[PiwoError], told: str) -> None:
    text = str(caught.value)
    assert told in text
    assert "\n" not in text
    assert len(text) < 400


@pytest.mark.parametrize("case", BAD_CSV)
def test_bad_csv(case: str, tmp_path: Path) -> None:
    text, kind, told = BAD_CSV[case]
    path = tmp_path / "bad.csv"
    path.write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(kind) as caught:
        load(str(path), None, 0)
    one_line(caught, told)


def parquet_case(case: str) -> tuple[Any, Any]:
    x, y = np.linspace(0, 1, ROWS), np.arange(ROWS) % 3
    return {
        "class as numbers with a point": ({"x": x, "class": x}, "holds double"),
        "class of lists": ({"x": x, "class": [[1]] * ROWS}, "expected text or whole numbers"),
        "a list": ({"x": [[1.0]] * ROWS, "class": y}, "'x' holds list"),
        "truth values": ({"x": x > 0.5, "class": y}, "'x' holds bool"),
        "missing class": ({"x": x, "class": [None, *y[1:].tolist()]}, "row 0 has no label"),
        "beyond float64": ({"x": np.full(ROWS, 2**53 + 1), "class": y}, "does not fit float64"),
        "NaN": (
            {"x": np.where(y == 2, np.nan, x), "class": y},
            "100 values are NaN or infinite, first in row 2",
        ),
        "enormous": (
            {"x": -x * 1e160, "class": y},
            "'x' holds 1e+160, expected at most 1e+150 in size",
        ),
        "too many": ({"x": np.arange(2000), "class": np.arange(2000)}, "2000 different labels"),
    }[case]


@pytest.mark.parametrize(
    "case",
    [
        "class as numbers with a point",
        "class of lists",
        "a list",
        "truth values",
        "missing class",
        "beyond float64",
        "NaN",
        "enormous",
        "too many",
    ],
)
def test_bad_columns(case: str, tmp_path: Path) -> None:
    columns, told = parquet_case(case)
    with pytest.raises(DataError) as caught:
        load(written(pa.table(columns), tmp_path / "bad.parquet"), None, 0)
    one_line(caught, told)


def test_a_name_is_fit_to_print(table: pa.Table, tmp_path: Path) -> None:
    """The library that draws the figures ends the process at a control character."""
    assert load(written(table, tmp_path / "a\x1b[31m γ.parquet"), None, 0).name == r"a\x1b[31m γ"


@pytest.mark.parametrize(
    "content", [b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"x,class\n1,a\n"]
)
def test_bad_parquet(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "bad.parquet"
    path.write_bytes(content)
    with pytest.raises(FileError) as caught:
        load(str(path), None, 0)
    one_line(caught, "as Parquet")


@pytest.mark.parametrize(
    ("source", "target", "kind", "told"),
    [
        ("nofile.parquet", None, FileError, "no file 'nofile.parquet'"),
        (
            "nothing",
            None,
            UsageError,
            "expected a .parquet or .csv file, openml:NUMBER, letter or synthetic",
        ),
        ("a.xlsx", None, UsageError, "of no known kind"),
        ("openml:letter", None, UsageError, "expected a number"),
        ("openml:", None, UsageError, "expected a number"),
        ("synthetic", "class", UsageError, "--target"),
        ("letter", "class", UsageError, "--target"),
    ],
)
def test_bad_sources(source: str, target: str | None, kind: type[PiwoError], told: str) -> None:
    with pytest.raises(kind) as caught:
        load(source, None, 0, target)
    one_line(caught, told)


def test_data_cannot_be_changed(table: pa.Table, tmp_path: Path) -> None:
    found: Data = load(written(table, tmp_path / "a.parquet"), None, 0)
    with pytest.raises(ValueError, match="read-only"):
        found.X[0, 0] = 1
