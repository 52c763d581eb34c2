"""Run the learners on the logs, in several processes; what is done is kept."""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, fields
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from benchmarks.quality.cases import Case
from benchmarks.quality.learners import LEARNERS, Choice
from benchmarks.quality.worlds import world

__all__ = ["case_of", "read", "run_all", "run_case"]

_FIELDS = [one.name for one in fields(Case)]

Line = dict[str, Any]


def run_case(case: Case, names: Sequence[str], folder: Path) -> list[Line]:
    """Return one line for each learner: its value, what it is compared with, and its seconds."""
    with warnings.catch_warnings(action="ignore"):
        # fits that stop early are part of the comparison
        made = world(case, folder)
        found = []
        for name in names:
            line = {
                **asdict(case),
                "learner": name,
                "logged": made.logged,
                "skyline": made.skyline,
                "spread": made.spread,
            }
            start = time.perf_counter()
            try:
                played: Any = LEARNERS[name].plays(made)
            except Exception as error:  # noqa: BLE001 (a library that fails on a log is a result)
                line["error"] = f"{type(error).__name__}: {error}"[:200]
            else:
                line |= {"value": made.logged, "how": ""}
                if isinstance(played, Choice):
                    line["how"] = played.how
                    played = played.played
                if played is not None:
                    line["value"] = made.value(played)
            line["seconds"] = round(time.perf_counter() - start, 3)
            found.append(line)
        return found


def run_all(
    cases: Sequence[Case], names: Sequence[str], folder: Path, out: Path, jobs: int
) -> None:
    """Run what the file does not have yet, and append it line by line; progress on stderr.

    Logs that are too large for a learner, and learners whose library is missing, are left out.
    """
    done = {(case_of(line), line["learner"]) for line in read(out)}
    missing = {}
    for case in cases:
        some = []
        for name in names:
            refused = LEARNERS[name].refuses(case.size, case.actions)
            if refused is None and (case, name) not in done:
                some.append(name)
        if some:
            missing[case] = some
    start = time.monotonic()
    with out.open("a", encoding="utf-8") as file:
        # ends a line that a killed run left half written
        print(file=file)
        for count, lines in enumerate(_ran(missing, folder, jobs), 1):
            for line in lines:
                print(json.dumps(line), file=file, flush=True)
            left = (time.monotonic() - start) / count * (len(missing) - count)
            progress = f"{count} of {len(missing)} logs, about {left / 60:.0f} min left "
            print(f"\r{progress}", end="", file=sys.stderr, flush=True)
    print(file=sys.stderr)


def _ran(missing: Mapping[Case, list[str]], folder: Path, jobs: int) -> Iterator[list[Line]]:
    if jobs == 1:
        for case, names in missing.items():
            yield run_case(case, names, folder)
        return
    # one thread a process: small fits gain nothing from two
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        running = [pool.submit(run_case, *each, folder) for each in missing.items()]
        for future in as_completed(running):
            yield future.result()


def read(path: Path) -> list[Line]:
    """Return the lines that are complete; a run that was killed may have left half of one."""
    lines = []
    if path.exists():
        for text in path.read_text(encoding="utf-8").splitlines():
            try:
                lines.append(json.loads(text))
            except json.JSONDecodeError:
                continue
    return lines


def case_of(line: Line) -> Case:
    """Return the log of a line."""
    return Case(**{name: line[name] for name in _FIELDS})
