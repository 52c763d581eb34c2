"""The table of interval methods, and what is generated from it."""

import re
from pathlib import Path
from typing import get_type_hints

from piwo.cli.shared_options import EstimateOptions
from piwo.intervals import INTERVALS
from piwo.intervals.table import interval_help, interval_table

ROOT = Path(__file__).parents[2]


def test_the_page_has_the_table() -> None:
    page = (ROOT / "docs" / "bounds.md").read_text(encoding="utf-8")
    begin = "<!-- begin: scripts/intervals_table.py -->\n\n"
    table = page.partition(begin)[2].partition("\n<!-- end -->\n")[0]
    assert table == interval_table(), "run python scripts/intervals_table.py"


def test_the_table_describes_every_method() -> None:
    rows = [row.split(" | ") for row in interval_table().splitlines()[2:]]
    assert [row[0] for row in rows] == [f"| `{name}`" for name in INTERVALS]
    for row, method in zip(rows, INTERVALS.values(), strict=True):
        assert row[2] == method.guarantee
        assert len(row) == 5
        assert all(cell.strip(" |") for cell in row)


def test_the_help_of_the_command_names_every_method_once_by_its_guarantee() -> None:
    first, valid, asymptotic = re.split(r"Valid at every n|Asymptotic", interval_help())
    places = {"auto": first, "finite-sample": valid, "asymptotic": asymptotic}
    for name, method in INTERVALS.items():
        place = places["auto" if name == "auto" else method.guarantee]
        assert re.findall(r"[\w-]+", place).count(name) == 1
    hints = get_type_hints(EstimateOptions, include_extras=True)
    (parameter,) = hints["interval"].__metadata__
    assert parameter.help == interval_help()
