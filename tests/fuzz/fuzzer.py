"""A fuzzer: it damages files that piwo reads, and watches what the command makes of them.

    python tests/fuzz/fuzzer.py --count 20000        # or: make fuzz COUNT=20000

Input number i of a seed is the same on every machine. A worker process runs the inputs one by one;
if it crashes or hangs, the input is a finding and a new worker goes on behind it. Findings are
written to a folder, with the words that show them again.

A finding is: a traceback, an error that is not one line, an exit code other than 0, 1 and 2, a
message that calls itself a bug, a hang, a crash; and for files with a checksum, an answer that
differs from that of the good file.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import io
import json
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
import warnings
import zipfile
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import piwo
from piwo.cli.main import main
from piwo.errors import PiwoError

SECONDS = 60
"""Time for one input, on a machine that does other things, too."""
MEMORY = 12 * 2**30
"""Address space of a worker: a file that asks for more gets a MemoryError."""
ROWS = 40
POLICIES = ("linear", "tabular", "model", "nested")

HOSTILE: tuple[bytes, ...] = (
    b"nan", b"inf", b"-1", b"1e999", b"1e-320", b"0", b"", b"null", b"true", b"NaN", b"Infinity",
    b"9" * 400, b"\x00", b"\xff\xfe", b"\xed\xa0\x80", b'"', b"'", b"\\", b"\\ud800", b"\r\n",
    b"\n\n", b",,,,", b"[" * 5000, b'{"a":' * 3000, b"\x1b[31m", b"../../etc/passwd", b"/dev/zero",
    b"--", b";drop table x", b"a" * 10_000, b"2026-02-30", b"1_000", b"0x10", b"\xef\xbb\xbf",
    b"1.0", b"01", b"-9223372036854775808", b"18446744073709551616", b"%s%n", b"\xe2\x80\xae",
)  # fmt: skip


# --- good files


def table(rng: np.random.Generator) -> pa.Table:
    """A small log."""
    action = rng.integers(0, 3, ROWS)
    return pa.table(
        {
            "action": np.array(["a", "b", "01"])[action],
            "reward": rng.integers(0, 2, ROWS).astype(float),
            "propensity": np.full(ROWS, 1 / 3),
            "x": rng.normal(size=ROWS).round(3),
            "shop": rng.choice(["north", "south, east"], ROWS),
        }
    )


def dsjson(rng: np.random.Generator) -> bytes:
    """The same as events of Vowpal Wabbit."""
    lines = []
    for _ in range(ROWS):
        first = int(rng.integers(1, 3))
        event = {
            "_label_cost": -float(rng.integers(0, 2)),
            "_label_probability": 0.5,
            "_label_Action": first,
            "_labelIndex": first - 1,
            "a": [first, 3 - first],
            "c": {"U": {"x": round(float(rng.normal()), 3)}, "_multi": [{"i": 1}, {"i": 2}]},
            "p": [0.5, 0.5],
            "pdrop": 0.0,
        }
        lines.append(json.dumps(event))
    return "\n".join(lines).encode() + b"\n"


def vw(rng: np.random.Generator) -> bytes:
    """The same as lines of Vowpal Wabbit's text format."""
    lines = []
    for _ in range(ROWS):
        action, cost = int(rng.integers(1, 3)), -int(rng.integers(0, 2))
        x, shop = round(float(rng.normal()), 3), rng.choice(["north", "south"])
        lines.append(f"{action}:{cost}:0.5 |U x:{x} shop={shop}")
    return "\n".join(lines).encode() + b"\n"


