"""Write the table of interval methods into docs/bounds.md, between its two markers.

Run it after a change of `piwo.intervals.INTERVALS`:

    python scripts/intervals_table.py
"""

from pathlib import Path

from piwo.intervals.table import interval_table

PAGE = Path(__file__).resolve().parent.parent / "docs" / "bounds.md"
BEGIN, END = "<!-- begin: scripts/intervals_table.py -->\n", "<!-- end -->\n"


def with_table(page: str) -> str:
    """Return the text of the page with the table as it should be."""
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{interval_table()}\n{END}{after}"


if __name__ == "__main__":
    PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
