"""`spark:TABLE` and `spark:select ...` as LOG."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow.parquet as pq
import pytest

from piwo.cli.progress import spark_starts
from piwo.sources import spark_session
from tests.cli.conftest import ROLES, Command

pytestmark = [
    pytest.mark.clusters,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]

CONTEXT = ("--context", "user x,shop")


@pytest.fixture
def view(spark: Any, learnable: Path) -> str:
    """The rows of a file as a view of the session."""
    rows = pq.read_table(learnable)
    spark.createDataFrame(rows.append_column("id", [range(len(rows))])).createOrReplaceTempView(
        "decisions"
    )
    return "decisions"


def test_a_table_is_a_log(piwo: Command, view: str, learnable: Path) -> None:
    options = (*ROLES, "--policy", "uniform", "--json", "--interval", "mixture")
    there, here = piwo("evaluate", f"spark:{view}", *options), piwo("evaluate", learnable, *options)
    # On a busy machine a pass may take long enough for a line of progress.
    said = [line for line in there.err.splitlines() if " a second" not in line]
    assert (there.code, said) == (0, [])
    assert there.document["log"]["source"] == f"spark:{view}"
    (made,), (expected,) = there.document["policies"], here.document["policies"]
    for name in ("value", "lower", "upper", "ess", "digest"):
        if name in expected:
            assert made[name] == pytest.approx(expected[name], rel=1e-12), name


def test_a_query_is_a_log_and_errors_are_one_line(piwo: Command, view: str) -> None:
    done = piwo("check", f"spark:select *, 1 as one from {view} where click < 2", *ROLES, "--json")
    assert json.loads(done.out)["rows"] == 3000
    for log, words in (
        ("spark:no.such", "TABLE_OR_VIEW_NOT_FOUND"),
        (f"spark:select nothing from {view}", "UNRESOLVED_COLUMN"),
        (f"spark:select *, raise_error('the disk is gone') as w from {view}", "the disk is gone"),
    ):
        more = ("--policy-column", "w") if "disk" in log else ("--policy", "uniform")
        done = piwo("evaluate", log, *ROLES, *more)
        assert done.code == 2
        assert done.err.count("\n") == 1
        assert words in done.err


def test_a_policy_is_learned_there_with_a_key_alone(
    piwo: Command, view: str, tmp_path: Path
) -> None:
    out = tmp_path / "p.piwo"
    words = ("learn", f"spark:{view}", *ROLES, *CONTEXT, "--oracle", "ridge")
    refused = piwo(*words, "--out", out)
    assert (refused.code, out.exists()) == (2, False)
    assert "--key" in refused.err
    done = piwo(*words, "--key", "id", "--out", out)
    assert done.code == 0, done.err
    assert out.exists()


@pytest.mark.parametrize(("active", "starts"), [(None, True), (object(), False)])
def test_one_line_tells_that_spark_starts(
    monkeypatch: pytest.MonkeyPatch, active: object, starts: bool
) -> None:
    sql = SimpleNamespace(SparkSession=SimpleNamespace(getActiveSession=lambda: active))
    monkeypatch.setitem(sys.modules, "pyspark.sql", sql)
    assert spark_starts(["spark:shop.decisions"]) == starts
    assert not spark_starts(["log.parquet"])


def test_without_spark_the_way_to_it_is_told(
    piwo: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    done = piwo("check", "spark:decisions", *ROLES)
    assert done.code == 2
    assert "pip install 'piwo[spark]'" in done.err
    assert "starting" not in done.err


def test_a_spark_that_starts_here_logs_only_errors_logged_unless_there_are_settings(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    pytest.importorskip("pyspark", reason="needs Spark: pip install 'piwo[spark]'")
    for name in ("SPARK_CONF_DIR", "SPARK_HOME", "PYSPARK_GATEWAY_PORT"):
        monkeypatch.delenv(name, raising=False)
    with spark_session._only_errors_logged():
        folder = Path(os.environ["SPARK_CONF_DIR"])
        assert "rootLogger.level = error" in (folder / "log4j2.properties").read_text()
    assert "SPARK_CONF_DIR" not in os.environ
    assert not folder.exists()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")
    with spark_session._only_errors_logged():
        assert "SPARK_CONF_DIR" not in os.environ
