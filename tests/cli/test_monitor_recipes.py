"""The recipes of docs/monitor.md for Airflow and dbt, as far as they run without either."""

import re
import shlex
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import pytest

import piwo as library

from .conftest import Command

PAGE = Path(__file__).resolve().parents[2] / "docs" / "monitor.md"


def blocks(section: str) -> list[str]:
    """The code of a section."""
    text = PAGE.read_text(encoding="utf-8").split(f"\n## {section}\n")[1].split("\n## ")[0]
    return re.findall(r"```(?:text|sh)\n(.*?)```", text, re.DOTALL)


def decisions(rows: int) -> pd.DataFrame:
    """B earns .5 and A .2."""
    random = np.random.default_rng(0)
    action = random.choice(["A", "B"], rows)
    earned = random.random(rows) < np.where(action == "B", 0.5, 0.2)
    return pd.DataFrame({"action": action, "reward": earned * 1.0, "propensity": 0.5})


class Stub:
    """Takes what Airflow's classes take, and keeps it."""

    given: dict[str, Any]

    def __init__(self, *_words: Any, **given: Any) -> None:
        Stub.given = given

    def __enter__(self) -> None:
        """A DAG is a context."""

    def __exit__(self, *_error: object) -> None:
        """It ends."""


def test_the_task_of_airflow_runs(piwo: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    modules = {
        "airflow.providers.standard.operators.bash": "BashOperator",
        "airflow.sdk": "DAG",
        "pendulum": "datetime",
    }
    for name, inside in modules.items():
        module = ModuleType(name)
        setattr(module, inside, Stub)
        monkeypatch.setitem(sys.modules, name, module)
    (code,) = blocks("Airflow")
    exec(compile(code, "monitor.md", "exec"), {})
    command = Stub.given["bash_command"].replace("{{ ds }}", "2026-11-01")
    assert "{{" not in command
    Path("logs").mkdir()
    decisions(2000).to_parquet("logs/2026-11-01.parquet")
    library.policies.Constant("B", ["A", "B"]).save("new.piwo")
    program, *words = shlex.split(command)
    assert program == "piwo"
    assert piwo(*words).code == 0
    assert Path("monitor.html").exists()
    # the task is tried again
    assert piwo(*words).code == 2
    assert Stub.given["skip_on_exit_code"] == 1
    assert Stub.given["retries"] == 0


def test_the_model_of_dbt_is_a_log_that_grows(piwo: Command) -> None:
    model, shell = blocks("dbt")
    assert "materialized='table'" in model
    query = re.sub(r"\{\{ ref\('(\w+)'\) \}\}", r"\1", model)
    query = re.sub(r"\{\{ config.*?\}\}", "", query)
    library.policies.Constant("B", ["A", "B"]).save("new.piwo")
    rows = decisions(3000)
    rows["decision_id"] = range(len(rows))
    rows["decided_at"] = pd.Timestamp("2026-01-01") + pd.to_timedelta(rows.index, unit="min")
    words = shlex.split(shell.split("&&")[1])
    assert words[0] == "piwo"
    for count in (2000, 3000):
        with duckdb.connect("warehouse.duckdb") as made:
            first = rows[:count]
            made.register("first", first)
            made.execute("create or replace table decisions_raw as select * from first")
            made.execute(
                "create or replace table rewards as "
                "select decision_id, reward from first where reward > 0"
            )
            made.execute(f"create or replace table decisions as {query}")
        ran = piwo(*words[1:])
        assert ran.code == 0, ran.err
        assert f"{count:,} decisions" in ran.out
