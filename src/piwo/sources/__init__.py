"""Sources: where the rows of a log are stored, and how they are read. No roles, no statistics."""

__all__: list[str] = []
