"""What only a process of its own can show: interrupts, closed pipes, terminals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

ENDLESS = "select 'a' as action, 1 as reward, 0.5 as propensity from range(100000000000)"
READY = (
    "import sys; from piwo.cli.main import main; print('ready', flush=True); "
    "sys.exit(main(sys.argv[1:]))"
)


@pytest.mark.parametrize(
    "words", [["evaluate", ENDLESS, "--policy", "uniform"], ["check", ENDLESS]]
)
@pytest.mark.parametrize(
    "actions", [[], ["--actions", "a,b"]], ids=["seeking actions", "in a pass"]
)
def test_interrupt(words: list[str], actions: list[str]) -> None:
    command = [sys.executable, "-c", READY, *words, *actions]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"ready\n"
        time.sleep(1.5)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out, err) == (130, b"", b"piwo: interrupted\n")


HEARD = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGTERM, signal.SIG_DFL)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
"""


@pytest.mark.parametrize(
    ("number", "code", "message"),
    [
        (signal.SIGINT, 130, b"piwo: interrupted\n"),
        (signal.SIGTERM, 143, b"piwo: terminated\n"),
        (signal.SIGHUP, 129, b"piwo: terminated\n"),
    ],
)
def test_a_file_that_was_begun_is_removed(
    number: int, code: int, message: bytes, tmp_path: Path
) -> None:
    out = tmp_path / "log.parquet"
    out.write_bytes(b"old")
    # Whoever started the tests may ignore signals, as nohup does, and the command obeys that.
    script = HEARD + READY
    command = [sys.executable, "-c", script, "convert", ENDLESS, str(out), "--actions", "a,b"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            deadline = time.monotonic() + 60
            while not list(tmp_path.glob(".piwo-*.tmp")):
                assert time.monotonic() < deadline
                time.sleep(0.05)
            process.send_signal(number)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (code, message)
    assert [x.name for x in tmp_path.iterdir()] == ["log.parquet"]
    assert out.read_bytes() == b"old"


STUCK = """
import signal, sys, threading, time
from pathlib import Path
import piwo.formats
from piwo.cli import interrupts
from piwo.cli.main import main
from piwo.files import writing
interrupts.GRACE = 0.1
def stuck(log, path):
    # A library that swallows what handlers raise, as one does that is busy outside of Python.
    with writing(Path(path)) as out:
        print("ready", flush=True)
        while True:
            try:
                time.sleep(60)
            except BaseException:
                pass
piwo.formats.write_log = stuck
sys.exit(main(sys.argv[1:]))
"""


def test_a_file_that_was_begun_is_removed_though_a_library_does_not_end(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("action,reward,propensity\na,1,0.5\n", "utf-8")
    script = HEARD + STUCK
    command = [sys.executable, "-c", script, "convert", str(log), str(tmp_path / "log.parquet")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            assert process.stdout is not None
            assert process.stdout.readline() == b"ready\n"
            process.send_signal(signal.SIGTERM)
            _, err = process.communicate(timeout=60)
        finally:
            process.kill()
    assert (process.returncode, err) == (143, b"piwo: terminated\n")
    assert [x.name for x in tmp_path.iterdir()] == ["log.csv"]


IMPORTING = """
import os, signal, sys
class Press:
    def find_spec(self, name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.NUMBER)
sys.meta_path.insert(0, Press())
from piwo_command import main
sys.argv[:] = ["piwo", "demo", "--help"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    "module", ["piwo", "numpy", "piwo.learners", "piwo.cli.main", "piwo.cli.app"]
)
@pytest.mark.parametrize(
    ("number", "code", "message"),
    [("SIGINT", 130, b"piwo: interrupted\n"), ("SIGTERM", 143, b"piwo: terminated\n")],
)
def test_a_signal_while_it_is_imported(module: str, number: str, code: int, message: bytes) -> None:
    script = HEARD + IMPORTING.replace("sys.argv[1]", repr(module)).replace("NUMBER", number)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", message)


def test_an_interrupt_that_the_shell_takes_away_does_nothing() -> None:
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n" + IMPORTING.replace(
        "sys.argv[1]", "'numpy'"
    ).replace("NUMBER", "SIGINT")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_reader_that_goes_away(tmp_path: Path) -> None:
    import piwo

    piwo.policies.Uniform(["a", "b"]).save(tmp_path / "p.piwo")
    query = "select range as x from range(300000)"
    command = [sys.executable, "-m", "piwo", "policy", "act", str(tmp_path / "p.piwo"), query]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"action,propensity\n"
        process.stdout.close()
        assert process.stderr is not None
        assert process.stderr.read() == b""
    assert process.returncode == 0


def test_the_gate_is_not_opened_by_a_closed_pipe(tmp_path: Path) -> None:
    log = tmp_path / "log.csv"
    log.write_text("action,reward,propensity\n" + "a,1,0.5\n" * 1000, "utf-8")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "piwo", "check", str(log)],
        stdout=write,
        stderr=subprocess.PIPE,
        check=False,
    )
    os.close(write)
    assert (done.returncode, done.stderr) == (1, b"")


PIWO = f"'{sys.executable}' -m piwo"


@pytest.mark.skipif(os.name != "posix", reason="a shell's redirections")
@pytest.mark.parametrize(
    ("line", "code"),
    [
        (f"{PIWO} check nofile 2>&-", 2),
        (f"{PIWO} check nofile 2>/dev/full", 2),
        (f"{PIWO} check nofile --debug 2>/dev/full", 2),
        (f"{PIWO} check log.csv 2>&- >/dev/null", 0),
        (f"{PIWO} check log.csv >/dev/full 2>/dev/null", 2),
        (f"COLUMNS=0 {PIWO} check --help >/dev/null", 0),
        (f"COLUMNS=1 {PIWO} check --help >/dev/null", 0),
        (f"COLUMNS=x {PIWO} check nofile 2>/dev/null", 2),
    ],
)
def test_odd_surroundings(line: str, code: int, tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text(
        "action,reward,propensity\n" + "a,1,0.5\nb,0,0.5\n" * 500, "utf-8"
    )
    done = subprocess.run(
        line, shell=True, cwd=tmp_path, capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, b"", b"")


def test_help_for_a_reader_that_went_away() -> None:
    read, write = os.pipe()
    os.close(read)
    words = [sys.executable, "-m", "piwo", "evaluate", "--help"]
    done = subprocess.run(words, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


def test_interrupt_while_libraries_load() -> None:
    """Ctrl-C as the command line is put together, which takes a while, ends as quietly as later."""
    code = (
        "import os, signal, sys\nfrom piwo.cli.main import main\n"
        "class Pressed:\n"
        "    def find_spec(self, name, *_):\n"
        "        if name == 'piwo.cli.app':\n"
        "            os.kill(os.getpid(), signal.SIGINT)\n"
        "assert 'piwo.cli.app' not in sys.modules\n"
        "sys.meta_path.insert(0, Pressed())\nsys.exit(main(['--help']))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, b"", b"piwo: interrupted\n")


def test_alone_it_prints_help() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "piwo"], capture_output=True, text=True, encoding="utf-8", check=True
    )
    asked = subprocess.run(
        [sys.executable, "-m", "piwo", "--help"],
        capture_output=True,
        text=True,
        encoding="utf-8",
        check=True,
    )
    assert done.stdout == asked.stdout
    assert done.stderr == ""
    for command in ("check", "evaluate", "learn", "policy", "report"):
        assert command in done.stdout


def test_help_loads_no_heavy_library() -> None:
    code = (
        "import sys\nfrom piwo.cli.main import main\nmain(['--help'])\n"
        "heavy = {'sklearn', 'numba', 'pandas', 'jinja2', 'skops', 'matplotlib'}\n"
        "print(sorted(heavy & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stderr == "[]\n"


def test_progress_is_for_terminals_and_goes_away(tmp_path: Path) -> None:
    pty = pytest.importorskip("pty")
    script = tmp_path / "impatient.py"
    script.write_text(f"from piwo.cli import progress; progress.PATIENCE = 0.0; {READY}\n", "utf-8")
    query = "select 'a' as action, 1 as reward, 0.5 as propensity from range(2000000)"
    words = ["evaluate", query, "--policy", "uniform", "--actions", "a,b", "--json"]
    command = [sys.executable, str(script), *words]
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not part:
                break
            shown += part
        assert process.stdout is not None
        out = process.stdout.read()
    os.close(ours)
    assert process.returncode == 0
    assert out.startswith(b"ready\n{")
    assert b" rows" in shown


def test_quiet_shows_no_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    from piwo.cli import progress as module

    class Terminal:
        def isatty(self) -> bool:
            return True

    monkeypatch.setattr(sys, "stderr", Terminal())
    with module.progress(quiet=True):
        pass


def test_progress_starts_anew_with_each_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    import io

    from rich.console import Console
    from rich.progress import Progress

    from piwo.cli import progress as module

    monkeypatch.setattr(module, "PATIENCE", -1.0)
    bar = Progress(console=Console(file=io.StringIO(), force_terminal=True))
    tell = module.reporter(bar)
    tell(60, 100)
    tell(40, 100)
    (task,) = bar.tasks
    assert (task.completed, task.total) == (100, 100)
    tell(10, 100)
    assert task.completed == 10
    bar.stop()


def test_progress_of_a_query_knows_its_rows_from_the_pass_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    import io

    from rich.console import Console
    from rich.progress import Progress

    from piwo.cli import progress as module

    monkeypatch.setattr(module, "PATIENCE", -1.0)
    bar = Progress(console=Console(file=io.StringIO(), force_terminal=True))
    tell = module.reporter(bar)
    tell(0, None)
    tell(60, None)
    (task,) = bar.tasks
    assert (task.completed, task.total) == (60, None)
    tell(0, None)
    tell(15, None)
    assert (task.completed, task.total) == (15, 60)
    tell(60, None)
    assert (task.completed, task.total) == (75, 75)
    bar.stop()