def policies(log: piwo.Log) -> dict[str, piwo.policies.Policy]:
    """One policy of each kind of file."""
    from sklearn.tree import DecisionTreeClassifier

    labels = log.actions
    x = piwo.Features.numeric(("x",))
    linear = piwo.policies.LinearSoftmax([[1.0], [2.0], [0.0]], [0, 0, 0], labels, 0.5, x)
    tree = DecisionTreeClassifier(max_depth=2, random_state=0)
    tree.fit([[0.0], [1.0], [2.0]], [str(labels.labels[i]) for i in range(3)])
    nested = piwo.policies.EpsilonGreedy(piwo.policies.Uniform(labels), 0.1)
    return {
        "linear": linear,
        "tabular": piwo.policies.Tabular([0.5, 0.3, 0.2], labels),
        "model": piwo.policies.Classifier(tree, labels, x),
        "nested": piwo.policies.Mixture([nested, piwo.policies.Constant("a", labels)], [0.5, 0.5]),
    }


def good_files(folder: Path) -> None:
    """Write one good file of each kind."""
    rows = table(np.random.default_rng(0))
    pq.write_table(rows, folder / "log.parquet", row_group_size=16, write_page_checksum=True)
    frame = rows.to_pydict()
    names = list(frame)
    lines = [",".join(names)]
    for row in zip(*frame.values(), strict=True):
        cells = [f'"{x}"' if isinstance(x, str) else repr(x) for x in row]
        lines.append(",".join(cells))
    text = "\n".join(lines).encode() + b"\n"
    (folder / "log.csv").write_bytes(text)
    (folder / "log.csv.gz").write_bytes(gzip.compress(text, mtime=0))
    records = [
        json.dumps(dict(zip(names, row, strict=True))) for row in zip(*frame.values(), strict=True)
    ]
    (folder / "log.jsonl").write_bytes("\n".join(records).encode() + b"\n")
    labeled = []
    for record in records:
        labeled.append({**json.loads(record), "mu": dict.fromkeys(["a", "b", "01"], 1 / 3)})
    (folder / "array.json").write_text(json.dumps(labeled))
    columns = {name: [row[name] for row in labeled] for name in labeled[0]}
    (folder / "columns.json").write_text(json.dumps(columns))
    (folder / "log.dsjson").write_bytes(dsjson(np.random.default_rng(1)))
    (folder / "log.vw").write_bytes(vw(np.random.default_rng(1)))
    log = piwo.read(str(folder / "log.csv"), context=["x"])
    for name, policy in policies(log).items():
        policy.save(folder / f"{name}.piwo", {"training": {"rows": 7}})
    uniform = piwo.policies.Uniform(["a", "b", "01"])
    monitor = piwo.Monitor(uniform).update(log)
    monitor.save(folder / "sums.monitor")
    planned = piwo.Monitor(uniform, horizon=2, interval="deadline").update(log)
    planned.save(folder / "blocks.monitor")
    piwo.certify(log, {"uniform": uniform})["uniform"].save(folder / "value.certificate")
    # What is left behind by a command that is killed at its end.
    words = ["evaluate", "log.parquet", "--policy", "uniform", "--checkpoint", "sums.checkpoint"]
    kept = "from piwo.engines.checkpoint import Checkpoint as C; C.remove = C.write"
    code = f"import sys; {kept}; from piwo.cli.main import main; sys.exit(main({words}))"
    subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, check=True)
    assert (folder / "sums.checkpoint").exists()


# --- damage


