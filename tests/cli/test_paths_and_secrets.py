"""No file is written twice, read without end or lost; no message holds a password."""

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import piwo as library
from piwo.cli.output_path import check_outputs
from piwo.errors import FileError, PiwoError, PiwoWarning, UsageError
from piwo.sources.query import QuerySource
from piwo.visible import without_secrets

CONTEXTS = "action,reward,propensity,x\n" + "a,1,0.5,1\nb,0,0.5,2\n" * 600


@pytest.fixture
def log(tmp_path: Path) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(CONTEXTS, "utf-8")
    return path


# --- outputs


@pytest.mark.parametrize("spelling", ["z.piwo", "./sub/../z.piwo", "link.piwo", "{}/z.piwo"])
def test_two_outputs_are_never_one_file(piwo, log: Path, tmp_path: Path, spelling: str) -> None:
    (tmp_path / "link.piwo").symlink_to(tmp_path / "z.piwo")
    learn = ("learn", log, "--context", "x", "--out", "z.piwo")
    report = ("report", log, "--policy", "uniform", "--out", "z.piwo")
    for words in (learn, report):
        ran = piwo(*words, "--checkpoint", spelling.format(tmp_path))
        assert ran.code == 2
        assert "--out and --checkpoint are the same file 'z.piwo'; give each its own" in ran.err
        assert not (tmp_path / "z.piwo").exists()


