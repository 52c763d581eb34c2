"""How long `import piwo` and `piwo --help` take, and how many times an empty Python that is.

Warm: each command runs once before it is timed, so that files are in memory and byte code is
written. The middle one of the repeats is printed. Run it with an installed piwo: `python
benchmarks/import_time.py`. The aims are 0.5 s for the import and 1 s for the help.
"""

import statistics
import subprocess
import sys
import sysconfig
import time
from pathlib import Path

REPEATS = 9
COMMANDS = {
    "python -c pass": [sys.executable, "-c", "pass"],
    "import numpy": [sys.executable, "-c", "import numpy"],
    "import piwo": [sys.executable, "-c", "import piwo"],
    "piwo --help": [str(Path(sysconfig.get_path("scripts"), "piwo")), "--help"],
}


def seconds(command: list[str]) -> float:
    """Median wall time of a command, after one run that is not counted."""
    times = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        times.append(time.perf_counter() - start)
    return statistics.median(times[1:])


def main() -> None:
    empty = seconds(COMMANDS["python -c pass"])
    for name, command in COMMANDS.items():
        took = seconds(command)
        print(f"{name:<16} {took:6.3f} s  {took / empty:6.1f} x an empty Python")


if __name__ == "__main__":
    main()
