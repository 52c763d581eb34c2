"""Conditions on instants keep the same rows whatever the time zone of the machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import duckdb
import pandas as pd
import pytest

from piwo.logs import Log

ROWS = """
import json, sys
import pandas as pd
import piwo

folder, *conditions = sys.argv[1:]
frame = pd.read_parquet(f"{folder}/log.parquet")
sources = {
    "Parquet": f"{folder}/log.parquet",
    "frame": frame,
    "local frame": frame.assign(ts=frame["ts"].dt.tz_convert("America/New_York")),
    "SQL": f"select * from '{folder}/log.parquet'",
    "CSV": f"{folder}/log.csv",
    "JSON lines": f"{folder}/log.jsonl",
}
kept = {}
for name, source in sources.items():
    kept[name] = [len(piwo.read(source, where=where)) for where in conditions]
print(json.dumps(kept))
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of 24 hours, half of them before 2026 in UTC."""
    folder = tmp_path_factory.mktemp("hours")
    ts = pd.date_range("2025-12-31 12:00", periods=24, freq="h", tz="UTC")
    log = pd.DataFrame(
        {"action": ["a", "b"] * 12, "reward": [0.0, 1.0] * 12, "propensity": 0.5, "ts": ts}
    )
    log.to_parquet(folder / "log.parquet")
    log.assign(ts=ts.strftime("%Y-%m-%dT%H:%M:%SZ")).to_csv(folder / "log.csv", index=False)
    log.assign(ts=ts.strftime("%Y-%m-%dT%H:%M:%SZ")).to_json(
        folder / "log.jsonl", orient="records", lines=True
    )
    log.assign(ts=ts.tz_convert("Asia/Tokyo")).to_csv(folder / "tokyo.csv", index=False)
    return folder


KEPT = {
    "ts >= '2026-01-01'": 12,
    "cast(ts as date) = date '2026-01-01'": 12,
    "hour(ts) = 0": 1,
    "strftime(ts, '%H') in ('22', '23')": 2,
}


@pytest.mark.parametrize("zone", ["America/New_York", "Asia/Tokyo", "UTC"])
def test_the_zone_is_utc_on_every_machine(zone: str, folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", ROWS, str(folder), *KEPT],
        env={**os.environ, "TZ": zone},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert len(found) == 6
    assert all(kept == list(KEPT.values()) for kept in found.values()), found


def test_a_connection_of_the_user_gets_its_zone_back(folder: Path) -> None:
    with duckdb.connect() as connection:
        connection.execute("set timezone = 'Asia/Tokyo'")
        connection.execute(f"create temp table hours as from '{folder}/log.parquet'")
        for table in ("hours", f"'{folder}/log.parquet'"):
            sql = f"select * from {table} where ts >= '2026-01-01'"
            assert len(Log.from_sql(sql, connection=connection)) == 12
        (zone,) = connection.execute("select current_setting('TimeZone')").fetchall()[0]
        assert zone == "Asia/Tokyo"
