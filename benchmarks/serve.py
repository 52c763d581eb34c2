"""How quickly decisions are made, and served over HTTP, on this machine alone.

    python benchmarks/serve.py [--requests 4000] [--clients 16] [--seconds 60] [--workers 2]

1. `Server.decide` without a log and `policy.act` on the same rows, alternating: p50 and p99 of one
   decision over 64 features, and the ratio of their medians.
2. `Server.decide` with a log, synchronized with the disk and not.
3. `--workers` processes of `piwo serve` on one port of 127.0.0.1, asked by as many clients as
   given, each waiting for its answer before it asks again: decisions in a second, p50, p99, and the
   servers' own processor time, which other programs on the machine change least. At most
   `--requests` requests and `--seconds`.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np

from piwo.logs import Features
from piwo.policies import LinearSoftmax
from piwo.serve import LogWriter, Server

WIDTH, ACTIONS = 64, 10
WARM_UP = 50


def shown(name: str, seconds: list[float]) -> str:
    """Return the median and the 99th percentile of times as a line."""
    p50, p99 = np.percentile(seconds, [50, 99]) * 1e3
    return f"{name}: p50 {p50:.3f} ms, p99 {p99:.3f} ms ({len(seconds)} calls)"


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def in_process(folder: Path, policy: LinearSoftmax, contexts: list[dict[str, float]]) -> None:
    """Time one decision at a time, in this process."""
    server = Server(policy, epsilon=0.05, uncertified=True, random_state=0)
    frames = [{name: [value] for name, value in one.items()} for one in contexts]
    acting = server.policy
    assert acting.features is not None
    row, frame = [], []
    for context, columns in zip(contexts, frames, strict=True):
        row.append(timed(partial(server.decide, context)))
        frame.append(timed(partial(acting.act, columns, 0)))
    row, frame = row[WARM_UP:], frame[WARM_UP:]
    print(shown("decide, no log", row))
    print(shown("policy.act on a frame of one row", frame))
    ratio = statistics.median(frame) / statistics.median(row)
    print(f"act / decide: {ratio:.1f}")
    for sync in (False, True):
        log = LogWriter(folder / f"{sync}", policy.actions, acting.features, sync=sync)
        with Server(policy, log, epsilon=0.05, uncertified=True, random_state=0) as server:
            seconds = [timed(partial(server.decide, x)) for x in contexts]
        print(shown(f"decide, logged, sync={sync}", seconds[WARM_UP:]))


async def asked(port: int, body: bytes, left: list[int], until: float, found: list[float]) -> None:
    """Ask for decisions over one connection, one after the other, while there are any left."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    head = "POST /decide HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
    request = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    while left[0] > 0 and time.perf_counter() < until:
        left[0] -= 1
        start = time.perf_counter()
        writer.write(request)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer, re.IGNORECASE)
        if length is None or not answer.startswith(b"HTTP/1.1 200"):
            raise RuntimeError(answer.decode())
        await reader.readexactly(int(length[1]))
        found.append(time.perf_counter() - start)
    writer.close()
    await writer.wait_closed()


async def load(port: int, body: bytes, clients: int, requests: int, seconds: float) -> str:
    """Return decisions in a second and their times, of several clients at once."""
    warm: list[float] = []
    await asked(port, body, [WARM_UP], time.perf_counter() + seconds, warm)
    left = [requests]
    found: list[float] = []
    start = time.perf_counter()
    until = start + seconds
    await asyncio.gather(*(asked(port, body, left, until, found) for _ in range(clients)))
    took = time.perf_counter() - start
    return f"{shown(f'HTTP, {clients} clients', found)}: {len(found) / took:.0f} decisions/s"


def processor(pid: int) -> float:
    """Return the seconds of processor time that a process has used, on Linux; NaN elsewhere."""
    path = Path(f"/proc/{pid}/stat")
    if not path.exists():
        return float("nan")
    fields = path.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def served(folder: Path, context: dict[str, float], options: argparse.Namespace) -> None:
    """Start the command, and load it."""
    words = [sys.executable, "-m", "piwo", "serve", str(folder / "p.piwo")]
    words += ["--log", str(folder / "log"), "--epsilon", ".05", "--uncertified"]
    words += ["--shared-port"]
    processes: list[subprocess.Popen[str]] = []
    port = "0"
    try:
        for _ in range(options.workers):
            process = subprocess.Popen(
                [*words, "--port", port], stderr=subprocess.PIPE, text=True, cwd=folder
            )
            processes.append(process)
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.search(r"127\.0\.0\.1:(\d+)", line)
            if address is None:
                raise RuntimeError(line)
            port = address[1]
        body = json.dumps({"context": context}).encode()
        for clients in sorted({1, options.clients}):
            requests = options.requests if clients > 1 else options.requests // 4
            before = sum(processor(x.pid) for x in processes)
            print(asyncio.run(load(int(port), body, clients, requests, options.seconds)))
            spent = sum(processor(x.pid) for x in processes) - before
            each = spent / (requests + WARM_UP) * 1e3
            print(f"  processor time of {len(processes)} servers: {each:.3f} ms a decision")
    finally:
        for process in processes:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=60)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--requests", type=int, default=4000)
    parser.add_argument("--clients", type=int, default=16)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=60.0)
    options = parser.parse_args()
    options.requests = min(options.requests, 100_000)
    options.clients, options.workers = min(options.clients, 64), min(options.workers, 8)
    rng = np.random.default_rng(0)
    coef = rng.normal(size=(ACTIONS, WIDTH))
    features = Features.numeric(WIDTH)
    policy = LinearSoftmax(coef, np.zeros(ACTIONS), list(range(ACTIONS)), features=features)
    names = features.names
    rows = rng.normal(size=(min(options.requests, 1000) + WARM_UP, WIDTH)).tolist()
    contexts = [dict(zip(names, row, strict=True)) for row in rows]
    print(f"{os.cpu_count()} cores, {WIDTH} features, {ACTIONS} actions")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        policy.save(folder / "p.piwo")
        in_process(folder, policy, contexts)
        served(folder, contexts[0], options)


if __name__ == "__main__":
    main()
