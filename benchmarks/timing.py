"""Shared by the benchmarks: alternate runs of several ways, and ratios of medians."""

import resource
import statistics
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path


def alternate(ways: Mapping[str, Callable[[], object]], repeats: int = 5) -> dict[str, float]:
    """Run every way once to warm up, then all in turn; return the median seconds of each."""
    for way in ways.values():
        way()
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    for _ in range(repeats):
        for name, way in ways.items():
            start = time.perf_counter()
            way()
            seconds[name].append(time.perf_counter() - start)
    return {name: statistics.median(times) for name, times in seconds.items()}


def peak_memory() -> float:
    """Return the largest resident memory of this process so far, in MB.

    Linux counts that of the parent in `ru_maxrss`, until the new program began; what it says under
    /proc is our own.
    """
    status = Path("/proc/self/status")
    if status.exists():
        (line,) = [x for x in status.read_text().splitlines() if x.startswith("VmHWM")]
        return int(line.split()[1]) * 1024 / 1e6
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1e6 if sys.platform == "darwin" else 1e3)
