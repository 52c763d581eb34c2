"""Reports: a plain summary in, one self-contained page out."""

from piwo.report.page import page, write
from piwo.report.summary import Summary, summarize

__all__ = ["Summary", "page", "summarize", "write"]
