"""What all tests share: where real logs are found, and that no setting of the user leaks into a
test."""

import os
import shutil
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

ROOT = Path(__file__).resolve().parent.parent
# Read once, before any test clears PIWO_ variables.
SHARED_FROM_ENVIRONMENT = os.environ.get("PIWO_SHARED", "")

# Threads of small trees wait for each other more than they work, above all while several tests run
# at once: two `piwo learn` at a time took 45 s each on two cores, and 7 s with one thread each.
os.environ.setdefault("OMP_NUM_THREADS", "1")

# The same examples on every run and every machine; no deadline, because tests are not timed.
settings.register_profile("piwo", derandomize=True, deadline=None, database=None)
settings.load_profile("piwo")
# A shell that starts them in the background has the tests ignore Ctrl-C, which some of them press.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real logs: `$PIWO_SHARED/data`, or `../shared/data` beside the repository."""
    if SHARED_FROM_ENVIRONMENT:
        folder = Path(SHARED_FROM_ENVIRONMENT) / "data"
        if not folder.is_dir():
            pytest.fail(f"PIWO_SHARED is {SHARED_FROM_ENVIRONMENT!r}, but has no folder data")
        return folder
    folder = ROOT.parent / "shared" / "data"
    if not folder.is_dir():
        pytest.skip(
            "needs real logs: set PIWO_SHARED to the folder whose data/ holds them, or put it at "
            "../shared"
        )
    return folder


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """A Spark session with two cores, in which a task is tried four times; one for all tests."""
    sql = pytest.importorskip("pyspark.sql", reason="needs Spark: pip install 'piwo[spark]'")
    if sys.platform == "win32":
        pytest.skip("Spark on Windows needs Hadoop's programs for it")
    java = shutil.which("java") or (
        os.environ.get("JAVA_HOME") and Path(os.environ["JAVA_HOME"], "bin/java").exists()
    )
    if not java:
        pytest.skip("needs Java 17 or newer for Spark: put java on the path, or set JAVA_HOME")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # the environment may not be activated
    builder = sql.SparkSession.builder.master("local[2,4]").appName("piwo-tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.log.level": "OFF",
    }.items():
        builder = builder.config(name, value)
    before = signal.getsignal(signal.SIGINT)
    session = builder.getOrCreate()
    signal.signal(signal.SIGINT, before)  # Spark's own handler would cancel all jobs of the process
    yield session
    session.stop()


@pytest.fixture(scope="session")
def dask_cluster() -> Iterator[Any]:
    """Two Dask workers, each a process that is started again when it dies; one pair for all
    tests."""
    distributed = pytest.importorskip("distributed", reason="needs Dask: pip install 'piwo[dask]'")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture
def wrong_types(request: pytest.FixtureRequest) -> None:
    """For tests in which annotations are broken on purpose within the library, as by what a
    damaged file holds."""
    if request.config.pluginmanager.has_plugin("pytest_runtime_types"):
        pytest.skip("annotations are checked first")


@pytest.fixture(autouse=True)
def _no_settings_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """PIWO_ variables are settings of the command line; a test sets those that it means."""
    for name in list(os.environ):
        if name.startswith("PIWO_"):
            monkeypatch.delenv(name)
