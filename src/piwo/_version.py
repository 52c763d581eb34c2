"""The version. The wheel, `piwo.__version__` and saved files take it from here."""

__version__ = "0.1.0"
