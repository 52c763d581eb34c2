"""Run the tests of PostgreSQL, of addresses and others that read by DuckDB, with a DuckDB that has its extensions.

An extension belongs to one version of DuckDB, and the newest may have none that a package registry
holds. So a DuckDB that has them is put into a folder of its own, in front of the environment's,
with the extensions in a home of its own.

    python scripts/duckdb_extensions.py FOLDER [arguments for pytest]
"""

import os
import subprocess
import sys
from pathlib import Path

VERSION = "1.5.5"  # of all: the newest DuckDB that has its extensions as wheels
EXTENSIONS = ("postgres-scanner", "httpfs")
PACKAGES = (f"duckdb=={VERSION}", *(f"duckdb-extension-{x}=={VERSION}" for x in EXTENSIONS))
TESTS = ("test_postgres.py", "test_remote.py", "test_databases.py", "test_filters.py")


def put(packages: Path) -> str | None:
    """Install the packages into a folder; the reason where they cannot be had."""
    done = packages / VERSION
    if done.exists():
        return None
    words = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--upgrade",
    ]
    made = subprocess.run(
        [*words, "--target", str(packages), *PACKAGES], check=False, capture_output=True, text=True
    )
    if made.returncode:
        return next(
            (x for x in reversed(made.stderr.splitlines()) if x.startswith("ERROR")), "pip failed"
        )
    done.touch()
    return None


def main() -> int:
    folder = Path(sys.argv[1]).resolve()
    packages, home = folder / "packages", folder / "home"
    home.mkdir(parents=True, exist_ok=True)
    reason = put(packages)
    if reason is not None:
        print(
            f"NOT RUN: the tests of DuckDB's extensions; {', '.join(PACKAGES)} are needed "
            f"({reason})"
        )
        return 0
    environment = {**os.environ, "PYTHONPATH": str(packages), "HOME": str(home)}
    files = [str(x) for x in packages.glob(f"*/extensions/v{VERSION}/*.duckdb_extension")]
    if len(files) != len(EXTENSIONS):
        print(
            f"got {len(files)} extensions in {packages}, expected {len(EXTENSIONS)}; remove "
            f"{folder} and run again"
        )
        return 1
    code = "import duckdb, sys; [duckdb.execute(f\"install '{x}'\") for x in sys.argv[1:]]"
    subprocess.run([sys.executable, "-c", code, *files], env=environment, check=True)
    # what goes by ADBC is tested with the DuckDB of the environment
    words = [
        sys.executable,
        "-m",
        "pytest",
        *(f"tests/logs/{x}" for x in TESTS),
        *sys.argv[2:],
        "-k",
        "not adbc",
    ]
    return subprocess.run(words, check=False, env=environment).returncode


if __name__ == "__main__":
    raise SystemExit(main())
