"""Checkpoints: killed at any moment, a computation goes on to the same bits; what is not the same
is refused."""

import contextlib
import dataclasses
import functools
import importlib.util
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo
from piwo.engines import checkpointing, using
from piwo.engines.checkpoint import _FORMAT, Checkpoint
from piwo.engines.fingerprint import fingerprint
from piwo.errors import FileError, PiwoWarning, UsageError
from piwo.logs import read
from piwo.policies import Classifier, Constant, Deterministic, RowWise, Tabular, Uniform
from piwo.reductions import Digest, Gram, Joint, PolicySums, Reduction, packed, reduce, unpacked
from piwo.scores import IW, IX
from piwo.sources import source as sources_module

N = 2_000
BATCHES = 40
"""Of 50 rows each."""


def table(seed: int = 0) -> pa.Table:
    random = np.random.default_rng(seed)
    return pa.table(
        {
            "action": random.integers(0, 3, N),
            "reward": random.random(N),
            "propensity": random.random(N) * 0.9 + 0.1,
            "x": random.normal(size=N),
        }
    )


@pytest.fixture(autouse=True)
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 50)


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    for i in range(2):
        pq.write_table(table().slice(1000 * i, 1000), tmp_path / f"{i}.parquet", row_group_size=100)
    return [str(tmp_path / f"{i}.parquet") for i in range(2)]


def log(files: Any) -> piwo.Log:
    return read(files, actions=range(3), context="x")


WORK = Joint((Digest(), PolicySums(Uniform(range(3)), IX(0.1)), Gram((IX(0.1),), 3, np.zeros(1))))


class Killed(BaseException):
    """As if the process were gone."""


class Fatal(Reduction[Any]):
    """Sums as another does, and dies at a certain batch."""

    def __init__(self, inner: Reduction[Any], batches: int) -> None:
        self.inner, self.batches, self.seen, self.lock = inner, batches, 0, threading.Lock()

    def __reduce_ex__(self, protocol: Any) -> Any:
        return Fatal, (self.inner, 0)

    @property
    def context(self) -> bool:
        return self.inner.context

    def empty(self) -> Any:
        return self.inner.empty()

    def merge(self, one: Any, other: Any) -> Any:
        return self.inner.merge(one, other)

    def update(self, state: Any, batch: Any) -> Any:
        with self.lock:
            self.seen += 1
            if self.seen == self.batches:
                raise Killed
        return self.inner.update(state, batch)