def damaged(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Return bytes with one to four faults, mostly one."""
    for _ in range(int(rng.choice([1, 1, 1, 2, 4]))):
        data = FAULTS[int(rng.integers(len(FAULTS)))](data, other, rng)
    return data[: 2**22]


def _place(data: bytes, rng: np.random.Generator) -> int:
    return int(rng.integers(0, len(data) + 1))


def flipped(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    for _ in range(int(rng.integers(1, 9))):
        if changed:
            changed[int(rng.integers(len(changed)))] ^= 1 << int(rng.integers(8))
    return bytes(changed)


def cut(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    return data[: _place(data, rng)]


def without_piece(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    at = _place(data, rng)
    return data[:at] + data[at + int(rng.integers(1, 64)) :]


def doubled(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    one, two = sorted((_place(data, rng), _place(data, rng)))
    return data[:two] + data[one:two] * int(rng.integers(1, 4)) + data[two:]


def spliced(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    return data[: _place(data, rng)] + other[_place(other, rng) :]


def hostile(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    at = _place(data, rng)
    return data[:at] + HOSTILE[int(rng.integers(len(HOSTILE)))] + data[at:]


def replaced(data: bytes, other: bytes, rng: np.random.Generator) -> bytes:
    """Put a hostile value in the place of a number or a word."""
    found = list(re.finditer(rb'"[^"\n]{0,40}"|-?[0-9][0-9.eE+-]*|\w+', data[: 2**16]))
    if not found:
        return hostile(data, other, rng)
    hit = found[int(rng.integers(len(found)))]
    return data[: hit.start()] + HOSTILE[int(rng.integers(len(HOSTILE)))] + data[hit.end() :]


FAULTS: tuple[Callable[[bytes, bytes, np.random.Generator], bytes], ...] = (
    flipped, cut, without_piece, doubled, spliced, hostile, replaced, replaced, replaced,
)  # fmt: skip


def zip_damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Damage a member of a zip and pack it again, with right checksums."""
    with zipfile.ZipFile(io.BytesIO(data)) as source:
        held = {name: source.read(name) for name in source.namelist()}
    name = list(held)[int(rng.integers(len(held)))]
    if name.endswith(".skops") and rng.random() < 0.8:
        held[name] = zip_damaged(held[name], rng)
    elif name.endswith(".json") and rng.random() < 0.6:
        held[name] = json_damaged(held[name], rng)
    elif name.endswith(".npy") and rng.random() < 0.6:
        held[name] = numbers_damaged(held[name], rng)
    else:
        held[name] = damaged(held[name], held[name], rng)
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as out:
        for key, content in held.items():
            out.writestr(key, content)
    return file.getvalue()


VALUES: tuple[Any, ...] = (
    None, True, -1, 0, 1, 2, 10**6, 10**30, 0.5, -0.5, 1e308, 1e-320, "", "a", "1", "nan", [], {},
    [1], ["a", "a"], {"a": 1}, [[]], "\ud800", "builtins", "os", "system", "../x", [0.5] * 3,
)  # fmt: skip


def json_damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Change, remove, double or nest one value of a JSON document."""
    page = json.loads(data)
    places: list[tuple[Any, Any]] = []
    waiting = [page]
    while waiting:
        part = waiting.pop()
        keys = part.keys() if isinstance(part, dict) else range(len(part))
        for key in keys:
            places.append((part, key))
            if isinstance(part[key], dict | list):
                waiting.append(part[key])
    part, key = places[int(rng.integers(len(places)))]
    how = int(rng.integers(5))
    if how == 0:
        del part[key]
    elif how == 1:
        part[key] = places[int(rng.integers(len(places)))][0]
    elif how == 2 and isinstance(part, dict):
        part["more"] = part[key]
    else:
        part[key] = VALUES[int(rng.integers(len(VALUES)))]
    try:
        return json.dumps(page).encode()
    except (ValueError, RecursionError):  # it holds itself
        return data


def numbers_damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Change entries of an array, or its shape or type."""
    array = np.load(io.BytesIO(data), allow_pickle=False)
    file = io.BytesIO()
    raw = bytearray(array.tobytes())
    for _ in range(int(rng.integers(1, 4))):
        if raw:
            at = int(rng.integers(len(raw)))
            raw[at] = int(rng.integers(256))
    changed = np.frombuffer(bytes(raw), array.dtype).reshape(array.shape)
    how = int(rng.integers(4))
    if how == 0:
        changed = changed.ravel()
    elif how == 1:
        changed = changed[: len(changed) // 2] if changed.ndim else changed
    elif how == 2 and changed.dtype.kind == "f":
        changed = np.where(rng.random(changed.shape) < 0.5, np.nan, changed)
    np.save(file, changed)
    return file.getvalue()


def monitor_damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Change a value and write the right checksum: what a hostile file does."""
    import hashlib

    page = json.loads(json_damaged(data, rng))
    if isinstance(page, dict) and "checksum" in page:
        page.pop("checksum")
        text = json.dumps(page, sort_keys=True).encode()
        page["checksum"] = hashlib.sha256(text).hexdigest()[:32]
    return json.dumps(page).encode()


def parquet_damaged(data: bytes, rng: np.random.Generator) -> bytes:
    """Write a column with another type or strange values."""
    rows = pq.read_table(io.BytesIO(data))
    at = int(rng.integers(rows.num_columns))
    n = rows.num_rows
    odd: list[Any] = [
        pa.nulls(n),
        pa.array([[1.0]] * n),
        pa.array([{"a": 1}] * n),
        pa.array([b"\xff"] * n),
        pa.array([np.nan] * n),
        pa.array([2**63] * n, pa.uint64()),
        pa.array([""] * n),
        pa.array(["a\x00b"] * n),
        pa.array([None, *[0.5] * (n - 1)]),
        pa.array([1] * n, pa.timestamp("ns")),
        pa.array(["a"] * n).dictionary_encode(),
        pa.array([True] * n),
        pa.array([1] * n, pa.decimal128(20, 2)),
        pa.array([1e308] * n),
    ]
    changed = rows.set_column(at, rows.column_names[at], odd[int(rng.integers(len(odd)))])
    if rng.random() < 0.3:
        changed = changed.rename_columns(["action", "Action", "propensity", "x", ""])
    file = io.BytesIO()
    pq.write_table(changed.slice(0, int(rng.integers(0, n + 1))), file)
    return file.getvalue()


# --- inputs


@dataclass(frozen=True)
class Input:
    """One damaged file, and what is done with it."""

    kind: str
    data: bytes
    words: tuple[str, ...]
    """Of the command; empty: a call of the library."""
    exact: bool
    """Whether a success must give what the good file gives."""
    origin: str
    """The good file."""

    @property
    def asked(self) -> tuple[str, ...]:
        """What is done with which file."""
        return (self.origin, *self.words)


KINDS: dict[str, tuple[str, ...]] = {
    "csv": ("log.csv",),
    "gz": ("log.csv.gz",),
    "jsonl": ("log.jsonl",),
    "json": ("array.json", "columns.json"),
    "dsjson": ("log.dsjson",),
    "vw": ("log.vw",),
    "parquet": ("log.parquet",),
    "policy": tuple(f"{x}.piwo" for x in POLICIES),
    "monitor": ("sums.monitor", "blocks.monitor"),
    "certificate": ("value.certificate",),
    "checkpoint": ("sums.checkpoint",),
}


def damage_of(kind: str, data: bytes, other: bytes, rng: np.random.Generator) -> tuple[bytes, bool]:
    """Return a damaged file, and whether its checksums are those of the good one."""
    structured = rng.random() < 0.5
    if structured and kind in {"policy", "checkpoint"}:
        return zip_damaged(data, rng), False
    if structured and kind in {"monitor", "certificate"}:
        return monitor_damaged(data, rng), False
    if structured and kind == "parquet":
        return parquet_damaged(data, rng), False
    if structured and kind == "json":
        return json_damaged(data, rng), False
    if structured and kind == "gz":
        return gzip.compress(damaged(gzip.decompress(data), other, rng), 1, mtime=0), False
    # Spliced with itself, it can be no other good file.
    exact = kind in {"policy", "monitor", "certificate"} and rng.random() < 0.7
    if exact:
        other = data
    return damaged(data, other, rng), exact


def input_of(folder: Path, seed: int, number: int) -> Input:
    """Return input `number` of a seed."""
    rng = np.random.default_rng([seed, number])
    kind = list(KINDS)[number % len(KINDS)]
    name = KINDS[kind][int(rng.integers(len(KINDS[kind])))]
    others = [x for names in KINDS.values() for x in names]
    other = (folder / others[int(rng.integers(len(others)))]).read_bytes()
    data, exact = damage_of(kind, (folder / name).read_bytes(), other, rng)
    bad = f"bad-{name}"
    choices: list[tuple[str, ...]] = []
    if kind == "policy":
        choices = [("policy", "show", bad), ("policy", "act", bad, "log.csv", "--seed", "0")]
        choices += [("evaluate", "log.parquet", "--policy", bad)]
    elif kind == "checkpoint":
        choices = [("evaluate", "log.parquet", "--policy", "uniform", "--checkpoint", bad)]
    elif kind in {"dsjson", "vw"}:
        choices = [("check", bad), ("evaluate", bad, "--policy", "uniform", "--context", "U/x")]
    elif kind not in {"monitor", "certificate"}:
        choices = [
            ("check", bad),
            ("evaluate", bad, "--policy", "uniform", "--json"),
            ("evaluate", bad, "--policy", "uniform", "--where", "x > 0 and shop = 'north'"),
            ("check", bad, "--context", "x,shop", "--missing", "indicator"),
            ("policy", "act", "linear.piwo", bad, "--seed", "0"),
        ]
    if kind == "json":
        choices += [("evaluate", bad, "--propensities", "mu", "--policy", "uniform")] * 2
    words: tuple[str, ...] = ()
    if choices:
        words = choices[int(rng.integers(len(choices)))]
    return Input(kind, data, words, exact, name)


# --- verdicts


def library_call(kind: str, path: str) -> int:
    """Do what the command does not offer, with its error handling."""
    from piwo.cli.notices import collected_warnings, error_line

    with collected_warnings():
        try:
            if kind == "monitor":
                look = piwo.Monitor.load(path, piwo.policies.Uniform(["a", "b", "01"])).look()
                print(look)
            else:
                print(piwo.Certificate.load(path))
        except PiwoError as cause:
            error_line(str(cause))
            return 2
    return 0


def ran(kind: str, words: Sequence[str], path: str) -> tuple[int, str, str]:
    """Run one input; return exit code, standard output and standard error."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = main(list(words)) if words else library_call(kind, path)
    return code, out.getvalue(), err.getvalue()


def fault(code: int, out: str, err: str) -> str | None:
    """Return what is wrong with an answer; None: nothing."""
    lines = err.splitlines()
    errors = [x for x in lines if x.startswith("piwo: error:")]
    if "Traceback" in err or "this is a bug" in err:
        return f"a fault of our own: {err[-300:]}"
    if code not in {0, 1, 2}:
        return f"exit code {code}"
    if any(not x.startswith(("piwo: error:", "piwo: warning:")) for x in lines):
        return f"odd lines: {err[:300]}"
    if (code == 2) != (len(errors) == 1) or (code == 2 and out):
        return f"exit code {code} with {len(errors)} errors: {err[:300]}"
    if "\x1b" in err or "\x00" in err:
        return "control characters"
    return None


def judged(one: Input, good: dict[tuple[str, ...], str], path: str) -> tuple[int, str | None]:
    """Return the exit code of an input (-1: an exception), and what is wrong."""
    try:
        code, out, err = ran(one.kind, one.words, path)
    except Exception as cause:  # noqa: BLE001 (this is what is looked for)
        return -1, f"{type(cause).__name__}: {cause}"[:300]
    wrong = fault(code, out, err)
    if wrong is None and one.exact and code == 0 and out != good[one.asked]:
        wrong = "another answer than of the good file, although it has checksums"
    return code, wrong


# --- processes


def worker(folder: Path, seed: int, first: int, last: int) -> None:
    """Run inputs and report each as a line of JSON."""
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    if hard == resource.RLIM_INFINITY:
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, hard))
    os.chdir(folder)
    warnings.simplefilter("ignore")
    report = os.fdopen(os.dup(1), "w", encoding="utf-8")
    good: dict[tuple[str, ...], str] = {}
    for number in range(first, last):
        one = input_of(folder, seed, number)
        name = next((x for x in one.words if x.startswith("bad-")), f"bad-{one.kind}")
        if one.exact and one.asked not in good:
            # Under the same name: the columns of a table are as wide as the name.
            Path(name).write_bytes((folder / one.origin).read_bytes())
            good[one.asked] = ran(one.kind, one.words, name)[1]
        print(json.dumps([number, "begun"]), file=report, flush=True)
        Path(name).write_bytes(one.data)
        code, wrong = judged(one, good, name)
        print(json.dumps([number, one.kind, code, wrong]), file=report, flush=True)
        Path(name).unlink(missing_ok=True)


