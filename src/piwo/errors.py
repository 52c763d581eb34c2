"""What can go wrong, in three kinds. A message says what was received, what was expected and what to do next."""

from piwo.visible import visible

__all__ = ["DataError", "FileError", "NothingToLearnError", "PiwoError", "PiwoWarning", "UsageError"]


class PiwoError(Exception):
    """Root of every error that piwo raises on purpose."""

    def __str__(self) -> str:
        return visible(super().__str__())


class DataError(PiwoError):
    """The data of a log cannot be used as it stands."""


class NothingToLearnError(DataError):
    """No row has a reward above the lowest, so that an oracle has nothing to learn from."""


class UsageError(PiwoError, ValueError):
    """The arguments do not go together, or one of them is out of its range."""


class FileError(PiwoError):
    """A file is missing, damaged, from a newer version, or made for something else."""


class PiwoWarning(UserWarning):
    """A result can be used, and there is something that its reader must know."""

    def __str__(self) -> str:
        return visible(super().__str__())
