"""D18: action identifiers arrive as they were written: every digit, every zero, and NA is a
label."""

import io
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from piwo.errors import DataError
from piwo.logs import Log, read
from piwo.policies import Constant

IDS = "action,reward,propensity\n1582218195625938945,0,0.5\n,1,0.5\n1582218195625938944,1,0.5\n"
COUNTRIES = "action,reward,propensity\nNA,1,0.5\nUS,0,0.5\n"
ZEROS = "action,reward,propensity\n01,0,0.5\n1,1,0.5\n"


def log_of(text: str, folder: Path) -> Log:
    path = folder / "log.csv"
    path.write_text(text, "utf-8")
    return read(path)


def test_64_bit_ids_keep_every_digit_and_a_blank_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(
        DataError, match=r"column 'action' is missing in 1 row \(row numbers from 0: 1\)"
    ):
        list(log_of(IDS, tmp_path).each_batch())
    log = log_of(IDS.replace(",1,0.5\n1582", "1582", 1), tmp_path)
    assert log.actions.labels == ("1582218195625938944", "1582218195625938945")
    assert value(log, Constant("1582218195625938945", log.actions)) == 0.0
    naive = pd.read_csv(io.StringIO(IDS))["action"].dropna()
    assert naive.nunique() == 1  # float64 merges the two


def test_na_is_a_label(tmp_path: Path, value: Any) -> None:
    log = log_of(COUNTRIES, tmp_path)
    assert value(log, Constant("NA", log.actions)) == 1.0
    assert pd.read_csv(io.StringIO(COUNTRIES))["action"].isna().any()


def test_a_leading_zero_is_part_of_the_label(tmp_path: Path, value: Any) -> None:
    log = log_of(ZEROS, tmp_path)
    assert log.actions.labels == ("01", "1")
    assert value(log, Constant("01", log.actions)) == 0.0
    assert pd.read_csv(io.StringIO(ZEROS))["action"].nunique() == 1


def test_a_byte_order_mark_is_no_part_of_the_first_name(tmp_path: Path) -> None:
    assert log_of("\ufeff" + ZEROS, tmp_path).actions.labels == ("01", "1")
