"""The version, written here alone: the wheel's metadata, `piwo.__version__` and saved files all read it."""

__version__ = "0.1.0"
