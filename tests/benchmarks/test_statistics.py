"""Every part of the statistics benchmark runs and makes a table."""

import importlib

import pytest

from benchmarks.statistics.__main__ import main, parts, table

pytestmark = pytest.mark.statistics


@pytest.mark.parametrize("name", parts())
def test_a_part_prints_its_table(name, capsys, monkeypatch):
    monkeypatch.setattr(importlib.import_module(f"benchmarks.statistics.{name}"), "REPS", 2)
    main([name])
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("## ")
    assert {line.count("|") for line in lines if line.startswith("|")} == {lines[2].count("|")}
    assert len([line for line in lines if line.startswith("|")]) >= 3


def test_a_table_names_every_column_once():
    shown = table([{"case": "a", "width": 0.123456}, {"case": "b", "miss": 0}])
    assert shown.splitlines() == [
        "| case | width | miss |",
        "| --- | --- | --- |",
        "| a | 0.1235 |  |",
        "| b |  | 0 |",
    ]


def test_an_unknown_part_is_refused(capsys):
    with pytest.raises(SystemExit):
        main(["nothing"])
    assert "no part is called 'nothing'" in capsys.readouterr().err
