"""Health: is a log fit for use?"""

from piwo.health.check import check
from piwo.health.record import Health

__all__ = ["Health", "check"]