def test_hard_links_are_one_file(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(b"1")
    os.link(tmp_path / "a", tmp_path / "b")
    with pytest.raises(UsageError, match="--out and --checkpoint are the same file"):
        check_outputs({"--out": tmp_path / "a", "--checkpoint": tmp_path / "b"})
    with pytest.raises(UsageError, match="what the command reads"):
        check_outputs({"--out": tmp_path / "a"}, [str(tmp_path / "b")])


@pytest.mark.parametrize(
    "words",
    [
        ("check", "select * from 'log.csv'", "--checkpoint", "log.csv"),
        ("check", "log.csv", "--checkpoint", "./log.csv"),
        ("check", "log.csv", "--actions", "@labels.txt", "--checkpoint", "labels.txt"),
        ("evaluate", "log.csv", "--policy", "p.piwo", "--checkpoint", "p.piwo"),
        ("check", "log.csv", "--policy", "p.piwo", "--checkpoint", "p.piwo"),
        ("learn", "log.csv", "--context", "x", "--baseline", "p.piwo", "--out", "p.piwo"),
        ("report", "log.csv", "--policy", "p.piwo", "--out", "p.piwo"),
        ("policy", "act", "p.piwo", "log.csv", "--out", "p.piwo"),
    ],
)
def test_what_is_read_is_never_written(piwo, log: Path, tmp_path: Path, words) -> None:
    (tmp_path / "labels.txt").write_text("a\nb\n", "utf-8")
    library.policies.Uniform(["a", "b"]).save(tmp_path / "p.piwo")
    before = {x.name: x.read_bytes() for x in tmp_path.iterdir()}
    ran = piwo(*words)
    assert (ran.code, "what the command reads" in ran.err) == (2, True), ran.err
    assert before == {x.name: x.read_bytes() for x in tmp_path.iterdir()}


def test_the_demo_writes_two_files(piwo, tmp_path: Path) -> None:
    (tmp_path / "d-log.parquet").symlink_to(tmp_path / "d.piwo")
    ran = piwo("demo", "--out", "d.piwo")
    assert (ran.code, "are the same file" in ran.err) == (2, True)


def test_a_policy_saved_over_the_checkpoint_is_kept(tmp_path: Path) -> None:
    log = library.Log.from_arrays(action=["a", "b"], reward=[1, 0], propensity=[0.5, 0.5])
    path, policy = tmp_path / "z.piwo", library.policies.Uniform(["a", "b"])
    with pytest.warns(PiwoWarning, match="is kept"), library.checkpointing(path):  # noqa: PT031
        library.evaluate(log, policy)
        policy.save(path)
    assert repr(library.load(path)) == repr(policy)
    path.unlink()
    with pytest.raises(ZeroDivisionError), library.checkpointing(path):  # noqa: PT012
        library.evaluate(log, policy)
        policy.save(path)
        raise ZeroDivisionError
    assert repr(library.load(path)) == repr(policy)


# --- what is no ordinary file


def device_words(odd: str) -> list[tuple[str, ...]]:
    """Every way to name a file that is read or written."""
    return [
        ("check", "log.csv", "--checkpoint", odd),
        ("check", "log.csv", "--actions", f"@{odd}"),
        ("evaluate", "log.csv", "--policy", odd),
        ("evaluate", "log.csv", "--policy", "uniform", "--baseline", odd),
        ("policy", "show", odd),
        ("policy", "act", "p.piwo", odd),
        ("check", odd),
        ("learn", "log.csv", "--context", "x", "--out", odd),
    ]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
@pytest.mark.parametrize("odd", ["/dev/zero", "fifo.csv", "link.csv"])
def test_devices_and_pipes_are_refused_at_once(piwo, log: Path, tmp_path: Path, odd: str) -> None:
    library.policies.Uniform(["a", "b"]).save(tmp_path / "p.piwo")
    os.mkfifo(tmp_path / "fifo.csv")
    (tmp_path / "link.csv").symlink_to("/dev/zero")
    for words in device_words(odd):
        ran = piwo(*words)
        assert ran.code == 2, words
        assert len(ran.err.splitlines()) == 1
        assert "ordinary file" in ran.err, (words, ran.err)
    assert Path("/dev/zero").is_char_device()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_settings_from_a_pipe_are_refused(piwo, log: Path, tmp_path: Path) -> None:
    for name in ("piwo.toml", "pyproject.toml"):
        os.mkfifo(tmp_path / name)
        ran = piwo("check", log)
        assert (ran.code, "is a pipe, expected an ordinary file" in ran.err) == (2, True)
        (tmp_path / name).unlink()


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes here")
def test_the_library_reads_and_writes_ordinary_files_only(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    policy = library.policies.Uniform(["a", "b"])
    for odd in (pipe, Path("/dev/null"), tmp_path):
        for read in (library.load, library.Certificate.load, library.RegretCertificate.load):
            with pytest.raises(FileError, match="expected an ordinary file"):
                read(odd)
        with pytest.raises(FileError, match="expected an ordinary file"):
            library.Monitor.load(odd, policy)
        with pytest.raises(FileError, match="expected an ordinary file"):
            policy.save(odd)
        with pytest.raises(FileError, match="ordinary file"), library.checkpointing(odd):
            pass


# --- passwords


SECRETS = [
    "POSTGRESQL://u:SECRET@h/d#t",
    " postgresql://u:SECRET@h/d#t",
    "postgresql://u:SEC/SECRET@h/d#t",
    "postgresql://[::1:SECRET@h/d#t",
    "postgresql://u:SECRET@[::1/d#t",
    "postgres:u:SECRET@h/d",
    "mysql://u:SECRET@h/d#t",
    "ftp://u:my SECRET'@h/d",
    "hdfs://u:SECRET@h/d/*.parquet",
    "https://u:SECRET@h/d",
    "s3://u:SECRET@h/d.csv",
    "duckdb:md:db?motherduck_token=SECRET#t",
    "duckdb:md:db?motherduck_token=SECRET",
    "md:db?motherduck_token=SECRET",
    "select * from 'https://u:SECRET@h/d.parquet'",
    "select * from read_csv('s3://h/d.csv?X-Amz-Signature=SECRET')",
]


@pytest.mark.parametrize("source", SECRETS)
def test_no_output_holds_a_password(piwo, log: Path, source: str) -> None:
    library.policies.Uniform(["a", "b"]).save("p.piwo")
    for words in (
        ("check", source),
        ("check", log, source),
        ("check", log, "--policy", source),
        ("check", log, "--checkpoint", source),
        ("check", log, "--actions", f"@{source}"),
        ("evaluate", log, "--policy", "uniform", "--baseline", source),
        ("evaluate", log, "--policy", source, "--json"),
        ("policy", "show", source),
        ("policy", "act", "p.piwo", source),
        ("learn", log, "--out", source),
        ("demo", source),
    ):
        ran = piwo(*words)
        if "--checkpoint" not in words:  # some of these may be names of files
            assert ran.code == 2, words
        assert "SECRET" not in ran.out + ran.err, (words, ran.err)
        assert len(ran.err.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("create secret (type s3, secret 'S''T')", "create secret (type s3, secret ***)"),
        ("IO Error: cannot open 's3://u:p@h/x'", "IO Error: cannot open 's3://***@h/x'"),
        ("logs/a@b?.csv", "logs/a@b?.csv"),
        ("constant:a@b", "constant:a@b"),
        ("duckdb:a@b.db#t", "duckdb:a@b.db#t"),
    ],
)
def test_what_is_hidden_and_what_is_not(text: str, shown: str) -> None:
    assert without_secrets(text) == shown


def test_long_texts_are_searched_quickly() -> None:
    started = time.process_time()
    without_secrets("ab:" * 10_000)
    with pytest.raises(PiwoError):
        library.read("nowhere" + "/**/" * 5000 + "x")
    # DuckDB itself, before 2.0, takes the square of the number of comments.
    assert QuerySource("select 1" + "/**/" * 2000).schema.names
    assert time.process_time() - started < 20


# --- odd names, surroundings and terminals


@pytest.mark.skipif(sys.platform != "linux", reason="names that are not UTF-8")
@pytest.mark.parametrize("kind", ["csv", "parquet", "jsonl"])
def test_names_that_are_not_utf_8_are_read_and_written(piwo, tmp_path: Path, kind: str) -> None:
    name = os.fsdecode(b"caf\xe9." + kind.encode())
    table = pa.table(
        {
            "action": ["a", "b"] * 600,
            "reward": [1.0, 0.0] * 600,
            "propensity": [0.5] * 1200,
            "x": [1.0, 2.0] * 600,
        }
    )
    path = tmp_path / name
    if kind == "parquet":
        with path.open("wb") as file:
            pq.write_table(table, file)
    elif kind == "csv":
        path.write_text(CONTEXTS, "utf-8")
    else:
        lines = [
            f'{{"action": "{"ab"[i % 2]}", "reward": {1 - i % 2}, "propensity": 0.5, "x": 1}}\n'
            for i in range(1200)
        ]
        path.write_text("".join(lines), "utf-8")
    out, kept = os.fsdecode(b"p\xe9.piwo"), os.fsdecode(b"c\xe9")
    learned = piwo("learn", name, "--context", "x", "--out", out, "--checkpoint", kept)
    assert learned.code == 0, learned.err
    assert piwo("policy", "show", out).code == 0
    found = piwo("evaluate", name, "--policy", "uniform", "--json")
    assert (found.code, found.document["log"]["rows"]) == (0, 1200)
    assert found.document["log"]["source"].startswith("caf")
    assert {x.name for x in tmp_path.iterdir()} == {name, out}


def run(words: list[str], **more) -> subprocess.CompletedProcess[bytes]:
    command = [sys.executable, "-m", "piwo", *words]
    return subprocess.run(command, capture_output=True, timeout=120, check=False, **more)


def test_a_removed_working_directory_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "gone").mkdir()
    command = f"cd '{tmp_path}/gone' && rmdir ../gone && '{sys.executable}' -m piwo check a.csv"
    done = subprocess.run(command, shell=True, capture_output=True, timeout=60, check=False)
    assert done.returncode == 2
    assert done.stderr.splitlines() == [
        b"piwo: error: the working directory was removed; change to a folder that exists"
    ]