def lines_of(process: subprocess.Popen[str], seconds: float) -> Iterator[list[Any]]:
    """Yield the reports of a worker; end it if one takes too long."""
    import selectors

    assert process.stdout is not None
    with selectors.DefaultSelector() as selector:
        selector.register(process.stdout, selectors.EVENT_READ)
        while selector.select(seconds):
            line = process.stdout.readline()
            if not line:
                return
            yield json.loads(line)
    process.kill()


def fuzz(
    count: int,
    seed: int = 0,
    first: int = 0,
    seconds: float = float("inf"),
    keep: Path | None = None,
    least: int = 0,
) -> tuple[Counter[str], list[str]]:
    """Run inputs; return how many there were of each kind and exit code, and the findings.

    Args:
        count: inputs.
        seed: of the inputs.
        first: number of the first input.
        seconds: stop at this time after the first answer.
        keep: folder for the inputs that show something.
        least: inputs to run even if time is up.
    """
    counted: Counter[str] = Counter()
    findings: list[str] = []
    number, last = first, first + count
    started = float("inf")  # the time begins with the first answer
    with tempfile.TemporaryDirectory(prefix="piwo-fuzz-") as place:
        folder = Path(place)
        good_files(folder)
        while number < last and (number < first + least or time.monotonic() - started < seconds):
            words = [sys.executable, __file__, "--worker", place]
            words += ["--seed", str(seed), "--first", str(number), "--count", str(last - number)]
            with (
                tempfile.TemporaryFile("w+") as errors,
                subprocess.Popen(
                    words, stdout=subprocess.PIPE, stderr=errors, text=True
                ) as process,
            ):
                begun = number - 1
                finished = False
                for line in lines_of(process, SECONDS):
                    if line[1] == "begun":
                        begun, finished = line[0], False
                        continue
                    finished = True
                    number = line[0] + 1
                    started = min(started, time.monotonic())
                    _, kind, code, wrong = line
                    counted[f"{kind} {code}"] += 1
                    if wrong:
                        findings.append(f"{line[0]}: {kind}: {wrong}")
                        print(findings[-1], file=sys.stderr, flush=True)
                    enough = number >= first + least
                    if enough and time.monotonic() - started > seconds:
                        process.kill()
                        break
                process.wait()
                if not finished and number < last:
                    errors.seek(0)
                    said = errors.read()[-500:]
                    how = f"ended with {process.returncode} (a crash, or no end in {SECONDS} s)"
                    findings.append(f"{begun}: {how}: {said}")
                    print(findings[-1], file=sys.stderr, flush=True)
                    number = max(number, begun) + 1
        if keep is not None and findings:
            _keep(keep, folder, seed, findings)
    return counted, findings


def _keep(keep: Path, folder: Path, seed: int, findings: list[str]) -> None:
    keep.mkdir(parents=True, exist_ok=True)
    for text in findings:
        number = int(text.partition(":")[0])
        one = input_of(folder, seed, number)
        (keep / f"{seed}-{number}-{one.kind}").write_bytes(one.data)
    (keep / f"findings-{seed}.txt").write_text("\n".join(findings) + "\n", "utf-8")


def report() -> int:
    """Read the options, run and print."""
    parser = argparse.ArgumentParser(description="Damage piwo's files and watch the command.")
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--keep", type=Path, default=None, help="folder for what was found")
    parser.add_argument("--worker", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.worker is not None:
        worker(given.worker, given.seed, given.first, given.first + given.count)
        return 0
    counted, findings = fuzz(given.count, given.seed, given.first, given.seconds, given.keep)
    for name, times in sorted(counted.items()):
        print(f"{name:<16} {times}")
    print(f"{sum(counted.values())} inputs, {len(findings)} findings")
    return int(bool(findings))


if __name__ == "__main__":
    sys.exit(report())
