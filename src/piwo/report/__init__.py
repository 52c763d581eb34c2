"""Reports: a plain summary in, one self-contained page out."""

from piwo.report.details import ActionShare, Details, Explorer, PeriodRow
from piwo.report.looks import looks_page, write_looks
from piwo.report.page import page, write
from piwo.report.summary import Summary, describe, summarize

__all__ = [
    "ActionShare",
    "Details",
    "Explorer",
    "PeriodRow",
    "Summary",
    "describe",
    "looks_page",
    "page",
    "summarize",
    "write",
    "write_looks",
]
