"""Run the tests of PostgreSQL, and others that read by DuckDB, with a DuckDB that has its extension `postgres`.

The extension belongs to one version of DuckDB, and the newest may have none that a package registry holds. So a DuckDB
that has one is put into a folder of its own, in front of the environment's, with the extension in a home of its own.

    python scripts/postgres_extension.py FOLDER [arguments for pytest]
"""

import os
import subprocess
import sys
from pathlib import Path

VERSION = "1.5.5"  # of both: the newest DuckDB that has its extension as a wheel
PACKAGES = (f"duckdb=={VERSION}", f"duckdb-extension-postgres-scanner=={VERSION}")
TESTS = ("test_postgres.py", "test_databases.py", "test_filters.py")


def put(packages: Path) -> str | None:
    """Install the packages into a folder; the reason where they cannot be had."""
    done = packages / VERSION
    if done.exists():
        return None
    words = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:", "--upgrade"]
    made = subprocess.run([*words, "--target", str(packages), *PACKAGES], check=False, capture_output=True, text=True)
    if made.returncode:
        return next((x for x in reversed(made.stderr.splitlines()) if x.startswith("ERROR")), "pip failed")
    done.touch()
    return None


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    packages, home = folder / "packages", folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    reason = put(packages)
    if reason is not None:
        print(f"NOT RUN: the tests of PostgreSQL by DuckDB's extension; {' and '.join(PACKAGES)} are needed ({reason})")
        return 0
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home)}
    (file,) = packages.glob(f"*/extensions/v{VERSION}/postgres_scanner.duckdb_extension")
    code = "import duckdb, sys; duckdb.execute(f\"install '{sys.argv[1]}'\")"
    subprocess.run([sys.executable, "-c", code, str(file)], env=environment, check=True)
    # what goes by ADBC is tested with the DuckDB of the environment
    words = [sys.executable, "-m", "pytest", "-k", "not adbc", *(f"tests/logs/{x}" for x in TESTS), *sys.argv[2:]]
    return subprocess.run(words, check=False, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