@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_an_ignored_interrupt_stays_ignored(log: Path) -> None:
    # As nohup and shells without job control start what runs in the background.
    endless = "select 'a' as action, 1 as reward, 0.5 as propensity from range(100000000000)"
    process = subprocess.Popen(
        [sys.executable, "-m", "piwo", "check", endless, "--actions", "a,b"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
    )
    with process:
        time.sleep(4)
        process.send_signal(signal.SIGINT)
        time.sleep(1)
        assert process.poll() is None
        process.kill()


@pytest.mark.skipif(os.name != "posix", reason="terminals")
def test_labels_are_escaped_on_a_terminal_and_exact_elsewhere(tmp_path: Path) -> None:
    label = "a\x1b[31m\x1b]0;title\x07"
    library.policies.Constant(label, [label, "b"]).save(tmp_path / "p.piwo")
    words = ["policy", "act", str(tmp_path / "p.piwo"), "select 1 as x"]
    exact = f"action,propensity\n{label},1.0\n".encode()
    assert run(words).stdout == exact
    assert run([*words, "--out", str(tmp_path / "out.csv")]).returncode == 0
    assert (tmp_path / "out.csv").read_bytes() == exact
    master, slave = pty.openpty()
    command = [sys.executable, "-m", "piwo", *words]
    subprocess.run(command, stdout=slave, stderr=subprocess.DEVNULL, timeout=120, check=False)
    os.close(slave)
    shown = os.read(master, 10_000)
    os.close(master)
    assert b"\x1b" not in shown
    assert b"\x07" not in shown
    assert rb"a\x1b[31m\x1b]0;title\x07,1.0" in shown


def test_the_report_is_there_as_documented() -> None:
    code = "import piwo; print(piwo.report.summarize.__name__, piwo.report.write.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)
    assert done.stdout == b"summarize write\n"