@pytest.mark.parametrize("source", ["parquet", "csv", "table", "where"])
@pytest.mark.parametrize("batches", [1, 13, 39])
def test_what_was_killed_goes_on_to_the_same_bits(
    source: str, batches: int, files: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    if source == "csv":
        table().to_pandas().to_csv(tmp_path / "log.csv", index=False)
    rows = {"parquet": files, "csv": tmp_path / "log.csv", "table": table(), "where": files}[source]
    where = "x > -0.1" if source == "where" else None
    rows = read(rows, actions=range(3), context="x", where=where)
    expected = reduce(rows, WORK)
    first = Fatal(WORK, batches if source != "where" else min(batches, 20))
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(rows, first)
    assert kept.exists()
    again = Fatal(WORK, 10**9)
    with checkpointing(kept):
        result = reduce(rows, again)
    assert packed(result) == packed(expected)
    assert not kept.exists()
    if batches == 39 and source in {"parquet", "table"}:
        # How much was kept depends on how far the workers were ahead of the merging.
        assert again.seen < BATCHES


def test_passes_that_were_done_are_not_read_again(files: list[str], tmp_path: Path) -> None:
    kept, rows, one = tmp_path / "kept", log(files), reduce(log(files), WORK)

    def twice(first: Reduction[Any], second: Reduction[Any]) -> Any:
        with checkpointing(kept):
            return reduce(rows, first), reduce(rows, second)

    with pytest.raises(Killed):
        twice(Fatal(WORK, 10**9), Fatal(Digest(), 7))
    first, second = Fatal(WORK, 10**9), Fatal(Digest(), 10**9)
    from_file, digest = twice(first, second)
    assert packed(from_file) == packed(one)
    assert digest == reduce(rows, Digest())
    assert (first.seen, second.seen > 20) == (0, True)


def test_another_log_is_refused(files: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(log(files), Fatal(WORK, 30))
    before = kept.read_bytes()
    words = "is a checkpoint of another log"
    with pytest.raises(FileError, match=words), checkpointing(kept):
        reduce(log(files[:1]), Fatal(WORK, 10**9))
    with pytest.raises(FileError, match="of another computation on this log"), checkpointing(kept):
        reduce(read(files, actions=range(3), context="x", reward_range=(0, 2)), Fatal(WORK, 10**9))
    with pytest.raises(FileError, match=words), checkpointing(kept):
        reduce(log(table()), Fatal(WORK, 10**9))
    assert kept.read_bytes() == before
    pq.write_table(table(1).slice(0, 1000), files[0], row_group_size=100)  # as many rows
    os.utime(files[0], ns=(1, 1))
    with pytest.raises(FileError, match="has changed since"), checkpointing(kept):
        reduce(log(files), Fatal(WORK, 10**9))


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_file_with_its_old_size_and_time_is_another_where_its_end_is(
    kind: str, tmp_path: Path
) -> None:
    path, rows = tmp_path / f"log.{kind}", table().slice(0, 200)

    def write(rewards: float) -> os.stat_result:
        rewritten = rows.set_column(1, "reward", pa.array(np.full(200, rewards)))
        if kind == "csv":
            rewritten.to_pandas().to_csv(path, index=False)
        else:
            pq.write_table(rewritten, path)
        return path.stat()

    def found() -> str:
        return fingerprint(log(path).source.source_id())

    before, made = write(0.25), found()
    after = write(0.75)
    assert after.st_size == before.st_size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found() != made
    write(0.25)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert found() == made


def test_another_computation_is_refused(files: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(log(files), Fatal(PolicySums(Uniform(range(3)), IX(0.1)), 30))
    for other in (
        PolicySums(Uniform(range(3)), IX(0.2)),
        PolicySums(Constant(1, range(3)), IX(0.1)),
        Digest(),
    ):
        with (
            pytest.raises(FileError, match="checkpoint of another computation"),
            checkpointing(kept),
        ):
            reduce(log(files), Fatal(other, 10**9))
    with pytest.raises(FileError, match="checkpoint of another"), checkpointing(kept):
        reduce(log(f"from '{files[0]}'"), Fatal(PolicySums(Uniform(range(3)), IX(0.1)), 10**9))


def test_damaged_and_foreign_files_are_refused_and_left_alone(
    files: list[str], tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(log(files), Fatal(WORK, 30))
    good = kept.read_bytes()
    pickled, table_of = io.BytesIO(), Path(files[0]).read_bytes()
    np.savez(pickled, tree=np.array([{}], object))
    half = packed((_FORMAT, piwo.__version__, 3))
    foreign = (b"", b"my precious notes", table_of, pickle.dumps(3), pickled.getvalue())
    for bad in (
        good[:-9],
        good[:4],
        *foreign,
        packed(("something", 1)),
        packed(()),
        packed(3),
        half,
    ):
        kept.write_bytes(bad)
        with pytest.raises(
            FileError, match="is not a checkpoint, or cut short or damaged; name"
        ) as caught:
            checkpointing(kept).__enter__()
        assert "pickle" not in str(caught.value)
        assert kept.read_bytes() == bad
    kept.write_bytes(
        good.replace(f'"{piwo.__version__}"'.encode(), f'"{"9" * len(piwo.__version__)}"'.encode())
    )
    with pytest.raises(FileError, match=r"not a checkpoint|of piwo 9"), checkpointing(kept):
        pass
    with pytest.raises(FileError, match="no folder"), checkpointing(tmp_path / "no" / "kept"):
        pass
    with pytest.raises(UsageError, match="every is -1"), checkpointing(kept, every=-1):
        pass


def test_a_flipped_bit_is_one_line() -> None:
    data = packed(
        (_FORMAT, "1", ("log", 1.5, None), np.arange(6.0).reshape(2, 3), np.ones((2, 2), np.int8))
    )
    for bit in range(8 * len(data)):
        damaged = bytearray(data)
        damaged[bit // 8] ^= 1 << bit % 8
        with contextlib.suppress(FileError):
            unpacked(bytes(damaged))


def test_a_query_without_an_order_begins_again(files: list[str], tmp_path: Path) -> None:
    kept, rows = tmp_path / "kept", log(f"from '{files[0]}'")
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(rows, Fatal(Digest(), 15))
    again = Fatal(Digest(), 10**9)
    with checkpointing(kept):
        assert reduce(rows, again) == reduce(rows, Digest())
    assert again.seen == 20


def test_other_mappers_keep_checkpoints_too(files: list[str], tmp_path: Path) -> None:
    kept, rows = tmp_path / "kept", log(files)
    with ThreadPoolExecutor(2) as pool, using(pool):
        with pytest.raises(Killed), checkpointing(kept, every=0):
            reduce(rows, Fatal(WORK, 39))
        with checkpointing(kept):
            result = reduce(rows, Fatal(WORK, 10**9))
    assert packed(result) == packed(reduce(rows, WORK))


def test_findings_are_kept(tmp_path: Path) -> None:
    hair = table().set_column(
        2, "propensity", pa.array(np.where(np.arange(N) % 10 == 0, 1.00001, 0.5))
    )
    with pytest.raises(Killed), checkpointing(tmp_path / "kept", every=0):
        reduce(log(hair), Fatal(Digest(), 39))
    with (
        pytest.warns(PiwoWarning, match=r"in 200 rows .*: 0, 10, 20, 30, 40, "),
        checkpointing(tmp_path / "kept"),
    ):
        reduce(log(hair), Fatal(Digest(), 10**9))


def inferred(files: list[str]) -> piwo.Log:
    return read(files, context=["x", "city"], key="row")


@pytest.fixture
def towns(tmp_path: Path) -> list[str]:
    rows = table().append_column("city", pa.array([f"c{i % 3}" for i in range(N)]))
    rows = rows.append_column("row", pa.array(np.arange(N)))
    pq.write_table(rows, tmp_path / "towns.parquet", row_group_size=100)
    return [str(tmp_path / "towns.parquet")]


@pytest.mark.parametrize("found", ["actions", "features", "split", "rows"])
def test_what_is_found_out_of_a_log_is_kept_too(
    found: str, towns: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def ask(log: piwo.Log) -> Any:
        return {
            "actions": lambda: log.actions,
            "features": lambda: log.features,
            "split": lambda: log.split(0.3).test_rows,
            "rows": lambda: len(log.split(0.3).test),
        }[found]()

    expected = ask(inferred(towns))
    kept, plain, begun = tmp_path / "kept", Checkpoint.keep, Checkpoint.begin
    pieces: list[int] = []

    def noted(self: Checkpoint, *args: Any) -> Any:
        passed = begun(self, *args)
        pieces.append(passed.pieces)
        return passed

    def killed(self: Checkpoint, passed: Any) -> None:
        plain(self, passed)
        if passed.pieces == 3:
            raise Killed

    monkeypatch.setattr(Checkpoint, "begin", noted)
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 25)  # a row group is a piece
    monkeypatch.setattr(Checkpoint, "keep", killed)
    with pytest.raises(Killed), checkpointing(kept, every=0):
        ask(inferred(towns))
    monkeypatch.setattr(Checkpoint, "keep", plain)
    with checkpointing(kept):
        assert ask(inferred(towns)) == expected
    assert pieces[:2] == [0, 3]
    assert not kept.exists()


def test_a_pass_that_is_no_longer_needed_is_skipped(towns: list[str], tmp_path: Path) -> None:
    kept, rows = tmp_path / "kept", inferred(towns)
    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(rows, Fatal(Digest(), 30))
    again = Fatal(Digest(), 10**9)
    with checkpointing(kept):  # the log has its action list by now
        assert reduce(rows, again) == reduce(inferred(towns), Digest())
    assert again.seen < BATCHES


# --- what is the same


def test_identities_are_the_same_in_every_process() -> None:
    code = (
        "import importlib.util, sys\n"
        "name, path = sys.argv[1:]\n"
        "spec = importlib.util.spec_from_file_location(name, path)\n"
        "sys.modules[name] = module = importlib.util.module_from_spec(spec)\n"
        "spec.loader.exec_module(module)\n"
        "print([module.fingerprint(x) for x in module.things()])"
    )
    found = []
    for seed in ("1", "2"):
        run = subprocess.run(
            [sys.executable, "-c", code, __name__, __file__],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=False,
        )
        assert run.returncode == 0, run.stderr
        found.append(run.stdout)
    assert found[0] == found[1]
    ours = [fingerprint(x) for x in things()]
    assert str(ours) == found[0].strip()
    assert len(set(ours)) == len(ours)


def rule(features: Any) -> Any:
    return features > 0


def things() -> Iterator[Any]:
    from sklearn.linear_model import LogisticRegression

    x = np.linspace(-1, 1, 40).reshape(-1, 1)
    yield from (
        None,
        0,
        0.0,
        -0.0,
        False,
        "0",
        b"0",
        (),
        [],
        {"b": {"é", "a", "c"}, "a": 1},
        np.zeros(2),
        np.zeros(3),
    )
    yield from (
        np.zeros((2, 1)),
        np.zeros(2, np.float32),
        np.array(["a"], object),
        int,
        rule,
        len,
        np.exp,
    )
    yield Uniform(["a", "b"])
    yield Uniform(["a", "c"])
    yield Tabular(np.full((1, 2), 0.5), actions=["a", "b"])
    yield RowWise(np.arange(3) / 3)
    yield Classifier(LogisticRegression().fit(x, (x[:, 0] > 0).astype(int)), [0, 1])
    yield Classifier(LogisticRegression(C=0.1).fit(x, (x[:, 0] > 0).astype(int)), [0, 1])
    yield Joint((Digest(), PolicySums(Constant("a", ["a", "b"]), IW())))
    for reward in (1.0, 0.0):
        rows = pa.table({"action": [0], "reward": [reward], "propensity": [1.0], "x": [0.5]})
        yield log(rows).source.source_id()
    yield log(rows).reader()


def test_functions_are_their_source_and_what_they_closed_over() -> None:
    def made(number: float) -> Any:
        return lambda x: x * number

    assert fingerprint(made(1.0)) == fingerprint(made(1.0))
    assert fingerprint(made(1.0)) != fingerprint(made(2.0))
    assert fingerprint(lambda x, most=1: x > most) != fingerprint(lambda x, most=2: x > most)
    assert fingerprint(functools.partial(rule, 1)) != fingerprint(functools.partial(rule, 2))
    assert fingerprint(Threshold(1.0)) == fingerprint(Threshold(1.0))
    assert fingerprint(Threshold(1.0)) != fingerprint(Threshold(2.0))
    assert fingerprint(Threshold(1.0).above) != fingerprint(Threshold(2.0).above)


@pytest.mark.parametrize("kind", ["function", "class"])
def test_source_text_of_the_users_own_counts(kind: str, tmp_path: Path) -> None:
    head = "def rule(x):" if kind == "function" else "class rule:\n  def __call__(self, x):"

    def made(body: str) -> Any:
        path = tmp_path / f"{body}.py"
        path.write_text(f"{head}\n    return x {body} 1\n")
        spec = importlib.util.spec_from_file_location("own_rules", path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules["own_rules"] = module
        spec.loader.exec_module(module)
        found = fingerprint(module.rule if kind == "function" else module.rule())
        del sys.modules["own_rules"]
        return found

    assert made("+") == made("+")
    assert made("+") != made("-")


def test_what_cannot_be_described_is_refused_in_one_line() -> None:
    with pytest.raises(UsageError, match="cannot describe what a lock holds"):
        fingerprint({"a": threading.Lock()})
    cycle: list[Any] = [1]
    cycle.append(cycle)
    with pytest.raises(UsageError, match=r"cannot describe a list that contains itself; compute"):
        fingerprint(cycle)
    place: dict[str, Any] = {"__name__": "typed_in"}
    exec("def rule(x): return x", place)
    words = r"^a checkpoint cannot describe what typed_in\.rule does, whose source text [^\n]*$"
    with pytest.raises(UsageError, match=words):
        fingerprint(Deterministic(place["rule"], range(3)))


@dataclasses.dataclass
class Threshold:
    """A rule as an object."""

    limit: float

    def above(self, x: Any) -> Any:
        return x > self.limit


def test_a_changed_rule_does_not_go_on(files: list[str], tmp_path: Path) -> None:
    kept = tmp_path / "kept"

    def policy(limit: float) -> Deterministic:
        return Deterministic(lambda x: (x[:, 0] > limit) * 1, range(3))

    with pytest.raises(Killed), checkpointing(kept, every=0):
        reduce(log(files), Fatal(PolicySums(policy(0.0), IW()), 30))
    with pytest.raises(FileError, match="checkpoint of another computation"), checkpointing(kept):
        reduce(log(files), Fatal(PolicySums(policy(1.0), IW()), 10**9))


def test_caches_do_not_count() -> None:
    gram = Gram((IX(0.1), IW()), 3, np.zeros(1))
    before = fingerprint(gram)
    gram.empty()
    assert fingerprint(gram) == before
    rows = log(table())
    before = fingerprint(rows)
    rows.actions, rows.features, len(rows)
    assert fingerprint(rows) == before


# --- the command


@pytest.fixture
def big(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    n = 1_000_000
    rows = {
        "action": random.integers(0, 4, n),
        "reward": (random.random(n) < 0.2).astype(float),
        "propensity": random.random(n) * 0.9 + 0.1,
    }
    pq.write_table(pa.table(rows), tmp_path / "big.parquet", row_group_size=100_000)
    return tmp_path / "big.parquet"


def start(big: Path, kept: Path) -> subprocess.Popen[str]:
    """The command, slowed down so that there is time to kill it, with a checkpoint after every
    piece."""
    code = (
        "import sys, time, functools\nfrom piwo import engines\nfrom piwo.reductions import "
        "PolicySums\nplain = PolicySums.update\nPolicySums.update = lambda self, state, batch: "
        "(time.sleep(0.05), plain(self, state, batch))[1]\nengines.checkpointing = "
        "functools.partial(engines.checkpointing, every=0)\nfrom piwo.cli.main import main\n"
        "sys.exit(main(sys.argv[1:]))"
    )
    words = ["evaluate", str(big), "--policy", "uniform", "--json", "--checkpoint", str(kept)]
    return subprocess.Popen([sys.executable, "-c", code, *words], stdout=-1, stderr=-1, text=True)


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGINT])
def test_a_killed_command_goes_on_to_the_same_answer(
    end: int, big: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.undo()  # batches of the usual size, as in the command
    kept = tmp_path / "kept"
    first = start(big, kept)
    until = time.monotonic() + 60
    while not kept.exists() and time.monotonic() < until and first.poll() is None:
        time.sleep(0.01)
    first.send_signal(end)
    _, complaint = first.communicate(timeout=60)
    assert first.returncode == (130 if end == signal.SIGINT else -signal.SIGKILL), complaint
    assert kept.exists()
    assert "Traceback" not in complaint
    again = subprocess.run(
        [
            sys.executable,
            "-m",
            "piwo",
            "evaluate",
            big,
            "--policy",
            "uniform",
            "--json",
            "--checkpoint",
            kept,
        ],
        capture_output=True,
        text=True,
        check=True,
    )
    expected = piwo.evaluate(read(str(big)), Uniform(range(4))).to_dict()
    (found,) = json.loads(again.stdout)["policies"]
    assert {x: found[x] for x in ("value", "lower", "upper", "rows")} == {
        x: expected[x] for x in ("value", "lower", "upper", "rows")
    }
    assert not kept.exists()
    assert not list(tmp_path.glob(".piwo-*"))


@pytest.mark.parametrize(
    "words",
    [
        ["check"],
        ["evaluate", "--policy", "uniform", "--policy", "constant:1"],
        ["learn", "--context", "x", "--oracle", "ridge", "--out", "p.piwo"],
        ["report", "--policy", "uniform", "--out", "page.html"],
    ],
    ids=lambda words: " ".join(words[:4]),
)
def test_every_long_command_goes_on_after_an_interrupt(
    words: list[str], files: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    from piwo.cli.main import main

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sources_module, "BATCH_ROWS", 250)
    words = [words[0], *files, "--actions", "0..2", *words[1:], "--json", "--quiet"]

    def answer(*more: str) -> Any:
        code = main([*words, *more])
        page = capsys.readouterr().out
        return code, {} if not page else without_times(json.loads(page))

    expected = answer()
    plain, kept, calls = Checkpoint.keep, tmp_path / "kept", [0]

    def interrupted(self: Checkpoint, passed: Any) -> None:
        calls[0] += 1
        if calls[0] in {2, 5, 9}:
            raise KeyboardInterrupt
        plain(self, passed)

    monkeypatch.setattr(Checkpoint, "keep", interrupted)
    for _ in range(4):
        found = answer("--checkpoint", str(kept))
        if found[0] != 130:
            break
        assert kept.exists()
    assert found == expected
    assert not kept.exists()


def without_times(value: Any) -> Any:
    if isinstance(value, dict):
        return {
            x: without_times(y) for x, y in value.items() if x not in {"created", "made", "time"}
        }
    return [without_times(x) for x in value] if isinstance(value, list) else value
